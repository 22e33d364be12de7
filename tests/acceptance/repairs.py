"""Show that healing repairs reports, and no marks by request."""

from typing import Any
from urllib.parse import urlsplit

from tests.acceptance.processes import Answer, Server
from tests.waiting import eventually


def allow_repairs(server: Server, path: str) -> None:
    """Put a policy that repairs reports of all monitoring systems at once.

    Marks by request are not among them: their senders update the stack themselves.
    """
    policy = {"healing_policy": "2026-11-22", "mode": "auto", "grace": 0, "confirm": {"hold": 0}, "cooldown": 0}
    assert server.request("PUT", f"{path}/healing", policy).status == 200


def heal_another(server: Server, name: str) -> None:
    """Have healing repair a stack of its own: it has looked at all marks until then."""
    witness = {"heat_template_version": "2018-08-31", "resources": {"a": {"type": "OS::Heat::TestResource"}}}
    path = server.create(name, witness)
    assert server.settled(path) == "CREATE_COMPLETE"
    allow_repairs(server, path)
    report = {"key": name, "status": "unhealthy", "stack": name, "resource": "a"}
    assert server.request("POST", "/health/generic", {"reports": [report]}).status == 200
    eventually(lambda: len(updates(server, path)) == 1, "healing has begun a repair")
    assert follow(server, "DELETE", path).status == 204


def updates(server: Server, path: str) -> list[Any]:
    """The updates of a stack."""
    found: Any = server.request("GET", f"/actions?action=STACK_UPDATE&target={path.rpartition('/')[2]}").data
    return list(found["actions"])


def follow(server: Server, method: str, path: str, body: object = None) -> Answer:
    """Request a stack by name; the client follows redirects with method and body."""
    answer = server.request(method, path, body)
    while answer.status in (301, 302, 307, 308):
        answer = server.request(method, urlsplit(str(answer.headers["Location"])).path, body)
    return answer
