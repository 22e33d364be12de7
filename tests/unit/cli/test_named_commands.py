"""Commands that texts of the product name: they are there."""

import argparse
import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.commands import every_command

ROOT = Path(__file__).parents[3]
NAMED = re.compile(r"\bheatlite ([a-z][a-z-]*)(?: ([a-z][a-z-]*))?")
PROSE = {"does", "has", "repairs", "runs", "that", "to"}
"""Words after the name of the product in sentences about it."""


def texts(module: Path) -> Iterator[tuple[int, str]]:
    """Yield the texts of a module with their lines, but for documentation.

    A value in one is ``{}``.
    """
    parts = set[int]()
    for node in ast.walk(ast.parse(module.read_text())):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            parts.add(id(node.value))
        elif isinstance(node, ast.JoinedStr):
            parts |= {id(one) for one in node.values}
            yield node.lineno, "".join(str(one.value) if isinstance(one, ast.Constant) else "{}" for one in node.values)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and id(node) not in parts:
            yield node.lineno, node.value


def children(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    groups = [one for one in parser._actions if isinstance(one, argparse._SubParsersAction)]
    return {name: child for group in groups for name, child in group.choices.items()}


@pytest.mark.slow
def test_every_named_command_is_there() -> None:
    known = {name: {*children(child)} for name, child in children(every_command()).items()}
    wrong, found = [], set[str]()
    for module in sorted((ROOT / "heatlite").rglob("*.py")):
        for line, text in texts(module):
            for word, below in NAMED.findall(text):
                found.add(word)
                if word not in known and word not in PROSE or known.get(word) and below and below not in known[word]:
                    wrong.append(f"{module.relative_to(ROOT)}:{line}: heatlite {word} {below}")
    assert wrong == []
    assert {"unlock", "drift", "incident", "action"} <= found
