"""Conflict rules by operation, states and live actions (docs/reference/lock.md)."""


from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.errors import (
    ActionConflict,
    ActionInProgress,
    HeatliteError,
    InvalidStackState,
    NotSupported,
    ResourceIsLocked,
    StackLocked,
)
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb
from heatlite.engine.state.conflict_rules import Operation, maintenance_refusal, refusal
from heatlite.store.records import ActionRecord, LockRecord, StackRecord
from tests.tables import table

LOCK = LockRecord(LockLevel.STACKS, "ann", by_admin=False, locked_at=0.0)
WRITES = frozenset(Operation)


def stack(state: str = "CREATE_COMPLETE", before_lock: str | None = None, locked: bool = False) -> StackRecord:
    verb, _, status = state.partition("_")
    return StackRecord(
        id="s", name="web", project="p", username="ann", template_id="t", environment={}, verb=Verb(verb),
        status=Status(status), status_reason="", created_at=0.0, before_lock=before_lock, lock=LOCK if locked else None,
    )  # fmt: skip


def action(
    verb: Verb, stack_id: str = "s", status: ActionStatus = ActionStatus.RUNNING, force: bool = False
) -> ActionRecord:
    begun = 1.0 if status is ActionStatus.RUNNING else None
    return ActionRecord(
        id=f"{verb}-{stack_id}", stack_id=stack_id, root_id="s", project="p", verb=verb, status=status,
        requested_by="ann", created_at=0.0, started_at=begun, inputs=ActionInputs(force=force),
    )  # fmt: skip


PARENT, CHILD = replace(stack(), id="above", name="above"), replace(stack(), id="below", name="below")
LOCKED = stack("LOCK_COMPLETE", "CREATE_COMPLETE", locked=True)
LOCKED_PARENT = replace(LOCKED, id="above", name="above")
LOCKED_CHILD = replace(LOCKED, id="below", name="below")
HELD_BELOW = stack("LOCK_COMPLETE", "CREATE_COMPLETE")
"""In a locked state through its parent's lock, without a lock of its own."""


@table(
    ("state", "allowed"),
    [
        # Nothing may disturb a lock or an unlock that runs.
        ("LOCK_IN_PROGRESS", frozenset()),
        ("UNLOCK_IN_PROGRESS", frozenset()),
        # A locked stack: change or lift the lock, run playbooks, mark mended machines: that is what maintenance is for.
        ("LOCK_COMPLETE", {Operation.LOCK, Operation.UNLOCK, Operation.RUN, Operation.MARK_HEALTHY}),
        # After a failed lock or unlock the stack can still be given up.
        ("LOCK_FAILED", {Operation.LOCK, Operation.UNLOCK, Operation.DELETE, Operation.FORCE_DELETE}),
        ("UNLOCK_FAILED", {Operation.UNLOCK, Operation.DELETE, Operation.FORCE_DELETE}),
    ],
)
def test_each_maintenance_state_allows_only_its_operations(state: str, allowed: frozenset[Operation]) -> None:
    locked = stack(state, "CREATE_COMPLETE", locked=True)
    assert {one for one in WRITES if maintenance_refusal(one, locked) is None} == allowed


def test_a_lock_state_without_an_own_lock_refuses_nothing_by_itself() -> None:
    assert all(maintenance_refusal(one, HELD_BELOW) is None for one in WRITES)


@table(
    ("operation", "ancestors", "descendants", "expected"),
    [
        # An ancestor's lock covers the tree below.
        (Operation.UPDATE, [LOCKED_PARENT], [], StackLocked),
        (Operation.DELETE, [LOCKED_PARENT], [], StackLocked),
        (Operation.SIGNAL, [LOCKED_PARENT], [], StackLocked),
        (Operation.UNLOCK, [LOCKED_PARENT], [], StackLocked),
        # The one exception: another lock below a locked stack.
        (Operation.LOCK, [LOCKED_PARENT], [], None),
        # A locked nested stack stops what would touch it for certain …
        (Operation.DELETE, [], [LOCKED_CHILD], StackLocked),
        (Operation.CHECK, [], [LOCKED_CHILD], StackLocked),
        (Operation.SUSPEND, [], [LOCKED_CHILD], StackLocked),
        (Operation.SNAPSHOT, [], [LOCKED_CHILD], StackLocked),
        (Operation.RESUME, [], [LOCKED_CHILD], StackLocked),
        # … the ancestor can be locked too …
        (Operation.LOCK, [], [LOCKED_CHILD], None),
        # … but planning decides for an update, and a mark or a protection stays in the addressed stack.
        (Operation.UPDATE, [], [LOCKED_CHILD], None),
        (Operation.MARK, [], [LOCKED_CHILD], None),
        # A mark is taken back even under a lock, as that changes no object.
        (Operation.MARK, [LOCKED_PARENT], [], StackLocked),
        (Operation.MARK_HEALTHY, [LOCKED_PARENT], [LOCKED_CHILD], None),
        (Operation.PROTECT, [], [LOCKED_CHILD], None),
        (Operation.UNPROTECT, [], [LOCKED_CHILD], None),
    ],
)
def test_locks_in_the_tree(
    operation: Operation, ancestors: list[StackRecord], descendants: list[StackRecord], expected: type | None
) -> None:
    check(refusal(operation, stack(), ancestors, descendants, []), expected)


@table(
    ("operation", "live", "expected"),
    [
        # A running action holds the stack; a queued one comes first. Heat has only the former.
        (Operation.UPDATE, [action(Verb.UPDATE)], ResourceIsLocked),
        (Operation.UPDATE, [action(Verb.UPDATE, status=ActionStatus.READY)], ActionConflict),
        (Operation.CHECK, [action(Verb.SUSPEND)], ResourceIsLocked),
        # The answer names the running action, whichever of the two is listed first.
        (Operation.CHECK, [action(Verb.CHECK, status=ActionStatus.READY), action(Verb.UPDATE)], ResourceIsLocked),
        # A mark keeps Heat's own error for a busy stack.
        (Operation.MARK, [action(Verb.UPDATE)], ActionInProgress),
        (Operation.MARK, [action(Verb.UPDATE, status=ActionStatus.READY)], ActionInProgress),
        (Operation.MARK, [action(Verb.UPDATE, "above")], ActionInProgress),
        (Operation.MARK_HEALTHY, [action(Verb.UPDATE)], ActionInProgress),
        # A playbook changes no resource, and its run may wait for a node that is marked.
        (Operation.MARK, [action(Verb.RUN)], ActionInProgress),
        (Operation.MARK_HEALTHY, [action(Verb.RUN)], None),
        # A delete cancels what runs here or below, so only a delete below is in its way …
        (Operation.DELETE, [action(Verb.UPDATE)], None),
        (Operation.DELETE, [action(Verb.UPDATE, "below")], None),
        (Operation.DELETE, [action(Verb.DELETE)], None),
        (Operation.DELETE, [action(Verb.DELETE, status=ActionStatus.SUSPENDED)], ActionConflict),
        (Operation.DELETE, [action(Verb.DELETE, "below")], ResourceIsLocked),
        # … and what an ancestor does, which it must not cancel.
        (Operation.DELETE, [action(Verb.UPDATE, "above")], ResourceIsLocked),
        (Operation.CANCEL_UPDATE, [action(Verb.UPDATE, "above")], ResourceIsLocked),
        # A forced delete supersedes a delete that is stuck.
        (Operation.FORCE_DELETE, [action(Verb.DELETE)], None),
        (Operation.FORCE_DELETE, [action(Verb.DELETE, force=True)], None),
        (Operation.FORCE_DELETE, [action(Verb.DELETE, "below", force=True)], ResourceIsLocked),
        (Operation.FORCE_DELETE, [action(Verb.UPDATE, "above")], ResourceIsLocked),
        # An action of a nested stack holds the tree for all other operations.
        (Operation.UPDATE, [action(Verb.UPDATE, "below")], ResourceIsLocked),
        (Operation.LOCK, [action(Verb.CHECK)], ResourceIsLocked),
    ],
)
def test_live_actions(operation: Operation, live: list[ActionRecord], expected: type | None) -> None:
    check(refusal(operation, stack(), [PARENT], [CHILD], live), expected)


@table(
    ("operation", "now", "expected"),
    [
        # A cancel needs an operation that it can cancel: an update with rollback, an update or a create without.
        (Operation.CANCEL_UPDATE, stack("UPDATE_IN_PROGRESS"), None),
        (Operation.CANCEL_UPDATE, stack("CREATE_IN_PROGRESS"), NotSupported),
        (Operation.CANCEL_UPDATE, stack("UPDATE_COMPLETE"), NotSupported),
        (Operation.CANCEL_WITHOUT_ROLLBACK, stack("CREATE_IN_PROGRESS"), None),
        (Operation.CANCEL_WITHOUT_ROLLBACK, stack("DELETE_IN_PROGRESS"), NotSupported),
        # Only a lock can be lifted, and only a stack at rest with resources can be locked.
        (Operation.UNLOCK, stack(), InvalidStackState),
        (Operation.LOCK, stack("CREATE_IN_PROGRESS"), InvalidStackState),
        (Operation.LOCK, stack("INIT_COMPLETE"), InvalidStackState),
        (Operation.LOCK, stack("DELETE_COMPLETE"), InvalidStackState),
        (Operation.LOCK, stack("CREATE_FAILED"), None),
        # A retry continues a failed create or update, also one that was locked and unlocked since.
        (Operation.RETRY, stack("CREATE_FAILED"), None),
        (Operation.RETRY, stack("UPDATE_FAILED"), None),
        (Operation.RETRY, stack("UNLOCK_COMPLETE", "UPDATE_FAILED"), None),
        (Operation.RETRY, stack("CREATE_COMPLETE"), InvalidStackState),
        (Operation.RETRY, stack("RESTORE_FAILED"), InvalidStackState),
        (Operation.RETRY, stack("UNLOCK_COMPLETE", "CREATE_COMPLETE"), InvalidStackState),
        # A suspended stack is resumed first, as Heat requires; a lock and unlock does not change that.
        (Operation.UPDATE, stack("SUSPEND_COMPLETE"), NotSupported),
        (Operation.UPDATE, stack("UNLOCK_COMPLETE", "SUSPEND_COMPLETE"), NotSupported),
        (Operation.UPDATE, stack("DELETE_FAILED"), NotSupported),
        (Operation.UPDATE, stack("UPDATE_FAILED"), None),
        (Operation.DELETE, stack("DELETE_FAILED"), None),
    ],
)
def test_states_of_the_stack(operation: Operation, now: StackRecord, expected: type | None) -> None:
    live = [action(now.verb)] if now.status is Status.IN_PROGRESS and operation is not Operation.LOCK else []
    check(refusal(operation, now, [], [], live), expected)


def test_the_refusal_of_an_unlock_names_the_state() -> None:
    assert "CREATE_COMPLETE: it is not locked" in str(refusal(Operation.UNLOCK, stack(), [], [], []))


def test_a_lock_comes_before_an_action_and_an_action_before_the_state() -> None:
    check(refusal(Operation.UPDATE, LOCKED, [], [], [action(Verb.UPDATE)]), StackLocked)
    check(refusal(Operation.UPDATE, stack("SUSPEND_COMPLETE"), [], [], [action(Verb.CHECK)]), ResourceIsLocked)


def check(error: HeatliteError | None, expected: type | None) -> None:
    assert (None if error is None else type(error)) is expected
