"""A process that leads an incident to its end, and ends itself at a chosen commit."""

import math
import os
import time
from contextlib import suppress
from multiprocessing.synchronize import Event

from heatlite.core.errors import DatabaseUnavailable
from heatlite.core.json import JsonMap
from heatlite.features.healing.loop import sweep
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.records import HealingPolicyRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.store.store import Store
from heatlite.wiring import Embedded
from tests.crash.fast_engine import LEASE, FastClock, count_transactions, start
from tests.crash.scenarios import CALLER, create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole

GROUP = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": 3, "resource_def": file("member %index%", slow=0)},
}


def heal(server: Embedded) -> None:
    """Sweep until all incidents are closed and nothing runs, as the engine does.

    It asks again after an outage: a frozen engine may hold the lock of the stack, and has itself had no answer in time.
    """
    end = time.monotonic() + 240
    found: object = None
    while time.monotonic() < end:
        with suppress(DatabaseUnavailable):
            found = server.store.of(HealingStore).incidents.open_of_root(stack_of(server).id)
            if not found:
                settle(server)
                return
            server.components.of(Healing).loop.sweep()
        time.sleep(0.01)
    raise AssertionError(found)


def put_policy(store: Store, stack_id: str) -> None:
    """Put a policy that repairs at once."""
    document: JsonMap = {
        "healing_policy": "2026-11-22", "mode": "auto", "drift": "auto",
        "grace": 0, "confirm": {"hold": 0}, "cooldown": 0, "min_healthy": 0,
        "ladder": [{"step": "replace", "settle": 1}],
    }  # fmt: skip
    with store.transaction():
        store.of(HealingStore).policies.put(HealingPolicyRecord(stack_id, document, 1, "ann", FastClock().now()))


def report(server: Embedded) -> None:
    """Take the alert on one member, as Alertmanager sends it until it is answered."""
    labels = {"alertname": "Down", "heatlite_stack": stack_of(server).name, "heatlite_resource": "g/1"}
    alert: JsonMap = {"status": "firing", "startsAt": "2026-11-02T12:00:00Z", "labels": {**labels}}
    server.components.of(Healing).intake.take(CALLER, "alertmanager", {"version": "4", "alerts": [alert]})


def prepare(database: str, files: str) -> None:
    """Make the stack and its policy, in a process that leaves no connection behind."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database, LEASE)
    create(server, template(g=GROUP, other=file("other", slow=0)))
    settle(server)
    put_policy(server.store, stack_of(server).id)
    server.close()
    os._exit(0)


def never_stale() -> None:
    """Have this process need no new evidence after a gap without sweeps.

    A minute of a busy machine is ten of the fast clock.
    """
    sweep.GAP = math.inf


def victim(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Report and heal, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    never_stale()
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    report(server)
    heal(server)
    os._exit(SURVIVED)


def check(server: Embedded) -> None:
    """Check the stack."""
    server.stacks.check(CALLER, stack_of(server))
    settle(server)


def revert(server: Embedded) -> None:
    """Sweep until what the check has found is put back, and nothing runs."""
    end, incidents = time.monotonic() + 240, server.store.of(HealingStore).incidents
    while not incidents.page("demo", IncidentQuery()):
        assert time.monotonic() < end
        server.components.of(Healing).loop.sweep()
        time.sleep(0.01)
    heal(server)


def drift_victim(database: str, files: str, commits: int, lease: float) -> None:
    """Find drift and put it back, and die before the chosen commit. As `victim`."""
    never_stale()
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    check(server)
    revert(server)
    os._exit(SURVIVED)


def engine(
    database: str, files: str, lease: float, runs: Event, ends: Event | None, commits: int | None = None
) -> None:
    """Heal a reported member as one of several engines; with `commits`, as a victim.

    Sets `runs` once the engine has started. Stays until `ends`, if there is such an event.
    """
    never_stale()
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, lease)
    runs.set()
    if commits is not None:
        count_transactions()
        bomb.arm(commits, after=False)
    heal(server)
    if ends is not None:
        ends.wait(240)
    os._exit(0)


def reporter(database: str, files: str) -> None:
    """Take the report in a process that leaves no connection behind."""
    never_stale()
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, LEASE)
    report(server)
    server.close()
    os._exit(0)
