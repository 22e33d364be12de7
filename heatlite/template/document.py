"""Templates, and definitions: templates bound to their parameters."""

from collections.abc import Iterable, Mapping
from typing import Final

from msgspec.structs import replace

from heatlite.core.errors import (
    Invalid,
    InvalidTemplateReference,
    Problem,
    StackValidationFailed,
)
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.template.definitions.binding import Binding
from heatlite.template.definitions.conditions import Conditions
from heatlite.template.definitions.definitions import OutputDefinition, ResourceDefinition
from heatlite.template.definitions.implied import with_implied
from heatlite.template.dialects import TemplateVersion, dialect_of
from heatlite.template.environment import Environment, TypeMapping, names_template
from heatlite.template.expression import (
    UNKNOWN,
    Expression,
    ExpressionParser,
    MapOf,
    NoResources,
    UnknownMap,
    fields,
    resolve,
    walk,
)
from heatlite.template.functions.references import GetAttrSelecting, GetResource
from heatlite.template.parameters.groups import check_groups
from heatlite.template.parameters.parameters import ParameterSchema
from heatlite.template.patterns import StepMeter
from heatlite.template.source.loader import Path
from heatlite.template.source.problems import Findings, ValidationPhase, dotted, raise_first, stated
from heatlite.template.types import ResourceTypeView, TypeCatalog

MAX_NAME: Final = 255
"""Characters of a resource's name that a database keeps."""
DELETION_POLICIES: Final = ("Delete", "Retain", "Snapshot")
_KINDS: Final[Mapping[str, str]] = {
    "properties": "object",
    "metadata": "object",
    "depends_on": "list or string",
    "update_policy": "object",
    "deletion_policy": "string",
    "description": "string",
    "external_id": "string",
}
"""Key of a resource → the type of its value, in Heat's words."""


class Template:
    """A template with its version checked and its parameters read, not bound yet.

    Raises InvalidTemplateVersion. Other faults are kept in `findings`, and raised or listed when the template is bound.
    """

    def __init__(self, document: Mapping[str, Json], files: Mapping[str, str] | None = None) -> None:
        self.document = document
        self.files: Mapping[str, str] = files or {}
        self.dialect: TemplateVersion = dialect_of(document)
        self.version = self.dialect.version
        self.findings = Findings()
        sections = self.dialect.sections
        known = [self.dialect.key, *sections.values()]
        for section in document:
            if section not in known:
                text = f"The template section is invalid: {section}"
                self.findings.add(
                    ValidationPhase.SECTIONS, Problem((section,), text, hint=self.findings.nearest(section, known))
                )
        self.description = str(document.get(sections["description"]) or "")
        self.parameter_groups: Json = (
            document.get("parameter_groups") if "parameter_groups" in sections else None
        ) or []
        # Definitions as written:
        self.declared = self._section("parameters")
        self.resources = self._section("resources")
        self.outputs = self._section("outputs")
        self.conditions = self._section("conditions")
        self.mappings = self._section("mappings")
        self.parameters: dict[str, ParameterSchema] = {}
        charge = StepMeter().charge
        for name, definition in self.declared.items():
            try:
                self.parameters[name] = self.dialect.read_parameter(name, definition, charge)
            except Invalid as error:
                for problem in error.problems:
                    self.findings.add(ValidationPhase.PARAMETER_SCHEMAS, problem)
        check_groups(self.parameter_groups, self.declared, self.findings)

    @property
    def hidden(self) -> frozenset[str]:
        """The names of the hidden parameters."""
        return frozenset(name for name, schema in self.parameters.items() if schema.hidden)

    def bind(
        self,
        environment: Environment,
        pseudo: Mapping[str, str],
        strict: bool = True,
        types: TypeCatalog | None = None,
        facade: Mapping[str, object] | None = None,
        stored: bool = False,
    ) -> "Definition":
        """Bind the template: apply parameters, decide conditions, parse functions.
        Disabled resources are left out. `strict` False takes parameters without a value and does not check constraints
        (POST /validate). `types` maps types as the installation does; without it, every mapped type counts as existing.
        `facade` is data of the resource whose type is this template (metadata, deletion_policy, update_policy).
        `stored` skips constraints, which were checked when the values came: an `expiration` may have passed. Raises the
        first fault, with all others in it."""
        definition = self.definition(environment, pseudo, strict, types, facade, stored)
        raise_first(definition.findings.ordered())
        return definition

    def definition(
        self,
        environment: Environment,
        pseudo: Mapping[str, str],
        strict: bool = True,
        types: TypeCatalog | None = None,
        facade: Mapping[str, object] | None = None,
        stored: bool = False,
    ) -> "Definition":
        """As `bind`, but faults are only kept, in the definition's `findings`."""
        return Definition(self, environment, pseudo, strict, types, facade, stored)

    def describe(self, given: Mapping[str, Json], defaults: Mapping[str, Json]) -> JsonMap:
        """Return description, parameters with `given` values, and groups.
        The form is that of POST /validate. `defaults` are the environment's, which win."""
        described: JsonMap = {
            "Description": self.description or "No description",
            "Parameters": {
                name: schema.describe(given.get(name), defaults.get(name)) for name, schema in self.parameters.items()
            },
        }
        if self.parameter_groups:
            described["ParameterGroups"] = self.parameter_groups
        return described

    def _section(self, name: str) -> Mapping[str, Json]:
        written = self.dialect.sections.get(name)
        if written is None:
            return {}
        section = self.document.get(written) or {}
        if isinstance(section, Mapping):
            return section
        if name == "mappings":
            # Heat reads them only where a function asks for one.
            text = f'"{written}" is ignored: it must contain a map.'
            self.findings.add(ValidationPhase.SECTIONS, replace(stated((written,), text), severity="warning"))
            return {}
        self.findings.add(ValidationPhase.SECTIONS, stated((written,), f'"{written}" must contain a map.'))
        return {}


class Definition:
    """A template bound to an environment: what a stack shall be.

    The arguments are those of `Template.bind`; `pseudo` gives HOT's pseudo parameters, and those left out are unknown.
    """

    def __init__(
        self,
        template: Template,
        environment: Environment,
        pseudo: Mapping[str, str],
        strict: bool = True,
        types: TypeCatalog | None = None,
        facade: Mapping[str, object] | None = None,
        stored: bool = False,
    ) -> None:
        self.template = template
        self.environment = environment
        self.strict = strict
        self._stored = stored
        self.mapping = TypeMapping(environment, types)
        self.findings = template.findings.copy()
        dialect = template.dialect
        self.sections, self.keys = dialect.sections, dialect.resource_keys
        binding = Binding(environment, self.findings, self.sections["parameters"], strict, stored)
        self.parameters = binding.bind(template.parameters, template.declared, dialect.pseudo(pseudo))
        self._conditions = Conditions(
            template.conditions,
            dialect,
            self.parameters,
            template.files,
            template.mappings,
            template.resources,
            facade,
        )
        for problem in self._conditions.problems:
            self.findings.add(ValidationPhase.CONDITIONS, problem)
        section = self.sections.get("conditions", "")
        if template.document.get(section, {}) in (None, [], "", False) and not stored:  # `Template` refuses others
            text = "Conditions validation error: Condition definitions must be a map."
            self._found(ValidationPhase.CONDITIONS, (section,), text)
        self._parser = ExpressionParser(dialect.functions, self._conditions)
        self._output_parser = ExpressionParser(dialect.functions, self._conditions, tolerant=True)
        self.disabled: frozenset[str] = frozenset()
        self.resources: dict[str, ResourceDefinition] = {}
        """Enabled resources, in the template's order."""
        self.outputs: dict[str, OutputDefinition] = {}
        self._read_resources()
        self._read_outputs()

    def refill(self) -> None:
        """Restore the work limit (`MAX_WORK`) for another reader of the definition."""
        self._conditions.refill()

    def place(self, resource: str, key: str = "") -> Path:
        """Return the place of a resource, or of one of its keys, in the template."""
        section = self.sections["resources"]
        return (section, resource, self.keys[key]) if key else (section, resource)

    def describe(self, hidden: Iterable[str] = ()) -> JsonMap:
        """Return the answer of POST /validate.
        `hidden` are the names of hidden parameters of nested stacks."""
        described = self.template.describe(self.environment.parameters, self.environment.parameter_defaults)
        environment = self.shown_environment(hidden, members=False)
        del environment["encrypted_param_names"]  # only stacks have them
        return {**described, "Environment": environment}

    def shown_environment(self, hidden: Iterable[str] = (), members: bool = True) -> JsonMap:
        """Return the environment as the API shows it, with secrets masked.

        As in Heat, templates that resources name as their type are in the registry; of a stack also those of `members`
        of groups. `hidden` as in `describe`.
        """
        shown = self.environment.to_dict({*self.template.hidden, *hidden})
        resources = self.resources.values()
        types = [name for one in resources for name in (one.named_types() if members else [one.type])]
        named: JsonMap = {name: name for name in types if names_template(name)}
        registry = shown["resource_registry"]
        return {**shown, "resource_registry": {**named, **as_map(registry)}}

    def secrets(self, hidden: Iterable[str] = ()) -> list[object]:
        """Return the values of hidden parameters and the secrets of sinks.
        `hidden` are the names of those of nested stacks."""
        given = self.environment
        sinks = [sink["secret"] for sink in given.event_sinks if isinstance(sink, Mapping) and "secret" in sink]
        names = {*self.template.hidden, *hidden}
        places = (self.parameters, given.parameters, given.parameter_defaults)
        found = [values[name] for name in names for values in places if name in values]
        return [*sinks, *(value for value in found if value is not UNKNOWN)]

    # -- resources ---------------------------------------------------------------------------------

    def _check_name(self, name: str, path: Path) -> None:
        if "/" in name:
            self._found(ValidationPhase.DEFINITIONS, path, 'Resource name may not contain "/"')
        if len(name) > MAX_NAME and not self._stored:
            self._found(
                ValidationPhase.DEFINITIONS, path, f"Resource name may not have more than {MAX_NAME} characters"
            )

    def _check_keys(self, name: str, path: Path, written: Mapping[str, Json], allowed: frozenset[str]) -> None:
        """Note keys that a resource cannot have, and those without a value."""
        if not written.keys() <= allowed:
            for key in written:
                if key not in allowed:
                    self._foreign_key(path, key)
        if None in written.values() and not self._stored:
            for key in _KINDS:
                if self.keys.get(key) in written and written[self.keys[key]] is None:
                    self._wrong_kind(name, key)

    def _has_type(self, path: Path, written: Mapping[str, Json]) -> bool:
        """Return True if a resource has a type, else note the fault."""
        key = self.keys["type"]
        kind = written.get(key)
        if kind is None:
            self._found(ValidationPhase.SECTIONS, path, f"Each resource must contain a {key} key.")
        elif not isinstance(kind, str):
            self._add(ValidationPhase.SECTIONS, stated((*path, key), "The type of a resource must be a string"))
        return isinstance(kind, str)

    def _read_resources(self) -> None:
        template, keys = self.template, self.keys
        allowed = frozenset(keys.values())
        condition_key = keys.get("condition", "")
        section = self.sections["resources"]
        enabled: list[tuple[str, Mapping[str, Json]]] = []
        disabled: list[tuple[str, Mapping[str, Json]]] = []
        for name, written in template.resources.items():
            path: Path = (section, name)
            if not isinstance(written, Mapping):
                text = f'"{section}" must contain a map of resource maps, but "{name}" is none.'
                self._found(ValidationPhase.SECTIONS, path, text)
                continue
            self._check_keys(name, path, written, allowed)
            if not self._has_type(path, written):
                continue
            self._check_name(name, path)
            conditional = condition_key and condition_key in written
            if conditional and not self._decided(written[condition_key], (*path, condition_key)):
                disabled.append((name, written))
            else:
                enabled.append((name, written))
        self.disabled = frozenset(name for name, _ in disabled)
        names = {name for name, _ in enabled}
        for name, written in enabled:
            self.resources[name] = self._resource(name, written, names)
        self._conditions.enabled = names
        for name, written in () if self._stored else disabled:
            self._check_disabled(name, written)
        self.resources = with_implied(self.resources, self.mapping.view)

    def _check_disabled(self, name: str, written: Mapping[str, Json]) -> None:
        """Check the syntax, not type and references, of a resource with a false condition."""
        keys = self.keys
        path: Path = (self.sections["resources"], name)
        for section in ("properties", "metadata", "update_policy"):
            self._map(written, section, path)
        self._deletion_policy(written.get(keys["deletion_policy"]), (*path, keys["deletion_policy"]))
        self._dependencies(written.get(keys["depends_on"]), name)

    def _foreign_key(self, path: Path, key: str) -> None:
        """Report a key that no resource has; CloudFormation has some that Heat ignores."""
        known, text = self.keys.values(), "is not a valid keyword inside a resource definition"
        if self.template.dialect.kind == "hot":
            self._found(
                ValidationPhase.DEFINITIONS, (*path, key), f'"{key}" {text}', hint=self.findings.nearest(key, known)
            )
            return
        hint = self.findings.nearest(key, [name for name in known if name.lower() == key.lower()])
        problem = Problem((*path, key), f'"{key}" is ignored: it {text}', hint, severity="warning")
        self.findings.add(ValidationPhase.DEFINITIONS, problem)

    def _wrong_kind(self, name: str, key: str) -> None:
        written = self.keys[key]
        text = f"Resource {name} {written} type must be {_KINDS[key]}"
        self._found(ValidationPhase.DEFINITIONS, (self.sections["resources"], name, written), text)

    def _resource(self, name: str, written: Mapping[str, Json], names: set[str]) -> ResourceDefinition:
        keys = self.keys
        path: Path = (self.sections["resources"], name)
        kind = written[keys["type"]]
        assert isinstance(kind, str)
        properties = self._map(written, "properties", path)
        metadata = self._map(written, "metadata", path)
        depends_on: tuple[str, ...] = ()
        if keys["depends_on"] in written:
            depends_on = self._depends_on(written[keys["depends_on"]], name, names)
        required = set(depends_on)
        for section, value in (("Properties", properties), ("Metadata", metadata)):
            if isinstance(value, Expression):
                required.update(self._references(value, name, section, names))
        policy = self._deletion_policy(written.get(keys["deletion_policy"]), (*path, keys["deletion_policy"]))
        external_id = None
        if "external_id" in keys and written.get(keys["external_id"]) is not None:
            external_id = self._external_id(written, path)
            policy = "Retain"  # adopted objects are not deleted
        description = written.get(keys["description"])
        if description is not None and not isinstance(description, str):
            self._wrong_kind(name, "description")
        mapped = self.mapping.target(name, kind).name
        if isinstance(description, str):
            properties = _described(properties, description, self.mapping.view(mapped))
        return ResourceDefinition(
            name=name,
            type=kind,
            mapped_type=mapped,
            properties=properties,
            metadata=metadata,
            depends_on=depends_on,
            deletion_policy=policy,
            update_policy=self._map(written, "update_policy", path),
            description=description if isinstance(description, str) else "",
            external_id=external_id,
            requires=frozenset(required),
            refill=self._conditions.refill,
        )

    def _external_id(self, written: Mapping[str, Json], path: Path) -> str | None:
        """The id, None where it is not known yet."""
        here = (*path, self.keys["external_id"])
        if written.get(self.keys["depends_on"]):
            text = f'"{path[-1]}" adopts an existing object (external_id), so it cannot depend on others'
            hint = "remove depends_on"
            self._found(ValidationPhase.DEFINITIONS, here, text, "InvalidExternalResourceDependency", hint)
        parsed = self._parsed(written[self.keys["external_id"]], here, ValidationPhase.DEFINITIONS)
        try:
            given = resolve(parsed, NoResources())
        except Invalid as error:
            self._add(ValidationPhase.DEFINITIONS, stated(here, error.message))
            return None
        if given is UNKNOWN:
            return None
        if not isinstance(given, str):
            self._wrong_kind(str(path[-1]), "external_id")
            return None
        if not given:
            text = f"Resource {path[-1]} external_id is empty: it must be the id of an existing object"
            self._found(ValidationPhase.DEFINITIONS, here, text)
        return given or None

    def _map(self, written: Mapping[str, Json], section: str, path: Path) -> Mapping[str, object] | Expression:
        key = self.keys[section]
        value = written.get(key)
        if value is None:
            return {}
        parsed = self._parsed(value, (*path, key), ValidationPhase.DEFINITIONS)
        if isinstance(parsed, (dict, Expression)):
            return parsed
        if parsed is UNKNOWN:
            return UnknownMap()
        self._wrong_kind(str(path[-1]), section)
        return {}

    def _dependencies(self, value: Json, resource: str) -> list[str]:
        """Return the names in a depends_on, [] for anything else."""
        given = [value] if isinstance(value, str) else value
        if isinstance(given, list) and all(isinstance(item, str) for item in given):
            return [str(item) for item in given]
        if given or not (given is None or self._stored):  # earlier releases accepted false, 0 and {}
            self._wrong_kind(resource, "depends_on")
        return []

    def _depends_on(self, value: Json, resource: str, names: set[str]) -> tuple[str, ...]:
        kept = []
        for item in self._dependencies(value, resource):
            if item in names:
                kept.append(item)
            elif item not in self.disabled:
                self._bad_reference(item, resource, self.place(resource, "depends_on"))
        return tuple(dict.fromkeys(kept))

    def _references(self, value: Expression, name: str, section: str, names: set[str]) -> set[str]:
        found = set()
        for expression in walk(value):
            if not isinstance(expression, (GetResource, GetAttrSelecting)) or not expression.resource:
                continue
            if expression.resource in names:
                found.add(expression.resource)
            else:
                key = dotted((name, section, *expression.path[3:-1]))
                self._bad_reference(expression.resource, key, expression.path)
        return found

    def _bad_reference(self, resource: str, key: str, path: Path) -> None:
        text = InvalidTemplateReference(resource=resource, key=key).message
        hint = (
            "a condition disables it"
            if resource in self.disabled
            else self.findings.nearest(resource, self.template.resources)
        )
        self._found(ValidationPhase.DEPENDENCIES, path, text, "InvalidTemplateReference", hint)

    def unknown_reference(self, resource: str, path: Path) -> Problem:
        """The problem of a function that names a resource that is not there."""
        text = InvalidTemplateReference(resource=resource, key="unknown").message
        hint = (
            "a condition disables it"
            if resource in self.disabled
            else self.findings.nearest(resource, self.template.resources)
        )
        return stated(path, text, hint=hint)

    def _deletion_policy(self, value: Json, path: Path) -> str:
        if value is None or value == "Delete":
            return "Delete"
        parsed = self._parsed(value, path, ValidationPhase.DEFINITIONS)
        try:
            policy = resolve(parsed, NoResources())
        except Invalid as error:
            self._add(ValidationPhase.DEFINITIONS, stated(path, error.message))
            return "Delete"
        if policy is UNKNOWN or policy is None:
            return "Delete"
        if not isinstance(policy, str):
            self._wrong_kind(str(path[1]), "deletion_policy")
            return "Delete"
        lower = self.template.dialect.lower_case_policies and policy == policy.lower()
        named = policy.capitalize() if lower else policy
        if named in DELETION_POLICIES:
            return named
        text = f'Invalid deletion policy "{policy}"'
        self._found(ValidationPhase.DEFINITIONS, path, text, hint=f"one of {', '.join(DELETION_POLICIES)}")
        return "Delete"

    # -- outputs -----------------------------------------------------------------------------------

    def _read_outputs(self) -> None:
        prefix = "Output validation error"
        keys = self.template.dialect.output_keys
        value_key, condition_key = keys["value"], keys.get("condition", "")
        for name, written in self.template.outputs.items():
            path: Path = (self.sections["outputs"], name)
            if not isinstance(written, Mapping):
                self._add(
                    ValidationPhase.OUTPUTS, stated(path, f"An output must be a map with a {value_key} key.", prefix)
                )
                continue
            if value_key not in written:
                text = f"Each output definition must contain a {value_key} key."
                self._add(ValidationPhase.OUTPUTS, stated(path, text, prefix))
                continue
            holds = True
            if condition_key and condition_key in written:
                holds = self._decided(written[condition_key], (*path, condition_key), ValidationPhase.OUTPUTS)
            value = self._output(written[value_key], (*path, value_key)) if holds else None
            description = written.get(keys["description"])
            shown = "No description given" if description is None else str(description)
            self.outputs[name] = OutputDefinition(name, value, shown, holds)

    def _output(self, value: object, path: Path) -> object:
        """Parse the value of an output. A fault that Heat reports on reading is a warning."""
        parser = self._output_parser
        parsed = parser.parse(value, path)
        for problem in parser.problems:
            self._add(ValidationPhase.OUTPUTS, problem)
        for problem in parser.tolerated:
            self._add(ValidationPhase.OUTPUTS, replace(problem, severity="warning", error="OutputError"))
        parser.problems.clear()
        parser.tolerated.clear()
        return parsed

    # -- helpers -----------------------------------------------------------------------------------

    def _parsed(self, value: object, path: Path, phase: ValidationPhase) -> object:
        parsed = self._parser.parse(value, path)
        if self._parser.problems:
            for problem in self._parser.problems:
                self._add(phase, problem)
            self._parser.problems.clear()
        return parsed

    def _decided(self, condition: object, path: Path, phase: ValidationPhase = ValidationPhase.DEFINITIONS) -> bool:
        try:
            return self._conditions.decide(condition, path) is not False
        except StackValidationFailed as error:
            for problem in error.problems:
                self._add(phase, problem)
            return True

    def _add(self, phase: ValidationPhase, problem: Problem) -> None:
        self.findings.add(phase, problem)

    def _found(
        self,
        phase: ValidationPhase,
        path: Path,
        text: str,
        error: str = "StackValidationFailed",
        hint: str = "",
        source: str = "template",
    ) -> None:
        """A problem whose text does not repeat its path."""
        self.findings.add(phase, Problem(path, text, hint, error, source))


def _described(
    properties: Mapping[str, object] | Expression, description: str, view: ResourceTypeView | None
) -> Mapping[str, object] | Expression:
    """Return the description: the property's, if the type can update it."""
    known = view.property_types().get("description") if view is not None else None
    given = fields(properties)
    if known is None or not known.updatable or given is None or "description" in given:
        return properties
    described = {**given, "description": description}
    return MapOf(described) if isinstance(properties, MapOf) else described
