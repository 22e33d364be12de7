"""Maintenance locks and marks in trees of stacks (lock-and-health §1, §2): own and inherited locks, what they allow."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.api import views
from heatlite.core.errors import Forbidden, HeatliteError, StackLocked
from heatlite.core.status import LockLevel, Status, Verb, state
from heatlite.store.records import StackRecord
from tests.engine.conftest import ADMIN, MEMBER, Engine, attr, param, resource, template, thing

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
        """Whose objects are locked themselves."""
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


class TestInherited:
    @pytest.mark.parametrize("level", [ALL, STACKS])
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

    def test_it_expires_as_a_whole(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree.root, ALL, expires_at=engine.clock.now() + 60)
        engine.clock.pass_(61)
        engine.wait_for(lambda: tree.states() == ["UNLOCK_COMPLETE"] * 3)
        assert tree.held() == [False] * 3

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
    @pytest.mark.parametrize("above", [ALL, STACKS])
    @pytest.mark.parametrize("own", [ALL, STACKS])
    @pytest.mark.parametrize("name", ["middle", "leaf"])
    @pytest.mark.parametrize("first", ["own", "above"])
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

    def test_its_level_never_lets_go_of_what_the_ancestor_holds(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree.root, ALL)
        engine.lock(tree["leaf"], ALL)
        engine.lock(tree["leaf"], STACKS)
        assert tree.held() == [True] * 3
        engine.lock(tree.root, STACKS)
        assert tree.held() == [False] * 3
        assert tree.states() == ["LOCK_COMPLETE"] * 3

    def test_it_expires_after_the_ancestors(self, engine: Engine, tree: Tree) -> None:
        engine.lock(tree["leaf"], ALL, expires_at=engine.clock.now() + 60)
        engine.lock(tree.root, STACKS)
        engine.clock.pass_(61)
        engine.rooms.maintenance.expire_locks()
        assert tree.states() == ["LOCK_COMPLETE"] * 3
        engine.unlock(tree.root)
        engine.wait_for(lambda: tree.states() == ["UNLOCK_COMPLETE"] * 3)

    def test_an_admins_lock_below_is_not_deleted_by_others(self, engine: Engine, tree: Tree) -> None:
        engine.who = ADMIN
        leaf = engine.lock(tree["leaf"])
        engine.put_stack(tree["leaf"], Verb.LOCK, Status.FAILED, leaf.lock)
        engine.who = MEMBER
        refused(tree, lambda: engine.delete(tree.root), Forbidden)

    @pytest.mark.parametrize("name", ["middle", "leaf"])
    @pytest.mark.parametrize("what", ["delete", "check", "suspend", "resume", "lock"])
    def test_what_touches_everything_is_refused(self, engine: Engine, tree: Tree, what: str, name: str) -> None:
        engine.lock(tree[name], STACKS)
        if what == "lock":
            engine.lock(tree.root)
        else:
            assert f"Stack {tree[name].name} is" in refused(tree, lambda: getattr(engine, what)(tree.root))


class TestUpdate:
    """Of an ancestor of a stack that is locked on its own."""

    @pytest.mark.parametrize("name", ["middle", "leaf"])
    @pytest.mark.parametrize("level", [ALL, STACKS])
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
        [
            ("middle", {"v": "new"}),
            ("middle", {"own": "new"}),
            ("leaf", {"v": "new"}),
        ],
    )
    def test_it_may_not_change_it(self, engine: Engine, tree: Tree, name: str, change: dict[str, str]) -> None:
        engine.lock(tree[name], STACKS)
        assert f"Stack {tree[name].name} is" in refused(tree, lambda: tree.put(**change))
        (entry,) = engine.store.suppressed.list(tree.root.id)
        assert (entry.request, entry.method) == ("update", "PUT")

    @pytest.mark.parametrize("name", ["middle", "leaf"])
    def test_it_may_not_remove_it(self, engine: Engine, tree: Tree, name: str) -> None:
        engine.lock(tree[name], STACKS)
        refused(tree, lambda: engine.put(tree.root, template(w=thing("v")), files=FILES))

    @pytest.mark.parametrize("name", ["middle", "leaf"])
    def test_it_may_not_give_it_other_files(self, engine: Engine, tree: Tree, name: str) -> None:
        engine.lock(tree[name], STACKS)
        files = {**FILES, "leaf.yaml": text({**LEAF, "description": "new"})}
        refused(tree, lambda: engine.put(tree.root, root(), files=files))

    @pytest.mark.parametrize("name", ["middle", "leaf"])
    def test_it_may_not_heal_it(self, engine: Engine, tree: Tree, name: str) -> None:
        engine.mark(tree["leaf"], "x")
        engine.lock(tree[name], STACKS)
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


def of(stack: StackRecord) -> tuple[str, str]:
    return stack.verb, stack.status
