"""Rules for a server without database writes: 503, no half writes, reads work."""

from typing import Any

from tests.acceptance.processes import Answer, Server
from tests.waiting import eventually

SMALL = {"heat_template_version": "2018-08-31", "resources": {"a": {"type": "OS::Heat::RandomString"}}}
SLOW = {
    "heat_template_version": "2018-08-31",
    "resources": {
        "slow": {"type": "OS::Heat::TestResource", "properties": {"wait_secs": 0.5}},
        "after": {"type": "OS::Heat::Value", "properties": {"value": {"get_attr": ["slow", "output"]}}},
    },
}


def writes(path: str) -> list[tuple[str, str, object]]:
    """A request of each kind that writes."""
    return [
        ("POST", "/stacks", {"stack_name": "new", "template": SMALL}),
        ("PUT", path, {"template": SMALL}),
        ("POST", f"{path}/actions", {"lock": None}),
        ("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}),
        ("DELETE", path, None),
    ]


def picture(server: Server, path: str) -> tuple[object, ...]:
    """All that a request that was not accepted must leave alone."""
    listed: Any = server.request("GET", "/stacks?name=calm&name=new").data
    return listed["stacks"], server.stack(path), server.listed(path, "resources"), server.listed(path, "events")


def check_unavailable(answer: Answer) -> None:
    assert answer.status == 503, answer.data
    error: Any = answer.data
    assert error["error"]["type"] == "DatabaseUnavailable"
    assert "Nothing was changed; try again." in error["error"]["message"]
    assert int(answer.headers["Retry-After"]) > 0


def check_well(server: Server, path: str, slow: str) -> None:
    """Running work ends well, and refused requests are accepted afterwards."""
    assert server.settled(slow) == "CREATE_COMPLETE"
    assert server.resources(slow).keys() == {"slow", "after"}
    assert server.settled(server.create("new", SMALL)) == "CREATE_COMPLETE"
    assert server.request("DELETE", path).status == 204
    assert server.settled(path) == "DELETE_COMPLETE"
    server.stop()
    assert server.complaints() == ""


def under_way(server: Server) -> tuple[str, str]:
    """A stack at rest, and one that is being created."""
    path = server.create("calm", SMALL)
    assert server.settled(path) == "CREATE_COMPLETE"
    slow = server.create("slow", SLOW)
    eventually(lambda: "slow" in server.resources(slow), "the create is under way")
    return path, slow
