"""The parts of properties that differ from those of the object."""

import sys
from typing import Any

import pytest
from msgspec import UNSET

from heatlite.core.differences import MAX_DIFFERENCES, MAX_VALUE
from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import Mask, hiding
from heatlite.engine.types.differences import compare, ignored_parts, shown, with_live, with_stored
from heatlite.plugin import Schema, prop
from heatlite.template.ignored import Ignored
from tests.tables import table


class Rule(Schema):
    port: int = prop(doc="A port.")
    way: str = prop("in", doc="A way.")


class Thing(Schema):
    name: str | None = prop(doc="A name.")
    size: int = prop(1, doc="A size.")
    tags: list[str] | None = prop(doc="Tags.")
    rules: list[Rule] | None = prop(doc="Rules.")
    rule: Rule | None = prop(doc="A rule.")
    metadata: Json = prop(doc="Anything.")
    token: str | None = prop(secret=True, doc="A secret.")


def parts(stored: JsonMap, live: JsonMap) -> list[tuple[Any, ...]]:
    """Each difference as its path and the sides that it has."""
    found = shown(compare(Thing, stored, live, Ignored())).found
    return [(one.path, *({"stored": one.stored, "live": one.live}[side] for side in sides(one))) for one in found]


def sides(one: Any) -> list[str]:
    return [side for side in ("stored", "live") if getattr(one, side) is not UNSET]


@table(
    "stored, live, expected",
    [
        ({"name": "a"}, {"name": "a"}, []),
        ({"name": "a"}, {"name": "b"}, [("/name", "a", "b")]),
        ({"size": 1}, {}, []),  # the default
        ({"name": "a", "size": 3}, {"name": "b"}, [("/name", "a", "b"), ("/size", 3, 1)]),
        ({"metadata": {"x": 1, "y": 2}}, {"metadata": {"x": 1, "y": 3}}, [("/metadata/y", 2, 3)]),
        ({"metadata": {"x": 1}}, {"metadata": {}}, [("/metadata/x", 1)]),
        ({"metadata": {"x": {"y": 1}}}, {"metadata": {"x": {"y": 2}}}, [("/metadata/x/y", 1, 2)]),
        ({"metadata": {"a/b": 1}}, {"metadata": {"a/b": 2}}, [("/metadata/a~1b", 1, 2)]),
        ({"metadata": {"a": True}}, {"metadata": {"a": 1}}, [("/metadata/a", True, 1)]),
        ({"metadata": {"a": [1]}}, {"metadata": {"a": 5}}, [("/metadata/a", [1], 5)]),
        ({"tags": ["a", "b"]}, {"tags": ["a"]}, [("/tags/1", "b")]),
        ({"tags": ["a"]}, {"tags": ["c", "a", "b"]}, [("/tags/-", "c"), ("/tags/-", "b")]),
        ({"tags": ["a", "b"]}, {"tags": ["a", "c"]}, [("/tags/1", "b", "c")]),
        ({"tags": ["a", "b"]}, {"tags": ["b", "a"]}, [("/tags", ["a", "b"], ["b", "a"])]),
        ({"tags": ["a", "a"]}, {"tags": ["a"]}, [("/tags/1", "a")]),
        ({"rules": [{"port": 1}]}, {"rules": [{"port": 1, "way": "in"}]}, []),
        ({"rules": [{"port": 1}]}, {"rules": []}, [("/rules/0", {"port": 1})]),
        (
            {"rules": [{"port": 1}, {"port": 2}]},
            {"rules": [{"port": 2}, {"port": 3}]},
            [("/rules/0", {"port": 1}, {"port": 3})],
        ),
        ({"rule": {"port": 1}}, {"rule": {"port": 1, "way": "out"}}, [("/rule/way", "in", "out")]),
        ({"rule": {"port": 1}}, {}, [("/rule", {"port": 1})]),
    ],
)
def test_parts(stored: JsonMap, live: JsonMap, expected: list[tuple[Any, ...]]) -> None:
    given = [(path, *rest) for path, *rest in parts(stored, live)]
    if expected and expected[0][0] == "/tags/-":
        assert sides(shown(compare(Thing, stored, live, Ignored())).found[0]) == ["live"]
    assert given == expected


@table(
    "stored, live, expected",
    [
        ({"name": "hunter2"}, {"name": "other"}, [("/name", "******", "******")]),
        ({"name": "other"}, {"name": "with hunter2"}, [("/name", "******", "******")]),
        ({"token": "a"}, {"token": "b"}, [("/token", "******", "******")]),
        ({"metadata": {"a": "hunter2"}}, {"metadata": {"a": "new"}}, [("/metadata/a", "******", "******")]),
        ({"metadata": {"a": "hunter2"}}, {"metadata": {}}, [("/metadata/a", "******")]),
        ({"metadata": {"hunter2": "a"}}, {"metadata": {}}, [("/metadata", "******", "******")]),
        ({"metadata": {"k": "value"}}, {"metadata": {"k": "w"}}, [("/metadata", "******", "******")]),  # a secret map
        ({"tags": ["hunter2"]}, {"tags": ["x", "y"]}, [("/tags/0", "******"), ("/tags/-", "******"),
                                                        ("/tags/-", "******")]),
        ({"tags": ["hunter2", "a"]}, {"tags": ["x", "a"]}, [("/tags/0", "******", "******")]),
        ({"name": "plain"}, {"name": "text"}, [("/name", "plain", "text")]),
    ],
)  # fmt: skip
def test_hidden_values(stored: JsonMap, live: JsonMap, expected: list[tuple[Any, ...]]) -> None:
    with hiding(Mask(lambda: ["hunter2", {"k": "value"}])):
        assert parts(stored, live) == expected


def test_limits() -> None:
    many: JsonMap = {str(at): at for at in range(MAX_DIFFERENCES + 1)}
    found = shown(compare(Thing, {"metadata": many}, {"metadata": {}}, Ignored()))
    assert (len(found.found), found.truncated) == (MAX_DIFFERENCES, True)
    found = shown(compare(Thing, {"name": "ä" * MAX_VALUE}, {"name": "b"}, Ignored()))
    assert found.truncated
    assert str(found.found[0].stored) == "ä" * (MAX_VALUE // 2) + "…"
    assert not shown(compare(Thing, {"name": "a"}, {"name": "b"}, Ignored())).truncated


STORED: JsonMap = {"name": "a", "tags": ["a", "b", "c"], "metadata": {"x": 1, "y": {"z": [1]}}, "rules": [{"port": 1}]}
LIVE: JsonMap = {"name": "b", "tags": ["a", "c", "d"], "metadata": {"x": 2, "y": {"z": [2]}, "n": 1}, "rules": []}


@table(
    "entries, expected",
    [
        ([], ["/metadata/n", "/metadata/x", "/metadata/y/z/0", "/name", "/rules/0", "/tags/1"]),
        (["*"], []),
        (["/name", "/rules"], ["/metadata/n", "/metadata/x", "/metadata/y/z/0", "/tags/1"]),
        (["/metadata"], ["/name", "/rules/0", "/tags/1"]),
        (["/metadata/y"], ["/metadata/n", "/metadata/x", "/name", "/rules/0", "/tags/1"]),
        (["/metadata/x", "/tags/1", "/metadata/n"], ["/metadata/y/z/0", "/name", "/rules/0"]),
        (["/meta"], ["/metadata/n", "/metadata/x", "/metadata/y/z/0", "/name", "/rules/0", "/tags/1"]),
    ],
)
def test_ignored_parts(entries: list[str], expected: list[str]) -> None:
    """Ignored parts are flagged, and an update starts from the stored ones."""
    ignored = Ignored(entries)
    found = shown(compare(Thing, STORED, LIVE, ignored)).counted
    assert sorted(one.path for one in found) == expected
    parts = ignored_parts(Thing, STORED, LIVE, ignored)
    rest = with_stored(STORED, LIVE, parts)
    assert sorted(one.path for one in shown(compare(Thing, STORED, rest, Ignored())).found) == expected
    # What an update writes has the live values of what is ignored, and no other.
    goal = with_live(STORED, LIVE, parts, STORED)
    assert sorted(one.path for one in shown(compare(Thing, goal, LIVE, Ignored())).found) == expected
    assert with_live(STORED, LIVE, parts, rest) == LIVE


def test_an_ignored_part_that_is_wanted_anew() -> None:
    parts = ignored_parts(Thing, STORED, LIVE, Ignored(["/metadata"]))
    wanted: JsonMap = {**STORED, "metadata": {"x": 7, "y": {"z": [1]}}}
    assert with_live(STORED, LIVE, parts, wanted)["metadata"] == {"x": 7, "y": {"z": [2]}, "n": 1}


@pytest.mark.slow
def test_long_lists() -> None:
    """The time grows with the length, not with its square."""
    many = [{"port": at} for at in range(1500)]
    stored: JsonMap = {"rules": many}
    live: JsonMap = {"rules": [{"port": -1 - at} for at in range(1500)] + many[:700]}
    calls = 0

    def counted(_frame: object, event: str, _given: object) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(counted)
    try:
        parts = ignored_parts(Thing, stored, live, Ignored(["/rules"]))
        rest = with_stored(stored, live, parts)
    finally:
        sys.setprofile(None)
    assert (len(parts), rest) == (2300, stored)
    assert calls < 500 * len(parts)
