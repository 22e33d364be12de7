"""Protection of stacks and resources (docs/decisions/0024-protection.md)."""


from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import InvalidStackState, ResourceNotFound
from heatlite.core.json import JsonMap
from heatlite.engine.admission.admission import Admission, audit
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.protected import is_made, protection_event
from heatlite.engine.state.unit_of_work import resource_event, stack_event
from heatlite.store.records import ProtectionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store


class Protection:
    """Protects and unprotects stacks and resources."""

    def __init__(self, store: Store, clock: Clock, admission: Admission) -> None:
        self._store = store
        self._clock = clock
        self._admission = admission

    def protect(self, context: Context, stack: StackRecord, resource: str | None, reason: str | None) -> None:
        """Protect a stack, or one resource of it, from deletion and replacement.

        Protecting again changes the reason. Raises ResourceNotFound, and InvalidStackState for a resource that has no
        finished object.
        """
        record = ProtectionRecord(context.user, self._clock.now(), reason)
        self._set(context, Operation.PROTECT, stack, resource, reason, record)

    def unprotect(self, context: Context, stack: StackRecord, resource: str | None, reason: str | None) -> bool:
        """Lift the protection of a stack or of a resource.

        Returns False if there is none. Raises ResourceNotFound.
        """
        return self._set(context, Operation.UNPROTECT, stack, resource, reason, None)

    def _set(
        self,
        context: Context,
        operation: Operation,
        stack: StackRecord,
        resource: str | None,
        reason: str | None,
        record: ProtectionRecord | None,
    ) -> bool:
        options: JsonMap = {}
        if resource is not None:
            options["resource"] = resource
        if reason is not None:
            options["reason"] = reason
        prechecked = self._admission.precheck_action(context, operation, stack, options)
        with self._admission.admitted(prechecked) as stack:
            now = self._clock.now()
            if resource is None:
                changes = record is not None or stack.protection is not None
                stack = replace(stack, protection=record)
                if changes:
                    self._store.stacks.save(stack)
                    event = protection_event(stack_event(stack, now), operation, context.user, reason)
                    self._store.events.append_many([event])
            else:
                rows = [replace(row, protection=record) for row in self._rows(stack, resource, record)]
                changes = bool(rows)
                self._store.resources.save_many(rows)
                events = [resource_event(row, now) for row in rows]
                marked = [protection_event(event, operation, context.user, reason) for event in events]
                self._store.events.append_many(marked)
        audit.info("%s stack=%s resource=%s by=%s reason=%r", operation, stack.id, resource, context.user, reason)
        return changes

    def _rows(self, stack: StackRecord, name: str, record: ProtectionRecord | None) -> list[ResourceRecord]:
        """Return the rows to change.

        These are the rows with a finished object, or on unprotect the protected ones.
        """
        found = self._store.resources.by_name(stack.id, [name])
        if not found:
            raise ResourceNotFound(resource_name=name, stack_name=stack.name)
        if record is None:
            return [row for row in found if row.protection is not None]
        made = [row for row in found if is_made(row)]
        if not made:
            raise InvalidStackState(
                f"Resource {name} of stack {stack.name} has no finished object to protect. Protect it after its"
                " creation."
            )
        return made
