"""Kills at each write and at each commit of a create, an update and an undo.

Acceptance 7, law Z3: definition, action and revision are there together, or none of them is.
"""

import multiprocessing
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest

from heatlite.features.revisions.store.store import RevisionStore
from heatlite.store.records import StackRecord
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.wiring import Embedded
from tests.api.conftest import template, value
from tests.crash.api_victim import ask
from tests.crash.copies import kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.crash.scenarios import settle
from tests.crash.test_every_commit import copies, put_back
from tests.crash.test_every_write_of_the_api import MAX_WRITES, Servers, find
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY, sqlite
from tests.features.revisions.crash.revision_victim import begin, prepare, undo, undone, victim
from tests.processes import fresh

FIRST, SECOND = template(a=value("one")), template(a=value("two"))
THOROUGH = pytest.mark.thorough


def revisions(servers: Servers, stack: StackRecord | None) -> list[tuple[int, str | None, int | None, bool]]:
    """The revisions of a stack, oldest first, and whether each has its action."""
    if stack is None:
        return []
    store = servers.engine.store
    found = store.of(RevisionStore).of_stack(stack.id)
    has_action = [store.actions.get(one.action_id or "") is not None for one in found]
    return [(one.number, one.result, one.undo_of, has) for one, has in zip(found, has_action, strict=True)][::-1]


def document(servers: Servers, stack: StackRecord | None) -> object:
    now = None if stack is None else servers.engine.store.stacks.get(stack.id)
    return None if now is None else servers.engine.store.templates.get(now.template_id).document


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["undo", *(pytest.param(one, marks=THOROUGH) for one in ("create", "update"))])
def test_killed_at_every_write(verb: str) -> None:
    processes = fresh("tests.crash.api_victim")
    with ExitStack() as ends:
        folder = Path(ends.enter_context(TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True)))
        (folder / "files").mkdir()
        servers = Servers(folder, ends)
        for writes in range(1, MAX_WRITES):
            name, ended = f"s{writes}", "SUCCEEDED"
            made: Any = {"stack_name": name, "template": FIRST}
            before: list[tuple[int, str | None, int | None, bool]] = []
            request: tuple[str, str, Any] = ("POST", "/v1/demo/stacks", made)
            after, wanted, known = [(1, ended, None, True)], FIRST, None
            if verb != "create":
                assert servers.ask("POST", "/v1/demo/stacks", made) == 201
                servers.settle()
                stack = find(servers, name)
                assert stack is not None
                path = f"/v1/demo/stacks/{name}/{stack.id}"
                before, known, wanted = after, FIRST, SECOND
                request = ("PUT", path, {"template": SECOND})
                after = [*before, (2, ended, None, True)]
                if verb == "undo":
                    assert servers.ask(*request) == 202
                    servers.settle()
                    before, known, wanted = after, SECOND, FIRST
                    request = ("POST", f"{path}/actions", {"undo": {}})
                    after = [*before, (3, ended, 1, True)]
            assert revisions(servers, find(servers, name)) == before
            arguments = (servers.database, str(servers.hints.folder), *request, writes)
            process = processes.Process(target=ask, args=arguments)
            process.start()
            process.join(240)
            assert process.exitcode in (-9, SURVIVED), f"write {writes}: exit code {process.exitcode}"
            servers.settle()
            stack = find(servers, name)
            found = (revisions(servers, stack), document(servers, stack))
            assert found in ((before, known), (after, wanted)), f"write {writes}"
            if found == (before, known):
                assert process.exitcode != SURVIVED
                assert servers.ask(*request) < 300, "the client asks again"
                servers.settle()
                stack = find(servers, name)
                assert (revisions(servers, stack), document(servers, stack)) == (after, wanted)
            assert servers.engine.store.inconsistencies(servers.engine.components.clock.now(), 0.0) == []
            if process.exitcode == SURVIVED:
                assert writes > 2
                return
    pytest.fail("the victim dies for ever")


@pytest.fixture(scope="module")
def victims() -> multiprocessing.context.ForkServerContext:
    return fresh("tests.features.revisions.crash.revision_victim")


@pytest.mark.slow
def test_killed_at_every_commit(place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    """The newest revision is the stack's definition, and each end is noted."""
    (place / "now").mkdir()
    begin(sqlite(place / "now")).close()
    made = copies(place, victims.Process(target=victim, args=(sqlite(place / "now"),)))
    assert len(made) > 6
    seen = set()
    for copy in made:
        put_back(place, copy)
        server = begin(sqlite(place / "now"))
        try:
            seen |= check(server, copy.name)
        finally:
            server.close()
    assert seen == {1, 2, 3}


def check(server: Embedded, where: str) -> set[int]:
    """Check what a new engine makes of each stack. Returns the numbers of revisions."""
    settle(server)
    store, seen = server.store.of(RevisionStore), set[int]()
    for stack in server.store.stacks.list("demo", StackQuery()):
        found = store.of_stack(stack.id)
        seen.add(len(found))
        assert [one.number for one in found] == [*range(len(found), 0, -1)], where
        assert {one.result for one in found} == {"SUCCEEDED"}, where
        newest, now = store.get(stack.id, found[0].number), server.store.stacks.get(stack.id)
        assert newest is not None and now is not None
        assert (newest.template_id, newest.environment) == (now.template_id, now.environment), where
    assert server.store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    return seen


@pytest.mark.postgresql
@pytest.mark.slow
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
def test_an_undo_killed_at_every_commit_on_postgresql(place: Path, prepared: Callable[[], str]) -> None:
    def recover(database: str, where: str, lease: float) -> None:
        server = start(database, lease)
        try:
            if check(server, where) == {2}:
                undo(server)
            assert check(server, where) == {3}, where
        finally:
            server.close()

    kill_at_commits(prepared, undone, recover, place / "now" / "files", 2, lease=LEASE)
