"""Requests that wait for SQLite's one writer share a commit, and so do workers."""

import sqlite3
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.queues import Queue
from typing import TypeAlias

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from msgspec.structs import replace
from store_behaviour import a_stack, insert

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.limits import Pace
from heatlite.store.database.turns import MOST_TOGETHER
from heatlite.store.listeners import NO_LISTENERS
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store
from tests.databases import sqlite
from tests.processes import fresh
from tests.thorough import examples

Work: TypeAlias = Callable[[], object]


class Refused(Exception):
    """The rules do not permit the request."""


@dataclass
class Requests:
    """Threads of requests that write to one store."""

    store: Store
    pool: ThreadPoolExecutor
    commits: int = 0
    """Commits so far."""
    line: list[str] = field(default_factory=list)
    """Names of the requests in the order of their turns."""

    def __post_init__(self) -> None:
        self.store.database.listeners = replace(NO_LISTENERS, committed=self._count)

    def _count(self) -> None:
        self.commits += 1

    @contextmanager
    def wait_for(self, *works: Work, pace: Pace = Pace.REQUEST) -> Iterator[list["Future[None]"]]:
        """Yield transactions that follow the one of this block, in this order."""
        with self.store.transaction():
            waiting = [self._submit(work, pace) for work in works]
            yield waiting

    def _submit(self, work: Work, pace: Pace) -> "Future[None]":
        turns = self.store.database._turns
        before = len(turns._line)
        future = self.pool.submit(self._run, work, pace)
        while len(turns._line) == before:
            time.sleep(0.001)
        return future

    def _run(self, work: Work, pace: Pace) -> None:
        with self.store.database.limits_of(pace), self.store.transaction():
            work()

    def add(self, name: str) -> Work:
        """Return the work of a request that adds a stack."""
        return lambda: (self.line.append(name), self.store.stacks.insert(a_stack(name)))

    def add_and_refuse(self, name: str) -> Work:
        """Return the work of one that adds a stack and is refused then."""

        def work() -> None:
            self.store.stacks.insert(a_stack(name))
            raise Refused(name)

        return work

    def names(self) -> set[str]:
        """Names of the stacks that others see."""
        return {found.name for found in self.store.stacks.list("acme", StackQuery())}


@pytest.fixture
def requests(store: Store) -> Iterator[Requests]:
    with ThreadPoolExecutor(40) as pool:
        yield Requests(store, pool)


def test_one_commit_keeps_the_changes_of_all(requests: Requests) -> None:
    names = [f"r{number}" for number in range(8)]
    with requests.wait_for(*map(requests.add, names)) as waiting:
        pass
    for one in waiting:
        one.result()
    assert requests.names() == {*names}
    assert requests.line == names
    assert requests.commits == 2, "one of the block, one of the requests"


def test_a_refused_one_is_refused_alone(requests: Requests) -> None:
    add, refuse = requests.add, requests.add_and_refuse
    works = (add("a"), refuse("b"), add("c"), refuse("d"), refuse("e"), add("f"), refuse("g"))
    with requests.wait_for(*works) as waiting:
        pass
    refused = [isinstance(one.exception(), Refused) for one in waiting]
    assert refused == [False, True, False, True, True, False, True]
    assert requests.names() == {"a", "c", "f"}
    assert requests.commits == 2


def test_one_that_was_refused_first_shares_nothing(requests: Requests) -> None:
    with requests.wait_for(requests.add_and_refuse("a"), requests.add("b")) as waiting:
        pass
    assert isinstance(waiting[0].exception(), Refused)
    waiting[1].result()
    assert requests.names() == {"b"}


def test_each_sees_the_changes_of_those_before_it(requests: Requests) -> None:
    seen: list[set[str]] = []
    with requests.wait_for(requests.add("a"), lambda: seen.append(requests.names())) as waiting:
        pass
    for one in waiting:
        one.result()
    assert seen == [{"a"}]


def test_nobody_returns_before_the_commit(requests: Requests) -> None:
    """Not even one that was refused: it may have read what is not kept."""
    begun, ends = threading.Event(), threading.Event()

    def hold() -> None:
        begun.set()
        ends.wait(240)

    works = (requests.add("a"), requests.add_and_refuse("b"), hold)
    with requests.wait_for(*works) as waiting:
        pass
    assert begun.wait(240)
    assert not any(one.done() for one in waiting)
    assert requests.names() == set()
    ends.set()
    waiting[0].result()
    assert isinstance(waiting[1].exception(), Refused)
    assert requests.names() == {"a"}


@pytest.mark.parametrize(
    ("pace", "commits"),
    [
        (Pace.REQUEST, 1),
        (Pace.WORK, 1),
        (Pace.RETENTION, 3),  # its transactions are long
        (Pace.MAINTENANCE, 3),
    ],
)
def test_requests_share_commits_and_so_do_workers(requests: Requests, pace: Pace, commits: int) -> None:
    works = (requests.add("a"), requests.add("b"), requests.add("c"))
    with requests.wait_for(*works, pace=pace) as waiting:
        pass
    for one in waiting:
        one.result()
    assert requests.commits == 1 + commits


def test_a_worker_shares_nothing_with_a_request(requests: Requests) -> None:
    """The tick of a large stack takes longer than a request."""
    with requests.store.transaction():
        waiting = [requests._submit(requests.add(pace.value), pace) for pace in (Pace.REQUEST, Pace.WORK)]
    for one in waiting:
        one.result()
    assert requests.commits == 3


def test_requests_pass_an_engine_that_waits_only_so_often(requests: Requests) -> None:
    order: list[str] = []
    more = MOST_TOGETHER + 3
    with requests.store.transaction():
        first = requests._submit(lambda: order.append("r"), Pace.REQUEST)
        engine = requests._submit(lambda: order.append("engine"), Pace.WORK)
        others = [requests._submit(lambda: order.append("r"), Pace.REQUEST) for _ in range(more)]
    for one in (first, engine, *others):
        one.result()
    assert order == [*"r" * MOST_TOGETHER, "engine", *"r" * (more + 1 - MOST_TOGETHER)]
    assert requests.commits == 4


def test_a_failed_commit_keeps_nothing_of_anyone(requests: Requests) -> None:
    database, told = requests.store.database, list[str]()
    kept: list[bool] = []

    def add(name: str) -> Work:
        def work() -> None:
            database.after_commit(lambda: told.append(name))
            requests.store.stacks.insert(a_stack(name))

        return work

    def audited() -> None:
        database.use_request_limits()
        database.before_commit(lambda: told.append("described"))
        try:
            with requests.store.transaction():
                add("a")()
        finally:
            kept.append(database.withdraw())
            requests.store.close()

    def fill() -> None:
        """Fill the disk, as far as this connection knows."""
        pages = database.read("PRAGMA page_count")[0][0]
        database.read(f"PRAGMA max_page_count = {pages + 1}")
        requests.store.stacks.insert(a_stack("c", status_reason="x" * 100_000))

    with requests.store.transaction():
        first = requests.pool.submit(audited)
        while not database._turns._line:
            time.sleep(0.001)
        others = [requests._submit(work, Pace.REQUEST) for work in (add("b"), fill)]
    for one in (first, *others):
        assert isinstance(one.exception(), DatabaseUnavailable)
    assert requests.names() == set()
    assert told == ["described"]
    assert kept == [True], "the row in the audit log waits for the next transaction"
    insert(requests.store, a_stack("after"))
    assert requests.names() == {"after"}


def _end_the_memory(url: str, outcomes: "Queue[list[str]]") -> None:
    """Have the last of three requests find no memory, not even to roll back."""
    store = Store.open(url)

    def starve() -> None:
        with suppress(MemoryError):
            store.database.read("PRAGMA hard_heap_limit = 1")  # of this process, for good
        store.stacks.insert(a_stack("c", status_reason="x" * 100_000))

    with ThreadPoolExecutor(3) as pool:
        requests = Requests(store, pool)
        with requests.wait_for(requests.add("a"), requests.add("b"), starve) as waiting:
            pass
        outcomes.put([type(one.exception()).__name__ for one in waiting])


def test_without_memory_nobody_waits_for_ever(store: Store) -> None:
    context = fresh()
    outcomes: Queue[list[str]] = context.Queue()
    process = context.Process(target=_end_the_memory, args=(store.database.url, outcomes), daemon=True)
    process.start()
    try:
        assert outcomes.get(timeout=240) == ["DatabaseUnavailable"] * 3
    finally:
        process.kill()
        process.join()
    insert(store, a_stack("after"))
    assert {found.name for found in store.stacks.list("acme", StackQuery())} == {"after"}


def test_another_process_sees_all_or_nothing(requests: Requests) -> None:
    assert requests.store.database.path is not None
    with closing(sqlite3.connect(requests.store.database.path, isolation_level=None)) as other:
        with requests.wait_for(requests.add("a"), requests.add("b")) as waiting:
            assert other.execute("SELECT COUNT(*) FROM stack").fetchone() == (0,)
        for one in waiting:
            one.result()
        assert other.execute("SELECT COUNT(*) FROM stack").fetchone() == (2,)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from(Pace), st.booleans()), max_size=20))
def test_whatever_is_refused_the_others_are_kept(works: list[tuple[Pace, bool]]) -> None:
    """Writers of all kinds in any order: each is kept exactly if it returns."""
    import tempfile
    from pathlib import Path

    with tempfile.TemporaryDirectory() as folder, ThreadPoolExecutor(20) as pool:
        store = Store.open(sqlite(Path(folder), "heatlite.db"))
        requests = Requests(store, pool)
        with store.transaction():
            waiting = [
                requests._submit((requests.add if is_kept else requests.add_and_refuse)(f"s{number}"), pace)
                for number, (pace, is_kept) in enumerate(works)
            ]
        outcomes = [one.exception() is None for one in waiting]
        assert outcomes == [is_kept for _, is_kept in works]
        assert requests.names() == {f"s{number}" for number, is_kept in enumerate(outcomes) if is_kept}
        assert requests.commits <= 1 + sum(outcomes)
        store.close()
