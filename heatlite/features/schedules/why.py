"""Facts on what will happen to a stack by itself."""

from collections.abc import Iterator
from typing import Final
from urllib.parse import quote

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import WayCall, Ways
from heatlite.features.schedules.api.views import wanted
from heatlite.features.schedules.expiry.state import ExpiryRecord, ExpiryState
from heatlite.features.schedules.store.expiries import ExpiryStore
from heatlite.features.schedules.store.records import ScheduleRecord
from heatlite.features.schedules.store.store import SchedulesStore

WEEK: Final = 604_800
"""Seconds by which a way out extends an expiry."""


def facts(schedules: SchedulesStore, expiries: ExpiryStore, tree: ExplainedTree) -> list[Told]:
    """Read the schedules and the expiry of a tree, and return its facts."""
    following = [one for one in schedules.of_stack(tree.root.id) if one.next_at is not None]
    found = [*_next(tree, min(following, key=lambda one: (one.next_at or 0.0, one.id), default=None))]
    return [*found, *_expiry(tree, expiries.of([tree.root.id]).get(tree.root.id))]


def _next(tree: ExplainedTree, found: ScheduleRecord | None) -> Iterator[Told]:
    if found is None:
        return
    root, at = tree.root, to_text(found.next_at)
    ways = Ways(tree)
    pause = WayCall(
        "PUT", stack_path(root, f"/schedules/{quote(found.name)}"), {**wanted(found), "enabled": False}
    )
    ways.send("skips it until it is unpaused", f"heatlite schedule pause {words(root.name, found.name)}", pause)
    text = f"next: {found.task} at {at}, by schedule {found.name}"
    fact = Fact(code="scheduled", what="stack", id=root.id, until=at, text=text, way_out=ways.steps)
    yield Told(fact, root.id)


def _expiry(tree: ExplainedTree, found: ExpiryRecord | None) -> Iterator[Told]:
    if found is None or found.state is ExpiryState.DONE:
        return
    root, at = tree.root, to_text(found.expires_at)
    what = f"{found.task} at {at}, set by {found.set_by}"
    ways = Ways(tree)
    if found.state is ExpiryState.HELD:
        text = f"expiry ({what}) is held: {found.code}; after the release it gets a new time"
    else:
        text = f"expires: {what}"
        later = to_text(found.expires_at + WEEK)
        body: JsonMap = {"expires_at": later, "then": found.task.value, "warn_before": [*found.warn_before]}
        extend = WayCall("PUT", stack_path(root, "/expiry"), body)
        ways.send("extends it by a week", f"heatlite expire {words(root.name, later)}", extend)
    fact = Fact(
        code="scheduled", what="stack", id=root.id, by=found.set_by, until=at, text=text, way_out=ways.steps
    )
    yield Told(fact, root.id)
