"""Approvals of node actions, runs and repairs, by old and new routes."""

import json
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.config import Settings
from heatlite.core.ids import new_id
from heatlite.engine.operations.health_marks import row_with_mark
from heatlite.features.approvals.store.store import ApprovalStore
from heatlite.features.healing.rules.brakes import Held
from heatlite.features.healing.rules.incident import proposed as with_plan
from heatlite.features.healing.store.records import IncidentRecord, ObservationRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import Brake, IncidentState
from heatlite.store.records import StackRecord
from tests.api.conftest import Heat, Town, new_project, template
from tests.databases import sqlite
from tests.features.approvals.api.test_approvals import Ahead
from tests.features.nodes.registered_nodes import registered
from tests.waiting import eventually

THING = {"type": "OS::Heat::TestResource"}
MIGRATION = "heatlite.features.approvals.store.migrations.0002_waiting"
STAGE = {"name": "all", "nodes": "all", "action": {"kind": "script", "args": {"text": "reboot", "password": "xyzzy"}}}
DOCUMENT = json.dumps({"node_playbook": "2026-11-21", "stages": [STAGE]})


class Work:
    """A stack with a node, and something that waits for a decision."""

    def __init__(self, server: wiring.Embedded, subject: str, heat: Heat | None = None) -> None:
        self.heat, self.server, self.subject = heat or new_project(server), server, subject
        self.path = self.heat.create(template(a=THING), f"work-{subject.replace('_', '-')}")
        stack = server.store.stacks.get(self.path.rpartition("/")[2])
        assert stack is not None
        self.stack = stack
        registered(server.store, stack, "a")
        self.target = self._ask()

    def _ask(self) -> str:
        match self.subject:
            case "node_action":
                body = {"node": "a", "kind": "script", "args": {"text": "reboot", "password": "xyzzy"}}
                answer = self.heat.call("POST", f"{self.path}/node_actions", body, code=201)
                return str(answer.json["node_action"]["id"])
            case "playbook_run":
                answer = self.heat.call("POST", f"{self.path}/node_playbook_runs", {"document": DOCUMENT}, code=202)
                return str(answer.json["action"]["id"])
            case _:
                self.heat.call(
                    "PUT", f"{self.path}/healing", {"healing_policy": "2026-11-22", "mode": "propose"}, code=200
                )
                return proposed(self.server, self.stack)

    def approvals(self) -> Any:
        return self.heat.get(f"/approvals?stack={self.stack.id}")["approvals"]

    def old(self, word: str, code: int) -> None:
        """Decide by the route of the feature."""
        match self.subject, word:
            case "node_action", _:
                self.heat.call("POST", f"/node_actions/{self.target}/{word}", code=code)
            case "playbook_run", _:
                self.heat.call("POST", f"/node_playbook_runs/{self.target}/{word}", code=code)
            case _, "approve":
                digest = self.approvals()[0]["digest"]
                self.heat.call("POST", f"/incidents/{self.target}/approve", {"plan_digest": digest}, code=code)
            case _:
                self.heat.call("POST", f"/incidents/{self.target}/close", {}, code=code)

    def new(self, word: str, code: int) -> None:
        """Decide by the route of approvals."""
        (found,) = self.approvals()
        body = {"digest": found["digest"]} if word == "approve" else {}
        self.heat.call("POST", f"/approvals/{found['id']}/{word}", body, code=code)

    def state(self) -> str:
        match self.subject:
            case "node_action":
                return str(self.heat.get(f"/node_actions/{self.target}")["node_action"]["state"])
            case "playbook_run":
                return str(self.heat.get(f"/actions/{self.target}")["action"]["status"])
            case _:
                return str(self.heat.get(f"/incidents/{self.target}")["incident"]["state"])


def proposed(server: wiring.Embedded, stack: StackRecord) -> str:
    """An incident that proposes to replace the resource `a`; its id."""
    store, now, rows = server.store, server.components.clock.now(), server.store.of(HealingStore)
    (row,) = store.resources.of(stack.id)
    with store.transaction():
        store.resources.save_many([row_with_mark(row, True, "down", now)])
    plan = server.components.repairs.plan(stack, Selection({"a": RepairStep.REPLACE}))
    incident = IncidentRecord(
        new_id(), stack.project, "grafana", stack.id, stack.id, "a", "a", f"type:{THING['type']}", row.id,
        row.physical_id or "", IncidentState.MARKED, now, now, due=now + 1e6, evidence_since=now, is_marked=True,
    )  # fmt: skip
    episode = ObservationRecord(new_id(), stack.project, "grafana", "k", now, now, now, incident_id=incident.id)
    with store.transaction():
        rows.incidents.insert_many([incident])
        rows.observations.insert_many([episode])
        after = with_plan(incident, plan.shown.digest, [Held(Brake.AWAITING_APPROVAL)], now)
        assert rows.incidents.move(replace(after, due=now + 1e6))
    return incident.id


SUBJECTS = ("node_action", "playbook_run", "repair")
RULES = {
    "node_actions:approve", "node_actions:reject", "node_playbooks:approve", "node_playbooks:reject", "health:operate",
}
AFTER = {
    ("node_action", "approve"): {"PENDING_SCHEDULE", "NEW"},
    ("playbook_run", "approve"): {"WAITING"},
    ("repair", "approve"): {"REPAIRING", "SETTLING"},
    ("node_action", "reject"): {"CANCELLED"},
    ("playbook_run", "reject"): {"CANCELLED"},
    ("repair", "reject"): {"CLOSED"},
}


@pytest.mark.parametrize("route", ["old", "new"])
@pytest.mark.parametrize("word", ["approve", "reject"])
@pytest.mark.parametrize("subject", SUBJECTS)
def test_one_record_by_both_routes(server: wiring.Embedded, subject: str, word: str, route: str) -> None:
    work = Work(server, subject)
    (found,) = work.approvals()
    target = {"node_action": "node_action_id", "playbook_run": "action_id", "repair": "incident_id"}[subject]
    assert (found["subject"], found["state"], found[target]) == (subject, "PENDING", work.target)
    assert work.heat.get(work.path)["stack"]["approvals"] == 1
    assert found["requested_by"] == ("healing" if subject == "repair" else "anonymous")
    content = work.heat.get(f"/approvals/{found['id']}")["approval"]["content"]
    assert "xyzzy" not in str(content)
    if subject == "playbook_run":
        assert content["document"]["stages"][0]["action"]["args"]["text"] == "reboot"
        assert [one["name"] for one in content["stages"][0]["nodes"]] == ["a"]
    elif subject == "node_action":
        assert (content["kind"], content["args"]["text"]) == ("script", "reboot")
    decide = work.old if route == "old" else work.new
    decide(word, 200 if word == "reject" or route == "old" and subject != "repair" else 202)
    (after,) = work.approvals()
    assert after["state"] == ("DONE" if word == "approve" else "REJECTED")
    assert after["decided_by"] == "anonymous"
    assert work.state() in AFTER[subject, word]
    (decided,) = [one for one in work.heat.get("/audit")["audit"] if one["approval_id"] and one["operation"] in RULES]
    assert decided["approval_id"] == found["id"]
    if subject == "playbook_run":
        assert work.heat.get(f"/actions/{work.target}")["action"]["approval_id"] == found["id"]
    work.new(word, 409)
    assert "approvals" not in work.heat.get(work.path)["stack"]


@pytest.mark.parametrize("subject", SUBJECTS)
def test_what_is_gone_is_obsolete(server: wiring.Embedded, subject: str) -> None:
    work = Work(server, subject)
    if subject == "node_action":
        work.heat.call("POST", f"/node_actions/{work.target}/cancel", code=200)
    elif subject == "playbook_run":
        work.heat.call("POST", f"/actions/{work.target}", {"signal": "CANCEL"}, code=202)
    else:
        rows = server.store.of(HealingStore).incidents
        found = rows.get(work.target)
        assert found is not None
        line = replace(found.history[-1], before=IncidentState.PROPOSED, after=IncidentState.MARKED)
        with server.store.transaction():
            rows.move(replace(found, state=IncidentState.MARKED, plan_digest=None, history=(*found.history, line)))
    assert [one["state"] for one in work.approvals()] == ["OBSOLETE"]


@pytest.mark.slow
@pytest.mark.parametrize("subject", ["node_action", "playbook_run"])
def test_four_eyes_by_both_routes(town: Town, subject: str) -> None:
    member, admin = town["member"], town["admin"]
    work = Work(town.server, subject, heat=member)
    policy = {"change_policy": "2026-11-28", "four_eyes": True}
    admin.call("PUT", f"{work.path}/change_policy", policy, code=200)
    work.old("approve", 403)
    work.new("approve", 403)
    (found,) = work.approvals()
    assert (found["state"], found["may_decide"]) == ("PENDING", False)
    granted: dict[str, Any] = {"approval": "granted"}
    if subject == "node_action":
        member.call("POST", f"{work.path}/node_actions", {"node": "a", "kind": "script", **granted}, code=403)
    else:
        member.call("POST", f"{work.path}/node_playbook_runs", {"document": DOCUMENT, **granted}, code=403)
    body = {"digest": found["digest"]}
    admin.call("POST", f"/approvals/{found['id']}/approve", body, code=202)


def test_the_migration_asks_for_what_waits(server: wiring.Embedded) -> None:
    works = [Work(server, subject) for subject in SUBJECTS]
    database = server.store.database
    with server.store.transaction():
        database.write("DELETE FROM approval")
        import_module(MIGRATION).up(None, database.peewee)
    for work in works:
        (found,) = work.approvals()
        assert (found["subject"], found["state"]) == (work.subject, "PENDING")
        work.new("reject", 200)
        assert work.state() in AFTER[work.subject, "reject"]
    assert server.store.of(ApprovalStore).open_of_stack(works[0].stack.id) == []


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_they_expire_only_if_a_policy_says_so(subject: str, tmp_path: Path) -> None:
    clock = Ahead()
    server = wiring.embedded(Settings(database=sqlite(tmp_path), lease_seconds=1e10), clock=clock)
    try:
        forever = Work(server, subject)
        assert forever.approvals()[0]["expires_at"] is None
        heat = new_project(server)
        heat.call("PUT", "/change_policy", {"change_policy": "2026-11-28", "approval_ttl": 60}, code=200)
        work = Work(server, subject, heat)
        clock.ahead = 61
        eventually(lambda: work.approvals()[0]["state"] == "EXPIRED", "the sweep ends it")
        assert work.state() in AFTER[subject, "reject"]
        assert forever.approvals()[0]["state"] == "PENDING"
    finally:
        server.close()
