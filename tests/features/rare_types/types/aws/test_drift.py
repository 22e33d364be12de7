"""Drift of Amazon's types is seen, and put back in place."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import pytest

from heatlite.core.json import JsonMap
from tests.engine.conftest import ref, resource
from tests.features.rare_types.types.aws.test_ec2_machines import machine
from tests.features.rare_types.types.aws.test_ec2_networks import vpc
from tests.tables import sampled
from tests.types.conftest import Cloudy
from tests.types.nova.test_drift_of_servers import Site, places

NICS: Final = {
    name: resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet"), PrivateIpAddress=f"10.0.1.{at}")
    for at, name in enumerate(("one", "two"), 20)
}
GROUP: Final = {"group": resource("AWS::EC2::SecurityGroup", GroupDescription="g", SecurityGroupIngress=[])}


def on_nics(*nics: Any) -> JsonMap:
    return vpc(**NICS, m=machine(SubnetId=None, NetworkInterfaces=[*nics]))


def group_of(*given: str) -> JsonMap:
    names = {name: [ref("group")] for name in given}
    return vpc(**GROUP, m=machine(**names))


def _numbered(*names: str) -> list[JsonMap]:
    return [{"NetworkInterfaceId": ref(name), "DeviceIndex": at} for at, name in enumerate(names)]


def _detach(site: Site) -> None:
    site.do("compute.delete_server_interface", site.key["one"], site.key["m"])


def _attach(site: Site) -> None:
    site.do("compute.create_server_interface", site.key["m"], net_id=site.key["vpc"])


def _other_group(site: Site, kept: bool) -> None:
    other = site.do("network.create_security_group", name="other")
    groups = [site.key["group"]] if kept else []
    site.do("network.update_port", site.ports("m")[0], security_groups=[*groups, other["id"]])


def _elsewhere(site: Site) -> None:
    """Give the port of the machine an address in another subnet."""
    other = site.do("network.create_subnet", network_id=site.key["vpc"], cidr="10.0.2.0/24", ip_version=4)
    site.do("network.update_port", site.ports("m")[0], fixed_ips=[{"subnet_id": other["id"]}])


def _renumber(site: Site) -> None:
    place = {"subnet_id": site.key["subnet"], "ip_address": "10.0.1.99"}
    site.do("network.update_port", site.key["one"], fixed_ips=[place])


def _dissociate(site: Site) -> None:
    (ip,) = site.cloudy.admin.simulation.all("network.ip")
    site.do("network.update_ip", ip, port_id=None)


Case = tuple[JsonMap, str, Callable[[Site], object], list[str]]
CASES: Final[Mapping[str, Case]] = {
    "interface detached": (on_nics(ref("one"), ref("two")), "m", _detach, ["/NetworkInterfaces/0"]),
    "numbered interface detached": (on_nics(*_numbered("one", "two")), "m", _detach, ["/NetworkInterfaces/0"]),
    "one more interface": (on_nics(ref("one")), "m", _attach, ["/NetworkInterfaces/-"]),
    "one more interface beside numbered ones": (
        on_nics(*_numbered("one", "two")), "m", _attach, ["/NetworkInterfaces/-"],
    ),
    "own port detached": (
        vpc(m=machine()),
        "m", lambda site: site.do("compute.delete_server_interface", site.ports("m")[0], site.key["m"]), ["/SubnetId"],
    ),
    "own port in another subnet": (vpc(m=machine()), "m", _elsewhere, ["/SubnetId"]),
    "other group": (group_of("SecurityGroups"), "m", lambda site: _other_group(site, False), ["/SecurityGroups/0"]),
    "one more group": (
        group_of("SecurityGroupIds"), "m", lambda site: _other_group(site, True), ["/SecurityGroupIds/-"],
    ),
    "volume detached": (
        vpc(
            disk=resource("OS::Cinder::Volume", size=1),
            m=machine(Volumes=[{"VolumeId": ref("disk"), "Device": "/dev/vdq"}]),
        ),
        "m", lambda site: site.do("compute.delete_volume_attachment", site.key["m"], site.key["disk"]), ["/Volumes/0"],
    ),
    "address of an interface": (on_nics(ref("one")), "one", _renumber, ["/PrivateIpAddress"]),
    "address dissociated": (
        vpc(m=machine(), eip=resource("AWS::EC2::EIP", InstanceId=ref("m"))), "eip", _dissociate, ["/InstanceId"],
    ),
    "description of a group": (
        vpc(**GROUP), "group",
        lambda site: site.do("network.update_security_group", site.key["group"], description="theirs"),
        ["/GroupDescription"],
    ),
}  # fmt: skip
"""A template, a resource of it, a change from outside, and the places that differ."""


@pytest.mark.slow
@pytest.mark.parametrize("case", sampled(CASES, 4))
def test_drift_is_put_back_in_place(cloudy: Cloudy, case: str) -> None:
    document, name, change, differs = CASES[case]
    stack = cloudy.check(cloudy.made(document))
    kept = [one for one in document if places(cloudy, stack, one)]
    assert kept == []
    change(Site(cloudy, stack))
    ids = cloudy.ids(stack)
    stack = cloudy.check(stack)
    assert (stack.status, places(cloudy, stack, name)) == ("COMPLETE", differs)
    cloudy.components.repairs.revert(cloudy.who, cloudy.get(stack), [name], None, {})
    stack = cloudy.settle(cloudy.get(stack))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.ids(stack) == ids
    assert places(cloudy, cloudy.check(stack), name) == []
