"""Users and groups."""

from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, SupportStatus, prop
from heatlite.resources.keystone.base import RoleGiver, RolesGiven


class GroupProps(RolesGiven):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    domain: str = prop(
        "default", update=True, find="keystone.domain", api="domain_id", doc="The domain it is in, by name or id."
    )
    description: str = prop("", update=True, doc="Its description.")


class Group(RoleGiver[GroupProps], type="OS::Keystone::Group", kind="identity.group"):
    """A group of users, who are assigned roles together."""

    support_status = SupportStatus(version="2015.1")
    alone = frozenset({"name", "domain"})
    blocks = frozenset({"OS::Keystone::Domain"})
    grantee = "group"


class UserProps(RolesGiven):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    domain: str = prop(
        "default", update=True, find="keystone.domain", api="domain_id", doc="The domain it is in, by name or id."
    )
    description: str = prop("", update=True, doc="Its description.")
    enabled: bool = prop(True, update=True, doc="True if it may log in.")
    email: str | None = prop(update=True, doc="Its email address.")
    password: str | None = prop(update=True, secret=True, doc="Its password.")
    default_project: str | None = prop(
        update=True,
        find="keystone.project",
        api="default_project_id",
        doc="Its default project, by name or id.",
    )
    groups: list[str] | None = prop(
        items=prop(find="keystone.group"), update=True, api="", doc="The groups it belongs to, by name or id."
    )


class User(RoleGiver[UserProps], type="OS::Keystone::User", kind="identity.user"):
    """A user account, for a person or a program."""

    support_status = SupportStatus(version="2015.1")
    alone = frozenset({"name", "domain"})
    blocks = frozenset({"OS::Keystone::Domain"})
    grantee = "user"
    shown = {
        "name": (str, "Its name."),
        "domain_id": (str, "The domain that it is in."),
        "default_project_id": (str, "Its default project."),
        "enabled": (bool, "True if it may log in."),
        "password_expires_at": (str, "The time at which its password expires."),
    }

    def needs_replace_failed(self) -> bool:
        """True if the user should be in groups, too: the service does not show them."""
        return bool(self.props.groups) or super().needs_replace_failed()

    def check_create_complete(self, token: Json) -> bool | float:
        for group in self._groups(self.facts.properties):
            self.service("add_user_to_group", self.physical_id, group)
        return super().check_create_complete(token)

    def handle_update(self, change: Change) -> Json:
        token = super().handle_update(change)
        if "groups" in change.changed:
            before, wanted = self._groups(self.known(cast(JsonMap, change.before))), self._groups(self.facts.properties)
            for group in sorted(wanted - before):
                self.service("add_user_to_group", self.physical_id, group)
            for group in sorted(before - wanted):
                with suppress(CloudNotFound):
                    self.service("remove_user_from_group", self.physical_id, group)
        return token

    def _groups(self, properties: JsonMap) -> set[str]:
        """Return the ids of the groups in coerced properties."""
        return {
            self._finders.id_of("keystone.group", str(name))
            for name in cast(list[Json], properties.get("groups") or [])
        }
