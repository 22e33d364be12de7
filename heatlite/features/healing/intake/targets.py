"""Finding of targets: the resource that a report is about."""

from collections.abc import Iterable, Mapping

from msgspec import Struct

from heatlite.features.healing.intake.formats import MIN_PHYSICAL_ID
from heatlite.features.healing.loop.tree import SlotPlace, place_of, read_places, row_at
from heatlite.features.healing.reports import AlertReport
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState, ReportResult
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

FEW = 20
"""Reports up to which no whole tree is read."""


class FoundTarget(Struct, frozen=True):
    """A target, or the reason why there is none."""

    place: SlotPlace | None
    result: ReportResult = ReportResult.UNKNOWN
    detail: str = ""


class ReportTargets:
    """Targets of the reports of one request.

    For few reports the stacks above each target are read, else each tree once.
    """

    def __init__(self, store: Store, project: str, reports: Iterable[AlertReport]) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._project = project
        self._trees: dict[str, Mapping[str, SlotPlace]] = {}
        self._stacks: dict[str, StackRecord | None] = {}
        self._found: dict[tuple[str | None, ...], FoundTarget] = {}
        reports = [*reports]
        wanted = {one.physical_id for one in reports if one.physical_id and len(one.physical_id) >= MIN_PHYSICAL_ID}
        self._objects: dict[str, list[SlotPlace]] = {one: [] for one in wanted}
        self._are_few = len(reports) <= FEW
        if self._are_few:
            for row in store.resources.with_objects(project, sorted(wanted)):
                place = place_of(store, row)
                if place is not None:
                    self._objects[row.physical_id or ""].append(place)
            return
        roots = {root_id for _, root_id in store.resources.objects_of_project(project, sorted(wanted))}
        for root_id in sorted(roots):
            for place in self._places(root_id).values():
                if place.row.physical_id in wanted:
                    self._objects[place.row.physical_id].append(place)

    def find(self, report: AlertReport, marks_member: bool) -> FoundTarget:
        """Return the target of a report. A guess is never made."""
        named = report.physical_id, report.stack, report.resource
        if named not in self._found:
            found = self._by_object(report) if report.physical_id else self._by_slot(report)
            if found.place is not None and marks_member:
                # None: it has just been deleted, and the database shows each statement what others have committed.
                member = self._places(found.place.stacks[0].id).get(found.place.slot.member)
                found = FoundTarget(member, found.result, "" if member else "the member is gone")
            self._found[named] = found
        return self._found[named]

    def _by_object(self, report: AlertReport) -> FoundTarget:
        places = self._objects.get(report.physical_id or "", [])
        if len(places) > 1:
            return FoundTarget(None, ReportResult.AMBIGUOUS, f"{len(places)} resources have the physical id")
        if not places:
            known = self._rows.incidents.of_object(self._project, report.physical_id or "")
            if not known:
                return FoundTarget(None, ReportResult.UNKNOWN, "no resource of the project has the physical id")
            return FoundTarget(self._not_made(known[0]), ReportResult.STALE, "the object has been replaced or deleted")
        if report.stack and report.resource:
            slot = self._by_slot(report).place
            if slot is None or slot.row.id != places[0].row.id:
                return FoundTarget(None, ReportResult.CONTRADICTION, "physical id and stack name different resources")
        return FoundTarget(places[0])

    def _by_slot(self, report: AlertReport) -> FoundTarget:
        if not report.stack or not report.resource:
            return FoundTarget(None, ReportResult.UNMAPPED, "no label names a physical id, or a stack and a resource")
        stack = self._stack(report.stack)
        if stack is None:
            return FoundTarget(None, ReportResult.UNKNOWN, f"there is no stack {report.stack}")
        place = self._at(stack, report.resource.strip("/"))
        if place is None:
            return FoundTarget(None, ReportResult.UNKNOWN, f"stack {report.stack} has no resource {report.resource}")
        return FoundTarget(place)

    def _not_made(self, incident: IncidentRecord) -> SlotPlace | None:
        """Return the slot of an open incident whose failed repair left no object."""
        root = self._store.stacks.get(incident.root_id)
        if root is None or root.deleted_at is not None or incident.state is IncidentState.CLOSED:
            return None
        place = self._at(root, incident.path)
        return None if place is None or place.row.physical_id else place

    def _at(self, stack: StackRecord, path: str) -> SlotPlace | None:
        """Return the place at a path below a stack."""
        if self._are_few:
            row = row_at(self._store, stack, path)
            return None if row is None else place_of(self._store, row)
        return self._places(stack.root_id or stack.id).get(f"{self._prefix(stack)}{path}")

    def _stack(self, name: str) -> StackRecord | None:
        """Return a live stack of the project by its name or id."""
        if name not in self._stacks:
            found = self._store.stacks.by_name(self._project, name) or self._store.stacks.get(name)
            is_ours = found is not None and found.project == self._project and found.deleted_at is None
            self._stacks[name] = found if is_ours else None
        return self._stacks[name]

    def _prefix(self, stack: StackRecord) -> str:
        """Return the path of the resources of a stack below its root."""
        if stack.root_id is None:
            return ""
        holders = (place for place in self._places(stack.root_id).values() if place.nested is not None)
        return next((f"{place.slot.path}/" for place in holders if place.nested and place.nested.id == stack.id), "")

    def _places(self, root_id: str) -> Mapping[str, SlotPlace]:
        if root_id not in self._trees:
            root: StackRecord | None = self._store.stacks.get(root_id)
            self._trees[root_id] = {} if root is None else read_places(self._store, root)
        return self._trees[root_id]
