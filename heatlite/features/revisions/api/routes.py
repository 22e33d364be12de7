"""Routes of revisions, and the action that goes back to one."""

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.routes import Routes, S, StackAction
from heatlite.core.context import Context
from heatlite.core.json import Json
from heatlite.core.validation import options
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.revisions.api.handlers import StackRevisions
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.store.records import StackRecord


def add(routes: Routes, components: Components) -> None:
    """Add the routes and the action."""
    revisions = components.of(Revisions)

    def start(caller: Context, stack: StackRecord, value: Json) -> None:
        revisions.undo(caller, stack, options(value, UndoRequest, "undo"), {"undo": value})

    def plan(caller: Context, stack: StackRecord, value: Json) -> ShownPlan:
        return revisions.plan(caller, stack, options(value, UndoRequest, "undo"))

    routes.actions["undo"] = StackAction(start, plan)
    shown = StackRevisions(components, StackFinder(components.store))
    routes.add(S + "/revisions", shown, GET="stacks:template")
    routes.add(S + "/revisions/{number}", shown, "one", GET="stacks:template")
    routes.add(S + "/revisions/{number}/diff", shown, "diff", query={"GET": ("with",)}, GET="stacks:template")
