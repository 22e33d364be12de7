"""Quotas of a project for servers. For administrators."""

from contextlib import suppress

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop


class QuotaProps(Schema):
    project: str = prop(find="keystone.project", api="", doc="The project, by name or id.")
    instances: int | None = prop(update=True, between=(-1, None), doc="Maximum number of servers.")
    cores: int | None = prop(update=True, between=(-1, None), doc="Number of virtual processors.")
    ram: int | None = prop(update=True, between=(-1, None), doc="Maximum total memory, in MiB.")
    key_pairs: int | None = prop(update=True, between=(-1, None), doc="Maximum number of key pairs.")
    metadata_items: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of metadata keys of a server."
    )
    injected_files: int | None = prop(update=True, between=(-1, None), doc="Maximum number of injected files.")
    injected_file_content_bytes: int | None = prop(
        update=True, between=(-1, None), doc="Maximum size of an injected file, in bytes."
    )
    injected_file_path_bytes: int | None = prop(
        update=True, between=(-1, None), doc="Maximum length of the path of an injected file, in bytes."
    )
    server_groups: int | None = prop(update=True, between=(-1, None), doc="Maximum number of server groups.")
    server_group_members: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of servers in a server group."
    )
    fixed_ips: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of fixed IPs; for old services only."
    )
    floating_ips: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of floating IPs; for old services only."
    )
    security_groups: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of security groups; for old services only."
    )
    security_group_rules: int | None = prop(
        update=True, between=(-1, None), doc="Maximum number of security group rules; for old services only."
    )

    def fault(self) -> str | None:
        limits = [name for name in self.fields if name != "project"]
        if all(getattr(self, name) is None for name in limits):
            return f"at least one of {', '.join(limits)} must be given"
        return None


class Quota(CloudResource[QuotaProps], type="OS::Nova::Quota", kind="compute.quota_set"):
    """Compute quotas of a project. -1 means no limit.

    Deletion restores the default quotas.
    """

    support_status = SupportStatus(version="8.0.0")

    def fetch(self) -> JsonMap:
        return self.map(self.service("get_quota_set", self.props.project))

    def find(self) -> str | None:
        return None  # setting the quotas is idempotent

    def handle_create(self) -> Json:
        self.service("update_quota_set", self.props.project, **self.sent())
        self.physical_id = self.physical_name
        return None

    def handle_update(self, change: Change) -> Json:
        if any(change.after.get(name) is None for name in change.changed):
            # A limit that is no longer given returns to the default.
            self.service("revert_quota_set", self.props.project)
        self.service("update_quota_set", self.props.project, **self.sent())
        return None

    def handle_delete(self) -> Json:
        latter = self.facts.latter()
        if isinstance(latter, Quota) and latter.physical_id and latter.props.project == self.props.project:
            return None  # the limits belong to that resource now
        if self.physical_id is not None:
            with suppress(CloudNotFound):
                self.service("revert_quota_set", self.props.project)
        return None
