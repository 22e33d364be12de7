"""A full disk: 503, nothing half-written, reads go on, and recovery after."""

import os
import resource
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.trouble import check_unavailable, check_well, picture, under_way, writes


@pytest.mark.slow
def test_the_disk_is_full(serve: Callable[[], Server]) -> None:
    """No file of the server may grow, which SQLite cannot tell from a full disk."""
    server = serve()
    path, slow = under_way(server)
    before = picture(server, path)
    for process in (server.worker(), *server.apis()):
        resource.prlimit(process, resource.RLIMIT_FSIZE, (32 * 1024, resource.RLIM_INFINITY))
    for method, target, body in writes(path):
        check_unavailable(server.request(method, target, body))
    assert picture(server, path) == before
    assert server.healthy()
    for process in (server.worker(), *server.apis()):
        resource.prlimit(process, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    check_well(server, path, slow)


@pytest.mark.slow
def test_the_file_system_is_read_only(tmp_path: Path) -> None:
    """Reads go on. A change names the file and the cause, as on a full one."""
    program = f"{sys.executable} -m heatlite"
    resources = "resources: {a: {type: OS::Heat::RandomString}}"
    (tmp_path / "a.yaml").write_text(f"heat_template_version: 2018-08-31\n{resources}\n")
    script = f"""
    mount -t tmpfs -o size=4m tmpfs {tmp_path}/disk || exit 77
    {program} up --yes {tmp_path}/a.yaml -n one >&2 || exit 1
    mount -o remount,ro {tmp_path}/disk
    {program} ls -f value -c stack_name
    {program} down --yes one 2>&1
    {program} serve --port 0 2>&1
    mount -o remount,rw {tmp_path}/disk
    head -c 9000000 /dev/zero 2>&1 > {tmp_path}/disk/rest | true
    {program} ls 2>&1
    """
    (tmp_path / "disk").mkdir()
    environment = {**os.environ, "HOME": str(tmp_path), "HEATLITE_DATABASE": f"sqlite:///{tmp_path}/disk/heat.db"}
    command = ["unshare", "--user", "--map-root-user", "--mount", "sh", "-c", script]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode == 77 or "unshare" in done.stderr:
        pytest.skip(f"no file system of its own: {done.stderr}")
    listed, deleted, served, full = done.stdout.splitlines()
    assert listed == "one"
    for told in (deleted, served):
        assert f"Read-only file system: '{tmp_path}/disk/heat.db.engine'" in told
    assert f"{tmp_path}/disk/heat.db: " in full and "No space left on device" in full
