"""Events as they happen: server-sent events (HTML standard, section 9.2).

The server's threads are for requests, and there are few of them. So the server hands the connection of a stream over,
and one thread serves all streams: it looks for new events once for all of them.
"""

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from typing import Protocol, runtime_checkable

from heatlite.api import views
from heatlite.api.request import Request
from heatlite.core.errors import DatabaseUnavailable, HeatliteError, NotSupported, TooManyFailures, Unavailable
from heatlite.core.json import dump
from heatlite.store.records import EventRecord, StackRecord
from heatlite.store.stacks.events import EventQuery, event_number
from heatlite.store.store import Store

log = logging.getLogger(__name__)

LOOK = 1.0
"""Seconds between two looks when nobody calls: another engine may have written."""
PAUSE = 0.02
"""Seconds between two looks at least, however many commits there are."""
HEARTBEAT = 15.0
"""Seconds of silence after which a comment is sent, so that nobody takes the connection for dead."""
STALLED = 60.0
"""Seconds after which a client that takes nothing is given up."""
LONGEST = 600.0
"""Seconds after which a stream ends where callers are asked who they are: whoever goes on proves it again."""
PAGE = 100
"""Events of one stack that are sent at once."""
MOST_OF_ONE = 10
"""Streams of one caller, where callers are asked who they are."""
ASK_AGAIN = 30.0
"""Seconds between two looks at what callers have proved themselves with: it may have been taken back."""


class TooManyStreams(Unavailable):
    text = "All {most} event streams of {whom} are in use. Try again later, or ask for pages of events."


@runtime_checkable
class Connection(Protocol):
    """What the server has of a client."""

    def hand_over(self) -> tuple[socket.socket, bytes]:
        """Let go of the client: the socket, which does not block, and what is still to be sent."""


@dataclass(slots=True, eq=False)
class _Stream:
    """One client.

    `seen` is, for each stack of the tree, the id of the last event that need not be sent any more.
    One number for the whole tree would not do: on a database server events of two stacks may be committed in another
    order than that of their ids. Those of one stack never are, because each writer holds the stack.
    """

    sock: socket.socket
    chunked: bool
    base: str
    stack: StackRecord
    depth: int
    query: EventQuery
    start: int
    caller: str
    """Who follows; empty where nobody is asked."""
    admit: Callable[[], None]
    """Raises what keeps the caller from beginning the same stream now."""
    is_refused: bool = False
    seen: dict[str, int] = field(default_factory=dict)
    unsent: bytes = b""
    begun: float = field(default_factory=time.monotonic)
    taken: float = field(default_factory=time.monotonic)
    """When the client last took something."""

    def put(self, text: str) -> None:
        """Send as much as the client takes now; the rest waits.

        Raises OSError when he is gone.
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
        self.taken = time.monotonic()

    def end(self) -> None:
        """Close, in good order where the client has taken everything."""
        try:
            if self.chunked and not self.unsent:
                self.sock.send(b"0\r\n\r\n")
        except OSError as error:
            log.debug("the client of an event stream went first: %s", error)
        self.sock.close()


class Streams:
    """All streams of this process.

    `wake` when something was committed; `close` ends them.
    """

    def __init__(
        self, store: Store, most: int, heartbeat: float = HEARTBEAT, longest: float = inf, ask_again: float = ASK_AGAIN
    ) -> None:
        self._store = store
        self._most = most
        self._heartbeat = heartbeat
        self._longest = longest
        self._ask_again = ask_again
        self._lock = threading.Lock()
        self._new: list[_Stream] = []
        self._streams: set[_Stream] = set()
        self._threads: list[threading.Thread] = []
        self._closing = threading.Event()
        self._called = False
        self._caller, self._bell = socket.socketpair()
        self._caller.setblocking(False)
        self._bell.setblocking(False)

    def follow(self, req: Request, stack: StackRecord, depth: int, query: EventQuery) -> Iterator[bytes]:
        """The body of an answer: the events of a stack from `query.marker` on, and of those nested in it to `depth`.

        Ends when the stack is deleted, the client goes, or `close` is called. Raises TooManyStreams, and NotSupported
        where the server does not let go of connections (the command line without a server).
        """
        connection = req.env.get("gunicorn.socket")
        if not isinstance(connection, Connection):
            raise NotSupported("Streaming of events is not supported without a server.")
        asked = self._longest < inf
        caller = (req.caller.user_id or req.caller.user) if asked else ""
        with self._lock:
            callers = [one.caller for one in (*self._streams, *self._new)]
        if len(callers) >= self._most:
            raise TooManyStreams(most=self._most, whom="this server")
        if caller and callers.count(caller) >= MOST_OF_ONE:
            raise TooManyStreams(most=MOST_OF_ONE, whom="one caller")
        chunked = req.env.get("SERVER_PROTOCOL") != "HTTP/1.0"
        start = event_number(query.marker) or 0
        return self._hand_over(
            connection,
            lambda sock: _Stream(sock, chunked, req.base, stack, depth, query, start, caller, req.admit),
        )

    def _hand_over(self, connection: Connection, begin: Callable[[socket.socket], _Stream]) -> Iterator[bytes]:
        yield b":\n\n"  # now there is a head
        sock, unsent = connection.hand_over()
        stream = begin(sock)
        stream.unsent = unsent
        with self._lock:
            self._new.append(stream)
            if not self._threads:
                for run in (self._run, self._ask):
                    self._threads.append(threading.Thread(target=run, name="streams", daemon=True))
                    self._threads[-1].start()
        self._ring()

    def wake(self) -> None:
        """Something was committed (from any thread)."""
        if self._streams:
            self._ring()

    def close(self) -> None:
        """Send what there is and end every stream."""
        self._closing.set()
        self._ring()
        with self._lock:
            threads = [*self._threads]
        for thread in threads:
            thread.join()
        self._caller.close()
        self._bell.close()

    def _ring(self) -> None:
        if not self._called:
            self._called = True
            with suppress(BlockingIOError):  # it rings already
                self._caller.send(b"!")

    # -- the thread --------------------------------------------------------------------------------

    def _run(self) -> None:
        with selectors.DefaultSelector() as selector:
            selector.register(self._bell, selectors.EVENT_READ)
            wait = 0.0
            while not self._closing.wait(PAUSE):
                for key, _ in selector.select(wait):
                    if key.data is None:
                        self._bell.recv(16)
                        self._called = False
                    else:
                        self._attend(selector, key.data)
                with self._lock:
                    for stream in self._new:
                        selector.register(stream.sock, selectors.EVENT_READ, stream)
                        self._streams.add(stream)
                    self._new.clear()
                wait = 0.0 if self._look(selector) else min(LOOK, self._heartbeat)
            self._look(selector)
            with self._lock:
                self._streams.update(self._new)  # a stream may have come since the last round
                self._new.clear()
            for stream in self._streams:
                stream.end()
            self._streams.clear()
        self._store.close()

    def _ask(self) -> None:
        """Now and then ask the door again about whoever follows.

        A thread of its own: Keystone may take its time.
        """
        while not self._closing.wait(self._ask_again):
            for stream in [*self._streams]:
                try:
                    stream.admit()
                except (Unavailable, TooManyFailures) as error:  # it ends after `longest` anyway
                    log.warning("cannot tell whether an event stream may go on: %s", error)
                except HeatliteError:
                    stream.is_refused = True
            self._store.close()

    def _attend(self, selector: selectors.BaseSelector, stream: _Stream) -> None:
        """The client has taken something, has sent something, which nobody asked for, or has gone."""
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

    def _look(self, selector: selectors.BaseSelector) -> bool:
        """One round; whether there is more to send at once."""
        try:
            return self._round(selector)
        except DatabaseUnavailable as error:
            log.warning("cannot look for events: %s", error)
        except Exception:
            # Whatever it was, the other streams go on.
            log.exception("cannot look for events")
        return False

    def _round(self, selector: selectors.BaseSelector) -> bool:
        """Send what is new to everybody; whether there is more."""
        look = _Look(self._store, self._streams)
        more, now = False, time.monotonic()
        for stream in [*self._streams]:
            try:
                if not stream.unsent:
                    more |= self._feed(look, stream, now)
            except OSError:
                self._drop(selector, stream)
                continue
            late = not stream.unsent and now - stream.begun > self._longest
            if late or stream.is_refused or look.is_over(stream) or (stream.unsent and now - stream.taken > STALLED):
                self._drop(selector, stream)
            else:
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if stream.unsent else 0)
                selector.modify(stream.sock, wanted, stream)
        return more

    def _feed(self, look: "_Look", stream: _Stream, now: float) -> bool:
        """Send one page; whether it was a whole one."""
        records, whole = look.page(stream)
        if records:
            urls = look.urls(stream)
            root = urls[stream.stack.id] if stream.depth else None
            stream.put("".join(_message(urls[record.stack_id], record, root) for record in records))
        elif now - stream.taken >= self._heartbeat:
            stream.put(":\n\n")
        return whole


def _message(url: str, record: EventRecord, root: str | None) -> str:
    return f"id: {record.id}\ndata: {dump(views.event(url, record, root))}\n\n"


class _Look:
    """One look at the database, for all streams."""

    def __init__(self, store: Store, streams: set[_Stream]) -> None:
        self._store = store
        # In this order: of what is deleted now, everything is there; what is nested now has all its events since.
        self._live = store.stacks.live([*{stream.stack.id for stream in streams}])
        trees = {(stream.stack.id, stream.depth) for stream in streams}
        self._nested = {tree: store.stacks.nested(*tree) if tree[1] else {} for tree in trees}
        stacks = {stack_id for tree, nested in self._nested.items() for stack_id in (tree[0], *nested)}
        self._heads = store.events.heads([*stacks])
        self._found: dict[tuple[str, int, EventQuery], list[EventRecord]] = {}

    def _stacks(self, stream: _Stream) -> list[str]:
        return [stream.stack.id, *self._nested[stream.stack.id, stream.depth]]

    def urls(self, stream: _Stream) -> dict[str, str]:
        """Stack id → URL, as the stream's client reaches them."""
        project, base = stream.stack.project, stream.base
        names = {**self._nested[stream.stack.id, stream.depth], stream.stack.id: stream.stack.name}
        return {stack_id: views.url_of(base, project, name, stack_id) for stack_id, name in names.items()}

    def page(self, stream: _Stream) -> tuple[list[EventRecord], bool]:
        """What comes next in a stream, by age, and whether there may be more."""
        pages: dict[str, list[EventRecord]] = {}
        for stack_id in self._stacks(stream):
            seen = stream.seen.get(stack_id, stream.start)
            if self._heads.get(stack_id, 0) > seen:
                pages[stack_id] = self._after(stack_id, seen, stream.query)
        # Where a stack has more than its page, what others did later has to wait for that.
        last = min((page[-1].id for page in pages.values() if len(page) == PAGE), default=None)
        for stack_id in pages:
            stream.seen[stack_id] = self._heads[stack_id] if last is None else min(last, self._heads[stack_id])
        found = [event for page in pages.values() for event in page if last is None or event.id <= last]
        return sorted(found, key=lambda event: event.id), last is not None

    def _after(self, stack_id: str, seen: int, query: EventQuery) -> list[EventRecord]:
        """Read once for all streams that are equally far."""
        key = (stack_id, seen, query)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._store.events.after(stack_id, seen, PAGE, query)
        return found

    def is_over(self, stream: _Stream) -> bool:
        """Whether nothing can come any more."""
        if stream.unsent or stream.stack.id in self._live:
            return False
        seen = stream.seen
        return all(self._heads.get(key, 0) <= seen.get(key, stream.start) for key in self._stacks(stream))
