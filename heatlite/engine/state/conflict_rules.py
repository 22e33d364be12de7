"""Conflict rules: maintenance locks, running and queued actions.

Specified in docs/reference/lock.md.

Admission asks twice: `precheck` before the template is read, `admitted` inside the transaction that writes. The order
of the rules is fixed: maintenance lock, running action, queued action, state of the stack.
"""

from collections.abc import Sequence
from enum import StrEnum

from heatlite.core.clock import to_text
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    ActionInProgress,
    HeatliteError,
    InvalidStackState,
    NotSupported,
    ResourceIsLocked,
    StackLocked,
)
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb, state
from heatlite.core.wire.why import WayOut, words
from heatlite.engine.state.ways_out import acting, cancel, locking, on_stack, resume, unlock, updates, wait
from heatlite.store.records import ActionRecord, LockRecord, StackRecord


class Operation(StrEnum):
    """Operations that change a stack, its resources or its record."""

    UPDATE = "update"
    DELETE = "delete"
    FORCE_DELETE = "force_delete"
    ABANDON = "abandon"
    CHECK = "check"
    SUSPEND = "suspend"
    RESUME = "resume"
    RETRY = "retry"
    CANCEL_UPDATE = "cancel_update"
    CANCEL_WITHOUT_ROLLBACK = "cancel_without_rollback"
    SNAPSHOT = "snapshot"
    RESTORE = "restore"
    DELETE_SNAPSHOT = "delete_snapshot"
    MARK = "mark_unhealthy"
    MARK_HEALTHY = "mark_healthy"
    SIGNAL = "signal"
    ROTATE_KEYS = "rotate_keys"
    LOCK = "lock"
    UNLOCK = "unlock"
    RUN = "playbook"
    """Run work of a feature."""
    HEAL = "heal"
    REVERT = "revert_drift"
    ACCEPT = "accept_drift"
    IMPORT = "import"
    DETACH = "detach"
    MOVE = "move"
    RESIZE = "resize"
    SCALE_OUT = "scale_out"
    SCALE_IN = "scale_in"
    DELETE_MEMBERS = "delete_members"
    JOIN = "join"
    LEAVE = "leave"
    ATTACH_POLICY = "attach_policy"
    UPDATE_POLICY = "update_policy"
    DETACH_POLICY = "detach_policy"
    PROTECT = "protect"
    UNPROTECT = "unprotect"


GROUP_OPERATIONS = frozenset({
    Operation.RESIZE, Operation.SCALE_OUT, Operation.SCALE_IN, Operation.DELETE_MEMBERS, Operation.JOIN,
    Operation.LEAVE, Operation.ATTACH_POLICY, Operation.UPDATE_POLICY, Operation.DETACH_POLICY,
})  # fmt: skip
"""Operations that change the members of a group, or its policies: updates of its nested stack."""
REDEFINES = frozenset({Operation.IMPORT, Operation.DETACH, Operation.MOVE, Operation.ACCEPT})
"""Operations that change a definition and rows, and no object. They end with the request."""
UPDATES = GROUP_OPERATIONS | REDEFINES | {Operation.UPDATE, Operation.HEAL, Operation.REVERT}

DELETES = frozenset({Operation.DELETE, Operation.FORCE_DELETE})

USES_CLOUD = GROUP_OPERATIONS | frozenset({
    Operation.UPDATE, Operation.DELETE, Operation.CHECK, Operation.SUSPEND, Operation.RESUME, Operation.RETRY,
    Operation.SNAPSHOT, Operation.RESTORE, Operation.DELETE_SNAPSHOT, Operation.SIGNAL, Operation.HEAL,
    Operation.REVERT, Operation.ACCEPT, Operation.IMPORT,
})  # fmt: skip
"""Operations that are refused in another cloud than the stack's, besides locks that touch resources.

A forced delete is not among them: it leaves behind, and lists, the objects that it cannot reach.
"""

ALLOWED_WHILE_LOCKED: dict[tuple[Verb, Status], frozenset[Operation]] = {
    (Verb.LOCK, Status.IN_PROGRESS): frozenset(),
    (Verb.LOCK, Status.COMPLETE): frozenset({
        Operation.UNLOCK, Operation.LOCK, Operation.RUN, Operation.MARK_HEALTHY,
    }),
    (Verb.LOCK, Status.FAILED): frozenset({Operation.UNLOCK, Operation.LOCK, *DELETES}),
    (Verb.UNLOCK, Status.IN_PROGRESS): frozenset(),
    (Verb.UNLOCK, Status.FAILED): frozenset({Operation.UNLOCK, *DELETES}),
}
"""Maintenance states, each with the operations that it allows (docs/reference/lock.md)."""

NOT_LOCKABLE = frozenset({"INIT_COMPLETE", "DELETE_COMPLETE"})
"""States without resources to lock. Stacks in progress are rejected separately."""

RETRIES = frozenset({Verb.CREATE, Verb.UPDATE})

CANCELS = frozenset({Operation.CANCEL_UPDATE, Operation.CANCEL_WITHOUT_ROLLBACK})
MAY_SPARE_LOCKED_CHILDREN = CANCELS | {
    Operation.UPDATE, Operation.HEAL, Operation.REVERT, Operation.MARK, Operation.MARK_HEALTHY, Operation.PROTECT,
    Operation.UNPROTECT,
}  # fmt: skip
"""Operations that may succeed while a nested stack is locked.

`LockedChildren` in `engine/preview/locked_children.py` and the repairs check whether they touch it. A cancel needs
nothing of a locked nested stack, and protection changes only the addressed stack.
"""
CANCELLABLE: dict[Operation, frozenset[Verb]] = {
    Operation.CANCEL_UPDATE: frozenset({Verb.UPDATE}),
    Operation.CANCEL_WITHOUT_ROLLBACK: frozenset({Verb.UPDATE, Verb.CREATE}),
}


def maintenance_refusal(
    operation: Operation, stack: StackRecord, caller: Context | None = None
) -> StackLocked | None:
    """Return the refusal by the stack's own maintenance lock.

    Needs only the record, so it costs no query.

    A stack that is locked only through an ancestor returns None: the ancestor's lock refuses.
    """
    if stack.lock is None:
        return None
    allowed = ALLOWED_WHILE_LOCKED.get((stack.verb, stack.status))
    return None if allowed is None or operation in allowed else locked_error(operation, stack, caller)


def locked_error(operation: Operation, stack: StackRecord, caller: Context | None = None) -> StackLocked:
    """Return the error that names the stack whose lock forbids the operation.

    Its text says what the caller can do. An action that goes on without its caller has none.
    """
    error = StackLocked(_locked_text(operation, stack, caller), holder=locking(stack), way_out=_unlocks(stack, caller))
    if stack.lock is not None:
        error.locked_at = stack.lock.locked_at
        error.lock = f"Stack {stack.name} was under maintenance ({state(stack.verb, stack.status)}).{_described(stack)}"
    return error


def refusal(
    operation: Operation,
    stack: StackRecord,
    ancestors: Sequence[StackRecord],
    descendants: Sequence[StackRecord],
    live: Sequence[ActionRecord],
    caller: Context | None = None,
) -> HeatliteError | None:
    """Return the error that keeps `operation` on `stack` from starting now.

    None admits it. Which action passes which is in docs/reference/lock.md, "Order of checks".

    `live` are the unfinished actions on the stack, its ancestors and its descendants.
    """
    error = _maintenance(operation, stack, ancestors, descendants, caller)
    if error is not None:
        return error
    found = holder(operation, stack, ancestors, live)
    return _state_refusal(operation, stack, live) if found is None else _held(operation, stack, found)


def uses_cloud(operation: Operation, stack: StackRecord) -> bool:
    """Return True if an operation reads or changes objects in the cloud.

    For `LOCK` the body decides.
    """
    if operation is Operation.UNLOCK:
        return stack.lock is not None and stack.lock.level is LockLevel.ALL
    return operation in USES_CLOUD


def holder(
    operation: Operation, stack: StackRecord, ancestors: Sequence[StackRecord], live: Sequence[ActionRecord]
) -> ActionRecord | None:
    """Return the action that keeps `operation` from starting now.

    The arguments are those of `refusal`.
    """
    above = {ancestor.id for ancestor in ancestors}
    if operation in CANCELS:
        live = [action for action in live if action.stack_id in above]
    elif operation is Operation.MARK_HEALTHY:
        # A run changes no resource, and may wait for one that is marked.
        live = [action for action in live if action.verb is not Verb.RUN]
    elif operation is Operation.DELETE:
        # A delete cancels the actions on the stack and below, and waits. Only the delete of a nested stack conflicts,
        # and an action of an ancestor, which a delete must not cancel.
        live = [action for action in live if action.verb is Verb.DELETE or action.stack_id in above]
        live = [action for action in live if not is_repeated(operation, stack, action)]
    elif operation is Operation.FORCE_DELETE:
        # A forced delete supersedes a stuck delete. Only the forced delete of a nested stack conflicts.
        live = [action for action in live if action.inputs.force or action.stack_id in above]
        live = [action for action in live if not is_repeated(operation, stack, action)]
    return min(live, key=lambda action: not _has_begun(action), default=None)


def is_repeated(operation: Operation, stack: StackRecord, action: ActionRecord) -> bool:
    """Return True if a delete asks for what a live action does already.

    A suspended one does not end by itself: that the caller is told.
    """
    is_delete = action.verb is Verb.DELETE and action.stack_id == stack.id
    is_enough = operation is Operation.DELETE or operation is Operation.FORCE_DELETE and action.inputs.force
    return is_delete and is_enough and action.status is not ActionStatus.SUSPENDED


def _maintenance(
    operation: Operation,
    stack: StackRecord,
    ancestors: Sequence[StackRecord],
    descendants: Sequence[StackRecord],
    caller: Context | None,
) -> StackLocked | None:
    """Return the refusal by a maintenance lock of the tree."""
    error = maintenance_refusal(operation, stack, caller)
    for locked in ancestors:
        if error is None and locked.lock is not None:
            error = maintenance_refusal(operation, locked, caller)
            if error is None and not _passes_above(operation, locked.lock, caller):
                error = locked_error(operation, locked, caller)
    for locked in () if operation in MAY_SPARE_LOCKED_CHILDREN else descendants:
        error = error or maintenance_refusal(operation, locked, caller)
    return error


def _passes_above(operation: Operation, lock: LockRecord, caller: Context | None) -> bool:
    """Return True for an operation that is allowed below a locked stack.

    It is another lock. A mark can be taken back, too, by who may lift the lock: that changes no object.
    """
    may_lift = not lock.by_admin or caller is None or caller.is_admin
    return operation is Operation.LOCK or operation is Operation.MARK_HEALTHY and may_lift


def _has_begun(action: ActionRecord) -> bool:
    """True if the action has started, even if it is parked."""
    return action.status is ActionStatus.RUNNING or action.started_at is not None


def _held(operation: Operation, stack: StackRecord, action: ActionRecord) -> HeatliteError:
    if operation in (Operation.MARK, Operation.MARK_HEALTHY):
        return ActionInProgress(
            stack_name=stack.name, action=action.verb, holder=acting(action), way_out=_ends(action)
        )
    kind = ResourceIsLocked if _has_begun(action) else ActionConflict
    since = to_text(action.started_at or action.created_at)
    path = f"/v1/{action.project}/actions/{action.id}"
    if action.status is ActionStatus.SUSPENDED:  # it does not end by itself
        way_on = f"It is SUSPENDED: resume it (heatlite action signal {action.id} RESUME, or POST {path})"
    else:
        way_on = f"Wait for it (heatlite action wait {action.id}, or GET {path})"
    # Suggest no second delete: it would be refused for the same reason.
    no_delete = action.verb is Verb.DELETE or operation in DELETES
    way_on += ", or cancel it" if no_delete else ", cancel it, or delete the stack"
    return kind(
        stack_name=stack.name, action=action.verb, action_id=action.id, since=since, way_on=way_on,
        holder=acting(action), way_out=_ends(action),
    )  # fmt: skip


def _ends(action: ActionRecord) -> list[WayOut]:
    """Return the steps that lead to the end of an action."""
    return [resume(action) if action.status is ActionStatus.SUSPENDED else wait(action), cancel(action)]


def _unlocks(stack: StackRecord, caller: Context | None) -> list[WayOut]:
    """Return the steps that lift a lock."""
    if (stack.verb, stack.status) == (Verb.UNLOCK, Status.IN_PROGRESS):
        text = "shows the lock, which is being lifted"
        return [WayOut(text=text, command=f"heatlite lock-status {words(stack.name)}")]
    if stack.lock is not None and stack.lock.by_admin and caller is not None and not caller.is_admin:
        text = "shows the lock, which an administrator has to lift"
        return [WayOut(text=text, command=f"heatlite lock-status {words(stack.name)}")]
    return [unlock(stack)]


def _is_cancellable(operation: Operation, stack: StackRecord, live: Sequence[ActionRecord]) -> bool:
    """Return True if what runs can be cancelled, as all with a guard."""
    guarded = (one.verb for one in live if one.stack_id == stack.id and one.inputs.guard is not None)
    return stack.status is Status.IN_PROGRESS and stack.verb in CANCELLABLE[operation].union(guarded)


def _state_refusal(
    operation: Operation, stack: StackRecord, live: Sequence[ActionRecord]
) -> HeatliteError | None:
    now = state(stack.verb, stack.status)
    if operation in CANCELS and not _is_cancellable(operation, stack, live):
        return NotSupported(f"Cancelling update when stack is {now} is not supported.")
    if operation is Operation.UNLOCK and stack.lock is None:
        return InvalidStackState(f"Stack {stack.name} is {now}: it is not locked, so there is nothing to unlock.")
    if operation is Operation.LOCK and (stack.status is Status.IN_PROGRESS or now in NOT_LOCKABLE):
        return InvalidStackState(f"Stack {stack.name} is {now}: only a stack in a final state can be locked.")
    verb, status = stack.state_without_lock
    if (verb, status) != (stack.verb, stack.status):
        now += f" (before its lock: {state(verb, status)})"
    if operation is Operation.RETRY and (status is not Status.FAILED or verb not in RETRIES):
        way_on = " To go on with a restore, restore the snapshot again, or update the stack."
        text = f"Stack {stack.name} is {now}: there is no failed create or update to go on with."
        return InvalidStackState(text + (way_on if verb is Verb.RESTORE else ""), way_out=[updates(stack)])
    if operation in UPDATES and verb in (Verb.SUSPEND, Verb.DELETE):
        way_on = f" Resume it first: openstack stack resume {words(stack.name)}." if verb is Verb.SUSPEND else ""
        return NotSupported(f"Updating a stack when it is {now} is not supported.{way_on}")
    return _unreached(operation, stack) if operation in REDEFINES else None


def _unreached(operation: Operation, stack: StackRecord) -> HeatliteError | None:
    """Return the refusal for a stack that may not have reached its definition."""
    verb, status = stack.state_without_lock
    if status is not Status.FAILED or verb is Verb.CHECK:
        return None
    retry = f"heatlite retry {words(stack.name)}"
    way_on = f"Bring it to its definition first: {retry}, or heatlite up."
    text = f"Stack {stack.name} is {state(verb, status)}, so {operation} is refused. {way_on}"
    steps = [updates(stack)]
    if verb in RETRIES:
        steps.insert(0, on_stack(stack, "retry", "continues where it has failed", retry))
    return InvalidStackState(text, way_out=steps)


def _locked_text(operation: Operation, stack: StackRecord, caller: Context | None) -> str:
    """Return the text of a refusal: the lock, and what the caller can do.

    It has level, times, author and reason of the lock.
    """
    now = state(stack.verb, stack.status)
    text = f"Stack {stack.name} is under maintenance ({now}), so {operation} is refused and nothing was changed."
    lock = stack.lock
    text += _described(stack)
    if (stack.verb, stack.status) == (Verb.UNLOCK, Status.IN_PROGRESS):
        return text + " The lock is being lifted: try again when that has ended."
    as_admin = ""
    if lock is not None and lock.by_admin:
        if caller is not None and not caller.is_admin:
            return text + " An administrator has set it, so only an administrator can lift it: ask one."
        as_admin = ", as an administrator" if caller is None else ""
    name = words(stack.name)
    return text + f" To lift it{as_admin}: heatlite unlock {name}, or openstack stack unlock {name}."


def _described(stack: StackRecord) -> str:
    """Describe the lock of a stack: level, times, author, reason; "" without a lock."""
    lock = stack.lock
    if lock is None:
        return ""
    text = f" Locked at level '{lock.level}' since {to_text(lock.locked_at)} by {lock.locked_by}"
    text += f", reason: {lock.reason}" if lock.reason else ", no reason given"
    return text + (f", expires at {to_text(lock.expires_at)}." if lock.expires_at else ", does not expire.")
