"""POST …/actions: one key says which."""

from collections.abc import Callable
from typing import TypeAlias

from falcon import Response

from heatlite.api import bodies
from heatlite.api.handlers.handler import Handler, Rooms
from heatlite.api.request import Request
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json
from heatlite.store.records import StackRecord

Start: TypeAlias = Callable[[Rooms, Context, StackRecord, Json], None]


def _lock(rooms: Rooms, caller: Context, stack: StackRecord, value: Json) -> None:
    asked = bodies.lock(value)
    rooms.maintenance.lock(caller, stack, asked.level, asked.reason, asked.expires_at)


def _unlock(rooms: Rooms, caller: Context, stack: StackRecord, value: Json) -> None:
    bodies.unlock(value)
    rooms.maintenance.unlock(caller, stack)


def _protect(rooms: Rooms, caller: Context, stack: StackRecord, value: Json) -> None:
    rooms.protection.protect(caller, stack, *bodies.protection("protect", value))


def _unprotect(rooms: Rooms, caller: Context, stack: StackRecord, value: Json) -> None:
    rooms.protection.unprotect(caller, stack, *bodies.protection("unprotect", value))


ACTIONS: dict[str, Start] = {
    "check": lambda rooms, caller, stack, value: rooms.stacks.check(caller, stack, bodies.timing("check", value)),
    "suspend": lambda rooms, caller, stack, value: rooms.stacks.suspend(caller, stack, bodies.timing("suspend", value)),
    "resume": lambda rooms, caller, stack, value: rooms.stacks.resume(caller, stack, bodies.timing("resume", value)),
    "retry": lambda rooms, caller, stack, _: rooms.stacks.retry(caller, stack),
    "cancel_update": lambda rooms, caller, stack, _: rooms.stacks.cancel(caller, stack, rollback=True),
    "cancel_without_rollback": lambda rooms, caller, stack, _: rooms.stacks.cancel(caller, stack, rollback=False),
    "lock": _lock,
    "unlock": _unlock,
    "rotate_keys": lambda rooms, caller, stack, _: rooms.signals.rotate_keys(caller, stack),
    "protect": _protect,
    "unprotect": _unprotect,
    "complete_lifecycle": lambda rooms, _, stack, value: rooms.signals.complete_lifecycle(
        stack, bodies.lifecycle_token(value)
    ),
}
"""What stands beside the key; clients send null or "" where they want nothing more."""


class Actions(Handler):
    """S/actions."""

    def __init__(self, rooms: Rooms) -> None:
        super().__init__(rooms)
        self._rooms = rooms

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Start what the body names."""
        stack = self.find(req, stack_name, stack_id)
        name, value = bodies.action(req)
        if name not in ACTIONS:
            raise HTTPBadRequest(f"Invalid action {name} specified")
        req.require(f"actions:{name}")
        ACTIONS[name](self._rooms, req.caller, stack, value)
        resp.text = "null"
