"""OS::Nova::Server on a simulated cloud."""

import base64
import email
import json
from collections.abc import Callable, Mapping
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep, Selection
from heatlite.core.status import Status
from heatlite.store.records import StackRecord
from tests.engine.conftest import MEMBER, attr, ref, resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

SERVER = "compute.server"
PORT = "network.port"
BUILD = "compute.create_server"


def server(*, keys: Mapping[str, object] = {}, **properties: object) -> Any:
    given = {"flavor": "m1.nano", "image": "cirros", "user_data_format": "RAW", **properties}
    given = {name: value for name, value in given.items() if value is not None}
    return resource("OS::Nova::Server", keys=keys, **given)


def net() -> dict[str, object]:
    return {
        "net": resource("OS::Neutron::Net", name="n"),
        "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
    }


def connected(**properties: object) -> dict[str, object]:
    """A network, and a server in it."""
    return {**net(), "vm": server(networks=[{"network": ref("net")}], **properties)}


def id_of(cloudy: Cloudy, stack: StackRecord, name: str = "vm") -> str:
    found = cloudy.row(stack, name).physical_id
    assert found is not None
    return found


def ask(cloudy: Cloudy, verb: str, *arguments: Any, **attributes: Any) -> Any:
    return cloudy.view().call(verb, *arguments, **attributes)


def shown(cloudy: Cloudy, stack: StackRecord, name: str = "vm") -> Any:
    return ask(cloudy, "compute.get_server", id_of(cloudy, stack, name))


def addresses(cloudy: Cloudy, stack: StackRecord) -> list[str]:
    return [one["addr"] for listed in shown(cloudy, stack)["addresses"].values() for one in listed]


def made(cloudy: Cloudy, verb: str, **attributes: Any) -> Any:
    """Something that is in the cloud already."""
    return ask(cloudy, verb, **attributes)


def network(cloudy: Cloudy, name: str = "there", cidr: str = "10.9.0.0/24") -> tuple[str, str]:
    """A network in the cloud, and its subnet."""
    found = made(cloudy, "network.create_network", name=name)["id"]
    subnet = made(cloudy, "network.create_subnet", name=f"{name}-sub", network_id=found, cidr=cidr, ip_version=4)["id"]
    return found, subnet


class TestCreate:
    @pytest.mark.slow
    def test_with_everything(self, cloudy: Cloudy) -> None:
        before = cloudy.census()
        made(cloudy, "compute.create_keypair", name="mine")
        stack = cloudy.made(
            {
                **net(),
                "vm": server(
                    networks=[{"network": ref("net"), "tag": "lan"}],
                    name="web",
                    key_name="mine",
                    metadata={"a": "b", "n": 1, "m": {"x": [1]}},
                    tags=["t"],
                    admin_pass="pw",
                    config_drive=True,
                    diskConfig="AUTO",
                    availability_zone="nova",
                    scheduler_hints={"colour": "red"},
                    reservation_id="r",
                    user_data="#!/bin/sh",
                ),
            }
        )
        thing = cloudy.thing(stack, "vm")
        assert (thing["name"], thing["status"], thing["key_name"]) == ("web", "ACTIVE", "mine")
        assert thing["metadata"] == {"a": "b", "n": "1", "m": '{"x": [1]}'}
        assert (thing["tags"], thing["_password"], thing["config_drive"]) == (["t"], "pw", "True")
        assert (thing["OS-DCF:diskConfig"], thing["_hints"]) == ("AUTO", {"colour": "red", "reservation": "r"})
        assert base64.b64decode(thing["OS-EXT-SRV-ATTR:user_data"]) == b"#!/bin/sh"
        assert addresses(cloudy, stack) == ["10.0.0.2"]
        cloudy.delete(stack)
        ask(cloudy, "compute.delete_keypair", "mine")
        assert cloudy.census() == before

    def test_the_agent_gets_the_key_that_was_stored_before_the_server_was_made(self, cloudy: Cloudy) -> None:
        """A server left by a crash has user data with a key that is still valid."""
        stack = cloudy.made({"vm": server(user_data_format="SOFTWARE_CONFIG")})
        told = email.message_from_bytes(base64.b64decode(cloudy.thing(stack, "vm")["OS-EXT-SRV-ATTR:user_data"]))
        (raw,) = [one.get_payload(decode=True) for one in told.walk() if one.get_filename() == "cfn-init-data"]
        row = cloudy.row(stack, "vm")
        resources = cloudy.components.reader.resources_of(cloudy.get(stack))
        made: Any = resources.make(row)
        assert json.loads(raw)["os-collect-config"]["cfn"]["access_key_id"] == made.access_key
        fresh = resources.make(replace(row, data={}, physical_id=None))
        assert fresh.survey()
        drawn = fresh.data["signal_key"]
        again = resources.make(replace(row, data=fresh.data, physical_id=None))
        again.survey()
        assert again.data["signal_key"] == drawn

    def test_files_and_keys_of_any_name(self, cloudy: Cloudy) -> None:
        """Also those that a verb has for arguments of its own."""
        metadata = {"server": "1", "verb": "2", "key": "3"}
        stack = cloudy.made({"vm": server(personality={"/etc/x": "hi"})})
        assert cloudy.thing(stack, "vm")["_files"] == [{"path": "/etc/x", "contents": "aGk="}]
        cloudy.changed(stack, {"vm": server(personality={"/etc/x": "hi"}, metadata=metadata)})
        assert cloudy.thing(stack, "vm")["metadata"] == metadata

    @pytest.mark.slow
    def test_it_is_made_after_the_subnets_of_its_networks(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(connected())
        told = cloudy.told(stack)
        assert told.index("sub CREATE_COMPLETE") < told.index("vm CREATE_IN_PROGRESS")

    @pytest.mark.slow
    def test_it_is_waited_for(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(build=30)
        began = cloudy.clock.now()
        stack = cloudy.made(connected())
        assert shown(cloudy, stack)["status"] == "ACTIVE"
        assert cloudy.clock.now() >= began + 30

    @pytest.mark.slow
    def test_many_build_at_once(self, troubled: Callable[..., Cloudy]) -> None:
        """A server that builds holds no thread: there are sixteen at most."""
        cloudy = troubled(build=300)
        began = cloudy.clock.now()
        stack = cloudy.made({f"s{number}": server(networks=[{"allocate_network": "none"}]) for number in range(64)})
        assert cloudy.clock.now() < began + 400
        assert cloudy.count(SERVER) == 64
        assert len(cloudy.rows(stack)) == 64

    def test_one_that_goes_to_error_is_made_again(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": BUILD, "number": 1, "goes": "ERROR", "message": "no room"}])
        stack = cloudy.made(connected())
        assert (cloudy.count(SERVER), shown(cloudy, stack)["status"]) == (1, "ACTIVE")
        assert cloudy.count(PORT) == 1

    @pytest.mark.slow
    def test_what_always_goes_to_error_fails_in_the_services_words(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": BUILD, "goes": "ERROR", "message": "no room"}])
        stack = cloudy.create(template(vm=server()))
        assert stack.status is Status.FAILED
        reason = cloudy.row(stack, "vm").status_reason
        assert "ERROR: no room" in reason
        assert "request req-" in reason
        cloudy.delete(stack)
        assert (cloudy.count(SERVER), cloudy.count(PORT)) == (0, 0)

    @pytest.mark.slow
    def test_a_flavor_that_no_host_has_room_for(self, cloudy: Cloudy) -> None:
        made(cloudy, "compute.create_flavor", name="huge", vcpus=1, ram=5_000_000)
        stack = cloudy.create(template(vm=server(flavor="huge")))
        assert "No valid host was found." in cloudy.row(stack, "vm").status_reason

    @pytest.mark.slow
    @pytest.mark.parametrize("name", few([None, "mine", "web (a+)+$"]))
    def test_an_answer_that_is_lost_makes_no_second_server(
        self, troubled: Callable[..., Cloudy], name: str | None
    ) -> None:
        cloudy = troubled(faults=[{"verb": BUILD, "number": 1, "raises": "lost"}])
        before = cloudy.census()
        stack = cloudy.made(connected(name=name))
        assert (cloudy.count(SERVER), cloudy.count(PORT)) == (1, 1)
        cloudy.delete(stack)
        assert cloudy.census() == before

    @pytest.mark.slow
    def test_a_port_whose_answer_is_lost_is_found(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "network.create_port", "number": 1, "raises": "lost"}])
        before = cloudy.census()
        stack = cloudy.made(connected())
        assert cloudy.count(PORT) == 1
        cloudy.delete(stack)
        assert cloudy.census() == before

    @pytest.mark.slow
    def test_the_quota(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(quotas={"compute.server": 1})
        cloudy.who = replace(cloudy.who, options={"quota_check": "off"})  # so that the cloud refuses
        stack = cloudy.create(template(a=server(), b=server(keys={"depends_on": "a"})))
        assert stack.status is Status.FAILED
        assert "Quota exceeded" in cloudy.row(stack, "b").status_reason

    @pytest.mark.parametrize(
        ("properties", "text"),
        few(
            [
                ({"image": None}, "Neither image nor a disk to boot from"),
                ({"networks": [{}]}, "One of network, port, subnet, allocate_network"),
                ({"networks": [{"allocate_network": "auto"}, {"network": "x"}]}, "beside other networks"),
                ({"networks": [{"allocate_network": "auto", "network": "x"}]}, "together with network"),
                ({"networks": [{"port": "x", "fixed_ip": "10.0.0.1"}]}, "fixed_ip cannot be given together with port"),
                ({"block_device_mapping": [{"device_name": "vdb"}]}, "Exactly one of volume_id, snapshot_id"),
                ({"block_device_mapping_v2": [{"volume_id": "x", "swap_size": 1}]}, "Exactly one of volume_id"),
                ({"block_device_mapping_v2": [{"image": "x"}]}, "volume_size must be given with image"),
            ]
        ),
    )
    def test_the_properties_have_to_fit_together(self, cloudy: Cloudy, properties: Any, text: str) -> None:
        cls = cloudy.components.types.get("OS::Nova::Server")
        faults = cls.check_properties(server(**properties)["properties"])
        assert [text in fault.text for fault in faults] == [True]


class TestNetworks:
    @pytest.mark.slow
    def test_in_all_forms(self, cloudy: Cloudy) -> None:
        lan, subnet = network(cloudy)
        port = made(cloudy, "network.create_port", network_id=lan, name="p")["id"]
        before = cloudy.census()
        stack = cloudy.made(
            {
                "vm": server(
                    networks=[
                        {"port": "p"},
                        {"network": "there"},
                        {"subnet": "there-sub"},
                        {"network": lan, "fixed_ip": "10.9.0.77"},
                        {
                            "uuid": lan,
                            "port_extra_properties": {"port_security_enabled": False, "admin_state_up": False},
                        },
                        {
                            "network": lan,
                            "port_extra_properties": {"no_fixed_ips": True, "value_specs": {"dns_name": "d"}},
                        },
                    ]
                )
            }
        )
        found = ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))
        assert [one["net_id"] for one in found] == [lan] * 6
        assert found[0]["port_id"] == port
        assert found[2]["fixed_ips"][0]["subnet_id"] == subnet
        assert found[3]["fixed_ips"][0]["ip_address"] == "10.9.0.77"
        assert found[5]["fixed_ips"] == []
        extra = ask(cloudy, "network.get_port", found[4]["port_id"])
        assert (extra["port_security_enabled"], extra["admin_state_up"]) == (False, False)
        cloudy.delete(stack)
        assert cloudy.census() == before

    @pytest.mark.slow
    def test_without_any(self, cloudy: Cloudy) -> None:
        """As Heat: the only network, or none where there is none."""
        none = cloudy.made({"vm": server()})
        assert addresses(cloudy, none) == []
        network(cloudy)
        one = cloudy.made({"vm": server()}, name="t")
        assert addresses(cloudy, one) == ["10.9.0.2"]
        network(cloudy, "more", "10.8.0.0/24")
        several = cloudy.create(template(vm=server()), name="u")
        assert "Multiple possible networks" in cloudy.row(several, "vm").status_reason
        cloudy.delete(one)
        assert cloudy.count(PORT) == 0

    @pytest.mark.parametrize(("choice", "count"), [("none", 0), ("auto", 1)])
    def test_what_the_service_allocates(self, cloudy: Cloudy, choice: str, count: int) -> None:
        network(cloudy)
        stack = cloudy.made({"vm": server(networks=[{"allocate_network": choice}])})
        assert len(addresses(cloudy, stack)) == count

    def test_security_groups_are_those_of_the_ports(self, cloudy: Cloudy) -> None:
        network(cloudy)
        group = made(cloudy, "network.create_security_group", name="web")["id"]
        stack = cloudy.made({"vm": server(networks=[{"network": "there"}], security_groups=["web"])})
        (found,) = ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))
        assert ask(cloudy, "network.get_port", found["port_id"])["security_groups"] == [group]

    def test_a_floating_ip(self, cloudy: Cloudy) -> None:
        resources = {
            **net(),
            "router": resource("OS::Neutron::Router", external_gateway_info={"network": "public"}),
            "link": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("sub")),
            "ip": resource("OS::Neutron::FloatingIP", floating_network="public"),
            "vm": server(networks=[{"network": ref("net"), "floating_ip": ref("ip")}], keys={"depends_on": "link"}),
        }
        stack = cloudy.made(resources)
        assert len(addresses(cloudy, stack)) == 2

    @pytest.mark.slow
    def test_a_template_port_goes_to_the_server_that_takes_the_place(self, cloudy: Cloudy) -> None:
        resources = {
            **net(),
            "p": resource("OS::Neutron::Port", network=ref("net")),
            "vm": server(networks=[{"port": ref("p")}], availability_zone="nova"),
        }
        stack = cloudy.made(resources)
        before, ports = id_of(cloudy, stack), addresses(cloudy, stack)
        cloudy.mark(stack, "vm")
        cloudy.changed(stack, resources)
        assert id_of(cloudy, stack) != before
        assert addresses(cloudy, stack) == ports
        assert (cloudy.count(SERVER), cloudy.count(PORT)) == (1, 1)
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("build", few([0, 20]))
    def test_addresses_survive_a_replacement(self, troubled: Callable[..., Cloudy], build: int) -> None:
        cloudy = troubled(build=build)
        stack = cloudy.made(connected(user_data="a"))
        before, ports = id_of(cloudy, stack), addresses(cloudy, stack)
        cloudy.changed(stack, connected(user_data="b"))
        assert id_of(cloudy, stack) != before
        assert addresses(cloudy, stack) == ports
        assert (cloudy.count(SERVER), cloudy.count(PORT)) == (1, 1)
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 0

    @pytest.mark.slow
    @pytest.mark.parametrize("data", few(["a", "b"]), ids=["updated", "replaced"])
    @pytest.mark.parametrize(
        ("before", "after"),
        sampled(
            [
                ({"network": "there"}, {"network": "there", "subnet": "there-sub"}),
                ({"network": "there"}, {"subnet": "there-sub"}),
                ({"network": "there"}, {"network": "there", "fixed_ip": "10.9.0.2"}),
                ({"network": "there", "fixed_ip": "10.9.0.9"}, {"network": "there"}),
                (
                    {"network": "there", "fixed_ip": "10.9.0.9"},
                    {"network": "there", "subnet": "there-sub", "fixed_ip": "10.9.0.9"},
                ),
            ],
            3,
            pytest.mark.thorough,
        ),
    )
    def test_a_network_said_in_other_words_keeps_its_port(
        self, cloudy: Cloudy, before: Any, after: Any, data: str
    ) -> None:
        network(cloudy)
        stack = cloudy.made({"vm": server(networks=[before], user_data="a")})
        port = ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))[0]["port_id"]
        held = addresses(cloudy, stack)
        stack = cloudy.changed(stack, {"vm": server(networks=[after], user_data=data)})
        assert addresses(cloudy, stack) == held
        assert ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))[0]["port_id"] == port
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 0

    @pytest.mark.slow
    def test_a_network_said_as_before_keeps_its_port_first(self, cloudy: Cloudy) -> None:
        network(cloudy)
        fixed = {"network": "there", "fixed_ip": "10.9.0.9"}
        stack = cloudy.made({"vm": server(networks=[fixed])})
        stack = cloudy.changed(stack, {"vm": server(networks=[{"network": "there"}, fixed])})
        assert sorted(addresses(cloudy, stack)) == ["10.9.0.2", "10.9.0.9"]

    @pytest.mark.slow
    def test_a_given_port_is_not_kept_for_a_network_that_names_none(self, cloudy: Cloudy) -> None:
        network(cloudy)
        given = {"p": resource("OS::Neutron::Port", network="there"), "vm": server(networks=[{"port": ref("p")}])}
        stack = cloudy.made(given)
        stack = cloudy.changed(stack, {"vm": server(networks=[{"network": "there"}])})
        assert (len(addresses(cloudy, stack)), cloudy.count(PORT)) == (1, 1)
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 0

    @pytest.mark.slow
    def test_another_address_needs_another_port(self, cloudy: Cloudy) -> None:
        network(cloudy)
        stack = cloudy.made({"vm": server(networks=[{"network": "there"}])})
        stack = cloudy.changed(stack, {"vm": server(networks=[{"network": "there", "fixed_ip": "10.9.0.9"}])})
        assert addresses(cloudy, stack) == ["10.9.0.9"]
        assert cloudy.count(PORT) == 1

    @pytest.mark.slow
    def test_a_rollback_gives_the_ports_back(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": BUILD, "number": 2, "raises": "refused", "message": "no"}])
        stack = cloudy.made(connected(user_data="a"))
        before, ports = id_of(cloudy, stack), addresses(cloudy, stack)
        stack = cloudy.put(stack, template(**connected(user_data="b")), disable_rollback=False)
        assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
        assert (id_of(cloudy, stack), addresses(cloudy, stack)) == (before, ports)
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 0

    def test_a_port_is_given_back_though_nobody_answers_at_first(self, troubled: Callable[..., Cloudy]) -> None:
        faults = [
            {"verb": BUILD, "number": 2, "raises": "refused"},
            {"verb": "compute.create_server_interface", "number": 1, "raises": "unavailable"},
        ]
        cloudy = troubled(faults=faults)
        stack = cloudy.made(connected(user_data="a"))
        ports = addresses(cloudy, stack)
        stack = cloudy.put(stack, template(**connected(user_data="b")), disable_rollback=False)
        assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
        assert addresses(cloudy, stack) == ports

    @pytest.mark.slow
    def test_a_port_that_the_server_before_keeps(self, troubled: Callable[..., Cloudy]) -> None:
        """The service agrees and its host fails: the old server stays as it was."""
        cloudy = troubled(faults=[{"verb": "compute.delete_server_interface", "goes": "ERROR"}])
        stack = cloudy.made(connected(user_data="a"))
        before, ports = id_of(cloudy, stack), addresses(cloudy, stack)
        stack = cloudy.put(stack, template(**connected(user_data="b")), disable_rollback=False)
        assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
        assert "does not release port" in stack.status_reason or any(
            "does not release port" in str(event.status_reason) for event in cloudy.events(stack)
        )
        assert (id_of(cloudy, stack), addresses(cloudy, stack), cloudy.count(PORT)) == (before, ports, 1)


class TestDisks:
    def test_a_boot_volume_of_an_image(self, cloudy: Cloudy) -> None:
        disk = {"image": "cirros", "volume_size": 2, "delete_on_termination": True}
        stack = cloudy.made({"vm": server(image=None, block_device_mapping_v2=[disk])})
        assert shown(cloudy, stack)["image"] == ""
        (volume,) = cloudy.admin.things("block_storage.volume")
        assert (volume["size"], volume["status"]) == (2, "in-use")
        cloudy.delete(stack)
        assert cloudy.count("block_storage.volume") == 0

    @pytest.mark.parametrize("form", ["block_device_mapping", "block_device_mapping_v2"])
    def test_a_volume_that_is_there_stays(self, cloudy: Cloudy, form: str) -> None:
        image = ask(cloudy, "image.find_image", "cirros")["id"]
        volume = made(cloudy, "block_storage.create_volume", size=1, name="v", imageRef=image)["id"]
        disk = {"volume_id": "v", "device_name": "vda" if form == "block_device_mapping" else None}
        stack = cloudy.made({"vm": server(image=None, **{form: [{k: v for k, v in disk.items() if v}]})})
        assert [one["id"] for one in shown(cloudy, stack)["os-extended-volumes:volumes_attached"]] == [volume]
        cloudy.delete(stack)
        assert ask(cloudy, "block_storage.get_volume", volume)["status"] == "available"

    def test_a_snapshot_and_local_disks(self, cloudy: Cloudy) -> None:
        volume = made(cloudy, "block_storage.create_volume", size=1, name="v")["id"]
        made(cloudy, "block_storage.create_snapshot", volume_id=volume, name="snap")
        disks = {"swap": 512, "OS-FLV-EXT-DATA:ephemeral": 1}
        made(cloudy, "compute.create_flavor", name="disks", vcpus=1, ram=64, **disks)
        stack = cloudy.made(
            {
                "vm": server(
                    flavor="disks",
                    block_device_mapping_v2=[
                        {"snapshot_id": "snap", "delete_on_termination": False},
                        {"swap_size": 512},
                        {"ephemeral_size": 1, "ephemeral_format": "ext4"},
                    ],
                )
            }
        )
        assert len(shown(cloudy, stack)["os-extended-volumes:volumes_attached"]) == 1
        cloudy.delete(stack)
        assert cloudy.count("block_storage.volume") == 2

    @pytest.mark.parametrize("disk", [{"swap_size": 1}, {"ephemeral_size": 1}])
    def test_disks_that_the_flavor_does_not_have(self, cloudy: Cloudy, disk: dict[str, int]) -> None:
        stack = cloudy.create(template(vm=server(block_device_mapping_v2=[disk])))
        assert "larger than" in cloudy.row(stack, "vm").status_reason


def parts(cloudy: Cloudy, stack: StackRecord) -> dict[str, str]:
    """The parts of the user data by their names."""
    text = base64.b64decode(cloudy.thing(stack, "vm")["OS-EXT-SRV-ATTR:user_data"]).decode()
    return {
        str(part.get_filename() or part.get_content_type()): part.get_payload(decode=True).decode()  # type: ignore[union-attr]
        for part in email.message_from_string(text).get_payload()
    }


class TestUserData:
    def test_for_heat_cfntools(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(
            {"vm": server(user_data_format=None, user_data="#!/bin/sh\necho", keys={"metadata": {"k": "v"}})}
        )
        found = parts(cloudy, stack)
        assert found["cfn-userdata"] == "#!/bin/sh\necho"
        assert json.loads(found["cfn-init-data"]) == {"k": "v"}
        assert found["cfn-metadata-server"].endswith("/v1/")
        compile(found["part-handler.py"], "part-handler", "exec")

    def test_for_deployments(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(
            {
                "config": resource("OS::Heat::CloudConfig", cloud_config={"packages": ["x"]}),
                "vm": server(user_data_format="SOFTWARE_CONFIG", user_data=ref("config")),
            }
        )
        found = parts(cloudy, stack)
        assert found["text/plain"].startswith("#cloud-config\n")
        told = json.loads(found["cfn-init-data"])
        assert told["deployments"] == []
        assert told["os-collect-config"]["collectors"] == ["cfn", "local"]
        metadata = cloudy.components.reader.metadata(stack, cloudy.row(stack, "vm"))
        assert told["heatlite_agent"] == metadata["heatlite_agent"]

    def test_a_config_with_parts(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(
            {
                "one": resource("OS::Heat::SoftwareConfig", config="#!/bin/sh\n1"),
                "both": resource("OS::Heat::MultipartMime", parts=[{"config": ref("one"), "filename": "one"}]),
                "vm": server(user_data_format="SOFTWARE_CONFIG", user_data=ref("both")),
            }
        )
        assert parts(cloudy, stack)["one"] == "#!/bin/sh\n1"

    def test_a_deployment_goes_to_it(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(
            {
                "config": resource("OS::Heat::SoftwareConfig", group="script", config="#!/bin/sh"),
                "vm": server(user_data_format="SOFTWARE_CONFIG"),
                "d": resource(
                    "OS::Heat::SoftwareDeployment", config=ref("config"), server=ref("vm"), signal_transport="NO_SIGNAL"
                ),
            }
        )
        assert cloudy.row(stack, "d").status == "COMPLETE"


class TestUpdate:
    @pytest.mark.parametrize(
        ("before", "after", "key", "value"),
        sampled(
            [
                ({"name": "a"}, {"name": "b"}, "name", "b"),
                (
                    {"metadata": {"a": "1", "b": "2"}},
                    {"metadata": {"b": "3", "c": "4"}},
                    "metadata",
                    {"b": "3", "c": "4"},
                ),
                ({"tags": ["a"]}, {"tags": ["b", "c"]}, "tags", ["b", "c"]),
                ({"tags": ["a"]}, {}, "tags", []),
                ({"admin_pass": "a"}, {"admin_pass": "b"}, "_password", "b"),
                ({"flavor": "m1.tiny"}, {"flavor": "m1.small"}, "status", "ACTIVE"),
                ({"user_data_update_policy": "IGNORE"}, {"user_data_update_policy": "REPLACE"}, "status", "ACTIVE"),
                ({"software_config_transport": "POLL_SERVER_HEAT"}, {}, "status", "ACTIVE"),
            ],
            2,
            pytest.mark.thorough,
        ),
    )
    def test_in_place(self, cloudy: Cloudy, before: Any, after: Any, key: str, value: object) -> None:
        stack = cloudy.made({"vm": server(**before)})
        old = id_of(cloudy, stack)
        cloudy.changed(stack, {"vm": server(**after)})
        assert id_of(cloudy, stack) == old
        assert cloudy.thing(stack, "vm")[key] == value

    @pytest.mark.parametrize("build", few([0, 20]))
    def test_several_steps_one_after_the_other(self, troubled: Callable[..., Cloudy], build: int) -> None:
        cloudy = troubled(build=build)
        other = image(cloudy)
        stack = cloudy.made(connected())
        old = id_of(cloudy, stack)
        cloudy.changed(stack, connected(flavor="m1.small", image="other", name="new", admin_pass="pw"))
        thing = shown(cloudy, stack)
        assert (thing["id"], thing["status"], thing["name"]) == (old, "ACTIVE", "new")
        assert (thing["flavor"]["original_name"], thing["image"]["id"]) == ("m1.small", other)

    def test_preserving_ephemeral_disks(self, cloudy: Cloudy) -> None:
        image(cloudy)
        policy = {"image_update_policy": "REBUILD_PRESERVE_EPHEMERAL"}
        stack = cloudy.made({"vm": server(**policy)})
        cloudy.changed(stack, {"vm": server(image="other", **policy)})
        assert cloudy.thing(stack, "vm")["_ephemeral_kept"] is True

    @pytest.mark.parametrize(
        "after",
        few(
            [
                {"flavor": "m1.small", "flavor_update_policy": "REPLACE"},
                {"image": "other", "image_update_policy": "REPLACE"},
                {"user_data": "new"},
                {"config_drive": True},
                {"scheduler_hints": {"a": "b"}},
            ]
        ),
    )
    def test_replacing(self, cloudy: Cloudy, after: Any) -> None:
        image(cloudy)
        stack = cloudy.made({"vm": server()})
        old = id_of(cloudy, stack)
        cloudy.changed(stack, {"vm": server(**after)})
        assert id_of(cloudy, stack) != old
        assert cloudy.count(SERVER) == 1

    def test_user_data_ignored_or_rebuilt(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server(user_data="a")})
        old = id_of(cloudy, stack)
        cloudy.changed(stack, {"vm": server(user_data="b", user_data_update_policy="IGNORE")})
        assert "_rebuilt" not in cloudy.thing(stack, "vm")
        cloudy.changed(stack, {"vm": server(user_data="c", user_data_update_policy="REBUILD")})
        thing = cloudy.thing(stack, "vm")
        assert (thing["_rebuilt"], base64.b64decode(thing["OS-EXT-SRV-ATTR:user_data"])) == (1, b"c")
        assert id_of(cloudy, stack) == old

    def test_a_rebuild_that_fails_says_why(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.rebuild_server", "goes": "ERROR", "message": "no disk"}])
        image(cloudy)
        stack = cloudy.made({"vm": server()})
        cloudy.put(stack, template(vm=server(image="other")))
        assert "ERROR: no disk" in cloudy.row(stack, "vm").status_reason

    @pytest.mark.slow
    def test_a_resize_that_fails_says_why(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.resize_server", "goes": "ERROR", "message": "no room"}])
        stack = cloudy.made({"vm": server()})
        cloudy.put(stack, template(vm=server(flavor="m1.small")))
        assert "ERROR: no room" in cloudy.row(stack, "vm").status_reason

    @pytest.mark.slow
    def test_a_resize_is_confirmed_until_that_is_accepted(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.confirm_server_resize", "number": 1, "raises": "conflict"}])
        stack = cloudy.made({"vm": server()})
        cloudy.changed(stack, {"vm": server(flavor="m1.small")})
        assert shown(cloudy, stack)["status"] == "ACTIVE"

    @pytest.mark.slow
    def test_a_resize_that_was_reverted_is_begun_again(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.confirm_server_resize", "raises": "conflict"}])
        stack, after = cloudy.made({"vm": server()}), {"vm": server(flavor="m1.small")}
        assert cloudy.put(stack, template(**after)).status == "FAILED"
        ask(cloudy, "compute.revert_server_resize", id_of(cloudy, stack))
        simulation = cloudy.admin.simulation
        simulation.scenario = replace(simulation.scenario, faults=())
        cloudy.changed(stack, after)
        assert shown(cloudy, stack)["flavor"]["original_name"] == "m1.small"

    def test_one_that_somebody_has_paused_is_not_waited_for(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server()})
        number = id_of(cloudy, stack)
        cloudy.admin.simulation.all(SERVER)[number]["status"] = "PAUSED"
        cloudy.put(stack, template(vm=server(flavor="m1.small")))
        assert "its status is PAUSED" in cloudy.row(stack, "vm").status_reason
        cloudy.admin.simulation.all(SERVER)[number]["status"] = "ACTIVE"
        cloudy.changed(stack, {"vm": server(flavor="m1.small")})
        assert id_of(cloudy, stack) == number

    @pytest.mark.slow
    @pytest.mark.parametrize("build", few([0, 20]))
    def test_networks(self, troubled: Callable[..., Cloudy], build: int) -> None:
        cloudy = troubled(build=build)
        lan, _ = network(cloudy)
        dmz, _ = network(cloudy, "dmz", "10.8.0.0/24")
        port = made(cloudy, "network.create_port", network_id=dmz, name="p")["id"]
        stack = cloudy.made({"vm": server(networks=[{"network": "there"}, {"network": "dmz"}])})
        old = id_of(cloudy, stack)
        kept = ask(cloudy, "compute.server_interfaces", old)[0]["port_id"]
        cloudy.changed(stack, {"vm": server(networks=[{"port": "p"}, {"network": lan}])})
        found = {one["port_id"] for one in ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))}
        assert id_of(cloudy, stack) == old
        assert found == {kept, port}
        assert cloudy.count(PORT) == 2
        cloudy.changed(stack, {"vm": server(networks=[{"allocate_network": "none"}])})
        assert addresses(cloudy, stack) == []
        assert cloudy.count(PORT) == 1
        cloudy.changed(stack, {"vm": server(networks=[{"network": "dmz"}])})
        cloudy.changed(stack, {"vm": server(networks=[{"network": "there"}])})
        (interface,) = ask(cloudy, "compute.server_interfaces", old)
        assert interface["net_id"] == lan
        assert cloudy.count(PORT) == 2
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 1

    def test_the_port_of_a_network_is_changed_in_place(self, cloudy: Cloudy) -> None:
        network(cloudy)
        stack = cloudy.made({"vm": server(networks=[{"network": "there"}])})
        (before,) = ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))
        extra = {"port_security_enabled": False}
        cloudy.changed(stack, {"vm": server(networks=[{"network": "there", "port_extra_properties": extra}])})
        (after,) = ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))
        assert before["port_id"] == after["port_id"]
        assert ask(cloudy, "network.get_port", after["port_id"])["port_security_enabled"] is False

    @pytest.mark.slow
    def test_a_port_that_is_gone_is_made_again(self, cloudy: Cloudy) -> None:
        """By any update: without it each would fail."""
        stack = cloudy.made(connected())
        number, networks = id_of(cloudy, stack), [{"network": ref("net")}, {"network": network(cloudy)[0]}]
        for more, count in (({"metadata": {"a": "b"}}, 1), ({"networks": networks}, 2)):
            ask(cloudy, "network.delete_port", ask(cloudy, "network.ports", device_id=number)[0]["id"])
            cloudy.changed(stack, {**net(), "vm": server(**{"networks": networks[:1], **more})})
            assert id_of(cloudy, stack) == number
            assert len(addresses(cloudy, stack)) == cloudy.count(PORT) == count
        cloudy.delete(stack)
        assert cloudy.count(PORT) == 0

    @pytest.mark.slow
    def test_rebuilt_in_place_of_a_replacement(self, cloudy: Cloudy) -> None:
        def resources(**properties: object) -> dict[str, object]:
            made = connected(**properties)
            made["vm"]["update_policy"] = {"replacement": {"order": "rebuild"}}  # type: ignore[index]
            return made

        stack = cloudy.made(resources(user_data="a"))
        old = id_of(cloudy, stack)
        cloudy.changed(stack, resources(user_data="b"))
        thing = cloudy.thing(stack, "vm")
        assert (thing["id"], thing["_rebuilt"]) == (old, 1)
        assert base64.b64decode(thing["OS-EXT-SRV-ATTR:user_data"]) == b"b"
        cloudy.mark(stack, "vm")
        cloudy.changed(stack, resources(user_data="b"))
        assert (cloudy.thing(stack, "vm")["id"], cloudy.thing(stack, "vm")["_rebuilt"]) == (old, 2)

    @pytest.mark.slow
    def test_rebooted_with_the_same_id(self, cloudy: Cloudy) -> None:
        stack = cloudy.made(connected())
        old = id_of(cloudy, stack)
        ask(cloudy, "compute.stop_server", old)
        cloudy.clock.pass_(60)
        cloudy.mark(stack, "vm")
        reboot(cloudy, stack)
        row = cloudy.row(stack, "vm")
        assert (row.physical_id, row.verb, row.status) == (old, "UPDATE", "COMPLETE")
        assert shown(cloudy, stack)["status"] == "ACTIVE"
        assert cloudy.check(stack).status == "COMPLETE"

    def test_a_reboot_that_fails_says_why(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.reboot_server", "goes": "ERROR", "message": "no power"}])
        stack = cloudy.made({"vm": server()})
        stack = reboot(cloudy, stack)
        assert stack.status == "FAILED"
        assert "ERROR: no power" in cloudy.row(stack, "vm").status_reason


def reboot(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    cloudy.components.repairs.begin(MEMBER, cloudy.get(stack), Selection({"vm": RepairStep.REBOOT}))
    return cloudy.settle(stack)


def image(cloudy: Cloudy, name: str = "other") -> str:
    found = made(cloudy, "image.create_image", name=name, disk_format="raw", container_format="bare")["id"]
    ask(cloudy, "image.import_image", found, method="web-download", uri="http://x")
    cloudy.clock.pass_(60)
    assert ask(cloudy, "image.get_image", found)["status"] == "active"
    return str(found)


class TestDelete:
    def test_of_one_that_is_gone(self, cloudy: Cloudy) -> None:
        before = cloudy.census()
        stack = cloudy.made(connected())
        ask(cloudy, "compute.delete_server", id_of(cloudy, stack))
        cloudy.delete(stack)
        assert cloudy.census() == before

    @pytest.mark.parametrize("status", ["SOFT_DELETED", "DELETED"])
    def test_deferred(self, troubled: Callable[..., Cloudy], status: str) -> None:
        cloudy = troubled(faults=[{"verb": "compute.delete_server", "goes": status}])
        stack = cloudy.made({"vm": server()})
        assert cloudy.delete(stack).verb == "DELETE"
        assert cloudy.get(stack).status == "COMPLETE"

    def test_that_fails_says_why(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.delete_server", "goes": "ERROR", "message": "host is down"}])
        stack = cloudy.made({"vm": server()})
        cloudy.delete(stack)
        assert "ERROR: host is down" in cloudy.row(stack, "vm").status_reason

    @pytest.mark.slow
    def test_of_one_that_somebody_has_locked(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server()})
        ask(cloudy, "compute.lock_server", id_of(cloudy, stack))
        cloudy.delete(stack)
        assert "is locked" in cloudy.row(stack, "vm").status_reason
        ask(cloudy, "compute.unlock_server", id_of(cloudy, stack))
        cloudy.delete(stack)
        assert cloudy.count(SERVER) == 0

    def test_one_that_is_saved_and_was_not_deleted_is_deleted_later(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.delete_server", "number": 1, "raises": "refused"}])
        stack = cloudy.made({"vm": server(keys={"deletion_policy": "Snapshot"})})
        assert cloudy.delete(stack).status is Status.FAILED
        assert cloudy.delete(stack).status is Status.COMPLETE
        assert cloudy.count(SERVER) == 0

    def test_saved_before(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server(keys={"deletion_policy": "Snapshot"})})
        name = cloudy.row(stack, "vm").physical_name
        cloudy.delete(stack)
        assert ask(cloudy, "image.find_image", name)["status"] == "active"
        assert cloudy.count(SERVER) == 0


class TestOperations:
    @pytest.mark.slow
    def test_check(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server(name="a", metadata={"k": 1}, tags=["b", "a"])})
        cloudy.check(stack)
        assert cloudy.row(stack, "vm").status_reason == "state changed"
        ask(cloudy, "compute.update_server", id_of(cloudy, stack), name="other")
        cloudy.check(stack)
        assert 'name is "other"' in cloudy.row(stack, "vm").status_reason
        cloudy.admin.call("compute.reset_server_state", id_of(cloudy, stack), "error")
        assert cloudy.check(stack).status is Status.FAILED
        ask(cloudy, "compute.delete_server", id_of(cloudy, stack))
        assert cloudy.check(stack).status is Status.FAILED
        assert "could not be found" in cloudy.row(stack, "vm").status_reason

    @pytest.mark.slow
    def test_one_that_failed_and_is_well_is_kept(self, troubled: Callable[..., Cloudy]) -> None:
        cloudy = troubled(faults=[{"verb": "compute.set_server_metadata", "number": 1, "raises": "refused"}])
        stack = cloudy.made({"vm": server()})
        old = id_of(cloudy, stack)
        assert cloudy.put(stack, template(vm=server(metadata={"a": "b"}))).status is Status.FAILED
        cloudy.changed(stack, {"vm": server(metadata={"a": "c"})})
        assert id_of(cloudy, stack) == old

    @pytest.mark.slow
    @pytest.mark.parametrize("build", few([0, 20]))
    def test_suspend_and_resume(self, troubled: Callable[..., Cloudy], build: int) -> None:
        cloudy = troubled(build=build)
        stack = cloudy.made({"vm": server()})
        assert cloudy.suspend(stack).status is Status.COMPLETE
        assert shown(cloudy, stack)["status"] == "SUSPENDED"
        assert cloudy.resume(stack).status is Status.COMPLETE
        assert shown(cloudy, stack)["status"] == "ACTIVE"

    @pytest.mark.slow
    @pytest.mark.parametrize("build", few([0, 20]))
    def test_snapshot_and_restore(self, troubled: Callable[..., Cloudy], build: int) -> None:
        cloudy = troubled(build=build)
        stack = cloudy.made({"vm": server(flavor="m1.tiny")})
        old = id_of(cloudy, stack)
        snapshot = cloudy.components.snapshots.take(cloudy.who, cloudy.get(stack), "first")
        cloudy.settle(stack)
        cloudy.changed(stack, {"vm": server(flavor="m1.small")})
        cloudy.components.snapshots.restore(cloudy.who, cloudy.get(stack), snapshot.id)
        assert cloudy.settle(stack).status is Status.COMPLETE, cloudy.why(stack)
        thing = shown(cloudy, stack)
        saved = ask(cloudy, "image.get_image", thing["image"]["id"])
        assert (thing["id"], thing["flavor"]["original_name"]) == (old, "m1.tiny")
        assert saved["properties"]["image_type"] == "snapshot"
        cloudy.delete(stack)
        assert ask(cloudy, "image.find_image", saved["name"]) is None

    @pytest.mark.slow
    def test_an_update_does_not_undo_a_restore(self, cloudy: Cloudy) -> None:
        definition = {"vm": server(keys={"update_policy": {"replacement": {"order": "rebuild"}}})}
        stack = cloudy.made(definition)
        old, image = id_of(cloudy, stack), shown(cloudy, stack)["image"]["id"]
        snapshot = cloudy.components.snapshots.take(cloudy.who, cloudy.get(stack), "first")
        cloudy.settle(stack)
        cloudy.components.snapshots.restore(cloudy.who, cloudy.get(stack), snapshot.id)
        cloudy.settle(stack)
        cloudy.changed(stack, definition)
        assert shown(cloudy, stack)["image"]["id"] != image
        # A rebuild makes the server anew, as the template says.
        cloudy.components.snapshots.delete(cloudy.who, cloudy.get(stack), snapshot.id)
        cloudy.settle(stack)
        cloudy.mark(stack, "vm")
        cloudy.changed(stack, definition)
        assert (id_of(cloudy, stack), shown(cloudy, stack)["image"]["id"]) == (old, image)

    @pytest.mark.slow
    def test_lock(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server()})
        cloudy.lock(stack)
        thing = shown(cloudy, stack)
        assert (thing["locked"], thing["locked_reason"]) == (True, "The stack s is locked")
        with pytest.raises(Exception, match="is locked"):
            ask(cloudy, "compute.reboot_server", id_of(cloudy, stack), "SOFT")
        cloudy.unlock(stack)
        assert shown(cloudy, stack)["locked"] is False

    def test_an_earlier_lock_stays(self, cloudy: Cloudy) -> None:
        stack = cloudy.made({"vm": server()})
        ask(cloudy, "compute.lock_server", id_of(cloudy, stack), locked_reason="mine")
        cloudy.lock(stack)
        cloudy.lock(stack)
        cloudy.unlock(stack)
        thing = shown(cloudy, stack)
        assert (thing["locked"], thing["locked_reason"]) == (True, "mine")
        assert "was_locked" not in cloudy.row(stack, "vm").data


class TestAttributes:
    def test_of_its_addresses(self, cloudy: Cloudy) -> None:
        lan, subnet = network(cloudy)
        outputs = {
            "networks": attr("vm", "networks"),
            "first": attr("vm", "first_address"),
            "addresses": attr("vm", "addresses", "there", 0),  # type: ignore[arg-type]
            "by_id": attr("vm", "addresses", lan, 0, "addr"),  # type: ignore[arg-type]
        }
        stack = cloudy.create(template(vm=server(networks=[{"network": lan}]), outputs=outputs))
        found: Any = cloudy.outputs(stack)
        assert found["networks"] == {"there": ["10.9.0.2"], lan: ["10.9.0.2"]}
        assert (found["first"], found["by_id"]) == ("10.9.0.2", "10.9.0.2")
        (interface,) = ask(cloudy, "compute.server_interfaces", id_of(cloudy, stack))
        assert found["addresses"]["port"] == interface["port_id"]
        assert found["addresses"]["network"]["id"] == lan
        assert [one["id"] for one in found["addresses"]["subnets"]] == [subnet]

    def test_others(self, cloudy: Cloudy) -> None:
        outputs = {
            "name": attr("vm", "name"),
            "console": attr("vm", "console_urls", "novnc"),
            "serial": attr("vm", "console_urls", "serial"),
            "instance": attr("vm", "instance_name"),
            "agent": attr("vm", "os_collect_config"),
            "tags": attr("vm", "tags"),
            "show": attr("vm", "show", "status"),
        }
        stack = cloudy.create(template(vm=server(name="a", tags=["x"]), outputs=outputs))
        found: Any = cloudy.outputs(stack)
        assert (found["name"], found["tags"], found["show"], found["agent"]) == ("a", ["x"], "ACTIVE", {})
        assert found["console"].startswith("http://")
        assert "Unavailable console type" in found["serial"]
        assert found["instance"].startswith("instance-")


@pytest.mark.slow
def test_metadata_in_another_layout_of_json_is_the_same(cloudy: Cloudy) -> None:
    """A Heat before this server, or an earlier version, may have written it."""
    stack = cloudy.made({"vm": server(metadata={"a": "b", "m": {"x": [1, True]}})})
    for text, same in (('{"x":[1,true]}', True), ('{"x": [1, 1]}', False), ("x", False), ('{"x": [1, true]}', True)):
        ask(cloudy, "compute.set_server_metadata", id_of(cloudy, stack), {"m": text})
        stack = cloudy.check(stack)
        assert ("Not as stored" not in stack.status_reason) is same, (text, stack.status_reason)
