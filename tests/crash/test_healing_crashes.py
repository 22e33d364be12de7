"""The engine is killed at every commit between a report and the end of its repair; a new one then finishes the work.

No decision may be repeated or lost: one object is made, one is deleted, and one repair is recorded.
"""

import json
import multiprocessing
import shutil
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.core.healing import ClosedAs, IncidentState, RepairResult
from heatlite.core.status import Verb
from heatlite.healing.policy import VERSION
from heatlite.store.healing.records import HealingPolicyRecord, IncidentRecord, ObservationRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store
from tests.crash.healing_victim import FastClock, heal, start, victim
from tests.crash.scenarios import create, file, settle, stack_of, template
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY, sqlite

MAX_COMMITS = 80
GROUP = {
    "type": "OS::Heat::ResourceGroup",
    "properties": {"count": 3, "resource_def": file("member %index%", slow=0)},
}


@pytest.fixture
def place(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Folder of the database and of the objects."""
    with tempfile.TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True) as folder:
        monkeypatch.setenv("EXAMPLE_FILES", str(Path(folder) / "now" / "files"))
        yield Path(folder)


def report(store: Store, stack_id: str, group_id: str) -> None:
    """Put a policy, and an incident as the intake writes it."""
    (row,) = [row for row in store.resources.of(group_id) if row.name == "1"]
    now = FastClock().now()
    document = {
        "healing_policy": VERSION, "mode": "auto", "grace": 0, "confirm": {"hold": 0}, "cooldown": 0, "min_healthy": 0,
        "ladder": [{"step": "replace", "settle": 1}],
    }  # fmt: skip
    incident = IncidentRecord(
        "i", "demo", "alertmanager", stack_id, group_id, "g/1", "g/1", "g", row.id, row.physical_id or "",
        IncidentState.OBSERVED, now, now, evidence_since=now, due=now, summary="down",
    )  # fmt: skip
    with store.transaction():
        store.healing_policies.put(HealingPolicyRecord(stack_id, document, 1, "ann", now))  # type: ignore[arg-type]
        store.incidents.insert_many([incident])
        store.observations.insert_many(
            [ObservationRecord("o", "demo", "alertmanager", "k", now, now, now, incident_id="i")]
        )


def sweep_noted(database: str) -> None:
    """Note a sweep: the copy is older than the gap after which the loop asks for new evidence."""
    store = Store.open(database)
    with store.transaction():
        store.healing_sweeps.swept(FastClock().now(), store.healing_sweeps.last())
    store.close()


@pytest.mark.full
@pytest.mark.parametrize("after", [False, True])
def test_killed_at_every_commit_of_a_repair(after: bool, place: Path) -> None:
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["tests.crash.healing_victim"])
    files = place / "now" / "files"
    files.mkdir(parents=True)
    database = sqlite(place / "now")
    server = start(database)
    create(server, template(g=GROUP, other=file("other", slow=0)))
    settle(server)
    root = stack_of(server)
    (group,) = server.store.stacks.descendants(root)
    server.close()
    store = Store.open(database)
    report(store, root.id, group.id)
    store.close()
    shutil.copytree(place / "now", place / "prepared")
    for commit in range(1, MAX_COMMITS):
        shutil.rmtree(place / "now")
        shutil.copytree(place / "prepared", place / "now")
        sweep_noted(database)
        process = context.Process(target=victim, args=(database, str(files), commit, after))
        process.start()
        process.join(60)
        assert process.exitcode in (-9, SURVIVED), f"commit {commit}: exit code {process.exitcode}"
        recover(database, place, f"commit {commit}")
        if process.exitcode == SURVIVED:
            assert commit > 6
            return
    pytest.fail("the victim dies for ever")


def recover(database: str, place: Path, where: str) -> None:
    """A new engine leads the incident to its end, once."""
    server = start(database)
    try:
        heal(server)
        store, root = server.store, stack_of(server)
        incident = store.incidents.get("i")
        assert incident is not None
        assert (incident.state, incident.closed_as) == (IncidentState.CLOSED, ClosedAs.QUIET), where
        (repair,) = store.repairs.of_root(root.id, 0.0)
        assert repair.result is RepairResult.SUCCEEDED
        (group,) = store.stacks.descendants(root)
        events = store.events.list(root.id, EventQuery(sort_dir="asc"), [group.id])
        marks = [one for one in events if (one.verb, one.status) == (Verb.CHECK, "FAILED")]
        assert len(marks) == 1, where
        updates = [one for one in events if (one.physical_id, one.verb) == (root.id, Verb.UPDATE)]
        assert [one.status for one in updates] == ["IN_PROGRESS", "COMPLETE"], where
        rows = store.resources.of(group.id)
        assert sorted(row.name for row in rows) == ["0", "1", "2"]
        files = place / "now" / "files"
        there = {str(path) for path in files.iterdir() if path.name != "journal"}
        assert there == {row.physical_id for row in (*rows, *store.resources.of(root.id)) if row.name != "g"}
        made = (files / "journal").read_text().split()
        assert len(made) == len(set(made)) == 5, where
        assert store.inconsistencies(server.components.clock.now(), 0.0) == [], json.dumps(where)
    finally:
        server.close()
