"""How a resource is replaced: which of the two objects goes or comes first, and under which name.

Written as ``replacement: {order: …, name: …}``, in a resource's update_policy, or in the registry of an environment
under ``resources:`` for a resource or a pattern of names (``"*"``: the whole stack, and the stacks within it). Heat
knows one order only: create first. Where nothing is said that holds here, too, unless the type knows that its two
objects cannot be there at once (`plugin.resource.Resource.excludes`).
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Final

from heatlite.template.types import Fault

CREATE_FIRST: Final = "create_first"
"""The new object is made, what uses it turns to it, the old one goes."""
DELETE_FIRST: Final = "delete_first"
"""The old object goes before the new one is made: for what there can only be one of."""
REBUILD: Final = "rebuild"
"""The object is made anew in place, where its type can; else as if nothing were said."""
NEW: Final = "new"
KEEP: Final = "keep"
"""The new object is called as the old one was; only where that is gone by then."""

ALLOWED: Final[Mapping[str, tuple[str, ...]]] = {"order": (CREATE_FIRST, DELETE_FIRST, REBUILD), "name": (NEW, KEEP)}


@dataclass(frozen=True, slots=True)
class Replacement:
    """What holds for one resource."""

    order: str | None = None
    """None: nobody has said anything."""
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
        """What does not go together."""
        if self.name == KEEP and self.order in (None, CREATE_FIRST):
            return "a new object cannot take the name of one that is still there: name: keep needs order: delete_first"
        return None


def faults(settings: object) -> Iterator[Fault]:
    """What is wrong with ``replacement: …``; values that are not known yet are not."""
    if not isinstance(settings, Mapping):
        yield Fault((), "replacement must be a map with order and name")
        return
    for key, value in settings.items():
        allowed = ALLOWED.get(str(key))
        if allowed is None:
            yield Fault((str(key),), f'replacement has no key "{key}"', f"one of {', '.join(ALLOWED)}")
        elif isinstance(value, str) and value not in allowed or isinstance(value, bool | int | float | list | Mapping):
            yield Fault((str(key),), f'"{value}" is no {key} of a replacement', f"one of {', '.join(allowed)}")
