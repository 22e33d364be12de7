"""Options of `up` and `plan`, and lines of plans."""

import argparse
from typing import Any

import pytest

from heatlite.cli.errors import Misuse
from heatlite.features.guards.bodies import matches
from heatlite.features.guards.commands.guards import _guard, condition, planned, span


@pytest.mark.parametrize(
    ("given", "seconds"), [("600", 600), ("30s", 30), ("10m", 600), ("2h", 7200), ("1d", 86400)]
)
def test_times(given: str, seconds: int) -> None:
    assert span(given) == seconds


@pytest.mark.parametrize(("read", "given"), [(span, "10x"), (span, "-1"), (condition, "severity=x"), (condition, "a")])
def test_faults(read: Any, given: str) -> None:
    with pytest.raises(argparse.ArgumentTypeError):
        read(given)


def parsed(**given: object) -> argparse.Namespace:
    return argparse.Namespace(**{"bake": None, "alert": [], "unknown": None, **given})


def test_the_guard_of_a_command() -> None:
    assert _guard(parsed()) == {}
    alerts = [condition(one) for one in ("labels.s=critical", "labels.s=page", "labels.t=shop")]
    guard = {"bake": 600, "alerts": [{"labels.s": ["critical", "page"], "labels.t": ["shop"]}], "unknown": "pass"}
    assert _guard(parsed(bake=600, alert=alerts, unknown="pass")) == {"guard": guard}
    with pytest.raises(Misuse):
        _guard(parsed(unknown="pass"))


def test_the_lines_of_a_plan() -> None:
    guard = {"bake": 600, "alerts": [{"labels.s": ["a", "b"], "labels.t": ["c"]}], "not_taken_back": ["v", "g/0"]}
    assert [*planned({"guard": guard}).lines] == [
        "guard  10m, alerts: labels.s=a|b and labels.t=c",
        "it ends only once a source of alerts was heard, or by `heatlite end-bake`; else --unknown pass",
        "not taken back, made again: v, g/0",
    ]
    guard = {"bake": 61, "unknown": "pass", "not_taken_back": []}
    assert [*planned({"guard": guard}).lines] == ["guard  61s, alerts: each on the stack"]
    assert [*planned({}).lines] == []


def test_an_alert_needs_a_value_at_each_place() -> None:
    given = {"labels": {"s": "a", "t": "c"}, "annotations": {"n": "x"}}
    assert matches({"labels.s": ["a", "b"], "annotations.n": ["x"]}, given)
    assert not matches({"labels.s": ["a"], "labels.u": ["c"]}, given)
