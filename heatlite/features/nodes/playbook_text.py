"""Playbooks for nodes: text → stages.

Reports all problems at once, with their places.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from heatlite.core.errors import HTTPBadRequest, Problem, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap
from heatlite.core.validation import explain, faults
from heatlite.template.source.loader import MAX_TEMPLATE_SIZE, SourceText, load_mapping
from heatlite.template.source.problems import locate

if TYPE_CHECKING:
    from jsonschema import ValidationError

KEY: Final = "node_playbook"
VERSION: Final = "2026-11-21"
ALL: Final = "all"
MAX_STAGES: Final = 100

_ALL: JsonMap = {"if": {"type": "string"}, "then": {"enum": [ALL]}}
"""Text is only this; beside a type."""
_NAME: JsonMap = {"type": "string", "minLength": 1, "maxLength": 255}
_ATTRIBUTE: JsonMap = {
    "type": "object",
    "properties": {
        "name": {"type": ["string", "array"], "minLength": 1, "minItems": 1, "items": {"type": ["string", "integer"]}},
        "equals": True,
    },
    "required": ["name", "equals"],
    "additionalProperties": False,
}
_NODES: JsonMap = {
    "type": ["string", "object"],
    **_ALL,
    "properties": {
        "names": {"type": "array", "items": _NAME, "minItems": 1, "uniqueItems": True},
        "attribute": _ATTRIBUTE,
    },
    "additionalProperties": False,
    "minProperties": 1,
    "maxProperties": 1,
}
_STAGE: JsonMap = {
    "type": "object",
    "properties": {
        "name": _NAME,
        "nodes": _NODES,
        "at_once": {"type": ["integer", "string"], "minimum": 1, **_ALL},
        "unhealthy": {"enum": ["wait", "skip"]},
        "action": {
            "type": "object",
            "properties": {"kind": _NAME, "args": {"type": "object"}},
            "required": ["kind"],
            "additionalProperties": False,
        },
    },
    "required": ["name", "nodes", "action"],
    "additionalProperties": False,
}
SCHEMA: Final[JsonMap] = {
    "type": "object",
    "properties": {
        KEY: {"enum": [VERSION]},
        "description": {"type": "string"},
        "stages": {"type": "array", "items": _STAGE, "minItems": 1, "maxItems": MAX_STAGES},
    },
    "required": [KEY, "stages"],
    "additionalProperties": False,
}


class NodeAttribute(Struct, frozen=True):
    """Chooses the nodes of which an attribute has a value."""

    path: tuple[str | int, ...]
    """The attribute's name and what leads into its value, as for get_attr."""
    equals: Json


class Stage(Struct, frozen=True):
    """One action on some nodes."""

    name: str
    names: tuple[str, ...] | None
    """The nodes, in this order; None: all, or those that `attribute` chooses."""
    attribute: NodeAttribute | None
    at_once: int | None
    """On how many nodes it may be under way; None: on all."""
    kind: str
    args: JsonMap
    skips: bool = False
    """True if a node that is CHECK_FAILED is skipped. Otherwise the stage waits for it."""


class Playbook(Struct, frozen=True):
    """Stages, of which each begins when the one before is done on all its nodes."""

    description: str
    stages: tuple[Stage, ...]


def read_playbook(document: object, name: str = "playbook") -> Playbook:
    """A playbook from text (YAML or JSON) or from an object.

    Raises HTTPBadRequest, which names the first place and carries all problems, and RequestLimitExceeded for a text
    that is too long.
    """
    if isinstance(document, str) and len(document) > MAX_TEMPLATE_SIZE:
        raise RequestLimitExceeded(message=f"a playbook may have at most {MAX_TEMPLATE_SIZE} characters.")
    source = load_mapping(document, name, "Playbook")
    found = problems(source)
    if found:
        raise HTTPBadRequest(found[0].text, problems=tuple(found))
    # The schema has been checked, here and below.
    data = source.data
    stages = tuple(_stage(stage) for stage in cast(list[JsonMap], data["stages"]))
    return Playbook(str(data.get("description", "")), stages)


def problems(source: SourceText) -> list[Problem]:
    """Return the problems of a playbook, with line and column if it came as text."""
    wrong = list(_problems(source))
    placed = locate([Problem(path, "", source=source.name) for path, _ in wrong], {source.name: source})
    return [
        Problem(
            place.path,
            f"Playbook not valid: {f'{place.where}: ' if place.path else ''}{text}"
            + (f" (line {place.line}, column {place.column})" if place.line else ""),
            error="HTTPBadRequest",
            source=source.name,
            line=place.line,
            column=place.column,
        )
        for place, (_, text) in zip(placed, wrong, strict=True)
    ]


def _problems(source: SourceText) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """Yield the place and the text of each problem."""
    for path in source.duplicates:
        yield path, "stands there twice."
    wrong = [
        (tuple(error.absolute_path) + _unknown(error), explain(error)) for error in faults(SCHEMA, source.data)
    ]
    yield from dict.fromkeys(wrong)  # each key that is missing is an error, which names all
    if not wrong:
        data = source.data
        names = [str(stage["name"]) for stage in cast(list[JsonMap], data["stages"])]
        for at, name in enumerate(names):
            if name in names[:at]:
                yield ("stages", at, "name"), f"there is a stage {name} before."


def _unknown(error: "ValidationError") -> tuple[str, ...]:
    """Return the place of an unknown key, rather than that of its map."""
    if error.validator != "additionalProperties":
        return ()
    known = cast(Mapping[str, JsonMap], error.schema)["properties"]
    return (next(key for key in cast(JsonMap, error.instance) if key not in known),)


def _stage(data: JsonMap) -> Stage:
    nodes, action = data["nodes"], cast(JsonMap, data["action"])
    attribute = names = None
    if isinstance(nodes, dict) and "attribute" in nodes:
        given = cast(JsonMap, nodes["attribute"])
        name = given["name"]
        path = (name,) if isinstance(name, str) else tuple(cast(list[str | int], name))
        attribute = NodeAttribute(path, given["equals"])
    elif isinstance(nodes, dict):
        names = tuple(cast(list[str], nodes["names"]))
    at_once = data.get("at_once", 1)
    limit = None if at_once == ALL else int(cast(float, at_once))
    return Stage(
        name=str(data["name"]),
        names=names,
        attribute=attribute,
        at_once=limit,
        kind=str(action["kind"]),
        args=cast(JsonMap, action.get("args", {})),
        skips=data.get("unhealthy") == "skip",
    )
