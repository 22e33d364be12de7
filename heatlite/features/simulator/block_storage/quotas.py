"""Quotas of projects in simulated block storage."""

from collections.abc import Iterable
from typing import Final, cast

from heatlite.clients.cloud import OverQuota
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.block_storage.common import BACKUP, QUOTA, SNAPSHOT, VOLUME
from heatlite.features.simulator.simulation import Verb, View

LIMITS: Final = ("volumes", "snapshots", "backups", "gigabytes", "backup_gigabytes", "per_volume_gigabytes", "groups")
"""Quotas of a project; unlimited (-1) by default."""


def _get_quota_set(view: View, project: Json, usage: bool = False) -> Json:
    limits = _limits(view, project)
    return {**limits, "usage": _usage(view, project)} if usage else limits


def _update_quota_set(view: View, project: Json, **limits: Json) -> Json:
    kept = view.simulation.all(QUOTA).get(str(project), {"id": project, "name": project})
    view.simulation.put(QUOTA, str(project), {**kept, **limits})
    return _limits(view, project)


def _revert_quota_set(view: View, project: Json) -> Json:
    view.simulation.drop(QUOTA, str(project))
    return None


def _limits(view: View, project: Json) -> JsonMap:
    quotas = view.simulation.scenario.quotas
    offered: JsonMap = {name: quotas.get(f"block_storage.{name}", -1) for name in LIMITS}
    own = view.simulation.all(QUOTA).get(str(project), {})
    return {name: own.get(name, offered[name]) for name in LIMITS}


def _usage(view: View, project: Json) -> JsonMap:
    def own(kind: str) -> list[JsonMap]:
        return [one for one in view.simulation.all(kind).values() if one.get("project_id") == project]

    def gigabytes(things: Iterable[JsonMap]) -> int:
        return sum(cast(int, one["size"]) for one in things)

    volumes, snapshots, backups = own(VOLUME), own(SNAPSHOT), own(BACKUP)
    return {
        "volumes": len(volumes),
        "snapshots": len(snapshots),
        "backups": len(backups),
        "gigabytes": gigabytes([*volumes, *snapshots]),
        "backup_gigabytes": gigabytes(backups),
    }


def room(view: View, verb: str, number: str | None, gigabytes: str, size: int) -> None:
    """Reject a request that exceeds the project's quota. Raises OverQuota."""
    limits, usage = _limits(view, view.project), _usage(view, view.project)
    if number is not None:
        limit = cast(int, limits[number])
        if 0 <= limit <= cast(int, usage[number]):
            noun = number[:-1].capitalize()
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
