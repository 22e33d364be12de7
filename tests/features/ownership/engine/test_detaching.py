"""Detachment of objects, which stay alive."""

import pytest
from msgspec import convert
from msgspec.structs import replace

from heatlite.core.errors import (
    ActionConflict,
    DeletionProtected,
    HeatliteError,
    InvalidStackState,
    PlanChanged,
    ResourceNotFound,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.engine.state.requests import StackRequest
from heatlite.features.ownership import errors
from heatlite.features.ownership.bodies import DetachRequest
from heatlite.features.ownership.detaching import Detachments
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource, template
from tests.features.ownership.engine.conftest import Imported
from tests.types.conftest import Cloudy
from tests.types.test_recorded_cloud import elsewhere

NET, VOLUME, SUBNET = "OS::Neutron::Net", "OS::Cinder::Volume", "OS::Neutron::Subnet"
SHOP = {
    "net": resource(NET, name="n"),
    "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24"),
    "vol": resource(VOLUME, size=1),
}


def detached(cloudy: Cloudy, stack: StackRecord, *names: str, **options: object) -> tuple[StackRecord, JsonMap]:
    """Return the stack after a detachment, and the answer."""
    operations = cloudy.components.of(Detachments)
    body = {"resources": [*names], **options}
    digest = operations.plan(cloudy.who, stack, convert(body, DetachRequest)).digest
    answer = operations.start(cloudy.who, stack, convert({**body, "plan_digest": digest}, DetachRequest), {})
    return cloudy.get(stack), answer


@pytest.mark.slow
def test_a_detached_object_outlives_its_stack(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = cloudy.made(SHOP, "a")
    ids = {row.name: row.physical_id for row in cloudy.rows(stack)}
    with imported.untouched():
        stack, answer = detached(cloudy, stack, "vol")
    assert answer == {"detached": {"vol": {"type": VOLUME, "id": ids["vol"]}}}
    assert {row.name for row in cloudy.rows(stack)} == {"net", "sub"}
    assert imported.first_plan(stack) == {}
    action = cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None and action.outputs.detached is not None
    assert ("vol", "DETACH") in [(event.resource_name, event.verb) for event in cloudy.events(stack)]
    cloudy.changed(stack, {**SHOP, "vol": resource(VOLUME, size=2)})  # another object of the same name
    assert cloudy.view().thing("block_storage.volume", ids["vol"])["size"] == 1
    cloudy.stacks.delete(cloudy.who, cloudy.get(stack))
    cloudy.settle(stack)
    assert cloudy.view().thing("block_storage.volume", ids["vol"])["size"] == 1
    body = answer["detached"]
    assert isinstance(body, dict)
    other = imported.done(imported.empty(), body)
    assert imported.first_plan(other) == {}


def test_readers_of_an_external_object_see_the_same(imported: Imported) -> None:
    cloudy = imported.cloudy
    document = {**template(**SHOP), "outputs": {"name": {"value": {"get_attr": ["net", "name"]}}}}
    stack = cloudy.create(document, "a")
    network = cloudy.row(stack, "net").physical_id
    with pytest.raises(errors.StillReferenced, match=r"resources\.sub, outputs\.name"):
        detached(cloudy, stack, "net")
    before = cloudy.components.reader.outputs(stack)
    with imported.untouched():
        stack, _ = detached(cloudy, stack, "net", as_external=True)
    assert cloudy.components.reader.outputs(stack) == before
    assert cloudy.row(stack, "net").external_id == network
    assert imported.first_plan(stack) == {}
    written = cloudy.components.definitions.of(stack).template.document["resources"]
    assert written == {**SHOP, "net": {"type": NET, "external_id": network}}
    back = imported.done(stack, {"net": {"type": NET, "id": network}})
    assert cloudy.row(back, "net").external_id is None
    assert imported.first_plan(back) == {}


def test_what_cannot_be_detached(imported: Imported) -> None:
    cloudy = imported.cloudy
    inner = str(template(net=resource(NET))).replace("'", '"')
    files = {"file:///inner.yaml": inner}
    stack = cloudy.made({**SHOP, "up": {"type": "file:///inner.yaml"}}, "a", files=files)
    operations = cloudy.components.of(Detachments)
    for name, error in (
        ("up", InvalidStackState),
        ("up/nothing", ResourceNotFound),
        ("nothing", ResourceNotFound),
    ):
        with pytest.raises(error):
            detached(cloudy, stack, name)
    asked = convert({"resources": ["vol"]}, DetachRequest)
    with pytest.raises(PlanChanged):
        operations.start(cloudy.who, stack, asked, {})
    with pytest.raises(PlanChanged):
        operations.start(cloudy.who, stack, convert({"resources": ["vol"], "plan_digest": "x"}, DetachRequest), {})
    cloudy.components.protection.protect(cloudy.who, stack, "vol", None)
    with pytest.raises(DeletionProtected, match="heatlite unprotect a vol"):
        detached(cloudy, stack, "vol")
    assert cloudy.stacks.preview_update(cloudy.who, stack, StackRequest(), existing=True, plan=True).plan is not None


@pytest.mark.slow
def test_what_holds_an_object_holds_its_detachment(imported: Imported, monkeypatch: pytest.MonkeyPatch) -> None:
    cloudy = imported.cloudy
    stack = cloudy.made(SHOP, "a")
    row = cloudy.row(stack, "vol")

    def refused(error: type[HeatliteError], text: str) -> None:
        before = cloudy.rows(stack)
        with pytest.raises(error, match=text):
            detached(cloudy, stack, "vol")
        assert cloudy.rows(stack) == before

    with monkeypatch.context() as patch:
        patch.setattr(cloudy.store, "held_resources", lambda ids: dict.fromkeys(ids, "its incident is REPAIRING"))
        refused(ActionConflict, "vol of stack a cannot leave now: its incident is REPAIRING")
    with cloudy.store.transaction():  # as an unlock leaves it that could not unlock the object
        cloudy.store.resources.save_many([replace(row, verb=Verb.LOCK)])
    refused(InvalidStackState, "vol of stack a is locked: heatlite unlock a")
    with cloudy.store.transaction():
        cloudy.store.resources.save_many([row])
    elsewhere(cloudy)  # an abandonment passes there, too: no object is read or touched
    stack, _ = detached(cloudy, cloudy.get(stack), "vol")
    assert "vol" not in {row.name for row in cloudy.rows(stack)}


@pytest.mark.slow
def test_an_external_part_is_found_by_its_whole(imported: Imported) -> None:
    cloudy = imported.cloudy
    rule = resource("OS::Neutron::QoSBandwidthLimitRule", policy=ref("policy"), max_kbps=100)
    stack = cloudy.made({"policy": resource("OS::Neutron::QoSPolicy"), "rule": rule}, "a")
    stack, _ = detached(cloudy, stack, "rule", as_external=True)
    assert imported.first_plan(stack) == {}
    again = cloudy.components.definitions.of(stack).template.document
    assert cloudy.put(stack, again).status == "COMPLETE"
