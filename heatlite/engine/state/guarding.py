"""Guards of updates: what may take an update back until its clean-up.

A feature says what a guard looks for. The engine waits before the clean-up, while the old objects still exist.
"""

from collections.abc import Collection, Mapping
from typing import Protocol

from heatlite.core.actions.payloads import BakeEnd
from heatlite.core.context import Context
from heatlite.core.json import AnyMap, JsonMap
from heatlite.store.records import ActionRecord, StackRecord


class Guarding(Protocol):
    """The part of a feature in guarded updates."""

    def asked(self, context: Context, stack: StackRecord | None, further: JsonMap) -> AnyMap | None:
        """Return the guard of an update, for its inputs; None: it has none.

        `stack` is None for a create. `further` has the keys of features in the request. Raises the error that refuses
        it.
        """

    def begin(self, action: ActionRecord) -> None:
        """Take part in the transaction that queues an update with a guard.

        Raises the error that refuses it.
        """

    def verdict(self, action: ActionRecord, since: float) -> BakeEnd | None:
        """Return how the bake of an action ends whose time is over; None: it goes on.

        `since` is the end of the changes.
        """

    def bake(self, action_id: str, until: float) -> None:
        """Take part in the transaction that begins the bake."""

    def close(self, action_id: str) -> None:
        """Take part in the transaction that ends the bake.

        Nothing takes the update back from now on.
        """

    def fired(self, action_id: str) -> str:
        """Return why the guard has taken an update back; empty: it has not."""

    def shown(self, action_ids: Collection[str]) -> Mapping[str, JsonMap]:
        """Return further keys of the guards of actions, by action id."""
