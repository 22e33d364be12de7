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
from heatlite.core.validation import convert, options
from heatlite.engine.operations.groups import Groups
from heatlite.engine.state.group_requests import DeleteMembers, ScaleIn, ScaleOut
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


def _recover(to: Groups, caller: Context, stack: StackRecord, name: str, value: Json) -> ActionRecord:
    asked = options(value, group_bodies.RecoverOptions, "recover")
    return to.recover(caller, stack, name, group_bodies.OPERATIONS[asked.operation], {"recover": value})


ACTIONS: dict[str, Start] = {
    "resize": lambda to, caller, stack, name, value: to.change(caller, stack, name, group_bodies.resize(value)),
    "scale_out": lambda to, caller, stack, name, value: to.change(
        caller, stack, name, options(value, ScaleOut, "scale_out")
    ),
    "scale_in": lambda to, caller, stack, name, value: to.change(
        caller, stack, name, options(value, ScaleIn, "scale_in")
    ),
    "delete_members": lambda to, caller, stack, name, value: to.change(
        caller, stack, name, convert(value, DeleteMembers, "delete_members")
    ),
    "replace_members": lambda to, caller, stack, name, value: to.replace_members(
        caller, stack, name, convert(value, group_bodies.ReplacedMembers, "replace_members").members
    ),
    "recover": _recover,
    "check": lambda to, caller, stack, name, value: to.check(
        caller, stack, name, options(value, group_bodies.MemberCheck, "check").believe_absent
    ),
}
"""Actions by the key of the body."""
