"""Quotas of a project for servers. For administrators."""

from heatlite.core.json import Json
from heatlite.plugin import SupportStatus, prop
from heatlite.resources.quotas import ProjectQuota, QuotaProps


class ComputeQuotaProps(QuotaProps):
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


class Quota(ProjectQuota[ComputeQuotaProps], type="OS::Nova::Quota", kind="compute.quota_set"):
    """Compute quotas of a project. -1 means no limit.

    Deletion restores the default quotas.
    """

    support_status = SupportStatus(version="8.0.0")
    reverting = "revert_quota_set"

    within = "project"

    @property
    def address(self) -> tuple[Json, ...]:
        return self.whole

    @property
    def is_passed_on(self) -> bool:
        """True if the successor is for the same project: the limits belong to it now."""
        latter = self.facts.latter()
        return isinstance(latter, Quota) and bool(latter.physical_id) and latter.props.project == self.props.project

    def handle_create(self) -> Json:
        self.set_limits()
        self.physical_id = self.physical_name
        self.keep_whole()
        return None
