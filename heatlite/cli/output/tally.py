"""Course of an operation by its events: state and outcome of each resource."""

from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec import Struct

from heatlite.cli.client import Object, objects, text
from heatlite.core.actions.check_tally import COULD_NOT_LOOK
from heatlite.core.actions.payloads import RETAINED

OUTCOMES = ("created", "updated", "replaced", "deleted", "kept", "failed", "unknown")
"""Outcomes of resources, in the order of the summary."""


class Course(Struct):
    """The course of one resource within an operation."""

    status: str = ""
    reason: str = ""
    physical_id: str = ""
    began: float = 0.0
    statuses: set[str] = set()

    @property
    def running(self) -> bool:
        """True during a step of the resource."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def outcome(self) -> str:
        """One of OUTCOMES, or an empty text if no step has ended."""
        if self.status.endswith("_FAILED"):
            if "UNLOCK_IN_PROGRESS" in self.statuses and self.status != "UNLOCK_FAILED":
                return ""  # it failed before the lock
            return "unknown" if self.reason.startswith(COULD_NOT_LOOK) else "failed"
        if self.reason == RETAINED:
            return "kept"
        if {"CREATE_COMPLETE", "DELETE_COMPLETE"} <= self.statuses:
            return "replaced"
        verbs = {"CREATE_COMPLETE": "created", "UPDATE_COMPLETE": "updated", "DELETE_COMPLETE": "deleted"}
        return next((word for status, word in verbs.items() if status in self.statuses), "")


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
        if physical_id or status != "DELETE_COMPLETE":  # a failed creation may have left no object to delete
            course.statuses.add(status)
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


def count(tallies: Mapping[str, Tally], resources: Sequence[Object] | None) -> dict[str, int]:
    """Count the outcomes that occurred in a tree.

    `tallies` has one tally for the id of each stack. `resources` are those at the end: what no event changed was kept.
    A resource with a nested stack counts as updated only if something in it changed: it also reports a comparison.
    A deletion of a resource that is there was of its predecessor, which an interrupted operation had replaced before.
    """
    resources = None if resources is None else [item for item in resources if not item.get("is_old")]
    kept = {(stack_id_of(item), text(item.get("resource_name")).rpartition("/")[2]) for item in resources or ()}
    nested = {text(item.get("physical_resource_id")) for item in resources or () if _has_stack(item)}

    def outcomes(stack_id: str) -> list[str]:
        tally = tallies.get(stack_id)
        found = () if tally is None else tally.courses.items()
        return [word for name, course in found if (word := outcome(course, (stack_id, name) in kept))]

    def outcome(course: Course, is_there: bool) -> str:
        word = course.outcome
        if word == "deleted" and is_there:
            return "replaced"
        return "" if word == "updated" and course.physical_id in nested and not outcomes(course.physical_id) else word

    found = Counter(word for stack_id in tallies for word in outcomes(stack_id))
    if resources is not None:
        counted = sum(found[word] for word in OUTCOMES if word not in ("deleted", "kept"))
        made = sum(item.get("resource_status") != "INIT_COMPLETE" for item in resources)
        found["kept"] += max(made - counted, 0)
    return {word: found[word] for word in OUTCOMES if found[word]}


def _has_stack(resource: Object) -> bool:
    links = objects({**resource}, "links") if resource.get("links") else ()
    return any(link.get("rel") == "nested" for link in links)


def _of_predecessor(course: Course, status: str, physical_id: str) -> bool:
    """Return True for the deletion of an object that the resource has replaced."""
    replaced = "CREATE_COMPLETE" in course.statuses and physical_id != course.physical_id
    return replaced and status in ("DELETE_IN_PROGRESS", "DELETE_COMPLETE")


def sentence(counts: Mapping[str, int]) -> str:
    """Return ``2 created, 1 replaced``."""
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
