"""Imports of existing objects."""

from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core import errors
from heatlite.core.errors import HeatliteError, HTTPBadRequest, ObjectOwned, PlanChanged, StackLocked
from heatlite.core.json import as_map
from heatlite.core.status import Status, Verb
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.features.ownership.errors import DefinitionOutdated, NotOnlyImport, given_up
from heatlite.features.ownership.reading import CHANGES
from heatlite.features.ownership.store.store import OwnershipStore
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.template.source.loader import load
from tests.engine.conftest import ref, resource, template
from tests.features.ownership.engine.conftest import Imported, given
from tests.features.ownership.engine.test_detaching import detached
from tests.tables import table

NET, VOLUME, SERVER = "OS::Neutron::Net", "OS::Cinder::Volume", "OS::Nova::Server"


def outside(imported: Imported, resources: dict[str, Any]) -> dict[str, str]:
    """Make objects that no stack has. Returns their ids."""
    cloudy = imported.cloudy
    made = cloudy.made(resources, "outside")
    ids = {row.name: row.physical_id or "" for row in cloudy.rows(made)}
    cloudy.components.exports.abandon(cloudy.who, made)
    cloudy.settle(made)
    return ids


@pytest.mark.slow
def test_a_server_with_port_and_volume(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(
        imported,
        {
            "net": resource(NET, name="backend"),
            "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
            "port": resource("OS::Neutron::Port", network=ref("net"), depends_on=["sub"]),
            "vol": resource(VOLUME, size=1, name="data", metadata={"role": "db"}),
            "web": resource(
                SERVER, image="cirros", flavor="m1.small", networks=[{"port": ref("port")}], admin_pass="hunter2hunter2"
            ),
        },
    )
    before = cloudy.census()
    kinds = {"net": NET, "sub": "OS::Neutron::Subnet", "port": "OS::Neutron::Port", "vol": VOLUME, "web": SERVER}
    body = {name: {"type": kinds[name], "id": key} for name, key in ids.items()}
    stack = imported.empty()
    plan = imported.plan(stack, body)
    written = as_map(load(str(plan.details["template"])).data["resources"])
    assert written["port"]["properties"]["network"] == {"get_resource": "net"}
    assert written["web"]["properties"]["networks"] == [{"port": {"get_resource": "port"}}]
    assert written["web"]["properties"]["flavor"] == "m1.small"
    assert written["web"]["properties"]["image"] == "cirros"
    assert written["vol"]["properties"]["metadata"] == {"role": "db"}
    assert "device_id" not in written["port"]["properties"]
    assert "hunter2" not in str(plan.details)
    assert {"path": "web", "pointer": "/admin_pass", "why": "secret"} in plan.details["omitted"]
    unknown = {"path": "net", "pointer": "/availability_zone_hints", "why": "default_unknown"}
    assert unknown in plan.details["omitted"]
    stack = imported.done(stack, body)
    assert (stack.verb, stack.status) == (Verb.UPDATE, Status.COMPLETE)
    assert {row.name: (row.verb, row.status_reason) for row in cloudy.rows(stack)} == dict.fromkeys(
        ids, (Verb.ADOPT, "Imported")
    )
    assert imported.first_plan(stack) == {}
    action = cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert action is not None and action.status == "SUCCEEDED"
    assert action.inputs.request is not None and set(action.inputs.request["import"]["resources"]) == {*ids}
    assert cloudy.census() == before
    cloudy.stacks.delete(cloudy.who, stack)
    cloudy.settle(stack)
    left = cloudy.census()
    gone = ("network.network", "network.subnet", "network.port", "block_storage.volume", "compute.server")
    assert [kind for kind in gone if left.get(kind, 0) != before[kind] - 1] == []


def test_names_and_filters_find_one_object(imported: Imported) -> None:
    ids = outside(
        imported,
        {
            "one": resource(VOLUME, size=1, name="data", metadata={"role": "db"}),
            "two": resource(VOLUME, size=2, name="data", metadata={"role": "web"}),
            "net": resource(NET, name="backend"),
        },
    )
    stack = imported.empty()
    for wanted, error in (
        ({"name": "data"}, errors.AmbiguousMatch),
        ({"name": "dat"}, errors.NoMatch),
        ({"filter": {"name": "data", "size": 3}}, errors.NoMatch),
        ({"id": "6b236b23-0000-4000-8000-000000000000"}, errors.EntityNotFound),
    ):
        with pytest.raises(error) as refused:
            imported.plan(stack, given("vol", VOLUME, **wanted))
        if error is errors.AmbiguousMatch:
            assert ids["one"] in refused.value.message and ids["two"] in refused.value.message
    body = {
        **given("one", VOLUME, filter={"name": "data", "metadata": {"role": "db"}}),
        **given("two", VOLUME, filter={"size": 2}),
        **given("net", NET, name="backend"),
    }
    stack = imported.done(stack, body)
    assert {row.name: row.physical_id for row in imported.cloudy.rows(stack)} == ids


@pytest.mark.slow
def test_an_object_has_one_owner(imported: Imported) -> None:
    cloudy = imported.cloudy
    inner = template(net=resource(NET, name="inner"))
    files = {"file:///inner.yaml": str(inner).replace("'", '"')}
    made = cloudy.made({"up": {"type": "file:///inner.yaml"}, "net": resource(NET)}, "a", files=files)
    rows = {row.name: row for row in cloudy.rows(made)}
    nested = cloudy.store.stacks.get(rows["up"].physical_id or "")
    assert nested is not None
    deep = cloudy.store.resources.of(nested.id)[0]
    stack = imported.empty()
    with pytest.raises(errors.ObjectOwned, match=r"is owned by up/net of stack a\.") as refused:
        imported.plan(stack, given("n", NET, id=deep.physical_id))
    commands = [one.command for one in given_up(refused.value)]
    assert commands == ["heatlite move a up/net b:n", "heatlite detach a up/net"]
    with pytest.raises(errors.ObjectOwned, match="is owned by net of stack a") as refused:
        imported.plan(made, given("n", NET, id=rows["net"].physical_id))
    assert [one.command for one in given_up(refused.value)] == ["heatlite move a net n", "heatlite detach a net"]
    with cloudy.store.transaction():
        cloudy.store.database.write("UPDATE stack SET project = 'other' WHERE id = ?", (made.id,))
    with pytest.raises(errors.ObjectOwned, match="owned by a stack of another project") as refused:
        imported.plan(stack, given("n", NET, id=rows["net"].physical_id))
    assert "stack a" not in refused.value.message
    # An owned record is not adopted, either.
    ids = outside(imported, {"net": resource(NET)})
    imported.done(stack, given("n", NET, id=ids["net"]))
    record = {"template": template(net=resource(NET)), "resources": {"net": {"resource_id": ids["net"]}}}
    with pytest.raises(ObjectOwned):
        cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=read_record(record)))


@pytest.mark.parametrize("is_foreign", [False, True])
def test_what_a_stack_is_creating_is_not_imported(imported: Imported, is_foreign: bool) -> None:
    """Law 2.2: its row may not have the id yet."""
    cloudy = imported.cloudy
    made = cloudy.made({"own": resource(NET), "named": resource(NET, name="backend"), "done": resource(NET)}, "a")
    ids = {row.name: row.physical_id or "" for row in cloudy.rows(made)}
    other = outside(imported, {"net": resource(NET, name="other")})
    sql = "UPDATE resource SET verb = 'CREATE', status = 'IN_PROGRESS', physical_id = NULL WHERE name <> 'done'"
    stack, write = imported.empty(), cloudy.store.database.write
    with cloudy.store.transaction():
        write(f"{sql} AND stack_id = ?", (made.id,))
        if is_foreign:
            write("UPDATE stack SET project = 'other' WHERE id = ?", (made.id,))
    for name in ("own", "named"):
        text = "A stack of another project is" if is_foreign else f"Resource {name} of stack a is"
        with pytest.raises(errors.ObjectNotReady, match=rf"^resources\.n: {text} being created, and {ids[name]}"):
            imported.plan(stack, given("n", NET, id=ids[name]))
    assert imported.plan(stack, given("n", NET, id=other["net"])).resources, "the name shows that it is another one"
    with cloudy.store.transaction():
        for name in ("own", "named"):
            sql = "UPDATE resource SET status = 'COMPLETE', physical_id = ? WHERE name = ? AND stack_id = ?"
            write(sql, (ids[name], name, made.id))
        write("UPDATE stack SET project = 'demo' WHERE id = ?", (made.id,))
    with pytest.raises(errors.ObjectOwned, match="is owned by own of stack a"):
        imported.plan(stack, given("n", NET, id=ids["own"]))


def test_each_of_two_objects_with_one_id_has_an_owner(imported: Imported) -> None:
    key, container = "OS::Nova::KeyPair", "OS::Swift::Container"
    outside(imported, {"c": resource(container, name="shop")})
    imported.cloudy.made({"k": resource(key, name="shop")}, "a")
    asked = {"k": {"type": key, "id": "shop"}, "c": {"type": container, "id": "shop"}}
    stack = imported.empty()
    for names in (("k", "c"), ("c", "k")):
        with pytest.raises(errors.ObjectOwned, match="k: shop is owned by k of stack a"):
            imported.plan(stack, {name: asked[name] for name in names})
    assert imported.plan(stack, {"c": asked["c"]}).resources


def test_an_object_that_has_two_owners_already_is_told(imported: Imported) -> None:
    cloudy = imported.cloudy
    one, other = (cloudy.made({"net": resource(NET)}, name) for name in ("a", "b"))
    before = cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0)
    rows = [cloudy.row(stack, "net") for stack in (one, other)]
    with cloudy.store.transaction():
        cloudy.store.resources.save_many([replace(rows[1], physical_id=rows[0].physical_id)])
    told = cloudy.store.inconsistencies(cloudy.components.clock.now(), 0.0)
    with cloudy.store.transaction():
        cloudy.store.resources.save_many(rows)
    assert before == []
    assert {(each.rule, each.id) for each in told} == {("an object has one owner", row.id) for row in rows}


@pytest.mark.slow
def test_each_object_is_read_once(imported: Imported) -> None:
    cloudy = imported.cloudy
    view = cloudy.view()
    made = [view.call("block_storage.create_volume", size=1, name=f"v{number}") for number in range(500)]
    body = {f"v{at}": {"type": VOLUME, "id": as_map(one)["id"]} for at, one in enumerate(made)}
    calls, stack = Counter[str](), imported.empty()
    verbs = view.simulation.verbs

    def counted(verb: str, call: Any) -> Any:
        def run(*arguments: Any, **attributes: Any) -> Any:
            calls[verb] += 1
            return call(*arguments, **attributes)

        return run

    view.simulation.verbs = {verb: counted(verb, call) for verb, call in verbs.items()}
    plan = imported.plan(stack, body)
    view.simulation.verbs = verbs
    assert plan.later == ()
    assert calls["block_storage.get_volume"] == len(body)
    assert calls.total() < len(body) + 10


@pytest.mark.slow
def test_of_two_imports_at_once_one_gets_the_object(imported: Imported) -> None:
    cloudy = imported.cloudy
    nets = {f"n{number}": resource(NET) for number in range(4)}
    ids = outside(imported, nets)
    for name, key in ids.items():
        body, stacks = given("net", NET, id=key), [imported.empty(f"{name}-{one}") for one in range(4)]
        digests = [imported.plan(stack, body).digest for stack in stacks]

        def begin(at: int, body: Any = body, stacks: Any = stacks, digests: Any = digests) -> str:
            try:
                imported.operations.start(cloudy.who, stacks[at], imported.asked(body, plan_digest=digests[at]), {})
            except errors.ObjectOwned:
                return "owned"
            return "imported"

        with ThreadPoolExecutor() as pool:
            assert sorted(pool.map(begin, range(4))) == ["imported", "owned", "owned", "owned"]
        owners = [stack for stack in stacks if cloudy.rows(stack)]
        assert len(owners) == 1


def test_two_names_are_no_two_objects(imported: Imported) -> None:
    ids = outside(imported, {"net": resource(NET)})
    with pytest.raises(HTTPBadRequest, match="one and two are the same object"):
        imported.plan(imported.empty(), {**given("one", NET, id=ids["net"]), **given("two", NET, id=ids["net"])})


@pytest.mark.slow
def test_differences_are_refused_or_wait(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"vol": resource(VOLUME, size=1, name="data"), "net": resource(NET, name="n")})
    stack = imported.empty()
    wanted = template(vol=resource(VOLUME, size=2, name="data"), net=resource(NET, name="n"))
    before = cloudy.store.stacks.get(stack.id)
    with pytest.raises(errors.ImportDiffers, match="vol/size is 1, not 2"):
        imported.plan(stack, ids, template=wanted)
    assert cloudy.store.stacks.get(stack.id) == before
    assert cloudy.rows(stack) == []
    plan = imported.plan(stack, ids, template=wanted, changes="list")
    (waiting,) = plan.later
    assert (waiting.path, waiting.action) == (("vol",), "update")
    assert [(one.name, one.old, one.new) for one in waiting.differences] == [("size", 1, 2)]
    stack = imported.done(stack, ids, template=wanted, changes="list")
    following = cloudy.stacks.preview_update(cloudy.who, stack, StackRequest(), existing=True, plan=True).plan
    assert following is not None
    assert tuple(one for one in following.resources if one.action != "keep") == plan.later
    assert cloudy.row(stack, "vol").properties["size"] == 1
    cloudy.put(stack, wanted)
    assert cloudy.thing(stack, "vol")["size"] == 2


@pytest.mark.slow
def test_a_definition_only_adds_what_it_imports(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    own = {"a": resource(NET, name="a"), "b": resource(NET, name={"get_attr": ["a", "name"]})}
    stack = cloudy.made(own, "b")
    net = {"net": resource(NET, name="n")}
    for document, place in (
        (template(**own), "resources.net is missing"),
        (template(**{**own, "a": resource(NET, name="x")}, **net), "resources.a"),
        (template(**{"a": own["a"]}, **net), "resources.b"),
        (template(**own, **net, more=resource(NET)), "resources.more"),
        ({**template(**own, **net), "description": "new"}, "description"),
    ):
        with pytest.raises(NotOnlyImport, match=place):
            imported.plan(stack, ids, template=document)
    document = {**template(**own, **net), "outputs": {"id": {"value": ref("net")}}}
    stack = imported.done(stack, ids, template=document)
    assert imported.first_plan(stack) == {}


def test_an_external_resource_becomes_a_managed_one(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    external = {"net": {"type": NET, "external_id": ids["net"]}, "sub": resource(
        "OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"
    )}  # fmt: skip
    stack = cloudy.made(external, "b")
    before = cloudy.row(stack, "net")
    stack = imported.done(stack, given("net", NET, id=ids["net"]))
    after = cloudy.row(stack, "net")
    assert (after.id, after.external_id, after.created_at) == (before.id, None, before.created_at)
    assert imported.first_plan(stack) == {}


def test_a_written_definition_keeps_what_the_template_has(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n"), "more": resource(NET, name="m")})
    policy = {"deletion_policy": "retain", "metadata": {"a": "b"}}
    document = template(
        net={"type": NET, "external_id": ids["net"], **policy},
        off={"type": NET, "condition": "never", "properties": {"name": "mine"}},
    )
    stack = cloudy.create({**document, "conditions": {"never": {"equals": [1, 2]}}}, "b")
    with pytest.raises(HTTPBadRequest, match="off: the template has a resource of that name"):
        imported.plan(stack, given("off", NET, id=ids["more"]))
    stack = imported.done(stack, given("net", NET, id=ids["net"]))
    written = cloudy.components.definitions.of(stack).template.document["resources"]
    assert written["net"].items() >= policy.items()
    assert "external_id" not in written["net"]
    assert (cloudy.row(stack, "net").deletion_policy, imported.first_plan(stack)) == ("Retain", {})


def test_an_object_that_is_not_ready_is_not_imported(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"vol": resource(VOLUME, size=1)})
    thing = cloudy.view().thing("block_storage.volume", ids["vol"])
    cloudy.view().simulation.put("block_storage.volume", ids["vol"], {**thing, "status": "error"})
    with pytest.raises(errors.ObjectNotReady, match="ERROR"):
        imported.plan(imported.empty(), given("vol", VOLUME, id=ids["vol"]))


def test_hidden_values_stay_hidden(imported: Imported) -> None:
    ids = outside(imported, {"net": resource(NET, name="sesame-open")})
    document = template(net=resource(NET, name={"get_param": "word"}))
    document["parameters"] = {"word": {"type": "string", "hidden": True}}
    stack, more = imported.empty(), {"template": document}
    with pytest.raises(errors.ImportDiffers) as refused:
        imported.plan(stack, ids, parameters={"word": "another-word"}, **more)
    assert "another" not in refused.value.message
    plan = imported.plan(stack, ids, parameters={"word": "sesame-open"}, **more)
    assert "sesame" not in str(plan.details)
    stack = imported.done(stack, ids, parameters={"word": "sesame-open"}, **more)
    action = imported.cloudy.store.actions.last(stack.id, Verb.UPDATE)
    assert "sesame" not in str(action)


def test_a_hidden_value_of_the_stack_is_not_written(imported: Imported) -> None:
    """The object of a resource that has left may have one. It is listed."""
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="sesame-open", tags=["a"])})
    document = template(one=resource(NET, name={"get_param": "word"}))
    document["parameters"] = {"word": {"type": "string", "hidden": True}}
    stack = cloudy.create(document, "b", parameters={"word": "sesame-open"})
    body = given("net", NET, id=ids["net"])
    plan: Any = imported.plan(stack, body).details
    assert {"path": "net", "pointer": "/name", "why": "secret"} in plan["omitted"]
    stack = imported.done(stack, body)
    written = cloudy.components.definitions.of(stack).template.document
    assert "sesame" not in str(written) and written["resources"]["net"]["properties"]["tags"] == ["a"]
    assert imported.first_plan(stack) == {}


@table(
    "body, text",
    [
        ({"net": {"id": "x"}}, "resources.net needs a type"),
        ({"group/0": {"type": NET, "id": "x"}}, r"\(group\) could not be found"),
        ({"v": {"type": "OS::Heat::Value", "id": "x"}}, "has no object in a cloud"),
        ({"n": {"type": NET, "filter": {"nonsense": 1}}}, "nonsense"),
        ({"n": {"type": "OS::Neutron::RouterInterface", "id": "x"}}, "could not be found"),
        ({"n": {"type": NET, "filter": {"name": None}}}, "the filter has no value"),
        ({"n": {"type": "OS::Cinder::VolumeAttachment", "name": "x"}}, "are found by their id only"),
        ({"n": {"type": "OS::Cinder::VolumeAttachment", "filter": {"mountpoint": "x"}}}, "are found by their id only"),
    ],
)
def test_bodies_that_cannot_be_imported(imported: Imported, body: dict[str, Any], text: str) -> None:
    stack = imported.cloudy.store.stacks.by_name(imported.cloudy.who.project, "b") or imported.empty()
    with pytest.raises(HeatliteError, match=text):
        imported.plan(stack, body)


@pytest.mark.slow
def test_an_old_template_deletes_nothing_of_an_import(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n"), "more": resource(NET, name="m")})
    own = {"a": resource(NET, name="a")}
    stack = cloudy.made(own, "b")
    stack = imported.done(stack, given("net", NET, id=ids["net"]))
    for operation in (cloudy.stacks.update, cloudy.stacks.preview_update):
        with pytest.raises(DefinitionOutdated, match="lacks net"):
            operation(cloudy.who, stack, StackRequest(template=template(**own)), existing=False)
    stack = cloudy.patch(stack)
    new = cloudy.components.definitions.of(stack).template.document
    stack = cloudy.put(stack, new)
    stack = cloudy.put(stack, template(**own))
    assert {row.name for row in cloudy.rows(stack)} == {"a"}, "once a client has named it, an update may delete it"
    document = template(**own, more=resource(NET, name="m"))
    stack = imported.done(stack, {"more": ids["more"]}, template=document)
    cloudy.put(stack, template(**own))
    again = outside(imported, {"n": resource(NET)})
    stack = imported.done(cloudy.get(stack), given("again", NET, id=again["n"]))
    cloudy.stacks.delete(cloudy.who, stack)
    cloudy.settle(stack)
    assert cloudy.store.database.read("SELECT COUNT(*) FROM unnamed_resource") == [(0,)]


def test_a_new_object_is_as_safe_from_an_old_template(imported: Imported) -> None:
    """Law 2.10: an update without a template names nothing."""
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    own = {"a": resource(NET, name="a")}
    stack = imported.done(cloudy.made(own, "b"), given("net", NET, id=ids["net"]))
    cloudy.mark(stack, "net")
    stack = cloudy.patch(stack)
    assert cloudy.row(stack, "net").physical_id != ids["net"]
    with pytest.raises(DefinitionOutdated, match="lacks net"):
        cloudy.put(stack, template(**own))


def test_a_value_that_a_template_takes_for_a_function_is_told(imported: Imported) -> None:
    stack, view = imported.empty(), imported.cloudy.view()
    for number, metadata in enumerate(({"get_param": "x"}, {"get_param": "x", "role": "db"}, {"role": "get_param"})):
        made: Any = view.call("block_storage.create_volume", size=1, name=f"v{number}", metadata=metadata)
        asked = given("v", VOLUME, id=made["id"])
        if number:
            assert imported.plan(stack, asked).resources
        else:
            with pytest.raises(HTTPBadRequest, match=r"^resources.v: its metadata has {\"get_param\": …}.*type json"):
                imported.plan(stack, asked)
            defined = template(v=resource(VOLUME, size=1, name="v0", metadata={"get_param": "p"}))
            defined["parameters"] = {"p": {"type": "json", "default": metadata}}
            assert imported.plan(stack, {"v": made["id"]}, template=defined).resources


@pytest.mark.slow
def test_an_old_snapshot_deletes_nothing_of_an_import(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    stack, snapshots = cloudy.made({"a": resource(NET, name="a")}, "b"), cloudy.components.snapshots
    taken = snapshots.take(cloudy.who, stack, None)
    stack = imported.done(cloudy.settle(stack), given("net", NET, id=ids["net"]))
    with pytest.raises(DefinitionOutdated, match="lacks net"):
        snapshots.restore(cloudy.who, stack, taken.id)
    cloudy.put(stack, cloudy.components.definitions.of(stack).template.document)
    snapshots.restore(cloudy.who, cloudy.get(stack), taken.id)
    assert {row.name for row in cloudy.rows(cloudy.settle(stack))} == {"a"}


@pytest.mark.slow
def test_an_undo_past_an_import_tells_its_own_ways_out(imported: Imported) -> None:
    """Law 2.10: a later revision, or a detachment.

    An undo names nothing: no client has sent its template.
    """
    cloudy, revisions = imported.cloudy, imported.cloudy.components.of(Revisions)
    ids = outside(imported, {"net": resource(NET, name="n")})
    own = {"a": resource(NET, name="a")}
    stack = imported.done(cloudy.made(own, "b"), given("net", NET, id=ids["net"]))
    undo = partial(revisions.undo, body={})
    for operation in (undo, revisions.plan):
        with pytest.raises(DefinitionOutdated, match=r"earlier definition .* lacks net, .*heatlite detach") as refused:
            operation(cloudy.who, cloudy.get(stack), UndoRequest(1))
        assert "--write" not in refused.value.message
    undo(cloudy.who, cloudy.get(stack), UndoRequest(2))
    stack = cloudy.settle(stack)
    with pytest.raises(DefinitionOutdated, match=r"^The template .* lacks net, .*--write"):
        cloudy.put(stack, template(**own))
    stack, _ = detached(cloudy, cloudy.get(stack), "net")
    undo(cloudy.who, stack, UndoRequest(1))
    assert {row.name for row in cloudy.rows(cloudy.settle(stack))} == {"a"}
    assert cloudy.view().thing("network.network", ids["net"])["name"] == "n"


def test_what_went_while_the_feature_was_off_keeps_no_template(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n")})
    stack = imported.done(cloudy.made({"a": resource(NET, name="a")}, "b"), given("net", NET, id=ids["net"]))
    (own,) = (one for one in cloudy.store.features if isinstance(one, OwnershipStore))
    cloudy.store.features.remove(own)
    stack = cloudy.put(stack, template(a=resource(NET, name="a")))
    cloudy.store.features.append(own)
    ((_, old),) = own.old_rows(cloudy.settings, cloudy.clock.now(), 10)
    assert len(old) == 1
    cloudy.put(stack, template(a=resource(NET, name="b")))


@pytest.mark.slow
def test_the_digest_binds(imported: Imported) -> None:
    ids = outside(imported, {"net": resource(NET, name="n")})
    stack, operations, who = imported.empty(), imported.operations, imported.cloudy.who
    body = given("net", NET, id=ids["net"])
    asked = imported.asked(body)
    with pytest.raises(PlanChanged):
        operations.start(who, stack, asked, {})
    digest = imported.plan(stack, body).digest
    imported.cloudy.view().call("network.update_network", ids["net"], name="other")
    with pytest.raises(PlanChanged):
        operations.start(who, stack, imported.asked(body, plan_digest=digest), {})
    stack = imported.cloudy.lock(stack)
    with pytest.raises(StackLocked):
        operations.start(who, stack, imported.asked(body, plan_digest=digest), {})
    assert imported.plan(stack, body).digest, "a plan passes a lock"
    sql = "SELECT request FROM suppressed WHERE stack_id = ?"
    ((request,),) = imported.cloudy.store.database.read(sql, (stack.id,))
    assert request == "import"


def test_no_verb_that_passes_for_reading_begins_with_a_word_for_a_change(imported: Imported) -> None:
    nouns = {verb.partition(".")[2] for verb in imported.cloudy.view().simulation.verbs}
    asked = {noun for noun in nouns if not CHANGES.match(noun)}
    assert {noun for noun in asked if not noun.startswith(("get_", "find_", "download_")) and noun[-1] != "s"} == set()


def test_an_object_that_vanishes_after_its_plan(imported: Imported) -> None:
    cloudy = imported.cloudy
    ids = outside(imported, {"net": resource(NET, name="n"), "vol": resource(VOLUME, size=1)})
    stack, body = imported.empty(), {**given("net", NET, id=ids["net"]), **given("vol", VOLUME, id=ids["vol"])}
    digest = imported.plan(stack, body).digest
    cloudy.view().call("network.delete_network", ids["net"])
    with pytest.raises(errors.EntityNotFound) as refused:
        imported.operations.start(cloudy.who, stack, imported.asked(body, plan_digest=digest), {"import": body})
    assert refused.value.message.startswith(f"resources.net: The {NET} ({ids['net']})")
    assert (cloudy.rows(stack), cloudy.get(stack)) == ([], stack)
