"""Leave and join of each type that may be a member, on the simulated cloud."""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from heatlite.core.errors import AmbiguousMatch, EntityNotFound, HeatliteError, ImportDiffers, NoMatch, ObjectNotReady
from heatlite.engine.state.group_requests import DifferenceMode, Joining, JoinRequest, Leave
from heatlite.engine.state.requests import StackRequest
from heatlite.plugin import CloudResource
from heatlite.store.records import StackRecord
from tests.engine.conftest import param, ref, resource, template
from tests.resource_types import needs
from tests.tables import few
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, read, templates

NEEDED = {"OS::Neutron::RouterInterface", "OS::Neutron::RouterGateway"}
"""Types that others of a template need without a name, and only in their own stack."""
CHANGING = ("create_", "update_", "delete_", "set_", "add_", "remove_", "unset_", "put_", "post_")


@contextmanager
def calls(cloudy: Cloudy) -> Iterator[list[str]]:
    """The verbs of the cloud that are called within."""
    cloud: Any = cloudy.view().simulation
    found: list[str] = []
    answer = cloud._answer

    def counted(view: Any, verb: str, *rest: Any) -> Any:
        found.append(verb.partition(".")[2])
        return answer(view, verb, *rest)

    cloud._answer = counted
    yield found
    cloud._answer = answer


def grouped(file: str) -> tuple[dict[str, Any], list[str]]:
    """Return a template with groups of one for resources that nothing names."""
    document = json.loads(json.dumps(read(file)))
    text = json.dumps(document)
    names = []
    for name, one in document["resources"].items():
        kind = one["type"]
        is_plain = kind in TYPES.names() and kind not in NEEDED and issubclass(TYPES.get(kind), CloudResource)
        if not is_plain or one.keys() - {"type", "properties"} or text.count(f'"{name}"') > 1:
            continue
        made = {"type": kind, "properties": one.get("properties", {})}
        document["resources"][name] = {
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": 1, "index_var": "%%%", "resource_def": made},
        }
        names.append(name)
    return document, names


FILES = [one for one in templates() if "examples/" in one and grouped(one)[1] and not one.endswith("software.yaml")]


def plan(cloudy: Cloudy, stack: StackRecord) -> list[Any]:
    found = cloudy.stacks.preview_update(cloudy.who, cloudy.get(stack), StackRequest(), existing=True, plan=True).plan
    assert found is not None
    return [one for one in found.resources if one.action != "keep"]


@pytest.mark.slow
@pytest.mark.parametrize("file", few(FILES))
def test_members_of_each_type(cloudy: Cloudy, file: str) -> None:
    """Law 2.1: no changing call. Law 2.4: the next plan is empty."""
    document, names = grouped(file)
    stack = cloudy.create(document)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    restless = {one.path[0] for one in plan(cloudy, stack)}
    components = cloudy.components
    rows = {}
    with calls(cloudy) as made:
        for name in names:
            nested = cloudy.store.stacks.get(cloudy.row(stack, name).physical_id or "")
            assert nested is not None
            rows[name] = cloudy.row(nested, "0")
            components.leaving.leave(cloudy.who, cloudy.get(stack), name, Leave(("0",)))
            assert cloudy.rows(nested) == []
    assert made == []
    with calls(cloudy) as made:
        for name in names:
            asked = JoinRequest((Joining(id=rows[name].physical_id),))
            shown = components.joins.plan(cloudy.who, cloudy.get(stack), name, asked)
            assert shown.later == (), name
            asked = JoinRequest(asked.members, plan_digest=shown.digest)
            components.joins.join(cloudy.who, cloudy.get(stack), name, asked)
    assert [one for one in made if one.startswith(CHANGING)] == []
    assert {one.path[0] for one in plan(cloudy, stack)} <= restless
    for name in names:
        nested = cloudy.store.stacks.get(cloudy.row(stack, name).physical_id or "")
        assert nested is not None
        after = cloudy.row(nested, "0")
        assert (after.physical_id, after.properties) == (rows[name].physical_id, rows[name].properties), name


def server(**more: Any) -> Any:
    return resource("OS::Nova::Server", flavor="m1.small", image="cirros", metadata={"tier": "gold"}, **more)


def of(size: int, member: Any) -> Any:
    return resource("OS::Heat::AutoScalingGroup", resource=member, min_size=0, max_size=5, desired_capacity=size)


def made_by_hand(cloudy: Cloudy, name: str, flavor: str = "m1.small", **more: Any) -> str:
    view = cloudy.view()
    images: Any = view.call("image.images")
    (image,) = [one["id"] for one in images if one["name"] == "cirros"]
    kind: Any = view.call("compute.find_flavor", flavor)
    given = {"name": name, "imageRef": image, "flavorRef": kind["id"], "networks": "none", **more}
    made: Any = view.call("compute.create_server", **given)
    return str(made["id"])


def join(cloudy: Cloudy, stack: StackRecord, *members: Joining, **more: Any) -> Any:
    asked, joins = JoinRequest(members, **more), cloudy.components.joins
    shown = joins.plan(cloudy.who, cloudy.get(stack), "g", asked)
    joins.join(cloudy.who, cloudy.get(stack), "g", JoinRequest(members, plan_digest=shown.digest, **more))
    return shown


def inner(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    nested = cloudy.store.stacks.get(cloudy.row(stack, "g").physical_id or "")
    assert nested is not None
    return nested


@pytest.mark.slow
def test_objects_are_found(cloudy: Cloudy) -> None:
    """By id, exact name and filter: one match, none, several. Law 2.6."""
    stack = cloudy.made({"g": of(0, server(networks=[]))})
    gold = {"metadata": {"tier": "gold"}}
    keys = [made_by_hand(cloudy, name, **more) for name, more in (("a", gold), ("b", {}), ("b", gold), ("bb", {}))]
    cloudy.clock.pass_(100)
    refused: list[tuple[Joining, type[HeatliteError]]] = [
        (Joining(name="c"), NoMatch),
        (Joining(name="b"), AmbiguousMatch),
        (Joining(filter={"metadata": {"tier": "gold"}}), AmbiguousMatch),
        (Joining(filter={"metadata": {"tier": "lead"}}), NoMatch),
        (Joining(id="9" * 36), EntityNotFound),
    ]
    for asked, error in refused:
        with pytest.raises(error):
            join(cloudy, stack, asked)
    join(cloudy, stack, Joining(name="a"), Joining(filter={"name": "b", "metadata": {"tier": "gold"}}))
    rows = cloudy.rows(inner(cloudy, stack))
    assert {row.physical_id for row in rows} == {keys[0], keys[2]}
    assert plan(cloudy, stack) == []
    cloudy.delete(stack)
    cloudy.clock.pass_(100)
    assert cloudy.count("compute.server") == 2


@pytest.mark.slow
def test_differences_wait_for_the_next_update(cloudy: Cloudy) -> None:
    """Acceptance 3 and law 2.4: refused, or listed and done by the next update."""
    stack = cloudy.made({"g": of(1, server(networks=[]))})
    key = made_by_hand(cloudy, "a", "m1.nano", metadata={"tier": "lead"})
    cloudy.clock.pass_(100)
    before = cloudy.rows(inner(cloudy, stack))
    with pytest.raises(ImportDiffers, match=r"\(flavor, metadata\)"):
        join(cloudy, stack, Joining(id=key))
    assert cloudy.rows(inner(cloudy, stack)) == before
    shown = join(cloudy, stack, Joining(id=key), changes=DifferenceMode.LIST)
    later = shown.later[-1]
    assert (later.action, [one.name for one in later.differences]) == ("update", ["flavor", "metadata"])
    (group, member) = plan(cloudy, stack)
    assert (group.path, member.physical_id, member.action) == (("g",), key, "update")
    assert [(one.name, one.new) for one in member.differences] == [(one.name, one.new) for one in later.differences]
    stack = cloudy.patch(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.admin.thing("compute.server", key)["metadata"] == {"tier": "gold"}
    assert plan(cloudy, stack) == []


@pytest.mark.slow
def test_an_object_that_is_not_ready(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=60)
    stack = cloudy.made({"g": of(0, resource("OS::Cinder::Volume", size=1))})
    made: Any = cloudy.view().call("block_storage.create_volume", size=1, name="v")
    with cloudy.clock.held(), pytest.raises(ObjectNotReady, match="CREATING"):
        join(cloudy, stack, Joining(id=made["id"]))
    cloudy.clock.pass_(100)
    with cloudy.admin.simulation.lock:
        cloudy.admin.simulation.all("block_storage.volume")[made["id"]]["status"] = "error"
    with pytest.raises(ObjectNotReady, match="ERROR"):
        join(cloudy, stack, Joining(id=made["id"]))


@pytest.mark.slow
def test_members_keep_the_order_of_their_ages(cloudy: Cloudy) -> None:
    stack = cloudy.made({"g": of(0, server(networks=[]))})
    old = made_by_hand(cloudy, "old", metadata={"tier": "gold"})
    cloudy.clock.pass_(1000)
    stack = cloudy.changed(stack, {"g": of(1, server(networks=[]))})
    assert join(cloudy, stack, Joining(id=old)).later == ()
    rows = {row.physical_id: row.created_at for row in cloudy.rows(inner(cloudy, stack))}
    assert min(rows, key=rows.__getitem__) == old


@pytest.mark.slow
@needs("AWS::AutoScaling::AutoScalingGroup")
def test_the_pool_member_goes_and_the_server_stays(cloudy: Cloudy) -> None:
    balancer = resource(
        "AWS::ElasticLoadBalancing::LoadBalancer", AvailabilityZones=["nova"], Subnets=[ref("sub")],
        Listeners=[{"InstancePort": "80", "LoadBalancerPort": "80", "Protocol": "HTTP"}],
    )
    stack = cloudy.made(
        {
            "net": resource("OS::Neutron::Net"),
            "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
            "lb": balancer,
            "c": resource("AWS::AutoScaling::LaunchConfiguration", ImageId="cirros", InstanceType="m1.small"),
            "g": resource(
                "AWS::AutoScaling::AutoScalingGroup", AvailabilityZones=["nova"], LaunchConfigurationName=ref("c"),
                MinSize=0, MaxSize=3, DesiredCapacity=2, LoadBalancerNames=[ref("lb")], VPCZoneIdentifier=[ref("sub")],
            ),
        }
    )  # fmt: skip
    nested = inner(cloudy, stack)
    servers = [row for row in cloudy.rows(nested) if row.mapped_type == "AWS::EC2::Instance"]
    gone = servers[0]
    assert cloudy.count("load_balancer.member") == 2
    asked = Leave((gone.name,))
    shown = cloudy.components.leaving.plan(cloudy.who, cloudy.get(stack), "g", asked)
    assert [one.action for one in shown.resources] == ["leave", "delete"]
    cloudy.components.leaving.leave(cloudy.who, cloudy.get(stack), "g", asked)
    cloudy.settle(nested)
    assert (cloudy.count("load_balancer.member"), cloudy.count("compute.server")) == (1, 2)
    shown = join(cloudy, stack, Joining(id=gone.physical_id))
    assert [one.action for one in shown.resources] == ["join", "create"]
    nested = cloudy.settle(nested)
    assert nested.status == "COMPLETE", cloudy.why(nested)
    assert (cloudy.count("load_balancer.member"), cloudy.count("compute.server")) == (2, 2)
    assert plan(cloudy, stack) == []


@pytest.mark.slow
def test_members_of_several_objects(cloudy: Cloudy) -> None:
    """A server with its port joins; the group deletes both, as if it had made them."""
    member = {
        "port": resource("OS::Neutron::Port", network="lan"),
        "vm": resource("OS::Nova::Server", flavor="m1.small", image="cirros", networks=[{"port": ref("port")}]),
        "vol": resource("OS::Cinder::Volume", size=1),
        "at": resource("OS::Cinder::VolumeAttachment", instance_uuid=ref("vm"), volume_id=ref("vol")),
    }
    view = cloudy.view()
    net: Any = view.call("network.create_network", name="lan")
    view.call("network.create_subnet", name="n", network_id=net["id"], cidr="10.1.0.0/24", ip_version=4)
    stack = cloudy.made({"g": of(1, {"type": "m.yaml"})}, files={"m.yaml": json.dumps(template(**member))})
    port: Any = view.call("network.create_port", network_id=net["id"], name="p")
    key = made_by_hand(cloudy, "a", networks=[{"port": port["id"]}])
    volume: Any = view.call("block_storage.create_volume", size=1, name="v")
    cloudy.clock.pass_(100)
    attached: Any = view.call("compute.create_volume_attachment", key, volume["id"])
    cloudy.clock.pass_(100)
    ids = {"port": port["id"], "vm": key, "vol": volume["id"], "at": attached["id"]}
    before = cloudy.census()
    with calls(cloudy) as made:
        shown = join(cloudy, stack, Joining(ids=ids))
    assert [one for one in made if one.startswith(CHANGING)] == []
    assert (shown.later, plan(cloudy, stack), cloudy.census()) == ((), [], before)
    stack = cloudy.patch(stack)
    stack = cloudy.check(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    cloudy.changed(stack, {"g": of(0, {"type": "m.yaml"})}, files={"m.yaml": json.dumps(template(**member))})
    cloudy.clock.pass_(100)
    assert [cloudy.count(one) for one in ("compute.server", "network.port", "block_storage.volume")] == [0, 0, 0]


@pytest.mark.slow
def test_each_object_is_read_once(cloudy: Cloudy) -> None:
    """Acceptance 11, for a plan and for a join."""
    stack = cloudy.made({"g": of(0, resource("OS::Cinder::Volume", size=1))})
    made: list[Any] = [cloudy.view().call("block_storage.create_volume", size=1, name="v") for _ in range(5)]
    cloudy.clock.pass_(100)
    with calls(cloudy) as found:
        join(cloudy, stack, *(Joining(id=one["id"]) for one in made))
    assert found == ["get_volume"] * 10


@pytest.mark.slow
def test_a_plan_tells_no_secret(cloudy: Cloudy) -> None:
    """Acceptance 10: the value of a hidden parameter is on neither side."""
    member = resource("OS::Nova::Server", flavor="m1.small", image="cirros", metadata={"k": param("p")}, networks=[])
    document = template(parameters={"p": {"type": "string", "hidden": True}}, g=of(0, member))
    stack = cloudy.create(document, parameters={"p": "a hidden value"})
    key = made_by_hand(cloudy, "a", metadata={"k": "another"})
    same = made_by_hand(cloudy, "b", metadata={"k": "a hidden value", "more": "one"})
    cloudy.clock.pass_(100)
    shown = join(cloudy, stack, Joining(id=key), Joining(id=same), changes=DifferenceMode.LIST)
    assert [(one.path[0], one.action) for one in shown.later] == [("g", "update")] * 3
    assert not any(secret in str(shown) for secret in ("a hidden value", "another"))
    told = [event.status_reason for event in cloudy.events(inner(cloudy, stack))]
    assert not any("a hidden value" in one for one in told)
