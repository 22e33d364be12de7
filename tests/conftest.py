"""Fixtures of all tests."""

import gc
import os
import sys
from collections.abc import Generator, Iterable
from pathlib import Path
from typing import Final

import hypothesis
import pytest
from hypothesis import HealthCheck

from tests.databases import PLACES
from tests.engine.dispatching import DISPATCHING

# Its assertions show their values only if this comes before the first import, which other folders make.
pytest.register_assert_rewrite("tests.types.marking")

# The same examples in each run, so that a failure comes from the change under test. To search for new examples, run the
# tests with `--hypothesis-profile=default`. The speed of a machine is not under test, and examples share fixtures.
SAME: Final = hypothesis.settings(
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
for profile, number in (("quick", 8), ("ci", 16), ("thorough", 100)):
    hypothesis.settings.register_profile(profile, SAME, max_examples=number)
hypothesis.settings.load_profile("quick")

SIMULATED: Final = frozenset({"cloudy", "troubled"})
"""Fixtures with a simulated cloud."""

NO_SKIP = bool(os.environ.get("HEATLITE_TEST_NO_SKIP"))
"""True if a test that skips fails: `.ci/run` deselects by `-m` what it has no service for."""

# Tests start hundreds of processes. Without bytecode files, each would compile the whole package first.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Exempt collected tests from garbage collection: they live until the end."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


class RotatedFolder(pytest.Dir):
    """A folder whose collection begins at another entry in each test process.

    The first run in a checkout compiles all test modules. In the same order, all processes would compile each of them.
    """

    def collect(self) -> Iterable[pytest.Item | pytest.Collector]:
        entries = [*super().collect()]
        process = self.config.workerinput  # type: ignore[attr-defined]
        start = len(entries) * int(process["workerid"].removeprefix("gw")) // int(process["workercount"])
        return entries[start:] + entries[:start]


def pytest_collect_directory(path: Path, parent: pytest.Collector) -> pytest.Collector | None:
    """Collect in another order in each of several test processes."""
    if hasattr(parent.config, "workerinput") and not (path / "__init__.py").exists():
        return RotatedFolder.from_parent(parent, path=path)
    return None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in order.

    On a server, leave out what does not depend on the database. Processes that collect in different orders
    have to agree.
    """
    items.sort(key=lambda item: item.path)
    if PLACES.are_files:
        return
    left = [one for one in items if _is_of_files(one)]
    items[:] = [one for one in items if not _is_of_files(one)]
    config.hook.pytest_deselected(items=left)


def _is_of_files(item: pytest.Item) -> bool:
    """Return True for a test that needs no database server, or cannot run on one.

    The simulated cloud is kept in the SQLite file of its installation.
    """
    if not SIMULATED.isdisjoint(getattr(item, "fixturenames", ())):
        return True
    return item.path.parent.name == "engine" and item.get_closest_marker("database") is None


def pytest_unconfigure() -> None:
    """Remove the queues and databases that this test process has made."""
    DISPATCHING.close()
    PLACES.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skip as a failure if all services must be there."""
    report = yield
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail"):
        report.outcome = "failed"
        report.longrepr = f"skipped, although HEATLITE_TEST_NO_SKIP is set: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Public templates, from openstack/heat-templates."""
    named = os.environ.get("HEATLITE_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "corpus"
    hot = folder / "heat-templates" / "hot"
    if not hot.is_dir():
        pytest.skip(f"no heat-templates in {folder}; HEATLITE_CORPUS names another folder")
    return hot
