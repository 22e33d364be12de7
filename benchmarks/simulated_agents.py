"""Agents in one process: ``python -m benchmarks.simulated_agents PORT COUNT``.

The first part of a path names the agent. They sign and keep actions, and do nothing else.
"""

import asyncio
import json
import sys
from typing import Any

from heatlite.agent import signature

SECRET = "s" * 43
KINDS = ["test/success"]


class Agent:
    """One of them."""

    def __init__(self, number: int) -> None:
        self.instance = f"agent-{number}"
        self.revision = 0
        self.actions: dict[str, dict[str, Any]] = {}

    def answer(self, method: str, path: str, query: str, body: bytes) -> tuple[int, Any]:
        """Status and body."""
        if method == "GET" and path == "/v1/changes":
            asked = dict(pair.split("=") for pair in query.split("&"))
            since = int(asked["revision"]) if asked["instance"] == self.instance else -1
            if since == self.revision:
                return 200, {"instance": self.instance, "revision": self.revision, "unchanged": True}
            told = [one for one in self.actions.values() if one["action"]["revision"] > since]
            known = [*self.actions]
            return 200, {
                "instance": self.instance, "revision": self.revision, "kinds": KINDS, "known": known, "actions": told,
            }  # fmt: skip
        if method == "POST" and path == "/v1/actions":
            given, now = json.loads(body), "2026-11-21T12:00:00.000000Z"
            self.revision += 1
            action = {
                "id": given["id"], "kind": given["kind"], "args": given["args"], "requester": given["requester"],
                "created_at": given["created_at"], "scheduled_at": now, "started_at": now, "finished_at": now,
                "state": "DONE", "progress": {}, "outputs": {"deploy_stdout": "well done"}, "error": "",
                "revision": self.revision,
            }  # fmt: skip
            steps = [{"time": now, "state": state, "reason": ""} for state in ("DONE", "RUNNING", "NEW")]
            self.actions[given["id"]] = {"action": action, "history": steps}
            return 201, {"id": given["id"]}
        return 404, {"error": "UnknownAction", "message": "there is no such thing"}


async def serve(port: int, count: int) -> None:
    """Until it is killed."""
    agents = [Agent(number) for number in range(count)]

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while True:
                head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").split("\r\n")
                method, target, _ = head[0].split(" ")
                headers = dict(line.lower().split(": ", 1) for line in head[1:] if line)
                body = await reader.readexactly(int(headers.get("content-length", 0)))
                original = {line.split(": ", 1)[0].lower(): line.split(": ", 1)[1] for line in head[1:] if line}
                nonce = original[signature.NONCE.lower()]
                right = signature.of_request(SECRET, method, target, nonce, body)
                assert signature.is_right(original[signature.SIGNATURE.lower()], right)
                path, _, query = target.partition("?")
                _, number, rest = path.split("/", 2)
                status, value = agents[int(number)].answer(method, f"/{rest}", query, body)
                answer = json.dumps(value).encode()
                proof = signature.of_answer(SECRET, status, nonce, answer)
                writer.write(
                    f"HTTP/1.1 {status} X\r\nContent-Length: {len(answer)}\r\n{signature.SIGNATURE}: {proof}\r\n\r\n"
                    .encode() + answer
                )  # fmt: skip
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    server = await asyncio.start_server(connected, "127.0.0.1", port, backlog=512)
    async with server:
        await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(serve(int(sys.argv[1]), int(sys.argv[2])))
