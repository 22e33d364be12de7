"""Text to data: JSON first, then YAML 1.1 as Heat reads it.

Hostile text ends in `HTTPBadRequest` and nothing else. Depth, alias expansion, special characters, tags and numbers
that JSON cannot carry are bounded or refused here. So no other package has to check them again.
"""

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final

import yaml
from yaml.constructor import SafeConstructor

from heatlite.core.errors import HTTPBadRequest, Problem
from heatlite.core.json import Json, JsonMap, heat_text, parse

MAX_TEMPLATE_SIZE: Final = 512 * 1024
"""Bytes of a template's text (Heat's `max_template_size`).
Callers of the loader enforce it."""
MAX_DEPTH: Final = 100
"""Maximum depth of containers."""
MAX_EXPANSION: Final = 512 * 1024
"""Characters and nodes that YAML aliases may add to a text."""

MAX_DIGITS: Final = 1000
"""Characters of a number; reading one takes time that grows with the square of it."""
MAX_BITS: Final = 1000
"""Bits of an integer.
Larger ones exceed the floating-point numbers of most JSON readers."""
MAX_DUPLICATES: Final = 1000
"""Maximum number of duplicate keys that are reported."""

VERSION_KEYS: Final = ("heat_template_version", "HeatTemplateFormatVersion", "AWSTemplateFormatVersion")

Path = tuple[str | int, ...]
Position = tuple[int, int]


_Within = dict[str | int, "int | _Within"]
"""Places in a container by key and index.

The value is a place, or for a container what is within it.

A container's own place is under the key -1. A place is one number (`_place`), for there may be very many.
"""
_HERE: Final = -1


class SourceText:
    """A text, the data in it, and where things stand in it.

    `text` is empty where data came as an object.
    """

    def __init__(self, name: str, data: JsonMap, text: str = "", duplicates: tuple[Path, ...] | None = ()) -> None:
        self.name = name
        self.data = data
        self.text = text
        self._duplicates = duplicates
        self._root: _Within | None = None

    @property
    def duplicates(self) -> tuple[Path, ...]:
        """Return the paths of keys written more than once, MAX_DUPLICATES at most.

        The last value of such a key counts.
        """
        if self._duplicates is None:  # of a JSON text: its parser does not tell
            self._read_places()
        return self._duplicates or ()

    def locate(self, path: Sequence[str | int]) -> Position:
        """Return line and column, from 1, of `path` or its nearest parent.

        (0, 0) if unknown.
        """
        place: int | _Within = self._read_places() if self._root is None else self._root
        for step in path:
            within = place.get(step) if isinstance(place, dict) else None
            if within is None:
                break
            place = within
        if isinstance(place, dict):
            own = place.get(_HERE, 0)
            place = own if isinstance(own, int) else 0
        return place >> 32, place & 0xFFFFFFFF

    def _read_places(self) -> _Within:
        self._root = {}
        if self.text:
            # A tab may stand between JSON tokens, but not between YAML ones.
            reader = _PlaceReader(self.text.replace("\t", " "))
            try:
                self._root = reader.read()
            except (yaml.YAMLError, _Refused, ValueError):
                pass
            else:
                self._duplicates = tuple(reader.duplicates)
        return self._root


class _Refused(Exception):
    """The text is well-formed, but is nothing that we take."""

    def __init__(self, text: str, line: int = 0, column: int = 0) -> None:
        self.line = line
        self.column = column
        super().__init__(text)


def load(text: str, name: str = "template", kind: str = "Template") -> SourceText:
    """Read JSON or YAML whose top level is a map.

    `name` is the file's name in messages and problems; `kind` ("Template" or "Environment") opens the message.
    Raises HTTPBadRequest "<kind> not in valid format: …" with line and column where there are any.
    """
    duplicates: tuple[Path, ...] | None = None
    try:
        data = _load_json(text)
        if data is _NOT_JSON:
            builder = _Builder(text)
            data = builder.build()
            duplicates = tuple(builder.duplicates)
    except yaml.YAMLError as error:
        raise _yaml_fault(error, name, kind) from error
    except _Refused as error:
        raise _fault(f"Error parsing {name}: {error}", name, kind, error.line, error.column) from error
    except ValueError as error:  # lone surrogates, integers of more digits than Python takes
        raise _fault(f"Error parsing {name}: {error}", name, kind) from error
    if data is None and kind == "Environment":
        data = {}
    if not isinstance(data, dict):
        raise _fault(f"The {kind.lower()} is not a JSON object or YAML mapping.", name, kind)
    return SourceText(name, data, text, duplicates)


def load_mapping(value: object, name: str = "template", kind: str = "Template") -> SourceText:
    """Return the map in a request: an object from JSON, or text.

    Raises HTTPBadRequest as `load` does.
    """
    if isinstance(value, str):
        return load(value, name, kind)
    if not isinstance(value, Mapping):
        raise _fault(f"The {kind.lower()} is not a JSON object or YAML mapping.", name, kind)
    data = dict(value)
    try:
        _verify(data)
    except _Refused as error:
        raise _fault(str(error), name, kind) from error
    return SourceText(name, data)


def load_template(value: object, name: str = "template") -> SourceText:
    """Load a template. As text, it must name its version (Heat's rule)."""
    source = load_mapping(value, name)
    if source.text and not any(key in source.data for key in VERSION_KEYS):
        raise _fault("Template format version not found.", name, "Template")
    return source


def _fault(text: str, name: str, kind: str, line: int = 0, column: int = 0) -> HTTPBadRequest:
    message = f"{kind} not in valid format: {text}"
    if line:
        message += f" (line {line}, column {column})"
    problem = Problem((), message, error="HTTPBadRequest", source=name, line=line, column=column)
    return HTTPBadRequest(message, problems=(problem,))


def _yaml_fault(error: yaml.YAMLError, name: str, kind: str) -> HTTPBadRequest:
    if not isinstance(error, yaml.MarkedYAMLError):
        reason = " ".join(str(error).split())
        return _fault(f"Error parsing {name}: {reason}", name, kind)
    parts = []
    for text, mark in ((error.context, error.context_mark), (error.problem, error.problem_mark)):
        if text:
            parts.append(f"{text}, line {mark.line + 1}, column {mark.column + 1}" if mark else text)
    mark = error.problem_mark or error.context_mark
    line, column = (mark.line + 1, mark.column + 1) if mark else (0, 0)
    message = f"{kind} not in valid format: Error parsing {name} {': '.join(parts)}"
    problem = Problem((), message, error="HTTPBadRequest", source=name, line=line, column=column)
    return HTTPBadRequest(message, problems=(problem,))


# -- JSON ----------------------------------------------------------------------------------------

_NOT_JSON: Final = object()


def _load_json(text: str) -> object:
    if text.lstrip()[:1] not in ("{", "["):
        return _NOT_JSON
    try:
        data = parse(text)
    except ValueError:
        return _NOT_JSON
    except RecursionError:
        raise _Refused(f"nested more than {MAX_DEPTH} deep") from None
    _verify(data)
    return data


def load_json_value(text: str) -> Json:
    """The value of a JSON text of any kind, held to the same bounds.

    Raises ValueError.
    """
    try:
        data: Json = parse(text)
    except RecursionError:
        raise ValueError(f"nested more than {MAX_DEPTH} deep") from None
    verify_json_value(data)
    return data


def verify_json_value(value: object) -> None:
    """Raise ValueError for a value that cannot be stored.

    It is too deep, or has NUL, lone surrogates or infinite numbers.
    """
    try:
        _verify(value)
    except _Refused as error:
        raise ValueError(str(error)) from error


def _verify(data: object) -> None:
    """Refuse what is not plain JSON data of a sane depth.

    Without recursion, for the depth is not yet known.
    """
    level: list[object] = [data]
    depth = 0
    while level:
        depth += 1
        below: list[object] = []
        texts: list[str] = []
        for value in level:
            if type(value) is str:
                texts.append(value)
            elif isinstance(value, (dict, Mapping)):  # a check of an abstract class takes ten times as long
                texts.extend(value)
                below.extend(value.values())
            elif isinstance(value, (list, tuple)):
                below.extend(value)
            elif isinstance(value, (int, float)):
                _verify_number(value)
            elif value is not None and not isinstance(value, (str, int, float)):
                raise _Refused(f"a value of type {type(value).__name__} is no data")
        _verify_texts(texts)
        if below and depth > MAX_DEPTH:
            raise _Refused(f"nested more than {MAX_DEPTH} deep")
        level = below


def _verify_texts(texts: list[str]) -> None:
    """Refuse keys that are no texts, and texts that cannot be stored."""
    for key in texts:
        if not isinstance(key, str):
            raise _Refused(f"the key {key!r} is not a string")
    whole = "".join(texts)  # one look at all of them
    if not whole.isascii() or "\0" in whole:
        for text in texts:
            _verify_text(text)


def _verify_number(value: object) -> None:
    if isinstance(value, float) and not math.isfinite(value):
        raise _Refused("infinite and not-a-number values cannot be stored")
    if isinstance(value, int) and value.bit_length() > MAX_BITS:
        raise _Refused("integers of more than 300 digits are not allowed")


def _verify_text(text: str) -> None:
    if "\0" in text:
        raise _Refused("NUL characters are not allowed")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise _Refused("unpaired surrogates are not allowed") from None


# -- YAML ----------------------------------------------------------------------------------------

_PREFIX: Final = "tag:yaml.org,2002:"
_MERGE: Final = object()
_NO_KEY: Final = object()
RESOLVERS: Final = yaml.SafeLoader.yaml_implicit_resolvers
CONSTRUCTOR: Final = SafeConstructor()
_CONSTRUCT: Final[Mapping[str, Callable[[yaml.ScalarNode], object]]] = {
    _PREFIX + "null": CONSTRUCTOR.construct_yaml_null,
    _PREFIX + "bool": CONSTRUCTOR.construct_yaml_bool,
    _PREFIX + "int": CONSTRUCTOR.construct_yaml_int,
    _PREFIX + "float": CONSTRUCTOR.construct_yaml_float,
}
# Heat keeps dates and times as they are written: a version is a date.
_TEXT_TAGS: Final = frozenset({"!", _PREFIX + "str", _PREFIX + "timestamp"})


class _Frame:
    """A container that is still open."""

    __slots__ = ("anchor", "container", "height", "key", "merged", "size")

    def __init__(self, container: dict[str, Json] | list[Json], anchor: str | None) -> None:
        self.container = container
        self.anchor = anchor
        self.key: object = _NO_KEY
        self.merged: list[object] = []
        self.size = 1
        self.height = 1


class _Builder:
    """Builds data from parser events.

    The composer of the C library recurses on the machine's stack, so deep nesting ends the process. This class does not
    recurse, and sees each alias and each duplicate key.
    """

    def __init__(self, text: str) -> None:
        self.loader = yaml.CSafeLoader(text)
        self.duplicates: list[Path] = []
        self.stack: list[_Frame] = []
        self.anchors: dict[str, tuple[object, int, int]] = {}
        self.expansion = 0
        self.plain: dict[str, object] = {}
        """Values of texts without quotes, tags and anchors."""

    def build(self) -> object:
        """The one document of the text, None if there is none."""
        result: object = None
        documents = 0
        next_event = self.loader.get_event
        stack = self.stack
        while True:
            event = next_event()
            if isinstance(event, yaml.ScalarEvent):
                value = self.scalar(event)
                size, height = len(event.value) + 1, 0
            elif isinstance(event, yaml.CollectionStartEvent):
                self._open(event)
                continue
            elif isinstance(event, yaml.CollectionEndEvent):
                frame = stack.pop()
                value, size, height = frame.container, frame.size, frame.height
                if frame.merged:
                    value = self._merge(frame, event)
                if frame.anchor is not None:
                    self.anchors[frame.anchor] = (value, size, height)
            elif isinstance(event, yaml.AliasEvent):
                value, size, height = self._alias(event)
            elif isinstance(event, yaml.DocumentStartEvent):
                documents += 1
                if documents > 1:
                    raise self._refuse("expected a single document, but found another one", event)
                continue
            elif event is None or isinstance(event, yaml.StreamEndEvent):
                return result
            else:
                continue
            if not stack:
                result = value
            else:
                self._add(stack[-1], value, size, height, event)

    def _open(self, event: yaml.CollectionStartEvent) -> None:
        mapping = type(event) is yaml.MappingStartEvent
        if event.tag not in (None, "!", _PREFIX + ("map" if mapping else "seq")):
            raise self._refuse(f"could not determine a constructor for the tag {event.tag!r}", event)
        stack = self.stack
        if len(stack) >= MAX_DEPTH:
            raise self._refuse(f"nested more than {MAX_DEPTH} deep", event)
        if stack:
            above = stack[-1]
            if type(above.container) is dict and above.key is _NO_KEY:
                raise self._refuse("a mapping key must be a scalar", event)
        if event.anchor is not None:
            self.anchors.pop(event.anchor, None)
        stack.append(_Frame({} if mapping else [], event.anchor))

    def _add(self, frame: _Frame, value: object, size: int, height: int, event: yaml.Event) -> None:
        frame.size += size
        if height >= frame.height:
            frame.height = height + 1
        container = frame.container
        if type(container) is list:
            container.append("<<" if value is _MERGE else value)  # type: ignore[arg-type]  # values of events are JSON
            return
        assert type(container) is dict
        key = frame.key
        if key is _NO_KEY:
            if value is _MERGE:
                frame.key = _MERGE
                return
            if type(value) is not str:
                value = self.key_text(value, event)
            if value in container and len(self.duplicates) < MAX_DUPLICATES:
                self.duplicates.append((*self._path()[:-1], value))
            frame.key = value
            return
        frame.key = _NO_KEY
        if key is _MERGE:
            frame.merged.append(value)
        else:
            if value is _MERGE:
                value = "<<"
            container[key] = value  # type: ignore[index, assignment]

    def scalar(self, event: yaml.ScalarEvent) -> object:
        """Return the value of a scalar; _MERGE for the merge key."""
        if event.tag is not None or event.anchor is not None or not event.implicit[0]:
            return self._read_scalar(event)
        text: str = event.value
        value = self.plain.get(text, _NO_KEY)
        if value is _NO_KEY:
            value = self.plain[text] = self._read_scalar(event)
        return value

    def _read_scalar(self, event: yaml.ScalarEvent) -> object:
        text: str = event.value
        tag = event.tag
        value: object = text
        if tag is None and event.implicit[0]:
            for candidate, pattern in RESOLVERS.get(text[:1], ()):
                if pattern.match(text):
                    tag = candidate
                    break
        if tag is not None and tag not in _TEXT_TAGS:
            if tag == _PREFIX + "merge":
                value = _MERGE
            elif tag in _CONSTRUCT:
                try:
                    if len(text) > MAX_DIGITS:
                        raise ValueError("too many digits")
                    value = _CONSTRUCT[tag](yaml.ScalarNode(tag, text))
                    _verify_number(value)
                except (ValueError, KeyError, IndexError, OverflowError) as error:
                    raise self._refuse(f"{text[:40]!r} is not a value of the tag {tag!r}", event) from error
                except _Refused as error:
                    raise self._refuse(str(error), event) from error
            else:
                raise self._refuse(f"could not determine a constructor for the tag {tag!r}", event)
        elif "\0" in text:
            raise self._refuse("NUL characters are not allowed", event)
        if event.anchor is not None:
            self.anchors[event.anchor] = (value, len(text) + 1, 0)
        return value

    def _alias(self, event: yaml.AliasEvent) -> tuple[object, int, int]:
        found = self.anchors.get(event.anchor or "")
        if found is None:
            inside = any(frame.anchor == event.anchor for frame in self.stack)
            reason = "contains itself" if inside else "is not defined"
            raise self._refuse(f"the alias {event.anchor!r} {reason}", event)
        value, size, height = found
        self.expansion += size
        if self.expansion > MAX_EXPANSION:
            raise self._refuse("aliases expand to too much data", event)
        if len(self.stack) + height > MAX_DEPTH:
            raise self._refuse(f"nested more than {MAX_DEPTH} deep", event)
        return value, size, height

    def _merge(self, frame: _Frame, event: yaml.Event) -> dict[str, Json]:
        """Apply merge keys (``<<``): own keys win, then earlier merged maps."""
        merged: dict[str, Json] = {}
        for value in reversed(frame.merged):
            for part in reversed(value if isinstance(value, list) else [value]):
                if not isinstance(part, dict):
                    raise self._refuse("expected a mapping or list of mappings for merging", event)
                merged.update(part)
        merged.update(frame.container if isinstance(frame.container, dict) else {})
        return merged

    def key_text(self, value: object, event: yaml.Event) -> str:
        """Keys are text, as they would be after a trip through JSON."""
        if value is None or isinstance(value, (bool, int, float)):
            return heat_text(value)
        raise self._refuse("a mapping key must be a scalar", event)

    def _path(self) -> Path:
        path: list[str | int] = []
        for frame in self.stack:
            if type(frame.container) is list:
                path.append(len(frame.container))
            else:
                path.append(frame.key if isinstance(frame.key, str) else "<<")
        return tuple(path)

    def _refuse(self, text: str, event: yaml.Event) -> _Refused:
        mark = event.start_mark
        return _Refused(text, mark.line + 1, mark.column + 1) if mark is not None else _Refused(text)


def _place(event: yaml.Event) -> int:
    """Line and column, from 1, as one number."""
    mark = event.start_mark
    return 0 if mark is None else (mark.line + 1 << 32) + mark.column + 1


class _PlaceReader:
    """Finds the places of values and the duplicate keys of a loaded text."""

    def __init__(self, text: str) -> None:
        self.builder = _Builder(text)
        self.duplicates: list[Path] = []
        self.stack: list[_Within] = [{}]
        """The containers that are open; the first one has the document in it."""
        self.steps: list[str | int | None] = [0]
        """Key or index of the next value of each open container; None: a key is next."""

    def read(self) -> _Within:
        next_event = self.builder.loader.get_event
        stack, steps = self.stack, self.steps
        while True:
            event = next_event()
            if isinstance(event, yaml.NodeEvent):
                within, step = stack[-1], steps[-1]
                if step is None:
                    steps[-1] = self._key(within, event)
                    continue
                if type(step) is int:
                    within[step] = _place(event)
                if isinstance(event, yaml.CollectionStartEvent):
                    own: _Within = {_HERE: within.get(step, 0)}
                    within[step] = own
                    stack.append(own)
                    steps.append(None if type(event) is yaml.MappingStartEvent else 0)
                    continue
                if event.anchor is not None and type(event) is yaml.ScalarEvent:
                    self.builder.scalar(event)  # may be a key later
            elif isinstance(event, yaml.CollectionEndEvent):
                stack.pop()
                steps.pop()
            elif event is None or isinstance(event, yaml.StreamEndEvent):
                document = stack[0].get(0)
                if not isinstance(document, dict):
                    return {}
                document.pop(_HERE)  # a missing path has no place
                return document
            else:
                continue
            # A value has ended.
            step = steps[-1]
            steps[-1] = step + 1 if type(step) is int else None

    def _key(self, within: _Within, event: yaml.NodeEvent) -> str:
        if isinstance(event, yaml.ScalarEvent):
            value = self.builder.scalar(event)
        else:
            value = self.builder.anchors[event.anchor or ""][0]
        if value is _MERGE:
            return "<<"
        key = value if isinstance(value, str) else self.builder.key_text(value, event)
        if key in within and len(self.duplicates) < MAX_DUPLICATES:
            self.duplicates.append((*(step for step in self.steps[1:-1] if step is not None), key))
        within[key] = _place(event)
        return key
