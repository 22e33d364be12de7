"""The chain of policies: what each decides, and in which order."""

from collections import Counter
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import HTTPBadRequest
from heatlite.engine.planning.group_policies import StoredPolicy, decide, policy
from heatlite.plugin.groups import Decisions, MemberFacts
from tests.tables import table

EXAMPLE = Path(__file__).parents[3] / "example_plugin"


def stored(kind: str, priority: int | None = None, enabled: bool = True, **options: Any) -> StoredPolicy:
    usual = {"zone_placement": 300, "deletion": 400}
    return StoredPolicy(kind, usual.get(kind, 0) if priority is None else priority, enabled, options, "mia", 0.0)


def zones(**weights: int) -> StoredPolicy:
    return stored("zone_placement", zones=[{"name": name, "weight": weight} for name, weight in weights.items()])


def members(places: str) -> list[MemberFacts]:
    """Return members by the letters of their zones, the oldest first.

    A capital stands for a failed one, ``-`` for one in no zone.
    """
    return [
        MemberFacts(str(at), f"id{at}", float(at), failed=zone.isupper(), zone=zone.lower().strip("-"))
        for at, zone in enumerate(places)
    ]


def decided(places: str, policies: dict[str, StoredPolicy], **change: Any) -> Decisions:
    return decide(Decisions("resize", members(places), **change), policies, Random(1))


@table(
    ("places", "weights", "count", "expected"),
    [
        ("", {"a": 100, "b": 100}, 4, "abab"),
        ("aa", {"a": 100, "b": 100}, 3, "bba"),
        ("", {"a": 300, "b": 100}, 4, "aaab"),
        ("ab", {"a": 100, "b": 100, "c": 100}, 1, "c"),
        ("--", {"a": 100}, 1, "a"),
    ],
)
def test_where_the_next_is_made(places: str, weights: dict[str, int], count: int, expected: str) -> None:
    assert Counter(decided(places, {"z": zones(**weights)}, creation=count).zones) == Counter(expected)


@table(
    ("places", "count", "policies", "leaving"),
    [
        ("aaab", 1, {"z": zones(a=100, b=100)}, "0"),
        ("aaab", 2, {"z": zones(a=100, b=100)}, "01"),
        ("abab", 2, {"z": zones(a=100, b=100)}, "01"),
        ("abx", 1, {"z": zones(a=100, b=100)}, "2"),
        ("aab", 1, {"z": zones(a=300, b=100)}, "2"),
        ("aaaB", 1, {"z": zones(a=100, b=100)}, "3"),
        ("aaab", 1, {"z": zones(a=100, b=100), "d": stored("deletion", criteria="YOUNGEST_FIRST")}, "2"),
        ("aaab", 2, {"d": stored("deletion", criteria="YOUNGEST_FIRST")}, "32"),
        ("aaab", 2, {"d": stored("deletion", enabled=False, criteria="YOUNGEST_FIRST")}, "01"),
        ("aaab", 1, {"z": zones(a=100, b=100), "d": stored("deletion", 200, criteria="YOUNGEST_FIRST")}, "3"),
        ("aaab", 2, {}, "01"),
    ],
)
def test_who_leaves(places: str, count: int, policies: dict[str, StoredPolicy], leaving: str) -> None:
    assert "".join(decided(places, policies, deletion=count).candidates) == leaving


def test_a_request_goes_before_a_policy() -> None:
    policies = {"d": stored("deletion", criteria="YOUNGEST_FIRST", grace_period=60)}
    found = decided("aab", policies, deletion=1)
    assert (found.candidates, found.criteria, found.grace_period) == (("2",), "YOUNGEST_FIRST", 60)
    found = decided("aab", policies, deletion=1, criteria="OLDEST_FIRST", grace_period=0)
    assert (found.candidates, found.criteria, found.grace_period) == (("0",), "OLDEST_FIRST", 0)
    found = decided("aab", policies, deletion=1, candidates=("1",))
    assert (found.candidates, found.grace_period) == (("1",), 60)


@given(st.text("abcABC-", max_size=12), st.integers(0, 12), st.integers(0, 12), st.integers(0, 3))
def test_whatever_the_group_is(places: str, creation: int, deletion: int, seed: int) -> None:
    """Failed ones leave first, and zones get their shares."""
    deletion = min(deletion, len(places))
    policies = {"z": zones(a=100, b=100, c=100), "d": stored("deletion", criteria="RANDOM")}
    asked = Decisions("resize", members(places), creation, deletion)
    found = decide(asked, policies, Random(seed))
    assert len(set(found.candidates)) == deletion and len(found.zones) == creation
    failed = {one.name for one in asked.members if one.failed}
    assert failed <= {*found.candidates} if deletion >= len(failed) else {*found.candidates} <= failed
    after = Counter(found.zones) + Counter(one.zone for one in found.remaining)
    if creation >= 3 * len(places):
        sizes = [after[zone] for zone in "abc"]
        assert max(sizes) - min(sizes) <= 1


@pytest.fixture
def _example(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package with the type `spare`."""
    monkeypatch.syspath_prepend(str(EXAMPLE))


@pytest.mark.usefixtures("_example")
def test_a_policy_of_another_package_decides_in_its_turn() -> None:
    spare = stored("spare", 350, member="0")
    found = decided("aab", {"s": spare}, deletion=1)
    assert (found.candidates, found.further) == (("1",), {"spare": {"member": "0"}})
    found = decided("aab", {"s": spare, "d": stored("deletion")}, deletion=1)
    assert found.candidates == ("0",), "the later one has the last word"


def test_a_policy_whose_package_is_gone_decides_nothing() -> None:
    assert policy(stored("gone")) is None
    assert decided("aab", {"r": stored("gone")}, deletion=1).candidates == ("0",)


@table(
    ("one", "faults"),
    [
        (stored("deletion", criteria="BEST", grace_period=-1), ["criteria", "grace_period"]),
        (stored("zone_placement", zones=[]), ["zones"]),
        (stored("zone_placement", zones=[{"name": "a", "weight": 0}], more=1), ["weight", "more"]),
    ],
)
def test_bad_options(one: StoredPolicy, faults: list[str]) -> None:
    with pytest.raises(HTTPBadRequest) as refused:
        policy(one)
    assert any(fault in refused.value.message for fault in faults)
