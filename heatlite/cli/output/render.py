"""Rows and objects as text: tables, JSON, YAML or bare values."""

import json
import os
import sys
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from importlib.util import find_spec

from heatlite.cli.client import Object, text
from heatlite.cli.errors import CommandError
from heatlite.core.json import Json

MAX_CELL = 60
"""Characters of a line in a table cell; longer text is folded."""


def is_rich() -> bool:
    """Return True on a capable terminal with rich (extra `cli`) installed."""
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and find_spec("rich") is not None


def cell(value: Json) -> str:
    """Format a value: text as it is, everything else as JSON."""
    return text(value) if value is None or isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _yaml(value: Json) -> str:
    import yaml  # only this format needs it

    return yaml.safe_dump(value, sort_keys=False, allow_unicode=True, default_flow_style=False).rstrip("\n")


def _csv(header: Sequence[str], lines: Iterable[Sequence[str]]) -> None:
    import csv  # only this format needs it

    writer = csv.writer(sys.stdout, lineterminator="\n")
    writer.writerow(header)
    writer.writerows(lines)


def _columns(names: Sequence[str], wanted: Sequence[str]) -> list[str]:
    unknown = [name for name in wanted if name not in names]
    if unknown:
        raise CommandError(f"No column {', '.join(map(repr, unknown))}; there are: {', '.join(names)}")
    return list(wanted or names)


def _table(columns: Sequence[str], rows: Sequence[Sequence[str]], header: bool) -> None:
    if is_rich():
        from rich.console import Console
        from rich.measure import Measurement
        from rich.table import Table
        from rich.text import Text

        table = Table(box=None, show_header=header, pad_edge=False, padding=(0, 2, 0, 0))
        for name in columns:
            table.add_column(name, overflow="fold", max_width=MAX_CELL)
        for row in rows:
            table.add_row(*(Text(item, style=style(item)) for item in row))
        # Do not fold a table that is wider than the terminal; the terminal wraps its lines.
        boundless = Console(width=10_000)
        Console(width=Measurement.get(boundless, boundless.options, table).maximum).print(table)
        return
    lines = [[item.replace("\n", " ") for item in row] for row in rows]
    if header:
        lines.insert(0, list(columns))
    widths = [max((len(line[i]) for line in lines), default=0) for i in range(len(columns))]
    for line in lines:
        print("  ".join(item.ljust(width) for item, width in zip(line, widths, strict=True)).rstrip())


def style(status: str) -> str:
    """Return the colour of a status; empty for other texts."""
    status = status.removeprefix("NODE_ACTION_")
    if status in ("FAILED", "LOST", "UNREACHABLE") or status.endswith("_FAILED"):
        return "red"
    if status == "RUNNING" or status.endswith("_IN_PROGRESS"):
        return "yellow"
    return "green" if status in ("SUCCEEDED", "DONE", "UP") or status.endswith("_COMPLETE") else ""


def line(shown: str, colour: str) -> None:
    """Print a line, with colour if possible."""
    if is_rich():
        from rich.console import Console
        from rich.text import Text

        Console().print(Text(shown, style=colour))
    else:
        print(shown)


def watching(seconds: float | None) -> Iterator[None]:
    """Yield once; with `seconds`, again and again on a cleared screen."""
    while True:
        if seconds is not None and sys.stdout.isatty():
            print("\x1b[H\x1b[2J", end="")
        yield
        if seconds is None:
            return
        sys.stdout.flush()
        time.sleep(seconds)


def rows(items: Sequence[Object], names: Sequence[str], form: str, wanted: Sequence[str]) -> None:
    """Print a list of objects with the columns `names`, or only those in `wanted`."""
    columns = _columns(names, wanted)
    if form == "table":
        if items:
            _table(columns, [[cell(item.get(name)) for name in columns] for item in items], header=True)
    elif form == "value":
        for item in items:
            print(" ".join(cell(item.get(name)) for name in columns))
    elif form == "csv":
        _csv(columns, ([cell(item.get(name)) for name in columns] for item in items))
    else:
        data: Json = [{name: item.get(name) for name in columns} for item in items]
        print(_yaml(data) if form == "yaml" else json.dumps(data, indent=2, ensure_ascii=False))


def one(item: Object, form: str, wanted: Sequence[str]) -> None:
    """Print an object with one line for each field."""
    columns = _columns(list(item), wanted)
    if form == "table":
        _table(["field", "value"], [[name, cell(item[name])] for name in columns], header=False)
    elif form == "value":
        for name in columns:
            print(cell(item[name]))
    elif form == "csv":
        _csv(["field", "value"], ([name, cell(item[name])] for name in columns))
    else:
        data: Mapping[str, Json] = {name: item[name] for name in columns}
        print(_yaml(dict(data)) if form == "yaml" else json.dumps(data, indent=2, ensure_ascii=False))
