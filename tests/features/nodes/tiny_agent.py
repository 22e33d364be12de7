"""An agent that answers as the test says, over signed real connections."""

import json
import threading
import time
import uuid
from collections.abc import Callable
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import parse_qs, urlsplit

from heatlite.agent import signature

SECRET = "s" * 43


class TinyAgent:
    """Listens on loopback from the moment that it is made until `close`."""

    def __init__(self, secret: str = SECRET) -> None:
        self.secret = secret
        self.kinds = ["test/success", "script"]
        self.asked: list[tuple[str, str]] = []
        """Methods and paths of the requests that were rightly signed."""
        self.skew = 0.0
        """Offset of its clock in seconds."""
        self.misbehaves: Callable[[str, str], tuple[int, bytes, str | None] | None] = lambda *_: None
        """Asked with method and path: a status, a body and a signature (None: the right one) to answer with instead."""
        self.refuses: dict[str, tuple[int, str]] = {}
        """By kind: status and code with which it declines."""
        self._changed = threading.RLock()
        self.wipe()
        agent = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"
            disable_nagle_algorithm = True

            def log_message(self, *_: object) -> None:
                pass

            def do_GET(self) -> None:
                agent.answer(self)

            def do_POST(self) -> None:
                agent.answer(self)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.port = self.server.server_address[1]
        self.url = f"http://127.0.0.1:{self.port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self) -> None:
        """Nobody listens any more."""
        self.server.shutdown()
        self.server.server_close()

    def wipe(self) -> None:
        """A new disk."""
        with self._changed:
            self.instance, self.revision = str(uuid.uuid4()), 0
            self.actions: dict[str, dict[str, Any]] = {}

    # -- what happens on its machine -----------------------------------------------------------------

    def put(self, kind: str = "test/success", action_id: str | None = None, **more: Any) -> str:
        """A new action."""
        action_id = action_id or str(uuid.uuid4())
        with self._changed:
            self.revision += 1
            now = self._now()
            action = {
                "id": action_id, "kind": kind, "args": {}, "requester": "somebody", "created_at": now,
                "scheduled_at": now, "started_at": None, "finished_at": None, "state": "NEW", "progress": {},
                "outputs": {}, "error": "", "revision": self.revision, **more,
            }  # fmt: skip
            self.actions[action_id] = {"action": action, "history": [{"time": now, "state": "NEW", "reason": ""}]}
        return action_id

    def move(self, action_id: str, state: str, **more: Any) -> None:
        """Something becomes of it."""
        with self._changed:
            self.revision += 1
            told, now = self.actions[action_id], self._now()
            times = {"started_at": now} if state == "RUNNING" else {"finished_at": now}
            told["action"] = {**told["action"], **times, "state": state, "revision": self.revision, **more}
            told["history"] = [{"time": now, "state": state, "reason": ""}, *told["history"]]

    def has(self, action_id: str) -> str | None:
        """The state of an action."""
        told = self.actions.get(action_id)
        return None if told is None else told["action"]["state"]

    def _now(self) -> str:
        moment = time.time() + self.skew
        return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(moment)) + f".{int(moment % 1 * 1e6):06}Z"

    # -- HTTP ----------------------------------------------------------------------------------------

    def answer(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("Content-Length") or 0))
        nonce = handler.headers.get(signature.NONCE, "")
        right = signature.of_request(self.secret, handler.command, handler.path, nonce, body)
        proof: str | None = None
        if not signature.is_right(handler.headers.get(signature.SIGNATURE), right):
            status, said, proof = 401, b'{"error": "NotSigned", "message": "who are you?"}', ""
        else:
            self.asked.append((handler.command, handler.path))
            other = self.misbehaves(handler.command, handler.path)
            if other is not None:
                status, said, proof = other
            else:
                with self._changed:
                    status, value = self._do(handler.command, handler.path, json.loads(body) if body else {})
                said = json.dumps(value).encode()
        handler.send_response(status)
        handler.send_header("Content-Length", str(len(said)))
        if proof != "":
            handler.send_header(signature.SIGNATURE, proof or signature.of_answer(self.secret, status, nonce, said))
        handler.end_headers()
        with suppress(OSError):  # nobody waits for it
            handler.wfile.write(said)

    def _do(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        parts = urlsplit(path)
        if parts.path == "/v1/changes":
            asked = parse_qs(parts.query)
            same = asked.get("instance") == [self.instance]
            since = int(asked["revision"][0]) if same else 0
            if same and since == self.revision:
                return 200, {"instance": self.instance, "revision": self.revision, "unchanged": True}
            changed = [told for told in self.actions.values() if told["action"]["revision"] > since]
            return 200, {
                "instance": self.instance,
                "revision": self.revision,
                "kinds": self.kinds,
                "known": list(self.actions),
                "actions": changed,
            }
        if parts.path == "/v1/actions":
            if body["kind"] in self.refuses:
                status, code = self.refuses[body["kind"]]
                return status, {"error": code, "message": f"no to {body['args']}"}
            known = self.actions.get(body["id"])
            if known is not None:
                if (known["action"]["kind"], known["action"]["args"]) != (body["kind"], body["args"]):
                    return 409, {"error": "ActionExists", "message": "another"}
                return 200, {"id": body["id"]}
            self.put(body["kind"], body["id"], args=body["args"], requester=body["requester"])
            return 201, {"id": body["id"]}
        action_id = parts.path.split("/")[3]
        if action_id not in self.actions:
            return 404, {"error": "UnknownAction", "message": "no such action"}
        if self.has(action_id) in ("NEW", "RUNNING"):
            self.move(action_id, "CANCELLED")
        return 200, {"action": self.actions[action_id]["action"]}
