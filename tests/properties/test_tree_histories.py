"""Random histories of a tree in the real engine, against a small model.

Updates that succeed, fail, are cancelled or cut off; marks; signals; locks of the root and of nested stacks;
protection; suspends and checks; restarts in between. HEATLITE_TREE_HISTORIES=1000 draws more of them, and others every
time.
"""

import json
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st
from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import (
    ActionConflict,
    ActionInProgress,
    DeletionProtected,
    HeatliteError,
    InvalidStackState,
    NotSupported,
    ResourceIsLocked,
    ResourceNotFound,
    StackLocked,
)
from heatlite.core.status import LockLevel, Status, Verb, state
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import ResourceRecord, StackRecord
from tests.engine.conftest import Engine, attr, param, resource, template
from tests.engine.test_groups import group, policy, scaling
from tests.laws import FEW_EXAMPLES

LOW, HIGH = 1, 3
NESTED = ("n", "n.leaf", "g", "s")
PLACES = ("plain", "n.y", "n.leaf.x", "g", "late")
"""Points of failure of an update; `late` comes after everything else."""
BUSY = (ActionConflict, ActionInProgress, ResourceIsLocked, NotSupported, InvalidStackState)


def thing(value: object, fails: object = False, **more: Any) -> Any:
    """Takes a while, so that something may happen meanwhile."""
    return resource("OS::Heat::TestResource", value=value, fail=fails, wait_secs=1, **more)


STRING, SWITCH = {"type": "string"}, {"type": "boolean"}
LEAF = template(
    parameters={"v": STRING, "fails": SWITCH},
    outputs={"o": attr("x", "output")},
    x=thing(param("v"), param("fails")),
    z=thing("z", depends_on="x"),
)
MIDDLE = template(
    parameters={"v": STRING, "own": STRING, "fails": SWITCH, "own_fails": SWITCH},
    outputs={"o": attr("leaf", "o")},
    leaf=resource("leaf.yaml", v=param("v"), fails=param("fails")),
    y=thing(param("own"), param("own_fails")),
)
FILES = {"middle.yaml": json.dumps(MIDDLE), "leaf.yaml": json.dumps(LEAF)}


class Wanted(Struct, frozen=True):
    """Contents of a template."""

    v: str = "0"
    own: str = "0"
    top: str = "0"
    kind: str = "0"
    count: int = 2
    member: str = "0"
    desired: int | None = 2
    tree: bool = True
    """True if there is a nested stack `n`."""
    fails: str | None = None

    @property
    def works(self) -> bool:
        """True if nothing in it fails."""
        if self.fails in ("n.y", "n.leaf.x"):
            return not self.tree
        return self.fails is None or self.fails == "g" and self.count == 0

    def template(self) -> Any:
        one = thing(self.member)
        numbered = group(self.count, thing(self.member, self.fails == "g"))
        size = {} if self.desired is None else {"desired_capacity": self.desired}
        made = {
            "plain": thing(self.top, self.fails == "plain", update_replace_value=self.kind),
            "g": numbered,
            "s": scaling(one, low=LOW, high=HIGH, **size),
            "up": policy(1, of="s"),
            "down": policy(-1, of="s"),
        }
        if self.tree:
            fails = {"fails": self.fails == "n.leaf.x", "own_fails": self.fails == "n.y"}
            made["n"] = resource("middle.yaml", v=self.v, own=self.own, **fails)
            made["after"] = thing(attr("n", "o"))
        if self.fails == "late":
            made["late"] = thing("late", True, depends_on=[*made])
        return template(**made)

    def request(self, rollback: bool = False) -> StackRequest:
        return StackRequest(name="top", template=self.template(), files=FILES, disable_rollback=not rollback)

    def values(self) -> dict[str, str | None]:
        """By path: what there must be, and with which value.

        (The names of scaled members are chance.)
        """
        out: dict[str, str | None] = {"plain": self.top, "g": None, "s": None, "up": None, "down": None}
        out |= {f"g.{number}": self.member for number in range(self.count)}
        if self.tree:
            out |= {"n": None, "n.leaf": None, "n.y": self.own, "n.leaf.x": self.v, "n.leaf.z": "z", "after": self.v}
        return out


def is_within(path: str, top: str) -> bool:
    return path == top or path.startswith(f"{top}.")


class History:
    """A tree, and what is known of it."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.asked = self.reached = Wanted()
        self.marked: set[str] = set()
        self.locks: set[str] = set()
        """Paths of the stacks that have a lock of their own; the root's is ""."""
        self.known = True
        """True if the tree is what `reached` says, but for the marks."""
        self.size = 2
        self.protected: dict[str, str | None] = {}
        """Physical ids of the protected resources by row id."""
        self.root_protected = False
        self.root = engine.stacks.create(engine.who, self.reached.request())
        self.rest()
        self.arrived(self.reached, {})

    # -- what there is to see ----------------------------------------------------------------------

    def look(self) -> dict[str, ResourceRecord]:
        """The tree by paths: `n.leaf.x`; while there are two rows of a name, the newer."""
        found: dict[str, ResourceRecord] = {}

        def visit(stack_id: str, prefix: str) -> None:
            for row in self.engine.store.resources.of(stack_id):
                found[prefix + row.name] = row
                if self.engine.store.stacks.get(row.physical_id or "") is not None:
                    visit(str(row.physical_id), f"{prefix}{row.name}.")

        visit(self.root.id, "")
        return found

    def stack(self, path: str = "") -> StackRecord | None:
        if not path:
            return self.engine.get(self.root)
        row = self.look().get(path)
        return None if row is None else self.engine.store.stacks.get(row.physical_id or "")

    def outcome(self) -> str:
        root = self.engine.get(self.root)
        return state(root.verb, root.status)

    def tables(self) -> list[Any]:
        names = ("stack", "resource", "event", "action", "template")
        return [self.engine.store.database.read(f"SELECT * FROM {name} ORDER BY 1") for name in names]

    def stack_ids(self, more: str = "") -> list[str]:
        return [str(row[0]) for row in self.engine.store.database.read(f"SELECT id FROM stack {more}")]

    # -- what holds whenever nothing happens ---------------------------------------------------------

    def rest(self) -> None:
        """Wait until nothing happens, and look whether all is in order."""
        store = self.engine.store
        self.engine.wait_for(lambda: not store.actions.live(self.stack_ids()))
        rows = {}
        for stack_id in self.stack_ids():
            stack = store.stacks.get(stack_id)
            assert stack is not None
            own = rows[stack_id] = store.resources.of(stack_id)
            assert stack.status is not Status.IN_PROGRESS
            assert [row.name for row in own if row.status is Status.IN_PROGRESS or row.token is not None] == []
            told = [one for one in self.engine.told(stack) if not one.endswith("PROTECT_COMPLETE")]
            last = [one for one in told if one.startswith(f"{stack.name} ")][-1]
            assert last == f"{stack.name} {state(stack.verb, stack.status)}"
        assert self.engine.mail_count() == 0
        for stack_id in self.stack_ids("WHERE deleted_at IS NULL"):
            stack = self.engine.store.stacks.get(stack_id)
            assert stack is not None
            if stack.parent_id is None:
                assert (stack.id, stack.depth, stack.root_id) == (self.root.id, 0, None)
                continue
            parent = store.stacks.get(stack.parent_id)
            assert parent is not None and parent.deleted_at is None, f"{stack.name} has lost its parent"
            assert (stack.root_id, stack.depth) == (self.root.id, parent.depth + 1)
            holders = [row.name for row in rows[parent.id] if row.physical_id == stack.id]
            assert holders == [stack.parent_resource], f"{stack.name} is nobody's"
        there = {row.id: row for own in rows.values() for row in own}
        for row_id, physical_id in self.protected.items():
            assert row_id in there, "a protected resource was removed"
            row = there[row_id]
            assert (row.protection is None, row.physical_id, row.verb is Verb.DELETE) == (False, physical_id, False)

    def arrived(self, wanted: Wanted, before: Mapping[str, ResourceRecord]) -> None:
        """All is as wanted; objects known before and not concerned are the same."""
        rows = self.look()
        values = wanted.values()
        scaled = {path for path in rows if path.startswith("s.")}
        assert rows.keys() - scaled == values.keys()
        assert [path for path, row in rows.items() if row.status is not Status.COMPLETE] == []
        for path, value in values.items():
            if value is not None:
                assert (path, rows[path].properties["value"], rows[path].data["value"]) == (path, value, value)
        assert {rows[path].data["value"] for path in scaled} == {wanted.member}
        assert LOW <= len(scaled) <= HIGH
        assert len(self.stack_ids("WHERE deleted_at IS NULL")) == (5 if wanted.tree else 3)
        assert sum(len(self.engine.store.resources.of(one)) for one in self.stack_ids()) == len(rows)
        if wanted.desired is not None:
            assert len(scaled) == wanted.desired
        elif self.known:
            assert len(scaled) == (LOW if "s" in self.marked else self.size)
        if self.known:
            anew = set(self.marked) | ({"plain"} if wanted.kind != self.reached.kind else set())
            anew |= {"up", "down"} if "s" in self.marked else set()  # another group is another policy
            kept = before.keys() & rows.keys()
            made = {path for path in kept if rows[path].id != before[path].id}
            assert made == {path for path in kept if any(is_within(path, top) for top in anew)}
        self.reached, self.size, self.known = wanted, len(scaled), True
        self.marked.clear()

    # -- what happens --------------------------------------------------------------------------------

    def tried(self, call: Callable[[], object]) -> HeatliteError | None:
        """Ask for something; where that is refused, nothing may have changed."""
        before = self.tables()
        try:
            call()
        except HeatliteError as error:
            assert self.tables() == before, f"refused, but not without effect: {error}"
            return error
        return None

    def ask(self, wanted: Wanted, rollback: bool) -> None:
        self.engine.stacks.update(self.engine.who, self.engine.get(self.root), wanted.request(rollback), existing=False)

    def touches(self, wanted: Wanted, lock: str) -> bool:
        """True if an update changes something within a nested stack."""
        now, then = self.reached.values(), wanted.values()
        if any(is_within(path, lock) or is_within(lock, path) for path in self.marked):
            return True
        if lock == "s":
            return wanted.member != self.reached.member or wanted.desired not in (None, self.size)
        return {path: now[path] for path in now if is_within(path, lock)} != {
            path: then[path] for path in then if is_within(path, lock)
        }

    def loses(self, wanted: Wanted) -> bool:
        """True if an update from what is known deletes or replaces something protected."""
        now, then = self.look(), wanted.values()
        paths = [path for path, row in now.items() if row.id in self.protected and not path.startswith("s.")]
        anew = self.marked | ({"plain"} if wanted.kind != self.reached.kind else set())
        return any(path not in then or any(is_within(path, top) for top in anew) for path in paths)

    def update(self, wanted: Wanted, rollback: bool = False, meanwhile: Callable[[], bool] = bool) -> None:
        """An update, the events during it (perhaps a cancel), and its expected result."""
        before = self.look()
        verb, _ = self.engine.get(self.root).state_without_lock
        held = {lock: self.part(lock) for lock in self.locks if lock}
        lost = self.loses(wanted)
        cancelled = False
        with self.engine.clock.held():
            error = self.tried(lambda: self.ask(wanted, rollback))
            if error is None:
                cancelled = meanwhile()
        self.rest()
        for lock, part in held.items():
            assert self.part(lock) == part, f"{lock} is locked, but was changed"
        if error is not None:
            if isinstance(error, NotSupported):
                assert verb is Verb.SUSPEND
                return
            if isinstance(error, DeletionProtected):
                scaled = any(path.startswith("s.") for path in self.guarded())
                assert not self.known or scaled or self.loses(wanted), "nothing protected is lost"
                return
            assert isinstance(error, StackLocked), error
            if "" not in self.locks and self.known and wanted.works:
                assert any(self.touches(wanted, lock) for lock in self.locks), "it leaves alone what is locked"
            return
        assert "" not in self.locks
        if self.known:
            assert not any(self.touches(wanted, lock) for lock in self.locks), "what is locked had to change"
            assert not lost, "what is protected had to go"
        self.asked = wanted
        outcome = self.outcome()
        note(f"  {outcome}: {self.engine.get(self.root).status_reason}")
        if wanted.works and not cancelled:
            assert outcome == "UPDATE_COMPLETE", self.engine.get(self.root).status_reason
        if outcome == "UPDATE_COMPLETE":
            assert wanted.works
            self.arrived(wanted, before)
        elif outcome == "ROLLBACK_COMPLETE":
            assert rollback or cancelled
            self.known = False
            self.arrived(self.reached, before)
        else:
            kept = self.protected and outcome == "ROLLBACK_FAILED"
            assert outcome == "UPDATE_FAILED" or self.locks or kept, self.engine.get(self.root).status_reason
            self.known = False

    def part(self, top: str) -> list[ResourceRecord]:
        """All rows within a nested stack, and the resource's own."""
        return [row for path, row in sorted(self.look().items()) if is_within(path, top)]

    def retry(self) -> None:
        before = self.look()
        error = self.tried(lambda: self.engine.stacks.retry(self.engine.who, self.engine.get(self.root)))
        self.rest()
        if error is None:
            assert (self.outcome() == "UPDATE_COMPLETE") == self.asked.works
            self.known = False
            if self.asked.works and not self.marked:  # what is marked in a nested stack that was done stays so
                self.arrived(self.asked, before)

    def mark(self, path: str) -> None:
        row = self.look().get(path)
        if row is None or row.verb is Verb.DELETE:
            return
        stack = self.engine.store.stacks.get(row.stack_id)
        assert stack is not None
        error = self.tried(lambda: self.engine.mark(stack, row.name))
        concerned = any(is_within(path, lock) or is_within(lock, path) for lock in self.locks if lock)
        assert isinstance(error, StackLocked) == ("" in self.locks or concerned), error
        if error is None:
            self.marked.add(path)

    def mark_scaled(self, number: int) -> None:
        members = sorted(path for path in self.look() if path.startswith("s."))
        if members:
            self.mark(members[number % len(members)])

    def signal(self, name: str, by: int) -> None:
        before = self.look()
        row = before.get(name)
        if row is None:
            return
        steady = self.known and not self.locks and not any(is_within(path, "s") or path == name for path in self.marked)
        steady = steady and self.engine.get(self.root).state_without_lock[0] is not Verb.SUSPEND
        refused = False
        with suppress(NotSupported):
            try:
                self.engine.components.signals.signal(self.engine.who, self.engine.get(self.root), row, None)
            except DeletionProtected:
                refused = True
        self.rest()
        after = self.look()
        if refused:
            assert after == before and any(path.startswith("s.") for path in self.guarded())
            return
        beside = {path: row for path, row in before.items() if not is_within(path, "s") and path != name}
        assert {path: after.get(path) for path in beside} == beside, "a signal changes its group only"
        if "" in self.locks or "s" in self.locks:
            assert after == before, "the group is locked"
        size = sum(path.startswith("s.") for path in after)
        if steady:
            expected = max(LOW, min(HIGH, self.size + by))
            assert size == expected
            self.size = size
        else:
            self.known = self.known and after == before

    def guarded(self) -> list[str]:
        """The paths of the protected resources."""
        return [path for path, row in self.look().items() if row.id in self.protected]

    def protect(self, path: str, on: bool) -> None:
        """Protect a resource, or with an empty path the root; or lift that."""
        row = self.look().get(path)
        stack = self.stack() if row is None else self.engine.store.stacks.get(row.stack_id)
        if stack is None or path and row is None:
            return
        name, protection = None if row is None else row.name, self.engine.components.protection
        call = protection.protect if on else protection.unprotect
        error = self.tried(lambda: call(self.engine.who, stack, name, "law"))
        if error is not None:
            assert isinstance(error, StackLocked) and self.locks or isinstance(error, InvalidStackState), error
        elif name is None:
            self.root_protected = on
        else:
            for one in self.engine.store.resources.by_name(stack.id, [name]):
                self.protected.pop(one.id, None)
                if one.protection is not None:
                    self.protected[one.id] = one.physical_id
                assert on or one.protection is None

    def protect_scaled(self, number: int, on: bool) -> None:
        members = sorted(path for path in self.look() if path.startswith("s."))
        if members:
            self.protect(members[number % len(members)], on)

    def lift(self) -> None:
        """Lift all protections; until then nothing deletes the tree."""
        if self.protected or self.root_protected:
            error = self.tried(lambda: self.engine.stacks.delete(self.engine.who, self.engine.get(self.root)))
            assert isinstance(error, DeletionProtected), error
        for path in self.guarded():
            self.protect(path, on=False)
        self.protect("", on=False)
        assert not self.protected

    def lock(self, path: str, level: LockLevel) -> None:
        stack = self.stack(path)
        if stack is not None and self.tried(lambda: self.engine.lock(stack, level, wait=False)) is None:
            self.locks.add(path)
            self.rest()
            for inner in (self.stack(one) for one in ("", *NESTED) if not path or is_within(one, path)):
                assert inner is None or state(inner.verb, inner.status) == "LOCK_COMPLETE"

    def unlock(self, path: str) -> None:
        stack = self.stack(path)
        if stack is None:
            return
        error = self.tried(lambda: self.engine.unlock(stack, wait=False))
        if error is None:
            self.rest()
            self.locks.remove(path)
        else:
            above = any(is_within(path, lock) if lock else path for lock in self.locks - {path})
            assert path not in self.locks or above, error

    def whole(self, operation: Callable[[StackRecord], object]) -> None:
        """Check, suspend or resume everything; a lock anywhere keeps it out."""
        error = self.tried(lambda: operation(self.engine.get(self.root)))
        self.rest()
        assert isinstance(error, StackLocked) == bool(self.locks), error
        if error is None and self.marked:
            self.known = False  # what was looked at and found well is no longer marked

    def restart(self) -> None:
        self.engine.close()
        self.engine.open()

    def finish(self, deleted_during: bool) -> None:
        """A good update repairs all, a second one finds no work, a delete clears all."""
        for path in sorted(self.locks):
            self.unlock(path)
        assert not self.locks
        self.lift()
        if self.engine.get(self.root).state_without_lock[0] is Verb.SUSPEND:
            self.engine.stacks.resume(self.engine.who, self.engine.get(self.root))
            self.rest()
        self.update(replace(self.asked, fails=None))
        assert self.outcome() == "UPDATE_COMPLETE"
        told = {one: len(self.engine.events(found)) for one in self.stack_ids() if (found := self.get(one))}
        before = {path: row.id for path, row in self.look().items()}
        self.update(self.asked)
        assert {path: row.id for path, row in self.look().items()} == before
        for one, count in told.items():
            names = {event.resource_name for event in self.engine.events(self.get(one))[count:]}
            assert names <= {self.get(one).name, "n", "g", "s", "leaf"}
        if deleted_during:
            with self.engine.clock.held():
                wanted = replace(self.asked, v="last", count=3, member="last")
                self.ask(wanted, rollback=True)
                self.pass_(2)
                self.engine.stacks.delete(self.engine.who, self.engine.get(self.root))
        else:
            self.engine.stacks.delete(self.engine.who, self.engine.get(self.root))
        self.rest()
        assert self.outcome() == "DELETE_COMPLETE"
        assert self.stack_ids("WHERE deleted_at IS NULL") == []
        assert not self.engine.store.database.read("SELECT name FROM resource")

    def get(self, stack_id: str) -> StackRecord:
        found = self.engine.store.stacks.get(stack_id)
        assert found is not None
        return found

    # -- in the middle of an operation -----------------------------------------------------------------

    def busy(self) -> bool:
        return bool(self.engine.store.actions.live([self.root.id]))

    def pass_(self, seconds: int) -> None:
        """Some seconds go by, one after the other."""
        for _ in range(seconds):
            self.engine.wait_for(lambda: self.engine.clock.at_rest() or not self.busy())
            self.engine.clock.pass_(1)

    def cancel(self, rollback: bool) -> bool:
        with suppress(NotSupported):
            self.engine.stacks.cancel(self.engine.who, self.engine.get(self.root), rollback)
            return True
        return False

    def intrude(self, path: str) -> None:
        """Requests during the operation are refused. (Late ones have no effect.)"""
        stack, running = self.stack(path), self.engine.store.actions.live([self.root.id])
        if stack is None or not running:
            return
        calls: list[Callable[[], object]] = [
            lambda: self.engine.mark(stack, "y" if path == "n" else "plain", unhealthy=False),
            lambda: self.engine.unlock(stack, wait=False),
        ]
        for call in calls:
            with suppress(*BUSY, StackLocked, ResourceNotFound):
                call()
                assert running != self.engine.store.actions.live([self.root.id]), "it was let in"


class Meanwhile(Struct, frozen=True):
    """Events during an operation, with their delays in seconds."""

    events: tuple[tuple[int, str], ...]

    def __call__(self, history: History) -> bool:
        cancelled = False
        for seconds, what in self.events:
            history.pass_(seconds)
            match what:
                case "restart":
                    history.restart()
                case "cancel":
                    cancelled |= history.cancel(rollback=False)
                case "cancel and roll back":
                    cancelled |= history.cancel(rollback=True)
                case _:
                    history.intrude(what)
        return cancelled


class Update(Struct, frozen=True):
    """An update that changes some of what was asked for last."""

    changes: tuple[tuple[str, Any], ...]
    fails: str | None
    rollback: bool
    meanwhile: Meanwhile

    def __call__(self, history: History) -> None:
        wanted = replace(history.asked, **dict(self.changes), fails=self.fails)
        history.update(wanted, self.rollback, lambda: self.meanwhile(history))


class Do(Struct, frozen=True):
    """Something else."""

    what: str
    path: str = ""
    number: int = 0
    meanwhile: Meanwhile = Meanwhile(())

    def __call__(self, history: History) -> None:
        engine = history.engine
        match self.what:
            case "mark":
                history.mark(self.path)
            case "mark scaled":
                history.mark_scaled(self.number)
            case "signal":
                history.signal(*(("up", 1) if self.number % 2 else ("down", -1)))
            case "lock":
                history.lock(self.path, LockLevel.ALL if self.number % 2 else LockLevel.STACKS)
            case "unlock":
                history.unlock(self.path)
            case "protect" | "unprotect":
                history.protect(self.path, self.what == "protect")
            case "protect scaled":
                history.protect_scaled(self.number, on=True)
            case "check":
                history.whole(lambda stack: engine.stacks.check(engine.who, stack))
            case "suspend":
                history.whole(lambda stack: engine.stacks.suspend(engine.who, stack))
            case "resume":
                history.whole(lambda stack: engine.stacks.resume(engine.who, stack))
            case "restart":
                history.restart()
            case "retry":
                history.retry()


LETTER = st.sampled_from("012")
CHANGE = st.one_of(
    st.tuples(st.sampled_from(["v", "own", "top", "kind", "member"]), LETTER),
    st.tuples(st.just("count"), st.integers(0, 3)),
    st.tuples(st.just("desired"), st.none() | st.integers(LOW, HIGH)),
    st.tuples(st.just("tree"), st.booleans()),
)
EVENT = st.tuples(st.integers(0, 4), st.sampled_from(["restart", "cancel", "cancel and roll back", "", "n"]))
MEANWHILE = st.builds(Meanwhile, st.lists(EVENT, max_size=2).map(tuple))
STEP = st.one_of(
    st.builds(
        Update,
        st.lists(CHANGE, max_size=3).map(tuple),
        st.none() | st.none() | st.sampled_from(PLACES),
        st.booleans(),
        MEANWHILE,
    ),
    st.builds(Do, st.just("mark"), st.sampled_from(["plain", *NESTED, "n.y", "n.leaf.x", "g.0", "g.1"])),
    st.builds(Do, st.sampled_from(["mark scaled", "signal", "protect scaled"]), number=st.integers(0, 3)),
    st.builds(
        Do, st.sampled_from(["protect", "unprotect"]), st.sampled_from(["", "plain", *NESTED, "n.leaf.x", "g.1"])
    ),
    st.builds(Do, st.sampled_from(["lock", "unlock"]), st.sampled_from(["", *NESTED]), st.integers(0, 1)),
    st.builds(Do, st.sampled_from(["check", "suspend", "resume", "restart", "retry"])),
)


@pytest.mark.slow
@given(steps=st.lists(STEP, min_size=3, max_size=10), deleted_during=st.booleans())
@FEW_EXAMPLES
def test_a_tree_becomes_what_it_is_to_be(steps: list[Callable[[History], None]], deleted_during: bool) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        engine = Engine(Path(folder))
        try:
            history = History(engine)
            for step in steps:
                note(str(step))
                step(history)
                history.rest()
            history.finish(deleted_during)
        finally:
            engine.close()
