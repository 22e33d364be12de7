"""The dispatcher within one process."""

import subprocess
import sys

import pytest

from heatlite.core.status import WorkKind
from heatlite.engine.dispatch import Dispatcher
from heatlite.store.records import Announcement


class Worker:
    def __init__(self) -> None:
        self.woken = 0

    def wake(self) -> None:
        self.woken += 1

    def take(self, action_id: str) -> None:
        raise AssertionError(f"{action_id}: it looks at the table by itself")


def test_the_worker_is_woken_while_it_is_attached() -> None:
    local, worker = Dispatcher(), Worker()
    local.announce(Announcement("a", WorkKind.STACK, None, is_ready=True))
    local.worker = worker
    local.announce(Announcement("a", WorkKind.STACK, "north", is_ready=True))
    local.announce(Announcement("a", WorkKind.CHECK, None, is_ready=False))
    local.worker = None
    local.announce(Announcement("a", WorkKind.STACK, None, is_ready=True))
    local.close()
    assert worker.woken == 2
    assert (local.claim_filter.kinds, local.claim_filter.zones) == (None, None)


@pytest.mark.slow
def test_one_process_needs_no_celery() -> None:
    code = "import sys, heatlite.serving.server; sys.exit('celery' in sys.modules or 'kombu' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
