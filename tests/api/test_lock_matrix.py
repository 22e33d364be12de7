"""Each changing route × state of a stack: the answer, and its audit row.

A refusal writes nothing else. The expected answers are written down here after docs/reference/lock.md, not taken from
the code. A route or an action that this file does not know fails it.
"""

import json
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.api.handlers.stack_actions import ACTIONS
from heatlite.core.config import Settings
from heatlite.core.ids import new_id
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb, state
from heatlite.features.healing.terms import IGNORABLE
from heatlite.store.audit import AuditOutcome, AuditQuery
from heatlite.store.records import (
    ActionRecord,
    LockRecord,
    ResourceRecord,
    SnapshotRecord,
    StackRecord,
    SuppressedRecord,
)
from heatlite.wiring import Embedded
from tests.databases import sqlite
from tests.tables import sampled, table
from tests.waiting import eventually

from .conftest import Heat, served_routes, template, value

pytestmark = pytest.mark.slow

P = "/v1/{project}"
S = P + "/stacks/{stack_name}/{stack_id}"
R = S + "/resources/{resource_name}"

NOW = 1_700_000_000.0
MADE = template(a=value())

# -- the routes --------------------------------------------------------------------------------------

READS = {
    "POST " + P + "/stacks/preview",
    "POST " + P + "/validate",
    "PUT " + S + "/preview",
    "PATCH " + S + "/preview",
}
"""Read-only routes with another method than GET."""

REDIRECTS = {
    *(f"{method} {P}/stacks/{{stack_name}}" for method in ("POST", "PUT", "PATCH", "DELETE")),
    *(f"POST {P}/stacks/{{stack_name}}/{child}" for child in ("resources", "events", "template", "actions")),
}
"""Redirects."""

NO_STACK = {
    "POST " + P + "/software_configs",
    "DELETE " + P + "/software_configs/{config_id}",
    "POST " + P + "/software_deployments",
    "PUT " + P + "/software_deployments/{deployment_id}",
    "DELETE " + P + "/software_deployments/{deployment_id}",
    "POST " + P + "/actions/{action}",
    "POST " + P + "/access_keys",
    "DELETE " + P + "/access_keys/{key_id}",
    "POST /v1",
    "PUT " + P + "/node_playbooks/{playbook}",
    "DELETE " + P + "/node_playbooks/{playbook}",
    "POST " + P + "/node_playbook_runs/{run}/approve",
    "POST " + P + "/node_playbook_runs/{run}/reject",
    *(f"{method} {P}/health/{{source}}" for method in ("POST", "PUT")),
    *(f"{method} {P}/health/{{source}}/config" for method in ("PUT", "DELETE")),
    "POST " + P + "/health/{source}/acknowledge",
    "POST " + P + "/health_tokens",
    "DELETE " + P + "/health_tokens/{token_id}",
    "POST " + P + "/incidents/{incident_id}/close",
    "POST " + P + "/incidents/{incident_id}/approve",
}
"""Routes that belong to no stack.

Signals to actions have a matrix of their own (tests/engine/test_action_signals.py).
"""

NODES = {
    "POST " + P + "/node_actions/{node_action_id}/approve",
    "POST " + P + "/node_actions/{node_action_id}/reject",
    "POST " + P + "/node_actions/{node_action_id}/cancel",
    "POST " + S + "/node_actions",
    "POST " + S + "/node_playbook_runs",
    "POST " + S + "/orchestrate",
    "PUT " + R + "/node",
    "POST " + R + "/node",
}
"""Operations that no lock forbids."""

BRAKES = {
    "PUT " + S + "/healing", "DELETE " + S + "/healing", "POST " + S + "/healing/acknowledge",
    "PUT " + S + "/change_policy", "DELETE " + S + "/change_policy",
    "PUT " + P + "/change_policy", "DELETE " + P + "/change_policy",
    "POST " + P + "/approvals/{approval_id}/approve", "POST " + P + "/approvals/{approval_id}/reject",
}  # fmt: skip
"""Requests that start nothing, so that no lock and no action refuses them."""

CLOCKWORK = {
    "POST " + S + "/schedules", "PUT " + S + "/schedules/{schedule_id}", "DELETE " + S + "/schedules/{schedule_id}",
    "PUT " + S + "/expiry", "DELETE " + S + "/expiry",
}  # fmt: skip
"""Requests about later times. What they begin is refused then (tests/features/schedules)."""

ANSWERS = {"complete_lifecycle", "end_bake"}
"""Actions that only tell what runs that it may go on; no lock is asked (tests/engine/test_lifecycle.py)."""

LATER = {"update", "delete"}
"""Actions for a later time: no lock is asked now (tests/engine/test_scheduled_requests.py)."""

OPERATIONS: dict[str, tuple[str, str, object]] = {
    # name: (route, what stands behind the stack's path, body)
    "create": ("POST " + P + "/stacks", "", {"stack_name": "s", "template": MADE}),
    "put": ("PUT " + S, "", {"template": template(a=value("new"))}),
    "patch": ("PATCH " + S, "", {}),
    "delete": ("DELETE " + S, "", None),
    "force": ("DELETE " + S, "?force=true", None),
    "abandon": ("DELETE " + S + "/abandon", "/abandon", None),
    "snapshot": ("POST " + S + "/snapshots", "/snapshots", {"name": "n"}),
    "restore": ("POST " + S + "/snapshots/{snapshot_id}/restore", "/snapshots/SNAPSHOT/restore", None),
    "delete_snapshot": ("DELETE " + S + "/snapshots/{snapshot_id}", "/snapshots/SNAPSHOT", None),
    "mark": ("PATCH " + R, "/resources/a", {"mark_unhealthy": True}),
    "marks": ("PATCH " + S + "/resources", "/resources", {"marks": [{"resource": "a", "mark_unhealthy": True}]}),
    "signal": ("POST " + R + "/signal", "/resources/a/signal", {}),
    "check_resource": ("POST " + R + "/actions", "/resources/a/actions", {"check": {}}),
    "recover": ("POST " + R + "/actions", "/resources/a/actions", {"recover": {"operation": "RECREATE"}}),
    "drop": ("DELETE " + S + "/lock/suppressed/{suppressed_id}", "/lock/suppressed/1", None),
    "replay": ("POST " + S + "/lock/suppressed/{suppressed_id}/replay", "/lock/suppressed/1/replay", None),
    **{
        action: ("POST " + S + "/actions", "/actions", {action: None})
        for action in (
            "check", "suspend", "resume", "retry", "cancel_update", "cancel_without_rollback", "lock", "unlock",
            "rotate_keys", "protect", "unprotect", "heal", "revert_drift",
        )
    },
    "import": (
        "POST " + S + "/actions", "/actions",
        {"import": {"resources": {"n": {"type": "OS::Heat::Value", "id": "x"}}, "plan_digest": "x"}},
    ),
    "detach": ("POST " + S + "/actions", "/actions", {"detach": {"resources": ["a"], "plan_digest": "x"}}),
    "move": (
        "POST " + S + "/actions", "/actions", {"move": {"moved": [{"from": "a", "to": "aa"}], "plan_digest": "x"}},
    ),
    "accept_drift": ("POST " + S + "/actions", "/actions", {"accept_drift": {"plan_digest": "x"}}),
    "undo": ("POST " + S + "/actions", "/actions", {"undo": {"to": 1}}),
}  # fmt: skip

# -- the states --------------------------------------------------------------------------------------

RESTING = [
    (verb, status)
    for verb in (
        Verb.CREATE, Verb.UPDATE, Verb.ROLLBACK, Verb.CHECK, Verb.RESUME, Verb.SNAPSHOT, Verb.RESTORE, Verb.ADOPT,
    )
    for status in (Status.COMPLETE, Status.FAILED)
]  # fmt: skip
BUSY = [Verb.ROLLBACK, Verb.CHECK, Verb.SUSPEND, Verb.RESUME, Verb.SNAPSHOT, Verb.RESTORE, Verb.ADOPT]

# Codes, or words for those that several errors share:
FREE, RUNNING, MAINTENANCE = "StackExists", "ResourceIsLocked", "StackLocked"
NO_OBJECT, OTHER_PLAN = "HTTPBadRequest", "PlanChanged"
WRONG, UNSUPPORTED, GONE = "InvalidStackState", "NotSupported", "EntityNotFound"
BUSY_MARK, NO_SIGNAL = "ActionInProgress", "ResourceActionNotSupported"
NOTHING = "nothing"
"""200, nothing has changed, and a header says so."""
CODES = {
    FREE: 409, RUNNING: 409, MAINTENANCE: 409, WRONG: 409, BUSY_MARK: 409, OTHER_PLAN: 409,
    UNSUPPORTED: 400, NO_SIGNAL: 400, NO_OBJECT: 400, GONE: 404,
}  # fmt: skip

SETTLED: dict[str, int | str] = {
    "check_resource": 202, "recover": 202,
    "create": FREE, "put": 202, "patch": 202, "delete": 204, "check": 200, "mark": 200, "marks": 200, "replay": 200,
    "lock": 200, "unlock": WRONG, "suspend": 200, "resume": 200, "abandon": 200,
    "snapshot": 200, "restore": 202, "delete_snapshot": 204,
    "force": 204, "retry": WRONG, "rotate_keys": NOTHING, "protect": 200, "unprotect": NOTHING,
    "heal": WRONG,  # nothing is marked
    "revert_drift": WRONG, "accept_drift": WRONG,  # nothing differs
    "import": NO_OBJECT, "detach": OTHER_PLAN, "move": OTHER_PLAN, "undo": 200,
    # not in this version, whatever the state
    "signal": NO_SIGNAL,
    # nothing to cancel
    "cancel_update": UNSUPPORTED, "cancel_without_rollback": UNSUPPORTED,
    # bookkeeping
    "drop": 204,
}  # fmt: skip
IN_PROGRESS = SETTLED | {
    "check_resource": RUNNING, "recover": RUNNING,
    "put": RUNNING, "patch": RUNNING, "check": RUNNING, "mark": BUSY_MARK, "marks": BUSY_MARK, "replay": BUSY_MARK,
    "lock": RUNNING, "unlock": RUNNING, "suspend": RUNNING, "resume": RUNNING, "abandon": RUNNING,
    "snapshot": RUNNING, "restore": RUNNING, "delete_snapshot": RUNNING,
    "retry": RUNNING, "rotate_keys": RUNNING, "protect": RUNNING, "unprotect": RUNNING,
    "heal": RUNNING, "revert_drift": RUNNING, "import": RUNNING, "detach": RUNNING, "move": RUNNING,
    "accept_drift": RUNNING, "undo": RUNNING,
}  # fmt: skip
LOCKED = SETTLED | dict.fromkeys(
    (
        "put", "patch", "delete", "check", "mark", "marks", "replay", "suspend", "resume", "cancel_update",
        "cancel_without_rollback", "lock", "unlock", "abandon", "snapshot", "restore", "delete_snapshot", "force",
        "retry", "rotate_keys", "protect", "unprotect", "check_resource", "recover",
        "heal", "revert_drift", "accept_drift", "import", "detach", "move", "undo",
    ),
    MAINTENANCE,
)  # fmt: skip
NO_UPDATES = dict.fromkeys(
    ("put", "patch", "recover", "heal", "revert_drift", "accept_drift", "import", "detach", "move", "undo"),
    UNSUPPORTED,
)
UNREACHED = dict.fromkeys(("import", "detach", "move", "accept_drift"), WRONG)
"""The definition of a failed stack may not be reached."""
EXPECTED: dict[str, dict[str, int | str]] = {
    **{
        state(verb, status): SETTLED | ({} if status is Status.COMPLETE or verb is Verb.CHECK else UNREACHED)
        for verb, status in RESTING
    },
    **{f"{verb}_FAILED": SETTLED | UNREACHED | {"retry": 200} for verb in ("CREATE", "UPDATE")},
    "UNLOCK_COMPLETE": SETTLED,
    "INIT_COMPLETE": SETTLED | {"lock": WRONG},
    "RESUME_COMPLETE": SETTLED | {"resume": NOTHING},
    "SUSPEND_COMPLETE": SETTLED | NO_UPDATES | {"suspend": NOTHING},
    "SUSPEND_FAILED": SETTLED | NO_UPDATES,
    "DELETE_FAILED": SETTLED | NO_UPDATES,
    "DELETE_COMPLETE": {
        **dict.fromkeys(OPERATIONS, GONE), "create": 201, "lock": WRONG, "unlock": WRONG,
    },
    **{f"{verb}_IN_PROGRESS": IN_PROGRESS for verb in BUSY},
    "CREATE_IN_PROGRESS": IN_PROGRESS | {"cancel_without_rollback": 200},
    "UPDATE_IN_PROGRESS": IN_PROGRESS | {"cancel_without_rollback": 200, "cancel_update": 200},
    "DELETE_IN_PROGRESS": IN_PROGRESS,
    "LOCK_IN_PROGRESS": LOCKED,
    "UNLOCK_IN_PROGRESS": LOCKED,
    "LOCK_COMPLETE": LOCKED | {"lock": 200, "unlock": 200},
    "LOCK_FAILED": LOCKED | {"lock": 200, "unlock": 200, "delete": 204, "force": 204},
    "UNLOCK_FAILED": LOCKED | {"unlock": 200, "delete": 204, "force": 204},
}  # fmt: skip
HELD = {"LOCK_IN_PROGRESS", "UNLOCK_IN_PROGRESS", "LOCK_COMPLETE", "LOCK_FAILED", "UNLOCK_FAILED"}
"""States in which the record of a lock is there."""

LOCKABLE = sorted(
    name
    for name in EXPECTED
    if not name.endswith("IN_PROGRESS") and name not in HELD | {"INIT_COMPLETE", "DELETE_COMPLETE", "UNLOCK_COMPLETE"}
)
"""States that an unlock hides, but for UNLOCK_COMPLETE itself."""

STARTS = {
    "put": Verb.UPDATE, "patch": Verb.UPDATE, "undo": Verb.UPDATE, "delete": Verb.DELETE,
    "check": Verb.CHECK, "lock": Verb.LOCK,
    "unlock": Verb.UNLOCK, "suspend": Verb.SUSPEND, "resume": Verb.RESUME, "abandon": Verb.DELETE,
    "snapshot": Verb.SNAPSHOT, "restore": Verb.RESTORE,
    "force": Verb.DELETE, "check_resource": Verb.CHECK, "recover": Verb.UPDATE,
}  # fmt: skip
"""State of the stack after an accepted operation."""

# -- the bench ---------------------------------------------------------------------------------------


class Bench:
    """The real application on a database without a worker: queued actions stay queued."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "heat.db"
        server: Embedded = wiring.embedded(Settings(database=sqlite(folder)))
        server.close()
        self.app, self.store = server.app, server.store
        self.suppressed = server.components.admission.suppressed
        self.heat = Heat(server.app)
        self.routes = served_routes(server.app)

    def stack(
        self, verb: Verb, status: Status, queued: ActionStatus = ActionStatus.RUNNING, **more: Any
    ) -> StackRecord:
        """The only stack, in a state with its action, and one suppressed mark."""
        self.store.audit.flush()  # repeats that other tests have left in memory would come to the rows of this one
        with closing(sqlite3.connect(self.path, isolation_level=None)) as connection:
            for table in ("stack", "resource", "event", "action", "suppressed", "snapshot", "audit", "revision"):
                connection.execute(f"DELETE FROM {table}")
        return self.another("s", verb, status, queued, **more)

    def another(
        self, name: str, verb: Verb, status: Status, queued: ActionStatus = ActionStatus.RUNNING, **more: Any
    ) -> StackRecord:
        """One more stack."""
        now = NOW
        lock = LockRecord(LockLevel.STACKS, "anonymous", True, now) if state(verb, status) in HELD else None
        store = self.store
        with store.transaction():
            stack = StackRecord(
                id=new_id(),
                name=name,
                project="demo",
                username="anonymous",
                template_id=store.templates.put(MADE, {}),
                environment={},
                verb=verb,
                status=status,
                status_reason="",
                created_at=now,
                deleted_at=now if state(verb, status) == "DELETE_COMPLETE" else None,
                lock=lock,
                **more,
            )
            store.stacks.insert(stack)
            row = ResourceRecord(
                id=new_id(),
                stack_id=stack.id,
                name="a",
                type="OS::Heat::Value",
                mapped_type="OS::Heat::Value",
                verb=Verb.CREATE,
                status=Status.COMPLETE,
                status_reason="",
                created_at=now,
                physical_id="an object",
                properties={"value": "v"},
            )
            if stack.deleted_at is None:
                store.resources.insert_many([row])
            self.remember(stack, "a")
            if status is Status.IN_PROGRESS:
                action = ActionRecord(
                    id=new_id(),
                    stack_id=stack.id,
                    root_id=stack.root_id or stack.id,
                    project="demo",
                    verb=verb,
                    status=queued,
                    requested_by="anonymous",
                    created_at=now,
                    owner="somebody",
                    started_at=now if queued is ActionStatus.RUNNING else None,
                )
                store.queue.enqueue(action)
        return stack

    def remember(self, stack: StackRecord, resource: str) -> None:
        """Give the stack a snapshot, and a mark of a resource that was suppressed."""
        mark = SuppressedRecord(
            stack_id=stack.id,
            time=NOW,
            request="mark_unhealthy",
            target=resource,
            requested_by="anonymous",
            detail="",
            method="PATCH",
            path=f"/resources/{resource}",
            body={"mark_unhealthy": True},
        )
        record = {"template": MADE, "resources": {}}
        snapshot = SnapshotRecord(new_id(), stack.id, "n", Verb.CREATE, Status.COMPLETE, "", NOW, record)
        with self.store.transaction():
            self.store.snapshots.insert(snapshot)
            self.store.suppressed.add(mark, NOW)

    def content(self) -> dict[str, list[Any]]:
        """All there is in the database, with the repeats that are written a little later."""
        self.suppressed.flush()
        with closing(sqlite3.connect(self.path)) as connection:
            return {
                table: connection.execute(f"SELECT * FROM {table} ORDER BY 1").fetchall()
                for table in (
                    "template", "stack", "resource", "event", "action", "suppressed", "service", "snapshot",
                    "revision",
                )
            }

    def ask(self, stack: StackRecord, name: str, change: tuple[str, object] | None = None) -> Any:
        """Make the request of an operation; `change`: with another path and body."""
        route, below, body = OPERATIONS[name]
        below, body = change or (below, body)
        listed = [entry.id for entry in self.store.suppressed.list(stack.id) if entry.stack_id == stack.id]
        (number,) = listed[-1:] or [1]
        path = f"/stacks/{stack.name}/{stack.id}" + below.replace("suppressed/1", f"suppressed/{number}")
        if "SNAPSHOT" in path:
            path = path.replace("SNAPSHOT", self.store.snapshots.of(stack.id)[0].id)
        if name == "create":
            path = "/stacks"
        return self.heat.call(route.partition(" ")[0], path, body)


@pytest.fixture(scope="module")
def bench() -> Iterator[Bench]:
    memory = Path("/dev/shm")  # where there is one, a thousand commits cost nothing
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        bench = Bench(Path(folder))
        yield bench
        bench.store.close()


WITHOUT_COUNT = 12
"""Columns of a suppressed request before those that a repeat changes: the time of the last one, and the count."""


def new_suppressed(before: dict[str, list[Any]], after: dict[str, list[Any]]) -> list[Any]:
    """The entries of the suppressed log that have come; nothing else may have changed."""
    for name, rows in before.items():
        if name != "suppressed":
            assert after[name] == rows, f"the refused request has changed {name}"
    known = len(before["suppressed"])
    assert [row[:WITHOUT_COUNT] for row in after["suppressed"][:known]] == [
        row[:WITHOUT_COUNT] for row in before["suppressed"]
    ]
    return after["suppressed"][len(before["suppressed"]) :]


# -- the tests ---------------------------------------------------------------------------------------


def test_every_route_is_known(bench: Bench) -> None:
    """A new route must be put into one of the lists above before it can be merged."""
    known = READS | REDIRECTS | NO_STACK | NODES | BRAKES | CLOCKWORK | {route for route, _, _ in OPERATIONS.values()}
    found = {f"{method} {path}" for method, path in bench.routes if method != "GET"}
    assert found == known


def test_every_action_is_known() -> None:
    operations = {name for name, (route, _, _) in OPERATIONS.items() if route == f"POST {S}/actions"}
    added = {"heal", "revert_drift", "accept_drift", "import", "detach", "move", "undo"}
    assert {*ACTIONS, *added} == operations | ANSWERS | LATER


def test_every_state_is_known() -> None:
    never = {"INIT_IN_PROGRESS", "INIT_FAILED", *(state(Verb.RUN, status) for status in Status)}
    assert set(EXPECTED) == {state(verb, status) for verb in Verb for status in Status} - never
    assert all(set(row) == set(OPERATIONS) for row in EXPECTED.values())


def split(name: str) -> tuple[Verb, Status]:
    verb, _, status = name.partition("_")
    return Verb(verb), Status(status)


@pytest.mark.parametrize("operation", sampled(sorted(OPERATIONS), 7, pytest.mark.thorough))
@table("name", sorted(EXPECTED))
def test_matrix(bench: Bench, operation: str, name: str) -> None:
    expected = EXPECTED[name][operation]
    stack = bench.stack(*split(name))
    before = bench.content()
    answer = bench.ask(stack, operation)
    after = bench.content()
    is_refused = answer.status_int >= 400
    rows = [(row.status, row.outcome, row.times) for row in bench.store.audit.page("demo", AuditQuery())]
    assert rows == [(answer.status_int, AuditOutcome.REFUSED, 1) if is_refused else (None, AuditOutcome.DONE, 1)]
    if isinstance(expected, int):
        assert answer.status_int == expected, answer.text
        if (operation, name) != ("delete", "DELETE_IN_PROGRESS"):  # a repeated one asks for nothing more
            assert after != before, "an accepted request leaves something behind"
        if operation in STARTS:
            now = bench.store.stacks.get(stack.id)
            assert now is not None
            assert state(now.verb, now.status) == f"{STARTS[operation]}_IN_PROGRESS"
            assert bench.store.actions.live([stack.id])[-1].verb == STARTS[operation]
        return
    if expected == NOTHING:
        assert (answer.status_int, answer.text, after) == (200, "null", before)
        assert answer.headers["X-Heatlite-Ignored"] == "no_change"
        return
    assert (answer.status_int, answer.json["error"]["type"]) == (CODES[expected], expected), answer.text
    come = new_suppressed(before, after)
    # The mark is in the list already, and a request is listed once.
    listed = expected == MAINTENANCE and operation not in ("lock", "unlock", "mark", "replay")
    assert len(come) == listed
    (listed_before,) = [entry for entry in bench.store.suppressed.list(stack.id) if entry.time == NOW]
    assert listed_before.count == 1 + (operation == "mark" and expected == MAINTENANCE)


@pytest.mark.parametrize("operation", sampled(sorted(OPERATIONS), 7, pytest.mark.thorough))
@table("name", LOCKABLE)
def test_a_lock_and_an_unlock_change_nothing_of_what_can_be_done(bench: Bench, operation: str, name: str) -> None:
    """The answer is that of the state before the lock."""
    expected = EXPECTED[name][operation]
    stack = bench.stack(Verb.UNLOCK, Status.COMPLETE, before_lock=name)
    before = bench.content()
    answer = bench.ask(stack, operation)
    assert said(answer) == (200 if expected == NOTHING else expected), answer.text
    assert (bench.content() == before) == (isinstance(expected, str))
    if operation == "retry" and expected == 200:
        assert bench.store.actions.live([stack.id])[-1].verb == name.partition("_")[0]


@pytest.mark.parametrize("operation", sorted(OPERATIONS))
def test_a_queued_action_is_no_less_in_the_way(bench: Bench, operation: str) -> None:
    expected = EXPECTED["UPDATE_IN_PROGRESS"][operation]
    stack = bench.stack(Verb.UPDATE, Status.IN_PROGRESS, ActionStatus.READY)
    before = bench.content()
    answer = bench.ask(stack, operation)
    if isinstance(expected, int):
        assert answer.status_int == expected, answer.text
        return
    assert answer.json["error"]["type"] == ("ActionConflict" if expected == RUNNING else expected)
    assert new_suppressed(before, bench.content()) == []


# -- trees -------------------------------------------------------------------------------------------

WITHIN = {**template(x=value()), "parameters": {"v": {"type": "string"}}}


def around(a: str = "v", v: str = "v") -> dict[str, object]:
    """A request for a stack with a value and a nested stack of two levels; its inputs."""
    inner = {"type": "leaf.yaml", "properties": {"v": {"get_param": "v"}}}
    middle = {**template(leaf=inner), "parameters": {"v": {"type": "string"}}}
    files = {"middle.yaml": json.dumps(middle), "leaf.yaml": json.dumps(WITHIN)}
    document = template(a=value(a), n={"type": "middle.yaml", "properties": {"v": v}})
    return {"stack_name": "s", "template": document, "files": files}


class Tree:
    """Three stacks within each other, made by a real engine and then left alone."""

    def __init__(self, bench: Bench) -> None:
        self.bench = bench
        self.locks = 0
        bench.stack(Verb.DELETE, Status.COMPLETE)  # nothing else
        server = wiring.embedded(Settings(database=sqlite(bench.path.parent)))
        assert Heat(server.app).call("POST", "/stacks", around()).status_int == 201
        eventually(lambda: self.root().status is not Status.IN_PROGRESS)
        server.close()
        assert state(self.root().verb, self.root().status) == "CREATE_COMPLETE"
        stacks = (self.root(), *bench.store.stacks.descendants(self.root()))
        for stack, resource in zip(stacks, ("n", "leaf", "x"), strict=True):
            bench.remember(stack, resource)
        self.made = bench.content()

    def root(self) -> StackRecord:
        found = self.bench.store.stacks.by_name("demo", "s")
        assert found is not None
        return found

    def plant(self) -> tuple[StackRecord, StackRecord, StackRecord]:
        """The tree of root, middle and leaf, each with one suppressed mark on `a`."""
        with closing(sqlite3.connect(self.bench.path, isolation_level=None)) as connection:
            for table, rows in self.made.items():
                connection.execute(f"DELETE FROM {table}")
                for row in rows:
                    connection.execute(f"INSERT INTO {table} VALUES ({', '.join('?' * len(row))})", row)
        root = self.root()
        middle, leaf = self.bench.store.stacks.descendants(root)
        return root, middle, leaf

    def put_into(self, stack: StackRecord, name: str, locked: bool = True, **action: Any) -> StackRecord:
        """Bring a stack into a state, with the lock and the action that this state needs."""
        verb, status = split(name)
        self.locks += 1  # A new lock each time: what one has refused is listed once.
        lock = LockRecord(LockLevel.STACKS, "anonymous", True, NOW + self.locks) if locked and name in HELD else None
        stack = replace(stack, verb=verb, status=status, lock=lock)
        with self.bench.store.transaction():
            self.bench.store.stacks.save(stack)
            if status is Status.IN_PROGRESS:
                self.bench.store.queue.enqueue(
                    replace(
                        ActionRecord(
                            id=new_id(),
                            stack_id=stack.id,
                            root_id=stack.root_id or stack.id,
                            project="demo",
                            verb=verb,
                            status=ActionStatus.RUNNING,
                            requested_by="anonymous",
                            created_at=NOW,
                            started_at=NOW,
                        ),
                        **action,
                    )
                )
        return stack

    def ask(self, stack: StackRecord, operation: str, change: tuple[str, object] | None = None) -> Any:
        return self.bench.ask(stack, operation, change)


@pytest.fixture(scope="module")
def tree(bench: Bench) -> Tree:
    return Tree(bench)


NESTED = "HTTPBadRequest"
IN_TREES = sorted({*OPERATIONS} - {"create", "drop"})
"""Operations on other stacks of a tree."""
IN_LEAF = {
    "mark": "/resources/x",
    "signal": "/resources/x/signal",
    "check_resource": "/resources/x/actions",
    "recover": "/resources/x/actions",
}
"""Paths of operations on a resource of the innermost stack."""


def said(answer: Any) -> int | str:
    """The word for an error, else the code."""
    return str(answer.json["error"]["type"]) if answer.status_int >= 400 else int(answer.status_int)


@pytest.mark.parametrize("operation", sampled(IN_TREES, 4, pytest.mark.thorough))
@table("name", sorted(HELD))
def test_on_a_child_of_a_locked_stack(tree: Tree, operation: str, name: str) -> None:
    """The only operation is another lock, if the table lets it be locked again."""
    root, _, leaf = tree.plant()
    tree.put_into(root, name)
    leaf = tree.put_into(leaf, "LOCK_FAILED", locked=False)
    before = tree.bench.content()
    below = IN_LEAF.get(operation)
    answer = tree.ask(leaf, operation, None if below is None else (below, OPERATIONS[operation][2]))
    others = {"signal": NO_SIGNAL, "lock": EXPECTED[name]["lock"], "undo": NESTED}
    expected = others.get(operation, MAINTENANCE)
    assert said(answer) == expected, answer.text
    if expected == MAINTENANCE:
        assert "Stack s is under maintenance" in answer.json["error"]["message"]
        come = new_suppressed(before, tree.bench.content())
        assert len(come) == (operation not in ("lock", "unlock", "replay"))


TOUCHING: dict[str, tuple[str, object]] = {
    "put": ("", {**around(v="new")}),
    "patch": ("", {"template": around(v="new")["template"], "files": around()["files"]}),
    "mark": ("/resources/n", {"mark_unhealthy": True}),
    "marks": ("/resources", {"marks": [{"resource": "n", "mark_unhealthy": True}]}),
    "recover": ("/resources/n/actions", {"recover": {"operation": "RECREATE"}}),
    "heal": ("/actions", {"heal": {"resources": ["n"], "ignore": sorted(IGNORABLE)}}),
}
NOT_TOUCHING: dict[str, tuple[str, object]] = {
    "put": ("", {**around(a="new")}),
    "patch": ("", {}),
    "mark": ("/resources/a", {"mark_unhealthy": True}),
    "recover": ("/resources/a/actions", {"recover": {"operation": "RECREATE"}}),
    "heal": ("/actions", {"heal": {"resources": ["a"], "ignore": sorted(IGNORABLE)}}),
}


@pytest.mark.parametrize("operation", sampled(IN_TREES, 4, pytest.mark.thorough))
@table("touching", [True, False])
@table("name", sorted(HELD))
def test_on_the_parent_of_a_locked_child(tree: Tree, operation: str, name: str, touching: bool) -> None:
    """The locked stack decides; an update and a mark that leave it alone pass."""
    root, _, leaf = tree.plant()
    leaf = tree.put_into(leaf, name)
    before = tree.bench.content()
    answer = tree.ask(root, operation, (TOUCHING if touching else NOT_TOUCHING).get(operation))
    # Beside what runs on the child there is nothing to be done at all. (What is replayed is a mark of `n`.)
    free = ("protect", "unprotect")  # what concerns the parent alone
    held = dict.fromkeys((*free, "put", "patch", "recover", "heal", "revert_drift", "undo"), RUNNING)
    busy = {**held, "mark": BUSY_MARK, "marks": BUSY_MARK, "replay": BUSY_MARK}
    settled = {"put": 202, "patch": 202, "recover": 202, "heal": 200, "mark": 200, "marks": 200}
    may_lift = {"unlock": WRONG} if EXPECTED[name]["unlock"] == 200 else {}
    expected = {
        **{one: EXPECTED[name][one] for one in IN_TREES},
        **(dict.fromkeys(settled, MAINTENANCE) if touching else settled),
        **dict.fromkeys(free, 200),
        "revert_drift": WRONG,
        "undo": 200,  # the definition is as it was
        **(busy if name.endswith("IN_PROGRESS") else {}),
        **dict.fromkeys(("import", "detach", "move", "accept_drift"), MAINTENANCE),  # also for a lock below
        **may_lift,
        "signal": NO_SIGNAL,
        "cancel_update": UNSUPPORTED,
        "cancel_without_rollback": UNSUPPORTED,
    }[operation]
    assert said(answer) == expected, answer.text
    if expected == MAINTENANCE:
        assert f"Stack {leaf.name} is under maintenance" in answer.json["error"]["message"]
    if isinstance(expected, str):
        come = new_suppressed(before, tree.bench.content())
        assert len(come) == (expected == MAINTENANCE and operation not in ("lock", "unlock", "replay"))
    assert tree.bench.store.stacks.get(leaf.id) == leaf


@pytest.mark.parametrize("operation", sampled(IN_TREES, 4, pytest.mark.thorough))
@table("parked", [False, True])
@table("name", ["UPDATE_IN_PROGRESS", "CHECK_IN_PROGRESS"])
def test_on_a_child_of_a_stack_at_work(tree: Tree, operation: str, name: str, parked: bool) -> None:
    """An ancestor's action keeps a nested stack from every change, even deletion."""
    root, _, leaf = tree.plant()
    tree.put_into(root, name, status=ActionStatus.WAITING if parked else ActionStatus.RUNNING)
    below = IN_LEAF.get(operation)
    for own in ("CREATE_COMPLETE", name):
        leaf = tree.put_into(leaf, own)
        before = tree.bench.content()
        answer = tree.ask(leaf, operation, None if below is None else (below, OPERATIONS[operation][2]))
        others = {"signal": NO_SIGNAL, "mark": BUSY_MARK, "marks": BUSY_MARK, "replay": BUSY_MARK, "undo": NESTED}
        assert said(answer) == others.get(operation, RUNNING), answer.text
        assert new_suppressed(before, tree.bench.content()) == []


@pytest.mark.parametrize("operation", sampled(IN_TREES, 4, pytest.mark.thorough))
def test_on_the_parent_of_a_child_at_work(tree: Tree, operation: str) -> None:
    """A delete takes what runs below with it."""
    root, _, leaf = tree.plant()
    leaf = tree.put_into(leaf, "UPDATE_IN_PROGRESS")
    before = tree.bench.content()
    answer = tree.ask(root, operation)
    expected = {
        "delete": 204, "force": 204, "signal": NO_SIGNAL, "mark": BUSY_MARK, "marks": BUSY_MARK, "replay": BUSY_MARK,
        "cancel_update": UNSUPPORTED, "cancel_without_rollback": UNSUPPORTED,
    }.get(operation, RUNNING)  # fmt: skip
    assert said(answer) == expected, answer.text
    if expected != 204:
        assert new_suppressed(before, tree.bench.content()) == []


@pytest.mark.parametrize("name", sorted(EXPECTED))
def test_reads_are_free(bench: Bench, name: str) -> None:
    stack = bench.stack(*split(name))
    before = bench.content()
    path = f"/stacks/s/{stack.id}"
    gone = name == "DELETE_COMPLETE"
    fill = {"resource_name": "a", "output_key": "o"}
    fill |= dict.fromkeys(("event_id", "number", "schedule_id", "snapshot_id", "suppressed_id"), "1")
    for method, route in bench.routes:
        if route.startswith(S) and method == "GET":
            below = route[len(S) :].format(**fill)
            answer = bench.heat.call("GET", path + below)
            if not gone:
                # There is no such output, event, schedule or snapshot, no earlier revision, and no expiry.
                absent = ("/outputs/o", "/resources/a/events/1", "/resources/a/events", "/schedules/1", "/snapshots/1")
                missing = dict.fromkeys((*absent, "/revisions/1/diff", "/expiry"), 404)
                assert answer.status_int == missing.get(below, 200), (below, answer.text)
            assert answer.status_int in (200, 400, 404), (below, answer.text)
    for method, body in (("PUT", {"template": template(b=value())}), ("PATCH", {})):
        assert bench.heat.call(method, f"{path}/preview", body).status_int == (404 if gone else 200)
    assert bench.content() == before


def test_what_is_unknown_or_malformed_is_refused_before_the_lock_is_asked(bench: Bench) -> None:
    """No entry in the list of suppressed requests: a replay would be impossible."""
    stack = bench.stack(Verb.LOCK, Status.COMPLETE)
    before = bench.content()
    path = f"/stacks/s/{stack.id}"
    for method, below, body, code in (
        ("PATCH", "/resources/a", {"mark_unhealthy": 1}, 400),
        ("POST", "/actions", {"zz": None}, 400),
        ("POST", "/actions", {"lock": {"level": "zz"}}, 400),
        ("PUT", "", b"{", 400),
        ("PATCH", "x", {}, 404),
    ):
        assert bench.heat.call(method, path + below, body).status_int == code
    assert bench.content() == before


# -- signals -----------------------------------------------------------------------------------------

NOBODY: dict[str, object] = {"type": "OS::Heat::None"}
SCALED = template(
    handle={"type": "OS::Heat::WaitConditionHandle"},
    group={
        "type": "OS::Heat::AutoScalingGroup",
        "properties": {"min_size": 0, "max_size": 9, "resource": NOBODY},
    },
    policy={
        "type": "OS::Heat::ScalingPolicy",
        "properties": {
            "auto_scaling_group_id": "group", "adjustment_type": "change_in_capacity", "scaling_adjustment": 1,
        },
    },
)


def signalled(bench: Bench, name: str) -> tuple[StackRecord, StackRecord]:
    """A stack in a state, with a handle, a policy, its group and the nested stack."""
    stack = bench.stack(*split(name))
    nested = bench.another("nested", Verb.CREATE, Status.COMPLETE, parent_id=stack.id, root_id=stack.id)
    row = bench.store.resources.of(nested.id)[0]
    verb = stack.verb if stack.verb in (Verb.SUSPEND, Verb.DELETE) else Verb.CREATE
    definitions: Any = SCALED["resources"]
    rows = [
        replace(
            row,
            id=new_id(),
            stack_id=stack.id,
            name=resource,
            type=definition["type"],
            mapped_type=definition["type"],
            verb=verb,
            physical_name=resource,
            physical_id=nested.id if resource == "group" else resource,
            properties=definition.get("properties", {}),
        )
        for resource, definition in definitions.items()
    ]
    with bench.store.transaction():
        stack = replace(stack, template_id=bench.store.templates.put(SCALED, {}))
        bench.store.stacks.save(stack)
        if stack.deleted_at is None:
            bench.store.resources.insert_many(rows)
    return stack, nested


@pytest.mark.parametrize("where", ["above", "group", "member"])
@pytest.mark.parametrize("name", sorted(HELD))
@pytest.mark.parametrize("resource", ["handle", "policy"])
def test_signals_where_a_relative_is_locked(bench: Bench, resource: str, name: str, where: str) -> None:
    """A lock of ancestor, group or member prevents scaling; data signals pass."""
    stack, nested = signalled(bench, "CREATE_COMPLETE")
    root = stack if where != "above" else bench.another("above", *split(name))
    above = {"parent_id": root.id, "root_id": root.id}
    store = bench.store
    with store.transaction():
        if where == "above":
            stack = replace(stack, **above)
            store.stacks.save(stack)
            store.stacks.save(replace(nested, root_id=root.id))
        if where == "group":
            held = LockRecord(LockLevel.STACKS, "anonymous", True, NOW)
            verb, status = split(name)
            store.stacks.save(replace(nested, verb=verb, status=status, lock=held))
    if where == "member":
        member = bench.another("member", *split(name), parent_id=nested.id, root_id=root.id)
        (row,) = store.resources.of(nested.id)
        with store.transaction():
            store.resources.save_many([replace(row, physical_id=member.id)])
    before = bench.content()
    answer = bench.heat.call("POST", f"/stacks/s/{stack.id}/resources/{resource}/signal", {})
    assert (answer.status_int, answer.text) == (200, "null")
    if resource == "policy":
        (entry,) = new_suppressed(before, bench.content())
        assert {"signal", "policy", stack.id} <= set(entry)
    else:
        assert bench.content()["suppressed"] == before["suppressed"]
        assert len(bench.content()["event"]) == len(before["event"]) + 1


@pytest.mark.parametrize("name", sorted(EXPECTED))
@pytest.mark.parametrize("resource", ["handle", "policy"])
def test_signals_in_every_state(bench: Bench, resource: str, name: str) -> None:
    """Signals with data pass; scaling is ignored under a lock, which lists it."""
    stack, nested = signalled(bench, name)
    before = bench.content()
    answer = bench.heat.call("POST", f"/stacks/s/{stack.id}/resources/{resource}/signal", {})
    after = bench.content()
    if name == "DELETE_COMPLETE":
        assert (answer.status_int, after) == (404, before)
        return
    if stack.verb in (Verb.SUSPEND, Verb.DELETE):
        assert (answer.status_int, answer.json["error"]["type"]) == (400, UNSUPPORTED)
        (event,) = after.pop("event")[len(before.pop("event")) :]
        assert f"Cannot signal resource during {stack.verb}" in event
        assert after == before
        return
    assert (answer.status_int, answer.text) == (200, "null")
    if resource == "policy" and name in HELD:
        assert len(new_suppressed(before, after)) == 1
    elif resource == "policy" and stack.status is Status.IN_PROGRESS:
        (event,) = after.pop("event")[len(before.pop("event")) :]
        assert any(str(cell).startswith("Signal ignored: busy: ") for cell in event)
        assert after == before
    elif resource == "policy":
        (action,) = bench.store.actions.live([stack.id, nested.id])
        assert (action.stack_id, action.verb, action.parent_id) == (nested.id, Verb.UPDATE, None)
        found = bench.store.stacks.get(nested.id)
        assert found is not None
        assert state(found.verb, found.status) == "UPDATE_IN_PROGRESS"
        assert bench.store.stacks.get(stack.id) == stack
        assert [row.name for row in bench.store.resources.of(nested.id)] == ["a"], "that is the worker's"
    else:
        (handle,) = [row for row in bench.store.resources.of(stack.id) if row.name == "handle"]
        assert list(bench.store.messages.read(handle.id)) == ["1"]
        assert len(after.pop("event")) == len(before.pop("event")) + 1
        assert after == before


def test_a_replayed_signal_stays_listed_until_it_has_its_effect(bench: Bench) -> None:
    stack, nested = signalled(bench, "LOCK_COMPLETE")
    path = f"/stacks/s/{stack.id}"
    bench.heat.call("POST", f"{path}/resources/policy/signal", {}, code=200)
    entry = bench.store.suppressed.list(stack.id)[-1]
    assert entry.request == "signal"
    replay = f"{path}/lock/suppressed/{entry.id}/replay"
    before = bench.content()
    assert bench.heat.fault("POST", replay, code=409)[0] == MAINTENANCE
    assert bench.content() == before
    with bench.store.transaction():
        bench.store.stacks.save(replace(stack, verb=Verb.UNLOCK, lock=None))
        holder = replace(nested, verb=Verb.UPDATE, status=Status.IN_PROGRESS)
        bench.store.stacks.save(holder)
        bench.store.queue.enqueue(
            ActionRecord(
                id=new_id(), stack_id=nested.id, root_id=stack.id, project="demo", verb=Verb.UPDATE,
                status=ActionStatus.RUNNING, requested_by="anonymous", created_at=1.7e9, owner="somebody",
            )
        )  # fmt: skip
    assert bench.heat.fault("POST", replay, code=409)[0] == RUNNING
    assert bench.store.suppressed.list(stack.id)[-1] == entry
    (action,) = bench.store.actions.live([nested.id])
    with bench.store.transaction():
        bench.store.moves.finish(replace(action, owner="somebody"), ActionStatus.SUCCEEDED, "", 1.7e9)
        bench.store.stacks.save(nested)
    bench.heat.call("POST", replay, code=200)
    assert entry not in bench.store.suppressed.list(stack.id)
    assert [action.verb for action in bench.store.actions.live([nested.id])] == [Verb.UPDATE]
