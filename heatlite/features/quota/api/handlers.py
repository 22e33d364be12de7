"""Quotas of a project."""

from falcon import Response

from heatlite.api.request import Request
from heatlite.core.json import Json, as_maps
from heatlite.features.quota.examiner import QuotaExaminer, shown

NEEDS = ("needed", "known", "short")
"""Keys that only plans have."""


class ProjectQuota:
    """P/quota: limits, usage and reservations."""

    def __init__(self, examiner: QuotaExaminer) -> None:
        self._examiner = examiner

    def on_get(self, req: Request, resp: Response) -> None:
        """Show what the cloud tells about the project's quotas."""
        answer = shown(self._examiner.of_project(req.caller))
        kinds: list[Json] = [
            {key: value for key, value in one.items() if key not in NEEDS} for one in as_maps(answer["kinds"])
        ]
        resp.media = {"quota": {**answer, "kinds": kinds}}
