"""Imports and detachments in nested stacks."""

from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from heatlite.core.errors import (
    HeatliteError,
    HTTPBadRequest,
    ImportDiffers,
    ResourceNotFound,
    StackLocked,
    TemplateShared,
)
from heatlite.core.status import Status, Verb
from heatlite.features.ownership import errors
from heatlite.features.ownership.bodies import DetachRequest
from heatlite.features.ownership.detaching import Detachments
from heatlite.store.records import StackRecord
from heatlite.template.source.loader import load
from tests.engine.conftest import attr, ref, resource, template
from tests.features.ownership.engine.conftest import Imported, given
from tests.features.ownership.engine.test_detaching import detached
from tests.features.ownership.engine.test_importing import outside

NET, VOLUME, SUBNET = "OS::Neutron::Net", "OS::Cinder::Volume", "OS::Neutron::Subnet"
DATA, INNER = "file:///data.yaml", "file:///inner.yaml"
INNER_TEXT = """\
# The innermost.
heat_template_version: 2021-04-16
parameters:
  größe: {type: number}
resources:
  net: {type: OS::Neutron::Net, properties: {name: inner}}   # its network
  vol: {type: OS::Cinder::Volume, properties: {size: {get_param: größe}}}
outputs:
  net: {value: {get_resource: net}}
"""
DATA_TEXT = f"""\
heat_template_version: 2021-04-16
resources:
  kern: {{type: '{INNER}', properties: {{größe: 2}}}}
  platte: {{type: OS::Cinder::Volume, properties: {{size: 1}}}}
"""
FILES = {DATA: DATA_TEXT, INNER: INNER_TEXT}


def tree(imported: Imported, name: str = "a", **more: Any) -> StackRecord:
    return imported.cloudy.made({"data": {"type": DATA}, **more}, name, files=FILES)


def stacks(imported: Imported, root: StackRecord) -> dict[str, StackRecord]:
    """Return the nested stacks by the names of their resources."""
    return {one.parent_resource or "": one for one in imported.cloudy.store.stacks.descendants(root)}


def files(imported: Imported, root: StackRecord) -> dict[str, str]:
    return dict(imported.cloudy.components.definitions.of(imported.cloudy.get(root)).template.files)


def require_sound(imported: Imported, root: StackRecord) -> None:
    """Nothing is to do, also after an update; the database is consistent."""
    cloudy = imported.cloudy
    assert imported.first_plan(cloudy.get(root)) == {}
    before = {one.id: cloudy.rows(one) for one in (root, *stacks(imported, root).values())}
    cloudy.patch(root)
    assert {key: [row.physical_id for row in rows] for key, rows in before.items()} == {
        one.id: [row.physical_id for row in cloudy.rows(one)] for one in (root, *stacks(imported, root).values())
    }
    assert cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0) == []


@pytest.mark.slow
def test_an_object_enters_a_nested_stack_and_leaves_it(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="draußen"), "vol": resource(VOLUME, size=3, name="daten")})
    stack = tree(imported)
    body = {**given("data/kern/netz", NET, name="draußen"), **given("data/band", VOLUME, filter={"name": "daten"})}
    for missing in ({"name": "drin"}, {"id": ids["vol"]}):
        with pytest.raises(HeatliteError) as refused:
            imported.plan(stack, given("data/kern/netz", NET, **missing))
        assert refused.value.message.startswith("resources.data/kern/netz: ")
    plan = imported.plan(stack, body)
    assert plan.later == ()
    shown = {"/".join(one.path): one.action for one in plan.resources}
    assert shown == {"data/kern/netz": "import", "data/band": "import"}
    patches: Any = plan.details["files"]
    assert [(one["op"], one["path"]) for one in patches[INNER]["template_patch"]] == [("add", "/resources/netz")]
    assert [(one["op"], one["path"]) for one in patches[DATA]["template_patch"]] == [("add", "/resources/band")]
    assert plan.details["template_patch"] == []
    stack = imported.done(stack, body)
    text = files(imported, stack)[INNER]
    assert text.startswith("# The innermost.") and "# its network" in text
    assert load(text).data["resources"]["netz"]["properties"]["name"] == "draußen"
    below = stacks(imported, stack)
    row = cloudy.row(below["kern"], "netz")
    assert (row.physical_id, row.verb, row.stack_id) == (ids["net"], Verb.ADOPT, below["kern"].id)
    assert {one.status for one in below.values()} == {Status.COMPLETE}
    events = [(one.resource_name, one.verb) for one in cloudy.events(below["kern"])]
    assert ("netz", Verb.ADOPT) in events
    require_sound(imported, stack)
    action = cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None
    with pytest.raises(errors.StillReferenced, match=r"outputs\.data/kern/net"):
        detached(cloudy, stack, "data/kern/net")
    with imported.untouched():
        stack, answer = detached(cloudy, cloudy.get(stack), "data/kern/netz", "data/band")
    assert answer == {"detached": {
        "data/kern/netz": {"type": NET, "id": ids["net"]}, "data/band": {"type": VOLUME, "id": ids["vol"]},
    }}  # fmt: skip
    assert {name: load(text).data for name, text in files(imported, stack).items()} == {
        name: load(text).data for name, text in FILES.items()
    }
    require_sound(imported, stack)
    again: Any = answer["detached"]
    stack = imported.done(cloudy.get(stack), again)
    cloudy.stacks.delete(cloudy.who, cloudy.get(stack))
    assert cloudy.settle(stack).status is Status.COMPLETE


@pytest.mark.slow
def test_an_external_reference_stays_in_a_nested_template(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = tree(imported, value=resource("OS::Heat::Value", value=attr("data", "resource.kern", "net")))
    inner = stacks(imported, stack)["kern"]
    key = cloudy.row(inner, "net").physical_id
    outputs = cloudy.components.reader.outputs(inner)
    with imported.untouched():
        stack, _ = detached(cloudy, stack, "data/kern/net", as_external=True)
    assert cloudy.row(inner, "net").external_id == key
    assert cloudy.components.reader.outputs(cloudy.get(inner)) == outputs
    require_sound(imported, stack)
    stack = imported.done(cloudy.get(stack), given("data/kern/net", NET, id=key))
    assert cloudy.row(inner, "net").external_id is None
    require_sound(imported, stack)


@pytest.mark.slow
def test_a_definition_in_the_body_defines_what_enters_a_nested_stack(imported: Imported) -> None:
    subnet = resource(SUBNET, network=ref("net"), cidr="10.9.0.0/24")
    ids = outside(imported, {"net": resource(NET, name="n"), "sub": subnet})
    stack = tree(imported)
    body = {"data/kern/lan": ids["net"], "data/kern/sub": ids["sub"]}
    lan = "  lan: {type: OS::Neutron::Net, properties: {name: n}}\n"
    sub = "  sub: {type: OS::Neutron::Subnet, properties: {network: {get_resource: lan}, cidr: 10.9.0.0/24}}\n"
    new = INNER_TEXT.replace("outputs:\n", f"{lan}{sub}outputs:\n  lan: {{value: {{get_resource: lan}}}}\n")
    for text, error in (
        (new.replace("name: inner", "name: other"), errors.NotOnlyImport),
        (new.replace(sub, ""), errors.NotOnlyImport),
        (new.replace("name: n}", "name: m}"), ImportDiffers),
    ):
        with pytest.raises(error):
            imported.plan(stack, body, files={INNER: text})
    with pytest.raises(errors.NotOnlyImport, match=f"file {DATA}"):
        imported.plan(stack, body, files={INNER: new, DATA: DATA_TEXT.replace("size: 1", "size: 2")})
    stack = imported.done(stack, body, files={INNER: new})
    assert files(imported, stack)[INNER] == new
    require_sound(imported, stack)


@pytest.mark.slow
def test_what_a_difference_leaves_to_do_in_a_nested_stack(imported: Imported) -> None:
    ids = outside(imported, {"net": resource(NET, name="n")})
    stack = tree(imported)
    new = INNER_TEXT.replace("outputs:\n", "  lan: {type: OS::Neutron::Net, properties: {name: other}}\noutputs:\n")
    with pytest.raises(ImportDiffers, match='data/kern/lan/name is "n", not "other"'):
        imported.plan(stack, {"data/kern/lan": ids["net"]}, files={INNER: new})
    options = {"files": {INNER: new}, "changes": "list"}
    plan = imported.plan(stack, {"data/kern/lan": ids["net"]}, **options)
    later = {"/".join(one.path): one.action for one in plan.later}
    assert later["data/kern/lan"] == "update"
    stack = imported.done(stack, {"data/kern/lan": ids["net"]}, **options)
    assert imported.first_plan(stack) == later


@pytest.mark.slow
def test_an_old_file_deletes_nothing_of_an_import(imported: Imported) -> None:
    """Law 2.10, in nested stacks."""
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    stack = tree(imported)
    document = cloudy.components.definitions.of(stack).template.document
    stack = imported.done(stack, given("data/kern/netz", NET, id=ids["net"]))
    without = DATA_TEXT.replace(f"  kern: {{type: '{INNER}', properties: {{größe: 2}}}}\n", "")
    for text in (FILES, {**FILES, DATA: without}):
        with pytest.raises(errors.DefinitionOutdated, match="lacks data/kern/netz"):
            cloudy.put(stack, document, files=text)
    with pytest.raises(errors.DefinitionOutdated, match="lacks data/kern/netz"):
        cloudy.put(stack, template(v=resource("OS::Heat::Value", value=1)))
    stack = cloudy.patch(stack)
    stack = cloudy.put(stack, document, files=files(imported, stack))
    stack = cloudy.put(stack, document, files=FILES)
    assert "netz" not in {row.name for row in cloudy.rows(stacks(imported, stack)["kern"])}


@pytest.mark.slow
def test_what_has_no_definition_of_its_own_is_refused(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    group = resource("OS::Heat::ResourceGroup", count=1, resource_def={"type": INNER, "properties": {"größe": 1}})
    other = resource(DATA)
    stack = tree(imported, group=group, other=other)
    for path, error, text in (
        ("group/0/netz", HTTPBadRequest, "group is a group"),
        ("group/0", HTTPBadRequest, "group join, leave"),
        ("data/kern/netz", TemplateShared, f"data has the template {DATA}, as other"),
        ("nichts/netz", ResourceNotFound, r"\(nichts\)"),
    ):
        with pytest.raises(error, match=text):
            imported.plan(stack, given(path, NET, id=ids["net"]))
        with pytest.raises(error, match=text):
            cloudy.components.of(Detachments).plan(cloudy.who, stack, convert({"resources": [path]}, DetachRequest))
    assert imported.plan(stack, given("top", NET, id=ids["net"])).later == ()
    cloudy.by_hand = True
    with cloudy.store.transaction():
        cloudy.store.stacks.save(replace(stacks(imported, stack)["group"], deleted_at=cloudy.clock.now()))
    with pytest.raises(ResourceNotFound, match=r"\(group\)"):
        imported.move_plan(stack, {"other": "group/1"})


@pytest.mark.slow
def test_a_lock_below_and_a_change_meanwhile(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    stack = tree(imported)
    inner, body = stacks(imported, stack)["kern"], given("data/kern/netz", NET, id=ids["net"])
    digest = imported.plan(stack, body).digest
    asked = imported.asked(body, plan_digest=digest)
    cloudy.lock(inner)
    with pytest.raises(StackLocked):
        imported.operations.start(cloudy.who, stack, asked, {"import": {}})
    assert imported.plan(stack, body).digest, "a plan passes a lock"
    cloudy.unlock(inner)
    planned, before = imported.operations._planned, cloudy.rows(inner)

    def meanwhile(*arguments: Any) -> Any:
        change = planned(*arguments)
        with cloudy.store.transaction():
            cloudy.store.resources.save_many([replace(before[0], status_reason="another")])
        return change

    imported.operations._planned = meanwhile  # type: ignore[method-assign]
    with pytest.raises(Exception, match="changed by another request meanwhile"):
        imported.operations.start(cloudy.who, cloudy.get(stack), asked, {"import": {}})
    assert {row.name for row in cloudy.rows(inner)} == {row.name for row in before}
