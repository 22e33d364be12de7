"""Entry points by which other packages add to heatlite."""

import sys
from functools import cache
from importlib.metadata import EntryPoints, distribution, distributions

FILE = "entry_points.txt"
PREFIX = "[heatlite."
"""Beginning of the line of a group of ours."""


def announced(group: str) -> EntryPoints:
    """Return the entry points of a group in the installed packages."""
    return _announced(tuple(sys.path)).select(group=group)


@cache
def _announced(path: tuple[str, ...]) -> EntryPoints:  # noqa: ARG001 - what `distributions` reads
    """Return the entry points of packages that name a group of ours.

    Only their files are taken apart: to do that with all takes longer than the rest of a start.
    """
    found: dict[str, EntryPoints] = {}
    for package in distributions():
        text = package.read_text(FILE) or ""
        # Another version of the same package may come first on the path; that one counts.
        if PREFIX in text and distribution(package.name).read_text(FILE) == text:
            found[text] = package.entry_points
    return EntryPoints(one for entries in found.values() for one in entries)
