"""Rows and objects as text: tables, JSON, YAML or bare values."""

import argparse
import os
import re
import shutil
import sys
import textwrap
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, TextIO, cast

from heatlite.cli.client import Object, text
from heatlite.cli.errors import Misuse
from heatlite.core.clock import from_text
from heatlite.core.json import Json, pretty
from heatlite.core.redaction.texts import spreadsheet_cell, without_controls, without_format

if TYPE_CHECKING:
    from rich.console import Console

WIDEST = 40
"""Characters of a column before it gives way to others."""

NARROWEST = 8
"""Characters that a wrapped column has at least."""

GAP = 2
"""Characters between columns."""

HEADINGS = {
    "stack_name": "name",
    "resource_name": "name",
    "stack_status": "status",
    "resource_status": "status",
    "resource_type": "type",
    "resource_status_reason": "reason",
    "stack_status_reason": "reason",
    "status_reason": "reason",
    "physical_resource_id": "physical id",
    "creation_time": "age",
    "created_at": "age",
    "updated_time": "updated",
    "stack_owner": "owner",
}
"""Headings of tables, for columns with other names in the API."""

_TIME = re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?Z?")


def is_rich() -> bool:
    """Return True on a capable terminal with rich (extra `cli`) installed."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich") is not None


def escaped(shown: str, stream: TextIO) -> str:
    """Escape control characters if the stream is a terminal.

    They may come from other users, and would change the terminal of the reader. Files and pipes get them as they are.
    """
    return without_controls(shown) if stream.isatty() else shown


class _Guarded:
    """A terminal that shows control characters as escapes, whatever is written."""

    def __init__(self, stream: TextIO, guard: Callable[[str], str]) -> None:
        self.stream = stream
        self._guard = guard

    def __getattr__(self, name: str) -> Any:
        return getattr(self.stream, name)

    def write(self, shown: str) -> int:
        return self.stream.write(self._guard(shown))

    def writelines(self, lines: Iterable[str]) -> None:
        for each in lines:
            self.write(each)


@contextmanager
def guarded_terminals() -> Iterator[None]:
    """Guard stdout and stderr against texts of other users, if they are terminals."""
    before = sys.stdout, sys.stderr
    sys.stdout, sys.stderr = (
        cast(TextIO, _Guarded(one, without_controls)) if one.isatty() else one for one in before
    )
    try:
        yield
    finally:
        sys.stdout, sys.stderr = before


def _unguarded(stream: TextIO) -> TextIO:
    return stream.stream if isinstance(stream, _Guarded) else stream


def console() -> "Console":
    """Return rich's console for stdout.

    It writes control sequences of its own, so the texts on it have to be `escaped`.
    """
    from rich.console import Console

    return Console(file=cast(TextIO, _Guarded(_unguarded(sys.stdout), without_format)))


def folded(shown: str, stream: TextIO, hang: int = 0) -> str:
    """Break the lines of a text at spaces if the stream is a terminal.

    Continued lines are indented by `hang`. Control characters are escaped.
    """
    if not stream.isatty():
        return shown
    shown = escaped(shown, stream)
    width = shutil.get_terminal_size().columns
    return "\n".join(
        textwrap.fill(
            line,
            max(width, 2 * hang),
            subsequent_indent=" " * hang,
            break_long_words=False,
            break_on_hyphens=False,
            replace_whitespace=False,
            expand_tabs=False,
        )
        for line in shown.split("\n")
    )


def cell(value: Json) -> str:
    """Format a value: text with escaped control characters, everything else as JSON."""
    shown = text(value) if value is None or isinstance(value, str) else pretty(value, 0)
    return escaped(shown, sys.stdout)


def inline(value: Json) -> str:
    """Format a value on one line, so that it cannot look like a line of its own."""
    return cell(pretty(value, 0) if isinstance(value, str) and not value.isprintable() else value)


def _yaml(value: Json) -> str:
    import yaml  # only this format needs it

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False).rstrip("\n")


def _shortened(columns: Sequence[str], lines: Sequence[Sequence[str]], now: float) -> tuple[list[str], list[list[str]]]:
    """Return headings and cells for people: ages, no routine values, no empty columns."""
    cells = [[_short(one, now) for one in line] for line in lines]
    used = [i for i in range(len(columns)) if i == 0 or any(line[i] for line in cells)]
    return _headings([columns[i] for i in used]), [[line[i] for i in used] for line in cells]


def _short(shown: str, now: float) -> str:
    if _TIME.fullmatch(shown):
        with suppress(ValueError, OverflowError):  # a reason or a name of others may look like a time
            return age(shown, now)
    return "" if shown in ("false", "state changed", "[]", "{}") else "yes" if shown == "true" else shown


def _csv(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    import csv  # only this format needs it

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows([spreadsheet_cell(item) for item in line] for line in lines)


def _headings(names: Sequence[str]) -> list[str]:
    """Return the heading of each column. None occurs twice."""
    short = [HEADINGS.get(name, name.replace("_", " ")) for name in names]
    whole = [name.removesuffix("_name").replace("_", " ") for name in names]
    return [long if short.count(heading) > 1 else heading for heading, long in zip(short, whole, strict=True)]


def _columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    """Return the columns that the options name, by name or heading; all without one."""
    by_heading = dict(zip(_headings(names), names, strict=True))
    wanted = [name if name in names else by_heading.get(name, name) for name in wanted]
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise Misuse(f"No column {', '.join(map(repr, unknown))}; there are: {', '.join(names)}")
    return wanted or list(names)


def age(when: str, now: float) -> str:
    """Return the time since a moment in one unit, such as ``5m``.

    For a future one, ``in 5m``.
    """
    seconds = now - from_text(when)
    ahead, seconds = ("in " if seconds <= -1 else ""), abs(seconds)
    for unit, size in (("d", 86400), ("h", 3600), ("m", 60)):
        if seconds >= 2 * size:
            return f"{ahead}{int(seconds // size)}{unit}"
    return f"{ahead}{int(seconds)}s"


def fit(widths: Sequence[int], words: Sequence[int], room: int) -> list[int]:
    """Return the widths of the columns that fit into `room` characters.

    Later columns give way to earlier ones. Of the two that stay the last one is wrapped, but never narrower than its
    longest word. `words` has the longest word of each column. Returns nothing if the two do not fit.
    """
    kept = [max(min(width, WIDEST), word) for width, word in zip(widths, words, strict=True)]
    while len(kept) > 2 and sum(kept) + GAP * (len(kept) - 1) > room:
        kept.pop()
    spare = room - sum(kept) - GAP * (len(kept) - 1)
    if spare < 0:
        last = len(kept) - 1
        if kept[last] + spare < max(words[last], NARROWEST):
            return []
        kept[last] += spare
    for i, width in enumerate(widths[: len(kept)]):
        more = max(min(width - kept[i], spare), 0)
        kept[i] += more
        spare -= more
    return kept


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], header: bool, wide: bool = False) -> None:
    if is_rich():
        _on_terminal(columns, rows, header, wide)
        return
    lines = [[item.replace("\n", " ") for item in row] for row in rows]
    if header:
        lines.insert(0, list(columns))
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(columns))]
    for line in lines:
        print("  ".join(item.ljust(width) for item, width in zip(line, widths, strict=True)).rstrip())


def _on_terminal(columns: Sequence[str], rows: Sequence[Sequence[str]], header: bool, wide: bool) -> None:
    from rich.table import Table
    from rich.text import Text

    screen = console()
    lines = [list(columns), *rows] if header else rows
    natural = [max(len(part) for line in lines for part in line[i].split("\n")) for i in range(len(columns))]
    words = [max((len(word) for line in lines for word in line[i].split()), default=0) for i in range(len(columns))]
    if wide:
        fits = sum(natural) + GAP * (len(natural) - 1) <= screen.width
        widths = natural if fits else []
    else:
        widths = fit(natural, words, screen.width)
    if not widths:
        _blocks([[*zip(columns, row, strict=True)] for row in rows] if header else [rows])
        return
    table = Table(box=None, show_header=header, header_style="bold", pad_edge=False, padding=(0, GAP, 0, 0))
    for name, width in zip(columns, widths, strict=False):
        table.add_column(name, overflow="fold", width=width)
    for row in rows:
        table.add_row(*(Text(item, style=style(item)) for item in row[: len(widths)]))
    screen.print(table)


def _blocks(blocks: Sequence[Sequence[Sequence[str]]]) -> None:
    """Print rows as blocks of headings and cells."""
    left = max(len(heading) for block in blocks for heading, _ in block) + GAP
    longest = max((len(word) for block in blocks for _, item in block for word in item.split()), default=0)
    hang = left if left + longest <= shutil.get_terminal_size().columns else GAP
    for number, block in enumerate(blocks):
        if number:
            print()
        for heading, item in block:
            if item:
                line(folded(f"{heading:{left}}{item}", sys.stdout, hang), style(item))


def style(status: str) -> str:
    """Return the colour of a status; empty for other texts."""
    status = status.removeprefix("NODE_ACTION_")
    if status in ("FAILED", "LOST", "UNREACHABLE") or status.endswith("_FAILED"):
        return "red"
    if status == "RUNNING" or status.endswith("_IN_PROGRESS"):
        return "yellow"
    return "green" if status in ("SUCCEEDED", "DONE", "UP") or status.endswith("_COMPLETE") else ""


def line(shown: str, colour: str) -> None:
    """Print a line with escaped control characters, with colour if possible."""
    shown = escaped(shown, sys.stdout)
    if is_rich():
        from rich.text import Text

        console().print(Text(shown, style=colour))
    else:
        print(shown)


def watching(seconds: float | None) -> Iterator[None]:
    """Yield once; with `seconds`, again and again on a cleared screen."""
    while True:
        if seconds is not None and sys.stdout.isatty():
            _unguarded(sys.stdout).write("\x1b[H\x1b[2J")
        yield
        if seconds is None:
            return
        sys.stdout.flush()
        time.sleep(seconds)


def listing(items: Sequence[Object], names: Sequence[str], arguments: argparse.Namespace, of: str) -> None:
    """Print a list of objects as the arguments LISTING say.

    `of` tells of what, such as ``nodes of stack web``. An empty table says where there are none.
    """
    where = getattr(arguments, "place", "")
    none = f"No {of} {where}".rstrip() + "."
    rows(items, names, arguments.format, arguments.column, wide=arguments.output == "wide", none=none)


def rows(
    items: Sequence[Object],
    names: Sequence[str],
    form: str,
    wanted: Sequence[str],
    wide: bool = False,
    none: str = "There are none.",
) -> None:
    """Print a list of objects with the columns `names`, or only those in `wanted`.

    `none` is printed in place of an empty table. A table on a terminal shows ages and as many columns as fit, unless
    it is `wide` or has `wanted` columns.
    """
    columns = _columns(names, wanted)
    if form == "table":
        if not items:
            print(folded(none, sys.stderr), file=sys.stderr)
            return
        cells = [[cell(item.get(name)) for name in columns] for item in items]
        if is_rich() and not wide and not wanted:
            columns, cells = _shortened(columns, cells, time.time())
        _table(columns, cells, header=True, wide=wide or bool(wanted))
    elif form == "value":
        for item in items:
            print(" ".join(cell(item.get(name)) for name in columns))
    elif form == "csv":
        _csv(columns, ([cell(item.get(name)) for name in columns] for item in items))
    else:
        data: Json = [{name: item.get(name) for name in columns} for item in items]
        print(_yaml(data) if form == "yaml" else pretty(data))


def _field(name: str, value: Json) -> list[list[str]]:
    """Return the lines of a field in a table."""
    if isinstance(value, list) and value and isinstance(value[0], dict):
        return [["" if number else name, cell(each)] for number, each in enumerate(value)]
    return [[name, cell(value)]]


def one(item: Object, form: str, wanted: Sequence[str]) -> None:
    """Print an object with one line for each field.

    A table has one for each object in a field, and leaves out links, unless they are `wanted`.
    """
    columns = _columns(list(item), wanted)
    if form == "table" and not wanted:
        columns = [name for name in columns if name != "links"]
    if form == "table":
        lines = [each for name in columns for each in _field(name, item[name])]
        _table(["field", "value"], lines, header=False)
    elif form == "value":
        for name in columns:
            print(cell(item[name]))
    elif form == "csv":
        _csv(["field", "value"], ([name, cell(item[name])] for name in columns))
    else:
        data: Mapping[str, Json] = {name: item[name] for name in columns}
        print(_yaml(dict(data)) if form == "yaml" else pretty(data))
