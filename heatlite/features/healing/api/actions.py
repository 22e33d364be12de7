"""Action that repairs by hand."""

from collections.abc import Mapping

from heatlite.api.components import Components
from heatlite.engine.state.requests import StackAction
from heatlite.features.healing.api import bodies
from heatlite.features.healing.parts import Healing


def actions(components: Components) -> Mapping[str, StackAction]:
    """Return the action, by the key of the body."""
    by_hand = components.of(Healing).by_hand
    heal = StackAction(
        lambda caller, stack, value: by_hand.heal(caller, stack, bodies.heal(value), {"heal": value}),
        lambda _, stack, value: by_hand.plan(stack, bodies.heal(value)),
    )
    return {"heal": heal}
