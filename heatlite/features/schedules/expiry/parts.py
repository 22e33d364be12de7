"""The objects of expiries that routes and the engine share."""

from typing import TYPE_CHECKING

from heatlite.core.context import Context
from heatlite.engine.admission.caller_context import restore_caller
from heatlite.features.schedules.delegations import Delegations
from heatlite.features.schedules.expiry.operations import ExpiryOperations
from heatlite.features.schedules.expiry.state import ExpiryRecord
from heatlite.features.schedules.expiry.sweep import ExpirySweep
from heatlite.store.records import StackRecord

if TYPE_CHECKING:
    from heatlite.api.components import Components


class Expiries:
    """The operations and the sweep. Get them by `Components.of`."""

    def __init__(self, core: "Components") -> None:
        delegations = core.of(Delegations)

        def author_of(record: ExpiryRecord, stack: StackRecord) -> Context:
            author = restore_caller(record.project, record.set_by, record.author)
            return delegations.author_now(author, stack, stack.id)

        self.operations = ExpiryOperations(core.store, core.clock, delegations)
        self.sweep = ExpirySweep(core.store, core.clock, core.stacks, core.engine_services.stack_clouds, author_of)
