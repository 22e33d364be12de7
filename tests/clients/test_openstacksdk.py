"""openstacksdk's own functional tests of the orchestration service."""

import os
import subprocess
from pathlib import Path

import pytest
import yaml

from tests.clients.installing import environment, source
from tests.clients.region import FLAVOR, IMAGE, Region

pytestmark = pytest.mark.clients

VERSION = "4.22.0"
TESTS = (
    "openstack.tests.functional.orchestration.v1.test_stack",
    "openstack.tests.functional.cloud.test_orchestration",
)


def test_its_own_tests(region: Region, tmp_path: Path) -> None:
    root = source("openstacksdk", VERSION)
    needs = ("fixtures", "oslotest", "requests-mock", "statsd", "testscenarios", "testtools")
    programs = environment("openstacksdk", f"openstacksdk=={VERSION}", *needs)
    clouds = yaml.safe_load(region.clouds.read_text())["clouds"]
    admin = clouds["ours-admin"]
    system = {**admin, "auth": {key: value for key, value in admin["auth"].items() if "project" not in key}}
    system["auth"]["system_scope"] = "all"
    known = {"ours": clouds["ours"], "other": clouds["other"], "admin": admin, "system": system}
    (tmp_path / "clouds.yaml").write_text(yaml.safe_dump({"clouds": known}))
    variables = {
        **os.environ, "OS_CLIENT_CONFIG_FILE": str(tmp_path / "clouds.yaml"), "OPENSTACKSDK_DEMO_CLOUD": "ours",
        "OPENSTACKSDK_DEMO_CLOUD_ALT": "other", "OPENSTACKSDK_OPERATOR_CLOUD": "admin",
        "OPENSTACKSDK_SYSTEM_ADMIN_CLOUD": "system", "OPENSTACKSDK_FLAVOR": FLAVOR,
        "OPENSTACKSDK_IMAGE": IMAGE, "OS_CLOUD": "admin", "HOME": str(tmp_path),
        "PYTHONPATH": str(root), "OS_TEST_TIMEOUT": "600",
    }  # fmt: skip
    done = subprocess.run(
        [programs / "python", "-W", "ignore", "-m", "testtools.run", *TESTS],
        env=variables, cwd=root, capture_output=True, text=True, timeout=1200, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert "\nOK" in done.stdout, done.stdout[-2000:]
