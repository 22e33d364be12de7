"""What the engine hands to a resource."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from heatlite.core.json import JsonMap


@dataclass(slots=True)
class Facts:
    """What one resource row says, and the clock."""

    name: str
    """The resource's name in the template."""
    stack_id: str
    stack_name: str
    project: str
    physical_name: str
    """The name that the real object carries; fixed before anything is made, so it can be found again."""
    physical_id: str | None
    """Set by a handler once the object exists; stored with the next commit."""
    properties: JsonMap
    """Coerced, without defaults: what the object is to be. During an update these are the new ones."""
    metadata: JsonMap
    now: Callable[[], float]
    """Seconds since the epoch, UTC."""
    data: JsonMap = field(default_factory=dict)
    """What handlers keep; stored after each handler and each check."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an update would change. Values are coerced, without defaults."""

    changed: frozenset[str]
    """Names of the properties that differ, defaults applied on both sides."""
    before: Mapping[str, object]
    after: Mapping[str, object]
    """May hold UNKNOWN in a preview."""
    metadata_changed: bool = False
