"""Quotas of a project for block storage. For administrators."""

from contextlib import suppress
from typing import cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema, SupportStatus, prop


class QuotaProps(Schema):
    project: str = prop(find="keystone.project", api="", doc="The project, by name or id.")
    gigabytes: int | None = prop(
        update=True, between=(-1, None), doc="Maximum total size of volumes and volume snapshots, in GiB."
    )
    volumes: int | None = prop(update=True, between=(-1, None), doc="Maximum number of volumes.")
    snapshots: int | None = prop(update=True, between=(-1, None), doc="Maximum number of volume snapshots.")
    backups: int | None = prop(update=True, between=(-1, None), doc="Maximum number of backups.")
    backup_gigabytes: int | None = prop(update=True, between=(-1, None), doc="Maximum total size of backups, in GiB.")

    def fault(self) -> str | None:
        if all(getattr(self, name) is None for name in LIMITS):
            return f"at least one of {', '.join(LIMITS)} must be given"
        return None


LIMITS = ("gigabytes", "volumes", "snapshots", "backups", "backup_gigabytes")


class Quota(CloudResource[QuotaProps], type="OS::Cinder::Quota", kind="block_storage.quota_set"):
    """Block storage quotas of a project. The physical id is the project's id.

    -1 means no limit. Deletion restores the default quotas.
    """

    support_status = SupportStatus(version="7.0.0")

    def fetch(self) -> JsonMap:
        return self.map(self.service("get_quota_set", self.props.project))

    def find(self) -> str | None:
        return None  # setting the quotas is idempotent

    def handle_create(self) -> Json:
        self._set()
        self.physical_id = self.props.project
        return None

    def handle_update(self, change: Change) -> Json:
        if any(change.after.get(name) is None for name in change.changed):
            # A limit that is no longer given returns to the default.
            self.service("revert_quota_set", self.props.project)
        self._set()
        return None

    def _set(self) -> None:
        limits = self.sent()
        usage = self.map(self.service("get_quota_set", self.props.project, usage=True)).get("usage")
        for name, limit in limits.items():
            used = cast(JsonMap, usage or {}).get(name)
            if isinstance(used, int) and -1 < cast(int, limit) < used:
                text = f"{name} cannot be {limit}: the project has {used} already"
                raise CloudError("block_storage.update_quota_set", text)
        self.service("update_quota_set", self.props.project, **limits)

    def handle_delete(self) -> Json:
        if self.physical_id is not None and not self.is_passed_on:
            with suppress(CloudNotFound):
                self.service("revert_quota_set", self.props.project)
        return None
