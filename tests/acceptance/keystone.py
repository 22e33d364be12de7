"""A fake Keystone: real HTTP on a port of loopback, and ways to fail.

It has `GET /v3`, `POST` and `GET /v3/auth/tokens` and `GET /v3/auth/projects`.
"""

import json
import threading
import uuid
from collections import Counter
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass
class Account:
    """A user with roles by project."""

    password: str
    roles: dict[str, tuple[str, ...]]


@dataclass
class Keystone:
    """Runs until `close`. Projects' ids are their names with ``-id`` behind."""

    accounts: dict[str, Account]
    orchestration: str = ""
    """The endpoint in the catalogue, with ``{project}`` in it."""
    tokens: dict[str, dict[str, Any]] = field(default_factory=dict)
    asked: Counter[str] = field(default_factory=Counter)
    trouble: str | None = None
    """``error``, ``garbage``, ``text``, ``hangs``: how it answers."""
    closing: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        keystone = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True  # else a body waits until its head is acknowledged: 40 ms

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                keystone.answer(self, None)

            def do_POST(self) -> None:
                length = int(self.headers["Content-Length"])
                keystone.answer(self, json.loads(self.rfile.read(length)))

        class Server(ThreadingHTTPServer):
            def handle_error(self, *_: object) -> None:
                """The client has closed the connection."""

        self.server = Server(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.thread = threading.Thread(target=self.server.serve_forever, args=(0.01,))
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server.server_address[1]}/v3"

    def close(self) -> None:
        self.closing.set()
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def issue(self, user: str, project: str | None, lifetime: float = 3600) -> str:
        """A token."""
        now, name = datetime.now(UTC), uuid.uuid4().hex
        form = "%Y-%m-%dT%H:%M:%S.%fZ"
        domain = {"id": "default", "name": "Default"}
        token: dict[str, Any] = {
            "methods": ["password"],
            "user": {"id": f"{user}-id", "name": user, "domain": domain},
            "audit_ids": [uuid.uuid4().hex],
            "issued_at": now.strftime(form),
            "expires_at": (now + timedelta(seconds=lifetime)).strftime(form),
        }
        if project is not None:
            token["project"] = {"id": f"{project}-id", "name": project, "domain": domain}
            token["roles"] = [{"id": role, "name": role} for role in self.accounts[user].roles[project]]
            token["catalog"] = [
                self._service("identity", self.url),
                self._service("orchestration", self.orchestration.replace("{project}", f"{project}-id")),
            ]
        self.tokens[name] = token
        return name

    def _service(self, kind: str, url: str) -> dict[str, Any]:
        endpoints = [
            {"id": f"{kind}-{interface}", "interface": interface, "region": "here", "region_id": "here", "url": url}
            for interface in ("public", "internal", "admin")
        ]
        return {"id": kind, "type": kind, "name": kind, "endpoints": endpoints}

    def answer(self, to: BaseHTTPRequestHandler, body: dict[str, Any] | None) -> None:
        path = to.path.partition("?")[0].rstrip("/")
        self.asked[f"{to.command} {path}"] += 1
        while self.trouble == "hangs" and not self.closing.wait(0.01):
            pass
        status, answer, headers = self._status(to, path, body)
        raw = json.dumps(answer).encode()
        if self.trouble == "error":
            status = 500
        elif self.trouble == "garbage":
            raw = raw[: len(raw) // 2]
        elif self.trouble == "text":
            raw = b"<html>It works!</html>"
        elif self.trouble == "list":
            raw = b"[1]"
        to.send_response(status)
        for name, text in {**headers, "Content-Type": "application/json", "Content-Length": str(len(raw))}.items():
            to.send_header(name, text)
        to.end_headers()
        to.wfile.write(raw)

    def _status(
        self, to: BaseHTTPRequestHandler, path: str, body: dict[str, Any] | None
    ) -> tuple[int, object, dict[str, str]]:
        if path in ("", "/v3"):
            version = {
                "id": "v3.14",
                "status": "stable",
                "links": [{"rel": "self", "href": f"{self.url}/"}],
                "media-types": [],
            }
            return (200, {"version": version}, {}) if path else (300, {"versions": {"values": [version]}}, {})
        if path == "/v3/auth/projects":
            mine = to.headers["X-Auth-Token"]
            if not self._valid(mine):
                return 401, {"error": {"code": 401, "message": "who are you?"}}, {}
            own = self.accounts[self.tokens[mine]["user"]["name"]].roles
            return 200, {"projects": [{"id": f"{name}-id", "name": name, "enabled": True} for name in own]}, {}
        if path != "/v3/auth/tokens":
            return 404, {"error": {"code": 404, "message": "not here"}}, {}
        if body is None:
            mine, asked = to.headers["X-Auth-Token"], to.headers["X-Subject-Token"]
            if not self._valid(mine):
                return 401, {"error": {"code": 401, "message": "who are you?"}}, {}
            if not self._valid(asked):
                return 404, {"error": {"code": 404, "message": "no such token"}}, {}
            return 200, {"token": self.tokens[asked]}, {"X-Subject-Token": asked}
        given, scope = body["auth"]["identity"], body["auth"].get("scope", {})
        scope = {} if scope == "unscoped" else scope["project"] if scope else {}
        project = scope.get("name") or scope.get("id", "").removesuffix("-id") or None
        if given["methods"] == ["token"]:
            known = self.tokens[given["token"]["id"]] if self._valid(given["token"]["id"]) else None
            name = known["user"]["name"] if known else ""
            user = {"name": name, "password": self.accounts[name].password if known else ""}
        else:
            user = given["password"]["user"]
        account = self.accounts.get(user["name"])
        if account is None or account.password != user["password"] or project not in {None, *account.roles}:
            return 401, {"error": {"code": 401, "message": "wrong"}}, {}
        name = self.issue(user["name"], project)
        return 201, {"token": self.tokens[name]}, {"X-Subject-Token": name}

    def _valid(self, name: str | None) -> bool:
        token = self.tokens.get(name or "")
        if token is None:
            return False
        return datetime.strptime(token["expires_at"], "%Y-%m-%dT%H:%M:%S.%f%z") > datetime.now(UTC)
