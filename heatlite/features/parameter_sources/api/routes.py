"""Routes of values of other stacks."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import Routes, S
from heatlite.features.parameter_sources.api.handlers import StackReadings
from heatlite.features.parameter_sources.api.rules import SHOW


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    shown = StackReadings(components, StackFinder(components.store))
    routes.add(S + "/sources", shown, "sources", GET=SHOW)
    routes.add(S + "/readers", shown, "readers", GET=SHOW)
