"""Requirements at the start of a server, and gunicorn's settings."""

import logging
import subprocess
import sys

import pytest
from gunicorn.config import Config

from heatlite.server import Log


def test_a_query_is_not_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """gunicorn logs URLs that it could not answer, and a signed one is a key."""
    log = Log(Config())
    with caplog.at_level(logging.INFO):
        try:
            raise ConnectionError("lost")
        except ConnectionError:
            log.exception("Error handling request %s %s", "POST", "/v1/signal/arn?Timestamp=1&Signature=secret")
    (record,) = [one for one in caplog.records if one.name == log.error_log.name]  # servers of other tests may run
    assert record.getMessage() == "Error handling request POST /v1/signal/arn"
    assert record.exc_info is not None
    assert "lost" in str(record.exc_info[1])


FAILING = """
import signal, time
from heatlite.core.config import Settings
from heatlite.server import Server

def fail(_):
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    time.sleep(1)
    raise RuntimeError("no engine")

Server(Settings(database="postgresql://", port=0), fail, processes=2).run()
"""


@pytest.mark.full
def test_processes_that_fail_at_their_start_end_the_server() -> None:
    """The second one fails while the server ends for the first one."""
    done = subprocess.run([sys.executable, "-c", FAILING], capture_output=True, text=True, check=False, timeout=240)
    assert (done.returncode, "HaltServer" in done.stderr) == (1, False)
    assert done.stderr.count("RuntimeError: no engine") == 2


@pytest.mark.full
def test_it_starts_without_what_only_some_installations_use() -> None:
    """Such a library is imported when it is used."""
    libraries = {"openstack", "keystoneauth1", "keystonemiddleware", "oslo_policy", "prometheus_client"}
    code = f"import sys, heatlite.server; print(*{libraries!r} & {{*sys.modules}})"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "\n"
