"""Base of the operations, which ask for admission."""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.engine.admission.admission import Admission
from heatlite.engine.planning.stack_data_budget import StackDataBudget
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.steps.children import Children
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store


class Parts(Struct, frozen=True):
    """Parts of the engine that operations share."""

    store: Store
    clock: Clock
    settings: Settings
    definitions: Definitions
    admission: Admission
    reader: StackReader


class StackOperations:
    """Operations on stacks."""

    def __init__(self, parts: Parts) -> None:
        self._store = parts.store
        self._clock = parts.clock
        self._settings = parts.settings
        self._definitions = parts.definitions
        self._admission = parts.admission
        self.reader = parts.reader

    def children_of(self, action: ActionRecord, resources: ResourceFactory) -> Children:
        """Return what makes the orders of an action to nested stacks."""
        most, budget = self._settings.max_resources_per_stack, StackDataBudget(resources)
        return Children(self._store, self._clock, self._definitions, resources, action, most, budget)

    def _record_size(self, stack: StackRecord, rows: Sequence[ResourceRecord]) -> None:
        """Record the size of a stack's rows, for other walks of its tree."""
        budget = StackDataBudget(self.reader.resources_of(stack))
        budget.start(rows, in_tree=True)
        size = budget.to_record()
        if size is not None:
            self._store.stack_sizes.record_resources(stack.id, stack.root_id or stack.id, size)
