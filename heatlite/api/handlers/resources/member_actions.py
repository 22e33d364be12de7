"""POST S/resources/{name}/actions: operations on groups, members, resources."""

from collections.abc import Callable
from http import HTTPStatus
from typing import TypeAlias

from falcon import Response

from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.wire import bodies, group_bodies, views
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, as_map, as_maps, whole_numbers
from heatlite.core.validation import approved, convert, options
from heatlite.engine.operations.groups import Groups
from heatlite.engine.operations.membership.joining import Joins
from heatlite.engine.operations.membership.leaving import Leaving
from heatlite.engine.operations.membership.member_moves import MemberMoves
from heatlite.engine.operations.membership.policies import GroupPolicies
from heatlite.engine.operations.scheduled_requests import ScheduledRequests
from heatlite.engine.state.group_requests import (
    POLICY_REQUESTS,
    DeleteMembers,
    FollowTemplate,
    JoinRequest,
    Leave,
    NewLimits,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
)
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.types.outputs import StackReader
from heatlite.store.records import ActionRecord, StackRecord


class MemberActions:
    """S/resources/{resource_name}/actions."""

    def __init__(
        self,
        finder: StackFinder,
        reader: StackReader,
        groups: Groups,
        joins: Joins,
        leaving: Leaving,
        scheduled: ScheduledRequests,
        policies: GroupPolicies,
        moves: Callable[[], MemberMoves | None],
    ) -> None:
        self._finder = finder
        self._reader = reader
        self.joins = joins
        self.leaving = leaving
        self.groups = groups
        self.scheduled = scheduled
        self.policies = policies
        self._moves = moves

    @property
    def moves(self) -> MemberMoves:
        """Joins and leaves by which members keep their rows.

        Raises HTTPBadRequest without their feature.
        """
        found = self._moves()
        if found is None:
            raise HTTPBadRequest("This server moves no resources: members join by ids, and leave without into.")
        return found

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Start the named action on a resource."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        key, value = bodies.action(req)
        if key not in ACTIONS:
            raise HTTPBadRequest(f"Invalid action {key} specified. There are {', '.join(sorted(ACTIONS))}.")
        req.require(f"actions:{key}")
        if _is_move(key, value):
            req.require(self.moves.rule)
        owner, row = self._reader.resource_at(stack, resource_name)
        action = ACTIONS[key](self, req.caller, owner, row.name, whole_numbers(value))
        resp.status = HTTPStatus.ACCEPTED
        resp.media = {"action": views.begun(action)}

    def plan(self, caller: Context, stack: StackRecord, key: str, value: Json) -> ShownPlan:
        """Return the plan of an action of `PLANS`.

        The value also has the path of the group, as `resource`.
        """
        options = as_map(value)
        path = convert(options.get("resource"), str, f"{key}.resource")
        owner, row = self._reader.resource_at(stack, path)
        rest = {name: one for name, one in options.items() if name != "resource"}
        return PLANS[key](self, caller, owner, row.name, whole_numbers(rest))


def _is_move(key: str, value: Json) -> bool:
    """Return whether a body lets members join or leave with their rows."""
    asked = as_map(value)
    return key == "leave" and "into" in asked or key == "join" and any(
        "resource" in one for one in as_maps(asked.get("members"))
    )


Start: TypeAlias = Callable[[MemberActions, Context, StackRecord, str, Json], ActionRecord]
Plan: TypeAlias = Callable[[MemberActions, Context, StackRecord, str, Json], ShownPlan]


def _change(
    to: MemberActions,
    caller: Context,
    stack: StackRecord,
    name: str,
    asked: ResizeRequest | NewLimits | FollowTemplate | ScaleOut | ScaleIn,
) -> ActionRecord:
    if asked.not_before is None:
        return to.groups.change(caller, stack, name, asked)
    moment = bodies.moment(f"{asked.operation}.not_before", asked.not_before)
    return to.scheduled.change(caller, stack, name, asked, moment)


def _replace_members(
    to: MemberActions, caller: Context, stack: StackRecord, name: str, value: Json
) -> ActionRecord:
    asked = convert(value, group_bodies.ReplacedMembers, "replace_members")
    if asked.not_before is None:
        return to.groups.replace_members(caller, stack, name, asked.members)
    moment = bodies.moment("replace_members.not_before", asked.not_before)
    return to.scheduled.replace_members(caller, stack, name, asked.members, moment)


def _join(to: MemberActions, caller: Context, stack: StackRecord, name: str, value: Json) -> ActionRecord:
    asked = approved(value, JoinRequest, "join")
    return (to.moves.start if _is_move("join", value) else to.joins.join)(caller, stack, name, asked)


def _leave(to: MemberActions, caller: Context, stack: StackRecord, name: str, value: Json) -> ActionRecord:
    asked = convert(value, Leave, "leave")
    return (to.moves.start if _is_move("leave", value) else to.leaving.leave)(caller, stack, name, asked)


def _plan_join(to: MemberActions, caller: Context, stack: StackRecord, name: str, value: Json) -> ShownPlan:
    asked = convert(value, JoinRequest, "join")
    return (to.moves if _is_move("join", value) else to.joins).plan(caller, stack, name, asked)


def _plan_leave(to: MemberActions, caller: Context, stack: StackRecord, name: str, value: Json) -> ShownPlan:
    asked = convert(value, Leave, "leave")
    return (to.moves if _is_move("leave", value) else to.leaving).plan(caller, stack, name, asked)


def _change_policy(key: str) -> Start:
    return lambda to, caller, stack, name, value: to.policies.change(
        caller, stack, name, convert(value, POLICY_REQUESTS[key], key)
    )


def _plan_policy(key: str) -> Plan:
    return lambda to, caller, stack, name, value: to.policies.plan(
        caller, stack, name, convert(value, POLICY_REQUESTS[key], key)
    )


def _recover(to: MemberActions, caller: Context, stack: StackRecord, name: str, value: Json) -> ActionRecord:
    asked = options(value, group_bodies.RecoverOptions, "recover")
    return to.groups.recover(caller, stack, name, group_bodies.OPERATIONS[asked.operation], {"recover": value})


ACTIONS: dict[str, Start] = {
    "resize": lambda to, caller, stack, name, value: _change(to, caller, stack, name, group_bodies.resize(value)),
    "scale_out": lambda to, caller, stack, name, value: _change(
        to, caller, stack, name, options(value, ScaleOut, "scale_out")
    ),
    "scale_in": lambda to, caller, stack, name, value: _change(
        to, caller, stack, name, options(value, ScaleIn, "scale_in")
    ),
    "delete_members": lambda to, caller, stack, name, value: to.groups.change(
        caller, stack, name, convert(value, DeleteMembers, "delete_members")
    ),
    "join": _join,
    "leave": _leave,
    **{key: _change_policy(key) for key in POLICY_REQUESTS},
    "replace_members": _replace_members,
    "recover": _recover,
    "check": lambda to, caller, stack, name, value: to.groups.check(
        caller, stack, name, options(value, group_bodies.MemberCheck, "check").believe_absent
    ),
}
"""Actions by the key of the body."""

PLANS: dict[str, Plan] = {
    "join": _plan_join,
    "leave": _plan_leave,
    "delete_members": lambda to, caller, stack, name, value: to.groups.plan(
        caller, stack, name, convert(value, DeleteMembers, "delete_members")
    ),
    **{key: _plan_policy(key) for key in POLICY_REQUESTS},
}
"""Actions of which previews show the plan."""
