"""Facts of the core, as pure functions of rows."""

from itertools import product

import pytest
from msgspec.structs import replace

from heatlite.core.context import Context
from heatlite.core.errors import Conflict, StackLocked
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.why.facts import NEEDS_REASON, completed, reasons, why
from heatlite.engine.why.tree import ExplainedTree
from heatlite.engine.why.ways import Ways
from heatlite.store.records import ActionRecord, LockRecord, ServiceRecord, StackRecord

NOW = 1000.0
ENGINES = [ServiceRecord("engine", "host", "heatlite", NOW, NOW)]
HELD = [one for one in ActionStatus if one not in (ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED)]
LOCKS = [None, (Verb.LOCK, Status.COMPLETE), (Verb.LOCK, Status.FAILED), (Verb.UNLOCK, Status.FAILED)]


def stack_of(name: str, parent: StackRecord | None = None) -> StackRecord:
    found = StackRecord(name, name, "demo", "mia", "t", {}, Verb.CREATE, Status.COMPLETE, "", NOW)
    if parent is None:
        return found
    return replace(
        found, parent_id=parent.id, root_id=parent.root_id or parent.id, parent_resource=f"r{name}",
        depth=parent.depth + 1,
    )  # fmt: skip



def tree_of(
    locked: int | None, state: tuple[Verb, Status] | None, held: int, status: ActionStatus, verb: Verb
) -> ExplainedTree:
    """Three nested stacks with a lock on one of them and an action on one."""
    root = stack_of("root")
    middle = stack_of("middle", root)
    stacks = [root, middle, stack_of("leaf", middle)]
    if locked is not None and state is not None:
        lock = LockRecord(LockLevel.ALL, "mia", False, NOW)
        stacks[locked] = replace(stacks[locked], verb=state[0], status=state[1], lock=lock)
    action = ActionRecord(
        "action", stacks[held].id, "root", "demo", verb, status, "mia", NOW, started_at=NOW,
        not_before=NOW + 9 if status is ActionStatus.INIT else None,
    )  # fmt: skip
    holding = frozenset([action.id] if status is not ActionStatus.INIT else [])
    return ExplainedTree(stacks, [], [action], holding, {}, {}, {}, ENGINES, NOW, Context("demo"))


@pytest.mark.slow
def test_what_refuses_is_a_fact() -> None:
    """The holder of each refusal by a lock or an action is one of the facts."""
    refused = 0
    locks = [(None, None), *product(range(3), LOCKS[1:])]
    for (locked, state), held, status, verb in product(locks, range(3), HELD, (Verb.UPDATE, Verb.DELETE, Verb.RUN)):
        tree = tree_of(locked, state, held, status, verb)
        told = completed(tree, why(tree))
        ids = {(one.fact.what, one.fact.id) for one in told}
        for stack, operation in product(tree.stacks, Operation):
            error = tree.refusal(operation, stack)
            if isinstance(error, StackLocked) or tree.holder(operation, stack) is not None and error is not None:
                assert isinstance(error, Conflict) and error.holder is not None and error.way_out
                refused += 1
                assert (error.holder.kind, error.holder.id) in ids
    assert refused > 1000


def test_each_action_that_waits_has_a_reason() -> None:
    for held, status in product(range(3), HELD):
        tree = tree_of(None, None, held, status, Verb.UPDATE)
        told = completed(tree, why(tree))
        assert ("action" in reasons(told)) == (status in NEEDS_REASON)
        assert all(one.fact.text for one in told)


def test_a_step_comes_after_what_it_needs() -> None:
    """The unlock of an inner stack comes after that of the outer one."""
    root = replace(stack_of("root"), verb=Verb.LOCK, lock=LockRecord(LockLevel.ALL, "mia", False, NOW))
    inner = replace(stack_of("in", root), verb=Verb.LOCK, lock=LockRecord(LockLevel.ALL, "mia", False, NOW))
    tree = ExplainedTree([root, inner], [], [], frozenset(), {}, {}, {}, ENGINES, NOW, Context("demo"))
    outer, nested = (one.fact for one in why(tree))
    assert [way.after for way in outer.way_out] == [None, None]
    unlocks = [(way.command, way.after) for way in nested.way_out if way.method == "POST"]
    assert unlocks == [("heatlite unlock root", None), ("heatlite unlock in", 1)]


def test_an_operation_on_a_suspended_stack_comes_after_its_resume() -> None:
    """Each operation that the server refuses for that, and no other."""
    asleep = replace(stack_of("root"), verb=Verb.SUSPEND)
    tree, found = ExplainedTree([asleep], [], [], frozenset(), {}, {}, {}, ENGINES, NOW, Context("demo")), set()
    for operation in Operation:
        ways = Ways(tree)
        ways.operation(operation, asleep, "", "command")
        if tree.refusal(operation, asleep) is None:
            assert [one.command for one in ways.steps] == ["command"], operation
        elif ways.steps:
            assert [(one.command, one.after) for one in ways.steps] == [
                ("openstack stack resume root", None), ("command", 0),
            ]  # fmt: skip
            found.add(operation)
    assert Operation.UPDATE in found


def test_the_lock_of_an_administrator_is_not_lifted_by_others() -> None:
    lock = LockRecord(LockLevel.ALL, "root", True, NOW)
    tree = tree_of(None, None, 0, ActionStatus.RUNNING, Verb.UPDATE)
    locked = replace(tree.root, verb=Verb.LOCK, status=Status.COMPLETE, lock=lock)
    tree = ExplainedTree(
        [locked], [], [], frozenset(), {}, {}, {}, ENGINES, NOW, Context("demo", roles=frozenset({"member"}))
    )
    (told,) = why(tree)
    assert all(way.method in (None, "GET") for way in told.fact.way_out)
    assert "ask one" in told.fact.way_out[-1].text
