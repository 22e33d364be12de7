"""Kills of restricted updates and of deletions that retain (laws D5–D9)."""

import multiprocessing
from pathlib import Path

import pytest

from heatlite.core.status import Status, Verb, state
from heatlite.wiring import Embedded
from tests.crash.scenarios import CREATED, SCENARIOS, stack_of
from tests.crash.test_every_commit import kill_at_every_commit, place, victims  # noqa: F401
from tests.crash.victim import run


def looked(server: Embedded) -> None:
    """Nothing has touched what was left out, and the stack says so."""
    stack = stack_of(server)
    rows = {row.name: row for row in server.store.resources.of(stack.id)}
    if state(stack.verb, stack.status) == CREATED or stack.verb is Verb.ROLLBACK:
        assert stack.restricted is None
        assert rows.keys() == {"a", "b", "c", "gone", "quick"}
        assert rows["a"].properties["content"] == "a"
    else:
        assert (stack.verb, stack.status) == (Verb.UPDATE, Status.COMPLETE)
        assert stack.restricted is not None and stack.restricted.reached
        assert {*stack.restricted.left_out} == {"c", "gone", "new", "quick"}
        assert rows.keys() == {"a", "b", "c", "gone", "quick"} and rows["a"].properties["content"] == "changed"
    assert rows["quick"].properties["value"] == "q"
    assert {rows[name].verb for name in ("c", "gone", "quick")} <= {Verb.CREATE}
    assert server.store.inconsistencies(server.components.clock.now(), 0.0) == []


@pytest.mark.slow
def test_killed_at_every_commit_of_an_update_of_a_part(
    place: Path, victims: multiprocessing.context.ForkServerContext  # noqa: F811 - the fixtures
) -> None:
    kill_at_every_commit(place, victims, run, "update of a part", SCENARIOS["update of a part"], looked)


def rolled_back(server: Embedded) -> None:
    """Nothing is left out after a rollback, and what was left out was not touched."""
    stack = stack_of(server)
    rows = {row.name: row for row in server.store.resources.of(stack.id)}
    assert stack.restricted is None
    assert rows.keys() == {"a", "b", "c", "gone", "quick"}
    assert {rows[name].verb for name in ("gone", "quick")} == {Verb.CREATE}


@pytest.mark.slow
def test_killed_at_every_commit_of_its_rollback(
    place: Path, victims: multiprocessing.context.ForkServerContext  # noqa: F811 - the fixtures
) -> None:
    name = "update of a part, rolled back"
    kill_at_every_commit(place, victims, run, name, SCENARIOS[name], rolled_back)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replacement that is asked for", "delete that retains"])
def test_killed_at_every_commit_of_others(
    name: str, place: Path, victims: multiprocessing.context.ForkServerContext  # noqa: F811 - the fixtures
) -> None:
    kill_at_every_commit(place, victims, run, name, SCENARIOS[name])
