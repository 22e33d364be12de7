"""Fixtures of all tests."""

import gc
import os
import sys
from collections.abc import Generator, Iterable
from pathlib import Path

import hypothesis
import pytest
from hypothesis import HealthCheck

from tests.databases import PLACES
from tests.engine.dispatching import DISPATCHING
from tests.thorough import STRICT, examples, is_left_out, names_tests, share

# Its assertions show their values only if this comes before the first import, which other folders make.
pytest.register_assert_rewrite("tests.types.marking")

# The same examples in each run, so that a failure comes from the change under test. To search for new examples, run the
# tests with `--hypothesis-profile=default`.
hypothesis.settings.register_profile(
    "same", derandomize=True, deadline=None, max_examples=examples(100), suppress_health_check=[HealthCheck.too_slow]
)
hypothesis.settings.load_profile("same")

SERVICES = ("tests/acceptance/", "tests/faults/", "tests/services/", "tests/features/dashboard/")
if os.environ.get("HEATLITE_TEST_CLOUD"):
    SERVICES += ("tests/clouds/",)
"""Folders whose skipped tests fail in the whole run."""

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


def pytest_ignore_collect(collection_path: Path, config: pytest.Config) -> bool | None:
    """Leave out the folders that `tests/thorough.py` names for this run."""
    return True if is_left_out(collection_path, config.args) else None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Put the tests in order; leave out those that `tests/thorough.py` names."""
    items.sort(key=lambda item: item.path)  # processes that collect in different orders have to agree
    if not names_tests(config.args):
        items[:], left = share(items)
        if left:
            config.hook.pytest_deselected(items=left)


def pytest_unconfigure() -> None:
    """Remove the queues and databases that this test process has made."""
    DISPATCHING.close()
    PLACES.close()


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Count a skip as a failure if all services must be there.

    Tests of public templates may skip if HEATLITE_CORPUS is not set.
    """
    report = yield
    if "corpus" in getattr(item, "fixturenames", ()) and not os.environ.get("HEATLITE_CORPUS"):
        return report
    if STRICT and report.skipped and not hasattr(report, "wasxfail") and report.nodeid.startswith(SERVICES):
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
