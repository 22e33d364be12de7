"""The dashboard behind nginx, with its defaults and the block that the how-to has."""

import os
import re
import shutil
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing
from http.client import HTTPConnection, HTTPResponse
from pathlib import Path
from urllib.parse import urlencode

import pytest

from tests.acceptance.processes import ROOT, Server
from tests.waiting import eventually

NGINX = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
pytestmark = [pytest.mark.slow, pytest.mark.skipif(NGINX is None, reason="nginx is not installed")]
PLACES = ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    server = Server(tmp_path, HEATLITE_UI="true")
    yield server
    server.stop()
    assert server.complaints() == ""


@pytest.fixture
def proxy(server: Server, tmp_path: Path) -> Iterator[HTTPConnection]:
    """A connection to an nginx before the server, on a socket."""
    document = (ROOT / "docs/dashboard.md").read_text()
    (block,) = re.findall(r"^    location / \{\n(?:    .*\n)+?    \}\n", document, re.MULTILINE)
    block = block.replace("127.0.0.1:8004", f"127.0.0.1:{server.port}")
    places = "".join(f"{name}_temp_path {tmp_path}/{name};" for name in PLACES)
    listen = f"server {{ listen unix:{tmp_path}/nginx.sock; {block} }}"
    user = "user root;" if os.geteuid() == 0 else ""
    config = tmp_path / "nginx.conf"
    http = f"http {{ access_log off; gzip on; {places} {listen} }}"
    config.write_text(f"{user} daemon off; pid {tmp_path}/nginx.pid; events {{}} {http}")
    log = tmp_path / "nginx.log"
    assert NGINX is not None
    process = subprocess.Popen([NGINX, "-p", str(tmp_path), "-c", str(config), "-e", str(log)])
    try:
        with closing(Local(tmp_path / "nginx.sock")) as connection:
            eventually(connection.answers, f"nginx listens; its log is {log}")
            yield connection
    finally:
        process.terminate()
        process.wait(240)


class Local(HTTPConnection):
    """HTTP over a socket of this machine."""

    def __init__(self, path: Path) -> None:
        super().__init__("127.0.0.1:8443", timeout=240)
        self._path = path

    def connect(self) -> None:
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(240)
        self.sock.connect(str(self._path))

    def answers(self) -> bool:
        """True from when the server listens. Its socket is a file before that."""
        try:
            self.connect()
        except OSError:
            self.close()
            return False
        return True


def open_stream(stream: HTTPConnection, last: str = "") -> HTTPResponse:
    """Follow the project's events: from now on, or after one."""
    headers = {"Accept": "text/event-stream", **({"Last-Event-ID": last} if last else {})}
    stream.request("GET", "/ui/p/demo/events", headers=headers)
    events = stream.getresponse()
    assert events.status == 200
    assert events.getheader("Content-Type") == "text/event-stream"
    return events


def until(events: HTTPResponse, text: str) -> int:
    """Read up to an event with a text. Returns its id."""
    found = 0
    for line in iter(events.readline, b""):
        if line.startswith(b"id: "):
            found = int(line[4:])
        if line.startswith(b"data: ") and text in line.decode():
            return found
    raise AssertionError("the stream has ended")


def test_a_stream_goes_on_where_it_was(server: Server, proxy: HTTPConnection, tmp_path: Path) -> None:
    thing = {"type": "OS::Heat::Value", "properties": {"value": "x"}}
    template = {"heat_template_version": "2021-04-16", "resources": {"a": thing}}
    with closing(Local(tmp_path / "nginx.sock")) as stream, closing(open_stream(stream)) as events:
        for number in range(2):
            server.settled(server.create(f"s{number}", template))
        last = until(events, "CREATE_COMPLETE")
    with closing(Local(tmp_path / "nginx.sock")) as stream, closing(open_stream(stream, str(last))) as events:
        assert until(events, "CREATE_COMPLETE") > last


def test_live_updates_and_forms_pass(server: Server, proxy: HTTPConnection, tmp_path: Path) -> None:
    thing = {"type": "OS::Heat::Value", "properties": {"value": "x"}}
    path = server.create("s", {"heat_template_version": "2021-04-16", "resources": {"a": thing}})
    server.settled(path)
    with ExitStack() as streaming:
        stream = streaming.enter_context(closing(Local(tmp_path / "nginx.sock")))
        events = streaming.enter_context(closing(open_stream(stream)))
        proxy.request("GET", f"/ui/p/demo{path}")
        page = proxy.getresponse()
        (token,) = {*re.findall(r'name="csrf" value="(\w+)"', page.read().decode())}
        fields = urlencode({"csrf": token, "resource": "a", "unhealthy": "true", "reason": "smoke"})
        sent = {"Content-Type": "application/x-www-form-urlencoded", "Cookie": page.getheader("Set-Cookie", "")}
        proxy.request("POST", f"/ui/p/demo{path}/do/mark", fields, {**sent, "Origin": "http://127.0.0.1:8443"})
        answer = proxy.getresponse()
        assert answer.status == 303, answer.read().decode()
        assert until(events, "smoke")
