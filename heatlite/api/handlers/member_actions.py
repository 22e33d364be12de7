"""POST S/resources/{name}/actions: operations on groups, members, resources."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeAlias

from falcon import Response

from heatlite.api import bodies, group_bodies, views
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, whole_numbers
from heatlite.engine.operations.groups import Groups
from heatlite.engine.types.outputs import StackReader
from heatlite.store.records import ActionRecord, StackRecord


class MemberActions:
    """S/resources/{resource_name}/actions."""

    def __init__(self, finder: StackFinder, reader: StackReader, groups: Groups) -> None:
        self._finder = finder
        self._reader = reader
        self._groups = groups

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Start the named action on a resource."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        key, value = bodies.action(req)
        if key not in ACTIONS:
            raise HTTPBadRequest(f"Invalid action {key} specified. There are {', '.join(sorted(ACTIONS))}.")
        req.require(f"actions:{key}")
        owner, row = self._reader.resource_at(stack, resource_name)
        action = ACTIONS[key](self._groups, req.caller, owner, row.name, whole_numbers(value))
        resp.status = HTTPStatus.ACCEPTED
        resp.media = {"action": views.begun(action)}


Start: TypeAlias = Callable[[Groups, Context, StackRecord, str, Json], ActionRecord]


ACTIONS: dict[str, Start] = {
    "resize": lambda to, caller, stack, name, value: to.change(caller, stack, name, group_bodies.resize(value)),
    "scale_out": lambda to, caller, stack, name, value: to.change(caller, stack, name, group_bodies.scale_out(value)),
    "scale_in": lambda to, caller, stack, name, value: to.change(caller, stack, name, group_bodies.scale_in(value)),
    "delete_members": lambda to, caller, stack, name, value: to.change(
        caller, stack, name, group_bodies.delete_members(value)
    ),
    "replace_members": lambda to, caller, stack, name, value: to.replace_members(
        caller, stack, name, group_bodies.replace_members(value)
    ),
    "recover": lambda to, caller, stack, name, value: to.recover(
        caller, stack, name, group_bodies.recover(value), {"recover": value}
    ),
    "check": lambda to, caller, stack, name, value: to.check(caller, stack, name, group_bodies.check_members(value)),
}
"""Actions by the key of the body."""
