"""Differences of the real object that a definition ignores.

Written as ``ignore_drift: [/metadata/tier, "*"]`` in a resource's update_policy, or in the registry of an environment
under ``resources:`` for a resource or a pattern of names. The template wins. An entry is a JSON Pointer into the
properties, which stands for all below it, or ``*`` for all properties. Entries are literal: a check knows no values.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from heatlite.core.json import steps
from heatlite.template.expression import MapOf
from heatlite.template.types import Fault, ResourceTypeView

if TYPE_CHECKING:
    from heatlite.template.document import Definition

IGNORE_DRIFT: Final = "ignore_drift"
ALL: Final = "*"

Path = tuple[str, ...]


class Ignored:
    """The ignored parts of one resource."""

    def __init__(self, entries: Sequence[str] = ()) -> None:
        """`entries` are free of faults."""
        self._all = ALL in entries
        self._paths = tuple(steps(one) for one in entries if one != ALL)

    def __bool__(self) -> bool:
        return self._all or bool(self._paths)

    def has(self, path: Path) -> bool:
        """Return True if the part at a path is ignored."""
        return self._all or any(path[: len(one)] == one for one in self._paths)

    def has_within(self, path: Path) -> bool:
        """Return True if a part below a path is ignored."""
        return any(one[: len(path)] == path for one in self._paths)


def entry_faults(entries: object, view: ResourceTypeView | None = None) -> Iterator[Fault]:
    """Return the faults of ``ignore_drift: …``.

    `view` is that of the type; None: its properties do not matter.
    """
    if not isinstance(entries, list):
        yield Fault((), "ignore_drift must be a list of paths, without functions", "ignore_drift: [/metadata/tier]")
        return
    for at, entry in enumerate(entries):
        if not isinstance(entry, str) or entry != ALL and not entry.startswith("/"):
            yield Fault((at,), f'"{entry}" is no path of a property', 'such as /metadata/tier, or "*" for all')
        elif view is not None and entry != ALL:
            name, *_ = path = steps(entry)
            if name not in view.property_types():
                yield Fault((at,), f'the type has no property "{name}"', f"one of {', '.join(view.property_types())}")
            elif unknown := view.first_unknown(path):
                yield Fault((at,), f'property "{name}" has no "{unknown}", as {entry} says')


def ignored(definition: "Definition", name: str) -> Ignored:
    """Return the ignored parts of a resource; none for one that the definition lacks."""
    resource = definition.resources.get(name)
    entries = None if resource is None else written(resource.update_policy)
    if entries is None:
        found = [block[IGNORE_DRIFT] for block in definition.environment.blocks(name) if IGNORE_DRIFT in block]
        entries = found[-1] if found else None
    return Ignored([str(one) for one in entries] if isinstance(entries, list) else ())


def written(policy: object) -> object:
    """Return ``ignore_drift`` of an update_policy as it is written; None: it has none."""
    items = policy.items if isinstance(policy, MapOf) else policy
    return items.get(IGNORE_DRIFT) if isinstance(items, Mapping) else None
