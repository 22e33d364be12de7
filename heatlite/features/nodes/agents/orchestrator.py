"""Orchestrator thread: claims due trees and orchestrates their nodes.

Each engine has one.
"""

import logging
import time
from concurrent.futures import ThreadPoolExecutor

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.ids import new_id
from heatlite.core.runtime.logs import logged
from heatlite.core.runtime.timer import Timer
from heatlite.features.nodes.agents.client import Agents
from heatlite.features.nodes.agents.deployments import Deployments
from heatlite.features.nodes.agents.orchestration import Orchestration
from heatlite.features.nodes.agents.session import Interrupted, Turn
from heatlite.features.nodes.store.records import OrchestrationRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import NodeLedger
from heatlite.store.errors import Fenced
from heatlite.store.store import Store

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two polls for trees that other processes made due."""
TREES = 4
"""Maximum of trees orchestrated at once."""
MAX_REST = 1.0
"""Longest pause after an orchestration, in seconds.

The pause equals the duration of the last orchestration: a thousand busy nodes are polled together, a few at once.
"""


class Orchestrator:
    """Starts due orchestrations. Call `start` once; `stop` leaves the rest to others."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        agents: Agents,
        ledger: NodeLedger,
        deployments: Deployments,
        timer: Timer,
    ) -> None:
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._settings = settings
        self._agents = agents
        self._ledger = ledger
        self._deployments = deployments
        self._owner = new_id()
        self._busy: set[str] = set()
        self._resting: dict[str, float] = {}
        """Root id → end of the pause after its last orchestration, by time.monotonic."""
        self._pool = ThreadPoolExecutor(TREES, "nodes")
        self._job = timer.job("orchestrations", self._claim_due)

    def start(self) -> None:
        """Start polling."""
        self._job.start()

    def wake(self) -> None:
        """Poll now (from any thread)."""
        self._job.wake()

    def stop(self) -> None:
        """Start nothing more, and wait for running calls to agents."""
        self._job.stop()
        self._pool.shutdown(wait=True)

    def _claim_due(self) -> float:
        """Claim due trees, as far as threads are free.

        Returns seconds until the next poll.
        """
        moment, pause, free = time.monotonic(), LOOK, TREES - len(self._busy)
        for root_id, until in list(self._resting.items()):
            if until <= moment:
                del self._resting[root_id]
        now, lease = self._clock.now(), self._settings.lease_seconds
        for record in self._rows.orchestrations.due(now) if free > 0 else ():
            if record.root_id in self._resting:
                pause = min(pause, self._resting[record.root_id] - moment)
                continue
            if record.root_id in self._busy or len(self._busy) == TREES:
                continue
            with self._store.transaction():
                claimed = self._rows.orchestrations.claim(record, self._owner, now, lease)
            if claimed is not None:
                self._busy.add(claimed.root_id)
                self._pool.submit(self._do, claimed)
        return pause

    def _do(self, claimed: OrchestrationRecord) -> None:
        turn = Turn(
            self._store, self._clock, self._settings, self._agents, self._ledger, claimed, self._job.stopping
        )
        root_id, began = claimed.root_id, time.monotonic()
        foreseen = (Fenced, DatabaseUnavailable)
        try:
            with logged(log, "the nodes of stack %s are left until the lease ends", root_id, passing=foreseen):
                self._run(turn, root_id)
        except Fenced:
            log.warning("the nodes of stack %s: another engine looks after them by now", root_id)
        except DatabaseUnavailable as error:
            log.warning("the nodes of stack %s: %s", root_id, error)
        finally:
            self._store.close()
            ended = time.monotonic()
            self._resting[root_id] = ended + min(ended - began, MAX_REST)
            self._busy.discard(root_id)
            self._job.wake()

    def _run(self, turn: Turn, root_id: str) -> None:
        """Orchestrate, and release the tree. Raises Fenced, DatabaseUnavailable."""
        passing = (Fenced, DatabaseUnavailable, Interrupted)
        try:
            with logged(log, "the nodes of stack %s cannot be looked after", root_id, passing=passing) as run:
                Orchestration(turn, self._deployments).run()
        except Interrupted:
            turn.finish(self._clock.now())
        if run.failed:  # it must not recur without a pause
            turn.finish(self._clock.now() + turn.node_settings.node_orchestration_interval)
