"""Requests to change the members of a group: plain data between API and engine."""

from enum import StrEnum
from typing import ClassVar, TypeAlias

from msgspec import Struct, to_builtins

from heatlite.core.json import JsonMap
from heatlite.engine.state.conflict_rules import Operation


class Criteria(StrEnum):
    """The order in which members leave a group.

    Failed members leave before all others.
    """

    OLDEST_FIRST = "OLDEST_FIRST"
    YOUNGEST_FIRST = "YOUNGEST_FIRST"
    RANDOM = "RANDOM"
    OLDEST_PROFILE_FIRST = "OLDEST_PROFILE_FIRST"
    """Members with an older definition before those with the current one, then the oldest."""


class Adjustment(StrEnum):
    """The meaning of the number of a resize."""

    EXACT_CAPACITY = "EXACT_CAPACITY"
    CHANGE_IN_CAPACITY = "CHANGE_IN_CAPACITY"
    CHANGE_IN_PERCENTAGE = "CHANGE_IN_PERCENTAGE"


class Resize(Struct, frozen=True):
    """Sets the size of a group."""

    operation: ClassVar[Operation] = Operation.RESIZE
    adjustment_type: Adjustment
    number: float
    min_step: int | None = None
    strict: bool = True
    """Refuse a size beyond the limits; else it is cut."""


class FollowTemplate(Struct, frozen=True):
    """Returns a group to the size that its template asks for."""

    operation: ClassVar[Operation] = Operation.RESIZE
    follow_template: bool = True


class ScaleOut(Struct, frozen=True):
    """Adds members."""

    operation: ClassVar[Operation] = Operation.SCALE_OUT
    count: int = 1
    strict: bool = True
    ignore_cooldown: bool = False


class ScaleIn(Struct, frozen=True):
    """Removes members by a criterion."""

    operation: ClassVar[Operation] = Operation.SCALE_IN
    count: int = 1
    criteria: Criteria = Criteria.OLDEST_FIRST
    grace_period: int = 0
    """Seconds before the deletion begins."""
    strict: bool = True
    ignore_cooldown: bool = False


class DeleteMembers(Struct, frozen=True):
    """Removes members by name or physical id."""

    operation: ClassVar[Operation] = Operation.DELETE_MEMBERS
    members: tuple[str, ...]
    reduce: bool = True
    """False: new members, with new names, take their places."""
    grace_period: int = 0


SizeRequest: TypeAlias = Resize | FollowTemplate | ScaleOut | ScaleIn | DeleteMembers


def body_of(request: SizeRequest) -> JsonMap:
    """Return the request's body, with its defaults."""
    given = to_builtins(request)
    return {request.operation.value: {key: value for key, value in given.items() if value is not None}}
