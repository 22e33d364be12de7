"""What is read of a stack and only its types know: outputs, attributes."""

import logging
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import TypeAlias, cast

from heatlite.core.context import EXPORT, Context
from heatlite.core.errors import HeatliteError, PhysicalResourceIDAmbiguity, ResourceNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.core.masking import MASK, NOTHING, Mask, hiding, masked
from heatlite.engine.state.definitions import Definitions, secrets_of
from heatlite.engine.state.values import (
    READABLE,
    Resources,
    Surroundings,
    Values,
    bounded,
    current_rows,
    type_code,
    without_unknown,
)
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.plugin.signing import AGENT
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.definitions import OutputDefinition
from heatlite.template.expression import Bounded, requires

log = logging.getLogger(__name__)

Rows: TypeAlias = Mapping[str, Sequence[ResourceRecord]]
"""The rows of a stack by name."""


class Reading:
    """Reads stacks; changes nothing."""

    def __init__(self, store: Store, surroundings: Surroundings, definitions: Definitions) -> None:
        self._store = store
        self._surroundings = surroundings
        self._definitions = definitions

    def outputs(self, stack: StackRecord) -> list[JsonMap]:
        """The outputs with their values, in the template's order; one that cannot be had is null, with the error."""
        definition = self._definitions.of(stack)
        if not definition.outputs:
            return []
        names = {name for output in definition.outputs.values() for name in requires(output.value)}
        rows = self._store.resources.by_name(stack.id, sorted(names)) if names else []
        values = Values(self.resources_of(stack), {row.name: row for row in current_rows(rows)})
        with hiding(self.mask(stack)):
            # One budget for all: those beyond it say why they are not shown.
            budget = bounded(values)
            return [_output(output, budget) for output in definition.outputs.values()]

    def hidden(self, stack: StackRecord) -> frozenset[str]:
        """The names of hidden parameters in the stack and in those nested in it."""
        return self._definitions.within(stack).hidden if stack.sealed else frozenset()

    def mask(self, stack: StackRecord) -> Mask:
        """What must not be said of the stack: what is hidden in its tree."""
        return Mask(lambda: secrets_of(self._store, self._definitions, stack)) if stack.sealed else NOTHING

    def masks(self, context: Context, stack: StackRecord) -> Callable[[str], Mask]:
        """What a caller must not be shown of a resource of the stack, by its name; "": of any of them.

        Beside what is hidden in the tree these are secrets of the resource and of all that it refers to, unless the
        caller may export the stack.
        """
        shared = self.mask(stack)
        if context.may(EXPORT):
            return lambda _: shared
        hidden = cache(lambda: secrets_of(self._store, self._definitions, stack) if stack.sealed else [])
        rows = cache(lambda: self._rows(stack))
        return lambda name: Mask(lambda: [*hidden(), *self._secrets(stack, rows(), name)])

    def _rows(self, stack: StackRecord) -> Rows:
        found: defaultdict[str, list[ResourceRecord]] = defaultdict(list)
        for row in self._store.resources.of(stack.id):
            found[row.name].append(row)
        return found

    def _secrets(self, stack: StackRecord, rows: Rows, name: str) -> Iterator[Json]:
        """Those of the resource, of what it refers to, of what is nested in these, and of what the resource refers to
        that has the stack."""
        resources = self.resources_of(stack)
        todo, seen = [name] if name in rows else list(rows), set[str]()
        while todo:
            name = todo.pop()
            if name in seen:
                continue
            seen.add(name)
            for row in rows.get(name, ()):
                todo.extend(row.requires)
                yield from _secrets_of(resources.make(row))
                if issubclass(resources.type_of(row), StackResource):
                    yield from self._secrets_within(row.physical_id)
        above = None if stack.parent_id is None else self._store.stacks.get(stack.parent_id)
        if above is not None and stack.parent_resource is not None:
            yield from self._secrets(above, self._rows(above), stack.parent_resource)

    def _secrets_within(self, stack_id: str | None) -> Iterator[Json]:
        nested = None if stack_id is None else self._store.stacks.get(stack_id)
        for stack in () if nested is None else (nested, *self._store.stacks.descendants(nested)):
            resources = self.resources_of(stack)
            for row in self._store.resources.of(stack.id):
                yield from _secrets_of(resources.make(row))

    def attributes(
        self,
        context: Context,
        stack: StackRecord,
        row: ResourceRecord,
        names: Sequence[str],
        mask: Mask | None = None,
    ) -> JsonMap:
        """A resource's attributes, and those of `names`; null where one cannot be had. `mask` is that of `masks`."""
        if row.verb not in READABLE:
            return {}
        resource = self.resources_of(stack).make(row)
        mask = mask or self.masks(context, stack)(row.name)
        secret = frozenset() if context.may(EXPORT) else resource.secret_attributes
        with hiding(mask):
            values = {
                name: MASK if name in secret else mask.json(_attribute(resource, name))
                for name in (*_shown(resource), *names)
            }
        if values.get("show") is None and "show" not in names:
            values.pop("show", None)
        return values

    def attribute(self, stack: StackRecord, row: ResourceRecord, name: str) -> Json:
        """One of a resource's attributes; null where it cannot be had. What is hidden is masked."""
        if row.verb not in READABLE:
            return None
        mask = self.mask(stack)
        with hiding(mask):
            return mask.json(_attribute(self.resources_of(stack).make(row), name))

    def metadata(self, stack: StackRecord, row: ResourceRecord, for_agent: bool = True) -> JsonMap:
        """A resource's metadata as it is now; nobody but its agent is told how to prove that he is the agent."""
        if row.verb not in READABLE:
            return row.metadata
        resource = self.resources_of(stack).make(row)
        with type_code():
            told = resource.live_metadata()
        if not for_agent:
            told = {key: value for key, value in told.items() if key != AGENT}
        account = None if for_agent else resource.account
        return told if account is None else cast(JsonMap, Mask(lambda: [account.password]).json(told))

    def nests(self, stack: StackRecord, row: ResourceRecord) -> bool:
        """Whether the resource's object is a stack."""
        return issubclass(self.resources_of(stack).type_of(row), StackResource)

    def resources_of(self, stack: StackRecord) -> Resources:
        """Makes resources of the stack's rows."""
        return Resources(stack, self._surroundings)

    def resource(self, stack: StackRecord, name: str) -> ResourceRecord:
        """The row that stands for a name, else the one with that physical id.

        Raises ResourceNotFound; PhysicalResourceIDAmbiguity when several have the id.
        """
        rows = current_rows(self._store.resources.find(stack.id, name))
        if not rows:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        if len(rows) > 1:
            raise PhysicalResourceIDAmbiguity(phys_id=name)
        return rows[0]


def _output(output: OutputDefinition, values: Bounded) -> JsonMap:
    shown: JsonMap = {"output_key": output.name, "description": output.description or "No description given"}
    try:
        shown["output_value"] = without_unknown(values.resolved(output.value)) if output.condition else None
    except HeatliteError as error:
        # Heat's rule: one output that fails must not hide the stack.
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
        with type_code():
            return resource.attribute(name)
    except HeatliteError as error:
        log.info("resource %s: attribute %s: %s", resource.name, name, masked(str(error)))
        return None
