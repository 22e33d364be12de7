"""Groups whose policy keeps their members in a pool, on the simulated cloud.

The law: no server that is deleted is in the pool then, and each member that is complete is in it.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import product
from typing import Any

import pytest

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import DeletionProtected, HTTPBadRequest, InvalidValue
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Status
from heatlite.engine.state.group_requests import (
    Adjustment,
    AttachPolicy,
    DeleteMembers,
    DetachPolicy,
    Joining,
    JoinRequest,
    Leave,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
    UpdatePolicy,
)
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from tests.engine.conftest import ref, resource, template, thing
from tests.engine.test_adopted_objects import adopt
from tests.engine.test_group_policies import asked
from tests.engine.test_groups import nested, policy, signal
from tests.tables import few, sampled
from tests.types.conftest import Cloudy, cloudy, troubled  # noqa: F401

pytestmark = pytest.mark.database

PORT = 8080
BALANCED = {
    "net": resource("OS::Neutron::Net", name="net"),
    "subnet": resource("OS::Neutron::Subnet", name="sub", network=ref("net"), cidr="10.8.0.0/24"),
    "lb": resource("OS::Octavia::LoadBalancer", vip_subnet=ref("subnet")),
    "listener": resource("OS::Octavia::Listener", loadbalancer=ref("lb"), protocol="HTTP", protocol_port=80),
    "pool": resource(
        "OS::Octavia::Pool", name="web", listener=ref("listener"), protocol="HTTP", lb_algorithm="ROUND_ROBIN"
    ),
    "spare": resource(
        "OS::Octavia::Pool", name="spare", loadbalancer=ref("lb"), protocol="HTTP", lb_algorithm="ROUND_ROBIN"
    ),
}
PLACED = AttachPolicy("lb", "load_balancing", {"pool": "web", "protocol_port": PORT})


def server(flavor: str = "m1.nano", net: object = "net") -> Any:
    """A server that another flavor replaces."""
    return resource(
        "OS::Nova::Server", image="cirros", flavor=flavor, flavor_update_policy="REPLACE", networks=[{"network": net}]
    )


KINDS: dict[str, Callable[[str], Any]] = {
    "server": server,
    "stack": lambda flavor: resource("member.yaml", flavor=flavor),
    "machine": lambda flavor: resource("AWS::EC2::Instance", ImageId="cirros", InstanceType=flavor, SubnetId="sub"),
}
MEMBER = template(
    parameters={"flavor": {"type": "string"}},
    text=resource("OS::Heat::RandomString"),
    server=server() | {"properties": {**server()["properties"], "flavor": {"get_param": "flavor"}}},
)
FILES = {"member.yaml": json.dumps(MEMBER)}


def address(simulation: Any, key: str) -> str:
    """The address of a server; "": it has none any more."""
    told: Any = simulation.view("admin").call("compute.get_server", key)
    return next((str(one["addr"]) for listed in told["addresses"].values() for one in listed), "")


def in_pool(simulation: Any, name: str = "web") -> list[str]:
    """The addresses in a pool."""
    (pool,) = [key for key, one in simulation.all("load_balancer.pool").items() if one["name"] == name]
    return sorted(one["address"] for one in simulation.all("load_balancer.member").values() if one["pool_id"] == pool)


@contextmanager
def watched(simulation: Any) -> Iterator[None]:
    """Require that each server that is deleted within is in no pool then.

    Its replacement may have its address.
    """
    answer, wrong = simulation._answer, []
    known = {key: address(simulation, key) for key in simulation.all("compute.server")}

    def told(view: Any, verb: str, *given: Any) -> Any:
        if verb == "compute.delete_server":
            (key,) = given[0]
            others = (address(simulation, one) for one in simulation.all("compute.server").keys() - {key})
            pools = {*in_pool(simulation), *in_pool(simulation, "spare")}
            if known.get(key) in pools.difference(others):
                wrong.append(given)
        return answer(view, verb, *given)

    simulation._answer = told
    yield
    simulation._answer = answer
    assert wrong == []


class Fleet:
    """A group of servers beside a balanced pool."""

    def __init__(
        self,
        cloud: Cloudy,
        kind: str = "server",
        group: str = "OS::Heat::AutoScalingGroup",
        size: int = 3,
        **more: Any,
    ) -> None:
        self.cloud, self.kind, self.group = cloud, kind, group
        self.simulation: Any = cloud.admin.simulation
        cloud.made(BALANCED, "balanced")
        self.stack = cloud.made(self.template(size), files=FILES, **more)
        self.ask(PLACED)
        self.require_law()

    def template(self, size: int, flavor: str = "m1.nano") -> dict[str, Any]:
        member = KINDS[self.kind](flavor)
        if self.group == "OS::Heat::ResourceGroup":
            return {"g": resource(self.group, count=size, resource_def=member)}
        sizes: dict[str, Any] = {"min_size": 0, "max_size": 9, "desired_capacity": size, "cooldown": 0}
        sizes |= {"rolling_updates": {"max_batch_size": 2, "min_in_service": 1, "pause_time": 0}}
        return {"g": resource(self.group, resource=member, **sizes), "up": policy(1), "down": policy(-1)}

    @property
    def below(self) -> StackRecord:
        return nested(self.cloud, self.stack, "g")

    @property
    def names(self) -> list[str]:
        return sorted(row.name for row in self.cloud.rows(self.below))

    def ask(self, request: Any) -> ActionRecord:
        return self.ended(asked(self.cloud, self.stack, request))

    def change(self, request: SizeRequest) -> ActionRecord:
        return self.ended(self.cloud.components.groups.change(self.cloud.who, self.cloud.get(self.stack), "g", request))

    def leave(self, *names: str, reduce: bool = True) -> ActionRecord:
        cloud = self.cloud
        return cloud.components.leaving.leave(cloud.who, cloud.get(self.stack), "g", Leave(names, reduce))

    def ended(self, action: ActionRecord) -> ActionRecord:
        """Return an action that has succeeded."""
        self.cloud.settle(self.below)
        self.cloud.settle(self.stack)
        found = self.cloud.store.actions.get(action.id)
        assert found is not None and found.status is ActionStatus.SUCCEEDED, (found, self.cloud.why(self.below))
        return found

    def servers(self) -> list[str]:
        """The ids of the servers of the members."""
        stacks = [self.below, *self.cloud.store.stacks.descendants(self.below)]
        rows = [row for one in stacks for row in self.cloud.rows(one)]
        return [row.physical_id or "" for row in rows if row.type in ("OS::Nova::Server", "AWS::EC2::Instance")]

    def pool(self, name: str = "web") -> list[str]:
        return in_pool(self.simulation, name)

    def ports(self) -> set[int]:
        return {one["protocol_port"] for one in self.simulation.all("load_balancer.member").values()}

    def require_law(self, name: str = "web") -> None:
        assert self.pool(name) == sorted(address(self.simulation, key) for key in self.servers())

    def by_hand(self) -> str:
        """Return the id of a server that no stack has."""
        view = self.cloud.view()
        wanted = {"image.find_image": "cirros", "compute.find_flavor": "m1.nano", "network.find_network": "net"}
        found: list[Any] = [view.call(verb, name) for verb, name in wanted.items()]
        image, flavor, net = [one["id"] for one in found]
        made: Any = view.call(
            "compute.create_server", name="lone", imageRef=image, flavorRef=flavor, networks=[{"uuid": net}]
        )
        return str(made["id"])


def join(fleet: Fleet) -> None:
    key = fleet.by_hand()
    one = Joining(ids={"server": key}) if fleet.kind == "stack" else Joining(id=key)
    joins, cloud = fleet.cloud.components.joins, fleet.cloud
    shown = joins.plan(cloud.who, cloud.get(fleet.stack), "g", JoinRequest((one,)))
    wanted = JoinRequest((one,), plan_digest=shown.digest)
    fleet.ended(joins.join(cloud.who, cloud.get(fleet.stack), "g", wanted))
    assert key in fleet.servers()


def leave(fleet: Fleet, reduce: bool = True) -> None:
    before = fleet.servers()
    fleet.ended(fleet.leave(fleet.names[0], reduce=reduce))
    (gone,) = {*before} - {*fleet.servers()}
    assert address(fleet.simulation, gone) not in fleet.pool()


def marked(fleet: Fleet) -> None:
    fleet.cloud.mark(fleet.below, fleet.names[0])
    fleet.cloud.patch(fleet.stack)


def replaced(fleet: Fleet) -> None:
    before, cloud = {*fleet.servers()}, fleet.cloud
    fleet.ended(cloud.components.groups.replace_members(cloud.who, cloud.get(fleet.stack), "g", fleet.names[:1]))
    assert len(before - {*fleet.servers()}) == 1


def recovered(fleet: Fleet) -> None:
    cloud = fleet.cloud
    cloud.mark(fleet.below, fleet.names[0])
    body: JsonMap = {"recover": {}}
    fleet.ended(cloud.components.groups.recover(cloud.who, cloud.get(fleet.stack), "g", RepairStep.REPLACE, body))


def signalled(fleet: Fleet, name: str) -> None:
    before = len(fleet.servers())
    signal(fleet.cloud, fleet.stack, name)
    fleet.cloud.settle(fleet.below)
    assert abs(len(fleet.servers()) - before) == 1


def updated(fleet: Fleet, *given: Any) -> None:
    fleet.cloud.changed(fleet.stack, fleet.template(*given), files=FILES)


def deleted(fleet: Fleet) -> None:
    fleet.cloud.delete(fleet.stack)
    assert fleet.cloud.count("compute.server") == 0


VERBS: dict[str, Callable[[Fleet], object]] = {
    "scale_out": lambda fleet: fleet.change(ScaleOut(2)),
    "scale_in": lambda fleet: fleet.change(ScaleIn(2)),
    "resize": lambda fleet: fleet.change(ResizeRequest(Adjustment.EXACT_CAPACITY, 5)),
    "resize to none": lambda fleet: fleet.change(ResizeRequest(Adjustment.EXACT_CAPACITY, 0)),
    "delete_members": lambda fleet: fleet.change(DeleteMembers(fleet.names[:1])),
    "delete_members and refill": lambda fleet: fleet.change(DeleteMembers(fleet.names[:1], reduce=False)),
    "replace_members": replaced,
    "recover": recovered,
    "join": join,
    "leave": leave,
    "leave and refill": lambda fleet: leave(fleet, reduce=False),
    "update of a marked one": marked,
    "signal up": lambda fleet: signalled(fleet, "up"),
    "signal down": lambda fleet: signalled(fleet, "down"),
    "update to more": lambda fleet: updated(fleet, 5),
    "update to fewer": lambda fleet: updated(fleet, 1),
    "update of the definition": lambda fleet: updated(fleet, 3, "m1.tiny"),
    "update of the definition to fewer": lambda fleet: updated(fleet, 2, "m1.tiny"),
    "delete": deleted,
}
GROUPS = ("OS::Heat::AutoScalingGroup", "OS::Heat::ResourceGroup")
ROWS = [
    (verb, kind, group) for kind, group, verb in product(KINDS, GROUPS, VERBS)
    if (group == GROUPS[0] or "signal" not in verb) and (kind != "stack" or "leave" not in verb)
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "kind", "group"), sampled(ROWS, 7))
def test_law(cloudy: Cloudy, verb: str, kind: str, group: str) -> None:  # noqa: F811
    fleet = Fleet(cloudy, kind, group)
    with watched(fleet.simulation):
        VERBS[verb](fleet)
    if verb == "delete":
        assert fleet.pool() == [] and cloudy.count("load_balancer.pool") == 2
    else:
        fleet.require_law()


# -- the policy itself -------------------------------------------------------------------------------


@pytest.mark.slow
def test_attached_changed_and_detached(cloudy: Cloudy) -> None:  # noqa: F811
    fleet = Fleet(cloudy)
    for name, options in (("web", {"protocol_port": 9090}), ("spare", {"pool": "spare"}), ("spare", {"weight": 7})):
        given = {**PLACED.options, "pool": name, **options}
        action = fleet.ask(UpdatePolicy("lb", given))
        fleet.require_law(name)
        assert action.word == "GROUP_UPDATE_POLICY"
        members = cloudy.admin.simulation.all("load_balancer.member").values()
        assert {(one["protocol_port"], one["weight"]) for one in members} == {
            (given["protocol_port"], given.get("weight", 1))
        }
    assert fleet.pool() == []
    before = fleet.pool("spare")
    fleet.ask(UpdatePolicy("lb", enabled=False))
    fleet.change(ScaleOut(2))
    assert fleet.pool("spare") == before, "it decides nothing"
    fleet.change(DeleteMembers(fleet.names))
    assert fleet.pool("spare") == [], "nobody goes from within a pool"
    fleet.ask(UpdatePolicy("lb", enabled=True))
    fleet.change(ScaleOut(2))
    fleet.require_law("spare")
    action = fleet.ask(DetachPolicy("lb"))
    assert action.word == "GROUP_DETACH_POLICY" and fleet.pool("spare") == [] and len(fleet.servers()) == 2
    assert all("loadbalancers" not in row.data for row in cloudy.rows(fleet.below))


@pytest.mark.slow
def test_a_plan_says_which_members_move(cloudy: Cloudy) -> None:  # noqa: F811
    """Each change of the policy moves those of its plan, and no others."""
    fleet = Fleet(cloudy, "machine")
    policies = cloudy.components.group_policies
    requests: list[Any] = [
        UpdatePolicy("lb", {**PLACED.options, "protocol_port": 9090}),
        UpdatePolicy("lb", {**PLACED.options, "protocol_port": 9090}),
        UpdatePolicy("lb", priority=900),
        UpdatePolicy("lb", enabled=False),
        UpdatePolicy("lb", PLACED.options),
        UpdatePolicy("lb", enabled=True),
        DetachPolicy("lb"),
        PLACED,
    ]
    moves = list[int]()
    for request in requests:
        plan = policies.plan(cloudy.who, cloudy.get(fleet.stack), "g", request)
        again = policies.plan(cloudy.who, cloudy.get(fleet.stack), "g", request)
        assert again.digest == plan.digest
        (told, *others) = plan.resources
        before, group = {row.name: row.data for row in cloudy.rows(fleet.below)}, cloudy.row(fleet.stack, "g").data
        fleet.ask(request)
        after = {row.name: row.data for row in cloudy.rows(fleet.below)}
        moved = {name for name in before if before[name] != after[name]}
        assert {one.path for one in others if one.action == "update"} == {("g", name) for name in moved}
        assert {one.action for one in others} <= {"update", "keep"}
        listed = [group.get("policies"), cloudy.row(fleet.stack, "g").data.get("policies")]
        assert (told.path, told.action == "keep") == (("g",), untimed(listed[0]) == untimed(listed[1]))
        moves.append(len(moved))
    assert moves == [3, 0, 0, 0, 0, 3, 3, 3]


def untimed(policies: Any) -> Any:
    return {name: {**one, "at": None} for name, one in (policies or {}).items()}


@pytest.mark.slow
def test_a_plan_says_what_else_happens(cloudy: Cloudy) -> None:  # noqa: F811
    """The action brings the group to its definition, as each update of it does."""
    fleet = Fleet(cloudy, size=2)
    first = fleet.names[0]
    cloudy.mark(fleet.below, first)
    policies, stack = cloudy.components.group_policies, cloudy.get(fleet.stack)
    plan = policies.plan(cloudy.who, stack, "g", DetachPolicy("lb"))
    assert {one.path: one.action for one in plan.resources if one.action != "update"} == {("g", first): "replace"}
    cloudy.components.protection.protect(cloudy.who, cloudy.get(fleet.below), first, None)
    before = cloudy.row(fleet.stack, "g")
    with pytest.raises(DeletionProtected):
        asked(cloudy, fleet.stack, DetachPolicy("lb"))
    assert cloudy.row(fleet.stack, "g") == before


@pytest.mark.slow
def test_the_data_of_actions_and_members(cloudy: Cloudy) -> None:  # noqa: F811
    fleet = Fleet(cloudy, size=1)
    (pool,) = [one["id"] for one in fleet.simulation.all("load_balancer.pool").values() if one["name"] == "web"]
    action = fleet.change(ScaleOut(1))
    assert action.data.policies == {"load_balancing": {"pool": pool, "protocol_port": PORT}}
    members = fleet.simulation.all("load_balancer.member")
    for row in cloudy.rows(fleet.below):
        ((key, one),) = [(key, one) for key, one in members.items() if one["address"] == fleet_address(fleet, row)]
        assert row.data["loadbalancers"] == [
            {"pool": pool, "protocol_port": PORT, "address": one["address"], "lb_member": key}
        ]
    assert members and {one["name"] for one in members.values()} == {
        row.physical_name for row in cloudy.rows(fleet.below)
    }


def fleet_address(fleet: Fleet, row: ResourceRecord) -> str:
    return address(fleet.simulation, row.physical_id or "")


FAULTS: list[tuple[Any, type[Exception], str]] = [
    ({"pool": "nobody", "protocol_port": 80}, InvalidValue, r"options.pool: The Pool \(nobody\) could not be found"),
    ({**PLACED.options, "subnet": "nowhere"}, InvalidValue, "options.subnet: The Subnet"),
    ({**PLACED.options, "protocol_port": 0}, HTTPBadRequest, "options.protocol_port"),
    ({"pool": 7, "protocol_port": 80}, HTTPBadRequest, "options.pool"),
    ({"protocol_port": 80}, HTTPBadRequest, "pool"),
]


@pytest.mark.slow
def test_what_cannot_be(cloudy: Cloudy) -> None:  # noqa: F811
    fleet = Fleet(cloudy, size=1)
    before, row = fleet.pool(), cloudy.row(fleet.stack, "g")
    for options, error, text in FAULTS:
        with pytest.raises(error, match=text):
            fleet.ask(UpdatePolicy("lb", options))
    assert (fleet.pool(), cloudy.row(fleet.stack, "g")) == (before, row)
    other = cloudy.made({"g": resource("OS::Heat::ResourceGroup", count=1, resource_def=thing("v"))}, "things")
    with pytest.raises(InvalidValue, match="OS::Heat::TestResource, which has no address for a pool"):
        asked(cloudy, other, PLACED)
    with pytest.raises(HTTPBadRequest, match="a policy keeps its members in the pool of a load balancer"):
        cloudy.components.stack_actions()["move"].plan(
            cloudy.who, fleet.stack, {"moved": [{"from": f"g/{fleet.names[0]}", "to": "lone"}]}
        )


# -- failures ----------------------------------------------------------------------------------------

CREATES, DELETES = "load_balancer.create_member", "load_balancer.delete_member"


@pytest.mark.slow
@pytest.mark.parametrize("fault", few([
    {"verb": CREATES, "number": 2, "raises": "lost"},
    {"verb": CREATES, "number": 2, "raises": "unavailable"},
    {"verb": DELETES, "number": 1, "raises": "lost"},
    {"verb": DELETES, "number": 1, "raises": "unavailable"},
    {"verb": "load_balancer.members", "number": 2, "raises": "unavailable"},
    {"verb": "load_balancer.get_member", "number": 2, "raises": "unavailable"},
]))  # fmt: skip
def test_calls_that_are_repeated(troubled: Callable[..., Cloudy], fault: dict[str, Any]) -> None:  # noqa: F811
    fleet = Fleet(troubled(faults=[fault]))
    with watched(fleet.simulation):
        fleet.change(ScaleOut(1))
        fleet.change(ScaleIn(2))
    fleet.require_law()


@pytest.mark.slow
def test_what_others_have_done_in_the_pool(cloudy: Cloudy) -> None:  # noqa: F811
    """A member that is there already, and one that is gone."""
    fleet = Fleet(cloudy, size=2)
    fleet.ask(DetachPolicy("lb"))
    view, (first, _) = cloudy.view(), fleet.servers()
    (pool,) = [one["id"] for one in fleet.simulation.all("load_balancer.pool").values() if one["name"] == "web"]
    view.call(CREATES, pool, address=address(fleet.simulation, first), protocol_port=PORT)
    fleet.ask(PLACED)
    fleet.require_law()
    for key in [*fleet.simulation.all("load_balancer.member")]:
        view.call(DELETES, key, pool)
    fleet.change(ScaleIn(1))
    fleet.change(ScaleOut(1))
    assert len(fleet.pool()) == 1
    cloudy.delete(fleet.stack)
    assert fleet.pool() == []


@pytest.mark.slow
def test_a_pool_that_is_gone(cloudy: Cloudy) -> None:  # noqa: F811
    """Members still go; new ones fail with their reason, and enter another pool later."""
    fleet = Fleet(cloudy, size=2)
    gone = {name: one for name, one in BALANCED.items() if name != "pool"}
    stack = cloudy.store.stacks.by_name(cloudy.who.project, "balanced")
    assert stack is not None
    cloudy.changed(stack, gone)
    fleet.change(ScaleIn(1))
    action = cloudy.components.groups.change(cloudy.who, cloudy.get(fleet.stack), "g", ScaleOut(1))
    cloudy.settle(fleet.below)
    ended = cloudy.store.actions.get(action.id)
    assert ended is not None and ended.status is ActionStatus.FAILED and "ool" in ended.status_reason
    assert len(fleet.servers()) == 2 and {row.status for row in cloudy.rows(fleet.below)} == {Status.COMPLETE}
    fleet.ask(UpdatePolicy("lb", {**PLACED.options, "pool": "spare"}))
    fleet.require_law("spare")


@pytest.mark.slow
def test_a_failure_of_the_pool_is_made_good_by_the_next_update(troubled: Callable[..., Cloudy]) -> None:  # noqa: F811
    fleet = Fleet(troubled(faults=[{"verb": CREATES, "number": 4, "raises": "refused"}]))
    cloud = fleet.cloud
    cloud.components.groups.change(cloud.who, cloud.get(fleet.stack), "g", ScaleOut(2))
    below = cloud.settle(fleet.below)
    assert below.status is Status.FAILED and len(fleet.pool()) == 4
    cloud.patch(fleet.stack)
    fleet.require_law()
    request = StackRequest()
    plan = cloud.stacks.preview_update(cloud.who, cloud.get(fleet.stack), request, existing=True, plan=True).plan
    assert plan is not None and [one for one in plan.resources if one.action != "keep"] == []


@pytest.mark.slow
def test_a_pool_that_lets_nobody_go(troubled: Callable[..., Cloudy]) -> None:  # noqa: F811
    """A deletion fails and names why; a forced one goes on."""
    fleet = Fleet(troubled(faults=[{"verb": DELETES, "raises": "refused"}]), size=2)
    stack = fleet.cloud.delete(fleet.stack)
    assert stack.status is Status.FAILED and "delete_member" in stack.status_reason
    assert len(fleet.servers()) == 2
    fleet.cloud.stacks.delete(fleet.cloud.who, fleet.cloud.get(fleet.stack), force=True)
    fleet.cloud.settle(fleet.stack)
    assert fleet.cloud.count("compute.server") == 0


@pytest.mark.slow
def test_a_pool_of_the_same_stack(cloudy: Cloudy) -> None:  # noqa: F811
    """Its deletion finds the pool, or finds it gone."""
    group = resource(
        "OS::Heat::ResourceGroup", count=2, resource_def=server(net=ref("net")), keys={"depends_on": "subnet"}
    )
    stack = cloudy.made({**BALANCED, "g": group})
    asked(cloudy, stack, PLACED)
    cloudy.settle(nested(cloudy, stack, "g"))
    assert len(in_pool(cloudy.admin.simulation)) == 2
    assert cloudy.delete(stack).deleted_at is not None
    assert cloudy.count("compute.server") == cloudy.count("load_balancer.member") == 0


@pytest.mark.slow
def test_the_plan(cloudy: Cloudy) -> None:  # noqa: F811
    fleet = Fleet(cloudy, group="OS::Heat::ResourceGroup")
    request = StackRequest(template=template(**fleet.template(2)))
    plan = cloudy.stacks.preview_update(cloudy.who, cloudy.get(fleet.stack), request, existing=False, plan=True).plan
    assert plan is not None
    assert [one.cause for one in plan.resources if one.action == "delete"] == [
        "the template does not have it; it leaves its pool before"
    ]
    request = StackRequest(template=template(**fleet.template(4)))
    plan = cloudy.stacks.preview_update(cloudy.who, cloudy.get(fleet.stack), request, existing=False, plan=True).plan
    assert plan is not None
    assert [one.cause for one in plan.resources if one.action == "create"] == ["it enters a pool then"]
    action = cloudy.components.leaving.plan(cloudy.who, cloudy.get(fleet.stack), "g", Leave(("0",)))
    assert [one.cause for one in action.resources] == ["its object stays; it leaves its pool first"]


# -- hooks -------------------------------------------------------------------------------------------

HOOKS = {"resource_registry": {"resources": {"g": {"*": {"lifecycle_hook": {"timeout": 600}}}}}}


@pytest.mark.slow
@pytest.mark.parametrize(("verb", "ends"), [("delete", "timeout"), ("leave", "timeout"), ("leave", "cancel")])
def test_a_member_is_out_of_the_pool_while_it_waits_at_a_hook(cloudy: Cloudy, verb: str, ends: str) -> None:  # noqa: F811
    """One that stays after all is in the pool again."""
    fleet = Fleet(cloudy, group="OS::Heat::ResourceGroup", environment=HOOKS)
    with cloudy.clock.held(), watched(fleet.simulation):
        if verb == "leave":
            action = fleet.leave("2")
        else:
            who, stack = cloudy.who, cloudy.get(fleet.stack)
            action = cloudy.components.groups.change(who, stack, "g", DeleteMembers(("2",)))
        cloudy.wait_for(lambda: cloudy.row(fleet.below, "2").token is not None)
        assert len(fleet.servers()) == 3 and len(fleet.pool()) == 2
        if ends == "cancel":
            cloudy.stacks.cancel(cloudy.who, fleet.below, rollback=False)
        else:
            cloudy.clock.pass_(601)
    cloudy.settle(fleet.below)
    ended = cloudy.store.actions.get(action.id)
    assert ended is not None
    assert (ended.status is ActionStatus.SUCCEEDED) == (ends == "timeout")
    assert len(fleet.servers()) == (2 if ends == "timeout" else 3)
    fleet.require_law()


# -- other ways --------------------------------------------------------------------------------------


@pytest.mark.slow
def test_members_without_one_address(cloudy: Cloudy) -> None:  # noqa: F811
    cloudy.made(BALANCED, "balanced")
    two = {"member.yaml": json.dumps(template(a=server(), b=server()))}
    group = resource("OS::Heat::ResourceGroup", count=1, resource_def=resource("member.yaml"))
    stack = cloudy.made({"g": group}, files=two)
    action = asked(cloudy, stack, PLACED)
    below = cloudy.settle(nested(cloudy, stack, "g"))
    assert below.status is Status.FAILED
    assert "A pool needs the address of one server, and it has 2." in below.status_reason
    assert (ended := cloudy.store.actions.get(action.id)) is not None and ended.status is ActionStatus.FAILED
    asked(cloudy, stack, DetachPolicy("lb"))
    below = cloudy.settle(below)
    assert below.status is Status.COMPLETE and in_pool(cloudy.admin.simulation) == []


@pytest.mark.slow
def test_an_abandoned_group_stays_in_its_pool(cloudy: Cloudy) -> None:  # noqa: F811
    """The stack that adopts it knows its places."""
    fleet = Fleet(cloudy)
    before = fleet.pool()
    left = cloudy.components.exports.abandon(cloudy.who, fleet.stack)
    cloudy.settle(fleet.stack)
    assert fleet.pool() == before
    fleet.stack = adopt(cloudy, left, "t")
    assert fleet.stack.status is Status.COMPLETE, cloudy.why(fleet.stack)
    assert fleet.pool() == before
    with watched(fleet.simulation):
        fleet.change(ScaleIn(1))
        fleet.change(ScaleOut(2))
    fleet.require_law()


@pytest.mark.slow
def test_a_cancelled_scale_out_is_made_good(troubled: Callable[..., Cloudy]) -> None:  # noqa: F811
    """No call of the pool has an answer before the cancel."""
    fleet = Fleet(troubled(faults=[{"verb": CREATES, "number": 4, "raises": "unavailable"}]))
    cloud = fleet.cloud
    with cloud.clock.held():
        cloud.components.groups.change(cloud.who, cloud.get(fleet.stack), "g", ScaleOut(1))
        cloud.wait_for(lambda: len(fleet.servers()) == 4 and cloud.clock.at_rest())
        cloud.stacks.cancel(cloud.who, fleet.below, rollback=False)
    cloud.settle(fleet.below)
    cloud.patch(fleet.stack)
    fleet.require_law()
    assert len(fleet.servers()) == 4
