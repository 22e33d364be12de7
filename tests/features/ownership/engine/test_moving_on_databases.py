"""Moves on each kind of database: laws 2.2, 2.5 and 2.7, beside other operations."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random

import pytest

from heatlite.core.errors import Conflict, HTTPBadRequest, NotFound
from heatlite.core.json import dump
from heatlite.core.status import Status, Verb
from heatlite.engine.state.requests import StackRequest
from heatlite.features.ownership.moving import ResourceMoves
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, resource, template
from tests.features.ownership.engine.conftest import moving

VALUE, INNER = "OS::Heat::Value", "file:///inner.yaml"
pytestmark = [pytest.mark.slow, pytest.mark.database]


def moved(engine: Engine, source: StackRecord, names: Mapping[str, str], target: StackRecord | None = None) -> None:
    moves, to_stack = engine.components.of(ResourceMoves), None if target is None else target.id
    digest = moves.plan(engine.who, engine.get(source), moving(names, to_stack)).digest
    moves.start(engine.who, engine.get(source), moving(names, to_stack, digest), {"move": {}})


def root(engine: Engine, name: str) -> StackRecord:
    inner = {INNER: dump(template(y=resource(VALUE, value="größer " * 2000)))}
    own = {f"{name}{number}": resource(VALUE, value=number) for number in range(4)}
    return engine.create(template(**own, x={"type": INNER}), name, files=inner)


def waits(engine: Engine, stack: StackRecord) -> list[str]:
    """Return what the next update would do."""
    plan = engine.stacks.preview_update(engine.who, engine.get(stack), StackRequest(), existing=True, plan=True).plan
    assert plan is not None
    return ["/".join(one.path) for one in plan.resources if one.action != "keep"]


def test_to_another_stack_with_all_that_belongs_to_it(engine: Engine) -> None:
    here, there = root(engine, "a"), root(engine, "b")
    below = {stack.id: engine.store.stacks.descendants(stack)[0] for stack in (here, there)}
    (row,) = engine.store.resources.by_name(below[here.id].id, ["y"])
    told = [one.id for one in engine.events(below[here.id]) if one.resource_name == "y"]
    moved(engine, here, {"a0": "a1", "a1": "a0", "x/y": "x/z"})
    moved(engine, here, {"x/z": "x/z", "a0": "null"}, there)
    (after,) = engine.store.resources.by_name(below[there.id].id, ["z"])
    assert (after.id, after.properties, after.created_at) == (row.id, row.properties, row.created_at)
    events = [one for one in engine.events(below[there.id]) if one.resource_name == "z" and one.verb == Verb.CREATE]
    assert [one.id for one in events] == told
    shown = engine.store.events.after(below[there.id].id, min(told) - 1, 1)
    assert shown[0].properties == row.properties
    assert (waits(engine, here), waits(engine, there)) == ([], [])
    for stack in (here, there):
        assert engine.patch(stack).status is Status.COMPLETE
        assert engine.store.inconsistencies(engine.components.clock.now(), 0.0) == []
    engine.delete(here)
    assert engine.store.resources.by_name(below[there.id].id, ["z"])[0].id == row.id


def test_a_nested_stack_with_all_that_belongs_to_it(engine: Engine) -> None:
    """Large values, of rows and events, belong to the other tree then."""
    here, there = root(engine, "a"), root(engine, "b")
    below = engine.store.stacks.descendants(here)[0]
    (row,) = engine.store.resources.by_name(below.id, ["y"])
    told = [one.id for one in engine.events(below)]
    moved(engine, here, {"x": "x2"}, there)
    after = engine.store.stacks.get(below.id)
    assert after is not None and (after.root_id, after.parent_resource) == (there.id, "x2")
    assert engine.store.resources.by_name(below.id, ["y"]) == [row]
    assert (waits(engine, here), waits(engine, there)) == ([], [])
    engine.delete(here)
    later = engine.clock.now() + 10_000
    for _ in range(2):  # values without an owner go
        with engine.store.transaction():
            for owner in engine.store.large_values.unchecked(later, 100):
                engine.store.large_values.check(owner, later)
        later += 10_000
    assert engine.store.resources.by_name(below.id, ["y"])[0].properties == row.properties
    shown = engine.store.events.after(below.id, min(told) - 1, 10)
    assert next(one.properties for one in shown if one.resource_name == "y") == row.properties
    assert engine.patch(there).status is Status.COMPLETE
    assert engine.store.inconsistencies(engine.components.clock.now(), 0.0) == []


def test_law_each_row_is_in_one_stack_beside_moves_and_updates(engine: Engine) -> None:
    """Acceptance 5, with fewer moves: refused or done, nothing is lost or doubled."""
    roots = [root(engine, name) for name in ("a", "b")]
    ids = {row.id for stack in roots for row in engine.rows(stack)}

    def client(seed: int) -> int:
        random, done = Random(seed), 0
        for number in range(8):
            source, target = random.sample(roots, 2)
            name = random.choice([*{row.name for row in engine.rows(source)} - {"x"}] or ["x"])
            try:
                if number % 4 == 3:
                    engine.stacks.update(engine.who, engine.get(source), StackRequest(), existing=True)
                else:
                    moved(engine, source, {name: f"m{seed}x{number}"}, target)
                    done += 1
            except (Conflict, HTTPBadRequest, NotFound):
                pass
        return done

    with ThreadPoolExecutor(4) as pool:
        done = sum(pool.map(client, range(4)))
    for stack in roots:
        engine.settle(stack)
        assert waits(engine, stack) == []
    assert done > 0
    found = [row.id for stack in roots for row in engine.rows(stack)]
    assert (sorted(found), len(found)) == (sorted(ids), len(ids))
    assert engine.store.inconsistencies(engine.components.clock.now(), 0.0) == []
