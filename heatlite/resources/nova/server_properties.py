"""The properties of a server."""

from collections.abc import Mapping

from heatlite.core.json import Json, JsonMap, as_map, heat_text, parse, same
from heatlite.plugin import prop
from heatlite.plugin.groups import PLACEMENT
from heatlite.resources.heat.software.targets import TargetProps
from heatlite.resources.nova import disks
from heatlite.resources.nova.disks import Disk, DiskV2
from heatlite.resources.nova.networks import Nic


class ServerProps(TargetProps):
    name: str | None = prop(blank=True, update=True, api="", doc="Its name.")
    image: str | None = prop(
        update=True,
        find="glance.image",
        api="",
        doc="The image that it boots, by name or id; default: it boots from a volume.",
    )
    image_update_policy: str = prop(
        "REBUILD",
        update=True,
        one_of=("REBUILD", "REPLACE", "REBUILD_PRESERVE_EPHEMERAL"),
        api="",
        doc="The effect of another image: rebuild or replace the server.",
    )
    flavor: str = prop(update=True, find="nova.flavor", api="", doc="The flavor, by name or id.")
    flavor_update_policy: str = prop(
        "RESIZE",
        update=True,
        one_of=("RESIZE", "REPLACE"),
        api="",
        doc="The effect of another flavor: resize or replace the server.",
    )
    key_name: str | None = prop(find="nova.keypair", doc="The key pair for logins.")
    admin_pass: str | None = prop(
        update=True, blank=True, api="adminPass", secret=True, doc="The administrator's password."
    )
    admin_user: str | None = prop(hidden=True, api="", doc="The user created at its first boot.")
    availability_zone: str | None = prop(blank=True, doc="Its availability zone.")
    security_groups: list[Json] = prop([], api="", doc="The security groups of its ports, by names or ids.")
    networks: list[Nic] | None = prop(update=True, api="", doc="Its networks; default: the only network.")
    block_device_mapping: list[Disk] | None = prop(api="", doc="Its volumes.")
    block_device_mapping_v2: list[DiskV2] | None = prop(api="", doc="Its disks.")
    config_drive: bool | None = prop(doc="True if it gets its user data and metadata on a config drive.")
    diskConfig: str | None = prop(  # noqa: N815 - Heat's name
        one_of=("AUTO", "MANUAL"), api="OS-DCF:diskConfig", doc="The partitioning of its disk."
    )
    metadata: dict[str, Json] = prop({}, update=True, api="", doc="Its metadata in the compute service.")
    tags: list[str] | None = prop(update=True, doc="Its tags.")
    scheduler_hints: dict[str, Json] | None = prop(api="", doc="Hints for the scheduler.")
    reservation_id: str | None = prop(blank=True, api="", doc="Its reservation: a hint for the scheduler.")
    personality: dict[str, Json] = prop({}, api="", doc="Files for its first boot, by path.")
    user_data: str = prop(
        "", update=True, api="", doc="Instructions for its first boot: a text, or the id of a software config."
    )
    user_data_format: str = prop(
        "HEAT_CFNTOOLS",
        one_of=("HEAT_CFNTOOLS", "RAW", "SOFTWARE_CONFIG"),
        api="",
        doc="The format of user_data: unchanged, or with files for heat-cfntools or the deployment agent.",
    )
    user_data_update_policy: str = prop(
        "REPLACE",
        update=True,
        one_of=("REPLACE", "IGNORE", "REBUILD"),
        api="",
        doc="The effect of another user_data: replace, ignore or rebuild.",
    )

    def fault_forms_of_disks(self) -> str | None:
        if self.block_device_mapping and self.block_device_mapping_v2:
            return f"Only one of {' and '.join(disks.FORMS)} can be given"
        return None

    def fault_boot(self) -> str | None:
        if self.image is None and not disks.boots(self.block_device_mapping or (), self.block_device_mapping_v2 or ()):
            return "Neither image nor a disk to boot from is given: the server would have nothing to boot"
        return None

    def fault_networks(self) -> str | None:
        nics = self.networks or ()
        if len(nics) > 1 and any(nic.given("allocate_network") for nic in nics):
            return "allocate_network cannot be given beside other networks"
        return None


def placed(props: ServerProps, data: Mapping[str, Json]) -> JsonMap:
    """Return hints for the scheduler, and the zone that a policy has decided."""
    args: JsonMap = {}
    hints = dict(props.scheduler_hints or {})
    if props.availability_zone is None and PLACEMENT in data:
        args["availability_zone"] = as_map(data[PLACEMENT])["zone"]
    if props.reservation_id is not None:
        hints["reservation"] = props.reservation_id
    return {**args, "scheduler_hints": hints} if hints else args


def texts(metadata: Mapping[str, Json]) -> JsonMap:
    """Return metadata as the service stores it.

    Text stays, other values are JSON as Heat writes it.
    """
    return {name: value if isinstance(value, str) else heat_text(value) for name, value in metadata.items()}


def is_stored(text: Json, value: Json) -> bool:
    """Return True if the service stores a value as a text, with JSON in any layout."""
    if isinstance(value, str):
        return text == value
    try:
        return same(parse(str(text)), value)
    except ValueError:
        return False
