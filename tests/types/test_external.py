"""Objects of a cloud that a stack only refers to: `external_id`."""

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.types.observation import observe
from heatlite.engine.types.type_calls import TypeFailed
from heatlite.plugin import CloudResource, StackResource
from heatlite.store.records import ResourceRecord
from tests.engine.conftest import ref, resource, template
from tests.resource_types import needs
from tests.tables import few, sampled, table
from tests.types.conftest import Cloudy
from tests.types.marking import TYPES, templates
from tests.types.standing import Standing
from tests.types.test_check_results import CHECKED, OBJECT, Build, made

NEEDS_MORE = {"OS::Nova::Quota"}
"""Types, besides the parts of a whole, whose objects are found by a property."""
OF_ITS_STACK = {"OS::Heat::AccessPolicy"}
"""Types whose properties name resources of the same stack."""


def is_part(row: ResourceRecord) -> bool:
    kind = TYPES.get(row.type)
    return row.type in NEEDS_MORE or issubclass(kind, CloudResource) and kind.within != ""


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(templates(), 5, pytest.mark.thorough))
@pytest.mark.parametrize(("version", "described"), [("2016-10-14", True), ("2021-04-16", False)])
def test_whatever_is_done_with_the_stack_leaves_them_alone(
    tmp_path: Path, file: str, version: str, described: bool
) -> None:
    one = Standing(tmp_path, file)
    cloudy = one.cloudy
    of_objects = [row for row in cloudy.rows(one.marks.stack) if not issubclass(TYPES.get(row.type), StackResource)]
    rows = [row for row in of_objects if row.physical_id is not None and (described or not is_part(row))]
    rows = [row for row in rows if not described or row.type not in OF_ITS_STACK]
    taken: Any = {row.name: {"type": row.type, "external_id": row.physical_id} for row in rows}
    if described:
        taken = {row.name: {**taken[row.name], "properties": row.properties} for row in rows}
    document: Any = {"heat_template_version": version, "resources": taken}
    ids = {row.name: row.physical_id for row in rows}
    there = deepcopy(cloudy.admin.simulation._objects)

    assert cloudy.stacks.preview_create(cloudy.who, StackRequest(name="other", template=document), plan=True)
    stack = cloudy.create(document, "other")
    steps: list[Callable[[], Any]] = [
        lambda: stack,
        lambda: cloudy.check(stack),
        lambda: cloudy.put(stack, {**document, "description": "changed"}),
        lambda: cloudy.patch(stack, converge=True),
        lambda: [cloudy.mark(stack, name) for name in taken] and cloudy.patch(stack),
        lambda: cloudy.suspend(stack),
        lambda: cloudy.resume(stack),
        lambda: cloudy.lock(stack),
        lambda: cloudy.unlock(stack),
    ]
    for step in steps:
        stack = step()
        assert stack.status == "COMPLETE", cloudy.why(stack)
        assert {row.name: row.physical_id for row in cloudy.rows(stack)} == ids
        assert cloudy.admin.simulation._objects == there
    for row in cloudy.rows(stack):
        assert "differs" not in row.status_reason
        cloudy.components.reader.attributes(cloudy.who, stack, row, [])
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.admin.simulation._objects == there
    one.ends.close()


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(templates(), 3, pytest.mark.thorough))
def test_without_the_property_that_finds_it_a_part_is_refused(tmp_path: Path, file: str) -> None:
    one = Standing(tmp_path, file)
    cloudy = one.cloudy
    for row in filter(is_part, cloudy.rows(one.marks.stack)):
        document = template(it={"type": row.type, "external_id": row.physical_id})
        for ask in (
            lambda it: cloudy.create(it, "n"),
            lambda it: cloudy.stacks.preview_create(cloudy.who, StackRequest(name="n", template=it)),
        ):
            with pytest.raises(StackValidationFailed, match=r"resources.it: Property \w+ not assigned, by which"):
                ask(document)
    one.ends.close()


@table("name", CHECKED)
def test_a_type_reads_no_property_that_is_left_out(build: Build, name: str) -> None:
    """Also those of services without a simulation."""

    def answer(verb: str) -> Json:
        is_one = verb.partition(".")[2].startswith(("get_", "find_"))
        return {"id": OBJECT, "name": "n", "floating_ip_address": "10.0.0.1"} if is_one else []

    one = made(build, name, answer)
    one.facts.properties = {}
    assert not isinstance(observe(one), TypeFailed)


@needs("AWS::IAM::User", "AWS::EC2::EIP")
@pytest.mark.parametrize("type_name", few(["OS::Nova::Server", "AWS::IAM::AccessKey", "AWS::EC2::EIP"]))
def test_what_there_is_not_is_refused(cloudy: Cloudy, type_name: str) -> None:
    cloudy.made({"user": resource("AWS::IAM::User")})
    with pytest.raises(StackValidationFailed, match=r"resources\.it: "):
        cloudy.create(template(it={"type": type_name, "external_id": OBJECT}), "other")


@pytest.mark.slow
def test_to_name_an_object_as_external_replaces_nothing(cloudy: Cloudy) -> None:
    """The reference is as before, though it is only known once the object was seen."""
    net: Any = cloudy.view().call("network.create_network", name="theirs")

    def site(network: Any) -> dict[str, Any]:
        return {
            "subnet": resource("OS::Neutron::Subnet", network=network, cidr="10.9.0.0/24"),
            "port": resource("OS::Neutron::Port", network=network, fixed_ips=[{"subnet": ref("subnet")}]),
            "router": resource("OS::Neutron::Router"),
            "interface": resource("OS::Neutron::RouterInterface", router=ref("router"), subnet=ref("subnet")),
            "balancer": resource("OS::Octavia::LoadBalancer", vip_subnet=ref("subnet")),
        }

    stack = cloudy.made(site(net["id"]))
    before = cloudy.ids(stack)
    external = {**resource("OS::Neutron::Net"), "external_id": net["id"]}
    stack = cloudy.changed(stack, {**site(ref("net")), "net": external})
    assert cloudy.ids(stack) == {**before, "net": cloudy.row(stack, "net").id}
