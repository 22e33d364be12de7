"""Concurrent replays of one suppressed request, from one or two servers."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any

from webtest import TestApp

from heatlite import wiring
from heatlite.core.config import Settings
from tests.processes import fresh

AT_ONCE = 10
"""Replays from each process."""

GROUP = {
    "heat_template_version": "2021-04-16",
    "resources": {
        "value": {"type": "OS::Heat::Value", "properties": {"value": "v"}},
        "group": {
            "type": "OS::Heat::AutoScalingGroup",
            "properties": {"min_size": 0, "max_size": 50, "resource": {"type": "OS::Heat::None"}},
        },
        "up": {
            "type": "OS::Heat::ScalingPolicy",
            "properties": {
                "auto_scaling_group_id": {"get_resource": "group"},
                "adjustment_type": "change_in_capacity",
                "scaling_adjustment": 1,
            },
        },
    },
    "outputs": {"size": {"value": {"get_attr": ["group", "current_size"]}}},
}


def replay(app: Any, url: str) -> list[int]:
    """The codes of `AT_ONCE` replays."""
    barrier = threading.Barrier(AT_ONCE)

    def one(_number: int) -> int:
        client = TestApp(app)
        barrier.wait()
        # 503: a lock took longer than requests wait on a busy machine. A client then tries again.
        while (code := int(client.post(url, b"", expect_errors=True).status_int)) == 503:
            time.sleep(0.1)
        return code

    with ThreadPoolExecutor(AT_ONCE) as pool:
        return list(pool.map(one, range(AT_ONCE)))


def _serve(settings: Settings, channel: Connection) -> None:
    embedded = wiring.embedded(settings)
    channel.send("ready")
    while (url := channel.recv()) is not None:
        channel.send(replay(embedded.app, url))
    embedded.close()


@contextmanager
def another_process(settings: Settings) -> Iterator[Connection]:
    """A server process that replays each URL it is sent, and answers with the codes."""
    context = fresh("tests.replays")
    here, there = context.Pipe()
    process = context.Process(target=_serve, args=(settings, there))
    process.start()
    there.close()  # so that the end of the process is the end of the channel
    try:
        assert here.recv() == "ready"
        yield here
        here.send(None)
        process.join(240)
    finally:
        process.kill()
        process.join()
