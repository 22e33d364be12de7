"""Answers on real templates, recorded and reviewed by reading.

`verdicts.yaml` has an entry for every file of the corpus that may be a template:

- ``accepted``: nothing is wrong with it. - ``missing types``: Heat would take it; all that we lack is these types. -
``problems``: faults of the template itself, as ``line: message``; beside types that we lack, if there are some. -
``environment``: it is one, and a good one; ``no template``: it is neither, for this reason.

The table is written anew by ``python tests/corpus/test_corpus.py``; each line that changes must be looked at again.
"""

import os
import re
import sys
from pathlib import Path

import pytest
import yaml

from heatlite.__main__ import Program
from heatlite.cli.commands.validate import of_file
from heatlite.core.errors import Invalid, Problem
from heatlite.plugin.registry import Registry
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load
from tests.resource_types import ALL_TYPES

HERE = Path(__file__).parent
CORPUS = Path(os.environ.get("HEATLITE_CORPUS") or HERE.parents[2] / "shared" / "corpus")
VERDICTS = HERE / "verdicts.yaml"
UNKNOWN_TYPE = re.compile(r"The Resource Type \((.*)\) could not be found\.")
NO_TEMPLATE = "HTTPBadRequest", "InvalidTemplateVersion"

Verdict = str | dict[str, list[str] | str]


def names() -> list[str]:
    """Every file that may be a template, below the corpus."""
    return sorted(
        path.relative_to(CORPUS).as_posix()
        for path in CORPUS.rglob("*")
        if path.suffix in (".yaml", ".yml", ".template", ".json") and path.is_file()
    )


def verdict(name: str, types: Registry) -> Verdict:
    """The answer on one file. Parameters need no values; warnings do not count.

    An environment that is called as the template, with ``_env`` behind it, belongs to it.
    """
    path = CORPUS / name
    beside = path.with_name(f"{path.stem}_env.yaml")
    found = of_file(path, [beside] if beside.exists() else [], {}, types, Program())
    found = [one for one in found if one.severity == "error"]
    for one in found:
        if one.error in NO_TEMPLATE and one.source == str(path):
            return "environment" if is_environment(path) else {"no template": shown(one)}
    missing = {match[1] for one in found if (match := UNKNOWN_TYPE.search(one.text))}
    problems = sorted(f"{place(one, path)}: {shown(one)}" for one in found if not UNKNOWN_TYPE.search(one.text))
    entry: dict[str, list[str] | str] = {}
    if problems:
        entry["problems"] = problems
    if missing:
        entry["missing types"] = sorted(missing)
    return entry or "accepted"


def is_environment(path: Path) -> bool:
    try:
        Environment.parse(load(path.read_text("utf-8"), path.name, "Environment"))
    except Invalid:
        return False
    return True


def place(problem: Problem, path: Path) -> str:
    return f"{problem.line}" if problem.source == str(path) else f"{Path(problem.source).name}:{problem.line}"


def shown(problem: Problem) -> str:
    return problem.text.replace(CORPUS.resolve().as_uri() + "/", "").replace(f"{CORPUS}/", "")


@pytest.mark.slow
@pytest.mark.corpus
def test_every_template_of_the_corpus() -> None:
    if not CORPUS.is_dir():
        pytest.skip(f"there is no corpus of templates at {CORPUS}")
    types = Registry(ALL_TYPES)
    table = yaml.safe_load(VERDICTS.read_text("utf-8"))
    assert sorted(table) == names()
    assert {name: verdict(name, types) for name in table} == table


if __name__ == "__main__":
    with VERDICTS.open("w", encoding="utf-8") as stream:
        stream.write("# What we say about each template of the corpus; see test_corpus.py. Reviewed by reading.\n")
        registry = Registry(ALL_TYPES)
        yaml.safe_dump({name: verdict(name, registry) for name in names()}, stream, width=110, sort_keys=True)
    sys.stdout.write(f"{VERDICTS}: {len(names())} files\n")
