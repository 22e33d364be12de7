"""Event streams, as seen by their clients."""

import asyncio
import json
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing
from io import TextIOWrapper
from pathlib import Path

import pytest
from falcon.testing import create_environ
from msgspec.structs import replace

from heatlite.api import event_streams
from heatlite.api.event_streams import ASYNCHRONOUS, COMMENT, MAX_PER_CALLER, PAGE, EventStream, Streams, TooManyStreams
from heatlite.api.request import Request
from heatlite.core.context import Context
from heatlite.core.errors import DatabaseUnavailable, Unauthorized
from heatlite.core.ids import new_id
from heatlite.core.status import Status, Verb
from heatlite.engine.dispatch.hints import Hints
from heatlite.store.listeners import NO_LISTENERS
from heatlite.store.records import EventRecord, StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store
from tests.databases import sqlite
from tests.waiting import eventually

from .conftest import Heat, template, value


@pytest.fixture
def known(tmp_path: Path) -> Iterator[Store]:
    store = Store.open(sqlite(tmp_path))
    yield store
    store.close()


def stack(known: Store, name: str, parent: StackRecord | None = None, project: str = "demo") -> StackRecord:
    made = StackRecord(new_id(), name, project, "mia", "", {}, Verb.CREATE, Status.COMPLETE, "", 1.0)
    if parent is not None:
        made = replace(made, parent_id=parent.id, root_id=parent.root_id or parent.id, depth=parent.depth + 1)
    with known.transaction():
        known.stacks.insert(made)
    return made


def tell(known: Store, *told: tuple[StackRecord, str], at: float = 1.0) -> None:
    with known.transaction():
        known.events.append_many(
            [EventRecord(of.id, name, "T", None, "CREATE", "COMPLETE", "state changed", at) for of, name in told]
        )


@pytest.fixture(autouse=True)
def loop() -> Iterator[asyncio.AbstractEventLoop]:
    """An event loop as that of a server."""
    made = asyncio.new_event_loop()
    thread = threading.Thread(target=made.run_forever)
    thread.start()
    LOOP.append(made)
    yield made
    LOOP.clear()
    asyncio.run_coroutine_threadsafe(cancel_all(), made).result(240)
    made.call_soon_threadsafe(made.stop)
    thread.join()
    made.close()


LOOP: list[asyncio.AbstractEventLoop] = []


async def cancel_all() -> None:
    """End the streams of clients that are gone, as a server does."""
    tasks = asyncio.all_tasks() - {asyncio.current_task()}
    for task in tasks:
        task.cancel()
    await asyncio.gather(*tasks, return_exceptions=True)
    await asyncio.get_running_loop().shutdown_default_executor()


async def send(body: EventStream, sock: socket.socket) -> None:
    """Send a stream as a server does."""
    loop = asyncio.get_running_loop()
    with sock:
        async for part in body:
            await loop.sock_sendall(sock, part)


def ask(user: str = "", admit: Callable[[], None] = lambda: None) -> Request:
    request = Request(create_environ())
    request.env[ASYNCHRONOUS] = True
    request.caller = Context("demo", user)
    request.admit = lambda _: admit()
    return request


class Client:
    """The other end."""

    def __init__(
        self, streams: Streams, of: StackRecord | str, depth: int = 0, marker: str | None = None, user: str = "",
        admit: Callable[[], None] = lambda: None,
    ) -> None:  # fmt: skip
        request = ask(user, admit)
        body = (
            streams.follow_project(request, of, marker)
            if isinstance(of, str)
            else streams.follow(request, of, depth, EventQuery(marker=marker))
        )
        self.sock, server = socket.socketpair()
        self.sock.settimeout(240)
        server.setblocking(False)
        self.lines: TextIOWrapper = self.sock.makefile("r")
        self.sending = asyncio.run_coroutine_threadsafe(send(body, server), LOOP[0])
        assert [self.lines.readline(), self.lines.readline()] == [":\n", "\n"]

    def names(self, count: int) -> str:
        out = ""
        while len(out) < count:
            line = self.lines.readline()
            assert line, "the stream has ended"
            if line.startswith("data: "):
                out += json.loads(line[6:])["resource_name"]
        return out

    def rest(self) -> str:
        """Return what comes until the end, without comments."""
        return self.lines.read().replace(":\n\n", "").strip()

    def close(self) -> None:
        self.lines.close()
        self.sock.close()
        self.sending.cancel()


def test_a_tree_comes_by_age_and_goes_on_with_stacks_that_are_new(known: Store) -> None:
    streams = Streams(known, max_streams=2)
    known.listen(replace(NO_LISTENERS, committed=streams.wake))
    root = stack(known, "root")
    child = stack(known, "child", root)
    other = stack(known, "other")
    tell(known, (root, "a"), (child, "b"), (other, "x"), (child, "c"), *[(root, "d")] * (2 * PAGE), (child, "e"))
    whole, alone = Client(streams, root, depth=2), Client(streams, root)
    count = 2 * PAGE + 4
    assert whole.names(count) == "abc" + "d" * (2 * PAGE) + "e"
    assert alone.names(2 * PAGE + 1) == "a" + "d" * (2 * PAGE)
    grandchild = stack(known, "grandchild", child)
    tell(known, (grandchild, "f"), (root, "g"))
    assert whole.names(2) == "fg"
    assert alone.names(1) == "g"

    with known.transaction():
        known.stacks.save(replace(root, deleted_at=9.0))
        tell(known, (grandchild, "h"), (root, "i"))
    assert whole.names(2) == "hi"
    assert alone.names(1) == "i"
    assert [whole.rest(), alone.rest()] == ["", ""]  # the end
    again = Client(streams, root, depth=1, marker="1")
    assert again.names(count)[:2] == "bc"
    for client in (whole, alone, again):
        client.close()
    streams.close()


def test_an_event_that_is_committed_during_a_round_comes_once(known: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    streams = Streams(known, max_streams=1)
    root, after, late = stack(known, "root"), known.events.after, ["b"]
    tell(known, (root, "a"))

    def read_after_another_commit(stack_id: str, number: int, limit: int, query: EventQuery) -> list[EventRecord]:
        if late:
            tell(known, (root, late.pop()))
        return after(stack_id, number, limit, query)

    monkeypatch.setattr(known.events, "after", read_after_another_commit)
    client = Client(streams, root)
    assert client.names(2) == "ab"
    tell(known, (root, "c"))
    assert client.names(1) == "c"
    client.close()
    streams.close()


def test_a_project_comes_once_and_goes_on_after_a_break(known: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """An event that is committed late, with a lower id than a newer one, is sent, too."""
    monkeypatch.setattr(event_streams, "SETTLED_SECONDS", 3600.0)  # a busy machine takes its time between the commits
    streams = Streams(known, max_streams=2)
    known.listen(replace(NO_LISTENERS, committed=streams.wake))
    one, two, other = stack(known, "one"), stack(known, "two"), stack(known, "other", project="foreign")
    tell(known, (one, "a"), (one, "b"))
    alive = Client(streams, "demo")
    now = time.time()
    with known.transaction():
        tell(known, (one, "x"), (two, "y"), at=now)
        late = known.events.after(one.id, 0, 9)[-1]
        known.database.write("DELETE FROM event WHERE id = ?", [late.id])
    tell(known, (other, "z"), (two, "c"), at=now)
    assert alive.names(2) == "yc"
    with known.transaction():
        committed_late(known, late.id, one, "d", now)
    tell(known, (one, "e"), at=now)
    assert sorted(alive.names(2)) == ["d", "e"]
    again = Client(streams, "demo", marker="1")
    assert again.names(5) == "bdyce"
    for client in (alive, again):
        client.close()
    streams.close()


def committed_late(known: Store, number: int, of: StackRecord, name: str, at: float) -> None:
    with known.transaction():
        known.database.write(
            "INSERT INTO event (id, stack_id, resource_name, resource_type, verb, status, status_reason, created_at,"
            " properties) VALUES (?, ?, ?, 'T', 'CREATE', 'COMPLETE', '', ?, '{}')",
            [number, of.id, name, at],
        )


@pytest.mark.parametrize("place", ["nested stack", "project"])
@pytest.mark.parametrize("age", [1.0, 3600.0])
def test_a_break_loses_no_event_that_was_committed_late(known: Store, place: str, age: float) -> None:
    """The client has event 4, and event 3 is committed during the break."""
    now = time.time() - age
    root = stack(known, "root")
    child = stack(known, "child", root)
    tell(known, (child, "a"), at=now - 60)
    tell(known, (child, "b"), at=now)
    tell(known, (child, "c"), (root, "d"), at=now)
    with known.transaction():
        known.database.write("DELETE FROM event WHERE id = 3")
    streams = Streams(known, max_streams=1)
    what = (root, 1) if place == "nested stack" else ("demo", 0)
    with closing(Client(streams, what[0], depth=what[1], marker="1")) as alive:
        assert alive.names(2) == "bd"
    eventually(lambda: not streams._streams)
    committed_late(known, 3, child, "c", now)
    with closing(Client(streams, what[0], depth=what[1], marker="4")) as again:
        tell(known, (root, "e"), at=now + 1)
        assert again.names(3) == "bce"  # b comes again: it has been written at the same time, too
    streams.close()


def test_a_comment_breaks_the_silence(known: Store) -> None:
    streams = Streams(known, max_streams=1, heartbeat=0.05)
    client = Client(streams, stack(known, "s"))
    assert [client.lines.readline() for _ in range(6)] == [":\n", "\n"] * 3
    streams.close()
    assert client.rest() == ""
    client.close()


@pytest.mark.slow
def test_a_commit_of_another_process_wakes_a_stream(
    known: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(event_streams, "POLL_INTERVAL", 3600.0)
    own = stack(known, "s")
    hints = Hints(tmp_path / "hints")
    hints.folder.mkdir()
    streams = Streams(known, max_streams=1, heartbeat=3600.0, hints=hints)
    client = Client(streams, own)
    eventually(lambda: [*hints.folder.iterdir()] != [], "it follows commits")
    tell(known, (own, "a"))
    code = f"from heatlite.engine.dispatch.hints import Hints, Path; Hints(Path({str(hints.folder)!r})).committed()"
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)
    assert client.names(1) == "a"
    streams.close()
    assert client.rest() == ""
    client.close()
    eventually(lambda: [*hints.folder.iterdir()] == [], "it follows no more")
    hints.close()


def test_a_stream_needs_no_hints(
    known: Store, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The process may have no file left for their socket."""
    monkeypatch.setattr(event_streams, "POLL_INTERVAL", 0.05)
    own = stack(known, "s")
    hints = Hints(tmp_path / "gone")
    streams = Streams(known, max_streams=1, hints=hints)
    with closing(hints), closing(Client(streams, own)) as client:
        eventually(lambda: "wake no event streams" in caplog.text)
        tell(known, (own, "a"))
        assert client.names(1) == "a"
    streams.close()


def test_a_stream_ends_before_whoever_it_is_for_is_somebody_else(known: Store) -> None:
    """A token may expire or be revoked during a stream; a client that stays is asked."""
    streams = Streams(known, max_streams=1, heartbeat=0.02, max_duration=0.1)
    of = stack(known, "s")
    tell(known, (of, "a"), (of, "b"))
    client = Client(streams, of)
    assert client.names(2) == "ab"
    assert client.rest() == ""
    client.close()
    again = Client(streams, of, marker="1")
    assert again.names(1) == "b"
    again.close()
    streams.close()


def test_one_caller_takes_not_all_streams(known: Store) -> None:
    streams = Streams(known, max_streams=MAX_PER_CALLER + 2, max_duration=600)
    of = stack(known, "s")
    with ExitStack() as clients:
        for _ in range(MAX_PER_CALLER):
            clients.enter_context(closing(Client(streams, of, user="mia")))
        with pytest.raises(TooManyStreams, match="of one caller"):
            Client(streams, of, user="mia")
        for user in ("eve", "bob"):
            clients.enter_context(closing(Client(streams, of, user=user)))
        with pytest.raises(TooManyStreams, match="of this server"):
            Client(streams, of, user="joe")
        streams.close()


def test_streams_that_begin_at_once_keep_the_limit(known: Store) -> None:
    """Both are admitted before either is handed over; the later one then ends at once."""
    streams = Streams(known, max_streams=1)
    of = stack(known, "s")
    tell(known, (of, "a"))
    bodies = [streams.follow(ask(), of, 0, EventQuery()) for _ in range(2)]

    async def parts() -> list[int]:
        begun = [aiter(body) for body in bodies]
        assert [await anext(one, b"") for one in begun] == [COMMENT, b""]
        return [len(await anext(one, b"")) for one in begun]

    first, second = asyncio.run_coroutine_threadsafe(parts(), LOOP[0]).result(240)
    assert (first > 0, second) == (True, 0)
    streams.close()


def test_a_stream_ends_once_its_caller_would_not_be_let_in(known: Store) -> None:
    asked = 0

    def admit() -> None:
        nonlocal asked
        asked += 1
        if asked == 1:
            raise DatabaseUnavailable(reason="nobody can tell")
        raise Unauthorized("Basic")

    streams = Streams(known, max_streams=2, heartbeat=0.02, recheck_interval=0.05)
    of = stack(known, "s")
    with closing(Client(streams, of, user="mia", admit=admit)) as taken, closing(Client(streams, of)) as other:
        assert taken.rest() == ""
        assert asked >= 2
        tell(known, (of, "a"))
        assert other.names(1) == "a"
    streams.close()


@pytest.mark.slow
def test_what_a_slow_client_has_not_taken_waits_for_him(known: Store) -> None:
    streams = Streams(known, max_streams=2)
    known.listen(replace(NO_LISTENERS, committed=streams.wake))
    of = stack(known, "s" * 255)
    slow, quick = Client(streams, of), Client(streams, of)
    count = 20 * PAGE  # more than a connection holds
    tell(known, *[(of, "a")] * count)
    assert quick.names(count) == "a" * count
    tell(known, (of, "b"))
    assert quick.names(1) == "b"
    assert slow.names(count + 1) == "a" * count + "b"
    for client in (slow, quick):
        client.close()
    streams.close()


def test_where_nothing_can_be_streamed(heat: Heat) -> None:
    path = heat.create(template(a=value()))
    assert heat.fault("GET", f"{path}/events?stream=true") == (
        "NotSupported",
        "Streaming of events is not supported without a server.",
    )
    assert heat.fault("GET", f"{path}/events?stream=maybe")[0] == "HTTPBadRequest"
    assert heat.other.fault("GET", f"{path}/events?stream=true", code=404)[0] == "EntityNotFound"
