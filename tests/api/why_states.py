"""Rows of a stack that have one reason each, for tests of the reasons.

They are written as they would be found, so that each pair can be made. No engine runs.
"""

from collections.abc import Callable, Mapping
from itertools import count
from types import MappingProxyType
from typing import Any

from msgspec import UNSET, Struct
from msgspec.json import encode
from msgspec.structs import replace

from heatlite import wiring
from heatlite.api.access.policy import PROVEN
from heatlite.core.actions.payloads import ActionData, ActionInputs, Bake, MemberChange, PlaybookStage
from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.differences import Difference
from heatlite.core.status import NOT_ROLLED_BACK, ActionStatus, LockLevel, Needs, Status, Verb
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState, Subject
from heatlite.features.approvals.store.store import ApprovalStore
from heatlite.features.drift.states import DriftRecord, DriftState
from heatlite.features.drift.store.store import DriftStore
from heatlite.features.healing.store.records import HealingPolicyRecord, HealingScopeRecord, IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import Brake, IncidentState
from heatlite.features.nodes.states import NodeActionState, NodeState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.store.store import ReadingStore
from heatlite.features.rules.errors import BECAUSE
from heatlite.store.audit import AuditOutcome, AuditRecord
from heatlite.store.records import (
    ActionRecord,
    LockRecord,
    ProtectionRecord,
    ResourceRecord,
    Restriction,
    ServiceRecord,
    StackRecord,
)
from heatlite.store.store import Store

from .conftest import Heat, new_project

POLICY = {"healing_policy": "2026-11-22", "mode": "propose"}
IDS = count(1)
RANDOM = "OS::Heat::RandomString"
NAMES = ("a", "b", "c", "d", "e", "f", "g")
"""Names of resources. The last one reads the one before."""
TEMPLATE = {
    "heat_template_version": "2021-04-16",
    "parameters": {"p": {"type": "string", "default": ""}},
}


def identifier() -> str:
    """An id that no other row has."""
    return f"00000000-0000-4000-8000-{next(IDS):012x}"


class World:
    """A stack at rest, and what the states write to it."""

    def __init__(self, server: wiring.Embedded, names: Mapping[str, str] = MappingProxyType({})) -> None:
        """`names` are others for its resources."""
        self._names = {name: names.get(name, name) for name in NAMES}
        self.store: Store = server.store
        self.repairs = server.components.repairs
        self.now = server.components.clock.now()
        self.heat: Heat = new_project(server)
        types = {name: "OS::Heat::TestResource" if key == "e" else RANDOM for key, name in self._names.items()}
        resources: dict[str, Any] = {name: {"type": one} for name, one in types.items()}
        read, reader = self._names["f"], self._names["g"]
        resources[reader]["properties"] = {"salt": {"get_resource": read}}
        self.path = self.heat.create({**TEMPLATE, "resources": resources}, wait=False)
        self.id = self.path.rpartition("/")[2]
        with self.store.transaction():
            (action,) = self.store.actions.live([self.id])
            self.store.moves.end(action, ActionStatus.SUCCEEDED, "", self.now)
            self.store.stacks.save(
                replace(
                    self.stack, verb=Verb.CREATE, status=Status.COMPLETE,
                    status_reason="Stack CREATE completed successfully",
                )
            )
            self.store.resources.insert_many([
                ResourceRecord(
                    identifier(), self.id, name, one, one, Verb.CREATE, Status.COMPLETE, "state changed", self.now,
                    self.now, name, name, {} if one == RANDOM else {"value": "test_string"},
                )
                for name, one in types.items()
            ])
            row = replace(self.row("g"), properties={"salt": read}, requires=(read,), uses=(self.row("f").id,))
            self.store.resources.save_many([row])
            self.engine(is_up=True)

    @property
    def stack(self) -> StackRecord:
        found = self.store.stacks.get(self.id)
        assert found is not None
        return found

    def row(self, name: str) -> ResourceRecord:
        (found,) = self.store.resources.by_name(self.id, [self._names[name]])
        return found

    def restrict(self, name: str, *actions: str) -> None:
        """Forbid actions on a resource."""
        blocks = {"resources": {self._names[name]: {"restricted_actions": [*actions]}}}
        self.store.stacks.save(
            replace(self.stack, environment={**self.stack.environment, "resource_registry": blocks})
        )

    def mark(self, name: str) -> None:
        row = replace(self.row(name), verb=Verb.CHECK, status=Status.FAILED, status_reason="disk errors")
        self.store.resources.save_many([row])

    def protect(self, name: str) -> None:
        self.store.resources.save_many([replace(self.row(name), protection=ProtectionRecord("mia", self.now))])

    def engine(self, is_up: bool, **limits: Any) -> None:
        self.store.services.remove([one.id for one in self.store.services.list()])
        if is_up:
            self.store.services.heartbeat(ServiceRecord("e", "host", "heat-engine", self.now, self.now, **limits))

    def action(self, verb: Verb, status: ActionStatus, stack_id: str = "", **more: Any) -> ActionRecord:
        """An action in the status."""
        own = ActionRecord(
            identifier(), stack_id or self.id, stack_id or self.id, self.heat.project, verb, ActionStatus.INIT, "mia",
            self.now,
        )
        depends_on = more.pop("depends_on", [])
        if status is ActionStatus.INIT:
            own = replace(own, **more)
            self.store.queue.schedule(own, depends_on)
            return own
        self.store.queue.enqueue(own, depends_on)
        table = self.store.actions._actions
        for after, columns in MOVES_TO[status]:
            found = self.store.actions.get(own.id)
            assert found is not None
            given = {name: self.now if value is NOW else value for name, value in {**columns, **more}.items()}
            table.move(found, after, self.now, **given)
        found = self.store.actions.get(own.id)
        assert found is not None
        return found

    def why(self) -> Any:
        return self.heat.get(f"{self.path}/why")


NOW = object()
RUNNING = (ActionStatus.RUNNING, {"owner": "e", "lease_until": NOW, "started_at": NOW})
MOVES_TO: Mapping[ActionStatus, Any] = {
    ActionStatus.READY: (),
    ActionStatus.RUNNING: (RUNNING,),
    ActionStatus.WAITING: (),
    ActionStatus.SUSPENDED: ((ActionStatus.SUSPENDED, {"suspended_at": NOW}),),
}


class State(Struct, frozen=True):
    """A reason that a stack may have."""

    write: Callable[[World], None]
    codes: frozenset[str]
    """The codes of its facts."""
    uses: frozenset[str] = frozenset()
    """Parts that two states cannot both use: ``action``, a resource …"""


def _state(*codes: str, uses: str = "") -> Callable[[Callable[[World], None]], Callable[[World], None]]:
    def add(write: Callable[[World], None]) -> Callable[[World], None]:
        STATES[write.__name__] = State(write, frozenset(codes), frozenset(uses.split()))
        return write

    return add


STATES: dict[str, State] = {}


@_state("locked")
def locked(world: World) -> None:
    lock = LockRecord(LockLevel.STACKS, "mia", False, world.now, "rack 7")
    stack = world.stack
    before = None if stack.before_lock else f"{stack.verb}_{stack.status}"
    world.store.stacks.save(
        replace(stack, verb=Verb.LOCK, status=Status.COMPLETE, lock=lock, before_lock=before or stack.before_lock)
    )


@_state("protected")
def protected(world: World) -> None:
    world.store.stacks.save(replace(world.stack, protection=ProtectionRecord("mia", world.now, "production")))


@_state("protected", uses="a plan")
def protected_resource(world: World) -> None:
    row = world.row("a")
    world.store.resources.save_many([replace(row, protection=ProtectionRecord("mia", world.now))])


@_state("marked", uses="b")
def marked(world: World) -> None:
    world.mark("b")


@_state("marked", "protected", uses="b plan")
def protected_mark(world: World) -> None:
    """No repair replaces it until it is unprotected."""
    marked(world)
    world.protect("b")


@_state("marked", uses="b plan environment")
def restricted_mark(world: World) -> None:
    """No repair replaces it."""
    marked(world)
    world.restrict("b", "replace")


@_state("marked", uses="f plan")
def marked_and_read(world: World) -> None:
    """Its repair replaces another one, too."""
    world.mark("f")


@_state("marked", "protected", uses="f plan")
def read_by_protected(world: World) -> None:
    marked_and_read(world)
    world.protect("g")


@_state("marked", uses="f plan environment")
def read_by_restricted(world: World) -> None:
    marked_and_read(world)
    world.restrict("g", "replace")


@_state("incident_held", uses="f plan")
def incident_and_read(world: World) -> None:
    _incident(world, "f", IncidentState.OBSERVED, reason=Brake.CONFIRMING)


@_state("failed", "protected", uses="c state plan")
def failed_and_protected(world: World) -> None:
    """A retry replaces it."""
    failed(world)
    world.protect("c")


@_state("failed", "marked", uses="b c state")
def failed_and_marked(world: World) -> None:
    """A failed stack holds each repair."""
    marked(world)
    _failed(world, "No space")


@_state("failed", uses="c state")
def failed(world: World) -> None:
    _failed(world, "No space")


@_state("failed", "quota", uses="c state")
def over_quota(world: World) -> None:
    _failed(world, "OverQuota: quota exceeded for cores")


def _failed(world: World, reason: str) -> None:
    row = replace(world.row("c"), verb=Verb.CREATE, status=Status.FAILED, status_reason=reason)
    world.store.resources.save_many([row])
    _in_state(world, Verb.CREATE, Status.FAILED, f"Resource CREATE failed: {reason}")


@_state("leftover", uses="c state")
def leftover(world: World) -> None:
    row = replace(world.row("c"), verb=Verb.DELETE, status=Status.FAILED, status_reason="in use by port x")
    world.store.resources.save_many([row])
    _in_state(world, Verb.UPDATE, Status.FAILED, "Resource UPDATE failed: in use by port x")


@_state("failed", "no_rollback", uses="state")
def no_rollback(world: World) -> None:
    _in_state(world, Verb.UPDATE, Status.FAILED, f"x. {NOT_ROLLED_BACK}the clean-up had begun")


@_state("failed", "no_rollback", uses="action state plan")
def update_failed(world: World) -> None:
    """There is an earlier definition."""
    world.heat.call("PATCH", world.path, {"tags": "x"}, code=202)
    (action,) = world.store.actions.live([world.id])
    world.store.moves.end(action, ActionStatus.FAILED, "No space", world.now)
    _in_state(world, Verb.UPDATE, Status.FAILED, "Resource UPDATE failed: No space")


@_state("failed", uses="state")
def delete_failed(world: World) -> None:
    _in_state(world, Verb.DELETE, Status.FAILED, "in use")


def _in_state(world: World, verb: Verb, status: Status, reason: str) -> None:
    stack = world.stack
    if stack.lock is None:
        world.store.stacks.save(replace(stack, verb=verb, status=status, status_reason=reason))
    else:
        world.store.stacks.save(replace(stack, before_lock=f"{verb}_{status}", status_reason=reason))


@_state("scheduled")
def scheduled(world: World) -> None:
    world.action(Verb.CHECK, ActionStatus.INIT, not_before=world.now + 3600)


@_state("running", uses="action")
def running(world: World) -> None:
    world.action(Verb.CHECK, ActionStatus.RUNNING)


@_state("queued", uses="action")
def queued(world: World) -> None:
    world.action(Verb.CHECK, ActionStatus.READY)


@_state("suspended_action", uses="action")
def suspended_action(world: World) -> None:
    world.action(Verb.CHECK, ActionStatus.SUSPENDED)


@_state("queued", "no_engine", uses="action")
def no_engine(world: World) -> None:
    world.action(Verb.CHECK, ActionStatus.READY)
    world.engine(is_up=False)


@_state("retrying", uses="action")
def retrying(world: World) -> None:
    action = world.action(Verb.CHECK, ActionStatus.RUNNING)
    world.store.moves.requeue(action, "the cloud is away", world.now, world.now + 600)


@_state("queued", "worker_kind", uses="action")
def worker_kind(world: World) -> None:
    action = world.action(Verb.CHECK, ActionStatus.READY)
    world.store.database.write("UPDATE action SET zone = 'rack7' WHERE id = ?", (action.id,))
    world.engine(is_up=True, zones=("rack8",))


@_state("queued", "dependency", uses="action")
def dependency(world: World) -> None:
    other = world.action(Verb.CHECK, ActionStatus.RUNNING, stack_id=identifier())
    world.action(Verb.CHECK, ActionStatus.WAITING, depends_on=[(other.id, Needs.END)])


@_state("running", "hook", uses="action d")
def hook(world: World) -> None:
    world.action(Verb.CREATE, ActionStatus.RUNNING)
    row = replace(world.row("d"), status=Status.IN_PROGRESS, token={"hook": "pre-create"})
    world.store.resources.save_many([row])


@_state("running", "retrying", uses="action d")
def retried_resource(world: World) -> None:
    world.action(Verb.UPDATE, ActionStatus.RUNNING)
    token: Any = {"attempts": 1, "starts_at": world.now + 60}
    row = replace(world.row("d"), verb=Verb.DELETE, status=Status.IN_PROGRESS, token=token)
    world.store.resources.save_many([replace(row, status_reason="Attempt 2 of 6, after: in use")])


@_state("approval")
def unapproved_run(world: World) -> None:
    stages = (PlaybookStage("s", "all", 1),)
    inputs = ActionInputs(playbook="restart", digest="d" * 64, stages=stages)
    run = world.action(Verb.RUN, ActionStatus.INIT, inputs=inputs, pending=1)
    node = _node(world, "a", NodeState.UP)
    _work(world, node, NodeActionState.PENDING_APPROVE, run_id=run.id, stage=0, turn=False)


@_state("approval")
def unapproved_work(world: World) -> None:
    _work(world, _node(world, "a", NodeState.UP), NodeActionState.PENDING_APPROVE)


@_state("node_unreachable", uses="a")
def node_unreachable(world: World) -> None:
    node = _node(world, "a", NodeState.UNREACHABLE, reason="nothing listens there")
    _work(world, node, NodeActionState.PENDING_SCHEDULE)


@_state("node_unhealthy", "marked", uses="b")
def node_unhealthy(world: World) -> None:
    marked(world)
    _work(world, _node(world, "b", NodeState.UP), NodeActionState.PENDING_SCHEDULE)


def _node(world: World, name: str, state: NodeState, reason: str = "") -> NodeRecord:
    rows, row = world.store.of(NodeStore), world.row(name)
    node = NodeRecord(
        row.id, world.id, world.id, world.heat.project, row.name, "http://127.0.0.1:1", "s" * 32, "", 0, "1", (), False,
        state, reason, world.now,
    )
    if rows.nodes.get(row.id) is None:
        rows.nodes.insert(node)
    return node


def _work(world: World, node: NodeRecord, state: NodeActionState, **more: Any) -> None:
    world.store.of(NodeStore).node_actions.insert_many([
        NodeActionRecord(
            identifier(), node.project, node.stack_id, node.root_id, node.id, node.name, "script", {}, "e" * 64, state,
            Requester.USER, "mia", world.now, world.now, **more,
        )
    ])


@_state("incident_held")
def incident_held(world: World) -> None:
    _incident(world, "a", IncidentState.OBSERVED, reason=Brake.IN_GRACE, also=(Brake.CONFIRMING,))


@_state("incident_held", "storm")
def storm(world: World) -> None:
    world.store.of(HealingStore).sources.begin_storm(world.heat.project, "grafana", world.now)
    _incident(world, "b", IncidentState.OBSERVED, source="grafana", reason=Brake.STORM)


@_state("breaker", "scope_suspended")
def scopes(world: World) -> None:
    record = HealingScopeRecord(world.id, "type:OS::Heat::RandomString", world.now, True, 3)
    world.store.of(HealingStore).scopes.save(record)


def _incident(world: World, name: str, state: IncidentState, source: str = "alertmanager", **more: Any) -> None:
    row = world.row(name)
    world.store.of(HealingStore).incidents.insert_many([
        IncidentRecord(
            identifier(), world.heat.project, source, world.id, world.id, row.name, row.name,
            "type:OS::Heat::RandomString", row.id, row.physical_id or "", state, world.now, world.now,
            due=world.now + 1e6, summary="ServerDown", **more,
        )
    ])


@_state("approval", "marked", uses="d plan")
def proposed(world: World) -> None:
    policy = HealingPolicyRecord(world.id, {**POLICY, "max_unhealthy": 4}, 1, "mia", world.now)
    world.store.of(HealingStore).policies.put(policy)
    row = replace(world.row("d"), verb=Verb.CHECK, status=Status.FAILED, status_reason="ServerDown")
    world.store.resources.save_many([row])
    plan = world.repairs.plan(world.stack, Selection({row.name: RepairStep.REPLACE}))
    _incident(
        world, "d", IncidentState.PROPOSED, evidence_since=world.now, reason=Brake.AWAITING_APPROVAL,
        plan_digest=plan.shown.digest, is_marked=True,
    )


@_state("node_refused")
def node_refused(world: World) -> None:
    row = world.row("c")
    world.store.audit.insert(
        AuditRecord(
            identifier(), world.heat.project, world.now, f"machine:{row.physical_name}", "", "127.0.0.1", "PUT", "x",
            PROVEN, world.id, "s", "c", outcome=AuditOutcome.REFUSED, status=400, reason="node_hosts does not list it",
            last_time=world.now,
        )
    )


@_state("plan_changed", uses="action state")
def plan_changed(world: World) -> None:
    refused = world.heat.call("PATCH", world.path, {"tags": "x", "plan_digest": "0" * 64})
    assert refused.status_int == 409, refused.text
    world.store.audit.flush()


@_state("rule_denied", uses="action state")
def rule_denied(world: World) -> None:
    reason = f"Stack s is left as it is, {BECAUSE}: no-ssh (operator): a: SSH is open"
    world.store.audit.insert(
        AuditRecord(
            identifier(), world.heat.project, world.now + 9, "mia", "", "127.0.0.1", "PUT", "x", "stacks:update",
            world.id, "s", outcome=AuditOutcome.REFUSED, status=403, reason=reason, last_time=world.now + 9,
        )
    )


@_state("restricted")
def restricted(world: World) -> None:
    world.store.stacks.save(replace(world.stack, restricted=Restriction(world.now, identifier(), ("a", "b"), True)))


@_state("baking", uses="action state")
def baking(world: World) -> None:
    action = world.action(Verb.UPDATE, ActionStatus.RUNNING)
    _in_state(world, Verb.UPDATE, Status.IN_PROGRESS, "Baking")
    data = encode(ActionData(guard=Bake(world.now, world.now + 600))).decode()
    sql = "UPDATE action SET status = 'WAITING', owner = NULL, lease_until = NULL, data = ? WHERE id = ?"
    world.store.database.write(sql, (data, action.id))


@_state("approval")
def unapproved_update(world: World) -> None:
    """An approval that no action waits for."""
    world.store.of(ApprovalStore).insert(
        ApprovalRecord(
            identifier(), world.heat.project, Subject.UPDATE, ApprovalState.PENDING, "s", world.id, "d" * 64, "mia",
            "mia", world.now, identifier(), because=("approve:removals",),
        )
    )


@_state("scheduled", uses="state")
def expires(world: World) -> None:
    world.heat.call("PUT", f"{world.path}/expiry", {"expires_at": "2099-01-01T00:00:00Z", "then": "suspend"}, code=200)


@_state("scheduled", uses="state")
def follows_a_schedule(world: World) -> None:
    body = {"name": "night", "cron": "0 20 * * 1-5", "timezone": "Europe/Vienna", "do": {"suspend": {}}}
    world.heat.call("POST", f"{world.path}/schedules", body, code=201)


@_state("drain", uses="action")
def drain(world: World) -> None:
    deletion = ActionData(deletion=MemberChange(1, ("0",)))
    action = world.action(Verb.UPDATE, ActionStatus.READY)
    world.store.database.write(
        "UPDATE action SET not_before = ?, data = ? WHERE id = ?",
        (world.now + 60, encode(deletion).decode(), action.id),
    )


@_state("behind")
def behind(world: World) -> None:
    reading = Reading(identifier(), world.heat.project, world.id, "p", identifier(), "base", "o", "x", world.now, "")
    world.store.of(ReadingStore).insert([reading])
    world.store.stacks.save(replace(world.stack, environment={**world.stack.environment, "parameters": {"p": "x"}}))


@_state("drift", uses="e")
def drift(world: World) -> None:
    _drifts(world, {"live": "by hand"}, Difference("/value", "test_string", "by hand"))


@_state("drift", uses="e plan")
def drift_that_ended(world: World) -> None:
    """Somebody has put it back."""
    _drifts(world, {}, Difference("/value", "test_string", "by hand"))


@_state("drift", uses="e plan environment")
def restricted_drift(world: World) -> None:
    drift(world)
    world.restrict("e", "update")


@_state("drift", uses="e plan")
def drift_out_of_place(world: World) -> None:
    """Only another object has what the definition says."""
    _drifts(world, {"live": "by hand"}, Difference("/update_replace_value", UNSET, "by hand"))


def _drifts(world: World, data: Any, difference: Difference) -> None:
    row = world.row("e")
    world.store.resources.save_many([replace(row, data=data)])
    record = DriftRecord(
        row.id, world.heat.project, world.id, world.id, DriftState.DRIFTED, world.now, world.now,
        differences=(difference,), number=1,
    )
    world.store.of(DriftStore)._table.insert([record])


PAIRS = [
    tuple(sorted((one, other), key=lambda name: name == "locked"))
    for one in STATES
    for other in STATES
    if one < other and STATES[one].uses.isdisjoint(STATES[other].uses)
]
"""States that can be together. A lock is written last."""
