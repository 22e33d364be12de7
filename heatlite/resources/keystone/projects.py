"""Domains and projects."""

from contextlib import suppress

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Schema, SupportStatus, prop
from heatlite.resources.keystone.base import KeystoneResource


class DomainProps(Schema):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    description: str | None = prop(update=True, doc="Its description.")
    enabled: bool = prop(True, update=True, doc="True if its users may log in.")


class Domain(KeystoneResource[DomainProps], type="OS::Keystone::Domain", kind="identity.domain"):
    """A domain: a namespace of projects, users and groups."""

    support_status = SupportStatus(version="8.0.0")
    alone = frozenset({"name"})

    def handle_delete(self) -> Json:
        """Disable the domain, then delete it: the service deletes only disabled domains."""
        self.free()
        if self.physical_id is not None:
            with suppress(CloudNotFound):
                self.service("update_domain", self.physical_id, enabled=False)
        return super().handle_delete()


class ProjectProps(Schema):
    name: str | None = prop(blank=True, update=True, doc="Its name.")
    domain: str = prop(
        "default", update=True, find="keystone.domain", api="domain_id", doc="The domain it is in, by name or id."
    )
    description: str = prop("", update=True, doc="Its description.")
    enabled: bool = prop(True, update=True, doc="True if it is enabled.")
    parent: str | None = prop(find="keystone.project", api="parent_id", doc="Its parent project, by name or id.")
    tags: list[Json] = prop([], update=True, doc="Tags of the project.")


class Project(KeystoneResource[ProjectProps], type="OS::Keystone::Project", kind="identity.project"):
    """A project, which owns objects of the cloud."""

    support_status = SupportStatus(version="2015.1")
    alone = frozenset({"name", "domain"})
    blocks = frozenset({"OS::Keystone::Domain", "OS::Keystone::Project"})
    shown = {
        "name": (str, "Its name."),
        "domain_id": (str, "The domain that it is in."),
        "parent_id": (str, "The id of its parent: a project or a domain."),
        "enabled": (bool, "True if it is enabled."),
        "is_domain": (bool, "True if it represents a domain."),
    }

    def told(self) -> JsonMap:
        is_top = self.fetched.get("parent_id") == self.fetched.get("domain_id")
        return {"parent": None} if is_top else {}
