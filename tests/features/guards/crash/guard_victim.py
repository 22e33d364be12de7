"""A process with an update that bakes, which dies at a chosen commit."""

import os

from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import Request
from heatlite.features.healing.parts import Healing
from heatlite.wiring import Embedded
from tests.crash.fast_engine import count_transactions, start
from tests.crash.scenarios import CALLER, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.waiting import eventually


def anew(value: str) -> dict[str, object]:
    """Another value needs another object."""
    return {"type": "OS::Heat::TestResource", "properties": {"value": value, "update_replace": True}}


def group(value: str) -> dict[str, object]:
    return {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": anew(value)}}


BEFORE = template(a=anew("one"), gone=file("gone", slow=0), g=group("one"))
AFTER = template(a=anew("two"), new=file("new", slow=0), g=group("two"))


ALERT: JsonMap = {
    "version": "4",
    "alerts": [
        {
            "status": "firing",
            "labels": {"alertname": "Slow", "heatlite_stack": "s", "heatlite_resource": "g/0"},
            "startsAt": "2026-11-02T12:00:00Z",
            "fingerprint": "k",
        }
    ],
}


def take_back(server: Embedded) -> None:
    """Report an alert on the stack once its update bakes."""
    eventually(lambda: any(one.is_baking for one in server.store.actions.live([stack_of(server).id])), "it bakes")
    server.make_app()
    server.components.of(Healing).intake.take(CALLER, "alertmanager", ALERT)


def update(database: str, files: str, commits: int, lease: float = 1e9, takes_back: bool = False) -> None:
    """Update the stack with a bake, and die before the chosen commit.

    With `takes_back`, an alert comes while it bakes. Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    bomb.arm(commits, after=False)
    guard: JsonMap = {"bake": 3600 if takes_back else 0, "unknown": "pass"}
    request = Request(template=AFTER, further={"guard": guard})
    server.stacks.update(CALLER, stack_of(server), request, existing=False)
    if takes_back:
        take_back(server)
    settle(server)
    os._exit(SURVIVED)


def taken_back(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """As `update`, and take the update back."""
    update(database, files, commits, lease, takes_back=True)
