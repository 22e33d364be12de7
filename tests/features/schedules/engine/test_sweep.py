"""Schedules on a whole engine: at their time, late, refused, and swept by several."""

import threading
from random import Random
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.context import Context
from heatlite.core.errors import Forbidden, Unavailable
from heatlite.core.status import ActionStatus, Cause, LockLevel, Status, Verb, state
from heatlite.features.schedules.operations import WantedSchedule
from heatlite.features.schedules.parts import Schedules
from heatlite.features.schedules.store.records import LastOccurrence, OccurrenceResult, ScheduledTask, ScheduleRecord
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.features.schedules.sweep import AFTER_FAILURE
from heatlite.store.records import ActionRecord, LockRecord, StackRecord
from heatlite.store.stacks.templates import TEMPLATE_GRACE
from tests.engine.conftest import MEMBER, START, Engine, template, thing
from tests.engine.test_group_operations import automatic
from tests.engine.test_groups import nested
from tests.killed import killed_at_each_write
from tests.tables import few
from tests.waiting import eventually

pytestmark = pytest.mark.database

HOUR, DAY = 3600.0, 86_400.0
SLEEP = WantedSchedule("sleep", "0 20 * * *", "UTC", ScheduledTask.SUSPEND, {}, 3600, True, None, None)
"""Due twelve hours after START, which is 08:00."""
WAKE = replace(SLEEP, name="wake", cron="0 7 * * *", task=ScheduledTask.RESUME)
LOOK = replace(SLEEP, name="look", cron="0 9 * * *", task=ScheduledTask.CHECK)
NINE = START + HOUR


class Clockwork:
    """A stack, its schedules, and a sweep when the test says so."""

    def __init__(self, engine: Engine, name: str = "s") -> None:
        self.engine = engine
        self.stack = engine.create(template(a=thing("v")), name=name)
        self.parts = engine.server.components.of(Schedules)
        self.rows = engine.server.store.of(SchedulesStore)

    def add(self, *wanted: WantedSchedule, by: Context = MEMBER) -> None:
        for one in wanted:
            self.parts.operations.add(by, self.stack, one)

    def sweep(self, moment: float | None = None) -> None:
        """Let the clock be at a moment, and sweep."""
        if moment is not None:
            self.engine.clock.pass_(moment - self.engine.clock.now())
        self.parts.sweep.run(self.rows.due(self.engine.clock.now()))

    def swept(self, moment: float) -> None:
        """Sweep at a moment, and wait for what that begins."""
        self.sweep(moment)
        self.engine.settle(self.stack)

    def of(self, name: str) -> ScheduleRecord:
        found = self.rows.get(self.stack.id, name)
        assert found is not None
        return found

    def last(self, name: str) -> LastOccurrence:
        found = self.of(name).last
        assert found is not None
        return found

    def result(self, name: str) -> tuple[str, float, str | None]:
        """Result, nominal time and code of the last occurrence."""
        last = self.last(name)
        return last.result, last.due, last.code

    def actions(self) -> list[ActionRecord]:
        """The actions that schedules have begun, oldest first."""
        rows = self.engine.store.database.read("SELECT id FROM action ORDER BY seq")
        found = [self.engine.store.actions.get(action_id) for (action_id,) in rows]
        return [one for one in found if one is not None and one.cause is Cause.SCHEDULED]

    def told(self) -> list[str]:
        """The statuses of the events of schedules."""
        return [state(one.verb, one.status) for one in self.engine.events(self.stack) if one.verb == "SCHEDULE"]


@pytest.fixture
def clockwork(engine: Engine) -> Any:
    with engine.clock.held():
        yield Clockwork(engine)
    # The clock may have jumped over the time of a sweep, which then takes a moment.
    late = engine.clock.now() - TEMPLATE_GRACE
    eventually(lambda: not engine.store.templates.unused_before(late, 1), "unused templates are deleted")


def test_it_begins_at_its_time(clockwork: Clockwork) -> None:
    clockwork.add(SLEEP)
    assert clockwork.of("sleep").next_at == START + 12 * HOUR
    clockwork.sweep(START + 12 * HOUR - 1)
    assert clockwork.actions() == []
    clockwork.swept(START + 12 * HOUR)
    (action,) = clockwork.actions()
    assert (action.verb, action.status, action.requested_by) == (Verb.SUSPEND, ActionStatus.SUCCEEDED, "mia")
    assert clockwork.last("sleep") == LastOccurrence(
        START + 12 * HOUR, START + 12 * HOUR, OccurrenceResult.STARTED, None, action.id
    )
    assert clockwork.of("sleep").next_at == START + 36 * HOUR
    clockwork.sweep()
    assert len(clockwork.actions()) == 1
    assert clockwork.told() == ["SCHEDULE_STARTED"]


@pytest.mark.slow
def test_a_zone_that_this_machine_lacks_keeps_no_other_stack_waiting(engine: Engine) -> None:
    with engine.clock.held():
        lost, sound = Clockwork(engine), Clockwork(engine, "other")
        for one in (lost, sound):
            one.add(SLEEP)
        with engine.store.transaction():
            engine.store.database.write("UPDATE schedule SET timezone = 'Mars/X' WHERE stack_id = ?", (lost.stack.id,))
        lost.parts.sweep.recompute()
        sound.swept(START + 12 * HOUR)
        assert sound.last("sleep").result is OccurrenceResult.STARTED
        assert (lost.of("sleep").last, lost.of("sleep").next_at) == (None, START + 12 * HOUR + AFTER_FAILURE)
        with engine.store.transaction():
            engine.store.database.write("UPDATE schedule SET timezone = 'UTC'")
        lost.parts.sweep.recompute()
        lost.swept(START + 13 * HOUR)
        assert lost.result("sleep") == ("started", START + 12 * HOUR, None)


def test_what_is_done_already_starts_without_effect(clockwork: Clockwork) -> None:
    clockwork.add(SLEEP)
    clockwork.engine.suspend(clockwork.stack)
    clockwork.swept(START + 12 * HOUR)
    assert clockwork.actions() == []
    assert clockwork.last("sleep").result is OccurrenceResult.STARTED
    assert clockwork.last("sleep").action_id is None


def test_a_suspended_stack_is_not_checked(clockwork: Clockwork) -> None:
    clockwork.add(LOOK)
    clockwork.engine.suspend(clockwork.stack)
    clockwork.swept(NINE)
    assert clockwork.result("look") == ("refused", NINE, "InvalidStackState")
    assert clockwork.engine.get(clockwork.stack).verb is Verb.SUSPEND


def test_engines_off_for_a_week(clockwork: Clockwork) -> None:
    """Of sleep and wake the later one counts; a check outside its window does not."""
    clockwork.add(SLEEP, WAKE, LOOK)
    now = START + 7 * DAY + 6 * HOUR  # 14:00
    clockwork.swept(now)
    assert [one.verb for one in clockwork.actions()] == [Verb.RESUME]
    assert clockwork.result("wake") == ("started", START + 7 * DAY - HOUR, None)
    assert clockwork.result("sleep") == ("missed", START + 6 * DAY + 12 * HOUR, None)
    assert clockwork.result("look") == ("missed", START + 7 * DAY + HOUR, None)
    assert clockwork.told() == ["SCHEDULE_STARTED"]
    clockwork.swept(START + 7 * DAY + 12 * HOUR)
    assert [one.verb for one in clockwork.actions()] == [Verb.RESUME, Verb.SUSPEND]
    clockwork.swept(START + 14 * DAY)
    assert [one.verb for one in clockwork.actions()] == [Verb.RESUME, Verb.SUSPEND, Verb.RESUME]


def test_a_lock_wins(clockwork: Clockwork) -> None:
    clockwork.add(LOOK)
    clockwork.engine.lock(clockwork.stack)
    clockwork.swept(NINE)
    assert clockwork.result("look") == ("refused", NINE, "StackLocked")
    assert clockwork.told() == ["SCHEDULE_REFUSED"]
    assert [one.request for one in clockwork.engine.store.suppressed.list(clockwork.stack.id)] == ["check"]
    clockwork.engine.unlock(clockwork.stack)
    clockwork.sweep()
    clockwork.sweep(NINE + 60)
    assert clockwork.actions() == []
    clockwork.swept(NINE + DAY)
    assert [one.verb for one in clockwork.actions()] == [Verb.CHECK]


LOCKED = [
    (Verb.LOCK, Status.IN_PROGRESS), (Verb.LOCK, Status.COMPLETE), (Verb.LOCK, Status.FAILED),
    (Verb.UNLOCK, Status.IN_PROGRESS), (Verb.UNLOCK, Status.FAILED),
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("level", few([*LockLevel]))
def test_each_task_is_refused_in_each_state_of_a_lock(clockwork: Clockwork, level: LockLevel) -> None:
    """Nothing begins then or later, of the stack or of the nested one of a group."""
    engine = clockwork.engine
    stack = clockwork.stack = engine.create(template(**automatic(2)), name="sized")
    size = replace(LOOK, name="size", task=ScheduledTask.RESIZE, options={"resource": "g", "desired_capacity": 3})
    clockwork.add(*(replace(one, cron="0 * * * *") for one in (SLEEP, LOOK, size)))
    group, due = nested(engine, stack, "g"), NINE
    for verb, status in LOCKED:
        engine.put_stack(stack, verb, status, LockRecord(level, "mia", False, START))
        clockwork.sweep(due)
        assert {clockwork.result(name) for name in ("sleep", "look", "size")} == {("refused", due, "StackLocked")}
        due += HOUR
    assert len(clockwork.told()) == 3 * len(LOCKED)
    engine.put_stack(stack, Verb.CREATE, Status.COMPLETE)
    clockwork.sweep(due - 1)
    assert clockwork.actions() == []
    engine.put_stack(group, Verb.LOCK, Status.COMPLETE, LockRecord(level, "mia", False, START))
    clockwork.add(replace(size, name="below", cron="30 * * * *"))
    for name in ("sleep", "look", "size"):
        clockwork.parts.operations.delete(MEMBER, stack, name)
    clockwork.sweep(due + HOUR / 2)
    assert clockwork.result("below") == ("refused", due + HOUR / 2, "StackLocked")
    engine.put_stack(group, Verb.CREATE, Status.COMPLETE)
    clockwork.swept(due + 3 * HOUR / 2)
    assert clockwork.result("below") == ("started", due + 3 * HOUR / 2, None)


@pytest.mark.slow
def test_a_busy_stack_is_waited_for_within_the_window(clockwork: Clockwork) -> None:
    engine, due = clockwork.engine, START + 600
    for name, window in (("patient", 3600), ("hasty", 900)):
        clockwork.add(replace(LOOK, name=name, cron="10 8 * * *", window=window))
    engine.put(clockwork.stack, template(a=thing("w", wait_secs=1800)), wait=False)
    engine.begun(lambda: engine.states(clockwork.stack)["a"] == "UPDATE_IN_PROGRESS")
    for after in (0.4, 899.4):
        clockwork.sweep(due + after)
        assert {one.name for one in clockwork.rows.due(engine.clock.now())} == {"patient", "hasty"}
    clockwork.sweep(due + 900.4)  # no sweep comes at the very end of a window
    assert clockwork.result("hasty") == ("skipped", due, "ResourceIsLocked")
    assert clockwork.told() == ["SCHEDULE_SKIPPED"]
    engine.clock.pass_(900)
    engine.settle(clockwork.stack)
    clockwork.swept(engine.clock.now())
    assert clockwork.result("patient") == ("started", due, None)
    assert [one.verb for one in clockwork.actions()] == [Verb.CHECK]


@pytest.mark.slow
def test_a_group_changes_its_size_and_its_limits(clockwork: Clockwork) -> None:
    engine = clockwork.engine
    stack = clockwork.stack = engine.create(template(**automatic(3)), name="sized")
    night = {"resource": "g", "min_size": 0, "max_size": 2}
    clockwork.add(replace(LOOK, name="night", task=ScheduledTask.RESIZE, options=night))
    noon = replace(LOOK, name="noon", cron="0 12 * * *", task=ScheduledTask.RESIZE)
    clockwork.add(replace(noon, options={"resource": "g", "desired_capacity": 9}))
    clockwork.add(replace(noon, name="odd", cron="0 13 * * *", options={"resource": "zz", "desired_capacity": 1}))
    group = nested(engine, stack, "g")
    for moment, size in ((NINE, 2), (START + 4 * HOUR, 2)):
        clockwork.sweep(moment)
        engine.settle(group)
        assert len(engine.rows(group)) == size
    assert [one.word for one in clockwork.actions()] == ["GROUP_RESIZE", "GROUP_RESIZE"]
    assert clockwork.last("night").action_id == clockwork.actions()[0].id
    clockwork.sweep(START + 5 * HOUR)
    assert clockwork.result("odd") == ("refused", START + 5 * HOUR, "ResourceNotFound")


class Away(Unavailable):
    text = "The identity service is away."


@pytest.mark.parametrize(
    ("error", "after", "result"),
    few(
        [
            (Forbidden(action="actions:check"), 0, "refused"),
            (Away(), 0, None),
            (Away(), 3599, None),
            (Away(), 3600, "skipped"),
        ]
    ),
)
def test_the_author_is_asked_again(clockwork: Clockwork, error: Any, after: float, result: str | None) -> None:
    clockwork.add(LOOK)

    def lost(_record: ScheduleRecord, _stack: StackRecord) -> Context:
        raise error

    clockwork.parts.sweep._author_of = lost
    clockwork.sweep(NINE + after)
    last = clockwork.of("look").last
    assert (None if last is None else last.result) == result
    assert clockwork.actions() == []
    if result is not None:
        assert clockwork.told() == [f"SCHEDULE_{result.upper()}"]


def test_a_right_that_is_lost_refuses(clockwork: Clockwork) -> None:
    clockwork.add(LOOK)
    clockwork.parts.sweep._author_of = lambda *_: replace(MEMBER, may=lambda rule: rule != "actions:check")
    clockwork.sweep(NINE)
    assert clockwork.result("look") == ("refused", NINE, "Forbidden")


def test_a_deleted_stack_has_none(clockwork: Clockwork) -> None:
    clockwork.add(SLEEP, LOOK)
    clockwork.engine.delete(clockwork.stack)
    assert clockwork.rows.of_stack(clockwork.stack.id) == []


def test_zone_data_that_change_move_the_due_time(clockwork: Clockwork) -> None:
    clockwork.add(LOOK)
    before = clockwork.of("look")
    with clockwork.engine.server.store.transaction():
        clockwork.rows.replace(replace(before, next_at=NINE + 1800))
    clockwork.parts.sweep.recompute()
    assert clockwork.of("look") == before


@pytest.mark.slow
def test_a_clock_that_jumps_begins_each_occurrence_once(clockwork: Clockwork) -> None:
    """Four sweeps at once, again and again, on a clock that goes to and fro."""
    random, engine = Random(4), clockwork.engine
    clockwork.add(replace(LOOK, cron="*/30 * * * *", window=86_400))
    seen = set[float]()
    for _ in range(12):
        engine.clock.pass_(random.choice((-2 * HOUR, 1800.0, 2 * HOUR, 3 * HOUR)))
        due = clockwork.rows.due(engine.clock.now())
        engines = [threading.Thread(target=clockwork.parts.sweep.run, args=(due,)) for _ in range(4)]
        for one in engines:
            one.start()
        for one in engines:
            one.join()
        engine.settle(clockwork.stack)
        last = clockwork.of("look").last
        if last is not None:
            seen.add(last.due)
    assert len(clockwork.actions()) == len(seen) == clockwork.told().count("SCHEDULE_STARTED")
    assert {one.status for one in clockwork.actions()} == {ActionStatus.SUCCEEDED}


@pytest.mark.parametrize("ends", few(["started", "refused", "missed"]))
def test_killed_at_each_write(clockwork: Clockwork, ends: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An occurrence ends once, wherever the engine is killed."""
    engine, sweep = clockwork.engine, clockwork.parts.sweep
    clockwork.add(SLEEP, WAKE, replace(LOOK, window=60))
    if ends == "refused":
        engine.lock(clockwork.stack)
    engine.clock.pass_(9 * DAY + 2 * HOUR - 1 if ends == "missed" else 12 * HOUR)
    due = clockwork.rows.due(engine.clock.now())
    monkeypatch.setattr(SchedulesStore, "due", lambda _self, _now, stack_id=None: due if stack_id else [])
    assert len([*killed_at_each_write(monkeypatch, lambda: sweep.run(due))]) > 2
    sweep.run(due)  # another engine had read them, too
    monkeypatch.undo()
    engine.settle(clockwork.stack)
    assert clockwork.result("look")[0] == "missed"
    assert [one.verb for one in clockwork.actions()] == {
        "started": [Verb.SUSPEND], "refused": [], "missed": [Verb.RESUME]
    }[ends]  # fmt: skip
    assert clockwork.last("sleep").result == ends
    assert clockwork.told() == {
        "started": ["SCHEDULE_STARTED"], "refused": ["SCHEDULE_REFUSED"], "missed": ["SCHEDULE_STARTED"]
    }[ends]  # fmt: skip
    assert clockwork.rows.due(engine.clock.now()) == []


@pytest.mark.slow
def test_thousands_of_schedules_cost_one_statement(clockwork: Clockwork) -> None:
    record = replace(clockwork.parts.operations.add(MEMBER, clockwork.stack, SLEEP), enabled=True)
    store = clockwork.engine.server.store
    with store.transaction():
        for number in range(2000):
            name = f"n{number}"
            clockwork.rows.insert(replace(record, id=name, name=name))
    counted, own = list[str](), threading.current_thread()
    read = store.database.read

    def counting(sql: str, *more: Any) -> Any:
        if threading.current_thread() is own:  # the engine's jobs read, too
            counted.append(sql)
        return read(sql, *more)

    store.database.read = counting  # type: ignore[method-assign]
    assert clockwork.rows.due(clockwork.engine.clock.now()) == []
    store.database.read = read  # type: ignore[method-assign]
    assert len(counted) == 1
    plan = store.database.read(f"EXPLAIN QUERY PLAN {counted[0]}", (START,)) if store.database.path else []
    assert not plan or "schedule_next_at" in str(plan)


def test_states_are_as_a_user_would_have_left_them(clockwork: Clockwork) -> None:
    clockwork.add(SLEEP, WAKE)
    clockwork.swept(START + 12 * HOUR)
    found = clockwork.engine.get(clockwork.stack)
    assert state(found.verb, found.status) == state(Verb.SUSPEND, Status.COMPLETE)
    clockwork.swept(START + 23 * HOUR)
    found = clockwork.engine.get(clockwork.stack)
    assert state(found.verb, found.status) == state(Verb.RESUME, Status.COMPLETE)
