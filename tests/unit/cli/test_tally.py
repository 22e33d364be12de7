"""Outcomes of resources by their events."""


from heatlite.cli.client import Object
from heatlite.cli.output.tally import Tally, count, sentence, span
from tests.tables import table


@table(
    ("events", "status", "outcomes"),
    [
        ("CREATE_IN_PROGRESS:1 CREATE_COMPLETE:1", "CREATE_COMPLETE", "added"),
        ("UPDATE_IN_PROGRESS:1 UPDATE_COMPLETE:1", "UPDATE_COMPLETE", "updated"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_IN_PROGRESS:1", "CREATE_COMPLETE", "added"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_COMPLETE:1", "CREATE_COMPLETE", "replaced"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_COMPLETE:", "CREATE_COMPLETE", "replaced"),
        ("DELETE_IN_PROGRESS:1 DELETE_COMPLETE:1 CREATE_COMPLETE:2", "CREATE_COMPLETE", "replaced"),
        ("DELETE_IN_PROGRESS: DELETE_COMPLETE: CREATE_COMPLETE:1", "CREATE_COMPLETE", "replaced"),
        ("CREATE_FAILED:1 DELETE_COMPLETE:1 CREATE_COMPLETE:2", "CREATE_COMPLETE", "added"),
        ("CREATE_COMPLETE:3 DELETE_COMPLETE:1 DELETE_COMPLETE:2", "CREATE_COMPLETE", "replaced deleted"),
        ("UPDATE_COMPLETE:2 DELETE_COMPLETE:1", "DELETE_COMPLETE", "updated deleted"),
        ("CREATE_IN_PROGRESS: CREATE_FAILED:", "CREATE_FAILED", "failed"),
        ("CREATE_COMPLETE:2 DELETE_FAILED:1", "DELETE_FAILED", "failed"),
        ("UNLOCK_IN_PROGRESS:1 CHECK_FAILED:1", "CHECK_FAILED", ""),
        ("UNLOCK_IN_PROGRESS:1 UNLOCK_FAILED:1", "UNLOCK_FAILED", "failed"),
        ("UPDATE_FAILED:1 UPDATE_COMPLETE:1", "UPDATE_COMPLETE", "updated"),
        ("UPDATE_IN_PROGRESS:1", "UPDATE_IN_PROGRESS", ""),
        ("CHECK_COMPLETE:1", "CHECK_COMPLETE", ""),
    ],
)
def test_outcome_of_a_resource_that_is_there(events: str, status: str, outcomes: str) -> None:
    course = tally_of(*(f"a {event.replace(':', ' ')}" for event in events.split())).courses["a"]
    assert (course.status, course.outcomes(True, True)) == (status, outcomes.split())


@table(
    ("events", "outcomes"),
    [
        ("DELETE_IN_PROGRESS:1 DELETE_COMPLETE:1", "deleted"),
        ("DELETE_IN_PROGRESS: DELETE_COMPLETE:", "deleted"),
        ("DELETE_COMPLETE:1 DELETE_COMPLETE:2", "deleted deleted"),
        ("CREATE_COMPLETE:1 DELETE_COMPLETE:1", ""),
        ("CREATE_FAILED: DELETE_COMPLETE:", ""),
        ("CREATE_FAILED:1 DELETE_COMPLETE:1", ""),
        ("UPDATE_COMPLETE:1 DELETE_COMPLETE:1", "deleted"),
    ],
)
def test_outcome_of_a_resource_that_is_gone(events: str, outcomes: str) -> None:
    course = tally_of(*(f"a {event.replace(':', ' ')}" for event in events.split())).courses["a"]
    assert course.outcomes(False, True) == outcomes.split()


def tally_of(*events: str) -> Tally:
    """Return the tally of events: name, status, and the id of the object."""
    tally = Tally()
    for name, status, physical_id in ((*event.split(" "), "")[:3] for event in events):
        event = {"resource_name": name, "resource_status": status, "physical_resource_id": physical_id}
        tally.add({**event}, 0.0)
    return tally


def test_counts_name_what_was_kept() -> None:
    tallies = {"s": tally_of("a CREATE_COMPLETE 1", "b DELETE_COMPLETE 2", "c UPDATE_FAILED 3")}
    assert count(tallies, [{}] * 5) == {"added": 1, "deleted": 1, "unchanged": 3, "failed": 1}
    assert sentence(count(tallies, None)) == "1 added, 1 deleted, 1 failed"
    assert sentence({}) == "nothing changed"


def test_what_was_never_made_is_not_kept() -> None:
    tallies = {"s": tally_of("a CREATE_FAILED 1")}
    there: list[Object] = [{"resource_status": "CREATE_FAILED"}, {"resource_status": "INIT_COMPLETE"}]
    assert count(tallies, there) == {"failed": 1}


def test_a_deleted_object_of_a_resource_that_is_there_was_replaced() -> None:
    tallies = {"s": tally_of("a DELETE_COMPLETE 1", "b DELETE_COMPLETE 2")}
    there: Object = {"resource_name": "a", "links": [{"rel": "stack", "href": "http://h/v1/p/stacks/n/s"}]}
    assert count(tallies, [there], is_whole=False) == {"replaced": 1, "deleted": 1}
    assert count(tallies, [there]) == {"deleted": 2, "unchanged": 1}, "an object left over from an earlier operation"


def test_counts_are_of_the_tree() -> None:
    groups = ("same", "grown")
    tree: list[Object] = [{"physical_resource_id": one, "links": [{"rel": "nested"}]} for one in groups]
    tallies = {
        "s": tally_of("same UPDATE_COMPLETE same", "grown UPDATE_COMPLETE grown", "a UPDATE_COMPLETE 1"),
        "grown": tally_of("0 CREATE_COMPLETE 2", "same UPDATE_COMPLETE same"),
    }
    assert count(tallies, [*tree, {}, {}, {}]) == {"added": 1, "updated": 2, "unchanged": 2}


@table(
    ("seconds", "shown"), [(0.42, "0.4 s"), (12.3, "12 s"), (185.0, "3 min 5 s"), (7800.0, "2 h 10 min")]
)
def test_spans(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
