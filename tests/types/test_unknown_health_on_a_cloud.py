"""Checks on a simulated cloud: only a service's definite answer marks."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.clients.cloud import CloudError, CloudNotFound, CredentialsRefused, NoCloud
from heatlite.core.json import dump, parse
from heatlite.core.status import Status, Verb
from heatlite.engine.state.requests import Timing
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.simulator.simulation import SimulatedProject
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource
from tests.engine.test_groups import nested
from tests.engine.test_unknown_health import final, plan
from tests.features.healing.engine.test_healing import AUTO, Healing
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

Troubled = Callable[..., Cloudy]

NET = {"net": resource("OS::Neutron::Net"), "string": resource("OS::Heat::RandomString")}
"""RandomString has no check."""

OUTAGES = [
    ("refused", "network: HTTP 400"),
    ("unavailable", "network: HTTP 503"),
    ("timeout", "network: CloudUnavailable"),
    ("garbage", "network: CloudUnavailable"),
    ("conflict", "network: HTTP 409"),
    ("quota", "network: HTTP 403"),
]


@pytest.mark.parametrize(("raises", "cause"), few(OUTAGES))
def test_a_service_that_does_not_tell(troubled: Troubled, raises: str, cause: str) -> None:
    cloudy = troubled(faults=[{"verb": "network.get_network", "raises": raises}])
    stack = cloudy.made(NET)
    ids = cloudy.ids(stack)
    stack = cloudy.check(stack)
    assert (final(stack), stack.status_reason) == (
        "CHECK_FAILED", f"Resource CHECK failed: 1 could not be looked at ({cause})",
    )  # fmt: skip
    assert cloudy.states(stack) == {"net": "CREATE_COMPLETE", "string": "CHECK_COMPLETE"}
    assert plan(cloudy, stack) == {"net": "keep", "string": "keep"}
    stack = cloudy.patch(stack)
    assert (final(stack), cloudy.ids(stack)) == ("UPDATE_COMPLETE", ids)


def test_an_object_that_is_gone(troubled: Troubled) -> None:
    cloudy = troubled()
    stack = cloudy.made(NET)
    cloudy.view().call("network.delete_network", cloudy.row(stack, "net").physical_id)
    stack = cloudy.check(stack)
    assert cloudy.states(stack) == {"net": "CHECK_FAILED", "string": "CHECK_COMPLETE"}
    assert cloudy.row(stack, "net").status_reason.startswith("CloudNotFound: resources.net: ")
    assert plan(cloudy, stack) == {"net": "replace", "string": "keep"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("status", "verdict"),
    sampled([
        ("ERROR", "unhealthy"), ("DELETED", "unhealthy"), ("SHUTOFF", "unhealthy"), ("PAUSED", "unhealthy"),
        ("SHELVED_OFFLOADED", "unhealthy"), ("RESCUE", "unhealthy"), ("ACTIVE", "healthy"), ("BUILD", "unknown"),
        ("REBOOT", "unknown"), ("HARD_REBOOT", "unknown"), ("MIGRATING", "unknown"), ("UNKNOWN", "unknown"),
    ], 3, pytest.mark.thorough),
)  # fmt: skip
def test_the_status_of_a_server(troubled: Troubled, status: str, verdict: str) -> None:
    cloudy = troubled()
    port = {
        "net": resource("OS::Neutron::Net"),
        "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
    }
    server = resource(
        "OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[{"network": ref("net")}], depends_on="sub"
    )
    stack = cloudy.made({**port, "vm": server})
    simulation = cloudy.view().simulation
    with simulation.lock:
        key = str(cloudy.row(stack, "vm").physical_id)
        thing_ = simulation.all("compute.server")[key]
        thing_["status"] = status
        simulation.put("compute.server", key, thing_)
    stack = cloudy.check(stack)
    row = cloudy.row(stack, "vm")
    found = {
        (Verb.CHECK, Status.FAILED): "unhealthy",
        (Verb.CHECK, Status.COMPLETE): "healthy",
        (Verb.CREATE, Status.COMPLETE): "unknown",
    }[row.verb, row.status]
    assert found == verdict
    assert (row.health is not None) is (verdict == "unknown")


def test_a_name_in_the_properties_that_leads_nowhere_is_no_fault_of_the_object(troubled: Troubled) -> None:
    """The network's name in the template is outdated."""
    cloudy = troubled()
    net = cloudy.view().call("network.create_network", name="theirs")
    assert isinstance(net, dict)
    cloudy.view().call("network.create_subnet", network_id=net["id"], cidr="10.9.0.0/24", ip_version=4)
    stack = cloudy.made({"port": resource("OS::Neutron::Port", network="theirs")})
    cloudy.view().call("network.update_network", net["id"], name="renamed")
    cloudy.clock.pass_(3600)  # what was found is remembered for a while
    stack = cloudy.check(stack)
    assert cloudy.states(stack) == {"port": "CHECK_COMPLETE"}
    assert stack.status == "COMPLETE"
    assert "differs" not in cloudy.row(stack, "port").status_reason


SITES = {
    "g": resource("OS::Heat::ResourceGroup", count=3, resource_def=resource("OS::Neutron::Net")),
    "n": resource("OS::Neutron::Net"),
    "string": resource("OS::Heat::RandomString"),
}
"""Four networks in two stacks."""


def gone(cloudy: Cloudy, stack: StackRecord, *names: str) -> None:
    """Delete networks behind the engine's back."""
    for name in names:
        owner = stack if name == "n" else nested(cloudy, stack)
        cloudy.view().call("network.delete_network", cloudy.row(owner, name).physical_id)


def checked(cloudy: Cloudy) -> Any:
    (action,) = cloudy.store.actions.ended([_last_root_check(cloudy)])
    return parse(dump(action.outputs))["checked"]


def _last_root_check(cloudy: Cloudy) -> str:
    sql = "SELECT id FROM action WHERE parent_id IS NULL AND verb = 'CHECK' ORDER BY seq DESC LIMIT 1"
    ((found,),) = cloudy.store.database.read(sql)
    return str(found)


@pytest.mark.slow
def test_a_mass_of_absent_objects_marks_nothing(troubled: Troubled) -> None:
    cloudy = troubled()
    stack = cloudy.made(SITES)
    before = {**cloudy.states(stack), **cloudy.states(nested(cloudy, stack))}
    ids = cloudy.ids(nested(cloudy, stack))
    gone(cloudy, stack, "0", "1", "2")
    stack = cloudy.check(stack)
    cause = "OS::Neutron: absent_in_masses"
    assert (final(stack), stack.status_reason) == (
        "CHECK_FAILED", f"Resource CHECK failed: 3 could not be looked at ({cause})",
    )  # fmt: skip
    assert (checked(cloudy)["unhealthy"], checked(cloudy)["healthy"], checked(cloudy)["causes"]) == (0, 1, {cause: 3})
    after = {**cloudy.states(stack), **cloudy.states(nested(cloudy, stack))}
    assert after == {**before, "n": "CHECK_COMPLETE", "string": "CHECK_COMPLETE"}
    row = cloudy.row(nested(cloudy, stack), "0")
    assert row.health is not None and row.health.reason == "0: absent_in_masses"
    assert row.health.since is not None
    assert set(plan(cloudy, stack).values()) == {"keep"}
    stack = cloudy.patch(stack)
    assert cloudy.ids(nested(cloudy, stack)) == ids

    cloudy.components.stacks.check(cloudy.who, cloudy.get(stack), Timing(believes_absence=True))
    stack = cloudy.settle(stack)
    assert cloudy.states(nested(cloudy, stack)) == dict.fromkeys("012", "CHECK_FAILED")
    assert cloudy.row(nested(cloudy, stack), "0").health is None
    cloudy.patch(stack)
    assert not set(ids.values()) & set(cloudy.ids(nested(cloudy, stack)).values())


@pytest.mark.slow
def test_some_absent_objects_are_unhealthy(troubled: Troubled) -> None:
    cloudy = troubled()
    stack = cloudy.made(SITES)
    ids = cloudy.ids(nested(cloudy, stack))
    gone(cloudy, stack, "1", "n")
    stack = cloudy.check(stack)
    assert cloudy.states(nested(cloudy, stack)) == {"0": "CHECK_COMPLETE", "1": "CHECK_FAILED", "2": "CHECK_COMPLETE"}
    assert cloudy.states(stack) == {"g": "CHECK_FAILED", "n": "CHECK_FAILED", "string": "CHECK_COMPLETE"}
    assert checked(cloudy)["unhealthy"] == 2
    assert {cloudy.row(stack, name).health for name in ("g", "n")} == {None}
    cloudy.patch(stack)
    assert {name for name, one in cloudy.ids(nested(cloudy, stack)).items() if one != ids[name]} == {"1"}


@pytest.mark.slow
def test_converge_does_not_believe_in_a_mass_of_absent_objects(troubled: Troubled) -> None:
    cloudy = troubled()
    stack = cloudy.made({name: resource("OS::Neutron::Net") for name in "abc"})
    ids = cloudy.ids(stack)
    for name in "abc":
        cloudy.view().call("network.delete_network", cloudy.row(stack, name).physical_id)
    stack = cloudy.patch(stack, converge=True)
    assert final(stack) == "UPDATE_FAILED"
    assert "absent_in_masses" in stack.status_reason
    assert cloudy.ids(stack) == ids


FIVE = {
    "g": resource("OS::Heat::ResourceGroup", count=5, resource_def=resource("OS::Neutron::Net")),
    **{name: resource("OS::Cinder::Volume", size=1) for name in "abc"},
}
"""Objects of two services in two stacks."""
BLIND: dict[str, tuple[Callable[[str], Exception], str]] = {
    "no cloud": (lambda _: NoCloud(), f"NoCloud: {NoCloud.text}"),
    "credentials": (lambda verb: CredentialsRefused(verb, "wrong password"), "{}: HTTP 401"),
    "400": (lambda verb: CloudError(verb, "no", 400), "{}: HTTP 400"),
    "an empty cloud": (lambda verb: CloudNotFound(verb, "not here"), "{}: absent_in_masses"),
}
"""Answers to each call, and the causes that they have."""


@pytest.mark.slow
@pytest.mark.parametrize("what", few(BLIND))
def test_a_check_that_sees_nothing_repairs_nothing(
    troubled: Troubled, monkeypatch: pytest.MonkeyPatch, what: str
) -> None:
    """No resource is marked, each cause is told once, and nothing is repaired."""
    cloudy, (error, cause) = troubled(), BLIND[what]
    stack = cloudy.made(FIVE)
    ids = {**cloudy.ids(stack), **cloudy.ids(nested(cloudy, stack))}

    def refuse(_view: SimulatedProject, verb: str, *_: object, **__: object) -> None:
        raise error(verb)

    monkeypatch.setattr(SimulatedProject, "call", refuse)
    stack = cloudy.check(stack)
    services = ("OS::Cinder", "OS::Neutron") if what == "an empty cloud" else ("block_storage", "network")
    causes = {cause.format(one): number for one, number in zip(services, (3, 5), strict=True)}
    causes = {cause: 8} if what == "no cloud" else causes
    assert checked(cloudy)["causes"] == causes
    assert final(stack) == "CHECK_FAILED"
    assert [stack.status_reason.count(one) for one in causes] == [1] * len(causes)
    states = {*cloudy.states(stack).values(), *cloudy.states(nested(cloudy, stack)).values()}
    assert states == {"CREATE_COMPLETE"}
    assert set(plan(cloudy, stack).values()) == {"keep"}
    with cloudy.clock.held():
        healing = Healing(cloudy, stack)
        healing.policy(**{**AUTO, "sources": ["check"], "max_unhealthy": "100%"})
        cloudy.check(stack)
        healing.pass_(4000)
        assert (healing.updates(), cloudy.store.of(HealingStore).incidents.open_of_root(stack.id)) == (0, [])
    assert {**cloudy.ids(stack), **cloudy.ids(nested(cloudy, stack))} == ids


@pytest.mark.slow
def test_one_deleted_server_of_five_is_replaced(troubled: Troubled) -> None:
    cloudy = troubled()
    server = resource("OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[{"network": ref("net")}])
    stack = cloudy.made({
        "net": resource("OS::Neutron::Net"),
        "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
        "g": resource("OS::Heat::ResourceGroup", count=5, resource_def=server, depends_on="sub"),
    })  # fmt: skip
    with cloudy.clock.held():
        healing = Healing(cloudy, stack)
        healing.policy(**{**AUTO, "sources": ["check"]})
        before, servers = cloudy.ids(nested(cloudy, stack)), cloudy.count("compute.server")
        cloudy.view().call("compute.delete_server", cloudy.row(nested(cloudy, stack), "3").physical_id)
        cloudy.clock.pass_(1)
        cloudy.check(stack)
        found = cloudy.states(nested(cloudy, stack))
        assert {name for name in found if found[name] == "CHECK_FAILED"} == {"3"}
        healing.pass_(300)
        after = cloudy.ids(nested(cloudy, stack))
        assert {name for name in before if before[name] != after[name]} == {"3"}
        assert (healing.updates(), cloudy.count("compute.server"), servers) == (1, 5, 5)
