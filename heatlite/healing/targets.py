"""Finding of targets: the resource that a report is about."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from heatlite.core.healing import ReportResult
from heatlite.healing.formats import MIN_PHYSICAL_ID
from heatlite.healing.reports import Report
from heatlite.healing.tree import Place, read_places
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


@dataclass(frozen=True, slots=True)
class Found:
    """A target, or the reason why there is none."""

    place: Place | None
    result: ReportResult = ReportResult.UNKNOWN
    detail: str = ""


class Targets:
    """Targets of the reports of one request. Each tree is read once."""

    def __init__(self, store: Store, project: str, reports: Iterable[Report]) -> None:
        self._store = store
        self._project = project
        self._trees: dict[str, Mapping[str, Place]] = {}
        wanted = {one.physical_id for one in reports if one.physical_id and len(one.physical_id) >= MIN_PHYSICAL_ID}
        self._objects: dict[str, list[Place]] = {one: [] for one in wanted}
        for row_id, root_id in store.resources.objects_of_project(project, sorted(wanted)):
            for place in self._places(root_id).values():
                if place.row.id == row_id:
                    self._objects[place.row.physical_id or ""].append(place)

    def find(self, report: Report, marks_member: bool) -> Found:
        """Return the target of a report. A guess is never made."""
        found = self._by_object(report) if report.physical_id else self._by_slot(report)
        if found.place is None or not marks_member:
            return found
        member = self._places(found.place.stacks[0].id)[found.place.slot.member]
        return Found(member)

    def _by_object(self, report: Report) -> Found:
        places = self._objects.get(report.physical_id or "", [])
        if len(places) > 1:
            return Found(None, ReportResult.AMBIGUOUS, f"{len(places)} resources have the physical id")
        if not places:
            if self._store.incidents.of_object(self._project, report.physical_id or ""):
                return Found(None, ReportResult.STALE, "the object has been replaced or deleted")
            return Found(None, ReportResult.UNKNOWN, "no resource of the project has the physical id")
        if report.stack and report.resource:
            slot = self._by_slot(report).place
            if slot is None or slot.row.id != places[0].row.id:
                return Found(None, ReportResult.CONTRADICTION, "physical id and stack name different resources")
        return Found(places[0])

    def _by_slot(self, report: Report) -> Found:
        if not report.stack or not report.resource:
            return Found(None, ReportResult.UNMAPPED, "no label names a physical id, or a stack and a resource")
        stack = self._store.stacks.by_name(self._project, report.stack) or self._store.stacks.get(report.stack)
        if stack is None or stack.project != self._project or stack.deleted_at is not None:
            return Found(None, ReportResult.UNKNOWN, f"there is no stack {report.stack}")
        root_id = stack.root_id or stack.id
        for place in self._places(root_id).values():
            ids = [one.id for one in place.stacks]
            below = ids[ids.index(stack.id) :] if stack.id in ids else []
            if below and place.slot.path.split("/")[-len(below) :] == report.resource.strip("/").split("/"):
                return Found(place) if place.row.physical_id else Found(None, detail="the resource has no object")
        return Found(None, ReportResult.UNKNOWN, f"stack {report.stack} has no resource {report.resource}")

    def _places(self, root_id: str) -> Mapping[str, Place]:
        if root_id not in self._trees:
            root: StackRecord | None = self._store.stacks.get(root_id)
            self._trees[root_id] = {} if root is None else read_places(self._store, root)
        return self._trees[root_id]
