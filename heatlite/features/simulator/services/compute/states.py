"""States of servers, and the checks that an operation is allowed."""

from typing import Final

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.simulation import ADMIN, SimulatedProject

SERVER: Final = "compute.server"
TASK: Final = "OS-EXT-STS:task_state"
STATES: Final = {
    "BUILD": "building", "SUSPENDED": "suspended", "VERIFY_RESIZE": "resized", "SHUTOFF": "stopped", "ERROR": "error",
    "SOFT_DELETED": "soft-delete", "DELETED": "deleted",
}  # fmt: skip
"""Status → vm_state as in error texts; all others: active."""


def server_of(view: SimulatedProject, verb: str, key: Json) -> JsonMap:
    """Return a server. Raises CloudNotFound with the service's text."""
    try:
        return view.thing(SERVER, key, verb)
    except CloudNotFound as error:
        raise CloudNotFound(verb, f"Instance {key} could not be found.") from error


def free(view: SimulatedProject, verb: str, key: Json) -> JsonMap:
    """Return a server unless it is locked.

    An administrator passes locks. Raises CloudConflict.
    """
    thing = server_of(view, verb, key)
    if thing["locked"] and view.project != ADMIN:
        raise CloudConflict(verb, f"Instance {thing['id']} is locked")
    return thing


def within(
    view: SimulatedProject, verb: str, key: Json, action: str, *statuses: str, locked_too: bool = False
) -> JsonMap:
    """Return a server that has one of the statuses and no running task.

    Raises CloudConflict.
    """
    thing = server_of(view, verb, key) if locked_too else free(view, verb, key)
    text = f"Cannot '{action}' instance {thing['id']} while it is in"
    if thing["status"] not in statuses:
        raise CloudConflict(verb, f"{text} vm_state {STATES.get(str(thing['status']), 'active')}")
    if thing[TASK] is not None:
        raise CloudConflict(verb, f"{text} task_state {thing[TASK]}")
    return thing


def start(view: SimulatedProject, thing: JsonMap, task: str | None, becomes: JsonMap, status: str = "") -> None:
    """Start a task of a server, optionally with a status meanwhile.

    `becomes` holds the attributes after the task.
    """
    thing[TASK] = task
    if status:
        thing["status"] = status
    view.simulation.later(thing, {TASK: None, **becomes})
    view.put(SERVER, thing)
