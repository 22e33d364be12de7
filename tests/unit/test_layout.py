"""Layout of the package: sizes of files and classes, folders of unit tests."""

import ast
import gc
import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from configparser import ConfigParser
from pathlib import Path

import pytest

from tools.measures import MOST_COMPLEX, complexity, is_broad

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "heatlite"
SOURCES = {path: path.read_text() for path in sorted(PACKAGE.rglob("*.py"))}
MOST_LINES = 600
MOST_LINES_OF_CLASS = 400
CLASS = re.compile(r"^class ([A-Za-z]\w*)", re.MULTILINE)
CONSTANT = re.compile(r"^(_?[A-Z][A-Z0-9_]*)(?:: [^=\n]+)? = ", re.MULTILINE)
Nodes = Mapping[Path, Sequence[ast.AST]]


@pytest.fixture(scope="module")
def nodes() -> Iterator[Nodes]:
    """All nodes of each source file. To parse takes longer than each test.

    A garbage collector that looks at a million of them again and again takes as long once more.
    """
    gc.disable()
    yield {path: [*ast.walk(ast.parse(text))] for path, text in SOURCES.items()}
    gc.enable()


def test_each_folder_of_the_unit_tests_is_a_package() -> None:
    folder = ROOT / "tests" / "unit"
    tested = {path.parent.relative_to(folder) for path in folder.rglob("*.py")}
    assert [str(path) for path in sorted(tested) if not (PACKAGE / path / "__init__.py").is_file()] == []


def test_no_file_is_too_long() -> None:
    lines = {path: text.count("\n") for path, text in SOURCES.items()}
    assert {str(path.relative_to(ROOT)): count for path, count in lines.items() if count > MOST_LINES} == {}


MOST_ENTRIES = 16
LARGE_PACKAGES = {
    "features": "a folder for each subject, which stands alone: who reads one need not know the others",
    "store/admin/migrations": "databases of the last release run the scripts since; the next release makes one of them",
}
"""Packages with more modules and packages, and why."""


def test_no_package_has_too_many_entries() -> None:
    inside = Counter(path.parent.relative_to(PACKAGE) for path in SOURCES if not path.stem.startswith("__"))
    folders = {path.parent.relative_to(PACKAGE) for path in SOURCES}
    inside += Counter(folder.parent for folder in folders if folder.parts)
    assert {str(path) for path, count in inside.items() if count > MOST_ENTRIES} == LARGE_PACKAGES.keys()


@pytest.mark.slow
def test_no_class_is_too_long(nodes: Nodes) -> None:
    too_long = [
        f"{path.relative_to(ROOT)}:{node.name}"
        for path, text in SOURCES.items()
        if text.count("\n") >= MOST_LINES_OF_CLASS
        for node in nodes[path]
        if isinstance(node, ast.ClassDef) and node.end_lineno and node.end_lineno - node.lineno >= MOST_LINES_OF_CLASS
    ]
    assert too_long == []


def test_the_extra_all_has_every_other() -> None:
    """All but `client`, which installs OpenStack's command."""
    setup = ConfigParser()
    setup.read(ROOT / "setup.cfg")
    extras = setup["options.extras_require"]
    (all_,) = extras["all"].split()
    assert all_ == f"heatlite[{','.join(sorted(extras.keys() - {'all', 'client'}))}]"


LAYERS = {"handlers": "/api/", "store": "/store/", "ports": "/plugin/ports.py", "wire": "/core/wire/"}
"""A subject has one name in its handler, its store, its port and its answer. The rest of the product is one layer."""
NAMED_ELSEWHERE = re.compile(
    r"/(agent|migrations|tables|resources|rare_types|sqlite|postgresql|mariadb)/|/(tables|errors)\.py"
)
"""Places with names of their own: a program that stands alone, rows, services, backends of databases, errors."""


def test_no_layer_has_two_classes_of_one_name() -> None:
    places: dict[tuple[str, str], list[str]] = {}
    for path, text in SOURCES.items():
        place = path.relative_to(ROOT).as_posix()
        if not NAMED_ELSEWHERE.search(place):
            layer = next((name for name, part in LAYERS.items() if part in place), "")
            for name in CLASS.findall(text):
                places.setdefault((layer, name), []).append(place)
    assert {name: found for (_, name), found in places.items() if len(found) > 1} == {}


def test_no_constant_is_given_twice() -> None:
    twice = [
        f"{path.relative_to(ROOT)}: {name}"
        for path, text in SOURCES.items()
        for name, count in Counter(CONSTANT.findall(text)).items()
        if count > 1
    ]
    assert twice == []


OWN = {path: text for path, text in SOURCES.items() if not path.is_relative_to(PACKAGE / "agent")}
"""All but the agent, which has the standard library only."""


@pytest.mark.slow
def test_there_is_one_kind_of_record() -> None:
    others = re.compile(r"\b(?:dataclasses?|NamedTuple|namedtuple|attrs|pydantic)\b")
    assert [str(path.relative_to(PACKAGE)) for path, text in OWN.items() if others.search(text)] == []


def test_one_module_reads_and_writes_json() -> None:
    library = re.compile(r"^ *(?:import json|from json|from msgspec\.json|import msgspec\.json)\b", re.MULTILINE)
    assert [str(path.relative_to(PACKAGE)) for path, text in OWN.items() if library.search(text)] == ["core/json.py"]


@pytest.mark.slow
def test_only_the_folders_of_databases_tell_them_apart(nodes: Nodes) -> None:
    """Compare no kinds of database: what differs is a part of the backend."""
    folder = PACKAGE / "store" / "database"
    folders = {folder / name for name in ("sqlite", "postgresql", "mariadb")}
    members = {"SQLITE", "POSTGRESQL", "MARIADB"}
    found = []
    for path in SOURCES:
        if path.parent in folders or path == folder / "backend.py":
            continue
        for node in nodes[path]:
            parts = [node.left, *node.comparators] if isinstance(node, ast.Compare) else []
            parts += [node.subject] if isinstance(node, ast.Match) else []
            parts += [node.slice] if isinstance(node, ast.Subscript) else []
            names = {part.attr for part in parts if isinstance(part, ast.Attribute)}
            if names & members or ("dialect" in names and "template" not in path.parts):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
    assert found == []


MOST_BROAD = 15


@pytest.mark.slow
def test_few_handlers_take_any_exception_and_each_says_why(nodes: Nodes) -> None:
    found, bare = [], []
    for path, text in SOURCES.items():
        lines = text.splitlines()
        for node in nodes[path]:
            if is_broad(node):
                found.append(f"{path.relative_to(ROOT)}:{node.lineno}")
                comment = lines[node.lineno - 1].partition("#")[2].replace("noqa: BLE001", "").strip(" #-")
                bare += [] if comment else found[-1:]
    assert bare == []
    assert len(found) <= MOST_BROAD, found


@pytest.mark.slow
def test_no_function_is_too_complex(nodes: Nodes) -> None:
    too_complex = [
        f"{path.relative_to(ROOT)}:{node.lineno} {node.name}: {complexity(node)}"
        for path in SOURCES
        for node in nodes[path]
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and complexity(node) > MOST_COMPLEX
    ]
    assert too_complex == []
