"""Texts of errors."""

from heatlite.core.errors import abbreviated
from tests.tables import table


@table("number, text", [(0, ""), (1, "0"), (3, "0; 1; 2"), (5, "0; 1; 2 and 2 more")])
def test_many_names(number: int, text: str) -> None:
    assert abbreviated([*map(str, range(number))], 3, "; ") == text
