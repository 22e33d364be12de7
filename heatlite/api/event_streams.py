"""Event streams: server-sent events (HTML standard, section 9.2).

A stream must not occupy one of the server's few request threads. So the server hands the connection over, and one
thread serves all streams: it reads new events once for all of them.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from math import inf
from typing import Protocol, runtime_checkable

from heatlite.api import views
from heatlite.api.request import Request
from heatlite.core.errors import DatabaseUnavailable, HeatliteError, NotSupported, TooManyFailures, Unavailable
from heatlite.core.json import dump
from heatlite.core.reading import require_engine
from heatlite.store.records import EventRecord, StackRecord
from heatlite.store.stacks.events import EventQuery, event_number
from heatlite.store.store import Store

log = logging.getLogger(__name__)

POLL_INTERVAL = 1.0
"""Seconds between polls without a commit in this process: another engine may have written."""
MIN_INTERVAL = 0.02
"""Minimum seconds between polls."""
HEARTBEAT = 15.0
"""Seconds of silence before a comment is sent, to keep the connection alive."""
STALL_TIMEOUT = 60.0
"""Seconds after which a client that reads nothing is dropped."""
MAX_DURATION = 600.0
"""Seconds after which a stream ends if callers are authenticated: a new one needs new credentials."""
PAGE = 100
"""Events of one stack in a batch."""
SETTLED_SECONDS = 10.0
"""Age of events after which none with a lower id is committed any more."""
MAX_PER_CALLER = 10
"""Streams of one caller, if callers are authenticated."""
RECHECK_INTERVAL = 30.0
"""Seconds between checks of the callers' credentials: they may have been revoked."""


class TooManyStreams(Unavailable):
    text = "All {most} event streams of {whom} are in use. Try again later, or ask for pages of events."


@runtime_checkable
class Connection(Protocol):
    """The server's connection with a client."""

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """Give the connection up. Returns its non-blocking socket and the unsent bytes."""


@dataclass(slots=True, eq=False, kw_only=True)
class _Stream:
    """One client."""

    sock: socket.socket
    chunked: bool
    base: str
    caller: str
    """The user; empty without authentication."""
    admit: Callable[[], None]
    """Repeats the access check. Raises the error that would reject the stream now."""
    is_refused: bool = False
    unsent: bytes = b""
    started: float = field(default_factory=time.monotonic)
    last_sent: float = field(default_factory=time.monotonic)
    """Time of the last successful send."""

    def put(self, text: str) -> None:
        """Send as much as possible now, and keep the rest.

        Raises OSError if the client is gone.
        """
        data = text.encode()
        self.unsent += b"%X\r\n%b\r\n" % (len(data), data) if self.chunked else data
        self.flush()

    def flush(self) -> None:
        try:
            sent = self.sock.send(self.unsent)
        except BlockingIOError:
            return
        self.unsent = self.unsent[sent:]
        self.last_sent = time.monotonic()

    def end(self) -> None:
        """Close the connection, with a final chunk if everything was sent."""
        try:
            if self.chunked and not self.unsent:
                self.sock.send(b"0\r\n\r\n")
        except OSError as error:
            log.debug("the client of an event stream has disconnected: %s", error)
        self.sock.close()


@dataclass(slots=True, eq=False, kw_only=True)
class _TreeStream(_Stream):
    """A client of a stack.

    `seen` has the id of the last sent event for each stack of the tree. One id for the whole tree is not enough: events
    of two stacks may be committed in another order than that of their ids. Events of one stack never are, because each
    writer locks the stack.
    """

    stack: StackRecord
    depth: int
    query: EventQuery
    start: int
    seen: dict[str, int] = field(default_factory=dict)


@dataclass(slots=True, eq=False, kw_only=True)
class _ProjectStream(_Stream):
    """A client of a project.

    Events with higher ids than `floor` are read again until they are old, as one with a lower id may be committed
    later. `sent` has the ids of those that were sent.
    """

    project: str
    floor: int
    head: int = -1
    """Newest event of the database at the last read."""
    sent: set[int] = field(default_factory=set)


class Streams:
    """All streams of this process. Call `wake` after each commit, `close` at the end."""

    def __init__(
        self,
        store: Store,
        max_streams: int,
        heartbeat: float = HEARTBEAT,
        max_duration: float = inf,
        recheck_interval: float = RECHECK_INTERVAL,
    ) -> None:
        self._store = store
        self._max_streams = max_streams
        self._heartbeat = heartbeat
        self._max_duration = max_duration
        self._recheck_interval = recheck_interval
        self._lock = threading.Lock()
        self._new: list[_Stream] = []
        self._streams: set[_Stream] = set()
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._is_wake_pending = False
        self._wake_sender, self._wake_receiver = socket.socketpair()
        self._wake_sender.setblocking(False)
        self._wake_receiver.setblocking(False)

    def follow(self, req: Request, stack: StackRecord, depth: int, query: EventQuery) -> Iterator[bytes]:
        """Return the body of an answer: events from `query.marker` on.

        Includes nested stacks to `depth`.

        Ends after the deletion of the stack, a disconnect or `close`. Raises TooManyStreams, and NotSupported if the
        server cannot hand connections over (the command line without a server).
        """
        start = event_number(query.marker) or 0
        return self._follow(req, partial(_TreeStream, stack=stack, depth=depth, query=query, start=start))

    def follow_project(self, req: Request, project: str, marker: str | None) -> Iterator[bytes]:
        """Return the body of an answer: events of all stacks of a project after `marker`.

        None: those from now on. Ends and raises as `follow`.
        """
        floor = event_number(marker)
        if floor is None:
            floor = self._store.events.head()
        return self._follow(req, partial(_ProjectStream, project=project, floor=floor))

    def _follow(self, req: Request, make: Callable[..., _Stream]) -> Iterator[bytes]:
        require_engine()
        connection = req.env.get("gunicorn.socket")
        if not isinstance(connection, Connection):
            raise NotSupported("Streaming of events is not supported without a server.")
        asked = self._max_duration < inf
        caller = (req.caller.user_id or req.caller.user) if asked else ""
        with self._lock:
            self._check_room(caller)
        chunked = req.env.get("SERVER_PROTOCOL") != "HTTP/1.0"
        begin = partial(make, chunked=chunked, base=req.base, caller=caller, admit=req.admit)
        return self._hand_over(connection, lambda sock: begin(sock=sock))

    def _check_room(self, caller: str) -> None:
        """Raise TooManyStreams if there is no room. Call with the lock held."""
        callers = [one.caller for one in (*self._streams, *self._new)]
        if len(callers) >= self._max_streams:
            raise TooManyStreams(most=self._max_streams, whom="this server")
        if caller and callers.count(caller) >= MAX_PER_CALLER:
            raise TooManyStreams(most=MAX_PER_CALLER, whom="one caller")

    def _hand_over(self, connection: Connection, begin: Callable[[socket.socket], _Stream]) -> Iterator[bytes]:
        yield b":\n\n"  # sends the head
        sock, unsent = connection.hand_over()
        stream = begin(sock)
        stream.unsent = unsent
        with self._lock:
            try:
                self._check_room(stream.caller)
            except TooManyStreams:  # others began meanwhile; the client's next attempt is refused
                stream.end()
                return
            self._new.append(stream)
            if not self._threads:
                for run in (self._run, self._recheck_access):
                    self._threads.append(threading.Thread(target=run, name="streams", daemon=True))
                    self._threads[-1].start()
        self._wake_thread()

    def wake(self) -> None:
        """Poll soon, after a commit. Safe for threads."""
        if self._streams:
            self._wake_thread()

    def close(self) -> None:
        """Send the remaining events and end every stream."""
        self._closing.set()
        self._wake_thread()
        with self._lock:
            threads = [*self._threads]
        for thread in threads:
            thread.join()
        self._wake_sender.close()
        self._wake_receiver.close()

    def _wake_thread(self) -> None:
        if not self._is_wake_pending:
            self._is_wake_pending = True
            with suppress(BlockingIOError):  # a wake-up is pending
                self._wake_sender.send(b"!")

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._wake_receiver, selectors.EVENT_READ)
            wait = 0.0
            while not self._closing.wait(MIN_INTERVAL):
                for key, _ in selector.select(wait):
                    if key.data is None:
                        self._wake_receiver.recv(16)
                        self._is_wake_pending = False
                    else:
                        self._handle(selector, key.data)
                with self._lock:
                    for stream in self._new:
                        selector.register(stream.sock, selectors.EVENT_READ, stream)
                        self._streams.add(stream)
                    self._new.clear()
                wait = 0.0 if self._poll(selector) else min(POLL_INTERVAL, self._heartbeat)
            self._poll(selector)
            with self._lock:
                self._streams.update(self._new)  # streams added since the last round
                self._new.clear()
            for stream in self._streams:
                stream.end()
            self._streams.clear()
        self._store.close()

    def _recheck_access(self) -> None:
        """Repeat the access checks of all streams.

        Has its own thread, as Keystone may be slow.
        """
        while not self._closing.wait(self._recheck_interval):
            for stream in [*self._streams]:
                try:
                    stream.admit()
                except (Unavailable, TooManyFailures) as error:  # the stream ends after `max_duration` anyway
                    log.warning("cannot check the access of an event stream: %s", error)
                except HeatliteError:
                    stream.is_refused = True
            self._store.close()

    def _handle(self, selector: selectors.BaseSelector, stream: _Stream) -> None:
        """Handle an event of the socket: writable, unexpected input, or a disconnect."""
        try:
            stream.flush()
            if not stream.sock.recv(4096):
                self._drop(selector, stream)
        except BlockingIOError:
            pass
        except OSError:
            self._drop(selector, stream)

    def _drop(self, selector: selectors.BaseSelector, stream: _Stream) -> None:
        selector.unregister(stream.sock)
        self._streams.discard(stream)
        stream.end()

    def _poll(self, selector: selectors.BaseSelector) -> bool:
        """Run a round. Returns True if there is more to send at once."""
        try:
            return self._round(selector)
        except DatabaseUnavailable as error:
            log.warning("cannot read events: %s", error)
        except Exception:
            # The other streams have to continue.
            log.exception("cannot read events")
        return False

    def _round(self, selector: selectors.BaseSelector) -> bool:
        """Send new events to all streams. Returns True if there are more."""
        snapshot = _Snapshot(self._store, self._streams)
        more, now = False, time.monotonic()
        for stream in [*self._streams]:
            try:
                if not stream.unsent:
                    more |= self._send_page(snapshot, stream, now)
            except OSError:
                self._drop(selector, stream)
                continue
            late = not stream.unsent and now - stream.started > self._max_duration
            stalled = stream.unsent and now - stream.last_sent > STALL_TIMEOUT
            if late or stalled or stream.is_refused or snapshot.is_over(stream):
                self._drop(selector, stream)
            else:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if stream.unsent else 0)
                selector.modify(stream.sock, wanted, stream)
        return more

    def _send_page(self, snapshot: "_Snapshot", stream: _Stream, now: float) -> bool:
        """Send a page. Returns True if it was full."""
        if isinstance(stream, _TreeStream):
            messages, whole = snapshot.tree_messages(stream)
        elif isinstance(stream, _ProjectStream):
            messages, whole = snapshot.project_messages(stream)
        if messages:
            stream.put("".join(messages))
        elif now - stream.last_sent >= self._heartbeat:
            stream.put(":\n\n")
        return whole


def _message(url: str, record: EventRecord, root: str | None) -> str:
    return f"id: {record.id}\ndata: {dump(views.event(url, record, root))}\n\n"


class _Snapshot:
    """The state of the database for one round of all streams."""

    def __init__(self, store: Store, streams: set[_Stream]) -> None:
        self._store = store
        trees = {(stream.stack.id, stream.depth) for stream in streams if isinstance(stream, _TreeStream)}
        # The order matters: a stack deleted by now has all of its events, and a nested one all since its creation.
        self._live = store.stacks.live([*{stack_id for stack_id, _ in trees}]) if trees else set()
        self._nested = {tree: store.stacks.nested(*tree) if tree[1] else {} for tree in trees}
        stacks = {stack_id for tree, nested in self._nested.items() for stack_id in (tree[0], *nested)}
        self._heads = store.events.heads([*stacks]) if stacks else {}
        self._head = store.events.head() if any(isinstance(stream, _ProjectStream) for stream in streams) else 0
        self._of_project: dict[tuple[str, int, int], Sequence[tuple[EventRecord, str]]] = {}
        self._found: dict[tuple[str, int, EventQuery], list[EventRecord]] = {}

    def tree_messages(self, stream: _TreeStream) -> tuple[list[str], bool]:
        """Return the next messages of a stream, and True if there may be more."""
        records, whole = self.page(stream)
        urls = self.urls(stream) if records else {}
        root = urls[stream.stack.id] if records and stream.depth else None
        return [_message(urls[record.stack_id], record, root) for record in records], whole

    def project_messages(self, stream: _ProjectStream) -> tuple[list[str], bool]:
        """Return the next messages of a stream, and True if there may be more."""
        if self._head == stream.head and not stream.sent:
            return [], False
        key = (stream.project, stream.floor, PAGE + len(stream.sent))
        found = self._of_project.get(key)
        if found is None:
            found = self._of_project[key] = self._store.events.of_project(*key)
        new = [(record, name) for record, name in found if record.id not in stream.sent]
        stream.sent |= {record.id for record, _ in new}
        settled = time.time() - SETTLED_SECONDS
        for record, _ in found:
            if record.created_at > settled:
                break
            stream.floor = record.id
            stream.sent.discard(record.id)
        whole = len(new) == PAGE
        if not whole:
            stream.head = self._head
        base, project = stream.base, stream.project
        return [_message(views.url_of(base, project, name, one.stack_id), one, None) for one, name in new], whole

    def _stacks(self, stream: _TreeStream) -> list[str]:
        return [stream.stack.id, *self._nested[stream.stack.id, stream.depth]]

    def urls(self, stream: _TreeStream) -> dict[str, str]:
        """Return stack ids → URLs for the client of the stream."""
        project, base = stream.stack.project, stream.base
        names = {**self._nested[stream.stack.id, stream.depth], stream.stack.id: stream.stack.name}
        return {stack_id: views.url_of(base, project, name, stack_id) for stack_id, name in names.items()}

    def page(self, stream: _TreeStream) -> tuple[list[EventRecord], bool]:
        """Return the next events of a stream, oldest first, and True if there may be more."""
        pages: dict[str, list[EventRecord]] = {}
        for stack_id in self._stacks(stream):
            seen = stream.seen.get(stack_id, stream.start)
            if self._heads.get(stack_id, 0) > seen:
                pages[stack_id] = self._after(stack_id, seen, stream.query)
        # Later events of other stacks wait while one stack has more than its page.
        last = min((page[-1].id for page in pages.values() if len(page) == PAGE), default=None)
        for stack_id, page in pages.items():
            # A page may have events from after the reading of the heads.
            read = max([self._heads[stack_id], *(event.id for event in page[-1:])])
            stream.seen[stack_id] = read if last is None else min(last, read)
        found = [event for page in pages.values() for event in page if last is None or event.id <= last]
        return sorted(found, key=lambda event: event.id), last is not None

    def _after(self, stack_id: str, seen: int, query: EventQuery) -> list[EventRecord]:
        """Read the events after `seen`, once for all streams at the same position."""
        key = (stack_id, seen, query)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._store.events.after(stack_id, seen, PAGE, query)
        return found

    def is_over(self, stream: _Stream) -> bool:
        """Return True if no more events can come."""
        if not isinstance(stream, _TreeStream) or stream.unsent or stream.stack.id in self._live:
            return False
        seen = stream.seen
        return all(self._heads.get(key, 0) <= seen.get(key, stream.start) for key in self._stacks(stream))
