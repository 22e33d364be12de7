"""Moves below nested stacks, of members, and to other stacks."""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from random import Random
from typing import Any

import pytest
from msgspec import ValidationError
from msgspec.structs import replace

from heatlite.clients.cloud import OtherCloud
from heatlite.core.errors import (
    ActionConflict,
    HeatliteError,
    HTTPBadRequest,
    InvalidStackState,
    PlanChanged,
    ResourceNotFound,
    StackLocked,
    StackNotFound,
    TemplateShared,
)
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import MASK
from heatlite.core.status import Status, Verb
from heatlite.features.ownership.errors import (
    DefinitionOutdated,
    MoveReplaces,
    NotOnlyMove,
    ReferencesCross,
)
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.source.loader import load
from tests.engine.conftest import attr, param, ref, resource, template
from tests.features.ownership.engine.conftest import Imported, moving
from tests.features.ownership.engine.test_nested import (
    DATA,
    DATA_TEXT,
    INNER,
    INNER_TEXT,
    files,
    require_sound,
    stacks,
    tree,
)

NET, VOLUME, SUBNET, VALUE = "OS::Neutron::Net", "OS::Cinder::Volume", "OS::Neutron::Subnet", "OS::Heat::Value"


def facts(imported: Imported, row: ResourceRecord) -> Mapping[str, JsonMap]:
    return imported.cloudy.store.resource_facts([row.id])


def same(row: ResourceRecord, before: ResourceRecord) -> bool:
    """Return whether a row is as before, apart from its place."""
    place = {"name": before.name, "stack_id": before.stack_id, "data": before.data, "uses": before.uses}
    return replace(row, **place, requires=before.requires) == before


@pytest.mark.slow
def test_names_in_a_nested_stack(imported: Imported) -> None:
    cloudy = imported.cloudy
    blocks = {"resources": {"data": {"kern": {"net": {"protect": {}}}}}}
    stack = tree(imported)
    cloudy.patch(stack, environment={"resource_registry": blocks})
    stack = cloudy.get(stack)
    inner = stacks(imported, stack)["kern"]
    before, outputs = {row.name: row for row in cloudy.rows(inner)}, cloudy.components.reader.outputs(inner)
    names = {"data/kern/net": "data/kern/vol", "data/kern/vol": "data/kern/net"}
    plan = imported.move_plan(stack, names)
    assert [("/".join(one.path), one.action) for one in plan.resources] == [
        ("data/kern/vol", "move"), ("data/kern/net", "move"),
    ]  # fmt: skip
    assert plan.later == ()
    assert [*plan.details["files"]] == [INNER]  # type: ignore[misc]
    stack = imported.moved(stack, names)
    after = {row.name: row for row in cloudy.rows(inner)}
    assert all(same(after[new], before[old]) for old, new in (("net", "vol"), ("vol", "net")))
    assert after["vol"].data["moved_from"] == "net"
    text = files(imported, stack)[INNER]
    assert load(text).data["outputs"] == {"net": {"value": {"get_resource": "vol"}}}
    assert text.startswith("# The innermost.")
    assert cloudy.components.reader.outputs(cloudy.get(inner)) == outputs
    environment = cloudy.components.definitions.of(stack).environment.to_dict()
    assert environment["resource_registry"]["resources"] == {"data": {"kern": {"vol": {"protect": {}}}}}  # type: ignore[index,call-overload]
    require_sound(imported, stack)
    stack = imported.moved(cloudy.get(stack), {"data/kern": "data/mitte"})
    assert {row.name for row in cloudy.rows(stacks(imported, stack)["data"])} == {"mitte", "platte"}
    require_sound(imported, stack)
    with pytest.raises(DefinitionOutdated, match="lacks data/mitte"):
        cloudy.put(stack, template(data={"type": DATA}), files={DATA: DATA_TEXT, INNER: INNER_TEXT})


@pytest.mark.slow
def test_members_get_other_names(imported: Imported) -> None:
    cloudy = imported.cloudy
    numbered = resource("OS::Heat::ResourceGroup", count=3, resource_def=resource(NET))
    scaled = resource("OS::Heat::AutoScalingGroup", min_size=1, max_size=3, desired_capacity=2, resource=resource(NET))
    first = resource(VALUE, value=attr("numbered", "refs"))
    stack = cloudy.made({"numbered": numbered, "scaled": scaled, "first": first}, "a")
    below = stacks(imported, stack)
    before = {row.name: row for row in cloudy.rows(below["numbered"])}
    stack = imported.moved(stack, {"numbered/0": "numbered/2", "numbered/2": "numbered/0"})
    after = {row.name: row for row in cloudy.rows(below["numbered"])}
    assert same(after["2"], before["0"]) and same(after["0"], before["2"]) and after["1"] == before["1"]
    one, other = cloudy.rows(below["scaled"])
    with pytest.raises(HTTPBadRequest, match="already"):
        imported.move_plan(stack, {f"scaled/{one.name}": f"scaled/{other.name}"})
    stack = imported.moved(stack, {f"scaled/{one.name}": "scaled/alpha"})
    assert {row.name: row.id for row in cloudy.rows(below["scaled"])} == {"alpha": one.id, other.name: other.id}
    changed = imported.first_plan(stack)
    assert changed in ({}, {"first": "update"})
    cloudy.patch(stack)
    require_sound(imported, stack)
    for names, error in (
        ({"numbered/0": "numbered/3"}, HTTPBadRequest),
        ({"scaled/alpha": "scaled/a b"}, HTTPBadRequest),
        ({"scaled/alpha": "numbered/3"}, HTTPBadRequest),
        ({"first": "scaled/first"}, MoveReplaces),
        ({"numbered/0": "data/0"}, ResourceNotFound),
        ({"numbered/7": "numbered/0"}, ResourceNotFound),
    ):
        with pytest.raises(error):
            imported.move_plan(cloudy.get(stack), names)
    cloudy.changed(stack, {"numbered": {**numbered, "properties": {**numbered["properties"], "count": 2}}})


@pytest.mark.slow
def test_to_a_nested_stack_and_back(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = tree(imported, lager=resource(VOLUME, size=4, name="lager"))
    below = stacks(imported, stack)
    cloudy.view().call("block_storage.update_volume", cloudy.row(stack, "lager").physical_id, name="other")
    cloudy.check(stack)
    before = cloudy.row(stack, "lager")
    known = facts(imported, before)
    stack = imported.moved(cloudy.get(stack), {"lager": "data/kern/lager", "data/platte": "platte"})
    after = cloudy.row(below["kern"], "lager")
    assert same(after, before) and after.data["moved_from"] == "lager"
    assert facts(imported, after) == known
    assert load(files(imported, stack)[INNER]).data["resources"]["lager"] == resource(VOLUME, size=4, name="lager")
    assert {row.name for row in cloudy.rows(stack)} == {"data", "platte"}
    require_sound(imported, stack)
    events = [event.resource_name for event in cloudy.events(below["kern"]) if event.verb == "CREATE"]
    assert "lager" in events
    stack = imported.moved(cloudy.get(stack), {"data/kern/lager": "lager", "platte": "data/platte"})
    assert load(files(imported, stack)[DATA]).data["resources"]["platte"] == resource(VOLUME, size=1)
    require_sound(imported, stack)
    assert same(cloudy.row(stack, "lager"), before)


@pytest.mark.slow
def test_to_another_stack(imported: Imported) -> None:
    """Laws 2.5, 2.7 and 2.8."""
    cloudy = imported.cloudy
    here = cloudy.made(
        {
            "net": resource(NET, name="n"),
            "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24"),
            "vol": resource(VOLUME, size=1, name="v"),
        },
        "hier",
    )
    there = cloudy.made({"own": resource(NET, name="own")}, "weiter")
    cloudy.view().call("block_storage.update_volume", cloudy.row(here, "vol").physical_id, name="other")
    cloudy.check(here)
    cloudy.mark(here, "vol", reason="no ping")
    cloudy.components.protection.protect(cloudy.who, cloudy.get(here), "net", "of the shop")
    here = cloudy.get(here)
    before = {row.name: row for row in cloudy.rows(here)}
    known = {name: facts(imported, row) for name, row in before.items()}
    told = {name: [one.id for one in cloudy.events(here) if one.resource_name == name] for name in before}
    names = {"net": "lan", "sub": "sub", "vol": "daten"}
    plan = imported.move_plan(here, names, "weiter")
    assert [("/".join(one.path), one.action, one.cause) for one in plan.resources] == [
        (new, "move", f"from {old} of stack hier") for old, new in names.items()
    ]
    assert {"/".join(one.path): one.action for one in plan.later} == {"daten": "replace"}, "as before: it is marked"
    other: Any = plan.details["to_stack"]
    assert (other["id"], len(other["template_patch"])) == (there.id, 3)
    here = imported.moved(here, names, there.id)
    there = cloudy.get(there)
    assert cloudy.rows(here) == []
    after = {row.name: row for row in cloudy.rows(there)}
    for old, new in names.items():
        assert same(after[new], before[old]) and after[new].stack_id == there.id
        assert facts(imported, after[new]) == known[old]
        assert [one.id for one in cloudy.events(there) if one.resource_name == new and one.verb != "MOVE"] == told[old]
    assert after["sub"].requires == ("lan",)
    assert cloudy.components.definitions.of(there).template.document["resources"]["sub"] == resource(  # type: ignore[index,call-overload]
        SUBNET, network=ref("lan"), cidr="10.0.0.0/24"
    )
    moves = [(one.resource_name, one.status_reason) for one in cloudy.events(here) if one.verb == "MOVE"]
    assert sorted(moves) == [(old, f"Moved to {new} of stack weiter") for old, new in names.items()]
    assert after["lan"].data["moved_from"] == "net of stack hier"
    actions = [cloudy.store.actions.last(stack.id, Verb.UPDATE) for stack in (here, there)]
    for stack, action in zip((here, there), actions, strict=True):
        assert action is not None and action.outputs.moved == names
        assert (stack.verb, stack.status) == (Verb.UPDATE, Status.COMPLETE)
    first, second = (one.id for one in actions if one is not None)
    relations = cloudy.store.action_list.relations([one for one in actions if one is not None])
    assert (relations[first].depends_on, relations[first].depended_by) == ((), (second,))
    assert (relations[second].depends_on, relations[second].depended_by) == ((first,), ())
    assert cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0) == []
    with pytest.raises(DefinitionOutdated, match="lacks daten lan sub"):
        cloudy.put(there, template(own=resource(NET, name="own")))
    cloudy.stacks.delete(cloudy.who, here)
    cloudy.settle(here)
    assert cloudy.thing(there, "lan")["name"] == "n"
    cloudy.mark(there, "daten", unhealthy=False)
    cloudy.check(there)
    assert imported.first_plan(cloudy.get(there)) == {}
    back = cloudy.made({}, "back")
    imported.moved(cloudy.get(there), {"lan": "net", "sub": "sub"}, "back")
    assert {row.name for row in cloudy.rows(back)} == {"net", "sub"}


SECRET = {"secret": {"type": "string", "default": "hunter2", "hidden": True}}


def test_hidden_values_stay_hidden_elsewhere(imported: Imported) -> None:
    cloudy = imported.cloudy
    hidden = resource(VALUE, value=param("secret"))
    here = cloudy.create(template(parameters=SECRET, v=hidden, net=resource(NET, name="n")), "a")
    there = cloudy.made({}, "b")
    with pytest.raises(ReferencesCross, match=r"resources\.v \(get_param secret\)"):
        imported.move_plan(here, {"v": "v"}, "b")
    assert (here.sealed, there.sealed) == (True, False)
    new: Any = template(parameters={"own": {"type": "string", "default": "x"}}, v=resource(VALUE, value=param("own")))
    left: Any = template(parameters=SECRET, net=resource(NET, name="n"))
    given: dict[str, Any] = {"template": left, "to_definition": {"template": new}}
    (waiting,) = imported.move_plan(here, {"v": "v"}, "b", **given).later
    assert [(one.old, one.new) for one in waiting.differences] == [(MASK, "x")]
    imported.moved(here, {"net": "net"}, "b")
    assert cloudy.get(there).sealed
    assert imported.first_plan(cloudy.get(there)) == {}


@pytest.mark.slow
def test_members_take_no_hidden_value_out_of_their_group(imported: Imported) -> None:
    """The template of a group has values, where that of its stack has references."""
    cloudy, whole = imported.cloudy, {"str_replace": {"template": "x-S", "params": {"S": param("secret")}}}
    for number, named in enumerate((param("secret"), whole, "open")):
        group = resource("OS::Heat::ResourceGroup", count=2, resource_def=resource(NET, name=named))
        own = {"group": group, "data": {"type": INNER, "properties": {"größe": 1}}}
        here = cloudy.create(template(parameters=SECRET, **own), f"a{number}", files={INNER: INNER_TEXT})
        there = cloudy.made({}, f"b{number}")
        for new, to in (("net", ""), ("data/new", ""), ("net", there.name)):
            if named == "open":
                imported.move_plan(here, {"group/1": new}, to or None)
                continue
            with pytest.raises(ReferencesCross, match=r"resources\.group/1 \(a hidden value\)") as error:
                imported.move_plan(here, {"group/1": new}, to or None)
            assert "hunter2" not in str(error.value)


@pytest.mark.slow
def test_what_does_not_move_elsewhere(imported: Imported) -> None:
    cloudy = imported.cloudy
    own = {
        "net": resource(NET, name="n"),
        "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24", depends_on=["vol"]),
        "vol": resource(VOLUME, size=1, name={"get_file": "file:///x"}),
        "group": resource("OS::Heat::ResourceGroup", count=1, resource_def=resource(NET)),
        "left": {"type": INNER, "properties": {"größe": 1}},
        "right": {"type": INNER, "properties": {"größe": 1}},
    }
    document = {**template(**own), "outputs": {"n": {"value": attr("net", "name")}}}
    stack = cloudy.create(document, "a", files={"file:///x": "text", INNER: INNER_TEXT})
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    cloudy.made({"net": resource(NET)}, "b")
    for names, to, error, text in (
        ({"net": "n"}, "b", ReferencesCross, r"resources\.sub; resources\.n \(an output\)"),
        ({"sub": "sub"}, "b", ReferencesCross, r"resources\.sub \(get_resource net, depends_on vol\)"),
        ({"vol": "v"}, "b", ReferencesCross, r"resources\.vol \(get_file file:///x\)"),
        ({"net": "net"}, "b", HTTPBadRequest, "already: net"),
        ({"net": "group/n"}, "b", ResourceNotFound, "group"),
        ({"group/0": "left/lan"}, None, TemplateShared, "as right"),
        ({"net": "left/lan"}, None, TemplateShared, "as right"),
        ({"net": "left/lan"}, "b", ResourceNotFound, r"\(left\)"),
        ({"net": "n"}, "a", HTTPBadRequest, "the stack itself"),
        ({"net": "n"}, "c", StackNotFound, "c"),
        ({"net": "vol/n"}, None, ResourceNotFound, "vol"),
    ):
        with pytest.raises(error, match=text):
            imported.move_plan(stack, names, to)
    nested = stacks(imported, stack)["left"]
    with pytest.raises(InvalidStackState, match="nested"):
        imported.move_plan(stack, {"net": "n"}, nested.id)
    far = imported.empty("far")
    with cloudy.store.transaction():
        cloudy.store.stacks.record_cloud(far.id, replace(cloudy.view().identity, region="far"))
    with pytest.raises(OtherCloud, match="far is in another cloud than stack a"):
        imported.move_plan(stack, {"left": "left"}, "far")


@pytest.mark.slow
def test_a_lock_on_either_side(imported: Imported) -> None:
    cloudy = imported.cloudy
    here, there = cloudy.made({"net": resource(NET, name="n")}, "a"), cloudy.made({}, "b")
    for locked in (here, there):
        cloudy.lock(cloudy.get(locked))
        before = [cloudy.rows(one) for one in (here, there)]
        with pytest.raises(StackLocked):
            imported.moved(cloudy.get(here), {"net": "net"}, "b")
        assert [cloudy.rows(one) for one in (here, there)] == before
        assert [one.request for one in cloudy.store.suppressed.list(here.id)] == ["move"]
        cloudy.unlock(cloudy.get(locked))
    imported.moved(cloudy.get(here), {"net": "net"}, "b")


@pytest.mark.slow
def test_law_each_object_has_one_owner_beside_moves_to_and_fro(imported: Imported) -> None:
    """Acceptance 5, with fewer moves: refused or done, nothing is lost or doubled."""
    cloudy = imported.cloudy
    roots = [cloudy.made({f"{name}{at}": resource(NET) for at in range(4)}, name) for name in ("a", "b")]
    ids = {row.physical_id for root in roots for row in cloudy.rows(root)}

    def client(seed: int) -> int:
        random, done = Random(seed), 0
        for number in range(10):
            source, target = random.sample(roots, 2)
            rows = cloudy.rows(source)
            if not rows:
                continue
            names = {random.choice(rows).name: f"m{seed}x{number}"}
            try:
                imported.moves.start(
                    cloudy.who, cloudy.get(source), _asked(imported, source, names, target), {"move": {}}
                )
                done += 1
            except (ActionConflict, PlanChanged, ResourceNotFound, HTTPBadRequest, InvalidStackState):
                pass
        return done

    with ThreadPoolExecutor(4) as pool:
        assert sum(pool.map(client, range(4))) > 0
    owned = [row.physical_id for root in roots for row in cloudy.rows(root)]
    assert (sorted(owned), len(owned)) == (sorted(ids), len(ids))
    for root in roots:
        root = cloudy.get(root)
        assert imported.first_plan(root) == {}
        assert {row.name for row in cloudy.rows(root)} == {*cloudy.components.definitions.of(root).resources}
    assert cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0) == []


def _asked(imported: Imported, source: StackRecord, names: Mapping[str, str], target: StackRecord) -> Any:
    digest = imported.move_plan(imported.cloudy.get(source), names, target.id).digest
    return moving(names, target.id, digest)



def test_an_object_that_another_tool_deletes_while_it_moves(imported: Imported) -> None:
    """A move reads no object: the next check tells."""
    cloudy = imported.cloudy
    here, there = cloudy.made({"net": resource(NET, name="n")}, "a"), cloudy.made({}, "b")
    key = cloudy.row(here, "net").physical_id
    digest = imported.move_plan(here, {"net": "net"}, "b").digest
    cloudy.view().call("network.delete_network", key)
    imported.moves.start(cloudy.who, here, moving({"net": "net"}, "b", digest), {"move": {}})
    assert cloudy.row(there, "net").physical_id == key
    assert cloudy.check(there).status is Status.FAILED
    assert imported.first_plan(cloudy.get(there)) == {"net": "replace"}


@pytest.mark.slow
def test_definitions_that_do_without(imported: Imported) -> None:
    """A subnet and its network come to stacks of their own."""
    cloudy = imported.cloudy
    own = {"net": resource(NET, name="n"), "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24")}
    document = {**template(**own), "outputs": {"cidr": {"value": attr("sub", "cidr")}}}
    here, there = cloudy.create(document, "a"), cloudy.made({"v": resource(VALUE, value=1)}, "b")
    key, before = cloudy.row(here, "net").physical_id, cloudy.row(here, "sub")
    with pytest.raises(ReferencesCross):
        imported.move_plan(here, {"sub": "teil"}, "b")
    left = template(net=own["net"])
    outputs = {**left, "outputs": {"net": {"value": ref("net")}}}
    part = {"teil": resource(SUBNET, network=param("net"), cidr="10.0.0.0/24")}
    new: Any = template(parameters={"net": {"type": "string", "default": key}}, v=resource(VALUE, value=1), **part)
    wrong: Any = {**new, "resources": {**new["resources"], "v": resource(VALUE, value=2)}}
    other: Any = {**new, "resources": {**new["resources"], "teil": {**part["teil"], "type": NET}}}
    for mine, yours, place in (
        (template(net=resource(NET, name="m")), new, r"resources\.net"),
        (document, new, r"resources\.sub"),
        (outputs, wrong, r"resources\.v"),
        (outputs, {**new, "resources": {"v": resource(VALUE, value=1)}}, r"resources\.teil"),
        (outputs, {**new, "description": "x"}, "description"),
    ):
        with pytest.raises(NotOnlyMove, match=place):
            imported.move_plan(here, {"sub": "teil"}, "b", template=mine, to_definition={"template": yours})
    with pytest.raises(HeatliteError):
        imported.move_plan(here, {"sub": "teil"}, "b", template=outputs, to_definition={"template": other})
    with pytest.raises(NotOnlyMove, match=f"file {INNER}"):
        below = tree(imported, "c", sub=resource(VALUE, value=1))
        given = {**template(data={"type": DATA}, teil=resource(VALUE, value=1))}
        text = {INNER: INNER_TEXT.replace("inner", "other")}
        imported.move_plan(below, {"sub": "teil"}, template=given, files=text)
    with pytest.raises(ValidationError, match="to_definition goes with"):
        imported.move_plan(here, {"sub": "teil"}, "b", template=outputs)
    options = {"template": outputs, "to_definition": {"template": new}}
    assert imported.move_plan(here, {"sub": "teil"}, "b", **options).later == ()
    here = imported.moved(here, {"sub": "teil"}, "b", **options)
    after = cloudy.row(there, "teil")
    assert (after.id, after.physical_id, after.requires) == (before.id, before.physical_id, ())
    assert cloudy.components.reader.outputs(here)[0]["output_value"] == key
    for stack in (here, cloudy.get(there)):
        assert imported.first_plan(stack) == {}
        cloudy.patch(stack)
    assert cloudy.row(there, "teil").physical_id == before.physical_id


def test_a_condition_that_is_false_there(imported: Imported) -> None:
    """A resource moves to no place that has none."""
    cloudy = imported.cloudy
    own = {**resource(NET, name="n"), "condition": "wanted"}
    here, there = cloudy.create({**template(net=own), "conditions": {"wanted": True}}, "a"), cloudy.made({}, "b")
    given = {"template": {**template(net=own), "conditions": {"wanted": False}}}
    options: Any = {"template": {**template(), "conditions": {"wanted": True}}, "to_definition": given}
    with pytest.raises(MoveReplaces, match="delete net: "):
        imported.move_plan(here, {"net": "net"}, "b", **options)
    given["template"]["conditions"] = {"wanted": True}
    imported.moved(here, {"net": "net"}, "b", **options)
    assert cloudy.row(there, "net").physical_id is not None


@pytest.mark.slow
@pytest.mark.parametrize("scales", [True, False])
def test_into_a_group_and_out_of_it(imported: Imported, scales: bool) -> None:
    cloudy, member = imported.cloudy, resource(NET, name="lan")
    sizes = {"min_size": 0, "max_size": 3, "desired_capacity": 1, "resource": member}
    group = resource("OS::Heat::AutoScalingGroup", **sizes)
    if not scales:
        group = resource("OS::Heat::ResourceGroup", count=1, resource_def=member)
    own = {"web": group, "lone": member, "other": resource(NET, name="other")}
    stack = cloudy.made(own, "a")
    (first,) = cloudy.rows(stacks(imported, stack)["web"])
    cloudy.components.protection.protect(cloudy.who, stack, "lone", None)
    lone, new = cloudy.row(stack, "lone"), "alpha" if scales else "1"
    assert imported.move_plan(stack, {"lone": f"web/{new}"}).later == ()
    stack = imported.moved(cloudy.get(stack), {"lone": f"web/{new}"})
    below = stacks(imported, stack)["web"]
    after = cloudy.row(below, new)
    assert same(after, lone) and after.protection is not None
    assert {row.name for row in cloudy.rows(stack)} == {"web", "other"}
    require_sound(imported, stack)
    differing = imported.move_plan(cloudy.get(stack), {"other": "web/beta" if scales else "web/2"})
    assert [one.action for one in differing.later if one.path[-1] in ("beta", "2")] == ["update"]
    stack = imported.moved(cloudy.get(stack), {f"web/{new}": "lone", f"web/{first.name}": "primus"})
    assert (same(cloudy.row(stack, "lone"), lone), same(cloudy.row(stack, "primus"), first)) == (True, True)
    assert cloudy.rows(stacks(imported, stack)["web"]) == []
    require_sound(imported, stack)
    document = cloudy.components.definitions.of(stack).template.document
    assert document["resources"]["primus"] == member  # type: ignore[index,call-overload]
    assert cloudy.put(stack, document).status is Status.COMPLETE
    require_sound(imported, stack)
