"""The cloud of real services beside the checkout, and a project of its own in it."""

import fcntl
import os
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from uuid import uuid4

import pytest
import yaml

FOLDER = Path(os.environ.get("HEATLITE_TEST_CLOUD") or "/nowhere")
EVERYTHING = bool(os.environ.get("HEATLITE_TEST_CLOUD_ALL"))
"""True if all that is played on the simulated cloud is played on this one, too, which takes minutes more. Without it
that is our own story with a server, the templates that people use, and some of each service."""
CACHE = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
HOME = Path(os.environ.get("CLOUD_HOME") or CACHE / "heatlite-cloud")
NETWORK = 9696
START_SECONDS = 600
"""Time for its services to start, on a busy machine as well."""
PORTS = (5000, 9292, NETWORK, 8774, 8776)
"""The default address of its services."""


def needed() -> None:
    """Skip where no such cloud is named: minutes are too long for everyday tests.

    Start it if it stands still.
    """
    if not FOLDER.is_dir():
        pytest.skip("HEATLITE_TEST_CLOUD names no cloud of real services; .ci/run does, where there is one")
    if not (HOME / "seeded").is_file():
        pytest.skip(f"the cloud in {FOLDER} is not set up: run its ./setup (minutes), or set CLOUD_HOME")
    with locked("start"):
        if not all(map(_listens, PORTS)):
            patient = {**os.environ, "CLOUD_WAIT": str(START_SECONDS)}
            done = subprocess.run([FOLDER / "start"], env=patient, capture_output=True, text=True, check=False)
            assert done.returncode == 0, done.stderr


@contextmanager
def locked(what: str) -> Iterator[None]:
    """Inside, no other process of tests on this machine is."""
    with (HOME / f"heatlite-tests-{what}.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _listens(port: int) -> bool:
    with socket.socket() as one:
        one.settimeout(2)
        return one.connect_ex(("127.0.0.1", port)) == 0


@contextmanager
def project(folder: Path) -> Iterator[Path]:
    """A project of its own, by the path of its clouds.yaml.

    Its clouds are `ours` (member), `ours-admin` (administrator in it) and `other` (member of another project).
    """
    from openstack.config import OpenStackConfig
    from openstack.connection import Connection

    described = yaml.safe_load((HOME / "clouds.yaml").read_text())["clouds"]
    admin = Connection(config=OpenStackConfig(config_files=[str(HOME / "clouds.yaml")]).get_one("fakecloud"))
    identity, name = admin.identity, f"heatlite-{uuid4().hex[:8]}"
    made = identity.create_project(name=name, domain_id="default")
    user = identity.create_user(name=name, domain_id="default", password=name, default_project_id=made.id)
    roles = {role.name: role for role in identity.roles()}
    root = identity.find_user("admin", domain_id="default")
    for who, role in ((user, "member"), (user, "heat_stack_owner"), (root, "admin")):
        identity.assign_project_role_to_user(made, who, roles[role])
    ours, boss = described["fakecloud-demo"], described["fakecloud"]
    clouds = {
        "ours": {**ours, "auth": {**ours["auth"], "username": name, "password": name, "project_name": name}},
        "ours-admin": {**boss, "auth": {**boss["auth"], "project_name": name}},
        "other": described["fakecloud-alt"],
    }
    path = folder / "clouds.yaml"
    path.write_text(yaml.safe_dump({"clouds": clouds}))
    try:
        yield path
    finally:
        for group in admin.network.security_groups(project_id=made.id):
            admin.network.delete_security_group(group)
        identity.delete_user(user)
        identity.delete_project(made)
        admin.close()
