"""Invariants after all faults, when everything has come to rest."""

import time
from collections import Counter
from collections.abc import Callable, Collection
from itertools import pairwise
from pathlib import Path

from heatlite.core.status import ENDED_ACTIONS, ActionStatus, Status
from heatlite.engine.state.unit_of_work import STACK_TYPE
from heatlite.store.actions.table import OPEN
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store

FILE = "Example::Local::File"


def come_to_rest(store: Store, seconds: float = 240) -> None:
    """Wait until no action is left that has not ended."""
    end = time.monotonic() + seconds
    while left := store.database.read(f"SELECT id, verb, status, owner, lease_until FROM action WHERE {OPEN}"):
        assert time.monotonic() < end, f"actions that never end, at {time.time()}: {left}"
        time.sleep(0.05)


def objects(files: Path) -> set[str]:
    """Objects in the cloud."""
    return {str(path) for path in files.glob("*") if path.name != "journal" and not path.suffix}


def stacks_of(store: Store) -> list[StackRecord]:
    """All stacks, nested and deleted ones too."""
    everything = StackQuery(show_deleted=True, show_nested=True)
    found = (store.stacks.get(one.id) for one in store.stacks.list(None, everything))
    return [stack for stack in found if stack is not None]


def judge(
    store: Store, files: Path, accepted: Collection[str] = (), orphans: Callable[[], Collection[str]] = tuple
) -> None:
    """Accepted actions ended once; no orphan, no double object, no hold is left.

    `accepted` are the ids of actions that a caller was told of; they must be there. `orphans` returns the names of
    objects that workers have removed, because another one had taken the action over. Those were made once more.
    """
    come_to_rest(store)
    stacks = stacks_of(store)
    known = {action_id for (action_id,) in store.database.read("SELECT id FROM action")}
    assert set(accepted) <= known, f"accepted and lost: {set(accepted) - known}"
    for action_id in known:
        moves = store.actions.history(action_id)
        ends = [move.after for move in moves if move.after in ENDED_ACTIONS]
        assert len(ends) == 1, f"action {action_id} ended {len(ends)} times: {moves}"
        assert moves[0].before is ActionStatus.INIT, moves
        assert all(one.after is other.before for one, other in pairwise(moves)), moves
    found = store.inconsistencies(time.time(), 0)
    assert found == [], found
    rows = [row for stack in stacks if stack.deleted_at is None for row in store.resources.of(stack.id)]
    busy = [row for row in rows if row.status is Status.IN_PROGRESS]
    assert not busy, busy
    known_of = {row.physical_id for row in rows if row.mapped_type == FILE} - {None}
    end = time.monotonic() + 240
    # A worker that stood still past its lease removes what it has made once it hears of that.
    while (there := objects(files)) != known_of:
        assert time.monotonic() < end, f"orphaned: {there - known_of}; gone: {known_of - there}"
        time.sleep(0.05)
    journal = files / "journal"
    made = journal.read_text().split() if journal.exists() else []
    doubled = [name for name, count in (Counter(made) - Counter(orphans())).items() if count > 1]
    assert doubled == [], doubled
    for stack in stacks:
        judge_events(store, stack)


def judge_events(store: Store, stack: StackRecord) -> None:
    """Each operation ends once or is cut short by the next; nothing is reported twice."""
    events = store.events.list(stack.id, EventQuery(sort_dir="asc"))
    told = Counter((event.resource_name, event.verb, event.status, event.created_at) for event in events)
    repeated = [one for one, count in told.items() if count > 1]
    assert repeated == [], f"{stack.name}: {repeated}"
    states = [(event.verb, event.status) for event in events if event.resource_type == STACK_TYPE]
    for (_, before), (verb, after) in pairwise(states):
        assert before == "IN_PROGRESS" or after == "IN_PROGRESS", f"{stack.name}: {verb} ended twice: {states}"
    assert states[-1] == (stack.verb, stack.status), states
    assert stack.status is not Status.IN_PROGRESS, stack
