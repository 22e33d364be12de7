"""Foreign objects are never adopted by name."""

from collections.abc import Callable
from typing import cast

import pytest

from heatlite.core.json import JsonMap
from heatlite.features.simulator.simulation import FAULT
from tests.engine.conftest import resource, template
from tests.resource_types import ALL_TYPES
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

UNIQUE: list[tuple[str, str, JsonMap]] = [
    ("identity.role", "OS::Keystone::Role", {"name": "theirs"}),
    ("identity.project", "OS::Keystone::Project", {"name": "theirs", "description": "the same"}),
    ("identity.user", "OS::Keystone::User", {"name": "theirs", "description": "the same"}),
    ("identity.region", "OS::Keystone::Region", {"id": "theirs"}),
    ("compute.keypair", "OS::Nova::KeyPair", {"name": "theirs"}),
    ("block_storage.type", "OS::Cinder::VolumeType", {"name": "theirs", "description": "the same"}),
    ("dns.zone", "OS::Designate::Zone", {"name": "theirs.", "email": "a@b.c"}),
]
UNIQUE = [one for one in UNIQUE if one[1] in ALL_TYPES]
SHARED: list[tuple[str, str, JsonMap]] = [
    ("identity.service", "OS::Keystone::Service", {"name": "theirs", "type": "t", "description": "the same"}),
    ("network.network", "OS::Neutron::Net", {"name": "theirs"}),
    ("key_manager.secret", "OS::Barbican::Secret", {"name": "theirs"}),
    ("key_manager.container", "OS::Barbican::GenericContainer", {"name": "theirs"}),
]
SHARED = [one for one in SHARED if one[1] in ALL_TYPES]


def made_by_others(cloudy: Cloudy, kind: str, given: JsonMap) -> str:
    body = {**given, **({"type": "generic"} if kind == "key_manager.container" else {})}
    thing = cast(JsonMap, cloudy.view().call(kind.replace(".", ".create_"), **body))
    return str(thing.get("id") or thing["name"])


@pytest.mark.slow
@pytest.mark.parametrize("raises", few(["", "timeout"]))
@pytest.mark.parametrize(
    ("kind", "type_name", "given"),
    sampled(UNIQUE, 4, pytest.mark.thorough),
    ids=[one[1] for one in UNIQUE],
)
def test_a_name_that_is_taken_is_a_failure_and_nothing_of_theirs_is_deleted(
    troubled: Callable[..., Cloudy], kind: str, type_name: str, given: JsonMap, raises: str
) -> None:
    """Though it is not known for a while whether the call has made something."""
    verb = kind.replace(".", ".create_")
    cloudy = troubled(faults=[{"verb": verb, "number": 2, "raises": raises}] if raises else [])
    theirs = made_by_others(cloudy, kind, given)
    stack = cloudy.create(template(it=resource(type_name, **given)))
    assert stack.status == "FAILED"
    assert "HTTP 409" in cloudy.row(stack, "it").status_reason
    assert cloudy.row(stack, "it").physical_id is None
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.admin.thing(kind, theirs)


def test_a_create_that_was_never_heard_is_made_after_a_restart(troubled: Callable[..., Cloudy]) -> None:
    """Though the process ends while it waits for the service to come back."""
    cloudy = troubled(faults=[{"verb": "identity.create_role", "number": 1, "raises": "unavailable"}])
    before = cloudy.count("identity.role")
    with cloudy.clock.held():
        stack = cloudy.create(template(it=resource("OS::Keystone::Role", name="ours")), wait=False)
        cloudy.begun(lambda: cloudy.admin.simulation.all(FAULT))
        cloudy.close()
        cloudy.open()
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.count("identity.role") == before + 1
    assert cloudy.row(stack, "it").physical_id


@pytest.mark.parametrize("raises", few(["lost", "timeout"]))
@pytest.mark.parametrize(
    ("kind", "type_name", "given"), sampled(SHARED, 2, pytest.mark.thorough), ids=[one[1] for one in SHARED]
)
def test_of_two_with_one_name_ours_is_found(
    troubled: Callable[..., Cloudy], kind: str, type_name: str, given: JsonMap, raises: str
) -> None:
    verb = kind.replace(".", ".create_")
    cloudy = troubled(faults=[{"verb": verb, "number": 2, "raises": raises}])
    before = cloudy.count(kind)
    theirs = made_by_others(cloudy, kind, given)
    stack = cloudy.made({"it": resource(type_name, **given)})
    assert cloudy.row(stack, "it").physical_id != theirs
    assert cloudy.count(kind) == before + 2
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count(kind) == before + 1
    assert cloudy.admin.thing(kind, theirs)


NAMED = [*UNIQUE[:3], UNIQUE[5], *SHARED[2:3], ("image.image", "OS::Glance::WebImage", {
    "name": "theirs", "location": "http://example.com/i", "container_format": "bare", "disk_format": "raw",
})]  # fmt: skip
"""Types whose objects are known by a name of the template only."""


@pytest.mark.parametrize(("kind", "type_name", "given"), few(NAMED), ids=[one[1] for one in NAMED])
def test_what_a_later_attempt_has_made_is_not_that_of_one_that_was_refused(
    troubled: Callable[..., Cloudy], kind: str, type_name: str, given: JsonMap
) -> None:
    """Neither that of the same resource, nor that of another stack."""
    verb = kind.replace(".", ".create_")
    cloudy = troubled(faults=[{"verb": verb, "number": number, "raises": "refused"} for number in (1, 3)])
    ours = template(it=resource(type_name, **given))
    refused = cloudy.create(ours)
    other = cloudy.made(ours["resources"], "other")
    assert cloudy.delete(refused).status == "COMPLETE"
    assert cloudy.thing(other, "it")
    cloudy.mark(other, "it")
    other = cloudy.patch(other, disable_rollback=False)
    assert other.status == "COMPLETE", cloudy.why(other)
    assert cloudy.thing(other, "it")
