"""Process that creates and updates a stack whose objects count in quotas.

It stands still before each commit.
"""

import os

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.state.requests import StackRequest
from heatlite.wiring import Embedded
from tests.crash.scenarios import CALLER, create, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb, count_commits, pause


def nets(count: int) -> dict[str, object]:
    net = {"type": "OS::Neutron::Net", "properties": {}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": net}}
    return template(group=group, single=net)


def begin(database: str) -> Embedded:
    return wiring.embedded(Settings(database=database, cloud="simulated"))


def work(server: Embedded) -> None:
    create(server, nets(1))
    settle(server)
    server.stacks.update(CALLER, stack_of(server), StackRequest(template=nets(2)), existing=False)  # type: ignore[arg-type]
    settle(server)


def victim(database: str) -> None:
    """Create and update the stack. Exits with SURVIVED."""
    count_commits()
    server = begin(database)
    bomb.arm(1, after=False, explode=pause)
    work(server)
    os._exit(SURVIVED)
