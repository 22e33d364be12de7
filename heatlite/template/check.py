"""A template and its environment → every problem in them, in the order in which Heat would meet them."""

from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import replace

from heatlite.core.errors import CircularDependencyException, HeatliteError, Invalid, Problem, wire_name
from heatlite.core.json import Json
from heatlite.template.document import Definition, ResourceDefinition, Template
from heatlite.template.environment import TEMPLATE_SUFFIXES, Environment
from heatlite.template.expression import UNKNOWN, Expression, MapOf, resolve, walk
from heatlite.template.functions_hot import GetAttrSelecting, GetResource
from heatlite.template.loader import Path, Source
from heatlite.template.problems import Findings, Phase, locate, raise_first, stated
from heatlite.template.types import Fault, ResourceTypeView, TypeCatalog
from heatlite.template.warnings import duplicate_keys

__all__ = ["check", "check_definition", "locate", "raise_first"]


class _NothingYet:
    """The scope of a check: no resource is there, so every reference is unknown."""

    def reference(self, _name: str) -> object:
        return UNKNOWN

    def attribute(self, _name: str, _attribute: str | None, _path: Sequence[object]) -> object:
        return UNKNOWN


_SCOPE = _NothingYet()


def check(
    template: Source | Mapping[str, Json],
    environment: Environment,
    types: TypeCatalog,
    files: Mapping[str, str] | None = None,
    pseudo: Mapping[str, str] | None = None,
    strict: bool = True,
) -> list[Problem]:
    """Every problem, Heat's first error first; with line and column where `template` came as text.

    `strict` False is the way of POST /validate: parameters may lack values, and values are not checked.
    """
    document = template.data if isinstance(template, Source) else template
    try:
        definition = Template(document, files).definition(environment, pseudo or {}, strict)
    except HeatliteError as error:
        given = error.problems if isinstance(error, Invalid) else ()
        problems = list(given) or [Problem((), error.message, error=wire_name(error))]
    else:
        problems = check_definition(definition, types)
    if isinstance(template, Source):
        problems += duplicate_keys(template)
        problems = locate(problems, {"template": template})
    return problems


def check_definition(definition: Definition, types: TypeCatalog) -> list[Problem]:
    """As `check`, for a definition at hand; its own findings included."""
    checker = _Checker(definition, types)
    checker.run()
    return checker.findings.ordered()


class _Checker:
    def __init__(self, definition: Definition, types: TypeCatalog) -> None:
        self.definition = definition
        self.types = types
        self.findings: Findings = definition.findings.copy()
        self.views: dict[str, ResourceTypeView | None] = {}
        self.required: dict[str, frozenset[Fault]] = {}

    def run(self) -> None:
        resources = self.definition.resources
        for resource in resources.values():
            self._check_type(resource)
        clashing = sorted(self.definition.template.declared.keys() & self.definition.template.resources.keys())
        if clashing:
            names = ", ".join(f"'{name}'" for name in clashing)
            self.findings.add(Phase.NAMES, Problem(("resources", clashing[0]), f"Duplicate names {{{names}}}"))
        for name in self._in_order():
            resource = resources[name]
            view = self.views[resource.mapped_type]
            if view is not None:
                self._check_resource(resource, view)
        for output in self.definition.outputs.values():
            if isinstance(output.value, Expression):
                self._check_output(output.name, output.value)

    def _check_type(self, resource: ResourceDefinition) -> None:
        kind = resource.mapped_type
        if kind not in self.views:
            self.views[kind] = self.types.find(kind)
        if self.views[kind] is None and not kind.endswith(TEMPLATE_SUFFIXES):
            text = f"The Resource Type ({kind}) could not be found."
            hint = self.findings.nearest(kind, self.types.names())
            self.findings.add(Phase.TYPES, Problem(("resources", resource.name, "type"), text, hint))

    # -- dependencies ------------------------------------------------------------------------------

    def _in_order(self) -> list[str]:
        """Names, each after what it requires; what stands in or behind a cycle comes last."""
        resources = self.definition.resources
        missing = {name: len(resource.requires) for name, resource in resources.items()}
        dependents: dict[str, list[str]] = {}
        for name, resource in resources.items():
            for required in resource.requires:
                dependents.setdefault(required, []).append(name)
        ready = deque(name for name, count in missing.items() if not count)
        ordered = []
        while ready:
            name = ready.popleft()
            ordered.append(name)
            for dependent in dependents.get(name, ()):
                missing[dependent] -= 1
                if not missing[dependent]:
                    ready.append(dependent)
        if len(ordered) < len(resources):
            done = set(ordered)
            rest = [name for name in resources if name not in done]
            self._cycle_found(rest)
            ordered += rest
        return ordered

    def _cycle_found(self, rest: list[str]) -> None:
        """Everything in `rest` requires something in `rest`, so walking up from anywhere ends in a cycle."""
        resources = self.definition.resources
        within = set(rest)
        walked: dict[str, None] = {}
        name = rest[0]
        while name not in walked:
            walked[name] = None
            name = min(resources[name].requires & within)
        names = list(walked)
        cycle = names[names.index(name) :]

        def shown(member: str) -> str:
            return f'{resources[member].type} "{member}"'

        edges = [
            f"{shown(member)}: {{{shown(follower)}}}"
            for member, follower in zip(cycle, [*cycle[1:], cycle[0]], strict=True)
        ]
        text = CircularDependencyException(cycle=f"{{{', '.join(edges)}}}").message
        hint = " → ".join([*cycle, cycle[0]])
        problem = Problem(("resources", name), text, hint, "CircularDependencyException")
        self.findings.add(Phase.DEPENDENCIES, problem)

    # -- resources ---------------------------------------------------------------------------------

    def _check_resource(self, resource: ResourceDefinition, view: ResourceTypeView) -> None:
        path: Path = ("resources", resource.name)
        for section in (resource.properties, resource.metadata):
            if isinstance(section, Expression):
                self._check_attributes(section, Phase.RESOURCES)
        if resource.deletion_policy == "Snapshot" and not view.snapshot_on_delete:
            text = '"Snapshot" deletion policy not supported'
            self.findings.add(Phase.RESOURCES, stated((*path, "deletion_policy"), text))
        given = self._resolved(resource.properties, (*path, "properties"), "Property error")
        if given is not None:
            for fault in self._property_faults(resource.mapped_type, view, given):
                where = (*path, "properties", *fault.path)
                problem = stated(where, fault.text, "Property error", hint=fault.hint)
                unknown = fault.text.removeprefix("Unknown Property ")
                if unknown != fault.text:
                    # The message names what is around the property, for that is Heat's; the place is its own.
                    problem = replace(problem, path=(*where, unknown))
                self.findings.add(Phase.RESOURCES, problem)
        if self.definition.strict:
            self._resolved(resource.metadata, (*path, "metadata"), "")

    def _property_faults(self, kind: str, view: ResourceTypeView, given: Mapping[str, object]) -> Sequence[Fault]:
        if self.definition.strict:
            return view.check_properties(given)
        # Values do not count, so only names are looked at; and nothing has to be given.
        if kind not in self.required:
            self.required[kind] = frozenset(view.check_properties({}))
        faults = view.check_properties(dict.fromkeys(given, UNKNOWN))
        return [fault for fault in faults if fault not in self.required[kind]]

    def _resolved(
        self, section: Mapping[str, object] | Expression, path: Path, prefix: str
    ) -> Mapping[str, object] | None:
        """The section as far as it can be known; None where nothing of it can be."""
        if not isinstance(section, Expression):
            return section
        if isinstance(section, MapOf):
            return {key: self._value(value, (*path, key), prefix) for key, value in section.items.items()}
        whole = self._value(section, path, prefix)
        if isinstance(whole, Mapping):
            return whole
        if whole is not UNKNOWN and whole is not None:
            self.findings.add(Phase.RESOURCES, stated(path, "must be a map", prefix))
        return {} if whole is None else None

    def _value(self, value: object, path: Path, prefix: str) -> object:
        try:
            return resolve(value, _SCOPE)
        except Invalid as error:
            if self.definition.strict:
                self.findings.add(Phase.RESOURCES, stated(path, error.message, prefix))
            return UNKNOWN

    def _check_attributes(self, value: Expression, phase: Phase) -> None:
        """Every get_attr has to ask for an attribute that the resource's type has."""
        for expression in walk(value):
            if not isinstance(expression, GetAttrSelecting) or expression.resource not in self.definition.resources:
                continue
            resource = self.definition.resources[expression.resource]
            view = self.views[resource.mapped_type]
            if view is None or view.any_attribute:
                continue
            try:
                name = resolve(expression.attribute, _SCOPE)
            except Invalid:
                continue
            if isinstance(name, str) and name != "show" and name not in view.attribute_names:
                text = f"The Referenced Attribute ({resource.name} {name}) is incorrect."
                hint = self.findings.nearest(name, sorted(view.attribute_names))
                self.findings.add(phase, stated(expression.path, text, hint=hint))

    # -- outputs -----------------------------------------------------------------------------------

    def _check_output(self, name: str, value: Expression) -> None:
        for expression in walk(value):
            if isinstance(expression, (GetResource, GetAttrSelecting)):
                resource = expression.resource
                if resource and resource not in self.definition.resources:
                    problem = self.definition.unknown_reference(resource, expression.path)
                    self.findings.add(Phase.OUTPUTS, problem)
        self._check_attributes(value, Phase.OUTPUTS)
        if self.definition.strict:
            try:
                resolve(value, _SCOPE)
            except Invalid as error:
                # Heat takes it, and gives an output_error whenever it is read.
                path: Path = ("outputs", name, "value")
                problem = stated(path, error.message)
                self.findings.add(Phase.OUTPUTS, Problem(path, problem.text, severity="warning"))
