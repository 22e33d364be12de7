"""Random histories of groups that hand objects to each other."""

import tempfile
from pathlib import Path
from typing import Any, TypeAlias

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import InvalidValue
from heatlite.engine.state.group_requests import Adjustment, Joining, JoinRequest, Leave, ResizeRequest
from tests.databases import MEMORY
from tests.engine.conftest import Engine, template
from tests.engine.test_groups import group, nested, scaling, thing
from tests.engine.test_membership import plan_of
from tests.laws import FEW_EXAMPLES

HIGH = 4
GROUPS = ("g", "s")
Step: TypeAlias = tuple[str, str, int]


class Hands:
    """Two groups, and the objects that have left them."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        wanted = {"g": group(2, thing("v")), "s": scaling(thing("v"), low=0, high=HIGH, desired_capacity=2)}
        self.stack = engine.create(template(**wanted))
        self.free: list[str] = []
        self.size = dict.fromkeys(GROUPS, 2)

    def members(self, name: str) -> dict[str, tuple[str, str]]:
        """Names with row and object, oldest first."""
        rows = self.engine.rows(nested(self.engine, self.stack, name))
        ordered = sorted(rows, key=lambda row: (row.created_at, row.id))
        return {row.name: (row.id, row.physical_id or "") for row in ordered}

    def leave(self, name: str, number: int) -> None:
        before = self.members(name)
        if not before:
            return
        going = [*before][number % len(before)]
        reduce = number % 3 > 0
        self.engine.components.leaving.leave(self.engine.who, self.get(), name, Leave((going,), reduce))
        self.engine.settle(nested(self.engine, self.stack, name))
        self.free.append(before[going][1])
        self.size[name] -= reduce
        after = self.members(name)
        assert {key: one for key, one in before.items() if key != going}.items() <= after.items()

    def join(self, name: str, number: int) -> None:
        if not self.free:
            return
        before, joins = self.members(name), self.engine.components.joins
        entering = self.free[: 1 + number % 2]
        asked = JoinRequest(tuple(Joining(id=one) for one in entering))
        if name == "s" and self.size[name] + len(entering) > HIGH:
            with pytest.raises(InvalidValue):
                joins.plan(self.engine.who, self.get(), name, asked)
            return
        digest = joins.plan(self.engine.who, self.get(), name, asked).digest
        joins.join(self.engine.who, self.get(), name, JoinRequest(asked.members, plan_digest=digest))
        self.free = self.free[len(entering) :]
        self.size[name] += len(entering)
        assert before.items() <= self.members(name).items()

    def resize(self, name: str, number: int) -> None:
        size = number % (HIGH + 1)
        asked = ResizeRequest(Adjustment.EXACT_CAPACITY, size)
        self.engine.components.groups.change(self.engine.who, self.get(), name, asked)
        self.engine.settle(nested(self.engine, self.stack, name))
        self.size[name] = size

    def update(self, *_: Any) -> None:
        before = [self.members(name) for name in GROUPS]
        self.stack = self.engine.patch(self.stack)
        assert [self.members(name) for name in GROUPS] == before

    def get(self) -> Any:
        return self.engine.get(self.stack)

    def check(self) -> None:
        """Each object has one row at most, each group its size, and nothing is left to do."""
        found = [key for name in GROUPS for _, key in self.members(name).values()] + self.free
        assert len({*found}) == len(found)
        assert {name: len(self.members(name)) for name in GROUPS} == self.size
        assert plan_of(self.engine, self.stack) == []


STEPS = st.lists(
    st.tuples(st.sampled_from(["leave", "join", "resize", "update"]), st.sampled_from(GROUPS), st.integers(0, 11)),
    min_size=4,
    max_size=12,
)


@pytest.mark.slow
@given(steps=STEPS)
@FEW_EXAMPLES
@pytest.mark.usefixtures("plugins")
def test_an_object_has_one_owner_whatever_happens(steps: list[Step]) -> None:
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        engine = Engine(Path(folder))
        try:
            hands = Hands(engine)
            for step, name, number in steps:
                getattr(hands, step)(name, number)
                hands.check()
            engine.delete(hands.stack)
        finally:
            engine.close()
