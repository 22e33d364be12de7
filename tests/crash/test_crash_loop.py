"""An action that kills its engines ends FAILED; its neighbours succeed."""

import multiprocessing
import os
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.status import ActionStatus, Status, state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.wiring import Embedded
from tests.crash.scenarios import CALLER, file, odd, settle, stack_of, template
from tests.crash.test_every_commit import objects, place, start, victims
from tests.crash.victim import SURVIVED, live
from tests.databases import sqlite

__all__ = ["place", "victims"]

LIMIT = 2
REASON = (
    "Taken over 2 times without progress: each engine that carried it out ended or froze."
    " Fix the cause, then retry or delete the stack."
)


def states(server: Embedded) -> dict[str, str]:
    found = server.store.stacks.list("demo", StackQuery())
    return {stack.name: state(stack.verb, stack.status) for stack in found}


@pytest.mark.slow
@pytest.mark.parametrize("rollback", [False, True])
def test_it_ends(place: Path, victims: multiprocessing.context.ForkServerContext, rollback: bool) -> None:
    (place / "now" / "files").mkdir(parents=True)
    database = sqlite(place / "now")
    server = wiring.api(Settings(database=database))
    lethal = template(first=file(slow=0.5), waits=file(slow=60), boom=odd("Lethal", depends_on="first"))
    server.stacks.create(CALLER, StackRequest(name="lethal", template=lethal, disable_rollback=not rollback))
    server.stacks.create(CALLER, StackRequest(name="well", template=template(waits=file(slow=2))))
    server.close()
    codes = []
    while not codes or codes[-1] != SURVIVED:
        assert len(codes) <= LIMIT + 1, codes
        victim = victims.Process(target=live, args=(database, os.environ["EXAMPLE_FILES"], LIMIT))
        victim.start()
        victim.join(240)
        codes.append(victim.exitcode or 0)
    assert codes == [-9] * (LIMIT + 1) + [SURVIVED]
    server = start(place)
    try:
        assert states(server) == {"lethal": "CREATE_FAILED", "well": "CREATE_COMPLETE"}
        (found,) = server.store.stacks.list("demo", StackQuery(filters={"name": ["lethal"]}))
        stack = server.store.stacks.get(found.id)
        assert stack is not None
        assert stack.status_reason == REASON
        rows = {row.name: row for row in server.store.resources.of(stack.id)}
        assert rows["first"].status is Status.COMPLETE
        assert {row.name: row.status_reason for row in rows.values() if row.status is Status.FAILED} == {
            "waits": REASON, "boom": REASON,
        }  # fmt: skip
        (action_id,), *_ = server.store.database.read(f"SELECT id FROM action WHERE stack_id = '{stack.id}'")
        pauses = [one for one in server.store.actions.history(action_id) if one.after is ActionStatus.READY]
        assert len(pauses) == LIMIT + 1  # one is the request
        assert not server.store.inconsistencies(server.components.clock.now(), 0.0)
        server.stacks.delete(CALLER, stack)
        settle(server)
        assert states(server) == {"well": "CREATE_COMPLETE"}
        assert len(objects(place)) == 1
    finally:
        server.close()


def test_a_cancel_breaks_it(place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    """The call that has ended the engine is not made again."""
    (place / "now" / "files").mkdir(parents=True)
    database = sqlite(place / "now")
    server = wiring.api(Settings(database=database))
    server.stacks.create(CALLER, StackRequest(name="lethal", template=template(boom=odd("Lethal"))))
    server.close()
    codes = []
    for _ in range(2):
        victim = victims.Process(target=live, args=(database, os.environ["EXAMPLE_FILES"], LIMIT))
        victim.start()
        victim.join(240)
        codes.append(victim.exitcode)
        server = wiring.api(Settings(database=database))
        stack = stack_of(server)
        if victim.exitcode == -9:
            server.stacks.cancel(CALLER, stack, rollback=False)
        server.close()
    assert codes == [-9, SURVIVED]
    assert (state(stack.verb, stack.status), stack.status_reason) == ("CREATE_FAILED", "Stack CREATE cancelled")
