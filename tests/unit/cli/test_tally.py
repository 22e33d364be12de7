"""Outcomes of resources by their events."""

import pytest

from heatlite.cli.output.tally import Tally, sentence, span


@pytest.mark.parametrize(
    ("events", "status", "outcome"),
    [
        ("CREATE_IN_PROGRESS:1 CREATE_COMPLETE:1", "CREATE_COMPLETE", "created"),
        ("UPDATE_IN_PROGRESS:1 UPDATE_COMPLETE:1", "UPDATE_COMPLETE", "updated"),
        ("DELETE_IN_PROGRESS:1 DELETE_COMPLETE:1", "DELETE_COMPLETE", "deleted"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_IN_PROGRESS:1", "CREATE_COMPLETE", "created"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_COMPLETE:1", "CREATE_COMPLETE", "replaced"),
        ("DELETE_IN_PROGRESS:1 DELETE_COMPLETE:1 CREATE_COMPLETE:2", "CREATE_COMPLETE", "replaced"),
        ("CREATE_IN_PROGRESS: CREATE_FAILED:", "CREATE_FAILED", "failed"),
        ("CREATE_COMPLETE:2 DELETE_FAILED:1", "DELETE_FAILED", "failed"),
        ("UPDATE_FAILED:1 UPDATE_COMPLETE:1", "UPDATE_COMPLETE", "updated"),
        ("UPDATE_IN_PROGRESS:1", "UPDATE_IN_PROGRESS", ""),
        ("CHECK_COMPLETE:1", "CHECK_COMPLETE", ""),
    ],
)
def test_outcome_of_a_resource(events: str, status: str, outcome: str) -> None:
    tally = Tally()
    for event in events.split():
        name, _, physical_id = event.partition(":")
        tally.add({"resource_name": "a", "resource_status": name, "physical_resource_id": physical_id}, 0.0)
    course = tally.courses["a"]
    assert (course.status, course.outcome) == (status, outcome)


def test_counts_name_what_was_kept() -> None:
    tally = Tally()
    for name, status in (("a", "CREATE_COMPLETE"), ("b", "DELETE_COMPLETE"), ("c", "UPDATE_FAILED")):
        tally.add({"resource_name": name, "resource_status": status}, 0.0)
    assert tally.counts(total=5) == {"created": 1, "deleted": 1, "kept": 3, "failed": 1}
    assert sentence(tally.counts()) == "1 created, 1 deleted, 1 failed"
    assert sentence({}) == "nothing changed"


@pytest.mark.parametrize(
    ("seconds", "shown"), [(0.42, "0.4 s"), (12.3, "12 s"), (185.0, "3 min 5 s"), (7800.0, "2 h 10 min")]
)
def test_spans(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
