"""POST …/actions: one key says which."""

from collections.abc import Callable
from typing import TypeAlias

from falcon import Response

from heatlite.api import bodies
from heatlite.api.handler import Handler, Rooms
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


ACTIONS: dict[str, Start] = {
    "check": lambda rooms, caller, stack, _: rooms.stacks.check(caller, stack),
    "suspend": lambda rooms, caller, stack, _: rooms.stacks.suspend(caller, stack),
    "resume": lambda rooms, caller, stack, _: rooms.stacks.resume(caller, stack),
    "retry": lambda rooms, caller, stack, _: rooms.stacks.retry(caller, stack),
    "cancel_update": lambda rooms, caller, stack, _: rooms.stacks.cancel(caller, stack, rollback=True),
    "cancel_without_rollback": lambda rooms, caller, stack, _: rooms.stacks.cancel(caller, stack, rollback=False),
    "lock": _lock,
    "unlock": _unlock,
}
"""What stands beside the key only matters for `lock` and `unlock`; clients send null or ""."""


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
        ACTIONS[name](self._rooms, req.caller, stack, value)
        resp.text = "null"
