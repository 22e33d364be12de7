"""Warnings about legal but probably unintended parts of a template.

Examples are text that YAML 1.1 reads as something else, unused parameters, and conditions that never hold. Heat reports
none of them. Warnings depend on the document only, so they need no environment.
"""

import difflib
import re
from collections.abc import Callable, Iterator, Mapping
from typing import Final

import yaml
from msgspec import Struct

from heatlite.core.errors import Problem
from heatlite.core.json import Json, heat_text, parse
from heatlite.template.checks.constant_conditions import ConstantConditions
from heatlite.template.dialects import DIALECTS, TemplateVersion
from heatlite.template.document import Template
from heatlite.template.source.loader import CONSTRUCTOR, RESOLVERS, Path, SourceText
from heatlite.template.types import ResourceTypeView, TypeCatalog

_SECTIONS: Final = {"Parameters": "parameters", "Resources": "resources", "Conditions": "conditions"}
"""CloudFormation's name of a section → HOT's."""


def template_warnings(source: SourceText, template: Template, types: TypeCatalog) -> list[Problem]:
    """Return every warning about a template, without duplicate keys.

    `check` reports those.
    """
    return [
        *_damage(source, _Wanted(template, types)), *_unused(template), *_never(template), *_no_functions(template)
    ]  # fmt: skip


def child_warnings(source: SourceText, template: Template, types: TypeCatalog) -> list[Problem]:
    """Return every warning about a template used as a type.

    Its parameters are the type's, used or not.
    """
    return [
        *_damage(source, _Wanted(template, types)), *duplicate_keys(source), *_never(template),
        *_no_functions(template),
    ]  # fmt: skip


def environment_warnings(source: SourceText, template: Template | None) -> list[Problem]:
    """Every warning about an environment for `template`."""

    def wanted(path: Path) -> str:
        schema = None
        if template is not None and len(path) > 1 and path[0] in ("parameters", "parameter_defaults"):
            schema = template.parameters.get(str(path[1]))
        return "" if schema is None else _kind(schema.type, len(path) > 2)

    return [*_damage(source, wanted), *duplicate_keys(source), *_untold(source)]


def _untold(source: SourceText) -> Iterator[Problem]:
    """Sinks that are accepted for the sake of environments written for Heat."""
    sinks = source.data.get("event_sinks")
    for i, sink in enumerate(sinks if isinstance(sinks, list) else ()):
        if isinstance(sink, Mapping) and sink.get("type") == "zaqar-queue":
            text = "There are no zaqar queues here: events are not sent."
            yield Problem(("event_sinks", i), text, "a webhook is", "EventSinkIgnored", severity="warning")


# -- what YAML 1.1 damages -------------------------------------------------------------------------

_CONSTRUCT: Final[Mapping[str, Callable[[yaml.ScalarNode], object]]] = {
    "tag:yaml.org,2002:bool": CONSTRUCTOR.construct_yaml_bool,
    "tag:yaml.org,2002:int": CONSTRUCTOR.construct_yaml_int,
    "tag:yaml.org,2002:float": CONSTRUCTOR.construct_yaml_float,
}
_OCTAL: Final = re.compile(r"[-+]?0[0-7_]+")


class _Plain(Struct, frozen=True):
    """Text without quotes that YAML reads as no text."""

    path: Path
    is_key: bool
    text: str
    value: bool | int | float
    line: int
    column: int


def _damage(source: SourceText, wanted: Callable[[Path], str]) -> list[Problem]:
    """Yield damaged scalars. `wanted` gives the intended kind at a path.

    It is "string", another kind, or "" if unknown.
    """
    if not source.text or _is_json(source):
        return []
    found = []
    for scalar in _plain_scalars(source.text):
        reading = _reading(scalar, wanted)
        if reading:
            text = f'"{scalar.text}" is read as {reading} (YAML 1.1).'
            hint = f'if text is meant, quote it: "{scalar.text}"'
            line, column = scalar.line, scalar.column
            found.append(Problem(scalar.path, text, hint, "YamlValue", line=line, column=column, severity="warning"))
    return found


def _reading(scalar: _Plain, wanted: Callable[[Path], str]) -> str:
    """Return a surprising reading of a scalar, or ""."""
    text, value = scalar.text, scalar.value
    shown = str(value).lower() if isinstance(value, bool) else str(value)
    if scalar.is_key:
        return f'the key "{shown}"' if shown != text.lower() else ""
    meant = wanted(scalar.path)
    if isinstance(value, bool):
        surprise = meant == "string" and text != str(value)
        return f'the boolean {shown}, and arrives as the text "{value}"' if surprise else ""
    if ":" in text:
        return f"the number {shown}, in base 60"
    if isinstance(value, int) and _OCTAL.fullmatch(text):
        return f"the octal number {shown}"
    if "_" in text and meant not in ("number", "integer"):
        return f"the number {shown}"
    return f'a number, and arrives as the text "{shown}"' if meant == "string" and shown != text else ""


class _Open:
    """Open container: next `key` of a map (None: a key is next), or next index."""

    __slots__ = ("is_map", "key")

    def __init__(self, is_map: bool) -> None:
        self.is_map = is_map
        self.key: str | int | None = None if is_map else 0

    def took(self) -> None:
        """A value has come."""
        self.key = self.key + 1 if isinstance(self.key, int) else None


def _plain_scalars(text: str) -> Iterator[_Plain]:
    """Booleans and numbers written without quotes, in a text that `load` has taken."""
    loader = yaml.CSafeLoader(text)
    stack: list[_Open] = []
    while not isinstance(event := loader.get_event(), yaml.StreamEndEvent):
        if isinstance(event, yaml.CollectionStartEvent):
            stack.append(_Open(isinstance(event, yaml.MappingStartEvent)))
        elif isinstance(event, yaml.CollectionEndEvent):
            stack.pop()
            if stack:
                stack[-1].took()
        elif isinstance(event, yaml.AliasEvent) and stack:
            if stack[-1].key is None:
                stack[-1].key = ""
            else:
                stack[-1].took()
        elif isinstance(event, yaml.ScalarEvent) and stack:
            value = _value(event.value) if event.tag is None and event.implicit[0] else None
            is_key = stack[-1].key is None
            if is_key:
                stack[-1].key = event.value if value is None else heat_text(value)
            if value is not None and event.start_mark is not None:
                path = tuple(container.key for container in stack if container.key is not None)
                yield _Plain(path, is_key, event.value, value, event.start_mark.line + 1, event.start_mark.column + 1)
            if not is_key:
                stack[-1].took()


def _value(text: str) -> bool | int | float | None:
    for tag, pattern in RESOLVERS.get(text[:1], ()):
        if pattern.match(text):
            construct = _CONSTRUCT.get(tag)
            value = None if construct is None else construct(yaml.ScalarNode(tag, text))
            return value if isinstance(value, (bool, int, float)) else None
    return None


class _Wanted:
    """Intended kinds of values by their place in a template."""

    def __init__(self, template: Template, types: TypeCatalog) -> None:
        self._template = template
        self._types = types
        self._views: dict[str, ResourceTypeView | None] = {}

    def __call__(self, path: Path) -> str:
        if len(path) < 4:
            return self._of_parameter(path) if len(path) == 3 else ""
        section = _SECTIONS.get(str(path[0]), path[0])
        if section == "parameters":
            return self._of_parameter(path)
        if section == "resources" and path[2] in ("properties", "Properties"):
            return self._of_property(str(path[1]), path[3:])
        return ""

    def _of_parameter(self, path: Path) -> str:
        if _SECTIONS.get(str(path[0]), path[0]) != "parameters":
            return ""
        schema = self._template.parameters.get(str(path[1]))
        if schema is None:
            return ""
        if path[2] in ("default", "Default"):
            return _kind(schema.type, len(path) > 3)
        return _kind(schema.type, True) if "allowed_values" in path or path[2] == "AllowedValues" else ""

    def _of_property(self, resource: str, path: Path) -> str:
        written = self._template.resources.get(resource)
        kind = written.get("type", written.get("Type")) if isinstance(written, Mapping) else None
        if not isinstance(kind, str):
            return ""
        if kind not in self._views:
            self._views[kind] = self._types.find(kind)
        view = self._views[kind]
        return "" if view is None else view.kind_of(_without_choices(path))


def _kind(parameter_type: str, within: bool) -> str:
    """Return the intended kind of a parameter's value, or of a part of it."""
    if parameter_type == "comma_delimited_list":
        return "string"
    return "" if within and parameter_type == "json" else parameter_type


def _without_choices(path: Path) -> Path:
    """The path as if the branches of each `if` stood in its place."""
    kept: list[str | int] = []
    parts = iter(path)
    for part in parts:
        if part in ("if", "Fn::If"):
            next(parts, None)
        else:
            kept.append(part)
    return tuple(kept)


# -- keys that are written twice -------------------------------------------------------------------


def _is_json(source: SourceText) -> bool:
    if source.text.lstrip()[:1] != "{":
        return False
    try:
        parse(source.text)
    except ValueError:
        return False
    return True


def duplicate_keys(source: SourceText) -> list[Problem]:
    """A warning for each key that is written twice in one map."""
    text = 'The key "{}" is written more than once; the last one counts.'
    return [
        Problem(path, text.format(path[-1]), "keep one of them", "DuplicateKey", severity="warning")
        for path in source.duplicates
    ]


# -- parameters that nothing uses ------------------------------------------------------------------


def _unused(template: Template) -> list[Problem]:
    used: set[str] = set()
    level: list[Json] = list(template.document.values())
    while level:
        below: list[Json] = []
        for value in level:
            if isinstance(value, Mapping):
                below.extend(value.values())
                if len(value) != 1:
                    continue
                ((name, arguments),) = value.items()
                if name in ("get_param", "Ref"):
                    asked = arguments[0] if isinstance(arguments, list) and arguments else arguments
                    if not isinstance(asked, str):
                        return []  # the name is computed: it may be any of them
                    used.add(asked)
            elif isinstance(value, list):
                below.extend(value)
        level = below
    path = "Parameters" if "Parameters" in template.document else "parameters"
    return [
        Problem(
            (path, name), f'The parameter "{name}" is never used.', "remove it, or use it", "UnusedParameter",
            severity="warning",
        )
        for name in template.declared
        if name not in used
    ]  # fmt: skip


# -- maps that look like a function ----------------------------------------------------------------


def _no_functions(template: Template) -> list[Problem]:
    """Return warnings of maps that look like a function, but are data.

    Their one key is nearly a function's name, or is one in another version or language.
    """
    dialect = template.dialect
    functions = [*dialect.functions, *dialect.conditions]
    found: list[Problem] = []
    section = "Resources" if "Resources" in template.document else "resources"
    sections = (section, "outputs", "Outputs")
    level: list[tuple[Path, Json]] = [((name,), template.document.get(name)) for name in sections]
    while level:
        path, value = level.pop()
        if isinstance(value, list):
            level += [((*path, index), item) for index, item in enumerate(value)]
        if not isinstance(value, Mapping):
            continue
        level += [((*path, name), item) for name, item in value.items()]
        ((name, arguments), *more) = value.items() or (("", None),)
        if more or name in functions:
            continue
        if _is_call(path, name, arguments) and (hint := _elsewhere(name, dialect)):
            text = f'"{name}" is no function of this template, so the map is taken as data.'
            found.append(Problem((*path, name), text, hint, "UnknownFunction", severity="warning"))
            continue
        looks_so = re.match(r"[a-z]+_[a-z_]+$|Fn::", name)
        close = difflib.get_close_matches(name, functions, n=1, cutoff=0.85) if looks_so else ()
        if close:
            text = f'"{name}" is no function, so the map is taken as data.'
            hint = f"if a function is meant: {close[0]}"
            found.append(Problem((*path, name), text, hint, "MisspeltFunction", severity="warning"))
    return found


def _is_call(path: Path, name: str, arguments: Json) -> bool:
    """Test for the form of a call.

    Some names of functions, such as "filter", are words, too.
    """
    if len(path) < 3:
        return False  # names of resources
    if "_" in name or "::" in name:
        return True
    takes_map = isinstance(arguments, Mapping) and not arguments.keys().isdisjoint(("for_each", "expression"))
    return path[-1] not in ("properties", "Properties") and (takes_map or isinstance(arguments, list))


def _elsewhere(name: str, dialect: TemplateVersion) -> str:
    """Return the place of such a function, or a substitute; "" if there is none."""
    if name in _FOREIGN:
        return _FOREIGN[name][dialect.kind]
    others = [one for one in DIALECTS.values() if name in one.functions]
    newer = next((one for one in others if one.key == dialect.key), None)
    if newer is not None:
        return f"it needs {newer.key}: {newer.version}"
    return f"it needs {others[0].key}" if others else ""


_FOREIGN: Final[Mapping[str, Mapping[str, str]]] = {
    "Fn::Sub": {"hot": "HOT has str_replace", "cfn": "there is Fn::Replace"},
    "Fn::ImportValue": {"hot": "pass the value as a parameter", "cfn": "pass the value as a parameter"},
    "Fn::GetAtt": {"hot": "HOT has get_attr"},
    "Fn::FindInMap": {"hot": "HOT has get_param with a path"},
    "Fn::If": {"hot": "HOT has if", "cfn": "it needs AWSTemplateFormatVersion"},
}
"""Functions of CloudFormation → what to use instead, by language."""


# -- conditions that can never hold ----------------------------------------------------------------


def _never(template: Template) -> list[Problem]:
    constant = ConstantConditions(template.conditions, template.parameters)
    section = "Conditions" if "Conditions" in template.document else "conditions"
    found = []
    for name, condition in template.conditions.items():
        reason = constant.reason(condition)
        if reason is not None:
            text = f'The condition "{name}" can never hold.'
            found.append(Problem((section, name), text, reason, "ConditionNeverHolds", severity="warning"))
    for path, condition in _inline_conditions(template.document):
        reason = constant.reason(condition)
        if reason is not None:
            text = "The condition can never hold."
            found.append(Problem(path, text, reason, "ConditionNeverHolds", severity="warning"))
    return found


def _inline_conditions(document: Mapping[str, Json]) -> Iterator[tuple[Path, Json]]:
    """Yield conditions written in place: of resources, outputs and each `if`."""
    stack: list[tuple[Path, Json]] = [
        ((section,), document.get(section)) for section in ("resources", "Resources", "outputs", "Outputs")
    ]
    while stack:
        path, value = stack.pop()
        if isinstance(value, Mapping):
            if len(path) == 2:
                for key in ("condition", "Condition"):
                    if isinstance(value.get(key), dict):
                        yield (*path, key), value[key]
            choice = value.get("if", value.get("Fn::If")) if len(value) == 1 else None
            if isinstance(choice, list) and choice and isinstance(choice[0], dict):
                yield (*path, next(iter(value)), 0), choice[0]
            stack.extend(((*path, key), item) for key, item in value.items() if isinstance(item, (dict, list)))
        elif isinstance(value, list):
            stack.extend(((*path, i), item) for i, item in enumerate(value) if isinstance(item, (dict, list)))
