"""Checks of a template and its environment, in Heat's order."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, cast

from msgspec.structs import replace

from heatlite.core.errors import (
    HeatliteError,
    Invalid,
    Problem,
    RequestLimitExceeded,
    UserParameterMissing,
    features_off,
    wire_name,
)
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.json import size as json_size
from heatlite.template.checks.nested import Nested
from heatlite.template.checks.order import in_order
from heatlite.template.checks.type_hints import hint_for_type
from heatlite.template.checks.warnings import duplicate_keys
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment, MappedType, names_template
from heatlite.template.expression import UNKNOWN, Expression, Failed, Function, MapOf, resolve, sift, walk
from heatlite.template.functions.references import GetAttrSelecting, GetFile, GetParam, GetResource
from heatlite.template.ignored import IGNORE_DRIFT, entry_faults, written
from heatlite.template.provider import Provider, read_provider
from heatlite.template.replacement import faults
from heatlite.template.source.loader import Path, SourceText
from heatlite.template.source.problems import Findings, ValidationPhase, dotted, locate, raise_first, stated
from heatlite.template.types import Fault, NestedTemplate, ResourceTypeView, TypeCatalog, UnusableType

__all__ = ["check", "check_definition", "locate", "raise_first"]

_MADE: Final = "nested_stack"
"""Name in messages for a template that a type has made (Heat's)."""


class _NothingYet:
    """The scope of a check: no resource is there, so every reference is unknown."""

    def reference(self, _name: str) -> object:
        return UNKNOWN

    def attribute(self, _name: str, _attribute: str | None, _path: Sequence[object]) -> object:
        return UNKNOWN


_SCOPE = _NothingYet()


def check(
    template: SourceText | Mapping[str, Json],
    environment: Environment,
    types: TypeCatalog,
    files: Mapping[str, str] | None = None,
    pseudo: Mapping[str, str] | None = None,
    strict: bool = True,
) -> list[Problem]:
    """Return every problem, Heat's first error first.

    Problems have line and column if `template` came as text.

    `strict` False is the way of POST /validate: parameters may lack values, and values are not checked.
    """
    document = template.data if isinstance(template, SourceText) else template
    try:
        definition = Template(document, files).definition(environment, pseudo or {}, strict, types)
    except HeatliteError as error:
        given = error.problems if isinstance(error, Invalid) else ()
        problems = list(given) or [Problem((), error.message, error=wire_name(error))]
    else:
        problems = check_definition(definition, types)
    if isinstance(template, SourceText):
        problems += duplicate_keys(template)
        problems = locate(problems, {"template": template})
    return problems


def check_definition(definition: Definition, types: TypeCatalog) -> list[Problem]:
    """As `check`, for a definition at hand; its own findings included."""
    return examine(definition, types)[0]


def examine(definition: Definition, types: TypeCatalog, most: int = 0) -> tuple[list[Problem], Nested]:
    """As `check_definition`, and the nested templates that were met.

    Sizes are counted no further than `most`.
    """
    checker = _Checker(definition, types, _Run(most))
    checker.run()
    nested = Nested("", definition, checker.children, given=checker.secrets, held=checker.held)
    return checker.findings.ordered(), nested


class _Run:
    """Shared state of all checkers of one check.

    A template that many resources use is read and checked once.
    """

    def __init__(self, most: int) -> None:
        self._room = most
        """Characters of JSON that are still counted."""
        self.providers: dict[tuple[str, bool], Provider | list[Problem]] = {}
        self.nested: dict[str, Nested] = {}
        """By template and values."""
        self.secret: dict[str, frozenset[str]] = {}
        """Type → its properties that are secrets."""
        self.told: set[tuple[object, ...]] = set()
        """Faults of nested templates, each reported for the first resource that has it."""
        self.resources = 0

    def count(self, value: object) -> int:
        """Return the characters of JSON of a value, or more than what is still counted.

        An empty one counts nothing.
        """
        if self._room <= 0 or not value:
            return 0
        size = json_size(value, self._room)
        self._room -= size
        return size

    def provider(self, target: MappedType, definition: Definition, types: TypeCatalog) -> Provider | list[Problem]:
        key = (target.name, target.system)
        if key not in self.providers:
            try:
                defaults = definition.environment.parameter_defaults
                self.providers[key] = read_provider(target, definition.template, types, defaults)
            except HeatliteError as error:
                given = error.problems if isinstance(error, Invalid) else ()
                found = list(given) or [Problem((), error.message, error=wire_name(error))]
                # The request is well-formed: the template that it names is not.
                kinds = {"HTTPBadRequest": "StackValidationFailed"}
                self.providers[key] = [replace(one, error=kinds.get(one.error, one.error)) for one in found]
        return self.providers[key]


class _Checker:
    def __init__(
        self,
        definition: Definition,
        types: TypeCatalog,
        run: _Run,
        above: tuple[str, ...] = (),
        facades: bool = True,
    ) -> None:
        """Start a checker.

        `above`: the nested templates that we are within, by template and values. `facades`: see NestedTemplate.
        """
        self.definition = definition
        self.types = types
        self.findings: Findings = definition.findings.copy()
        self.views: dict[str, ResourceTypeView | None] = {}
        self.required: dict[str, frozenset[Fault]] = {}
        self.unavailable: dict[str, UnusableType | None] = {}
        self.children: dict[str, Nested] = {}
        self.secrets: list[object] = []
        """The values of secret properties."""
        self.held = 0
        self._run = run
        self._facades = facades
        self._above = above

    def run(self) -> None:
        resources = self.definition.resources
        for resource in resources.values():
            self._check_type(resource)
        clashing = sorted(self.definition.template.declared.keys() & self.definition.template.resources.keys())
        if clashing:
            names = ", ".join(f"'{name}'" for name in clashing)
            self.findings.add(
                ValidationPhase.NAMES, Problem(self.definition.place(clashing[0]), f"Duplicate names {{{names}}}")
            )
        for name in in_order(self.definition, self.findings):
            resource = resources[name]
            view = self.views[resource.mapped_type]
            if view is not None:
                self._check_resource(resource, view)
        for output in self.definition.outputs.values():
            if isinstance(output.value, Expression):
                self._check_output(output.name, output.value)

    def _check_type(self, resource: ResourceDefinition) -> None:
        kind = resource.mapped_type
        if names_template(kind):
            self._check_provider(resource)
            return
        if kind not in self.views:
            self.views[kind] = self.types.find(kind)
            self.unavailable[kind] = None if self.views[kind] is None else self.types.unavailable(kind)
        if self.views[kind] is None:
            off = features_off(self.types.installation.features_off)
            text = f"The Resource Type ({kind}) could not be found. {off}".rstrip()
            hint = ""
            if self.findings.may_hint():
                mapped = self.definition.mapping.entry_for(resource.name, resource.type)
                hint = hint_for_type(kind, self.types.names(), mapped)
            self.findings.add(ValidationPhase.TYPES, Problem(self.definition.place(resource.name, "type"), text, hint))
            return
        unavailable = self.unavailable[kind]
        if unavailable is not None and ("unavailable", unavailable.hint) not in self._run.told:
            if unavailable.hint:
                self._run.told.add(("unavailable", unavailable.hint))
            place = self.definition.place(resource.name, "type")
            self.findings.add(
                ValidationPhase.TYPES, Problem(place, unavailable.text, unavailable.hint, unavailable.error)
            )

    def _check_provider(self, resource: ResourceDefinition) -> None:
        """Read the template of the resource's type, and compare it to that type."""
        file = resource.mapped_type
        target = self.definition.mapping.target(resource.name, resource.type)
        provider = self._run.provider(target, self.definition, self.types)
        self.views[file] = provider if isinstance(provider, Provider) else None
        here = self.definition.place(resource.name, "type")
        if not isinstance(provider, Provider):
            for problem in provider:
                fetched = bool(problem.path or problem.line or target.file in self.definition.template.files)
                if fetched:
                    self._add_nested(resource, problem, ValidationPhase.TYPES)
                else:
                    self.findings.add(ValidationPhase.TYPES, replace(problem, path=here))
            return
        facade = self._facade(resource) if self._facades and resource.type != file else None
        if facade is not None:
            for text in provider.check_facade(resource.type, facade):
                problem = Problem(here, f"{self._where(resource, file)}: {text}")
                self.findings.add(ValidationPhase.RESOURCES, problem)

    def _facade(self, resource: ResourceDefinition) -> ResourceTypeView | None:
        """Return the type or the template that the resource's template stands for.

        None: it stands for itself.
        """
        target = self.definition.mapping.facade(resource.name, resource.type)
        if target is None or not target.is_template:
            return None if target is None else self.types.find(target.name)
        provider = self._run.provider(target, self.definition, self.types)
        return provider if isinstance(provider, Provider) else None

    def _where(self, resource: ResourceDefinition, within: str) -> str:
        return f"{dotted(self.definition.place(resource.name))}<{within}>"

    def _add_nested(
        self, resource: ResourceDefinition, problem: Problem, phase: ValidationPhase, made: NestedTemplate | None = None
    ) -> None:
        """Add a problem of a nested template, which a type names or generates.

        A generated template has no text of its own: its problems are reported at the source of its definitions.
        """
        if problem.source != "template":
            source, path = problem.source, problem.path
        elif made is None:
            source, path = resource.mapped_type, problem.path
        else:
            source = problem.source
            path = (*self.definition.place(resource.name, "properties"), *made.origin, *problem.path[2:])
        mark = (source, path, problem.line, problem.text)
        if mark not in self._run.told:
            self._run.told.add(mark)
            text = f"{self._where(resource, _MADE if made else resource.mapped_type)}: {problem.text}"
            self.findings.add(phase, replace(problem, text=text, source=source, path=path))

    def _check_provided(self, resource: ResourceDefinition, provider: Provider, given: Mapping[str, object]) -> None:
        """Check the template that stands for the resource's type, to the bottom."""
        target = self.definition.mapping.target(resource.name, resource.type)
        values = cast(JsonMap, provider.parameters(given))  # and UNKNOWN, which a definition takes
        policy = self._resolved(resource.update_policy, (), "", tell=False)
        metadata = self._resolved(resource.metadata, (), "", tell=False)
        facade = {
            "metadata": UNKNOWN if metadata is None else metadata,
            "deletion_policy": resource.deletion_policy,
            "update_policy": UNKNOWN if policy is None else policy,
        }
        self._check_nested(resource, provider.template, target, values, facade)

    def _check_made(self, resource: ResourceDefinition, made: NestedTemplate) -> None:
        """Check the template that the type makes of its properties, with nested ones."""
        template = Template(made.document, self.definition.template.files)
        self._check_nested(resource, template, MappedType(_MADE), {}, None, made)

    def _check_nested(
        self,
        resource: ResourceDefinition,
        template: Template,
        target: MappedType,
        values: JsonMap,
        facade: Mapping[str, object] | None,
        made: NestedTemplate | None = None,
    ) -> None:
        """Bind and check the template of a nested stack; `made` if a type has made it."""
        environment = self.definition.environment.for_child(resource.name, target, values)
        name = made.document if made is not None else target.name
        key = repr((name, values, environment.resource_registry, sorted(environment.without), facade))
        here = self.definition.place(resource.name, "type")
        if key in self._above:
            text = f"{self._where(resource, target.name)}: the template includes itself"
            self.findings.add(ValidationPhase.RESOURCES, Problem(here, text))
            return
        limit = self.types.installation.max_nested_stack_depth
        if len(self._above) >= limit:
            text = RequestLimitExceeded(message=f"Recursion depth exceeds {limit}.").message
            self.findings.add(ValidationPhase.RESOURCES, Problem(here, text, error="RequestLimitExceeded"))
            return
        known = self._run.nested.get(key)
        if known is None:
            definition = template.definition(environment, {}, self.definition.strict, self.types, facade)
            self._run.resources += len(definition.resources)
            most = self.types.installation.max_resources_per_stack
            if self._run.resources > most:
                if ("too many",) not in self._run.told:
                    self._run.told.add(("too many",))
                    text = f"Maximum resources per stack exceeded: {most}."
                    text = RequestLimitExceeded(message=text).message
                    self.findings.add(ValidationPhase.RESOURCES, Problem(here, text, error="RequestLimitExceeded"))
                return
            checker = _Checker(definition, self.types, self._run, (*self._above, key), made is None or made.facades)
            checker.run()
            own = [environment.parameters, environment.parameter_defaults, None if made is None else made.document]
            known = self._run.nested[key] = Nested(
                resource.type,
                definition,
                checker.children,
                given=checker.secrets,
                held=checker.held,
                own=self._run.count(own),
            )
            for problem in checker.findings.ordered():
                self._add_nested(resource, problem, ValidationPhase.RESOURCES, made)
        times = made.times if made is not None else 1
        self.children[resource.name] = replace(known, type=resource.type, times=times)

    # -- resources ---------------------------------------------------------------------------------

    def _check_resource(self, resource: ResourceDefinition, view: ResourceTypeView) -> None:
        place = self.definition.place
        for section in (resource.properties, resource.metadata):
            if isinstance(section, Expression):
                self._check_attributes(section, ValidationPhase.RESOURCES)
        if resource.deletion_policy == "Snapshot" and not view.snapshot_on_delete:
            text = '"Snapshot" deletion policy not supported'
            self.findings.add(ValidationPhase.RESOURCES, stated(place(resource.name, "deletion_policy"), text))
        if resource.update_policy:
            self._check_update_policy(resource, view)
        self._check_ignored(resource, view)
        path = place(resource.name, "properties")
        given = self._resolved(resource.properties, path, "Property error")
        faults = self._property_faults(view, given) if given is not None else ()
        if faults and resource.external_id is not None:
            missing = self._missing(resource.mapped_type, view)
            faults = [fault for fault in faults if fault not in missing]
        for fault in faults:
            self.findings.add(ValidationPhase.RESOURCES, _property_problem(path, fault))
        self.held += self._run.count(given)
        if self.definition.strict:
            metadata = self._resolved(resource.metadata, place(resource.name, "metadata"), "")
            self.held += self._run.count(metadata)
        if isinstance(view, Provider):
            self._check_provided(resource, view, given or {})
            return
        self._note_secrets(resource.mapped_type, view, given or {})
        made = view.nested_template(given) if given is not None and not faults else None
        if made is not None:
            self._check_made(resource, made)

    def _note_secrets(self, kind: str, view: ResourceTypeView, given: Mapping[str, object]) -> None:
        if kind not in self._run.secret:
            known = view.property_types().items()
            self._run.secret[kind] = frozenset(name for name, one in known if one.secret)
        self.secrets += [value for name, value in given.items() if name in self._run.secret[kind] and value is not None]

    def _check_update_policy(self, resource: ResourceDefinition, view: ResourceTypeView) -> None:
        path = self.definition.place(resource.name, "update_policy")
        given = self._resolved(resource.update_policy, path, "Property error")
        if given is None:
            return
        found = []
        if "replacement" in given:
            given = dict(given)
            settings = given.pop("replacement")
            found = [replace(fault, path=("replacement", *fault.path)) for fault in faults(settings)]
            text = self.definition.environment.replacement(resource.name).refined(settings).fault()
            if text is not None:
                found.append(Fault(("replacement",), text))
        entries = written(resource.update_policy)
        if entries is not None:
            given = {key: value for key, value in given.items() if key != IGNORE_DRIFT}
            wrong = entry_faults(entries, view)
            found += [replace(fault, path=(IGNORE_DRIFT, *fault.path)) for fault in wrong]
        for fault in (*found, *view.check_update_policy(given)):
            self.findings.add(
                ValidationPhase.RESOURCES, stated((*path, *fault.path), fault.text, "Property error", hint=fault.hint)
            )

    def _check_ignored(self, resource: ResourceDefinition, view: ResourceTypeView) -> None:
        """Check the ignored paths that an environment gives for exactly this resource.

        For a nested stack or a group they are those of its resources.
        """
        if view.makes_stack:
            return
        blocks = as_map(self.definition.environment.resource_registry.get("resources"))
        block = as_map(blocks.get(resource.name))
        path = ("resource_registry", "resources", resource.name, IGNORE_DRIFT)
        for fault in entry_faults(block[IGNORE_DRIFT], view) if IGNORE_DRIFT in block else ():
            self.findings.add(ValidationPhase.RESOURCES, Problem((*path, *fault.path), fault.text, fault.hint))

    def _property_faults(self, view: ResourceTypeView, given: Mapping[str, object]) -> Sequence[Fault]:
        if self.definition.strict:
            return (
                view.check_properties(given)
                or view.check_installation(given, self.types.installation)
                or view.check_siblings(given, self.definition.resources)
            )
        # Values do not count, so only names are looked at; and nothing must be given.
        return view.check_properties(dict.fromkeys((*view.property_types(), *given), UNKNOWN))

    def _missing(self, kind: str, view: ResourceTypeView) -> frozenset[Fault]:
        """The faults of a resource that gives nothing."""
        if kind not in self.required:
            self.required[kind] = frozenset(view.check_properties({}))
        return self.required[kind]

    def _resolved(
        self, section: Mapping[str, object] | Expression, path: Path, prefix: str, tell: bool = True
    ) -> Mapping[str, object] | None:
        """The section as far as it can be known, None where nothing can be.

        Without `tell`, faults are left out.
        """
        if not isinstance(section, Expression):
            return section
        if isinstance(section, MapOf):
            return {key: self._value(value, (*path, key), prefix, tell) for key, value in section.items.items()}
        whole = self._value(section, path, prefix, tell)
        if isinstance(whole, Mapping):
            return whole
        if tell and whole is not UNKNOWN and whole is not None:
            self.findings.add(ValidationPhase.RESOURCES, stated(path, "must be a map", prefix))
        return {} if whole is None else None

    def _value(self, value: object, path: Path, prefix: str, tell: bool) -> object:
        failed: list[Failed] = []
        found = sift(value, _SCOPE, failed)
        if tell and self.definition.strict:
            for problem in self._unresolved(failed, path, prefix):
                self.findings.add(ValidationPhase.RESOURCES, problem)
        return found

    def _unresolved(self, failed: Iterable[Failed], path: Path, prefix: str = "") -> Iterator[Problem]:
        """Yield the problems of failed functions.

        Messages name the property as Heat's do; the places are the functions'.
        """
        for function, error in failed:
            if isinstance(function, GetResource):
                continue  # the reference has been told already
            hint = self._name_hint(function, error)
            yield replace(stated(path, error.message, prefix), path=function.path, hint=hint)

    def _name_hint(self, function: Function, error: Invalid) -> str:
        """The nearest known name, where a function names what is not there."""
        name = function.arguments
        if isinstance(function, GetParam) and isinstance(error, UserParameterMissing):
            name = name[0] if isinstance(name, list) else name
            return self.findings.nearest(name, self.definition.parameters) if isinstance(name, str) else ""
        if isinstance(function, GetFile) and isinstance(name, str):
            return self.findings.nearest(name, self.definition.template.files)
        return ""

    def _check_attributes(self, value: Expression, phase: ValidationPhase) -> None:
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
            if isinstance(name, str) and name != "show" and not _has_attribute(view, name):
                text = f"The Referenced Attribute ({resource.name} {name}) is incorrect."
                hint = self.findings.nearest(name, sorted(view.attribute_names))
                problem = stated(expression.path, text, hint=hint)
                late = phase is ValidationPhase.OUTPUTS and isinstance(view, Provider)
                self.findings.add(phase, _when_read(problem) if late else problem)

    # -- outputs -----------------------------------------------------------------------------------

    def _check_output(self, name: str, value: Expression) -> None:
        for expression in walk(value):
            if isinstance(expression, (GetResource, GetAttrSelecting)):
                resource = expression.resource
                if resource and resource not in self.definition.resources:
                    problem = self.definition.unknown_reference(resource, expression.path)
                    late = isinstance(expression, GetResource)
                    self.findings.add(ValidationPhase.OUTPUTS, _when_read(problem) if late else problem)
        self._check_attributes(value, ValidationPhase.OUTPUTS)
        if self.definition.strict:
            failed: list[Failed] = []
            sift(value, _SCOPE, failed)
            template = self.definition.template
            path: Path = (self.definition.sections["outputs"], name, template.dialect.output_keys["value"])
            for problem in self._unresolved(failed, path):
                self.findings.add(ValidationPhase.OUTPUTS, _when_read(problem))


def _when_read(problem: Problem) -> Problem:
    """Return the warning for a fault that Heat reports as output_error on reading."""
    return replace(problem, severity="warning", error="OutputError")


def _has_attribute(view: ResourceTypeView, name: str) -> bool:
    return view.has_attribute(name) if isinstance(view, Provider) else name in view.attribute_names


def _property_problem(path: Path, fault: Fault) -> Problem:
    """Return the problem for a fault of properties at a path."""
    where = (*path, *fault.path)
    problem = stated(where, fault.text, "Property error", hint=fault.hint)
    unknown = fault.text.removeprefix("Unknown Property ")
    # The message names what is around the property, for that is Heat's; the place is its own.
    return problem if unknown == fault.text else replace(problem, path=(*where, unknown))
