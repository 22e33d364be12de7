"""Texts of other users, made harmless for terminals, pages and spreadsheets."""

import re
from typing import Final

_UNSEEN: Final = (
    "\x7f-\x9f\xad\u061c\u180e\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb\U000e0000-\U000e007f"
)
"""Marks of direction, characters without width, line separators, C1 controls."""
_FORMAT: Final = re.compile(f"[{_UNSEEN}]")
_CONTROL: Final = re.compile(f"[\x00-\x08\x0b-\x1f{_UNSEEN}]")
_FORMULA: Final = re.compile(r"[=+\-@\t\r]")
_NUMBER: Final = re.compile(r"[+-]?\d+(?:\.\d+)?", re.ASCII)


def without_format(text: str) -> str:
    """Escape what changes the direction or the look of a text: ``\\u202e``.

    C0 controls stay: they may be ours, such as colours of a terminal.
    """
    return text if text.isascii() and "\x7f" not in text else _FORMAT.sub(_escape, text)


def without_controls(text: str) -> str:
    """Escape these and all other control characters, but for line feeds and tabs."""
    return text if text.isprintable() else _CONTROL.sub(_escape, text)


def _escape(found: re.Match[str]) -> str:
    code = ord(found[0])
    return f"\\x{code:02x}" if code < 0x20 else f"\\u{code:04x}" if code <= 0xFFFF else f"\\U{code:08x}"


def spreadsheet_cell(text: str) -> str:
    """Return a cell of CSV that no spreadsheet takes for a formula. Numbers stay."""
    return f"'{text}" if _FORMULA.match(text) and not _NUMBER.fullmatch(text) else text
