"""A process whose update takes old objects back, and that dies at a commit."""

import os

from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import StackRequest
from tests.crash.fast_engine import count_transactions, start
from tests.crash.scenarios import CALLER, settle, stack_of, template
from tests.crash.victim import SURVIVED, bomb
from tests.features.guards.crash.guard_victim import anew, group

BEFORE = template(a=anew("one"), g=group("one"))
FAILS: JsonMap = {"type": "OS::Heat::TestResource", "properties": {"fail": True}, "depends_on": ["a", "g"]}
GUARD: JsonMap = {"guard": {"bake": 0, "unknown": "pass"}}
FAILED = template(a=anew("two"), g=group("two"), bad=FAILS)


def update(database: str, files: str, commits: int, lease: float = 1e9) -> None:
    """Go back to the earlier definition, and die before the chosen commit.

    Exits with SURVIVED if that commit is never reached.
    """
    os.environ["EXAMPLE_FILES"] = files
    count_transactions()
    server = start(database, lease)
    bomb.arm(commits, after=False)
    request = StackRequest(template=BEFORE, further=GUARD)
    server.stacks.update(CALLER, stack_of(server), request, existing=False)
    settle(server)
    os._exit(SURVIVED)
