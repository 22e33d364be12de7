"""Resources of a stack, their values in templates, and views of nested stacks.

The three need each other: a resource may ask for its nested stack, whose outputs are values of its resources.
"""

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache, cached_property, partial

from msgspec import Struct

from heatlite.core.actions.repairs import Kept, Selection
from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import (
    AbsentInMasses,
    EntityNotFound,
    HeatliteError,
    ResourceTypeUnavailable,
    TemplateOutputError,
)
from heatlite.core.ids import physical_name
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.protected import Protected, first_within
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.retained import retained_in_tree
from heatlite.engine.state.values import current_rows, without_unknown
from heatlite.engine.types.absence import in_masses, service_of
from heatlite.engine.types.agent_accounts import Accounts, may_want
from heatlite.engine.types.missing_type import missing_type
from heatlite.engine.types.observation import Observed, observable, observe
from heatlite.engine.types.template_types import TemplateResource, TemplateTypes
from heatlite.engine.types.type_calls import ask, type_code
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Facts, Inherited, Services
from heatlite.plugin.registry import Registry
from heatlite.plugin.resource import Resource, ResourceType
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.environment import Environment, names_template
from heatlite.template.expression import Bounded

READABLE = frozenset(
    {
        Verb.CREATE, Verb.ADOPT, Verb.SUSPEND, Verb.RESUME, Verb.UPDATE, Verb.ROLLBACK, Verb.SNAPSHOT, Verb.CHECK,
        Verb.LOCK, Verb.UNLOCK,
    }
)  # fmt: skip
"""Verbs during and after which attributes can be read; otherwise they are null, as in Heat."""

RESTORED = "restored"
"""Key in the `data` of a row: the properties that a restore has put in place of those that were asked for."""
TRIED = "tried"
"""Key in the `data` of a row: the property values of an update that has not succeeded; the object may have them."""


class EngineServices(Struct, frozen=True):
    """Services and settings that all resources of an engine share."""

    types: Registry
    now: Callable[[], float]
    services: Services
    store: Store
    definitions: Definitions
    template_types: TemplateTypes
    stack_clouds: StackClouds
    accounts: Accounts | None = None
    resource_data: int = 8 * 1024 * 1024
    """The setting `max_resource_data`, in characters of JSON."""
    stack_data: int = 64 * 1024 * 1024
    """The setting `max_stack_data`, in characters of JSON."""

    def holding(self, project: str, physical_id: str) -> Iterator[tuple[StackRecord, ResourceRecord]]:
        """Yield the rows of a project with this physical id, and their stacks."""
        for row in self.store.resources.with_objects(project, [physical_id]):
            stack = self.store.stacks.get(row.stack_id)
            if stack is not None:
                yield stack, row

    def holders(self, project: str, physical_id: str) -> "Iterator[Resource[Schema]]":
        """Yield the resources of a project with this physical id."""
        for stack, row in self.holding(project, physical_id):
            yield ResourceFactory(stack, self).make(row)


class ResourceFactory:
    """Makes the resources of one stack from their rows, for one operation or request."""

    def __init__(self, stack: StackRecord, engine: EngineServices) -> None:
        self.stack = stack
        self.types = engine.types
        self.now = engine.now
        self.resource_data, self.stack_data = engine.resource_data, engine.stack_data
        self._engine = engine
        self._observed: dict[str, Observed] = {}
        self.retries = False
        """The operation continues one that failed; until `forget`."""
        self.chosen: Mapping[str, ResourceRecord] = {}
        """By name, the rows that a running operation has finished; not all of them are stored yet."""
        self._saved: JsonMap = {}
        self._restored: dict[str, tuple[JsonMap, ...]] = {}
        self._anew: set[str] = set()
        self.suspended = 0.0
        """Seconds that the running operation was suspended in all."""
        self.phase = ""
        """The running phase of the action (`phase_of`)."""
        self.selection: Selection | None = None
        """The resources that the operation repairs or leaves out; None: it is not restricted."""
        self.kept: Kept | None = None
        """The resources of which the operation notes what it does, for its rollback."""

    # -- data of the running operation ---------------------------------------------------------------

    def observe(
        self,
        rows: Iterable[ResourceRecord],
        call: Callable[[Callable[[ResourceRecord], Observed], Iterable[ResourceRecord]], Iterable[Observed]] = map,
    ) -> None:
        """Observe the real objects, for `observed` until `forget`.

        Where most objects of a service seem to be gone, they count as not observed.

        `call` is `map`, or that of a thread pool.
        """
        todo = [row for row in observable(rows, self.selection) if self.type_of(row).has("live_properties")]
        for row, found in zip(todo, call(lambda row: observe(self.make(row)), todo), strict=True):
            self._observed[row.id] = found
        absent = Counter(service_of(row.mapped_type) for row in todo if self._observed[row.id] is None)
        doubted = in_masses(absent, Counter(service_of(row.mapped_type) for row in todo))
        for row in todo:
            service = service_of(row.mapped_type)
            if self._observed[row.id] is None and service in doubted:
                self._observed[row.id] = AbsentInMasses(service=service)

    def observed(self, row: ResourceRecord) -> Observed:
        """Return the properties that an update starts from, or the error.

        Without an observation these are the stored ones.
        """
        return self._observed.get(row.id, row.properties)

    def restore(self, entries: JsonMap) -> None:
        """Use the resource entries of a snapshot, for `saved` until `forget`."""
        self._saved = entries

    def saved(self, name: str) -> JsonMap | None:
        """Return the data that a resource's type kept in the snapshot that is restored."""
        entry = self._saved.get(name)
        data = entry.get("resource_data") if isinstance(entry, dict) else None
        return data if isinstance(data, dict) else None

    def remember_restored(self, name: str, rows: Iterable[ResourceRecord]) -> None:
        """Note what restores have put in place of a resource's properties.

        Only the first call counts, at the beginning of an operation: a rollback brings that back.
        """
        self._anew.discard(name)
        if name in self._restored:
            return
        self._restored[name] = ()
        for row in rows:
            if RESTORED in row.data:
                self._restored[name] += (as_map(row.data[RESTORED]),)

    def drop_restored(self, name: str) -> None:
        """Note that the resource gets a new object.

        Until `forget` or the next `remember_restored`.
        """
        self._anew.add(name)

    def restored_before(self, name: str) -> Sequence[JsonMap]:
        """Return what `remember_restored` has noted for an object that stays."""
        return () if name in self._anew else self._restored.get(name, ())

    def forget(self) -> None:
        """Discard observations, restored data and the retry flag."""
        self._observed.clear()
        self._saved = {}
        self._anew.clear()
        self.retries = False

    def finished_before(self, row: ResourceRecord) -> bool:
        """Return True if the row was written by the operation that a retry continues."""
        if not self.retries:
            return False
        now, stack = row.state_without_lock, self.stack
        if now.status is not Status.COMPLETE or now.verb not in (Verb.CREATE, Verb.UPDATE):
            return False
        return stack.verb is Verb.CREATE or (now.updated_at or 0.0) > (stack.updated_at or 0.0)

    # -- types -----------------------------------------------------------------------------------------

    def type_of(self, row: ResourceRecord) -> ResourceType:
        """Return the type of a row; a stand-in (`MissingType`) if its plugin is missing."""
        return self.type_named(row.mapped_type)

    def type_named(self, mapped_type: str) -> ResourceType:
        """Return a type by the name that the environment maps to.

        A stand-in (`MissingType`) if its plugin is missing.
        """
        if names_template(mapped_type):
            return TemplateResource
        try:
            return self.types.get(mapped_type)
        except (EntityNotFound, ResourceTypeUnavailable) as error:
            return missing_type(error)

    def kind(self, definition: Definition, name: str) -> ResourceType:
        """Return the type of a resource. Raises EntityNotFound, ResourceTypeUnavailable."""
        resource = definition.resources[name]
        if names_template(resource.mapped_type):
            return self._engine.template_types.kind(definition, resource)
        return self.types.get(resource.mapped_type)

    def may_have_accounts(self, definition: Definition) -> bool:
        """Return True if a resource of the definition may get an account, a secret."""
        if self._engine.accounts is None:
            return False
        return may_want(self.types, {one.mapped_type for one in definition.resources.values()})

    def may_nest(self, mapped_types: Iterable[str]) -> bool:
        """Return True if one of the types makes nested stacks."""
        return any(issubclass(self.type_named(name), StackResource) for name in mapped_types)

    # -- the tree --------------------------------------------------------------------------------------

    @property
    def root_id(self) -> str:
        """The id of the tree's root."""
        return self.stack.root_id or self.stack.id

    def undone_since(self) -> float | None:
        """Return the start of the operation that a rollback of the tree undoes, or None."""
        root = self.stack if self.stack.root_id is None else self._engine.store.stacks.get(self.stack.root_id)
        undoes = root is not None and (root.verb, root.status) == (Verb.ROLLBACK, Status.IN_PROGRESS)
        return root.updated_at if undoes and root is not None else None

    def has_other(self, row: ResourceRecord) -> bool:
        """Return True if the resource has another row."""
        return len(self.rows_of(row.name)) > 1

    def rows_of(self, name: str) -> list[ResourceRecord]:
        """Return the stored rows of a resource of the stack, oldest first."""
        return self._engine.store.resources.by_name(self.stack.id, [name])

    def tree_data(self, without_rows: bool) -> int:
        """Return the size of the tree in characters of JSON.

        `without_rows` leaves out the rows of this stack.
        """
        return self._engine.store.stack_sizes.of_tree(self.root_id, self.stack.id if without_rows else None)

    def retained_data(self) -> int:
        """Return the size of the stacks that `retained_in_tree` returns."""
        store = self._engine.store
        return store.stack_sizes.of(retained_in_tree(store, self.stack))

    def passwords(self) -> list[object]:
        """Return the passwords of the accounts in the tree."""
        return [*self._engine.store.accounts.passwords(self.root_id)]

    def nested(self, stack_id: str | None) -> "NestedView | None":
        """Return a nested stack as it is now; None if it does not exist."""
        stack = None if stack_id is None else self._engine.store.stacks.get(stack_id)
        return None if stack is None or stack.deleted_at is not None else NestedView(stack, self._engine)

    def definition(self, stack: StackRecord) -> Definition:
        """Return the definition of a stack of the tree."""
        return self._engine.definitions.of(stack)

    def viewer(self, stack_id: str | None) -> "Callable[[], NestedView | None]":
        """Return a function that reads a nested stack at its first call."""
        return cache(partial(self.nested, stack_id))

    def nested_of(self, row: ResourceRecord) -> "NestedView | None":
        """Return the nested stack of a row.

        None if its type makes none, or it does not exist.
        """
        return self.nested(row.physical_id) if issubclass(self.type_of(row), StackResource) else None

    def within(self, stack: StackRecord) -> "ResourceFactory":
        """Return a factory with the same observations for a nested or changed stack."""
        found = ResourceFactory(stack, self._engine)
        found._observed = self._observed
        return found

    @cached_property
    def above(self) -> ResourceRecord | None:
        """The row of the resource that has this stack; None: it is a root."""
        held = self._engine.holding(self.stack.project, self.stack.id) if self.stack.parent_id is not None else ()
        return next((row for _, row in held), None)

    @cached_property
    def any_protected(self) -> bool:
        """True if anything in the tree is protected.

        No request changes that while an operation runs there.
        """
        return self._engine.store.resources.any_protected(self.root_id)

    def protected(self, row: ResourceRecord) -> Protected | None:
        """Return the protection of the row's object, or of a part of its nested stack."""
        if not self.any_protected:
            return None
        if row.protection is not None:
            return Protected(self.stack, row.name, row.protection)
        view, store = self.nested_of(row), self._engine.store
        if view is None:
            return None
        return first_within(store, [view.stack, *store.resources.attached(store.stacks.descendants(view.stack))])

    def any_failed_within(self, row: ResourceRecord) -> bool:
        """Return True if a resource in the row's nested tree has failed or is marked."""
        view, store = self.nested_of(row), self._engine.store
        if view is None:
            return False
        return store.resources.any_failed([view.id, *(below.id for below in store.stacks.descendants(view.stack))])

    def members(self, row: ResourceRecord) -> Iterator[Resource[Schema]]:
        """Yield the resources in a row's nested tree, without those under a lock."""
        view = self.nested_of(row)
        if view is None or view.stack.lock is not None:
            return
        within = view.values.resources
        for member in view.rows:
            if member.physical_id is not None and member.external_id is None:
                made = within.make(member)
                made.facts.users = partial(_users, view, member)
                yield made
                yield from within.members(member)

    def sibling(self, name_or_physical_id: str) -> Resource[Schema] | None:
        """Return the newest resource of the stack with this name or physical id."""
        found = [row for row in self.chosen.values() if name_or_physical_id in (row.name, row.physical_id)]
        found = found or self._engine.store.resources.find(self.stack.id, name_or_physical_id)
        return self.make(found[-1]) if found else None

    def relative(self, physical_id: str) -> Resource[Schema] | None:
        """Return the resource of the stack's tree with this physical id."""
        found = self.sibling(physical_id)
        if found is not None and found.physical_id == physical_id:
            return found
        for stack, row in self._engine.holding(self.stack.project, physical_id):
            if (stack.root_id or stack.id) == self.root_id:
                return ResourceFactory(stack, self._engine).make(row)
        return None

    def holders(self, physical_id: str) -> Iterator[Resource[Schema]]:
        """Yield the resources of the stack's project with this physical id."""
        return self._engine.holders(self.stack.project, physical_id)

    def _counterpart(self, row: ResourceRecord, older: bool) -> Resource[Schema] | None:
        """Return the other resource of the same name and type during a replacement.

        A predecessor without an object is passed over: an earlier one has the object to take over.
        """
        alike = [one for one in self.rows_of(row.name) if one.type == row.type and one.verb is not Verb.DELETE]
        found = [one for one in alike if (one.id < row.id if older else one.id > row.id)]
        if older:
            found = [one for one in found if one.physical_id is not None] or found
        return self.make(found[-1]) if found else None

    # -- resources -------------------------------------------------------------------------------------

    def make(
        self,
        row: ResourceRecord,
        properties: JsonMap | None = None,
        kind: ResourceType | None = None,
        update_policy: JsonMap | None = None,
        definition: Definition | None = None,
    ) -> Resource[Schema]:
        """Return the resource of a row; with `properties`, as an update makes it.

        `kind` is needed for a type made of a template, which its row does not tell. `definition` is that of the stack
        as it becomes.
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
                now=self._engine.now,
                services=self._engine.services,
                suspended=lambda: self.suspended,
                nested=self.viewer(row.physical_id) if issubclass(kind, StackResource) else lambda: None,
                update_policy=update_policy or {},
                before=None if properties is None else row.properties,
                sibling=self.sibling,
                relative=self.relative,
                holders=self.holders,
                former=partial(self._counterpart, row, older=True),
                latter=partial(self._counterpart, row, older=False),
                time_limit=self._engine.services.time_limit(stack.timeout),
                inherited=Inherited if definition is None else partial(_handed_down, definition, row),
                created_at=row.created_at,
                home=lambda: self._cloud,
                leaves=row.verb is Verb.DELETE,
                keeps_members=self.selection is not None and self.selection.is_repair,
                recorded=frozenset(as_map(as_map(self._saved.get(row.name)).get("resources"))),
                row_id=row.id,
            )
        )

    @cached_property
    def _cloud(self) -> CloudIdentity | None:
        return self._engine.store.stacks.cloud_of(self.stack)

    def physical_name(self, definition: ResourceDefinition, identifier: str) -> str:
        """Return the name of a new row's object, within the length that its type allows."""
        limit = self.type_named(definition.mapped_type).name_limit
        return physical_name(self.stack.name, definition.name, identifier, limit)

    def is_stack_name(self, name: str) -> bool:
        """Return True if a live stack of the project has the name."""
        return self._engine.store.stacks.by_name(self.stack.project, name) is not None


class Values:
    """Values of resources in template functions, from one row for each name.

    Implements `template.expression.Scope`.
    """

    def __init__(self, resources: ResourceFactory, rows: Mapping[str, ResourceRecord]) -> None:
        self.resources = resources
        self.rows = rows
        self._made: dict[str, tuple[ResourceRecord, Resource[Schema]]] = {}

    def reference(self, name: str) -> object:
        """Return the value of get_resource; the name of a resource that was never made."""
        row = self.rows.get(name)
        if row is None or row.verb is Verb.INIT:
            return name
        if row.physical_id is not None and self.resources.type_of(row).reference is Resource.reference:
            return row.physical_id  # as of most: no resource is made for it
        with type_code():
            return self._resource(row).reference()

    def attribute(self, name: str, attribute: str | None, path: Sequence[object]) -> object:
        """Return the value of get_attr; null while it cannot be read.

        None as attribute: all of them.
        """
        row = self.rows.get(name)
        if row is None or row.verb not in READABLE:
            return None
        resource = self._resource(row)
        if attribute is not None:
            return ask(lambda: resource.attribute_at(attribute, path))
        return ask(resource.attributes) if row.status is not Status.FAILED else None

    def is_affected(self, name: str) -> bool:
        """Return True if the running operation has made or changed the resource."""
        row, resources = self.rows.get(name), self.resources
        return row is not None and (row.moved_in == resources.phase or resources.finished_before(row))

    def _resource(self, row: ResourceRecord) -> Resource[Schema]:
        made = self._made.get(row.name)
        if made is None or made[0] is not row:
            made = self._made[row.name] = (row, self.resources.make(row))
        return made[1]


def bounded(values: Values) -> Bounded:
    """Limit the values to the size that a resource may have (`max_resource_data`)."""
    return Bounded(values, values.resources.resource_data)


class NestedView:
    """A nested stack (`plugin.ports.Nested`).

    Each part is read at its first use, and then kept.
    """

    def __init__(self, stack: StackRecord, engine: EngineServices) -> None:
        self.stack = stack
        self._engine = engine

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
            # The stack's own list of outputs shows the error; whatever uses the output must not go on without it.
            raise TemplateOutputError(
                resource=self.stack.parent_resource, attribute=name, reason=error.message
            ) from error

    @cached_property
    def definition(self) -> Definition:
        return self._engine.definitions.of(self.stack)

    @cached_property
    def rows(self) -> Sequence[ResourceRecord]:
        """All rows, oldest first."""
        return self._engine.store.resources.of(self.stack.id)

    @cached_property
    def values(self) -> Values:
        rows = current_rows(self.rows)
        return Values(ResourceFactory(self.stack, self._engine), {row.name: row for row in rows})


def _users(view: NestedView, used: ResourceRecord) -> list[Resource[Schema]]:
    """Return the resources of a nested stack that use one of its rows."""
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
    """Return a nested stack's environment and its values of ``resource_facade``."""
    defined = definition.resources.get(row.name)
    kind = row.type if defined is None else defined.type  # an update may have left out its deletion
    target = definition.mapping.target(row.name, kind)
    facade: JsonMap = {
        "metadata": row.metadata,
        "deletion_policy": row.deletion_policy,
        "update_policy": update_policy,
    }
    return definition.environment.for_child(row.name, target, dict(parameters)), facade


def _handed_down(definition: Definition, row: ResourceRecord) -> Inherited:
    environment, _ = inherited(definition, row, {}, {})
    return Inherited(environment.to_dict(), definition.template.files)
