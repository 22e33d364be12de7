"""The one place where node actions change: with their history, what waits for them, and their playbook's run."""

from collections.abc import Callable, Mapping, Sequence

from heatlite.core.clock import Clock
from heatlite.core.nodes import NodeActionState
from heatlite.store.node_records import NodeActionRecord, NodeTransitionRecord
from heatlite.store.store import Store


class Ledger:
    """Writes node actions. Always in the caller's transaction, which holds the root of the tree."""

    def __init__(self, store: Store, clock: Clock) -> None:
        self._store = store
        self._clock = clock
        self.advance: Callable[[str], None] = lambda _: None
        """Called for each run of a playbook, by its action's id, of which a node action has changed."""

    def record(
        self,
        changed: Sequence[NodeActionRecord],
        lines: Sequence[NodeTransitionRecord] = (),
        told: Mapping[str, Sequence[NodeTransitionRecord]] | None = None,
    ) -> None:
        """Write node actions that have not ended before. `lines` are the server's own, `told` what agents tell of the
        history of node actions, by id."""
        self._store.node_actions.save_many(changed)
        self._store.node_actions.note(lines)
        self._store.node_actions.replace_agents(told or {})
        now = self._clock.now()
        for action in changed:
            if action.has_ended:
                self._store.actions.node_action_ended(action.id, action.state is NodeActionState.DONE, now)
        for run_id in dict.fromkeys(action.run_id for action in changed if action.run_id is not None):
            self.advance(run_id)
