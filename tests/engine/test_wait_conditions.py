"""Wait conditions and their handles, in stacks."""

import json
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import InvalidValue, NotSupported, RequestLimitExceeded
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status, Verb, state
from heatlite.engine.state.requests import StackRequest
from heatlite.resources.heat.signals import handles
from heatlite.store.records import StackRecord
from heatlite.store.stacks.messages import Messages
from tests.tables import few

from .conftest import Engine, attr, ref, resource, template, thing

HANDLE, CONDITION = "OS::Heat::WaitConditionHandle", "OS::Heat::WaitCondition"
CFN_HANDLE, CFN_CONDITION = "AWS::CloudFormation::WaitConditionHandle", "AWS::CloudFormation::WaitCondition"
UPDATE_HANDLE = "OS::Heat::UpdateWaitConditionHandle"


CHILD = {
    "heat_template_version": "2021-04-16",
    "parameters": {"of": {"type": "string"}},
    "resources": {"wc": resource(CONDITION, handle={"get_param": "of"}, timeout=60)},
}
"""Waits for a handle that it is given."""


def waiting(count: int = 1, timeout: int = 60, **more: object) -> Any:
    return template(
        outputs={"data": attr("wc", "data")},
        handle=resource(HANDLE),
        wc=resource(CONDITION, handle=ref("handle"), timeout=timeout, count=count),
        **more,
    )


def cfn_waiting(handle: str = CFN_HANDLE, value: str = "v", **more: object) -> Any:
    return template(
        outputs={"data": attr("wc", "Data")},
        handle=resource(handle),
        wc=resource(CFN_CONDITION, Handle=ref("handle"), Timeout=60),
        other=thing(value),
        **more,
    )


def signal(engine: Engine, stack: StackRecord, details: JsonMap | None = None, name: str = "handle") -> None:
    stack = engine.get(stack)
    engine.components.signals.signal(engine.who, stack, engine.components.reader.resource(stack, name), details)


def cfn(status: str = "SUCCESS", identifier: str = "1", data: object = None, reason: str = "because") -> Any:
    return {"Status": status, "Reason": reason, "Data": data, "UniqueId": identifier}


def metadata(engine: Engine, stack: StackRecord) -> JsonMap:
    stack = engine.get(stack)
    return engine.components.reader.metadata(stack, engine.components.reader.resource(stack, "handle"))


def waits(engine: Engine, stack: StackRecord, name: str = "wc", verb: str = "CREATE") -> None:
    engine.begun(lambda: engine.states(stack).get(name) == f"{verb}_IN_PROGRESS")


def waits_anew(engine: Engine, stack: StackRecord, old: str) -> None:
    """Until there is another condition than `old`, and it waits."""
    engine.wait_for(lambda: engine.ids(stack)["wc"] != old)
    waits(engine, stack)


def created(engine: Engine, made: Any, *signals: JsonMap | None) -> StackRecord:
    """The stack, once it has come to rest; it gets the signals while it waits."""
    with engine.clock.held():
        stack = engine.create(made, wait=False)
        waits(engine, stack)
        with engine.store.transaction():  # the condition sees all of them at once
            for details in signals:
                signal(engine, stack, details)
    return engine.settle(stack)


# -- how a condition ends ----------------------------------------------------------------------------


def test_it_waits_until_all_signals_are_there(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(waiting(count=2), wait=False)
        waits(engine, stack)
        signal(engine, stack, {"data": {"a": 1}})
        engine.clock.pass_(2)
        waits(engine, stack)
        signal(engine, stack, {"id": "web", "data": "up"})
    stack = engine.settle(stack)
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    data = engine.outputs(stack)["data"]
    assert isinstance(data, str)
    assert json.loads(data) == {"1": {"a": 1}, "web": "up"}
    assert metadata(engine, stack) == {
        "1": {"status": "SUCCESS", "reason": "Signal 1 received", "data": {"a": 1}},
        "web": {"status": "SUCCESS", "reason": "Signal web received", "data": "up"},
    }
    reasons = [event.status_reason for event in engine.events(stack) if event.verb == "SIGNAL"]
    assert reasons[0] == "Signal: status:SUCCESS reason:Signal 1 received"


def test_a_signal_ends_the_wait_at_once(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(waiting(), wait=False)
        waits(engine, stack)
        signal(engine, stack)
        engine.wait_for(lambda: engine.states(stack)["wc"] == "CREATE_COMPLETE")  # and no time has passed
    engine.settle(stack)


def test_a_signal_to_another_process_is_found(engine: Engine) -> None:
    listeners = engine.store.listeners
    with engine.clock.held():
        stack = engine.create(waiting(), wait=False)
        waits(engine, stack)
        engine.store.listen(replace(listeners, message_stored=lambda _address: None))
        signal(engine, stack)
        engine.wait_for(lambda: engine.states(stack)["wc"] == "CREATE_COMPLETE")
    engine.settle(stack)


def test_a_condition_is_not_polled(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    read, reads = Messages.read, []

    def counted(messages: Messages, address: str) -> dict[str, Json]:
        reads.append(address)
        return read(messages, address)

    monkeypatch.setattr(Messages, "read", counted)
    stack = created(engine, waiting(timeout=3600))
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    assert len(reads) <= 5


def test_a_failure_fails_it_with_all_reasons(engine: Engine) -> None:
    failures = ({"status": "FAILURE", "reason": reason} for reason in ("no disk", "no net"))
    stack = created(engine, waiting(count=9), {"reason": "fine"}, *failures)
    assert state(stack.verb, stack.status) == "CREATE_FAILED"
    assert stack.status_reason == "Resource CREATE failed: WaitConditionFailure: resources.wc: no disk;no net"


def test_time_fails_it_with_what_has_come(engine: Engine) -> None:
    stack = created(engine, waiting(count=3, timeout=60), {"reason": "one"}, {"reason": "two"})
    reason = "Resource CREATE failed: WaitConditionTimeout: resources.wc: 2 of 3 received - one;two"
    assert stack.status_reason == reason
    events = {(event.resource_name, event.verb, event.status): event.created_at for event in engine.events(stack)}
    took = events["wc", Verb.CREATE, Status.FAILED] - events["wc", Verb.CREATE, Status.IN_PROGRESS]
    assert 60 <= took < 62


def test_nobody_has_signalled(engine: Engine) -> None:
    stack = created(engine, waiting())
    assert stack.status_reason == "Resource CREATE failed: WaitConditionTimeout: resources.wc: 0 of 1 received"


def test_the_same_id_overwrites(engine: Engine) -> None:
    stack = created(engine, waiting(count=2), {"id": 7}, {"id": "7", "data": "later"})
    assert stack.status_reason.startswith("Resource CREATE failed: WaitConditionTimeout: resources.wc: 1 of 2 received")
    assert metadata(engine, stack)["7"] == {"status": "SUCCESS", "reason": "Signal 7 received", "data": "later"}


def test_without_signals_nothing_is_waited_for(engine: Engine) -> None:
    made = waiting(count=5)
    made["resources"]["handle"]["properties"] = {"signal_transport": "NO_SIGNAL"}
    stack = engine.create(made)
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    assert metadata(engine, stack) == {}
    del made["resources"]["wc"], made["outputs"]
    engine.put(stack, made)
    assert engine.mail_count() == 1
    engine.delete(stack)
    assert engine.mail_count() == 0


def test_signals_before_the_condition_begins_count(engine: Engine) -> None:
    made = waiting(slow=thing(wait_secs=30))
    made["resources"]["wc"]["depends_on"] = "slow"
    with engine.clock.held():
        stack = engine.create(made, wait=False)
        waits(engine, stack, "slow")
        signal(engine, stack)
    assert engine.settle(stack).status is Status.COMPLETE


def test_a_condition_in_another_stack_than_its_handle(engine: Engine) -> None:
    """A handle is handed down as any other value."""
    made = template(handle=resource(HANDLE), below=resource("child.yaml", of=ref("handle")))
    with engine.clock.held():
        stack = engine.create(made, files={"child.yaml": json.dumps(CHILD)}, wait=False)
        waits(engine, stack, "below")
        signal(engine, stack)
    assert engine.settle(stack).status is Status.COMPLETE


def test_the_handle_of_another_project_or_tree_is_none(engine: Engine) -> None:
    """Its signals are neither read nor forgotten, however well its name is known."""
    with engine.clock.held():
        victim = engine.create(waiting(count=2), wait=False)
        waits(engine, victim)
        signal(engine, victim, {"id": "1", "data": "the victim's"})
        known = engine.components.reader.resource(engine.get(victim), "handle").physical_id
        assert known is not None
        for number, who in enumerate((replace(engine.who, project="another"), engine.who)):
            made = template(outputs={"data": attr("wc", "data")}, wc=resource(CONDITION, handle=known, timeout=60))
            thief = engine.stacks.create(who, StackRequest(name=f"thief{number}", template=made))
            thief = engine.settle(thief)
            assert thief.status_reason == (
                f"Resource CREATE failed: InvalidValue: resources.wc: {known} is no wait condition handle of this"
                " stack, or of its tree of stacks."
            )
            assert engine.outputs(thief)["data"] is None
            engine.stacks.delete(who, thief)
            assert engine.settle(thief).verb is Verb.DELETE
        signal(engine, victim, {"id": "2", "data": ""})
    victim = engine.settle(victim)
    assert victim.status is Status.COMPLETE
    assert json.loads(str(engine.outputs(victim)["data"])) == {"1": "the victim's", "2": ""}


def test_a_condition_of_a_nested_stack_leaves_the_signals_where_they_are(engine: Engine) -> None:
    made = template(handle=resource(HANDLE), below=resource("child.yaml", of=ref("handle")))
    with engine.clock.held():
        stack = engine.create(made, files={"child.yaml": json.dumps(CHILD)}, wait=False)
        waits(engine, stack, "below")
        signal(engine, stack)
    engine.put(engine.settle(stack), template(handle=resource(HANDLE)))
    assert list(metadata(engine, stack)) == ["1"]


# -- limits ------------------------------------------------------------------------------------------


def test_a_signal_has_a_limit(engine: Engine) -> None:
    stack = engine.create(template(handle=resource(HANDLE)))
    with pytest.raises(RequestLimitExceeded, match="a signal to OS::Heat::WaitConditionHandle has at most 65536 bytes"):
        signal(engine, stack, {"data": "x" * 65536})
    with pytest.raises(InvalidValue, match="at most 255 characters"):
        signal(engine, stack, {"id": "i" * 256})
    signal(engine, stack, {"data": "x" * 60_000})


@pytest.mark.slow
def test_a_handle_keeps_so_many_bytes(engine: Engine) -> None:
    stack = engine.create(template(handle=resource(HANDLE)))
    taken = 0
    with pytest.raises(RequestLimitExceeded, match=r"The handle handle has .* signals of .* characters"):
        for number in range(30):
            signal(engine, stack, {"id": str(number), "data": "x" * 60_000})
            taken += 1
    assert 12 <= taken <= 17  # encrypted they are a third longer
    signal(engine, stack, {"id": "0", "data": "in place of the first"})
    assert len(metadata(engine, stack)) == taken


def test_a_handle_keeps_so_many_signals(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(handles, "MAX_SIGNALS", 5)
    stack = engine.create(template(handle=resource(HANDLE)))
    for _ in range(5):
        signal(engine, stack)
    with pytest.raises(RequestLimitExceeded):
        signal(engine, stack)
    assert len(metadata(engine, stack)) == 5


def test_a_signal_does_not_read_those_before_it(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    stack = engine.create(template(handle=resource(HANDLE)))
    monkeypatch.delattr(Messages, "read")
    for _ in range(3):
        signal(engine, stack)


def test_events_of_signals_do_not_repeat_the_properties(engine: Engine) -> None:
    stack = engine.create(template(handle=resource(HANDLE, signal_transport="CFN_SIGNAL")))
    signal(engine, stack)
    events = [one for one in engine.store.events.after(stack.id, 0, 100) if one.resource_name == "handle"]
    properties = {event.verb: event.properties for event in events}
    assert (properties["SIGNAL"], properties["CREATE"]) == ({}, {"signal_transport": "CFN_SIGNAL"})


@pytest.mark.slow
def test_many_at_once_are_all_kept(engine: Engine) -> None:
    """None of them says who it is; each is counted."""
    stack = engine.create(template(handle=resource(HANDLE)))
    with ThreadPoolExecutor(8) as pool:
        for sent in [pool.submit(signal, engine, stack) for _ in range(24)]:
            sent.result()
    assert sorted(metadata(engine, stack), key=int) == [str(number) for number in range(1, 25)]


# -- wrong signals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "details",
    few(
        [
            {"status": "MAYBE"},
            {"status": None},
            {"reason": 1},
            {"id": {}},
            {"id": True},
            {"Status": "SUCCESS"},
            {"x": 1},
        ]
    ),
)
def test_a_bad_signal_is_refused(engine: Engine, details: JsonMap) -> None:
    stack = engine.create(template(handle=resource(HANDLE)))
    with pytest.raises(InvalidValue):
        signal(engine, stack, details)
    assert metadata(engine, stack) == {}
    assert "handle SIGNAL_COMPLETE" not in engine.told(stack)


@pytest.mark.parametrize(
    "details",
    few(
        [
            None,
            {},
            {**cfn(), "more": 1},
            {"Status": "SUCCESS"},
            cfn("MAYBE"),
            {**cfn(), "Reason": None},
            {"status": "x"},
        ]
    ),
)
def test_a_cfn_signal_has_all_keys(engine: Engine, details: JsonMap | None) -> None:
    stack = engine.create(template(handle=resource(CFN_HANDLE)))
    with pytest.raises(InvalidValue):
        signal(engine, stack, details)
    assert metadata(engine, stack) == {}


# -- updates -----------------------------------------------------------------------------------------


def test_another_count_waits_again_and_counts_what_is_there(engine: Engine) -> None:
    stack = created(engine, waiting(), {"data": 1})
    old = engine.ids(stack)
    with engine.clock.held():
        engine.put(stack, waiting(count=2), wait=False)
        waits(engine, stack, verb="UPDATE")
        signal(engine, stack, {"data": 2})
    stack = engine.settle(stack)
    assert (state(stack.verb, stack.status), engine.ids(stack)) == ("UPDATE_COMPLETE", old)
    assert engine.put(stack, waiting(count=1)).status is Status.COMPLETE


def test_another_timeout_makes_another_condition(engine: Engine) -> None:
    stack = created(engine, waiting(), None)
    old = engine.ids(stack)
    stack = engine.put(stack, waiting(timeout=90))
    assert stack.status is Status.COMPLETE
    assert engine.ids(stack)["wc"] != old["wc"]
    assert engine.ids(stack)["handle"] == old["handle"]


def test_deleting_a_condition_forgets_the_signals(engine: Engine) -> None:
    stack = created(engine, waiting(), None)
    stack = engine.put(stack, template(handle=resource(HANDLE)))
    assert metadata(engine, stack) == {}
    assert engine.mail_count() == 0


def test_nothing_is_left_of_a_deleted_stack(engine: Engine) -> None:
    stack = created(engine, waiting(), None)
    signal(engine, stack, {"id": "late"})
    engine.delete(stack)
    assert engine.mail_count() == 0


def test_a_cfn_condition(engine: Engine) -> None:
    stack = created(engine, cfn_waiting(), cfn(data={"a": [1]}, reason="done"))
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"
    assert json.loads(str(engine.outputs(stack)["data"])) == {"1": {"a": [1]}}
    assert metadata(engine, stack) == {"1": {"Status": "SUCCESS", "Reason": "done", "Data": {"a": [1]}}}


def test_a_cfn_handle_stays_over_an_update(engine: Engine) -> None:
    stack = created(engine, cfn_waiting(), cfn())
    old = engine.ids(stack)
    stack = engine.put(stack, cfn_waiting(value="new"))
    assert (stack.status, engine.ids(stack)) == (Status.COMPLETE, old)


def test_an_update_handle_is_new_with_every_update(engine: Engine) -> None:
    made = cfn_waiting(UPDATE_HANDLE)
    stack = created(engine, made, cfn())
    engine.clock.pass_(1)
    for _ in range(2):
        old = engine.ids(stack)
        with engine.clock.held():
            engine.clock.pass_(1)
            engine.put(stack, made, wait=False)
            waits_anew(engine, stack, old["wc"])
            signal(engine, stack, cfn())
        stack = engine.settle(stack)
        assert stack.status is Status.COMPLETE, stack.status_reason
        new = engine.ids(stack)
        assert (new["handle"] != old["handle"], new["wc"] != old["wc"]) == (True, True)
        assert new["other"] == old["other"]
    assert engine.mail_count() == 1


def test_a_preview_shows_the_new_update_handle(engine: Engine) -> None:
    stack = created(engine, cfn_waiting(UPDATE_HANDLE), cfn())
    engine.clock.pass_(1)
    changes = engine.stacks.preview_update(engine.who, stack, StackRequest(), existing=True)
    assert sorted(change.record.name for change in changes.replaced) == ["handle", "wc"]
    assert [change.record.name for change in changes.unchanged] == ["other"]


def test_a_rollback_takes_the_old_update_handle_back(engine: Engine) -> None:
    stack = created(engine, cfn_waiting(UPDATE_HANDLE), cfn())
    old = engine.ids(stack)
    engine.clock.pass_(1)
    stack = engine.put(stack, cfn_waiting(UPDATE_HANDLE, value="new"), disable_rollback=False)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
    assert engine.ids(stack) == old
    assert list(metadata(engine, stack)) == ["1"], "the condition that went has emptied its own handle only"


def test_a_rollback_keeps_the_signals_of_the_condition_that_stays(engine: Engine) -> None:
    stack = created(engine, waiting(), {"data": 1})
    bad = thing(fail=True, depends_on="wc")
    stack = engine.put(stack, waiting(timeout=90, bad=bad), disable_rollback=False)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
    assert engine.outputs(stack)["data"] == '{"1": 1}'


def test_an_update_after_new_keys_keeps_the_signals(engine: Engine) -> None:
    stack = created(engine, cfn_waiting(), cfn(data="d"))
    engine.components.signals.rotate_keys(engine.who, stack)
    stack = engine.put(stack, cfn_waiting())
    assert (stack.status, engine.outputs(stack)["data"]) == (Status.COMPLETE, '{"1": "d"}')


def test_a_rollback_waits_for_no_signals_in_a_nested_stack(engine: Engine) -> None:
    """The nested stack has finished its update: its earlier handle is gone."""
    child = cfn_waiting(UPDATE_HANDLE, parameters={"v": {"type": "string"}})

    def outer(value: str, **more: object) -> Any:
        return template(n=resource("child.yaml", v=value), **more)

    files = {"child.yaml": json.dumps(child)}
    with engine.clock.held():
        stack = engine.create(outer("1"), files=files, wait=False)
        engine.wait_for(lambda: engine.store.stacks.descendants(engine.get(stack)))
        (nested,) = engine.store.stacks.descendants(engine.get(stack))
        waits(engine, nested)
        signal(engine, nested, cfn())
    engine.settle(stack)
    engine.clock.pass_(1)
    with engine.clock.held():
        old, bad = engine.ids(nested), thing(fail=True, depends_on="n")
        engine.put(stack, outer("2", bad=bad), files=files, disable_rollback=False, wait=False)
        waits_anew(engine, nested, old["wc"])
        engine.clock.pass_(1)
        signal(engine, nested, cfn())
    stack = engine.settle(stack)
    assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE", stack.status_reason


# -- crashes -----------------------------------------------------------------------------------------


def test_another_process_goes_on_waiting(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(waiting(count=2), wait=False)
        waits(engine, stack)
        signal(engine, stack)
        engine.close()
        engine.open()
        signal(engine, stack)
    assert engine.settle(stack).status is Status.COMPLETE


def test_the_time_goes_on_over_a_restart(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(waiting(timeout=100), wait=False)
        waits(engine, stack)
        engine.close()
        engine.clock.pass_(99)
        engine.open()
    since = engine.clock.now()
    stack = engine.settle(stack)
    assert stack.status is Status.FAILED
    assert engine.clock.now() - since < 5


# -- states ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("verb", [Verb.SUSPEND, Verb.DELETE])
def test_a_suspended_handle_takes_nothing(engine: Engine, verb: Verb) -> None:
    stack = engine.create(template(handle=resource(HANDLE)))
    engine.put_row(stack, "handle", verb, Status.COMPLETE)
    with pytest.raises(NotSupported):
        signal(engine, stack)
    assert engine.mail_count() == 0
