"""An engine on a simulated cloud, and imports of its objects."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import pytest
from msgspec import convert, to_builtins

from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import ShownPlan, StackRequest
from heatlite.features.ownership.bodies import ImportRequest, MoveRequest
from heatlite.features.ownership.importing import Imports
from heatlite.features.ownership.moving import ResourceMoves
from heatlite.features.ownership.reading import CHANGES
from heatlite.store.records import StackRecord
from tests.engine.conftest import _no_engine_outlives_its_test, engine, place, plugins, template  # noqa: F401
from tests.types.conftest import Cloudy, cloudy, troubled  # noqa: F401


class Imported:
    """Imports into stacks of an engine."""

    def __init__(self, cloudy: Cloudy) -> None:  # noqa: F811 - the fixture
        self.cloudy = cloudy
        self.operations = cloudy.components.of(Imports)
        self.moves = cloudy.components.of(ResourceMoves)

    def empty(self, name: str = "b") -> StackRecord:
        """Return a stack without resources."""
        return self.cloudy.create(template(), name)

    def plan(self, stack: StackRecord, resources: Mapping[str, Any], **options: Any) -> ShownPlan:
        """Return the plan of an import."""
        return self.operations.plan(self.cloudy.who, stack, self.asked(resources, **options))

    def asked(self, resources: Mapping[str, Any], **options: Any) -> ImportRequest:
        """Return the body of an import."""
        return convert({"resources": resources, **options}, ImportRequest)

    def done(self, stack: StackRecord, resources: Mapping[str, Any], **options: Any) -> StackRecord:
        """Return the stack after an import, which changes nothing in the cloud."""
        with self.untouched():
            body = {"resources": resources, **options, "plan_digest": self.plan(stack, resources, **options).digest}
            self.operations.start(self.cloudy.who, stack, convert(body, ImportRequest), {"import": body})
        after = self.cloudy.store.stacks.get(stack.id)
        assert after is not None
        return after

    def move_plan(
        self, stack: StackRecord, names: Mapping[str, str], to_stack: str | None = None, **more: Any
    ) -> ShownPlan:
        """Return the plan of a move."""
        return self.moves.plan(self.cloudy.who, stack, moving(names, to_stack, **more))

    def moved(
        self, stack: StackRecord, names: Mapping[str, str], to_stack: str | None = None, **more: Any
    ) -> StackRecord:
        """Return the stack after a move, which changes nothing in the cloud."""
        with self.untouched():
            asked = moving(names, to_stack, self.move_plan(stack, names, to_stack, **more).digest, **more)
            self.moves.start(self.cloudy.who, stack, asked, {"move": to_builtins(asked)})
        return self.cloudy.get(stack)

    def first_plan(self, stack: StackRecord) -> dict[str, str]:
        """Return what the next update with the stored definition would do, by path."""
        plan = self.cloudy.stacks.preview_update(self.cloudy.who, stack, StackRequest(), existing=True, plan=True).plan
        assert plan is not None
        return {"/".join(one.path): one.action for one in plan.resources if one.action != "keep"}

    @contextmanager
    def untouched(self) -> Iterator[None]:
        """Fail if a request changes the cloud meanwhile."""
        calls: list[str] = []
        simulation = self.cloudy.view().simulation
        before = simulation.verbs

        def noted(verb: str, call: Any) -> Any:
            def run(*arguments: Any, **attributes: Any) -> Any:
                calls.append(verb)
                return call(*arguments, **attributes)

            return run

        simulation.verbs = {verb: noted(verb, call) for verb, call in before.items()}
        objects = {kind: dict(things) for kind, things in simulation._objects.items()}
        try:
            yield
        finally:
            simulation.verbs = before
        assert [verb for verb in calls if CHANGES.match(verb.partition(".")[2])] == []
        assert {kind: dict(things) for kind, things in simulation._objects.items() if things} == {
            kind: things for kind, things in objects.items() if things
        }


def moving(
    names: Mapping[str, str], to_stack: str | None = None, digest: str | None = None, **more: Any
) -> MoveRequest:
    """Return the body of a move."""
    moved = [{"from": old, "to": new} for old, new in names.items()]
    return convert({"moved": moved, "to_stack": to_stack, "plan_digest": digest, **more}, MoveRequest)


@pytest.fixture
def imported(cloudy: Cloudy) -> Imported:  # noqa: F811 - the fixture
    return Imported(cloudy)


def given(path: str, kind: str, **options: Any) -> JsonMap:
    """Return an entry of a body."""
    return {path: {"type": kind, **options}}
