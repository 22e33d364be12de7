"""Event sinks: a real receiver on this machine, which the operator lists."""

import hashlib
import hmac
import json
import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, state
from heatlite.engine.outbound.webhooks import SENDERS_EACH
from heatlite.store.records import StackRecord
from heatlite.store.stacks.webhooks import webhook_digest
from tests.tables import few

from .conftest import MEMBER, Engine, template, thing

pytestmark = pytest.mark.database


@dataclass
class Receiver:
    """Takes what it is sent, or does not."""

    port: int = 0
    got: list[tuple[dict[str, str], bytes]] = field(default_factory=list)
    """Headers and body of every request, refused ones too."""
    answer: Callable[[int], int] = lambda number: 204
    """The code of the answer to the request with this number."""
    go_on: threading.Event = field(default_factory=threading.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/hook?key=1"

    def told(self, stack: StackRecord | None = None) -> list[str]:
        """``a CREATE_COMPLETE``, as they came."""
        messages = [json.loads(body)["payload"] for _, body in self.got]
        return [
            f"{one['resource_name']} {state(one['resource_action'], one['resource_status'])}"
            for one in messages
            if stack is None or one["stack_id"] == stack.id
        ]


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    with receiving() as made:
        yield made


@contextmanager
def receiving() -> Iterator[Receiver]:
    made = Receiver()
    made.go_on.set()

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            made.got.append((dict(self.headers), body))
            number = len(made.got)
            made.go_on.wait(240)
            self.send_response(made.answer(number))
            self.send_header("Content-Length", "0")
            self.end_headers()

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            pass

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    made.port = server.server_port
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield made
    made.go_on.set()
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.fixture
def listing(plugins: Path, place: Path) -> Iterator[Engine]:
    """An engine whose operator lists this machine."""
    engine = Engine(place, webhook_hosts=("127.0.0.1",))
    yield engine
    engine.close()


def sinks(*targets: str, **more: object) -> dict[str, Any]:
    return {"environment": {"event_sinks": [{"type": "webhook", "target": target, **more} for target in targets]}}


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A receiver on a busy machine is late, not silent."""
    for bound in ("ANSWER_TIMEOUT", "BATCH_TIMEOUT", "CONNECT_TIMEOUT"):
        monkeypatch.setattr(f"heatlite.engine.outbound.webhooks.{bound}", 240.0)


def until(engine: Engine, what: Callable[[], object]) -> None:
    """Let time pass where nothing is delivered, and look, until `what` is true."""

    def looked() -> object:
        if not what():
            sinks = engine.server.sinks
            assert sinks is not None
            if not sinks._busy and not engine.store.webhooks.due(engine.clock.now(), 1):
                engine.clock.pass_(1.0)
            sinks.wake()
        return what()

    engine.wait_for(looked)


@pytest.mark.slow
def test_who_is_told_of_a_wait_before_a_deletion_can_end_it(listing: Engine, receiver: Receiver) -> None:
    blocks = {"g": {"*": {"lifecycle_hook": {"timeout": 300}}}}
    environment = {**sinks(receiver.url)["environment"], "resource_registry": {"resources": blocks}}
    member = {"type": "OS::Heat::TestResource", "properties": {"value": "m"}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": member}}
    stack = listing.create(template(g=group), environment=environment)
    (nested,) = listing.store.stacks.descendants(stack)
    (row,) = listing.rows(nested)

    def paused() -> list[JsonMap]:
        payloads = [json.loads(body)["payload"] for _, body in receiver.got]
        return [one for one in payloads if one["resource_status_reason"].startswith("DELETE paused")]

    with listing.clock.held():
        group["properties"]["count"] = 0  # type: ignore[index]
        listing.put(stack, template(g=group), environment=environment, wait=False)
        assert listing.server.sinks is not None
        listing.server.sinks.wake()
        listing.wait_for(paused)
        (told,) = paused()
        assert {key: told[key] for key in told if not key.startswith(("resource_", "physical_", "version"))} == {
            "stack_id": nested.id,
            "stack_name": nested.name,
            "node_id": "0",
            "lifecycle_transition_type": "termination",
            "lifecycle_action_token": told["lifecycle_action_token"],
        }
        assert told["resource_id"] == row.physical_id
        token = str(told["lifecycle_action_token"])
        answering = listing.store.stacks.get(str(told["stack_id"]))
        assert answering is not None
        listing.components.signals.complete_lifecycle(answering, token)
    assert listing.settle(stack).status is Status.COMPLETE
    assert token not in str(listing.events(nested)), "who may read events later has no use for it"


@pytest.mark.slow
def test_what_is_told(listing: Engine, receiver: Receiver) -> None:
    stack = listing.create(template(a=thing("x")), **sinks(receiver.url, secret="hush"))
    until(listing, lambda: len(receiver.got) == 4)
    assert receiver.told() == listing.told(stack)
    event = listing.store.events.get(stack.id, str(listing.events(stack)[2].id))
    assert event is not None
    headers, body = receiver.got[2]
    message = json.loads(body)
    assert message == {
        "timestamp": message["timestamp"],
        "version": "0.1",
        "type": "os.heat.event",
        "id": str(event.id),
        "payload": {
            "version": "0.1",
            "stack_id": stack.id,
            "resource_name": "a",
            "resource_type": "OS::Heat::TestResource",
            "physical_resource_id": event.physical_id,
            "resource_action": "CREATE",
            "resource_status": "COMPLETE",
            "resource_status_reason": "state changed",
            "resource_properties": {"value": "x"},
        },
    }
    assert message["timestamp"].startswith("2027-01-15T08:")  # the clock of these tests
    signature = hmac.new(b"hush", body, hashlib.sha256).hexdigest()
    assert headers["X-Heatlite-Signature"] == f"sha256={signature}"
    assert int(headers["X-Heatlite-Timestamp"]) >= event.created_at
    assert headers["Content-Type"] == "application/json"
    assert len({headers["X-Heatlite-Delivery"] for headers, _ in receiver.got}) == 4


@pytest.mark.slow
def test_an_engine_that_ends_has_told_what_it_could(listing: Engine, receiver: Receiver) -> None:
    """The command line has no engine for longer than its command takes."""
    stack = listing.create(template(a=thing()), **sinks(receiver.url))
    listing.close()
    told = receiver.told()
    listing.open()
    assert told == listing.told(stack)


@pytest.mark.slow
def test_events_of_nested_stacks_are_told(listing: Engine, receiver: Receiver) -> None:
    child = json.dumps(template(b=thing()))
    made = template(a={"type": "child.yaml"})
    stack = listing.create(made, files={"child.yaml": child}, **sinks(receiver.url))
    (nested,) = listing.store.stacks.nested(stack.id, 1)
    within = listing.store.stacks.get(nested)
    assert within is not None
    until(listing, lambda: len(receiver.got) == 8)
    assert receiver.told(within) == listing.told(within)
    assert receiver.told(stack) == listing.told(stack)


def test_what_is_refused_is_told_again_and_the_order_stays(listing: Engine, receiver: Receiver) -> None:
    receiver.answer = lambda number: 503 if number in (2, 3, 5) else 200
    stack = listing.create(template(a=thing()), **sinks(receiver.url))
    until(listing, lambda: len(receiver.got) == 7)
    first, second, third, fourth = listing.told(stack)
    assert receiver.told() == [first, second, second, second, third, third, fourth]
    ids = [headers["X-Heatlite-Delivery"] for headers, _ in receiver.got]
    assert ids[1] == ids[2] == ids[3] != ids[4] == ids[5]
    assert "X-Heatlite-Signature" not in receiver.got[0][0]


@pytest.mark.slow
def test_nobody_waits_for_a_sink_and_nothing_is_lost_when_the_engine_ends(listing: Engine, receiver: Receiver) -> None:
    receiver.go_on.clear()
    receiver.answer = lambda number: 500 if number == 1 else 200
    stack = listing.create(template(a=thing()), **sinks(receiver.url))  # is done while the receiver holds its answer
    listing.wait_for(lambda: receiver.got)
    receiver.go_on.set()
    listing.close()
    listing.open()
    until(listing, lambda: len(receiver.got) >= 5)
    assert receiver.told()[1:] == listing.told(stack)


@pytest.mark.slow
def test_one_that_fails_for_too_long_is_given_up_until_the_next_update(
    listing: Engine, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    receiver.answer = lambda number: 500
    with caplog.at_level(logging.WARNING, "heatlite.engine.outbound.webhooks"):
        stack = listing.create(template(a=thing("1")), **sinks(receiver.url, ttl=60))
        until(listing, lambda: len(listing.events(stack)) == 5)
    note = listing.events(stack)[-1]
    assert (note.resource_name, note.verb, note.status) == ("s", "CREATE", "COMPLETE")
    shown = f"Event sink http://127.0.0.1:{receiver.port} was given up: the answer is 500"  # without path and query
    assert note.status_reason == shown
    said = [record.getMessage() for record in caplog.records if record.name == "heatlite.engine.outbound.webhooks"]
    assert said == [f"stack {stack.id}: {shown}"]
    attempts = len(receiver.got)
    assert 5 <= attempts <= 10  # 1, 2, 4 … seconds between them

    receiver.answer = lambda number: 200
    other = listing.create(template(a=thing("1")), name="other", **sinks(receiver.url))
    until(listing, lambda: len(receiver.told(other)) == 4)
    assert len(receiver.told(stack)) == attempts
    listing.clock.pass_(1.0)  # the update comes after the end of the attempts
    stack = listing.put(stack, template(a=thing("2")), **sinks(receiver.url, ttl=60))
    until(listing, lambda: len(receiver.told(stack)) == attempts + len(listing.events(stack)))
    assert receiver.told(stack)[attempts:] == listing.told(stack)


@pytest.mark.slow
@pytest.mark.parametrize("same", few(["project", "host"]))
def test_a_sink_that_hangs_delays_no_other_project_and_no_other_host(
    listing: Engine, receiver: Receiver, same: str
) -> None:
    """However many stacks tell it something."""
    with receiving() as silent:
        silent.go_on.clear()
        for number in range(12):
            if same == "host":
                listing.who = replace(MEMBER, project=f"p{number}")
            listing.create(template(), name=f"s{number}", **sinks(silent.url))
        listing.wait_for(lambda: len(silent.got) == SENDERS_EACH)
        listing.who = replace(MEMBER, project="another")
        stack = listing.create(template(a=thing()), **sinks(receiver.url))
        until(listing, lambda: len(receiver.got) == 4)
        assert receiver.told() == listing.told(stack)
        assert len(silent.got) == SENDERS_EACH
        silent.go_on.set()
        until(listing, lambda: len(silent.got) == 24)


@pytest.mark.slow
def test_a_sink_that_does_not_answer_in_time_has_failed(
    listing: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("heatlite.engine.outbound.webhooks.ANSWER_TIMEOUT", 0.1)
    receiver.go_on.clear()
    stack = listing.create(template(), **sinks(receiver.url, ttl=5))
    until(listing, lambda: len(listing.events(stack)) == 3)
    assert listing.events(stack)[-1].status_reason.endswith("was given up: it has not answered within 0.1 s")
    receiver.go_on.set()


def test_a_sink_with_a_password_is_refused_and_one_of_before_shows_none(
    listing: Engine, receiver: Receiver, caplog: pytest.LogCaptureFixture
) -> None:
    target = receiver.url.replace("http://", "http://mia:sesame@")
    with pytest.raises(HTTPBadRequest, match="without user and password") as refused:
        listing.create(template(), **sinks(target))
    assert "sesame" not in refused.value.message
    stack = listing.create(template(a=thing()))
    with listing.store.transaction():  # as an older heatlite took it
        listing.store.stacks.save(replace(listing.get(stack), **sinks(target)))
    with caplog.at_level(logging.WARNING, "heatlite.engine.outbound.webhooks"):
        listing.check(stack)
        until(listing, lambda: any("given up" in event.status_reason for event in listing.events(stack)))
    assert f"Event sink http://127.0.0.1:{receiver.port} was given up: " in caplog.text
    assert "sesame" not in caplog.text + str(listing.events(stack))
    assert listing.patch(stack, template=template(), environment={"event_sinks": []}).status is Status.COMPLETE


@pytest.mark.parametrize("host", few(["127.0.0.1", "localhost", "[::1]", "0x7f000001"]))
def test_an_address_that_is_not_public_has_to_be_listed(
    plugins: Path, place: Path, receiver: Receiver, host: str
) -> None:
    engine = Engine(place, webhook_hosts=(f"127.0.0.1:{receiver.port + 1}", "example.org"))
    stack = engine.create(template(a=thing()), **sinks(f"http://{host}:{receiver.port}/"))
    until(engine, lambda: len(engine.events(stack)) == 5)
    (note,) = [event.status_reason for event in engine.events(stack) if "was given up" in event.status_reason]
    assert "which is not public, and the setting webhook_hosts does not list it" in note
    assert receiver.got == []
    engine.close()


@pytest.mark.slow
def test_sinks_come_and_go_with_the_environment(listing: Engine, receiver: Receiver) -> None:
    stack = listing.create(template(a=thing("1")))
    stack = listing.put(stack, template(a=thing("2")), **sinks(f"{receiver.url}&x", f"{receiver.url}&y"))
    told = listing.told(stack, 4)
    until(listing, lambda: len(receiver.got) == 2 * len(told))
    assert sorted(receiver.told()) == sorted(told * 2)
    stack = listing.patch(stack, template=template(a=thing("3")))  # goes on from the environment that is there
    until(listing, lambda: len(receiver.got) == 2 * len(listing.told(stack, 4)))
    listing.put(stack, template(a=thing("4")))
    last = listing.create(template(), name="last", **sinks(receiver.url))
    until(listing, lambda: len(receiver.told(last)) == 2)
    until(listing, lambda: not listing.store.webhooks.due(listing.clock.now(), 10))
    assert len(receiver.told(stack)) == 2 * 8


def test_a_sink_that_comes_back_while_it_is_removed(
    listing: Engine, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A delivery has read the stack without it, before an update that has it again."""
    stack = listing.create(template(a=thing("1")), **sinks(receiver.url))
    until(listing, lambda: receiver.told(stack) == listing.told(stack))
    get, late = listing.server.store.stacks.get, [replace(stack, environment={})]

    def reading(stack_id: str) -> StackRecord | None:
        is_late = threading.current_thread().name.startswith("sink_") and late
        return late.pop() if is_late else get(stack_id)

    monkeypatch.setattr(listing.server.store.stacks, "get", reading)
    listing.put(stack, template(a=thing("2")), **sinks(receiver.url))
    until(listing, lambda: not late and not listing.store.webhooks.due(listing.clock.now() + 1000, 10))
    assert receiver.told(stack) == listing.told(stack)


@pytest.mark.slow
def test_the_operators_sinks_are_for_every_stack(plugins: Path, place: Path, receiver: Receiver) -> None:
    engine = Engine(place, webhook_hosts=("127.0.0.1",), environment_dir=str(place / "environment.d"))
    before = engine.create(template(a=thing()), name="before")
    engine.close()
    (place / "environment.d").mkdir()
    sink: JsonMap = {"type": "webhook", "target": receiver.url, "secret": "hush"}
    (place / "environment.d" / "sinks.yaml").write_text(json.dumps({"event_sinks": [sink]}))
    engine.open()
    engine.wait_for(lambda: not lacking(engine, sink))
    after = engine.create(template(a=thing()), name="after", **sinks(receiver.url))  # the same one: told once
    engine.delete(after)
    engine.check(before)
    until(engine, lambda: len(receiver.got) == len(engine.told(after)) + len(engine.told(before, 4)))
    assert receiver.told(after) == engine.told(after)
    assert receiver.told(before) == engine.told(before, 4)
    assert all("X-Heatlite-Signature" in headers for headers, body in receiver.got if before.id.encode() in body)
    engine.close()


def lacking(engine: Engine, sink: JsonMap) -> list[str]:
    digest = webhook_digest(sink)
    assert digest is not None
    return engine.store.webhooks.stacks_without(digest)
