"""Large parts of a JSON text, without a database."""

import json

import pytest

from heatlite.core.json import dump
from heatlite.store.writes import large_values
from heatlite.store.writes.large_values import LARGE, condensed, whole


def test_a_value_that_doubles_itself_is_not_encoded_anew_at_each_level(monkeypatch: pytest.MonkeyPatch) -> None:
    encoded: list[int] = []

    def counted(value: object) -> str:
        encoded.append(len(dump(value)))
        return dump(value)

    value: object = ["x" * LARGE]
    for _ in range(8):
        value = [value, value]
    text = dump(value)
    monkeypatch.setattr(large_values, "dump", counted)
    short = condensed(text)
    assert sum(encoded) < 4 * len(text)
    assert short.count("x" * LARGE) == 1
    assert json.loads(whole(short)) == value
