"""Requests to change the members of a group: plain data between API and engine."""

from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, Struct, to_builtins

from heatlite.core.json import JsonMap, whole_numbers
from heatlite.engine.state.conflict_rules import Operation

MOST_MEMBERS = 10_000


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


Count: TypeAlias = Annotated[int, Meta(ge=1, le=MOST_MEMBERS)]
Grace: TypeAlias = Annotated[int, Meta(ge=0, le=86_400)]
Members: TypeAlias = Annotated[
    tuple[Annotated[str, Meta(min_length=1)], ...], Meta(min_length=1, max_length=MOST_MEMBERS)
]


class Resize(Struct, frozen=True, forbid_unknown_fields=True):
    """The new size: ``adjustment_type`` and ``number``, or ``follow_template``.

    The limits are the template's: ``min_size`` and ``max_size`` are 400.
    """

    operation: ClassVar[Operation] = Operation.RESIZE
    adjustment_type: Adjustment
    """The meaning of ``number``: ``EXACT_CAPACITY``, ``CHANGE_IN_CAPACITY`` or ``CHANGE_IN_PERCENTAGE``."""
    number: Annotated[float, Meta(ge=-1_000_000, le=1_000_000)]
    """The new size, or the change of size."""
    min_step: Annotated[int, Meta(ge=0, le=MOST_MEMBERS)] | None = None
    """Smallest change of size by a percentage."""
    strict: bool = True
    """``false``: stop at the limit instead of 400."""


class FollowTemplate(Struct, frozen=True, forbid_unknown_fields=True):
    """Returns a group to the size that its template asks for."""

    operation: ClassVar[Operation] = Operation.RESIZE
    follow_template: Annotated[bool, Meta(extra_json_schema={"const": True})]
    """``true``, alone: the group returns to the size that its template asks for."""


class ScaleOut(Struct, frozen=True, forbid_unknown_fields=True):
    """Options; ``null`` and ``{}``: one member."""

    operation: ClassVar[Operation] = Operation.SCALE_OUT
    count: Count = 1
    """Number of members."""
    strict: bool = True
    """``false``: stop at the limit instead of 400."""
    ignore_cooldown: bool = False
    """``true``: scale even in the group's cooldown."""


class ScaleIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Options; ``null`` and ``{}``: the oldest member."""

    operation: ClassVar[Operation] = Operation.SCALE_IN
    count: Count = 1
    """Number of members."""
    criteria: Criteria = Criteria.OLDEST_FIRST
    """The order in which members leave.

    ``OLDEST_FIRST``, ``YOUNGEST_FIRST``, ``RANDOM``, or ``OLDEST_PROFILE_FIRST``, an older definition first. Failed
    members leave before all.
    """
    grace_period: Grace = 0
    """Seconds before the deletion begins."""
    strict: bool = True
    """``false``: stop at the limit instead of 400."""
    ignore_cooldown: bool = False
    """``true``: scale even in the group's cooldown."""


class DeleteMembers(Struct, frozen=True, forbid_unknown_fields=True):
    """The members to delete."""

    operation: ClassVar[Operation] = Operation.DELETE_MEMBERS
    members: Members
    """Names or physical ids of members, each once."""
    reduce: bool = True
    """``false``: new members, with new names, take their places."""
    grace_period: Grace = 0
    """Seconds before the deletion begins."""


SizeRequest: TypeAlias = Resize | FollowTemplate | ScaleOut | ScaleIn | DeleteMembers


def body_of(request: SizeRequest) -> JsonMap:
    """Return the request's body, with its defaults."""
    given = {key: value for key, value in to_builtins(request).items() if value is not None}
    return {request.operation.value: whole_numbers(given)}
