"""Reader of a stack's outputs, attributes and secrets, through its types."""

import logging
from collections import OrderedDict, defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from functools import cache
from threading import Lock
from typing import TypeAlias, cast

from msgspec import Struct
from msgspec.structs import replace

from heatlite.clients.finders import REMEMBERED
from heatlite.core.context import Context
from heatlite.core.errors import HeatliteError, PhysicalResourceIDAmbiguity, ResourceNotFound
from heatlite.core.json import Json, JsonMap, as_map, as_text
from heatlite.core.redaction.masking import MASK, NOTHING, Mask, hiding, masked
from heatlite.core.status import Status, Verb
from heatlite.engine.state.definitions import Definitions, secrets_of
from heatlite.engine.state.values import current_rows, left_over, without_unknown
from heatlite.engine.types.missing_type import MissingType
from heatlite.engine.types.resource_factory import READABLE, EngineServices, ResourceFactory, Values, bounded
from heatlite.engine.types.type_calls import ask, type_code
from heatlite.plugin.groups import SIZE, SizedGroup
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.plugin.signing import AGENT
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.definitions.definitions import OutputDefinition
from heatlite.template.expression import Bounded, requires

log = logging.getLogger(__name__)

Above: TypeAlias = dict[str, list[Json]]
"""Secrets that the parents of a stack may have passed to it, by its id."""
FindRows: TypeAlias = Callable[[Collection[str] | None], Sequence[ResourceRecord]]
"""Returns the rows of a stack with one of the names; None: all rows."""


MAX_RESOLVED = 1000
"""Maximum number of resources whose metadata is kept."""


class Resolved(Struct, frozen=True):
    """The metadata of a resource with the values of other resources."""

    heads: Mapping[str, int]
    """Ids of the latest events by stack when it was resolved."""
    until: float
    metadata: JsonMap


class StackReader:
    """Reads stacks through their types, without changes."""

    def __init__(self, store: Store, engine_services: EngineServices, definitions: Definitions) -> None:
        self._store = store
        self._engine_services = engine_services
        self._definitions = definitions
        self._resolved: OrderedDict[str, Resolved] = OrderedDict()
        self._lock = Lock()

    def outputs(self, stack: StackRecord) -> list[JsonMap]:
        """Return the outputs in the template's order.

        A failed one is null, with its error.
        """
        definition = self._definitions.of(stack)
        if not definition.outputs:
            return []
        names = {name for output in definition.outputs.values() for name in requires(output.value)}
        rows = self._store.resources.by_name(stack.id, sorted(names)) if names else []
        values = Values(self.resources_of(stack), {row.name: row for row in current_rows(rows)})
        with hiding(self.mask(stack)):
            # One budget for all outputs: those beyond it fail.
            budget, missing = bounded(values), _never_made(stack, values.rows)
            return [_output(output, budget, missing) for output in definition.outputs.values()]

    def hidden(self, stack: StackRecord) -> frozenset[str]:
        """Return the names of the hidden parameters of the stack and its nested stacks."""
        return self._definitions.within(stack).hidden if stack.sealed else frozenset()

    def mask(self, stack: StackRecord) -> Mask:
        """Return the mask of all hidden values of the stack's tree."""
        return Mask(lambda: secrets_of(self._store, self._definitions, stack)) if stack.sealed else NOTHING

    def masks(
        self,
        context: Context,
        stack: StackRecord,
        names: Collection[str] | None = None,
        known: Above | None = None,
    ) -> Callable[[str], Mask]:
        """Return a function from a resource's name ("" for all) to its mask for a caller.

        `names` are those whose masks are wanted: their rows are read at once; None: all rows of the stack. `known`
        keeps what the masks of several stacks share.

        The mask has the hidden values of the tree. For callers who may not export the stack it also has the secrets of
        the resource and of those that it refers to.
        """
        find = cache(lambda: self._find_in_memory(stack, names))
        return self._masks(context, stack, find, {} if known is None else known)

    def mask_of(self, context: Context, stack: StackRecord, name: str) -> Mask:
        """Return the mask of one resource for a caller, as `masks`.

        Reads the rows that it needs.
        """
        return self._masks(context, stack, lambda: self._find_rows(stack), {})(name)

    def software_masks(self, context: Context, deployment_ids: Sequence[str]) -> Callable[[str], Mask]:
        """Return a function from the id of a software deployment to its mask for a caller.

        Ids of configurations are accepted, too. For callers who may not export stacks it has what is hidden in the
        stack of the deployment, and in that of its configuration. It also has the secrets of both resources, and of
        those that they refer to.
        """
        if context.may_see_hidden:
            return lambda _: NOTHING
        rows = self._store.resources.with_objects(context.project, deployment_ids)
        applied = {row.id: as_text(row.properties.get("config")) for row in rows}
        sources = self._store.resources.with_objects(context.project, sorted(filter(None, applied.values())))
        made_by: defaultdict[str | None, set[tuple[str, str]]] = defaultdict(set)
        for row in (*sources, *rows):
            made_by[row.physical_id].add((row.stack_id, row.name))
        for row in rows:
            made_by[row.physical_id] |= made_by[applied[row.id]]

        @cache
        def secrets(stack_id: str) -> Callable[[str], list[object]]:
            stack = self._store.stacks.get(stack_id)
            if stack is None:
                return lambda _: []
            shared, find = [*self._hidden(stack), *self._secrets_above(stack, {})], self._find_in_memory(stack, None)
            return lambda name: [*shared, *self._secrets(stack, find, name)]

        return lambda physical_id: Mask(
            lambda: [secret for stack_id, name in sorted(made_by[physical_id]) for secret in secrets(stack_id)(name)]
        )

    def config_masks(self, context: Context, config_ids: Sequence[str]) -> Callable[[str], Mask]:
        """Return a function from the id of a configuration to its mask.

        It is as that of `software_masks`; for a configuration that was made for a deployment it is that of the
        deployment.
        """
        if context.may_see_hidden:
            return lambda _: NOTHING
        made_for = self._store.software_deployments.of_configs(context.project, config_ids)
        masks = self.software_masks(context, [*config_ids, *made_for.values()])
        return lambda config_id: masks(made_for.get(config_id, config_id))

    def _masks(
        self, context: Context, stack: StackRecord, find: Callable[[], FindRows], known: Above
    ) -> Callable[[str], Mask]:
        hidden = self.mask(stack)
        if context.may_see_hidden:
            return lambda _: hidden
        shared = cache(lambda: [*self._hidden(stack), *self._secrets_above(stack, known)])
        return lambda name: Mask(lambda: [*shared(), *self._secrets(stack, find(), name)])

    def _hidden(self, stack: StackRecord) -> list[object]:
        return secrets_of(self._store, self._definitions, stack) if stack.sealed else []

    def _find_rows(self, stack: StackRecord) -> FindRows:
        resources = self._store.resources
        return lambda names: resources.of(stack.id) if names is None else resources.by_name(stack.id, sorted(names))

    def _find_in_memory(self, stack: StackRecord, names: Collection[str] | None) -> FindRows:
        read, known = self._find_rows(stack), defaultdict[str, list[ResourceRecord]](list)
        for row in read(names):
            known[row.name].append(row)

        def find(wanted: Collection[str] | None) -> Sequence[ResourceRecord]:
            if wanted is None:
                return read(None)
            further = set() if names is None else {*wanted} - {*names}
            return [*(row for name in wanted for row in known.get(name, ())), *(read(further) if further else ())]

        return find

    def _secrets(self, stack: StackRecord, find: FindRows, name: str, besides: str | None = None) -> Iterator[Json]:
        """Yield the secrets of a resource, its references and their nested stacks.

        `besides` is the id of a nested stack that is left out.
        """
        resources = self.resources_of(stack)
        rows, seen = find([name]) or find(None), {name}
        while rows:
            seen.update(row.name for row in rows)
            for row in rows:
                yield from _secrets_of(resources.make(row))
                if issubclass(resources.type_of(row), StackResource) and row.physical_id != besides:
                    yield from self._secrets_within(row.physical_id)
            missing = {need for row in rows for need in row.requires} - seen
            rows = find(missing) if missing else []

    def _secrets_above(self, stack: StackRecord, known: Above) -> Iterator[Json]:
        """Yield the secrets that the parents of a nested stack may have passed to it.

        They are those of its resource and of what that refers to. A stack passes its own secrets to no sibling.
        """
        above = None if stack.parent_id is None else self._store.stacks.get(stack.parent_id)
        if above is not None and stack.parent_resource is not None:
            yield from self._secrets(above, self._find_rows(above), stack.parent_resource, besides=stack.id)
            if above.id not in known:
                known[above.id] = [*self._secrets_above(above, known)]
            yield from known[above.id]

    def _secrets_within(self, stack_id: str | None) -> Iterator[Json]:
        nested = None if stack_id is None else self._store.stacks.get(stack_id)
        for stack in () if nested is None else (nested, *self._store.stacks.descendants(nested)):
            resources = self.resources_of(stack)
            for row in self._store.resources.of(stack.id):
                yield from _secrets_of(resources.make(row))

    @property
    def longest_list(self) -> int:
        """Maximum characters of JSON of the values in a list (`max_stack_data`)."""
        return self._engine_services.stack_data

    def attributes(
        self,
        context: Context,
        stack: StackRecord,
        row: ResourceRecord,
        names: Sequence[str],
        mask: Mask | None = None,
    ) -> JsonMap:
        """Return a resource's attributes, with those in `names`; a failed one is null.

        `mask` as from `masks`.
        """
        if row.verb not in READABLE:
            return {}
        resource = self.resources_of(stack).make(row)
        mask = mask or self.mask_of(context, stack, row.name)
        secret = frozenset() if context.may_see_hidden else resource.secret_attributes
        with hiding(mask):
            values = {
                name: MASK if name in secret else mask.json(_attribute(resource, name))
                for name in (*_shown(resource), *names)
            }
        if values.get("show") is None and "show" not in names:
            values.pop("show", None)
        return values

    def attribute(self, stack: StackRecord, row: ResourceRecord, name: str) -> Json:
        """Return one attribute of a resource, with hidden values masked; null if it fails."""
        if row.verb not in READABLE:
            return None
        mask = self.mask(stack)
        with hiding(mask):
            return mask.json(_attribute(self.resources_of(stack).make(row), name))

    def metadata(self, stack: StackRecord, row: ResourceRecord, for_agent: bool = True) -> JsonMap:
        """Return a resource's current metadata. Only its agent gets the credentials in it."""
        if row.verb not in READABLE:
            return row.metadata
        row = replace(row, metadata=self._metadata_now(stack, row))
        resource = self.resources_of(stack).make(row)
        told = as_map(ask(resource.live_metadata))
        if not for_agent:
            told = {key: value for key, value in told.items() if key != AGENT}
        account = None if for_agent else resource.account
        return told if account is None else cast(JsonMap, Mask(lambda: [account.password]).json(told))

    def _metadata_now(self, stack: StackRecord, row: ResourceRecord) -> JsonMap:
        """Return the metadata section with the present values of other resources.

        Signals may have changed them. Agents ask often, and attributes ask the cloud. So the values are kept until the
        next event of the stack or of one nested in it, and for a minute at most.

        The section is as stored while an operation runs and after one that failed, because the resource may not have
        reached its definition.
        """
        if stack.status is not Status.COMPLETE or row.status is not Status.COMPLETE:
            return row.metadata
        try:
            wanted = self._definitions.of(stack).resources.get(row.name)
            names = set() if wanted is None else set(requires(wanted.metadata))
            if wanted is None or not names:
                return row.metadata
            rows = current_rows(self._store.resources.by_name(stack.id, sorted(names)))
            has_nested = any(self.nests(stack, one) for one in rows)
            nested = self._store.stacks.descendants(stack) if has_nested else []
            heads = self._store.events.heads([stack.id, *(one.id for one in nested)])
            now = self._engine_services.now()
            with self._lock:
                known = self._resolved.get(row.id)
            if known is not None and known.heads == heads and now < known.until:
                return known.metadata
            values = Values(self.resources_of(stack), {one.name: one for one in rows})
            found = without_unknown(bounded(values).resolved(wanted.metadata))
            with self._lock:
                metadata = found if isinstance(found, dict) else row.metadata
                self._resolved[row.id] = Resolved(heads, now + REMEMBERED, metadata)
                self._resolved.move_to_end(row.id)
                if len(self._resolved) > MAX_RESOLVED:
                    self._resolved.popitem(last=False)
        except HeatliteError as error:
            log.info("resource %s: metadata as stored: %s", row.name, masked(str(error)))
            return row.metadata
        return metadata

    def required_by(self, stack: StackRecord, name: str) -> Sequence[str]:
        """Return the names of the resources that require a resource directly.

        They are in the template's order, as in Heat. Empty if the template can no longer be read because a type or a
        file has gone.
        """
        try:
            return self._definitions.required_by(stack).get(name, ())
        except HeatliteError:
            return ()

    def nests(self, stack: StackRecord, row: ResourceRecord) -> bool:
        """Return True if the resource's object is a stack."""
        return issubclass(self.resources_of(stack).type_of(row), StackResource)

    def may_nest(self, stack: StackRecord, row: ResourceRecord) -> bool:
        """Return True if the resource's object is a stack, or its type is missing."""
        return issubclass(self.resources_of(stack).type_of(row), (StackResource, MissingType))

    def set_size(self, stack: StackRecord, row: ResourceRecord) -> Json:
        """Return the size that an operation has set for a group; None: there is none."""
        return row.data.get(SIZE) if issubclass(self.resources_of(stack).type_of(row), SizedGroup) else None

    def resources_of(self, stack: StackRecord) -> ResourceFactory:
        """Return a factory for the stack's resources."""
        return ResourceFactory(stack, self._engine_services)

    def holders(self, project: str, physical_id: str) -> Iterator[Resource[Schema]]:
        """Yield the resources of a project with this physical id."""
        return self._engine_services.holders(project, physical_id)

    def resource(self, stack: StackRecord, name: str) -> ResourceRecord:
        """Return the current row of a name, else the one with that physical id.

        Raises ResourceNotFound, and PhysicalResourceIDAmbiguity if several rows have the id.
        """
        row = _current(self._store.resources.find(stack.id, name), name)
        if row is None:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        return row

    def resource_at(self, stack: StackRecord, path: str) -> tuple[StackRecord, ResourceRecord]:
        """Return the resource at a path below a stack, and the stack that has it.

        The last part may be a physical id. One without a path is looked for in the stack and in those nested in it.
        Raises as `resource`.
        """
        owner, row, _ = self._found_at(stack, path)
        return owner, row

    def with_left_over(
        self, stack: StackRecord, path: str
    ) -> tuple[StackRecord, ResourceRecord, Sequence[ResourceRecord]]:
        """Return the same as `resource_at`, and the resource's old rows.

        Those wait for their clean-up.
        """
        owner, row, rows = self._found_at(stack, path)
        if not rows or row.name != path.rpartition("/")[2]:  # found by its physical id
            rows = self._store.resources.by_name(owner.id, [row.name])
        return owner, row, left_over(rows, row)

    def _found_at(
        self, stack: StackRecord, path: str
    ) -> tuple[StackRecord, ResourceRecord, Sequence[ResourceRecord]]:
        """Return the same as `resource_at`, and the rows that were found.

        Those have the name or the physical id, and are of the stack of the path.
        """
        owner, name = self.place_at(stack, path)
        rows = self._store.resources.find(owner.id, name)
        row = _current(rows, name)
        if row is not None:
            return owner, row, rows
        found = self._members(stack, name) if owner is stack else []
        if not found:
            raise ResourceNotFound(resource_name=path, stack_name=stack.name)
        if len(found) > 1:
            raise PhysicalResourceIDAmbiguity(phys_id=name)
        owner, row = found[0]
        return owner, row, ()

    def place_at(self, stack: StackRecord, path: str) -> tuple[StackRecord, str]:
        """Return the stack that has the resource at a path below `stack`.

        Also returns the last part of the path: the resource's name or physical id. Raises as `resource`.
        """
        *above, last = path.strip("/").split("/")
        owner = stack
        for name in above:
            row = self.resource(owner, name)
            nested = None if row.physical_id is None else self._store.stacks.get(row.physical_id)
            if nested is None or nested.parent_id != owner.id:
                raise ResourceNotFound(resource_name=path, stack_name=stack.name)
            owner = nested
        return owner, last

    def _members(self, stack: StackRecord, physical_id: str) -> list[tuple[StackRecord, ResourceRecord]]:
        """Return the resources with a physical id in the stacks nested in a stack."""
        found: list[tuple[StackRecord, ResourceRecord]] = []
        for row in self._store.resources.with_objects(stack.project, [physical_id]):
            owner = self._store.stacks.get(row.stack_id)
            line = [] if owner is None else [*reversed(self._store.stacks.ancestors(owner)), owner]
            below = line[[one.id for one in line].index(stack.id) + 1 :] if stack.id in {one.id for one in line} else []
            if below and len(self._store.resources.attached(below)) == len(below):
                found.append((below[-1], row))
        return found


def _current(rows: Sequence[ResourceRecord], name: str) -> ResourceRecord | None:
    """Return the current one of the rows with a name or physical id.

    Raises PhysicalResourceIDAmbiguity if they are of several resources.
    """
    found = current_rows(rows)
    if len(found) > 1:
        raise PhysicalResourceIDAmbiguity(phys_id=name)
    return found[0] if found else None


def _never_made(stack: StackRecord, rows: Mapping[str, ResourceRecord]) -> frozenset[str]:
    """Return the names of resources that updates have left out before they were made."""
    left_out = () if stack.restricted is None else stack.restricted.left_out
    return frozenset(name for name in left_out if name not in rows or rows[name].verb is Verb.INIT)


def _output(output: OutputDefinition, values: Bounded, missing: frozenset[str]) -> JsonMap:
    shown: JsonMap = {"output_key": output.name, "description": output.description}
    needed = missing.intersection(requires(output.value)) if missing and output.condition else ()
    if needed:
        names = ", ".join(sorted(needed))
        text = f"An update has left out {names}, which does not exist. Update the whole stack."
        return {**shown, "output_value": None, "output_error": text}
    try:
        shown["output_value"] = without_unknown(values.resolved(output.value)) if output.condition else None
    except HeatliteError as error:
        # As in Heat, an output that fails must not hide the stack.
        log.info("output %s: %s", output.name, masked(str(error)))
        shown["output_value"] = None
        shown["output_error"] = masked(str(error))
    return shown


def _secrets_of(resource: Resource[Schema]) -> list[Json]:
    with type_code():
        return resource.secrets()


def _shown(resource: Resource[Schema]) -> Iterable[str]:
    with type_code():
        return resource.shown_attributes()


def _attribute(resource: Resource[Schema], name: str) -> Json:
    try:
        return ask(lambda: resource.attribute(name))
    except HeatliteError as error:
        log.info("resource %s: attribute %s: %s", resource.name, name, masked(str(error)))
        return None
