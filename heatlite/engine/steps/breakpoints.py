"""Breakpoints and lifecycle hooks: a resource waits until a caller clears them.

A lifecycle hook delays a deletion in an update and has a timeout (docs/decisions/0010-lifecycle-hooks.md). The row's
token keeps a hook that was reached, so that the wait survives a crash. Clearing is a message to the action. It stays
until the action has ended: after a crash the same hook does not stop the resource again.
"""

import secrets
from collections.abc import Callable, Sequence

from heatlite.core.errors import abbreviated
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.calls.step_execution import HookWait
from heatlite.engine.state.hooks import CONVERGING, PRE_DELETE, STOPS_IN, clearing, is_over, waits_until
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.stacks.messages import Messages
from heatlite.template.environment import Environment


def parked_as(waits: Sequence[HookWait]) -> tuple[ActionStatus, float | None, str]:
    """Return the status, the wake-up time and the reason of an action that parks.

    The time is that of the first timeout. A lifecycle hook decides the status, whatever else the action waits for.
    """
    ends = [until for wait in waits if (until := waits_until(wait.row)) is not None]
    at_hook = any(wait.hook == PRE_DELETE for wait in waits)
    status = ActionStatus.WAITING_LIFECYCLE_COMPLETION if at_hook else ActionStatus.WAITING
    named = abbreviated([f"{wait.hook} of {wait.row.name}" for wait in waits])
    return status, min(ends, default=None), f"at hooks: {named}" if named else ""


class Breakpoints:
    """The hooks of one action. Reads messages only if the action has hooks."""

    def __init__(self, messages: Messages, action: ActionRecord) -> None:
        self._messages = messages
        self._action = action
        self._cleared: frozenset[str] = frozenset()
        self._verb = Verb.INIT
        self._environment = Environment()
        self._any = False
        """True if the environment has settings of single resources, such as hooks."""

    def start(self, verb: Verb, environment: Environment) -> None:
        """Set the stack's operation and the environment with its hooks.

        Raises DatabaseUnavailable.
        """
        self._verb, self._environment = verb, environment
        # Of both definitions, if a rollback follows: either may have left messages.
        self._any = self._any or bool(environment.resource_registry.get("resources"))
        if self._any:
            self._cleared = frozenset(self._messages.read(self._action.id))

    def reached(self, hook: str, row: ResourceRecord, now: Callable[[], float]) -> JsonMap | None:
        """Return the token of a resource that now waits at the hook; None: no wait."""
        if not self._any:
            return None
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
            token["until"] = now() + timeout
        return token

    def _lifecycle_timeout(self, hook: str, row: ResourceRecord) -> float | None:
        """Return the seconds for which an update delays a deletion.

        A broken resource is not delayed.
        """
        if hook != PRE_DELETE or self._verb not in CONVERGING:
            return None
        is_well = row.status is Status.COMPLETE and row.physical_id is not None
        return self._environment.lifecycle_timeout(row.name) if is_well else None

    def is_cleared(self, hook: str, row: ResourceRecord) -> bool:
        """Return whether the hook of the row was cleared, as of the last read."""
        return clearing(self._verb, hook, row) in self._cleared

    def forget(self) -> None:
        """Remove the messages to the action, which ends in the caller's transaction."""
        if self._any:
            self._messages.clear(self._action.id)

    def over(self, waits: Sequence[HookWait], now: float) -> list[HookWait]:
        """Return the waits that were cleared or have timed out.

        Raises DatabaseUnavailable.
        """
        if not waits:
            return []
        self._cleared = frozenset(self._messages.read(self._action.id))
        return [wait for wait in waits if self.is_cleared(wait.hook, wait.row) or is_over(wait.row, now)]
