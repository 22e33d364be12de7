"""A failed replacement has ways out on a real cloud, too."""

from typing import Any

import pytest

from tests.clouds.conftest import Begin
from tests.clouds.real import EVERYTHING
from tests.clouds.test_marks_on_real import OF_ADMINISTRATORS, OF_USERS, OWN, counts
from tests.engine.conftest import ref, resource, template
from tests.types.marking import Marks, read
from tests.types.replacing import Ways, changes, is_possible, used

pytestmark = pytest.mark.cloud

SOME = [(OWN, "subnet", "cidr"), (OWN, "disk", "availability_zone")]
"""Without HEATLITE_TEST_CLOUD_ALL: what ports with floating IPs, a router and a server use."""
CASES = [
    (file, name, key)
    for file in [*OF_USERS, *OF_ADMINISTRATORS]
    for name in sorted(used(file))
    for key, _ in changes(file, name)
]


def begun(real_cloud: Begin, document: Any, admin: bool = False) -> Marks:
    engine = real_cloud(admin=admin)
    engine.patience = 600.0  # dozens of objects, one after the other
    engine.take_stock()
    return Marks(engine, engine.well(engine.create(document)))


@pytest.mark.cloud
@pytest.mark.parametrize(("file", "name", "key"), CASES if EVERYTHING else SOME)
def test_a_failed_replacement_has_a_way_out(real_cloud: Begin, file: str, name: str, key: str) -> None:
    marks = begun(real_cloud, read(file), file in OF_ADMINISTRATORS)
    ways = Ways(marks, read(file), dict(changes(file, name))[key], lambda: counts(marks.engine))  # type: ignore[arg-type]
    if is_possible(ways) is not None:
        ways.back()
        ways.fail()
        ways.back()
    marks.engine.gone(marks.stack)  # type: ignore[attr-defined]


def site(cidr: str) -> Any:
    """A server in a network, by which alone it is in the subnet."""
    nics = [{"network": ref("net")}]
    return template(
        net=resource("OS::Neutron::Net"),
        subnet=resource("OS::Neutron::Subnet", network=ref("net"), cidr=cidr),
        db=resource("OS::Nova::Server", image="cirros", flavor="m1.nano", networks=nics),
    )


@pytest.mark.cloud
def test_a_server_moves_with_its_subnet_and_back_after_a_refusal(real_cloud: Begin) -> None:
    first, second = site("10.40.0.0/24"), site("10.41.0.0/24")
    marks = begun(real_cloud, first)
    engine: Any = marks.engine
    server = engine.row(marks.stack, "db").physical_id

    def address() -> str:
        (port,) = engine.cloud.call("network.ports", device_id=server)
        return str(port["fixed_ips"][0]["ip_address"]).rpartition(".")[0]

    marks.stack = engine.well(engine.put(marks.stack, second))
    assert address() == "10.41.0"
    net, subnet = (engine.row(marks.stack, name).physical_id for name in ("net", "subnet"))
    port = engine.cloud.call("network.create_port", network_id=net, name="hl-stranger")["id"]
    try:
        marks.stack = engine.put(marks.stack, first)
        assert "409" in marks.stack.status_reason
        marks.stack = engine.well(engine.put(marks.stack, second))
        assert (address(), engine.row(marks.stack, "subnet").physical_id) == ("10.41.0", subnet)
    finally:
        engine.cloud.call("network.delete_port", port)
    engine.gone(marks.stack)
