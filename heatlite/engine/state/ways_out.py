"""Ways out of a conflict, and its holder.

Errors and the reasons of stacks show them.
"""

from urllib.parse import quote

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.wire.why import Holder, WayOut, words
from heatlite.store.records import ActionRecord, StackRecord


def stack_path(stack: StackRecord, rest: str = "") -> str:
    """Return the path of a stack in the API, or of a part of it."""
    return f"/v1/{quote(stack.project, safe='')}/stacks/{quote(stack.name, safe='')}/{stack.id}{rest}"


def acting(action: ActionRecord) -> Holder:
    """Return the holder that is an action."""
    since = to_text(action.started_at or action.created_at)
    return Holder(kind="action", id=action.id, by=action.requested_by, since=since)


def existing(stack: StackRecord) -> Holder:
    """Return the holder that is a stack as it is."""
    return Holder(kind="stack", id=stack.id, by=stack.username, since=to_text(stack.updated_at or stack.created_at))


def locking(stack: StackRecord) -> Holder:
    """Return the holder that is the maintenance lock of a stack."""
    lock = stack.lock
    if lock is None:
        return existing(stack)
    return Holder(kind="stack", id=stack.id, by=lock.locked_by, since=to_text(lock.locked_at))


def wait(action: ActionRecord) -> WayOut:
    """Return the step of waiting for the end of an action."""
    return WayOut(text=f"waits for the end of {action.word}", command=f"heatlite action wait {action.id}")


def resume(action: ActionRecord) -> WayOut:
    """Return the step that continues a suspended action."""
    return _signal(action, "RESUME", f"continues {action.word}")


def cancel(action: ActionRecord) -> WayOut:
    """Return the step that cancels an action."""
    return _signal(action, "CANCEL", "cancels it")


def on_stack(stack: StackRecord, key: str, text: str, command: str, options: JsonMap | None = None) -> WayOut:
    """Return the step that is an action on a stack, by its key in the body."""
    path = stack_path(stack, "/actions")
    return WayOut(text=text, command=command, method="POST", path=path, body={key: options})


def updates(stack: StackRecord) -> WayOut:
    """Return the step of an update with a corrected definition."""
    command = f"heatlite up FILE -n {words(stack.name)}"
    return WayOut(text="updates the stack with a corrected definition", command=command)


def unlock(stack: StackRecord) -> WayOut:
    """Return the step that lifts the lock of a stack."""
    return on_stack(stack, "unlock", f"lifts the lock of {stack.name}", f"heatlite unlock {words(stack.name)}")


def unprotect(stack: StackRecord, resource: str | None = None) -> WayOut:
    """Return the step that lifts the protection of a stack, or of a resource of it."""
    options: JsonMap | None = None if resource is None else {"resource": resource}
    names = (stack.name,) if resource is None else (stack.name, resource)
    command = f"heatlite unprotect {words(*names)}"
    return on_stack(stack, "unprotect", "lifts the protection", command, options)


def _signal(action: ActionRecord, signal: str, text: str) -> WayOut:
    command, path = f"heatlite action signal {action.id} {signal}", f"/v1/{action.project}/actions/{action.id}"
    return WayOut(text=text, command=command, method="POST", path=path, body={"signal": signal})
