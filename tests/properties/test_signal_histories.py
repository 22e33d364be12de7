"""Random signals, restarts and time on random trees: each action ends once.

HEATLITE_SIGNAL_HISTORIES=1000 draws more of them, and others every time.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, note
from hypothesis import strategies as st

from heatlite.core.errors import ActionImmutable, Conflict, InvalidActionState, StackNotFound
from heatlite.core.status import ENDED_ACTIONS, Signal, Status, state
from heatlite.store.records import ActionRecord, StackRecord
from tests.engine.conftest import ADMIN, Engine, resource, template
from tests.laws import FEW_EXAMPLES

VERBS = ("create", "update", "delete", "check")

Tree = list["str | Tree"]
"""Of each resource, in a chain: which of its operations takes a minute; or the resources of its nested stack."""

trees: st.SearchStrategy[Tree] = st.recursive(
    st.lists(st.sampled_from(["", *VERBS]), min_size=1, max_size=3),
    lambda inner: st.lists(st.sampled_from(["", *VERBS]) | inner, min_size=1, max_size=3),
    max_leaves=5,
)


@dataclass(frozen=True)
class Event:
    what: str
    where: int = 0
    """Select one of the live actions."""
    seconds: float = 0.0


events = st.lists(
    st.builds(Event, st.sampled_from([*Signal, "FORCE", "DELETE"]), st.integers(0, 5))
    | st.builds(Event, st.sampled_from(["PASS", "PASS", "RESTART"]), seconds=st.sampled_from([0.0, 30.0, 61.0])),
    max_size=8,
)


class History:
    """A tree with an operation on it."""

    def __init__(self, engine: Engine, folder: Path) -> None:
        self.engine = engine
        self.folder = folder
        self.files: dict[str, str] = {}

    def document(self, tree: Tree, value: str) -> Any:
        """A template for the tree; those of nested stacks are left in `files`."""
        made: dict[str, object] = {}
        for number, part in enumerate(tree):
            after = f"r{number - 1}" if number % 2 else None
            if isinstance(part, str):
                given = {"folder": str(self.folder), "slow": part, "value": value}
                made[f"r{number}"] = resource("Test::Paced", depends_on=after, **given)
            else:
                name = f"{len(self.files)}.yaml"
                self.files[name] = ""
                self.files[name] = json.dumps(self.document(part, value))
                made[f"r{number}"] = resource(name, depends_on=after)
        return template(**made)

    def stacks(self) -> list[StackRecord]:
        ids = self.engine.store.database.read("SELECT id FROM stack")
        found = (self.engine.store.stacks.get(stack_id) for (stack_id,) in ids)
        return [stack for stack in found if stack is not None]

    def live(self) -> list[ActionRecord]:
        return self.engine.store.actions.live([stack.id for stack in self.stacks()])

    def begin(self, verb: str, tree: Tree, stack: StackRecord | None) -> StackRecord:
        """Start the operation, on what is there."""
        engine = self.engine
        if stack is None:
            return engine.create(self.document(tree, "one"), wait=False, files=self.files)
        if verb == "update":
            self.files.clear()
            document = self.document(tree, "two")
            return engine.put(stack, document, wait=False, files=self.files, disable_rollback=False)
        if verb == "delete":
            return engine.delete(stack, wait=False)
        engine.stacks.check(engine.who, stack)
        return stack

    def happen(self, event: Event, root: StackRecord) -> None:
        live = self.live()
        if event.what == "PASS":
            self.engine.clock.pass_(event.seconds)
        elif event.what == "RESTART":
            self.engine.by_hand = True  # what a sweep sees to within a second is not orphaned yet
            self.engine.close()
            self.engine.by_hand = False
            self.engine.open()
        elif event.what == "DELETE":
            with suppress(Conflict, StackNotFound):
                self.engine.delete(root, wait=False)
        elif live:
            action, force = live[event.where % len(live)], event.what == "FORCE"
            with suppress(ActionImmutable, InvalidActionState):
                asked = Signal.CANCEL if force else Signal(event.what)
                self.engine.components.controls.signal(ADMIN, action, asked, force)

    def resume_all(self) -> None:
        for action in self.live():
            with suppress(ActionImmutable, InvalidActionState):
                self.engine.components.controls.signal(ADMIN, action, Signal.RESUME)

    def check(self) -> None:
        """All actions ended once; no hold is left; rows and objects match."""
        store = self.engine.store
        for (action_id,) in store.database.read("SELECT id FROM action"):
            moves = [one.after for one in store.actions.history(action_id)]
            assert len([status for status in moves if status in ENDED_ACTIONS]) == 1
            assert moves[-1] in ENDED_ACTIONS
        assert store.database.read("SELECT id FROM action WHERE exclusive_key IS NOT NULL OR owner IS NOT NULL") == []
        rows = [row for stack in self.stacks() for row in store.resources.of(stack.id)]
        assert [stack.name for stack in self.stacks() if stack.status is Status.IN_PROGRESS] == []
        assert [row.name for row in rows if row.status is Status.IN_PROGRESS or row.token is not None] == []
        names = {row.physical_name for row in rows}
        assert {path.name for path in self.folder.iterdir()} <= names, "nobody knows of it"


@pytest.fixture(scope="module", autouse=True)
def types() -> Iterator[None]:
    """The types that are made for tests."""
    with pytest.MonkeyPatch.context() as patched:
        patched.syspath_prepend(str(Path(__file__).parent.parent / "engine" / "types"))
        yield


@pytest.mark.slow
@FEW_EXAMPLES
@given(st.sampled_from(VERBS), trees, events)
def test_every_action_ends_exactly_once(verb: str, tree: Tree, happens: list[Event]) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as name:
        place, folder = Path(name), Path(name) / "objects"
        folder.mkdir()
        engine = Engine(place)
        try:
            history = History(engine, folder)
            before = None if verb == "create" else engine.settle(history.begin("create", tree, None))
            with engine.clock.held():
                root = history.begin(verb, tree, before)
                for event in happens:
                    note(f"{event} {[(one.verb, one.status, one.control) for one in history.live()]}")
                    history.happen(event, root)
                history.resume_all()
            engine.wait_for(lambda: history.resume_all() or not history.live())
            history.check()
            root = engine.get(root)
            if root.deleted_at is None:
                root = engine.delete(root)
            assert state(root.verb, root.status) == "DELETE_COMPLETE"
            history.check()
            assert list(folder.iterdir()) == []
        finally:
            engine.close()
