"""Random histories: a restricted update is its plan, and does nothing else.

Laws D2–D4.
"""

from collections.abc import Callable, Iterable, Mapping
from itertools import count
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import PlanChanged
from heatlite.core.status import Status
from heatlite.engine.state.requests import PlannedResource, Reach, ShownPlan
from heatlite.store.records import StackRecord
from tests.laws import FEW_EXAMPLES

from .conftest import Engine, thing
from .test_plan import planned
from .test_plan_laws import FILES, Wish, allowed, document, tree, what_happened, wishes

USED: Mapping[str, Callable[[Wish], tuple[str, ...]]] = {
    "thing": lambda wish: (wish.changes, wish.replaces),
    "random": lambda wish: (wish.replaces,),
    **dict.fromkeys(("value", "k1.yaml", "k2.yaml"), lambda wish: (wish.changes,)),
}
"""The texts that a resource of a kind has."""


def by_path(plan: ShownPlan) -> dict[str, PlannedResource]:
    return {"/".join(one.path): one for one in plan.resources}


def lineage(path: str) -> set[str]:
    """The path, and those of what contains it."""
    parts = path.split("/")
    return {"/".join(parts[: number + 1]) for number in range(len(parts))}


def told(engine: Engine, stack: StackRecord, path: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """The events of each resource of the tree, by path."""
    found: dict[str, list[str]] = {}
    for event in engine.events(stack):
        found.setdefault("/".join((*path, event.resource_name)), []).append(event.id)
    for (name, *rest), (row, owner) in tree(engine, stack):
        nested = None if rest or owner.id != stack.id else engine.store.stacks.get(row.physical_id or "")
        if nested is not None:
            found |= told(engine, nested, (*path, name))
    return found


def closed(target: Iterable[str], wanted: Mapping[str, Wish]) -> set[str]:
    """The top names that a target takes, by the references of the template."""
    todo, taken = [path.partition("/")[0] for path in target], set[str]()
    while todo:
        name = todo.pop()
        if name not in taken:
            taken.add(name)
            wish = wanted.get(name)
            todo += [] if wish is None else [text[1:] for text in USED[wish.kind](wish) if text[0] == "@"]
    return taken


@pytest.mark.slow
@pytest.mark.parametrize("key", ["target", "exclude", "replace"])
def test_a_restricted_update_is_its_plan_and_a_part_of_the_whole_one(engine: Engine, key: str) -> None:
    numbers = count()

    @FEW_EXAMPLES
    @given(wishes(), wishes(), st.data())
    def law(first: dict[str, Wish], wanted: dict[str, Wish], data: st.DataObject) -> None:
        given: dict[str, Any] = {"files": FILES, "parameters": {"secret": "hunter1"}}
        stack = engine.create(document(first), f"s{next(numbers)}", **given)
        try:
            _check(engine, stack, key, wanted, data, given)
        finally:
            engine.delete(stack)

    law()


@pytest.mark.slow
def test_a_rollback_touches_no_more_than_its_update(engine: Engine) -> None:
    """Law D7: a failure at a random place is rolled back, after an update of a part."""
    numbers = count()

    @FEW_EXAMPLES
    @given(wishes(), wishes(), wishes(), st.data())
    def law(first: dict[str, Wish], second: dict[str, Wish], third: dict[str, Wish], data: st.DataObject) -> None:
        given: dict[str, Any] = {"files": FILES, "parameters": {"secret": "hunter1"}}
        stack = engine.create(document(first), f"r{next(numbers)}", **given)
        try:
            every = sorted(by_path(planned(engine, stack, document(second), **given)))
            left = tuple(data.draw(st.lists(st.sampled_from(every), min_size=1, max_size=2, unique=True)))
            stack = engine.put(stack, document(second), reach=Reach(exclude=left), **given)
            was, before, mark = stack.restricted, objects(engine, stack), engine.now_on(stack)
            bad = document(third)
            after = data.draw(st.lists(st.sampled_from(sorted(third)), max_size=2, unique=True))
            bad["resources"]["bad"] = thing(fail=True, depends_on=after)
            stack = engine.put(stack, bad, disable_rollback=False, **given)
            assert (stack.verb, stack.status) == ("ROLLBACK", Status.COMPLETE), stack.status_reason
            assert stack.restricted == was
            _check_rollback(engine, stack, before, mark, second)
            now = {"/".join(path): row for path, (row, _) in tree(engine, stack)}
            for path in was.left_out if was is not None else ():
                one, kept = now.get(path), before.get(tuple(path.split("/")))
                if one is not None:
                    assert kept == (one.id, one.physical_id, one.properties), path
        finally:
            engine.delete(stack)

    law()


def objects(engine: Engine, stack: StackRecord) -> dict[tuple[str, ...], tuple[object, ...]]:
    """Return the objects of a tree with their properties, by path."""
    return {path: (row.id, row.physical_id, row.properties) for path, (row, _) in tree(engine, stack)}


def _check_rollback(
    engine: Engine,
    stack: StackRecord,
    before: Mapping[tuple[str, ...], tuple[object, ...]],
    mark: int,
    wanted: Mapping[str, Wish],
) -> None:
    """Objects that the update has not reached, nor what they use, are as they were.

    None is more or less.
    """
    events = engine.events(stack)[mark:]
    (begin,) = [at for at, one in enumerate(engine.told(stack, mark)) if one.endswith("ROLLBACK_IN_PROGRESS")]
    now, reached = objects(engine, stack), {event.resource_name for event in events[:begin]}
    assert {path[0] for path in now} == {path[0] for path in before}
    for path, one in before.items():
        assert not reached.isdisjoint(closed(path[:1], wanted)) or now.get(path) == one, path


def _check(
    engine: Engine, stack: StackRecord, key: str, wanted: dict[str, Wish], data: st.DataObject, given: dict[str, Any]
) -> None:
    for row, owner in [found for _, found in tree(engine, stack)]:
        if data.draw(st.integers(0, 5)) == 0:
            engine.mark(owner, row.name)
    whole = planned(engine, stack, document(wanted), **given)
    every = by_path(whole)
    made = {path for path, one in every.items() if key != "replace" or one.action in ("keep", "update")}
    if not made:
        return
    named = data.draw(st.lists(st.sampled_from(sorted(made)), min_size=1, max_size=2, unique=True))
    if key == "replace":
        named = named[:1]
    reach = Reach(**{key: tuple(named)})
    plan = planned(engine, stack, document(wanted), reach=reach, **given)
    entries = by_path(plan)
    assert plan.digest != whole.digest
    with pytest.raises(PlanChanged):
        engine.put(stack, document(wanted), reach=reach, plan_digest=whole.digest, **given)
    _check_parts(key, named, entries, every, wanted)

    before, events = {path: row for path, (row, _) in tree(engine, stack)}, told(engine, stack)
    stack = engine.put(stack, document(wanted), reach=reach, plan_digest=plan.digest, **given)
    assert stack.status is Status.COMPLETE, stack.status_reason
    after, now = {path: row for path, (row, _) in tree(engine, stack)}, told(engine, stack)
    for path, one in entries.items():
        parts = tuple(path.split("/"))
        if one.selection == "left_out":
            assert before.get(parts) == after.get(parts), path
            assert events.get(path) == now.get(path), path
        else:
            assert what_happened(before.get(parts), after.get(parts)) in allowed(one), (path, one)
    done = planned(engine, stack, document(wanted), **given)
    left = {path for path, one in entries.items() if one.selection == "left_out"}
    for path, one in by_path(done).items():
        related = lineage(path) & left or {other for other in left if path in lineage(other)}
        held = one.cause.startswith("left over")  # an old object that something uses which is left out
        assert one.action == "keep" or related or held or _may_stay_open(every[path]), (path, one)
    engine.put(stack, document(wanted), **given)


def _changes(one: PlannedResource) -> bool:
    return one.action != "keep"


def _may_stay_open(one: PlannedResource) -> bool:
    """Its new value depends on what is not known before the update."""
    return any(found.is_open for found in one.differences)


def _check_parts(
    key: str,
    named: list[str],
    entries: Mapping[str, PlannedResource],
    every: Mapping[str, PlannedResource],
    wanted: Mapping[str, Wish],
) -> None:
    for path, one in entries.items():
        if key != "replace" and one.action != "keep" and one.selection != "left_out":
            assert every[path].action != "keep", (path, "is no part of the whole plan")
        if one.selection == "left_out":
            assert one.action == "keep" and one.cause.startswith("left out" if _changes(every[path]) else "")
    if key == "target":
        taken = closed(named, wanted)
        for path, one in entries.items():
            if "/" not in path and one.selection == "left_out":
                assert path not in taken
        assert all(entries[path].selection == "named" for path in named)
    elif key == "exclude":
        assert all(entries[path].action == "keep" for path in named if path in entries)
    else:
        assert [entries[path].action for path in named] == ["replace"]
