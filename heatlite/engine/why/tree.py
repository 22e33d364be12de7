"""The rows of a stack tree that facts come from."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from heatlite.core.context import Context
from heatlite.core.errors import HeatliteError
from heatlite.core.status import Status, Verb
from heatlite.core.wire.why import Fact
from heatlite.engine.state.conflict_rules import Operation, holder, refusal, uses_cloud
from heatlite.engine.state.definitions import Definitions
from heatlite.store.audit import AuditRecord
from heatlite.store.records import ActionRecord, ResourceRecord, ServiceRecord, StackRecord

SHOW = "stacks:show"


class Told(Struct, frozen=True):
    """A fact, with what decides who sees it where."""

    fact: Fact
    stack_id: str
    """The stack that it is about."""
    rule: str = SHOW
    """The rule of access of those who see it."""


def is_marked(row: ResourceRecord) -> bool:
    """Return True for a resource that is CHECK_FAILED, perhaps below a lock."""
    now = row.state_without_lock
    return now.verb is Verb.CHECK and now.status is Status.FAILED


class ExplainedTree(Struct, frozen=True, dict=True):
    """A tree at one moment, as one caller may change it."""

    stacks: Sequence[StackRecord]
    """Its live stacks, the root first, parents before children."""
    rows: Sequence[ResourceRecord]
    """The resources that have failed, are protected, or whose handlers wait."""
    actions: Sequence[ActionRecord]
    """The open actions, oldest first."""
    holding: frozenset[str]
    """Ids of those that hold their targets."""
    waits: Mapping[str, Sequence[str]]
    """Actions → what they depend on and what has not ended."""
    others: Mapping[str, ActionRecord]
    """Those of these dependencies that are actions of other trees."""
    errors: Mapping[str, str]
    """Actions that are tried again → the last error."""
    engines: Sequence[ServiceRecord]
    """The engines that are alive."""
    now: float
    caller: Context
    owners: Mapping[str, str] = {}
    """Objects that errors of deletions name → the resources of other stacks that have them."""
    off: Sequence[str] = ()
    """Names of the features that are off."""
    last_request: AuditRecord | None = None
    """The last request on the root, if it is recent."""
    definitions: Definitions | None = None
    """Those of the stacks; asked only for what is not well."""
    cloud_refusal: Callable[[], HeatliteError | None] = lambda: None
    """Returns the error of what uses the cloud, if the objects are in another one; asked only for ways out."""

    @property
    def root(self) -> StackRecord:
        """The root of the tree."""
        return self.stacks[0]

    @cached_property
    def by_id(self) -> Mapping[str, StackRecord]:
        """The stacks by their ids."""
        return {one.id: one for one in self.stacks}

    @cached_property
    def live(self) -> Sequence[ActionRecord]:
        """The actions that hold their targets."""
        return [one for one in self.actions if one.id in self.holding]

    @cached_property
    def protected(self) -> Sequence[tuple[StackRecord, ResourceRecord | None]]:
        """Protected stacks, and protected resources with their stacks."""
        stacks = [(one, None) for one in self.stacks if one.protection is not None]
        return [*stacks, *((self.by_id[row.stack_id], row) for row in self.rows if row.protection is not None)]

    @cached_property
    def marked(self) -> Sequence[ResourceRecord]:
        """The rows that the next update replaces."""
        return [row for row in self.rows if is_marked(row)]

    @cached_property
    def unwell(self) -> Sequence[ResourceRecord]:
        """The rows that the next update may replace."""
        return [row for row in self.rows if is_marked(row) or row.state_without_lock.status is Status.FAILED]

    @cached_property
    def elsewhere(self) -> HeatliteError | None:
        """The error of what uses the cloud, if the objects are in another one."""
        return self.cloud_refusal()

    def forbidden(self, stack_id: str, name: str) -> frozenset[str]:
        """Return what the environment forbids for a resource (`restricted_actions`)."""
        if self.definitions is None:
            return frozenset()
        return self.definitions.of(self.by_id[stack_id]).environment.restricted_actions(name)

    def is_kept(self, stack_id: str, name: str) -> bool:
        """Return whether the environment forbids to replace a resource."""
        return "replace" in self.forbidden(stack_id, name)

    def readers(self, stack_id: str, name: str) -> list[tuple[StackRecord, str]]:
        """Return the resources that a new object of a resource may change.

        They are in its stack, and in those above. Each has its stack.
        """
        found = list[tuple[StackRecord, str]]()
        stack: StackRecord | None = self.by_id[stack_id]
        while stack is not None and self.definitions is not None:
            required_by, reached = self.definitions.required_by(stack), [name]
            for one in reached:
                reached += [other for other in required_by.get(one, ()) if other not in reached]
            found += [(stack, one) for one in reached[1:]]
            name, stack = stack.parent_resource or "", self.by_id.get(stack.parent_id or "")
        return found

    def is_held(self, stack: StackRecord, name: str) -> bool:
        """Return whether a resource, or one below it, is locked or restricted."""
        start = f"{self.path(stack.id, name)}/"
        below = [one for one in self.below(stack) if f"{self.path(one.id)}/".startswith(start)]
        if any(one.lock is not None for one in below):
            return True
        assert self.definitions is not None
        inner = ((one.id, each) for one in below for each in self.definitions.of(one).resources)
        return any(self.forbidden(*one) for one in ((stack.id, name), *inner))

    def above(self, stack: StackRecord) -> list[StackRecord]:
        """Return the ancestors of a stack, the parent first."""
        found: list[StackRecord] = []
        while (parent := self.by_id.get(stack.parent_id or "")) is not None:
            found.append(parent)
            stack = parent
        return found

    def below(self, stack: StackRecord) -> list[StackRecord]:
        """Return the stacks nested in a stack, parents before children."""
        inside, found = {stack.id}, list[StackRecord]()
        for one in self.stacks:
            if one.parent_id in inside:
                inside.add(one.id)
                found.append(one)
        return found

    def around(self, stack: StackRecord) -> list[StackRecord]:
        """Return the ancestors of a stack from the root on, itself, and those below."""
        return [*reversed(self.above(stack)), stack, *self.below(stack)]

    def path(self, stack_id: str, name: str = "") -> str | None:
        """Return the path of a resource of a stack, or that of the stack.

        None: it is the root.
        """
        stack, names = self.by_id.get(stack_id), [name] if name else []
        while stack is not None and stack.id != self.root.id:
            names.insert(0, stack.parent_resource or "")
            stack = self.by_id.get(stack.parent_id or "")
        return "/".join(names) or None

    def _live_around(self, stack: StackRecord) -> list[ActionRecord]:
        reached = {one.id for one in self.around(stack)}
        return [one for one in self.live if one.stack_id in reached]

    def refusal(self, operation: Operation, stack: StackRecord) -> HeatliteError | None:
        """Return the error that keeps the caller from an operation now."""
        if uses_cloud(operation, stack) and self.elsewhere is not None:
            return self.elsewhere
        above, below = self.above(stack), self.below(stack)
        return refusal(operation, stack, above, below, self._live_around(stack), self.caller)

    def holder(self, operation: Operation, stack: StackRecord) -> ActionRecord | None:
        """Return the action that keeps an operation from starting now."""
        return holder(operation, stack, self.above(stack), self._live_around(stack))
