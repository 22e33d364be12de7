"""Completion of adopted objects, whose records come from a Heat."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.features.simulator.feature import SimulatorSettings
from tests.engine.conftest import ref, resource, template
from tests.resource_types import needs
from tests.tables import few
from tests.types.conftest import Cloudy

CONFIG = "60fd0abf-9cb9-4190-a0ae-f250507ab583"
DEPLOYMENT = "84ce8f1a-1e31-435d-9e59-24fb16c311af"


def adopted(cloudy: Cloudy, resources: dict[str, Any], entries: dict[str, Any]) -> Any:
    """The stack, adopted twice: its own record adds nothing and brings all along."""
    record = {"template": template(**resources), "resources": entries}
    for again in (True, False):
        stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=read_record(record))))
        assert stack.status is Status.COMPLETE, cloudy.why(stack)
        plan = cloudy.stacks.preview_update(cloudy.who, stack, StackRequest(), existing=True, plan=True).plan
        assert plan is not None
        assert {one.action for one in plan.resources} == {"keep"}
        if again:
            record = cloudy.components.exports.abandon(cloudy.who, stack)
            cloudy.settle(stack)
            with cloudy.store.transaction():  # the other installation has nothing of the stack
                for name in ("mail", "software_config", "software_deployment"):
                    cloudy.store.database.write(f"DELETE FROM {name}", ())
    return stack


@pytest.mark.slow
@pytest.mark.parametrize("prefix", few(["", "AWS::CloudFormation"]))
def test_a_handle_keeps_its_signals(cloudy: Cloudy, prefix: str) -> None:
    kinds = [f"{prefix or 'OS::Heat'}::{kind}" for kind in ("WaitConditionHandle", "WaitCondition")]
    keys = ("Handle", "Timeout") if prefix else ("handle", "timeout")
    resources = {
        "handle": resource(kinds[0]),
        "condition": resource(kinds[1], **{keys[0]: ref("handle"), keys[1]: 60}),
    }
    signals = {"one": {"status": "SUCCESS", "reason": "r", "data": "d"}}
    entries = {
        "handle": {"resource_id": "a user of the Heat", "resource_data": {"signals": signals}},
        "condition": {"resource_id": "s-condition-x"},
    }
    stack = adopted(cloudy, resources, entries)
    reader = cloudy.components.reader.resources_of(stack)
    handle, condition = (reader.make(cloudy.row(stack, name)) for name in ("handle", "condition"))
    assert condition.attribute("Data" if prefix else "data") == '{"one": "d"}'
    assert "signals" not in handle.data
    assert handle.signed_url("signal")
    if prefix:
        assert cloudy.row(stack, "condition").properties[keys[0]] == handle.reference()
        assert handle.reference() == handle.signed_url("waitcondition"), "it is valid for this stack"


def heats_handle(cloudy: Cloudy, *names: str) -> dict[str, str]:
    """A container of a Heat, and in it two signals of each handle: their URLs."""
    view = cloudy.view()
    view.call("object_store.create_container", "heat-id", **{"X-Versions-Location": "heat-id"})
    for name in names:
        for text in ("in progress", '{"data": "one"}', '{"id": "x", "data": [2]}'):
            view.call("object_store.create_object", "heat-id", f"s-{name}-abcdefghijkl", data=text)
    store = view.call("object_store.get_endpoint")
    return {
        name: f"{store}/heat-id/s-{name}-abcdefghijkl?temp_url_sig=5eca11&temp_url_expires=2147483647" for name in names
    }


@pytest.mark.slow
@needs("OS::Heat::SwiftSignal")
def test_swift_signals_share_the_container_of_the_heat(cloudy: Cloudy) -> None:
    urls = heats_handle(cloudy, "handle", "other")
    resources = {
        "handle": resource("OS::Heat::SwiftSignalHandle"),
        "other": resource("OS::Heat::SwiftSignalHandle"),
        "a": resource("OS::Heat::SwiftSignal", handle=ref("handle"), timeout=60, count=2),
    }
    entries = {
        name: {"resource_id": f"s-{name}-abcdefghijkl", "resource_data": {"endpoint": url}}
        for name, url in urls.items()
    }
    stack = adopted(cloudy, resources, {**entries, "a": {"resource_id": "s-a-abcdefghijkl"}})
    reader = cloudy.components.reader.resources_of(stack)
    handle, signal = (reader.make(cloudy.row(stack, name)) for name in ("handle", "a"))
    assert handle.attribute("endpoint") == urls["handle"]
    assert signal.attribute("data") == '{"1": "one", "x": [2]}'  # as a Heat writes it
    assert "5eca11" in handle.secrets()
    stack = cloudy.settle(cloudy.check(stack))
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    stack = cloudy.changed(stack, {"other": resources["other"]})
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    left: Any = cloudy.view().call("object_store.objects", "heat-id")
    names = {one["name"].rpartition("/")[0] or one["name"] for one in left}
    assert names == {"014s-other-abcdefghijkl", "s-other-abcdefghijkl"}
    cloudy.delete(stack)
    assert cloudy.count("object_store.container") == 0


@needs("OS::Heat::SwiftSignalHandle")
@pytest.mark.parametrize("data", few([{}, {"endpoint": "x"}, {"endpoint": 1}, {"endpoint": "http://s/v1/a/c/o"}]))
def test_a_handle_without_the_url_of_its_signals_is_not_adopted(cloudy: Cloudy, data: Any) -> None:
    record = {
        "template": template(handle=resource("OS::Heat::SwiftSignalHandle")),
        "resources": {"handle": {"resource_id": "s-handle-abcdefghijkl", "resource_data": data}},
    }
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=read_record(record))))
    assert (stack.status, "the URL for its signals" in stack.status_reason) == (Status.FAILED, True), cloudy.why(stack)


@pytest.mark.slow
def test_software_keeps_its_ids_and_answers(cloudy: Cloudy) -> None:
    resources = {
        "config": resource("OS::Heat::SoftwareConfig", config="echo", outputs=[{"name": "answer"}]),
        "done": resource("OS::Heat::SoftwareDeployment", config=ref("config"), server="a-server"),
    }
    record = {
        "action": "CREATE", "status": "COMPLETE", "status_reason": "Outputs received", "config_id": "c" * 36,
        "output_values": {"answer": "yes", "deploy_stdout": "out"},
    }  # fmt: skip
    entries = {
        "config": {"resource_id": CONFIG},
        "done": {"resource_id": DEPLOYMENT, "resource_data": {"deployment": record}},
    }
    stack = adopted(cloudy, resources, entries)
    assert {row.name: row.physical_id for row in cloudy.rows(stack)} == {"config": CONFIG, "done": DEPLOYMENT}
    found = cloudy.store.software_deployments.get("demo", DEPLOYMENT)
    assert found is not None
    assert (found.status, found.output_values) == ("COMPLETE", record["output_values"])
    cloudy.delete(stack)
    assert cloudy.store.software_deployments.get("demo", DEPLOYMENT) is None
    assert cloudy.store.software_configs.get("demo", CONFIG) is None


@pytest.mark.slow
@pytest.mark.parametrize("by_heat", few([True, False]))
def test_a_server_deletes_the_ports_that_the_heat_made(cloudy: Cloudy, by_heat: bool) -> None:
    view = cloudy.view()
    network: Any = view.call("network.create_network", name="n")
    view.call("network.create_subnet", name="n", network_id=network["id"], cidr="10.1.0.0/24", ip_version=4)
    name = "s-vm-abcdefghijkl-port-0" if by_heat else "theirs"
    port: Any = view.call("network.create_port", network_id=network["id"], name=name)
    images: Any = view.call("image.images")
    flavor: Any = view.call("compute.find_flavor", "m1.nano")
    server: Any = view.call(
        "compute.create_server", name="vm", imageRef=images[0]["id"], flavorRef=flavor["id"],
        networks=[{"port": port["id"]}],
    )  # fmt: skip
    properties = {"image": "cirros", "flavor": "m1.nano", "networks": [{"network": network["id"]}]}
    entries = {"vm": {"resource_id": server["id"], "physical_name": "s-vm-abcdefghijkl"}}
    stack = adopted(cloudy, {"vm": resource("OS::Nova::Server", **properties)}, entries)
    assert [(nic["port"], nic["made"]) for nic in cloudy.row(stack, "vm").data["nics"]] == [(port["id"], by_heat)]  # type: ignore[index,union-attr]
    cloudy.delete(stack)
    assert cloudy.count("compute.server") == 0
    assert cloudy.count("network.port") == (0 if by_heat else 1)


@pytest.mark.slow
@needs("AWS::EC2::EIP")
def test_types_find_what_they_delete(cloudy: Cloudy) -> None:
    """Their records in a Heat have the name or the address only."""
    view = cloudy.view()
    view.call("compute.create_keypair", name="k", public_key="ssh-ed25519 AAAA")
    outside: Any = cloudy.admin.call("network.create_network", name="out", **{"router:external": True})
    cloudy.admin.call("network.create_subnet", name="out", network_id=outside["id"], cidr="10.2.0.0/24", ip_version=4)
    address: Any = view.call("network.create_ip", floating_network_id=outside["id"])
    resources = {
        "key": resource("OS::Nova::KeyPair", name="k", public_key="ssh-ed25519 AAAA"),
        "eip": resource("AWS::EC2::EIP"),
    }
    entries = {"key": {"resource_id": "k"}, "eip": {"resource_id": address["floating_ip_address"]}}
    stack = adopted(cloudy, resources, entries)
    cloudy.delete(stack)
    assert (cloudy.count("compute.keypair"), cloudy.count("network.ip")) == (0, 0)


@pytest.mark.slow
def test_an_adoption_goes_on_after_a_restart(cloudy: Cloudy, place: Path) -> None:
    def restart(faults: list[dict[str, str]]) -> None:
        cloudy.close()
        file = place / "simulation.yaml"
        file.write_text(json.dumps({"faults": faults}))
        cloudy.settings = replace(cloudy.settings, of_features=(SimulatorSettings(simulation=str(file)),))
        cloudy.open()

    stack = cloudy.made({"key": resource("OS::Nova::KeyPair", name="k", public_key="ssh-ed25519 AAAA")})
    record: Any = cloudy.components.exports.abandon(cloudy.who, stack)
    cloudy.settle(stack)
    record["resources"]["key"]["resource_data"] = {}
    restart([{"verb": "compute.get_keypair", "raises": "unavailable"}])
    with cloudy.clock.held():
        stack = cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=read_record(record)))
        cloudy.begun(lambda: cloudy.states(stack) == {"key": "ADOPT_IN_PROGRESS"})
        restart([])
    stack = cloudy.settle(stack)
    assert (cloudy.states(stack), cloudy.row(stack, "key").physical_id) == ({"key": "ADOPT_COMPLETE"}, "k")
    cloudy.delete(stack)
    assert cloudy.count("compute.keypair") == 0


@pytest.mark.slow
@needs("AWS::EC2::EIP")
def test_an_update_repeats_an_adoption_that_failed(troubled: Callable[..., Cloudy]) -> None:
    """It replaces no object, and changes it afterwards."""
    verbs = ("network.ips", "compute.server_interfaces")
    cloudy = troubled(faults=[{"verb": verb, "raises": "refused", "number": 1} for verb in verbs])
    view = cloudy.view()
    network: Any = view.call("network.create_network", name="n", **{"router:external": True})
    view.call("network.create_subnet", name="n", network_id=network["id"], cidr="10.1.0.0/24", ip_version=4)
    address: Any = view.call("network.create_ip", floating_network_id=network["id"])
    images: Any = view.call("image.images")
    flavor: Any = view.call("compute.find_flavor", "m1.nano")
    server: Any = view.call(
        "compute.create_server", name="vm", imageRef=images[0]["id"], flavorRef=flavor["id"],
        networks=[{"uuid": network["id"]}],
    )  # fmt: skip
    properties = {"image": "cirros", "flavor": "m1.nano", "networks": [{"network": network["id"]}]}
    resources = {"eip": resource("AWS::EC2::EIP"), "vm": resource("OS::Nova::Server", name="vm", **properties)}
    entries = {"eip": {"resource_id": address["floating_ip_address"]}, "vm": {"resource_id": server["id"]}}
    before = {name: entry["resource_id"] for name, entry in entries.items()}
    record = read_record({"template": template(**resources), "resources": entries})
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=record)))
    assert cloudy.states(stack) == {"eip": "ADOPT_FAILED", "vm": "ADOPT_FAILED"}
    plan = cloudy.stacks.preview_update(cloudy.who, stack, StackRequest(), existing=True, plan=True).plan
    assert plan is not None
    assert {one.action for one in plan.resources} == {"update"}
    assert "its adoption failed" in (plan.resources[0].cause or "")
    resources["vm"] = resource("OS::Nova::Server", name="other", **properties)
    stack = cloudy.changed(stack, resources)
    assert cloudy.states(stack) == {"eip": "ADOPT_COMPLETE", "vm": "UPDATE_COMPLETE"}
    assert {row.name: row.physical_id for row in cloudy.rows(stack)} == before
    assert cloudy.thing(stack, "vm")["name"] == "other"
    cloudy.delete(stack)
    assert (cloudy.count("compute.server"), cloudy.count("network.ip")) == (0, 0)


def test_an_adoption_that_is_repeated_has_lost_no_signal(cloudy: Cloudy) -> None:
    """A refused row stands for any failure between two signals."""
    database = cloudy.store.database
    with cloudy.store.transaction():
        refuse = "BEGIN SELECT RAISE(ABORT, 'refused'); END"
        database.write(f"CREATE TRIGGER refuse BEFORE INSERT ON mail WHEN NEW.key = 'two' {refuse}", ())
    signals = {name: {"status": "SUCCESS", "reason": "r", "data": name} for name in ("one", "two")}
    resources = {"handle": resource("OS::Heat::WaitConditionHandle")}
    entries = {"handle": {"resource_id": "a user of the Heat", "resource_data": {"signals": signals}}}
    record = read_record({"template": template(**resources), "resources": entries})
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=record)))
    assert cloudy.states(stack) == {"handle": "ADOPT_FAILED"}
    with cloudy.store.transaction():
        database.write("DROP TRIGGER refuse", ())
    stack = cloudy.changed(stack, resources)
    handle: Any = cloudy.components.reader.resources_of(stack).make(cloudy.row(stack, "handle"))
    assert handle.received() == signals
    assert "signals" not in handle.data


@pytest.mark.slow
def test_an_adoption_that_is_repeated_has_lost_no_answer(place: Path) -> None:
    """It has failed because of a limit."""
    resources = {
        "config": resource("OS::Heat::SoftwareConfig", config="echo", outputs=[{"name": "answer"}]),
        "done": resource("OS::Heat::SoftwareDeployment", config=ref("config"), server="a-server"),
    }
    kept = {"action": "CREATE", "status": "COMPLETE", "config_id": "c" * 36, "output_values": {"answer": "yes"}}
    entries = {
        "config": {"resource_id": CONFIG},
        "done": {"resource_id": DEPLOYMENT, "resource_data": {"deployment": kept}},
    }
    record = read_record({"template": template(**resources), "resources": entries})
    cloudy = Cloudy(place, {"max_software_deployments_per_tenant": 0})
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=record)))
    assert cloudy.states(stack) == {"config": "ADOPT_COMPLETE", "done": "ADOPT_FAILED"}, cloudy.why(stack)
    cloudy.close()
    cloudy = Cloudy(place)
    stack = cloudy.changed(stack, resources)
    found = cloudy.store.software_deployments.get("demo", DEPLOYMENT)
    assert found is not None
    assert (found.status, found.output_values) == ("COMPLETE", {"answer": "yes"})
    cloudy.close()


@needs("AWS::EC2::EIP")
@pytest.mark.parametrize("is_there", few([True, False]))
def test_a_deletion_deletes_what_was_not_adopted_completely(troubled: Callable[..., Cloudy], is_there: bool) -> None:
    verbs = ("network.ips", "compute.get_keypair")
    cloudy = troubled(faults=[{"verb": verb, "raises": "refused", "number": 1} for verb in verbs])
    view = cloudy.view()
    networks: Any = view.call("network.networks", **{"router:external": True})
    address: Any = view.call("network.create_ip", floating_network_id=networks[0]["id"])
    view.call("compute.create_keypair", name="mine")
    resources = {"eip": resource("AWS::EC2::EIP"), "key": resource("OS::Nova::KeyPair", name="mine")}
    entries = {"eip": {"resource_id": address["floating_ip_address"]}, "key": {"resource_id": "mine"}}
    record = read_record({"template": template(**resources), "resources": entries})
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name="s", adopted=record)))
    assert cloudy.states(stack) == {"eip": "ADOPT_FAILED", "key": "ADOPT_FAILED"}
    if not is_there:
        view.call("network.delete_ip", address["id"])
        view.call("compute.delete_keypair", "mine")
    stack = cloudy.delete(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    assert (cloudy.count("network.ip"), cloudy.count("compute.keypair")) == (0, 0)


@pytest.mark.slow
def test_a_group_keeps_the_size_that_a_policy_gave_it(cloudy: Cloudy) -> None:
    member = {"type": "OS::Heat::RandomString"}
    group = resource("OS::Heat::AutoScalingGroup", min_size=1, max_size=5, desired_capacity=1, resource=member)
    named = {"a": {"resource_id": "x", "resource_data": {"value": "x"}}, "b": {"resource_id": "y"}}
    inner = {"heat_template_version": "2015-04-30", "resources": {"a": member, "b": member}}
    entries = {"group": {"resource_id": "n", "physical_name": "s-group", "template": inner, "resources": named}}
    stack = adopted(cloudy, {"group": group}, entries)
    (nested,) = cloudy.store.stacks.descendants(stack)
    assert {row.name for row in cloudy.rows(nested)} == {"a", "b"}


@pytest.mark.slow
def test_a_replaced_server_gives_its_port_to_the_next(cloudy: Cloudy) -> None:
    resources = {
        "net": resource("OS::Neutron::Net"),
        "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
        "port": resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("sub")}]),
        "vm": resource("OS::Nova::Server", image="cirros", flavor="m1.nano", networks=[{"port": ref("port")}]),
    }
    stack = cloudy.made(resources)
    record: Any = cloudy.components.exports.abandon(cloudy.who, stack)
    cloudy.settle(stack)
    record["resources"]["vm"]["resource_data"] = {}  # a Heat tells of none
    stack = adopted(cloudy, resources, record["resources"])
    before = cloudy.row(stack, "vm").physical_id
    cloudy.mark(stack, "vm")
    stack = cloudy.changed(stack, resources)
    assert cloudy.row(stack, "vm").physical_id != before
    assert cloudy.thing(stack, "port")["device_id"] == cloudy.row(stack, "vm").physical_id
