"""HTTP API of the agent, specified in docs/reference/agent-protocol.md.

Requests without a valid signature get 401; their content is not interpreted.
"""

import re
import socket
import sqlite3
import ssl
import sys
import threading
import time
import traceback
import uuid
from collections.abc import Callable, Mapping
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from itertools import islice
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit

from heatlite.agent import form, signature
from heatlite.agent.actions import Action, Actions
from heatlite.agent.form import Fault, JsonMap
from heatlite.agent.kinds import Kind
from heatlite.agent.log import log
from heatlite.agent.settings import Tls

_MAX_CONNECTIONS = 32
_SECONDS = 30.0
"""Maximum duration of a connection in seconds, including the TLS handshake."""
_MAX_NONCE = 200
_MAX_DISCARDED = 4 * 1024 * 1024
"""Bytes to read and discard of a body that is too large."""

_LINE = re.compile(r"[^\x00-\x1f\x7f]{1,255}")

Answer = tuple[int, Mapping[str, object]]


class Api:
    """Routes of the API. Raises Fault, and sqlite3.Error without a usable database."""

    def __init__(
        self, version: str, actions: Actions, kinds: Mapping[str, Kind], changed: Callable[[], object]
    ) -> None:
        """Create the API. `changed` is called after a new action or a cancel."""
        self._version = version
        self._actions = actions
        self._kinds = kinds
        self._changed = changed

    def answer(self, method: str, target: str, nonce: str, body: bytes) -> Answer:
        """Return the answer to a request whose signature is valid."""
        try:
            parts = urlsplit(target)
        except ValueError as error:
            raise Fault("InvalidRequest", f"The path is none: {error}") from None
        match method, [unquote(part) for part in parts.path.strip("/").split("/")]:
            case "GET", ["v1", "agent"]:
                instance, revision = self._actions.identity()
                return 200, {"agent": self._version, "instance": instance, "revision": revision, "time": form.now()}
            case "GET", ["v1", "kinds"]:
                found = [{"kind": name, "description": kind.description} for name, kind in self._kinds.items()]
                return 200, {"kinds": found}
            case "GET", ["v1", "actions", "queue"]:
                return 200, {"actions": [_brief(action) for action in self._actions.unfinished()]}
            case "GET", ["v1", "actions", "finished"]:
                return 200, {"actions": [_brief(action) for action in self._actions.finished()]}
            case "GET", ["v1", "actions", action_id]:
                return 200, self._actions.get(action_id)
            case "GET", ["v1", "changes"]:
                return 200, self._changes(parse_qs(parts.query))
            case "POST", ["v1", "actions"]:
                return self._schedule(_json_object(body), nonce)
            case "POST", ["v1", "actions", action_id, "cancel"]:
                action, ended = self._actions.cancel(action_id)
                if ended:
                    log("ended", action=action.id, kind=action.kind, state=action.state)
                self._changed()
                return 200, {"action": action.record()}
        raise Fault("InvalidRequest", f"There is no {method} of this path here.")

    def _changes(self, query: Mapping[str, list[str]]) -> Mapping[str, object]:
        given = {name: values[0] for name, values in query.items()}
        revision = given.get("revision", "0")
        if not (revision.isascii() and revision.isdecimal()) or len(revision) > 18:
            raise Fault("InvalidRequest", "revision must be a whole number.")
        since = int(revision) if "revision" in given else None
        known = self._actions.changes(given.get("instance"), since)
        return known if known.get("unchanged") else {**known, "kinds": list(self._kinds)}

    def _schedule(self, asked: JsonMap, nonce: str) -> Answer:
        for name in asked:
            if name not in ("kind", "args", "id", "created_at", "requester"):
                raise Fault("InvalidRequest", f"{name!r} is none of: kind, args, id, created_at, requester")
        kind_name, args = _text(asked, "kind"), asked.get("args", {})
        requester = _text(asked, "requester", "agent")
        # A missing id is derived from the nonce: the repeated request gets the same id.
        action_id = _text(asked, "id", str(uuid.uuid5(uuid.NAMESPACE_OID, nonce)))
        if not form.ID.fullmatch(action_id):
            raise Fault(
                "InvalidRequest", "id: at most 36 letters, digits, and . _ : - between them, not queue or finished."
            )
        created_at = _text(asked, "created_at", form.now())
        try:
            created_at = form.as_text(form.as_time(created_at))
        except (ValueError, OverflowError) as error:
            raise Fault("InvalidRequest", f"created_at is no ISO 8601 time with a zone: {error}") from None
        if not isinstance(args, dict):
            raise Fault("InvalidRequest", "args must be an object.")
        if len(form.dump(args).encode()) > form.MAX_ARGS:
            raise Fault("TooLarge", f"args is larger than {form.MAX_ARGS // 1024} KiB.")
        kind = self._kinds.get(kind_name)
        if kind is None:
            raise Fault("UnknownKind", f"There is no kind {kind_name!r} here. Known: {', '.join(self._kinds)}.")
        kind.check(args)
        is_new = self._actions.schedule(action_id, kind_name, args, requester, created_at)
        if is_new:
            log("scheduled", action=action_id, kind=kind_name, requester=requester)
            self._changed()
        return 201 if is_new else 200, {"id": action_id}


class Server(ThreadingHTTPServer):
    """Threaded HTTP server with limits on the number and duration of connections.

    A new connection beyond the limit closes the oldest.
    """

    daemon_threads = True
    request_queue_size = 64

    def __init__(self, host: str, port: int, secret: str, api: Api, tls: Tls | None) -> None:
        """Bind the server.

        Raises OSError (also ssl.SSLError) for an unusable address or certificate.
        """
        self.secret = secret
        self.api = api
        self.address_family = socket.AF_INET6 if ":" in host else socket.AF_INET
        self._tls = None if tls is None else _context(tls)
        self._open: dict[socket.socket, float] = {}
        """Open connections and their deadlines, oldest first."""
        self._room = threading.Condition()
        super().__init__((host, port), _Handler)

    @property
    def url(self) -> str:
        """URL of the listening socket."""
        host, port = self.server_address[:2]
        return f"http{'s' if self._tls else ''}://{f'[{host!s}]' if ':' in str(host) else host!s}:{port}"

    def server_bind(self) -> None:
        """Bind as socketserver does; http.server would look up the host name."""
        self.allow_reuse_address = True
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        self.socket.bind(self.server_address)
        self.server_address = self.socket.getsockname()
        self.server_name, self.server_port = str(self.server_address[0]), int(self.server_address[1])

    def process_request(self, request: Any, client_address: Any) -> None:
        """Handle a connection in its own thread."""
        with self._room:
            cut = 0
            while len(self._open) >= _MAX_CONNECTIONS:
                # Close the oldest, and one more after each wait without room.
                cut += 1
                for connection in islice(self._open, cut):
                    _cut(connection)
                self._room.wait(0.1)
            self._open[request] = time.monotonic() + _SECONDS
        super().process_request(request, client_address)

    def service_actions(self) -> None:
        """Close connections that have passed their deadline. Called periodically."""
        with self._room:
            for connection, until in self._open.items():
                if until < time.monotonic():
                    _cut(connection)

    def finish_request(self, request: Any, client_address: Any) -> None:
        """Serve a connection, in its own thread."""
        request.settimeout(_SECONDS)
        if self._tls is None:
            super().finish_request(request, client_address)
            return
        # Wrap a duplicate: _cut() needs the accepted socket, which wrap_socket() would detach.
        with self._tls.wrap_socket(request.dup(), server_side=True) as wrapped:
            super().finish_request(wrapped, client_address)

    def shutdown_request(self, request: Any) -> None:
        """Remove and close an ended connection."""
        with self._room:
            self._open.pop(request, None)
            self._room.notify()
        super().shutdown_request(request)

    def handle_error(self, request: Any, client_address: Any) -> None:  # noqa: ARG002
        """Log faults of the server; ignore broken connections and TLS errors."""
        error = sys.exception()
        if error is not None and not isinstance(error, OSError):
            log("fault", error=type(error).__name__, trace="".join(traceback.format_tb(error.__traceback__)))


class _Handler(BaseHTTPRequestHandler):
    server: Server
    protocol_version = "HTTP/1.1"
    server_version, sys_version = "heatlite-agent", ""
    disable_nagle_algorithm = True  # the server sends several requests over one connection

    def do_GET(self) -> None:
        self._serve()

    def do_POST(self) -> None:
        self._serve()

    def _serve(self) -> None:
        nonce = self.headers.get(signature.NONCE, "")
        try:
            if not signature.MIN_NONCE <= len(nonce) <= _MAX_NONCE:
                raise Fault("NotSigned", f"{signature.NONCE} must have {signature.MIN_NONCE} characters or more.")
            body = self._body()
            right = signature.of_request(self.server.secret, self.command, self.path, nonce, body)
            if not signature.is_right(self.headers.get(signature.SIGNATURE), right):
                raise Fault("NotSigned", f"{signature.SIGNATURE} is missing, or not right.")
            status, answer = self.server.api.answer(self.command, self.path, nonce, body)
        except Fault as fault:
            status, answer = _fault_answer(fault)
        except sqlite3.Error as error:
            log("no-room", error=f"{type(error).__name__}: {error}")
            status, answer = _fault_answer(Fault("OutOfOrder", f"The agent's database cannot be used now: {error}"))
        self._send(status, nonce, form.dump(answer).encode())

    def _body(self) -> bytes:
        length = self.headers.get("Content-Length", "0")
        if not (length.isascii() and length.isdecimal()) or "Transfer-Encoding" in self.headers:
            raise Fault("NotSigned", "A request needs a Content-Length, and no Transfer-Encoding.")
        if len(length) > 12 or int(length) > form.MAX_BODY:
            self.close_connection = True
            # A client that is still writing does not read the answer.
            left = min(int(length[:12]), _MAX_DISCARDED)
            while left > 0 and (data := self.rfile.read(min(left, 65536))):
                left -= len(data)
            raise Fault("TooLarge", f"The body is larger than {form.MAX_BODY // 1024} KiB.")
        body = self.rfile.read(int(length))
        if len(body) < int(length):
            raise ConnectionError("the body is shorter than it should be")
        return body

    def _send(self, status: int, nonce: str, body: bytes) -> None:
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        if status == HTTPStatus.UNAUTHORIZED or self.close_connection:
            self.send_header("Connection", "close")  # the body may not have been read
        if status != HTTPStatus.UNAUTHORIZED:
            self.send_header(signature.SIGNATURE, signature.of_answer(self.server.secret, status, nonce, body))
        self.end_headers()
        self.wfile.write(body)

    def send_error(self, code: int, message: str | None = None, explain: str | None = None) -> None:  # noqa: ARG002
        """Answer a malformed request, or one with an unknown method."""
        self.close_connection = True
        self._send(401, "", form.dump(_fault_answer(Fault("NotSigned", message or "No such request."))[1]).encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Log nothing: requests are not logged."""


def _context(tls: Tls) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.load_cert_chain(tls.certificate, tls.key)
    context.load_verify_locations(tls.authority)
    context.verify_mode = ssl.CERT_REQUIRED
    return context


def _cut(connection: socket.socket) -> None:
    try:
        connection.shutdown(socket.SHUT_RDWR)
    except OSError:
        return  # already closed


def _fault_answer(fault: Fault) -> Answer:
    return fault.status, {"error": fault.code, "message": fault.message}


def _brief(action: Action) -> dict[str, str]:
    return {"id": action.id, "kind": action.kind, "state": action.state}


def _json_object(body: bytes) -> JsonMap:
    try:
        value = form.parse(body)
    except ValueError as error:
        raise Fault("InvalidRequest", f"The body is no JSON that everybody reads: {error}") from None
    if not isinstance(value, dict):
        raise Fault("InvalidRequest", "The body must be a JSON object.")
    return value


def _text(asked: JsonMap, name: str, default: str | None = None) -> str:
    value = asked.get(name, default)
    if not isinstance(value, str) or not _LINE.fullmatch(value):
        raise Fault("InvalidRequest", f"{name} must be a line of 1 to 255 characters.")
    return value
