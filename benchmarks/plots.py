"""``python -m benchmarks.plots``: draw the tables of docs/benchmarks.md as SVG.

The files go to docs/images.

The tables are the only source, so a picture never shows other figures than its page.
"""

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from html import escape
from pathlib import Path

DOCS = Path(__file__).parent.parent / "docs"
COLOURS = ("#1f5fa8", "#c2410c", "#15803d", "#7c3aed", "#6b7280", "#be185d", "#0e7490")
WIDTH, HEIGHT = 760, 400
LEFT, RIGHT, TOP, BOTTOM = 70, 190, 46, 46
"""Margins. The right one has the names of the lines."""
ROW = 30
"""Height of a bar with its gap."""
NAMES = 250
"""Width of the names of bars."""
CREATED = "create 20 resources, s"
"""Row of the table of peers that is drawn."""
SERVERS = ("heatlite serve", "Heat")
"""Its columns that are drawn: the elapsed time of a command is mostly that of other programs."""


def table(page: str, heading: str) -> tuple[list[str], dict[str, list[str]]]:
    """Return head and rows (by first cell) of the first table below a heading.

    Raises ValueError.
    """
    _, found, rest = page.partition(f"\n{heading}\n")
    lines = re.search(r"(?:^\|.*\n)+", rest, re.MULTILINE)
    if not found or lines is None:
        raise ValueError(f"There is no table below {heading!r}.")
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines[0].splitlines()]
    return cells[0], {row[0]: row[1:] for row in cells[2:]}


def number(cell: str) -> float:
    """Return the first number of a cell: the median."""
    return float(cell.replace(" ", "").partition("(")[0])


def lines(title: str, unit: str, points: Sequence[float], series: Mapping[str, Sequence[float]]) -> str:
    """Draw lines on logarithmic axes, with their names at the right ends."""
    values = [value for line in series.values() for value in line]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    first, last = math.log10(points[0]), math.log10(points[-1])

    def x(value: float) -> float:
        return LEFT + (math.log10(value) - first) / (last - first) * (WIDTH - LEFT - RIGHT)

    def y(value: float) -> float:
        return HEIGHT - BOTTOM - (math.log10(value) - low) / (high - low) * (HEIGHT - TOP - BOTTOM)

    drawn = []
    for power in range(low, high + 1):
        at = y(10.0**power)
        drawn.append(f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{at:.1f}" y2="{at:.1f}" stroke="#ddd"/>')
        drawn.append(_text(LEFT - 8, at + 4, f"{10.0**power:g} {unit}", "end"))
    drawn += [_text(x(value), HEIGHT - BOTTOM + 20, f"{value:g}", "middle") for value in points]
    for (name, line), colour, label in zip(series.items(), COLOURS, _spread(series, y), strict=False):
        path = " ".join(f"{x(point):.1f},{y(value):.1f}" for point, value in zip(points, line, strict=True))
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="2"/>')
        drawn.append(_text(WIDTH - RIGHT + 8, label + 4, name, colour=colour))
    return _svg(title, HEIGHT, drawn)


def _spread(series: Mapping[str, Sequence[float]], y: Callable[[float], float]) -> Iterator[float]:
    """Yield the heights of the names of lines, at least 15 apart."""
    ends = sorted((y(line[-1]), name) for name, line in series.items())
    places: dict[str, float] = {}
    lowest = 0.0
    for end, name in ends:
        places[name] = lowest = max(end, lowest + 15)
    return (places[name] for name in series)


def bars(title: str, unit: str, values: Mapping[str, float]) -> str:
    """Draw horizontal bars with their values."""
    longest = max(values.values())
    drawn = []
    for row, (name, value) in enumerate(values.items()):
        top = TOP + row * ROW
        width = max(1.0, value / longest * (WIDTH - NAMES - 130))
        drawn.append(_text(NAMES - 8, top + 15, name, "end"))
        drawn.append(f'<rect x="{NAMES}" y="{top}" width="{width:.1f}" height="20" fill="{COLOURS[0]}"/>')
        drawn.append(_text(NAMES + width + 8, top + 15, f"{value:g} {unit}"))
    return _svg(title, TOP + len(values) * ROW + 10, drawn)


def _text(x: float, y: float, text: str, anchor: str = "start", colour: str = "#222") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{colour}">{escape(text)}</text>'


def _svg(title: str, height: int, drawn: Sequence[str]) -> str:
    head = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}"'
        ' font-family="sans-serif" font-size="13" role="img">'
    )
    body = [f"<title>{escape(title)}</title>", f'<rect width="{WIDTH}" height="{height}" fill="#fff"/>']
    named = f'<text x="16" y="24" font-size="15" font-weight="bold" fill="#222">{escape(title)}</text>'
    return "\n".join([head, *body, named, *drawn, "</svg>"]) + "\n"


def plots(page: str) -> dict[str, str]:
    """Return all plots of docs/benchmarks.md by file name."""
    head, life = table(page, "### Life of a stack")
    sizes = [float(size) for size in head[1:]]
    _, requests = table(page, "### Requests")
    _, memory = table(page, "### Memory and processor")
    programs, peers = table(page, "## Peers")
    return {
        "benchmark-life.svg": lines(
            "Life of a stack, seconds by number of resources",
            "s",
            sizes,
            {name: [number(cell) for cell in cells] for name, cells in life.items()},
        ),
        "benchmark-requests.svg": bars(
            "Requests per second, 50 clients", "/s", {name: number(cells[0]) for name, cells in requests.items()}
        ),
        "benchmark-memory.svg": bars(
            "Memory of heatlite serve",
            "MB",
            {name: number(cells[0].split(" ")[0]) for name, cells in memory.items() if cells[0].endswith("MB")},
        ),
        "benchmark-peers.svg": bars(
            "Create 20 resources on a server, seconds",
            "s",
            {name: number(peers[CREATED][programs[1:].index(name)]) for name in SERVERS},
        ),
    }


def main() -> None:
    """Write the files."""
    for name, drawing in plots((DOCS / "benchmarks.md").read_text("utf-8")).items():
        (DOCS / "images" / name).write_text(drawing, "utf-8")


if __name__ == "__main__":
    main()
