"""Routes of change policies."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import P, Routes, S
from heatlite.features.change_policy.api.handlers import ProjectPolicy, StackPolicy
from heatlite.features.change_policy.api.rules import PUT
from heatlite.features.change_policy.operations import ChangePolicies

SHOW = "change_policy:show"
OF_STACK = "stacks:change_policy"


def add(routes: Routes, components: Components) -> None:
    """Add the routes."""
    made = components.of(lambda core: ChangePolicies(core.store, core.clock, core.settings))
    routes.add(P + "/change_policy", ProjectPolicy(made), GET=SHOW, PUT=PUT, DELETE=PUT)
    one = StackPolicy(StackFinder(components.store), made)
    routes.add(S + "/change_policy", one, GET=SHOW, PUT=OF_STACK, DELETE=OF_STACK)
