"""Times as text."""

import pytest

from heatlite.core.clock import from_text, to_text


@pytest.mark.parametrize("text", ["0001-01-01T00:00:00Z", "9999-12-31T23:59:59Z", "2026-11-02T13:00:00+01:00"])
def test_each_time_that_is_read_can_be_written(text: str) -> None:
    written = to_text(from_text(text))
    assert written is not None
    assert from_text(written) == from_text(text)


@pytest.mark.parametrize(
    "text", ["9999-12-31T23:59:59-14:00", "9999-12-31T23:59:59.9999999Z", "0001-01-01T00:00:00+14:00", "noon"]
)
def test_a_time_that_cannot_be_written_is_refused(text: str) -> None:
    with pytest.raises((ValueError, OverflowError)):
        from_text(text)
