"""The values that template functions see: what the resources of one stack are and have."""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache, cached_property, partial
from typing import TypeAlias, cast

from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import EntityNotFound, HeatliteError, Problem, ResourceTypeUnavailable, StackValidationFailed
from heatlite.core.ids import physical_name
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.state.agent_accounts import Accounts, may_want
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.missing_type import gone
from heatlite.engine.state.protected import Protected, first_within
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.template_types import TemplateResource, TemplateTypes
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Facts, Inherited, Services
from heatlite.plugin.registry import Registry
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.environment import TEMPLATE_SUFFIXES, Environment
from heatlite.template.expression import UNKNOWN, Bounded

log = logging.getLogger(__name__)

READABLE = frozenset(
    {
        Verb.CREATE, Verb.ADOPT, Verb.SUSPEND, Verb.RESUME, Verb.UPDATE, Verb.ROLLBACK, Verb.SNAPSHOT, Verb.CHECK,
        Verb.LOCK, Verb.UNLOCK,
    }
)  # fmt: skip
"""Verbs after which a resource's attributes can be read; after others they are null (hot-language §5)."""


class TypeFailed(HeatliteError):
    """A type's own code has raised something while it was asked for a value."""

    text = "{error}: {reason}"


def _no_nested() -> None:
    """For a type that makes no nested stack."""


@contextmanager
def type_code() -> Iterator[None]:
    """Around a question to a type: whatever it raises comes out as one of our errors."""
    try:
        yield
    except HeatliteError:
        raise
    except Exception as error:
        raise TypeFailed(error=type(error).__name__, reason=error) from error


Observed: TypeAlias = JsonMap | HeatliteError | None
"""What a look at an object has given: properties, the reason why there are none, or None: the object is gone."""


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What all resources of an engine are made with."""

    types: Registry
    now: Callable[[], float]
    services: Services
    store: Store
    definitions: Definitions
    template_types: TemplateTypes
    stack_clouds: StackClouds
    accounts: Accounts | None = None
    resource_data: int = 8 * 1024 * 1024
    stack_data: int = 64 * 1024 * 1024
    """The settings `max_resource_data` and `max_stack_data`."""


def live_values(resource: Resource[Schema]) -> JsonMap | None:
    """The resource's properties, and in their place what its object says of itself; None: there is no object."""
    live = resource.live_properties()
    if live is None:
        return None
    return cast(JsonMap, resource.schema.examine({**resource.facts.properties, **live})[0])


class Resources:
    """Makes resources of a stack's rows: the place where the engine meets the types."""

    def __init__(self, stack: StackRecord, surroundings: Surroundings) -> None:
        self.stack = stack
        self.types = surroundings.types
        self.resource_data, self.stack_data = surroundings.resource_data, surroundings.stack_data
        self._surroundings = surroundings
        self._observed: dict[str, Observed] = {}
        self.retries = False
        """Whether an operation that failed is gone on with; until `forget`."""
        self.chosen: Mapping[str, ResourceRecord] = {}
        """The rows by name that a running operation is done with; not all of them are stored yet."""
        self._saved: JsonMap = {}
        self.suspended = 0.0
        """Seconds that the running operation was suspended in all."""
        self.phase = ""
        """The phase that runs (`phase_of`)."""

    def observe(
        self,
        rows: Iterable[ResourceRecord],
        call: Callable[[Callable[[ResourceRecord], Observed], Iterable[ResourceRecord]], Iterable[Observed]] = map,
    ) -> None:
        """Look at the real objects: until `forget`, `before` tells of them. `call`: `map`, or that of a pool."""
        made = [row for row in rows if row.status is Status.COMPLETE and row.verb not in (Verb.INIT, Verb.DELETE)]
        todo = [row for row in made if self.type_of(row).has("live_properties")]
        for row, found in zip(todo, call(self._look, todo), strict=True):
            self._observed[row.id] = found

    def restore(self, entries: JsonMap) -> None:
        """Go back to what a snapshot says of the resources: until `forget`, `saved` tells of it."""
        self._saved = entries

    def saved(self, name: str) -> JsonMap | None:
        """What a resource's type kept when the snapshot was taken to which the stack goes back."""
        entry = self._saved.get(name)
        data = entry.get("resource_data") if isinstance(entry, dict) else None
        return data if isinstance(data, dict) else None

    def forget(self) -> None:
        """What was seen is so no more, what was to be is not to be, and what was done counts no more."""
        self._observed.clear()
        self._saved = {}
        self.retries = False

    def _look(self, row: ResourceRecord) -> Observed:
        try:
            with type_code():
                return live_values(self.make(row))
        except HeatliteError as error:
            return error

    def before(self, row: ResourceRecord) -> JsonMap | None:
        """The properties that an update starts from: as stored, or as seen; None where the object was found gone.

        Raises why it could not be looked at.
        """
        found = self.observed(row)
        if isinstance(found, HeatliteError):
            raise found
        return found

    def observed(self, row: ResourceRecord) -> Observed:
        """The properties that an update starts from, as stored or as seen; or why they could not be had."""
        return self._observed.get(row.id, row.properties)

    def check_external(self, definition: Definition) -> None:
        """Look for the objects that the definition takes over. Raises StackValidationFailed where there is none."""
        for wanted in definition.resources.values():
            if wanted.external_id is None or not self.kind(definition, wanted.name).has("live_properties"):
                continue
            row = ResourceRecord(
                id="",
                stack_id=self.stack.id,
                name=wanted.name,
                type=wanted.type,
                mapped_type=wanted.mapped_type,
                verb=Verb.INIT,
                status=Status.COMPLETE,
                status_reason="",
                created_at=self.stack.created_at,
                physical_id=wanted.external_id,
            )
            found = self._look(row)
            if isinstance(found, HeatliteError):
                raise found
            if found is None:
                where = ("resources", wanted.name, "external_id")
                text = f"resources.{wanted.name}: there is no {wanted.type} with the id {wanted.external_id}"
                raise StackValidationFailed(text, problems=(Problem(where, text),))

    def may_object(self, definition: Definition) -> list[str]:
        """The names of the resources whose types may know beforehand that a change is in vain."""
        return [name for name, one in definition.resources.items() if self._type(one.mapped_type).has("objection")]

    def may_have_accounts(self, definition: Definition) -> bool:
        """Whether a resource of the definition may get an account, which is a secret of its stack."""
        if self._surroundings.accounts is None:
            return False
        return may_want(self.types, {one.mapped_type for one in definition.resources.values()})

    def may_nest(self, mapped_types: Iterable[str]) -> bool:
        """Whether one of the types makes nested stacks."""
        return any(issubclass(self._type(name), StackResource) for name in mapped_types)

    def tree_data(self, without_rows: bool) -> int:
        """What the stacks of the tree hold, in characters of JSON; `without_rows`: but for the rows of this one."""
        stack = self.stack
        sizes = self._surroundings.store.stack_sizes
        return sizes.of_tree(stack.root_id or stack.id, stack.id if without_rows else None)

    def passwords(self) -> list[object]:
        """Those of the accounts in the stack's tree."""
        return [*self._surroundings.store.accounts.passwords(self.stack.root_id or self.stack.id)]

    def type_of(self, row: ResourceRecord) -> ResourceType:
        """The class that owns the row; a stand-in (`Gone`) if its plugin is not there any more."""
        return self._type(row.mapped_type)

    def nested(self, stack_id: str | None) -> "NestedView | None":
        """A nested stack as it is now; None if there is none."""
        stack = None if stack_id is None else self._surroundings.store.stacks.get(stack_id)
        return None if stack is None or stack.deleted_at is not None else NestedView(stack, self._surroundings)

    @cached_property
    def any_protected(self) -> bool:
        """Whether anything in the stack's tree is protected; nobody changes that while an operation runs there."""
        return self._surroundings.store.resources.any_protected(self.stack.root_id or self.stack.id)

    def protected(self, row: ResourceRecord) -> Protected | None:
        """What keeps the row's object from being deleted or replaced: itself, or a part of its nested stack."""
        if not self.any_protected:
            return None
        if row.protection is not None:
            return Protected(self.stack, row.name, row.protection)
        view = self.nested(row.physical_id) if issubclass(self.type_of(row), StackResource) else None
        if view is None:
            return None
        store = self._surroundings.store
        return first_within(store, [view.stack, *store.stacks.descendants(view.stack)])

    def members(self, row: ResourceRecord) -> Iterator[Resource[Schema]]:
        """What there is in the nested stack of a row, at any depth, but for what a maintenance lock holds."""
        view = self.nested(row.physical_id) if issubclass(self.type_of(row), StackResource) else None
        if view is None or view.stack.lock is not None:
            return
        within = view.values.resources
        for member in view.rows:
            if member.physical_id is not None and member.external_id is None:
                made = within.make(member)
                made.facts.users = partial(_users, view, member)
                yield made
                yield from within.members(member)

    def within(self, stack: StackRecord) -> "Resources":
        """Those of the stack or of one nested in it as it becomes, with what has been seen of their objects."""
        found = Resources(stack, self._surroundings)
        found._observed = self._observed
        return found

    def viewer(self, stack_id: str | None) -> "Callable[[], NestedView | None]":
        """What gives a nested stack as it is when first asked."""
        return cache(partial(self.nested, stack_id))

    def sibling(self, name_or_physical_id: str) -> Resource[Schema] | None:
        """The newest resource of the stack with this name or physical id."""
        found = [row for row in self.chosen.values() if name_or_physical_id in (row.name, row.physical_id)]
        found = found or self._surroundings.store.resources.find(self.stack.id, name_or_physical_id)
        return self.make(found[-1]) if found else None

    def relative(self, physical_id: str) -> Resource[Schema] | None:
        """The resource of the stack's tree with this physical id."""
        found = self.sibling(physical_id)
        if found is not None and found.physical_id == physical_id:
            return found
        store, root_id = self._surroundings.store, self.stack.root_id or self.stack.id
        for row in store.resources.with_objects(self.stack.project, [physical_id]):
            stack = store.stacks.get(row.stack_id)
            if stack is not None and (stack.root_id or stack.id) == root_id:
                return Resources(stack, self._surroundings).make(row)
        return None

    def _beside(self, row: ResourceRecord, older: bool) -> Resource[Schema] | None:
        """The other resource of the same name and type during a replacement."""
        rows = self._surroundings.store.resources.by_name(self.stack.id, [row.name])
        alike = [one for one in rows if one.type == row.type and one.verb is not Verb.DELETE]
        found = [one for one in alike if (one.id < row.id if older else one.id > row.id)]
        return self.make(found[-1]) if found else None

    def made(self, row: ResourceRecord) -> bool:
        """Whether the phase that runs has made the row's object what it is to be, perhaps in an earlier attempt."""
        is_made = row.status is Status.COMPLETE and row.verb in (Verb.CREATE, Verb.UPDATE, Verb.ADOPT)
        return is_made and row.moved_in == self.phase

    def finished(self, row: ResourceRecord) -> bool:
        """While an operation is tried again: whether it was done with the row before it failed."""
        now = row.state_without_lock
        if not self.retries or now.status is not Status.COMPLETE or now.verb not in (Verb.CREATE, Verb.UPDATE):
            return False
        done = self.stack.verb is Verb.CREATE or (now.updated_at or 0.0) > (self.stack.updated_at or 0.0)
        return done and not (issubclass(self.type_of(row), StackResource) and self._ails_within(row))

    def _ails_within(self, row: ResourceRecord) -> bool:
        """Whether something in the row's nested stack, at any depth, has failed or was marked since."""
        view = self.nested(row.physical_id)
        if view is None:
            return False
        store = self._surroundings.store
        return store.resources.any_failed([view.id, *(below.id for below in store.stacks.descendants(view.stack))])

    def outdated(self, row: ResourceRecord) -> bool:
        """Whether the row is from before the update that runs; in a rollback, from the update that is undone."""
        stack = self.stack
        if stack.updated_at is None or stack.verb not in (Verb.UPDATE, Verb.ROLLBACK):
            return False
        return (row.created_at < stack.updated_at) == (stack.verb is Verb.UPDATE)

    def _type(self, name: str) -> ResourceType:
        if name.endswith(TEMPLATE_SUFFIXES):
            return TemplateResource
        try:
            return self.types.get(name)
        except (EntityNotFound, ResourceTypeUnavailable) as error:
            return gone(error)

    def kind(self, definition: Definition, name: str) -> ResourceType:
        """The type of a resource of the stack's definition. Raises why there is none."""
        resource = definition.resources[name]
        if resource.mapped_type.endswith(TEMPLATE_SUFFIXES):
            return self._surroundings.template_types.kind(definition, resource)
        return self.types.get(resource.mapped_type)

    def make(
        self,
        row: ResourceRecord,
        properties: JsonMap | None = None,
        kind: ResourceType | None = None,
        update_policy: JsonMap | None = None,
        definition: Definition | None = None,
    ) -> Resource[Schema]:
        """The resource of a row; with `properties`, as it is to become.

        A type that a template makes is only known with its definition: `kind`. `definition` is what the stack becomes.
        """
        stack = self.stack
        kind = kind or self.type_of(row)
        return kind(
            Facts(
                name=row.name,
                stack_id=stack.id,
                stack_name=stack.name,
                project=stack.project,
                physical_name=row.physical_name,
                physical_id=row.physical_id,
                properties=row.properties if properties is None else properties,
                metadata=row.metadata,
                data=dict(row.data),
                now=self._surroundings.now,
                services=self._surroundings.services,
                suspended=lambda: self.suspended,
                nested=self.viewer(row.physical_id) if issubclass(kind, StackResource) else _no_nested,
                update_policy=update_policy or {},
                before=None if properties is None else row.properties,
                sibling=self.sibling,
                relative=self.relative,
                former=partial(self._beside, row, older=True),
                latter=partial(self._beside, row, older=False),
                time_limit=stack.timeout_seconds(self._surroundings.services.action_timeout),
                inherited=Inherited if definition is None else partial(_handed_down, definition, row),
                created_at=row.created_at,
                home=self._home,
            )
        )

    @cached_property
    def _cloud(self) -> CloudIdentity | None:
        return self._surroundings.store.stacks.cloud_of(self.stack)

    def _home(self) -> CloudIdentity | None:
        """The cloud in which the stack has its objects."""
        return self._cloud

    def physical_name(self, definition: ResourceDefinition, identifier: str) -> str:
        """What the real object of a new row will be called, within what its type allows."""
        limit = self._type(definition.mapped_type).name_limit
        return physical_name(self.stack.name, definition.name, identifier, limit)


class Values:
    """What functions see (`template.expression.Scope`), over the row that stands for each name."""

    def __init__(self, resources: Resources, rows: Mapping[str, ResourceRecord]) -> None:
        self.resources = resources
        self.rows = rows
        self._made: dict[str, tuple[ResourceRecord, Resource[Schema]]] = {}

    def reference(self, name: str) -> object:
        """What get_resource gives: the type's reference, or the name before there is a resource."""
        row = self.rows.get(name)
        if row is None or row.verb is Verb.INIT:
            return name
        with type_code():
            return self._resource(row).reference()

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """What get_attr gives; null while the resource cannot be read. Without a name: all attributes."""
        row = self.rows.get(name)
        if row is None or row.verb not in READABLE:
            return None
        resource = self._resource(row)
        with type_code():
            if attribute is None:
                return resource.attributes() if row.status is not Status.FAILED else None
            return resource.attribute_at(attribute, path)

    def _resource(self, row: ResourceRecord) -> Resource[Schema]:
        made = self._made.get(row.name)
        if made is None or made[0] is not row:
            made = self._made[row.name] = (row, self.resources.make(row))
        return made[1]


def bounded(values: Values) -> Bounded:
    """The values for what must not come to more than a resource may hold."""
    return Bounded(values, values.resources.resource_data)


class NestedView:
    """A nested stack, read when first asked (`plugin.ports.Nested`)."""

    def __init__(self, stack: StackRecord, surroundings: Surroundings) -> None:
        self.stack = stack
        self._surroundings = surroundings

    @property
    def id(self) -> str:
        return self.stack.id

    @property
    def action(self) -> str:
        return self.stack.verb

    @property
    def status(self) -> str:
        return self.stack.status

    @property
    def template(self) -> Mapping[str, Json]:
        return self.definition.template.document

    @property
    def outputs(self) -> Sequence[str]:
        return list(self.definition.outputs)

    @cached_property
    def members(self) -> Sequence["MemberView"]:
        found = [row for row in self.values.rows.values() if row.name in self.definition.resources]
        return [MemberView(row, self.values) for row in sorted(found, key=lambda row: (row.created_at, row.id))]

    def output(self, name: str) -> Json:
        found = self.definition.outputs.get(name)
        if found is None or not found.condition:
            return None
        try:
            return without_unknown(bounded(self.values).resolved(found.value))
        except HeatliteError as error:
            log.info("stack %s, output %s: %s", self.stack.name, name, error)
            return None

    @cached_property
    def definition(self) -> Definition:
        return self._surroundings.definitions.of(self.stack)

    @cached_property
    def rows(self) -> Sequence[ResourceRecord]:
        """All rows."""
        return self._surroundings.store.resources.of(self.stack.id)

    @cached_property
    def values(self) -> Values:
        rows = current_rows(self.rows)
        return Values(Resources(self.stack, self._surroundings), {row.name: row for row in rows})


def _users(view: NestedView, used: ResourceRecord) -> list[Resource[Schema]]:
    """What uses a row of a nested stack there."""
    return [view.values.resources.make(row) for row in view.rows if used.id in row.uses and row.physical_id is not None]


class MemberView:
    """One resource of a nested stack (`plugin.ports.Member`)."""

    def __init__(self, row: ResourceRecord, values: Values) -> None:
        self._row = row
        self._values = values

    @property
    def name(self) -> str:
        return self._row.name

    @property
    def action(self) -> str:
        return self._row.verb

    @property
    def status(self) -> str:
        return self._row.status

    @property
    def created_at(self) -> float:
        return self._row.created_at

    def reference(self) -> Json:
        return without_unknown(self._values.reference(self.name))

    def attribute(self, name: str, path: Sequence[Json] = ()) -> Json:
        return without_unknown(self._values.attribute(self.name, name, path))


def inherited(
    definition: Definition, row: ResourceRecord, update_policy: JsonMap, parameters: Mapping[str, Json]
) -> tuple[Environment, JsonMap]:
    """The environment of a resource's nested stack, and what `resource_facade` gives there."""
    target = definition.mapping.target(row.name, definition.resources[row.name].type)
    facade: JsonMap = {
        "metadata": row.metadata,
        "deletion_policy": row.deletion_policy,
        "update_policy": update_policy,
    }
    return definition.environment.for_child(row.name, target, dict(parameters)), facade


def _handed_down(definition: Definition, row: ResourceRecord) -> Inherited:
    environment, _ = inherited(definition, row, {}, {})
    return Inherited(environment.to_dict(), definition.template.files)


def current_rows(rows: Iterable[ResourceRecord]) -> list[ResourceRecord]:
    """One row a name, for reading: the newest, while an older one waits for its clean-up."""
    return list({row.name: row for row in sorted(rows, key=lambda row: row.id)}.values())


def without_unknown(value: object) -> Json:
    """The value with null wherever it is not known yet, for a preview."""
    if value is UNKNOWN:
        return None
    if isinstance(value, Mapping):
        return {str(key): without_unknown(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [without_unknown(item) for item in value]
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    raise TypeError(f"{type(value).__name__} is not a template value")
