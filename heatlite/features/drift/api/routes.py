"""Routes of drift."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import P, Routes, S, StackAction
from heatlite.core.json import Json
from heatlite.core.validation import options
from heatlite.features.drift.accepting import Accepting, AcceptRequest
from heatlite.features.drift.api.handlers import KEYS, PROJECT_KEYS, DriftList
from heatlite.features.drift.reverting import Reverting, RevertRequest


def add(routes: Routes, components: Components) -> None:
    """Add the routes and the actions."""
    reverting = components.of(lambda core: Reverting(core.store, core.repairs))
    routes.actions["revert_drift"] = StackAction(
        lambda caller, stack, value: reverting.revert(caller, stack, _asked(value), {"revert_drift": value}),
        lambda _, stack, value: reverting.plan(stack, _asked(value)),
    )
    routes.actions["accept_drift"] = StackAction(
        lambda caller, stack, value: components.of(Accepting).start(
            caller, stack, _accepted(value), {"accept_drift": value}
        ),
        lambda caller, stack, value: components.of(Accepting).plan(caller, stack, _accepted(value)),
    )
    lists = DriftList(components.store, components.reader, StackFinder(components.store))
    routes.add(S + "/drift", lists, query={"GET": KEYS}, GET="stacks:show_drift")
    routes.add(P + "/drift", lists, "project", query={"GET": PROJECT_KEYS}, GET="stacks:list_drift")


def _accepted(value: Json) -> AcceptRequest:
    return options(value, AcceptRequest, "accept_drift")


def _asked(value: Json) -> RevertRequest:
    return options(value, RevertRequest, "revert_drift")
