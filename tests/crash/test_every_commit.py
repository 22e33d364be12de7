"""Kills of the engine before and after every commit; a new one finishes the work.

No object may be left that no row knows, and none may have been made twice. One run stands still before each commit: a
copy of its files is what a kill there leaves.
"""

import json
import multiprocessing
import os
import shutil
import signal
import tempfile
from collections.abc import Callable, Iterator
from contextlib import suppress
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.errors import DeletionProtected
from heatlite.core.status import LockLevel, Status, Verb, state
from heatlite.store.stacks.events import EventQuery
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load_mapping
from heatlite.wiring import Embedded
from tests.crash.scenarios import CALLER, SCENARIOS, Scenario, lock, nothing, record_path, settle, stack_of, update
from tests.crash.victim import SURVIVED, run
from tests.databases import MEMORY, sqlite
from tests.processes import fresh, stands_still
from tests.tables import sampled
from tests.waiting import eventually


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


def copies(place: Path, victim: BaseProcess) -> list[Path]:
    """Copy what is there before each commit of a process, and at its end.

    The process pauses before each.
    """
    found: list[Path] = []

    def copy() -> None:
        found.append(place / f"copy-{len(found) + 1}")
        shutil.copytree(place / "now", found[-1])

    victim.start()
    process = victim.pid
    assert process is not None
    while True:
        eventually(lambda: not victim.is_alive() or stands_still(process), "it pauses or ends")
        if not victim.is_alive():
            break
        copy()
        with suppress(ProcessLookupError):  # it has just ended
            os.kill(process, signal.SIGCONT)
    victim.join(240)
    assert victim.exitcode == SURVIVED
    copy()
    return found


def put_back(place: Path, copy: Path) -> None:
    """Put a copy where the files were: rows name them by their paths."""
    shutil.rmtree(place / "now")
    copy.rename(place / "now")


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
        if one.verb not in ("SIGNAL", "NODE_ACTION", Verb.RUN) and "Hook" not in one.status_reason
    ]
    told = [one for one in told if not (one[2] == one[0] and one[3] == Verb.UPDATE)]
    assert [one for one in set(told) if told.count(one) > 1] == []


def recover(place: Path, scenario: Scenario, look: Callable[[Embedded], None] = nothing) -> None:
    """A new engine on the state of the dead one finishes, and the stack goes on.

    `look` checks more of it.
    """
    recover_by(start(place), place, scenario, look)


def recover_by(server: Embedded, place: Path, scenario: Scenario, look: Callable[[Embedded], None] = nothing) -> None:
    """Do as `recover` with an engine that has started."""
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
        look(server)
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


@pytest.mark.parametrize("name", sampled(SCENARIOS, 3, pytest.mark.thorough))
def test_killed_at_every_commit(name: str, place: Path, victims: multiprocessing.context.ForkServerContext) -> None:
    """Before a commit means after the one before and the handlers in between."""
    kill_at_every_commit(place, victims, run, name, SCENARIOS[name])


def kill_at_every_commit(
    place: Path,
    victims: multiprocessing.context.ForkServerContext,
    run: Callable[[str, str, str], None],
    name: str,
    scenario: Scenario,
    look: Callable[[Embedded], None] = nothing,
) -> None:
    """Recover from a kill before each commit of `run`, which does a scenario."""
    (place / "now" / "files").mkdir(parents=True)
    server = start(place)
    scenario.prepare(server)
    server.close()
    words = (sqlite(place / "now"), os.environ["EXAMPLE_FILES"], name)
    made = copies(place, victims.Process(target=run, args=words))
    assert len(made) > 2
    for copy in made:
        put_back(place, copy)
        recover(place, scenario, look)
