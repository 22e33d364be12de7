"""The start of a server."""

import subprocess
import sys

import pytest

FAILING = """
import signal, socket, time
from heatlite.core.config import Settings
from heatlite.serving.application import Server

def fail(_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1)
    raise RuntimeError("no engine")

bound = socket.socket()
bound.bind(("127.0.0.1", 0))
Server(Settings(database="postgresql://"), fail, 2, bound).run()
"""


@pytest.mark.slow
def test_processes_that_fail_at_their_start_end_the_server() -> None:
    """The second one fails while the server ends for the first one."""
    done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, "HaltServer" in done.stderr) == (1, False)
    assert done.stderr.count("RuntimeError: no engine") == 2


@pytest.mark.slow
def test_it_starts_without_what_only_some_installations_use() -> None:
    """Such a library is imported when it is used."""
    libraries = {"openstack", "keystoneauth1", "keystonemiddleware", "oslo_policy", "prometheus_client"}
    code = f"import sys, heatlite.serving.server; print(*{libraries!r} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
