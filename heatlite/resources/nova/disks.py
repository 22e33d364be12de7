"""The disks of a server: its boot disk and further ones."""

from collections.abc import Mapping, Sequence
from typing import cast

from heatlite.core.json import Json, JsonMap, parse
from heatlite.plugin import Schema, prop

FORMS = ("block_device_mapping", "block_device_mapping_v2")
FORMATS = ("ext2", "ext3", "ext4", "xfs", "ntfs")


class Disk(Schema):
    device_name: str = prop(doc="The name of the device on the server; it boots from vda.")
    volume_id: str | None = prop(find="cinder.volume", doc="The volume, by name or id.")
    snapshot_id: str | None = prop(find="cinder.snapshot", doc="The snapshot to create a volume from.")
    volume_size: int | None = prop(doc="The size of the created volume, in GiB.")
    delete_on_termination: bool | None = prop(doc="True if the volume is deleted with the server.")

    def fault(self) -> str | None:
        if (self.volume_id is None) != (self.snapshot_id is None):
            return None
        names = ("volume_id", "snapshot_id")
        return _one_of(names, self.given(*names))


class DiskV2(Schema):
    device_name: str | None = prop(doc="The name of the device on the server.")
    volume_id: str | None = prop(find="cinder.volume", doc="The volume, by name or id.")
    image_id: str | None = prop(hidden=True, find="glance.image", means="image", doc="An old name of image.")
    image: str | None = prop(find="glance.image", doc="The image to create a volume from, by name or id.")
    snapshot_id: str | None = prop(find="cinder.snapshot", doc="The snapshot to create a volume from.")
    swap_size: int | None = prop(doc="The size of a swap disk, in MiB.")
    ephemeral_size: int | None = prop(between=(1, None), doc="The size of an ephemeral disk, in GiB.")
    ephemeral_format: str | None = prop(one_of=FORMATS, doc="The file system of the ephemeral disk.")
    volume_size: int | None = prop(doc="The size of the created volume, in GiB.")
    volume_type: str | None = prop(find="cinder.vtype", doc="The type of the created volume, by name or id.")
    device_type: str | None = prop(one_of=("cdrom", "disk"), doc="The type of the device.")
    disk_bus: str | None = prop(one_of=("ide", "lame_bus", "sata", "scsi", "usb", "virtio"), doc="The bus of the disk.")
    boot_index: int | None = prop(doc="The order of boot devices: 0 is the first, -1 never boots.")
    delete_on_termination: bool | None = prop(doc="True if the volume is deleted with the server.")

    def fault_many(self) -> str | None:
        found = self.given(*SOURCES[:4]) + self.given(*SOURCES[4:])[:1]
        return _one_of(SOURCES, found) if len(found) > 1 else None

    def fault_none(self) -> str | None:
        if self.volume_size is None and all(getattr(self, name) is None for name in SOURCES):
            return _one_of(SOURCES, ())
        return None

    def fault_size(self) -> str | None:
        if self.image is not None and self.volume_size is None:
            return "volume_size must be given with image: how large the volume is that is made"
        return None


SOURCES = ("volume_id", "snapshot_id", "image", "swap_size", "ephemeral_size", "ephemeral_format")


def _one_of(names: Sequence[str], found: Sequence[str]) -> str:
    return f"Exactly one of {', '.join(names)} must be given, not {' and '.join(found) or 'none of them'}"


def boots(disks: Sequence[Disk], disks_v2: Sequence[DiskV2]) -> bool:
    """Return True if a server may boot from one of the disks."""
    return any(one.device_name.endswith("vda") for one in disks) or any(map(_may_boot, disks_v2))


def _may_boot(disk: DiskV2) -> bool:
    return disk.boot_index in (None, 0) and bool(disk.volume_id or disk.snapshot_id or disk.image)


def boots_from(disks: Sequence[Disk], disks_v2: Sequence[DiskV2]) -> Disk | DiskV2 | None:
    """Return the disk that a server without an image boots from."""
    named: list[Disk | DiskV2] = [one for one in disks if one.device_name.endswith("vda")]
    first = [two for two in disks_v2 if two.boot_index == 0] or [two for two in disks_v2 if _may_boot(two)]
    return next(iter([*named, *first]), None)


def restored(properties: JsonMap, snapshot: str) -> JsonMap:
    """Return a server's properties with a volume snapshot as its boot disk.

    The server has no image.
    """
    first, second = (cast(list[JsonMap], properties.get(name) or []) for name in FORMS)
    disks, disks_v2 = [Disk(one) for one in first], [DiskV2(two) for two in second]
    boot = boots_from(disks, disks_v2)

    def with_snapshot(given: JsonMap, disk: Disk | DiskV2) -> JsonMap:
        kept = {key: value for key, value in given.items() if key not in ("image", "image_id")}
        return {**kept, "snapshot_id": snapshot} if disk is boot else given

    found = [list(map(with_snapshot, first, disks)), list(map(with_snapshot, second, disks_v2))]
    return {**properties, **{name: made for name, made in zip(FORMS, found, strict=True) if made}}


def of_image(image: JsonMap) -> list[JsonMap]:
    """Return the volume snapshots in an image of a volume-backed server.

    They are maps with ``snapshot_id`` and ``boot_index``.
    """
    mapping = cast(JsonMap, image.get("properties") or {}).get("block_device_mapping")
    found = cast(list[JsonMap], parse(mapping) if isinstance(mapping, str) else mapping or [])
    return [one for one in found if one.get("snapshot_id") is not None]


def volumes_of(properties: Mapping[str, object], deleted: bool = False) -> set[object]:
    """Return the volumes that properties name.

    With `deleted` those that are deleted with the server.
    """
    lists = [given for name in FORMS if isinstance(given := properties.get(name), list)]
    found = [one for given in lists for one in given if isinstance(one, Mapping)]
    return {
        one["volume_id"]
        for one in found
        if isinstance(one.get("volume_id"), str) and (not deleted or one.get("delete_on_termination") is True)
    }


def mapping(image: str | None, disks: Sequence[Disk], disks_v2: Sequence[DiskV2]) -> list[Json]:
    """Return the disks as ``block_device_mapping_v2`` of the service.

    [] if the image is the only one.
    """
    made = [_first_form(one) for one in disks] + [_second_form(one) for one in disks_v2]
    if not made:
        return []
    if image is not None and not any(one.get("boot_index") == 0 for one in made):
        root: JsonMap = {"uuid": image, "source_type": "image", "destination_type": "local"}
        made.insert(0, {**root, "boot_index": 0, "delete_on_termination": True})
    elif not any(one.get("boot_index") == 0 for one in made):
        for one in made:
            if one["source_type"] != "blank" and "boot_index" not in one:
                one["boot_index"] = 0
                break
    for one in made:
        one.setdefault("boot_index", -1)
    return list(made)


def _first_form(disk: Disk) -> JsonMap:
    made: JsonMap = {"destination_type": "volume", "device_name": disk.device_name}
    made["source_type"] = "volume" if disk.volume_id else "snapshot"
    made["uuid"] = disk.volume_id or disk.snapshot_id
    made["boot_index"] = 0 if disk.device_name.endswith("vda") else -1
    return made | _given(volume_size=disk.volume_size, delete_on_termination=disk.delete_on_termination)


def _second_form(disk: DiskV2) -> JsonMap:
    made: JsonMap
    if disk.volume_id:
        made = {"source_type": "volume", "uuid": disk.volume_id, "destination_type": "volume"}
    elif disk.snapshot_id:
        made = {"source_type": "snapshot", "uuid": disk.snapshot_id, "destination_type": "volume"}
    elif disk.image:
        made = {"source_type": "image", "uuid": disk.image, "destination_type": "volume"}
    elif disk.swap_size is not None:
        made = {"source_type": "blank", "destination_type": "local", "guest_format": "swap"}
        made["volume_size"] = disk.swap_size
    elif disk.ephemeral_size is not None or disk.ephemeral_format is not None:
        made = {"source_type": "blank", "destination_type": "local"}
        made |= _given(guest_format=disk.ephemeral_format, volume_size=disk.ephemeral_size)
    else:
        made = {"source_type": "blank", "destination_type": "volume"}
    return made | _given(
        device_name=disk.device_name,
        device_type=disk.device_type,
        disk_bus=disk.disk_bus,
        boot_index=disk.boot_index,
        volume_size=disk.volume_size,
        volume_type=disk.volume_type,
        delete_on_termination=disk.delete_on_termination,
    )


def _given(**values: Json) -> JsonMap:
    return {name: value for name, value in values.items() if value is not None}
