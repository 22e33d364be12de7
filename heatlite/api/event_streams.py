"""Event streams: server-sent events (HTML standard, section 9.2).

A stream costs no thread. The server sends it in its event loop, and one task reads new events for all streams.
"""

import asyncio
import logging
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from math import inf

from msgspec import Struct, field

from heatlite.api.request import Request
from heatlite.api.wire import views
from heatlite.core.errors import DatabaseUnavailable, HeatliteError, NotSupported, TooManyFailures, Unavailable
from heatlite.core.json import dump
from heatlite.core.runtime.logs import logged
from heatlite.engine.dispatch.hints import Hints
from heatlite.store.records import EventRecord, StackRecord
from heatlite.store.stacks.events import EventQuery, event_number
from heatlite.store.store import Store

log = logging.getLogger(__name__)

ASYNCHRONOUS = "heatlite.asynchronous"
"""Key in the WSGI environment: present if the server sends an answer that is an asynchronous iterable."""
POLL_INTERVAL = 1.0
"""Seconds between polls without a commit in this process: another process may have written."""
MIN_INTERVAL = 0.02
"""Minimum seconds between polls."""
HEARTBEAT = 15.0
"""Seconds of silence before a comment is sent, to keep the connection alive."""
COMMENT = b":\n\n"
"""A comment (HTML standard, section 9.2.7)."""
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


class _Stream(Struct, eq=False, kw_only=True):
    """One client."""

    base: str
    caller: str
    """The user; empty without authentication."""
    admit: Callable[[], None]
    """Repeats the access check. Raises the error that would reject the stream now."""
    is_refused: bool = False
    is_waiting: bool = False
    """True while the client has taken all messages."""
    is_ended: bool = False
    """True if no message follows `unsent`."""
    unsent: str = ""
    ready: asyncio.Event = field(default_factory=asyncio.Event)
    """Set if there is something to send, or the stream has ended."""
    started: float = field(default_factory=time.monotonic)


class _TreeStream(_Stream, eq=False, kw_only=True):
    """A client of a stack.

    `positions` has the id up to which events were read, for each stack of the tree. One id for the whole tree is not
    enough: events of two stacks may be committed in another order than that of their ids. Events of one stack never
    are, because each writer locks the stack.
    """

    stack: StackRecord
    depth: int
    query: EventQuery
    start: int
    """Position in the stacks that have none in `positions`."""
    positions: dict[str, int]


class _ProjectStream(_Stream, eq=False, kw_only=True):
    """A client of a project.

    Events with higher ids than `floor` are read again until they are old, as one with a lower id may be committed
    later. `sent` has the ids of those that were sent.
    """

    project: str
    floor: int
    head: int = -1
    """Newest event of the database at the last read."""
    sent: set[int]


class EventStream:
    """The body of an answer. It has no bytes for a server without an event loop."""

    def __init__(self, send: Callable[[], AsyncIterator[bytes]]) -> None:
        self._send = send

    def __iter__(self) -> Iterator[bytes]:
        return iter(())

    def __aiter__(self) -> AsyncIterator[bytes]:
        return self._send()


class Streams:
    """All streams of this process. Call `wake` after each commit, `close` at the end."""

    def __init__(
        self,
        store: Store,
        max_streams: int,
        heartbeat: float = HEARTBEAT,
        max_duration: float = inf,
        recheck_interval: float = RECHECK_INTERVAL,
        hints: Hints | None = None,
    ) -> None:
        """`hints` tell of the commits of this server's other processes."""
        self._store = store
        self._hints = hints
        self._max_streams = max_streams
        self._heartbeat = heartbeat
        self._max_duration = max_duration
        self._recheck_interval = recheck_interval
        self._lock = threading.Lock()
        self._streams: set[_Stream] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._woken = asyncio.Event()
        self._is_wake_pending = False
        self._is_closing = False

    def follow(self, req: Request, stack: StackRecord, depth: int, query: EventQuery) -> EventStream:
        """Return the body of an answer: events from `query.marker` on.

        Includes nested stacks to `depth`.

        Ends after the deletion of the stack, a disconnect or `close`. Raises TooManyStreams, and NotSupported if the
        server has no event loop (the command line without a server).
        """
        start, last = self._start_after(event_number(query.marker) or 0)
        positions = {} if last is None else {last.stack_id: last.id}
        make = partial(_TreeStream, stack=stack, depth=depth, query=query, start=start, positions=positions)
        return self._follow(req, make)

    def follow_project(self, req: Request, project: str, marker: str | None) -> EventStream:
        """Return the body of an answer: events of all stacks of a project after `marker`.

        None: those from now on. Ends and raises as `follow`.
        """
        number = event_number(marker)
        floor, last = (self._store.events.head(), None) if number is None else self._start_after(number)
        sent = set[int]() if last is None else {last.id}
        return self._follow(req, partial(_ProjectStream, project=project, floor=floor, sent=sent))

    def _start_after(self, number: int) -> tuple[int, EventRecord | None]:
        """Return where to go on after the last event that a client has, and that event.

        Events with lower ids may have been committed later, so those of the time just before it come again.
        """
        last = self._store.events.numbered(number)
        if last is None:
            return number, None
        return self._store.events.before(number, last.created_at - SETTLED_SECONDS), last

    def _follow(self, req: Request, make: Callable[..., _Stream]) -> EventStream:
        if ASYNCHRONOUS not in req.env:
            raise NotSupported("Streaming of events is not supported without a server.")
        asked = self._max_duration < inf
        caller = (req.caller.user_id or req.caller.user) if asked else ""
        self._check_room(caller)
        admit = partial(req.admit, req)
        return EventStream(partial(self._send, partial(make, base=req.base, caller=caller, admit=admit)))

    def _check_room(self, caller: str) -> None:
        """Raise TooManyStreams if there is no room."""
        with self._lock:
            callers = [one.caller for one in self._streams]
        if len(callers) >= self._max_streams:
            raise TooManyStreams(most=self._max_streams, whom="this server")
        if caller and callers.count(caller) >= MAX_PER_CALLER:
            raise TooManyStreams(most=MAX_PER_CALLER, whom="one caller")

    def wake(self) -> None:
        """Poll soon, after a commit. Safe for threads."""
        if self._streams and not self._is_wake_pending:
            self._is_wake_pending = True
            self._tell()

    def close(self) -> None:
        """Send the remaining events and end every stream. Safe for threads."""
        self._is_closing = True
        self._tell()

    def _tell(self) -> None:
        loop = self._loop
        if loop is not None and not loop.is_closed():
            loop.call_soon_threadsafe(self._woken.set)

    # -- in the event loop ------------------------------------------------------------------------

    async def _send(self, make: Callable[[], _Stream]) -> AsyncIterator[bytes]:
        """Yield the parts of a stream."""
        stream = make()
        try:
            self._check_room(stream.caller)
        except TooManyStreams:
            return  # others began meanwhile; the client's next attempt is refused
        with self._lock:
            self._streams.add(stream)
        self._start()
        try:
            yield COMMENT  # sends the head
            while stream.unsent or not stream.is_ended:
                stream.is_waiting = True
                try:
                    async with asyncio.timeout(self._heartbeat):
                        await stream.ready.wait()
                except TimeoutError:
                    pass
                stream.is_waiting = False
                stream.ready.clear()
                text, stream.unsent = stream.unsent, ""
                if text or not stream.is_ended:
                    yield text.encode() or COMMENT
        finally:
            with self._lock:
                self._streams.discard(stream)

    def _start(self) -> None:
        """Start the tasks with the first stream."""
        self._loop = asyncio.get_running_loop()
        for name, run in (("read", self._run), ("check", self._recheck_access)):
            if name not in self._tasks or self._tasks[name].done():
                self._tasks[name] = self._loop.create_task(run())
        self._woken.set()

    async def _run(self) -> None:
        """Read events while there are streams."""
        with ExitStack() as ends:
            if self._hints is not None:
                with logged(log, "commits of other processes wake no event streams"):
                    ends.callback(self._hints.follow_commits(self.wake))
            while self._streams:
                await self._run_round()

    async def _run_round(self) -> None:
        """Wait for a commit, and read its events."""
        try:
            async with asyncio.timeout(min(POLL_INTERVAL, self._heartbeat)):
                await self._woken.wait()
        except TimeoutError:
            pass
        self._woken.clear()
        self._is_wake_pending = False
        is_closing = self._is_closing
        waiting = [stream for stream in self._streams if stream.is_waiting and not stream.ready.is_set()]
        if await asyncio.to_thread(self._read, waiting):
            self._woken.set()
        for stream in waiting:
            stream.is_ended |= is_closing or time.monotonic() - stream.started > self._max_duration
            if stream.unsent or stream.is_ended:
                stream.ready.set()
        await asyncio.sleep(MIN_INTERVAL)

    async def _recheck_access(self) -> None:
        """Repeat the access checks of all streams.

        Keystone may be slow, so no events wait for it.
        """
        while self._streams:
            await asyncio.sleep(self._recheck_interval)
            await asyncio.to_thread(self._check_access, [*self._streams])

    # -- in a thread ------------------------------------------------------------------------------

    def _check_access(self, streams: Sequence[_Stream]) -> None:
        for stream in streams:
            try:
                stream.admit()
            except (Unavailable, TooManyFailures) as error:  # the stream ends after `max_duration` anyway
                log.warning("cannot check the access of an event stream: %s", error)
            except HeatliteError:
                stream.is_refused = True

    def _read(self, streams: Sequence[_Stream]) -> bool:
        """Read new events for streams, once for all. Returns True if there are more."""
        more = False
        try:
            with logged(log, "cannot read events"):
                state = _Round(self._store, streams)
                for stream in streams:
                    messages, has_more = state.messages(stream)
                    stream.unsent = "".join(messages)
                    stream.is_ended = stream.is_refused or state.is_over(stream)
                    more |= has_more
        except DatabaseUnavailable as error:
            log.warning("cannot read events: %s", error)
        return more


def _message(url: str, record: EventRecord, root: str | None) -> str:
    return f"id: {record.id}\ndata: {dump(views.event(url, record, root))}\n\n"


class _Round:
    """The state of the database for one round of all streams."""

    def __init__(self, store: Store, streams: Sequence[_Stream]) -> None:
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

    def messages(self, stream: _Stream) -> tuple[list[str], bool]:
        """Return the next messages of a stream, and True if there may be more."""
        if isinstance(stream, _TreeStream):
            return self._tree_messages(stream)
        assert isinstance(stream, _ProjectStream)
        return self._project_messages(stream)

    def _tree_messages(self, stream: _TreeStream) -> tuple[list[str], bool]:
        records, has_more = self.page(stream)
        urls = self.urls(stream) if records else {}
        root = urls[stream.stack.id] if records and stream.depth else None
        return [_message(urls[record.stack_id], record, root) for record in records], has_more

    def _project_messages(self, stream: _ProjectStream) -> tuple[list[str], bool]:
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
        has_more = len(new) == PAGE
        if not has_more:
            stream.head = self._head
        base, project = stream.base, stream.project
        return [_message(views.url_of(base, project, name, one.stack_id), one, None) for one, name in new], has_more

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
            position = stream.positions.get(stack_id, stream.start)
            if self._heads.get(stack_id, 0) > position:
                pages[stack_id] = self._after(stack_id, position, stream.query)
        # Later events of other stacks wait while one stack has more than its page.
        last = min((page[-1].id for page in pages.values() if len(page) == PAGE), default=None)
        for stack_id, page in pages.items():
            # A page may have events from after the reading of the heads.
            read = max([self._heads[stack_id], *(event.id for event in page[-1:])])
            stream.positions[stack_id] = read if last is None else min(last, read)
        found = [event for page in pages.values() for event in page if last is None or event.id <= last]
        return sorted(found, key=lambda event: event.id), last is not None

    def _after(self, stack_id: str, position: int, query: EventQuery) -> list[EventRecord]:
        """Read the events after `position`, once for all streams at the same position."""
        key = (stack_id, position, query)
        found = self._found.get(key)
        if found is None:
            found = self._found[key] = self._store.events.after(stack_id, position, PAGE, query)
        return found

    def is_over(self, stream: _Stream) -> bool:
        """Return True if no more events can come."""
        if not isinstance(stream, _TreeStream) or stream.stack.id in self._live:
            return False
        positions = stream.positions
        return all(self._heads.get(key, 0) <= positions.get(key, stream.start) for key in self._stacks(stream))
