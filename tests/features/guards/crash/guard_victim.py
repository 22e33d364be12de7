"""A process with an update that bakes, which dies at a chosen commit."""

import os
from collections.abc import Callable
from functools import partial

from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import StackRequest
from heatlite.features.healing.parts import Healing
from heatlite.wiring import Embedded
from tests.crash.copies import begun
from tests.crash.fast_engine import LEASE, count_transactions, start
from tests.crash.scenarios import CALLER, create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole
from tests.waiting import eventually


def anew(value: str) -> dict[str, object]:
    """Another value needs another object."""
    return {"type": "OS::Heat::TestResource", "properties": {"value": value, "update_replace": True}}


def group(value: str) -> dict[str, object]:
    """A group that changes one member after the other."""
    policy = {"rolling_update": {"max_batch_size": 1, "pause_time": 0}}
    properties = {"count": 2, "resource_def": anew(value)}
    return {"type": "OS::Heat::ResourceGroup", "properties": properties, "update_policy": policy}


BEFORE = template(a=anew("one"), gone=file("gone", slow=0), g=group("one"))
AFTER = template(a=anew("two"), new=file("new", slow=0), g=group("two"))


def prepare(database: str, files: str) -> None:
    """Create the stack, in a process that leaves no connection behind."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database)
    create(server, BEFORE)
    settle(server)
    server.close()
    os._exit(0)


def prepare_restore(database: str, files: str) -> None:
    """Create the stack, take a snapshot, and change it."""
    begun(prepare, database, files).join(240)
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, LEASE)
    server.components.snapshots.take(CALLER, stack_of(server), "before")
    settle(server)
    server.stacks.update(CALLER, stack_of(server), StackRequest(template=AFTER), existing=False)
    settle(server)
    server.close()
    os._exit(0)


def bakes(server: Embedded) -> None:
    """Wait until the update bakes.

    That may be over at once, as an engine before has heard a report.
    """
    root = stack_of(server).id
    eventually(lambda: all(one.data.guard is not None for one in server.store.actions.live([root])), "it bakes")


def report(server: Embedded, status: str) -> None:
    """Report an alert on the stack once its update bakes."""
    bakes(server)
    server.make_app()
    labels: JsonMap = {"alertname": "Slow", "heatlite_stack": "s", "heatlite_resource": "g/0"}
    alert: JsonMap = {"status": status, "labels": labels, "startsAt": "2026-11-02T12:00:00Z", "fingerprint": "k"}
    server.components.of(Healing).intake.take(CALLER, "alertmanager", {"version": "4", "alerts": [alert]})


def take_back(server: Embedded) -> None:
    """Report that something is wrong."""
    report(server, "firing")


def be_heard(server: Embedded) -> None:
    """Report that nothing is."""
    report(server, "resolved")


def end_by_hand(server: Embedded) -> None:
    """End the bake as a person does."""
    bakes(server)
    server.components.controls.end_bake(CALLER, stack_of(server), "looks well")


def leave(server: Embedded) -> None:
    """Let the bake end at its time."""


WAITS: JsonMap = {"bake": 3600}
COURSES: dict[str, tuple[JsonMap, Callable[[Embedded], None]]] = {
    "passes": ({"bake": 0, "unknown": "pass"}, leave),
    "heard": ({"bake": 0}, be_heard),
    "fired": (WAITS, take_back),
    "ended": (WAITS, end_by_hand),
}
"""By name: the guard of an update, and what comes while it bakes."""


def update(course: str, database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Update the stack with a bake, and die before the chosen commit.

    Where something comes, commits count from the bake on: those before are alike in all courses. Exits with SURVIVED
    if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    guard, comes = COURSES[course]
    if comes is leave:
        bomb.arm(commits, after=False)
    request = StackRequest(template=AFTER, further={"guard": guard})
    server.stacks.update(CALLER, stack_of(server), request, existing=False)
    if comes is not leave:
        bakes(server)
        bomb.arm(commits, after=False)
    comes(server)
    settle(server)
    os._exit(SURVIVED)


def restore(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Restore the snapshot with a bake, ring, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    (snapshot,) = server.store.snapshots.of(stack_of(server).id)
    bomb.arm(commits, after=False)
    server.components.snapshots.restore(CALLER, stack_of(server), snapshot.id, {"guard": WAITS})
    take_back(server)
    settle(server)
    os._exit(SURVIVED)


VICTIMS = {name: partial(update, name) for name in COURSES}
