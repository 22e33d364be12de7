"""Wire types of events."""

from typing import Annotated

from heatlite.core.json import AnyMap
from heatlite.core.wire.base import Answer, Links, Time, column


class Event(Answer, frozen=True):
    """A change of state of a stack or a resource."""

    id: Annotated[str, column(6)]
    """Id of the event."""
    links: Links
    """Links to the event, the resource and the stack; with ``nested_depth`` also to the ``root_stack``."""
    event_time: Annotated[Time, column(1)]
    """Time of the event."""
    resource_name: Annotated[str, column(2)]
    """Name of the resource in the template."""
    logical_resource_id: str
    """The same as ``resource_name``."""
    physical_resource_id: Annotated[str, column(5)]
    """Id of the real object; empty while there is none."""
    resource_status: Annotated[str, column(3)]
    """The state."""
    resource_status_reason: Annotated[str, column(4)]
    """Reason of the state."""


class EventDetails(Answer, frozen=True):
    """Keys of an event that is shown alone, beside those of lists."""

    resource_type: str
    """The resource type."""
    resource_properties: AnyMap
    """The properties of the resource at that time.

    Where the stack, or another of its tree, has a hidden parameter, each value is ``******``.
    """
