"""Session of an orchestration: the claimed tree and its agents."""

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from queue import Empty, SimpleQueue
from typing import TypeVar

from msgspec import Struct

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap
from heatlite.features.nodes.agents.client import Agents, NodeFault
from heatlite.features.nodes.feature import NodeSettings
from heatlite.features.nodes.states import TransitionOrigin
from heatlite.features.nodes.store.records import (
    NodeActionRecord,
    NodeRecord,
    NodeTransitionRecord,
    OrchestrationRecord,
)
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import NodeLedger
from heatlite.store.store import Store

BATCH = 100
"""Maximum of nodes written per transaction."""
LOOK = 0.5
"""Seconds between two checks of the engine's stop flag."""
MAX_REPORTED = 100
"""Maximum of errors in a report."""

Given = TypeVar("Given")
Got = TypeVar("Got")


class Interrupted(Exception):
    """The engine stops; another one continues."""


class OrchestrationResult(Struct):
    """Result of an orchestration."""

    nodes: int = 0
    up: int = 0
    sent: int = 0
    cancelled: int = 0
    errors: dict[str, str] = {}
    """Errors by node."""
    held_by: tuple[str, ...] = ()
    """Stack actions that held back node actions."""
    refused: dict[str, str] = {}
    """Reasons of runs that were set aside and cannot go on yet, by id. Not stored."""

    def json(self) -> JsonMap:
        """Return the stored form."""
        return {
            "nodes": self.nodes,
            "up": self.up,
            "unreachable": self.nodes - self.up,
            "sent": self.sent,
            "cancelled": self.cancelled,
            "held_by": list(self.held_by),
            "errors": dict(list(self.errors.items())[:MAX_REPORTED]),
        }


class Turn:
    """A tree claimed by this engine, until its lease is lost."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        agents: Agents,
        ledger: NodeLedger,
        claimed: OrchestrationRecord,
        stopping: threading.Event,
    ) -> None:
        self.store = store
        self.rows = store.of(NodeStore)
        self.clock = clock
        self.settings = settings
        self.node_settings = settings.of(NodeSettings)
        self.agents = agents
        self.ledger = ledger
        self.root_id = claimed.root_id
        self.report = OrchestrationResult()
        self.names: Mapping[str, str] = {}
        """Names of the nodes in the report, by id."""
        self._claimed = claimed
        self._stopping = stopping
        self._renewed = time.monotonic()
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def asking(self, most: int) -> Iterator[None]:
        """Context in which `each` calls at most that many agents at once."""
        with ThreadPoolExecutor(max(1, most), "agents") as pool:
            self._pool = pool
            try:
                yield
            finally:
                pool.shutdown(wait=False, cancel_futures=True)

    def finish(self, next_at: float) -> None:
        """Release the tree. Raises Fenced."""
        with self.store.transaction():
            self.rows.orchestrations.finish(self._claimed, self.clock.now(), next_at, self.report.json())

    def leave(self) -> bool:
        """Remove the orchestration of a tree without nodes.

        Returns False if the tree has some. Raises Fenced.
        """
        with self.store.transaction():
            self.store.stacks.lock(self._claimed.root_id)
            self.rows.orchestrations.check(self._claimed)
            if self.rows.nodes.of_root(self._claimed.root_id):
                return False
            self.rows.orchestrations.delete(self._claimed.root_id)
        return True

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Open a transaction that holds the tree. Raises Fenced without the lease."""
        with self.store.transaction():
            self.store.stacks.lock(self._claimed.root_id)
            self.rows.orchestrations.check(self._claimed)
            yield
            self._hold()  # at the end: the end of an action locks its stack before this row

    def _hold(self) -> None:
        self.rows.orchestrations.renew(self._claimed, self.clock.now(), self.settings.lease_seconds)
        self._renewed = time.monotonic()

    def each(
        self, given: Sequence[Given], call: Callable[[Given], Got]
    ) -> Iterator[tuple[Given, Got | NodeFault]]:
        """Call a function for several agents at once, and yield results as they arrive.

        Renews the lease meanwhile. Raises Interrupted.
        """
        pool = self._pool
        assert pool is not None, "only within asking()"
        results: SimpleQueue[tuple[Given, Future[Got]]] = SimpleQueue()

        def taking(one: Given) -> Callable[[Future[Got]], None]:
            return lambda done: results.put((one, done))

        for one in given:
            pool.submit(call, one).add_done_callback(taking(one))
        left = len(given)
        while left:
            if self._stopping.is_set():
                raise Interrupted
            if time.monotonic() - self._renewed > self.settings.lease_seconds / 3:
                with self.store.transaction():
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


def line_of(action: NodeActionRecord, now: float, reason: str) -> NodeTransitionRecord:
    """Return the server's history line about an action as it is now."""
    return NodeTransitionRecord(action.id, now, action.state, TransitionOrigin.SERVER, reason=reason)


def batches(things: Sequence[Given]) -> list[Sequence[Given]]:
    """Yield batches of the size for one transaction."""
    return [things[start : start + BATCH] for start in range(0, len(things), BATCH)]


def by_node(
    up: Mapping[str, NodeRecord], actions: Sequence[NodeActionRecord]
) -> list[tuple[NodeRecord, Sequence[NodeActionRecord]]]:
    """Group actions by node, in their order."""
    found: dict[str, list[NodeActionRecord]] = {}
    for action in actions:
        found.setdefault(action.node_id, []).append(action)
    return [(up[node_id], of_node) for node_id, of_node in found.items()]
