"""Actions on stacks whose objects drifted."""

from collections.abc import Mapping

from heatlite.api.components import Components
from heatlite.core.json import Json
from heatlite.core.validation import approved, options
from heatlite.engine.state.requests import StackAction
from heatlite.features.drift.accepting import Accepting, AcceptRequest
from heatlite.features.drift.reverting import Reverting, RevertRequest


def actions(components: Components) -> Mapping[str, StackAction]:
    """Return the actions, by the key of the body."""
    reverting = components.of(lambda core: Reverting(core.store, core.repairs))
    return {
        "revert_drift": StackAction(
            lambda caller, stack, value: reverting.revert(caller, stack, _asked(value), {"revert_drift": value}),
            lambda _, stack, value: reverting.plan(stack, _asked(value)),
        ),
        "accept_drift": StackAction(
            lambda caller, stack, value: components.of(Accepting).start(
                caller, stack, approved(value, AcceptRequest, "accept_drift"), {"accept_drift": value}
            ),
            lambda caller, stack, value: components.of(Accepting).plan(
                caller, stack, options(value, AcceptRequest, "accept_drift")
            ),
        ),
    }


def _asked(value: Json) -> RevertRequest:
    return options(value, RevertRequest, "revert_drift")
