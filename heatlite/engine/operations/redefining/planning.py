"""Plans of the next update of a tree with changes that are not stored."""

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import TypeAlias

from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.preview.preview_views import shown_plan
from heatlite.engine.state.requests import PlannedResource
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.resource_factory import EngineServices, NestedView, ResourceFactory, Values
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition

Waiting: TypeAlias = dict[tuple[str, ...], PlannedResource]
"""Changes that an update would make, by path."""


class ChangedStack(NestedView):
    """A stack with a definition and rows that are not stored."""

    def __init__(
        self,
        stack: StackRecord,
        engine: EngineServices,
        definition: Definition,
        rows: Sequence[ResourceRecord],
        changed: "Mapping[str, ChangedStack]",
    ) -> None:
        super().__init__(stack, engine)
        self.definition = definition
        self.rows = rows
        self._changed = changed

    @cached_property
    def values(self) -> Values:
        resources = ChangedResources(self.stack, self._engine, self._changed)
        return Values(resources, {row.name: row for row in current_rows(self.rows)})


class ChangedResources(ResourceFactory):
    """Makes the resources of one stack of a tree with changed stacks, given by id."""

    def __init__(self, stack: StackRecord, engine: EngineServices, changed: Mapping[str, ChangedStack]) -> None:
        super().__init__(stack, engine)
        self._changed = changed
        if stack.id in changed:
            self.chosen = {row.name: row for row in current_rows(changed[stack.id].rows)}

    def nested(self, stack_id: str | None) -> NestedView | None:
        return self._changed.get(stack_id or "") or super().nested(stack_id)

    def definition(self, stack: StackRecord) -> Definition:
        return self._changed[stack.id].definition if stack.id in self._changed else super().definition(stack)

    def within(self, stack: StackRecord) -> ResourceFactory:
        return ChangedResources(stack, self._engine, self._changed)


def planned(
    services: EngineServices, root: StackRecord, changed: Mapping[str, ChangedStack]
) -> Sequence[PlannedResource]:
    """Return the plan of the next update of a tree.

    `changed` has the root, and all else that is not as stored.
    """
    resources = ChangedResources(root, services, changed)
    preview = StackPreview(changed[root.id].definition, resources, changed[root.id])
    return shown_plan(preview).resources


def planned_before(
    services: EngineServices, root: StackRecord, definition: Definition, rows: Sequence[ResourceRecord]
) -> Sequence[PlannedResource]:
    """Return the plan of the next update of a tree whose nested stacks are as stored."""
    changed = dict[str, ChangedStack]()
    changed[root.id] = ChangedStack(root, services, definition, rows, changed)
    return planned(services, root, changed)


def waiting(plan: Sequence[PlannedResource]) -> Waiting:
    """Return those parts of a plan that do something."""
    return {one.path: one for one in plan if one.action != Outcome.KEEP}
