"""The properties of a resource type, written once.

A `Schema` is a class whose annotations are the types and whose `prop(…)` are the rules::

    class RandomStringProps(Schema):
        length: int = prop(32, between=(1, 512), doc="How many characters to draw.")
        salt: str | None = prop(doc="Change it to draw anew; otherwise unused.")

From that come coercion, validation, comparison, the wire form of the resource-type routes, and the
typed instance that handlers read. Annotations are str, int, float, bool, list[…], dict[str, …],
another Schema (a map with known keys), list[a Schema], and Json for any value; `… | None` makes a
property optional, and so does a default. Rules of coercion and texts are Heat's.

A rule about several properties is a method ``fault`` or ``fault_<rule>`` that returns its error, or None::

        def fault_minimum(self) -> str | None:
            return "min is above length" if self.min > self.length else None

Rules are called once each value is fine by itself. A rule that reads a property whose value is not known yet ends
there: it is called again when the value is known. So a rule must not depend on others, and reads no more than it
needs. ``self.given("a", "b")`` names what is surely given; rules about too much use it.
"""

import copy
import inspect
import types
import typing
from collections.abc import Callable, Iterator, Mapping, Sequence
from difflib import get_close_matches
from typing import Any, ClassVar, cast, get_args, get_origin

from heatlite.core.errors import Problem, StackValidationFailed
from heatlite.core.json import Json, JsonMap, same
from heatlite.core.redaction.masking import MASK
from heatlite.plugin.coercion import CONVERTERS, NULLS, PropertyKind
from heatlite.plugin.property_rules import Prop, constraints_of
from heatlite.template.expression import UNKNOWN, Unknown, has_unknown
from heatlite.template.parameters.constraints import CLOUD
from heatlite.template.types import Fault, PropertyType

Path = tuple[str | int, ...]


class NotKnown(Exception):
    """A rule has read a property whose value is not known yet."""


# -- a schema compiled ---------------------------------------------------------------------------


class Field:
    """One property, compiled from its annotation and its rules."""

    __slots__ = (
        "api",
        "attribute",
        "blank",
        "constraints",
        "convert",
        "default",
        "doc",
        "find",
        "hidden",
        "immutable",
        "item",
        "kind",
        "means",
        "name",
        "names_objects",
        "null",
        "required",
        "schema",
        "secret",
        "update",
    )

    def __init__(self, attribute: str, annotation: object, written: Prop) -> None:
        rules = written.rules
        self.attribute = attribute
        self.name = rules.get("alias", attribute)
        self.doc = rules.get("doc", "")
        self.update = rules.get("update", False)
        self.immutable = rules.get("immutable", False)
        self.hidden = rules.get("hidden", False)
        self.secret = rules.get("secret", False)
        self.find = rules.get("find") or rules.get("resolve")
        self.means = rules.get("means", "")
        self.null = rules.get("null", False)
        self.api = rules.get("api", self.name)
        self.schema: type[Schema] | None = None
        self.item: Field | None = None
        inner, optional = _without_none(annotation)
        self.kind = self._kind_of(inner, rules.get("items"))
        self.convert = CONVERTERS[self.kind]
        self.constraints = constraints_of(rules)
        parts: list[Field] = [] if self.item is None else [self.item]
        parts += [] if self.schema is None else self.schema.fields.values()
        self.names_objects: bool = self.find is not None or any(part.names_objects for part in parts)
        """True if a value may name objects of the cloud, at any depth."""
        self.required = not written.given and not optional
        names_a_thing = self.find is not None or rules.get("custom") in CLOUD
        self.blank = rules.get("blank", names_a_thing and self.kind is PropertyKind.STRING)
        self.default: Json = None
        if written.default is not None:
            faults: list[Fault] = []
            self.default = cast(Json, self.take(written.default, (self.name,), faults))
            if faults:
                raise TypeError(f"Invalid default of {self.name}: {faults[0].text}")

    def _kind_of(self, annotation: object, items: object) -> PropertyKind:
        if annotation == Json or annotation is object or annotation is Any:
            return PropertyKind.ANY
        scalar = SCALARS.get(annotation)
        if scalar is not None:
            return scalar
        if isinstance(annotation, type) and issubclass(annotation, Schema):
            self.schema = annotation
            return PropertyKind.MAP
        origin = get_origin(annotation) or annotation
        if not isinstance(origin, type):
            raise TypeError(f"{self.attribute}: {annotation} is no type that a property can have")
        if issubclass(origin, Mapping):
            return PropertyKind.MAP
        if issubclass(origin, Sequence):
            element = get_args(annotation)[0] if get_args(annotation) else Json
            if element != Json or items is not None:
                self.item = Field("*", element, items if isinstance(items, Prop) else Prop(None, False, {}))
                self.item.required = False
            return PropertyKind.LIST
        raise TypeError(f"{self.attribute}: {annotation} is no type that a property can have")

    def __get__(self, instance: "Schema | None", owner: type["Schema"]) -> object:
        """Read a value that the instance does not hold yet.

        Python reads its `__dict__` first. Raises NotKnown, the errors of looking up the objects that the value names,
        and StackValidationFailed for a required property without a value: no code sees None in its place.
        """
        if instance is None:
            return self
        values = instance._given
        value = values.get(self.name)
        if value is None or value == "" and self.blank:
            if self.required and not (self.null and self.name in values):
                text = f"Property {self.name} not assigned"
                raise StackValidationFailed(text, (Problem(("properties",), text, f"Give {self.name}: {self.doc}"),))
            value = copy.deepcopy(self.default) if isinstance(self.default, list | dict) else self.default
        elif instance._ids_in is not None and self.names_objects:
            value = instance._ids_in(self.name, cast(Json, value))
        found = self.typed(value)
        if instance._hides_unknown:
            for element in found if isinstance(found, list) else (found,):
                if isinstance(element, Schema):
                    element._hides_unknown = True
            if has_unknown(found):
                raise NotKnown(self.name)
        instance.__dict__[self.attribute] = found
        return found

    def take(self, value: object, path: Path, faults: list[Fault]) -> object:
        """The value coerced; what is wrong with it goes to `faults`. UNKNOWN passes."""
        if value is UNKNOWN:
            return value
        coerced: object
        try:
            coerced = self.convert(value)
        except ValueError as error:
            faults.append(Fault(path, str(error)))
            return value
        if self.schema is not None and isinstance(coerced, dict):
            coerced = self.schema._take(coerced, path, faults)
        elif self.item is not None and isinstance(coerced, list):
            coerced = self._take_items(self.item, coerced, path, faults)
        for constraint in self.constraints:
            text = constraint.fault(coerced)
            if text is not None:
                faults.append(Fault(path, text))
        return coerced

    @staticmethod
    def _take_items(item: "Field", values: list[object], path: Path, faults: list[Fault]) -> list[object]:
        return [
            item.take(NULLS[item.kind] if value is None else value, (*path, index), faults)
            for index, value in enumerate(values)
        ]

    def typed(self, value: object) -> object:
        """Return a coerced value for handlers.

        Maps with known keys become instances of their schema.
        """
        if self.schema is not None and isinstance(value, Mapping):
            return self.schema(value)
        if self.item is not None and self.item.schema is not None and isinstance(value, Sequence):
            return [self.item.typed(element) for element in value]
        return value

    def schema_within(self) -> "type[Schema] | None":
        """The schema of the value, or of a list's elements."""
        return self.item.schema_within() if self.item is not None else self.schema

    def judge(self, value: object, path: Path, faults: list[Fault]) -> None:
        """Add the faults of rules of the schemas within to `faults`."""
        if self.schema is not None and isinstance(value, Mapping):
            self.schema._judge(value, path, faults)
        elif self.item is not None and isinstance(value, list):
            for index, element in enumerate(value):
                self.item.judge(element, (*path, index), faults)

    def with_ids(self, value: Json, id_of: Callable[[str, str], str]) -> Json:
        """Return a coerced value with ids in place of cloud names.

        `id_of` gets the constraint and the name.
        """
        if self.find is not None and isinstance(value, str) and value:
            return id_of(self.find, value)
        if self.find is not None and isinstance(value, list):
            return [id_of(self.find, item) if isinstance(item, str) and item else item for item in value]
        if self.schema is not None and isinstance(value, dict):
            return self.schema.with_ids(value, id_of)
        if self.item is not None and isinstance(value, list):
            return [self.item.with_ids(item, id_of) for item in value]
        return value

    def wire(self, value: Json) -> Json:
        """Return a coerced value in the service's form.

        Known keys get the names of the API. Defaults are applied, and keys without a value left out, since a service
        takes null for one.
        """
        if self.schema is not None and isinstance(value, dict):
            fields = self.schema.fields.values()
            given = {field.api: cast(Json, field.given(value)) for field in fields if field.api}
            return {field.api: field.wire(given[field.api]) for field in fields if given.get(field.api) is not None}
        if self.item is not None and isinstance(value, list):
            return [self.item.wire(item) for item in value]
        return value

    def read(self, value: Json) -> Json:
        """Return a value of the service in the property's form, the reverse of `wire`."""
        if self.schema is not None and isinstance(value, dict):
            fields = self.schema.fields.values()
            return {field.name: field.read(value[field.api]) for field in fields if field.api and field.api in value}
        if self.item is not None and isinstance(value, list):
            return [self.item.read(item) for item in value]
        return value

    def complete(self, value: object) -> object:
        """A coerced value with the defaults of known keys filled in."""
        if self.schema is not None and isinstance(value, Mapping):
            return {name: field.complete(field.given(value)) for name, field in self.schema.fields.items()}
        if self.item is not None and isinstance(value, list):
            return [self.item.complete(element) for element in value]
        return value

    @property
    def holds_secrets(self) -> bool:
        """Test whether a value may be a secret or contain one."""
        within = self.schema is not None and self.schema.holds_secrets
        return self.secret or within or self.item is not None and self.item.holds_secrets

    def secret_values(self, value: object) -> Iterator[object]:
        """The secrets that a value is, or has in it."""
        if value is None or value is UNKNOWN:
            return
        if self.secret:
            yield value
        elif self.schema is not None and isinstance(value, Mapping):
            yield from self.schema.secret_values(value)
        elif self.item is not None and isinstance(value, list):
            for element in value:
                yield from self.item.secret_values(element)

    def masked(self, value: Json) -> Json:
        """A value with stars in place of the secrets in it."""
        if value is None or isinstance(value, Unknown):
            return value
        if self.secret:
            return MASK
        if self.schema is not None and isinstance(value, Mapping):
            return self.schema.masked(value)
        if self.item is not None and isinstance(value, list):
            return [self.item.masked(element) for element in value]
        return value

    def given(self, values: Mapping[str, object]) -> object:
        """The property's value among coerced ones; its default where they have none."""
        value = values.get(self.name)
        return self.default if value is None or value == "" and self.blank else value

    def differs(self, before: Mapping[str, object], after: Mapping[str, object]) -> bool:
        """Test whether the property has another value, with defaults on both sides."""
        old, new = self.given(before), self.given(after)
        if same(old, new):
            return False
        nested = self.schema is not None or self.item is not None
        return not (nested and same(self.complete(old), self.complete(new)))

    def describe(self) -> JsonMap:
        """The wire form in GET /resource_types/{type}."""
        body: JsonMap = {"type": self.kind.value}
        if self.doc:
            body["description"] = self.doc
        body["required"] = self.required
        if self.default is not None:
            body["default"] = self.default
        if self.constraints:
            body["constraints"] = [constraint.describe() for constraint in self.constraints]
        if self.schema is not None:
            body["schema"] = self.schema.describe()
        elif self.item is not None:
            body["schema"] = {"*": self.item.describe()}
        body["update_allowed"] = self.update
        body["immutable"] = self.immutable
        return body


SCALARS: dict[object, PropertyKind] = {
    str: PropertyKind.STRING, int: PropertyKind.INTEGER, float: PropertyKind.NUMBER, bool: PropertyKind.BOOLEAN
}


def _without_none(annotation: object) -> tuple[object, bool]:
    """``str | None`` → (str, True).

    Json has null among its values, which does not make it optional.
    """
    if annotation == Json or get_origin(annotation) not in (types.UnionType, typing.Union):
        return annotation, False
    rest = [choice for choice in get_args(annotation) if choice is not type(None)]
    if len(rest) != 1:
        raise TypeError(f"{annotation}: a property has one type; use Json for any value")
    return rest[0], True


class Schema:
    """Base of all schemas; see the module's text.

    An instance holds typed values, defaults applied.

    Below, *values* are those of a template after its functions have been resolved: JSON, keyed by
    property name, and UNKNOWN where a value is known only later. A null counts as not given.
    """

    fields: ClassVar[Mapping[str, Field]] = {}
    """By property name, in the order written; those of base classes first."""
    updatable: ClassVar[frozenset[str]] = frozenset()
    """Properties that are changed in place."""
    immutable: ClassVar[frozenset[str]] = frozenset()
    """Properties that must not change."""
    holds_secrets: ClassVar[bool] = False
    """Test whether a property is `secret`, at any depth."""
    _required: ClassVar[frozenset[str]] = frozenset()
    _old_names: ClassVar[frozenset[str]] = frozenset()
    _rules: ClassVar[Mapping[str, Callable[[Any], str | None]]] = {}
    _ruled: ClassVar[tuple[str, ...]] = ()
    """Properties with rules within."""
    _has_rules: ClassVar[bool] = False
    """Test whether there are rules, at any depth."""

    def __init_subclass__(cls) -> None:
        super().__init_subclass__()
        fields = {name: field for base in cls.__bases__ for name, field in getattr(base, "fields", {}).items()}
        for attribute, annotation in inspect.get_annotations(cls, eval_str=True).items():
            if str(annotation).startswith("typing.ClassVar"):
                continue
            written = cls.__dict__.get(attribute)
            if not isinstance(written, Prop):
                raise TypeError(f"{cls.__name__}.{attribute}: a property is written `{attribute}: … = prop(…)`")
            if hasattr(Schema, attribute):
                raise TypeError(f"{cls.__name__}.{attribute}: a name of Schema's own; choose another and give alias=")
            field = Field(attribute, annotation, written)
            fields[field.name] = field
        for field in fields.values():
            setattr(cls, field.attribute, field)
        for attribute, value in vars(cls).items():
            if isinstance(value, Prop):
                raise TypeError(f"{cls.__name__}.{attribute}: the property has no type annotation")
        cls.fields = fields
        cls.updatable = frozenset(name for name, field in fields.items() if field.update)
        cls.immutable = frozenset(name for name, field in fields.items() if field.immutable)
        cls.holds_secrets = any(field.holds_secrets for field in fields.values())
        cls._required = frozenset(name for name, field in fields.items() if field.required)
        cls._old_names = frozenset(name for name, field in fields.items() if field.means)
        known = {name: rule for base in cls.__bases__ for name, rule in getattr(base, "_rules", {}).items()}
        own = {name: rule for name, rule in vars(cls).items() if name == "fault" or name.startswith("fault_")}
        cls._rules = known | own
        within = {name: field.schema_within() for name, field in fields.items()}
        cls._ruled = tuple(name for name, schema in within.items() if schema is not None and schema._has_rules)
        cls._has_rules = bool(cls._rules or cls._ruled)

    def __init__(self, values: Mapping[str, object], ids_in: Callable[[str, Json], Json] | None = None) -> None:
        """Coerced values, each of which is made when it is first read.

        `ids_in` puts ids in place of names of objects: it gets the name and the value of a property. What is never read
        names none that must exist.
        """
        self._given, self._ids_in, self._hides_unknown = values, ids_in, False

    def given(self, *names: str) -> list[str]:
        """Return those of the properties that surely have a value.

        For rules about too many of them.
        """
        fields = (self.fields[name] for name in names)
        found = {field.name: field.typed(field.given(self._given)) for field in fields}
        return [name for name, value in found.items() if value is not None and not has_unknown(value)]

    @classmethod
    def examine(cls, values: Mapping[str, object]) -> tuple[dict[str, object], list[Fault]]:
        """Return coerced values and every fault, Heat's first one first.

        UNKNOWN stays in place.

        No defaults are filled in: what comes out is what was given.
        """
        faults: list[Fault] = []
        coerced = cls._take(values, (), faults)
        if cls._has_rules and not faults:
            cls._judge(coerced, (), faults)
        return coerced, faults

    @classmethod
    def _judge(cls, values: Mapping[str, object], path: Path, faults: list[Fault]) -> None:
        """Add the faults of rules to `faults`, those of the schemas within first."""
        for name in cls._ruled:
            cls.fields[name].judge(values.get(name), (*path, name), faults)
        if not cls._rules:
            return
        view = cls(values)
        view._hides_unknown = has_unknown(values)
        for rule in cls._rules.values():
            try:
                text = rule(view)
            except NotKnown:
                continue
            fault = None if text is None else Fault(path, text)
            if fault is not None and fault not in faults:
                faults.append(fault)

    @classmethod
    def check(cls, values: Mapping[str, object]) -> list[Fault]:
        """Every fault of the values; those that are UNKNOWN have none."""
        return cls.examine(values)[1]

    @classmethod
    def coerce(cls, values: Mapping[str, object], whole: bool = True) -> JsonMap:
        """The given values coerced.

        Raises StackValidationFailed with every fault; without `whole`, that some are missing is none.

        UNKNOWN, which only previews have, is left where it stands.
        """
        coerced, faults = cls.examine(values)
        if faults and not whole:
            missing = cls.check({})
            faults = [fault for fault in faults if fault not in missing]
        if faults:
            problems = tuple(Problem(("properties", *fault.path), fault.text, fault.hint) for fault in faults)
            raise StackValidationFailed(f"Property error: {problems[0].where}: {problems[0].text}", problems)
        return cast(JsonMap, coerced)  # outside of a preview nothing in it is UNKNOWN

    @classmethod
    def with_ids(cls, values: Mapping[str, Json], id_of: Callable[[str, str], str]) -> JsonMap:
        """Coerced values in which ids stand where properties with `find` give names."""
        fields = cls.fields
        return {name: fields[name].with_ids(value, id_of) for name, value in values.items() if name in fields}

    @classmethod
    def diff(cls, before: Mapping[str, object], after: Mapping[str, object]) -> frozenset[str]:
        """Return the names of properties that differ, with defaults on both sides.

        The values are coerced.

        A value that is UNKNOWN differs. Names that the schema does not have (any more) are left out.
        """
        if before is after:
            return frozenset()
        fields = cls.fields
        found: list[str] = []
        for name in {**before, **after}:
            old, new = before.get(name), after.get(name)
            is_same = type(old) is str and type(new) is str and old == new  # most of them: saves some calls
            if not is_same and name in fields and fields[name].differs(before, after):
                found.append(name)
        return frozenset(found)

    @classmethod
    def secret_values(cls, values: Mapping[str, object]) -> Iterator[object]:
        """Those among the values that properties with `secret` have, at any depth."""
        for name, field in cls.fields.items():
            yield from field.secret_values(values.get(name))

    @classmethod
    def masked(cls, values: Mapping[str, Json]) -> JsonMap:
        """The values with stars in place of those that `secret_values` gives."""
        fields = cls.fields if cls.holds_secrets else {}
        return {name: fields[name].masked(value) if name in fields else value for name, value in values.items()}

    @classmethod
    def describe(cls) -> JsonMap:
        """The `properties` of GET /resource_types/{type}."""
        return {name: field.describe() for name, field in cls.fields.items() if not field.hidden}

    @classmethod
    def property_types(cls) -> Mapping[str, PropertyType]:
        """By name: what a template that stands for the type has to know."""
        return {
            name: PropertyType(field.kind.value, field.required, field.update, field.secret)
            for name, field in cls.fields.items()
        }

    @classmethod
    def kind_of(cls, path: Sequence[str | int]) -> str:
        """Return the type of a property, or of the value at `path`; "" if open."""
        schema: type[Schema] | None = cls
        field: Field | None = None
        for step in path:
            if isinstance(step, int):
                field = field.item if field is not None else None
            else:
                field = schema.fields.get(step) if schema is not None else None
            if field is None:
                return ""
            schema = field.schema
        return "" if field is None or field.kind is PropertyKind.ANY else field.kind.value

    @classmethod
    def first_unknown(cls, path: Sequence[str]) -> str:
        """Return the first step of a path into properties that no value has.

        "" if each may be there. Steps are those of a JSON Pointer: ``-`` stands for a further item of a list.
        """
        schema: type[Schema] | None = cls
        field: Field | None = None
        for step in path:
            if schema is not None:
                field = schema.fields.get(step)
                if field is None:
                    return step
            elif field is None or field.kind in (PropertyKind.MAP, PropertyKind.ANY):
                return ""  # it may have any
            elif field.kind is not PropertyKind.LIST or not (step.isdecimal() or step == "-"):
                return step
            else:
                field = field.item
            schema = None if field is None else field.schema
        return ""

    @classmethod
    def _take(cls, values: Mapping[str, object], path: Path, faults: list[Fault]) -> dict[str, object]:
        fields, misspelt = cls.fields, set[str]()
        for name in () if values.keys() <= fields.keys() else values:
            if name not in fields:
                meant = next(iter(get_close_matches(str(name), fields, 1)), "")
                misspelt.add(meant)
                faults.append(cls._unknown(name, meant, path))
        if cls._old_names and not cls._old_names.isdisjoint(values):
            values = cls._renamed(values, path, faults)
        coerced: dict[str, object] = {}
        # Most properties are not given. They matter only if a required one is among them.
        for name in filter(values.__contains__, fields) if cls._required <= values.keys() else fields:
            field, value = fields[name], values.get(name)
            if value is not None and not (value == "" and field.blank):
                coerced[name] = field.take(value, (*path, name), faults)
            elif field.null and name in values:
                coerced[name] = NULLS[field.kind]
            elif field.required and name not in misspelt:
                faults.append(Fault(path, f"Property {name} not assigned", f"Give {name}: {field.doc}"))
        return coerced

    @classmethod
    def _renamed(cls, values: Mapping[str, object], path: Path, faults: list[Fault]) -> dict[str, object]:
        """The values by the names that properties have now."""
        found = dict(values)
        for old in cls._old_names & found.keys():
            value, name = found.pop(old), cls.fields[old].means
            if value is None or value == "" and cls.fields[old].blank:
                continue
            if found.get(name) in (None, ""):
                in_list = cls.fields[name].kind is PropertyKind.LIST and cls.fields[old].kind is not PropertyKind.LIST
                found[name] = [value] if in_list else value
            elif UNKNOWN not in (value, found[name]):
                faults.append(Fault(path, f"Cannot use {name} and {old} at the same time", f"Leave out {old}."))
        return found

    @classmethod
    def _unknown(cls, name: str, meant: str, path: Path) -> Fault:
        if meant:
            hint = f"Did you mean {meant}?"
        elif cls.fields:
            hint = f"There are: {', '.join(sorted(cls.fields))}."
        else:
            hint = "The type has no properties."
        return Fault(path, f"Unknown Property {name}", hint)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({', '.join(f'{name}={value!r}' for name, value in self._given.items())})"
