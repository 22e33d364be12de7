"""Templates used as resource types."""

from collections.abc import Container, Mapping, Sequence
from typing import Final

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json
from heatlite.template.document import Template
from heatlite.template.environment import MappedType
from heatlite.template.expression import UNKNOWN, has_unknown
from heatlite.template.parameters.parameters import ParameterSchema
from heatlite.template.source.loader import load_template
from heatlite.template.source.problems import MAX_HINTS, nearest
from heatlite.template.types import (
    Fault,
    Installation,
    NestedTemplate,
    PropertyType,
    ResourceTypeView,
    TypeCatalog,
)

_KINDS: Final[Mapping[str, str]] = {
    "string": "string",
    "number": "number",
    "comma_delimited_list": "list",
    "json": "map",
    "boolean": "boolean",
}
"""Type of a parameter → type of the property."""

_NULLS: Final[Mapping[str, Json]] = {
    "string": "",
    "number": 0,
    "comma_delimited_list": "",
    "json": {},
    "boolean": False,
}
"""Type of a parameter → value of a property that is null: it is given, so the default is not used."""


class Provider:
    """A template as a resource type (`types.ResourceTypeView`).

    Parameters are properties, outputs are attributes.

    `defaults` are the environment's parameter_defaults, which hold for nested stacks too.
    """

    any_attribute = False
    snapshot_on_delete = False
    makes_stack = True
    after: frozenset[str] = frozenset()

    def __init__(self, name: str, template: Template, defaults: Mapping[str, Json]) -> None:
        self.name = name
        self.template = template
        self._defaults = defaults
        self.attribute_names = frozenset({"show", *template.outputs})

    def has_attribute(self, name: str) -> bool:
        """Test for an attribute: an output, or ``resource.<name>…``."""
        if name in self.attribute_names:
            return True
        start, _, rest = name.partition(".")
        return start == "resource" and rest.partition(".")[0] in self.template.resources

    def property_types(self) -> Mapping[str, PropertyType]:
        return {
            name: PropertyType(_KINDS[schema.type], self._required(schema), True)
            for name, schema in self.template.parameters.items()
        }

    def kind_of(self, path: Sequence[str | int]) -> str:
        schema = self.template.parameters.get(str(path[0])) if path else None
        return "" if schema is None or len(path) > 1 else _KINDS[schema.type]

    def first_unknown(self, path: Sequence[str]) -> str:  # noqa: ARG002
        return ""

    def check_properties(self, given: Mapping[str, object]) -> list[Fault]:
        schemas = self.template.parameters
        faults: list[Fault] = []
        for name in given:
            if name not in self.template.declared:
                hint = nearest(name, schemas) if len(faults) < MAX_HINTS else ""
                faults.append(Fault((), f"Unknown Property {name}", hint))
        for name, schema in schemas.items():
            value = given.get(name)
            if name not in given:
                if self._required(schema):
                    hint = f"Give {name}: {schema.description}" if schema.description else f"Give {name}"
                    faults.append(Fault((), f"Property {name} not assigned", hint))
            elif not has_unknown(value):
                for text in _value_faults(schema, value):
                    faults.append(Fault((name,), "the value is not valid" if schema.hidden else text))
        return faults

    def check_installation(self, given: Mapping[str, object], installation: Installation) -> list[Fault]:  # noqa: ARG002
        return []

    def check_siblings(self, given: Mapping[str, object], names: Container[str]) -> list[Fault]:  # noqa: ARG002
        return []

    def comes_after(self, own: Mapping[str, object], kind: str, other: Mapping[str, object]) -> bool:  # noqa: ARG002
        return False

    def check_update_policy(self, given: Mapping[str, object]) -> list[Fault]:
        return [Fault((), f"Unknown Property {name}") for name in given]

    def nested_template(self, given: Mapping[str, object]) -> NestedTemplate | None:  # noqa: ARG002
        """None: what stands for a type is not made by one."""
        return None

    def check_facade(self, type_name: str, facade: ResourceTypeView) -> list[str]:
        """Return why the template does not fit a known type."""
        wanted, offered = facade.property_types(), self.property_types()
        texts = []
        for name, kind in wanted.items():
            own = offered.get(name)
            if own is None:
                if kind.required:
                    texts.append(f"Required property {name} for facade {type_name} missing in provider")
            elif kind.kind not in ("any", own.kind) and (kind.kind, own.kind) != ("integer", "number"):
                kinds = f"facade {type_name} ({kind.kind.capitalize()}) and provider ({own.kind.capitalize()})"
                texts.append(f"Property {name} type mismatch between {kinds}")
        for name, own in offered.items():
            if own.required and name not in wanted:
                texts.append(f"Provider requires property {name} unknown in facade {type_name}")
        for name in sorted(facade.attribute_names - self.attribute_names):
            texts.append(f"Attribute {name} for facade {type_name} missing in provider")
        return texts

    def parameters(self, given: Mapping[str, object]) -> dict[str, object]:
        """The values that resolved properties give to the template's parameters.

        UNKNOWN where the value is to come, where it is missing, and where something is wrong with it: told already.
        """
        values: dict[str, object] = {}
        for name, schema in self.template.parameters.items():
            if name not in given:
                if self._required(schema):
                    values[name] = UNKNOWN
                continue
            value = given[name]
            values[name] = UNKNOWN
            if not has_unknown(value) and not _value_faults(schema, value):
                values[name] = parameter_value(schema, value)
        return values

    def _required(self, schema: ParameterSchema) -> bool:
        return schema.default is None and self._defaults.get(schema.name) is None


def _value_faults(schema: ParameterSchema, value: object) -> list[str]:
    try:
        return schema.examine(parameter_value(schema, value))[1]
    except ValueError as error:
        return [str(error)]


def parameter_value(schema: ParameterSchema, value: object) -> Json:
    """A property's value as the nested template's parameter gets it.

    For a comma_delimited_list, the maps in a list are written out as ``.member.N.key=value``, and a null in it is an
    empty text: it may come from an attribute. Raises ValueError.
    """
    if schema.type == "comma_delimited_list" and isinstance(value, list):
        items: list[Json] = []
        for i, item in enumerate(value):
            if isinstance(item, Mapping):
                items += [f".member.{i}.{key}={part}" for key, part in item.items()]
            else:
                items.append("" if item is None else item)
        return items
    if value is None:
        return _NULLS[schema.type]
    if schema.type == "boolean" and str(value).lower() not in ("true", "false"):
        raise ValueError(f'"{value}" is not a valid boolean')
    if schema.type == "string" and isinstance(value, (list, Mapping, float)):
        raise ValueError(f"Value must be a string; got {value!r}")
    return value  # type: ignore[return-value]  # what a template resolves to is JSON


def read_provider(target: MappedType, template: Template, types: TypeCatalog, defaults: Mapping[str, Json]) -> Provider:
    """Read the template of `target` from the files of `template` or the installation.

    Raises StackValidationFailed "Could not fetch remote template …", and what is wrong with it.
    """
    files = types.installation.files if target.system else template.files
    text = files.get(target.file)
    if text is None:
        reason = "it is not among the files of the request"
        if "://" in target.file:
            reason += ", and the setting template_hosts of the server does not list its host"
        raise StackValidationFailed(f'Could not fetch remote template "{target.file}": {reason}')
    return Provider(target.file, Template(load_template(text, target.file).data, template.files), defaults)
