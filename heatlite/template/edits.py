"""Edits of a stored definition, and JSON Patch (RFC 6902) for callers.

An operation that changes a definition states its edits. `edited` applies them, and `Edited.shown` is the part of its
plan that says what changes.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import Final, TypeAlias

from msgspec import UNSET, Struct, UnsetType

from heatlite.core.json import Json, JsonMap, as_map, pointer, same, steps
from heatlite.core.redaction.masking import MASK, Mask
from heatlite.template.source.loader import Path
from heatlite.template.source.rewriting import written

Patch: TypeAlias = Sequence[JsonMap]
"""Operations of JSON Patch: ``add``, ``replace`` and ``remove``."""
END: Final = "-"
"""Last step of a path: after the last item of a list."""


class DefinitionPart(StrEnum):
    """A part of a definition, with a patch of its own."""

    TEMPLATE = "template"
    PARAMETERS = "parameters"
    """Values of parameters, by name."""
    ENVIRONMENT = "environment"
    """The environment without those."""


class Edit(Struct, frozen=True):
    """A value of a definition that is set, or removed without a value.

    Maps on the way that are missing are made.
    """

    part: DefinitionPart
    path: Path
    value: Json | UnsetType = UNSET


class Edited(Struct, frozen=True):
    """A definition with edits."""

    document: Mapping[str, Json]
    """The template."""
    environment: JsonMap
    """The environment, with the parameters, in the form that is stored."""
    patches: Mapping[DefinitionPart, Patch]

    def shown(self, mask: Mask, hidden: Collection[str]) -> JsonMap:
        """Return the patches, and the template as YAML text, without secrets.

        `mask` and `hidden`, names of parameters, are those of the stack (`StackReader`).
        """
        patches: dict[str, list[JsonMap]] = {}
        for part in DefinitionPart:
            names = hidden if part is DefinitionPart.PARAMETERS else ()
            patches[part] = [_masked(one, mask, names) for one in self.patches[part]]
        text = written(mask.json(self.document))
        return {**{f"{part}_patch": [*patch] for part, patch in patches.items()}, "template": text}


def edited(document: Mapping[str, Json], environment: Mapping[str, Json], edits: Iterable[Edit]) -> Edited:
    """Apply edits to a template and an environment. Neither argument is changed.

    Raises KeyError, IndexError for a part that is to be removed and is not there.
    """
    parts: dict[DefinitionPart, Json] = {
        DefinitionPart.TEMPLATE: document,
        DefinitionPart.PARAMETERS: as_map(environment.get("parameters")),
        DefinitionPart.ENVIRONMENT: {name: value for name, value in environment.items() if name != "parameters"},
    }
    patches: dict[DefinitionPart, list[JsonMap]] = {part: [] for part in DefinitionPart}
    for edit in edits:
        operation = _operation(parts[edit.part], edit)
        patches[edit.part].append(operation)
        parts[edit.part] = _changed(parts[edit.part], operation)
    after = as_map(parts[DefinitionPart.ENVIRONMENT])
    if parts[DefinitionPart.PARAMETERS] or "parameters" in environment:
        after = {**after, "parameters": parts[DefinitionPart.PARAMETERS]}
    return Edited(as_map(parts[DefinitionPart.TEMPLATE]), after, patches)


def edits_between(part: DefinitionPart, before: Json | UnsetType, after: Json, path: Path = ()) -> Iterator[Edit]:
    """Yield the edits that lead from one part of a definition to another.

    Lists are set as a whole.
    """
    if isinstance(before, Mapping) and isinstance(after, Mapping):
        for name in before:
            if name not in after:
                yield Edit(part, (*path, name))
        for name, value in after.items():
            yield from edits_between(part, before.get(name, UNSET), value, (*path, name))
    elif before is UNSET or not same(before, after):
        yield Edit(part, path, after)


def applied(document: Mapping[str, Json], patch: Iterable[Mapping[str, Json]]) -> JsonMap:
    """Return a document after operations as `edited` makes them.

    Raises KeyError, IndexError, TypeError where it has no such place.
    """
    found: Json = document
    for operation in patch:
        found = _changed(found, operation)
    return as_map(found)


def _operation(document: Json, edit: Edit) -> JsonMap:
    """Return the operation of an edit on what there is."""
    if isinstance(edit.value, UnsetType):
        return {"op": "remove", "path": pointer(edit.path)}
    at: Json = document
    for depth, step in enumerate(edit.path):
        last = depth == len(edit.path) - 1
        if isinstance(at, list) and (step == END or int(step) == len(at)):
            return {"op": "add", "path": pointer((*edit.path[:depth], END)), "value": _within(edit, depth)}
        if not isinstance(at, list) and str(step) not in as_map(at):
            return {"op": "add", "path": pointer(edit.path[: depth + 1]), "value": _within(edit, depth)}
        at = at[int(step)] if isinstance(at, list) else as_map(at)[str(step)]
        if not last and not isinstance(at, dict | list):  # such as ``resources: null``
            return {"op": "replace", "path": pointer(edit.path[: depth + 1]), "value": _within(edit, depth)}
    return {"op": "replace", "path": pointer(edit.path), "value": edit.value}


def _within(edit: Edit, depth: int) -> Json:
    """Return the value below a step, with the maps that are missing."""
    assert not isinstance(edit.value, UnsetType)
    value: Json = edit.value
    for step in reversed(edit.path[depth + 1 :]):
        value = {str(step): value}
    return value


def _changed(document: Json, operation: Mapping[str, Json]) -> Json:
    """Return a document after an operation."""
    return _set(document, steps(str(operation["path"])), operation)


def _set(at: Json, path: Sequence[str], operation: Mapping[str, Json]) -> Json:
    step, rest = path[0], path[1:]
    if isinstance(at, list):
        items = [*at]
        if rest:
            items[int(step)] = _set(at[int(step)], rest, operation)
        elif operation["op"] == "remove":
            del items[int(step)]
        elif step == END:
            items.append(operation["value"])
        else:
            items[int(step)] = operation["value"]
        return items
    if not isinstance(at, Mapping):
        raise TypeError(f"{step}: there is nothing to change")
    values = {**at}
    if rest:
        values[step] = _set(at[step], rest, operation)
    elif operation["op"] == "remove":
        del values[step]
    else:
        values[step] = operation["value"]
    return values


def _masked(operation: JsonMap, mask: Mask, hidden: Collection[str]) -> JsonMap:
    """Return an operation without secrets."""
    shown: JsonMap = {**operation, "path": pointer(map(mask.text, steps(str(operation["path"]))))}
    if "value" in operation:
        is_hidden = steps(str(operation["path"]))[0] in hidden
        shown["value"] = MASK if is_hidden else mask.json(operation["value"])
    return shown
