"""Checks on a simulated cloud: only a definite answer of a service marks a resource."""

from collections.abc import Callable

import pytest

from heatlite.core.status import Status, Verb
from tests.engine.conftest import ref, resource
from tests.engine.test_unknown_health import final, plan
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


@pytest.mark.parametrize(("raises", "cause"), OUTAGES)
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


@pytest.mark.parametrize(
    ("status", "verdict"),
    [
        ("ERROR", "unhealthy"), ("DELETED", "unhealthy"), ("SHUTOFF", "unhealthy"), ("PAUSED", "unhealthy"),
        ("SHELVED_OFFLOADED", "unhealthy"), ("RESCUE", "unhealthy"), ("ACTIVE", "healthy"), ("BUILD", "unknown"),
        ("REBOOT", "unknown"), ("HARD_REBOOT", "unknown"), ("MIGRATING", "unknown"), ("UNKNOWN", "unknown"),
    ],
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


def test_a_name_in_the_properties_that_leads_nowhere_tells_nothing(troubled: Troubled) -> None:
    """Somebody has renamed the network by whose name the template knows it: the port is as well as before."""
    cloudy = troubled()
    net = cloudy.view().call("network.create_network", name="theirs")
    assert isinstance(net, dict)
    cloudy.view().call("network.create_subnet", network_id=net["id"], cidr="10.9.0.0/24", ip_version=4)
    stack = cloudy.made({"port": resource("OS::Neutron::Port", network="theirs")})
    cloudy.view().call("network.update_network", net["id"], name="renamed")
    cloudy.clock.pass_(3600)  # what was found is remembered for a while
    stack = cloudy.check(stack)
    assert cloudy.states(stack) == {"port": "CREATE_COMPLETE"}
    assert "could not be looked at" in stack.status_reason
