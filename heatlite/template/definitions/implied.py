"""Dependencies that types imply."""

from collections.abc import Callable, Mapping

from msgspec.structs import replace

from heatlite.template.definitions.definitions import ResourceDefinition, referring
from heatlite.template.types import ResourceTypeView

Resources = dict[str, ResourceDefinition]


def with_implied(resources: Resources, view_of: Callable[[str], ResourceTypeView | None]) -> Resources:
    """Return the resources, each with the dependencies that its type implies.

    Those of the template come first: no dependency is added that would close a cycle.
    """
    views = {name: view_of(resource.mapped_type) for name, resource in resources.items()}
    firsts = {kind for view in views.values() if view is not None for kind in view.after}
    if not firsts:
        return resources
    found = dict(resources)
    by_kind: dict[str, list[str]] = {}
    for name, resource in resources.items():
        if resource.mapped_type in firsts:
            by_kind.setdefault(resource.mapped_type, []).append(name)
    seen: dict[str, Mapping[str, object]] = {}
    for name, view in views.items():
        if view is not None and not by_kind.keys().isdisjoint(view.after):
            implied = _implied(found, name, view, by_kind, seen)
            if implied:
                found[name] = replace(found[name], requires=found[name].requires | implied)
    return found


def _implied(
    resources: Resources,
    name: str,
    view: ResourceTypeView,
    by_kind: Mapping[str, list[str]],
    seen: dict[str, Mapping[str, object]],
) -> frozenset[str]:
    found = set()
    for kind in sorted(view.after):
        for other in by_kind.get(kind, ()):
            if other == name or other in resources[name].requires:
                continue
            for one in (name, other):
                if one not in seen:
                    seen[one] = referring(resources[one].properties)
            if view.comes_after(seen[name], kind, seen[other]) and not _needs(resources, other, name):
                found.add(other)
    return frozenset(found)


def _needs(resources: Resources, name: str, wanted: str) -> bool:
    """Test whether a resource requires another, directly or indirectly."""
    known, todo = set(), [name]
    while todo:
        resource = resources.get(todo.pop())
        for need in resource.requires if resource is not None else ():
            if need == wanted:
                return True
            if need not in known:
                known.add(need)
                todo.append(need)
    return False
