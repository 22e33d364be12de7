"""Groups in an engine: their members, from creation to deletion."""

import json
from itertools import pairwise
from typing import Any

import pytest

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.status import Status, Verb, state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.plugin.ports import Member
from heatlite.resources.heat.groups.scaling import AutoScalingGroup
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, attr, param, resource, template
from tests.tables import few

RANDOM = {"type": "OS::Heat::RandomString", "properties": {"length": 8}}


def thing(value: object) -> dict[str, Any]:
    return {"type": "OS::Heat::TestResource", "properties": {"value": value}}


def group(count: object, definition: object, **more: Any) -> Any:
    return resource("OS::Heat::ResourceGroup", count=count, resource_def=definition, **more)


def scaling(definition: object, low: int = 0, high: int = 10, **more: Any) -> Any:
    sizes = {"min_size": low, "max_size": high, **more}
    return resource("OS::Heat::AutoScalingGroup", resource=definition, **sizes)


def nested(engine: Engine, stack: StackRecord, name: str = "g") -> StackRecord:
    identifier = engine.row(stack, name).physical_id
    found = engine.store.stacks.get(identifier or "")
    assert found is not None
    return found


def members(engine: Engine, stack: StackRecord, name: str = "g") -> dict[str, str]:
    return engine.states(nested(engine, stack, name))


def outcome(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


# -- ResourceGroup -----------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_group_from_creation_to_deletion(engine: Engine) -> None:
    outputs = {
        "refs": attr("g", "refs"),
        "values": attr("g", "output"),
        "map": attr("g", "attributes", "output"),
        "one": attr("g", "resource.1.output"),
        "removed": attr("g", "removed_rsrc_list"),
    }
    stack = engine.create(template(g=group(2, thing("v%index%")), outputs=outputs))
    assert outcome(stack) == "CREATE_COMPLETE"
    inner = nested(engine, stack)
    assert members(engine, stack) == {"0": "CREATE_COMPLETE", "1": "CREATE_COMPLETE"}
    told = engine.outputs(stack)
    assert told.pop("refs") == [engine.row(inner, "0").physical_id, engine.row(inner, "1").physical_id]
    assert told == {"values": ["v0", "v1"], "map": {"0": "v0", "1": "v1"}, "one": "v1", "removed": []}
    first = engine.ids(inner)["0"]

    wanted = group(2, thing("w%index%"), removal_policies=[{"resource_list": ["1", "nobody"]}])
    stack = engine.put(stack, template(g=wanted, outputs=outputs))
    assert members(engine, stack) == {"0": "UPDATE_COMPLETE", "2": "CREATE_COMPLETE"}
    assert engine.ids(inner)["0"] == first
    assert engine.outputs(stack)["removed"] == ["1"]
    assert engine.outputs(stack)["map"] == {"0": "w0", "2": "w2"}

    stack = engine.put(stack, template(g=group(0, thing("w%index%"))))
    assert members(engine, stack) == {}
    stack = engine.delete(stack)
    assert outcome(stack) == "DELETE_COMPLETE"
    assert outcome(engine.get(inner)) == "DELETE_COMPLETE"


def test_only_the_new_member_is_touched_when_a_group_grows(engine: Engine) -> None:
    stack = engine.create(template(g=group(20, RANDOM)))
    inner = nested(engine, stack)
    before, events = {row.name: row for row in engine.rows(inner)}, engine.now_on(inner)
    stack = engine.put(stack, template(g=group(21, RANDOM)))
    after = {row.name: row for row in engine.rows(inner)}
    grown = after.pop("20")
    assert (grown.verb, grown.status) == (Verb.CREATE, Status.COMPLETE)
    assert after == before
    assert {event.resource_name for event in engine.events(inner)[events:]} == {inner.name, "20"}


def test_a_failed_member_is_rebuilt_under_its_name(engine: Engine) -> None:
    stack = engine.create(template(g=group(3, thing("v"))))
    inner = nested(engine, stack)
    before = engine.ids(inner)
    engine.mark(inner, "1")
    stack = engine.patch(stack)
    after = engine.ids(inner)
    assert after.keys() == before.keys()
    assert {name for name in after if after[name] != before[name]} == {"1"}
    engine.mark(inner, "0")
    engine.put(stack, template(g=group(2, thing("v"))))
    assert list(engine.ids(inner)) in (["0", "1"], ["1", "0"])  # the highest goes, though another has failed


def test_a_member_that_cannot_be_made_fails_the_group(engine: Engine) -> None:
    bad = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    stack = engine.create(template(g=group(2, bad)))
    assert outcome(stack) == "CREATE_FAILED"
    assert "resources.g.resources." in (stack.status_reason or "")
    stack = engine.put(stack, template(g=group(2, thing("v"))))
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert set(members(engine, stack)) == {"0", "1"}


def test_members_are_made_in_batches_with_pauses(engine: Engine) -> None:
    policy = {"update_policy": {"batch_create": {"max_batch_size": 2, "pause_time": 60}}}
    stack = engine.create(template(g=group(5, RANDOM, keys=policy)))
    assert outcome(stack) == "CREATE_COMPLETE"
    made: dict[float, list[str]] = {}
    for row in engine.rows(nested(engine, stack)):
        made.setdefault(row.created_at, []).append(row.name)
    moments = sorted(made)
    assert [sorted(made[moment]) for moment in moments] == [["0", "1"], ["2", "3"], ["4"]]
    assert all(later - sooner >= 60 for sooner, later in pairwise(moments))


def test_no_batch_begins_after_another_resource_has_failed(engine: Engine) -> None:
    policy = {"update_policy": {"batch_create": {"max_batch_size": 1}}}
    boom, slow = resource("OS::Heat::TestResource", fail=True), resource("OS::Heat::TestResource", wait_secs=5)
    stack = engine.create(template(boom=boom, g=group(2, slow, keys=policy)))
    assert stack.status_reason == "Resource CREATE failed: ValueError: resources.boom: Test Resource failed boom"
    assert engine.row(stack, "g").status_reason == "CREATE aborted: another resource failed"
    assert len(members(engine, stack)) == 1


@pytest.mark.slow
def test_a_rolling_update_changes_one_after_the_other(engine: Engine) -> None:
    policy = {"update_policy": {"rolling_update": {"max_batch_size": 1, "min_in_service": 2}}}
    stack = engine.create(template(g=group(2, thing("v"), keys=policy)))
    inner = nested(engine, stack)
    since = engine.now_on(inner)
    stack = engine.put(stack, template(g=group(2, thing("w"), keys=policy)))
    assert outcome(stack) == "UPDATE_COMPLETE"
    done = [text for text in engine.told(inner, since) if text.endswith("_COMPLETE")]
    name = inner.name
    assert done == [
        "2 CREATE_COMPLETE",
        f"{name} UPDATE_COMPLETE",
        "1 UPDATE_COMPLETE",
        f"{name} UPDATE_COMPLETE",
        "0 UPDATE_COMPLETE",
        f"{name} UPDATE_COMPLETE",
        "2 DELETE_COMPLETE",
        f"{name} UPDATE_COMPLETE",
    ]


def test_a_rolling_update_that_failed_goes_on_one_by_one(engine: Engine) -> None:
    policy = {"update_policy": {"rolling_update": {}}}
    good, bad = thing("w"), {"type": "OS::Heat::TestResource", "properties": {"value": "w", "fail": True}}
    stack = engine.create(template(g=group(2, thing("v"), keys=policy)))
    stack = engine.put(stack, template(g=group(2, bad, keys=policy)))
    assert outcome(stack) == "UPDATE_FAILED"
    inner = nested(engine, stack)
    assert members(engine, stack) == {"0": "CREATE_COMPLETE", "1": "UPDATE_FAILED"}
    since = engine.now_on(inner)
    stack = engine.put(stack, template(g=group(2, good, keys=policy)))
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert engine.told(inner, since).count(f"{inner.name} UPDATE_COMPLETE") == 2
    since = engine.now_on(inner)
    engine.put(stack, template(g=group(2, good, keys=policy)))
    assert engine.told(inner, since).count(f"{inner.name} UPDATE_COMPLETE") == 1


def test_a_policy_that_outlasts_the_stack_fails_it(engine: Engine) -> None:
    policy = {"update_policy": {"batch_create": {"pause_time": 3000}}}
    stack = engine.create(template(g=group(3, RANDOM, keys=policy)), timeout_mins=100)
    assert outcome(stack) == "CREATE_FAILED"
    assert "The current update policy will result in stack update timeout." in (stack.status_reason or "")


def test_a_count_that_is_only_known_later_is_held_to_the_limit(plugins: Any, place: Any) -> None:
    engine = Engine(place, max_resources_per_stack=10)
    try:
        value = resource("OS::Heat::Value", value=param("n"))
        wanted = template(v=value, g=group(attr("v", "value"), RANDOM), parameters={"n": {"type": "number"}})
        stack = engine.create(wanted, parameters={"n": 10**8})
        assert outcome(stack) == "CREATE_FAILED"
        assert "Maximum resources per stack exceeded: 10." in (stack.status_reason or "")
        stack = engine.patch(stack, parameters={"n": 8})
        assert outcome(stack) == "UPDATE_COMPLETE"
        stack = engine.patch(stack, parameters={"n": 9})
        assert outcome(stack) == "UPDATE_FAILED"
    finally:
        engine.close()


@pytest.mark.slow
def test_an_update_that_fails_is_rolled_back_to_the_old_members(engine: Engine) -> None:
    stack = engine.create(template(g=group(2, thing("v%index%"))), disable_rollback=False)
    bad = {"type": "OS::Heat::TestResource", "properties": {"value": "w", "fail": True}}
    stack = engine.put(stack, template(g=group(3, bad)), disable_rollback=False)
    assert outcome(stack) == "ROLLBACK_COMPLETE"
    inner = nested(engine, stack)
    assert {name: engine.value(inner, name) for name in engine.states(inner)} == {"0": "v0", "1": "v1"}


# -- OS::Heat::ResourceChain -------------------------------------------------------------------------


def test_a_chain_is_made_one_after_the_other(engine: Engine) -> None:
    types = ["OS::Heat::RandomString", "OS::Heat::None", "OS::Heat::TestResource"]
    chain = resource("OS::Heat::ResourceChain", resources=types)
    stack = engine.create(template(g=chain))
    told = [text for text in engine.told(nested(engine, stack)) if text[0].isdigit()]
    assert told == [f"{number} CREATE_{status}" for number in range(3) for status in ("IN_PROGRESS", "COMPLETE")]
    engine.put(stack, template(g=resource("OS::Heat::ResourceChain", resources=types[:1])))
    assert list(members(engine, stack)) == ["0"]


# -- OS::Heat::AutoScalingGroup ----------------------------------------------------------------------


def test_keys_about_the_template_around_a_group_do_not_reach_members(engine: Engine) -> None:
    around = {"depends_on": "other", "condition": "never", "external_id": "x"}
    definition = {**thing("v"), **around, "deletion_policy": "Retain"}
    stack = engine.create(template(other=thing("o"), g=scaling(definition, 1)))
    assert outcome(stack) == "CREATE_COMPLETE"
    inner = nested(engine, stack)
    document: Any = engine.store.templates.get(inner.template_id).document
    assert [*document["resources"].values()] == [{**thing("v"), "deletion_policy": "Retain"}]


def test_a_database_that_is_away_at_the_end_of_a_change_does_not_fail_it(
    engine: Engine, monkeypatch: pytest.MonkeyPatch
) -> None:
    stack = engine.create(template(g=scaling(RANDOM, desired_capacity=1)))
    read, outages = AutoScalingGroup.well, [DatabaseUnavailable(reason="it restarts")] * 2

    def well(group: AutoScalingGroup) -> list[Member]:
        if outages:
            raise outages.pop()
        return read(group)

    monkeypatch.setattr(AutoScalingGroup, "well", well)
    stack = engine.put(stack, template(g=scaling(RANDOM, desired_capacity=2)))
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert (len(members(engine, stack)), outages) == (2, [])


def test_a_scaling_group_from_creation_to_deletion(engine: Engine) -> None:
    outputs = {
        "size": attr("g", "current_size"),
        "list": attr("g", "outputs_list", "output"),
        "map": attr("g", "outputs", "output"),
        "first": attr("g", "resource.0.output"),
        "refs": attr("g", "refs_map"),
        "name": {"get_resource": "g"},
    }
    stack = engine.create(template(g=scaling(thing("v"), low=1, desired_capacity=3), outputs=outputs))
    assert outcome(stack) == "CREATE_COMPLETE"
    inner = nested(engine, stack)
    names = list(engine.ids(inner))
    assert len(names) == 3
    assert all(len(name) == 12 and name.isalnum() for name in names)
    told = engine.outputs(stack)
    assert told["size"] == 3
    assert told["list"] == ["v", "v", "v"]
    assert told["map"] == dict.fromkeys(names, "v")
    assert told["first"] == "v"
    assert told["refs"] == {name: engine.row(inner, name).physical_id for name in names}
    assert told["name"] == engine.row(stack, "g").physical_name

    engine.clock.pass_(10)
    stack = engine.put(stack, template(g=scaling(thing("v"), low=1, desired_capacity=4)))
    assert set(names) < set(engine.ids(inner))
    stack = engine.put(stack, template(g=scaling(thing("v"), low=1, desired_capacity=2)))
    left = set(engine.ids(inner))
    assert len(left) == 2
    assert len(left - set(names)) == 1  # the oldest go
    assert outcome(engine.delete(stack)) == "DELETE_COMPLETE"


def test_a_new_definition_reaches_members_in_batches(engine: Engine) -> None:
    policy = {"rolling_updates": {"max_batch_size": 1, "min_in_service": 0}}
    stack = engine.create(template(g=scaling(thing("v"), desired_capacity=3, **policy)))
    inner = nested(engine, stack)
    before, since = engine.ids(inner), engine.now_on(inner)
    stack = engine.put(stack, template(g=scaling(thing("w"), desired_capacity=3, **policy)))
    assert engine.ids(inner) == before
    assert {engine.value(inner, name) for name in before} == {"w"}
    ends = [text for text in engine.told(inner, since) if text == f"{inner.name} UPDATE_COMPLETE"]
    assert len(ends) == 3


def member_files(folder: str, value: str) -> dict[str, str]:
    """A member's template and one that it uses, in a folder of the client's machine."""
    inner = template(parameters={"v": {"type": "string"}}, t=thing(param("v")))
    return {
        f"file:///{folder}/member.yaml": json.dumps(template(i=resource(f"file:///{folder}/inner.yaml", v=value))),
        f"file:///{folder}/inner.yaml": json.dumps(inner),
    }


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scaling", "rolling"])
def test_the_template_of_the_members_may_move(engine: Engine, kind: str) -> None:
    """A request has only its own template's files, and an update goes step by step."""

    def wanted(folder: str) -> Any:
        member = resource(f"file:///{folder}/member.yaml")
        policy = {"update_policy": {"rolling_update": {"max_batch_size": 1}}}
        made = scaling(member, desired_capacity=3) if kind == "scaling" else group(3, member, keys=policy)
        return template(g=made)

    stack = engine.create(wanted("one"), files=member_files("one", "a"))
    before = engine.ids(nested(engine, stack))
    request = StackRequest(template=wanted("two"), files=member_files("two", "a"))
    engine.stacks.preview_update(engine.who, stack, request, existing=False)
    stack = engine.put(stack, wanted("two"), files=member_files("two", "a"))
    assert outcome(stack) == "UPDATE_COMPLETE", stack.status_reason
    inner = nested(engine, stack)
    assert engine.ids(inner) == before
    assert engine.store.templates.get(inner.template_id).files.keys() == member_files("two", "a").keys()

    stack = engine.put(stack, wanted("three"), files=member_files("three", "b"))
    assert outcome(stack) == "UPDATE_COMPLETE", stack.status_reason
    assert engine.ids(nested(engine, stack)) == before


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["scaling", "rolling"])
def test_members_of_a_failed_update_keep_their_template(engine: Engine, kind: str) -> None:
    """A merged definition has what other members need, until they follow."""

    def wanted(folder: str) -> Any:
        member = resource(f"file:///{folder}/member.yaml")
        policy = {"update_policy": {"rolling_update": {"max_batch_size": 1}}}
        return template(g=scaling(member, desired_capacity=3) if kind == "scaling" else group(3, member, keys=policy))

    bad = member_files("two", "a")
    faulty = resource("OS::Heat::TestResource", fail=True)
    bad["file:///two/inner.yaml"] = json.dumps(template(parameters={"v": {"type": "string"}}, t=faulty))
    stack = engine.create(wanted("one"), files=member_files("one", "a"))
    stack = engine.patch(stack, template=wanted("two"), files=bad)
    assert outcome(stack) == "UPDATE_FAILED"
    for folder in ("three", "four"):
        stack = engine.patch(stack, template=wanted(folder), files=member_files(folder, "b"))
        assert outcome(stack) == "UPDATE_COMPLETE", stack.status_reason
    folders = {name.split("/")[3] for name in engine.store.templates.get(stack.template_id).files}
    assert folders == {"three", "four"}


def test_failed_members_are_rebuilt_and_go_first(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), desired_capacity=3)))
    inner = nested(engine, stack)
    before = engine.ids(inner)
    youngest = list(before)[-1]
    engine.mark(inner, youngest)
    stack = engine.patch(stack)
    after = engine.ids(inner)
    assert {name for name in before if after[name] != before[name]} == {youngest}
    assert after.keys() == before.keys()
    engine.mark(inner, youngest)
    engine.put(stack, template(g=scaling(thing("v"), desired_capacity=2)))
    assert engine.ids(inner).keys() == before.keys() - {youngest}


def test_an_update_without_a_desired_size_keeps_the_size(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), low=1, desired_capacity=3)))
    inner = nested(engine, stack)
    before = engine.ids(inner)
    engine.mark(inner, next(iter(before)))
    stack = engine.put(stack, template(g=scaling(thing("v"), low=1)))
    assert engine.ids(inner).keys() == before.keys()
    engine.put(stack, template(g=scaling(thing("v"), low=1, high=2)))
    assert len(engine.ids(inner)) == 2


# -- signals -----------------------------------------------------------------------------------------


def policy(by: float, cooldown: float | None = None, of: str = "g") -> Any:
    more = {} if cooldown is None else {"cooldown": cooldown}
    sizing = {"adjustment_type": "change_in_capacity", "scaling_adjustment": by, **more}
    return resource("OS::Heat::ScalingPolicy", auto_scaling_group_id={"get_resource": of}, **sizing)


def signal(engine: Engine, stack: StackRecord, name: str, details: dict[str, Any] | None = None, of: str = "g") -> None:
    """Signal a resource, and wait for what comes of it."""
    row = engine.components.reader.resource(stack, name)
    engine.components.signals.signal(engine.who, engine.get(stack), row, details)
    engine.wait_for(lambda: not engine.store.actions.live([nested(engine, stack, of).id]))


def test_signals_resize_a_group(engine: Engine) -> None:
    wanted = template(
        g=scaling(thing("v"), low=1, high=4, desired_capacity=2),
        up=policy(2),
        down=policy(-1),
        outputs={"size": attr("g", "current_size")},
    )
    stack = engine.create(wanted)
    inner = nested(engine, stack)
    first, since = set(engine.ids(inner)), engine.now_on(stack)
    engine.clock.pass_(10)
    signal(engine, stack, "up")
    assert engine.outputs(stack) == {"size": 4}
    assert first < set(engine.ids(inner))
    signal(engine, stack, "up")  # there may be no more
    signal(engine, stack, "down", {"current": "ok"})
    assert engine.outputs(stack) == {"size": 4}
    signal(engine, stack, "down", {"current": "alarm", "previous": "ok", "reason": "idle"})
    assert engine.outputs(stack) == {"size": 3}
    assert len(first & set(engine.ids(inner))) == 1  # the oldest go
    told = [event.status_reason for event in engine.events(stack)[since:]]
    assert told == [
        "No signal details provided",
        "Signal ignored: no_change: group g stays at 4 members; it has 1 to 4.",
        "alarm state changed from ok to alarm (idle)",
    ]
    # Without a desired size the next update would keep 3; with it, it is 2 again, as the template says.
    engine.patch(stack)
    assert engine.outputs(stack) == {"size": 2}


def test_metadata_follows_what_a_signal_changes(engine: Engine) -> None:
    sizes = {"n": attr("g", "current_size"), "all": attr("g", "outputs_list", "output")}
    document = template(
        g=scaling(thing("v"), desired_capacity=1), p=policy(1), b=resource("OS::Heat::None", keys={"metadata": sizes})
    )
    stack = engine.create(document)

    def told() -> Any:
        return engine.components.reader.metadata(engine.get(stack), engine.row(stack, "b"))

    assert told() == {"n": 1, "all": ["v"]}
    signal(engine, stack, "p")
    assert told() == {"n": 2, "all": ["v", "v"]}
    broken = resource("OS::Heat::TestResource", value="v", fail=True)
    other = resource("OS::Heat::None", keys={"metadata": {"other": attr("g", "current_size")}}, depends_on="t")
    stack = engine.put(stack, {**document, "resources": {**document["resources"], "t": broken, "b": other}})
    assert outcome(stack) == "UPDATE_FAILED"
    assert told() == {"n": 1, "all": ["v"]}, "the update has not reached it"


@pytest.mark.slow
def test_a_signal_in_the_cooldown_is_swallowed(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), low=1, cooldown=60), up=policy(1), fast=policy(1, 5)))
    engine.clock.pass_(60)
    with engine.clock.held():
        signal(engine, stack, "up")
        since = engine.now_on(stack)
        engine.clock.pass_(59)
        signal(engine, stack, "up")
        signal(engine, stack, "fast")
        assert len(members(engine, stack)) == 2
        told = [event.status_reason for event in engine.events(stack)[since:]]
        assert told == ["Signal ignored: cooldown"] * 2
        engine.clock.pass_(1)
        signal(engine, stack, "fast")
        engine.clock.pass_(5)
        signal(engine, stack, "up")
        assert len(members(engine, stack)) == 4


@pytest.mark.slow
def test_the_cooldown_begins_with_a_create_and_an_update(engine: Engine) -> None:
    def wanted(value: str) -> Any:
        return template(g=scaling(thing(value), low=1, cooldown=60), up=policy(1))

    stack = engine.create(wanted("v"))
    for _ in range(2):
        before = members(engine, stack)
        engine.clock.pass_(50)
        signal(engine, stack, "up")
        assert members(engine, stack) == before
        engine.clock.pass_(10)
        signal(engine, stack, "up")
        assert len(members(engine, stack)) == len(before) + 1
        engine.clock.pass_(60)
        stack = engine.put(stack, wanted("w"))
        assert outcome(stack) == "UPDATE_COMPLETE"


def test_a_signal_to_a_locked_group_is_ignored(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), low=1), up=policy(1)))
    engine.lock(stack)
    signal(engine, stack, "up")
    assert len(members(engine, stack)) == 1
    engine.unlock(stack)
    signal(engine, stack, "up")
    assert len(members(engine, stack)) == 2


def test_a_group_that_could_not_grow_tries_again(engine: Engine) -> None:
    stack = engine.create(template(g=scaling(thing("v"), low=1), up=policy(1)))
    inner = nested(engine, stack)
    member = next(iter(engine.ids(inner)))
    engine.mark(inner, member)
    # One of one has failed: an exact size of 1 is one more than are well.
    signal(engine, stack, "up")
    assert members(engine, stack) == {member: "CREATE_COMPLETE"}


# -- other operations --------------------------------------------------------------------------------

BOTH = [group(2, thing("v")), scaling(thing("v"), desired_capacity=2)]


@pytest.mark.parametrize("definition", few(BOTH))
def test_a_marked_group_is_replaced_whole(engine: Engine, definition: Any) -> None:
    stack = engine.create(template(g=definition))
    inner = nested(engine, stack)
    engine.mark(stack, "g")
    stack = engine.patch(stack)
    assert outcome(stack) == "UPDATE_COMPLETE"
    assert nested(engine, stack).id != inner.id
    assert outcome(engine.get(inner)) == "DELETE_COMPLETE"
    assert len(members(engine, stack)) == 2


@pytest.mark.parametrize("definition", few(BOTH))
def test_after_a_check_that_failed_the_members_decide(engine: Engine, definition: Any) -> None:
    stack = engine.create(template(g=definition))
    inner = nested(engine, stack)
    before = engine.ids(inner)
    ill = next(iter(before))
    for where, name in ((inner, ill), (stack, "g")):
        engine.put_row(where, name, Verb.CHECK, Status.FAILED)
        engine.put_stack(where, Verb.CHECK, Status.FAILED)
    stack = engine.patch(stack)
    assert nested(engine, stack).id == inner.id
    after = engine.ids(inner)
    assert {name for name in before if after.get(name) != before[name]} == {ill}


@pytest.mark.slow
@pytest.mark.parametrize("definition", few(BOTH))
def test_what_is_done_to_a_group_is_done_to_its_members(engine: Engine, definition: Any) -> None:
    stack = engine.create(template(g=definition))
    inner = nested(engine, stack)
    before = engine.ids(inner)
    for operation in (engine.suspend, engine.resume, engine.check, engine.lock, engine.unlock):
        stack = operation(stack)
        assert stack.status is Status.COMPLETE
        assert set(members(engine, stack).values()) == {f"{stack.verb}_COMPLETE"}
    assert engine.ids(inner) == before


@pytest.mark.slow
def test_a_rolling_update_that_is_cancelled_goes_back(engine: Engine) -> None:
    def slow(value: str) -> Any:
        properties = {"value": value, "action_wait_secs": {"update": 100}}
        definition = {"type": "OS::Heat::TestResource", "properties": properties}
        return template(g=group(3, definition, keys={"update_policy": {"rolling_update": {}}}))

    stack = engine.create(slow("v"), disable_rollback=False)
    inner = nested(engine, stack)
    with engine.clock.held():
        engine.put(stack, slow("w"), wait=False)
        engine.begun(lambda: engine.states(inner)["2"] == "UPDATE_IN_PROGRESS")
        engine.clock.pass_(100)
        engine.begun(lambda: engine.states(inner)["1"] == "UPDATE_IN_PROGRESS")
        assert engine.value(inner, "2") == "w"
        engine.cancel(stack, rollback=True, wait=False)
    stack = engine.settle(stack)
    assert outcome(stack) == "ROLLBACK_COMPLETE"
    assert [engine.value(inner, name) for name in "012"] == ["v", "v", "v"]


@pytest.mark.slow
@pytest.mark.parametrize("definition", few(BOTH))
def test_a_group_is_handed_over_with_its_members(engine: Engine, definition: Any) -> None:
    stack = engine.create(template(g=definition))
    names = set(members(engine, stack))
    record = read_record(json.dumps(engine.components.exports.abandon(engine.who, stack)))
    engine.settle(stack)
    adopted = engine.settle(engine.stacks.create(engine.who, StackRequest(name="n", adopted=record)))
    assert outcome(adopted) == "ADOPT_COMPLETE"
    assert members(engine, adopted) == dict.fromkeys(names, "ADOPT_COMPLETE")
    adopted = engine.patch(adopted)
    assert members(engine, adopted) == dict.fromkeys(names, "ADOPT_COMPLETE")


def test_a_preview_of_groups_changes_nothing(engine: Engine) -> None:
    before = template(g=group(2, thing("v")), a=scaling(thing("v"), low=1))
    after = template(g=group(3, thing("w")), a=scaling(thing("w"), low=2), b=group(attr("a", "current_size"), RANDOM))
    stack = engine.create(before)
    rows = [engine.rows(nested(engine, stack, name)) for name in ("g", "a")]
    changes = engine.stacks.preview_update(engine.who, stack, StackRequest(template=after), existing=False)
    assert {item.record.name for item in changes.updated} == {"g", "a"}
    assert {item.record.name for item in changes.added} == {"b"}
    assert [engine.rows(nested(engine, stack, name)) for name in ("g", "a")] == rows
