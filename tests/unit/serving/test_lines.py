"""Waiting lines before the threads of a process."""

import asyncio
from collections.abc import Callable, Coroutine

import pytest
from pytest import MonkeyPatch

from heatlite.core.errors import Overloaded
from heatlite.serving import lines
from heatlite.serving.lines import AT_ONCE, MAX_WAIT, RESERVED, ROUNDS, LastAnswers, Lines, RequestKind, is_urgent
from tests.tables import table


def in_loop(test: Callable[[], Coroutine[object, object, None]]) -> Callable[[], None]:
    """Run a test in an event loop."""

    def run() -> None:
        asyncio.run(test())

    run.__name__, run.__doc__ = test.__name__, test.__doc__
    return run


class Crowd:
    """Requests that wait. `order` has those with a thread, by their turns."""

    def __init__(self, threads: int) -> None:
        self.lines = Lines(threads)
        self.order: list[str] = []
        self.tasks: dict[str, asyncio.Task[None]] = {}

    async def come(self, kind: RequestKind, *names: str) -> None:
        for name in names:
            self.tasks[name] = asyncio.create_task(self._wait(kind, name))
        await self.settle()

    async def _wait(self, kind: RequestKind, name: str) -> None:
        await self.lines.enter(kind)
        self.order.append(name)

    async def go(self, *kinds: RequestKind, seconds: float = 0.001) -> None:
        for kind in kinds:
            self.lines.leave(kind, seconds)
        await self.settle()

    async def settle(self) -> None:
        for _ in range(5):
            await asyncio.sleep(0)

    def end(self) -> None:
        for task in self.tasks.values():
            task.cancel()


@in_loop
async def test_reads_and_writes_leave_each_other_a_thread() -> None:
    crowd = Crowd(4)
    await crowd.come(RequestKind.READ, *(f"r{number}" for number in range(9)))
    assert crowd.order == ["r0", "r1", "r2"]
    await crowd.come(RequestKind.WRITE, "w0", "w1")
    assert crowd.order[3:] == ["w0"]
    await crowd.go(RequestKind.READ, RequestKind.READ)
    assert crowd.order[4:] == ["r3", "w1"]  # they take turns
    crowd.end()


@in_loop
async def test_dear_reads_get_a_quarter_of_the_threads() -> None:
    crowd = Crowd(8)
    await crowd.come(RequestKind.DEAR, *"abcd")
    await crowd.come(RequestKind.READ, *"rst")
    assert crowd.order == ["a", "b", "r", "s", "t"]
    await crowd.go(RequestKind.DEAR)
    assert crowd.order[5:] == ["c"]
    crowd.end()


@in_loop
async def test_locks_pass_all_others_and_have_threads_of_their_own() -> None:
    crowd = Crowd(2)
    await crowd.come(RequestKind.READ, "r0", "r1", "r2")
    await crowd.come(RequestKind.WRITE, "w0", "w1")
    await crowd.come(RequestKind.AHEAD, *(f"a{number}" for number in range(RESERVED + 1)))
    assert crowd.order == ["r0", "w0", *(f"a{number}" for number in range(RESERVED))]
    await crowd.go(RequestKind.READ)
    assert crowd.order[-1] == f"a{RESERVED}"
    crowd.end()


@in_loop
async def test_the_event_loop_answers_few_in_a_row() -> None:
    crowd = Crowd(2)
    await crowd.come(RequestKind.READ, "r0", "r1")
    await crowd.come(RequestKind.QUICK, *(f"q{number}" for number in range(AT_ONCE + 2)))
    quick = [f"q{number}" for number in range(AT_ONCE)]
    assert crowd.order == ["r0", *quick]  # no thread is needed for them
    await crowd.go(RequestKind.QUICK)
    await crowd.come(RequestKind.QUICK, "late")
    await crowd.come(RequestKind.WRITE, "w0")
    assert crowd.order[1 + AT_ONCE :] == [f"q{AT_ONCE}", "w0"]
    crowd.end()


@in_loop
async def test_who_would_wait_too_long_is_refused_at_once() -> None:
    crowd = Crowd(2)
    await crowd.come(RequestKind.WRITE, "first")
    await crowd.go(RequestKind.WRITE, seconds=0.45)
    await crowd.come(RequestKind.WRITE, "a", "b", "c")  # one is answered, two wait for 0.45 s each
    with pytest.raises(Overloaded) as refused:
        await crowd.lines.enter(RequestKind.WRITE)
    assert refused.value.retry_after == 3
    await crowd.come(RequestKind.READ, "read")  # the lines are apart
    await crowd.come(RequestKind.AHEAD, "lock")
    assert crowd.order == ["first", "a", "read", "lock"]
    crowd.end()


@in_loop
async def test_a_late_event_loop_refuses_all_but_quick_and_urgent_requests() -> None:
    """To refuse a quick one takes as long as to answer it."""
    crowd = Crowd(2)
    crowd.lines.lag = MAX_WAIT / ROUNDS + 0.01
    for kind in (RequestKind.READ, RequestKind.DEAR, RequestKind.WRITE):
        with pytest.raises(Overloaded):
            await crowd.lines.enter(kind)
    await crowd.come(RequestKind.QUICK, "quick")
    await crowd.come(RequestKind.AHEAD, "lock")
    assert crowd.order == ["quick", "lock"]
    crowd.end()


@in_loop
async def test_who_has_waited_too_long_is_refused() -> None:
    """The estimate may be wrong: all threads may be busy for minutes."""
    crowd = Crowd(2)
    with MonkeyPatch.context() as patch:
        patch.setattr(lines, "MAX_WAIT", 0.01)
        await crowd.come(RequestKind.READ, "a", "b")
        with pytest.raises(Overloaded):
            await crowd.tasks["b"]
    assert crowd.lines.waiting == 0
    await crowd.come(RequestKind.READ, "c")
    await crowd.go(RequestKind.READ)
    assert crowd.order == ["a", "c"]
    crowd.end()


@in_loop
async def test_who_is_gone_takes_no_thread() -> None:
    crowd = Crowd(2)
    await crowd.come(RequestKind.READ, "a", "b", "c")
    crowd.tasks["b"].cancel()
    await crowd.go(RequestKind.READ)
    assert crowd.order == ["a", "c"]
    await crowd.come(RequestKind.READ, "d", "e")
    crowd.lines.leave(RequestKind.READ, 0.001)
    crowd.tasks["d"].cancel()  # in the moment in which it gets the thread
    await crowd.settle()
    assert crowd.order == ["a", "c", "e"]
    crowd.end()


@table(
    ("target", "body", "urgent"),
    [
        ("/v1/p/stacks/s/1/actions", b'{"lock": {"level": "all"}}', True),
        ("/v1/p/stacks/s/1/actions", b' {\n "unlock" : null}', True),
        ("/v1/p/stacks/s/1/actions", b'{"cancel_update": null}', True),
        ("/v1/p/stacks/s/1/actions", b'{"suspend": null}', False),
        ("/v1/p/stacks/s/1/actions", b'{"lock": "' + b"x" * 5000 + b'"}', False),
        ("/v1/p/stacks", b'{"lock": null}', False),
        ("/v1/p/stacks/s/1/actions", b"", False),
    ],
)
def test_locks_and_cancels_are_urgent(target: str, body: bytes, urgent: bool) -> None:
    assert is_urgent(target, body) is urgent


@table(
    ("seconds", "waited", "quick", "dear"),
    [(0.001, False, True, False), (0.001, True, False, False), (0.02, False, False, False), (0.06, False, False, True)],
)
def test_the_last_answer_tells_what_the_next_one_costs(seconds: float, waited: bool, quick: bool, dear: bool) -> None:
    last = LastAnswers()
    assert (last.was_quick(1), last.was_dear(1)) == (False, False)
    for before in (0.001, 0.06):
        last.note(1, before, False)
        last.note(1, seconds, waited)
        assert (last.was_quick(1), last.was_dear(1)) == (quick, dear)


def test_few_of_the_last_answers_are_kept() -> None:
    last = LastAnswers()
    for request in range(lines.MAX_NOTED + 1):
        last.note(request, 0.0, False)
    assert [last.was_quick(0), last.was_quick(lines.MAX_NOTED)] == [False, True]
