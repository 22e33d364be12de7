"""The strictest value of each key, and settings of operators."""

from itertools import product
from pathlib import Path
from typing import Any

import pytest
from msgspec import UNSET, convert

from heatlite.core.config import BadSetting, load
from heatlite.feature import installed
from heatlite.features.change_policy.document import (
    Approve,
    ChangePolicyValues,
    PolicyKeys,
    PolicyOrigin,
    loosened,
    strictest,
)
from heatlite.features.change_policy.effective import operators
from tests.tables import table

LADDERS: dict[str, list[Any]] = {
    "approve": ["never", "removals", "always"],
    "four_eyes": [False, True],
    "approval_ttl": [7_776_000, 604_800, 60],
    "signals": ["pass", "ignore"],
    "reads": ["warn", "refuse"],
    "revisions": [2, 20, 200],
}
"""By key, values from the least strict to the strictest."""
PLACES = (PolicyOrigin.OPERATOR, PolicyOrigin.PROJECT, PolicyOrigin.STACK)


def keys(**given: Any) -> PolicyKeys:
    return convert(given, PolicyKeys)


def test_each_key_has_a_ladder() -> None:
    assert LADDERS.keys() == {*ChangePolicyValues.__struct_fields__} == {*PolicyKeys.__struct_fields__}


@table("key", [*LADDERS])
def test_the_strictest_value_counts(key: str) -> None:
    ladder = LADDERS[key]
    for chosen in product([None, *ladder], repeat=len(PLACES)):
        told_by = {place: one for place, one in zip(PLACES, chosen, strict=True) if one is not None}
        given = {place: keys(**{key: one}) for place, one in told_by.items()}
        found = strictest(given)
        told = [one for one in chosen if one is not None]
        if not told:
            assert (getattr(found.policy, key), found.origins[key]) == (
                getattr(ChangePolicyValues(), key), PolicyOrigin.DEFAULT
            )
            continue
        best = max(told, key=ladder.index)
        assert getattr(found.policy, key) == best
        assert found.origins[key] is PLACES[chosen.index(best)]


@table("key", [*LADDERS])
def test_what_loosens(key: str) -> None:
    ladder = LADDERS[key]
    for before, after in product(ladder, repeat=2):
        looser = loosened(keys(**{key: before}), keys(**{key: after}))
        assert looser == ([key] if ladder.index(after) < ladder.index(before) else [])
    is_number = key in ("approval_ttl", "revisions")
    assert loosened(keys(**{key: ladder[0]}), keys()) == ([key] if is_number else [])
    assert loosened(keys(**{key: ladder[-1]}), keys()) == [key]
    assert loosened(keys(), keys(**{key: ladder[0]})) == []


def test_the_table_of_the_settings(tmp_path: Path) -> None:
    file = tmp_path / "heatlite.toml"
    file.write_text('auth = "tokens"\n[change_policy]\nfour_eyes = true\napproval_ttl = 60\napprove = "always"\n')
    found = operators(load(installed, file=file, environ={}))
    assert (found.four_eyes, found.approval_ttl, found.approve) == (True, 60, Approve.ALWAYS)
    assert found.revisions is UNSET


@table(
    ("text", "fault"),
    [
        ("four_eyes = true", "needs authentication"),
        ("approval_ttl = 59", "approval_ttl"),
        ('aprove = "always"', "aprove"),
        ("version = 3", "version"),
        ('approve = "sometimes"', "sometimes"),
    ],
)
def test_a_wrong_table_starts_no_server(text: str, fault: str, tmp_path: Path) -> None:
    file = tmp_path / "heatlite.toml"
    file.write_text(f"[change_policy]\n{text}\n")
    with pytest.raises(BadSetting, match=rf"change_policy\].*{fault}|{fault}.*change_policy\]"):
        load(installed, file=file, environ={})
