"""Which values come from hidden parameters, or are secrets by their type, and must not be shown.

Everything is filled in a second time as if nobody knew those. What is then unknown, or something else, depends on them:
through functions, attributes of other resources, conditions, and nested stacks, whatever they are made of.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, Self

from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json, JsonMap
from heatlite.core.masking import MASK
from heatlite.engine.planning.child_definition import blind, foreseen
from heatlite.engine.planning.collect import evaluate
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.planner import ordered
from heatlite.engine.state.definitions import pseudo_parameters
from heatlite.engine.state.values import NestedView, Values, bounded, without_unknown
from heatlite.plugin.nested import StackResource
from heatlite.plugin.schema import same
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.definitions import OutputDefinition
from heatlite.template.document import Definition
from heatlite.template.expression import UNKNOWN, Bounded, Scope
from heatlite.template.types import TypeCatalog

UNTOLD = "(known after the update)"
"""In place of a value that only the update will bring."""


class Level(Protocol):
    """One stack of a tree, as it is or as it is to become."""

    @property
    def definition(self) -> Definition:
        """What it is made from."""

    @property
    def values(self) -> Values:
        """What its functions see."""

    def full(self, name: str) -> tuple[JsonMap, JsonMap]:
        """A resource's properties and metadata with everything filled in. Raises what is wrong with them."""

    def row(self, name: str) -> ResourceRecord | None:
        """The row of a resource, or what it would be; None where there is none."""

    def child(self, name: str) -> "Self | None":
        """The nested stack of a resource; None where there is none, or nothing can be said of it."""


@dataclass(frozen=True, slots=True)
class Present:
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

    def child(self, name: str) -> "Present | None":
        row = self.row(name)
        found = None if row is None else self.view.values.resources.nested(row.physical_id)
        return None if found is None else Present(found)


class _Hiding:
    """What functions see while nobody knows what is hidden."""

    def __init__(self, values: Values, secret: set[str]) -> None:
        self._values = values
        self._secret = secret

    def reference(self, name: str) -> object:
        return UNKNOWN if name in self._secret else self._values.reference(name)

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        return UNKNOWN if name in self._secret else self._values.attribute(name, attribute, path)


class Veil:
    """What of one stack may be shown; `definition` None: nothing."""

    def __init__(self, level: Level, definition: Definition | None) -> None:
        self._level = level
        self._definition = definition
        self._wanted: dict[str, Wanted] = {}
        """With everything filled in that does not depend on what is hidden."""
        self._errors: dict[str, str] = {}
        self._children: dict[str, Veil] = {}
        self._secret: set[str] = set()
        """Resources with something in them that is hidden, or may be."""
        if definition is not None:
            self._values = _Hiding(level.values, self._secret)
            for name in ordered(level.definition.resources):
                if not self._look(definition, name):
                    self._secret.add(name)

    @classmethod
    def over(cls, level: Level, stack: StackRecord) -> "Veil":
        """The veil over the stack at the top of a tree."""
        definition, resources = level.definition, level.values.resources
        pseudo = pseudo_parameters(stack)
        return cls(level, blind(definition.template, definition.environment, pseudo, resources.types, None))

    def _look(self, definition: Definition, name: str) -> bool:
        """Fill in a resource without what is hidden; tell whether nothing of it is."""
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
        return child is not None and child.is_clear

    @property
    def is_clear(self) -> bool:
        """Whether nothing in the stack is hidden, and nothing that it gives out."""
        if self._definition is None or self._secret:
            return False
        outputs, others = self._level.definition.outputs, self._definition.outputs
        most = self._level.values.resources.resource_data
        return all(
            name in others and same(_given(output, self._level.values, most), _given(others[name], self._values, most))
            for name, output in outputs.items()
        )

    def child(self, name: str) -> "Veil | None":
        """The veil over the nested stack of a resource."""
        if name not in self._children:
            definition, level = self._nested(name), self._level.child(name)
            if level is None:
                return None
            try:
                self._children[name] = Veil(level, definition)
            except HeatliteError:
                return None  # its own definition cannot be had any more
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
            return foreseen(self._definition, resources, row, wanted, before, hide=True)[1]
        except HeatliteError as error:
            self._errors[name] = error.message
            return None

    def shown(self, name: str, properties: Mapping[str, object]) -> JsonMap:
        """Properties of a resource as they may be shown."""
        wanted = self._wanted.get(name)
        if wanted is None:
            return dict.fromkeys(properties, MASK)
        return {key: _shown(value, wanted.properties.get(key)) for key, value in properties.items()}

    def told(self, name: str, error: str) -> str:
        """What is wrong with a resource, as it may be said."""
        if name not in self._secret or self._errors.get(name) == error:
            return error
        return "something is wrong with its values; they come from hidden parameters, so it is not said here"


def secrets(level: Level, name: str) -> Iterator[object]:
    """The secrets among a resource's properties, as its type says, and all that is secret in its nested stack: what the
    nested stack is given under another name shows there, too."""
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
        pass  # its own definition cannot be had any more; what it has is in the rows
    for inner in names:
        yield from secrets(child, inner)


def _written(level: Level, name: str) -> JsonMap:
    """The properties as the template gives them, wrong as they are."""
    try:
        wanted = level.definition.resources[name]
        wanted.refill()
        found = bounded(level.values).resolved(wanted.properties)
    except HeatliteError:
        return {}
    return found if isinstance(found, dict) else {}


def _in_definitions(value: object, types: TypeCatalog) -> Iterator[object]:
    """The secrets in definitions of resources among a group's properties, be there members or none."""
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
    """A value of which nothing is hidden."""
    return _shown(value, value)


def _shown(value: object, known: object) -> Json:
    if value is UNKNOWN:
        return UNTOLD
    if known is UNKNOWN:
        return MASK
    if isinstance(value, Mapping) and isinstance(known, Mapping) and value.keys() == known.keys():
        return {str(key): _shown(item, known[key]) for key, item in value.items()}
    if isinstance(value, list) and isinstance(known, list) and len(value) == len(known):
        return [_shown(item, other) for item, other in zip(value, known, strict=True)]
    return without_unknown(value) if same(value, known) else MASK
