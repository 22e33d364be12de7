"""Types of missing services: not offered and refused, in Heat's words."""

from collections.abc import Callable

import pytest

from heatlite.clients.cloud import NoService
from heatlite.core.errors import ResourceTypeUnavailable
from heatlite.engine.state.requests import StackRequest
from tests.engine.conftest import resource, template
from tests.resource_types import ALL_TYPES, needs
from tests.types.conftest import Cloudy

VOLUME = resource("OS::Cinder::Volume", size=1)
SAID = (
    "HEAT-E99001 Service cinder is not available for resource type OS::Cinder::Volume, reason: cinder block-storage"
    " endpoint is not in service catalog."
)


@pytest.fixture
def small(troubled: Callable[..., Cloudy]) -> Cloudy:
    return troubled(services=["identity", "image", "network", "compute"])


@needs("OS::Barbican::Secret")
def test_it_is_not_listed(small: Cloudy) -> None:
    listed = small.components.offer.listed(small.who, sorted(ALL_TYPES))
    gone = set(ALL_TYPES).difference(listed)
    prefixes = {name.rpartition("::")[0] for name in gone}
    simulated = {"OS::Cinder", "OS::Octavia", "OS::Designate", "OS::Barbican", "OS::Swift", "OS::Aodh", "AWS::EC2"}
    assert prefixes >= simulated
    assert prefixes.isdisjoint({"OS::Nova", "OS::Keystone", "OS::Glance"})
    of_amazon = {"AWS::EC2::Volume", "AWS::ElasticLoadBalancing::LoadBalancer", "AWS::S3::Bucket"}
    assert of_amazon == {name for name in gone if name.startswith("AWS")}
    assert {"OS::Nova::Server", "OS::Neutron::Net", "OS::Heat::Value", "OS::Cinder::VolumeAttachment"} <= {*listed}


@pytest.mark.parametrize(
    "taken", [VOLUME, resource("OS::Heat::ResourceGroup", resource_def=VOLUME)], ids=["in it", "nested"]
)
def test_it_is_refused(small: Cloudy, taken: object) -> None:
    with pytest.raises(ResourceTypeUnavailable, match="HEAT-E99001 Service cinder") as refused:
        small.create(template(a=taken))
    assert SAID in refused.value.message
    request = StackRequest(template=template(a=taken))
    with pytest.raises(ResourceTypeUnavailable):
        small.stacks.validate(small.who, request)
    small.stacks.validate(small.who, request, without_services=True)
    assert [one.text for one in small.stacks.review(small.who, request) if SAID in one.text]
    stack = small.made({"net": resource("OS::Neutron::Net")})
    with pytest.raises(ResourceTypeUnavailable):
        small.put(stack, template(a=taken))


def test_its_service_does_not_answer(small: Cloudy) -> None:
    with pytest.raises(NoService, match="the cloud has no block-storage service"):
        small.view().call("block_storage.volumes")


@pytest.mark.slow
def test_a_cloud_that_is_out_of_reach_is_taken_to_have_all(
    small: Cloudy, monkeypatch: pytest.MonkeyPatch
) -> None:
    from heatlite.clients.cloud import CloudUnavailable
    from heatlite.features.simulator.simulation import SimulatedProject

    def has(self: SimulatedProject, service: str) -> bool:
        raise CloudUnavailable("identity.token", "no answer")

    monkeypatch.setattr(SimulatedProject, "has", has)
    assert "OS::Cinder::Volume" in small.components.offer.listed(small.who, ALL_TYPES)


@needs("OS::Neutron::VPNService")
def test_an_extension_of_the_network_service_is_missing(cloudy: Cloudy) -> None:
    listed = {*cloudy.components.offer.listed(cloudy.who, ALL_TYPES)}
    assert listed.isdisjoint({"OS::Neutron::VPNService", "OS::Neutron::PortChain", "OS::Neutron::TaaS::TapFlow"})
    assert {"OS::Neutron::Router", "OS::Neutron::QoSPolicy", "OS::Neutron::Trunk"} <= listed
    with pytest.raises(ResourceTypeUnavailable) as refused:
        cloudy.create(template(a=resource("OS::Neutron::VPNService", router="r")))
    assert "reason: Required extension vpnaas in neutron service is not available." in refused.value.message


@needs("OS::Neutron::VPNService")
def test_a_network_service_that_tells_no_extensions_is_taken_to_have_all(troubled: Callable[..., Cloudy]) -> None:
    silent = troubled(faults=[{"verb": "network.extensions", "raises": "unavailable"}])
    assert "OS::Neutron::VPNService" in silent.components.offer.listed(silent.who, ALL_TYPES)
