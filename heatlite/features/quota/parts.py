"""The objects of quotas that routes and the engine share."""

from typing import TYPE_CHECKING

from heatlite.features.quota.examiner import QuotaExaminer, ShortageMode
from heatlite.features.quota.feature import QuotaSettings
from heatlite.features.quota.limits import LimitReader
from heatlite.features.quota.metrics import EXAMINED

if TYPE_CHECKING:
    from heatlite.api.components import Components


class Quotas:
    """The examiner and its cache. Get them by `Components.of`."""

    def __init__(self, core: "Components") -> None:
        settings = core.settings.of(QuotaSettings)
        self.limits = LimitReader(core.clock.now, settings.quota_cache_seconds)
        clouds = core.engine_services.services.clouds
        mode = ShortageMode(settings.quota_check)
        core.meter.declare(EXAMINED)
        self.examiner = QuotaExaminer(core.store, core.clock, core.types, clouds, self.limits, core.meter, mode)
