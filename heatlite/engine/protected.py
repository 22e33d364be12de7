"""What is protected, and what that keeps from being deleted (decision 0024)."""

from collections.abc import Sequence
from dataclasses import dataclass

from heatlite.core.clock import to_text
from heatlite.core.json import canonical
from heatlite.core.status import Status, Verb
from heatlite.store.records import ProtectionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store


@dataclass(frozen=True, slots=True)
class Protected:
    """A stack that is protected, or a resource of it."""

    stack: StackRecord
    resource: str | None
    """The resource's name; None: the stack itself."""
    record: ProtectionRecord

    @property
    def text(self) -> str:
        """What is protected, since when, by whom and why, and what lifts that."""
        stack, record = self.stack, self.record
        what = f"stack {stack.name}" if self.resource is None else f"resource {self.resource} of stack {stack.name}"
        reason = f"reason: {record.reason}" if record.reason else "no reason given"
        body = canonical({"unprotect": None if self.resource is None else {"resource": self.resource}})
        return (
            f"{what} is protected since {to_text(record.at)} by {record.by}, {reason}. To lift that:"
            f" heatlite unprotect {' '.join(filter(None, (stack.name, self.resource)))}, or POST"
            f" /v1/{stack.project}/stacks/{stack.name}/{stack.id}/actions with the body {body}."
        )


def is_made(row: ResourceRecord) -> bool:
    """Whether the row has an object that was finished, and that is not on its way out."""
    last = row.before_check or row.state_without_lock
    if last.verb in (Verb.CREATE, Verb.ADOPT):
        return last.status is Status.COMPLETE
    return last.verb not in (Verb.INIT, Verb.DELETE)


def first_within(store: Store, stacks: Sequence[StackRecord]) -> Protected | None:
    """The first of the stacks that is protected, or the first resource of one of them."""
    for stack in stacks:
        if stack.protection is not None:
            return Protected(stack, None, stack.protection)
    row = store.resources.protected([stack.id for stack in stacks])
    if row is None or row.protection is None:
        return None
    return Protected(next(stack for stack in stacks if stack.id == row.stack_id), row.name, row.protection)


def against_deletion(store: Store, stack: StackRecord) -> Protected | None:
    """What forbids to delete a stack with all that is nested in it: a part of it, or what it is nested in."""
    below = stack
    for above in store.stacks.ancestors(stack):
        for row in store.resources.by_name(above.id, [below.parent_resource or ""]):
            if row.physical_id == below.id and row.protection is not None:
                return Protected(above, row.name, row.protection)
        if above.protection is not None:
            return Protected(above, None, above.protection)
        below = above
    return first_within(store, [stack, *store.stacks.descendants(stack)])
