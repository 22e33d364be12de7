"""A stack knows its cloud: operations against another or none are refused."""

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import asdict, force_setattr, replace

from heatlite.clients.cloud import OtherCloud
from heatlite.clients.clouds import Clouds
from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import Invalid
from heatlite.core.status import LockLevel, Status, state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.features.simulator.services.registry import simulate
from heatlite.features.simulator.simulation import Scenario
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, resource, template
from tests.tables import few, table
from tests.types.conftest import Cloudy

NET = template(net=resource("OS::Neutron::Net"))
STRING = template(string=resource("OS::Heat::RandomString"))
CHILD = {"child.yaml": '{"heat_template_version": "2021-04-16", "resources": {"net": {"type": "OS::Neutron::Net"}}}'}
TREE = template(child=resource("child.yaml"))


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


@pytest.fixture
def cloudy(place: Path) -> Iterator[Cloudy]:
    engine = Cloudy(place)
    yield engine
    engine.close()


def elsewhere(engine: Engine) -> None:
    """Start the engine anew on another simulated cloud, which is empty."""
    _move(engine, (".cloud", ".first"))


def back(engine: Engine) -> None:
    """Start the engine anew on the first of its clouds."""
    _move(engine, (".cloud", ".second"), (".first", ".cloud"))


def _move(engine: Engine, *moves: tuple[str, str]) -> None:
    """Start the engine anew, with the files of simulated clouds elsewhere."""
    database = engine.store.database.path
    assert database is not None
    engine.close()
    for before, after in moves:
        for end in ("", "-wal", "-shm"):
            path = database.with_name(f"{database.stem}{before}{end}")
            if path.exists():
                path.rename(database.with_name(f"{database.stem}{after}{end}"))
    engine.open()


def nowhere(engine: Engine) -> None:
    """Start the engine anew without a cloud."""
    engine.close()
    engine.settings = replace(engine.settings, cloud=None)
    engine.open()


OPERATIONS: dict[str, Callable[[Engine, StackRecord], object]] = {
    "update": lambda engine, stack: engine.put(stack, NET),
    "patch": lambda engine, stack: engine.patch(stack),
    "preview": lambda engine, stack: engine.stacks.preview_update(engine.who, stack, StackRequest(), True, plan=True),
    "delete": lambda engine, stack: engine.delete(stack),
    "check": lambda engine, stack: engine.check(stack),
    "suspend": lambda engine, stack: engine.suspend(stack),
    "resume": lambda engine, stack: engine.resume(stack),
    "snapshot": lambda engine, stack: engine.components.snapshots.take(engine.who, stack, None),
    "lock": lambda engine, stack: engine.lock(stack, LockLevel.ALL),
    "revert": lambda engine, stack: engine.components.repairs.revert(engine.who, stack, ["net"], None, {}),
    "plan of a revert": lambda engine, stack: engine.components.repairs.plan_revert(stack, ["net"]),
}


@pytest.mark.parametrize("away", few([elsewhere, nowhere]))
@pytest.mark.parametrize("operation", few(OPERATIONS.values()), ids=OPERATIONS)
def test_what_would_run_elsewhere_is_refused(
    cloudy: Cloudy, operation: Callable[[Engine, StackRecord], object], away: Callable[[Engine], None]
) -> None:
    stack = cloudy.made({"net": resource("OS::Neutron::Net")})
    home = stack.cloud
    assert home is not None
    away(cloudy)
    before = (cloudy.get(stack), cloudy.rows(stack), cloudy.now_on(stack))
    with pytest.raises(OtherCloud) as refused:
        operation(cloudy, stack)
    assert f"Stack s has its objects in the cloud {home}" in refused.value.message
    here = "no cloud is set here" if away is nowhere else "the cloud that is set here is simulated (simulated:"
    assert here in refused.value.message
    assert "--adopt-cloud" in refused.value.message
    assert (cloudy.get(stack), cloudy.rows(stack), cloudy.now_on(stack)) == before


@pytest.fixture
def refused(cloudy: Cloudy) -> Callable[[StackRecord, Callable[[StackRecord], object]], None]:
    """Checks that an operation is refused in another cloud and changes nothing there."""

    def check(stack: StackRecord, operation: Callable[[StackRecord], object]) -> None:
        elsewhere(cloudy)
        tables = ("stack", "resource", "event", "action", "snapshot", "mail")
        before = [cloudy.store.database.read(f"SELECT * FROM {name} ORDER BY 1") for name in tables]
        with pytest.raises(OtherCloud, match=f"Stack {stack.name} has its objects in the cloud"):
            operation(cloudy.get(stack))
        assert [cloudy.store.database.read(f"SELECT * FROM {name} ORDER BY 1") for name in tables] == before

    return check


Refused = Callable[[StackRecord, Callable[[StackRecord], object]], None]


@pytest.mark.slow
def test_a_retry_is_refused_elsewhere(cloudy: Cloudy, refused: Refused) -> None:
    boom = resource("OS::Heat::TestResource", fail=True, keys={"depends_on": "net"})
    stack = cloudy.create(template(net=resource("OS::Neutron::Net"), boom=boom))
    assert final(stack) == "CREATE_FAILED"
    refused(stack, lambda stack: cloudy.stacks.retry(cloudy.who, stack))


@pytest.mark.slow
@pytest.mark.parametrize("operation", few(["restore", "delete"]))
def test_what_is_done_with_a_snapshot_is_refused_elsewhere(cloudy: Cloudy, refused: Refused, operation: str) -> None:
    stack = cloudy.made({"volume": resource("OS::Cinder::Volume", size=1)})
    snapshot = cloudy.components.snapshots.take(cloudy.who, stack, None)
    stack = cloudy.settle(stack)
    assert final(stack) == "SNAPSHOT_COMPLETE"
    refused(stack, lambda stack: getattr(cloudy.components.snapshots, operation)(cloudy.who, stack, snapshot.id))


@pytest.mark.slow
def test_a_signal_that_scales_is_refused_elsewhere(cloudy: Cloudy, refused: Refused) -> None:
    group = resource("OS::Heat::AutoScalingGroup", min_size=1, max_size=3, resource={"type": "OS::Neutron::Net"})
    more = resource(
        "OS::Heat::ScalingPolicy",
        adjustment_type="change_in_capacity",
        auto_scaling_group_id={"get_resource": "group"},
        scaling_adjustment=1,
    )
    stack = cloudy.made({"group": group, "more": more})
    row = cloudy.row(stack, "more")
    refused(stack, lambda stack: cloudy.components.signals.signal(cloudy.who, stack, row, None))


@pytest.mark.slow
def test_what_touches_no_object_is_done_anywhere(cloudy: Cloudy) -> None:
    stack = cloudy.made({"net": resource("OS::Neutron::Net")})
    nowhere(cloudy)
    cloudy.mark(stack, "net")
    stack = cloudy.unlock(cloudy.lock(stack, LockLevel.STACKS))
    assert final(stack) == "UNLOCK_COMPLETE"
    record = cloudy.components.exports.abandon(cloudy.who, cloudy.get(stack))
    assert record["cloud"] == asdict(stack.cloud)  # type: ignore[type-var]
    assert final(cloudy.settle(stack)) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_a_forced_delete_leaves_behind_what_is_elsewhere(cloudy: Cloudy) -> None:
    stack = cloudy.made({"net": resource("OS::Neutron::Net")})
    net = cloudy.row(stack, "net").physical_id
    elsewhere(cloudy)
    cloudy.stacks.delete(cloudy.who, cloudy.get(stack), force=True)
    stack = cloudy.settle(stack)
    assert final(stack) == "DELETE_COMPLETE"
    assert stack.status_reason.endswith(f"Left behind: net (OS::Neutron::Net, {net})")


@pytest.mark.slow
def test_the_recorded_cloud_is_as_good_as_ever(cloudy: Cloudy) -> None:
    stack = cloudy.made({"net": resource("OS::Neutron::Net")})
    elsewhere(cloudy)
    back(cloudy)
    assert final(cloudy.check(stack)) == "CHECK_COMPLETE"
    stack = cloudy.delete(stack)
    assert (final(stack), stack.status_reason) == ("DELETE_COMPLETE", "Stack DELETE completed successfully")


class TestRecord:
    @pytest.mark.slow
    def test_a_stack_without_objects_in_a_cloud_has_none_and_needs_none(self, cloudy: Cloudy) -> None:
        stack = cloudy.create(STRING)
        assert stack.cloud is None
        nowhere(cloudy)
        assert final(cloudy.check(stack)) == "CHECK_COMPLETE"
        stack = cloudy.patch(stack)
        assert (final(stack), stack.cloud) == ("UPDATE_COMPLETE", None)
        with pytest.raises(Invalid, match="OS::Neutron::Net, reason: no cloud is set"):
            cloudy.put(stack, NET)
        assert final(cloudy.delete(stack)) == "DELETE_COMPLETE"

    def test_it_is_made_with_the_first_object_in_a_cloud(self, cloudy: Cloudy) -> None:
        stack = cloudy.put(cloudy.create(STRING), NET)
        assert stack.cloud == cloudy.view().identity

    def test_a_stack_whose_objects_are_all_gone_is_free(self, cloudy: Cloudy) -> None:
        stack = cloudy.put(cloudy.create(NET), STRING)
        nowhere(cloudy)
        assert final(cloudy.check(stack)) == "CHECK_COMPLETE"

    @pytest.mark.slow
    def test_a_nested_stack_has_its_roots(self, cloudy: Cloudy) -> None:
        stack = cloudy.create(TREE, files=CHILD)
        assert stack.cloud is not None
        child = cloudy.store.stacks.get(cloudy.row(stack, "child").physical_id or "")
        assert child is not None
        assert cloudy.store.stacks.cloud_of(child) == stack.cloud
        elsewhere(cloudy)
        for one in (stack, child):
            with pytest.raises(OtherCloud):
                cloudy.check(one)

    @pytest.mark.slow
    def test_one_from_before_it_was_recorded_gets_it_with_the_next_operation(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"net": resource("OS::Neutron::Net")})
        home = stack.cloud
        with cloudy.store.transaction():
            cloudy.store.database.write("UPDATE stack SET cloud = NULL", ())
        assert cloudy.get(stack).cloud is None
        stack = cloudy.check(stack)
        assert (final(stack), stack.cloud) == ("CHECK_COMPLETE", home)

    @pytest.mark.slow
    def test_an_adopted_stack_is_where_its_record_says(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"net": resource("OS::Neutron::Net")})
        record = cloudy.components.exports.abandon(cloudy.who, stack)
        cloudy.settle(stack)
        request = StackRequest(name="t", adopted=read_record(record))
        elsewhere(cloudy)
        with pytest.raises(OtherCloud, match="Stack t has its objects in the cloud simulated"):
            cloudy.stacks.create(cloudy.who, request)
        here = cloudy.stacks.create(cloudy.who, replace(request, name="u", adopt_cloud=True))
        assert cloudy.settle(here).cloud == cloudy.view().identity
        cloudy.components.exports.abandon(cloudy.who, cloudy.get(here))  # one stack has an object
        cloudy.settle(here)
        back(cloudy)
        there = cloudy.settle(cloudy.stacks.create(cloudy.who, request))
        assert (final(there), there.cloud) == ("ADOPT_COMPLETE", stack.cloud)


@pytest.mark.slow
def test_an_update_may_adopt_the_cloud_that_is_set(cloudy: Cloudy) -> None:
    stack = cloudy.made({"net": resource("OS::Neutron::Net")})
    home = stack.cloud
    elsewhere(cloudy)
    mark = cloudy.now_on(stack)
    stack = cloudy.patch(stack, adopt_cloud=True)
    here = cloudy.view().identity
    assert (final(stack), stack.cloud) == ("UPDATE_COMPLETE", here)
    reasons = [event.status_reason for event in cloudy.events(stack)[mark:] if event.resource_name == "s"]
    assert reasons[1].startswith(f"mia has it adopt the cloud {here}"), reasons
    assert str(home)[:40] in reasons[1]
    # Now the answers of this cloud count: the network is not there.
    assert cloudy.states(cloudy.check(stack)) == {"net": "CHECK_FAILED"}
    cloudy.mark(stack, "net", unhealthy=False)
    # Once is enough, and twice tells nothing.
    mark = cloudy.now_on(stack)
    stack = cloudy.patch(stack, adopt_cloud=True)
    assert [event.status_reason for event in cloudy.events(stack)[mark:]] == [
        "Stack UPDATE started", "Stack UPDATE completed successfully",
    ]  # fmt: skip


class TestAWorkerElsewhere:
    """A worker's settings may differ from those of the API."""

    @pytest.fixture
    def moved(self, cloudy: Cloudy) -> Iterator[tuple[Cloudy, StackRecord]]:
        """An engine whose worker and API have different clouds."""
        stack = cloudy.made({"net": resource("OS::Neutron::Net")})
        yield cloudy, stack

    def _move(self, cloudy: Cloudy, clouds: Clouds) -> None:
        engine_services = cloudy.server.components.engine_services
        force_setattr(engine_services.services, "clouds", clouds)
        engine_services.stack_clouds._clouds = clouds

    def _other(self, cloudy: Cloudy) -> Clouds:
        return Clouds("simulated", cloudy.clock.now, simulate(Scenario(), cloudy.clock).view)

    @pytest.mark.parametrize("verb", few(["check", "delete", "suspend", "patch"]))
    @pytest.mark.parametrize("cloud", ["other", "none"])
    def test_it_begins_nothing(
        self, moved: tuple[Cloudy, StackRecord], verb: str, cloud: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        cloudy, stack = moved
        monkeypatch.setattr("heatlite.engine.admission.admission.StackClouds.admitted", lambda *_, **__: None)
        self._move(cloudy, self._other(cloudy) if cloud == "other" else Clouds(None, cloudy.clock.now))
        rows = cloudy.rows(stack)
        stack = getattr(cloudy, verb)(stack)
        assert stack.status == "FAILED"
        assert "Stack s has its objects in the cloud simulated (" in stack.status_reason
        assert cloudy.rows(stack) == rows

    def test_what_another_cloud_answers_is_never_a_deletion(
        self, moved: tuple[Cloudy, StackRecord], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """The operation was admitted: the cloud is compared before it gets a request."""
        cloudy, stack = moved
        monkeypatch.setattr("heatlite.engine.admission.admission.StackClouds.admitted", lambda *_, **__: None)
        monkeypatch.setattr("heatlite.engine.state.recorded_clouds.StackClouds.objection", lambda *_: "")
        self._move(cloudy, self._other(cloudy))
        stack = cloudy.check(stack)
        assert cloudy.states(stack) == {"net": "CREATE_COMPLETE"}
        assert "could not be looked at (OtherCloud: " in stack.status_reason
        stack = cloudy.delete(stack)
        assert (final(stack), cloudy.states(stack)) == ("DELETE_FAILED", {"net": "DELETE_FAILED"})
        assert "OtherCloud: resources.net: Stack s has its objects" in cloudy.row(stack, "net").status_reason


@pytest.mark.slow
@pytest.mark.parametrize("operation", few(["take", "delete"]))
def test_a_worker_without_the_cloud_leaves_no_snapshot_in_progress(cloudy: Cloudy, operation: str) -> None:
    """Such a snapshot could not be deleted."""
    stack = cloudy.made({"volume": resource("OS::Cinder::Volume", size=1)})
    snapshot = cloudy.components.snapshots.take(cloudy.who, stack, None)
    stack = cloudy.settle(stack)
    cloudy.close()
    if operation == "take":
        snapshot = cloudy.components.snapshots.take(cloudy.who, stack, None)
    else:
        cloudy.components.snapshots.delete(cloudy.who, stack, snapshot.id)
    cloudy.store.close()
    cloudy.settings = replace(cloudy.settings, cloud=None)
    cloudy.open()
    assert final(cloudy.settle(stack)) == ("SNAPSHOT_FAILED" if operation == "take" else "SNAPSHOT_COMPLETE")
    found = cloudy.components.snapshots.get(stack, snapshot.id)
    assert (found.status, "no cloud is set here" in found.status_reason) == (Status.FAILED, True)


@pytest.mark.slow
def test_what_runs_when_the_cloud_is_taken_away_ends(cloudy: Cloudy) -> None:
    made = template(net=resource("OS::Neutron::Net"), slow=resource("OS::Heat::TestResource", wait_secs=60))
    with cloudy.clock.held():
        stack = cloudy.create(made, wait=False)
        cloudy.begun(lambda: cloudy.states(stack) == {"net": "CREATE_COMPLETE", "slow": "CREATE_IN_PROGRESS"})
        nowhere(cloudy)
    stack = cloudy.settle(stack)
    assert (final(stack), cloudy.states(stack)["slow"]) == ("CREATE_FAILED", "CREATE_FAILED")
    assert "no cloud is set here" in stack.status_reason


MYCLOUD = CloudIdentity("mycloud", "https://keystone.example:5000/v3", "RegionOne", "p1")


@table(
    ("change", "same"),
    [
        ({"name": "renamed"}, True),
        ({"auth_url": "http://keystone.example:5000"}, True),
        ({"auth_url": "https://KEYSTONE.example:5000/v3/"}, True),
        ({"project_id": None}, True),
        ({"auth_url": "https://other.example:5000/v3"}, False),
        ({"auth_url": "https://keystone.example:5001/v3"}, False),
        ({"auth_url": "https://keystone.example:5000/other/v3"}, False),
        ({"region": "RegionTwo"}, False),
        ({"region": None}, False),
        ({"project_id": "p2"}, False),
    ],
)
def test_when_two_clouds_are_the_same(change: dict[str, Any], same: bool) -> None:
    other = replace(MYCLOUD, **change)
    assert MYCLOUD.is_same(other) is same
    assert other.is_same(MYCLOUD) is same
    assert CloudIdentity.from_json(asdict(other)) == other


@table("value", [None, "x", {}, {"name": 1, "auth_url": "x"}, {"name": "x", "auth_url": "x", "region": 1}])
def test_what_is_no_record_of_a_cloud_is_none(value: Any) -> None:
    assert CloudIdentity.from_json(value) is None
