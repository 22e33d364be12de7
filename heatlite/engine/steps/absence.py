"""Guard against absence in masses.

Where most objects of a service seem to be gone, the check has probably asked another cloud or project. A check marks
what it does not find at once, and keeps the row's earlier state beside it. The end of the outermost check decides: it
takes these marks back, or it confirms them. Until then the tree is held, so nothing acts on them.
"""

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

from msgspec.structs import replace

from heatlite.core.status import Status, Verb
from heatlite.engine.calls import check_verdicts
from heatlite.engine.state.unit_of_work import resource_event
from heatlite.engine.steps.operation_steps import OperationSteps
from heatlite.engine.steps.row_writer import RowWriter
from heatlite.engine.types.absence import in_masses, service_of
from heatlite.engine.types.observation import is_compared
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.plugin.nested import StackResource
from heatlite.store.feature_store import ObjectNews
from heatlite.store.records import ActionRecord, HealthRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

ABSENT = "absent"
"""Reason in the column `health` of a row whose mark the end of the check confirms or takes back."""

IN_MASSES = "absent_in_masses"
"""Cause of a check without a verdict."""


def provisional(row: ResourceRecord) -> ResourceRecord:
    """Return a row that a check is about to mark, with its earlier state for a return."""
    health = row.health
    assert health is not None
    return replace(row, health=HealthRecord(None, ABSENT, health.marked, health.before, health.before_lock))


def is_provisional(row: ResourceRecord) -> bool:
    """Return True if the end of the check decides about a row's mark."""
    return row.health is not None and row.health.since is None and row.health.reason == ABSENT


def end_check(
    store: Store, action: ActionRecord, rows: RowWriter, resources: ResourceFactory, operations: OperationSteps
) -> Callable[[], None] | None:
    """Confirm the marks of a tree's check for absence, or take them back.

    Changes the rows of the addressed stack in `rows`, and the tally of `operations`. Returns the further writes for the
    transaction that ends the check.
    """
    if not operations.tally.unhealthy:
        return None
    top, since = resources.stack, action.started_at or action.created_at
    below = {stack.id: store.resources.of(stack.id) for stack in store.stacks.descendants(top)}
    tree = _Tree(top, {**below, top.id: [*rows.unit_of_work.rows.values()]}, resources)
    missing = frozenset() if action.inputs.believes_absence else tree.services_in_masses(since)
    restored = tree.taken_back(missing)
    now, tally = rows.now(), operations.tally.copy()
    kept: list[ResourceRecord] = []
    events, unseen = [], dict[str, ResourceRecord]()
    for row in tree.provisional():
        before = check_verdicts.unseen(row, f"{row.name}: {IN_MASSES}", now) if row.id in restored else None
        after = replace(row, health=None) if before is None else before
        if before is not None and row.stack_id == top.id:
            tally.names = [name for name in tally.names if name != row.name]
        if before is not None and not tree.is_nested(row):
            tally.unhealthy -= 1
            tally.add_unknown(f"{service_of(row.mapped_type)}: {IN_MASSES}")
        if before is not None and is_compared(before, resources.type_of(before)):
            unseen[before.id] = before
        told = check_verdicts.event_row(after, IN_MASSES)
        if row.stack_id == top.id:
            rows.save(replace(after, moved_in=resources.phase))
            if before is not None:
                rows.record_event(told)
        else:
            kept.append(after)
            events += [resource_event(told, now)] if before is not None else []

    operations.tally = tally

    def write() -> None:
        store.resources.save_many(kept)
        seen = store.objects_seen(ObjectNews(action.project, action.root_id, now, unseen=unseen))
        store.events.append_many([*events, *seen])
        store.resource_marked(action.root_id, True, rows.now())

    return write


class _Tree:
    """The rows of a checked tree."""

    def __init__(
        self, top: StackRecord, rows: Mapping[str, Sequence[ResourceRecord]], resources: ResourceFactory
    ) -> None:
        self._top = top
        self._rows = rows
        self._resources = resources

    def is_nested(self, row: ResourceRecord) -> bool:
        return issubclass(self._resources.type_of(row), StackResource)

    def provisional(self) -> list[ResourceRecord]:
        return [row for rows in self._rows.values() for row in rows if is_provisional(row)]

    def services_in_masses(self, since: float) -> frozenset[str]:
        """Return the services of which most objects seem to be gone."""
        checked = [
            row
            for rows in self._rows.values()
            for row in rows
            if row.verb is Verb.CHECK
            and (row.updated_at or 0.0) >= since
            and not self.is_nested(row)
            and self._resources.type_of(row).has("check")
        ]
        absent = Counter(service_of(row.mapped_type) for row in checked if is_provisional(row))
        return in_masses(absent, Counter(service_of(row.mapped_type) for row in checked))

    def taken_back(self, services: frozenset[str]) -> set[str]:
        """Return the ids of the rows whose marks do not stand.

        That of a nested stack's resource stands while one below it does.
        """
        restored = {
            row.id
            for row in self.provisional()
            if not self.is_nested(row) and service_of(row.mapped_type) in services
        }

        def stands(stack_id: str) -> bool:
            found = False
            for row in self._rows.get(stack_id, ()):
                is_nested = is_provisional(row) and self.is_nested(row)
                if is_nested and not stands(row.physical_id or ""):
                    restored.add(row.id)
                found = found or row.id not in restored and (row.verb, row.status) == (Verb.CHECK, Status.FAILED)
            return found

        if restored:
            stands(self._top.id)
        return restored
