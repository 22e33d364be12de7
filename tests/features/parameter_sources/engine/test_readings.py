"""Readings in transactions, rollbacks and restores, and their rows."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import CircularDependencyException, StackNotFound
from heatlite.core.json import JsonMap
from heatlite.core.status import LockLevel, Verb
from heatlite.engine.admission.claims import ChangeKind
from heatlite.engine.admission.preparation import Prepared
from heatlite.engine.state.requests import StackRequest
from heatlite.features.change_policy.store.records import ChangePolicyRecord
from heatlite.features.change_policy.store.store import ChangePolicyStore
from heatlite.features.parameter_sources.errors import OutputInUse, SourceChanged
from heatlite.features.parameter_sources.examiner import ReaderExaminer
from heatlite.features.parameter_sources.outputs import Outputs
from heatlite.features.parameter_sources.readings import of_stack
from heatlite.features.parameter_sources.store.store import ReadingStore
from heatlite.features.parameter_sources.supply import KEPT, SourceSupplier
from heatlite.store.records import StackRecord
from heatlite.store.secrets.cipher import PREFIX
from tests.engine.conftest import Engine, attr, ref, resource, template, thing

pytestmark = pytest.mark.database
SECRET = "tr0ub4dor-and-3"


def made(hidden: bool = False, **resources: object) -> dict[str, Any]:
    """A template whose output is its parameter."""
    return {
        "heat_template_version": "2021-04-16",
        "parameters": {"v": {"type": "string", "hidden": hidden}},
        "resources": resources,
        "outputs": {"v": {"value": {"get_param": "v"}}},
    }


def of(name: str) -> JsonMap:
    return {"parameter_sources": {"v": {"stack": name, "output": "v"}}}


def held(engine: Engine, stack: StackRecord) -> list[object]:
    """The values of the readings that hold."""
    return [one.value for one in of_stack(engine.store, engine.get(stack))]


def supplied(engine: Engine, stack: StackRecord, further: JsonMap) -> Prepared:
    """A request as it is before its transaction."""
    return engine.components.preparation.changed(engine.get(stack), StackRequest(further=further), existing=True)


def take(engine: Engine, stack: StackRecord, prepared: Prepared) -> None:
    """Write what a request writes in its transaction."""
    action = engine.store.actions.last(stack.id, Verb.CREATE)
    assert action is not None
    with engine.store.transaction():
        prepared.supply(action, engine.get(stack))


def test_owner_changed_before_the_transaction(engine: Engine) -> None:
    """Law Z3: a value of a definition that the owner has no longer is not stored."""
    base = engine.create(made(), "base", parameters={"v": "a"})
    reader = engine.create(made(), "reader", parameters={"v": "own"})
    prepared = supplied(engine, reader, of("base"))
    engine.patch(base, parameters={"v": "b"})
    with pytest.raises(SourceChanged, match="output v was read for parameter v") as refused:
        take(engine, reader, prepared)
    assert refused.value.holder.id == base.id
    prepared = supplied(engine, reader, of("base"))
    engine.delete(base)
    with pytest.raises(SourceChanged):
        take(engine, reader, prepared)
    assert engine.store.of(ReadingStore).of_owner(base.id) == []


def test_grant_withdrawn_before_the_transaction(engine: Engine) -> None:
    """Law Z3: the grant counts that the transaction finds."""
    base = engine.create(made(), "base", parameters={"v": "a"})
    other = engine.who.project + "-other"
    rows, now = engine.store.of(ChangePolicyStore), engine.clock.now()
    policy: JsonMap = {"change_policy": "2026-11-28", "grants": [{"project": other, "outputs": ["v"]}]}
    with engine.store.transaction():
        rows.put(ChangePolicyRecord(engine.who.project, base.id, policy, 1, "ada", now))
    mine, engine.who = engine.who, replace(engine.who, project=other)
    reader = engine.create(made(), "reader", parameters={"v": "own"})
    source = {"parameter_sources": {"v": {"stack": "base", "output": "v", "project": mine.project}}}
    prepared = supplied(engine, reader, source)
    with engine.store.transaction():
        rows.put(ChangePolicyRecord(mine.project, base.id, None, 2, "ada", now))
    with pytest.raises(SourceChanged):
        take(engine, reader, prepared)


def tree(value: str) -> dict[str, Any]:
    """An owner with outputs of an object, of a nested stack and of a group."""
    one = thing(value, update_replace_value=value)
    low = {**template(x=one), "outputs": {"v": {"value": ref("x")}}}
    group = resource("OS::Heat::AutoScalingGroup", min_size=1, max_size=5, desired_capacity=1, resource=thing("1"))
    up: Any = {"adjustment_type": "change_in_capacity", "auto_scaling_group_id": ref("g"), "scaling_adjustment": 1}
    outputs = {"object": ref("a"), "nested": attr("n", "v"), "size": attr("g", "current_size"), "plain": "same"}
    resources = template(a=one, n=resource("low.yaml"), g=group, up=resource("OS::Heat::ScalingPolicy", **up), b=one)
    return {
        "template": {**resources, "outputs": {name: {"value": value} for name, value in outputs.items()}},
        "files": {"low.yaml": json.dumps(low)},
    }


def unhealthy(name: str) -> Callable[[Engine, StackRecord], object]:
    """The same definition again, with another object."""

    def changes(engine: Engine, stack: StackRecord) -> None:
        nested = engine.store.stacks.get(engine.row(stack, "n").physical_id or "")
        engine.mark(nested if name == "x" and nested is not None else stack, name)
        engine.patch(stack)

    return changes


def scaled(engine: Engine, stack: StackRecord) -> None:
    policy = engine.components.reader.resource(stack, "up")
    engine.components.signals.signal(engine.who, stack, policy, None)
    engine.wait_for(lambda: not engine.store.actions.live([one.id for one in engine.store.stacks.descendants(stack)]))


def locked(engine: Engine, stack: StackRecord) -> None:
    engine.lock(stack, LockLevel.STACKS)


def checked(engine: Engine, stack: StackRecord) -> None:
    engine.stacks.check(engine.who, stack)
    engine.settle(stack)


MEANWHILE: dict[str, tuple[Callable[[Engine, StackRecord], object], set[str]]] = {
    "object": (unhealthy("a"), {"object"}),
    "nested": (unhealthy("x"), {"nested"}),
    "other": (unhealthy("b"), set()),
    "scaled": (scaled, {"size"}),
    "defined": (lambda engine, stack: engine.put(stack, **tree("2")), {"object", "nested", "size", "plain"}),
    "locked": (locked, set()),
    "checked": (checked, set()),
}
"""Changes of the owner between the reading and the transaction, with the outputs that they concern."""


@pytest.mark.slow
@pytest.mark.parametrize("what", MEANWHILE)
def test_what_changes_before_the_transaction(engine: Engine, what: str) -> None:
    """The stored value is that of the transaction, never an older one."""
    base = engine.create(name="base", **tree("1"))
    change, changed = MEANWHILE[what]
    prepared = {}
    for output in ("object", "nested", "size", "plain"):
        reader = engine.create(made(), f"r{output}", parameters={"v": "own"})
        source: JsonMap = {"parameter_sources": {"v": {"stack": "base", "output": output}}}
        prepared[output] = reader, supplied(engine, reader, source)
    before = engine.outputs(base)
    change(engine, engine.get(base))
    after = engine.outputs(base)
    refused = set()
    for output, (reader, found) in prepared.items():
        try:
            take(engine, reader, found)
        except SourceChanged:
            refused.add(output)
    assert refused >= {name for name in after if after[name] != before[name]}
    assert refused == changed


def test_reader_deleted_while_it_reads(engine: Engine) -> None:
    """The reading goes with its request: nothing of it is stored."""
    engine.create(made(), "base", parameters={"v": "a"})
    reader = engine.create(made(), "reader", parameters={"v": "own"})
    outputs = engine.components.of(Outputs)

    class Deleting:
        """Outputs whose reader is deleted while one is read."""

        def __getattr__(self, name: str) -> Any:
            return getattr(outputs, name)

        def read(self, owner: StackRecord, output: str) -> Any:
            found = outputs.read(owner, output)
            engine.delete(reader)
            return found

    supplier = engine.components.of(SourceSupplier)
    supplier._outputs = Deleting()  # type: ignore[assignment]
    with pytest.raises(StackNotFound):
        engine.components.stacks.update(engine.who, engine.get(reader), StackRequest(further=of("base")), existing=True)
    assert engine.store.of(ReadingStore).of_readers([reader.id]) == []
    assert engine.store.inconsistencies(engine.clock.now(), 0.0) == []


def test_two_requests_that_would_close_a_cycle(engine: Engine) -> None:
    """E5 in the transaction: each passes alone."""
    one = engine.create(made(), "one", parameters={"v": "a"})
    other = engine.create(made(), "other", parameters={"v": "b"})
    prepared = supplied(engine, other, of("one"))
    engine.patch(one, further=of("other"))
    with pytest.raises(CircularDependencyException, match="other → one → other"):
        take(engine, other, prepared)


def test_reader_that_comes_before_the_removal(engine: Engine) -> None:
    """E7 in the transaction: a reader that has read before it is seen there."""
    base = engine.create(made(), "base", parameters={"v": "a"})
    _refuse(engine, base)
    asked = _deletion(engine, base)
    claims = engine.components.admission.examine(asked)
    engine.create(made(), "reader", further=of("base"))
    with pytest.raises(OutputInUse, match=r"reader \(v = v\)"), engine.store.transaction():
        claims.look(asked.preview)


REFUSED = {
    ChangeKind.CREATE: False,
    ChangeKind.UPDATE: True,
    ChangeKind.DELETE: True,
    ChangeKind.SCALE: False,
    ChangeKind.SIGNAL: False,
    ChangeKind.REPAIR: False,
    ChangeKind.REDEFINE: True,
    ChangeKind.JOIN: False,
}
"""Changes that give a root another definition: they may remove what is read."""


def test_each_change_of_a_definition_is_examined(engine: Engine) -> None:
    """E7: a new kind of operation has to say whether it may remove outputs."""
    assert REFUSED.keys() == {*ChangeKind}
    base = engine.create(made(), "base", parameters={"v": "a"})
    engine.create(made(), "reader", further=of("base"))
    _refuse(engine, base)
    examiner, found = engine.components.of(ReaderExaminer), {}
    for change in ChangeKind:
        asked = replace(_deletion(engine, base), change=change)
        claim = examiner.examine(asked)
        try:
            with engine.store.transaction():
                found[change] = claim is not None and bool(claim.look(asked.preview))
        except OutputInUse:
            found[change] = True
        assert bool(examiner.shown(asked, ())) is REFUSED[change]
    assert found == REFUSED


def _refuse(engine: Engine, stack: StackRecord) -> None:
    policy: JsonMap = {"change_policy": "2026-11-28", "reads": "refuse"}
    with engine.store.transaction():
        rows = engine.store.of(ChangePolicyStore)
        rows.put(ChangePolicyRecord(engine.who.project, stack.id, policy, 1, "ada", engine.clock.now()))


def _deletion(engine: Engine, stack: StackRecord) -> Any:
    from heatlite.engine.operations.asked import deletion
    from heatlite.engine.preview.deletion import Deletions

    reader = engine.components.reader
    return deletion(reader, Deletions(engine.store, reader), engine.who, engine.get(stack), False)


def test_rollback_brings_back_the_reading(engine: Engine) -> None:
    base = engine.create(made(), "base", parameters={"v": "a"})
    reader = engine.create(made(), "reader", further=of("base"))
    engine.patch(base, parameters={"v": "b"})
    bad = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    engine.patch(reader, template=made(bad=bad), further={"refresh": True}, disable_rollback=False)
    assert engine.get(reader).verb == "ROLLBACK"
    assert held(engine, reader) == ["a"]
    engine.patch(reader, template=made(), further={"refresh": True})
    assert held(engine, reader) == ["b"]


def test_restore_brings_back_the_reading(engine: Engine) -> None:
    base = engine.create(made(), "base", parameters={"v": "a"})
    reader = engine.create(made(), "reader", further=of("base"))
    engine.components.snapshots.take(engine.who, engine.get(reader), "n")
    engine.settle(reader)
    (snapshot,) = engine.store.snapshots.of(reader.id)
    engine.patch(base, parameters={"v": "b"})
    engine.patch(reader, further={"refresh": True})
    engine.components.snapshots.restore(engine.who, engine.get(reader), snapshot.id)
    engine.settle(reader)
    assert held(engine, reader) == ["a"]


@pytest.mark.slow
def test_newest_readings_are_kept(engine: Engine) -> None:
    base = engine.create(made(), "base", parameters={"v": "0"})
    reader = engine.create(made(), "reader", further=of("base"))
    for number in range(1, KEPT + 2):
        engine.patch(base, parameters={"v": str(number)})
        engine.patch(reader, further={"refresh": True})
    found = engine.store.of(ReadingStore).of_readers([reader.id])
    assert [one.value for one in found] == [str(number) for number in range(KEPT + 1, 1, -1)]
    assert held(engine, reader) == [str(KEPT + 1)]


def test_values_are_encrypted(engine: Engine) -> None:
    """Law Z4: a hidden value is in no row as text."""
    engine.create(made(hidden=True), "base", parameters={"v": SECRET})
    reader = engine.create(made(hidden=True), "reader", further=of("base"))
    database = engine.store.database
    ((text,),) = database.read("SELECT value FROM reading WHERE reader_id = ?", (reader.id,))
    assert str(text).startswith(PREFIX) == (engine.store.encryption.cipher is not None)
    assert held(engine, reader) == [SECRET]


def test_rows_go_with_their_reader(engine: Engine) -> None:
    engine.create(made(), "base", parameters={"v": "a"})
    reader = engine.create(made(), "reader", further=of("base"))
    engine.delete(reader)
    rows = engine.store.of(ReadingStore)
    assert held(engine, reader) == []
    with engine.store.transaction():
        engine.store.stacks.remove([reader.id])
    assert rows.of_readers([reader.id]) == []


def test_kept_request_reads_at_its_time(engine: Engine) -> None:
    """A request that waits for an approval keeps the keys of features."""
    from heatlite.engine.operations.scheduled_requests import _request
    from heatlite.engine.state.requests import body_of_update

    request = StackRequest(further=of("base"), parameters={"x": "y"})
    kept = _request(body_of_update(request))
    assert (kept.further, kept.parameters) == (request.further, request.parameters)
    assert kept.body == {"parameters": {"x": "y"}, **of("base")}
