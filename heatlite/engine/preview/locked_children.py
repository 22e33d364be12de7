"""Nested stacks with a lock of their own that an operation would touch.

Specified in docs/reference/lock.md.
"""


from msgspec.structs import replace

from heatlite.core.actions.repairs import Selection
from heatlite.core.errors import HeatliteError
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.child_definition import planned_child
from heatlite.engine.planning.collect import PlannedValues, converge, evaluate
from heatlite.engine.planning.plan import Outcome, Plan
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.unit_of_work import with_state
from heatlite.engine.types.outputs import StackReader
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.expression import has_unknown


class LockedChildren:
    """Finds the locked stacks below one stack. Reads only."""

    def __init__(self, store: Store, definitions: Definitions, reader: StackReader, stack: StackRecord) -> None:
        self._store = store
        self._definitions = definitions
        self._reader = reader
        self._below = {one.id: one for one in store.resources.attached(store.stacks.descendants(stack))}
        self._locked: dict[str | None, StackRecord] = {}
        """The first locked stack in each subtree that has one, by the id of the subtree's root."""
        for locked in self._below.values():
            at: StackRecord | None = locked if locked.lock is not None else None
            while at is not None:
                self._locked.setdefault(at.id, locked)
                at = self._below.get(at.parent_id or "")

    def locked(self, row: ResourceRecord | None = None) -> StackRecord | None:
        """Return a locked nested stack; None: there is none.

        With `row`, search the nested stack of that resource.
        """
        if row is not None:
            return self._locked.get(row.physical_id)
        return next(iter(self._locked.values()), None)

    def touched(
        self, after: StackRecord, definition: Definition, selection: Selection | None = None
    ) -> StackRecord | None:
        """Return a locked stack that an update to `definition` would touch.

        `after` is the stack as it becomes. `selection` is that of an update that leaves something out.

        A stack that depends on unknown values counts as touched.
        """
        rows = self._store.resources.of(after.id) if self._locked else []
        if not any(map(self.locked, rows)):
            return None
        values = PlannedValues(self._reader.resources_of(after))
        values.resources.selection = selection
        plan = converge(definition, rows, values)
        for row in rows:
            locked = self.locked(row)
            if locked is None or selection is not None and selection.leaves(row.name):
                continue
            nested = self._below[row.physical_id or ""]
            if nested.lock is not None:
                found = None if is_kept(plan, row) and self._is_done(_updated(nested, after)) else nested
            else:
                try:
                    becomes = self._planned(definition, plan, values, row, nested)
                except HeatliteError:
                    becomes = None
                within = None if selection is None else selection.below(row.name)
                found = locked if becomes is None else self.touched(*becomes, within)
            if found is not None:
                return found
        return None

    def _planned(
        self, definition: Definition, plan: Plan, values: PlannedValues, row: ResourceRecord, nested: StackRecord
    ) -> tuple[StackRecord, Definition] | None:
        """Return an unlocked nested stack as it becomes.

        None: it is deleted, or that is not known yet.
        """
        step = plan.steps.get(row.name)
        if step is None or step.row is None or step.row.id != row.id or step.outcome is not Outcome.UPDATE:
            return None
        wanted = evaluate(definition, row.name, values.resources, values)
        if any(map(has_unknown, (wanted.properties, wanted.metadata, wanted.update_policy))):
            return None
        return planned_child(definition, values.resources, row, wanted, nested)

    def _is_done(self, after: StackRecord) -> bool:
        """Return True if the stack and its tree match their own definitions."""
        definition, rows = self._definitions.of(after), self._store.resources.of(after.id)
        if sorted(row.name for row in rows) != sorted(definition.resources):
            return False
        plan = converge(definition, rows, PlannedValues(self._reader.resources_of(after)))
        within = [self._below[row.physical_id] for row in rows if row.physical_id in self._below]
        return all(is_kept(plan, row) for row in rows) and all(self._is_done(_updated(one, after)) for one in within)


def is_kept(plan: Plan, row: ResourceRecord) -> bool:
    """Return True if the row stays as it is and has not failed.

    A lock may hide a failure.
    """
    if row.before_lock is not None and row.before_lock.status is Status.FAILED:
        return False
    step = plan.steps.get(row.name)
    if step is None:
        return plan.kept[row.name].id == row.id if row.name in plan.kept else False
    return step.outcome is Outcome.KEEP and step.row == row and row.status is Status.COMPLETE


def _updated(nested: StackRecord, parent: StackRecord) -> StackRecord:
    """Return a nested stack as it is during an update of its parent."""
    return replace(with_state(nested, Verb.UPDATE, Status.IN_PROGRESS, ""), updated_at=parent.updated_at)
