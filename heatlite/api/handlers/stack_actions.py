"""POST S/actions: starts the action that the key of the body names."""

from collections.abc import Callable, Mapping, Sequence
from typing import TypeAlias

from falcon import Response

from heatlite.api.handlers.common import StackFinder, ignored
from heatlite.api.request import Request
from heatlite.api.wire import bodies, scheduled_bodies
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest, features_off
from heatlite.core.json import Json, dump
from heatlite.core.validation import convert, options
from heatlite.engine.operations.action_signals import ActionSignals
from heatlite.engine.operations.maintenance_lock import MaintenanceLock
from heatlite.engine.operations.protection import Protection
from heatlite.engine.operations.scheduled_requests import ScheduledRequests
from heatlite.engine.operations.signals import Signals
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.state.requests import StackAction
from heatlite.store.records import StackRecord


class StackActions:
    """S/actions."""

    def __init__(
        self,
        finder: StackFinder,
        stacks: Stacks,
        maintenance: MaintenanceLock,
        protection: Protection,
        signals: Signals,
        controls: ActionSignals,
        scheduled: ScheduledRequests,
        others: Mapping[str, StackAction],
        off: Sequence[str],
    ) -> None:
        """Create it. `off` are the features that are off: their actions are unknown."""
        self._finder = finder
        self.stacks = stacks
        self.maintenance = maintenance
        self.protection = protection
        self.signals = signals
        self.controls = controls
        self.scheduled = scheduled
        self._others = others
        self._off = off

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Start the named action."""
        stack = self._finder.find(req, stack_name, stack_id)
        name, value = bodies.action(req)
        other = self._others.get(name)
        if name not in ACTIONS and other is None:
            hint = features_off(self._off)
            raise HTTPBadRequest(f"Invalid action {name} specified" + (f". {hint}" if hint else ""))
        req.require(f"actions:{name}")
        named = bodies.named_resources(value)
        if named:
            req.concerns(resource_name=", ".join(named))
        if other is not None:
            resp.text = dump(other.start(req.caller, stack, value))
            return
        if ACTIONS[name](self, req.caller, stack, value) is False:
            ignored(resp, "no_change")
        resp.text = "null"


Start: TypeAlias = Callable[[StackActions, Context, StackRecord, Json], bool | None]
"""Starts an action. Returns False if there is nothing to do."""


def _lock(to: StackActions, caller: Context, stack: StackRecord, value: Json) -> None:
    to.maintenance.lock(caller, stack, bodies.lock(value))


def _unlock(to: StackActions, caller: Context, stack: StackRecord, value: Json) -> None:
    bodies.unlock(value)
    to.maintenance.unlock(caller, stack)


def _protect(to: StackActions, caller: Context, stack: StackRecord, value: Json) -> None:
    asked = options(value, bodies.ProtectionOptions, "protect")
    to.protection.protect(caller, stack, asked.resource, asked.reason)


def _unprotect(to: StackActions, caller: Context, stack: StackRecord, value: Json) -> bool:
    asked = options(value, bodies.ProtectionOptions, "unprotect")
    return to.protection.unprotect(caller, stack, asked.resource, asked.reason)


def _end_bake(to: StackActions, caller: Context, stack: StackRecord, value: Json) -> None:
    to.controls.end_bake(caller, stack, options(value, bodies.EndBake, "end_bake").reason or "")


def _update(to: StackActions, caller: Context, stack: StackRecord, value: Json) -> None:
    to.scheduled.update(caller, stack, *scheduled_bodies.update_later(value))


ACTIONS: dict[str, Start] = {
    "update": _update,
    "delete": lambda to, caller, stack, value: to.scheduled.delete(caller, stack, scheduled_bodies.delete_later(value)),
    "check": lambda to, caller, stack, value: to.stacks.check(caller, stack, bodies.check(value)),
    "suspend": lambda to, caller, stack, value: to.stacks.suspend(caller, stack, bodies.timing("suspend", value)),
    "resume": lambda to, caller, stack, value: to.stacks.resume(caller, stack, bodies.timing("resume", value)),
    "retry": lambda to, caller, stack, _: to.stacks.retry(caller, stack),
    "cancel_update": lambda to, caller, stack, _: to.stacks.cancel(caller, stack, rollback=True),
    "cancel_without_rollback": lambda to, caller, stack, _: to.stacks.cancel(caller, stack, rollback=False),
    "end_bake": _end_bake,
    "lock": _lock,
    "unlock": _unlock,
    "rotate_keys": lambda to, caller, stack, _: to.signals.rotate_keys(caller, stack),
    "protect": _protect,
    "unprotect": _unprotect,
    "complete_lifecycle": lambda to, _, stack, value: to.signals.complete_lifecycle(
        stack, convert(value, bodies.LifecycleToken, "complete_lifecycle").lifecycle_action_token
    ),
}
"""Actions by the key of the body. Clients send null or "" as its value if they need no options."""
