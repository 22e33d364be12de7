"""Preparation of requests: checked definitions of templates and environments."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from functools import cache, partial

from msgspec import Struct
from msgspec.structs import replace

from heatlite.clients.clouds import Clouds
from heatlite.clients.finders import Finders
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.errors import (
    HeatliteError,
    HTTPBadRequest,
    Invalid,
    InvalidTemplateVersion,
    NotSupported,
    Problem,
    RequestLimitExceeded,
)
from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.redaction.masking import Mask
from heatlite.engine.admission.admission import ExaminedRefusal
from heatlite.engine.admission.inputs import Inputs, Supplier, Supply
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.admission.remote_templates import RemoteTemplates
from heatlite.engine.outbound.file_containers import Containers
from heatlite.engine.outbound.template_fetch import Fetcher
from heatlite.engine.planning.child_definition import check_immutable
from heatlite.engine.planning.definition_diff import definition_diff
from heatlite.engine.planning.visible_inputs import still_named
from heatlite.engine.state.definitions import Definitions, pseudo_parameters
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.types.agent_accounts import may_want
from heatlite.plugin.ports import Regions
from heatlite.plugin.registry import Registry
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.checks.check import examine
from heatlite.template.checks.nested import Nested
from heatlite.template.checks.review import in_order, review
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment, file_of, merged_registry, names_template, template_at
from heatlite.template.parameters.constraints import looked_up
from heatlite.template.parameters.merging import merge
from heatlite.template.parameters.parameters import ParameterSchema
from heatlite.template.source.loader import SourceText, load_mapping, load_template
from heatlite.template.source.places import Places
from heatlite.template.source.problems import raise_first

MAX_REMOTE_FILES = 20
"""Maximum of templates fetched for one request."""


class Prepared(Struct, frozen=True):
    """A checked definition of a stack."""

    template_id: str
    document: Mapping[str, Json]
    files: Mapping[str, str]
    environment: JsonMap
    definition: Definition
    hides: bool
    """True if the tree has, or had, hidden values."""
    types: frozenset[str]
    """The types of all resources in the tree; empty if nothing has changed."""
    supplies: Sequence[Supply] = ()
    """Values that features have given to its parameters."""

    def supply(self, action: ActionRecord, stack: StackRecord) -> None:
        """Let features write what they have supplied.

        Call in the transaction that stores the definition.
        """
        for one in self.supplies:
            one.take(action, stack)

    def shown(self) -> JsonMap:
        """Return what features tell of that in a plan."""
        return {key: value for one in self.supplies for key, value in one.shown().items()}


class Preparation:
    """Reads, merges and checks the templates, files and environments of requests."""

    def __init__(
        self,
        store: Store,
        types: Registry,
        settings: Settings,
        definitions: Definitions,
        containers: Containers | None,
        clouds: Clouds,
        offer: OfferedTypes,
        regions: Regions,
        has_accounts: bool,
        suppliers: Callable[[], Sequence[Supplier]] = lambda: (),
    ) -> None:
        """Create it.

        `has_accounts`: agents have accounts, which are secrets of their stacks. `suppliers` are those of features.
        """
        self._suppliers = suppliers
        self._store = store
        self._types = types
        self._settings = settings
        self._definitions = definitions
        self._containers = containers
        self._clouds = clouds
        self._has_accounts = has_accounts
        self._offer = offer
        self._regions = regions
        self._fetcher = Fetcher(settings.template_hosts, settings.max_template_size, settings.template_fetch_timeout)

    def new(
        self, stack: StackRecord, request: StackRequest, caller: Context | None = None, without_services: bool = False
    ) -> Prepared:
        """Return the checked definition of a new stack.

        Raises the first problem, with all others in it.

        `caller` is None for an existing stack, which acts with its own credentials. With `without_services` no cloud is
        asked, and a service that it lacks is no problem.
        """
        request = self._complete(stack.project, request)
        with _places_told(request):
            return self._checked(
                stack, *self._read(stack, request), caller=caller, without_services=without_services
            )

    def examined(self, stack: StackRecord, request: StackRequest, existing: bool) -> ExaminedRefusal:
        """Return types and effect of an update or restore, as far as the definitions tell.

        Reads no cloud: a locked stack may be without one. ``problem`` in the effect names the first problem. Raises
        the error of an unreadable definition.
        """
        request = self._complete(stack.project, request, template_needed=not existing)
        before = self._definitions.of(stack)
        with _places_told(request):
            template, environment, _ = self._read_over(stack, request) if existing else self._read(stack, request)
            template_id = self._store.templates.address(template.document, template.files)
            if template_id == stack.template_id and environment == before.environment:
                differences = definition_diff(before, before, template_id, Mask(list))
                return ExaminedRefusal(self._store.resources.types(stack.id), differences)
            definition = template.definition(environment, pseudo_parameters(stack), types=self._types)
            problems, nested = examine(definition, self._types)
        effect = definition_diff(before, definition, template_id, Mask(lambda: nested.secrets))
        fault = next((problem.error for problem in problems if problem.severity == "error"), None)
        return ExaminedRefusal(nested.types, effect if fault is None else {**effect, "problem": fault})

    def validate(
        self, context: Context, request: StackRequest, without_services: bool = False, show_nested: bool = False
    ) -> Nested:
        """Return the definition, checked without values (POST /validate).

        Nested templates are included. Raises its problems. With `without_services` a service that the cloud lacks is no
        problem. With `show_nested` too many resources are one: a few templates in each other describe any number.
        """
        request = self._complete(context.project, request)
        types = self._types if without_services else self._types.offering(self._offer.availability(context.project))
        with _places_told(request):
            template = self._template(request)
            environment = self._requested_environment(request, template.parameters)
            definition = template.definition(environment, {}, strict=False, types=types)
            problems, nested = examine(definition, types)
            raise_first(_masked(problems, nested))
            if show_nested:
                self._check_size(nested, None)
            return nested

    def review(self, context: Context, request: StackRequest) -> list[Problem]:
        """Return all problems of a request, with warnings.

        Answers POST /validate?all_errors=true. Raises the error of an unreadable request, and CloudUnavailable.
        """
        request = self._complete(context.project, request)
        environments, found = _environments(request)
        complete = not found
        parsed = []
        for one in environments:
            environment, wrong = Environment.read(one)
            parsed.append(environment)
            complete = complete and not wrong
            found += Places(None, environments).all(wrong)
        try:
            source = self._source(request)
        except HTTPBadRequest as error:
            return in_order([*found, *error.problems])
        request = replace(request, files=self._with_remote(source.data, request))
        try:
            schemas = Template(source.data, request.files).parameters
        except InvalidTemplateVersion:
            schemas = {}  # the review has the reason
        try:
            environment = merge(parsed, _all_parameters(parsed, schemas, request))
        except Invalid as error:
            environment, complete = Environment(), False
            found += Places(None, environments).all(error.problems)
        environment = replace(environment, parameters={**environment.parameters, **request.parameters})
        children = _children(request)
        view = partial(self._clouds.asked_by, context)
        types = self._types.offering(self._offer.availability(context.project, context))
        judge = RemoteTemplates(self._regions, context.project, environment, request.files).refusal
        with looked_up(partial(self._missing, view), judge):
            found += review(source, environment, types, request.files, environments, children, complete)
        return in_order(found)

    def changed(self, stack: StackRecord, request: StackRequest, existing: bool) -> Prepared:
        """Return the new definition of an existing stack: PUT replaces, PATCH merges."""
        request = self._complete(stack.project, request, template_needed=not existing)
        with _places_told(request):
            template, environment, supplies = (
                self._read_over(stack, request) if existing else self._read(stack, request)
            )
            return self._checked(stack, template, environment, supplies, before=self._definitions.of(stack))

    def _read(self, stack: StackRecord, request: StackRequest) -> tuple[Template, Environment, Sequence[Supply]]:
        """Return the template and the environment of a complete request.

        Also returns what features supply.
        """
        template = self._template(request)
        own = environment = self._requested_environment(request, template.parameters)
        if request.adopted is not None:
            before = Environment.parse(load_mapping(request.adopted.environment, "environment", "Environment"))
            environment = _over(before, own)
        return template, *self._supplied(Inputs(stack, request, own, None, template.parameters), environment)

    def _supplied(self, inputs: Inputs, environment: Environment) -> tuple[Environment, Sequence[Supply]]:
        """Return an environment with the values of features, and what supplies them."""
        found = [one.supply(inputs) for one in self._suppliers()]
        supplies = [one for one in found if one is not None]
        values = {name: value for one in supplies for name, value in one.values.items()}
        return replace(environment, parameters={**environment.parameters, **values}, supplied={}), supplies

    def _read_over(self, stack: StackRecord, request: StackRequest) -> tuple[Template, Environment, Sequence[Supply]]:
        """Return the request's template and environment, merged with those of the stack.

        Also returns what features supply.
        """
        stored = self._store.templates.get(stack.template_id)
        files = {**stored.files, **request.files}
        if request.template is None:
            template = Template(stored.document, files)
        else:
            template = self._template(replace(request, files=files))
        environment = self._requested_environment(request, template.parameters)
        merged = self._merged_environment(stack, request, template, environment)
        if request.template is not None:
            template = self._without_unused(stack, template, merged, stored.files, request.files)
        return template, *self._supplied(
            Inputs(stack, request, environment, merged.parameters, template.parameters), merged
        )

    def _without_unused(
        self,
        stack: StackRecord,
        template: Template,
        environment: Environment,
        stored: Mapping[str, str],
        given: Mapping[str, str],
    ) -> Template:
        """Return a new template without the stored files that nothing names any more."""
        earlier = {name: text for name, text in stored.items() if name not in given}
        if not earlier:
            return template
        types = self._store.resources.types(stack.id)
        gone = earlier.keys() - still_named(template.document, environment, types, earlier, given)
        if not gone:
            return template
        return Template(template.document, {name: text for name, text in template.files.items() if name not in gone})

    def complete(self, project: str, request: StackRequest) -> StackRequest:
        """Return a request for an existing stack with all that lies elsewhere.

        Raises as `changed`.
        """
        return self._complete(project, request, template_needed=False)

    def _complete(self, project: str, request: StackRequest, template_needed: bool = True) -> StackRequest:
        """Complete a request: fetch its template and add the files of its container."""
        if request.adopted is not None:
            files = {**request.adopted.files, **request.files}
            request = replace(request, template=request.adopted.template, template_url=None, files=files)
        if request.template is None and request.template_url is not None:
            request = replace(request, template=self._fetcher.text(request.template_url), template_url=None)
        if request.template is None and template_needed:
            raise HTTPBadRequest("No template specified")
        if request.files_container is None:
            return request
        if self._containers is None:
            text = "files_container is not supported: send the template and its files in the body."
            raise NotSupported(f"{text} (The server has no setting files_containers.)")
        files = {**self._containers.files(project, request.files_container), **request.files}
        return replace(request, files=files, files_container=None)

    def _template(self, request: StackRequest) -> Template:
        document = self._source(request).data
        return Template(document, self._with_remote(document, request))

    def _with_remote(self, document: Mapping[str, Json], request: StackRequest) -> Mapping[str, str]:
        """Return the files of a request, with the templates behind type addresses.

        Only listed hosts are asked.
        """
        if not self._settings.template_hosts:
            return request.files
        files = dict(request.files)
        wanted = [*_addresses(document, _TEMPLATE_KEYS)]
        for environment in _environments(request)[0]:
            wanted += _addresses(environment.data.get("resource_registry"), None)
        while wanted:
            url = wanted.pop()
            if url in files or not self._fetcher.lists(url):
                continue  # the check reports the problem
            if len(files) - len(request.files) >= MAX_REMOTE_FILES:
                raise RequestLimitExceeded(message=f"more than {MAX_REMOTE_FILES} templates to fetch")
            files[url] = self._fetcher.text(url)
            with suppress(HTTPBadRequest):  # the check reports this problem, too
                wanted += _addresses(load_template(files[url], url).data, _TEMPLATE_KEYS)
        return files

    def _source(self, request: StackRequest) -> SourceText:
        text = request.template if isinstance(request.template, str) else None
        # Check the size before parsing, which the limit protects.
        size = len(text.encode()) if text is not None else len(dump(request.template).encode())
        if size > self._settings.max_template_size:
            limit = self._settings.max_template_size
            text = f"Template size ({size} bytes) exceeds maximum allowed size ({limit} bytes)."
            raise RequestLimitExceeded(f"Request limit exceeded: {text}")
        return load_template(request.template)

    def _requested_environment(self, request: StackRequest, schemas: Mapping[str, ParameterSchema]) -> Environment:
        """Return the request's own environment.

        Environment files replace the inline environment; `parameters` override both. (In Heat a value from a file
        overrides `parameters`, which users of ``--parameter`` do not expect.)
        """
        if request.environment_files:
            files = [self._file(request, name) for name in request.environment_files]
            environment = merge(files, _all_parameters(files, schemas, request))
        elif request.environment is not None:
            environment = Environment.parse(load_mapping(request.environment, "environment", "Environment"))
        else:
            environment = Environment()
        return replace(environment, parameters={**environment.parameters, **request.parameters})

    def _file(self, request: StackRequest, name: str) -> Environment:
        text = request.files.get(name)
        if text is None:
            raise HTTPBadRequest(f"Environment file {name} is not among the files of the request.")
        return Environment.parse(load_mapping(text, name, "Environment"))

    def _merged_environment(
        self, stack: StackRecord, request: StackRequest, template: Template, environment: Environment
    ) -> Environment:
        """Merge the request's environment into the stored one.

        Parameters that the template does not declare are dropped, as in Heat.
        """
        old = self._definitions.of(stack).environment
        kept = {name: value for name, value in old.parameters.items() if name not in request.clear_parameters}
        merged = _over(replace(old, parameters=kept), environment)
        known = {name: value for name, value in merged.parameters.items() if name in template.parameters}
        return replace(merged, parameters=known)

    def _checked(
        self,
        stack: StackRecord,
        template: Template,
        environment: Environment,
        supplies: Sequence[Supply] = (),
        before: Definition | None = None,
        caller: Context | None = None,
        without_services: bool = False,
    ) -> Prepared:
        template_id = self._store.templates.address(template.document, template.files)
        if before is not None and template_id == stack.template_id and environment == before.environment:
            # Unchanged, and checked when it was stored.
            definition, hides, kinds = before, stack.sealed, self._store.resources.types(stack.id)
        else:
            own = partial(self._clouds.of, stack.project, stack.id)
            view = own if caller is None else partial(self._clouds.asked_by, caller)
            types = self._types
            if not without_services:
                types = types.offering(self._offer.availability(stack.project))
            judge = RemoteTemplates(self._regions, stack.project, environment, template.files).refusal
            named = cache(partial(self._named, stack, before))
            lookup = _nothing_lacks if without_services else partial(self._missing_anew, view, named)
            with looked_up(lookup, judge):
                definition = template.definition(environment, pseudo_parameters(stack), types=self._types)
                problems, nested = examine(definition, types, self._settings.max_stack_data + 1)
            raise_first(_masked(problems, nested))
            definition.refill()  # for a preview, which evaluates the definition next
            self._check_size(nested, before)
            kinds = nested.types
            hides = stack.sealed or nested.hides or self._has_accounts and may_want(self._types, kinds)
        if before is not None:
            check_immutable(before, definition)
        return Prepared(
            template_id,
            template.document,
            template.files,
            environment.to_dict(),
            definition,
            hides,
            kinds,
            supplies,
        )

    def _missing(self, view: Callable[[], Finders], constraint: str, value: object) -> str:
        """Return the problem with a value that names a cloud object; "" without one.

        Raises CloudUnavailable, MissingLibrary.
        """
        return "" if self._clouds.name is None else view().missing(constraint, value)

    def _missing_anew(
        self,
        view: Callable[[], Finders],
        named: Callable[[], Collection[tuple[str, str]]],
        constraint: str,
        value: object,
    ) -> str:
        """As `_missing`, but there is no problem with what the stack names already.

        The object may be gone or renamed since: that is no fault of this request.
        """
        text = self._missing(view, constraint, value)
        return "" if text and (constraint, str(value)) in named() else text

    def _named(self, stack: StackRecord, before: Definition | None) -> Collection[tuple[str, str]]:
        """Return the constraints and values by which a definition names cloud objects."""
        found: set[tuple[str, str]] = set()
        if before is None:
            return found

        def note(constraint: str, value: object) -> str:
            found.add((constraint, str(value)))
            return ""

        with looked_up(note), suppress(HeatliteError):
            examine(before, self._types)
            before.template.definition(before.environment, pseudo_parameters(stack), types=self._types)
        return found

    def _check_size(self, tree: Nested, before: Definition | None) -> None:
        limit, most = self._settings.max_resources_per_stack, self._settings.max_stack_data
        if tree.resources > limit:
            raise RequestLimitExceeded(message=f"Maximum resources per stack exceeded: {limit}.")
        if tree.size <= most:
            return
        # An update may make a stack with too many resources smaller. Its action counts exactly.
        if before is None or examine(before, self._types, most + 1)[1].size <= most:
            nested = " and of those nested with it" if tree.children else ""
            raise RequestLimitExceeded(
                message=f"the resources of the stack{nested} would come to more than {most} characters of JSON"
                " (max_stack_data). Reduce their values, or divide the stack."
            )


def _nothing_lacks(_constraint: str, _value: object) -> str:
    return ""


def _masked(problems: list[Problem], nested: Nested) -> list[Problem]:
    """Return the problems with the values of hidden parameters masked."""
    mask = Mask(lambda: nested.secrets)
    return [replace(one, text=mask.text(one.text), hint=mask.text(one.hint)) for one in problems]


def _over(old: Environment, new: Environment) -> Environment:
    """Merge an environment over another one."""
    return Environment(
        parameters={**old.parameters, **new.parameters},
        parameter_defaults={**old.parameter_defaults, **new.parameter_defaults},
        resource_registry=merged_registry(old.resource_registry, new.resource_registry),
        event_sinks=new.event_sinks or old.event_sinks,
        encrypted_param_names=new.encrypted_param_names or old.encrypted_param_names,
    )


_TEMPLATE_KEYS = ("type", "Type", "TemplateURL")
"""Keys of a template whose values may be addresses of templates."""


def _addresses(value: Json, keys: tuple[str, ...] | None) -> Iterator[str]:
    """Yield template addresses: texts under one of `keys`; with None, all texts."""
    stack = [(value, keys is None)]
    while stack:
        value, counts = stack.pop()
        if isinstance(value, Mapping):
            stack.extend((_typed(key, item), keys is None or key in keys) for key, item in value.items())
        elif isinstance(value, list):
            stack.extend((item, keys is None) for item in value)
        elif counts and isinstance(value, str) and "://" in value and names_template(value):
            yield file_of(value)


def _typed(key: str, value: Json) -> Json:
    """Return the type in place of the URL in a property."""
    return template_at(value) if key == "TemplateURL" and isinstance(value, str) else value


@contextmanager
def _places_told(request: StackRequest) -> Iterator[None]:
    """Add line and column to the problems of a template or environment."""
    try:
        yield
    except Invalid as error:
        first = next((problem for problem in error.problems if problem.severity == "error"), None)
        if first is None or first.line:
            raise  # no position, or the message has it
        try:
            template = None if request.template is None else load_template(request.template)
            environments, _ = _environments(request)
        except Invalid:
            raise error from None
        places = Places(template, environments, request.files)
        first = places.located(first)
        if not first.line:
            raise
        where = f"line {first.line}, column {first.column}"
        where = where if first.source == "template" else f"{first.source}, {where}"
        raise type(error)(f"{error.message} ({where})", problems=tuple(places.all(error.problems))) from error


def _environments(request: StackRequest) -> tuple[list[SourceText], list[Problem]]:
    """Return the readable environments of a request, and the problems of the others."""
    texts: list[tuple[str, Json]] = [(name, request.files.get(name)) for name in request.environment_files]
    if not texts and request.environment is not None:
        texts = [("environment", request.environment)]
    sources, problems = [], []
    for name, value in texts:
        if value is None:
            text = f"Environment file {name} is not among the files of the request."
            problems.append(Problem((), text, error="HTTPBadRequest", source=name))
            continue
        try:
            sources.append(load_mapping(value, name, "Environment"))
        except HTTPBadRequest as error:
            problems += error.problems
    return sources, problems


def _all_parameters(
    files: Iterable[Environment], schemas: Mapping[str, ParameterSchema], request: StackRequest
) -> Mapping[str, ParameterSchema]:
    """Return the template's parameters, and those of nested templates if files merge.

    The type of a nested parameter says how its parameter_defaults are merged.
    """
    if not any(file.merge_strategies for file in files):
        return schemas
    found: dict[str, ParameterSchema] = {}
    for source in _children(request).values():
        with suppress(InvalidTemplateVersion):
            found.update(Template(source.data).parameters)
    return {**found, **schemas}


def _children(request: StackRequest) -> dict[str, SourceText]:
    """Return the files that parse as templates, by name."""
    sources: dict[str, SourceText] = {}
    for name, text in request.files.items():
        if names_template(name) and name not in request.environment_files:
            with suppress(HTTPBadRequest):
                sources[name] = load_mapping(text, name)
    return sources
