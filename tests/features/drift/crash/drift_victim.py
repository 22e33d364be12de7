"""Process that finds drift, or puts it back. It stands still before each commit."""

import json
import os
from pathlib import Path

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.features.drift.reverting import Reverting, RevertRequest
from heatlite.wiring import Embedded
from tests.crash.scenarios import CALLER, create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb, count_commits, pause

ROOT, NESTED = 44, 6
PATHS = sorted([*(f"r{n}" for n in range(ROOT)), *(f"n/r{n}" for n in range(NESTED))])


def files(count: int) -> dict[str, object]:
    return template(**{f"r{n}": file("as stored", slow=0) for n in range(count)})


def prepare(server: Embedded, folder: Path) -> None:
    """Make a stack of files, and change each file from outside."""
    child = json.dumps(files(NESTED))
    document = files(ROOT)
    document["resources"] = {**document["resources"], "n": {"type": "child.yaml"}}  # type: ignore[dict-item]
    create(server, document, files={"child.yaml": child})
    settle(server)
    for path in folder.iterdir():
        if path.name != "journal":
            path.write_text("changed")


def check(server: Embedded) -> None:
    server.stacks.check(CALLER, stack_of(server))
    settle(server)


def revert(server: Embedded) -> None:
    """Put back all that is drifted."""
    Reverting(server.store, server.components.repairs).revert(CALLER, stack_of(server), RevertRequest(), {})
    settle(server)


def victim(database: str, folder: str, reverts: bool) -> None:
    """Check the stack, or put its drift back. Exits with SURVIVED."""
    os.environ["EXAMPLE_FILES"] = folder
    count_commits()
    server = wiring.embedded(Settings(database=database))
    bomb.arm(1, after=False, explode=pause)
    (revert if reverts else check)(server)
    os._exit(SURVIVED)
