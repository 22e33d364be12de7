"""Heat's own tests: those in its source package, and heat-tempest-plugin.

The expected failures are in `heat_differences.yaml`.
"""

import json
import os
import re
import subprocess
import time
from pathlib import Path

import pytest
import yaml

from tests.clients.installing import environment, folder, source
from tests.clients.region import FLAVOR, IMAGE, LARGER_FLAVOR, Region
from tests.tables import few

pytestmark = pytest.mark.clients

HERE = Path(__file__).parent
PAGE = HERE.parents[1] / "docs" / "reference" / "heat-differences.md"
SHARES = 4
"""Processes of a suite: its tests wait most of the time."""
SECONDS = 7200
"""Time limit of a suite. Its results so far are in files `<suite>.<number of the share>` of the test's folder."""

SUITES = {
    "heat_integrationtests": (("openstack-heat", "27.0.1"), "heat_integrationtests/functional"),
    "heat_tempest_plugin": (("heat-tempest-plugin", "3.0.0"), "heat_tempest_plugin/tests"),
}
SETTINGS = """\
[DEFAULT]
log_file = {folder}/tempest.log
use_stderr = false
[oslo_concurrency]
lock_path = {folder}
[service_available]
heat = true
[heat_features_enabled]
stack_cancel = true
[heat_plugin]
username = {region.name}
password = {region.password}
project_name = {region.name}
admin_username = admin
admin_password = {region.admin_password}
admin_project_name = {region.name}
auth_url = {region.auth_url}
user_domain_name = Default
user_domain_id = default
project_domain_name = Default
project_domain_id = default
region = {region.name}
instance_type = {larger}
minimal_instance_type = {flavor}
image_ref = {image}
minimal_image_ref = {image}
hidden_stack_tag = hidden
build_interval = 1
build_timeout = 600
connectivity_timeout = 5
"""


def differences() -> dict[str, dict[str, str]]:
    """Expected failures by suite: test → topic in heat-differences.md, or a reason."""
    return yaml.safe_load((HERE / "heat_differences.yaml").read_text())  # type: ignore[no-any-return]


def test_each_expected_failure_has_its_line() -> None:
    topics = {line.split("|")[1].strip() for line in PAGE.read_text().splitlines() if line.startswith("|")}
    stated = differences()
    assert stated.keys() == {*SUITES, "not run"}
    assert [topic for suite in SUITES for topic in stated[suite].values() if topic not in topics] == []


@pytest.mark.slow
@pytest.mark.parametrize("suite", few(SUITES))
def test_only_the_expected_ones_fail(suite: str, place: Region, tmp_path: Path) -> None:
    (package, version), tests = SUITES[suite]
    root, plugin = source(package, version), "heat-tempest-plugin==3.0.0"
    python = environment("heat-tests", plugin, "python-swiftclient") / "python"
    names = {"folder": tmp_path, "region": place, "larger": LARGER_FLAVOR, "flavor": FLAVOR, "image": IMAGE}
    (tmp_path / "tempest.conf").write_text(SETTINGS.format_map(names))
    variables = {**os.environ, "TEMPEST_CONFIG_DIR": str(tmp_path), "TEMPEST_CONFIG": "tempest.conf"}
    program = [str(python), "-W", "ignore", str(HERE / "heat_tests_program.py"), str(root / tests), str(root)]
    expected, without = differences()[suite], differences()["not run"]
    outputs = [tmp_path / f"{suite}.{number}" for number in range(SHARES)]
    running = []
    for number, output in enumerate(outputs):
        with output.open("w") as lines_of_share:
            words = [*program, str(number), str(SHARES), *without]
            running.append(subprocess.Popen(words, env=variables, cwd=folder(), stdout=lines_of_share))
    end = time.monotonic() + SECONDS
    try:
        for one in running:
            one.wait(end - time.monotonic())
    finally:
        for one in running:
            one.kill()
    lines = [line for output in outputs for line in output.read_text().splitlines()]
    assert [one.returncode for one in running] == [0] * SHARES
    outcomes = {re.sub(r"\[id-.*", "", name): (outcome, text) for name, outcome, text, _ in map(json.loads, lines)}
    passed = {name for name, (outcome, _) in outcomes.items() if outcome == "passed"}
    failed = {name: text for name, (outcome, text) in outcomes.items() if outcome == "failed"}
    told = {name: text[-1500:] for name, text in failed.items() if name not in expected}
    assert not told, "\n\n".join(f"{name}\n{text}" for name, text in told.items())
    assert passed
    assert sorted(passed & expected.keys()) == [], "these pass now: take them off heat_differences.yaml"
