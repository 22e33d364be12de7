"""Adoptions of ids that several stacks may have, or that another account has."""

from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.errors import ObjectOwned
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.resource_types import needs
from tests.tables import few
from tests.types.conftest import Cloudy


def adopt(cloudy: Cloudy, record: Any, name: str) -> StackRecord:
    stack = cloudy.settle(cloudy.stacks.create(cloudy.who, StackRequest(name=name, adopted=read_record(record))))
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    return stack


def test_several_assign_roles_to_one_user(cloudy: Cloudy) -> None:
    user: Any = cloudy.admin.call("identity.create_user", name="u")
    role: Any = cloudy.admin.call("identity.create_role", name="r")
    project: Any = cloudy.admin.call("identity.create_project", name="p")
    given = resource(
        "OS::Keystone::UserRoleAssignment", user=user["id"], roles=[{"role": role["id"], "project": project["id"]}]
    )
    stack = cloudy.made({"a": given})
    cloudy.made({"a": given}, "other")
    record = cloudy.components.exports.abandon(cloudy.who, stack)
    cloudy.settle(stack)
    adopt(cloudy, record, "again")


@pytest.mark.parametrize("project", few(["demo", "elsewhere"]))
def test_a_name_in_another_account_is_another_object(cloudy: Cloudy, project: str) -> None:
    key = resource("OS::Nova::KeyPair", name="k", public_key="ssh-ed25519 AAAA")
    cloudy.made({"key": key})
    cloudy.who = replace(cloudy.who, project=project)
    record = {"template": template(key=key), "resources": {"key": {"resource_id": "k"}}}
    if project == "demo":
        with pytest.raises(ObjectOwned):
            adopt(cloudy, record, "again")
    else:
        cloudy.view().call("compute.create_keypair", name="k")
        adopt(cloudy, record, "again")


@needs("AWS::S3::Bucket")
def test_a_type_is_one_of_its_service(cloudy: Cloudy) -> None:
    """A bucket is the container of another stack, a queue of the same name is not."""
    made = cloudy.made({"box": resource("OS::Swift::Container")})
    name = cloudy.row(made, "box").physical_id
    entries = {"it": {"resource_id": name}}
    with pytest.raises(ObjectOwned):
        adopt(cloudy, {"template": template(it=resource("AWS::S3::Bucket")), "resources": entries}, "bucket")
    value = template(it=resource("OS::Heat::Value", value="x"))
    adopt(cloudy, {"template": value, "resources": entries}, "value")
