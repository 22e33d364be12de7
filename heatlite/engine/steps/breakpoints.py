"""Breakpoints: hooks at which a resource waits until somebody clears them (heat-engine §14), and lifecycle hooks: the
same wait before a deletion in the course of an update, with a time of its own (docs/decisions/0010).

A hook that was reached is in its row's token: after a crash the next engine goes on waiting. Clearing it is a message
to the action, which arrives while the action runs, and stays until the action has ended: after a crash the same hook
does not stop the work again.
"""

import secrets
from collections.abc import Sequence

from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.state.hooks import CONVERGING, PRE_DELETE, STOPS_IN, clearing, is_over, waits_until
from heatlite.engine.steps.step import Work
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.stacks.messages import Messages
from heatlite.template.environment import Environment

MOST_NAMED = 10
"""Resources that are named where it is said what an action waits for."""


def parked_as(held: Sequence[Work]) -> tuple[ActionStatus, float | None, str]:
    """How an action stands that has let go of its worker while these works wait, when the first of them goes on by
    itself, and what is to be said of it.

    That somebody has to let a resource go shows in the status, whatever else is waited for.
    """
    ends = [until for work in held if (until := waits_until(work.row)) is not None]
    at_hook = any(work.hook == PRE_DELETE for work in held)
    status = ActionStatus.WAITING_LIFECYCLE_COMPLETION if at_hook else ActionStatus.WAITING
    named = [f"{work.hook} of {work.row.name}" for work in held[:MOST_NAMED]]
    more = f" and {len(held) - MOST_NAMED} more" if len(held) > MOST_NAMED else ""
    return status, min(ends, default=None), f"at hooks: {', '.join(named)}{more}" if named else ""


class Breakpoints:
    """The hooks of one action. Reads messages only if the action has hooks."""

    def __init__(self, messages: Messages, action: ActionRecord) -> None:
        self._messages = messages
        self._action = action
        self._cleared: frozenset[str] = frozenset()
        self._verb = Verb.INIT
        self._environment = Environment()

    def start(self, verb: Verb, environment: Environment) -> None:
        """From now on the stack's operation is `verb`, with the hooks of `environment`. Raises DatabaseUnavailable."""
        self._verb, self._environment = verb, environment
        if self._any:
            self._cleared = frozenset(self._messages.read(self._action.id))

    @property
    def _any(self) -> bool:
        return bool(self._environment.resource_registry.get("resources"))

    def reached(self, hook: str, row: ResourceRecord, now: float) -> JsonMap | None:
        """The token of a resource that has just reached the hook; None where it does not have to wait there."""
        is_set = hook in self._environment.hooks(row.name) and self._verb in STOPS_IN[hook]
        timeout = None if is_set else self._lifecycle_timeout(hook, row)
        if not is_set and timeout is None or self.is_cleared(hook, row):
            return None
        if hook == "pre-update" and row.created_at > self._action.created_at:
            return None  # made by this action, before a crash
        token: JsonMap = {"hook": hook}
        if hook == PRE_DELETE:
            token["lifecycle_action_token"] = secrets.token_hex(16)
        if timeout is not None:
            token["until"] = now + timeout
        return token

    def _lifecycle_timeout(self, hook: str, row: ResourceRecord) -> float | None:
        """How long an update lets a resource wait before it deletes it. One that is not well has nothing to finish."""
        if hook != PRE_DELETE or self._verb not in CONVERGING:
            return None
        is_well = row.status is Status.COMPLETE and row.physical_id is not None
        return self._environment.lifecycle_timeout(row.name) if is_well else None

    def is_cleared(self, hook: str, row: ResourceRecord) -> bool:
        """Whether somebody has cleared the hook for the row, as far as has been looked."""
        return clearing(self._verb, hook, row) in self._cleared

    def forget(self) -> None:
        """The action ends: remove its messages, in the caller's transaction."""
        if self._any:
            self._messages.clear(self._action.id)

    def let_go(self, works: Sequence[Work], now: float) -> list[Work]:
        """Those of the works whose hooks have been cleared by now, or who have waited long enough. Raises
        DatabaseUnavailable."""
        if not works:
            return []
        self._cleared = frozenset(self._messages.read(self._action.id))
        return [
            work
            for work in works
            if work.hook is not None and (self.is_cleared(work.hook, work.row) or is_over(work.row, now))
        ]
