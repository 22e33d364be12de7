"""Volumes, images and their AWS types on both clouds: same states and outputs."""

import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from heatlite.core.errors import StackValidationFailed
from tests.clouds.conftest import Begin
from tests.clouds.engine import OnCloud
from tests.clouds.real import EVERYTHING
from tests.clouds.test_two_clouds import Seen, same
from tests.engine.conftest import attr, ref, resource, template


def parts(size: int, **volume: object) -> Any:
    """A volume that a server has, and one that it has not."""
    outputs = {name: attr("v", name) for name in ("size", "status", "metadata_values", "display_name", "volume_type")}
    return template(
        outputs=outputs,
        net=resource("OS::Neutron::Net"),
        subnet=resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.7.0.0/24"),
        server=resource("OS::Nova::Server", image="cirros", flavor="m1.nano", networks=[{"network": ref("net")}]),
        v=resource("OS::Cinder::Volume", size=size, **volume),
        w=resource("OS::Cinder::Volume", size=1, read_only=True),
        a=resource("OS::Cinder::VolumeAttachment", instance_uuid=ref("server"), volume_id=ref("v")),
    )


def volumes(engine: OnCloud) -> Seen:
    """Attached; grown; renamed; checked; locked; deleted."""
    engine.take_stock()
    seen = {}
    stack = engine.well(engine.create(parts(1, metadata={"a": "b"}, description="d")))
    seen["made"] = engine.seen(stack)
    stack = engine.well(engine.put(stack, parts(2, metadata={"c": "d"}, name="n")))
    seen["grown"] = engine.seen(stack)
    with pytest.raises(StackValidationFailed, match="a volume cannot shrink: it has 2 GiB, and size is 1"):
        engine.put(stack, parts(1))
    engine.well(engine.check(stack))
    seen["checked"] = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.well(engine.lock(stack))
    seen["locked"] = engine.row(stack, "v").status_reason.rpartition(": ")[2]
    assert "writable" in seen["locked"]
    engine.well(engine.unlock(stack))
    seen["unlocked"] = engine.states(stack)
    engine.gone(stack)
    return seen


def backups(engine: OnCloud) -> Seen:
    """A snapshot of the stack, back to it, and a backup in place of a deleted volume."""

    def written(name: str) -> Any:
        volume = resource("OS::Cinder::Volume", keys={"deletion_policy": "Snapshot"}, size=1, name=name)
        return template(outputs={"name": attr("v", "display_name"), "data": attr("v", "metadata_values")}, v=volume)

    engine.take_stock()
    stack = engine.well(engine.create(written("one")))
    snapshot = engine.components.snapshots.take(engine.who, engine.get(stack), "s")
    engine.well(engine.settle(stack))
    stack = engine.well(engine.put(stack, written("two")))
    engine.components.snapshots.restore(engine.who, engine.get(stack), snapshot.id)
    stack = engine.well(engine.settle(stack))
    seen = {"restored": engine.seen(stack)}
    engine.components.snapshots.delete(engine.who, engine.get(stack), snapshot.id)
    engine.settle(stack)
    engine.gone(stack)
    left = engine.cloud.call("block_storage.backups")
    assert isinstance(left, list)
    (kept,) = [engine.thing(one) for one in left]
    seen["kept"] = {"size": kept["size"], "status": kept["status"]}
    engine.cloud.call("block_storage.delete_backup", kept["id"])
    return seen


def images(engine: OnCloud) -> Seen:
    """Fetched, changed, locked, checked and deleted; one that cannot be fetched."""

    def written(**more: Any) -> Any:
        given = {"disk_format": "raw", "container_format": "bare", "location": Web.url, **more}
        return template(i=resource("OS::Glance::WebImage", **given))

    engine.take_stock()
    stack = engine.well(engine.create(written(name="ours", tags=["a"], extra_properties={"k": "1"}, os_distro="x")))
    seen = {"made": _image(engine, stack)}
    changed = written(name="ours", tags=["b"], extra_properties={"l": "2"}, protected=True, visibility="shared")
    stack = engine.well(engine.put(stack, changed))
    seen["changed"] = _image(engine, stack)
    engine.well(engine.check(stack))
    seen["checked"] = {row.name: row.status_reason for row in engine.rows(stack)}
    stack = engine.well(engine.put(stack, written(name="ours", active=False)))
    seen["inactive"] = _image(engine, stack)
    engine.well(engine.lock(stack))
    seen["locked"] = _image(engine, stack)
    engine.well(engine.unlock(stack))
    seen["unlocked"] = _image(engine, stack)
    engine.gone(stack)
    return seen


def _image(engine: OnCloud, stack: Any) -> dict[str, Any]:
    thing = engine.thing(engine.cloud.call("image.get_image", engine.row(stack, "i").physical_id))
    own = {key: value for key, value in thing["properties"].items() if not key.startswith("os_glance_")}
    shown = ("name", "status", "visibility", "protected", "tags", "os_distro", "min_disk", "min_ram")
    return {**{key: thing.get(key) for key in shown}, "properties": own, "states": engine.states(stack)}


def amazon(engine: OnCloud) -> Seen:
    """A machine in a VPC that leads to the outside, with a volume and an address."""
    outputs = {"in": attr("m", "PrivateIp"), "out": attr("m", "PublicIp"), "zone": attr("m", "AvailabilityZone")}
    made = {
        "vpc": resource("AWS::EC2::VPC", CidrBlock="10.0.0.0/16"),
        "subnet": resource("AWS::EC2::Subnet", VpcId=ref("vpc"), CidrBlock="10.0.1.0/24"),
        "gateway": resource("AWS::EC2::InternetGateway"),
        "way_out": resource("AWS::EC2::VPCGatewayAttachment", VpcId=ref("vpc"), InternetGatewayId=ref("gateway")),
        "table": resource("AWS::EC2::RouteTable", VpcId=ref("vpc")),
        "joined": resource("AWS::EC2::SubnetRouteTableAssociation", RouteTableId=ref("table"), SubnetId=ref("subnet")),
        "group": resource(
            "AWS::EC2::SecurityGroup",
            GroupDescription="d",
            SecurityGroupIngress=[{"IpProtocol": "tcp", "FromPort": "22", "ToPort": "22", "CidrIp": "0.0.0.0/0"}],
        ),
        "m": resource(
            "AWS::EC2::Instance",
            ImageId="cirros",
            InstanceType="m1.nano",
            SubnetId=ref("subnet"),
            SecurityGroupIds=[ref("group")],
            Tags=[{"Key": "a", "Value": "b"}],
        ),
        "eip": resource("AWS::EC2::EIP", InstanceId=ref("m")),
        "v": resource("AWS::EC2::Volume", AvailabilityZone="nova", Size=1),
        "a": resource("AWS::EC2::VolumeAttachment", InstanceId=ref("m"), VolumeId=ref("v"), Device="/dev/vdc"),
    }
    engine.take_stock()
    stack = engine.well(engine.create(template(outputs=outputs, **made)))
    seen = {"made": engine.seen(stack)}
    engine.well(engine.check(stack))
    seen["checked"] = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.gone(stack)
    return seen


def kinds(engine: OnCloud) -> Seen:
    """Volumes as administrators see them."""

    def written(description: str, **specs: str) -> Any:
        return template(
            t=resource("OS::Cinder::VolumeType", name="hl-kind", description=description, metadata=specs,
                       is_public=False, projects=["admin"]),
            e=resource("OS::Cinder::EncryptedVolumeType", volume_type=ref("t"), provider="luks"),
            q=resource("OS::Cinder::QoSSpecs", name="hl-qos", specs=specs),
            j=resource("OS::Cinder::QoSAssociation", qos_specs=ref("q"), volume_types=[ref("t")]),
            l=resource("OS::Cinder::Quota", project="alt", volumes=len(specs)),
        )  # fmt: skip

    stack = engine.well(engine.create(written("d", a="b")))
    seen = {"made": engine.seen(stack)}
    stack = engine.well(engine.put(stack, written("e", c="d", e="f")))
    seen["changed"] = engine.seen(stack)
    engine.well(engine.check(stack))
    seen["checked"] = {row.name: row.status_reason for row in engine.rows(stack)}
    engine.well(engine.delete(stack))
    return seen


class Web(BaseHTTPRequestHandler):
    """An image of some bytes."""

    url = "http://127.0.0.1/i"

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Length", "1000")
        self.end_headers()
        self.wfile.write(b"x" * 1000)

    def log_message(self, *_: object) -> None:
        """Nothing is logged."""


@pytest.fixture
def web(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The address from which the image service fetches an image."""
    with ThreadingHTTPServer(("127.0.0.1", 0), Web) as server:
        monkeypatch.setattr(Web, "url", f"http://127.0.0.1:{server.server_port}/i")
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield
        server.shutdown()
        thread.join()


SCENARIOS = [volumes, backups, images, amazon, kinds]


@pytest.mark.parametrize("scenario", SCENARIOS, ids=lambda one: one.__name__)
def test_simulated(scenario: Callable[[OnCloud], Seen], simulated: Begin) -> None:
    engine = simulated(admin=scenario is kinds)
    if scenario is kinds:
        engine.cloud.call("identity.create_project", name="alt")
    scenario(engine)


@pytest.mark.cloud
@pytest.mark.parametrize("scenario", SCENARIOS if EVERYTHING else [volumes], ids=lambda one: one.__name__)
def test_on_both(scenario: Callable[[OnCloud], Seen], simulated: Begin, real_cloud: Begin, web: None) -> None:
    engine = simulated(admin=scenario is kinds)
    if scenario is kinds:
        engine.cloud.call("identity.create_project", name="alt")
    same(scenario(real_cloud(admin=scenario is kinds)), scenario(engine))
