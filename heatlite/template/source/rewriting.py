"""Templates as text: YAML of a document, and edits of a text.

An edit leaves the rest of the text as it is written.
"""

import re
from collections.abc import Mapping, Sequence
from itertools import groupby
from typing import Final, TypeAlias, cast

import yaml

from heatlite.core.errors import Invalid
from heatlite.core.json import Json, parse, pretty, steps
from heatlite.template.source.loader import VERSION_KEYS, load

INDENT: Final = 2
_VERSION: Final = re.compile(rf"^((?:{'|'.join(VERSION_KEYS)}): )'(\d{{4}}-\d{{2}}-\d{{2}})'$", re.MULTILINE)


_Collection: TypeAlias = yaml.SequenceNode | yaml.MappingNode
_Node: TypeAlias = yaml.ScalarNode | _Collection


class CannotRewrite(Exception):
    """The text is written in a way that no edit of it is known to keep."""


class _Dumper(yaml.SafeDumper):
    """Writes texts of several lines as blocks, and no aliases."""

    def ignore_aliases(self, data: object) -> bool:  # noqa: ARG002 - signature of the base
        return True


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    is_block = "\n" in value.strip() and not value.endswith("\n\n")
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style="|" if is_block else None)


_Dumper.add_representer(str, _text)


def written(value: Json) -> str:
    """Return a value as YAML text."""
    text: str = yaml.dump(
        value, Dumper=_Dumper, sort_keys=False, allow_unicode=True, default_flow_style=False, width=120
    )
    text = _VERSION.sub(r"\1\2", text, 1)  # it looks like a date, and the loader takes it for a text
    return text.removesuffix("...\n")


def rewritten(text: str, operations: Sequence[Mapping[str, Json]], goal: Mapping[str, Json]) -> str:
    """Return a template's text after operations of JSON Patch.

    What they do not touch stays as it is. `goal` is the data of the text after them. Compare it with the data of the
    result: not each way to write a template survives an edit. Raises CannotRewrite.
    """
    if _is_json(text):
        return pretty(goal) + "\n"
    ends = re.findall(r"\r?\n", text)
    for (parent, is_new), some in groupby(operations, _group):
        group = [*some]
        if is_new:
            text = _added(text, parent, group)
        else:
            for operation in group:
                text = _edited(text, operation)
    return re.sub(r"\r?\n", "\r\n", text) if {*ends} == {"\r\n"} else text


def kept(text: str, operations: Sequence[Mapping[str, Json]], goal: Mapping[str, Json]) -> str:
    """Return a template's text after operations, as `rewritten` if that is possible.

    Otherwise the text is written anew of `goal`.
    """
    try:
        found = rewritten(text, operations, goal)
        return found if load(found).data == goal else written(goal)
    except (CannotRewrite, Invalid):
        return written(goal)


def _is_json(text: str) -> bool:
    """Return whether a text is JSON, which has no comments and is written anew."""
    try:
        return isinstance(parse(text), dict)
    except ValueError:
        return False


def _group(operation: Mapping[str, Json]) -> tuple[str, bool]:
    """Return the parent, and whether something is added to it.

    Such operations are done at once.
    """
    return str(operation["path"]).rpartition("/")[0], operation["op"] == "add"


# -- places ------------------------------------------------------------------------------------------


class _Place:
    """A value in the text: its node, its key, and the node that has it."""

    def __init__(self, node: _Node, key: _Node | None, parent: _Node | None) -> None:
        self.node, self.key, self.parent = node, key, parent

    @property
    def column(self) -> int:
        """The column of the entry."""
        return (self.key or self.node).start_mark.column


def _place(text: str, path: str) -> _Place:
    try:
        node = cast(_Node | None, yaml.compose(text, Loader=yaml.CSafeLoader))
    except yaml.YAMLError as error:
        raise CannotRewrite from error
    if node is None:
        raise CannotRewrite
    place = _Place(node, None, None)
    for step in steps(path):
        place = _child(place.node, step)
    return place


def _child(parent: _Node, step: str) -> _Place:
    if isinstance(parent, yaml.MappingNode):
        for key, value in parent.value:
            if key.value == step:
                return _Place(value, key, parent)
    elif isinstance(parent, yaml.SequenceNode) and step.isdecimal() and int(step) < len(parent.value):
        return _Place(parent.value[int(step)], None, parent)
    raise CannotRewrite


def _end(text: str, node: _Node) -> int:
    """Return the end of what a node writes.

    A block ends with its last line, without comments after it.
    """
    if isinstance(node, _Collection) and not node.flow_style and node.value:
        last = node.value[-1]
        return _end(text, last[1] if isinstance(node, yaml.MappingNode) else last)
    start, end = node.start_mark.index, node.end_mark.index
    return start + len(text[start:end].rstrip())


def _line_end(text: str, at: int) -> int:
    """Return the end of a line, its comment included."""
    found = text.find("\n", at)
    return len(text) if found < 0 else found


def _indented(value: Json, column: int) -> str:
    """Return a value as a block at a column, without the end of its last line."""
    lines = written(value).rstrip("\n").split("\n")
    return "\n".join(" " * column + line if line else line for line in lines)


def _after_key(value: Json, column: int) -> str:
    """Return a value to stand after the colon of a key at a column."""
    if isinstance(value, Mapping | list) and value:
        return "\n" + _indented(value, column + INDENT)
    if isinstance(value, str) and "\n" in value:
        return " " + pretty(value, 0)
    return " " + written(value).strip()


# -- edits -------------------------------------------------------------------------------------------


def _added(text: str, parent: str, operations: Sequence[Mapping[str, Json]]) -> str:
    """Add entries to the end of a map or a list."""
    place = _place(text, parent)
    node = place.node
    names = [steps(str(one["path"]))[-1] for one in operations]
    values = [one["value"] for one in operations]
    is_list = isinstance(node, yaml.SequenceNode)
    entries: Json = values if is_list else dict(zip(names, values, strict=True))
    if isinstance(node, _Collection) and node.value and not node.flow_style:
        at = _line_end(text, _end(text, node))
        first = node.value[0]
        column = node.start_mark.column if is_list else first[0].start_mark.column
        return f"{text[:at]}\n{_indented(entries, column)}{text[at:]}"
    if isinstance(node, _Collection) and node.value:
        inner = pretty(entries, 0)[1:-1]
        at = node.end_mark.index - 1
        return f"{text[:at].rstrip().removesuffix(',')}, {inner}{text[at:]}"
    return _replaced(text, place, entries)


def _edited(text: str, operation: Mapping[str, Json]) -> str:
    place = _place(text, str(operation["path"]))
    if operation["op"] == "replace":
        return _replaced(text, place, operation["value"])
    return _removed(text, place)


def _replaced(text: str, place: _Place, value: Json) -> str:
    """Put a value in the place of another one."""
    parent, node = place.parent, place.node
    end = _end(text, node)
    if not isinstance(parent, _Collection):
        raise CannotRewrite
    if parent.flow_style:
        return f"{text[: node.start_mark.index]}{pretty(value, 0)}{text[end:]}"
    if place.key is None:
        return f"{text[: node.start_mark.index]}{_indented(value, place.column).lstrip()}{text[end:]}"
    start = text.index(":", place.key.end_mark.index) + 1
    return f"{text[:start]}{_after_key(value, place.column)}{text[max(start, end):]}"


def _removed(text: str, place: _Place) -> str:
    """Remove an entry of a map or a list."""
    parent = place.parent
    if not isinstance(parent, _Collection):
        raise CannotRewrite
    if parent.flow_style or len(parent.value) == 1:
        start, end = parent.start_mark.index, _end(text, parent)
        left = ", ".join(text[slice(*_span(text, one))] for one in parent.value if place.node not in _nodes(one))
        if not parent.flow_style:
            start = len(text[:start].rstrip())
        opened, closed = "[]" if isinstance(parent, yaml.SequenceNode) else "{}"
        return f"{text[:start]}{'' if parent.flow_style else ' '}{opened}{left}{closed}{text[end:]}"
    entry = place.key or place.node
    start = text.rfind("\n", 0, entry.start_mark.index) + 1
    end = _line_end(text, _end(text, place.node))
    return text[:start] + text[end + 1 :]


def _nodes(entry: _Node | tuple[_Node, _Node]) -> tuple[_Node, ...]:
    """Return the nodes of an entry: key and value, or an item."""
    return entry if isinstance(entry, tuple) else (entry,)


def _span(text: str, entry: _Node | tuple[_Node, _Node]) -> tuple[int, int]:
    """Return where an entry begins and ends."""
    nodes = _nodes(entry)
    return nodes[0].start_mark.index, _end(text, nodes[-1])
