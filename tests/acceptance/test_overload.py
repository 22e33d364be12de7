"""Too much at once: what would wait long is refused, and what is urgent passes."""

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from tests.acceptance.processes import START_SECONDS, Answer, Server
from tests.acceptance.raw_http import connect, read_reply, request, send
from tests.waiting import eventually

TEMPLATE = {"heat_template_version": "2021-04-16"}
CLIENTS = 50


class Elsewhere:
    """A web server that holds each request until `release`."""

    def __init__(self, stack: ExitStack) -> None:
        self.asked = 0
        """Requests that have come."""
        self._released = threading.Event()
        stack.callback(self.release)
        elsewhere = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                elsewhere.asked += 1
                elsewhere._released.wait(START_SECONDS)
                self.send_error(404)

            def log_message(self, *_: object) -> None:
                """Log nothing."""

        server = stack.enter_context(ThreadingHTTPServer(("127.0.0.1", 0), Handler))
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        stack.callback(thread.join)
        stack.callback(server.shutdown)
        self.url = f"http://127.0.0.1:{server.server_port}/t.yaml"

    def release(self) -> None:
        """Answer all requests from now on."""
        self._released.set()

    def hold(self) -> None:
        """Hold requests from now on."""
        self._released.clear()


@pytest.fixture
def elsewhere() -> Iterator[Elsewhere]:
    with ExitStack() as stack:
        yield Elsewhere(stack)


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Server]:
    """A server that answers one write at once."""
    started = Server(
        tmp_path,
        HEATLITE_THREADS="2",
        HEATLITE_PROCESSES="1",
        HEATLITE_METRICS="true",
        HEATLITE_TEMPLATE_HOSTS="127.0.0.1",
        HEATLITE_TEMPLATE_FETCH_TIMEOUT="240",
    )
    yield started
    started.kill()


def is_refused(answer: Answer) -> bool:
    fault: Any = answer.data
    assert answer.status == 503, fault
    return fault["error"]["type"] == "Overloaded" and int(str(answer.headers["Retry-After"])) >= 1


def refusals(server: Server) -> float:
    """The number of 503 that the metrics show."""
    families = text_string_to_metric_families(str(server.request("GET", "/metrics").data))
    found = (sample for family in families for sample in family.samples if sample.labels.get("code") == "503")
    return sum(sample.value for sample in found if sample.name.endswith("_count"))


@pytest.mark.slow
def test_writes_wait_in_a_bounded_line(small: Server, elsewhere: Elsewhere) -> None:
    """While a write is held, health checks, reads, locks and cancels go on."""
    path = small.create("s", TEMPLATE)
    small.settled(path)
    with ThreadPoolExecutor(30) as pool:

        def write() -> Future[Answer]:
            return pool.submit(small.request, "POST", "/validate", {"template": TEMPLATE})

        def hold() -> Future[Answer]:
            asked = elsewhere.asked
            held = pool.submit(small.request, "POST", "/validate", {"template_url": elsewhere.url})
            eventually(lambda: elsewhere.asked > asked, "the write has a thread")
            return held

        held = hold()
        waiting = [write() for _ in range(20)]
        assert small.request("GET", "/healthcheck").status == 200
        assert small.request("GET", "/stacks").status == 200
        assert small.request("POST", f"{path}/actions", {"lock": {"level": "stacks"}}).status == 200
        assert small.request("POST", f"{path}/actions", {"cancel_update": None}).status < 500
        assert all(is_refused(one.result(START_SECONDS)) for one in waiting)
        assert not held.done()
        elsewhere.release()
        assert held.result(START_SECONDS).status == 400
        elsewhere.hold()
        # The time of an answer is known now: it would be too long.
        held = hold()
        assert is_refused(write().result(START_SECONDS))
        assert not held.done()
        elsewhere.release()
        held.result(START_SECONDS)
        assert refusals(small) == 21
    eventually(lambda: small.request("POST", "/validate", {"template": TEMPLATE}).status == 200, "all is as before")
    small.stop()
    assert small.complaints() == ""


def test_clients_that_come_together_are_all_served(server: Server) -> None:
    """Their connections wait to be accepted, and then their requests for a thread."""
    ask = request("GET /v1/demo/stacks?limit=100 HTTP/1.1", "Connection: close")
    with ExitStack() as opened:
        clients = [opened.enter_context(connect(server.port)) for _ in range(CLIENTS)]
        for client in clients:
            send(client, [ask])
        replies = [read_reply(client.makefile("rb")) for client in clients]
    assert [reply.status for reply in replies if reply is not None] == [200] * CLIENTS
