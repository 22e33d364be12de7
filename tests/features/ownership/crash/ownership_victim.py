"""A process that gives objects up and takes them back, and dies at a commit."""

import os
from pathlib import Path
from typing import Any

from msgspec import convert

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.state.group_requests import Joining, JoinRequest, Leave
from heatlite.features.ownership.bodies import DetachRequest, ImportRequest
from heatlite.features.ownership.detaching import Detachments
from heatlite.features.ownership.importing import Imports
from heatlite.features.simulator.cloud import SimulatedCloud
from heatlite.wiring import Embedded
from tests.crash.fast_engine import LEASE, FastClock, count_transactions
from tests.crash.scenarios import CALLER, create, settle, stack_of, template, value
from tests.crash.victim import SURVIVED, bomb
from tests.databases import whole

NET = "OS::Neutron::Net"
MEMBERS = 2
GROUP = {"type": "OS::Heat::ResourceGroup", "properties": {"count": MEMBERS, "resource_def": {"type": NET}}}
STACK = template(net={"type": NET}, own=value("v"), g=GROUP)


def start(database: str, files: str, lease: float = 1e9) -> Embedded:
    """Start an engine with a simulated cloud in a file, whatever the database is."""
    wiring.cloud_provider = lambda given, _: SimulatedCloud(given, Path(files) / "own.db")
    return wiring.embedded(Settings(database=database, lease_seconds=lease, cloud="simulated"), clock=FastClock())


def prepare(database: str, files: str) -> None:
    """Make the stack, in a process that leaves no connection behind."""
    store = whole(database)
    store.upgrade()
    store.close()
    server = start(database, files, LEASE)
    create(server, STACK)
    settle(server)
    server.close()
    os._exit(0)


def victim(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Detach, import, leave and join, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    count_transactions()
    server = start(database, files, lease)
    members = server.store.stacks.descendants(stack_of(server))[0].id
    bomb.arm(commits, after=False)
    work(server, members)
    settle(server)
    os._exit(SURVIVED)


def work(server: Embedded, members: str) -> None:
    """Give up a network and a member, and take each back."""
    core, rows = server.components, server.store.resources
    (net,) = rows.by_name(stack_of(server).id, ["net"])
    detaching, asked = core.of(Detachments), {"resources": ["net"]}
    digest = detaching.plan(CALLER, stack_of(server), convert(asked, DetachRequest)).digest
    detaching.start(CALLER, stack_of(server), convert({**asked, "plan_digest": digest}, DetachRequest), {})
    importing, body = core.of(Imports), {"resources": {"net": {"type": NET, "id": net.physical_id}}}
    digest = importing.plan(CALLER, stack_of(server), convert(body, ImportRequest)).digest
    importing.start(CALLER, stack_of(server), convert({**body, "plan_digest": digest}, ImportRequest), {})
    (member,) = rows.by_name(members, ["1"])
    core.leaving.leave(CALLER, stack_of(server), "g", Leave(("1",)))
    settle(server)
    given: Any = (Joining(id=member.physical_id),)
    digest = core.joins.plan(CALLER, stack_of(server), "g", JoinRequest(given)).digest
    core.joins.join(CALLER, stack_of(server), "g", JoinRequest(given, plan_digest=digest))
