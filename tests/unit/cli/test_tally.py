"""Outcomes of resources by their events."""


from heatlite.cli.client import Object
from heatlite.cli.output.tally import Tally, count, sentence, span
from tests.tables import table


@table(
    ("events", "status", "outcome"),
    [
        ("CREATE_IN_PROGRESS:1 CREATE_COMPLETE:1", "CREATE_COMPLETE", "created"),
        ("UPDATE_IN_PROGRESS:1 UPDATE_COMPLETE:1", "UPDATE_COMPLETE", "updated"),
        ("DELETE_IN_PROGRESS:1 DELETE_COMPLETE:1", "DELETE_COMPLETE", "deleted"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_IN_PROGRESS:1", "CREATE_COMPLETE", "created"),
        ("CREATE_IN_PROGRESS: CREATE_COMPLETE:2 DELETE_COMPLETE:1", "CREATE_COMPLETE", "replaced"),
        ("DELETE_IN_PROGRESS:1 DELETE_COMPLETE:1 CREATE_COMPLETE:2", "CREATE_COMPLETE", "replaced"),
        ("DELETE_IN_PROGRESS: DELETE_COMPLETE: CREATE_COMPLETE:1", "CREATE_COMPLETE", "created"),
        ("DELETE_IN_PROGRESS: DELETE_COMPLETE:", "DELETE_COMPLETE", ""),
        ("CREATE_IN_PROGRESS: CREATE_FAILED:", "CREATE_FAILED", "failed"),
        ("CREATE_COMPLETE:2 DELETE_FAILED:1", "DELETE_FAILED", "failed"),
        ("UNLOCK_IN_PROGRESS:1 CHECK_FAILED:1", "CHECK_FAILED", ""),
        ("UNLOCK_IN_PROGRESS:1 UNLOCK_FAILED:1", "UNLOCK_FAILED", "failed"),
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


def tally_of(*events: str) -> Tally:
    """Return the tally of events: name, status, and the id of the object."""
    tally = Tally()
    for name, status, physical_id in map(str.split, events):
        event = {"resource_name": name, "resource_status": status, "physical_resource_id": physical_id}
        tally.add({**event}, 0.0)
    return tally


def test_counts_name_what_was_kept() -> None:
    tallies = {"s": tally_of("a CREATE_COMPLETE 1", "b DELETE_COMPLETE 2", "c UPDATE_FAILED 3")}
    assert count(tallies, [{}] * 5) == {"created": 1, "deleted": 1, "kept": 3, "failed": 1}
    assert sentence(count(tallies, None)) == "1 created, 1 deleted, 1 failed"
    assert sentence({}) == "nothing changed"


def test_what_was_never_made_is_not_kept() -> None:
    tallies = {"s": tally_of("a CREATE_FAILED 1")}
    there: list[Object] = [{"resource_status": "CREATE_FAILED"}, {"resource_status": "INIT_COMPLETE"}]
    assert count(tallies, there) == {"failed": 1}


def test_a_deleted_object_of_a_resource_that_is_there_was_replaced() -> None:
    tallies = {"s": tally_of("a DELETE_COMPLETE 1", "b DELETE_COMPLETE 2")}
    there: Object = {"resource_name": "a", "links": [{"rel": "stack", "href": "http://h/v1/p/stacks/n/s"}]}
    assert count(tallies, [there]) == {"replaced": 1, "deleted": 1}


def test_counts_are_of_the_tree() -> None:
    groups = ("same", "grown")
    tree: list[Object] = [{"physical_resource_id": one, "links": [{"rel": "nested"}]} for one in groups]
    tallies = {
        "s": tally_of("same UPDATE_COMPLETE same", "grown UPDATE_COMPLETE grown", "a UPDATE_COMPLETE 1"),
        "grown": tally_of("0 CREATE_COMPLETE 2", "same UPDATE_COMPLETE same"),
    }
    assert count(tallies, [*tree, {}, {}, {}]) == {"created": 1, "updated": 2, "kept": 2}


@table(
    ("seconds", "shown"), [(0.42, "0.4 s"), (12.3, "12 s"), (185.0, "3 min 5 s"), (7800.0, "2 h 10 min")]
)
def test_spans(seconds: float, shown: str) -> None:
    assert span(seconds) == shown
