"""Revisions that are made, kept and swept."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus
from heatlite.engine.state.requests import Adopted
from heatlite.feature import installed
from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.store import ChangePolicyStore
from heatlite.features.ownership.bodies import MovedResource, MoveRequest
from heatlite.features.ownership.moving import ResourceMoves
from heatlite.features.revisions.keeping import KEPT, PER_REMOVAL
from heatlite.store.admin.rotation import rotate
from heatlite.store.secrets.cipher import PREFIX, new_key
from heatlite.store.stacks.templates import TEMPLATE_GRACE
from heatlite.store.writes.large_values import LARGE_VALUE_GRACE
from tests.engine.conftest import Engine
from tests.features.revisions.engine.conftest import Kept
from tests.types.conftest import Cloudy

pytestmark = pytest.mark.database
ENDED, FAILED = ActionStatus.SUCCEEDED, ActionStatus.FAILED
LARGE = "large" * 30_000
SECRET = "tr0ub4dor-and-3"


def value(of: object) -> dict[str, object]:
    return {"type": "OS::Heat::Value", "properties": {"value": of}}


def made(**resources: object) -> dict[str, Any]:
    return {"heat_template_version": "2021-04-16", "resources": resources}


def failing(of: object) -> dict[str, Any]:
    return made(a=value(of), bad={"type": "OS::Heat::TestResource", "properties": {"fail": True}})


def policy(engine: Engine, stack_id: str, **keys: object) -> None:
    """Give a stack a change policy."""
    document: JsonMap = {"change_policy": "2026-11-28", **keys}  # type: ignore[dict-item]
    with engine.store.transaction():
        engine.store.of(ChangePolicyStore).put(
            ChangePolicyRecord(engine.who.project, stack_id, document, 1, "ada", engine.clock.now())
        )


def swept(engine: Engine, grace: float) -> None:
    """Let retention pass twice: note what is unused, then delete it."""
    for _ in range(2):
        engine.clock.pass_(2 * grace)
        engine.wait_for(lambda: not engine.store.templates.unreferenced(1))
        engine.wait_for(lambda: not engine.store.large_values.unchecked(engine.clock.now() - grace, 1))


def templates(engine: Engine) -> int:
    return len(engine.store.database.read("SELECT id FROM template"))


def test_checks_make_none(engine: Engine, kept: Kept) -> None:
    """Law F: what keeps the definition makes no revision."""
    stack = engine.create(failing("x"))
    assert kept.results(stack) == [FAILED]
    stack = engine.put(stack, made(a=value("x")))
    engine.check(stack)
    engine.suspend(stack)
    engine.resume(stack)
    assert kept.results(stack) == [FAILED, ENDED]
    engine.patch(stack)
    assert kept.results(stack) == [FAILED, ENDED, ENDED]


def test_a_retry_reaches_the_newest(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(faults=[{"verb": "network.create_network", "number": 1, "raises": "refused"}])
    stack = cloudy.create(made(net={"type": "OS::Neutron::Net"}))
    assert Kept(cloudy).results(stack) == [FAILED]
    cloudy.stacks.retry(cloudy.who, cloudy.get(stack))
    assert cloudy.settle(stack).status == "COMPLETE"
    assert Kept(cloudy).results(stack) == [ENDED]


def test_restores_adoptions_and_moves_make_one(engine: Engine, kept: Kept) -> None:
    stack = engine.create(made(a=value("x")))
    engine.components.snapshots.take(engine.who, engine.get(stack), "n")
    engine.settle(stack)
    (snapshot,) = engine.store.snapshots.of(stack.id)
    engine.put(stack, made(a=value("y")))
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    engine.settle(stack)
    assert kept.results(stack) == [ENDED] * 3
    engine.components.snapshots.delete(engine.who, engine.get(stack), snapshot.id)
    engine.settle(stack)
    moves, asked = engine.components.of(ResourceMoves), MoveRequest(moved=(MovedResource("a", "b"),))
    digest = moves.plan(engine.who, engine.get(stack), asked).digest
    moves.start(engine.who, engine.get(stack), MoveRequest(moved=asked.moved, plan_digest=digest), {"move": {}})
    newest = kept.of(stack)[-1]
    told = (newest.number, newest.result, newest.plan_digest, newest.operation)
    assert told == (4, ENDED, digest, "move")
    record = Adopted(made(), {}, {}, {})
    adopted = engine.create(None, "other", adopted=record)
    assert kept.results(adopted) == [ENDED]


@pytest.mark.slow
def test_the_number_of_a_policy(engine: Engine, kept: Kept) -> None:
    """Retention: the newest ones, the present one, and the last that was reached."""
    stack = engine.create(made(a=value(0)))
    policy(engine, stack.id, revisions=2)
    for number in range(1, PER_REMOVAL):
        assert kept.numbers(stack) == [*range(1, number + 1)]
        engine.put(stack, made(a=value(number)))
    assert kept.numbers(stack) == [PER_REMOVAL - 1, PER_REMOVAL]
    for number in range(PER_REMOVAL):
        engine.put(stack, failing(number))
    assert kept.numbers(stack) == [PER_REMOVAL, 2 * PER_REMOVAL - 1, 2 * PER_REMOVAL]
    assert kept.results(stack) == [ENDED, FAILED, FAILED]
    swept(engine, TEMPLATE_GRACE)
    engine.wait_for(lambda: templates(engine) == 3)
    stack = kept.undo(stack)
    assert stack.status == "COMPLETE"
    assert engine.value(stack, "a") == PER_REMOVAL - 1


@pytest.mark.slow
def test_twenty_without_a_policy(engine: Engine, kept: Kept) -> None:
    stack = engine.create(made(a=value(0)))
    for number in range(1, 3 * PER_REMOVAL):
        engine.put(stack, made(a=value(number)))
    assert kept.numbers(stack) == [*range(3 * PER_REMOVAL - KEPT + 1, 3 * PER_REMOVAL + 1)]
    swept(engine, TEMPLATE_GRACE)
    engine.wait_for(lambda: templates(engine) == 20)


@pytest.mark.slow
def test_an_unchanged_definition_costs_little(engine: Engine, kept: Kept) -> None:
    """A template of 500 kB and a parameter of 150 kB are stored once."""
    template = {**made(a=value("x"), b=value("y" * 500_000)), "parameters": {"p": {"type": "string", "default": ""}}}
    stack = engine.create(template, parameters={"p": LARGE})
    for _ in range(3):
        engine.patch(stack)
    (row,) = engine.store.database.read(
        "SELECT SUM(LENGTH(environment) + LENGTH(tags) + LENGTH(template_id)) FROM revision WHERE stack_id = ?",
        (stack.id,),
    )
    assert int(row[0]) / 4 < 600
    assert templates(engine) == 1
    sql = "SELECT COUNT(*) FROM large_value WHERE content LIKE ?"
    (values,) = engine.store.database.read(sql, ("%large%",))
    assert values[0] <= 2


@pytest.mark.slow
def test_large_values_stay_while_a_revision_has_them(engine: Engine, kept: Kept) -> None:
    template = {**made(), "parameters": {"p": {"type": "string", "default": ""}}}
    stack = engine.create(template, parameters={"p": LARGE})
    engine.put(stack, template)
    engine.put(stack, template)
    swept(engine, LARGE_VALUE_GRACE)
    stack = kept.undo(stack, to=1)
    assert engine.get(stack).environment["parameters"] == {"p": LARGE}
    assert engine.store.inconsistencies(engine.clock.now(), 0.0) == []


def test_first_operation_after_an_upgrade(engine: Engine, kept: Kept) -> None:
    """F7: the stored definition becomes revision 1."""
    stack = engine.create(made(a=value("old")), tags=("t",), timeout_mins=7)
    with engine.store.transaction():
        kept.store.stacks_removed([stack.id])
    assert engine.check(stack) and kept.of(stack) == []
    engine.put(stack, made(a=value("new")))
    first, second = kept.of(stack)
    assert (first.number, first.result, first.action_id, first.tags, first.timeout_mins) == (1, ENDED, None, ("t",), 7)
    assert (second.number, second.result) == (2, ENDED)
    assert engine.value(kept.undo(stack), "a") == "old"
    assert engine.get(stack).tags == ("t",)


def test_upgrade_of_a_failed_update(engine: Engine, kept: Kept) -> None:
    """The target of a rollback becomes a revision, too."""
    stack = engine.put(engine.create(made(a=value("old"))), failing("new"))
    with engine.store.transaction():
        kept.store.stacks_removed([stack.id])
    assert [(one.number, one.result) for one in kept.operations.of_stack(stack)] == [(2, FAILED), (1, ENDED)]
    stack = kept.undo(stack)
    assert (stack.status, engine.value(stack, "a")) == ("COMPLETE", "old")
    assert kept.results(stack) == [ENDED, FAILED, ENDED]
    assert kept.of(stack)[-1].undo_of == 1


def test_upgrade_of_a_rolled_back_create(engine: Engine, kept: Kept) -> None:
    """The empty template of its rollback is none of its definitions."""
    stack = engine.create(failing("x"), disable_rollback=False)
    with engine.store.transaction():
        kept.store.stacks_removed([stack.id])
    assert [one.number for one in kept.operations.of_stack(stack)] == [1]
    assert kept.results(engine.put(stack, made(a=value("y")))) == [FAILED, ENDED]


def switch(engine: Engine, *, on: bool) -> None:
    """Restart the engine with or without the feature."""
    names = tuple(one.name for one in installed() if on or one.name != "revisions")
    engine.end()
    engine.settings = replace(engine.settings, features=names)
    engine.open()


MEANWHILE = {
    "an update": ([made(a=value("c"))], [ENDED, ENDED, ENDED], "b", "c"),
    "two": ([made(a=value("c")), made(a=value("d"))], [ENDED, ENDED, ENDED], "b", "d"),
    "one that fails": ([failing("c")], [ENDED, ENDED, FAILED], "b", "b"),
    "one after it": ([made(a=value("c")), failing("d")], [ENDED, ENDED, ENDED, FAILED], "c", "c"),
    "nothing": ([], [ENDED, ENDED], "a", "b"),
}
"""Definitions of a time with the feature off; ends of the revisions then.

Then the values to which an undo leads, at once and after another update.
"""


@pytest.mark.slow
@pytest.mark.parametrize("case", MEANWHILE)
@pytest.mark.parametrize("begins", ["undo", "update"])
def test_a_time_with_the_feature_off(engine: Engine, kept: Kept, case: str, begins: str) -> None:
    """Definitions of that time are revisions, so an undo leads to the one before."""
    given, results, at_once, after = MEANWHILE[case]
    stack = engine.put(engine.create(made(a=value("a"))), made(a=value("b")))
    switch(engine, on=False)
    for one in given:
        stack = engine.put(stack, one)
    switch(engine, on=True)
    shown = [one.result for one in kept.operations.of_stack(engine.get(stack))]
    assert shown == results[::-1]
    if begins == "update":
        stack = engine.put(stack, made(a=value("z")))
        assert kept.results(stack) == [*results, ENDED]
    stack = kept.undo(stack)
    assert engine.value(stack, "a") == (after if begins == "update" else at_once)
    assert kept.numbers(stack) == [*range(1, len(kept.numbers(stack)) + 1)]


@pytest.mark.slow
@pytest.mark.parametrize("is_on", [False, True])
@pytest.mark.parametrize("rolls_back", [False, True])
def test_results_outlive_their_actions(engine: Engine, kept: Kept, rolls_back: bool, is_on: bool) -> None:
    """The actions go while the feature is on, or off.

    A definition that a rollback has brought back makes no revision.
    """
    stack = engine.create(made(a=value("a")))
    wanted = failing("b") if rolls_back else made(a=value("b"))
    stack = engine.put(stack, wanted, disable_rollback=not rolls_back)
    results = [ENDED, FAILED if rolls_back else ENDED]
    assert kept.results(stack) == results
    switch(engine, on=is_on)
    ids = [id_ for (id_,) in engine.store.database.read("SELECT id FROM action WHERE stack_id = ?", (stack.id,))]
    with engine.store.transaction():
        engine.store.actions.remove(ids)
    switch(engine, on=True)
    assert engine.store.actions.existing(ids) == set()
    assert kept.results(stack) == results
    engine.put(stack, made(a=value("c")))
    assert kept.results(stack) == [*results, ENDED]
    assert engine.value(kept.undo(stack), "a") == ("a" if rolls_back else "b")


def test_rows_go_with_their_stack(engine: Engine, kept: Kept) -> None:
    stack = engine.delete(engine.create(made(a=value("x"))))
    assert kept.numbers(stack) == [1]
    with engine.store.transaction():
        engine.store.stacks.remove([stack.id])
    assert kept.numbers(stack) == []


def secrets_in_clear(engine: Engine) -> list[str]:
    """The tables that have the secret in clear."""
    database = engine.store.database
    columns = {"revision": ("environment",), "template": ("document", "files"), "stack": ("environment",)}
    return [
        table
        for table, names in columns.items()
        for name in names
        if database.read(f"SELECT 1 FROM {table} WHERE {name} LIKE ?", (f"%{SECRET}%",))
    ]


def test_revisions_are_sealed_with_their_stack(place: Path, plugins: Path) -> None:
    """Once something is hidden, what revisions had in clear is encrypted, too."""
    engine = Engine(place, encryption_keys=[new_key()])
    kept = Kept(engine)
    shown = {**made(a=value({"get_param": "p"})), "parameters": {"p": {"type": "string", "default": SECRET}}}
    stack = engine.create(shown, parameters={"p": SECRET})
    engine.put(stack, made())
    assert secrets_in_clear(engine) == ["revision", "template"]
    hidden = {**shown, "parameters": {"p": {"type": "string", "default": SECRET, "hidden": True}}}
    engine.put(stack, hidden, parameters={"p": SECRET})
    assert secrets_in_clear(engine) == []
    assert engine.value(kept.undo(stack, to=1), "a") == SECRET
    engine.close()


@pytest.mark.slow
def test_keys_rotate(place: Path, plugins: Path) -> None:
    old, new = new_key(), new_key()
    engine = Engine(place, encryption_keys=[old])
    hidden = {**made(), "parameters": {"p": {"type": "string", "hidden": True}}}
    stack = engine.create(hidden, parameters={"p": SECRET})
    engine.put(stack, made())
    engine.close()
    engine = Engine(place, encryption_keys=[new, old])
    assert rotate(engine.store.encryption).unreadable == []
    engine.close()
    engine = Engine(place, encryption_keys=[new])
    kept = Kept(engine)
    (text,) = engine.store.database.read("SELECT environment FROM revision WHERE number = 1")[0]
    assert text.startswith(PREFIX)
    whole = kept.operations.get(engine.get(stack), 1)
    assert whole.environment["parameters"] == {"p": SECRET}
    engine.close()


@pytest.mark.thorough
def test_two_hundred_of_two_megabytes(engine: Engine, kept: Kept) -> None:
    """Acceptance 4: what does not change is stored once, and a list reads no content."""
    large = "".join(chr(33 + number % 90) for number in range(2 * 1024 * 1024))
    text = {"type": "string", "default": ""}
    stack = engine.create({**made(), "parameters": {"p": text, "n": text}}, parameters={"p": large})
    policy(engine, stack.id, revisions=200)
    for number in range(209):
        engine.patch(stack, parameters={"n": str(number)})
    assert kept.numbers(stack) == [*range(11, 211)]
    ((rows,),) = engine.store.database.read("SELECT SUM(LENGTH(environment)) FROM revision")
    assert int(rows) < 200 * 1000
    swept(engine, LARGE_VALUE_GRACE)
    ((values,),) = engine.store.database.read("SELECT SUM(LENGTH(content)) FROM large_value")
    assert int(values) < 2 * len(large)
    stack = kept.undo(stack, to=100)
    assert engine.get(stack).environment["parameters"] == {"p": large, "n": "98"}
