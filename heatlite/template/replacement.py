"""Replacement settings: order and name of the two objects.

Written as ``replacement: {order: …, name: …}``, in a resource's update_policy, or in the registry of an environment
under ``resources:`` for a resource or a pattern of names (``"*"``: the stack and its nested stacks). The default is
Heat's only order, create first, unless the type's two objects cannot coexist (`plugin.resource.Resource.excludes`).
"""

from collections.abc import Iterator, Mapping
from typing import Final

from msgspec import Struct
from msgspec.structs import replace

from heatlite.template.types import Fault

CREATE_FIRST: Final = "create_first"
"""The new object is made, what uses it turns to it, the old one goes."""
DELETE_FIRST: Final = "delete_first"
"""Delete the old object before the new one is made."""
REBUILD: Final = "rebuild"
"""Rebuild the object in place if its type can; else use the default."""
NEW: Final = "new"
KEEP: Final = "keep"
"""The new object is called as the old one was; only where that is gone by then."""

ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {"order": (CREATE_FIRST, DELETE_FIRST, REBUILD), "name": (NEW, KEEP)}


class Replacement(Struct, frozen=True):
    """Replacement settings of one resource."""

    order: str | None = None
    """None: not set."""
    name: str = NEW

    def refined(self, settings: object) -> "Replacement":
        """With what `settings`, found free of faults, say instead."""
        if not isinstance(settings, Mapping):
            return self
        order, name = settings.get("order"), settings.get("name")
        return replace(
            self,
            order=order if isinstance(order, str) else self.order,
            name=name if isinstance(name, str) else self.name,
        )

    def fault(self) -> str | None:
        """Return an error text for contradictory settings, or None."""
        if self.name == KEEP and self.order in (None, CREATE_FIRST):
            return "a new object cannot take the name of one that is still there: name: keep needs order: delete_first"
        return None


def faults(settings: object) -> Iterator[Fault]:
    """Return the faults of ``replacement: …``. Unknown values have none."""
    if not isinstance(settings, Mapping):
        yield Fault((), "replacement must be a map with order and name")
        return
    for key, value in settings.items():
        allowed = ALLOWED.get(str(key))
        if allowed is None:
            yield Fault((str(key),), f'replacement has no key "{key}"', f"one of {', '.join(ALLOWED)}")
        elif isinstance(value, str) and value not in allowed or isinstance(value, bool | int | float | list | Mapping):
            yield Fault((str(key),), f'"{value}" is no {key} of a replacement', f"one of {', '.join(allowed)}")
