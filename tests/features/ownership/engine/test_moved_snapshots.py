"""Snapshots of stacks whose resources have moved since."""

import json
from collections.abc import Sequence
from typing import Any

import pytest

from heatlite.core.errors import SnapshotOutdated
from heatlite.core.status import Status, Verb
from heatlite.store.records import ResourceRecord, SnapshotRecord, StackRecord
from heatlite.store.stacks.resources import Resources
from tests.engine.conftest import ref, resource, template
from tests.features.ownership.engine.conftest import Imported
from tests.features.ownership.engine.test_nested import NET, VOLUME, tree

SUBNET = "OS::Neutron::Subnet"


def taken(imported: Imported, stack: StackRecord) -> SnapshotRecord:
    snapshot = imported.cloudy.components.snapshots.take(imported.cloudy.who, stack, None)
    imported.cloudy.settle(stack)
    return snapshot


def restored(imported: Imported, stack: StackRecord, snapshot: SnapshotRecord) -> StackRecord:
    cloudy = imported.cloudy
    cloudy.components.snapshots.restore(cloudy.who, cloudy.get(stack), snapshot.id)
    return cloudy.settle(stack)


def named(imported: Imported, stack: StackRecord) -> None:
    """Have a client send the stored template."""
    cloudy = imported.cloudy
    definition = cloudy.components.definitions.of(cloudy.get(stack))
    cloudy.put(stack, definition.template.document, files=definition.template.files)


@pytest.mark.slow
def test_what_is_in_another_stack_is_left_out(imported: Imported) -> None:
    cloudy = imported.cloudy
    own: dict[str, Any] = {"net": resource(NET, name="n"), "vol": resource(VOLUME, size=1, name="v")}
    own["sub"] = resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24")
    outputs = {"net": {"value": ref("net")}, "vol": {"value": ref("vol")}}
    here = cloudy.create(template(**own, outputs=outputs), "a")
    there = cloudy.made({"own": resource(NET, name="own")}, "b")
    snapshot = taken(imported, here)
    without = template(vol=own["vol"], outputs={"vol": outputs["vol"]})
    more = {name: own[name] for name in ("net", "sub")}
    given = {"template": {**template(**{"vol": own["vol"]}), "outputs": {"vol": outputs["vol"]}}}
    to = {"to_definition": {"template": template(own=resource(NET, name="own"), **more)}}
    here = imported.moved(cloudy.get(here), {"net": "net", "sub": "sub"}, "b", **given, **to)
    before = {row.name: row for row in cloudy.rows(there)}
    cloudy.view().call("block_storage.update_volume", cloudy.row(here, "vol").physical_id, name="other")
    here = restored(imported, here, snapshot)
    assert (here.verb, here.status) == (Verb.RESTORE, Status.COMPLETE), here.status_reason
    assert "Left out, for it has moved: net (now net of stack b), sub (now sub of stack b)" in here.status_reason
    assert {row.name for row in cloudy.rows(here)} == {"vol"}
    assert {row.name: row for row in cloudy.rows(there)} == before
    assert cloudy.components.definitions.of(here).template.document["outputs"] == without["outputs"]
    action = cloudy.store.actions.last(here.id, Verb.RESTORE)
    assert action is not None
    assert action.inputs.left_out == {"net": "net of stack b", "sub": "sub of stack b"}
    assert imported.first_plan(here) == {}


@pytest.mark.slow
def test_new_names_are_kept(imported: Imported) -> None:
    cloudy = imported.cloudy
    own = {"net": resource(NET, name="n"), "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24")}
    stack = cloudy.made({**own, "x": resource(VOLUME, size=1), "y": resource(VOLUME, size=2)}, "a")
    snapshot = taken(imported, stack)
    ids = {row.name: row.physical_id for row in cloudy.rows(stack)}
    stack = imported.moved(cloudy.get(stack), {"net": "lan", "x": "y", "y": "x"})
    named(imported, stack)
    stack = restored(imported, stack, snapshot)
    assert stack.status is Status.COMPLETE, stack.status_reason
    after = {row.name: row.physical_id for row in cloudy.rows(stack)}
    assert after == {"lan": ids["net"], "sub": ids["sub"], "x": ids["y"], "y": ids["x"]}
    assert "Left out" not in stack.status_reason
    document: Any = cloudy.components.definitions.of(stack).template.document
    assert document["resources"]["sub"]["properties"]["network"] == ref("lan")
    assert imported.first_plan(stack) == {}


@pytest.mark.slow
def test_what_a_restore_cannot_leave_out(imported: Imported) -> None:
    cloudy = imported.cloudy
    own = {"net": resource(NET, name="n"), "sub": resource(SUBNET, network=ref("net"), cidr="10.0.0.0/24")}
    here, there = cloudy.made(own, "a"), cloudy.made({}, "b")
    key = cloudy.row(here, "net").physical_id
    snapshot = taken(imported, here)
    given = {"template": template(sub=resource(SUBNET, network=key, cidr="10.0.0.0/24"))}
    to = {"to_definition": {"template": template(net=own["net"])}}
    here = imported.moved(cloudy.get(here), {"net": "net"}, there.id, **given, **to)
    with pytest.raises(SnapshotOutdated, match=r"sub \(reads what has moved\)"):
        restored(imported, here, snapshot)
    stack = tree(imported, "c")
    snapshot = taken(imported, stack)
    stack = imported.moved(cloudy.get(stack), {"data/platte": "platte"})
    named(imported, stack)
    with pytest.raises(SnapshotOutdated, match=r"data/platte \(now platte\)"):
        restored(imported, stack, snapshot)


def test_what_was_deleted_since_is_made_again(imported: Imported) -> None:
    cloudy = imported.cloudy
    stack = cloudy.made({"net": resource(NET, name="n"), "vol": resource(VOLUME, size=1)}, "a")
    snapshot = taken(imported, stack)
    cloudy.changed(stack, {"vol": resource(VOLUME, size=1)})
    stack = restored(imported, stack, snapshot)
    assert {row.name for row in cloudy.rows(stack)} == {"net", "vol"}
    assert stack.status_reason == "Stack RESTORE completed successfully"


@pytest.mark.slow
@pytest.mark.parametrize("count", [1, 4])
def test_owners_are_asked_for_once(imported: Imported, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """However many stacks a snapshot has."""
    cloudy = imported.cloudy
    inner = template(a=resource("OS::Heat::TestResource", value={"get_param": "v"}, update_replace=True))
    files = {"n.yaml": json.dumps({**inner, "parameters": {"v": {"type": "string"}}})}

    def whole(value: str) -> dict[str, Any]:
        return template(**{f"n{one}": resource("n.yaml", v=value) for one in range(count)})

    stack = cloudy.create(whole("one"), "a", files=files)
    snapshot = taken(imported, stack)
    cloudy.put(stack, whole("two"), files=files)
    asked, kept = list[int](), Resources.with_objects

    def counted(self: Resources, project: str, ids: Sequence[str]) -> list[ResourceRecord]:
        asked.append(len(ids))
        return kept(self, project, ids)

    monkeypatch.setattr(Resources, "with_objects", counted)
    restored(imported, stack, snapshot)
    assert {*asked} == {count}, "each time all of them"
