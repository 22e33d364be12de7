"""Requests for node actions: create, approve, reject, cancel.

Locks and running stack actions do not refuse them; they only delay the sending.
"""

from collections.abc import Iterator
from contextlib import contextmanager

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.decisions import DecisionStep
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    EntityNotFound,
    Forbidden,
    HTTPBadRequest,
    MultipleChoices,
    RequestLimitExceeded,
    StackNotFound,
    abbreviated,
)
from heatlite.core.ids import random_id
from heatlite.core.json import JsonMap, canonical, dump
from heatlite.engine.admission.admission import audit
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.states import (
    PENDING,
    InvalidNodeActionState,
    NodeActionChanged,
    NodeActionExists,
    NodeActionState,
    Requester,
)
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import NodeLedger, decision_line, decision_of, new_action
from heatlite.store.errors import Duplicate
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

MAX_ARGS = 256 * 1024
"""Maximum size of arguments in bytes of JSON, as agents accept it."""
MAX_OPEN = 1000
"""Maximum of unfinished node actions per node."""

APPROVE = "node_actions:approve"
"""Policy rule for the approval."""


class NodeRequest(Struct, frozen=True):
    """A requested node action."""

    node: str
    """Name or id."""
    kind: str
    args: JsonMap
    granted: bool = False
    """True if the request approves the action, too."""
    id: str | None = None
    """Id chosen by the caller, which makes a repeated request idempotent."""


class NodeRequests:
    """Creates, approves, rejects and cancels node actions."""

    def __init__(self, store: Store, clock: Clock, settings: Settings, ledger: NodeLedger) -> None:
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._by_another = settings.of(NodeSettings).node_approval_by_another
        self._ledger = ledger

    def create(self, context: Context, stack: StackRecord, request: NodeRequest) -> tuple[NodeActionRecord, bool]:
        """Create a node action on a node of the stack's tree.

        Returns it, and False if the caller's id exists already: then the existing action is returned unchanged. Raises
        HTTPBadRequest, MultipleChoices, EntityNotFound, NodeActionExists, RequestLimitExceeded, StackNotFound, and
        Forbidden if it is `granted` by a caller who may not approve.
        """
        if request.granted:
            self._check_grant(context)
        size = len(dump(request.args).encode())
        if size > MAX_ARGS:
            raise HTTPBadRequest(f"args: {size} bytes of JSON are too many, there may be {MAX_ARGS}.")
        try:
            with self._store.transaction():
                held = self._store.stacks.lock(stack.id)
                if held is None or held.deleted_at is not None:
                    raise StackNotFound(name=stack.name)
                node = self._node(held, request.node)
                known = None if request.id is None else self._known(request.id, request, node)
                action = known or self._put(context, node, request)
        except Duplicate as error:  # created meanwhile in another tree
            raise NodeActionExists(id=request.id) from error
        if known is None:
            audit.info("node action %s: %s on %s asked for by=%s", action.id, action.kind, node.id, context.user)
        return action, known is None

    def _put(self, context: Context, node: NodeRecord, request: NodeRequest) -> NodeActionRecord:
        if node.kinds and request.kind not in node.kinds:
            raise HTTPBadRequest(
                f"kind: the agent of node {node.name} has no {request.kind}; it has: {', '.join(node.kinds)}."
            )
        if self._rows.node_actions.count_open(node.id) >= MAX_OPEN:
            raise RequestLimitExceeded(message=f"{MAX_OPEN} actions on node {node.name} have not ended yet.")
        now = self._clock.now()
        digest = self._rows.node_actions.digest(request.kind, request.args, node.id)
        state, action_id = NodeActionState.PENDING_APPROVE, request.id or random_id()
        action = new_action(
            node, action_id, request.kind, request.args, digest, state, Requester.USER, context.user, now
        )
        if request.granted:
            action = _approved(action, context, now)
        reason = "approved by its request" if request.granted else ""
        self._ledger.put([action], [decision_line(action, context, reason)])
        if request.granted:
            self._rows.orchestrations.nudge(action.root_id, now)
        self._decide(DecisionStep.GRANTED if request.granted else DecisionStep.ASKED, action, context)
        return action

    def _decide(self, step: DecisionStep, action: NodeActionRecord, context: Context) -> None:
        """Tell of a step of the decision about a node action. Raises what refuses it."""
        self._store.listeners.decided(decision_of(step, action, context))

    def _known(self, action_id: str, request: NodeRequest, node: NodeRecord) -> NodeActionRecord | None:
        """Return the existing action with this id, if it is the same.

        Raises NodeActionExists.
        """
        found = self._rows.node_actions.get(action_id)
        if found is None:
            if self._store.actions.get(action_id) is not None:  # dependencies name both kinds by id
                raise NodeActionExists(id=action_id)
            return None
        before = [found.node_id, found.kind, found.args]
        if canonical(before) != canonical([node.id, request.kind, request.args]):
            raise NodeActionExists(id=action_id)
        return found

    def _node(self, stack: StackRecord, reference: str) -> NodeRecord:
        """Return a node of the stack's tree. Raises EntityNotFound, MultipleChoices."""
        stacks = [stack.id, *(nested.id for nested in self._store.stacks.descendants(stack))]
        nodes = self._rows.nodes.of_stacks(stacks)
        found = [node for node in nodes if node.id == reference] or [node for node in nodes if node.name == reference]
        if len(found) == 1:
            return found[0]
        named = abbreviated([f"{node.name} ({node.id})" for node in found or nodes])
        if found:
            raise MultipleChoices(f"{reference} means several nodes; name one by its id: {named}.")
        raise EntityNotFound(
            f"The Node ({reference}) could not be found in stack {stack.name}: no agent has registered there"
            f"{f' but those of {named}' if named else ''}."
        )

    def approve(self, context: Context, action: NodeActionRecord, digest: str | None = None) -> NodeActionRecord:
        """Approve a node action. `digest`: the version that the caller has read.

        Raises InvalidNodeActionState, Forbidden, NodeActionChanged.
        """
        with self._taken(action) as found:
            self._check_unapproved(found, "approved")
            if self._by_another and found.requested_by == context.user:
                raise Forbidden(
                    "You have requested the node action yourself: another user must approve it"
                    " (node_approval_by_another)."
                )
            _check_digest(found, digest)
            self._decide(DecisionStep.APPROVED, found, context)
            now = self._clock.now()
            found = _approved(found, context, now)
            self._ledger.record([found], [decision_line(found, context, "approved")])
            self._rows.orchestrations.nudge(found.root_id, now)
        audit.info("node action %s approved by=%s", found.id, context.user)
        return found

    def reject(self, context: Context, action: NodeActionRecord, digest: str | None = None) -> NodeActionRecord:
        """Reject a node action before approval.

        Raises InvalidNodeActionState, NodeActionChanged.
        """
        with self._taken(action) as found:
            self._check_unapproved(found, "rejected")
            _check_digest(found, digest)
            self._decide(DecisionStep.REJECTED, found, context)
            found = self._end(found, context, "rejected")
        audit.info("node action %s rejected by=%s", found.id, context.user)
        return found

    def cancel(self, context: Context, action: NodeActionRecord) -> NodeActionRecord:
        """Cancel a node action: end it, or ask its agent to end it. Idempotent.

        Raises InvalidNodeActionState if it has ended.
        """
        with self._taken(action) as found:
            if found.has_ended:
                raise InvalidNodeActionState(
                    f"Node action {found.id} has ended, it is {found.state}: there is nothing to cancel."
                )
            if found.state in PENDING and found.sent_at is None:
                found = self._end(found, context, "cancelled")
            elif not found.cancel_asked:
                now = self._clock.now()
                found = replace(found, cancel_asked=True, updated_at=now)
                self._ledger.record([found], [decision_line(found, context, "asked to cancel")])
                self._rows.orchestrations.nudge(found.root_id, now)
        audit.info("node action %s cancelled by=%s", found.id, context.user)
        return found

    def _end(self, action: NodeActionRecord, context: Context, reason: str) -> NodeActionRecord:
        now = self._clock.now()
        ended = replace(action, state=NodeActionState.CANCELLED, finished_at=now, updated_at=now)
        self._ledger.record([ended], [decision_line(ended, context, reason)])
        return ended

    @contextmanager
    def _taken(self, action: NodeActionRecord) -> Iterator[NodeActionRecord]:
        """Lock the node action's tree and return the action as it is now.

        Call in a transaction.
        """
        with self._store.transaction():
            self._store.stacks.lock(action.stack_id)
            found = self._rows.node_actions.lock(action.id)
            if found is None:
                raise EntityNotFound(entity="Node action", name=action.id)
            yield found

    def _check_grant(self, context: Context) -> None:
        if not context.may(APPROVE):
            raise Forbidden(action=APPROVE)
        if self._by_another:
            raise Forbidden(
                'Another user must approve the node action (node_approval_by_another): leave out "approval".'
            )

    @staticmethod
    def _check_unapproved(action: NodeActionRecord, what: str) -> None:
        if action.state is not NodeActionState.PENDING_APPROVE:
            raise InvalidNodeActionState(
                f"Node action {action.id} is {action.state}: only what is PENDING_APPROVE can be {what}."
            )
        if action.run_id is not None:
            raise InvalidNodeActionState(
                f"Node action {action.id} is part of the run {action.run_id}: only the whole run can be {what}."
            )


def _approved(action: NodeActionRecord, context: Context, now: float) -> NodeActionRecord:
    state = NodeActionState.PENDING_SCHEDULE
    return replace(action, state=state, approved_by=context.user, approved_at=now, updated_at=now)


def _check_digest(action: NodeActionRecord, digest: str | None) -> None:
    if digest not in (None, action.digest):
        raise NodeActionChanged(id=action.id, digest=action.digest)
