"""Texts of others on terminals and in spreadsheets."""

import unicodedata

from heatlite.core.redaction.texts import spreadsheet_cell, without_controls, without_format
from tests.tables import table


def test_what_is_escaped() -> None:
    given = "a\u202eb\x1b[31m\x9b\u2029\U000e0041\n\tä漢\u00a0"
    assert without_controls(given) == "a\\u202eb\\x1b[31m\\u009b\\u2029\\U000e0041\n\tä漢\u00a0"
    assert without_format(given) == "a\\u202eb\x1b[31m\\u009b\\u2029\\U000e0041\n\tä漢\u00a0"
    assert without_format("a\x7f") == "a\\u007f"


def test_no_mark_of_direction_is_left() -> None:
    marks = [chr(code) for code in range(0x110000) if unicodedata.bidirectional(chr(code)) in {
        "LRE", "RLE", "LRO", "RLO", "PDF", "LRI", "RLI", "FSI", "PDI",
    }]  # fmt: skip
    assert len(marks) == 9
    assert not [one for one in (*marks, "\u200e", "\u200f", "\u061c") if one in without_format(one)]


@table(
    ("text", "cell"),
    [
        ("=1", "'=1"), ("+a", "'+a"), ("-a", "'-a"), ("@a", "'@a"), ("\ta", "'\ta"), ("\ra", "'\ra"), ("-2+3", "'-2+3"),
        ("-5", "-5"), ("+5", "+5"), ("-1.5", "-1.5"), ("a=1", "a=1"), ("", ""),
    ],
)  # fmt: skip
def test_a_cell_is_no_formula(text: str, cell: str) -> None:
    assert spreadsheet_cell(text) == cell
