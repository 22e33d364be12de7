"""The law of groups."""

from dataclasses import dataclass, field
from itertools import count

from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.group_sizes import adjusted, within
from heatlite.core.json import Json, JsonMap
from heatlite.resources.heat.groups import members as law
from heatlite.resources.heat.groups.rolling import Batch, Rolling, members_after
from tests.tables import table

SIZES = st.integers(0, 12)


@given(SIZES, SIZES, st.integers(1, 12), SIZES)
def test_batches_bring_everybody_the_new_definition(target: int, current: int, most: int, in_service: int) -> None:
    present: list[tuple[str, Json]] = [(str(number), "old") for number in range(current)]
    names = map(str, count(current))
    steps = list(Rolling(most, in_service, 0).batches(target, current))
    # Each step brings one member at least on its way, and one more may be needed to shrink again.
    assert len(steps) <= 2 * max(target, current) + 1
    for step in steps:
        assert step.size >= min(in_service, target, len(present))
        assert step.size <= max(target, current) + most
        after = members_after(present, step, lambda: next(names), lambda _: "new")
        fresh = [name for name, new in after.items() if dict(present).get(name) != new]
        assert len(fresh) <= most
        # Those with the old definition go first.
        present = sorted(after.items(), key=lambda item: item[1] == "new")
    if steps:
        assert [new for _, new in present] == ["new"] * target
    else:
        assert (target, current) == (0, 0)


@given(SIZES, st.integers(1, 12), SIZES)
def test_as_many_as_shall_stay_in_service_do(size: int, most: int, in_service: int) -> None:
    present: list[tuple[str, Json]] = [(str(number), "old") for number in range(size)]
    names = map(str, count(size))
    for step in Rolling(most, in_service, 0).batches(size, size):
        after = members_after(present, step, lambda: next(names), lambda _: "new")
        untouched = [name for name, old in present if after.get(name) == old]
        assert len(untouched) >= min(in_service, size)
        present = sorted(after.items(), key=lambda item: item[1] == "new")


@table(
    ("target", "current", "most", "in_service", "steps"),
    [
        (3, 3, 1, 0, [(3, 1), (3, 1), (3, 1)]),
        (3, 3, 2, 2, [(4, 2), (4, 2), (3, 0)]),
        (3, 3, 1, 3, [(4, 1), (4, 1), (4, 1), (4, 1), (3, 0)]),
        (5, 0, 2, 0, [(2, 2), (4, 2), (5, 1)]),
        (2, 4, 2, 0, [(2, 2)]),
        (0, 3, 1, 0, [(0, 0)]),
        (0, 0, 1, 0, []),
    ],
)
def test_batches(target: int, current: int, most: int, in_service: int, steps: list[tuple[int, int]]) -> None:
    assert list(Rolling(most, in_service, 0).batches(target, current)) == [Batch(size, fresh) for size, fresh in steps]


@given(SIZES, SIZES)
def test_a_resize_changes_no_definition(current: int, size: int) -> None:
    present: list[tuple[str, Json]] = [(str(number), f"old {number}") for number in range(current)]
    names = map(str, count(current))
    after = members_after(present, Batch(size, 0), lambda: next(names), lambda _: "new")
    stayed = dict(present[max(current - size, 0) :])
    assert after == stayed | {str(current + number): "new" for number in range(size - current)}


@given(SIZES, st.sets(SIZES.map(str)))
def test_numbered_members_skip_what_was_removed(size: int, removed: set[str]) -> None:
    names = law.numbered(size, removed)
    assert len(names) == size
    assert not removed & set(names)
    assert names == sorted(names, key=int)
    between = set(map(str, range(int(names[-1])))) if names else set()
    assert between <= removed | set(names)


TEXTS = st.sampled_from(["0", "1", "2", "ref-0", "ref-1", "zz"])


@given(st.lists(TEXTS), st.booleans(), st.dictionaries(st.sampled_from(["0", "5"]), TEXTS))
def test_what_was_removed_stays_so_however_often_it_is_asked(wanted: list[str], afresh: bool, kept: JsonMap) -> None:
    named = {"ref-0": "0", "ref-1": "1"}
    once = law.removed_names(kept, wanted, {"0", "1", "2"}, named.get, afresh)
    assert afresh or kept.items() <= once.items()
    assert once.keys() <= kept.keys() | {"0", "1", "2"}
    # Even when the members are gone, so that their references mean nothing any more.
    assert law.removed_names(once, wanted, (), {}.get, afresh) == once


def test_removal_by_name_reference_and_number() -> None:
    named = {"ref": "2"}
    assert law.removed_names({}, ["0", "ref", 1, "zz"], {"0", "1", "2"}, named.get, False).keys() == {"0", "1", "2"}
    assert law.removed_names({"0": "0"}, ["1"], {"1", "2"}, named.get, True).keys() == {"1"}
    assert law.removed_names({"0": "0"}, ["1"], {"1", "2"}, named.get, False).keys() == {"0", "1"}


@dataclass
class Row:
    name: str
    status: str = "COMPLETE"
    created_at: float = 0.0
    action: str = "CREATE"
    attributes: JsonMap = field(default_factory=dict)

    def reference(self) -> Json:
        return f"ref-{self.name}"

    def attribute(self, name: str, path: object = ()) -> Json:
        return self.attributes[name]


def test_the_failed_go_first_then_the_oldest_then_by_name() -> None:
    rows = [Row("d", created_at=1), Row("c", created_at=2), Row("b", created_at=2), Row("a", "FAILED", 9)]
    assert law.oldest_first(["a", "b", "c", "d", "new"], rows) == ["new", "a", "d", "b", "c"]


def test_numbered_members_change_from_the_highest_down() -> None:
    assert law.highest_first(["0", "1", "2", "3", "9"], ["0", "1", "2", "3"], 3) == ["9", "2", "1", "0", "3"]


@table(
    ("current", "adjustment", "kind", "least", "size"),
    [
        (3, 1, "change_in_capacity", None, 4),
        (3, -5, "change_in_capacity", None, 1),
        (3, 50, "change_in_capacity", None, 10),
        (3, 5, "exact_capacity", None, 5),
        (3, 0, "exact_capacity", None, 1),
        (3, 50, "percent_change_in_capacity", None, 4),
        (3, -50, "percent_change_in_capacity", None, 2),
        (9, 50, "percent_change_in_capacity", None, 10),
        (4, 10, "percent_change_in_capacity", None, 5),
        (4, -10, "percent_change_in_capacity", None, 3),
        (4, 10, "percent_change_in_capacity", 2, 6),
        (4, -10, "percent_change_in_capacity", 2, 2),
        (4, 75, "percent_change_in_capacity", 2, 7),
        (4, 0, "percent_change_in_capacity", 2, 4),
    ],
)
def test_adjustments(current: int, adjustment: float, kind: str, least: int | None, size: int) -> None:
    assert within(adjusted(current, adjustment, kind, least), 1, 10) == size


VALUES: st.SearchStrategy[Json] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text("%i", max_size=5) | st.just("a %i% b"),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("%i", max_size=3), inner, max_size=3),
    max_leaves=8,
)


@given(VALUES)
def test_the_index_stands_in_texts_and_never_in_keys(value: Json) -> None:
    replaced = law.with_index(value, "%i%", "7")
    assert (replaced == value) == (not law.mentions(value, "%i%"))
    assert not law.mentions(replaced, "%i%")
    assert keys(replaced) == keys(value)


def keys(value: Json) -> list[object]:
    if isinstance(value, dict):
        return [list(value), *map(keys, value.values())]
    return list(map(keys, value)) if isinstance(value, list) else []
