"""Volumes and their attachments to machines."""

from collections.abc import Iterable, Mapping

from heatlite.core.json import JsonMap
from heatlite.features.rare_types.aws.base import Tag, tagged
from heatlite.plugin import Schema, prop
from heatlite.plugin.needs import Find, Need
from heatlite.resources.cinder.attachments import Attachment
from heatlite.resources.cinder.base import CinderVolume, volume_needs


class VolumeProps(Schema):
    availability_zone: str = prop(
        alias="AvailabilityZone", immutable=True, api="availability_zone", doc="Its availability zone."
    )
    size: int | None = prop(alias="Size", immutable=True, between=(1, None), api="size", doc="Its size in GiB.")
    snapshot_id: str | None = prop(
        alias="SnapshotId", immutable=True, find="cinder.backup", api="backup_id", doc="The backup to create it from."
    )
    tags: list[Tag] | None = prop(alias="Tags", immutable=True, api="", doc="Its metadata.")

    def fault(self) -> str | None:
        return "Size or SnapshotId must be given" if self.size is None and self.snapshot_id is None else None


class Volume(CinderVolume[VolumeProps], type="AWS::EC2::Volume"):
    """A volume.

    With ``DeletionPolicy: Snapshot`` it is backed up before it is deleted.
    """

    @classmethod
    def needs(cls, given: Mapping[str, object], find: Find) -> Iterable[Need]:
        return volume_needs({"size": given.get("Size"), "backup_id": given.get("SnapshotId")}, find)

    def create_args(self) -> JsonMap:
        args = self.sent()
        if self.props.tags:
            args["metadata"] = tagged(self.props.tags)
        return args


class VolumeAttachmentProps(Schema):
    device: str = prop(
        alias="Device", immutable=True, pattern="/dev/vd[b-z]", doc="The device on the machine, such as /dev/vdc."
    )
    instance_id: str = prop(alias="InstanceId", immutable=True, find="nova.server", doc="The machine, by name or id.")
    volume_id: str = prop(alias="VolumeId", immutable=True, find="cinder.volume", doc="The volume, by name or id.")


class VolumeAttachment(Attachment[VolumeAttachmentProps], type="AWS::EC2::VolumeAttachment"):
    """Attaches a volume to a machine."""

    names = ("InstanceId", "VolumeId", "Device")
