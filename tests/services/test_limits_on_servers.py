"""Time limits of connections: held rows, open transactions, silent servers."""

import socket
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

import pytest
from store_behaviour import a_stack, an_action, an_event, insert, put

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.status import ActionStatus
from heatlite.engine.execution.retention import Retention
from heatlite.engine.execution.termination import Termination
from heatlite.store.database import database, row_waits
from heatlite.store.database.backend import Dialect
from heatlite.store.database.limits import DEFAULT_LEASE, Limits, Pace, limits
from heatlite.store.database.row_waits import THREADS, RowWaits
from heatlite.store.store import Store
from tests.databases import claim_one

LEASE = 2.0


@pytest.fixture
def store(store: Store) -> Iterator[Store]:
    """One whose connections have limits."""
    limited = Store.open(store.database.url, lease=LEASE)
    yield limited
    limited.close()


@pytest.fixture
def holder(store: Store) -> Iterator[Store]:
    """One whose transactions the server does not end for their idleness."""
    lasting = Store.open(store.database.url, lease=600.0)
    yield lasting
    lasting.close()


@pytest.fixture
def long_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have requests fail at once on a row long after one timed out on it."""
    monkeypatch.setattr(row_waits, "BLOCKED_SECONDS", 600.0)


def settings_of(store: Store) -> dict[str, str]:
    """Limits of this thread's connection at the server."""
    if store.database.backend.dialect is Dialect.POSTGRESQL:
        rows = store.database.read("SELECT name, setting FROM pg_settings WHERE context = 'user'")
    else:
        rows = store.database.read("SHOW SESSION VARIABLES")
    return {str(name): str(value) for name, value in rows}


def expected(dialect: Dialect, chosen: Limits) -> dict[str, float]:
    if dialect is Dialect.POSTGRESQL:
        seconds = {
            "lock_timeout": chosen.lock or 0, "statement_timeout": chosen.statement or 0,
            "idle_in_transaction_session_timeout": chosen.idle, "tcp_user_timeout": chosen.peer,
        }  # fmt: skip
        return {name: value * 1000 for name, value in seconds.items()}
    return {
        "innodb_lock_wait_timeout": chosen.lock or 100_000_000, "max_statement_time": chosen.statement or 0,
        "idle_transaction_timeout": chosen.idle, "net_write_timeout": chosen.peer,
    }  # fmt: skip


def test_the_server_knows_the_limits_of_each_pace(store: Store) -> None:
    def check(pace: Pace) -> None:
        told, wanted = settings_of(store), expected(store.database.backend.dialect, limits(pace, LEASE))
        assert {name: float(told[name]) for name in wanted} == wanted

    check(Pace.WORK)
    for pace in (Pace.MAINTENANCE, Pace.RETENTION):
        with store.database.limits_of(pace):
            check(pace)
    check(Pace.WORK)
    ended: list[bool] = []

    def request() -> None:
        store.database.use_request_limits()
        with closing(store):
            check(Pace.REQUEST)
        ended.append(True)

    thread = threading.Thread(target=request)
    thread.start()
    thread.join()
    assert ended


def test_a_lease_may_be_as_long_as_it_likes(store: Store) -> None:
    """Servers and systems know a largest number of seconds."""
    with closing(Store.open(store.database.url, lease=1e10)) as patient:
        assert patient.database.read("SELECT 1")[0] == (1,)


def test_what_waits_for_others_lets_them_have_their_turn() -> None:
    for lease in (LEASE, DEFAULT_LEASE, 600.0):
        request, work = limits(Pace.REQUEST, lease), limits(Pace.WORK, lease)
        assert request.connect < 5
        assert request.silence is not None and request.silence < 5
        assert request.lock is not None and work.lock is not None and request.lock <= work.lock < lease
        assert work.idle <= lease  # so that a worker which is frozen in a transaction is taken over within two leases
        assert work.statement is not None and work.silence is not None and work.statement < work.silence


@pytest.mark.usefixtures("long_memory")
def test_a_request_waits_briefly_for_a_row_and_the_next_one_not_at_all(store: Store, holder: Store) -> None:
    insert(store, stack := a_stack("one"))
    refusals: list[str] = []
    waited: list[float] = []

    def ask() -> None:
        store.database.use_request_limits()
        with closing(store):
            for _ in range(3):
                begun = time.monotonic()
                with pytest.raises(DatabaseUnavailable) as raised, store.transaction():
                    store.stacks.lock(stack.id)
                waited.append(time.monotonic() - begun)
                refusals.append(str(raised.value))
            assert store.stacks.get(stack.id) == stack  # whoever only reads waits for nobody

    with holder.transaction():
        holder.stacks.lock(stack.id)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert waited[0] >= 0.9
    # Only a refusal by the server comes after a wait.
    assert ["another transaction holds" in text for text in refusals] == [False, True, True]


@pytest.mark.usefixtures("long_memory")
def test_only_the_row_that_a_request_waited_for_is_refused_to_others(store: Store, holder: Store) -> None:
    for stack in (held := a_stack("held"), free := a_stack("free")):
        insert(store, stack)
    found: list[object] = []

    def ask() -> None:
        store.database.use_request_limits()
        with closing(store):
            with pytest.raises(DatabaseUnavailable), store.transaction():
                store.database.send("UPDATE stack SET name = 'other' WHERE id = ?", (held.id,))
                store.stacks.lock(free.id)
            with store.transaction():
                found.append(store.stacks.lock(free.id))

    with holder.transaction():
        holder.stacks.lock(held.id)
        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
    assert found == [free]


@pytest.fixture
def patient(store: Store) -> Iterator[Store]:
    """A store whose requests wait for a row until the server answers no more.

    The counts of threads that wait then do not depend on the machine's speed.
    """
    longer = {
        Dialect.POSTGRESQL: "options=-c%20lock_timeout%3D3s",
        Dialect.MARIADB: "init_command=SET%20SESSION%20innodb_lock_wait_timeout%3D3",
    }
    url = store.database.url
    found = Store.open(f"{url}{'&' if '?' in url else '?'}{longer[store.database.backend.dialect]}", lease=LEASE)
    found.database.row_waits = RowWaits(THREADS)
    yield found
    found.close()


@pytest.mark.usefixtures("long_memory")
def test_half_of_the_threads_wait_for_locked_rows(store: Store, holder: Store, patient: Store) -> None:
    """The others fail at once, or lock another row."""
    for stack in (held := a_stack("held"), free := a_stack("free")):
        insert(store, stack)
    together = threading.Barrier(THREADS + 1)
    refusals: list[str] = []

    def ask() -> None:
        patient.database.use_request_limits()
        with closing(patient):
            patient.stacks.get(held.id)  # the connection is open
            together.wait()
            with pytest.raises(DatabaseUnavailable) as raised, patient.transaction():
                patient.stacks.lock(held.id)
            refusals.append(str(raised.value))

    def waited() -> int:
        """Requests that the server has refused, which then waited for it."""
        return sum("half of" not in text and "another transaction" not in text for text in refusals)

    def ask_all() -> list[threading.Thread]:
        threads = [threading.Thread(target=ask) for _ in range(THREADS)]
        for thread in threads:
            thread.start()
        together.wait()
        return threads

    with holder.transaction():
        holder.stacks.lock(held.id)
        threads = ask_all()
        while not patient.database.row_waits.is_full and any(thread.is_alive() for thread in threads):
            time.sleep(0.01)
        locked: list[str] = []

        def lock_another() -> None:
            patient.database.use_request_limits()
            with closing(patient), patient.transaction():
                assert patient.stacks.lock("none") is None
                found = patient.stacks.lock(free.id)
                locked.append(found.id if found is not None else "")

        threads.append(threading.Thread(target=lock_another))
        threads[-1].start()
        for thread in threads:
            thread.join()
        assert locked == [free.id]
        assert len(refusals) == THREADS
        assert 1 <= waited() <= THREADS // 2

        refusals.clear()
        blocked = patient.database.row_waits._blocked
        blocked.update(dict.fromkeys(blocked, 0.0))  # the time is over
        for thread in ask_all():
            thread.join()
        assert waited() == 1, refusals


def test_a_transaction_that_nobody_ends_is_ended_by_the_server(store: Store) -> None:
    """As that of a process which is frozen.

    Whoever had it is told so, and has written nothing.
    """
    insert(store, stack := a_stack("one"))
    with ExitStack() as others:
        with pytest.raises(DatabaseUnavailable), store.transaction():
            store.stacks.insert(a_stack("two"))
            store.stacks.lock(stack.id)
            other = others.enter_context(closing(Store.open(store.database.url, lease=600.0)))
            taken: list[str] = []

            def take() -> None:
                with other.transaction():
                    other.stacks.lock(stack.id)
                    taken.append(stack.id)
                other.close()

            thread = threading.Thread(target=take)
            thread.start()
            thread.join()  # it ends while this transaction is open
            assert taken
            store.stacks.insert(a_stack("three"))
        assert store.stacks.by_name("acme", "two") is None
        insert(store, a_stack("four"))


def test_parked_and_late_actions_wait_for_no_row_of_another(store: Store, holder: Store) -> None:
    """A frozen process may hold the first of them.

    Both jobs report it, after the last action.
    """
    stacks = [a_stack(str(number), id=f"s{number}") for number in range(4)]
    insert(store, *stacks)
    late, parked = stacks[:2], stacks[2:]
    put(store, *(an_action(stack.id, id=f"a-{stack.id}") for stack in parked))
    for _ in parked:
        claimed = claim_one(store, "me", 100.0, 30.0)
        assert claimed is not None
        with store.transaction():
            assert store.moves.park(claimed, 0, ActionStatus.WAITING_LIFECYCLE_COMPLETION, 100.0, 200.0)
    put(store, *(an_action(stack.id, id=f"a-{stack.id}", deadline=200.0) for stack in late))
    with holder.transaction():
        for number in (0, 2):
            holder.stacks.lock(f"s{number}")
            holder.actions.lock(f"a-s{number}")
        with pytest.raises(DatabaseUnavailable):
            Termination(store, Clock()).time_out()
        with pytest.raises(DatabaseUnavailable):
            store.moves.wake_parked(300.0)
    holder.close()
    found = [store.actions.get(f"a-s{number}") for number in range(4)]
    ready, failed = ActionStatus.READY, ActionStatus.FAILED
    before = ActionStatus.WAITING_LIFECYCLE_COMPLETION
    assert [one and one.status for one in found] == [ready, failed, before, ready]


def test_retention_does_not_wait_for_a_frozen_one(store: Store, holder: Store) -> None:
    """Another engine has frozen as it deleted the same rows.

    The other jobs of the sweep, such as schedules, come after it.
    """
    insert(store, a_stack(id="s1"))
    with store.transaction():
        store.events.append_many([an_event(stack_id="s1")])

    def sweep() -> None:
        try:
            Retention(store, Clock(), Settings("")).sweep()
        finally:
            store.close()

    with ThreadPoolExecutor(1) as pool, holder.transaction():
        holder.events.remove(holder.events.older_than(time.time(), 9))
        with pytest.raises(DatabaseUnavailable):
            pool.submit(sweep).result(8)
    holder.close()


@pytest.fixture
def silent(url: str) -> Iterator[str]:
    """The URL of a server that takes connections and says nothing."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listener:
        parts = urlsplit(url)
        user = (parts.netloc.rpartition("@")[0] + "@") if "@" in parts.netloc else ""
        yield parts._replace(netloc=f"{user}127.0.0.1:{listener.getsockname()[1]}").geturl()


def test_requests_give_up_a_server_that_never_answers(
    store: Store, silent: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each thread by itself; after the first failure the others fail at once."""
    monkeypatch.setattr(database, "SILENT_SECONDS", 600.0)
    at_once: list[bool] = []
    """Of each request: whether it was refused without a question to the server."""
    with closing(Store(type(store.database)(silent, LEASE))) as frozen:

        def ask() -> None:
            frozen.database.use_request_limits()
            with pytest.raises(DatabaseUnavailable) as raised:
                frozen.database.read("SELECT 1")
            at_once.append("the server does not answer" in str(raised.value))

        first = [threading.Thread(target=ask) for _ in range(4)]
        for thread in first:
            thread.start()
        for thread in first:
            thread.join()
        assert not all(at_once)
        ask()
        assert at_once[-1], "a probe comes later"
        assert frozen.database._silent is not None
        frozen.database._silent -= 600.0
        ask()
        assert not at_once[-1], "a probe"
        frozen.database._silent -= 600.0
        with frozen.database._probing:
            ask()
        assert at_once[-1], "another thread probes"


def test_a_connection_that_falls_silent_is_given_up(store: Store) -> None:
    """The server is frozen, or the network is cut, in the middle of a statement."""
    parts = urlsplit(store.database.url)
    with socket.create_server(("127.0.0.1", 0)) as listener, ExitStack() as connections:
        passing = threading.Event()
        passing.set()

        def serve() -> None:
            client, _ = listener.accept()
            server = socket.create_connection((parts.hostname, parts.port))
            for source, sink in ((client, server), (server, client)):
                connections.enter_context(source)
                threading.Thread(target=pump, args=(source, sink), daemon=True).start()

        def pump(source: socket.socket, sink: socket.socket) -> None:
            with suppress(OSError):  # closed
                while said := source.recv(1 << 16):
                    if passing.is_set():
                        sink.sendall(said)

        threading.Thread(target=serve, daemon=True).start()
        user = parts.netloc.rpartition("@")[0]
        url = parts._replace(netloc=f"{user}@127.0.0.1:{listener.getsockname()[1]}").geturl()
        waited: list[float] = []

        def ask() -> None:
            with closing(Store(type(store.database)(url, LEASE))) as cut:
                cut.database.use_request_limits()
                assert len(cut.database.read("SELECT 1")) == 1
                passing.clear()
                begun = time.monotonic()
                with pytest.raises(DatabaseUnavailable):  # it would wait for ever
                    cut.database.read("SELECT 1")
                waited.append(time.monotonic() - begun)

        thread = threading.Thread(target=ask)
        thread.start()
        thread.join()
        assert waited[0] > 3
