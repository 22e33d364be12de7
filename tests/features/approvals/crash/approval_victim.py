"""A process that has an update approved, and ends itself at a chosen commit."""

import os

from heatlite.wiring import Embedded
from tests.api.conftest import Heat
from tests.crash.fast_engine import LEASE, count_transactions, start
from tests.crash.scenarios import create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole


def prepare(database: str, files: str) -> None:
    """Make the stack with its policy, and end without a connection."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database, LEASE)
    create(server, template(a=file("a", slow=0)))
    settle(server)
    heat, path = client(server)
    heat.call("PUT", f"{path}/change_policy", {"change_policy": "2026-11-28", "approve": "removals"}, code=200)
    server.close()
    os._exit(0)


def client(server: Embedded) -> tuple[Heat, str]:
    """A client of the server, and the path of the stack."""
    stack = stack_of(server)
    return Heat(server.app, stack.project), f"/stacks/{stack.name}/{stack.id}"


def request(server: Embedded) -> None:
    """Ask for the update, unless that is done; approve it; and wait for its end."""
    heat, path = client(server)
    if not heat.get("/approvals?state=DONE")["approvals"]:
        body = {"template": template(b=file("b", slow=0)), "guard": {"bake": 0, "unknown": "pass"}}
        heat.call("PUT", f"{path}?approval=wait", body, code=202)
        (found,) = heat.get("/approvals?state=PENDING")["approvals"]
        heat.call("POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]}, code=202)
    settle(server)


def victim(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Do it, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    server = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    request(server)
    os._exit(SURVIVED)
