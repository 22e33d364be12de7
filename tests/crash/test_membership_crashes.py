"""Kills at each write of a leave and of a join.

The victims are an API process, and an engine that waits for lifecycle hooks.
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.store.records import StackRecord
from tests.crash.api_victim import ask
from tests.crash.copies import MAX_COMMITS, copier, kill_at_commits
from tests.crash.fast_engine import LEASE, start
from tests.crash.group_victim import GROUP, HOOKS, LEAVERS, MEMBERS, leaver, prepare_hooks
from tests.crash.scenarios import create, file, settle, stack_of, template
from tests.crash.test_every_write_of_the_api import MAX_WRITES, Servers, find, servers  # noqa: F401 - the fixture
from tests.crash.victim import SURVIVED
from tests.databases import sqlite
from tests.processes import fresh

MEMBER = file("member %index%", slow=0)
GROUPS = template(
    g={"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": MEMBER}},
)


def members(servers: Servers, stack: StackRecord) -> dict[str, str | None]:  # noqa: F811
    """The objects of the group's members, by name."""
    resources = servers.engine.store.resources
    (row,) = resources.of(stack.id)
    found = {one.name: one.physical_id for one in resources.of(row.physical_id or "")}
    size = row.data.get("size")
    assert size is None or size["set"] == len(found)  # type: ignore[index,call-overload]
    return found


def objects(servers: Servers) -> dict[str, str]:  # noqa: F811
    """The files, with their content: no process has made, changed or deleted one."""
    return {path.name: path.read_text() for path in servers.files.iterdir()}


@pytest.mark.slow
@pytest.mark.parametrize("verb", [pytest.param("leave", marks=pytest.mark.thorough), "join"])
def test_killed_at_every_write(verb: str, servers: Servers) -> None:  # noqa: F811
    """Rows, size and definition are as before or as after, and no object is touched."""
    processes = fresh("tests.crash.api_victim")
    for writes in range(1, MAX_WRITES):
        name = f"s{writes}"
        assert servers.ask("POST", "/v1/demo/stacks", {"stack_name": name, "template": GROUPS}) == 201
        servers.settle()
        stack = find(servers, name)
        assert stack is not None
        path, both = f"/v1/demo/stacks/{name}/{stack.id}", members(servers, stack)
        one = {"0": both["0"]}
        body: Any = {"leave": {"members": ["1"]}}
        before, after = both, one
        if verb == "join":
            assert servers.ask("POST", f"{path}/resources/g/actions", body) == 202
            asked: Any = {"members": [{"id": both["1"]}]}
            shown = servers.answer("PATCH", f"{path}/preview?plan=true", {"join": {"resource": "g", **asked}})
            body = {"join": {**asked, "plan_digest": shown["plan"]["digest"]}}
            before, after = one, both
        assert members(servers, stack) == before
        files = objects(servers)
        given = (servers.database, str(servers.hints.folder), "POST", f"{path}/resources/g/actions", body, writes)
        victim = processes.Process(target=ask, args=given)
        victim.start()
        victim.join(240)
        assert victim.exitcode in (-9, SURVIVED), f"write {writes}: exit code {victim.exitcode}"
        seen = members(servers, stack)
        assert seen in (before, after), f"write {writes}"
        if victim.exitcode == SURVIVED:
            assert seen == after
        elif seen == before:
            assert servers.ask("POST", f"{path}/resources/g/actions", body) == 202, "the client asks again"
            assert members(servers, stack) == after
        servers.settle()
        assert objects(servers) == files
        assert servers.ask("PATCH", path, {}) == 202
        servers.settle()
        assert (members(servers, stack), objects(servers)) == (after, files), "the next update changes nothing"
        assert servers.engine.store.inconsistencies(servers.engine.components.clock.now(), 0.0) == []
        if victim.exitcode == SURVIVED:
            assert writes > 2
            return
    pytest.fail("the victim dies for ever")


def recovered(files: Path, database: str, where: str, lease: float = 1e9) -> None:
    """Let a new engine go on: members leave with the end of their action, or stay."""
    server = start(database, lease)
    try:
        settle(server)
        store, (group,) = server.store, server.store.stacks.descendants(stack_of(server))
        found = store.database.read("SELECT id FROM action WHERE inputs LIKE ?", ['%"leave"%'])
        every, rows = {str(number) for number in range(MEMBERS)}, store.resources.of(group.id)
        left = {*LEAVERS} if found else set()
        assert {row.name for row in rows} == every - left, where
        (row,) = store.resources.of(stack_of(server).id)
        assert (row.data.get("size") is not None) == bool(found), where
        if found:
            action = store.actions.get(str(found[0][0]))
            assert action is not None
            assert action.status is ActionStatus.SUCCEEDED, where
            assert {*(action.outputs.removed or {})} == left, where
            assert (group.verb, group.status) == (Verb.UPDATE, Status.COMPLETE), where
        assert [one for one in rows if one.token is not None] == [], where
        made = [one for one in files.iterdir() if one.suffix not in (".lock", ".saved") and one.name != "journal"]
        assert len(made) == MEMBERS, f"{where}: no object goes"
        assert store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


@pytest.mark.slow
def test_killed_at_every_commit_of_a_leave_that_waits(place: Path) -> None:
    files = place / "now" / "files"
    files.mkdir(parents=True)
    server = start(sqlite(place / "now"))
    create(server, template(g=GROUP), environment=HOOKS)
    settle(server)
    server.close()
    kill_at_commits(copier(place), leaver, partial(recovered, files), files, 4)


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("prepared", [prepare_hooks], indirect=True)
def test_killed_at_commits_of_a_leave_that_waits_on_postgresql(place: Path, prepared: Callable[[], str]) -> None:
    files = place / "now" / "files"
    kill_at_commits(prepared, leaver, partial(recovered, files), files, 4, range(1, MAX_COMMITS, 2), LEASE)
