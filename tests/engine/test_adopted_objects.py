"""Adoptions take nothing that another stack has."""

import json
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import ObjectOwned
from heatlite.core.json import Json
from heatlite.core.status import state
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.engine.types.adopted_objects import AdoptedObjects
from heatlite.store.records import StackRecord
from heatlite.store.stacks.adoptions import Adoptions
from tests.tables import few

from .conftest import MEMBER, Engine, resource, template

OTHER = replace(MEMBER, project="other", user="eve")
HANDLE = resource("OS::Heat::WaitConditionHandle")
CHILD = {"heat_template_version": "2021-04-16", "resources": {"x": resource("Example::Local::File")}}


def adopt(engine: Engine, record: Json, name: str, wait: bool = True) -> StackRecord:
    stack = engine.stacks.create(engine.who, StackRequest(name=name, adopted=read_record(record)))
    return engine.settle(stack) if wait else stack


def file(**more: Any) -> Any:
    return resource("Example::Local::File", **more)


def export(engine: Engine, stack: StackRecord) -> Any:
    return engine.components.exports.export(engine.get(stack))


@pytest.mark.parametrize("key", ["resource_id", "physical_name"])
def test_an_object_of_another_stack_is_refused(engine: Engine, plugins: Path, key: str) -> None:
    """By id and by name; only the own project hears whose it is."""
    first = engine.create(template(a=file()))
    entry = export(engine, first)["resources"]["a"]
    taken = entry[key]
    entry = {**entry, "resource_id": "x", "physical_name": None, key: taken}
    record = {"template": template(b=file()), "resources": {"b": entry}}
    with pytest.raises(ObjectOwned) as refused:
        adopt(engine, record, "second")
    text = f"resources.b: {taken} belongs to resource a of stack s. Abandon or delete that first."
    assert refused.value.message == text
    engine.who = OTHER
    with pytest.raises(ObjectOwned) as refused:
        adopt(engine, record, "second")
    assert refused.value.message == f"resources.b: {taken} belongs to a stack of another project."
    assert engine.store.stacks.by_name("other", "second") is None


def test_a_stack_that_outlives_its_root_is_named(engine: Engine, plugins: Path) -> None:
    """Its own name leads to it: that of the deleted root leads nowhere."""
    group = resource("OS::Heat::ResourceGroup", keys={"deletion_policy": "Retain"}, count=1, resource_def=file())
    first = engine.create(template(g=group))
    (nested,) = engine.store.stacks.descendants(first)
    (held,) = engine.store.resources.of(nested.id)
    engine.delete(first)
    record = {"template": template(b=file()), "resources": {"b": {"resource_id": held.physical_id}}}
    with pytest.raises(ObjectOwned, match=f"belongs to resource 0 of stack {nested.name}\\. Abandon or delete"):
        adopt(engine, record, "second")


def test_each_of_two_entries_is_refused(engine: Engine, plugins: Path) -> None:
    first = engine.create(template(a=file()))
    entry = export(engine, first)["resources"]["a"]
    document = template(b=file(), c=file())
    for entries in ({"b": entry, "c": {"resource_id": "mine"}}, {"b": {"resource_id": "mine"}, "c": entry}):
        with pytest.raises(ObjectOwned):
            adopt(engine, {"template": document, "resources": entries}, "second")


@pytest.mark.parametrize("said", few(["Example::Local::File", "OS::Heat::Value", "No::Such::Type"]))
def test_a_member_of_another_stack_is_refused(engine: Engine, plugins: Path, said: str) -> None:
    """Also if the document tells of another type: then the worker finds out."""
    nested, files = template(n=resource("child.yaml")), {"child.yaml": json.dumps(CHILD)}
    first = engine.create(nested, files=files)
    record = export(engine, first)
    member = record["resources"]["n"]["resources"]["x"]
    member |= {"type": said, "mapped_type": said, "physical_name": None}
    engine.who = OTHER
    if said == "Example::Local::File":
        with pytest.raises(ObjectOwned, match=r"^resources\.n\.resources\.x: "):
            adopt(engine, record, "second")
        return
    stack = adopt(engine, record, "second")
    assert state(stack.verb, stack.status) == "ADOPT_FAILED"
    assert "ObjectOwned: resources.n.resources.x: " in stack.status_reason
    (child,) = engine.store.stacks.descendants(stack)
    assert engine.row(child, "x").physical_id is None
    files_before = sorted(plugins.iterdir())
    engine.delete(stack)
    assert sorted(plugins.iterdir()) == files_before


def test_of_two_adoptions_at_once_one_gets_the_object(
    engine: Engine, plugins: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first has claimed it, and no row has the id yet."""
    first = engine.create(template(a=file()))
    record: Any = engine.components.exports.abandon(engine.who, first)
    engine.settle(first)
    one = engine.create(template(), name="one")
    definition = engine.components.definitions.of(first)
    monkeypatch.setattr(Adoptions, "forget_ended", lambda _: None)  # for the adoption that claims has no action here
    objects = AdoptedObjects(engine.store, engine.components.reader.resources_of(one))
    assert objects.claim(definition, record["resources"]) == {}
    assert objects.claim(definition, record["resources"]) == {}, "as after a takeover"
    two = adopt(engine, record, "two")
    assert state(two.verb, two.status) == "ADOPT_FAILED"
    assert two.status_reason.endswith("ObjectOwned: resources.a: another adoption takes over the object.")
    assert engine.row(two, "a").physical_id is None


def test_a_claim_ends_with_its_adoption(engine: Engine, plugins: Path) -> None:
    first = engine.create(template(a=file(), b=resource("Example::Local::File", depends_on="a")))
    record: Any = engine.components.exports.abandon(engine.who, first)
    engine.settle(first)
    whole = record["resources"]["b"].pop("resource_id")
    failed = adopt(engine, record, "failed")
    assert state(failed.verb, failed.status) == "ADOPT_FAILED"
    engine.components.exports.abandon(engine.who, failed)
    engine.settle(failed)
    record["resources"]["b"]["resource_id"] = whole
    stack = adopt(engine, record, "again")
    assert state(stack.verb, stack.status) == "ADOPT_COMPLETE", stack.status_reason


def test_what_only_refers_to_an_object_keeps_it_from_nobody(engine: Engine, plugins: Path) -> None:
    first = engine.create(template(a=file()))
    record = export(engine, first)
    taken = record["resources"]["a"]["resource_id"]
    engine.create(template(a={"type": "Example::Local::File", "external_id": taken}), name="refers")
    engine.components.exports.abandon(engine.who, first)
    engine.settle(first)
    stack = adopt(engine, record, "again")
    assert state(stack.verb, stack.status) == "ADOPT_COMPLETE", stack.status_reason


def test_messages_belong_to_a_row(engine: Engine) -> None:
    """A handle with the physical name of another has none of its signals."""
    first = engine.create(template(h=HANDLE))
    row = engine.row(first, "h")
    engine.components.signals.signal(engine.who, first, row, {"id": "1", "data": "theirs"}, False)
    engine.by_hand = True
    second = engine.create(template(h=HANDLE), name="second")
    with engine.store.transaction():  # as a document could tell, were it not refused
        twin = replace(engine.row(second, "h"), physical_name=row.physical_name, physical_id=row.physical_name)
        engine.store.resources.save_many([twin])
    reader = engine.components.reader
    assert reader.metadata(second, engine.row(second, "h")) == {}
    engine.delete(second)
    assert reader.metadata(first, engine.row(first, "h"))["1"]["data"] == "theirs"
