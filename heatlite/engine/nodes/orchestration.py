"""One orchestration of a tree's nodes: pull, commit, cancel, mark, push, commit (decision 0015).

What is decided about node actions is decided in transactions that hold the tree's root and ask for the fence, so that
it is true for whoever comes next, and nobody who has lost the tree writes anything.
"""

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from queue import Empty, SimpleQueue
from typing import TypeVar

from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap
from heatlite.core.nodes import AT_AGENT, PENDING, NodeActionState, NodeState, Origin
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.nodes.agents import Agents, Declined, NodeFault
from heatlite.engine.nodes.deployments import Deployments
from heatlite.engine.nodes.ledger import Ledger
from heatlite.engine.nodes.sync import Answer, compare
from heatlite.store.node_records import NodeActionRecord, NodeRecord, NodeTransitionRecord, OrchestrationRecord
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store

log = logging.getLogger(__name__)

BATCH = 100
"""Nodes that one transaction writes about."""
LOOK = 0.5
"""Seconds between two looks whether the engine stops."""
MOST_TOLD = 100
"""Errors in a report."""
GONE_REASON = "Its node is gone"
NEVER_HAD = "Cancelled before the agent had it"

Given = TypeVar("Given")
Got = TypeVar("Got")


class Interrupted(Exception):
    """The engine stops; somebody else goes on."""


@dataclass
class Report:
    """What came of it."""

    nodes: int = 0
    up: int = 0
    sent: int = 0
    cancelled: int = 0
    errors: dict[str, str] = field(default_factory=dict)
    """By node."""
    held_by: tuple[str, ...] = ()
    """The stack actions because of which something was not sent."""

    def json(self) -> JsonMap:
        """As it is kept."""
        return {
            "nodes": self.nodes,
            "up": self.up,
            "unreachable": self.nodes - self.up,
            "sent": self.sent,
            "cancelled": self.cancelled,
            "held_by": list(self.held_by),
            "errors": dict(list(self.errors.items())[:MOST_TOLD]),
        }


class Orchestration:
    """One that this engine has claimed. `run` it once."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        agents: Agents,
        ledger: Ledger,
        deployments: Deployments,
        claimed: OrchestrationRecord,
        stopping: threading.Event,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._agents = agents
        self._ledger = ledger
        self._deployments = deployments
        self._claimed = claimed
        self._stopping = stopping
        self._renewed = time.monotonic()
        self._report = Report()

    def run(self) -> None:
        """Do it all. Raises Fenced, Interrupted, DatabaseUnavailable."""
        root_id = self._claimed.root_id
        nodes = self._living(self._store.nodes.of_root(root_id))
        if not nodes and self._ends():
            return
        self._report.nodes = len(nodes)
        self._names = _names(nodes)
        with ThreadPoolExecutor(max(1, min(self._settings.node_connections, len(nodes))), "agents") as pool:
            self._pool = pool
            try:
                up = self._pull(nodes)
                self._report.up = len(up)
                self._carry(nodes, up)
                pending = self._store.node_actions.open_of_root(root_id)
                self._cancel(up, pending)
                self._push(up, pending)
            finally:
                pool.shutdown(wait=False, cancel_futures=True)
        self.finish(self._clock.now() + self._settings.node_orchestration_interval)

    def finish(self, next_at: float) -> None:
        """Let go of the tree. Raises Fenced."""
        with self._store.transaction():
            self._store.orchestrations.finish(self._claimed, self._clock.now(), next_at, self._report.json())

    # -- what is gone --------------------------------------------------------------------------------

    def _living(self, nodes: Sequence[NodeRecord]) -> list[NodeRecord]:
        """Those whose resources are there; the others go, with what of their actions has not ended."""
        standing = self._store.resources.states([node.id for node in nodes])
        gone = [node for node in nodes if node.id not in standing]
        for some in _batches(gone):
            with self._writing():
                self._bury([node.id for node in some])
        return [node for node in nodes if node.id in standing]

    def _bury(self, node_ids: Sequence[str]) -> None:
        now = self._clock.now()
        ended = [
            replace(
                action,
                state=NodeActionState.CANCELLED if action.state in PENDING else NodeActionState.LOST,
                error=GONE_REASON,
                updated_at=now,
            )
            for action in self._store.node_actions.open_of_nodes(node_ids)
        ]
        lines = [_line(action, now, GONE_REASON) for action in ended]
        self._ledger.record(ended, lines)
        self._store.nodes.delete_many(node_ids)

    def _ends(self) -> bool:
        """Whether the tree has no nodes any more, so that nobody has to look after them."""
        with self._writing():
            if self._store.nodes.of_root(self._claimed.root_id):
                return False
            self._store.orchestrations.delete(self._claimed.root_id)
        return True

    # -- pull ----------------------------------------------------------------------------------------

    def _pull(self, nodes: Sequence[NodeRecord]) -> dict[str, NodeRecord]:
        """Ask all; those that have answered, by id."""
        up: dict[str, NodeRecord] = {}
        batch: list[tuple[NodeRecord, Answer | NodeFault]] = []
        for node, answer in self._each(nodes, self._changes):
            if isinstance(answer, NodeFault):
                self._report.errors[self._names[node.id]] = answer.brief
                if (node.state, node.reason) != (NodeState.UNREACHABLE, answer.brief):
                    batch.append((node, answer))
            else:
                up[node.id] = node
                if answer.known is not None or node.state is not NodeState.UP:
                    batch.append((node, answer))
            if len(batch) == BATCH:
                self._learn(batch, up)
                batch = []
        if batch:
            self._learn(batch, up)
        return up

    def _changes(self, node: NodeRecord) -> Answer:
        with self._agents.line(node) as line:
            return line.changes(node.instance, node.revision)

    def _learn(self, batch: Sequence[tuple[NodeRecord, Answer | NodeFault]], up: dict[str, NodeRecord]) -> None:
        """Write what agents have told, or that they have not."""
        now, store = self._clock.now(), self._store
        ids = [told.id for _, answer in batch if isinstance(answer, Answer) for told in answer.actions]
        with self._writing():
            now_known = store.nodes.known([node.id for node, _ in batch])
            records = store.node_actions.open_of_nodes([node.id for node, _ in batch])
            has = {record.id for record in records}
            records += store.node_actions.known([one for one in dict.fromkeys(ids) if one not in has])
            by_id = {record.id: record for record in records}
            # What depends on a stack action must not take a node action for it.
            taken = store.actions.among([one for one in dict.fromkeys(ids) if one not in by_id])
            of_node: dict[str, dict[str, NodeActionRecord]] = {}
            for record in records:
                of_node.setdefault(record.node_id, {})[record.id] = record
            nodes: list[NodeRecord] = []
            silent: list[NodeRecord] = []
            adopted: list[NodeActionRecord] = []
            changed: list[NodeActionRecord] = []
            lines: list[NodeTransitionRecord] = []
            told: dict[str, Sequence[NodeTransitionRecord]] = {}
            for node, answer in batch:
                if not _is_same(node, now_known.get(node.id)):
                    up.pop(node.id, None)  # it has registered anew meanwhile, which has made the tree due again
                    continue
                if isinstance(answer, NodeFault):
                    nodes.append(replace(node, state=NodeState.UNREACHABLE, reason=answer.brief))
                    if node.state is not NodeState.UNREACHABLE:
                        silent.append(node)
                    continue
                others = [one.id for one in answer.actions if one.id in taken]
                answer = replace(answer, actions=[one for one in answer.actions if one.id not in taken])
                asked = {one.id: by_id[one.id] for one in answer.actions if one.id in by_id}
                known = {**of_node.get(node.id, {}), **asked}
                changes = compare(node, known, answer, store.node_actions.digest, now)
                if changes.node != node:
                    nodes.append(changes.node)
                adopted += changes.adopted
                by_id.update((record.id, record) for record in changes.adopted)  # the first of two agents has it
                changed += changes.changed
                lines += changes.lines
                told.update(changes.told)
                if others := [*others, *changes.others]:
                    self._report.errors[self._names[node.id]] = (
                        f"tells of actions that are not its own, which is ignored: {', '.join(others[:3])}"
                    )
                if answer.more:
                    store.orchestrations.hurry(self._claimed.root_id, now)
            store.nodes.save_many(nodes)
            self._ledger.put(adopted, [])
            self._ledger.record(changed, lines, told)
            self._release(silent, records, now)

    def _release(self, silent: Sequence[NodeRecord], records: Sequence[NodeActionRecord], now: float) -> None:
        """A node that has stopped answering holds nobody."""
        ids = {node.id for node in silent}
        for record in records:
            if record.node_id in ids and not record.has_ended:
                self._store.actions.node_silent(record.id, now)

    # -- software deployments --------------------------------------------------------------------------

    def _carry(self, nodes: Sequence[NodeRecord], up: Mapping[str, NodeRecord]) -> None:
        """Answer the deployments that have been carried out, ask for those that have not, withdraw what is too late."""
        waiting = self._deployments.look([node for node in nodes if node.id in up])
        known = {action.id: action for action in self._store.node_actions.known([one.action_id for one in waiting])}
        for one in waiting:
            found = known.get(one.action_id)
            if found is not None and found.has_ended and found.node_id == one.node.id:  # nobody answers for another
                self._deployments.answer(one, found)
        for some in _batches([one for one in waiting if one.action_id not in known]):
            with self._writing():
                self._deployments.put(some)
        carried = self._store.node_actions.open_deployed(self._claimed.root_id)
        for stale in _batches(self._deployments.stale(carried, waiting)):
            with self._writing():
                self._deployments.withdraw(stale)

    # -- cancel --------------------------------------------------------------------------------------

    def _cancel(self, up: Mapping[str, NodeRecord], actions: Sequence[NodeActionRecord]) -> None:
        """Pass on what is to be ended at agents."""
        asked = [action for action in actions if action.cancel_asked and action.node_id in up and _may_be_there(action)]
        never: list[NodeActionRecord] = []
        for (node, _), heard in self._each(_by_node(up, asked), self._cancel_all):
            if isinstance(heard, NodeFault):
                self._report.errors[self._names[node.id]] = heard.brief
            else:
                self._report.cancelled += 1
                never += heard
        for some in _batches([action for action in never if action.state in PENDING]):
            now = self._clock.now()
            with self._writing():
                ended = [
                    replace(action, state=NodeActionState.CANCELLED, error=NEVER_HAD, updated_at=now)
                    for action in self._store.node_actions.known([one.id for one in some])
                    if action.state is NodeActionState.PENDING_SCHEDULE
                ]
                self._ledger.record(ended, [_line(action, now, NEVER_HAD) for action in ended])

    def _cancel_all(self, given: tuple[NodeRecord, Sequence[NodeActionRecord]]) -> list[NodeActionRecord]:
        """Those that the agent does not have."""
        node, actions = given
        with self._agents.line(node) as line:
            return [action for action in actions if not line.cancel(action.id)]

    # -- push ----------------------------------------------------------------------------------------

    def _push(self, up: Mapping[str, NodeRecord], actions: Sequence[NodeActionRecord]) -> None:
        """Give agents what is theirs to do, in the order of its creation."""
        ready = [action for action in actions if _is_ready(action) and action.node_id in up]
        if not ready:
            return
        healths = self._store.resources.states(list({action.node_id for action in ready}))
        for node in {action.node_id: up[action.node_id] for action in ready}.values():
            if healths.get(node.id) == (Verb.CHECK, Status.FAILED):
                self._report.errors.setdefault(self._names[node.id], "its resource is CHECK_FAILED: it gets no work")
        well = {node_id for node_id, state in healths.items() if state != (Verb.CHECK, Status.FAILED)}
        self._take_back([action for action in ready if action.node_id not in well and action.sent_at is not None])
        ready = [action for action in ready if action.node_id in well]
        self._give_up([action for action in ready if action.attempts >= self._settings.node_send_attempts])
        for some in _batches(_by_node(up, ready)):
            marked = self._mark([action.id for _, actions in some for action in actions])
            faults: list[tuple[NodeActionRecord, NodeFault]] = []
            for (node, given), heard in self._each(_by_node(up, marked), self._send_all):
                sent, failed = (0, [(given[0], heard)]) if isinstance(heard, NodeFault) else heard
                self._report.sent += sent
                for _, fault in failed:
                    self._report.errors[self._names[node.id]] = fault.brief
                faults += failed
            self._note_faults(faults)

    def _take_back(self, actions: Sequence[NodeActionRecord]) -> None:
        """What was to be sent, and is not: its agent has been asked since, and does not have it. So nobody has to wait
        for it, least of all who wants to replace the machine."""
        for some in _batches(actions):
            with self._writing():
                now = self._clock.now()
                known = self._store.node_actions.known([action.id for action in some])
                back = [replace(action, sent_at=None, updated_at=now) for action in known if _is_ready(action)]
                self._ledger.record(back)
                for action in back:
                    self._store.actions.node_silent(action.id, now)

    def _give_up(self, actions: Sequence[NodeActionRecord]) -> None:
        """End what had too many errors. Its agent has been asked since, and does not have it: an error may have come
        after the agent took it."""
        for some in _batches(actions):
            with self._writing():
                now = self._clock.now()
                ended = [
                    replace(
                        action,
                        state=NodeActionState.FAILED,
                        error=f"Sent {action.attempts} times in vain: {action.error}",
                        updated_at=now,
                    )
                    for action in self._store.node_actions.known([one.id for one in some])
                    if _is_ready(action)
                ]
                self._ledger.record(ended, [_line(action, now, action.error) for action in ended])

    def _mark(self, action_ids: Sequence[str]) -> list[NodeActionRecord]:
        """Those that may go now, after a word that their agents may have them. Whoever brings in a stack action from
        now on sees that."""
        with self._writing():
            now = self._clock.now()
            holders = self._store.actions.live_of_root(self._claimed.root_id)
            found = [action for action in self._store.node_actions.known(action_ids) if _is_ready(action)]
            waiting = [one.id for one in holders if one.status is ActionStatus.WAITING and one.started_at is None]
            wanted = self._store.actions.waited_for(waiting)
            going = [action for action in found if action.id in wanted or _may_go(action, holders)]
            if len(going) < len(found):
                self._report.held_by = tuple(holder.id for holder in holders)
            marked = [replace(action, sent_at=action.sent_at or now) for action in going]
            self._ledger.record([one for one, was in zip(marked, going, strict=True) if one != was])
        return marked

    def _send_all(
        self, given: tuple[NodeRecord, Sequence[NodeActionRecord]]
    ) -> tuple[int, list[tuple[NodeActionRecord, NodeFault]]]:
        """How many have gone; which have not, and why. After what the agent will never do the next one goes, after
        anything else the rest of the node waits."""
        node, actions = given
        sent = 0
        failed: list[tuple[NodeActionRecord, NodeFault]] = []
        try:
            with self._agents.line(node) as line:
                for action in actions:
                    try:
                        line.send(action, to_text(action.created_at) or "")
                    except Declined as refusal:
                        if not refusal.is_final:
                            raise
                        failed.append((action, refusal))
                    else:
                        sent += 1
        except NodeFault as fault:
            failed.append((actions[sent + len(failed)], fault))
        return sent, failed

    def _note_faults(self, faults: Sequence[tuple[NodeActionRecord, NodeFault]]) -> None:
        """Count the attempts, and end what was refused."""
        # That an agent has no room now says nothing of the action.
        counted = [one for one in faults if not (isinstance(one[1], Declined) and one[1].code == "QueueFull")]
        if not counted:
            return
        now = self._clock.now()
        with self._writing():
            fresh = {action.id: action for action in self._store.node_actions.known([one.id for one, _ in counted])}
            changed, lines = [], []
            for sent, fault in counted:
                action = fresh.get(sent.id)
                if action is None or action.state is not NodeActionState.PENDING_SCHEDULE:
                    continue
                action = replace(action, attempts=action.attempts + 1, error=str(fault), updated_at=now)
                if isinstance(fault, Declined) and fault.is_final:
                    action = replace(action, state=NodeActionState.FAILED)
                    lines.append(_line(action, now, action.error))
                changed.append(action)
            self._ledger.record(changed, lines)

    # -- the tree, and the agents --------------------------------------------------------------------

    @contextmanager
    def _writing(self) -> Iterator[None]:
        """A transaction that has the tree, as long as this is who looks after it. Raises Fenced."""
        with self._store.transaction():
            self._store.stacks.hold(self._claimed.root_id)
            self._hold()
            yield

    def _hold(self) -> None:
        self._store.orchestrations.hold(self._claimed, self._clock.now(), self._settings.lease_seconds)
        self._renewed = time.monotonic()

    def _each(
        self, given: Sequence[Given], call: Callable[[Given], Got]
    ) -> Iterator[tuple[Given, Got | NodeFault]]:
        """Do something for each with several agents at once; in the order in which they have answered. Meanwhile the
        lease is renewed. Raises Interrupted."""
        results: SimpleQueue[tuple[Given, Future[Got]]] = SimpleQueue()

        def taking(one: Given) -> Callable[[Future[Got]], None]:
            return lambda done: results.put((one, done))

        for one in given:
            self._pool.submit(call, one).add_done_callback(taking(one))
        left = len(given)
        while left:
            if self._stopping.is_set():
                raise Interrupted
            if time.monotonic() - self._renewed > self._settings.lease_seconds / 3:
                with self._store.transaction():
                    self._hold()
            try:
                one, done = results.get(timeout=LOOK)
            except Empty:
                continue
            left -= 1
            try:
                result: Got | NodeFault = done.result()
            except NodeFault as fault:
                result = fault
            yield one, result


def _names(nodes: Sequence[NodeRecord]) -> dict[str, str]:
    """What the nodes are called in a report, by id: stacks of a tree have resources of the same name."""
    count = Counter(node.name for node in nodes)
    return {node.id: node.name if count[node.name] == 1 else f"{node.name} ({node.id})" for node in nodes}


def _line(action: NodeActionRecord, now: float, reason: str) -> NodeTransitionRecord:
    return NodeTransitionRecord(action.id, now, action.state, Origin.SERVER, reason=reason)


def _batches(things: Sequence[Given]) -> list[Sequence[Given]]:
    return [things[start : start + BATCH] for start in range(0, len(things), BATCH)]


def _by_node(
    up: Mapping[str, NodeRecord], actions: Sequence[NodeActionRecord]
) -> list[tuple[NodeRecord, Sequence[NodeActionRecord]]]:
    found: dict[str, list[NodeActionRecord]] = {}
    for action in actions:
        found.setdefault(action.node_id, []).append(action)
    return [(up[node_id], of_node) for node_id, of_node in found.items()]


def _is_same(node: NodeRecord, now: NodeRecord | None) -> bool:
    """Whether the agent that was asked is the one that is registered."""
    return now is not None and (now.url, now.secret, now.registered_at) == (node.url, node.secret, node.registered_at)


def _may_be_there(action: NodeActionRecord) -> bool:
    """Whether the agent may have it."""
    return action.state in AT_AGENT or action.sent_at is not None


def _is_ready(action: NodeActionRecord) -> bool:
    return action.state is NodeActionState.PENDING_SCHEDULE and action.turn and not action.cancel_asked


def _may_go(action: NodeActionRecord, holders: Sequence[ActionRecord]) -> bool:
    """Whether the stack actions that hold the tree let it go: a playbook its own, and whoever waits for a deployment
    that one. What has not begun lets go what it depends on."""
    if not holders or action.deployment_id is not None:
        return True
    if any(holder.verb is not Verb.PLAYBOOK for holder in holders):
        return False
    return any(holder.id == action.run_id and holder.status is not ActionStatus.SUSPENDED for holder in holders)
