"""A template, and the same bound to its parameters (hot-language §2, §3, §11)."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from heatlite.core.errors import (
    Invalid,
    InvalidTemplateReference,
    InvalidTemplateVersion,
    NotSupported,
    Problem,
    StackValidationFailed,
    UnknownUserParameter,
    UserParameterMissing,
)
from heatlite.core.json import Json, JsonMap
from heatlite.template.conditions import Conditions
from heatlite.template.environment import TEMPLATE_SUFFIXES, Environment
from heatlite.template.expression import UNKNOWN, Expression, NoResources, Parser, resolve, walk
from heatlite.template.functions_hot import CONDITIONS, FUNCTIONS, GetAttrSelecting, GetResource, canonical_version
from heatlite.template.loader import VERSION_KEYS, Path
from heatlite.template.parameters import PSEUDO, Parameters, ParameterSchema
from heatlite.template.problems import Findings, Phase, dotted, raise_first, stated

_SINCE_CONDITIONS: Final = "2016-10-14"
_POLICIES: Final = ("Delete", "Retain", "Snapshot")
_RESOURCE_KEYS: Final = (
    "type", "properties", "metadata", "depends_on", "update_policy", "deletion_policy", "description",
    "external_id", "condition",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class ResourceDefinition:
    """One resource that shall be there. Values with functions in them are `Expression`s, to be resolved."""

    name: str
    type: str
    """As the template writes it."""
    mapped_type: str
    """As the environment's registry maps it."""
    properties: Mapping[str, object] | Expression
    metadata: Mapping[str, object] | Expression
    depends_on: tuple[str, ...]
    """Enabled resources only."""
    deletion_policy: str
    update_policy: Mapping[str, object] | Expression
    description: str
    external_id: str | None
    requires: frozenset[str]
    """Enabled resources named by depends_on, or referred to in properties and metadata."""


@dataclass(frozen=True, slots=True)
class OutputDefinition:
    """One output. Where `condition` is false, its value is null."""

    name: str
    value: object
    description: str
    condition: bool


class Template:
    """A template with its version checked and its parameters read; nothing is bound yet.

    Raises InvalidTemplateVersion (and NotSupported for CloudFormation's format). Other faults are kept in
    `findings`, and raised or listed when the template is bound.
    """

    def __init__(self, document: Mapping[str, Json], files: Mapping[str, str] | None = None) -> None:
        self.document = document
        self.files: Mapping[str, str] = files or {}
        self.version = _version(document)
        self.findings = Findings()
        self.functions = FUNCTIONS[self.version]
        self.condition_functions = CONDITIONS[self.version]
        sections = ["heat_template_version", "description", "parameter_groups", "parameters", "resources", "outputs"]
        if self.version >= _SINCE_CONDITIONS:
            sections.append("conditions")
        for section in document:
            if section not in sections:
                text = f"The template section is invalid: {section}"
                self.findings.add(
                    Phase.SECTIONS, Problem((section,), text, hint=self.findings.nearest(section, sections))
                )
        self.description = str(document.get("description") or "")
        self.parameter_groups: Json = document.get("parameter_groups") or []
        # Definitions as written:
        self.declared = self._section("parameters")
        self.resources = self._section("resources")
        self.outputs = self._section("outputs")
        self.conditions = self._section("conditions") if self.version >= _SINCE_CONDITIONS else {}
        self.parameters: dict[str, ParameterSchema] = {}
        for name, definition in self.declared.items():
            try:
                self.parameters[name] = ParameterSchema.parse(name, definition, self.version)
            except Invalid as error:
                for problem in error.problems:
                    self.findings.add(Phase.PARAMETER_SCHEMAS, problem)
        self._check_groups()

    def bind(self, environment: Environment, pseudo: Mapping[str, str], strict: bool = True) -> "Definition":
        """The template with parameters given, conditions decided, disabled resources left out, functions parsed.

        `strict` False takes parameters without a value, and does not hold values to constraints (POST /validate).
        Raises the first fault, with all that were found in it.
        """
        definition = self.definition(environment, pseudo, strict)
        raise_first(definition.findings.ordered())
        return definition

    def definition(self, environment: Environment, pseudo: Mapping[str, str], strict: bool = True) -> "Definition":
        """As `bind`, but faults are only kept, in the definition's `findings`."""
        return Definition(self, environment, pseudo, strict)

    def _section(self, name: str) -> Mapping[str, Json]:
        section = self.document.get(name) or {}
        if isinstance(section, Mapping):
            return section
        self.findings.add(Phase.SECTIONS, stated((name,), f'"{name}" must contain a map.'))
        return {}

    def _check_groups(self) -> None:
        groups = self.parameter_groups
        if not isinstance(groups, list):
            self._group_fault(("parameter_groups",), "parameter_groups", "The parameter_groups should be a list.")
            return
        grouped: set[object] = set()
        for i, group in enumerate(groups):
            path: Path = ("parameter_groups", i)
            label = group.get("label") if isinstance(group, Mapping) else None
            where = f"parameter_groups.{label}" if label else dotted(path)
            names = group.get("parameters") if isinstance(group, Mapping) else None
            if names is None:
                self._group_fault(path, where, "The parameters must be provided for each parameter group.")
                continue
            if not isinstance(names, list):
                self._group_fault(path, where, "The parameters of parameter group should be a list.")
                continue
            for k, name in enumerate(names):
                if not isinstance(name, str) or (name not in self.declared and name not in PSEUDO):
                    text = f"The grouped parameter {name} does not reference a valid parameter."
                    self._group_fault(
                        (*path, "parameters", k), where, text, self.findings.nearest(str(name), self.declared)
                    )
                elif name in grouped:
                    text = f"The {name} parameter must be assigned to one parameter group only."
                    self._group_fault((*path, "parameters", k), where, text)
                else:
                    grouped.add(name)

    def _group_fault(self, path: Path, where: str, text: str, hint: str = "") -> None:
        self.findings.add(Phase.GROUPS, Problem(path, f"Parameter Groups error: {where}: {text}", hint=hint))


def _version(document: Mapping[str, Json]) -> str:
    keys = [key for key in VERSION_KEYS if key in document]
    try:
        if not keys:
            raise InvalidTemplateVersion(explanation="Template version was not provided")
        if len(keys) > 1:
            raise InvalidTemplateVersion(explanation=f"Ambiguous versions ({', '.join(keys)})")
        if keys != ["heat_template_version"]:
            raise NotSupported(feature="A CloudFormation template")
        return canonical_version(document["heat_template_version"])
    except InvalidTemplateVersion as error:
        problem = Problem(tuple(keys[-1:]), error.message, error="InvalidTemplateVersion")
        raise InvalidTemplateVersion(error.message, problems=(problem,)) from None


class Definition:
    """A template bound to an environment: what a stack shall be.

    `pseudo` gives the pseudo parameters; those left out are unknown.
    """

    def __init__(
        self, template: Template, environment: Environment, pseudo: Mapping[str, str], strict: bool = True
    ) -> None:
        self.template = template
        self.environment = environment
        self.strict = strict
        self.findings = template.findings.copy()
        self.parameters = self._bind_parameters(pseudo)
        self._conditions = Conditions(
            template.conditions,
            template.condition_functions,
            template.functions,
            self.parameters,
            template.files,
        )
        for problem in self._conditions.problems:
            self.findings.add(Phase.CONDITIONS, problem)
        self._parser = Parser(template.functions, self._conditions)
        self.disabled: frozenset[str] = frozenset()
        self.resources: dict[str, ResourceDefinition] = {}
        """Enabled resources, in the template's order."""
        self.outputs: dict[str, OutputDefinition] = {}
        self._read_resources()
        self._read_outputs()

    def describe(self) -> JsonMap:
        """The answer of POST /validate."""
        given = self.environment.parameters
        schemas = self.template.parameters
        described: JsonMap = {
            "Description": self.template.description or "No description",
            "Parameters": {name: schema.describe(given.get(name)) for name, schema in schemas.items()},
        }
        if self.template.parameter_groups:
            described["ParameterGroups"] = self.template.parameter_groups
        described["Environment"] = self.environment.to_dict(name for name, schema in schemas.items() if schema.hidden)
        return described

    # -- parameters --------------------------------------------------------------------------------

    def _bind_parameters(self, pseudo: Mapping[str, str]) -> Parameters:
        template, given = self.template, self.environment.parameters
        for name in given:
            if name not in template.declared:
                text = UnknownUserParameter(key=name).message
                hint = self.findings.nearest(name, template.declared)
                self._found(
                    Phase.UNKNOWN_PARAMETERS, ("parameters", name), text, "UnknownUserParameter", hint, "environment"
                )
        values: dict[str, object] = {name: pseudo.get(name, UNKNOWN) for name in PSEUDO}
        for name in template.declared:
            schema = template.parameters.get(name)
            values[name] = UNKNOWN if schema is None else self._value(schema)
        return Parameters(template.parameters, values)

    def _value(self, schema: ParameterSchema) -> object:
        name, environment = schema.name, self.environment
        path: Path = ("parameters", name, "default")
        value, source = schema.default, "template"
        if environment.parameter_defaults.get(name) is not None:
            value, path, source = environment.parameter_defaults[name], ("parameter_defaults", name), "environment"
        if environment.parameters.get(name) is not None:
            value, path, source = environment.parameters[name], ("parameters", name), "environment"
        if value is None:
            if self.strict:
                text = UserParameterMissing(key=name).message
                self._found(Phase.MISSING_PARAMETERS, ("parameters", name), text, "UserParameterMissing")
            return UNKNOWN
        try:
            return schema.value(value)
        except ValueError as error:
            if self.strict:
                text = schema.masked(f"Parameter '{name}' is invalid: {error}", value)
                self._found(Phase.PARAMETER_VALUES, path, text, source=source)
            return UNKNOWN

    # -- resources ---------------------------------------------------------------------------------

    def _read_resources(self) -> None:
        template = self.template
        keys = _RESOURCE_KEYS if template.version >= _SINCE_CONDITIONS else _RESOURCE_KEYS[:-2]
        allowed = frozenset(keys)
        enabled: list[tuple[str, Mapping[str, Json]]] = []
        disabled = []
        for name, written in template.resources.items():
            path: Path = ("resources", name)
            if not isinstance(written, Mapping):
                text = f'"resources" must contain a map of resource maps, but "{name}" is none.'
                self._found(Phase.SECTIONS, path, text)
                continue
            if not written.keys() <= allowed:
                for key in written:
                    if key not in allowed:
                        text = f'"{key}" is not a valid keyword inside a resource definition'
                        self._found(Phase.DEFINITIONS, (*path, key), text, hint=self.findings.nearest(key, keys))
            kind = written.get("type")
            if kind is None:
                self._found(Phase.SECTIONS, path, "Each resource must contain a type key.")
                continue
            if not isinstance(kind, str):
                self._add(Phase.SECTIONS, stated((*path, "type"), "The type of a resource must be a string"))
                continue
            if "/" in name:
                self._found(Phase.DEFINITIONS, path, 'Resource name may not contain "/"')
            if "condition" in written and not self._decided(written["condition"], (*path, "condition")):
                disabled.append(name)
            else:
                enabled.append((name, written))
        self.disabled = frozenset(disabled)
        names = {name for name, _ in enabled}
        for name, written in enabled:
            self.resources[name] = self._resource(name, written, names)

    def _resource(self, name: str, written: Mapping[str, Json], names: set[str]) -> ResourceDefinition:
        path: Path = ("resources", name)
        kind = written["type"]
        assert isinstance(kind, str)
        properties = self._map(written, "properties", path)
        metadata = self._map(written, "metadata", path)
        depends_on = self._depends_on(written.get("depends_on"), path, names) if "depends_on" in written else ()
        required = set(depends_on)
        for section, value in (("Properties", properties), ("Metadata", metadata)):
            if isinstance(value, Expression):
                required.update(self._references(value, name, section, names))
        if written.get("external_id") is not None:
            text = NotSupported(feature='"external_id"').message
            self._found(Phase.DEFINITIONS, (*path, "external_id"), text, "NotSupported")
        description = written.get("description")
        if description is not None and not isinstance(description, str):
            self._add(Phase.DEFINITIONS, stated((*path, "description"), "The description must be a string"))
        mapped = self.environment.map_type(name, kind)
        if mapped.endswith(TEMPLATE_SUFFIXES):
            text = f"{kind}: provider templates are not supported yet"
            self._found(Phase.TYPES, (*path, "type"), text, "NotSupported")
        return ResourceDefinition(
            name=name,
            type=kind,
            mapped_type=mapped,
            properties=properties,
            metadata=metadata,
            depends_on=depends_on,
            deletion_policy=self._deletion_policy(written.get("deletion_policy"), (*path, "deletion_policy")),
            update_policy=self._map(written, "update_policy", path),
            description=description if isinstance(description, str) else "",
            external_id=None,
            requires=frozenset(required),
        )

    def _map(self, written: Mapping[str, Json], key: str, path: Path) -> Mapping[str, object] | Expression:
        value = written.get(key)
        if value is None:
            return {}
        parsed = self._parsed(value, (*path, key), Phase.DEFINITIONS)
        if isinstance(parsed, (dict, Expression)):
            return parsed
        if parsed is not UNKNOWN:
            self._add(Phase.DEFINITIONS, stated((*path, key), f"The {key} of a resource must be a map"))
        return {}

    def _depends_on(self, value: Json, path: Path, names: set[str]) -> tuple[str, ...]:
        given = [value] if isinstance(value, str) else value or []
        if not isinstance(given, list) or not all(isinstance(item, str) for item in given):
            text = "A resource must depend on a string or a list of strings"
            self._add(Phase.DEFINITIONS, stated((*path, "depends_on"), text))
            return ()
        kept = []
        for item in given:
            if item in names:
                kept.append(str(item))
            elif item not in self.disabled:
                self._bad_reference(str(item), str(path[1]), (*path, "depends_on"))
        return tuple(dict.fromkeys(kept))

    def _references(self, value: Expression, name: str, section: str, names: set[str]) -> set[str]:
        found = set()
        for expression in walk(value):
            if not isinstance(expression, (GetResource, GetAttrSelecting)) or not expression.resource:
                continue
            if expression.resource in names:
                found.add(expression.resource)
            elif isinstance(expression, GetResource) or expression.resource in self.disabled:
                key = dotted((name, section, *expression.path[3:-1]))
                self._bad_reference(expression.resource, key, expression.path)
            else:
                self._add(Phase.RESOURCES, self.unknown_reference(expression.resource, expression.path))
        return found

    def _bad_reference(self, resource: str, key: str, path: Path) -> None:
        text = InvalidTemplateReference(resource=resource, key=key).message
        hint = (
            "a condition disables it"
            if resource in self.disabled
            else self.findings.nearest(resource, self.template.resources)
        )
        self._found(Phase.DEPENDENCIES, path, text, "InvalidTemplateReference", hint)

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
        parsed = self._parsed(value, path, Phase.DEFINITIONS)
        try:
            policy = resolve(parsed, NoResources())
        except (StackValidationFailed, UserParameterMissing) as error:
            self._add(Phase.DEFINITIONS, stated(path, error.message))
            return "Delete"
        if policy is UNKNOWN or policy is None:
            return "Delete"
        if isinstance(policy, str):
            lower = self.template.version >= _SINCE_CONDITIONS and policy == policy.lower()
            named = policy.capitalize() if lower else policy
            if named in _POLICIES:
                return named
        text = f'Invalid deletion policy "{policy}"'
        self._found(Phase.DEFINITIONS, path, text, hint=f"one of {', '.join(_POLICIES)}")
        return "Delete"

    # -- outputs -----------------------------------------------------------------------------------

    def _read_outputs(self) -> None:
        prefix = "Output validation error"
        for name, written in self.template.outputs.items():
            path: Path = ("outputs", name)
            if not isinstance(written, Mapping):
                self._add(Phase.OUTPUTS, stated(path, "An output must be a map with a value key.", prefix))
                continue
            if "value" not in written:
                text = "Each output definition must contain a value key."
                self._add(Phase.OUTPUTS, stated(path, text, prefix))
                continue
            holds = True
            if "condition" in written and self.template.version >= _SINCE_CONDITIONS:
                holds = self._decided(written["condition"], (*path, "condition"), Phase.OUTPUTS)
            value = self._parsed(written["value"], (*path, "value"), Phase.OUTPUTS) if holds else None
            self.outputs[name] = OutputDefinition(name, value, str(written.get("description") or ""), holds)

    # -- helpers -----------------------------------------------------------------------------------

    def _parsed(self, value: object, path: Path, phase: Phase) -> object:
        parsed = self._parser.parse(value, path)
        if self._parser.problems:
            for problem in self._parser.problems:
                self._add(phase, problem)
            self._parser.problems.clear()
        return parsed

    def _decided(self, condition: object, path: Path, phase: Phase = Phase.DEFINITIONS) -> bool:
        try:
            return self._conditions.decide(condition, path)
        except StackValidationFailed as error:
            for problem in error.problems:
                self._add(phase, problem)
            return True

    def _add(self, phase: Phase, problem: Problem) -> None:
        self.findings.add(phase, problem)

    def _found(
        self,
        phase: Phase,
        path: Path,
        text: str,
        error: str = "StackValidationFailed",
        hint: str = "",
        source: str = "template",
    ) -> None:
        """A problem whose text does not repeat its path."""
        self.findings.add(phase, Problem(path, text, hint, error, source))
