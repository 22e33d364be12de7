"""What a server may be asked to do in which state."""

from typing import Final

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.clients.simulated.simulation import ADMIN, View
from heatlite.core.json import Json, JsonMap

SERVER: Final = "compute.server"
TASK: Final = "OS-EXT-STS:task_state"
STATES: Final = {
    "BUILD": "building", "SUSPENDED": "suspended", "VERIFY_RESIZE": "resized", "SHUTOFF": "stopped", "ERROR": "error",
    "SOFT_DELETED": "soft-delete", "DELETED": "deleted",
}  # fmt: skip
"""Status → the state of the machine, as refusals name it; all others: active."""


def server_of(view: View, verb: str, key: Json) -> JsonMap:
    """A server. Raises CloudNotFound in the service's words."""
    try:
        return view.thing(SERVER, key, verb)
    except CloudNotFound as error:
        raise CloudNotFound(verb, f"Instance {key} could not be found.") from error


def free(view: View, verb: str, key: Json) -> JsonMap:
    """A server that nobody has locked; locks do not hold for an administrator. Raises CloudConflict."""
    thing = server_of(view, verb, key)
    if thing["locked"] and view.project != ADMIN:
        raise CloudConflict(verb, f"Instance {thing['id']} is locked")
    return thing


def within(view: View, verb: str, key: Json, action: str, *statuses: str, locked_too: bool = False) -> JsonMap:
    """A server that is in one of these states, and not at work. Raises CloudConflict."""
    thing = server_of(view, verb, key) if locked_too else free(view, verb, key)
    text = f"Cannot '{action}' instance {thing['id']} while it is in"
    if thing["status"] not in statuses:
        raise CloudConflict(verb, f"{text} vm_state {STATES.get(str(thing['status']), 'active')}")
    if thing[TASK] is not None:
        raise CloudConflict(verb, f"{text} task_state {thing[TASK]}")
    return thing


def start(view: View, thing: JsonMap, task: str | None, becomes: JsonMap, status: str = "") -> None:
    """Have a server at work until it becomes something; meanwhile it has a task, and perhaps another status."""
    thing[TASK] = task
    if status:
        thing["status"] = status
    view.simulation.later(thing, {TASK: None, **becomes})
    view.put(SERVER, thing)
