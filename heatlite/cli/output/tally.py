"""Course of an operation by its events: state and outcome of each resource."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from heatlite.cli.client import Object, objects, text
from heatlite.core.actions.check_tally import COULD_NOT_LOOK
from heatlite.core.actions.payloads import RETAINED

OUTCOMES = ("added", "updated", "replaced", "deleted", "unchanged", "retained", "failed", "unknown")
"""Outcomes of resources in the words of plans, in the order of the summary."""


class Course(Struct):
    """The course of one resource within an operation."""

    status: str = ""
    reason: str = ""
    physical_id: str = ""
    began: float = 0.0
    statuses: set[str] = set()
    made: set[str] = set()
    """Ids of the objects that were made, and of those whose creation failed."""
    gone: set[str] = set()
    """Ids of the deleted objects. That of one which was never made is an empty text."""

    @property
    def running(self) -> bool:
        """True during a step of the resource."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def is_replaced(self) -> bool:
        """True if it has another object than before."""
        return bool(self.made - self.gone and self.gone - self.made)

    def outcomes(self, is_there: bool, is_whole: bool) -> list[str]:
        """Return one of OUTCOMES for each object that changed.

        `is_there`: the resource is there at the end. `is_whole`: the operation was seen from its beginning. Else the
        deletion of a resource that is there was of its predecessor, which the operation had replaced before.
        """
        if self.status.endswith("_FAILED"):
            if "UNLOCK_IN_PROGRESS" in self.statuses and self.status != "UNLOCK_FAILED":
                return []  # it failed before the lock
            return ["unknown" if self.reason.startswith(COULD_NOT_LOOK) else "failed"]
        if self.reason == RETAINED:
            return ["retained"]
        removed = len(self.gone - self.made)
        if removed and is_there and (self.made or not is_whole):
            return ["replaced"] + ["deleted"] * (removed - 1)
        if self.made - self.gone:
            return ["added"]
        is_updated = "UPDATE_COMPLETE" in self.statuses and (is_there or not removed)
        return ["updated"] * is_updated + ["deleted"] * removed


class Tally:
    """Records the events of resources."""

    def __init__(self) -> None:
        self.courses: dict[str, Course] = {}
        """Names → courses, in the order of their first events."""

    def add(self, event: Object, now: float) -> None:
        """Record an event that is seen at the time `now` (monotonic)."""
        status, physical_id = text(event.get("resource_status")), text(event.get("physical_resource_id"))
        if status.startswith("NODE_ACTION_"):
            return
        course = self.courses.setdefault(text(event.get("resource_name")), Course(began=now))
        course.statuses.add(status)
        if status == "CREATE_COMPLETE":
            course.made.add(physical_id or status)
        elif status == "CREATE_FAILED":
            course.made.add(physical_id)
        elif status == "DELETE_COMPLETE":
            course.gone.add(physical_id)
        if _of_predecessor(course, status, physical_id):
            return
        if status.endswith("_IN_PROGRESS") and not course.running:
            course.began = now
        course.status, course.reason = status, text(event.get("resource_status_reason"))
        course.physical_id = physical_id or course.physical_id


def stack_id_of(item: Object) -> str:
    """Return the id of the stack of an event or a resource; empty if unknown."""
    for one in objects({**item}, "links") if item.get("links") else ():
        if one.get("rel") == "stack":
            return text(one.get("href")).rpartition("/")[2]
    return ""


def count(tallies: Mapping[str, Tally], resources: Sequence[Object] | None, is_whole: bool = True) -> dict[str, int]:
    """Count the outcomes that occurred in a tree.

    `tallies` has one tally for the id of each stack. `resources` are those at the end; None: the stack is gone, and
    what was never made does not count. A resource with a nested stack counts as updated only if something in it
    changed: it also reports a comparison. `is_whole` as in `Course.outcomes`.
    """
    rows = [item for item in resources or () if not item.get("is_old")]
    there = {(stack_id_of(item), text(item.get("resource_name")).rpartition("/")[2]) for item in rows}
    nested = {text(item.get("physical_resource_id")) for item in rows if _has_stack(item)}

    def outcomes(stack_id: str) -> list[str]:
        tally = tallies.get(stack_id)
        found = () if tally is None else tally.courses.items()
        return [word for name, course in found for word in outcomes_of(course, (stack_id, name) in there)]

    def outcomes_of(course: Course, is_there: bool) -> list[str]:
        if resources is None:
            course.gone.discard("")
        words = course.outcomes(is_there, is_whole)
        if words == ["updated"] and course.physical_id in nested and not outcomes(course.physical_id):
            return []
        return words

    found = Counter(word for stack_id in tallies for word in outcomes(stack_id))
    counted = sum(found[word] for word in OUTCOMES if word not in ("deleted", "retained"))
    made = sum(item.get("resource_status") != "INIT_COMPLETE" for item in rows)
    found["unchanged"] += max(made - counted, 0)
    return {word: found[word] for word in OUTCOMES if found[word]}


def _has_stack(resource: Object) -> bool:
    links = objects({**resource}, "links") if resource.get("links") else ()
    return any(link.get("rel") == "nested" for link in links)


def _of_predecessor(course: Course, status: str, physical_id: str) -> bool:
    """Return True for the deletion of an object that the resource has replaced."""
    replaced = "CREATE_COMPLETE" in course.statuses and physical_id != course.physical_id
    return replaced and status in ("DELETE_IN_PROGRESS", "DELETE_COMPLETE")


def sentence(counts: Mapping[str, int]) -> str:
    """Return ``2 added, 1 replaced``."""
    return ", ".join(f"{count} {word}" for word, count in counts.items()) or "nothing changed"


def span(seconds: float) -> str:
    """Return a duration: ``0.4 s``, ``12 s``, ``3 min 5 s``, ``2 h 10 min``."""
    if seconds < 10:
        return f"{seconds:.1f} s"
    whole = round(seconds)
    if whole < 60:
        return f"{whole} s"
    if whole < 3600:
        return f"{whole // 60} min {whole % 60} s"
    return f"{whole // 3600} h {whole % 3600 // 60} min"
