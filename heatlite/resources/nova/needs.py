"""Needs of servers: machines, ports and volumes."""

from collections.abc import Iterator, Mapping

from heatlite.plugin.needs import Find, Need, found, unknown, whole
from heatlite.resources.cinder.base import volume_needs
from heatlite.resources.nova.disks import FORMS

PORT = "network.port"


def server_needs(given: Mapping[str, object], find: Find) -> Iterator[Need]:
    """Yield the needs of a server with these properties."""
    yield Need("compute.instances")
    flavor = found(find, "nova.flavor", given.get("flavor"))
    for kind, key in (("compute.cores", "vcpus"), ("compute.ram", "ram")):
        amount = whole(flavor.get(key))
        yield unknown(kind) if amount is None else Need(kind, amount)
    yield from _ports(given.get("networks"))
    for form in FORMS:
        disks = given.get(form)
        for disk in disks if isinstance(disks, list) else ():
            if isinstance(disk, Mapping) and _makes_volume(disk):
                yield from volume_needs({**disk, "size": disk.get("volume_size")}, find)


def _ports(nics: object) -> Iterator[Need]:
    """Yield a port for each network without one."""
    if not nics or not isinstance(nics, list):
        yield unknown(PORT)  # the service takes the only network, if there is one
        return
    for nic in nics:
        if not isinstance(nic, dict) or nic.get("allocate_network") == "auto":
            yield unknown(PORT)
        elif not nic.get("port") and nic.get("allocate_network") is None:
            yield Need(PORT)


def _makes_volume(disk: Mapping[str, object]) -> bool:
    """Return whether a disk is a volume that is made with the server."""
    local = ("swap_size", "ephemeral_size", "ephemeral_format")
    return not disk.get("volume_id") and all(disk.get(key) is None for key in local)
