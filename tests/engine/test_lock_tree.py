"""Locks and marks in trees: own and inherited locks, and their effects."""

import json
import tempfile
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.api.wire import views
from heatlite.core.errors import Conflict, Forbidden, HeatliteError, StackLocked
from heatlite.core.status import LockLevel, Status, Verb, state
from heatlite.store.records import StackRecord
from tests.engine.conftest import ADMIN, MEMBER, Engine, attr, param, resource, template, thing
from tests.laws import FEW_EXAMPLES
from tests.tables import few

ALL, STACKS = LockLevel.ALL, LockLevel.STACKS
NAMES = ("root", "middle", "leaf")


def text(document: Any) -> str:
    return json.dumps(document)


LEAF = template(
    parameters={"v": {"type": "string", "default": "v"}},
    outputs={"o": attr("x", "output")},
    x=thing(param("v")),
    z=resource("OS::Heat::RandomString"),
)
MIDDLE = template(
    parameters={"v": {"type": "string", "default": "v"}, "own": {"type": "string", "default": "v"}},
    outputs={"o": attr("leaf", "o")},
    leaf=resource("leaf.yaml", v=param("v")),
    y=thing(param("own")),
)


def root(v: str = "v", own: str = "v", top: str = "v", **more: object) -> Any:
    return template(
        outputs={"o": attr("after", "output")},
        middle=resource("middle.yaml", v=v, own=own),
        w=thing(top),
        after=thing(attr("middle", "o")),
        **more,
    )


FILES = {"middle.yaml": text(MIDDLE), "leaf.yaml": text(LEAF)}


class Tree:
    """A root with a nested stack that has a nested stack."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.root = engine.create(root(), files=FILES)
        found = {str(one.parent_resource): one for one in engine.store.stacks.descendants(self.root)}
        self.middle, self.leaf = found["middle"], found["leaf"]
        assert self.states() == ["CREATE_COMPLETE"] * 3

    def __getitem__(self, name: str) -> StackRecord:
        return self.engine.get({"root": self.root, "middle": self.middle, "leaf": self.leaf}[name])

    def states(self) -> list[str]:
        return [state(self[name].verb, self[name].status) for name in NAMES]

    def held(self) -> list[bool]:
        """The stacks whose objects are locked themselves."""
        things = {"root": "w", "middle": "y", "leaf": "x"}
        return [bool(self.engine.row(self[name], things[name]).data.get("locked")) for name in NAMES]

    def locks(self) -> list[tuple[str, str] | None]:
        """As the API tells them: level, and where the lock is from."""
        out: list[tuple[str, str] | None] = []
        for name in NAMES:
            stack = self[name]
            chain = (stack, *self.engine.store.stacks.ancestors(stack))
            shown: Any = views.lock(stack, next((one for one in chain if one.lock is not None), None), [])["lock"]
            there = {self.root.id: "root", self.middle.id: "middle", None: "own"}
            source = shown and shown["inherited_from"]
            out.append(shown and (shown["level"], there[source["id"] if source else None]))
        return out

    def put(self, wait: bool = True, **more: Any) -> StackRecord:
        return self.engine.put(self["root"], root(**more), files=FILES, wait=wait)

    def events(self, name: str) -> int:
        return self.engine.now_on(self[name])

    def everything(self) -> list[Any]:
        """All that a refusal must not change."""
        tables = ("stack", "resource", "event", "action", "template")
        return [self.engine.store.database.read(f"SELECT * FROM {table} ORDER BY 1") for table in tables]


@pytest.fixture
def tree(engine: Engine) -> Tree:
    return Tree(engine)


def refused(tree: Tree, call: Callable[[], object], kind: type[HeatliteError] = StackLocked) -> str:
    """Assert that a call is refused before anything is written; what it said."""
    before = tree.everything()
    with pytest.raises(kind) as caught:
        call()
    assert tree.everything() == before
    return caught.value.message


@pytest.mark.slow
def test_a_stack_that_outlived_its_resource_refuses_nothing_above(engine: Engine, tree: Tree) -> None:
    """No operation of the root touches it."""
    retained = root()
    retained["resources"]["middle"]["deletion_policy"] = "Retain"
    engine.put(tree.root, retained, files=FILES)
    stack = engine.put(tree.root, template(w=thing()), files=FILES)
    engine.lock(tree.leaf)
    engine.components.protection.protect(ADMIN, tree["middle"], None, "kept")
    engine.check(stack)
    engine.delete(stack)
    assert tree["root"].deleted_at is not None
    engine.unlock(tree.leaf)
    engine.components.protection.unprotect(ADMIN, tree["middle"], None, "copied")
    engine.delete(tree.middle)
    assert tree["leaf"].deleted_at is not None


class TestInherited:
    @pytest.mark.slow
    @pytest.mark.parametrize("level", few([ALL, STACKS]))
    def test_every_stack_is_locked_and_unlocked(self, engine: Engine, tree: Tree, level: LockLevel) -> None:
        marks = {name: tree.events(name) for name in NAMES}
        engine.lock(tree.root, level, reason="disks")
        assert tree.states() == ["LOCK_COMPLETE"] * 3
        assert tree.held() == [level is ALL] * 3
        assert tree.locks() == [(level, "own"), (level, "root"), (level, "root")]
        for name in NAMES:
            own = tree[name].name
            told = [line for line in engine.told(tree[name], marks[name]) if line.startswith(f"{own} ")]
            assert told == [f"{own} LOCK_IN_PROGRESS", f"{own} LOCK_COMPLETE"]
        engine.unlock(tree.root)
        assert tree.states() == ["UNLOCK_COMPLETE"] * 3
        assert tree.held() == [False] * 3
        assert tree.locks() == [None] * 3

    @pytest.mark.slow
    def test_the_level_changes_everywhere(self, engine: Engine, tree: Tree) -> None:
        for level in (STACKS, ALL, STACKS, ALL):
            engine.lock(tree.root, level)
            assert tree.states() == ["LOCK_COMPLETE"] * 3
            assert tree.held() == [level is ALL] * 3

    def test_it_is_lifted_where_it_was_set(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree.root, STACKS)
        for name in ("middle", "leaf"):
            assert "Stack s is under maintenance" in refused(tree, lambda name=name: engine.unlock(tree[name]))
            refused(tree, lambda name=name: engine.delete(tree[name]))

    @pytest.mark.slow
    def test_it_expires_as_a_whole(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree.root, ALL, expires_at=engine.clock.now() + 60)
        engine.clock.pass_(61)
        engine.wait_for(lambda: tree.states() == ["UNLOCK_COMPLETE"] * 3)
        assert tree.held() == [False] * 3

    @pytest.mark.slow
    def test_what_was_refused_is_listed_where_it_was_asked(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree.root, STACKS)
        with pytest.raises(StackLocked):
            engine.mark(tree["leaf"], "x")
        (entry,) = engine.store.suppressed.list(tree.leaf.id)
        assert (entry.request, entry.target) == ("mark_unhealthy", "x")
        engine.unlock(tree.root)
        assert engine.states(tree["leaf"])["x"] == "CREATE_COMPLETE"  # nothing fires
        engine.clock.pass_(1)
        engine.lock(tree.root, STACKS)
        with pytest.raises(StackLocked):
            engine.mark(tree["leaf"], "x")
        assert len(engine.store.suppressed.list(tree.leaf.id)) == 2  # once for each lock


class TestOwn:
    @pytest.mark.slow
    @pytest.mark.parametrize("above", few([ALL, STACKS]))
    @pytest.mark.parametrize("own", few([ALL, STACKS]))
    @pytest.mark.parametrize("name", few(["middle", "leaf"]))
    @pytest.mark.parametrize("first", few(["own", "above"]))
    def test_it_outlives_the_ancestors(
        self, engine: Engine, tree: Tree, name: str, own: LockLevel, above: LockLevel, first: str
    ) -> None:
        calls = [lambda: engine.lock(tree[name], own, reason="mine"), lambda: engine.lock(tree.root, above)]
        for call in calls if first == "own" else reversed(calls):
            call()
        below = NAMES.index(name)
        assert tree.states() == ["LOCK_COMPLETE"] * 3
        assert tree.held() == [above is ALL or own is ALL and index >= below for index in range(3)]
        locks = [(above, "own"), (above, "root"), (own, "middle")]
        locks[below] = (own, "own")
        if name == "leaf":
            locks[1] = (above, "root")
        assert tree.locks() == locks
        lock = tree[name].lock
        assert lock is not None and lock.reason == "mine"
        refused(tree, lambda: engine.unlock(tree[name]))
        engine.unlock(tree.root)
        assert tree[name].lock == lock
        assert tree.states() == ["UNLOCK_COMPLETE"] * below + ["LOCK_COMPLETE"] * (3 - below)
        assert tree.held() == [own is ALL and index >= below for index in range(3)]
        engine.unlock(tree[name])
        assert tree.states() == ["UNLOCK_COMPLETE"] * 3
        assert tree.held() == [False] * 3

    @pytest.mark.slow
    def test_its_level_never_lets_go_of_what_the_ancestor_holds(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree.root, ALL)
        engine.lock(tree["leaf"], ALL)
        engine.lock(tree["leaf"], STACKS)
        assert tree.held() == [True] * 3
        engine.lock(tree.root, STACKS)
        assert tree.held() == [False] * 3
        assert tree.states() == ["LOCK_COMPLETE"] * 3

    @pytest.mark.slow
    def test_it_expires_after_the_ancestors(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree["leaf"], ALL, expires_at=engine.clock.now() + 60)
        engine.lock(tree.root, STACKS)
        engine.clock.pass_(61)
        engine.components.maintenance.expire_locks()
        assert tree.states() == ["LOCK_COMPLETE"] * 3
        engine.unlock(tree.root)
        engine.wait_for(lambda: tree.states() == ["UNLOCK_COMPLETE"] * 3)

    @pytest.mark.parametrize("force", few([False, True]))
    def test_an_admins_lock_below_is_not_deleted_by_others(self, engine: Engine, tree: Tree, force: bool) -> None:
        engine.who = ADMIN
        leaf = engine.lock(tree["leaf"])
        engine.put_stack(tree["leaf"], Verb.LOCK, Status.FAILED, leaf.lock)
        engine.who = MEMBER
        refused(tree, lambda: engine.stacks.delete(engine.who, tree["root"], force), Forbidden)


class TestUpdate:
    """Of an ancestor of a stack that is locked on its own."""

    @pytest.mark.parametrize("name", few(["middle", "leaf"]))
    @pytest.mark.parametrize("level", few([ALL, STACKS]))
    def test_it_passes_by(self, engine: Engine, tree: Tree, name: str, level: LockLevel) -> None:
        engine.lock(tree[name], level)
        since = {one: tree.events(one) for one in NAMES}
        stack = tree.put(top="new")
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert engine.outputs(stack) == {"o": "v"}
        assert engine.value(stack, "w") == "new"
        assert engine.told(tree[name], since[name]) == []
        assert tree.states()[NAMES.index(name) :] == ["LOCK_COMPLETE"] * (3 - NAMES.index(name))
        assert ("middle UPDATE_COMPLETE" in engine.told(stack, since["root"])) == (name == "leaf")

    def test_it_changes_what_is_beside(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree["leaf"])
        stack = tree.put(own="new")
        assert state(stack.verb, stack.status) == "UPDATE_COMPLETE"
        assert engine.value(tree["middle"], "y") == "new"

    @pytest.mark.parametrize(
        ("name", "change"),
        few(
            [
                ("middle", {"v": "new"}),
                ("middle", {"own": "new"}),
                ("leaf", {"v": "new"}),
            ]
        ),
    )
    def test_it_may_not_change_it(self, engine: Engine, tree: Tree, name: str, change: dict[str, str]) -> None:
        engine.lock(tree[name], STACKS)
        assert f"Stack {tree[name].name} is" in refused(tree, lambda: tree.put(**change))
        (entry,) = engine.store.suppressed.list(tree.root.id)
        assert (entry.request, entry.method) == ("update", "PUT")

    @pytest.mark.parametrize("name", few(["middle", "leaf"]))
    def test_it_may_not_remove_it(self, engine: Engine, tree: Tree, name: str) -> None:
        engine.lock(tree[name], STACKS)
        refused(tree, lambda: engine.put(tree.root, template(w=thing("v")), files=FILES))

    @pytest.mark.parametrize("name", few(["middle", "leaf"]))
    def test_it_may_not_give_it_other_files(self, engine: Engine, tree: Tree, name: str) -> None:
        engine.lock(tree[name], STACKS)
        files = {**FILES, "leaf.yaml": text({**LEAF, "description": "new"})}
        assert "The update changes these files: leaf.yaml." in refused(
            tree, lambda: engine.put(tree.root, root(), files=files)
        )

    @pytest.mark.slow
    @pytest.mark.parametrize("name", ["middle", "leaf"])
    @pytest.mark.parametrize(
        "change",
        [
            {"files": {**FILES, "other.txt": "x"}},
            {"environment": {"parameter_defaults": {"nobody_asks": "x"}}},
        ],
    )
    def test_what_it_does_not_name_may_change(
        self, engine: Engine, tree: Tree, name: str, change: dict[str, Any]
    ) -> None:
        engine.lock(tree[name], STACKS)
        before = tree[name]
        assert state(*of(engine.put(tree.root, root(), **{"files": FILES, **change}))) == "UPDATE_COMPLETE"
        assert tree[name] == before
        engine.unlock(tree[name])
        assert state(*of(engine.put(tree.root, root(v="new"), files=FILES))) == "UPDATE_COMPLETE"

    @pytest.mark.parametrize("name", few(["middle", "leaf"]))
    def test_a_default_that_it_asks_for_may_not_change(self, engine: Engine, tree: Tree, name: str) -> None:
        engine.lock(tree[name], STACKS)
        environment = {"parameter_defaults": {"v": "x"}}
        refused(tree, lambda: engine.put(tree.root, root(), files=FILES, environment=environment))

    @pytest.mark.slow
    @pytest.mark.parametrize("level", [ALL, STACKS])
    @pytest.mark.parametrize("name", ["middle", "leaf"])
    def test_it_may_not_heal_it(self, engine: Engine, tree: Tree, name: str, level: LockLevel) -> None:
        engine.mark(tree["leaf"], "x")
        engine.lock(tree[name], level)
        refused(tree, lambda: engine.patch(tree.root))
        engine.unlock(tree[name])
        old = engine.ids(tree["leaf"])
        engine.patch(tree.root)
        now = engine.ids(tree["leaf"])
        assert now["x"] != old["x"] and now["z"] == old["z"]

    def test_it_may_not_make_it_anew(self, engine: Engine, tree: Tree) -> None:
        engine.mark(tree["root"], "middle")
        engine.lock(tree["leaf"], STACKS)
        refused(tree, lambda: engine.patch(tree.root))

    def test_what_is_not_known_beforehand_touches_it(self, engine: Engine, tree: Tree) -> None:
        document = root(v=attr("w", "output"))  # type: ignore[arg-type]
        engine.put(tree.root, document, files=FILES)
        engine.lock(tree["leaf"], STACKS)
        assert state(*of(engine.put(tree.root, document, files=FILES))) == "UPDATE_COMPLETE"
        changed = root(v=attr("w", "output"), top="new")  # type: ignore[arg-type]
        refused(tree, lambda: engine.put(tree.root, changed, files=FILES))

    def test_a_look_at_all_objects_touches_it(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree["leaf"], STACKS)
        refused(tree, lambda: engine.patch(tree.root, converge=True))

    @pytest.mark.slow
    def test_nor_may_its_rollback(self, engine: Engine, tree: Tree) -> None:
        bad = root(v="new", bad=thing("b", fail=True))
        assert state(*of(engine.put(tree.root, bad, files=FILES))) == "UPDATE_FAILED"
        assert engine.value(tree["leaf"], "x") == "new"
        engine.lock(tree["leaf"], STACKS)
        refused(tree, lambda: engine.put(tree.root, bad, files=FILES, disable_rollback=False))
        since = tree.events("leaf")
        good = root(v="new")
        assert state(*of(engine.put(tree.root, good, files=FILES))) == "UPDATE_COMPLETE"
        assert engine.told(tree["leaf"], since) == []

    @pytest.mark.slow
    def test_a_rollback_that_leaves_it_alone_passes(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree["leaf"], STACKS)
        since = tree.events("leaf")
        stack = tree.put(own="new", bad=thing("b", fail=True, depends_on="middle"))
        assert state(stack.verb, stack.status) == "UPDATE_FAILED"
        stack = engine.put(
            tree.root,
            root(own="newer", bad=thing("b", fail=True, depends_on="middle")),
            files=FILES,
            disable_rollback=False,
        )
        assert state(stack.verb, stack.status) == "ROLLBACK_COMPLETE"
        assert engine.value(tree["middle"], "y") == "v"
        assert engine.told(tree["leaf"], since) == []

    @pytest.mark.slow
    def test_a_cancel_with_rollback_does_not_get_at_it(self, engine: Engine, tree: Tree) -> None:
        bad = root(v="new", bad=thing("b", fail=True))
        engine.put(tree.root, bad, files=FILES)
        engine.lock(tree["leaf"], STACKS)
        since = tree.events("leaf")
        slow = root(v="new", slow=thing("s", wait_secs=50))
        with engine.clock.held():
            engine.put(tree.root, slow, files=FILES, wait=False)
            engine.begun(lambda: engine.states(tree.root).get("slow") == "CREATE_IN_PROGRESS")
            stack = engine.cancel(tree.root, rollback=True, wait=False)
        stack = engine.settle(stack)
        assert state(stack.verb, stack.status) == "ROLLBACK_FAILED"
        assert f"Stack {tree.leaf.name} is under maintenance" in stack.status_reason
        assert engine.told(tree["leaf"], since) == []
        assert tree.states()[2] == "LOCK_COMPLETE"


class TestGroups:
    """A member of a group is a nested stack like any other."""

    @staticmethod
    def group(count: int, v: str = "v", **more: object) -> Any:
        member = {"type": "leaf.yaml", "properties": {"v": v}}
        return template(g=resource("OS::Heat::ResourceGroup", count=count, resource_def=member, **more))

    @pytest.fixture
    def stack(self, engine: Engine) -> StackRecord:
        stack = engine.create(self.group(2), files=FILES)
        engine.lock(self.members(engine, stack)["0"], STACKS)
        return stack

    @staticmethod
    def members(engine: Engine, stack: StackRecord) -> dict[str, StackRecord]:
        found = engine.store.stacks.descendants(engine.get(stack))
        return {str(one.parent_resource): one for one in found if one.depth == 2}

    @pytest.mark.slow
    def test_it_grows_beside_a_locked_member(self, engine: Engine, stack: StackRecord) -> None:
        locked = self.members(engine, stack)["0"]
        assert state(*of(engine.put(stack, self.group(3), files=FILES))) == "UPDATE_COMPLETE"
        members = self.members(engine, stack)
        assert members.keys() == {"0", "1", "2"}
        assert members["0"] == locked

    @pytest.mark.slow
    def test_it_shrinks_down_to_a_locked_member(self, engine: Engine, stack: StackRecord) -> None:
        assert state(*of(engine.put(stack, self.group(1), files=FILES))) == "UPDATE_COMPLETE"
        assert self.members(engine, stack).keys() == {"0"}
        with pytest.raises(StackLocked):
            engine.put(stack, self.group(0), files=FILES)

    def test_it_does_not_change_a_locked_member(self, engine: Engine, stack: StackRecord) -> None:
        with pytest.raises(StackLocked):
            engine.put(stack, self.group(2, "new"), files=FILES)

    def test_it_is_not_replaced_around_a_locked_member(self, engine: Engine, stack: StackRecord) -> None:
        with pytest.raises(StackLocked):
            engine.mark(stack, "g")


def failing(**what: bool) -> dict[str, str]:
    """The files, with a resource in the leaf that cannot be locked or unlocked."""
    resources: Any = LEAF["resources"]
    return {**FILES, "leaf.yaml": text({**LEAF, "resources": {**resources, "bad": thing("bad", **what)}})}


class TestFailures:
    @pytest.fixture
    def broken(self, engine: Engine, tree: Tree) -> Tree:
        """The leaf cannot be locked."""
        engine.put(tree.root, root(), files=failing(fail_lock=True))
        engine.lock(tree.root)
        return tree

    @pytest.mark.slow
    def test_the_others_go_on_and_the_root_says_why(self, engine: Engine, broken: Tree) -> None:
        assert broken.states() == ["LOCK_FAILED"] * 3
        assert broken.held() == [True] * 3
        assert "resources.middle.resources.leaf.resources.bad: " in broken["root"].status_reason
        assert "resources.bad: " in broken["leaf"].status_reason
        assert engine.states(broken.root) == {"middle": "LOCK_FAILED", "w": "LOCK_COMPLETE", "after": "LOCK_COMPLETE"}
        refused(broken, lambda: engine.patch(broken.root))
        for name in ("middle", "leaf"):
            refused(broken, lambda name=name: engine.delete(broken[name]))

    @pytest.mark.slow
    def test_it_is_unlocked_whole(self, engine: Engine, broken: Tree) -> None:
        engine.unlock(broken.root)
        assert broken.states() == ["UNLOCK_COMPLETE"] * 3
        assert broken.held() == [False] * 3

    @pytest.mark.slow
    def test_it_is_tried_again(self, engine: Engine, broken: Tree) -> None:
        (bad,) = [row for row in engine.rows(broken["leaf"]) if row.name == "bad"]
        with engine.store.transaction():
            engine.store.resources.save_many([replace(bad, properties={**bad.properties, "fail_lock": False})])
        engine.lock(broken.root)
        assert broken.states() == ["LOCK_COMPLETE"] * 3

    @pytest.mark.slow
    def test_it_is_deleted_whole(self, engine: Engine, broken: Tree) -> None:
        stack = engine.delete(broken.root)
        assert state(*of(stack)) == "DELETE_COMPLETE"
        assert engine.store.stacks.descendants(broken.root) == []

    @pytest.mark.slow
    def test_an_unlock_fails_as_a_lock_does(self, engine: Engine, tree: Tree) -> None:
        engine.put(tree.root, root(), files=failing(fail_unlock=True))
        engine.lock(tree.root)
        stack = engine.unlock(tree.root)
        assert tree.states() == ["UNLOCK_FAILED"] * 3
        assert tree.held() == [False] * 3
        assert "resources.middle.resources.leaf.resources.bad: " in stack.status_reason
        assert tree.locks() == [(ALL, "own"), (ALL, "root"), (ALL, "root")]
        refused(tree, lambda: engine.lock(tree["leaf"]))
        refused(tree, lambda: engine.unlock(tree["leaf"]))
        stack = engine.delete(tree.root)
        assert state(*of(stack)) == "DELETE_COMPLETE"

    @pytest.mark.slow
    def test_a_lock_of_ones_own_that_failed_does_not_hold_the_ancestors_up(self, engine: Engine, tree: Tree) -> None:
        engine.put(tree.root, root(), files=failing(fail_lock=True))
        engine.lock(tree["leaf"])
        assert tree.states()[2] == "LOCK_FAILED"
        engine.lock(tree.root)
        engine.unlock(tree.root)
        assert tree.states() == ["UNLOCK_COMPLETE", "UNLOCK_COMPLETE", "LOCK_FAILED"]
        engine.unlock(tree["leaf"])
        assert tree.states()[2] == "UNLOCK_COMPLETE"

    @pytest.mark.slow
    def test_what_a_failed_delete_leaves_can_be_deleted(self, engine: Engine, broken: Tree) -> None:
        """The lock is gone, whatever the states of the nested stacks say."""
        engine.put_stack(broken["root"], Verb.DELETE, Status.FAILED)
        assert broken.locks() == [None] * 3
        stack = engine.delete(broken.root)
        assert state(*of(stack)) == "DELETE_COMPLETE"


class TestNothingIsForgotten:
    @pytest.mark.slow
    @pytest.mark.parametrize("level", [ALL, STACKS])
    @pytest.mark.parametrize("name", NAMES)
    def test_a_suspended_tree_can_be_resumed(self, engine: Engine, tree: Tree, name: str, level: LockLevel) -> None:
        engine.suspend(tree.root)
        engine.lock(tree[name], level)
        engine.unlock(tree[name])
        for one in NAMES:
            assert set(engine.states(tree[one]).values()) == {"SUSPEND_COMPLETE"}
        engine.resume(tree.root)
        assert tree.states() == ["RESUME_COMPLETE"] * 3
        for one in NAMES:
            assert set(engine.states(tree[one]).values()) == {"RESUME_COMPLETE"}

    @pytest.mark.slow
    @pytest.mark.parametrize("level", [ALL, STACKS])
    @pytest.mark.parametrize("name", NAMES)
    def test_a_mark_is_still_there(self, engine: Engine, tree: Tree, name: str, level: LockLevel) -> None:
        engine.mark(tree["leaf"], "x", reason="it smells")
        old = engine.ids(tree["leaf"])
        engine.lock(tree[name], level)
        engine.unlock(tree[name])
        row = engine.row(tree["leaf"], "x")
        assert (state(row.verb, row.status), row.status_reason) == ("CHECK_FAILED", "it smells")
        engine.patch(tree.root)
        assert engine.ids(tree["leaf"])["x"] != old["x"]
        assert engine.ids(tree["leaf"])["z"] == old["z"]

    @pytest.mark.slow
    @pytest.mark.parametrize("level", [ALL, STACKS, None])
    @pytest.mark.parametrize("marked", [True, False])
    def test_a_failed_check_is_told_from_a_mark(
        self, engine: Engine, tree: Tree, marked: bool, level: LockLevel | None
    ) -> None:
        """A marked nested stack is replaced whole; after a failed check members decide."""
        engine.mark(tree["leaf"], "x")
        if marked:
            engine.mark(tree["root"], "middle")
        else:
            engine.put_row(tree["middle"], "leaf", Verb.CHECK, Status.FAILED)
            engine.put_row(tree["root"], "middle", Verb.CHECK, Status.FAILED)
            for name in ("middle", "leaf"):
                engine.put_stack(tree[name], Verb.CHECK, Status.FAILED)
        if level is not None:
            engine.lock(tree.root, level)
            engine.lock(tree.root, ALL)
            engine.unlock(tree.root)
            engine.lock(tree["middle"], level)
            engine.unlock(tree["middle"])
        old, member = engine.ids(tree["root"]), engine.ids(tree["leaf"])["x"]
        engine.patch(tree.root)
        assert (engine.ids(tree["root"])["middle"] != old["middle"]) == marked
        if not marked:
            assert engine.ids(tree["leaf"])["x"] != member


class TestMarks:
    def test_a_mark_changes_no_stack(self, engine: Engine, tree: Tree) -> None:
        engine.mark(tree["leaf"], "x")
        engine.mark(tree["root"], "middle")
        assert tree.states() == ["CREATE_COMPLETE"] * 3
        engine.mark(tree["root"], "middle", unhealthy=False)
        assert engine.states(tree["root"])["middle"] == "CHECK_COMPLETE"

    def test_a_nested_stack_is_found_by_its_id(self, engine: Engine, tree: Tree) -> None:
        engine.mark(tree["root"], tree.middle.id)
        engine.patch(tree.root)
        assert engine.get(tree.middle).deleted_at is not None
        assert engine.get(tree.leaf).deleted_at is not None

    def test_a_delete_of_a_nested_stack_stops_what_runs_in_it(self, engine: Engine, tree: Tree) -> None:
        slow = {**MIDDLE, "resources": {**MIDDLE["resources"], "slow": thing("s", wait_secs=50)}}
        with engine.clock.held():
            engine.put(tree["middle"], slow, files=FILES, parameters={"v": "v"}, wait=False)
            engine.begun(lambda: engine.states(tree["middle"]).get("slow") == "CREATE_IN_PROGRESS")
            engine.delete(tree["middle"], wait=False)
        engine.settle(tree.middle)
        assert engine.get(tree.middle).deleted_at is not None


# -- any history ---------------------------------------------------------------------------------------

LEVELS = st.sampled_from([ALL, STACKS])
STEPS = st.one_of(
    st.tuples(st.just("lock"), st.sampled_from(NAMES), LEVELS),
    st.tuples(st.just("unlock"), st.sampled_from(NAMES), st.none()),
    st.tuples(st.just("update"), st.sampled_from(["top", "own", "v"]), st.none()),
    st.tuples(st.just("mark"), st.just("leaf"), st.none()),
)


class Model:
    """Lock rules of a tree as specified: own locks, and their refusals."""

    def __init__(self) -> None:
        self.own: dict[str, LockLevel] = {}
        self.marked = False

    def covering(self, name: str) -> list[LockLevel]:
        chain = NAMES[: NAMES.index(name) + 1]
        return [self.own[one] for one in chain if one in self.own]

    def allows(self, step: str, what: str) -> bool:
        match step:
            case "lock":
                return True
            case "unlock":
                return what in self.own and len(self.covering(what)) == 1
            case "mark":
                return not self.covering(what)
        touched = {"top": {"root"}, "own": {"root", "middle"}, "v": {*NAMES}}[what]
        if self.marked:
            touched = {*NAMES}  # it would be healed
        return not touched & self.own.keys()


def do(tree: Tree, step: str, what: str, level: LockLevel | None, changed: dict[str, str]) -> None:
    match step:
        case "lock":
            assert level is not None
            tree.engine.lock(tree[what], level)
        case "unlock":
            tree.engine.unlock(tree[what])
        case "mark":
            tree.engine.mark(tree[what], "x")
        case _:
            tree.put(**changed)


@pytest.mark.slow
@FEW_EXAMPLES
@given(st.lists(STEPS, max_size=10))
def test_any_history_of_locks(plugins: Path, steps: list[tuple[str, str, LockLevel | None]]) -> None:
    with tempfile.TemporaryDirectory() as folder, closing(Engine(Path(folder))) as engine:
        tree, model = Tree(engine), Model()
        values = dict.fromkeys(("top", "own", "v"), "v")
        for number, (step, what, level) in enumerate(steps):
            changed = {**values, what: str(number)}
            if not model.allows(step, what):
                refused(tree, partial(do, tree, step, what, level, changed), Conflict)
                continue
            do(tree, step, what, level, changed)
            if step == "lock":
                assert level is not None
                model.own[what] = level
            elif step == "unlock":
                del model.own[what]
            elif step == "mark":
                model.marked = True
            else:
                values, model.marked = changed, False
            assert engine.value(tree["root"], "w") == values["top"]
            assert engine.value(tree["middle"], "y") == values["own"]
            assert engine.value(tree["leaf"], "x") == values["v"]
            assert [one == "LOCK_COMPLETE" for one in tree.states()] == [bool(model.covering(one)) for one in NAMES]
            assert tree.held() == [ALL in model.covering(one) for one in NAMES]
            assert {one for one in NAMES if tree[one].lock is not None} == model.own.keys()
            if not model.covering("leaf"):
                assert (engine.states(tree["leaf"])["x"] == "CHECK_FAILED") == model.marked


def of(stack: StackRecord) -> tuple[str, str]:
    return stack.verb, stack.status
