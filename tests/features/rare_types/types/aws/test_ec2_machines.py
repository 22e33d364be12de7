"""AWS::EC2's machines, their groups, volumes and addresses on a simulated cloud."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.status import Status
from tests.engine.conftest import attr, ref, resource, template
from tests.features.rare_types.types.aws.test_ec2_networks import vpc
from tests.tables import few
from tests.types.conftest import Cloudy


def machine(**properties: object) -> Any:
    given = {"ImageId": "cirros", "InstanceType": "m1.nano", "SubnetId": ref("subnet"), **properties}
    return resource("AWS::EC2::Instance", **given)


def tags(**given: str) -> list[Any]:
    return [{"Key": key, "Value": value} for key, value in given.items()]


class TestInstance:
    @pytest.mark.slow
    def test_made_and_deleted(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(build=3)
        before = cloudy.census()
        cloudy.view().call("compute.create_keypair", name="k")
        disk = resource("OS::Cinder::Volume", size=1)
        wanted = {
            "KeyName": "k", "Tags": tags(a="b"), "Volumes": [{"VolumeId": ref("disk"), "Device": "/dev/vdq"}],
            "SecurityGroups": ["default"], "UserData": "#!/bin/sh",
        }  # fmt: skip
        stack = cloudy.made(vpc(disk=disk, m=machine(**wanted)))
        thing = cloudy.thing(stack, "m")
        assert (thing["name"], thing["metadata"], thing["key_name"]) == (
            cloudy.row(stack, "m").physical_name, {"a": "b"}, "k",
        )  # fmt: skip
        reading, row = cloudy.components.reader, cloudy.row(stack, "m")
        assert "/resources/m/node?" in str(reading.metadata(stack, row)["heatlite_agent"])
        assert "heatlite_agent" not in reading.metadata(stack, row, for_agent=False), "whoever may only read"
        (attached,) = cloudy.thing(stack, "disk")["attachments"]  # type: ignore[misc]
        assert (attached["server_id"], attached["device"]) == (thing["id"], "/dev/vdq")
        assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)
        assert cloudy.delete(stack).status is Status.COMPLETE
        cloudy.view().call("compute.delete_keypair", "k")
        assert cloudy.census() == before

    @pytest.mark.slow
    @pytest.mark.parametrize("after", few([{"InstanceType": "m1.tiny"}, {"Tags": tags(c="d")}]))
    def test_changes_in_place(self, cloudy: Cloudy, after: dict[str, Any]) -> None:
        stack = cloudy.made(vpc(m=machine(Tags=tags(a="b"))))
        before = cloudy.row(stack, "m").physical_id
        stack = cloudy.changed(stack, vpc(m=machine(**{"Tags": tags(a="b"), **after})))
        assert cloudy.row(stack, "m").physical_id == before
        thing: Any = cloudy.thing(stack, "m")
        assert thing["metadata"] == ({"c": "d"} if "Tags" in after else {"a": "b"})
        assert thing["flavor"]["original_name"] == after.get("InstanceType", "m1.nano")

    @pytest.mark.slow
    def test_another_image_is_another_machine(self, cloudy: Cloudy) -> None:
        args: Any = {"name": "other", "disk_format": "raw", "container_format": "bare"}
        image: Any = cloudy.view().call("image.create_image", **args)
        cloudy.view().call("image.import_image", image["id"], method="web-download", uri="http://example.com/i")
        stack = cloudy.made(vpc(m=machine()))
        before = cloudy.row(stack, "m").physical_id
        stack = cloudy.changed(stack, vpc(m=machine(ImageId="other")))
        assert cloudy.row(stack, "m").physical_id != before
        assert cloudy.count("compute.server") == 1

    def test_on_network_interfaces(self, cloudy: Cloudy) -> None:
        nics = {name: resource("AWS::EC2::NetworkInterface", SubnetId=ref("subnet")) for name in ("one", "two")}
        order = [{"NetworkInterfaceId": ref(name), "DeviceIndex": index} for name, index in (("one", 1), ("two", 0))]
        stack = cloudy.made(vpc(**nics, m=machine(SubnetId=None, NetworkInterfaces=order)))
        server = cloudy.row(stack, "m").physical_id
        assert {cloudy.thing(stack, name)["device_id"] for name in nics} == {server}

    @pytest.mark.slow
    def test_attributes_and_an_address(self, cloudy: Cloudy) -> None:
        names = ("PrivateIp", "PublicIp", "PrivateDnsName", "PublicDnsName", "AvailabilityZone")
        made = vpc(m=machine(), eip=resource("AWS::EC2::EIP", InstanceId=ref("m")))
        stack = cloudy.create(template(outputs={name: attr("m", name) for name in names}, **made))
        assert stack.status is Status.COMPLETE, cloudy.why(stack)
        seen = cloudy.outputs(stack)
        assert str(seen["PrivateIp"]).startswith("10.0.1.")
        assert seen["PublicIp"] == cloudy.row(stack, "eip").physical_id
        assert (seen["PrivateDnsName"], seen["AvailabilityZone"]) == (seen["PrivateIp"], "nova")
        stack = cloudy.changed(stack, vpc(m=machine(), eip=resource("AWS::EC2::EIP")))
        assert cloudy.admin.thing("network.ip", cloudy.row(stack, "eip").data["allocation_id"])["port_id"] is None

    @pytest.mark.slow
    def test_by_address_and_instance(self, cloudy: Cloudy) -> None:
        joined = resource("AWS::EC2::EIPAssociation", EIP=ref("eip"), InstanceId=ref("m"))
        stack = cloudy.made(vpc(m=machine(), eip=resource("AWS::EC2::EIP"), joined_ip=joined))
        ip = cloudy.admin.thing("network.ip", cloudy.row(stack, "eip").data["allocation_id"])
        assert cloudy.admin.thing("network.port", ip["port_id"])["device_id"] == cloudy.row(stack, "m").physical_id
        assert cloudy.delete(stack).status is Status.COMPLETE

    @pytest.mark.slow
    def test_suspended_and_locked(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(vpc(m=machine()))
        cloudy.suspend(stack)
        assert cloudy.thing(stack, "m")["status"] == "SUSPENDED"
        cloudy.resume(stack)
        assert cloudy.thing(stack, "m")["status"] == "ACTIVE"
        cloudy.lock(stack)
        assert cloudy.thing(stack, "m")["locked"] is True
        assert cloudy.unlock(stack).status is Status.COMPLETE
        assert cloudy.thing(stack, "m")["locked"] is False

    def test_an_answer_that_is_lost_makes_no_second_machine(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.create_server", "number": 1, "raises": "lost"}])
        cloudy.made(vpc(m=machine()))
        assert cloudy.count("compute.server") == 1

    @pytest.mark.slow
    def test_gone(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(vpc(m=machine()))
        cloudy.view().call("compute.delete_server", cloudy.row(stack, "m").physical_id)
        assert cloudy.states(cloudy.check(stack))["m"] == "CHECK_FAILED"
        assert cloudy.delete(stack).status is Status.COMPLETE

    @pytest.mark.parametrize(
        ("given", "text"),
        few(
            [
                ({"NetworkInterfaces": ["n"], "SecurityGroups": ["g"]}, "cannot be given together"),
                ({"BlockDeviceMappings": [{"DeviceName": "vdb"}]}, "needs Ebs with a SnapshotId"),
                ({"NetworkInterfaces": ["n", {"NetworkInterfaceId": "n", "DeviceIndex": 1}]}, "all ids, or all maps"),
                (
                    {"NetworkInterfaces": [{"NetworkInterfaceId": "n", "DeviceIndex": "first"}]},
                    "DeviceIndex is a whole",
                ),
            ]
        ),
    )
    def test_properties_have_to_fit_together(self, cloudy: Cloudy, given: Any, text: str) -> None:
        cls = cloudy.components.types.get("AWS::EC2::Instance")
        (fault,) = cls.check_properties({"ImageId": "i", "InstanceType": "t", **given})
        assert text in fault.text


class TestSecurityGroup:
    def group(self, *ingress: Any, egress: Any = None) -> dict[str, Any]:
        more = {} if egress is None else {"SecurityGroupEgress": egress}
        given = {"GroupDescription": "d", "SecurityGroupIngress": list(ingress), **more}
        return {"g": resource("AWS::EC2::SecurityGroup", **given)}

    def rules(self, cloudy: Cloudy, stack: Any) -> set[tuple[Any, ...]]:
        found = cloudy.admin.simulation.all("network.security_group_rule").values()
        return {
            (one["direction"], one["protocol"], one["port_range_min"], one["port_range_max"], one["remote_ip_prefix"])
            for one in found
            if one["security_group_id"] == cloudy.row(stack, "g").physical_id
        }

    def test_rules(self, cloudy: Cloudy) -> None:
        web = {"IpProtocol": "tcp", "FromPort": "80", "ToPort": "81", "CidrIp": "0.0.0.0/0"}
        ping = {"IpProtocol": "icmp", "FromPort": "-1", "ToPort": "-1", "CidrIp": "10.0.0.0/8"}
        stack = cloudy.made(self.group(web))
        everything = ("egress", None, None, None, None)
        assert self.rules(cloudy, stack) == {("ingress", "tcp", 80, 81, "0.0.0.0/0"), everything}
        before = cloudy.row(stack, "g").physical_id
        stack = cloudy.changed(stack, self.group(ping, egress=[web]))
        assert cloudy.row(stack, "g").physical_id == before
        assert self.rules(cloudy, stack) == {
            ("ingress", "icmp", None, None, "10.0.0.0/8"), ("egress", "tcp", 80, 81, "0.0.0.0/0"),
        }  # fmt: skip
        assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)
        assert cloudy.delete(stack).status is Status.COMPLETE

    def test_from_a_group(self, cloudy: Cloudy) -> None:
        other = resource("AWS::EC2::SecurityGroup", GroupDescription="o")
        rule = {"IpProtocol": "tcp", "FromPort": "1", "ToPort": "2", "SourceSecurityGroupId": ref("o")}
        stack = cloudy.made({"o": other, **self.group(rule)})
        rules = cloudy.admin.simulation.all("network.security_group_rule").values()
        remotes = {rule["remote_group_id"] for rule in rules}
        assert cloudy.row(stack, "o").physical_id in remotes


class TestVolume:
    def wanted(self, **properties: Any) -> dict[str, Any]:
        joined = resource("AWS::EC2::VolumeAttachment", InstanceId=ref("m"), VolumeId=ref("v"), Device="/dev/vdc")
        volume = resource("AWS::EC2::Volume", AvailabilityZone="nova", **properties)
        return vpc(m=machine(), v=volume, a=joined)

    @pytest.mark.slow
    def test_given_to_a_machine(self, cloudy: Cloudy) -> None:
        before = cloudy.census()
        stack = cloudy.made(self.wanted(Size=2, Tags=tags(a="b")))
        thing: Any = cloudy.thing(stack, "v")
        assert (thing["size"], thing["metadata"], thing["status"]) == (2, {"a": "b"}, "in-use")
        assert thing["attachments"][0]["device"] == "/dev/vdc"
        assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)
        assert cloudy.delete(stack).status is Status.COMPLETE, cloudy.why(stack)
        assert cloudy.census() == before

    @pytest.mark.slow
    def test_nothing_of_it_changes(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(self.wanted(Size=2))
        stack = cloudy.put(stack, template(**self.wanted(Size=3)))
        assert stack.status is Status.FAILED
        assert cloudy.thing(stack, "v")["size"] == 2

    def test_it_needs_a_size_or_a_backup(self, cloudy: Cloudy) -> None:
        cls = cloudy.components.types.get("AWS::EC2::Volume")
        (fault,) = cls.check_properties({"AvailabilityZone": "nova"})
        assert fault.text == "Size or SnapshotId must be given"
