"""Comparison of guards by strictness."""

from typing import Any

from msgspec import convert

from heatlite.core.wire.guards import GuardRequest
from tests.tables import table

A, B = {"labels.s": ["a"]}, {"labels.s": ["b"]}


@table(
    "given, policy, keys",
    [
        ({}, {}, []),
        ({"bake": 11}, {"bake": 10}, []),
        ({"bake": 9}, {"bake": 10}, ["bake"]),
        ({"alerts": [A, B]}, {"alerts": [B]}, []),
        ({"alerts": [A]}, {"alerts": [A, B]}, ["alerts"]),
        ({"alerts": [A]}, {}, ["alerts"]),  # of the tree others count, too
        ({}, {"alerts": [A]}, ["alerts"]),
        ({"sources": ["*", "x"]}, {"sources": ["x"]}, []),
        ({"sources": ["*"]}, {"sources": ["x"]}, ["sources"]),  # x need not be heard
        ({"sources": ["x"]}, {"sources": ["*"]}, ["sources"]),
        ({"unknown": "wait"}, {"unknown": "pass"}, []),
        ({"unknown": "pass"}, {"unknown": "wait"}, ["unknown"]),
        ({"bake": 1, "unknown": "pass"}, {"alerts": [A]}, ["bake", "alerts", "unknown"]),
    ],
)
def test_looser(given: dict[str, Any], policy: dict[str, Any], keys: list[str]) -> None:
    own, other = (convert({"bake": 5, **one}, GuardRequest) for one in (given, policy))
    assert own.looser_than(other) == keys
