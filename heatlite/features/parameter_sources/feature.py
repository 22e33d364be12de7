"""Statement of the feature parameter sources."""

from collections.abc import Sequence
from typing import TYPE_CHECKING

from heatlite.feature import Feature
from heatlite.features.parameter_sources.bodies import SourceKeys

if TYPE_CHECKING:
    from heatlite.api.components import Components
    from heatlite.cli.client import Client, Object, Stack
    from heatlite.cli.session import PlanFacts
    from heatlite.engine.admission.claims import Examiner, NewDefinition
    from heatlite.engine.admission.inputs import Supplier
    from heatlite.engine.why.tree import ExplainedTree, Told


FORCE = "force"
"""Query key of updates: they may remove what others read. A deletion has it itself."""


class ParameterSourcesFeature(Feature):
    """Copies outputs of stacks into parameters of others, and knows who has them."""

    name = "parameter_sources"
    routes = "heatlite.features.parameter_sources.api.routes"
    rows = ("heatlite.features.parameter_sources.store.store:ReadingStore",)
    body = SourceKeys
    sections = ("parameter_sources",)
    change_options = {FORCE: ("true", "false")}
    commands = {
        "Stacks": {"heatlite.features.parameter_sources.commands.sources": ("readers", "refresh")},
    }
    extends = {
        "up": ("heatlite.features.parameter_sources.commands.sources",),
        "plan": ("heatlite.features.parameter_sources.commands.sources",),
    }
    pages = "heatlite.features.parameter_sources.pages"

    def supplier(self, components: "Components") -> "Supplier":
        from heatlite.features.parameter_sources.supply import SourceSupplier

        return components.of(SourceSupplier)

    def defined(self, components: "Components", definition: "NewDefinition") -> None:
        from heatlite.features.parameter_sources.readings import refuse_old_cycle

        refuse_old_cycle(components.store, definition)

    def examiner(self, components: "Components") -> "Examiner":
        from heatlite.features.parameter_sources.examiner import ReaderExaminer

        return components.of(ReaderExaminer)

    def why(self, components: "Components", tree: "ExplainedTree", told: "Sequence[Told]") -> "Sequence[Told]":
        from heatlite.features.parameter_sources.outputs import Outputs
        from heatlite.features.parameter_sources.why import facts

        return [*told, *facts(components.store, components.of(Outputs), tree)]

    def planned(self, client: "Client", stack: "Stack | None", facts: "Object") -> "PlanFacts":
        from heatlite.features.parameter_sources.commands.lines import planned

        return planned(facts)


feature = ParameterSourcesFeature()
