"""Each refusal with 409 names what is in the way, and steps that lead on.

Answers of all tests of the API are checked in `Heat.call`.
"""

import re
import shlex
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from string import Formatter

import pytest

from heatlite.core.errors import Conflict
from tests.ways_out import is_complete, says_effect

PACKAGE = Path(__file__).parents[2] / "heatlite"
STATED = re.compile(r"^class (\w+)\((\w+)\):", re.MULTILINE)
ALWAYS = {"stack_name"}
"""Names that each request on a stack gives."""
GIVEN = {"paths", "detached"}
"""Fields of errors that are in no text."""


def conflicts() -> Iterator[type[Conflict]]:
    """All classes of conflicts, of the core and of features."""
    known = {"Conflict"}
    texts = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
    while True:
        stated = {(path, name) for path, text in texts.items() for name, base in STATED.findall(text) if base in known}
        if known >= {name for _, name in stated}:
            break
        known |= {name for _, name in stated}
    for path, name in sorted(stated):
        found = getattr(import_module(".".join(path.relative_to(PACKAGE.parent).with_suffix("").parts)), name)
        if issubclass(found, Conflict):
            yield found


@pytest.mark.slow
def test_each_kind_of_conflict_has_a_way_out() -> None:
    found = [*conflicts()]
    assert len(found) > 40
    assert [one.__name__ for one in found if not one.ways and "__init__" not in one.__dict__] == []


@pytest.mark.slow
def test_the_ways_out_of_a_kind_are_complete_with_its_fields() -> None:
    for one in conflicts():
        for way in one.ways:
            needed = placeholders(way.text) | placeholders(way.command or "")
            assert needed <= placeholders(one.text) | ALWAYS | GIVEN, one.__name__
            command = None if way.command is None else way.command.format(**dict.fromkeys(needed, "web"))
            assert command is None or is_complete(command), (one.__name__, command)
            assert command is None or says_effect(way.text), (one.__name__, way.text)


@pytest.mark.slow
def test_a_name_is_one_word_of_a_command() -> None:
    name, named = "--a b's {stack_name} $(id)", 0
    for one in conflicts():
        stated = type("Stated", (Conflict,), {"ways": one.ways})
        needed = {word for way in one.ways for word in placeholders(way.text) | placeholders(way.command or "")}
        for given in (name, (name, name)):
            found = stated("x", **dict.fromkeys(needed, given)).steps({})
            assert len(found) == len(one.ways)
            for way, step in zip(one.ways, found, strict=True):
                words, number = shlex.split(step.command or ""), len(placeholders(way.command or ""))
                assert words.count(name) == number * (1 if given == name else 2), step
                assert name not in words or "--" in words[: words.index(name)], step
                named += number
    assert named > 20


def placeholders(text: str) -> set[str]:
    return {name for _, name, _, _ in Formatter().parse(text) if name}
