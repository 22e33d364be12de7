"""Random updates, failures, marks and crashes: the next good update repairs all.

The planner, the walk and the transitions are the real ones; the rows live in a dictionary that keeps what was
committed, and the cloud is another dictionary. A crash drops whatever was not committed.
"""

from collections.abc import Callable, Mapping
from concurrent.futures import Executor as Pool
from concurrent.futures import Future
from contextlib import nullcontext
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import StopRecord
from heatlite.core.clock import Clock
from heatlite.core.json import Json
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import Status, Verb
from heatlite.engine.calls.pool import Calls
from heatlite.engine.calls.stopping import Stopping
from heatlite.engine.planning import planner
from heatlite.engine.planning.collect import PlannedValues, converge
from heatlite.engine.state.protected import is_made
from heatlite.engine.state.unit_of_work import UnitOfWork
from heatlite.engine.steps.breakpoints import Breakpoints
from heatlite.engine.steps.transitions import Transitions
from heatlite.engine.steps.walk import Walker
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory
from heatlite.plugin import Change, Resource, Schema, Services, prop
from heatlite.plugin.registry import Registry
from heatlite.store.records import ProtectionRecord, ResourceRecord, StackRecord
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from tests.memory_mailbox import MemoryMailbox
from tests.ports import NoRegions, NoSoftware

NAMES = "abcde"


class Crash(BaseException):
    """The process dies here."""


class Cloud:
    """Objects by physical name, and the moment at which the process dies."""

    def __init__(self) -> None:
        self.objects: dict[str, dict[str, Json]] = {}
        self.protected: set[str] = set()
        """Names of objects that are protected."""
        self.made: list[str] = []
        self.calls_left: int | None = None

    def called(self) -> None:
        """A call has changed something; the process may die before it reports it."""
        if self.calls_left is not None:
            self.calls_left -= 1
            if self.calls_left <= 0:
                raise Crash


cloud = Cloud()


class ThingProps(Schema):
    text: str = prop("", update=True, doc="Changed in place.")
    kind: str = prop("", doc="A change replaces.")
    uses: list[str] = prop([], items=str, update=True, doc="Ids of other things.")
    fail: bool = prop(False, update=True, doc="Fail after the object was made or changed.")


class Thing(Resource[ThingProps], type="Test::Thing"):
    """A thing in the cloud."""

    def find(self) -> str | None:
        return self.physical_name if self.physical_name in cloud.objects else None

    def handle_create(self) -> Json:
        assert self.physical_name not in cloud.made, "made twice"
        cloud.made.append(self.physical_name)
        cloud.objects[self.physical_name] = self._content()
        cloud.called()
        self.physical_id = self.physical_name
        return None

    def check_create_complete(self, token: Json) -> bool:
        if self.props.fail:
            raise ValueError("told to fail")
        return True

    def handle_update(self, change: Change) -> None:
        cloud.objects[self.physical_name] = self._content()
        cloud.called()
        if self.props.fail:
            raise ValueError("told to fail")

    def handle_delete(self) -> None:
        assert self.physical_name not in cloud.protected, f"{self.physical_name} is protected"
        for name, other in cloud.objects.items():
            uses = other["uses"]
            assert isinstance(uses, list)
            assert self.physical_name not in uses or name == self.physical_name, f"{self.physical_name} is in use"
        cloud.objects.pop(self.physical_name, None)
        cloud.called()

    def _content(self) -> dict[str, Json]:
        return {"text": self.props.text, "kind": self.props.kind, "uses": list(self.props.uses)}


class Inline(Pool):
    """Runs what is submitted at once, so that a history is the same every time."""

    def submit(self, fn: Callable[..., Any], /, *args: Any, **kwargs: Any) -> Future[Any]:
        fn(*args, **kwargs)
        return Future()


class Wish(Struct, frozen=True):
    """One resource of a template."""

    text: str
    kind: str
    uses: frozenset[str]
    fail: bool


@st.composite
def templates(draw: st.DrawFn, may_fail: bool) -> dict[str, Wish]:
    """Names in a drawn order in which each may use earlier ones; versions differ."""
    order = draw(st.permutations(NAMES))[: draw(st.integers(0, len(NAMES)))]
    wishes: dict[str, Wish] = {}
    for name in order:
        uses = draw(st.frozensets(st.sampled_from(sorted(wishes)), max_size=2)) if wishes else frozenset()
        fail = may_fail and draw(st.integers(0, 7)) == 0
        wishes[name] = Wish(draw(st.sampled_from("xy")), draw(st.sampled_from("pq")), uses, fail)
    return wishes


def document(wishes: Mapping[str, Wish]) -> dict[str, Json]:
    return {
        "heat_template_version": "2021-04-16",
        "resources": {
            name: {
                "type": "Test::Thing",
                "properties": {
                    "text": wish.text,
                    "kind": wish.kind,
                    "fail": wish.fail,
                    "uses": [{"get_resource": used} for used in sorted(wish.uses)],
                },
            }
            for name, wish in wishes.items()
        },
    }


STACK = StackRecord(
    id="00000000-0000-7000-8000-000000000000",
    name="s",
    project="p",
    username="u",
    template_id="",
    environment={},
    verb=Verb.UPDATE,
    status=Status.IN_PROGRESS,
    status_reason="",
    created_at=0.0,
)


class NoChildren:
    """No resource here makes a nested stack."""

    placed = False


def no_park(_children: int) -> bool:
    raise AssertionError("there are no nested stacks to wait for")


class World:
    """The committed rows."""

    def __init__(self) -> None:
        self.rows: dict[str, ResourceRecord] = {}
        self.stopped = StopRecord()
        """Shared knowledge of the attempts at an update."""
        self.updates = 0
        registry = Registry({})
        registry.register(Thing)
        services = Services(MemoryMailbox(), "http://127.0.0.1:8004", NoSoftware(), NoRegions(), float)
        # No resource here makes a nested stack: the store is asked for nothing but whether anything is protected, and
        # definitions and types of templates are asked for nothing.
        store = SimpleNamespace(resources=self)
        self._engine_services = EngineServices(registry, Clock().now, services, store, None, None, None)  # type: ignore[arg-type]
        self.resources = ResourceFactory(STACK, self._engine_services)

    def any_protected(self, _root_id: str) -> bool:
        """In place of the store's rows."""
        return any(row.protection is not None for row in self.rows.values())

    def attempt(self, definition: Definition, die_at_commit: int | None) -> bool:
        """One process's attempt at an update; tell whether it succeeded. Raises Crash."""
        self.resources = ResourceFactory(STACK, self._engine_services)
        self.resources.phase = f"update {self.updates}"
        journal = UnitOfWork(sorted(self.rows.values(), key=lambda row: row.id))
        # No environment here has breakpoints, so nobody asks for mail and action.
        transitions = Transitions(journal, self.resources, Breakpoints(None, None), Clock().now, 0)  # type: ignore[arg-type]
        commits = 0

        def commit() -> None:
            nonlocal commits
            if not journal.dirty:
                return
            commits += 1
            if commits == die_at_commit:
                raise Crash
            writes = journal.take()
            for row in (*writes.new, *writes.changed):
                self.rows[row.id] = row
            for key in writes.gone:
                del self.rows[key]
            self.stopped = stopping.record(0.0)

        stopping = Stopping(Clock(), lambda: None, patience=1e6, rolls_back=False, deadline=None)
        stopping.restore(self.stopped, 0.0)
        calls = Calls(Inline(), Meter(), Clock(), lease=1e10, ask=bool, transaction=nullcontext, threads=1)
        walker = Walker(Clock(), calls, transitions, NoChildren(), commit, no_park, bool, stopping)
        plan = converge(definition, journal.rows.values(), PlannedValues(self.resources))
        transitions.converging.start(definition, plan)
        list(walker.walk(plan, transitions.converging.begin))
        if stopping.stop is None:
            stopping.finish_making()
        if stopping.is_made:
            keep = [row.id for row in transitions.rows.chosen.values()]
            list(walker.walk(planner.plan_deletions(journal.rows.values(), keep), transitions.operations.begin_delete))
        commit()  # with what tells how the stack has ended
        return stopping.stop is None

    def update(self, wishes: Mapping[str, Wish], crashes: list[tuple[int | None, int | None]]) -> bool:
        """An update, resumed after each crash at a commit or in a call of the cloud."""
        definition = Template(document(wishes)).bind(Environment(), {})
        self.updates += 1
        self.stopped = StopRecord()
        for die_at_commit, die_at_call in [*crashes, (None, None)]:
            cloud.calls_left = die_at_call
            stops = self.stopped.cause is not None
            failed = {key for key, row in self.rows.items() if stops and row.status is Status.FAILED}
            try:
                return self.attempt(definition, die_at_commit)
            except Crash:
                continue
            finally:
                cloud.calls_left = None
                assert failed <= {key for key, row in self.rows.items() if row.status is Status.FAILED}
        raise AssertionError("the last attempt cannot crash")

    def mark(self, name: str) -> None:
        """Somebody says that a resource is unhealthy."""
        found = [row for row in self.rows.values() if row.name == name and row.verb is not Verb.DELETE]
        if found:
            newest = max(found, key=lambda row: row.id)
            self.rows[newest.id] = replace(newest, verb=Verb.CHECK, status=Status.FAILED)

    def protect(self, names: frozenset[str]) -> None:
        """Protect what is there of these resources, unprotect all others."""
        for row in self.rows.values():
            held = ProtectionRecord("u", 0.0) if row.name in names and is_made(row) else None
            self.rows[row.id] = replace(row, protection=held)
        cloud.protected = {row.physical_name for row in self.rows.values() if row.protection is not None}

    def is_what(self, wishes: Mapping[str, Wish]) -> None:
        """Each wish has one healthy row and one object with its references; no others."""
        by_name = {row.name: row for row in self.rows.values()}
        assert len(by_name) == len(self.rows)
        assert by_name.keys() == wishes.keys()
        assert all(row.status is Status.COMPLETE for row in by_name.values())
        assert cloud.objects.keys() == {row.physical_id for row in by_name.values()}
        for name, wish in wishes.items():
            made = cloud.objects[by_name[name].physical_name]
            uses = [by_name[used].physical_id for used in sorted(wish.uses)]
            assert made == {"text": wish.text, "kind": wish.kind, "uses": uses}


crash = st.tuples(st.none() | st.integers(1, 8), st.none() | st.integers(1, 6))
step = st.tuples(templates(may_fail=True), st.lists(crash, max_size=3), st.none() | st.sampled_from(NAMES))


@pytest.mark.slow
@given(st.lists(step, max_size=5), templates(may_fail=False), st.lists(crash, max_size=3))
def test_the_next_good_update_sets_it_right(
    history: list[tuple[dict[str, Wish], list[tuple[int | None, int | None]], str | None]],
    last: dict[str, Wish],
    crashes: list[tuple[int | None, int | None]],
) -> None:
    cloud.__init__()  # type: ignore[misc]
    world = World()
    for wishes, died, marked in history:
        succeeded = world.update(wishes, died)
        assert succeeded or any(wish.fail for wish in wishes.values())
        if succeeded:
            world.is_what(wishes)
        if marked is not None:
            world.mark(marked)
    assert world.update(last, crashes)
    world.is_what(last)


guarded = st.tuples(step, st.frozensets(st.sampled_from(NAMES)))


@pytest.mark.slow
@given(st.lists(guarded, max_size=5), templates(may_fail=False), st.lists(crash, max_size=3))
def test_nothing_deletes_what_is_protected(
    history: list[tuple[tuple[dict[str, Wish], list[tuple[int | None, int | None]], str | None], frozenset[str]]],
    last: dict[str, Wish],
    crashes: list[tuple[int | None, int | None]],
) -> None:
    """After any faults, and without protection, the next good update repairs all."""
    cloud.__init__()  # type: ignore[misc]
    world = World()
    for (wishes, died, marked), names in history:
        world.protect(names)
        held = {row.id: row.physical_name for row in world.rows.values() if row.protection is not None}
        if marked is not None:
            world.mark(marked)
        there = cloud.objects.keys() & {*held.values()}  # one that was marked before it was made has no object
        world.update(wishes, died)
        assert cloud.objects.keys() >= there
        for row_id, physical_name in held.items():
            row = world.rows[row_id]
            assert (row.physical_name, row.protection is not None) == (physical_name, True)
            assert row.verb is not Verb.DELETE
    world.protect(frozenset())
    assert world.update(last, crashes)
    world.is_what(last)


@given(templates(may_fail=False))
def test_a_second_update_with_the_same_template_plans_nothing(wishes: dict[str, Wish]) -> None:
    cloud.__init__()  # type: ignore[misc]
    world = World()
    assert world.update(wishes, [])
    definition = Template(document(wishes)).bind(Environment(), {})
    plan = converge(definition, world.rows.values(), PlannedValues(world.resources))
    assert not plan.steps
    assert plan.kept.keys() == wishes.keys()
