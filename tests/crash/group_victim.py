"""A process that removes random members of a group, and dies at a chosen commit."""

import os

from heatlite.engine.state.group_requests import Criteria, ScaleIn
from heatlite.store.store import Store
from tests.crash.healing_victim import LEASE, count_transactions, start
from tests.crash.scenarios import CALLER, create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb

MEMBERS = 6
GROUP = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": MEMBERS, "resource_def": file("member %index%", slow=0)},
}


def prepare(database: str, files: str) -> None:
    """Make the stack, in a process that leaves no connection behind."""
    os.environ["EXAMPLE_FILES"] = files
    store = Store.open(database)
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
