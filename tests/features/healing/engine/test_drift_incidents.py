"""Drift as an incident: from checks to reverts, with the brakes of healing."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.core.errors import HTTPBadRequest, PlanChanged
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.drift.reverting import Reverting, RevertRequest
from heatlite.features.healing.parts import Healing as Parts
from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, START, Engine, resource, template
from tests.engine.test_groups import group
from tests.features.healing.engine.test_healing import Healing, approve

AUTO: JsonMap = {"drift": "auto", "grace": 0, "cooldown": 0, "max_repairs": {"count": 100, "per": 3600}}


class Drifting(Healing):
    """Six files in a group, and one beside it."""

    def __init__(self, engine: Engine, stack: StackRecord, folder: Path) -> None:
        super().__init__(engine, stack)
        self.folder = folder

    def place(self, path: str) -> Path:
        return self.folder / path.replace("/", "-")

    def change(self, *paths: str, **values: str) -> None:
        """Change objects from outside."""
        for path in paths:
            self.place(path).write_text(json.dumps({"value": "from outside", "kind": "", **values}))

    def values(self, path: str) -> str:
        return str(json.loads(self.place(path).read_text())["value"])

    def check(self) -> None:
        """Check the tree, after the policy was put."""
        self.engine.clock.pass_(1)
        self.engine.check(self.stack)
        self.sweep(1)

    def found(self, path: str | None = None) -> list[IncidentRecord]:
        query = IncidentQuery(path=() if path is None else (path,))
        return self.rows.incidents.page("demo", query)

    def plan(self, path: str) -> ShownPlan:
        reverting = Reverting(self.store, self.engine.components.repairs)
        return reverting.plan(self.engine.get(self.stack), RevertRequest((path,)))

    def confirmed(self, path: str = "g/2") -> str:
        """Return the incident of a drift that has stood for long enough."""
        self.change(path)
        self.check()
        self.pass_(90)
        return self.found(path)[0].id


@pytest.fixture
def drifting(plugins: Path, engine: Engine) -> Iterator[Drifting]:
    def file(name: str) -> dict[str, object]:
        return resource("Test::Seen", place=str(plugins / name), value="as stored")

    stack = engine.create(template(g=group(6, file("g-%index%")), other=file("other")))
    with engine.clock.held():
        subject = Drifting(engine, stack, plugins)
        subject.pass_(10)
        yield subject


@pytest.mark.slow
@pytest.mark.parametrize("policy", [None, {"mode": "auto"}, {"mode": "auto", "sources": ["*", "drift"]}])
def test_drift_is_no_incident_where_no_policy_wants_it(drifting: Drifting, policy: JsonMap | None) -> None:
    if policy is not None:
        drifting.policy(**{"grace": 0, **policy})
    drifting.change("g/2")
    drifting.check()
    drifting.pass_(1800)
    assert (drifting.found(), drifting.updates(), drifting.values("g/2")) == ([], 0, "from outside")


@pytest.mark.slow
def test_drift_is_put_back_once_in_its_window(drifting: Drifting) -> None:
    """It is never marked, and counts as no fault."""
    opening = START - START % 86400 + 86400 + 7200
    windows: JsonMap = {"windows": [{"cron": "0 2 * * *", "duration": 3600}]}
    drifting.policy(**AUTO, **windows, rules=[{"match": "other", "drift": "off"}])
    drifting.change("other")
    incident, before = drifting.confirmed(), drifting.ids()
    assert drifting.found("other") == []
    assert drifting.told(incident) == ("CONFIRMED", "window_closed")
    assert drifting.incident(incident).due == opening
    assert drifting.states()["2"] == "CHECK_COMPLETE"
    assert drifting.store.health_in(drifting.stack.id) == []
    drifting.pass_(opening - drifting.now - 60)
    assert (drifting.updates(), drifting.values("g/2")) == (0, "from outside")
    drifting.pass_(120)
    assert (drifting.updates(), drifting.values("g/2"), drifting.ids()) == (1, "as stored", before)
    assert drifting.values("other") == "from outside"
    (repair,) = drifting.rows.repairs.of_incidents([incident])
    assert (repair.step, repair.result) == ("revert", "succeeded")
    drifting.check()
    drifting.sweep()
    assert drifting.told(incident)[0] == "CLOSED"
    drifting.pass_(3600)
    assert (drifting.updates(), len(drifting.found())) == (1, 1)
    (episode,) = drifting.rows.observations.of_incident(incident, 10)
    assert (episode.path, episode.is_open) == ("g/2", False)


@pytest.mark.slow
def test_drift_of_a_third_of_the_group_opens_the_breaker(drifting: Drifting) -> None:
    drifting.policy(**AUTO)
    drifting.change("g/1", "g/2")
    drifting.check()
    drifting.pass_(1800)
    assert [one.reason for one in drifting.found()] == ["breaker_open", "breaker_open"]
    assert drifting.updates() == 0
    drifting.place("g/1").write_text(json.dumps({"value": "as stored", "kind": ""}))
    drifting.check()
    drifting.pass_(600)
    assert drifting.told(drifting.found("g/2")[0].id) == ("OBSERVED", "confirming")
    drifting.check()  # the end of a stop brake needs a check after it
    drifting.pass_(90)
    assert (drifting.updates(), drifting.values("g/2")) == (1, "as stored")


@pytest.mark.slow
def test_checks_confirm_drift_and_end_it(drifting: Drifting) -> None:
    drifting.policy(**AUTO, confirm={"reports": 3, "hold": 0})
    drifting.change("g/2")
    for reports in (1, 2):
        drifting.check()
        drifting.sweep(2)
        (incident,) = drifting.found()
        assert (incident.state, incident.reason, incident.reports) == ("OBSERVED", "confirming", reports)
    content = drifting.place("g/2").read_text()
    drifting.place("g/2").write_text("no JSON")  # no check can look: that is no end, and no report
    drifting.check()
    drifting.sweep(2)
    assert drifting.incident(incident.id).reports == 2
    drifting.place("g/2").write_text(content.replace("from outside", "as stored"))
    drifting.check()
    drifting.sweep(2)
    assert drifting.told(incident.id) == ("CLOSED", "resolved")
    assert drifting.updates() == 0
    drifting.change("g/2")
    for _ in range(3):
        drifting.check()
    drifting.sweep(2)
    assert (drifting.updates(), drifting.values("g/2")) == (1, "as stored")


@pytest.mark.slow
def test_a_lock_holds_drift_until_a_later_check(drifting: Drifting) -> None:
    drifting.policy(**AUTO)
    drifting.change("g/2")
    drifting.check()
    drifting.engine.lock(drifting.stack)
    drifting.pass_(600)
    incident = drifting.found()[0].id
    assert drifting.told(incident) == ("OBSERVED", "locked")
    drifting.engine.unlock(drifting.stack)
    drifting.pass_(1800)
    assert (drifting.told(incident), drifting.updates()) == (("OBSERVED", "confirming"), 0)
    drifting.check()
    drifting.pass_(90)
    assert drifting.updates() == 1


@pytest.mark.slow
def test_a_proposed_revert_is_approved_by_the_digest_of_its_plan(drifting: Drifting) -> None:
    drifting.policy(**{**AUTO, "drift": "propose"})
    incident = drifting.confirmed()
    assert drifting.told(incident) == ("PROPOSED", "awaiting_approval")
    assert drifting.states()["2"] == "CHECK_COMPLETE"
    digest = drifting.plan("g/2").digest
    assert drifting.incident(incident).plan_digest == digest
    drifting.change("g/2", value="otherwise")
    with pytest.raises(PlanChanged):
        approve(drifting, incident, digest)
    drifting.change("g/2")
    assert drifting.updates() == 0
    approve(drifting, incident, digest)
    drifting.sweep()
    assert (drifting.told(incident), drifting.values("g/2")) == (("CLOSED", "quiet"), "as stored")
    assert drifting.updates() == 1


@pytest.mark.slow
def test_a_proposal_that_is_closed_is_muted_until_a_check_finds_no_drift(drifting: Drifting) -> None:
    drifting.policy(**{**AUTO, "drift": "propose"})
    incident = drifting.confirmed()
    drifting.engine.components.of(Parts).operations.close(MEMBER, incident, "wanted")
    assert drifting.told(incident) == ("CLOSED", "cleared")
    drifting.check()
    drifting.pass_(90)
    assert (len(drifting.found()), drifting.states()["2"]) == (1, "CHECK_COMPLETE")
    drifting.place("g/2").write_text(json.dumps({"value": "as stored", "kind": ""}))
    drifting.check()
    drifting.sweep(2)
    drifting.confirmed()
    assert [one.state for one in drifting.found()] == ["PROPOSED", "CLOSED"]


@pytest.mark.slow
def test_drift_that_only_a_replacement_ends_is_held(drifting: Drifting) -> None:
    """Law 1.10."""
    drifting.policy(**AUTO)
    drifting.change("g/2", value="as stored", kind="another")
    drifting.check()
    drifting.pass_(7200)
    (incident,), before = drifting.found(), drifting.ids()
    assert (incident.state, incident.reason, drifting.updates()) == ("CONFIRMED", "spreads", 0)
    assert drifting.ids() == before


@pytest.mark.slow
def test_what_was_put_back_meanwhile_is_disputed_until_a_check(drifting: Drifting) -> None:
    drifting.policy(**AUTO)
    drifting.change("g/2")
    drifting.check()
    drifting.place("g/2").write_text(json.dumps({"value": "as stored", "kind": ""}))
    drifting.pass_(90)
    (incident,) = drifting.found()
    assert (incident.reason, drifting.updates()) == ("disputed", 0)
    drifting.check()
    drifting.sweep(2)
    assert drifting.told(incident.id) == ("CLOSED", "resolved")


@pytest.mark.slow
def test_an_update_that_ignores_the_drift_ends_it(drifting: Drifting) -> None:
    drifting.policy(drift="propose", grace=0)
    drifting.change("g/2", "other")
    drifting.check()
    drifting.pass_(90)
    assert {one.path: one.state for one in drifting.found()} == {"g/2": "PROPOSED", "other": "PROPOSED"}
    blocks = {"resource_registry": {"resources": {"g": {"ignore_drift": ["*"]}}}}
    drifting.engine.patch(drifting.stack, environment=blocks)
    drifting.sweep(2)
    open_ = {one.path: one.state for one in drifting.found() if one.closed_at is None}
    assert open_ == {"other": "PROPOSED"}
    assert drifting.told(drifting.found("g/2")[0].id) == ("CLOSED", "resolved")


@pytest.mark.slow
def test_failed_reverts_suspend_the_reverts_of_a_scope_only(drifting: Drifting) -> None:
    drifting.policy(**AUTO, give_up_after=1, mode="auto", min_healthy=7200)
    drifting.confirmed()
    assert drifting.updates() == 1
    drifting.check()
    drifting.sweep(2)
    drifting.change("g/2")
    drifting.check()
    drifting.pass_(120)
    incident = drifting.found("g/2")[0]
    assert (incident.state, incident.reason) == ("CONFIRMED", "scope_suspended")
    assert {name for name, one in drifting.rows.scopes.of_root(drifting.stack.id).items() if one.is_suspended} == {
        "drift:g"
    }
    drifting.place("g/2").write_text(json.dumps({"value": "as stored", "kind": ""}))
    drifting.check()
    drifting.sweep(2)
    fault = drifting.fire("g/3")
    drifting.pass_(90)
    assert drifting.told(fault)[0] == "CLOSED"
    assert drifting.updates() == 2
    operations = drifting.engine.components.of(Parts).operations
    operations.acknowledge(MEMBER, drifting.stack, "drift:g")
    scopes = operations.overview(drifting.engine.get(drifting.stack)).scopes
    assert [one.scope for one in scopes if one.record.is_suspended] == []


@pytest.mark.slow
def test_reports_have_no_source_of_the_engine(drifting: Drifting) -> None:
    intake = drifting.engine.components.of(Parts).intake
    with pytest.raises(HTTPBadRequest):
        intake.configure("demo", DRIFT, {"format": "generic"})
    intake.acknowledge("demo", DRIFT)
    assert drifting.store.actions.last(drifting.stack.id, Verb.UPDATE) is None
