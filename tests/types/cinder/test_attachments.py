"""OS::Cinder::VolumeAttachment and attached volumes on a simulated cloud."""

from collections.abc import Callable
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.status import Status
from heatlite.features.simulator.simulation import SimulatedFault
from tests.engine.conftest import ref, resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy


def parts(server: str = "s", volume: str = "v", size: int = 1, **properties: object) -> dict[str, Any]:
    """Two servers, two volumes, and one of these attached."""
    joined = resource("OS::Cinder::VolumeAttachment", instance_uuid=ref(server), volume_id=ref(volume), **properties)
    network = {"net": resource("OS::Neutron::Net"),
               "subnet": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24")}  # fmt: skip
    made = {"image": "cirros", "flavor": "m1.nano", "networks": [{"network": ref("net")}]}
    servers = {name: resource("OS::Nova::Server", **made) for name in ("s", "t")}
    return {
        **network,
        **servers,
        "v": resource("OS::Cinder::Volume", size=size),
        "w": resource("OS::Cinder::Volume", size=1),
        "a": joined,
    }


def attachments(cloudy: Cloudy, stack: Any, volume: str) -> list[tuple[str, str]]:
    """The stack's volumes by server and place."""
    names = {cloudy.row(stack, name).physical_id: name for name in ("s", "t")}
    return [(names[one["server_id"]], one["device"]) for one in cloudy.thing(stack, volume)["attachments"]]  # type: ignore[union-attr,index,call-overload]


@pytest.mark.slow
def test_attached_and_taken_away(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=4)
    before = cloudy.census()
    stack = cloudy.made(parts(mountpoint="/dev/vdx"))
    assert attachments(cloudy, stack, "v") == [("s", "/dev/vdx")]
    assert cloudy.row(stack, "a").physical_id == cloudy.row(stack, "v").physical_id
    assert cloudy.check(stack).status is Status.COMPLETE, cloudy.why(stack)
    stack = cloudy.changed(stack, {name: one for name, one in parts().items() if name != "a"})
    assert (attachments(cloudy, stack, "v"), cloudy.thing(stack, "v")["status"]) == ([], "available")
    cloudy.delete(stack)
    assert cloudy.census() == before


@pytest.mark.slow
@pytest.mark.parametrize(
    ("after", "v", "w"),
    few(
        [
            ({"mountpoint": "/dev/vdz"}, [("s", "/dev/vdz")], []),
            ({"server": "t"}, [("t", "/dev/vdb")], []),
            ({"volume": "w"}, [], [("s", "/dev/vdb")]),
            ({"volume": "w", "server": "t", "mountpoint": "/dev/vdz"}, [], [("t", "/dev/vdz")]),
        ]
    ),
)
def test_a_change_is_made_in_place(
    troubled: Callable[..., Cloudy], after: dict[str, Any], v: list[Any], w: list[Any]
) -> None:
    cloudy = troubled(build=2)
    stack = cloudy.made(parts())
    before = cloudy.row(stack, "a").id
    stack = cloudy.changed(stack, parts(**after))
    assert cloudy.row(stack, "a").id == before
    assert (attachments(cloudy, stack, "v"), attachments(cloudy, stack, "w")) == (v, w)
    assert cloudy.row(stack, "a").physical_id == cloudy.row(stack, after.get("volume", "v")).physical_id
    assert {"parted", "joins"}.isdisjoint(cloudy.row(stack, "a").data)


@pytest.mark.slow
@pytest.mark.parametrize("after", few([{"server": "t"}, {"volume": "w"}]))
@pytest.mark.parametrize(
    "then",
    sampled(["rolled back", "changed back", "tried again", "removed"], 2, pytest.mark.thorough),
)
def test_what_a_failed_change_has_attached_is_detached(
    troubled: Callable[..., Cloudy], after: dict[str, Any], then: str
) -> None:
    cloudy = troubled()
    stack = cloudy.made(parts())
    simulation = cloudy.view().simulation
    simulation.scenario = replace(
        simulation.scenario, faults=[SimulatedFault("block_storage.get_volume", 3, raises="refused")]
    )
    stack = cloudy.put(stack, template(**parts(**after)), disable_rollback=then != "rolled back")
    simulation.scenario = replace(simulation.scenario, faults=[])
    if then == "rolled back":
        assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE"), cloudy.why(stack)
    else:
        assert (stack.verb, stack.status) == ("UPDATE", "FAILED")
        wanted = parts(**(after if then == "tried again" else {}))
        if then == "removed":
            del wanted["a"]
        stack = cloudy.changed(stack, wanted)
    known = {"v": attachments(cloudy, stack, "v"), "w": attachments(cloudy, stack, "w")}
    server, volume = (after.get("server", "s"), after.get("volume", "v")) if then == "tried again" else ("s", "v")
    expected = {} if then == "removed" else {volume: server}
    assert {name: found[0][0] for name, found in known.items() if found} == expected
    assert cloudy.delete(stack).status is Status.COMPLETE


@pytest.mark.slow
@pytest.mark.parametrize("verb", few(["create_volume_attachment", "delete_volume_attachment"]))
def test_an_answer_that_is_lost_changes_nothing(troubled: Callable[..., Cloudy], verb: str) -> None:
    cloudy = troubled(faults=[{"verb": f"compute.{verb}", "number": 1, "raises": "lost"}])
    stack = cloudy.made(parts())
    stack = cloudy.changed(stack, parts(server="t"))
    assert attachments(cloudy, stack, "v") == [("t", "/dev/vdb")]


@pytest.mark.slow
def test_a_server_that_does_not_let_go_is_a_clear_failure(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=2, faults=[{"verb": "compute.delete_volume_attachment", "number": 1, "goes": "in-use"}])
    stack = cloudy.made(parts())
    stack = cloudy.put(stack, template(**parts(server="t")))
    assert "does not release volume" in cloudy.row(stack, "a").status_reason
    assert attachments(cloudy, stack, "v") == [("s", "/dev/vdb")]


@pytest.mark.slow
def test_an_attachment_that_is_given_up_is_a_clear_failure(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=2, faults=[{"verb": "compute.create_volume_attachment", "goes": "error_attaching"}])
    stack = cloudy.create(template(**parts()))
    assert "could not be attached to server" in cloudy.row(stack, "a").status_reason


@pytest.mark.slow
def test_gone_is_seen_by_a_check_and_does_not_matter_to_a_delete(cloudy: Cloudy) -> None:
    stack = cloudy.made(parts())
    server, volume = cloudy.row(stack, "s").physical_id, cloudy.row(stack, "v").physical_id
    cloudy.view().call("compute.delete_volume_attachment", server, volume)
    states = cloudy.states(cloudy.check(stack))
    assert [name for name, state in states.items() if state == "CHECK_FAILED"] == ["a"]
    cloudy.view().call("compute.delete_server", server)
    assert cloudy.delete(stack).status is Status.COMPLETE


@pytest.mark.slow
def test_a_volume_that_is_attached_grows_and_is_given_back(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=2)
    stack = cloudy.made(parts(mountpoint="/dev/vdq"))
    stack = cloudy.changed(stack, parts(size=5, mountpoint="/dev/vdq"))
    assert cloudy.thing(stack, "v")["size"] == 5
    assert attachments(cloudy, stack, "v") == [("s", "/dev/vdq")]
    assert "joined" not in cloudy.row(stack, "v").data


@pytest.mark.slow
def test_a_growth_that_failed_is_gone_on_with_and_the_volume_given_back(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=2, faults=[{"verb": "block_storage.extend_volume", "number": 1, "raises": "refused"}])
    stack = cloudy.made(parts())
    stack = cloudy.put(stack, template(**parts(size=5)))
    assert (stack.status, attachments(cloudy, stack, "v")) == (Status.FAILED, [])
    stack = cloudy.changed(stack, parts(size=5))
    assert cloudy.thing(stack, "v")["size"] == 5
    assert attachments(cloudy, stack, "v") == [("s", "/dev/vdb")]


@pytest.mark.slow
def test_an_attachment_of_others_is_not_taken_for_ours(cloudy: Cloudy) -> None:
    without = {name: one for name, one in parts().items() if name != "a"}
    stack = cloudy.made(without)
    server, volume = cloudy.row(stack, "s").physical_id, cloudy.row(stack, "v").physical_id
    cloudy.view().call("compute.create_volume_attachment", server, volume=volume)
    stack = cloudy.put(stack, template(**parts()))
    assert "is attached to server" in cloudy.row(stack, "a").status_reason
    stack = cloudy.changed(stack, without)
    assert attachments(cloudy, stack, "v") == [("s", "/dev/vdb")]


@pytest.mark.slow
def test_an_unhealthy_one_is_made_anew(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled(build=2)
    stack = cloudy.made(parts())
    before: Any = cloudy.thing(stack, "v")["attachments"]
    cloudy.mark(stack, "a")
    stack = cloudy.patch(stack)
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    after: Any = cloudy.thing(stack, "v")["attachments"]
    assert attachments(cloudy, stack, "v") == [("s", "/dev/vdb")]
    assert after[0]["attachment_id"] != before[0]["attachment_id"]
    assert cloudy.check(stack).status is Status.COMPLETE
