"""What holds for all tests."""

import os
from collections.abc import Generator
from pathlib import Path

import pytest

from tests.databases import PLACES
from tests.engine.dispatching import DISPATCHING

NO_SKIP = bool(os.environ.get("HEATLITE_TEST_NO_SKIP"))
"""Set where everything is installed (.ci/run): a test in one of these folders that skips then is a failure."""

SERVICES = ("tests/acceptance/", "tests/faults/", "tests/services/")
if os.environ.get("HEATLITE_TEST_CLOUD"):
    SERVICES += ("tests/clouds/",)


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
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail") and report.nodeid.startswith(SERVICES):
        report.outcome = "failed"
        report.longrepr = f"skipped, although HEATLITE_TEST_NO_SKIP is set: {report.longrepr}"
    return report


@pytest.fixture(scope="session")
def corpus() -> Path:
    """Templates that people use, from openstack/heat-templates."""
    named = os.environ.get("HEATLITE_CORPUS")
    folder = Path(named) if named else Path(__file__).parents[2] / "shared" / "corpus"
    hot = folder / "heat-templates" / "hot"
    if not hot.is_dir():
        pytest.skip(f"no heat-templates in {folder}; HEATLITE_CORPUS names another folder")
    return hot
