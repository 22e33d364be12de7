"""Roles and their assignments."""

from collections.abc import Mapping
from contextlib import suppress
from typing import ClassVar, TypeVar, cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, Schema, SupportStatus, prop
from heatlite.resources.keystone.base import Grant, KeystoneResource, RoleGiver, RolesGiven

P_co = TypeVar("P_co", bound=Schema, covariant=True)


class RoleProps(Schema):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    domain: str | None = prop(
        find="keystone.domain", api="domain_id", doc="The domain it is limited to, by name or id; default: none."
    )


class Role(KeystoneResource[RoleProps], type="OS::Keystone::Role", kind="identity.role"):
    """A role, assigned in a project or a domain; policies define its permissions."""

    support_status = SupportStatus(version="2015.1")
    alone = frozenset({"name"})
    blocks = frozenset({"OS::Keystone::Domain"})


class RoleAssignment(RoleGiver[P_co]):
    """Base of the types that assign roles to an existing user or group.

    The physical id is the id of that.
    """

    shares_object = True
    shown: ClassVar[Mapping[str, tuple[object, str]]] = {}

    def _who(self, properties: Mapping[str, Json]) -> str:
        """Return the id of the user or group. Raises CloudNotFound."""
        return self._finders.id_of(f"keystone.{self.grantee}", str(properties[self.grantee]))

    def find(self) -> str | None:
        """Return None: an assignment is no object that could be found.

        An interrupted attempt is repeated.
        """
        return None

    def handle_create(self) -> Json:
        self.physical_id = self._who(self.facts.properties)
        return None

    def handle_update(self, change: Change) -> Json:
        if self.grantee not in change.changed:
            self._change_roles(change)
            return None
        before = cast(JsonMap, change.before)
        with suppress(CloudNotFound):  # a deleted user or group has no roles
            self.take(self._who(before), self.grants(before))
        self.physical_id = self._who(self.facts.properties)
        self.give(self.physical_id, self._wanted())
        return None

    def handle_delete(self) -> Json:
        """Remove the role assignments, except those of the replacing resource."""
        if self.physical_id is not None:
            latter, theirs = self.facts.latter(), set[Grant]()
            if isinstance(latter, RoleAssignment) and self.is_passed_on:
                theirs = latter.grants(latter.facts.properties)
            self.take(self.physical_id, self.grants(self.facts.properties) - theirs)
        return None


class UserRoleAssignmentProps(RolesGiven):
    user: str = prop(
        update=True, find="keystone.user", api="", doc="The user that the roles are assigned to, by name or id."
    )


class UserRoleAssignment(
    RoleAssignment[UserRoleAssignmentProps], type="OS::Keystone::UserRoleAssignment", kind="identity.user"
):
    """Role assignments of a user."""

    support_status = SupportStatus(version="5.0.0")
    grantee = "user"


class GroupRoleAssignmentProps(RolesGiven):
    group: str = prop(
        update=True, find="keystone.group", api="", doc="The group that the roles are assigned to, by name or id."
    )


class GroupRoleAssignment(
    RoleAssignment[GroupRoleAssignmentProps], type="OS::Keystone::GroupRoleAssignment", kind="identity.group"
):
    """Role assignments of a group; they apply to all of its users."""

    support_status = SupportStatus(version="5.0.0")
    grantee = "group"
