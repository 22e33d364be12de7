"""Kills of the engine before and after every commit; a new one finishes the work.

No object may be left that no row knows, and none may have been made twice.
"""

import json
import multiprocessing
import os
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.errors import DeletionProtected
from heatlite.core.status import ActionStatus, LockLevel, Status, Verb, state
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.nodes.transitions import EVENT
from heatlite.store.stacks.events import EventQuery
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load_mapping
from heatlite.wiring import Embedded
from tests.crash.scenarios import CALLER, SCENARIOS, lock, record_path, runs, settle, stack_of, update
from tests.crash.victim import SURVIVED, run
from tests.databases import MEMORY, sqlite
from tests.processes import fresh
from tests.thorough import FULL

MAX_COMMITS = 60
"""More than any scenario has; a victim that still dies there has lost its way."""


@pytest.fixture(scope="module")
def victims() -> multiprocessing.context.ForkServerContext:
    """Processes that start quickly because everything is imported once."""
    return fresh("tests.crash.victim")


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The place of database and files, with constant file names.

    A killed process leaves the same in memory as on a disk.
    """
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("EXAMPLE_FILES", str(Path(folder) / "now" / "files"))
        yield Path(folder)


def start(place: Path) -> Embedded:
    return wiring.embedded(Settings(database=sqlite(place / "now")))


def objects(place: Path) -> set[str]:
    """Objects in the cloud."""
    files = place / "now" / "files"
    return {str(path) for path in files.iterdir() if path.name != "journal" and path.suffix not in (".lock", ".saved")}


def look_for_orphans(server: Embedded, place: Path) -> None:
    """Rows and cloud agree, and nothing was made twice."""
    stacks = server.store.stacks.list("demo", StackQuery(show_nested=True))
    assert {stack.parent_id for stack in stacks} - {stack.id for stack in stacks} <= {None}
    rows = [row for stack in stacks for row in server.store.resources.of(stack.id)]
    assert not [row for row in rows if row.status is Status.IN_PROGRESS]
    known = {row.physical_id for row in rows if row.mapped_type == "Example::Local::File"}
    assert objects(place) == known - {None}
    journal = place / "now" / "files" / "journal"
    made = journal.read_text().split() if journal.exists() else []
    assert len(made) == len(set(made))
    look_for_orphaned_software(server)


def look_for_orphaned_software(server: Embedded) -> None:
    """Each config and deployment belongs to a row, or was given to a server by one."""
    stacks = server.store.stacks.list("demo", StackQuery(show_nested=True))
    known = {row.physical_id for stack in stacks for row in server.store.resources.of(stack.id)}
    deployments = server.store.software_deployments.list("demo")
    assert {one.id for one in deployments} <= known
    configs = {one.id for one in server.store.software_configs.list("demo", None, None)}
    assert {one.config_id for one in deployments} <= configs <= known | {one.config_id for one in deployments}


def look_for_lost_snapshots(server: Embedded, place: Path) -> None:
    """Snapshots know exactly the saved objects."""
    snapshots = server.store.snapshots.of(stack_of(server).id)
    assert not [snapshot for snapshot in snapshots if snapshot.status is Status.IN_PROGRESS]
    records: list[Any] = [snapshot.data for snapshot in snapshots]
    kept = [entry["resource_data"] for record in records for entry in record["resources"].values()]
    known = {data["saved"] for data in kept if "saved" in data}
    assert {str(path) for path in (place / "now" / "files").glob("*.saved")} == known


def look_for_repeated_hooks(server: Embedded) -> None:
    """No hook has stopped a resource twice, or was passed without having been cleared."""
    nested = [one.id for one in server.store.stacks.descendants(stack_of(server))]
    events = server.store.events.list(stack_of(server).id, EventQuery(sort_dir="asc"), nested)
    told = [(event.stack_id, event.resource_name, event.status_reason) for event in events]
    texts = [one for one in told if "Hook" in one[2]]
    assert len(texts) == len(set(texts))
    reached = {(stack, name, text.split()[4]) for stack, name, text in texts if " paused " in text}
    assert reached == {(stack, name, text.split()[1]) for stack, name, text in texts if " paused " not in text}


def look_for_repeated_events(server: Embedded) -> None:
    """The last operation reported each state once; nested stacks had one action each.

    Not of updates of nested stacks, of which a group asks for several.
    """
    root = stack_of(server)
    events = server.store.events.list(
        root.id, EventQuery(sort_dir="asc"), [one.id for one in server.store.stacks.descendants(root)]
    )
    begins = [at for at, one in enumerate(events) if one.physical_id == root.id and one.status == "IN_PROGRESS"]
    told = [
        (one.stack_id, one.resource_name, one.physical_id, one.verb, one.status)
        for one in events[begins[-1] if begins else 0 :]
        if one.verb not in ("SIGNAL", Verb.PLAYBOOK, EVENT) and "Hook" not in one.status_reason
    ]
    told = [one for one in told if not (one[2] == one[0] and one[3] == Verb.UPDATE)]
    assert [one for one in set(told) if told.count(one) > 1] == []


def look_for_lost_runs(server: Embedded) -> None:
    """Each run of a playbook was approved and ended once, as its node actions were."""
    for one in runs(server):
        moves = [move.after for move in server.store.actions.history(one.id)]
        assert moves == [ActionStatus.WAITING, one.status]
        told = server.store.events.list(one.stack_id, EventQuery(sort_dir="asc"))
        assert len([event for event in told if event.verb == Verb.PLAYBOOK]) == 2
        steps: dict[str, list[str]] = {}
        for event in told:
            if event.verb == EVENT and event.physical_id is not None:
                steps.setdefault(event.physical_id, []).append(event.status)
        for action in server.store.of(NodeStore).node_actions.of_run(one.id):
            assert action.has_ended
            assert len(steps[action.id]) == len(set(steps[action.id])), "nothing is done twice"
            assert (one.status is ActionStatus.CANCELLED) >= (action.state is NodeActionState.CANCELLED)
        assert server.store.inconsistencies(server.components.clock.now(), 0.0) == []


def recover(place: Path, name: str) -> None:
    """A new engine on the state of the dead one finishes, and the stack goes on."""
    scenario = SCENARIOS[name]
    server = start(place)
    try:
        scenario.retry(server)
        settle(server)
        if not server.store.stacks.list("demo", StackQuery(show_deleted=True)):
            assert scenario.before == "" and not objects(place), "the request was never accepted"
            return
        stack = stack_of(server)
        assert state(stack.verb, stack.status) in {*scenario.ends, scenario.before}
        look_for_repeated_hooks(server)
        look_for_repeated_events(server)
        if scenario.gives_away and stack.deleted_at is not None:
            assert len(objects(place)) == 3, "the objects of the first template"
            return
        look_for_orphans(server, place)
        look_for_lost_snapshots(server, place)
        look_for_lost_runs(server)
        look_at_protection(server)
        look_at_locks(server, place)
        if stack.lock is not None:
            lock(server, LockLevel.STACKS)
            settle(server)
            look_at_locks(server, place)
        for locked in (stack, *server.store.stacks.descendants(stack)):
            if locked.lock is not None:
                server.components.maintenance.unlock(CALLER, locked)
                settle(server)
                look_at_locks(server, place)
        assert not locks(place)
        if stack.verb is Verb.SUSPEND:
            server.stacks.resume(CALLER, stack)
            settle(server)
        if stack.deleted_at is None:
            live_on(server, place)
    finally:
        server.close()


def look_at_protection(server: Embedded) -> None:
    """After success all is protected that the environment names, reported once each."""
    root = stack_of(server)
    environments = {root.id: Environment.parse(load_mapping(root.environment, "environment", "Environment"))}
    nested = server.store.stacks.descendants(root)
    for stack in (root, *nested):
        if stack.id not in environments:
            above = environments[stack.parent_id or ""]
            environments[stack.id] = above.within(stack.parent_resource or "")
        for row in server.store.resources.of(stack.id):
            if environments[stack.id].protection(row.name) is not None and root.status is Status.COMPLETE:
                assert row.protection is not None, row.name
    if root.verb is Verb.ADOPT and root.status is Status.COMPLETE:
        entries = json.loads(record_path().read_text())["resources"]
        held = {row.name for row in server.store.resources.of(root.id) if row.protection is not None}
        assert held == {name for name, entry in entries.items() if entry["protection"] is not None}
    events = server.store.events.list(root.id, EventQuery(sort_dir="asc"), [one.id for one in nested])
    told = [(event.stack_id, event.physical_id) for event in events if event.verb == "PROTECT"]
    assert len(told) == len(set(told))


def lift_protection(server: Embedded) -> None:
    """Unprotect whatever is protected."""
    root = stack_of(server)
    for stack in (root, *server.store.stacks.descendants(root)):
        for name in (None, *sorted({row.name for row in server.store.resources.of(stack.id)})):
            server.components.protection.unprotect(CALLER, stack, name, None)


def look_at_locks(server: Embedded, place: Path) -> None:
    """Stacks are locked by own or inherited locks, objects by locks of that depth."""
    held: set[str | None] = set()
    root = stack_of(server)
    for stack in (root, *server.store.stacks.descendants(root)):
        found = [one.lock.level for one in (stack, *server.store.stacks.ancestors(stack)) if one.lock is not None]
        if stack.deleted_at is None:
            assert (state(stack.verb, stack.status) == "LOCK_COMPLETE") == bool(found)
        if LockLevel.ALL in found:
            rows = server.store.resources.of(stack.id)
            held |= {row.physical_id for row in rows if row.mapped_type == "Example::Local::File"}
    assert {path.removesuffix(".lock") for path in locks(place)} == held


def locks(place: Path) -> set[str]:
    return {str(path) for path in (place / "now" / "files").glob("*.lock")}


def live_on(server: Embedded, place: Path) -> None:
    """An update and a delete still work."""
    failing = stack_of(server).status is Status.FAILED
    update(server, None)
    settle(server)
    assert stack_of(server).status is (Status.FAILED if failing else Status.COMPLETE)
    look_for_orphans(server, place)
    look_at_protection(server)
    protected = [row.id for row in server.store.resources.of(stack_of(server).id) if row.protection is not None]
    if protected:
        with pytest.raises(DeletionProtected):
            server.stacks.delete(CALLER, stack_of(server))
    lift_protection(server)
    server.stacks.delete(CALLER, stack_of(server))
    settle(server)
    stack = stack_of(server)
    assert state(stack.verb, stack.status) == state(Verb.DELETE, Status.COMPLETE)
    assert not objects(place)
    look_for_orphaned_software(server)
    look_for_lost_snapshots(server, place)


@pytest.mark.share(1, whole=3)
@pytest.mark.parametrize("name", SCENARIOS if FULL else ["update"])
def test_killed_at_every_commit(name: str, place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    """Before a commit means after the one before and the handlers in between."""
    (place / "now" / "files").mkdir(parents=True)
    server = start(place)
    SCENARIOS[name].prepare(server)
    server.close()
    shutil.copytree(place / "now", place / "prepared")
    for commit in range(1, MAX_COMMITS):
        shutil.rmtree(place / "now")
        shutil.copytree(place / "prepared", place / "now")
        files = os.environ["EXAMPLE_FILES"]
        victim = victims.Process(target=run, args=(sqlite(place / "now"), files, name, commit))
        victim.start()
        victim.join(240)
        assert victim.exitcode in (-9, SURVIVED), f"commit {commit}: exit code {victim.exitcode}"
        recover(place, name)
        if victim.exitcode == SURVIVED:
            assert commit > 2
            return
    pytest.fail("the victim dies for ever")
