"""Redaction of previews: hides values of hidden parameters and declared secrets.

All values are evaluated a second time with hidden parameters UNKNOWN. Values that become unknown or different depend on
a secret, be it through functions, attributes, conditions or nested stacks, and are redacted.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Protocol, Self, cast

from msgspec import Struct

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap, as_map, same
from heatlite.core.redaction.masking import MASK
from heatlite.engine.planning.child_definition import bind_hiding, planned_child
from heatlite.engine.planning.collect import evaluate
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.planner import ordered
from heatlite.engine.state.definitions import pseudo_parameters
from heatlite.engine.state.values import without_unknown
from heatlite.engine.types.resource_factory import NestedView, Values, bounded
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.definitions.definitions import OutputDefinition
from heatlite.template.document import Definition
from heatlite.template.expression import UNKNOWN, Bounded, Scope
from heatlite.template.types import TypeCatalog

_LEAVES = frozenset({str, int, float, bool, type(None)})
"""Types of values without parts."""
KNOWN_LATER = "(known after the update)"
"""Shown in place of UNKNOWN."""


class Level(Protocol):
    """One stack of a tree, as it is or as it becomes."""

    @property
    def definition(self) -> Definition:
        """The definition of the stack."""

    @property
    def values(self) -> Values:
        """The values in its template functions."""

    def full(self, name: str) -> tuple[JsonMap, JsonMap]:
        """Return a resource's evaluated properties and metadata. Raises their errors."""

    def row(self, name: str) -> ResourceRecord | None:
        """Return the row of a resource, or its future row; None: there is none."""

    def child(self, name: str) -> "Self | None":
        """Return the nested stack of a resource; None: missing or unreadable."""


class CurrentLevel(Struct, frozen=True):
    """A stack as it is."""

    view: NestedView

    @property
    def definition(self) -> Definition:
        return self.view.definition

    @property
    def values(self) -> Values:
        return self.view.values

    def full(self, name: str) -> tuple[JsonMap, JsonMap]:
        row = self.row(name)
        return ({}, {}) if row is None else (row.properties, row.metadata)

    def row(self, name: str) -> ResourceRecord | None:
        return self.view.values.rows.get(name)

    def child(self, name: str) -> "CurrentLevel | None":
        row = self.row(name)
        found = None if row is None else self.view.values.resources.nested(row.physical_id)
        return None if found is None else CurrentLevel(found)


class _WithoutSecrets:
    """Values with UNKNOWN for resources that hold a secret."""

    def __init__(self, values: Values, secret: set[str]) -> None:
        self._values = values
        self._secret = secret

    def reference(self, name: str) -> object:
        return UNKNOWN if name in self._secret else self._values.reference(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return UNKNOWN if name in self._secret else self._values.attribute(name, attribute, path)


class Redaction:
    """Redacts the values of one stack; all of them if `definition` is None."""

    def __init__(self, level: Level, definition: Definition | None) -> None:
        self._level = level
        self._definition = definition
        self._wanted: dict[str, Wanted] = {}
        """Evaluated without hidden parameters."""
        self._errors: dict[str, str] = {}
        self._children: dict[str, Redaction] = {}
        self._secret: set[str] = set()
        """Names of resources that hold a hidden value, or may hold one."""
        if definition is not None:
            self._values = _WithoutSecrets(level.values, self._secret)
            for name in ordered(level.definition.resources):
                if not self._is_free_of_secrets(definition, name):
                    self._secret.add(name)

    @classmethod
    def of_root(cls, level: Level, stack: StackRecord) -> "Redaction":
        """Return the redaction of the stack at the top of a tree."""
        definition, resources = level.definition, level.values.resources
        pseudo = pseudo_parameters(stack)
        return cls(level, bind_hiding(definition.template, definition.environment, pseudo, resources.types, None))

    def _is_free_of_secrets(self, definition: Definition, name: str) -> bool:
        """Return True if evaluation without hidden parameters changes nothing."""
        if name not in definition.resources:
            return False
        error = ""
        try:
            self._wanted[name] = wanted = evaluate(definition, name, self._level.values.resources, self._values)
        except HeatliteError as found:
            self._errors[name] = error = found.message
        try:
            properties, metadata = self._level.full(name)
        except HeatliteError as found:
            return found.message == error
        if error or not same(properties, wanted.properties) or not same(metadata, wanted.metadata):
            return False
        if not issubclass(wanted.kind, StackResource):
            return True
        child = self.child(name)
        return child is not None and child.is_empty

    @property
    def is_empty(self) -> bool:
        """True if no resource and no output of the stack holds a hidden value."""
        return not self._secret and not any(map(self.hides_output, self._level.definition.outputs))

    def hides_output(self, name: str) -> bool:
        """Return True if the value of an output depends on a hidden value."""
        others = {} if self._definition is None else self._definition.outputs
        if name not in others:
            return True
        output, most = self._level.definition.outputs[name], self._level.values.resources.resource_data
        return not same(_given(output, self._level.values, most), _given(others[name], self._values, most))

    def child(self, name: str) -> "Redaction | None":
        """Return the redaction of a resource's nested stack; None: missing or unreadable."""
        if name not in self._children:
            definition, level = self._nested(name), self._level.child(name)
            if level is None:
                return None
            try:
                self._children[name] = Redaction(level, definition)
            except HeatliteError:
                return None  # Its definition cannot be read any more.
        return self._children[name]

    def _nested(self, name: str) -> Definition | None:
        wanted = self._wanted.get(name)
        row = self._level.row(name)
        if self._definition is None or wanted is None or row is None or not issubclass(wanted.kind, StackResource):
            return None
        resources = self._level.values.resources
        view = resources.nested(row.physical_id)
        before = None if view is None else view.stack
        try:
            return planned_child(self._definition, resources, row, wanted, before, hide=True)[1]
        except HeatliteError as error:
            self._errors[name] = error.message
            return None

    def shown(self, name: str, properties: Mapping[str, object]) -> JsonMap:
        """Return properties of a resource with hidden parts redacted."""
        wanted = self._wanted.get(name)
        if wanted is None:
            return dict.fromkeys(properties, MASK)
        return {key: redacted(value, wanted.properties.get(key)) for key, value in properties.items()}

    def error_text(self, name: str, error: str) -> str:
        """Return the error of a resource, or a placeholder if it may have hidden values."""
        if name not in self._secret or self._errors.get(name) == error:
            return error
        return "something is wrong with its values; they come from hidden parameters, so it is not said here"


def secrets(level: Level, name: str) -> Iterator[object]:
    """Yield the secrets that a type declares, and those of its nested stack.

    The nested stack may get the same secret under another name.
    """
    row, resources = level.row(name), level.values.resources
    kind = None if row is None else resources.type_of(row)
    if kind is None or not kind.schema.holds_secrets and not issubclass(kind, StackResource):
        return
    try:
        given = level.full(name)[0]
    except HeatliteError:
        given = _written(level, name)
    yield from kind.schema.secret_values(given)
    if not issubclass(kind, StackResource):
        return
    yield from _in_definitions(given, resources.types)
    child = level.child(name)
    if child is None:
        return
    names = dict.fromkeys(child.values.rows)
    try:
        yield from child.definition.secrets()
        names.update(dict.fromkeys(child.definition.resources))
    except HeatliteError:
        pass  # Its definition cannot be read any more; its rows can.
    for inner in names:
        yield from secrets(child, inner)


def _written(level: Level, name: str) -> JsonMap:
    """Return the properties as the template gives them, without validation."""
    try:
        wanted = level.definition.resources[name]
        wanted.refill()
        return as_map(bounded(level.values).resolved(wanted.properties))
    except HeatliteError:
        return {}


def _in_definitions(value: object, types: TypeCatalog) -> Iterator[object]:
    """Yield the secrets in resource definitions within a group's properties.

    A group without members has them, too.
    """
    if isinstance(value, Mapping):
        kind, properties = value.get("type"), value.get("properties")
        view = types.find(kind) if isinstance(kind, str) and isinstance(properties, Mapping) else None
        if view is not None and isinstance(properties, Mapping):
            yield from (properties.get(name) for name, one in view.property_types().items() if one.secret)
        for item in value.values():
            yield from _in_definitions(item, types)
    elif isinstance(value, list):
        for item in value:
            yield from _in_definitions(item, types)


def _given(output: OutputDefinition, values: Scope, most: int) -> object:
    try:
        return Bounded(values, most).resolved(output.value) if output.condition else None
    except HeatliteError as error:
        return error.message


def shown(value: object) -> Json:
    """Return a value without hidden parts as shown."""
    return redacted(value, value)


def redacted(value: object, known: object) -> Json:
    """Return a value with hidden parts masked.

    `known` is the same value evaluated without hidden parameters.
    """
    kind = type(value)
    if kind in _LEAVES and kind is type(known) and value == known:  # most: checks of abstract classes take longer
        return cast(Json, value)
    if value is UNKNOWN:
        return KNOWN_LATER
    if known is UNKNOWN:
        return MASK
    if isinstance(value, Mapping) and isinstance(known, Mapping) and value.keys() == known.keys():
        return {str(key): redacted(item, known[key]) for key, item in value.items()}
    if isinstance(value, list) and isinstance(known, list) and len(value) == len(known):
        return [redacted(item, other) for item, other in zip(value, known, strict=True)]
    return without_unknown(value) if same(value, known) else MASK
