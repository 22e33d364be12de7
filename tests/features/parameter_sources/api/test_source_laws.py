"""Laws of values of other stacks, over random requests to three stacks."""

from dataclasses import dataclass, field

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite import wiring
from tests.api.conftest import Heat, new_project
from tests.features.parameter_sources.api.test_sources import parameters, put, source, sources
from tests.laws import FEW_EXAMPLES

NAMES = ("a", "b", "c")
TEMPLATE = {
    "heat_template_version": "2021-04-16",
    "parameters": {"v": {"type": "string"}},
    "outputs": {"v": {"value": {"get_param": "v"}}},
}


@dataclass
class Known:
    """A stack as it should be."""

    path: str
    value: str
    owner: str = ""
    """Name of the stack that it reads of."""
    owner_path: str = ""


@dataclass
class Model:
    """Stacks of a project, and requests to them."""

    heat: Heat
    stacks: dict[str, Known] = field(default_factory=dict)
    count: int = 0

    def make(self, name: str) -> None:
        value = self._new_value()
        path = self.heat.create(TEMPLATE, name, parameters={"v": value})
        self.stacks[name] = Known(path, value)

    def _new_value(self) -> str:
        self.count += 1
        return f"v{self.count}"

    def closes(self, name: str, other: str) -> bool:
        """Tell whether the other stack has its value from this one."""
        while other != name:
            known = self.stacks[other]
            if not known.owner or known.owner_path != self.stacks[known.owner].path:
                return False
            other = known.owner
        return True

    def own(self, name: str, _other: str) -> None:
        known = self.stacks[name]
        known.value, known.owner = self._new_value(), ""
        put(self.heat, known.path, {"parameters": {"v": known.value}}, "PATCH")

    def read(self, name: str, other: str, method: str = "PUT") -> None:
        known, body = self.stacks[name], {"parameter_sources": {"v": source(other, "v")}}
        body |= {"template": TEMPLATE} if method == "PUT" else {}
        keeps = method == "PATCH" and known.owner == other
        if not keeps and self.closes(name, other):
            assert self.heat.fault(method, known.path, body)[0] == "CircularDependencyException"
            return
        put(self.heat, known.path, body, method)
        if not keeps:
            known.value, known.owner, known.owner_path = self.stacks[other].value, other, self.stacks[other].path

    def read_once(self, name: str, other: str) -> None:
        self.read(name, other, "PATCH")

    def refresh(self, name: str, _other: str) -> None:
        known = self.stacks[name]
        if known.owner and self.stacks[known.owner].path != known.owner_path:
            assert "is gone" in self.heat.fault("PATCH", known.path, {"refresh": True})[1]
            return
        put(self.heat, known.path, {"refresh": True}, "PATCH")
        if known.owner:
            known.value = self.stacks[known.owner].value

    def make_again(self, name: str, _other: str) -> None:
        path = self.stacks[name].path
        self.heat.call("DELETE", path, code=204)
        self.heat.settle(path, "DELETE_COMPLETE")
        self.make(name)

    def check(self) -> None:
        """Compare all stacks: each request changes its own only."""
        for known in self.stacks.values():
            assert parameters(self.heat, known.path) == {"v": known.value}
            found = []
            if known.owner:
                owner = self.stacks[known.owner]
                state = "current" if owner.value == known.value else "behind"
                found.append(("v", known.owner, "v", state if owner.path == known.owner_path else "gone"))
            assert sources(self.heat, known.path) == found


STEPS = st.tuples(
    st.sampled_from([Model.own, Model.read, Model.read_once, Model.refresh, Model.make_again]),
    st.sampled_from(NAMES),
    st.sampled_from(NAMES),
)


@pytest.mark.slow
@FEW_EXAMPLES
@given(steps=st.lists(STEPS, min_size=4, max_size=9))
def test_random_requests(server: wiring.Embedded, steps: list[tuple[object, str, str]]) -> None:
    """E1, E2, E5, E8: a model tells each value, each state and each refusal."""
    model = Model(new_project(server))
    for name in NAMES:
        model.make(name)
    for step, name, other in steps:
        step(model, name, other)  # type: ignore[operator]
        model.check()
