"""Wire types of stacks."""

from typing import Annotated

from msgspec import UNSET, Struct, UnsetType

from heatlite.core.clouds import CloudIdentity
from heatlite.core.wire.base import Answer, Count, Links, Time, column
from heatlite.core.wire.resources import Protection


class StackHealth(Struct, frozen=True):
    """Counts of a tree."""

    unhealthy: Count = 0
    """Resources that are CHECK_FAILED, or that a health note says are unhealthy."""
    unknown: Count = 0
    """Resources that the last check could not look at."""
    suspected: Count = 0
    """Resources that a health note suspects."""
    held: Count = 0
    """Health notes that are held back."""
    scopes_suspended: Count = 0


class Restricted(Answer, frozen=True):
    """The part of a stack's definition that updates have left out."""

    since: Time
    """Time of the last update that has left something out."""
    action_id: str
    """Id of its action."""
    left_out: list[str]
    """Paths of the resources that are not as the definition says.

    Of a group or nested stack all of whose resources are left out there is its own path only.
    """


class ListedStack(Answer, frozen=True):
    """A stack of a list."""

    id: Annotated[str, column(9)]
    """Id of the stack."""
    links: Links
    """Links, each with ``href`` and ``rel``."""
    stack_name: Annotated[str, column(1)]
    """Name of the stack."""
    description: str
    """Always empty, as in Heat."""
    stack_status: Annotated[str, column(2)]
    """The state of the stack."""
    stack_status_reason: Annotated[str, column(10)]
    """Reason of the state."""
    creation_time: Annotated[Time, column(6)]
    """Time of creation."""
    updated_time: Annotated[Time | None, column(7)]
    """Time of the last update, or ``null``."""
    deletion_time: Time | None
    """Time of deletion, or ``null``."""
    stack_owner: Annotated[str | None, column(8)]
    """User who made the stack."""
    parent: str | None
    """Id of the stack in which this one is nested, or ``null``."""
    stack_user_project_id: str | None
    """The project in the stack domain of Keystone in which the agents of the stack's servers have their accounts.

    ``null`` where they have none.
    """
    tags: list[str] | None
    """The tags, or ``null`` if there are none."""
    locked: Annotated[bool, column(4)]
    """``true`` under a maintenance lock."""
    protected: Annotated[bool, column(5)]
    """``true`` if the stack itself is protected from deletion."""
    health: Annotated[StackHealth | None, column(3)]
    """Counts of the tree: ``unhealthy``, ``unknown`` and ``suspected`` resources (see the resources' ``health``).

    Also ``held`` incidents and ``scopes_suspended``. ``null`` for a nested stack.
    """
    project: str | UnsetType = UNSET
    """The project of the stack. Only with ``global_tenant``."""
    restricted: Restricted | UnsetType = UNSET
    """The part that updates with ``target`` or ``exclude`` have left out, until an update of all succeeds."""


class Described(Answer, frozen=True):
    """Keys of a stack that a preview has, too."""

    id: str
    """Id of the stack."""
    links: Links
    """Links, each with ``href`` and ``rel``."""
    stack_name: str
    """Name of the stack."""
    description: str
    """The description in the template; ``No description`` if there is none."""
    template_description: str
    """The same as ``description``."""
    creation_time: Time
    """Time of creation."""
    updated_time: Time | None
    """Time of the last update, or ``null``."""
    deletion_time: Time | None
    """Time of deletion, or ``null``."""
    parameters: dict[str, str | None]
    """Names and values of the parameters, all values as text.

    With ``OS::stack_id``, ``OS::stack_name`` and ``OS::project_id``. Hidden ones are ``******``.
    """
    disable_rollback: bool
    """``true``: a failed operation is not rolled back."""
    timeout_mins: Count | None
    """Minutes until the operation times out; ``null``: 60."""
    stack_owner: str | None
    """User who made the stack."""
    parent: str | None
    """Id of the stack in which this one is nested, or ``null``."""
    stack_user_project_id: str | None
    """The project in the stack domain of Keystone in which the agents of the stack's servers have their accounts.

    ``null`` where they have none.
    """
    tags: list[str]
    """The tags."""
    notification_topics: list[str]
    """Always empty."""
    capabilities: list[str]
    """Always empty."""


class Leftover(Struct, frozen=True):
    """An earlier object of a resource that waits for its deletion."""

    resource_name: str
    """Name of the resource, which has another object now."""
    resource_type: str
    """Type of the earlier object."""
    physical_resource_id: str
    """Id of the earlier object; empty if it has none."""
    resource_status: str
    """The state of the earlier object: ``DELETE_FAILED``."""
    resource_status_reason: str
    """Reason of the state."""


class StackState(Answer, frozen=True):
    """Keys of a stack that a preview has not."""

    stack_status: str
    """The state of the stack."""
    stack_status_reason: str
    """Reason of the state."""
    locked: bool
    """``true`` under a maintenance lock."""
    protection: Protection | None
    """``protected_by``, ``protected_at`` and ``reason`` of what is protected from deletion, or ``null``."""
    health: StackHealth | None
    """Counts of the tree: ``unhealthy``, ``unknown`` and ``suspected`` resources (see the resources' ``health``).

    Also ``held`` incidents and ``scopes_suspended``. ``null`` for a nested stack.
    """
    cloud: CloudIdentity | None
    """The cloud in which the stack, and those nested in it, have their objects.

    ``name``, ``auth_url``, ``region`` and ``project_id``. It is recorded with the first resource that needs a cloud;
    ``null`` until then.
    """
    restricted: Restricted | UnsetType = UNSET
    """The part that updates with ``target`` or ``exclude`` have left out, until an update of all succeeds."""
    leftovers: list[Leftover] | UnsetType = UNSET
    """Earlier objects that wait for their deletion, if there are any.

    An update that fails in its clean-up leaves them. The stack of the resource lists them.
    """
