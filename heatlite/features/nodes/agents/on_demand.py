"""The orchestrator of a process that may not need one."""

from threading import Lock
from typing import TYPE_CHECKING

from heatlite.core.runtime.timer import Timer
from heatlite.features.nodes.store.store import NodeStore

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.features.nodes.agents.orchestrator import Orchestrator


class OnDemandOrchestrator:
    """Creates and starts the orchestrator of nodes when it is first woken."""

    def __init__(self, components: "Components", timer: Timer) -> None:
        self._components = components
        self._timer = timer
        self._lock = Lock()
        self._orchestrator: Orchestrator | None = None
        self._stopped = False

    def start(self, one_command: bool) -> None:
        """Begin. With `one_command`, only if a tree has nodes."""
        if not one_command or self._components.store.of(NodeStore).orchestrations.exist():
            self.wake()

    def wake(self) -> None:
        """Poll now (from any thread)."""
        with self._lock:
            if self._orchestrator is not None:
                self._orchestrator.wake()
            elif not self._stopped:
                self._orchestrator = self._create()
                self._orchestrator.start()

    def stop(self) -> None:
        """Stop it, as far as it was started."""
        with self._lock:
            self._stopped = True
        if self._orchestrator is not None:
            self._orchestrator.stop()

    def _create(self) -> "Orchestrator":
        from heatlite.features.nodes.agents.deployments import Deployments
        from heatlite.features.nodes.agents.orchestrator import Orchestrator
        from heatlite.features.nodes.operations import NodeOperations

        core = self._components
        made = core.of(NodeOperations)
        deployments = Deployments(core.store, core.clock, made.ledger, core.signals)
        return Orchestrator(
            core.store, core.clock, core.settings, made.agents, made.ledger, deployments, self._timer
        )
