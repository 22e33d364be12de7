"""A process that removes random members of a group, and dies at a chosen commit."""

import os

from heatlite.core.json import JsonMap
from heatlite.engine.state.group_requests import Criteria, Leave, ScaleIn
from tests.crash.fast_engine import LEASE, count_transactions, start
from tests.crash.scenarios import CALLER, create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole

MEMBERS = 6
GROUP = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": MEMBERS, "resource_def": file("member %index%", slow=0)},
}


def prepare(database: str, files: str) -> None:
    """Make the stack, in a process that leaves no connection behind."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database, LEASE)
    create(server, template(g=GROUP))
    settle(server)
    server.close()
    os._exit(0)


def victim(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Remove two members by chance, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    bomb.arm(commits, after=False)
    server.components.groups.change(CALLER, stack_of(server), "g", ScaleIn(2, Criteria.RANDOM))
    settle(server)
    os._exit(SURVIVED)


HOOKS: JsonMap = {"resource_registry": {"resources": {"g": {"*": {"lifecycle_hook": {"timeout": 600}}}}}}
LEAVERS = ("1", "3")


def prepare_hooks(database: str, files: str) -> None:
    """Make a stack whose members wait before they go, as `prepare`."""
    os.environ["EXAMPLE_FILES"] = files
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database, LEASE)
    create(server, template(g=GROUP), environment=HOOKS)
    settle(server)
    server.close()
    os._exit(0)


def leaver(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Let two members leave after their hooks, and die as `victim`."""
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    bomb.arm(commits, after=False)
    server.components.leaving.leave(CALLER, stack_of(server), "g", Leave(LEAVERS))
    settle(server)
    os._exit(SURVIVED)
