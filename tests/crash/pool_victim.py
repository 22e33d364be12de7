"""Process that changes a group whose members are in the pool of a load balancer.

It stands still before each commit.
"""

import os
from collections.abc import Callable
from typing import Any

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.state.group_requests import DetachPolicy, Leave, ScaleIn, ScaleOut
from heatlite.wiring import Embedded
from tests.crash.fast_engine import FastClock
from tests.crash.scenarios import CALLER, create, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb, count_commits, pause
from tests.engine.test_group_pools import BALANCED, PLACED, server

GROUP: dict[str, Any] = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": 2, "resource_def": server(net={"get_resource": "net"})},
    "depends_on": ["subnet"],
}


def begin(database: str) -> Embedded:
    return wiring.embedded(Settings(database=database, cloud="simulated"), clock=FastClock())


def attach(engine: Embedded) -> object:
    return engine.components.group_policies.change(CALLER, stack_of(engine), "g", PLACED)


VERBS: dict[str, Callable[[Embedded], object]] = {
    "attach": attach,
    "detach": lambda engine: engine.components.group_policies.change(CALLER, stack_of(engine), "g", DetachPolicy("lb")),
    "scale_out": lambda engine: engine.components.groups.change(CALLER, stack_of(engine), "g", ScaleOut(1)),
    "scale_in": lambda engine: engine.components.groups.change(CALLER, stack_of(engine), "g", ScaleIn(1)),
    "leave": lambda engine: engine.components.leaving.leave(CALLER, stack_of(engine), "g", Leave(("0",))),
}


def prepare(engine: Embedded, verb: str) -> None:
    """Make the stack before a verb."""
    create(engine, template(**BALANCED, g=GROUP))
    settle(engine)
    if verb != "attach":
        attach(engine)
        settle(engine)


def victim(database: str, verb: str) -> None:
    """Change the group. Exits with SURVIVED."""
    count_commits()
    engine = begin(database)
    bomb.arm(1, after=False, explode=pause)
    VERBS[verb](engine)
    settle(engine)
    os._exit(SURVIVED)
