"""Processes whose stacks read of each other.

One stands still before each commit, another one ends itself at a chosen one.
"""

import os

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord
from heatlite.wiring import Embedded
from tests.crash.fast_engine import count_transactions, start
from tests.crash.scenarios import CALLER, settle
from tests.crash.victim import SURVIVED, bomb, count_commits, pause
from tests.databases import whole

FROM_BASE: JsonMap = {"parameter_sources": {"net": {"stack": "base", "output": "net"}}}
TEMPLATE: JsonMap = {
    "heat_template_version": "2021-04-16",
    "parameters": {"net": {"type": "string"}},
    "outputs": {"net": {"value": {"get_param": "net"}}},
}


def begin(database: str) -> Embedded:
    return wiring.embedded(Settings(database=database))


def create(server: Embedded, name: str, **more: JsonMap) -> None:
    server.stacks.create(CALLER, StackRequest(name=name, template=TEMPLATE, **more))  # type: ignore[arg-type]
    settle(server)


def patch(server: Embedded, name: str, **more: JsonMap) -> None:
    server.stacks.update(CALLER, stack(server, name), StackRequest(**more), existing=True)  # type: ignore[arg-type]
    settle(server)


def stack(server: Embedded, name: str) -> StackRecord:
    found = server.store.stacks.by_name("demo", name)
    assert found is not None
    return found


def read(server: Embedded) -> None:
    create(server, "base", parameters={"net": "a"})
    create(server, "reader", further=FROM_BASE)


def change(server: Embedded) -> None:
    patch(server, "base", parameters={"net": "b"})
    patch(server, "reader", further={"refresh": True})


def work(server: Embedded) -> None:
    read(server)
    change(server)
    server.stacks.delete(CALLER, stack(server, "base"))
    settle(server)
    patch(server, "reader", parameters={"net": "own"})


def victim(database: str) -> None:
    """Do the work. Exits with SURVIVED."""
    count_commits()
    server = begin(database)
    bomb.arm(1, after=False, explode=pause)
    work(server)
    os._exit(SURVIVED)


def prepare(database: str, _files: str) -> None:
    """Have a stack read of another, in a process that leaves no connection behind."""
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database)
    read(server)
    server.close()
    os._exit(0)


def changed(database: str, _files: str, commits: int, lease: float = 1e9) -> None:
    """Change the value and read it again, and die before the chosen commit."""
    server = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    change(server)
    os._exit(SURVIVED)
