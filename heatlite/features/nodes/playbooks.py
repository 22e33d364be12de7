"""Playbooks: stored per project, run on the nodes of a tree after approval.

A run is an action on the root of a tree. Until approval it holds nothing; approval passes admission, which a
maintenance lock permits. `runs` continues from there.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Literal, cast

from msgspec import UNSET, Struct
from msgspec.structs import replace

from heatlite.core.actions.decisions import DecisionStep
from heatlite.core.actions.payloads import ActionInputs, PlaybookStage
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    EntityNotFound,
    Forbidden,
    HTTPBadRequest,
    InvalidActionState,
    RequestLimitExceeded,
    StackNotFound,
)
from heatlite.core.ids import random_id
from heatlite.core.json import AnyMap, Json, canonical
from heatlite.core.status import ActionStatus, Result, Verb
from heatlite.engine.admission.admission import Admission, audit, zone_of
from heatlite.engine.execution.termination import outputs
from heatlite.engine.operations.scheduled_actions import MAX_SCHEDULED
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import Span
from heatlite.engine.state.ways_out import acting
from heatlite.engine.types.outputs import StackReader
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.playbook_text import NodeAttribute, Playbook, Stage, read_playbook
from heatlite.features.nodes.runs import decision_of_run
from heatlite.features.nodes.states import NodeActionState, PlaybookChanged, Requester
from heatlite.features.nodes.store.records import NodeActionRecord, NodePlaybookRecord, NodeRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import NodeLedger, decision_line, new_action
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.expression import select

MAX_NODE_ACTIONS = 10_000
"""Maximum of node actions per run."""
APPROVE = "node_playbooks:approve"
"""Policy rule for the approval of a run."""
MAX_PLAYBOOKS = 100
"""Maximum number of playbooks of a project. The length of each is limited, too."""
NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,254}")
METADATA = "metadata"
"""Name that stands for a resource's metadata instead of an attribute."""


class RunRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """A new run, of a name or of a text."""

    playbook: str | None = None
    """The name of the playbook."""
    document: str | AnyMap | None = None
    """A playbook that is not kept, text or object; instead of ``playbook``."""
    approval: Literal["required", "granted"] = "required"
    """``required``: it must be approved; ``granted``: this request approves it.

    ``granted`` is for callers who may approve, and only without the setting ``node_approval_by_another``.
    """
    timeout: Span | None = None
    """Seconds from the approval on. Then the run fails, and what has not ended is cancelled.

    Default: what the stack says, else the installation.
    """
    dry_run: bool = False
    """``true`` only shows the effect."""

    @property
    def granted(self) -> bool:
        """True if the request approves the run, too."""
        return self.approval == "granted"


class PlannedStage(Struct, frozen=True):
    """A stage with its nodes in order."""

    stage: Stage
    nodes: tuple[NodeRecord, ...]


class RunPlan(Struct, frozen=True):
    """Preview of a run."""

    stages: tuple[PlannedStage, ...]
    digest: str
    """Digest of the actions, their nodes and limits: equal for equal plans."""


class Playbooks:
    """Stores and runs playbooks."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        admission: Admission,
        reader: StackReader,
        ledger: NodeLedger,
    ) -> None:
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._settings = settings
        self._by_another = settings.of(NodeSettings).node_approval_by_another
        self._admission = admission
        self._reader = reader
        self._ledger = ledger

    # -- kept ----------------------------------------------------------------------------------------

    def put(self, context: Context, name: str, document: str) -> bool:
        """Store a playbook under a name, or replace it. Returns True for a new one.

        Raises HTTPBadRequest for an invalid name, RequestLimitExceeded, and as `read_playbook`.
        """
        if not NAME.fullmatch(name):
            raise HTTPBadRequest(
                f"{name[:80]} is no name for a playbook: that is up to 255 letters, digits, _, - and ., a letter first."
            )
        read_playbook(document)
        now, project = self._clock.now(), context.project
        with self._store.transaction():
            self._store.limit_locks.take(f"playbooks of {project}")
            is_new = self._rows.playbooks.put(NodePlaybookRecord(project, name, document, context.user, now, now))
            if is_new and self._rows.playbooks.count(project) > MAX_PLAYBOOKS:
                raise RequestLimitExceeded(
                    message=f"The project has {MAX_PLAYBOOKS} playbooks, and may not have more. Delete one first."
                )
        return is_new

    def get(self, project: str, name: str) -> NodePlaybookRecord:
        """Return a playbook of a project. Raises EntityNotFound."""
        found = self._rows.playbooks.get(project, name)
        if found is None:
            raise EntityNotFound(f"The Playbook ({name}) could not be found.")
        return found

    def delete(self, project: str, name: str) -> None:
        """Delete a playbook; its runs continue. Raises EntityNotFound."""
        with self._store.transaction():
            if not self._rows.playbooks.delete(project, name):
                raise EntityNotFound(f"The Playbook ({name}) could not be found.")

    # -- run -----------------------------------------------------------------------------------------

    def plan(self, stack: StackRecord, request: RunRequest) -> RunPlan:
        """Preview a run on the current nodes of the tree.

        Raises HTTPBadRequest, EntityNotFound, RequestLimitExceeded.
        """
        if stack.parent_id is not None:
            raise HTTPBadRequest("A playbook is run on a whole tree of stacks: name the stack at its root.")
        playbook = self._read(stack.project, request)
        nodes = sorted(self._rows.nodes.of_root(stack.id), key=_by_name)
        stages = tuple(PlannedStage(stage, self._chosen(stack, stage, nodes)) for stage in playbook.stages)
        count = sum(len(planned.nodes) for planned in stages)
        if count > MAX_NODE_ACTIONS:
            raise RequestLimitExceeded(message=f"{count} node actions in one run; there may be {MAX_NODE_ACTIONS}.")
        return RunPlan(stages, self._digest(stages))

    def run(self, context: Context, stack: StackRecord, request: RunRequest) -> str:
        """Enqueue a run for approval. Returns the id of its action.

        With `granted` it is approved at once. Raises as `plan`, and as `approve` if granted; StackNotFound,
        RequestLimitExceeded.
        """
        if request.granted and not context.may(APPROVE):
            raise Forbidden(action=APPROVE)
        if request.granted and self._by_another:
            raise Forbidden('Another user must approve the run (node_approval_by_another): leave out "approval".')
        with self._store.transaction():
            held = self._store.stacks.lock(stack.id)
            if held is None or held.deleted_at is not None:
                raise StackNotFound(name=stack.name)
            if self._store.queue.count_scheduled(stack.id) >= MAX_SCHEDULED:
                raise RequestLimitExceeded(
                    message=f"{MAX_SCHEDULED} actions on stack {stack.name} wait to be approved, or for their time."
                )
            plan = self.plan(held, request)
            stages = tuple(map(_described, plan.stages))
            inputs = ActionInputs(playbook=request.playbook, digest=plan.digest, stages=stages)
            run = replace(
                self._admission.new_action(context, held, Verb.RUN, inputs), pending=1, deadline=None
            )
            run = replace(run, timeout=request.timeout or run.timeout)
            self._store.queue.schedule(run)
            context.queued.append(run.id)
            actions = [
                self._node_action(run, number, planned.stage, node)
                for number, planned in enumerate(plan.stages)
                for node in planned.nodes
            ]
            self._ledger.put(actions, [decision_line(one, context, "") for one in actions])
            if request.granted:
                self._decide(DecisionStep.GRANTED, run, context)
                self._approve(context, run, plan.digest)
            else:
                nodes = dict.fromkeys(node.name for planned in plan.stages for node in planned.nodes)
                self._decide(DecisionStep.ASKED, run, context, tuple(nodes))
        audit.info("run of a playbook stack=%s action=%s by=%s", stack.id, run.id, context.user)
        return run.id

    def approve(self, context: Context, run: ActionRecord, digest: str | None = None) -> ActionRecord:
        """Approve and start a run. Returns it as stored.

        Raises the refusal of admission; InvalidActionState if it was approved, rejected or cancelled before;
        PlaybookChanged if it differs from `digest`; Forbidden.
        """
        with self._store.transaction():
            self._approve(context, run, digest)
            after = self._store.actions.get(run.id)
        assert after is not None
        return after

    def _approve(self, context: Context, run: ActionRecord, digest: str | None) -> None:
        run, stack = self._unapproved(run), self._stack(run)
        with self._admission.admitted(self._admission.precheck_action(context, Operation.RUN, stack)) as stack:
            if self._by_another and run.requested_by == context.user:
                raise Forbidden(
                    "You have requested the run yourself: another user must approve it (node_approval_by_another)."
                )
            if digest is not None and digest != run.inputs.digest:
                raise PlaybookChanged(action_id=run.id, digest=run.inputs.digest, holder=acting(run))
            self._decide(DecisionStep.APPROVED, run, context)
            now = self._clock.now()
            deadline = now + self._settings.time_limit(run.timeout)
            started = replace(run, zone=zone_of(stack), deadline=deadline, started_at=now, updated_at=now)
            self._store.queue.admit(started)
            state, by = NodeActionState.PENDING_SCHEDULE, context.user
            approved = [
                replace(one, state=state, approved_by=by, approved_at=now, updated_at=now)
                for one in self._rows.node_actions.of_run(run.id)
            ]
            self._ledger.record(approved, [decision_line(one, context, "approved with its run") for one in approved])
        audit.info("approve stack=%s action=%s by=%s", stack.id, run.id, context.user)

    def reject(self, context: Context, run: ActionRecord) -> ActionRecord:
        """Reject a run before approval, with its node actions.

        Returns it as stored. Raises InvalidActionState.
        """
        with self._store.transaction():
            run = self._unapproved(run)
            reason = f"Rejected by {context.user}"
            told = outputs(Result.CANCEL, reason)
            self._decide(DecisionStep.REJECTED, run, context)
            self._store.moves.end(run, ActionStatus.CANCELLED, reason, self._clock.now(), told)
            after = self._store.actions.get(run.id)
        assert after is not None
        audit.info("reject stack=%s action=%s by=%s", run.stack_id, run.id, context.user)
        return after

    def _decide(
        self, step: DecisionStep, run: ActionRecord, context: Context, nodes: tuple[str, ...] = ()
    ) -> None:
        """Tell of a step of the decision about a run. Raises what refuses it."""
        self._store.listeners.decided(decision_of_run(step, run, context, nodes))

    def _stack(self, run: ActionRecord) -> StackRecord:
        stack = self._store.stacks.get(run.stack_id)
        if stack is None:
            raise StackNotFound(name=run.stack_id)
        return stack

    def _unapproved(self, run: ActionRecord) -> ActionRecord:
        """Lock the run and its stack until the transaction ends, and return the run.

        Raises InvalidActionState, EntityNotFound.
        """
        self._store.stacks.lock(run.stack_id)
        taken = self._store.actions.lock(run.id)
        if taken is None or taken.verb is not Verb.RUN:
            raise EntityNotFound(f"The Run of a playbook ({run.id}) could not be found.")
        if taken.status is not ActionStatus.INIT:
            hint = "only what waits for approval can be approved or rejected."
            raise InvalidActionState(
                action_id=taken.id, action=taken.verb, status=taken.status, control="", hint=hint,
                holder=acting(taken),
            )  # fmt: skip
        return taken

    def _node_action(self, run: ActionRecord, number: int, stage: Stage, node: NodeRecord) -> NodeActionRecord:
        digest = self._rows.node_actions.digest(stage.kind, stage.args, node.id)
        state, by = NodeActionState.PENDING_APPROVE, run.requested_by
        action = new_action(
            node, random_id(), stage.kind, stage.args, digest, state, Requester.PLAYBOOK, by, run.created_at
        )
        return replace(action, turn=False, run_id=run.id, stage=number)

    # -- what it comes to ----------------------------------------------------------------------------

    def _read(self, project: str, request: RunRequest) -> Playbook:
        if request.playbook is None:
            return read_playbook(request.document)
        return read_playbook(self.get(project, request.playbook).document, request.playbook)

    def _chosen(self, stack: StackRecord, stage: Stage, nodes: Sequence[NodeRecord]) -> tuple[NodeRecord, ...]:
        """Return the nodes of a stage, in order.

        Raises HTTPBadRequest if there are none, or if one is missing or cannot run the stage.
        """
        if stage.names is not None:
            chosen = [_named(stage, name, nodes) for name in stage.names]
        elif stage.attribute is not None:
            chosen = list(self._with(stage.attribute, stack, nodes))
        else:
            chosen = list(nodes)
        if not chosen:
            raise HTTPBadRequest(f"Stage {stage.name}: no node of stack {stack.name} is chosen.")
        for node in chosen:
            if node.kinds and stage.kind not in node.kinds:
                known = ", ".join(node.kinds)
                raise HTTPBadRequest(
                    f"Stage {stage.name}: the agent of node {node.name} knows no {stage.kind}; it knows {known}."
                )
        return tuple(chosen)

    def _with(self, wanted: NodeAttribute, root: StackRecord, nodes: Sequence[NodeRecord]) -> Iterator[NodeRecord]:
        stacks = {one.id: one for one in (root, *self._store.stacks.descendants(root))}
        rows: dict[str, ResourceRecord] = {}
        for stack_id in {node.stack_id for node in nodes} & stacks.keys():
            rows.update((row.id, row) for row in self._store.resources.of(stack_id))
        for node in nodes:
            row = rows.get(node.id)
            if row is not None and self._value(stacks[node.stack_id], row, wanted) == wanted.equals:
                yield node

    def _value(self, stack: StackRecord, row: ResourceRecord, wanted: NodeAttribute) -> Json:
        name, *path = wanted.path
        value = row.metadata if name == METADATA else self._reader.attribute(stack, row, str(name))
        return cast(Json, select(value, path, None))

    def _digest(self, stages: Sequence[PlannedStage]) -> str:
        told = [
            [one.stage.name, one.stage.at_once, one.stage.kind, one.stage.args, [node.id for node in one.nodes]]
            + (["skip"] if one.stage.skips else [])
            for one in stages
        ]
        return self._store.encryption.digest(canonical(told))


def _described(planned: PlannedStage) -> PlaybookStage:
    stage = planned.stage
    return PlaybookStage(stage.name, stage.at_once or "all", len(planned.nodes), "skip" if stage.skips else UNSET)


def _by_name(node: NodeRecord) -> tuple[str, list[tuple[int, str]], str]:
    """Sort by stack and by name, with the 10th member after the 9th."""
    parts = [(int(part), "") if part.isdecimal() else (0, part) for part in re.split(r"([0-9]+)", node.name)]
    return node.stack_id, parts, node.id


def _named(stage: Stage, name: str, nodes: Sequence[NodeRecord]) -> NodeRecord:
    """Return the node with a name or an id. Raises HTTPBadRequest."""
    found = [node for node in nodes if name in (node.name, node.id)]
    if len(found) == 1:
        return found[0]
    if not found:
        known = ", ".join(sorted({node.name for node in nodes})) or "none"
        raise HTTPBadRequest(f"Stage {stage.name}: the stack has no node {name}; it has: {known}.")
    ids = ", ".join(node.id for node in found)
    raise HTTPBadRequest(f"Stage {stage.name}: {name} means several nodes; name them by their ids: {ids}.")
