"""A process with marks that share a commit; it dies before or after that commit."""

import os
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from falcon.testing import TestClient

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.operations.health_marks import MARKED as WRITTEN
from tests.crash.scenarios import stack_of, template, value
from tests.crash.victim import SURVIVED, bomb, count_commits

TEMPLATE = template(**{name: value(name) for name in "abcd"})
MARKED = ["a", "b", "missing", "c", "d"]
"""Resources that are marked, in this order. One of them does not exist."""


def run(database: str, answered: Path, after: bool, commits: int) -> None:
    """Mark the resources in one shared transaction, and die at a commit.

    The first commit counted is that of the marks. Notes each answer in a file.
    """
    count_commits()
    server = wiring.embedded(Settings(database=database))
    store = server.store
    stack = stack_of(server)
    client = TestClient(server.app, headers={"Host": "127.0.0.1"})

    def mark(name: str) -> None:
        store.database.use_request_limits()
        path = f"/v1/demo/stacks/{stack.name}/{stack.id}/resources/{name}"
        code = client.simulate_patch(path, json={"mark_unhealthy": True}).status_code
        with answered.open("a") as file:
            file.write(f"{name} {code}\n")

    with ThreadPoolExecutor(len(MARKED)) as pool, store.transaction():
        for number, name in enumerate(MARKED):
            pool.submit(mark, name)
            while len(store.database._turns._line) <= number:
                time.sleep(0.001)
        bomb.arm(commits, after, fuse=WRITTEN.format("unhealthy"))
    os._exit(SURVIVED)
