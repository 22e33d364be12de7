"""Protected resources are neither deleted nor replaced (decision 0024)."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import (
    ActionConflict,
    DeletionProtected,
    HTTPBadRequest,
    InvalidStackState,
    ResourceIsLocked,
    ResourceNotFound,
    StackNotFound,
)
from heatlite.core.status import Status, Verb, state
from heatlite.engine.state.protected import is_made
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.store.records import PreviousState, ProtectionRecord, ResourceRecord, StackRecord
from tests.engine.conftest import Engine, attr, ref, resource, template, thing
from tests.engine.test_nested import child
from tests.engine.test_plan import actions, entry, planned
from tests.tables import few, sampled


def protect(engine: Engine, stack: StackRecord, name: str | None = None, reason: str | None = "the only copy") -> None:
    engine.components.protection.protect(engine.who, engine.get(stack), name, reason)


def unprotect(engine: Engine, stack: StackRecord, name: str | None = None) -> None:
    engine.components.protection.unprotect(engine.who, engine.get(stack), name, "moved")


def protecting(**blocks: object) -> dict[str, Any]:
    """An environment that protects the named resources, also in nested stacks."""
    made = {name: {"protect": {}} if block is True else block for name, block in blocks.items()}
    return {"resource_registry": {"resources": made}}


def held(engine: Engine, stack: StackRecord) -> set[str]:
    return {row.name for row in engine.rows(stack) if row.protection is not None}


def final(stack: StackRecord) -> str:
    return state(stack.verb, stack.status)


def replaced(value: str, **more: Any) -> Any:
    return thing(update_replace_value=value, **more)


def content(engine: Engine, stack: StackRecord) -> object:
    """All that a refusal must not change."""
    return engine.get(stack), engine.rows(stack), engine.events(stack)


def refused(engine: Engine, stack: StackRecord, what: Any) -> str:
    """Do what is to be refused, and see that it changes nothing; the reason."""
    before = content(engine, stack)
    with pytest.raises(DeletionProtected) as caught:
        what()
    assert content(engine, stack) == before
    return caught.value.message


LEAF = json.dumps(template(volume=replaced("1"), other=thing()))
MIDDLE = json.dumps(template(leaf=resource("leaf.yaml"), own=thing()))
FILES = {"leaf.yaml": LEAF, "middle.yaml": MIDDLE}
TREE = template(middle=resource("middle.yaml"), top=thing())

# -- the rule, in tables -------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("verb", "status", "made"),
    sampled(
        [
            (Verb.INIT, Status.COMPLETE, False),
            (Verb.CREATE, Status.IN_PROGRESS, False),
            (Verb.CREATE, Status.FAILED, False),
            (Verb.CREATE, Status.COMPLETE, True),
            (Verb.ADOPT, Status.FAILED, False),
            (Verb.ADOPT, Status.COMPLETE, True),
            (Verb.UPDATE, Status.FAILED, True),
            (Verb.CHECK, Status.FAILED, True),
            (Verb.SUSPEND, Status.COMPLETE, True),
            (Verb.DELETE, Status.FAILED, False),
        ],
        3,
        pytest.mark.thorough,
    ),
)
def test_protection_needs_an_object_that_was_finished(verb: Verb, status: Status, made: bool) -> None:
    row = ResourceRecord("1", "s", "a", "T", "T", verb, status, "", 1.0)
    assert is_made(row) is made
    if verb is not Verb.DELETE:
        earlier = PreviousState(verb, status, "")
        marked = replace(row, verb=Verb.CHECK, status=Status.FAILED, before_check=earlier)
        locked = replace(row, verb=Verb.UNLOCK, status=Status.COMPLETE, before_lock=earlier)
        assert [is_made(marked), is_made(locked)] == [made, made]


RETAINED = thing(keys={"deletion_policy": "Retain"})


def whole(**other: object) -> Any:
    """The table's template with changed resources; None removes one."""
    kept: dict[str, object] = {"a": replaced("1"), "b": replaced(ref("a")), "c": thing("1"), "d": RETAINED}
    return template(**{name: one for name, one in {**kept, **other}.items() if one is not None})


RESTRICTED = {"resource_registry": {"resources": {"a": {"restricted_actions": "replace"}}}}
CASES: dict[str, tuple[object, dict[str, Any], dict[str, str]]] = {
    # name: (template, what else there is in the request, the plan where all four are protected)
    "nothing changes": (whole(), {}, {}),
    "a replacement": (whole(a=replaced("2")), {}, {"a": "refuse"}),
    "another type": (whole(c=resource("OS::Heat::Value", value="1")), {}, {"c": "refuse"}),
    "it is no longer in the template": (whole(c=None), {}, {"c": "refuse"}),
    "its condition is false": (whole(c=thing("1", keys={"condition": False})), {}, {"c": "refuse"}),
    "its object would be retained": (whole(d=None), {}, {"d": "refuse"}),
    "another one comes": (whole(c=None, e=thing()), {}, {"c": "refuse", "e": "create"}),
    "a replacement that is restricted": (whole(a=replaced("2")), {"environment": RESTRICTED}, {"a": "refuse"}),
    "a change in place": (whole(c=thing("2")), {}, {"c": "update"}),
}


@pytest.fixture
def guarded(engine: Engine) -> StackRecord:
    stack = engine.create(whole())
    for name in ("a", "b", "c", "d"):
        protect(engine, stack, name)
    return stack


@pytest.mark.slow
def test_the_plan_and_the_update_refuse_the_same(engine: Engine, guarded: StackRecord) -> None:
    before = engine.rows(guarded)
    for name, (after, more, expected) in CASES.items():
        plan = planned(engine, guarded, after, **more)
        assert actions(plan) == expected, name
        assert all(item.is_protected for item in plan.resources if item.action != "create"), name
        if "refuse" not in expected.values():
            engine.put(guarded, after, **more)
            before = engine.rows(guarded)
            continue
        why = refused(engine, guarded, lambda after=after, more=more: engine.put(guarded, after, **more))
        assert all(f"resources.{key}: it would be" in why for key, what in expected.items() if what == "refuse"), name
        assert engine.rows(guarded) == before, name
    assert "the only copy" in why
    assert "heatlite unprotect s " in why


def test_a_mark_is_taken_and_its_replacement_is_refused_until_it_is_unprotected(
    engine: Engine, guarded: StackRecord
) -> None:
    before = engine.ids(guarded)
    engine.mark(guarded, "c", reason="disk errors")
    assert entry(planned(engine, guarded), "c").action == "refuse"
    why = refused(engine, guarded, lambda: engine.patch(guarded))
    assert "resources.c: it would be replaced (unhealthy: disk errors), but resource c of stack s is protected" in why
    assert '{"unprotect":{"resource":"c"}}' in why
    unprotect(engine, guarded, "c")
    assert final(engine.patch(guarded)) == "UPDATE_COMPLETE"
    after = engine.ids(guarded)
    assert (after["a"], after["b"]) == (before["a"], before["b"])
    assert after["c"] != before["c"]


def test_an_object_that_is_made_anew_because_another_is_counts_as_replaced(engine: Engine) -> None:
    stack = engine.create(template(a=replaced("1"), b=replaced(ref("a"))))
    protect(engine, stack, "b")
    why = refused(engine, stack, lambda: engine.put(stack, template(a=replaced("2"), b=replaced(ref("a")))))
    assert "resources.b: it would be replaced" in why


def test_an_object_that_was_found_gone_is_not_made_anew(engine: Engine, plugins: Path) -> None:
    """The cloud may be the wrong one."""
    place = plugins / "seen"
    stack = engine.create(template(a=resource("Test::Seen", place=str(place))))
    protect(engine, stack, "a")
    place.unlink()
    why = refused(engine, stack, lambda: engine.patch(stack, converge=True))
    assert "resources.a: it would be replaced (its object is gone), but resource a of stack s is protected" in why
    assert final(engine.patch(stack)) == "UPDATE_COMPLETE", "without a look nothing is to be done"
    unprotect(engine, stack, "a")
    assert final(engine.patch(stack, converge=True)) == "UPDATE_COMPLETE"
    assert place.exists()


@pytest.mark.parametrize("order", few(["delete_first", "rebuild"]))
def test_a_rebuild_in_place_and_a_deletion_first_are_replacements(engine: Engine, order: str) -> None:
    policy = {"update_policy": {"replacement": {"order": order}}}
    stack = engine.create(template(a=replaced("1", keys=policy)))
    protect(engine, stack, "a")
    refused(engine, stack, lambda: engine.put(stack, template(a=replaced("2", keys=policy))))


# -- the stack flag ------------------------------------------------------------------------------------


def test_a_protected_stack_is_not_deleted_by_any_way_but_may_be_given_away(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    protect(engine, stack)
    for force in (False, True):
        why = refused(engine, stack, lambda force=force: engine.stacks.delete(engine.who, engine.get(stack), force))
        assert "Stack s is not deleted: stack s is protected since" in why
        assert "by mia, reason: the only copy" in why
    assert final(engine.put(stack, template(b=thing()))) == "UPDATE_COMPLETE", "its resources may change"
    unprotect(engine, stack)
    assert final(engine.delete(stack)) == "DELETE_COMPLETE"


def test_a_nested_stack_that_is_protected_keeps_its_resource(engine: Engine) -> None:
    stack = engine.create(TREE, files=FILES)
    middle = child(engine, stack, "middle")
    leaf = child(engine, middle, "leaf")
    protect(engine, leaf)
    why = refused(engine, stack, lambda: engine.put(stack, template(top=thing())))
    assert f"resources.middle: it would be deleted, but stack {leaf.name} is protected" in why
    assert "is protected" in refused(engine, stack, lambda: engine.delete(stack))
    assert "is protected" in refused(engine, stack, lambda: engine.delete(middle))
    assert "is protected" in refused(engine, stack, lambda: engine.delete(leaf))
    assert {row.status for row in engine.rows(leaf)} == {Status.COMPLETE}


def test_nothing_below_a_protected_stack_is_deleted_as_a_stack(engine: Engine) -> None:
    """By itself, that is: an update of the protected stack may remove it."""
    stack = engine.create(TREE, files=FILES)
    middle = child(engine, stack, "middle")
    protect(engine, stack)
    refused(engine, stack, lambda: engine.delete(child(engine, middle, "leaf")))
    unprotect(engine, stack)
    protect(engine, stack, "middle")
    refused(engine, stack, lambda: engine.delete(middle))
    unprotect(engine, stack, "middle")
    protect(engine, stack)
    assert final(engine.put(stack, template(top=thing()))) == "UPDATE_COMPLETE"
    assert final(engine.get(middle)) == "DELETE_COMPLETE"


# -- deep inside ---------------------------------------------------------------------------------------


@pytest.mark.slow
def test_a_resource_deep_inside_keeps_all_that_it_is_in(engine: Engine) -> None:
    stack = engine.create(TREE, files=FILES)
    middle = child(engine, stack, "middle")
    leaf = child(engine, middle, "leaf")
    protect(engine, leaf, "volume")
    other = json.dumps(template(own=thing()))
    changed = json.dumps(template(volume=replaced("2"), other=thing()))
    for after, files, where in (
        (template(top=thing("new")), FILES, "resources.middle"),
        (TREE, {"middle.yaml": other}, "resources.middle.resources.leaf"),
        (TREE, {**FILES, "leaf.yaml": changed}, "resources.middle.resources.leaf.resources.volume"),
    ):
        why = refused(engine, stack, lambda after=after, files=files: engine.put(stack, after, files=files))
        assert f"{where}: it would be" in why
        assert f"resource volume of stack {leaf.name} is protected" in why
        plan = planned(engine, stack, after, files=files)
        place = tuple(where.removeprefix("resources.").split(".resources."))
        assert entry(plan, *place).action == "refuse"
        assert "delete" not in actions(plan).values()
    assert "volume" in refused(engine, stack, lambda: engine.delete(stack))
    engine.mark(stack, "middle")
    assert "resources.middle: it would be replaced" in refused(engine, stack, lambda: engine.patch(stack))
    assert entry(planned(engine, stack), "middle", "leaf", "volume").action == "keep"
    unprotect(engine, leaf, "volume")
    assert final(engine.delete(stack)) == "DELETE_COMPLETE"


def test_what_is_not_known_before_the_update_is_refused_within_it_and_nothing_of_it_goes(engine: Engine) -> None:
    """The number of members follows from the update's results."""
    member = {"type": "OS::Heat::TestResource"}
    group = resource("OS::Heat::ResourceGroup", count=attr("n", "output"), resource_def=member)
    stack = engine.create(template(n=thing("2"), g=group))
    nested = child(engine, stack, "g")
    protect(engine, nested, "1")
    since, before = engine.now_on(nested), engine.rows(nested)
    stack = engine.put(stack, template(n=thing("1"), g=group))
    assert final(stack) == "UPDATE_FAILED"
    assert "resources.1: it would be deleted, but resource 1 of stack" in stack.status_reason
    assert engine.rows(nested) == before
    assert engine.told(nested, since) == [f"{nested.name} UPDATE_IN_PROGRESS", f"{nested.name} UPDATE_FAILED"]


# -- groups --------------------------------------------------------------------------------------------

SCALED = template(
    g=resource(
        "OS::Heat::AutoScalingGroup", min_size=0, max_size=5, desired_capacity=2,
        resource={"type": "OS::Heat::TestResource"},
    ),
    less=resource(
        "OS::Heat::ScalingPolicy", auto_scaling_group_id=ref("g"), adjustment_type="change_in_capacity",
        scaling_adjustment=-1,
    ),
    more=resource(
        "OS::Heat::ScalingPolicy", auto_scaling_group_id=ref("g"), adjustment_type="change_in_capacity",
        scaling_adjustment=1,
    ),
)  # fmt: skip


def test_a_group_does_not_shrink_by_a_protected_member(engine: Engine) -> None:
    environment = protecting(g={"*": {"protect": {}}})
    stack = engine.create(SCALED, environment=environment)
    nested = child(engine, stack, "g")
    assert len(held(engine, nested)) == 2
    before = engine.rows(nested), engine.get(nested), engine.row(stack, "g")
    since = engine.now_on(stack)
    with pytest.raises(DeletionProtected, match=r"it would be deleted, but resource \w+ of stack"):
        engine.components.signals.signal(engine.who, stack, engine.row(stack, "less"), None)
    assert (engine.rows(nested), engine.get(nested), engine.row(stack, "g")) == before
    (event,) = engine.events(stack)[since:]
    assert (event.verb, event.status_reason.startswith("Signal refused: ")) == ("SIGNAL", True)
    engine.components.signals.signal(engine.who, stack, engine.row(stack, "more"), None)
    engine.settle(nested)
    assert len(held(engine, nested)) == 3, "a new member is protected once it is made"
    for row in engine.rows(nested):
        unprotect(engine, nested, row.name)
    engine.components.signals.signal(engine.who, stack, engine.row(stack, "less"), None)
    engine.settle(nested)
    assert len(held(engine, nested)) == 2, "the environment says so, at the end of each update"


# -- the rule of an environment ------------------------------------------------------------------------


def test_the_environment_protects_what_it_names_once_that_is_made(engine: Engine) -> None:
    data, within = {"protect": {"reason": "data"}}, {"volume": {"protect": {}}}
    environment = protecting(**{"db_*": data, "middle": {"protect": {}, "leaf": within}})
    document = template(middle=resource("middle.yaml"), db_1=thing(), web=thing())
    stack = engine.create(document, files=FILES, environment=environment)
    middle = child(engine, stack, "middle")
    leaf = child(engine, middle, "leaf")
    assert held(engine, stack) == {"db_1", "middle"}
    assert (held(engine, middle), held(engine, leaf)) == (set(), {"volume"})
    record = engine.row(stack, "db_1").protection
    assert record == ProtectionRecord("mia", record.at if record else 0.0, "data")
    told = [event for event in engine.events(stack) if event.verb == "PROTECT"]
    assert {(event.resource_name, event.status, event.status_reason) for event in told} == {
        ("middle", "COMPLETE", "protect by mia: the environment says so"),
        ("db_1", "COMPLETE", "protect by mia: data"),
    }
    refused(engine, stack, lambda: engine.delete(stack))


def test_neither_the_end_of_the_rule_nor_that_of_the_resource_lifts_it(engine: Engine) -> None:
    stack = engine.create(template(a=thing(), b=thing()), environment=protecting(a=True))
    why = refused(engine, stack, lambda: engine.put(stack, template(b=thing())))
    assert "resources.a: it would be deleted" in why
    stack = engine.put(stack, template(a=thing(), b=thing()))
    assert (final(stack), held(engine, stack)) == ("UPDATE_COMPLETE", {"a"})
    refused(engine, stack, lambda: engine.put(stack, template(b=thing())))
    unprotect(engine, stack, "a")
    assert final(engine.put(stack, template(b=thing()))) == "UPDATE_COMPLETE"


def test_a_rule_counts_for_the_update_that_brings_it(engine: Engine) -> None:
    stack = engine.create(template(a=replaced("1"), b=replaced("1")))
    after = template(a=replaced("2"), b=replaced("1"))
    why = refused(engine, stack, lambda: engine.put(stack, after, environment=protecting(a=True)))
    assert "resources.a: it would be replaced" in why
    assert held(engine, stack) == set(), "what is refused changes nothing"


def test_an_unprotect_lasts_until_the_next_update_has_succeeded(engine: Engine) -> None:
    stack = engine.create(template(a=replaced("1")), environment=protecting(a=True))
    unprotect(engine, stack, "a")
    before = engine.ids(stack)
    stack = engine.put(stack, template(a=replaced("2")), environment=protecting(a=True))
    assert (final(stack), held(engine, stack)) == ("UPDATE_COMPLETE", {"a"})
    assert engine.ids(stack) != before


@pytest.mark.parametrize("rolls_back", [True, False])
def test_what_fails_to_be_made_is_not_protected(engine: Engine, rolls_back: bool) -> None:
    document = template(a=thing(), boom=thing(fail=True, depends_on="a"))
    stack = engine.create(document, environment=protecting(**{"*": True}), disable_rollback=not rolls_back)
    assert final(stack) == ("ROLLBACK_COMPLETE" if rolls_back else "CREATE_FAILED")
    assert held(engine, stack) == set()
    assert final(engine.delete(stack)) == "DELETE_COMPLETE"


def test_an_update_that_is_rolled_back_removes_what_it_has_made(engine: Engine) -> None:
    environment = protecting(**{"*": True})
    stack = engine.create(template(a=thing("1")), environment=environment, disable_rollback=False)
    before = engine.ids(stack)
    after = template(a=thing("2"), b=thing(), boom=thing(fail=True, depends_on=["a", "b"]))
    stack = engine.put(stack, after, environment=environment, disable_rollback=False)
    assert (final(stack), engine.ids(stack), held(engine, stack)) == ("ROLLBACK_COMPLETE", before, {"a"})
    assert engine.value(stack, "a") == "1"


def test_a_bad_rule_is_refused(engine: Engine) -> None:
    for rule, fault in (
        (True, "protect must be a map"),
        ({"why": "x"}, 'protect has no key "why"'),
        ({"reason": 1}, "the reason of protect must be text"),
        ({"reason": "x" * 256}, "the reason of protect must be text of at most 255 characters"),
    ):
        environment = {"resource_registry": {"resources": {"a": {"protect": rule}}}}
        with pytest.raises(HTTPBadRequest, match=fault):
            engine.create(template(a=thing()), environment=environment)


# -- where a refusal is only known while it runs -------------------------------------------------------


def test_a_rollback_that_would_replace_it_is_refused_before_its_first_step(engine: Engine) -> None:
    """A failed change in place leaves an object that must be made anew."""
    stack = engine.create(template(a=thing("1")))
    protect(engine, stack, "a")
    before = engine.ids(stack)
    after = template(a=thing("2", fail=True), b=thing())
    stack = engine.put(stack, after, disable_rollback=False)
    assert final(stack) == "ROLLBACK_FAILED"
    assert engine.ids(stack)["a"] == before["a"]
    assert "DeletionProtected: resources.a: it would be replaced" in stack.status_reason


def test_a_type_that_asks_to_be_replaced_is_refused(engine: Engine) -> None:
    stack = engine.create(template(a=resource("Test::Choosy")))
    protect(engine, stack, "a")
    before = engine.ids(stack)
    stack = engine.put(stack, template(a=resource("Test::Choosy", value="x")))
    assert (final(stack), engine.ids(stack)) == ("UPDATE_FAILED", before)
    assert "its type asks to replace it, but resource a of stack s is protected" in stack.status_reason


def test_a_retry_is_refused_where_it_would_replace_it(engine: Engine) -> None:
    stack = engine.create(template(a=thing("1"), boom=thing("1")))
    protect(engine, stack, "a")
    stack = engine.put(stack, template(a=thing("2"), boom=thing("2", fail=True, depends_on="a")))
    assert final(stack) == "UPDATE_FAILED"
    engine.mark(stack, "a")
    refused(engine, stack, lambda: engine.stacks.retry(engine.who, engine.get(stack)))


def test_a_restore_is_refused_where_it_would_delete_it(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), None)
    engine.settle(stack)
    stack = engine.put(stack, template(a=thing(), b=thing()))
    protect(engine, stack, "b")
    snapshots = engine.components.snapshots
    why = refused(engine, stack, lambda: snapshots.restore(engine.who, engine.get(stack), snapshot.id))
    assert "resources.b: it would be deleted" in why
    unprotect(engine, stack, "b")
    protect(engine, stack, "a")
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    assert final(engine.settle(stack)) == "RESTORE_COMPLETE"
    assert held(engine, stack) == {"a"}


# -- who asks, and what is told ------------------------------------------------------------------------


def test_it_is_told_who_protects_and_why(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    since = engine.now_on(stack)
    protect(engine, stack, "a", None)
    protect(engine, stack)
    protect(engine, stack, reason="another reason")
    unprotect(engine, stack)
    unprotect(engine, stack)
    unprotect(engine, stack, "a")
    unprotect(engine, stack, "a")
    told = [(e.resource_name, e.verb, e.status, e.status_reason) for e in engine.events(stack)[since:]]
    assert told == [
        ("a", "PROTECT", "COMPLETE", "protect by mia"),
        ("s", "PROTECT", "COMPLETE", "protect by mia: the only copy"),
        ("s", "PROTECT", "COMPLETE", "protect by mia: another reason"),
        ("s", "UNPROTECT", "COMPLETE", "unprotect by mia: moved"),
        ("a", "UNPROTECT", "COMPLETE", "unprotect by mia: moved"),
    ]
    assert final(engine.get(stack)) == "CREATE_COMPLETE"


def test_what_is_not_there_cannot_be_protected(engine: Engine) -> None:
    stack = engine.create(template(a=thing(fail=True), b=thing()))
    with pytest.raises(ResourceNotFound):
        protect(engine, stack, "zz")
    with pytest.raises(InvalidStackState, match="no finished object"):
        protect(engine, stack, "a")
    engine.delete(stack)
    with pytest.raises(StackNotFound):
        protect(engine, stack)


def test_nothing_is_protected_while_something_runs(engine: Engine) -> None:
    """So what a running deletion has found unprotected stays so until its end."""
    stack = engine.create(template(a=thing(wait_secs=5), b=thing()))
    with engine.clock.held():
        engine.delete(stack, wait=False)
        for name in (None, "b"):
            with pytest.raises((ResourceIsLocked, ActionConflict)):
                protect(engine, stack, name)
    assert final(engine.settle(stack)) == "DELETE_COMPLETE"


def test_both_objects_are_kept_where_a_replacement_was_cut_off(engine: Engine) -> None:
    """Nobody knows which of the two has the data."""
    stack = engine.create(template(a=replaced("1"), boom=thing("1")))
    after = template(a=replaced("2"), boom=thing("2", fail=True, depends_on="a"))
    stack = engine.put(stack, after)
    assert final(stack) == "UPDATE_FAILED"
    assert len([row for row in engine.rows(stack) if row.name == "a"]) == 2
    protect(engine, stack, "a")
    refused(engine, stack, lambda: engine.put(stack, template(a=replaced("2"), boom=thing("1"))))
    unprotect(engine, stack, "a")
    assert final(engine.put(stack, template(a=replaced("2"), boom=thing("1")))) == "UPDATE_COMPLETE"


# -- with the stack, wherever it goes ------------------------------------------------------------------


@pytest.mark.slow
def test_it_goes_with_a_stack_that_is_given_away_and_adopted(engine: Engine) -> None:
    stack = engine.create(TREE, files=FILES)
    middle = child(engine, stack, "middle")
    leaf = child(engine, middle, "leaf")
    protect(engine, stack)
    protect(engine, middle)
    protect(engine, leaf, "volume")
    record = engine.components.exports.export(engine.get(stack))
    assert record["stack_protection"]["reason"] == "the only copy"  # type: ignore[index, call-overload]
    assert engine.components.exports.abandon(engine.who, engine.get(stack)).keys() == record.keys()
    assert final(engine.settle(stack)) == "DELETE_COMPLETE", "no object goes"
    record = json.loads(json.dumps(record))
    stack = engine.settle(engine.stacks.create(engine.who, StackRequest(name="s", adopted=read_record(record))))
    assert (final(stack), stack.protection is None) == ("ADOPT_COMPLETE", False)
    middle = child(engine, stack, "middle")
    leaf = child(engine, middle, "leaf")
    assert engine.get(middle).protection is not None
    assert held(engine, leaf) == {"volume"}
    refused(engine, stack, lambda: engine.delete(stack))


@pytest.mark.slow
def test_it_outlives_a_lock_and_a_suspension(engine: Engine) -> None:
    stack = engine.create(template(a=thing()))
    protect(engine, stack, "a")
    engine.suspend(stack)
    engine.resume(stack)
    engine.lock(stack)
    engine.unlock(stack)
    engine.check(stack)
    assert held(engine, stack) == {"a"}
    refused(engine, stack, lambda: engine.delete(stack))
    with engine.store.transaction():
        engine.store.resources.save_many([replace(engine.row(stack, "a"), protection=None)])
