"""A process with an update for later that waits for its approval.

It ends itself at a chosen commit.
"""

import os
from functools import partial
from pathlib import Path
from typing import Any

from heatlite import wiring
from heatlite.core.clock import DAY, to_text
from heatlite.core.config import Settings
from heatlite.wiring import Embedded
from tests.crash.fast_engine import FastClock, count_transactions
from tests.crash.scenarios import file, settle, template
from tests.crash.victim import SURVIVED, bomb
from tests.features.approvals.crash.approval_victim import client
from tests.waiting import eventually

ENDED = ("SUCCEEDED", "FAILED", "CANCELLED")


class LaterClock(FastClock):
    """Is two days ahead once its time has come, in all processes."""

    ahead = 0.0

    def __init__(self) -> None:
        self._mark = Path(os.environ["EXAMPLE_FILES"]).with_name("later")
        self.ahead = 2 * DAY if self._mark.exists() else 0.0

    def now(self) -> float:
        return super().now() + self.ahead

    def come(self) -> None:
        """Let the time come."""
        self._mark.touch()
        self.ahead = 2 * DAY


def start(database: str, lease: float) -> tuple[Embedded, LaterClock]:
    clock = LaterClock()
    return wiring.embedded(Settings(database=database, lease_seconds=lease), clock=clock), clock


def go(server: Embedded, clock: LaterClock, is_decided: bool) -> None:
    """Ask for the update, have it approved if it is to be, and let its time come.

    Leaves out what is done.
    """
    heat, path = client(server)
    if not heat.get("/approvals")["approvals"]:
        made: dict[str, Any] = {"template": template(b=file("b", slow=0))}
        made["plan_digest"] = heat.call("PATCH", f"{path}/preview?plan=true", made, 200).json["plan"]["digest"]
        body = {"update": {**made, "not_before": to_text(clock.now() + DAY)}}
        heat.call("POST", f"{path}/actions?approval=wait", body, code=202)
    (found,) = heat.get("/approvals")["approvals"]
    if is_decided and found["state"] == "PENDING":
        heat.call("POST", f"/approvals/{found['id']}/approve", {"digest": found["digest"]}, code=202)
    clock.come()
    of_action = f"/actions/{found['action_id']}"
    eventually(lambda: heat.get(of_action)["action"]["status"] in ENDED, "the request has ended")
    settle(server)


def victim(is_decided: bool, database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Do it, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    server, clock = start(database, lease)
    count_transactions()
    bomb.arm(commits, after=False)
    go(server, clock, is_decided)
    os._exit(SURVIVED)


VICTIMS = {is_decided: partial(victim, is_decided) for is_decided in (True, False)}
