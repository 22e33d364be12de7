"""Signals: who takes them and when, what they leave, what a lock makes of them."""

from typing import Any

import pytest

from heatlite.core.errors import (
    InvalidStackState,
    InvalidValue,
    NotSupported,
    RequestLimitExceeded,
    ResourceActionNotSupported,
    ResourceNotAvailable,
)
from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb, state
from heatlite.store.records import ActionRecord, LockRecord, StackRecord
from tests.tables import few

from .conftest import Engine, ref, resource, template, thing


def signal(engine: Engine, stack: StackRecord, name: str, details: JsonMap | None = None) -> None:
    stack = engine.get(stack)
    engine.components.signals.signal(engine.who, stack, engine.components.reader.resource(stack, name), details)


def heard(engine: Engine, stack: StackRecord, name: str = "ear") -> list[Any]:
    return list(engine.store.messages.read(engine.row(stack, name).id).values())


def told(engine: Engine, stack: StackRecord, since: int) -> list[tuple[str, str, str]]:
    events = engine.events(stack)[since:]
    return [(event.resource_name, state(event.verb, event.status), event.status_reason) for event in events]


@pytest.fixture
def stack(engine: Engine) -> StackRecord:
    return engine.create(template(ear=resource("Test::Ear")))


# -- what delivers data ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("details", "reason"),
    few(
        [
            (None, "No signal details provided"),
            ({}, "No signal details provided"),
            ({"a": 1}, "Unknown"),
            ({"answer": "it works"}, "Signal: it works"),
            ({"previous": "ok", "current": "alarm", "reason": "hot"}, "alarm state changed from ok to alarm (hot)"),
            ({"answer": "x" * 300}, "Signal: " + "x" * 247),
        ]
    ),
)
def test_a_signal_is_kept_and_told(engine: Engine, stack: StackRecord, details: JsonMap | None, reason: str) -> None:
    since = engine.now_on(stack)
    row = engine.row(stack, "ear")
    signal(engine, stack, "ear", details)
    assert heard(engine, stack) == [details]
    assert told(engine, stack, since) == [("ear", "SIGNAL_COMPLETE", reason)]
    assert engine.row(stack, "ear") == row, "the row is the operations'"
    assert engine.get(stack).verb is Verb.CREATE


def test_without_an_action_the_event_says_so(engine: Engine, stack: StackRecord) -> None:
    since = engine.now_on(stack)
    signal(engine, stack, "ear", {"nothing": True})
    assert heard(engine, stack) == []
    assert told(engine, stack, since) == [("ear", "SIGNAL_COMPLETE", "Signal ignored: no_change")]


def test_what_the_type_finds_wrong_is_the_answer(engine: Engine, stack: StackRecord) -> None:
    since = engine.now_on(stack)
    with pytest.raises(InvalidValue, match="wrong"):
        signal(engine, stack, "ear", {"wrong": True})
    assert (heard(engine, stack), told(engine, stack, since)) == ([], [])


def test_a_resource_is_found_by_its_physical_id(engine: Engine, stack: StackRecord) -> None:
    signal(engine, stack, engine.row(stack, "ear").physical_id or "", {"a": 1})
    assert heard(engine, stack) == [{"a": 1}]


def test_while_an_operation_runs_it_gets_through(engine: Engine, stack: StackRecord) -> None:
    with engine.clock.held():
        slow = template(ear=resource("Test::Ear", value="new"), slow=thing(wait_secs=60, depends_on="ear"))
        engine.put(stack, slow, wait=False)
        engine.begun(lambda: engine.states(stack).get("slow") == "CREATE_IN_PROGRESS")
        signal(engine, stack, "ear", {"a": 1})
    engine.settle(stack)
    assert heard(engine, stack) == [{"a": 1}]
    assert "ear SIGNAL_COMPLETE" in engine.told(stack)


def test_while_a_lock_holds_it_gets_through(engine: Engine, stack: StackRecord) -> None:
    engine.lock(stack)
    signal(engine, stack, "ear", {"a": 1})
    assert heard(engine, stack) == [{"a": 1}]
    assert engine.store.suppressed.list(stack.id) == []


def test_before_there_is_a_resource_it_is_not_available(engine: Engine) -> None:
    with engine.clock.held():
        made = template(slow=thing(wait_secs=60), ear=resource("Test::Ear", depends_on="slow"))
        stack = engine.create(made, wait=False)
        engine.begun(lambda: engine.states(stack).get("slow") == "CREATE_IN_PROGRESS")
        with pytest.raises(ResourceNotAvailable):
            signal(engine, stack, "ear")
    engine.settle(stack)


@pytest.mark.parametrize("status", few(list(Status)))
@pytest.mark.parametrize("verb", [Verb.DELETE, Verb.SUSPEND])
def test_what_is_deleted_or_suspended_does_not_listen(
    engine: Engine, stack: StackRecord, verb: Verb, status: Status
) -> None:
    engine.put_row(stack, "ear", verb, status)
    since = engine.now_on(stack)
    with pytest.raises(NotSupported, match=f"Signal resource during {verb} is not supported."):
        signal(engine, stack, "ear", {"a": 1})
    assert heard(engine, stack) == []
    assert told(engine, stack, since) == [("ear", f"{verb}_{status}", f"Cannot signal resource during {verb}")]


def test_some_types_listen_even_then(engine: Engine) -> None:
    stack = engine.create(template(ear=resource("Test::Unwavering")))
    engine.put_row(stack, "ear", Verb.SUSPEND, Status.COMPLETE)
    signal(engine, stack, "ear", {"a": 1})
    assert heard(engine, stack) == [{"a": 1}]


def test_a_type_without_a_handler_takes_none(engine: Engine) -> None:
    stack = engine.create(template(deaf=thing()))
    since = engine.now_on(stack)
    with pytest.raises(ResourceActionNotSupported):
        signal(engine, stack, "deaf")
    assert told(engine, stack, since) == []


# -- what changes what there is ----------------------------------------------------------------------


SCALED = template(group=resource("Test::Group"), policy=resource("Test::Policy", group=ref("group")))


@pytest.fixture
def scaled(engine: Engine) -> StackRecord:
    """A stack with a policy and its group of one member."""
    return engine.create(SCALED)


def nested(engine: Engine, stack: StackRecord) -> StackRecord:
    """The nested stack of the group."""
    found = engine.store.stacks.get(engine.row(stack, "group").physical_id or "")
    assert found is not None
    return found


def test_it_updates_the_groups_nested_stack(engine: Engine, scaled: StackRecord) -> None:
    since, old = engine.now_on(scaled), engine.ids(nested(engine, scaled))
    with engine.clock.held():
        signal(engine, scaled, "policy", {"size": 3})
        assert state(*of(nested(engine, scaled))) == "UPDATE_IN_PROGRESS"
    group = engine.settle(nested(engine, scaled))
    assert state(*of(group)) == "UPDATE_COMPLETE"
    assert engine.states(group).keys() == {"m0", "m1", "m2"}
    assert engine.ids(group)["m0"] == old["m0"]
    assert told(engine, scaled, since) == [("policy", "SIGNAL_COMPLETE", "Unknown")]
    assert state(*of(engine.get(scaled))) == "CREATE_COMPLETE", "the parent has no part in it"
    assert engine.row(scaled, "group").data["size"] == 3
    assert engine.row(scaled, "policy").data == {"passed_on": True}


def test_what_a_signal_has_made_an_update_keeps(engine: Engine, scaled: StackRecord) -> None:
    signal(engine, scaled, "policy", {"size": 2})
    old = engine.ids(engine.settle(nested(engine, scaled)))
    engine.put(scaled, {**SCALED, "description": "new"})
    assert engine.ids(nested(engine, scaled)) == old
    assert old.keys() == {"m0", "m1"}


@pytest.mark.slow
def test_the_second_of_two_signals_is_ignored(engine: Engine, scaled: StackRecord) -> None:
    with engine.clock.held():
        signal(engine, scaled, "policy", {"size": 2})
        engine.begun(lambda: engine.states(nested(engine, scaled)).get("m1") == "CREATE_IN_PROGRESS")
        ignored(engine, scaled, {"size": 3}, "busy: ")
    assert engine.states(engine.settle(nested(engine, scaled))).keys() == {"m0", "m1"}


@pytest.mark.slow
def test_a_group_that_cannot_become_so_says_why(engine: Engine, scaled: StackRecord) -> None:
    before = everything(engine)
    with pytest.raises(RequestLimitExceeded):
        signal(engine, scaled, "policy", {"size": 30_000})
    assert everything(engine) == before


def of(stack: StackRecord) -> tuple[str, str]:
    return stack.verb, stack.status


def everything(engine: Engine) -> list[Any]:
    """All rows that a signal might change."""
    tables = ("stack", "resource", "event", "action", "mail")
    return [engine.store.database.read(f"SELECT * FROM {table} ORDER BY id") for table in tables]


def ignored(engine: Engine, stack: StackRecord, details: JsonMap | None, event: str) -> None:
    """Send a signal without effect to the policy. It leaves an event only."""
    before, since = everything(engine), engine.now_on(stack)
    signal(engine, stack, "policy", details)
    after = everything(engine)
    events = after.pop(2)[len(before.pop(2)) :]
    assert after == before
    assert len(events) == 1
    ((name, status, reason),) = told(engine, stack, since)
    assert (name, status) == ("policy", "SIGNAL_COMPLETE")
    assert reason.startswith(f"Signal ignored: {event}")


def test_under_a_lock_it_is_ignored_and_listed(engine: Engine, scaled: StackRecord) -> None:
    lock = LockRecord(LockLevel.ALL, "ada", False, engine.clock.now())
    engine.put_stack(scaled, Verb.LOCK, Status.COMPLETE, lock)
    before = everything(engine)
    for _ in range(2):
        signal(engine, scaled, "policy", {"size": 2})
    assert everything(engine) == before
    (entry,) = engine.store.suppressed.list(scaled.id)
    assert (entry.request, entry.target, entry.requested_by) == ("signal", "policy", "mia")
    assert (entry.method, entry.path, entry.body) == ("POST", "/resources/policy/signal", {"size": 2})
    assert "under maintenance" in entry.detail


@pytest.mark.parametrize("where", few(["the group", "its parent"]))
def test_a_lock_anywhere_on_the_way_counts(engine: Engine, scaled: StackRecord, where: str) -> None:
    """The policy lies in a stack that is not locked itself."""
    lock = LockRecord(LockLevel.STACKS, "ada", False, engine.clock.now())
    locked = nested(engine, scaled) if where == "the group" else scaled
    engine.put_stack(locked, Verb.LOCK, Status.COMPLETE, lock)
    before = everything(engine)
    signal(engine, scaled, "policy", {"size": 2})
    assert everything(engine) == before
    (entry,) = engine.store.suppressed.list(scaled.id)
    assert (entry.target, entry.path) == ("policy", "/resources/policy/signal")
    assert entry.detail.startswith(f"The signal was answered with 200 and ignored. Stack {locked.name} was under")


@pytest.mark.slow
def test_a_lock_elsewhere_does_not_count(engine: Engine) -> None:
    stack = engine.create({**SCALED, "resources": {**SCALED["resources"], "other": resource("Test::Group")}})
    other = engine.store.stacks.get(engine.row(stack, "other").physical_id or "")
    assert other is not None
    lock = LockRecord(LockLevel.STACKS, "ada", False, engine.clock.now())
    engine.put_stack(other, Verb.LOCK, Status.COMPLETE, lock)
    signal(engine, stack, "policy", {"size": 2})
    assert engine.states(engine.settle(nested(engine, stack))).keys() == {"m0", "m1"}


@pytest.mark.parametrize("busy", few(["group", "s"]), ids=["the group", "its parent"])
def test_while_an_operation_runs_it_is_ignored(engine: Engine, scaled: StackRecord, busy: str) -> None:
    stack_id = scaled.id if busy == "s" else nested(engine, scaled).id
    running = ActionRecord(
        id=new_id(),
        stack_id=stack_id,
        root_id=scaled.id,
        project="demo",
        verb=Verb.UPDATE,
        status=ActionStatus.RUNNING,
        requested_by="somebody",
        created_at=engine.clock.now(),
        owner="another engine",
        lease_until=1e12,
    )
    with engine.store.transaction():
        engine.store.queue.enqueue(running)
    ignored(engine, scaled, {"size": 2}, "busy: ")
    assert engine.store.suppressed.list(scaled.id) == []


@pytest.mark.parametrize("group", few(["", "policy", "nobody"]))
def test_a_group_that_is_not_there_needs_no_action(engine: Engine, group: str) -> None:
    stack = engine.create(template(policy=resource("Test::Policy", group=group)))
    ignored(engine, stack, {"size": 2}, f"no_group: stack s has no group {group}.")


@pytest.mark.parametrize(
    ("verb", "status", "event"),
    few(
        [
            (
                Verb.UPDATE,
                Status.FAILED,
                "unhealthy: group group is UPDATE_FAILED and does not scale: update the stack.",
            ),
            (Verb.CHECK, Status.FAILED, "unhealthy: group group is CHECK_FAILED and does not scale: mark it healthy"),
            (Verb.UPDATE, Status.IN_PROGRESS, "busy: group group is UPDATE_IN_PROGRESS."),
        ]
    ),
)
def test_a_group_that_is_not_whole_is_left_alone(
    engine: Engine, scaled: StackRecord, verb: Verb, status: Status, event: str
) -> None:
    engine.put_row(scaled, "group", verb, status)
    ignored(engine, scaled, {"size": 2}, event)
    if status is Status.FAILED:
        with pytest.raises(InvalidStackState):
            engine.components.signals.signal(
                engine.who, engine.get(scaled), engine.row(scaled, "policy"), {"size": 2}, fail_fast=True
            )


@pytest.mark.slow
def test_a_group_may_need_no_action(engine: Engine, scaled: StackRecord) -> None:
    ignored(engine, scaled, None, "no_change")
