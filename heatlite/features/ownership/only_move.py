"""The rule that new definitions only move resources."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from heatlite.core.errors import abbreviated
from heatlite.core.json import Json, as_map, same
from heatlite.engine.operations.redefining.tree import DefinedStack
from heatlite.features.ownership.errors import MoveReplaces, NotOnlyMove
from heatlite.features.ownership.only_import import changed, environment
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition


def require(level: DefinedStack, after: Definition, gone: Collection[str], come: Mapping[str, Json]) -> None:
    """Raise NotOnlyMove if the new template of a stack changes more than it moves.

    `gone` are names that leave it, `come` the definitions that resources have now, by their new names. What reads a
    resource that moves may read something else. Parameters, conditions and outputs may be added, outputs also changed.
    """
    places = [level.full(place) for place in _changes(level.definition, after, gone, come)]
    if places:
        raise NotOnlyMove(places=abbreviated(places))


def require_rest(before: Definition, after: Definition, files: Collection[str]) -> None:
    """Raise NotOnlyMove if a new definition changes more than templates.

    `files` are those of the nested templates that take part.
    """
    new = after.template.files
    changed_files = (name for name, text in before.template.files.items() if new.get(name, text) != text)
    places = [*environment(before, after), *(f"file {name}" for name in changed_files if name not in files)]
    if places:
        raise NotOnlyMove(places=abbreviated(places))


def require_types(level: DefinedStack, after: Definition, entering: Sequence[ResourceRecord]) -> None:
    """Raise MoveReplaces for resources that enter under other types, or under none."""
    defined = {name: one.mapped_type for name, one in after.resources.items()}
    places = [level.full(row.name) for row in entering if defined.get(row.name) != row.mapped_type]
    if places:
        raise MoveReplaces(places=abbreviated(places))


def _changes(
    before: Definition, after: Definition, gone: Collection[str], come: Mapping[str, Json]
) -> Iterator[str]:
    functions = before.template.dialect.functions.keys()
    old, new = before.template.document, after.template.document
    section, outputs = before.sections["resources"], before.sections["outputs"]
    expected = {name: one for name, one in before.template.resources.items() if name not in gone}
    for name, value in {**expected, **come}.items():
        is_free = name in come or not before.resources[name].requires.isdisjoint(gone)
        other = after.template.resources.get(name)
        if other is None or not (_alike(value, other, functions) if is_free else same(value, other)):
            yield f"{section}.{name}"
    yield from (f"{section}.{name}" for name in after.template.resources.keys() - expected.keys() - come.keys())
    for part in dict.fromkeys((*old, *new)):
        one, other = old.get(part), new.get(part)
        if part in (section, outputs):
            continue
        if isinstance(one, Mapping) or one is None and isinstance(other, Mapping):
            yield from changed(part, as_map(one), as_map(other))
        elif not same(one, other):
            yield part


def _alike(one: Json, other: Json, functions: Collection[str]) -> bool:
    """Return whether two definitions differ in functions and dependencies only."""
    if _is_function(one, functions) or _is_function(other, functions):
        return True
    if isinstance(one, Mapping) and isinstance(other, Mapping):
        keys = {*one, *other} - {"depends_on", "DependsOn"}
        return all(key in one and key in other and _alike(one[key], other[key], functions) for key in keys)
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(_alike(*pair, functions) for pair in zip(one, other, strict=True))
    return same(one, other)


def _is_function(value: Json, functions: Collection[str]) -> bool:
    return isinstance(value, Mapping) and len(value) == 1 and next(iter(value)) in functions
