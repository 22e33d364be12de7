"""Joins and leaves that are moves: members keep their rows, and get other places."""

from msgspec import Struct

from heatlite.api.components import Components
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest, ImportDiffers, InvalidValue
from heatlite.core.json import Json, JsonMap
from heatlite.engine.state.group_requests import DifferenceMode, JoinRequest, Leave
from heatlite.engine.state.requests import ShownPlan
from heatlite.engine.types.type_calls import type_code
from heatlite.features.ownership.api.actions import MOVE, actions
from heatlite.plugin.groups import SizedGroup
from heatlite.store.records import ActionRecord, StackRecord


class _Move(Struct, frozen=True):
    """A move in a tree."""

    root: StackRecord
    body: JsonMap


class ResourcesAsMembers:
    """Plans and starts moves into groups, and of members into stacks."""

    rule = f"actions:{MOVE}"

    def __init__(self, core: Components) -> None:
        self._store = core.store
        self._reader = core.reader
        self._groups = core.groups
        self._action = actions(core)[MOVE]

    def plan(self, caller: Context, stack: StackRecord, name: str, asked: JoinRequest | Leave) -> ShownPlan:
        """Return the plan of a move. Raises as the move, and HTTPBadRequest."""
        move = self._move(stack, name, asked)
        return self._action.plan(caller, move.root, move.body)

    def start(self, caller: Context, stack: StackRecord, name: str, asked: JoinRequest | Leave) -> ActionRecord:
        """Move members, and return the action.

        Raises as the move, HTTPBadRequest, and ImportDiffers for resources that an update would change then.
        """
        move, action = self._move(stack, name, asked), self._action
        if isinstance(asked, JoinRequest) and asked.changes is DifferenceMode.REFUSE:
            _require_equal(action.plan(caller, move.root, move.body))
        action.start(caller, move.root, move.body)
        begun = self._store.actions.get(caller.queued[0])
        assert begun is not None
        return begun

    def _move(self, stack: StackRecord, name: str, asked: JoinRequest | Leave) -> _Move:
        root = stack if stack.root_id is None else self._store.stacks.get(stack.root_id)
        assert root is not None
        path = self._groups.path(stack, name)
        body: JsonMap = {} if asked.plan_digest is None else {"plan_digest": asked.plan_digest}
        if isinstance(asked, JoinRequest):
            return _Move(root, {**body, "moved": self._entering(stack, path, asked)})
        if not asked.reduce:
            raise HTTPBadRequest("leave.into: members that another stack takes leave no place free: reduce is true.")
        _, names = self._groups.named_members(stack, path[-1], asked.members)
        moved: list[Json] = [{"from": "/".join((*path, one)), "to": f"{path[-1]}_{one}"} for one in names]
        if asked.into not in (root.name, root.id):
            body["to_stack"] = asked.into
        return _Move(root, {**body, "moved": moved})

    def _entering(self, stack: StackRecord, path: tuple[str, ...], asked: JoinRequest) -> list[Json]:
        """Return the moves of resources into a group."""
        others = [one for one in asked.members if one.resource is None or one.id or one.name or one.filter or one.ids]
        if others:
            raise HTTPBadRequest("join.members: resources join by a request of their own, without id, name and filter.")
        group = self._groups.group(stack, path[-1])
        self._groups.members_of(group)
        resource = self._reader.resources_of(stack).make(group)
        assert isinstance(resource, SizedGroup)
        with type_code():
            names = self._groups.names_of(resource, asked.members)
        if len({*names}) < len(names):
            raise InvalidValue(f"Group {path[-1]}: two new members have the same name.")
        above, given = path[:-1], (str(one.resource) for one in asked.members)
        return [
            {"from": "/".join((*above, old)), "to": "/".join((*path, new))}
            for old, new in zip(given, names, strict=True)
        ]


def _require_equal(plan: ShownPlan) -> None:
    """Raise ImportDiffers if the next update would change what has moved."""
    moved = {one.path for one in plan.resources}
    differing = ["/".join(one.path) for one in plan.later if one.path in moved]
    if differing:
        raise ImportDiffers(
            f"Resources differ from the definition of the members: {', '.join(differing)}. Change them, or send"
            " changes: list to have the next update do that."
        )
