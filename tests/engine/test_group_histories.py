"""Random histories of two groups against a small model of the specification."""

import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.status import Status
from heatlite.store.records import StackRecord
from tests.engine.conftest import Engine, template
from tests.engine.test_groups import group, nested, outcome, policy, scaling, signal, thing
from tests.laws import FEW_EXAMPLES

LOW, HIGH = 1, 4


@dataclass
class Wanted:
    """Parameters of the template."""

    count: int = 2
    value: str = "v0"
    removed: list[str] = field(default_factory=list)
    desired: int | None = 2
    rolling: bool = False

    def template(self) -> Any:
        rolls = {"update_policy": {"rolling_update": {"min_in_service": 1}}} if self.rolling else {}
        numbered = group(self.count, thing(self.value), removal_policies=[{"resource_list": self.removed}], keys=rolls)
        more = {} if self.desired is None else {"desired_capacity": self.desired}
        resized = scaling(thing(self.value), low=LOW, high=HIGH, **more)
        return template(g=numbered, s=resized, up=policy(1, of="s"), down=policy(-2, of="s"))


class History:
    """A stack and its members: names with the ids of their rows, and the failed ones."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.wanted = Wanted()
        self.gone: set[str] = set()
        self.failed: dict[str, set[str]] = {"g": set(), "s": set()}
        self.stack = engine.create(self.wanted.template())
        self.seen = {name: self.look(name) for name in ("g", "s")}
        assert (set(self.seen["g"]), len(self.seen["s"])) == ({"0", "1"}, 2)

    def inner(self, name: str) -> StackRecord:
        return nested(self.engine, self.stack, name)

    def look(self, name: str) -> dict[str, str]:
        return self.engine.ids(self.inner(name))

    def going(self) -> list[str]:
        """The members of the scaling group, the first to go at the front."""
        rows = {row.name: row for row in self.engine.rows(self.inner("s"))}
        return sorted(rows, key=lambda name: (name not in self.failed["s"], rows[name].created_at, name))

    # -- what happens ------------------------------------------------------------------------------

    def update(self) -> None:
        """An update, and what has to come of it."""
        self.gone |= {name for name in self.wanted.removed if name in self.seen["g"]}
        free = [str(number) for number in range(50) if str(number) not in self.gone]
        size = self.wanted.desired if self.wanted.desired is not None else len(self.seen["s"])
        order = self.going()
        rolls = any(self.engine.value(self.inner("s"), name) != self.wanted.value for name in self.seen["s"])
        self.stack = self.engine.put(self.stack, self.wanted.template())
        assert outcome(self.stack) == "UPDATE_COMPLETE"
        self.compare("g", set(free[: self.wanted.count]))
        after_rolling = set(order) if rolls else None
        self.compare_scaled(order, size, after_rolling)
        for name in ("g", "s"):
            inner = self.inner(name)
            assert {self.engine.value(inner, member) for member in self.seen[name]} <= {self.wanted.value}

    def resize(self, by: int) -> None:
        well = len(self.seen["s"]) - len(self.failed["s"])
        size = max(LOW, min(HIGH, well + by))
        order = self.going()
        signal(self.engine, self.stack, "up" if by > 0 else "down", of="s")
        if size != well:
            self.compare_scaled(order, size, None)

    def mark(self, name: str, number: int) -> None:
        if not self.seen[name]:
            return
        member = sorted(self.seen[name])[number % len(self.seen[name])]
        self.engine.mark(self.inner(name), member)
        self.failed[name].add(member)

    def fall_ill(self, number: int) -> None:
        """One fails, and the group shrinks: it must be that one."""
        self.mark("s", number)
        if number % 2:
            self.resize(-2)
        else:
            self.wanted.desired = max(LOW, len(self.seen["s"]) - 1)
            self.update()

    def compare(self, name: str, expected: set[str]) -> None:
        """These members are there, all are well, and only the failed ones were made again."""
        after = self.look(name)
        assert set(after) == expected
        kept = self.seen[name].keys() & after.keys()
        assert {member for member in kept if after[member] != self.seen[name][member]} == self.failed[name] & kept
        assert all(row.status is Status.COMPLETE for row in self.engine.rows(self.inner(name)))
        self.seen[name], self.failed[name] = after, set()

    def compare_scaled(self, order: list[str], size: int, rolled: set[str] | None) -> None:
        """The first to go are gone, or others have come.

        (What a rolling update mends no longer goes first.)
        """
        after = set(self.look("s"))
        assert len(after) == size
        if rolled is None or not self.failed["s"]:
            staying = set(order[max(len(order) - size, 0) :])
            assert staying <= after
            assert len(after - set(order)) == max(size - len(order), 0)
        self.compare("s", after)


INDEX = st.integers(0, 9)
STEPS: st.SearchStrategy[tuple[Callable[..., None], int]] = st.tuples(
    st.sampled_from([
        lambda history, n: setattr(history.wanted, "count", n % 5),
        lambda history, n: setattr(history.wanted, "value", f"v{n}"),
        lambda history, n: setattr(history.wanted, "removed", [str(n % 4), "nobody"]),
        lambda history, n: setattr(history.wanted, "desired", None if n > HIGH else max(LOW, n)),
        lambda history, n: setattr(history.wanted, "rolling", n % 2 == 0),
        lambda history, n: history.update(),
        lambda history, n: history.update(),
        lambda history, n: history.resize(1 if n % 2 else -2),
        lambda history, n: history.mark("g", n),
        lambda history, n: history.mark("s", n),
        lambda history, n: history.fall_ill(n),
        lambda history, n: history.fall_ill(n),
        lambda history, n: history.fall_ill(n),
        lambda history, n: history.engine.clock.pass_(n),
        lambda history, n: (history.engine.close(), history.engine.open()),
    ]),
    INDEX,
)  # fmt: skip


@pytest.mark.slow
@given(steps=st.lists(STEPS, min_size=6, max_size=14))
@FEW_EXAMPLES
@pytest.mark.usefixtures("plugins")
def test_groups_become_what_they_are_to_be(steps: list[tuple[Callable[..., None], int]]) -> None:
    memory = Path("/dev/shm")
    with tempfile.TemporaryDirectory(dir=memory if memory.is_dir() else None) as folder:
        engine = Engine(Path(folder))
        try:
            history = History(engine)
            for step, number in steps:
                step(history, number)
            history.update()
            assert outcome(engine.delete(history.stack)) == "DELETE_COMPLETE"
        finally:
            engine.close()
