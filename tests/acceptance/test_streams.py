"""Server-sent events from a real server to a real HTTP client."""

import json
from collections.abc import Callable, Iterator
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import START_SECONDS, Server
from tests.waiting import eventually

STREAMS = 50


class Following:
    """One client of one stream."""

    def __init__(self, server: Server, path: str, **headers: str) -> None:
        self.connection = HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)
        self.connection.request("GET", f"/v1/demo{path}", headers=headers)
        self.response = self.connection.getresponse()

    def event(self) -> tuple[str, Any] | None:
        """The next event, id and data; None at the end of the stream."""
        number = ""
        while line := self.response.readline():
            name, _, text = line.decode().rstrip("\n").partition(": ")
            if name == "id":
                number = text
            elif name == "data":
                return number, json.loads(text)
        return None

    def until(self, state: str, name: str = "s") -> list[str]:
        """The ids up to the event with this state."""
        ids = []
        while True:
            found = self.event()
            assert found is not None, f"the stream ends before {name} {state}"
            ids.append(found[0])
            if (found[1]["resource_name"], found[1]["resource_status"]) == (name, state):
                return ids

    def close(self) -> None:
        self.response.close()
        self.connection.close()


Follow = Callable[..., Following]


@pytest.fixture
def follow() -> Iterator[Follow]:
    """Begins to follow; leaves no connection behind."""
    clients = []

    def begin(server: Server, path: str, **headers: str) -> Following:
        clients.append(Following(server, path, **headers))
        return clients[-1]

    yield begin
    for client in clients:
        client.close()


def template(value: str) -> dict[str, object]:
    thing = {"type": "OS::Heat::Value", "properties": {"value": value}}
    return {"heat_template_version": "2021-04-16", "resources": {"a": thing, "b": thing}}


def test_a_stream_from_the_first_event_to_the_end_of_the_stack(server: Server, follow: Follow) -> None:
    path = server.create("s", template("1"))
    server.settled(path)
    whole = follow(server, f"{path}/events?stream=true")
    assert (whole.response.status, whole.response.headers["Content-Type"]) == (200, "text/event-stream")
    assert whole.response.headers["X-Openstack-Request-Id"].startswith("req-")
    created = whole.until("CREATE_COMPLETE")
    assert len(created) == 6

    assert server.request("PUT", path, {"template": template("2")}).status == 202
    updated = whole.until("UPDATE_COMPLETE")
    rest = follow(server, f"{path}/events", Accept="text/event-stream", **{"Last-Event-ID": created[2]})
    assert rest.until("UPDATE_COMPLETE") == [*created[3:], *updated]
    only = follow(server, f"{path}/events?stream=true&resource_name=b&marker={created[-1]}")
    assert [only.event()[1]["resource_status"] for _ in "12"] == [  # type: ignore[index]
        "UPDATE_IN_PROGRESS", "UPDATE_COMPLETE",
    ]  # fmt: skip

    assert server.request("DELETE", path).status == 204
    deleted = whole.until("DELETE_COMPLETE")
    assert whole.event() is None
    assert rest.until("DELETE_COMPLETE") == deleted
    only.until("DELETE_COMPLETE", "b")
    listed = server.listed(path, "events")[::-1]
    assert [event["id"] for event in listed] == [*created, *updated, *deleted]
    late = follow(server, f"{path}/events?stream=true")  # all of it, and the end
    assert late.until("DELETE_COMPLETE") == [event["id"] for event in listed]
    assert late.event() is None


@pytest.mark.slow
def test_fifty_streams_leave_the_api_its_threads(serve: Callable[[], Server], follow: Follow, tmp_path: Path) -> None:
    (tmp_path / ".config" / "heatlite").mkdir(parents=True)
    (tmp_path / ".config" / "heatlite" / "heatlite.toml").write_text(f"max_event_streams = {STREAMS}\n")
    server = serve()
    path = server.create("s", template("1"))
    server.settled(path)
    clients = [follow(server, f"{path}/events?stream=true") for _ in range(STREAMS)]
    assert {client.response.status for client in clients} == {200}
    for client in clients:
        client.until("CREATE_COMPLETE")

    refused = follow(server, f"{path}/events?stream=true")
    assert refused.response.status == 503
    fault = json.loads(refused.response.read())
    assert fault["error"]["type"] == "TooManyStreams"

    for _ in range(20):
        assert server.request("GET", path).status == 200
    assert server.request("PUT", path, {"template": template("2")}).status == 202
    assert len({tuple(client.until("UPDATE_COMPLETE")) for client in clients}) == 1

    clients.pop().close()
    eventually(
        lambda: follow(server, f"{path}/events?stream=true").response.status == 200, "a client that went has left room"
    )
    server.stop()
    assert [client.event() for client in clients] == [None] * (STREAMS - 1)
    assert server.complaints() == ""
