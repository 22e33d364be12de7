"""Durations of rolling policies."""

import pytest

from heatlite.features.rare_types.aws.groups import seconds_of
from tests.tables import table


@table(("text", "seconds"), [("PT0S", 0), ("PT1H", 3600), ("PT1H2M3S", 3723), ("PT90S", 90)])
def test_durations(text: str, seconds: int) -> None:
    assert seconds_of(text) == seconds


@table("text", ["", "PT", "1H", "P1D", "PT1S2M", "PT-1S", "PT1.5S", "PT1S\n"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match=r"^Only ISO 8601 duration format of the form PT#H#M#S is supported\.$"):
        seconds_of(text)
