"""Action that goes back to a revision."""

from collections.abc import Mapping

from heatlite.api.components import Components
from heatlite.core.context import Context
from heatlite.core.json import Json
from heatlite.core.validation import options
from heatlite.engine.state.requests import ShownPlan, StackAction
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.store.records import StackRecord


def actions(components: Components) -> Mapping[str, StackAction]:
    """Return the action, by the key of the body."""
    revisions = components.of(Revisions)

    def start(caller: Context, stack: StackRecord, value: Json) -> None:
        revisions.undo(caller, stack, options(value, UndoRequest, "undo"), {"undo": value})

    def plan(caller: Context, stack: StackRecord, value: Json) -> ShownPlan:
        return revisions.plan(caller, stack, options(value, UndoRequest, "undo"))

    return {"undo": StackAction(start, plan)}
