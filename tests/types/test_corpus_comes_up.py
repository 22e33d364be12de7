"""Templates of others for services without a real cloud, simulated."""

from pathlib import Path
from typing import cast

import pytest

from heatlite.core.json import JsonMap
from heatlite.store.records import StackRecord
from tests.resource_types import needs
from tests.tables import few
from tests.types.conftest import Cloudy


def up(cloudy: Cloudy, file: Path, environment: JsonMap, beside: tuple[str, ...] = ()) -> StackRecord:
    """The template with its neighbours, complete; then checked, and taken away."""
    files = {name: (file.parent / name).read_text() for name in beside}  # as the client sends them
    before = cloudy.census()
    stack = cloudy.create(file.read_text(), environment=environment, files=files)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    told = cloudy.outputs(stack)
    assert None not in told.values()
    assert cloudy.check(stack).status == "COMPLETE", cloudy.why(stack)
    assert cloudy.delete(stack).status == "COMPLETE", cloudy.why(stack)
    left = cloudy.census()
    if file.name == "order.yaml":
        assert left.pop("key_manager.secret") == 1  # what an order has made is nobody's
    assert left == before
    return stack


LATER: JsonMap = {"parameter_defaults": {"expiration": "2100-01-01T00:00:00"}}
"""Their own is long ago."""


@pytest.mark.slow
@needs("OS::Barbican::Secret")
@pytest.mark.corpus
@pytest.mark.parametrize("name", few(["secret", "order", "container_generic"]))
def test_barbican(cloudy: Cloudy, corpus: Path, name: str) -> None:
    beside = ("./secret.yaml",) if name == "container_generic" else ()
    up(cloudy, corpus / "barbican" / f"{name}.yaml", LATER, beside)


@needs("OS::Designate::Zone")
@pytest.mark.corpus
def test_designate(cloudy: Cloudy, corpus: Path) -> None:
    """Their domains are of the first version of the service; ours are zones."""
    registry: JsonMap = {"OS::Designate::Domain": "OS::Designate::Zone"}
    up(cloudy, corpus / "designate" / "desginate_domain.yaml", {"resource_registry": registry})


@pytest.mark.slow
@pytest.mark.corpus
def test_autoscaling_behind_a_load_balancer(cloudy: Cloudy, corpus: Path) -> None:
    call = cloudy.view().call
    net = cast(JsonMap, call("network.create_network", name="private"))["id"]
    subnet = cast(JsonMap, call("network.create_subnet", network_id=net, ip_version=4, cidr="10.30.0.0/24"))["id"]
    call("compute.create_keypair", name="theirs")
    public = cast(JsonMap, call("network.find_network", "public"))["id"]
    router = cast(JsonMap, call("network.create_router", external_gateway_info={"network_id": public}))["id"]
    call("network.add_interface_to_router", router, subnet)
    parameters: JsonMap = {
        "image": "cirros", "key": "theirs", "flavor": "m1.nano", "database_flavor": "m1.nano",
        "network": "private", "subnet_id": subnet, "external_network_id": public,
    }  # fmt: skip
    environment: JsonMap = {"resource_registry": {"OS::Aodh::*": "OS::Heat::None"}, "parameters": parameters}
    up(cloudy, corpus / "autoscaling.yaml", environment, ("lb_server.yaml",))
