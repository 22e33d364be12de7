"""What holds for all tests."""

import os
from collections.abc import Generator

import pytest

NO_SKIP = bool(os.environ.get("HEATLITE_TEST_NO_SKIP"))
"""Set where everything is installed (.ci/run): a test in one of these folders that skips then is a failure."""

SERVICES = ("tests/acceptance/", "tests/services/")


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the marks
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one database server share it, so they stay in one process when several run."""
    for item in items:
        if item.nodeid.startswith("tests/services/"):
            item.add_marker(pytest.mark.xdist_group("servers"))


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """A skipped test has failed where nothing may be missing; other people's templates may, they are not ours."""
    report = yield
    if "corpus" in getattr(item, "fixturenames", ()):
        return report
    if NO_SKIP and report.skipped and not hasattr(report, "wasxfail") and report.nodeid.startswith(SERVICES):
        report.outcome = "failed"
        report.longrepr = f"skipped, although HEATLITE_TEST_NO_SKIP is set: {report.longrepr}"
    return report
