"""Second half of an orchestration: sends node actions to agents (decision 0015)."""

from collections import Counter
from collections.abc import Collection, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.state.conflict_rules import Operation, refusal
from heatlite.features.nodes.agents.client import Declined, NodeFault
from heatlite.features.nodes.agents.session import Turn, batches, by_node, line_of
from heatlite.features.nodes.states import AT_AGENT, NodeActionState
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord
from heatlite.store.records import ActionRecord

UNHEALTHY = "its resource is CHECK_FAILED: it gets no work until heatlite mark-healthy takes the mark back"
MAX_KEPT = 100
"""Number of ended actions that an agent keeps."""


class Push:
    """Sends node actions to agents."""

    def __init__(self, turn: Turn) -> None:
        self._turn = turn

    def push(self, up: Mapping[str, NodeRecord], actions: Sequence[NodeActionRecord]) -> None:
        """Send the node actions that are due, in the order of their creation."""
        ready = [action for action in actions if _is_ready(action) and action.node_id in up]
        if not ready:
            return
        healths = self._turn.store.resources.states(list({action.node_id for action in ready}))
        for node in {action.node_id: up[action.node_id] for action in ready}.values():
            if healths.get(node.id) == (Verb.CHECK, Status.FAILED):
                name = self._turn.names[node.id]
                self._turn.report.errors.setdefault(name, UNHEALTHY)
        well = {node_id for node_id, state in healths.items() if state != (Verb.CHECK, Status.FAILED)}
        self._take_back([action for action in ready if action.node_id not in well and action.sent_at is not None])
        ready = [action for action in ready if action.node_id in well]
        self._give_up([action for action in ready if action.attempts >= self._turn.node_settings.node_send_attempts])
        at_agent = Counter(action.node_id for action in actions if action.state in AT_AGENT)
        resent = {action.id for action in ready if action.sent_at is not None}
        for some in batches(by_node(up, ready)):
            marked = self._mark([action.id for _, actions in some for action in actions], at_agent)
            faults: list[tuple[NodeActionRecord, NodeFault]] = []
            for (node, given), heard in self._turn.each(by_node(up, marked), self._send_all):
                sent, failed = (0, [(given[0], heard)]) if isinstance(heard, NodeFault) else heard
                self._turn.report.sent += sent
                for _, fault in failed:
                    self._turn.report.errors[self._turn.names[node.id]] = fault.brief
                faults += failed
            self._note_faults(faults, resent)

    def _take_back(self, actions: Sequence[NodeActionRecord]) -> None:
        """Clear the sent mark of actions that their agents do not have.

        A poll since the send has shown that. Stack actions that wait for them continue, for example to replace the
        machine.
        """
        for some in batches(actions):
            with self._turn.writing():
                now = self._turn.clock.now()
                known = self._turn.rows.node_actions.existing([action.id for action in some])
                back = [replace(action, sent_at=None, updated_at=now) for action in known if _is_ready(action)]
                self._turn.ledger.record(back)
                for action in back:
                    self._turn.store.dependencies.release_waiting(action.id, now)

    def _give_up(self, actions: Sequence[NodeActionRecord]) -> None:
        """End actions with too many send errors that their agents do not have.

        A poll since the send has shown that: an error may follow a send that succeeded.
        """
        for some in batches(actions):
            with self._turn.writing():
                now = self._turn.clock.now()
                ended = [
                    replace(
                        action,
                        state=NodeActionState.FAILED,
                        error=f"Sent {action.attempts} times in vain: {action.error}",
                        updated_at=now,
                    )
                    for action in self._turn.rows.node_actions.existing([one.id for one in some])
                    if _is_ready(action)
                ]
                self._turn.ledger.record(ended, [line_of(action, now, action.error) for action in ended])

    def _mark(self, action_ids: Sequence[str], at_agent: Counter[str]) -> list[NodeActionRecord]:
        """Mark actions as sent, and return those to send.

        Stack actions admitted from now on see the mark. `at_agent`: the number of actions at the agent, by node.
        """
        with self._turn.writing():
            now = self._turn.clock.now()
            found = [action for action in self._turn.rows.node_actions.existing(action_ids) if _is_ready(action)]
            holders, found = self._with_runs(found)
            waiting = [one.id for one in holders if one.status is ActionStatus.WAITING and one.started_at is None]
            wanted = self._turn.store.dependencies.waited_for(waiting)
            going = [action for action in found if action.id in wanted or _may_go(action, holders)]
            if len(going) < len(found):
                self._turn.report.held_by = tuple(holder.id for holder in holders)
            going = _with_room(going, at_agent)
            marked = [replace(action, sent_at=action.sent_at or now) for action in going]
            self._turn.ledger.record([one for one, was in zip(marked, going, strict=True) if one != was])
        return marked

    def _with_runs(
        self, actions: list[NodeActionRecord]
    ) -> tuple[list[ActionRecord], list[NodeActionRecord]]:
        """Return the stack actions that hold the tree, and the actions to send.

        Runs that were set aside are admitted again first, as far as they can go on. Others may have passed them, and
        have marked nodes.
        """
        store = self._turn.store
        live = store.actions.live_of_root(self._turn.root_id)
        holders = store.actions.holding(live)
        aside = store.actions.aside([one.id for one in live if one.verb is Verb.RUN])
        root = store.stacks.get(self._turn.root_id) if aside else None
        if root is None:
            return holders, actions
        states = store.resources.states([action.node_id for action in actions])
        actions = [one for one in actions if states.get(one.node_id) != (Verb.CHECK, Status.FAILED)]
        wanting = {action.run_id for action in actions}
        for run in live:
            if run.id in aside & wanting and run.status is ActionStatus.WAITING:
                error = refusal(Operation.RUN, root, (), store.stacks.descendants(root), holders)
                if error is None:
                    store.queue.take_up(run)
                    holders.append(run)
                else:
                    self._turn.report.refused[run.id] = error.message
        return holders, actions

    def _send_all(
        self, given: tuple[NodeRecord, Sequence[NodeActionRecord]]
    ) -> tuple[int, list[tuple[NodeActionRecord, NodeFault]]]:
        """Send the actions of one node.

        Returns the number sent, and the unsent ones with reasons.

        An action that the agent declines for itself is skipped; any other failure stops the rest of the node.
        """
        node, actions = given
        sent = 0
        failed: list[tuple[NodeActionRecord, NodeFault]] = []
        try:
            with self._turn.agents.line(node) as line:
                for action in actions:
                    try:
                        line.send(action, to_text(action.created_at) or "")
                    except Declined as refusal:
                        if not refusal.is_final and not refusal.is_known:
                            raise
                        failed.append((action, refusal))
                    else:
                        sent += 1
        except NodeFault as fault:
            failed.append((actions[sent + len(failed)], fault))
        return sent, failed

    def _note_faults(self, faults: Sequence[tuple[NodeActionRecord, NodeFault]], resent: Collection[str]) -> None:
        """Count the failed attempts, once per interval, and end the refused actions.

        One that was `resent`, and that the agent refuses as known without reporting it, had ended and is forgotten.
        """
        # A busy agent says nothing about the action.
        counted = [one for one in faults if not (isinstance(one[1], Declined) and one[1].code == "QueueFull")]
        if not counted:
            return
        now = self._turn.clock.now()
        with self._turn.writing():
            known = self._turn.rows.node_actions.existing([one.id for one, _ in counted])
            fresh = {action.id: action for action in known}
            changed, lines = [], []
            for sent, fault in counted:
                action = fresh.get(sent.id)
                if action is None or action.state is not NodeActionState.PENDING_SCHEDULE:
                    continue
                state = _state_after(fault)
                if state is NodeActionState.LOST and action.id not in resent:
                    continue  # the next poll may tell of it
                if state is None and self._is_counted(action, now):
                    continue
                action = replace(action, attempts=action.attempts + 1, error=str(fault), updated_at=now)
                if state is not None:
                    action = replace(action, state=state)
                    lines.append(line_of(action, now, action.error))
                changed.append(action)
            self._turn.ledger.record(changed, lines)

    def _is_counted(self, action: NodeActionRecord, now: float) -> bool:
        """True if a failed attempt of this interval is counted already.

        A busy tree is orchestrated every second; a disk that is full for a short time must not fail an action there.
        """
        pause = self._turn.node_settings.node_orchestration_interval
        return action.attempts > 0 and 0 <= now - action.updated_at < pause


def _state_after(fault: NodeFault) -> NodeActionState | None:
    """Return the state in which a fault ends an action; None: it is sent again."""
    if not isinstance(fault, Declined):
        return None
    return NodeActionState.FAILED if fault.is_final else NodeActionState.LOST if fault.is_known else None


def _with_room(actions: Sequence[NodeActionRecord], at_agent: Counter[str]) -> list[NodeActionRecord]:
    """Return no more actions of a node than its agent keeps after their end.

    All may end before the next poll, which must still find them. What may have been sent comes first.
    """
    taken = Counter(at_agent)
    chosen = set()
    for action in sorted(actions, key=lambda one: one.sent_at is None):
        if taken[action.node_id] < MAX_KEPT:
            taken[action.node_id] += 1
            chosen.add(action.id)
    return [action for action in actions if action.id in chosen]


def _is_ready(action: NodeActionRecord) -> bool:
    return action.state is NodeActionState.PENDING_SCHEDULE and action.turn and not action.cancel_asked


def _may_go(action: NodeActionRecord, holders: Sequence[ActionRecord]) -> bool:
    """True if the stack actions that hold the tree permit the node action.

    A live playbook run permits its own, and no other one; an action that waits for a deployment permits that one; an
    action that has not started permits its dependencies.
    """
    if action.deployment_id is not None or not holders and action.run_id is None:
        return True
    if any(holder.verb is not Verb.RUN for holder in holders):
        return False
    return any(holder.id == action.run_id and holder.status is not ActionStatus.SUSPENDED for holder in holders)
