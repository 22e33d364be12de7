"""The objects of healing that routes and the engine share."""

from typing import TYPE_CHECKING

from heatlite.features.healing.by_hand import HealByHand
from heatlite.features.healing.intake.intake import Intake
from heatlite.features.healing.loop.sweep import HealingLoop
from heatlite.features.healing.metrics import REPAIR_DURATIONS, REPAIRS, REPORTS
from heatlite.features.healing.operations import HealingOperations

if TYPE_CHECKING:
    from heatlite.api.components import Components


class Healing:
    """The loop and the operations. Get them by `Components.of`."""

    def __init__(self, core: "Components") -> None:
        core.meter.declare(REPORTS, REPAIRS, REPAIR_DURATIONS)
        store, clock, settings = core.store, core.clock, core.settings
        self.loop = HealingLoop(store, clock, settings, core.repairs, core.meter)
        self.operations = HealingOperations(store, clock, self.loop)
        self.by_hand = HealByHand(store, clock, self.loop, core.repairs)
        self.intake = Intake(store, clock, settings.threads, core.meter)
