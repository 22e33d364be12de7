"""Kills of restricted updates and of deletions that retain (laws D5–D9)."""

import multiprocessing
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest

from heatlite.core.status import Status, Verb, state
from heatlite.wiring import Embedded
from tests.crash.copies import MAX_COMMITS, kill_at_commits, prepared  # noqa: F401
from tests.crash.fast_engine import LEASE, start
from tests.crash.parts_victim import VICTIMS, prepare
from tests.crash.scenarios import CREATED, SCENARIOS, nothing, stack_of
from tests.crash.test_every_commit import kill_at_every_commit, place, recover_by, victims  # noqa: F401
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


def rest_rolled_back(server: Embedded) -> None:
    """The stack is as restricted as before, with the same objects and their values."""
    stack = stack_of(server)
    rows = {row.name: row for row in server.store.resources.of(stack.id)}
    assert stack.restricted is not None and stack.restricted.reached
    assert {*stack.restricted.left_out} == {"c", "gone", "new", "quick"}
    assert rows.keys() == {"a", "b", "c", "gone", "quick"}
    assert rows["gone"].verb is Verb.CREATE
    assert rows["quick"].properties["value"] == "q"


@pytest.mark.slow
def test_killed_at_every_commit_of_a_rollback_of_the_rest(
    place: Path, victims: multiprocessing.context.ForkServerContext  # noqa: F811 - the fixtures
) -> None:
    name = "update of the rest, rolled back"
    kill_at_every_commit(place, victims, run, name, SCENARIOS[name], rest_rolled_back)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["replacement that is asked for", "delete that retains"])
def test_killed_at_every_commit_of_others(
    name: str, place: Path, victims: multiprocessing.context.ForkServerContext  # noqa: F811 - the fixtures
) -> None:
    kill_at_every_commit(place, victims, run, name, SCENARIOS[name])


LOOKS = {
    "update of a part": looked,
    "update of a part, rolled back": rolled_back,
    "update of the rest, rolled back": rest_rolled_back,
}
"""The checks of scenarios after a kill."""


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
@pytest.mark.parametrize("name", VICTIMS)
@pytest.mark.parametrize(
    "commits", [range(2, MAX_COMMITS, 3), pytest.param(range(1, MAX_COMMITS), marks=pytest.mark.thorough)]
)
def test_killed_at_commits_on_postgresql(
    name: str, place: Path, prepared: Callable[[], str], commits: Iterable[int]  # noqa: F811 - the fixtures
) -> None:
    """Every third commit, if not in a thorough run: on SQLite it is each."""

    def recover(database: str, _where: str, lease: float) -> None:
        recover_by(start(database, lease), place, SCENARIOS[name], LOOKS.get(name, nothing))

    kill_at_commits(prepared, VICTIMS[name], recover, place / "now" / "files", 4, commits, LEASE)
