"""An engine, also on a simulated cloud, and its revisions."""

from typing import Any

import pytest

from heatlite.features.revisions.store.records import RevisionSummary
from heatlite.features.revisions.store.store import RevisionStore
from heatlite.features.revisions.undoing import Revisions, UndoRequest
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, _no_engine_outlives_its_test, engine, place, plugins  # noqa: F401
from tests.types.conftest import cloudy, troubled  # noqa: F401


class Kept:
    """Revisions of the stacks of an engine."""

    def __init__(self, engine: Engine) -> None:  # noqa: F811 - the fixture
        self.engine = engine

    @property
    def store(self) -> RevisionStore:
        return self.engine.store.of(RevisionStore)

    @property
    def operations(self) -> Revisions:
        return self.engine.components.of(Revisions)

    def of(self, stack: StackRecord) -> list[RevisionSummary]:
        """The revisions of a stack, oldest first."""
        return [*reversed(self.store.of_stack(stack.id))]

    def numbers(self, stack: StackRecord) -> list[int]:
        return [one.number for one in self.of(stack)]

    def results(self, stack: StackRecord) -> list[str | None]:
        return [one.result for one in self.of(stack)]

    def undo(self, stack: StackRecord, to: int | None = None) -> StackRecord:
        now = self.engine.get(stack)
        self.operations.undo(self.engine.who, now, UndoRequest(to), {"undo": {"to": to}})
        return self.engine.settle(stack)

    def plan(self, stack: StackRecord, to: int | None = None) -> Any:
        return self.operations.plan(self.engine.who, self.engine.get(stack), UndoRequest(to))


@pytest.fixture
def kept(engine: Engine) -> Kept:  # noqa: F811 - the fixture
    return Kept(engine)
