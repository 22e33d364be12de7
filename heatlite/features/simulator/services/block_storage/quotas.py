"""Quotas of projects in simulated block storage."""

from collections.abc import Iterable
from typing import Final, cast

from heatlite.clients.cloud import OverQuota
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.block_storage.common import BACKUP, QUOTA, SNAPSHOT, TYPE, VOLUME
from heatlite.features.simulator.simulation import SimulatedProject, Verb

LIMITS: Final = ("volumes", "snapshots", "backups", "gigabytes", "backup_gigabytes", "per_volume_gigabytes", "groups")
"""Quotas of a project; unlimited (-1) by default."""
OF_TYPES: Final = ("volumes", "gigabytes")
"""Quotas that there are for each volume type, too: ``volumes_fast``."""


def _get_quota_set(view: SimulatedProject, project: Json, usage: bool = False) -> Json:
    limits = _limits(view, project)
    return {**limits, "usage": _usage(view, project)} if usage else limits


def _update_quota_set(view: SimulatedProject, project: Json, **limits: Json) -> Json:
    kept = view.simulation.all(QUOTA).get(str(project), {"id": project, "name": project})
    view.simulation.put(QUOTA, str(project), {**kept, **limits})
    return _limits(view, project)


def _revert_quota_set(view: SimulatedProject, project: Json) -> Json:
    view.simulation.drop(QUOTA, str(project))
    return None


def _limits(view: SimulatedProject, project: Json) -> JsonMap:
    quotas = view.simulation.scenario.quotas
    own = view.simulation.all(QUOTA).get(str(project), {})
    of_types = [f"{name}_{one['name']}" for one in view.simulation.all(TYPE).values() for name in OF_TYPES]
    return {name: own.get(name, quotas.get(f"block_storage.{name}", -1)) for name in (*LIMITS, *of_types)}


def _usage(view: SimulatedProject, project: Json) -> JsonMap:
    def own(kind: str) -> list[JsonMap]:
        return [one for one in view.simulation.all(kind).values() if one.get("project_id") == project]

    def gigabytes(things: Iterable[JsonMap]) -> int:
        return sum(cast(int, one["size"]) for one in things)

    volumes, snapshots, backups = own(VOLUME), own(SNAPSHOT), own(BACKUP)
    used: JsonMap = {}
    for kind in view.simulation.all(TYPE).values():
        of_type = [one for one in volumes if one.get("volume_type") == kind["name"]]
        used |= {f"volumes_{kind['name']}": len(of_type), f"gigabytes_{kind['name']}": gigabytes(of_type)}
    return {
        **used,
        "volumes": len(volumes),
        "snapshots": len(snapshots),
        "backups": len(backups),
        "gigabytes": gigabytes([*volumes, *snapshots]),
        "backup_gigabytes": gigabytes(backups),
    }


def room_for_volume(view: SimulatedProject, verb: str, kind: Json, size: int, more: int, is_new: bool) -> None:
    """Reject a volume of a type that exceeds a quota. Raises OverQuota.

    `more` are the GiB beyond its present size.
    """
    largest = cast(int, _limits(view, view.project)["per_volume_gigabytes"])
    if 0 <= largest < size:
        text = f"Requested volume size {size}G is larger than maximum allowed limit {largest}G."
        raise OverQuota(verb, f"VolumeSizeExceedsLimit: {text} Limit exceeded", 413)
    for suffix in ("", f"_{kind}"):
        room(view, verb, f"volumes{suffix}" if is_new else None, f"gigabytes{suffix}", more)


def room(view: SimulatedProject, verb: str, number: str | None, gigabytes: str, size: int) -> None:
    """Reject a request that exceeds the project's quota. Raises OverQuota."""
    limits, usage = _limits(view, view.project), _usage(view, view.project)
    if number is not None:
        limit = cast(int, limits[number])
        if 0 <= limit <= cast(int, usage[number]):
            noun = number.partition("_")[0][:-1].capitalize()
            text = f"{noun}LimitExceeded: Maximum number of {number} allowed ({limit}) exceeded for quota '{number}'."
            raise OverQuota(verb, text, 413)
    limit, used = cast(int, limits[gigabytes]), cast(int, usage[gigabytes])
    if 0 <= limit < used + size:
        text = f"Requested volume or snapshot exceeds allowed {gigabytes} quota. Requested {size}G, quota is {limit}G"
        raise OverQuota(verb, f"{text} and {used}G has been consumed.", 413)


VERBS: dict[str, Verb] = {
    "block_storage.get_quota_set": _get_quota_set,
    "block_storage.update_quota_set": _update_quota_set,
    "block_storage.revert_quota_set": _revert_quota_set,
}
