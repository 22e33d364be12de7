"""Changes of the knowledge about the drift of a resource."""

from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.differences import MAX_DIFFERENCES, Difference, Differences
from heatlite.engine.types.differences import judged as judge
from heatlite.features.drift.states import (
    DETECTED,
    ENDED,
    DriftRecord,
    DriftState,
    compared,
    judged,
    top,
    turn,
    unseen,
    updated,
)
from heatlite.template.ignored import Ignored
from tests.tables import table

NEW = DriftRecord("r", "p", "s", "s", DriftState.UNKNOWN)
NAMES = ("/name", "/metadata/a", "/metadata/b", "/rules/-")


def differences(*paths: str) -> Differences:
    return Differences(tuple(Difference(path, 1, 2) for path in paths))


@table(
    "path, name",
    [("/name", "name"), ("/metadata/a/b", "metadata"), ("/a~1b", "a/b"), ("/a~01", "a~1")],
)
def test_the_property_of_a_path(path: str, name: str) -> None:
    assert top(path) == name


def test_a_check_that_could_not_look_ends_nothing() -> None:
    known = compared(NEW, differences("/name"), 1.0)
    later = unseen(unseen(known, 2.0), 3.0)
    assert (later.state, later.since, later.unknown_since) == (DriftState.DRIFTED, 1.0, 2.0)
    assert later.differences == known.differences
    assert unseen(compared(NEW, differences(), 1.0), 2.0).state is DriftState.UNKNOWN


@table(
    "path, was, entries, is_",
    [
        ("/metadata/tier", False, ["/metadata/tier"], True),
        ("/metadata/tier", False, ["/metadata"], True),
        ("/metadata/tier", False, ["*"], True),
        ("/metadata/tier", True, ["/name"], False),
        ("/metadata/tier", True, [], False),
        ("/metadata", True, ["/metadata/tier"], True),  # larger than the entry: only a check can tell
        ("/metadata", False, ["/metadata/tier"], False),
        ("/metadata/******", True, ["/metadata/tier"], True),  # the key is hidden
        ("/metadata/******", False, ["/metadata"], True),
        ("/rules/-", False, ["/rules"], True),
    ],
)
def test_a_definition_judges_what_is_known(path: str, was: bool, entries: list[str], is_: bool) -> None:
    known = Differences((Difference(path, 1, 2, was),), True)
    assert judge(known, Ignored(entries)) == Differences((Difference(path, 1, 2, is_),), True)


def test_another_definition_ends_no_drift_that_may_be_larger() -> None:
    many = differences(*(f"/metadata/{at}" for at in range(MAX_DIFFERENCES)))
    known = compared(NEW, many, 1.0)
    assert judged(known, judge(many, Ignored(["/metadata"])), 2.0) == known
    few = compared(NEW, differences("/name"), 1.0)
    after = judged(unseen(few, 2.0), judge(differences("/name"), Ignored(["*"])), 3.0)
    assert (after.state, after.since, after.number, after.ignored) == (DriftState.UNKNOWN, None, 0, 1)


steps = st.one_of(
    st.sets(st.sampled_from(NAMES)).map(lambda paths: ("check", tuple(sorted(paths)))),
    st.just(("outage", ())),
    st.sets(st.sampled_from(("name", "metadata", "rules"))).map(lambda names: ("update", tuple(sorted(names)))),
)


@given(st.lists(steps, max_size=12))
def test_laws(course: list[tuple[str, tuple[str, ...]]]) -> None:
    """Events alternate, and an outage changes no difference."""
    record: DriftRecord | None = None
    turns = []
    for at, (what, words) in enumerate(course, 1):
        before = record
        if what == "check":
            record = compared(record or NEW, differences(*words), float(at))
            assert [one.path for one in record.differences or ()] == [*words]
            assert (record.checked_at, record.unknown_since) == (at, None)
        elif what == "outage":
            record = unseen(record or NEW, float(at))
            assert record.differences == (before or NEW).differences
            assert record.unknown_since is not None
        elif record is not None:
            record = updated(record, frozenset(words))
        if record is not None:
            assert (record.since is not None) == bool(record.differences)
            assert (record.state is DriftState.DRIFTED) == bool(record.differences)
            assert record.number == len(record.differences or ())
        turns.append(turn(before, record))
    told = [one for one in turns if one is not None]
    assert told == [DETECTED, ENDED] * (len(told) // 2) + [DETECTED] * (len(told) % 2)
