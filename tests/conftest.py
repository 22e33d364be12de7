"""Fixtures of all tests."""

import gc
import os
import sys
from collections.abc import Generator, Iterator
from functools import cache
from importlib.metadata import EntryPoints
from pathlib import Path

import hypothesis
import pytest

from heatlite.plugin import registry
from heatlite.plugin.registry import announced
from tests.databases import PLACES
from tests.engine.dispatching import DISPATCHING
from tests.thorough import FULL, STRICT, examples, share

# The same examples each time: whoever changes something is told of his own faults. To look for others, run the tests
# with `--hypothesis-profile=default`.
# Other folders import it before the one that it is in.
pytest.register_assert_rewrite("tests.types.marking")

hypothesis.settings.register_profile("same", derandomize=True, deadline=None, max_examples=examples(100))
hypothesis.settings.load_profile("same")

SERVICES = ("tests/acceptance/", "tests/faults/", "tests/services/")
if os.environ.get("HEATLITE_TEST_CLOUD"):
    SERVICES += ("tests/clouds/",)
"""Folders where a test that skips in the whole run is a failure."""

# Hundreds of processes start here: each would compile the whole package first.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """All that is collected stays: the garbage collector need not walk it again and again, now or later."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what only the whole run has: see `tests/thorough.py`."""
    if not FULL and not any("::" in argument for argument in config.args):
        items[:], left = share(items)
        if left:
            config.hook.pytest_deselected(items=left)


def pytest_unconfigure() -> None:
    """Each process of the tests takes away what it has made."""
    DISPATCHING.close()
    PLACES.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test has failed where nothing may be missing; other people's templates may, they are not ours."""
    report = yield
    if "corpus" in getattr(item, "fixturenames", ()) and not os.environ.get("HEATLITE_CORPUS"):
        return report
    if STRICT and report.skipped and not hasattr(report, "wasxfail") and report.nodeid.startswith(SERVICES):
        report.outcome = "failed"
        report.longrepr = f"skipped, although HEATLITE_TEST_NO_SKIP is set: {report.longrepr}"
    return report


@cache
def _announced(path: tuple[str, ...]) -> EntryPoints:
    return announced()


@pytest.fixture(scope="session", autouse=True)
def _packages() -> Iterator[None]:
    """Read the entry points once for each path: it takes longer than many a test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(registry, "announced", lambda: _announced(tuple(sys.path)))
        yield


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Templates that people use, from openstack/heat-templates."""
    named = os.environ.get("HEATLITE_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "corpus"
    hot = folder / "heat-templates" / "hot"
    if not hot.is_dir():
        pytest.skip(f"no heat-templates in {folder}; HEATLITE_CORPUS names another folder")
    return hot
