"""Wire types of resources."""

from typing import Annotated

from msgspec import UNSET, Meta, UnsetType

from heatlite.core.json import AnyMap
from heatlite.core.wire.base import Answer, Links, Time, column

MOST_RESOURCES = 500
"""Resources that one request takes into a stack, out of it, or to other names."""


class Protection(Answer, frozen=True):
    """Protection of a stack or a resource from deletion."""

    protected_by: str | None
    protected_at: Time
    reason: str | None


class ResourceObject(Answer, frozen=True):
    """Keys of a resource's object, also of an old one."""

    physical_resource_id: Annotated[str, column(6)]
    """Id of the real object; empty while there is none."""
    resource_type: Annotated[str, column(5)]
    """The resource type."""
    resource_status: Annotated[str, column(2)]
    """The state."""
    resource_status_reason: Annotated[str, column(7)]
    """Reason of the state."""
    creation_time: Time
    """Time of creation."""
    updated_time: Annotated[Time, column(8)]
    """Time of the last change, initially of creation."""


class Resource(ResourceObject, frozen=True):
    """A resource."""

    resource_name: Annotated[str, column(1)]
    """Name of the resource in the template."""
    logical_resource_id: str
    """The same as ``resource_name``."""
    required_by: list[str]
    """Names of the resources that depend on it."""
    links: Links
    """Links, each with ``href`` and ``rel``."""
    protection: Annotated[Protection | None, column(4, "protected")]
    """``protected_by``, ``protected_at`` and ``reason`` of what is protected from deletion, or ``null``."""
    deletion_policy: Annotated[str, Meta(extra_json_schema={"enum": ["Delete", "Retain", "Snapshot"]})]
    """Effect of a deletion on the object: ``Delete``, ``Retain`` or ``Snapshot``. ``Retain`` for an ``external_id``."""
    parent_resource: str | UnsetType = UNSET
    """The resource in whose nested stack it is. Left out in a root stack."""
    moved_from: str | UnsetType = UNSET
    """The name that it had before its last move. Left out without one."""
    left_over: list[ResourceObject] | UnsetType = UNSET
    """Old objects of the resource, which an update has replaced and could not delete, or not yet.

    Each has ``physical_resource_id``, ``resource_type``, ``resource_status``, ``resource_status_reason``,
    ``creation_time`` and ``updated_time``. The next update deletes them, or takes one back. Left out where there are
    none.
    """


class ResourceHealth(Answer, frozen=True):
    """Health of a resource."""

    state: Annotated[str, Meta(extra_json_schema={"enum": ["unhealthy", "suspected", "unknown"]})]
    since: Time | None
    source: str | None
    reason: str
    incident: str | None


class HealthOfResource(Answer, frozen=True):
    """The key of a resource, or of a change of a plan, on its health."""

    health: Annotated[ResourceHealth | UnsetType, column(3)] = UNSET
    """``state``, ``since``, ``reason``, and the ``source`` and the id of the ``incident``, or ``null``.

    ``unhealthy``: CHECK_FAILED, or an incident that is marked. ``unknown``: the last check could not look at the
    object. ``suspected``: an incident that is not marked yet. Left out where there is nothing to say.
    """


class ResourceDetails(Answer, frozen=True):
    """Keys of a resource that lists have only with details."""

    description: str | UnsetType = UNSET
    """The description in the template."""
    attributes: AnyMap | None | UnsetType = UNSET
    """Names and values of the attributes. Where the value of a hidden parameter is in one, that is ``******``."""
    attributes_error: str | UnsetType = UNSET
    """The reason for which ``attributes`` is ``null`` in a list with details (``max_stack_data``); absent otherwise."""
