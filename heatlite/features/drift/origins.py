"""Edits that bring live values into a definition, by the origins of values. Pure."""

from collections.abc import Iterator, Mapping, Sequence
from typing import TypeAlias, cast

from msgspec import UNSET, UnsetType
from msgspec.structs import replace

from heatlite.core.json import Json, as_map
from heatlite.engine.operations.redefining.tree import DefinedStack
from heatlite.engine.types.differences import FURTHER, DifferentPart, with_live
from heatlite.template import edits
from heatlite.template.document import Definition
from heatlite.template.edits import Edit
from heatlite.template.expression import Expression, Function, ListOf, entries, fields, walk
from heatlite.template.functions.references import GetParam

Path: TypeAlias = tuple[str, ...]
Origin: TypeAlias = tuple[DefinedStack, str, Edit]
"""An edit with its stack and the resource whose properties it changes."""


class NoOrigin(Exception):
    """No edit of the template or of a parameter brings the value. The text says why."""


def edits_for(levels: Sequence[DefinedStack], name: str, parts: Sequence[DifferentPart]) -> Iterator[Origin]:
    """Yield the edits by which a resource gets the live values of `parts`.

    `levels` are the stacks from the root to that of the resource. Raises NoOrigin.
    """
    lists: dict[Path, list[DifferentPart]] = {}
    given: dict[str, list[DifferentPart]] = {}
    definition = levels[-1].definition
    for part in parts:
        within = _in_parameter(definition, name, part)
        if within is not None:
            given.setdefault(within.path[0], []).append(within)
        elif part.is_item:
            lists.setdefault(part.path[:-1], []).append(part)
        else:
            place = (*_place(definition, name), *part.path)
            yield levels[-1], name, Edit(edits.DefinitionPart.TEMPLATE, place, part.live)
    for path, items in lists.items():
        yield levels[-1], name, _edit_of_list(definition, name, path, items)
    for parameter, some in given.items():
        yield from _of_parameter(levels, name, parameter, some)


def _in_parameter(definition: Definition, name: str, part: DifferentPart) -> DifferentPart | None:
    """Return a part as one of the parameter that gives it; None: it is a literal.

    Its path begins with the name of the parameter. Raises NoOrigin.
    """
    value: object = definition.resources[name].properties
    *above, last = part.path
    for depth, step in enumerate(above if part.is_item else part.path):
        if isinstance(value, GetParam):
            return _moved_to(value, part, depth)
        within = fields(value)
        if within is None:
            what = _named(value) if isinstance(value, Expression) else "the template has no such value"
            raise NoOrigin(f"{what} at {_shown(part.path[:depth])}")
        value = within.get(step)
    if part.is_item:
        if isinstance(value, GetParam):
            return _moved_to(value, part, len(above))
        if last == FURTHER or not isinstance(value, ListOf):
            return None
        value = value.items[int(last)]
    if isinstance(value, GetParam):
        return _moved_to(value, part, len(part.path))
    if not _is_literal(value):
        raise NoOrigin(f"{_named(value)} at {_shown(part.path)}")
    return None


def _moved_to(value: GetParam, part: DifferentPart, depth: int) -> DifferentPart:
    """Return a part of the value of a parameter, which begins at a depth of its path."""
    asked = entries(value.arguments) or [value.arguments]
    path = (*asked, *part.path[depth:])
    if not all(isinstance(step, str) for step in path):
        raise NoOrigin(f"{_named(value)} at {_shown(part.path[:depth])}")
    return replace(part, path=cast(Path, path), is_item=part.is_item and depth < len(part.path))


def _of_parameter(
    levels: Sequence[DefinedStack], name: str, parameter: str, parts: Sequence[DifferentPart]
) -> Iterator[Origin]:
    """Yield the edits by which a parameter gets live values. Raises NoOrigin."""
    definition = levels[-1].definition
    readers, place = _readers(definition.template.document, parameter), f"of {name}"
    if readers != 1:
        raise NoOrigin(f"parameter {parameter} {place}, which {readers} places read")
    if parameter not in definition.template.parameters:
        raise NoOrigin(f"parameter {parameter} {place}, which has no value")
    before = as_map({parameter: definition.parameters[parameter]})
    after = with_live(before, {}, parts, before)
    if parameter not in after:
        raise NoOrigin(f"parameter {parameter} {place}, which has no value")
    if len(levels) > 1:  # the resource that has the template gives it
        whole = DifferentPart((parameter,), before[parameter], after[parameter])
        yield from edits_for(levels[:-1], levels[-1].path[-1], [whole])
    else:
        yield levels[-1], name, Edit(edits.DefinitionPart.PARAMETERS, (parameter,), after[parameter])


def _edit_of_list(definition: Definition, name: str, path: Path, parts: Sequence[DifferentPart]) -> Edit:
    """Return the edit of a list of the template. Items that stay keep their functions."""
    value: object = definition.resources[name].properties
    written: Json = definition.template.document
    for step in _place(definition, name):
        written = as_map(written)[step]
    for step in path:
        within = fields(value)
        if within is None:
            raise NoOrigin(f"{_named(value)} above {_shown(path)}")
        value, written = within.get(step), as_map(written).get(step)
    items = value.items if isinstance(value, ListOf) else value
    if not isinstance(items, list) or not isinstance(written, list) or len(items) != len(written):
        raise NoOrigin(f"{_named(value)} at {_shown(path)}")
    after: list[Json | UnsetType] = [*written]
    for part in parts:
        if part.stored is UNSET:
            after.append(part.live)
        elif not _is_literal(items[int(part.path[-1])]):
            raise NoOrigin(f"{_named(items[int(part.path[-1])])} at {_shown(part.path)}")
        else:
            after[int(part.path[-1])] = part.live
    left = [one for one in after if not isinstance(one, UnsetType)]
    return Edit(edits.DefinitionPart.TEMPLATE, (*_place(definition, name), *path), left)


def _is_literal(value: object) -> bool:
    """Return True for a value without functions."""
    return not any(isinstance(one, Function) for one in walk(value))


def _place(definition: Definition, name: str) -> Path:
    return (definition.sections["resources"], name, definition.keys["properties"])


def _readers(value: object, parameter: str) -> int:
    """Return the number of places in a document that read a parameter."""
    if isinstance(value, Mapping):
        inner = sum(_readers(one, parameter) for one in value.values())
        asked = value.get("get_param", value.get("Ref"))
        return inner + (asked == parameter or isinstance(asked, list) and asked[:1] == [parameter])
    return sum(_readers(one, parameter) for one in value) if isinstance(value, list) else 0


def _named(value: object) -> str:
    return f"the function {value.name}" if isinstance(value, Function) else "functions"


def _shown(path: Path) -> str:
    return "/" + "/".join(path)
