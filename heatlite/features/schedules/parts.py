"""The objects of schedules that routes and the engine share."""

from typing import TYPE_CHECKING

from heatlite.core.context import Context
from heatlite.engine.admission.caller_context import restore_caller
from heatlite.features.schedules.delegations import Delegations
from heatlite.features.schedules.metrics import OCCURRENCES
from heatlite.features.schedules.operations import ScheduleOperations
from heatlite.features.schedules.store.records import ScheduleRecord
from heatlite.features.schedules.sweep import ScheduleSweep
from heatlite.features.schedules.tasks import Tasks
from heatlite.store.records import StackRecord

if TYPE_CHECKING:
    from heatlite.api.components import Components


class Schedules:
    """The operations and the sweep. Get them by `Components.of`."""

    def __init__(self, core: "Components") -> None:
        core.meter.declare(OCCURRENCES)
        delegations = core.of(Delegations)
        tasks = Tasks(core.scheduled_actions, core.groups, core.reader)

        def author_of(record: ScheduleRecord, stack: StackRecord) -> Context:
            author = restore_caller(record.project, record.created_by, record.author)
            return delegations.author_now(author, stack, record.id)

        self.operations = ScheduleOperations(core.store, core.clock, tasks, delegations)
        self.sweep = ScheduleSweep(core.store, core.clock, core.meter, tasks, author_of)
