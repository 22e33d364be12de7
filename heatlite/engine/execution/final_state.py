"""States of a stack at the end of an operation, and at the start of its rollback."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.actions.repairs import Kept, Selection
from heatlite.core.errors import abbreviated
from heatlite.core.status import NOT_ROLLED_BACK, Result, Status, Verb
from heatlite.engine.calls.handlers import DIFFERS, DRIFTED, LEFT
from heatlite.engine.calls.stopping import Stop, Stopping
from heatlite.engine.state.unit_of_work import with_state
from heatlite.engine.steps.transitions import Transitions
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ActionRecord, ResourceRecord, Restriction, StackRecord

ROLLED_BACK = frozenset({Verb.CREATE, Verb.UPDATE, Verb.ADOPT, Verb.RESTORE})
"""Verbs whose failure is rolled back if the stack asks for it, as Heat does."""

GIVES_UP = frozenset({None, Stop.TIMEOUT, Stop.FORCE_CANCEL})
"""Stops after which a forced deletion leaves the remaining objects behind."""

CANCELS = frozenset({Stop.CANCEL, Stop.FORCE_CANCEL, Stop.CANCEL_ROLLBACK, Stop.ABORT})


def outcome(stopping: Stopping, forced: bool) -> Result:
    """Return the result of an action's walks.

    `forced`: a deletion that leaves the rest behind.
    """
    stop = stopping.stop
    if forced and stop in GIVES_UP:
        return Result.OK
    if stop in CANCELS:
        return Result.CANCEL
    if stop is Stop.TIMEOUT:
        return Result.TIMEOUT
    return Result.OK if stop is None and not stopping.failures else Result.ERROR


def completed_stack(
    stack: StackRecord,
    inputs: ActionInputs,
    rows: Sequence[ResourceRecord],
    resources: ResourceFactory,
    left: Sequence[str],
    now: float,
) -> StackRecord:
    """Return the stack after a success.

    `inputs` are those of the action. `left`: the objects that are left behind.
    """
    verb, stack = stack.verb, replace(stack, restricted=_restriction(stack, inputs))
    reason = f"Stack {verb} completed successfully"
    if verb is Verb.CHECK and any(not resources.type_of(row).has("check") for row in rows):
        reason += ". 'CHECK' not fully supported (see resources)"
    drifted = [row.name for row in rows if row.verb is verb and row.status_reason.startswith(DIFFERS)]
    if verb is Verb.CHECK and drifted:
        reason += f"{DRIFTED}{', '.join(sorted(drifted))} (see resources)"
    if left:
        reason += f". {LEFT}{'; '.join(left)}"
    if inputs.left_out and verb is Verb.RESTORE:
        moved = [f"{name} (now {place})" for name, place in sorted(inputs.left_out.items())]
        reason += f". Left out, for it has moved: {abbreviated(moved)}"
    if verb is not Verb.DELETE:
        reason += restricted_text(stack)
    stack = with_state(stack, verb, Status.COMPLETE, reason)
    match verb:
        case Verb.UPDATE if inputs.keeps_previous:
            return stack
        case Verb.CREATE | Verb.UPDATE | Verb.RESTORE:
            return replace(stack, previous_template_id=None, previous_environment=None)
        case Verb.UNLOCK:
            return replace(stack, lock=None)
        case Verb.DELETE:
            return replace(stack, deleted_at=now)
        case _:
            return stack


def restricted_text(stack: StackRecord) -> str:
    """Return the end of a reason that names what is left out; "" if nothing is."""
    if stack.restricted is None:
        return ""
    return f". {RESTRICTED}{abbreviated(stack.restricted.left_out)}"


def _restriction(stack: StackRecord, inputs: ActionInputs) -> Restriction | None:
    """Return what is left out of a stack's definition after a success.

    It ends with an update of all. A rollback restores what it was before.
    """
    now = stack.restricted
    if now is None:
        return None
    if stack.verb is Verb.ROLLBACK:
        return now.without_update
    if inputs.selection is not None and inputs.selection.outside:
        return now if now.reached else now.settled
    is_whole = stack.verb in (Verb.UPDATE, Verb.RESTORE) and inputs.heal is None and inputs.asked is None
    return None if is_whole else now


def selected(stack: StackRecord, action: ActionRecord) -> Selection | None:
    """Return what an action does; None: all."""
    if stack.verb is not Verb.ROLLBACK:
        return action.inputs.restricted
    return None if action.inputs.selection is None else action.inputs.selection.undone


def kept(stack: StackRecord, action: ActionRecord) -> Kept | None:
    """Return the resources that a rollback puts back by notes in their rows."""
    if stack.root_id is not None or stack.restricted is None:
        return action.inputs.kept
    before = stack.restricted.without_update
    return None if before is None else Kept(action.id, before.left_out, undoes=stack.verb is Verb.ROLLBACK)


RESTRICTED = "Restricted: the update has left out "
"""Stands in the reason before paths of resources."""


def failed_stack(stack: StackRecord, stopping: Stopping, transitions: Transitions) -> StackRecord:
    """Return the stack after a failure."""
    reason = _failure_reason(stack, stopping, transitions)
    may_roll_back = not stack.disable_rollback and stack.verb in ROLLED_BACK
    if may_roll_back and stopping.is_made and stopping.cause in (Stop.FAILURE, Stop.TIMEOUT):
        reason += f". {NOT_ROLLED_BACK}{ONLY_OLD}{_leftovers(transitions)}"
    return with_state(stack, stack.verb, Status.FAILED, reason)


ONLY_OLD = "all that the template wants is made, and only old objects are left, of "
"""Stands in the reason of a failed clean-up, before the names of resources."""


def _leftovers(transitions: Transitions) -> str:
    rows = transitions.rows.unit_of_work.rows.values()
    return ", ".join(sorted({row.name for row in rows if row.verb is Verb.DELETE}))


def _failure_reason(stack: StackRecord, stopping: Stopping, transitions: Transitions) -> str:
    match stopping.stop:
        case Stop.TIMEOUT:
            return "Timed out"
        case Stop.CANCEL | Stop.FORCE_CANCEL | Stop.CANCEL_ROLLBACK | Stop.ABORT:
            return f"Stack {stack.verb} cancelled"
        case _ if transitions.operations.tally.unknown:
            return transitions.operations.tally.reason()
        case _:
            return "; ".join(stopping.failures)


def rollback_target(stack: StackRecord) -> StackRecord:
    """Return the stack that a rollback restores.

    A rolled-back create keeps its template, for a retry.
    """
    if stack.previous_template_id is None or stack.previous_environment is None:
        return stack
    return replace(stack, template_id=stack.previous_template_id, environment=stack.previous_environment)


def in_rollback(stack: StackRecord, nothing: str | None) -> StackRecord:
    """Return the stack at the beginning of a rollback.

    `nothing`: the address of the empty template, if a create is undone.
    """
    stack = with_state(stack, Verb.ROLLBACK, Status.IN_PROGRESS, "Stack ROLLBACK started")
    if nothing is not None:
        return replace(stack, previous_template_id=nothing, previous_environment={})
    if stack.previous_template_id is None or stack.previous_environment is None:
        return stack
    return replace(
        stack,
        template_id=stack.previous_template_id,
        environment=stack.previous_environment,
        previous_template_id=None,
        previous_environment=None,
    )
