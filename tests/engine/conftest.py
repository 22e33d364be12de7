"""A whole engine in this process, with its own database and the test's clock.

Which kind of database, and whether a broker is between who takes requests and who does the work, is a matter of the
environment: see `tests/databases.py` and `tests/engine/dispatching.py`.
"""

import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from math import inf
from pathlib import Path
from typing import Any, ClassVar

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.core.clock import Clock, to_text
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.json import Json
from heatlite.core.status import LockLevel, Status, Verb, state
from heatlite.core.wire.locks import LockOptions
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import LockRecord, ResourceRecord, StackRecord
from heatlite.store.stacks.events import EventQuery
from tests.databases import MEMORY, PLACES
from tests.engine.dispatching import DISPATCHING
from tests.waiting import eventually

HERE = Path(__file__).parent
START = 1_800_000_000.0
PATIENCE = 240
"""Real seconds after which a test gives up waiting for the engine."""

MEMBER = Context("demo", user="mia", roles=frozenset({"member", "reader"}))
ADMIN = Context("demo", user="ada", roles=frozenset({"admin", "member", "reader"}))
READER = Context("demo", user="rob", roles=frozenset({"reader"}))


class HeldClock(Clock):
    """Time that only waiting threads move, at once, up to the test's limit."""

    def __init__(self) -> None:
        self._now = START
        self._limit = float("inf")
        self._lock = threading.Lock()
        self._polls: dict[int, int] = {}

    def now(self) -> float:
        return self._now

    def wait(self, event: threading.Event, seconds: float, at_most: float = inf) -> bool:
        until, waiter, real = self._now + seconds, threading.get_ident(), time.monotonic() + at_most
        while not event.is_set() and time.monotonic() < real:
            with self._lock:
                if until <= self._limit:
                    self._now = max(self._now, until)
                    break
                self._polls[waiter] = self._polls.get(waiter, 0) + 1
            event.wait(0.001)
        with self._lock:
            self._polls.pop(waiter, None)
        return event.is_set()

    def is_held(self) -> bool:
        return self._limit != float("inf")

    def at_rest(self) -> bool:
        """True if only waits for time are left, for some real milliseconds."""
        with self._lock:
            return any(polls >= 5 for polls in self._polls.values())

    @contextmanager
    def held(self) -> Iterator[None]:
        """Inside, only `pass_` moves time. May be nested."""
        outer, self._limit = self._limit, self._now
        try:
            yield
        finally:
            self._limit = max(outer, self._now)

    def pass_(self, seconds: float) -> None:
        """Let time go on, also where it is held."""
        with self._lock:
            self._now += seconds
            self._limit = max(self._limit, self._now)


class Engine:
    """The use cases of one caller, and what there is to see of their effects."""

    patience = float(PATIENCE)
    running: ClassVar[set["Engine"]] = set()
    """Those that have not been closed: the next test may get their database."""

    def __init__(self, folder: Path, **settings: Any) -> None:
        self.clock = HeldClock()
        # Leases are of real machines; a jump of the clock must not end one.
        settings = {**DISPATCHING.settings, **settings}
        self.settings = Settings(database=PLACES.url(folder), lease_seconds=1e10, **settings)
        self.who = MEMBER
        self.by_hand = False
        """True if the test has written rows that no operation would have."""
        self.open()

    def open(self) -> None:
        """Start the process."""
        if hasattr(self, "store"):
            self.store.close()  # a test may have looked at what the process before has left
        self.server = self.front = wiring.embedded(self.settings, clock=self.clock)
        self.running.add(self)
        """The worker; with a broker another engine takes requests on its own store."""
        if self.settings.broker is not None:
            self.front = wiring.api(self.settings, clock=self.clock)
        self.components = self.front.components
        self.stacks = self.front.stacks
        self.store = self.front.store

    def close(self) -> None:
        """End the process; what runs is given back.

        Nothing is orphaned, whatever the test has done.
        """
        self.end()
        if not self.by_hand:
            assert self.store.inconsistencies(self.clock.now(), 0.0) == []
        self.store.close()

    def end(self) -> None:
        """End the process."""
        self.running.discard(self)
        self.server.close()
        if self.front is not self.server:
            self.front.close()

    # -- operations: all wait until the stack has come to rest, unless told not to ---------------------

    def create(self, template: object, name: str = "s", wait: bool = True, **more: Any) -> StackRecord:
        stack = self.stacks.create(self.who, StackRequest(name=name, template=template, **more))  # type: ignore[arg-type]
        return self.settle(stack) if wait else stack

    def put(self, stack: StackRecord, template: object, wait: bool = True, **more: Any) -> StackRecord:
        request = StackRequest(template=template, **more)  # type: ignore[arg-type]
        self.stacks.update(self.who, self.get(stack), request, existing=False)
        return self.settle(stack) if wait else self.get(stack)

    def patch(self, stack: StackRecord, wait: bool = True, **more: Any) -> StackRecord:
        self.stacks.update(self.who, self.get(stack), StackRequest(**more), existing=True)
        return self.settle(stack) if wait else self.get(stack)

    def delete(self, stack: StackRecord, wait: bool = True) -> StackRecord:
        self.stacks.delete(self.who, self.get(stack))
        return self.settle(stack) if wait else self.get(stack)

    def check(self, stack: StackRecord) -> StackRecord:
        self.stacks.check(self.who, self.get(stack))
        return self.settle(stack)

    def suspend(self, stack: StackRecord, wait: bool = True) -> StackRecord:
        self.stacks.suspend(self.who, self.get(stack))
        return self.settle(stack) if wait else self.get(stack)

    def resume(self, stack: StackRecord, wait: bool = True) -> StackRecord:
        self.stacks.resume(self.who, self.get(stack))
        return self.settle(stack) if wait else self.get(stack)

    def cancel(self, stack: StackRecord, rollback: bool, wait: bool = True) -> StackRecord:
        with self.heard() if self.clock.is_held() else nullcontext():
            self.stacks.cancel(self.who, self.get(stack), rollback)
        return self.settle(stack) if wait else self.get(stack)

    @contextmanager
    def heard(self) -> Iterator[None]:
        """While time is held: inside, something is asked of what runs.

        Time must not go on before it has heard.
        """
        self.wait_for(self.clock.at_rest)
        yield
        self.wait_for(self._has_heard)

    def _has_heard(self) -> bool:
        """True if each execution knows the control of its action."""
        worker = self.server.worker
        assert worker is not None
        asked = self.store.claims.controls(worker.owner)
        return all(asked[key] is one.control for key, one in worker._table.executions(asked.keys()).items())

    def mark(self, stack: StackRecord, name: str, unhealthy: bool = True, reason: str | None = None) -> None:
        self.components.health.mark(self.who, self.get(stack), name, unhealthy, reason)

    def lock(
        self,
        stack: StackRecord,
        level: LockLevel = LockLevel.ALL,
        reason: str | None = None,
        expires_at: float | None = None,
        wait: bool = True,
    ) -> StackRecord:
        self.components.maintenance.lock(self.who, self.get(stack), LockOptions(level, reason, to_text(expires_at)))
        return self.settle(stack) if wait else self.get(stack)

    def unlock(self, stack: StackRecord, wait: bool = True) -> StackRecord:
        self.components.maintenance.unlock(self.who, self.get(stack))
        return self.settle(stack) if wait else self.get(stack)

    # -- waiting -------------------------------------------------------------------------------------

    def wait_for(self, what: Callable[[], object]) -> None:
        """Until `what` is true."""
        eventually(what, "the engine gets there", self.patience)

    def begun(self, what: Callable[[], object]) -> None:
        """Until `what` is true and the engine has nothing left to do before time goes on."""
        self.wait_for(what)
        self.wait_for(self.clock.at_rest)

    def settle(self, stack: StackRecord) -> StackRecord:
        """The stack, once no action holds it."""
        self.wait_for(lambda: not self.store.actions.holding(self.store.actions.live([stack.id])))
        stack = self.get(stack)
        assert stack.status is not Status.IN_PROGRESS
        assert [row.name for row in self.rows(stack) if row.status is Status.IN_PROGRESS] == []
        assert [row.name for row in self.rows(stack) if row.token is not None] == []
        return stack

    # -- what there is to see --------------------------------------------------------------------------

    def get(self, stack: StackRecord) -> StackRecord:
        found = self.store.stacks.get(stack.id)
        assert found is not None
        return found

    def rows(self, stack: StackRecord) -> list[ResourceRecord]:
        """All rows, oldest first."""
        return self.store.resources.of(stack.id)

    def row(self, stack: StackRecord, name: str) -> ResourceRecord:
        """The one row of a name."""
        (row,) = [row for row in self.rows(stack) if row.name == name]
        return row

    def states(self, stack: StackRecord) -> dict[str, str]:
        """Name → state; while there are two rows of a name, of the newer."""
        return {row.name: state(row.verb, row.status) for row in self.rows(stack)}

    def ids(self, stack: StackRecord) -> dict[str, str]:
        """Name → row id: another one means another object."""
        return {row.name: row.id for row in self.rows(stack)}

    def value(self, stack: StackRecord, name: str) -> Json:
        """Properties by which a test resource or value was made last."""
        return self.row(stack, name).properties.get("value")

    def outputs(self, stack: StackRecord) -> dict[str, Json]:
        found = self.components.reader.outputs(self.get(stack))
        return {str(shown["output_key"]): shown["output_value"] for shown in found}

    def told(self, stack: StackRecord, since: int = 0) -> list[str]:
        """The events from `since` on, oldest first: ``a CREATE_IN_PROGRESS``."""
        return [f"{event.resource_name} {state(event.verb, event.status)}" for event in self.events(stack)[since:]]

    def mail_count(self) -> int:
        """Number of messages in mailboxes."""
        return int(self.store.database.read("SELECT COUNT(*) FROM mail")[0][0])

    def events(self, stack: StackRecord) -> list[Any]:
        return self.store.events.list(stack.id, EventQuery(sort_dir="asc"))

    def now_on(self, stack: StackRecord) -> int:
        """A mark after which `told` returns events."""
        return len(self.events(stack))

    # -- states that operations of this installation do not lead to --------------------------------------

    def put_stack(self, stack: StackRecord, verb: Verb, status: Status, lock: LockRecord | None = None) -> StackRecord:
        """Write the stack into a state."""
        self.by_hand = True
        stack = replace(self.get(stack), verb=verb, status=status, lock=lock)
        with self.store.transaction():
            self.store.stacks.save(stack)
        return stack

    def put_row(self, stack: StackRecord, name: str, verb: Verb, status: Status, reason: str = "") -> None:
        """Write a resource into a state."""
        self.by_hand = True
        row = replace(self.row(stack, name), verb=verb, status=status, status_reason=reason)
        with self.store.transaction():
            self.store.resources.save_many([row])


@pytest.fixture
def plugins(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The types of other packages; the folder in which the example makes its files."""
    for folder in (HERE / "types", HERE.parent / "example_plugin"):
        monkeypatch.syspath_prepend(str(folder))
    files = tmp_path / "files"
    files.mkdir()
    monkeypatch.setenv("EXAMPLE_FILES", str(files))
    return files


@pytest.fixture
def place() -> Iterator[Path]:
    """A folder for a database."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        yield Path(folder)


@pytest.fixture(autouse=True)
def _no_engine_outlives_its_test() -> Iterator[None]:
    """A test that fails may leave one, which would work in the database of the next."""
    yield
    for left in [*Engine.running]:
        left.end()


@pytest.fixture
def engine(plugins: Path, place: Path) -> Iterator[Engine]:
    engine = Engine(place)
    yield engine
    engine.close()


# -- templates ---------------------------------------------------------------------------------------


def template(*, outputs: Mapping[str, object] = {}, parameters: Mapping[str, object] = {}, **resources: object) -> Any:
    """A template with these resources."""
    made: dict[str, object] = {"heat_template_version": "2021-04-16", "resources": resources}
    if parameters:
        made["parameters"] = dict(parameters)
    if outputs:
        made["outputs"] = {name: {"value": value} for name, value in outputs.items()}
    return made


def thing(value: object = "v", /, **more: Any) -> dict[str, object]:
    """An OS::Heat::TestResource; `more` as in `resource`."""
    return resource("OS::Heat::TestResource", value=value, **more)


def resource(
    type_name: str, /, *, depends_on: object = None, keys: Mapping[str, object] = {}, **properties: object
) -> Any:
    """A resource: `properties`, and other `keys` of its definition."""
    made: dict[str, object] = {"type": type_name, "properties": properties, **keys}
    if depends_on is not None:
        made["depends_on"] = depends_on
    return made


def ref(name: str) -> dict[str, str]:
    return {"get_resource": name}


def attr(name: str, *path: str) -> dict[str, object]:
    return {"get_attr": [name, *path]}


def param(name: str) -> dict[str, str]:
    return {"get_param": name}
