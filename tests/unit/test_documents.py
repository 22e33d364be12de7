"""Links, paths and lines of the documents, and the references of the code to them."""

import argparse
import ast
import re
import subprocess
from collections.abc import Iterator
from enum import StrEnum
from pathlib import Path

import pytest

from heatlite.cli.parser import CommandParser
from heatlite.core.config import Settings, all_values
from heatlite.feature import installed
from heatlite.features.healing.terms import Brake, ClosedAs, IncidentState, ReportResult
from tests.commands import every_command
from tests.tables import table
from tools.openapi.__main__ import text as openapi

ROOT = Path(__file__).parents[2]
DOCUMENTS = sorted(path for path in ROOT.glob("*.md")) + sorted((ROOT / "docs").rglob("*.md"))
SOURCES = sorted(path for room in ("heatlite", "tests", "benchmarks", "tools") for path in (ROOT / room).rglob("*.py"))
MAX_LINE = 120
LONGEST_SUMMARY = 80
UNUSED_DECISIONS = {20, 34, 50}

LINK = re.compile(r"\[[^\]]*\]\(([^)\s]+)\)")
NAMED = re.compile(r"`([\w.-]+(?:/[\w.-]+)*/?)`")
COMMAND = re.compile(r"(?:^    (?:\$ )?|`|^)heatlite ([a-z-]+)((?: [^`#|\n]*)?)", re.MULTILINE)
"""A command in a code block or in backticks."""
PROSE = re.compile(r"^heatlite .*", re.MULTILINE)
BLOCK = re.compile(r"^```.*?^```", re.MULTILINE | re.DOTALL)
FLAG = re.compile(r"(?<=\s)--[a-z-]+")
TABLE = re.compile(r"^\| (?:Setting|Limit) \|.*?\n\n", re.MULTILINE | re.DOTALL)
CODE = re.compile(r"`(\w+)`")
QUESTION = re.compile(r"(?:who|whom|whose|whoever|what|whatever|whether|where|how|which|when|why)\b", re.IGNORECASE)
"""Words that begin no docstring."""
UNCLEAR = re.compile(r"\b(?:whoever|somebody|nobody|anybody|he|his|him)\b")
"""Words that name no part of the code."""
PLACE = re.compile(r"`(\w+)` in `([\w/]+\.py)`")
"""A function or a class, and its module."""
IN_CODE = re.compile(r"\bdocs/[\w./-]+")
ROOMS = (
    "docs", "deploy", "packaging", "tools", "benchmarks", "templates", "api-ref", ".ci", "*.md", "*.cfg", "*.toml",
    "*.ini",
)  # fmt: skip
PACKAGE_PATH = re.compile(r"(?<![\w./-])heatlite/(?:\w+/)*\w+(?:\.py)?\b(?!\.\w)")
DOTTED = re.compile(
    r"(?<![\w./-])heatlite(?!\.(?:app|check|close|cloud|conf|db|env|key|log|service|sh|stack|token|toml|yaml)\b)"
    r"(?:\.[a-zA-Z_]\w*)+"
)
"""A module or a name in one; files and queues have other endings."""


def names_of(paths: list[Path]) -> list[str]:
    return [str(path.relative_to(ROOT)) for path in paths]


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines outside of code blocks, with their numbers."""
    is_code = False
    for number, line in enumerate(path.read_text().splitlines(), 1):
        if line.lstrip().startswith("```"):
            is_code = not is_code
        elif not is_code and not line.startswith("    "):
            yield number, line


def anchors(path: Path) -> set[str]:
    """The anchors of a document's headings, as GitHub makes them."""
    titles = (line.lstrip("#").strip() for _, line in prose(path) if line.startswith("#"))
    return {re.sub(r"[^\w\- ]", "", title.lower()).replace(" ", "-") for title in titles}


def is_there(path: str, document: Path) -> bool:
    """True if a path exists beside the document, in the repository or in the package."""
    return any((folder / path).exists() for folder in (document.parent, ROOT, ROOT / "heatlite"))


@table("name", names_of(DOCUMENTS))
def test_every_link_resolves(name: str) -> None:
    document, broken = ROOT / name, []
    for number, line in prose(document):
        for target in LINK.findall(line):
            path, _, anchor = target.partition("#")
            if "://" in path:
                continue
            linked = (document.parent / path) if path else document
            if not linked.exists() or anchor and anchor not in anchors(linked):
                broken.append(f"{name}:{number}: {target}")
    assert broken == []


@table("name", names_of(DOCUMENTS))
def test_every_named_file_is_there(name: str) -> None:
    """A name in backticks with a folder of the repository, or .py, is a path."""
    document, missing = ROOT / name, []
    folders = {path.name for path in ROOT.iterdir() if path.is_dir()}
    for number, line in prose(document):
        for path in NAMED.findall(line):
            is_path = "/" in path and (path.split("/")[0] in folders or path.endswith(".py"))
            if is_path and not is_there(path, document):
                missing.append(f"{name}:{number}: {path}")
    assert missing == []


@table("name", names_of(DOCUMENTS))
def test_lines_of_prose_are_short(name: str) -> None:
    lines = prose(ROOT / name)
    assert [number for number, line in lines if len(line) > MAX_LINE and not line.startswith("|")] == []


def test_the_architecture_names_functions_and_classes_that_are_there() -> None:
    text, wrong = (ROOT / "docs/architecture.md").read_text(), []
    for name, path in PLACE.findall(text):
        source = ROOT / "heatlite" / path
        definition = re.compile(rf"^ *(?:class|(?:async )?def) {name}\b", re.MULTILINE)
        if source.is_file() and not definition.search(source.read_text()):
            wrong.append(f"{name} in {path}")
    assert wrong == []


def test_the_ways_of_a_request_and_an_action_name_a_place_for_each_step() -> None:
    text = (ROOT / "docs/architecture.md").read_text()
    for title in ("## Way of a request", "## Way of an action"):
        section = text.partition(title)[2].partition("\n## ")[0]
        steps = re.findall(r"^\| (?!Step|-)(.*?) \| (.*) \|$", section, re.MULTILINE)
        assert len(steps) > 5
        assert [step for step, place in steps if not PLACE.search(place)] == []


def test_the_glossary_has_each_term_once_and_in_order() -> None:
    entries = re.findall(r"^- \*\*(.+?)\*\*: ", (ROOT / "docs/reference/glossary.md").read_text(), re.MULTILINE)
    terms = [term.lower() for entry in entries for term in entry.split(", ")]
    assert len(entries) > 10
    assert entries == sorted(entries, key=str.lower)
    assert len(terms) == len({*terms})


def test_the_readme_links_every_page() -> None:
    linked = set(LINK.findall((ROOT / "README.md").read_text()))
    pages = [*(ROOT / "docs").glob("*.md"), *(ROOT / "docs/reference").glob("*.md")]
    assert [name for name in names_of(sorted(pages)) if name not in linked] == []


def test_every_decision_is_in_the_index() -> None:
    index = (ROOT / "docs/decisions/README.md").read_text()
    files = sorted(path.name for path in (ROOT / "docs/decisions").glob("[0-9]*.md"))
    assert re.findall(r"^- \[\d{4}\]\(([^)]+)\)", index, re.MULTILINE) == files
    numbers = {int(name[:4]) for name in files}
    assert set(range(1, max(numbers) + 1)) - numbers <= UNUSED_DECISIONS


@pytest.mark.slow
def test_the_code_refers_to_documents_that_are_there() -> None:
    """A decision may be named by its number alone: docs/decisions/0010."""
    missing = []
    for source in SOURCES:
        for path in IN_CODE.findall(source.read_text()):
            target = path.rstrip("./-")
            if not list(ROOT.glob(f"{target}*")):
                missing.append(f"{source.relative_to(ROOT)}: {path}")
    assert missing == []


def stale_names(text: str) -> Iterator[str]:
    """The paths and dotted names below `heatlite` that are not there."""
    for path in PACKAGE_PATH.findall(text):
        if not (ROOT / path).exists():
            yield path
    for name in DOTTED.findall(text):
        place = ROOT / "heatlite"
        for part in name.split(".")[1:]:
            below = [one for one in (place / part, place / f"{part}.py") if place.is_dir() and one.exists()]
            source = place / "__init__.py" if place.is_dir() else place
            if not below:  # a name in that module
                if not re.search(rf"\b{part}\b", source.read_text()):
                    yield name
                break
            place = below[0]


def test_texts_name_modules_that_are_there() -> None:
    """Also those of the rooms that no type checker reads."""
    assert [*stale_names("heatlite/gone.py, `heatlite.api.gone`, heatlite.api.gone:app, heatlite/store/gone/x")] == [
        "heatlite/gone.py", "heatlite/store/gone/x", "heatlite.api.gone", "heatlite.api.gone"
    ]  # fmt: skip
    assert [*stale_names("heatlite.worker, heatlite/core/clock.py, heatlite.core.clock.to_text, heatlite.toml")] == []
    listed = subprocess.run(["git", "ls-files", *ROOMS], cwd=ROOT, capture_output=True, text=True, check=False).stdout
    files = [ROOT / name for name in listed.splitlines() if not name.endswith((".png", ".ico", "openapi.json"))]
    assert files or not (ROOT / ".git").exists()
    found = ((path, name) for path in files for name in stale_names(path.read_text(errors="replace")))
    assert [f"{path.relative_to(ROOT)}: {name}" for path, name in found] == []


def parsers_below(parser: argparse.ArgumentParser) -> dict[str, argparse.ArgumentParser]:
    """The parsers of a parser's commands, by name."""
    found = (action for action in parser._actions if isinstance(action, argparse._SubParsersAction))
    return {name: one for action in found for name, one in action.choices.items()}


COMMANDS = parsers_below(every_command())


def command_faults(command: str, rest: str) -> list[str]:
    """The names in a command line that the parser does not know."""
    parser = COMMANDS.get(command)
    if parser is None:
        return [command]
    for word in rest.split():
        below = parsers_below(parser)
        if not below or not word.islower():
            break
        if word not in below and isinstance(parser, CommandParser) and parser.default:
            parser = below[parser.default]
            break
        if word not in below:
            return [f"{command} {word}"]
        parser = below[word]
    return [f"{command} {flag}" for flag in FLAG.findall(rest) if flag not in parser._option_string_actions]


@table("name", names_of(DOCUMENTS))
def test_every_command_is_there(name: str) -> None:
    text = (ROOT / name).read_text()
    outside = PROSE.sub("", BLOCK.sub("", text))
    commands = [found for part in (*BLOCK.findall(text), outside) for found in COMMAND.findall(part)]
    assert [fault for command, rest in commands for fault in command_faults(command, rest)] == []


def test_every_setting_in_a_table_is_there() -> None:
    known = all_values(Settings(database=""), installed).keys()
    tables = TABLE.findall((ROOT / "docs/reference/limits.md").read_text())
    named = {
        one
        for table in tables
        for cell in re.findall(r"^\| ([^|]*)", table, re.MULTILINE)
        for one in CODE.findall(cell)
    }
    assert named
    assert named - known == set()


def test_every_limit_is_on_its_page() -> None:
    page = (ROOT / "docs/reference/limits.md").read_text()
    limits = [name for name in all_values(Settings(database=""), installed) if name.startswith("max_")]
    assert [name for name in limits if f"`{name}`" not in page] == []


@table("words", [IncidentState, ClosedAs, ReportResult, Brake])
def test_every_word_of_healing_is_on_its_page(words: type[StrEnum]) -> None:
    page = (ROOT / "docs/reference/healing.md").read_text()
    assert [word for word in words if not re.search(rf"\b{word}\b", page)] == []


def docstrings(tree: ast.Module) -> Iterator[tuple[int, str, bool]]:
    """Yield line and text of each docstring, and True unless it is an attribute's."""
    for node in ast.walk(tree):
        body = getattr(node, "body", None)
        for place, statement in enumerate(body if isinstance(body, list) else ()):
            value = statement.value if isinstance(statement, ast.Expr) else None
            if isinstance(value, ast.Constant) and isinstance(value.value, str):
                yield value.lineno, value.value.strip(), place == 0


@pytest.mark.slow
def test_docstrings_keep_the_style() -> None:
    """The rules of CONTRIBUTING.md, "How we write"."""
    faults = []
    for source in SOURCES:
        for line, text, has_summary in docstrings(ast.parse(source.read_text())):
            place, summary = f"{source.relative_to(ROOT)}:{line}", text.split("\n", 1)[0]
            if QUESTION.match(text):
                faults.append(f"{place}: begin with a verb or a noun: {summary}")
            if has_summary and len(summary) > LONGEST_SUMMARY:
                faults.append(f"{place}: {len(summary)} > {LONGEST_SUMMARY} characters: {summary}")
            faults += [f"{place}: name a part of the code, not {word!r}" for word in UNCLEAR.findall(text)]
    assert not faults, "\n".join(faults)


@pytest.mark.slow
def test_the_openapi_document_is_up_to_date() -> None:
    """Run ``python -m tools.openapi > heatlite/api/openapi/openapi.json``."""
    written = (ROOT / "heatlite" / "api" / "openapi" / "openapi.json").read_text()
    assert written == openapi(ROOT / "api-ref" / "source" / "v1"), "run the command of this test's docstring"


@pytest.mark.slow
def test_no_text_installs_the_package_from_an_index() -> None:
    """An index has no heatlite, or one of a stranger."""
    others = [path for room in ("deploy", "api-ref/source") for path in (ROOT / room).rglob("*") if path.is_file()]
    files = {*DOCUMENTS, *SOURCES, *others} - {Path(__file__)}
    assert [str(path) for path in files if re.search(r"\binstall [^\n]*['\" ]heatlite\[", path.read_text())] == []
