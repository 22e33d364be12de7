"""Requests to change the members of a group: plain data between API and engine."""

from collections.abc import Mapping
from enum import StrEnum
from typing import Annotated, ClassVar, TypeAlias

from msgspec import Meta, Struct, field, to_builtins

from heatlite.core.json import AnyMap, JsonMap, whole_numbers
from heatlite.core.wire.base import Time
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


Text: TypeAlias = Annotated[str, Meta(min_length=1)]
Size: TypeAlias = Annotated[int, Meta(ge=0, le=MOST_MEMBERS)]


class ResizeRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The new size, with new limits or without.

    Without a size: only ``min_size``, ``max_size``; or ``follow_template``.
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
    min_size: Size | None = None
    """Fewest members from now on, also by signals, until the template has another number."""
    max_size: Size | None = None
    """Most members from now on, as ``min_size``."""
    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC): the action is ``INIT`` until then, and admitted like a request."""


class NewLimits(Struct, frozen=True, forbid_unknown_fields=True):
    """New limits. The size follows only if it is beyond them."""

    operation: ClassVar[Operation] = Operation.RESIZE
    min_size: Size | None = None
    """Fewest members from now on, also by signals, until the template has another number."""
    max_size: Size | None = None
    """Most members from now on, as ``min_size``."""
    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC): the action is ``INIT`` until then, and admitted like a request."""


class FollowTemplate(Struct, frozen=True, forbid_unknown_fields=True):
    """Returns a group to the size and the limits of its template."""

    operation: ClassVar[Operation] = Operation.RESIZE
    follow_template: Annotated[bool, Meta(extra_json_schema={"const": True})]
    """``true``, without another size: the group returns to the size and the limits of its template."""
    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC): the action is ``INIT`` until then, and admitted like a request."""


class ScaleOut(Struct, frozen=True, forbid_unknown_fields=True):
    """Options; ``null`` and ``{}``: one member."""

    operation: ClassVar[Operation] = Operation.SCALE_OUT
    count: Count = 1
    """Number of members."""
    strict: bool = True
    """``false``: stop at the limit instead of 400."""
    ignore_cooldown: bool = False
    """``true``: scale even in the group's cooldown."""
    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC): the action is ``INIT`` until then, and admitted like a request."""


class ScaleIn(Struct, frozen=True, forbid_unknown_fields=True):
    """Options; ``null`` and ``{}``: the oldest member."""

    operation: ClassVar[Operation] = Operation.SCALE_IN
    count: Count = 1
    """Number of members."""
    criteria: Criteria | None = None
    """The order in which members leave; default: that of the group's policy, else ``OLDEST_FIRST``.

    ``OLDEST_FIRST``, ``YOUNGEST_FIRST``, ``RANDOM``, or ``OLDEST_PROFILE_FIRST``, an older definition first. Failed
    members leave before all.
    """
    grace_period: Grace | None = None
    """Seconds before the deletion begins; default: those of the group's policy, else 0."""
    strict: bool = True
    """``false``: stop at the limit instead of 400."""
    ignore_cooldown: bool = False
    """``true``: scale even in the group's cooldown."""
    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC): the action is ``INIT`` until then, and admitted like a request."""


class DeleteMembers(Struct, frozen=True, forbid_unknown_fields=True):
    """The members to delete."""

    operation: ClassVar[Operation] = Operation.DELETE_MEMBERS
    members: Members
    """Names or physical ids of members, each once."""
    reduce: bool = True
    """``false``: new members, with new names, take their places."""
    grace_period: Grace | None = None
    """Seconds before the deletion begins; default: those of the group's policy, else 0."""


class Leave(Struct, frozen=True, forbid_unknown_fields=True):
    """The members that leave a group. Their objects stay, and no stack has them."""

    operation: ClassVar[Operation] = Operation.LEAVE
    members: Members
    """Names or physical ids of members, each once."""
    reduce: bool = True
    """``false``: new members, with new names, take their places."""
    plan_digest: str | None = None
    """Digest of an approved plan. If the plan is another one now, the answer is 409 ``PlanChanged``."""
    into: Text | None = None
    """Name or id of a root stack of the project that takes the members, as by ``move``. Needed for those that are
    nested stacks. Each is called after the group and the member there, such as ``web_0``."""


class DifferenceMode(StrEnum):
    """The treatment of objects that differ from the definition of a member."""

    REFUSE = "refuse"
    LIST = "list"


class Joining(Struct, frozen=True, forbid_unknown_fields=True):
    """An object that becomes a member, by one of ``id``, ``name`` and ``filter``.

    Several objects are one member by ``ids``.
    """

    id: Text | None = None
    """Id of the object."""
    name: Text | None = None
    """Its exact name, which no other object of the kind has."""
    filter: Annotated[AnyMap, Meta(min_length=1)] | None = None
    """Properties of the type. One object has all of them."""
    ids: Annotated[dict[Text, Text], Meta(min_length=1)] | None = None
    """Of a member that is a template: the id of each object, by the names of the template."""
    resource: Text | None = None
    """In place of these: a resource of the stack that has the group, by its name or path. It moves. All members of the
    request are resources then."""
    member: Text | None = field(default=None, name="as")
    """Name of the member; default: the group gives one."""


MOST_JOINING = 500


class JoinRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """The objects that become members of a group."""

    operation: ClassVar[Operation] = Operation.JOIN
    members: Annotated[tuple[Joining, ...], Meta(min_length=1, max_length=MOST_JOINING)]
    """The objects, or the resources, each once."""
    changes: DifferenceMode = DifferenceMode.REFUSE
    """``refuse``: an object that differs from the definition of a member is 409 ``ImportDiffers``. ``list``: the plan
    lists what differs, and the next update changes it."""
    plan_digest: str | None = None
    """Digest of the approved plan (required). If the plan is another one now, the answer is 409 ``PlanChanged``."""


PolicyName: TypeAlias = Annotated[str, Meta(pattern=r"^[a-zA-Z0-9][a-zA-Z0-9_.-]{0,63}$(?!\n)")]
Priority: TypeAlias = Annotated[int, Meta(ge=0, le=1000)]


class AttachPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """A policy that a group gets."""

    operation: ClassVar[Operation] = Operation.ATTACH_POLICY
    name: PolicyName
    """Name, unique in the group."""
    type: str
    """``zone_placement``, ``deletion``, ``load_balancing``, or a type of another package."""
    options: AnyMap = {}
    """Options of the type."""
    priority: Priority | None = None
    """Place in the chain of the group's policies: lower ones decide first. Default: that of the type."""
    enabled: bool = True
    """``false``: it decides nothing."""


class UpdatePolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """Changes of a group's policy. What is left out stays."""

    operation: ClassVar[Operation] = Operation.UPDATE_POLICY
    name: PolicyName
    """Name of the policy."""
    options: AnyMap | None = None
    """All options of the type anew."""
    priority: Priority | None = None
    """Place in the chain."""
    enabled: bool | None = None
    """``false``: it decides nothing."""


class DetachPolicy(Struct, frozen=True, forbid_unknown_fields=True):
    """The policy that a group loses."""

    operation: ClassVar[Operation] = Operation.DETACH_POLICY
    name: PolicyName
    """Name of the policy."""


PolicyRequest: TypeAlias = AttachPolicy | UpdatePolicy | DetachPolicy
POLICY_REQUESTS: Mapping[str, type[PolicyRequest]] = {
    one.operation.value: one for one in (AttachPolicy, UpdatePolicy, DetachPolicy)
}
"""Requests about policies by the key of the body."""
SizeRequest: TypeAlias = ResizeRequest | NewLimits | FollowTemplate | ScaleOut | ScaleIn | DeleteMembers


def body_of(request: SizeRequest | JoinRequest | Leave | PolicyRequest) -> JsonMap:
    """Return the request's body, with its defaults and without its time."""
    given = {key: value for key, value in to_builtins(request).items() if value is not None and key != "not_before"}
    return {request.operation.value: whole_numbers(given)}
