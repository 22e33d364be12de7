"""Types whose objects an agent of the network service finishes.

Until then their states are PENDING_…, and the service refuses changes.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.status import state
from heatlite.resources.neutron.base import PATIENCE
from tests.engine.conftest import resource, template
from tests.types.lives import Living
from tests.types.rest_services import RestServices, rest_services

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")

ROUTER, SUBNET = ("10000000-0000-4000-8000-00000000000" + digit for digit in "12")
ALIASES = ("taas", "vpnaas")


class Agents(RestServices):
    """A network service, whose agents need some looks at an object."""

    def __init__(self) -> None:
        def objects(one: str, many: str, status: str) -> dict[str, Any]:
            return {"one": one, "many": many, "defaults": {"status": status}}

        super().__init__(
            {
                "/network/v2.0/vpn/vpnservices": objects("vpnservice", "vpnservices", "PENDING_CREATE"),
                "/network/v2.0/vpn/ipsec-site-connections": objects(
                    "ipsec_site_connection", "ipsec_site_connections", "PENDING_CREATE"
                ),
                "/network/v2.0/taas/tap_services": objects("tap_service", "tap_services", "DOWN"),
            },
            {
                "GET /network/v2.0/extensions": {"extensions": [{"alias": one} for one in ALIASES]},
                f"GET /network/v2.0/routers/{ROUTER}": {"router": {"id": ROUTER}},
                f"GET /network/v2.0/subnets/{SUBNET}": {"subnet": {"id": SUBNET}},
                f"GET /network/v2.0/ports/{SUBNET}": {"port": {"id": SUBNET}},
            },
        )
        self.looks = 3
        """Requests after which agents have finished an object."""
        self.refused = 0

    def answer(self, method: str, target: str, body: Any) -> tuple[int, Any]:
        for path, thing in self.things.items():
            if "gone" not in thing and thing["status"] in ("PENDING_CREATE", "PENDING_UPDATE", "DOWN"):
                self._work(path, thing)
        path = target.partition("?")[0]
        thing = self.things.get(path, {})
        state = str(thing.get("status"))
        if method == "PUT" and "PENDING_" in state:
            self.refused += 1
            text = f"Invalid state {state} of vpnaas resource {thing['id']} for updating"
            return 400, {"NeutronError": {"type": "VPNStateInvalidToUpdate", "message": text, "detail": ""}}
        if method == "DELETE" and "/tap_services/" in path and thing:
            thing.update(status="PENDING_DELETE", gone=True)
            self.asked.append({f"{method} {target}": None})
            return 204, None
        if method == "GET" and "vpnservice_id=" in target:
            wanted = target.rpartition("=")[2]
            return 200, {"ipsec_site_connections": [
                one for one in self.things.values() if one.get("vpnservice_id") == wanted
            ]}  # fmt: skip
        return super().answer(method, target, body)

    def _work(self, path: str, thing: dict[str, Any]) -> None:
        """Agents see a VPN service with its first connection only."""
        known = [str(one.get("vpnservice_id")) for one in self.things.values()]
        if "/vpnservices/" in path and thing["id"] not in known:
            return
        thing["looks"] = thing.get("looks", 0) + 1
        if thing["looks"] > self.looks:
            thing["status"] = "DOWN" if "/ipsec" in path else "ACTIVE"


class Attended(Living):
    services: Agents

    def state(self, number: int) -> str:
        """The status of the object with that number."""
        (found,) = [one for path, one in self.services.things.items() if path.endswith(f"/id-{number}")]
        return str(found["status"])


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Attended]:
    services = Agents()
    with rest_services(services) as url:
        entry = {"auth_type": "none", "auth": {"endpoint": url}, "network_endpoint_override": f"{url}/network"}
        one = Attended(tmp_path, services, url, entry)
        yield one
        one.ends.close()


def service(**properties: Any) -> dict[str, Any]:
    return resource("OS::Neutron::VPNService", router=ROUTER, subnet=SUBNET, **properties)


def connection(**properties: Any) -> dict[str, Any]:
    return resource(
        "OS::Neutron::IPsecSiteConnection", peer_address="192.0.2.9", peer_id="x", peer_cidrs=["10.2.0.0/24"],
        psk="swordfish", ikepolicy_id="i", ipsecpolicy_id="p", vpnservice_id={"get_resource": "vpn"}, **properties,
    )  # fmt: skip


@pytest.mark.slow
def test_a_connection_is_waited_for_and_its_service_is_not(cloud: Attended) -> None:
    engine = cloud.engine
    stack = engine.create(template(vpn=service(), site=connection()))
    assert stack.status == "COMPLETE", stack.status_reason
    assert (cloud.state(1), cloud.state(2)) == ("ACTIVE", "DOWN")
    stack = engine.put(stack, template(vpn=service(name="n"), site=connection(name="m")))
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE", stack.status_reason
    assert [engine.row(stack, name).physical_id for name in ("vpn", "site")] == ["id-1", "id-2"]
    assert engine.delete(stack).status == "COMPLETE"
    assert cloud.services.things == {}


@pytest.mark.slow
def test_a_change_waits_until_the_agent_has_finished(cloud: Attended) -> None:
    engine, things = cloud.engine, cloud.services.things
    stack = engine.create(template(vpn=service(), site=connection()))
    for thing in things.values():
        thing.update(status="PENDING_UPDATE", looks=0)
    cloud.services.looks = 20
    stack = engine.put(stack, template(vpn=service(name="n"), site=connection(name="m")))
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE", stack.status_reason
    assert cloud.services.refused > 2
    assert [one["name"] for one in things.values()] == ["n", "m"]
    assert [engine.row(stack, name).physical_id for name in ("vpn", "site")] == ["id-1", "id-2"]
    assert engine.delete(stack).status == "COMPLETE"


@pytest.mark.slow
def test_a_service_that_no_agent_knows_is_replaced(cloud: Attended) -> None:
    """Together with its first connection it may be changed as well."""
    engine = cloud.engine
    stack = engine.create(template(vpn=service()))
    assert stack.status == "COMPLETE", stack.status_reason
    stack = engine.put(stack, template(vpn=service(name="n"), site=connection()))
    assert state(stack.verb, stack.status) == "UPDATE_COMPLETE", stack.status_reason
    assert engine.row(stack, "vpn").physical_id == "id-2"
    assert [one.get("name") for one in cloud.services.things.values() if "router_id" in one] == ["n"]
    assert engine.delete(stack).status == "COMPLETE"


@pytest.mark.slow
def test_a_change_that_stays_refused_fails_with_the_answer_of_the_service(cloud: Attended) -> None:
    engine = cloud.engine
    stack = engine.create(template(vpn=service(), site=connection()))
    for thing in cloud.services.things.values():
        thing.update(status="PENDING_UPDATE", looks=0)
    cloud.services.looks = 10**6
    begun = engine.clock.now()
    stack = engine.put(stack, template(vpn=service(name="n"), site=connection()))
    assert state(stack.verb, stack.status) == "UPDATE_FAILED"
    assert "Invalid state PENDING_UPDATE of vpnaas resource id-1 for updating" in str(stack.status_reason)
    assert PATIENCE <= engine.clock.now() - begun < 2 * PATIENCE
    engine.delete(stack)


@pytest.mark.slow
def test_a_tap_is_waited_for(cloud: Attended) -> None:
    engine, tap = cloud.engine, resource("OS::Neutron::TaaS::TapService", port=SUBNET)
    stack = engine.create(template(tap=tap))
    assert stack.status == "COMPLETE", stack.status_reason
    assert cloud.state(1) == "ACTIVE"
    assert engine.delete(stack).status == "COMPLETE"
    assert cloud.services.things == {}
