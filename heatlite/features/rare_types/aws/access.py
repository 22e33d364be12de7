"""AWS::IAM::User, its keys, and OS::Heat::AccessPolicy."""

import secrets
from collections.abc import Container, Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource, Resource, Schema, prop
from heatlite.plugin.signing import KeyHolder
from heatlite.template.expression import has_unknown
from heatlite.template.types import Fault


class AccessPolicyProps(Schema):
    allowed: list[Json] = prop(alias="AllowedResources", doc="The names of the resources that users may read.")


class AccessPolicy(Resource[AccessPolicyProps], type="OS::Heat::AccessPolicy"):
    """A list of resources, for AWS::IAM::User: the keys of that user open no others."""

    quick = True

    @classmethod
    def check_siblings(cls, given: Mapping[str, object], names: Container[str]) -> list[Fault]:
        allowed = given["AllowedResources"]
        listed = allowed if isinstance(allowed, list) else []
        unknown = [name for name in listed if not has_unknown(name) and str(name) not in names]
        return [Fault(("AllowedResources",), f"AccessPolicy resource {name} not in stack") for name in unknown]

    def handle_create(self) -> None:
        self.physical_id = self.physical_name


class LoginProfile(Schema):
    password: str | None = prop(alias="Password", secret=True, doc="Its password.")


class UserProps(Schema):
    path: str | None = prop(alias="Path", doc="Without effect.")
    groups: list[Json] | None = prop(alias="Groups", doc="Without effect.")
    login: LoginProfile | None = prop(alias="LoginProfile", doc="Its password; default: a random one.")
    policies: list[Json] | None = prop(
        alias="Policies", doc="Resources of the type OS::Heat::AccessPolicy. All of them must allow a resource."
    )


class User(CloudResource[UserProps], type="AWS::IAM::User", kind="identity.user"):
    """A user without roles, for keys of the type AWS::IAM::AccessKey.

    The cloud's user needs the right to create users.
    """

    def identity(self) -> JsonMap:
        return {"name": self.physical_name}

    def create_args(self) -> JsonMap:
        login = self.props.login
        password = login.password if login is not None and login.password is not None else secrets.token_urlsafe(32)
        return {"password": password, "description": "AWS::IAM::User", "enabled": True}

    def handle_suspend(self) -> Json:
        self.service("update_user", self.physical_id, enabled=False)
        return None

    def handle_resume(self) -> Json:
        self.service("update_user", self.physical_id, enabled=True)
        return None


class AccessKeyProps(Schema):
    serial: int | None = prop(alias="Serial", doc="Without effect.")
    user: str = prop(alias="UserName", resolve="keystone.user", api="", doc="The user, by reference, name or id.")
    status: str | None = prop(alias="Status", one_of=("Active", "Inactive"), doc="Without effect.")


class AccessKey(
    CloudResource[AccessKeyProps], KeyHolder[AccessKeyProps], type="AWS::IAM::AccessKey", kind="identity.ec2_credential"
):
    """An EC2 credential of a user. The physical id is the access key.

    With it a machine reads the resources of the stack that the user's policies allow, and signals them.
    """

    within = "UserName"
    blocks = frozenset({"AWS::IAM::User"})
    secret_attributes = frozenset({"SecretAccessKey"})
    searched = False  # it carries no mark; one that a crash has left ends with its user

    def handle_create(self) -> Json:
        if self.physical_id is None:
            project = self.cloud.identity.project_id or self.facts.project
            made = self.map(self.service("create_ec2_credential", *self.whole, tenant_id=project))
            self.data["secret"] = made["secret"]
            self.physical_id = str(made["access"])
            self.keep_whole()
        return None

    def secrets(self) -> list[Json]:
        return [self.data.get("secret")]

    def secret_of(self, access_key: str, lifetime: float) -> str | None:
        return cast(str | None, self.data.get("secret")) if access_key == self.physical_id else None

    def opens(self, resource_name: str) -> bool:
        user = self.facts.sibling(str(self.facts.properties["UserName"]))
        names = (user.props.policies or []) if isinstance(user, User) else []
        policies = [self.facts.sibling(str(name)) for name in names]
        return all(isinstance(one, AccessPolicy) and resource_name in one.props.allowed for one in policies)

    def attr_UserName(self) -> str:  # noqa: N802 - Amazon's
        """The user."""
        return str(self.facts.properties["UserName"])

    def attr_SecretAccessKey(self) -> str | None:  # noqa: N802 - Amazon's
        """The secret of the access key."""
        return cast(str | None, self.data.get("secret"))
