"""Actions on stacks that change the owner of objects."""

from collections.abc import Mapping

from heatlite.api.components import Components
from heatlite.core.context import Context
from heatlite.core.json import Json, JsonMap
from heatlite.core.validation import approved, convert
from heatlite.engine.state.requests import ShownPlan, StackAction
from heatlite.features.ownership.bodies import DetachRequest, ImportRequest, MoveRequest
from heatlite.features.ownership.detaching import Detachments
from heatlite.features.ownership.importing import Imports
from heatlite.features.ownership.moving import ResourceMoves
from heatlite.store.records import StackRecord

MOVE = "move"
"""Key of the action that moves resources."""


def actions(components: Components) -> Mapping[str, StackAction]:
    """Return the actions, by the key of the body."""

    def start_import(caller: Context, stack: StackRecord, value: Json) -> None:
        components.of(Imports).start(caller, stack, approved(value, ImportRequest, "import"), {"import": value})

    def plan_import(caller: Context, stack: StackRecord, value: Json) -> ShownPlan:
        return components.of(Imports).plan(caller, stack, convert(value, ImportRequest, "import"))

    def start_detachment(caller: Context, stack: StackRecord, value: Json) -> JsonMap:
        asked = approved(value, DetachRequest, "detach")
        return components.of(Detachments).start(caller, stack, asked, {"detach": value})

    def plan_detachment(caller: Context, stack: StackRecord, value: Json) -> ShownPlan:
        return components.of(Detachments).plan(caller, stack, convert(value, DetachRequest, "detach"))

    def start_move(caller: Context, stack: StackRecord, value: Json) -> None:
        components.of(ResourceMoves).start(caller, stack, approved(value, MoveRequest, MOVE), {MOVE: value})

    def plan_move(caller: Context, stack: StackRecord, value: Json) -> ShownPlan:
        return components.of(ResourceMoves).plan(caller, stack, convert(value, MoveRequest, MOVE))

    return {
        MOVE: StackAction(start_move, plan_move),
        "detach": StackAction(start_detachment, plan_detachment),
        "import": StackAction(start_import, plan_import),
    }
