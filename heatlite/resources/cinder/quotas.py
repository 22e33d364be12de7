"""Quotas of a project for block storage. For administrators."""

from typing import cast

from heatlite.clients.cloud import CloudError
from heatlite.core.json import as_map
from heatlite.plugin import SupportStatus, prop
from heatlite.resources.quotas import ProjectQuota, QuotaProps


class VolumeQuotaProps(QuotaProps):
    gigabytes: int | None = prop(
        update=True, between=(-1, None), doc="Maximum total size of volumes and volume snapshots, in GiB."
    )
    volumes: int | None = prop(update=True, between=(-1, None), doc="Maximum number of volumes.")
    snapshots: int | None = prop(update=True, between=(-1, None), doc="Maximum number of volume snapshots.")
    backups: int | None = prop(update=True, between=(-1, None), doc="Maximum number of backups.")
    backup_gigabytes: int | None = prop(update=True, between=(-1, None), doc="Maximum total size of backups, in GiB.")


class Quota(ProjectQuota[VolumeQuotaProps], type="OS::Cinder::Quota", kind="block_storage.quota_set"):
    """Block storage quotas of a project. The physical id is the project's id.

    -1 means no limit. Deletion restores the default quotas.
    """

    support_status = SupportStatus(version="7.0.0")
    reverting = "revert_quota_set"

    def set_limits(self) -> None:
        """Set the given limits.

        Raises CloudError, also for a limit that the project exceeds already.
        """
        usage = as_map(self.map(self.service("get_quota_set", self.address[0], usage=True)).get("usage"))
        for name, limit in self.sent().items():
            used = usage.get(name)
            if isinstance(used, int) and -1 < cast(int, limit) < used:
                text = f"{name} cannot be {limit}: the project has {used} already"
                raise CloudError("block_storage.update_quota_set", text)
        super().set_limits()
