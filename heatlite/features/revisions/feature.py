"""Statement of the feature revisions."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from heatlite.core.status import ActionStatus
from heatlite.feature import Feature

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.engine.admission.claims import NewDefinition
    from heatlite.engine.why.tree import ExplainedTree, Told
    from heatlite.store.records import ActionRecord


class RevisionsFeature(Feature):
    """Keeps the definitions that stacks were given, and goes back to them."""

    name = "revisions"
    routes = "heatlite.features.revisions.api.routes"
    actions = "heatlite.features.revisions.api.actions"
    rows = ("heatlite.features.revisions.store.store:RevisionStore",)
    commands = {"Stacks": {"heatlite.features.revisions.commands.history": ("undo",)}}
    extends = {"history": ("heatlite.features.revisions.commands.history",)}
    pages = "heatlite.features.revisions.pages"

    def defined(self, components: "Components", definition: "NewDefinition") -> None:
        from heatlite.features.revisions.keeping import Keeping

        components.of(Keeping).keep(definition)

    def action_moves(
        self, components: "Components", action: "ActionRecord", after: ActionStatus, reason: str
    ) -> None:
        if action.inputs.retry and after is ActionStatus.SUCCEEDED:
            from heatlite.features.revisions.keeping import Keeping

            components.of(Keeping).reach(action)

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.revisions.keeping import Keeping
        from heatlite.features.revisions.why import with_undo

        return with_undo(components.of(Keeping), tree, told)

    def noted(self, client: "Client", stack: "Stack") -> "Mapping[str, Object]":
        from heatlite.features.revisions.commands.history import numbers

        return numbers(client, stack)


feature = RevisionsFeature()
