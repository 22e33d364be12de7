"""Agents as processes, and a server that they register with."""

import http.client
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from heatlite.agent import signature
from tests.waiting import PATIENCE, eventually

ROOT = Path(__file__).parents[2]


def lives(process: int) -> bool:
    """True if a process is there, and no zombie."""
    try:
        return b") Z " not in Path(f"/proc/{process}/stat").read_bytes()
    except (FileNotFoundError, ProcessLookupError):
        return False


@dataclass
class Answer:
    status: int
    body: Any
    signed: bool


class Agent:
    """A process, and its API."""

    def __init__(self, folder: Path, *flags: str, settings: str = "", program: tuple[str, ...] = ()) -> None:
        self.folder = folder
        folder.parent.mkdir(exist_ok=True)
        self.settings = folder.with_suffix(".toml")
        self.settings.write_text(settings)
        self._program = program or (sys.executable, "-m", "heatlite.agent")
        self._flags = flags
        self._log = folder.with_suffix(".log")
        self.process: subprocess.Popen[bytes] | None = None

    def start(self) -> "Agent":
        started = self.log().count('"started"')
        command = [*self._program, "run", "--config", str(self.settings), "--folder", str(self.folder)]
        if not any(flag == "--listen" for flag in self._flags) and "listen" not in self.settings.read_text():
            command += ["--listen", "127.0.0.1:0"]
        with self._log.open("ab") as log:
            self.process = subprocess.Popen(
                [*command, *self._flags], stderr=log, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT
            )
        eventually(lambda: self.log().count('"started"') > started or self._died())
        return self

    def _died(self) -> bool:
        assert self.process is not None
        assert self.process.poll() is None, self.log()
        return False

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(PATIENCE)

    def log(self) -> str:
        return self._log.read_text() if self._log.exists() else ""

    def command(self, *words: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        """Requests of the operator on the machine."""
        return subprocess.run(
            [*self._program, *words, "--folder", str(self.folder)], input=stdin, capture_output=True, text=True,
            timeout=PATIENCE, env={**os.environ, "PYTHONPATH": str(ROOT)}, cwd=ROOT,
        )  # fmt: skip

    @property
    def url(self) -> str:
        return (self.folder / "address").read_text()

    @property
    def secret(self) -> str:
        return (self.folder / "secret").read_text()

    def ask(
        self, method: str, path: str, body: object = None, secret: str | None = None, nonce: str | None = None
    ) -> Answer:
        """Say something, signed with `secret`; "" says it unsigned."""
        secret, nonce = self.secret if secret is None else secret, nonce or signature.new_nonce()
        data = body if isinstance(body, bytes) else b"" if body is None else json.dumps(body).encode()
        headers = {
            signature.NONCE: nonce,
            signature.SIGNATURE: signature.of_request(secret, method, path, nonce, data),
        }
        connection = http.client.HTTPConnection(urlsplit(self.url).netloc, timeout=PATIENCE)
        try:
            connection.request(method, path, data, headers if secret else {})
            answer = connection.getresponse()
            text = answer.read()
        finally:
            connection.close()
        right = signature.of_answer(self.secret, answer.status, nonce, text)
        return Answer(answer.status, json.loads(text), answer.headers.get(signature.SIGNATURE) == right)

    def get(self, path: str) -> Any:
        answer = self.ask("GET", path)
        assert (answer.status, answer.signed) == (200, True), answer
        return answer.body

    def schedule(self, kind: str, args: Mapping[str, object] | None = None, **more: object) -> str:
        answer = self.ask("POST", "/v1/actions", {"kind": kind, "args": args or {}, **more})
        assert (answer.status, answer.signed) == (201, True), answer
        return str(answer.body["id"])

    def script(self, text: str, **more: object) -> str:
        return self.schedule("script", {"config": f"#!/bin/sh\n{text}", **more})

    def action(self, action_id: str) -> dict[str, Any]:
        return dict(self.get(f"/v1/actions/{action_id}")["action"])

    def ended(self, action_id: str) -> dict[str, Any]:
        """An action, once it has ended."""
        eventually(lambda: self.action(action_id)["finished_at"])
        return self.action(action_id)

    def rest(self) -> None:
        """Wait until the actions of all tests before have ended."""
        eventually(lambda: all(self.action(one)["finished_at"] for one in self.get("/v1/changes")["known"]))

    def cancel(self, action_id: str) -> dict[str, Any]:
        answer = self.ask("POST", f"/v1/actions/{action_id}/cancel")
        assert (answer.status, answer.signed) == (200, True), answer
        return dict(answer.body["action"])


@dataclass
class Registry:
    """A server as far as agents see one."""

    requests: list[tuple[str, str, Any]] = field(default_factory=list)
    """Method, path, body."""
    status: int = 200
    """Return its answer."""
    tls: ssl.SSLContext | None = None

    def __enter__(self) -> "Registry":
        registry = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._serve()

            def do_POST(self) -> None:
                self._serve()

            def do_PUT(self) -> None:
                self._serve()

            def _serve(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0)))
                registry.requests.append((self.command, self.path, json.loads(body) if body else None))
                self.send_response(registry.status)
                self.send_header("Location", "/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if self.tls is not None:
            self._server.socket = self.tls.wrap_socket(self._server.socket, server_side=True)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()

    def url(self, path: str) -> str:
        return f"http{'s' if self.tls else ''}://127.0.0.1:{self._server.server_port}{path}"

    def count(self, method: str) -> int:
        return sum(request[0] == method for request in self.requests)


def raw(url: str, data: bytes) -> bytes:
    """Return the answer to these bytes."""
    parts = urlsplit(url)
    with socket.create_connection((parts.hostname, parts.port), timeout=PATIENCE) as connection:
        connection.sendall(data)
        connection.shutdown(socket.SHUT_WR)
        answer = b""
        try:
            while more := connection.recv(65536):
                answer += more
        except ConnectionResetError:
            pass
    return answer
