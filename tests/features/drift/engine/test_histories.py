"""Laws 1.1 to 1.6 over random histories of changes, checks and updates."""

import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import InvalidStackState
from heatlite.features.drift.states import DriftState
from tests.engine.conftest import resource, template
from tests.features.drift.engine.test_accepting import accept, calls
from tests.features.drift.engine.test_drift import Outage, drift, told
from tests.features.drift.engine.test_reverting import revert
from tests.laws import FEW_EXAMPLES
from tests.types.conftest import Cloudy

NAMES = ("a", "b", "c")
TEXTS = ("one", "two")
names, texts = st.sampled_from(NAMES), st.sampled_from(TEXTS)
STEPS = st.one_of(
    st.tuples(st.just("change"), names, texts),
    st.tuples(st.sampled_from(("revert", "accept")), st.sampled_from((*NAMES, "")), texts),
    st.tuples(st.just("write"), names, texts),
    st.tuples(st.sampled_from(("check", "outage", "update", "converge")), st.just(""), texts),
)
"""An operation, its resource ("" for all), and a name for the object."""


class History:
    """A stack of networks: names in the cloud and in the template, and known drift."""

    def __init__(self, cloudy: Cloudy) -> None:
        self.cloudy = cloudy
        self.stored = dict.fromkeys(NAMES, "one")
        self.live = dict(self.stored)
        self.drifted: dict[str, bool] = {}
        """By resource, whether it is drifted; without one that no check has seen."""
        self.turns: dict[str, list[str]] = {name: [] for name in NAMES}
        self.stack = cloudy.made(self.resources())

    def resources(self) -> Mapping[str, object]:
        return {name: resource("OS::Neutron::Net", name=text) for name, text in self.stored.items()}

    def turn(self, name: str, is_drifted: bool) -> None:
        """Note what is known of a resource, with the event that it makes."""
        if is_drifted != self.drifted.get(name, False):
            self.turns[name].append("DRIFT_DETECTED" if is_drifted else "DRIFT_ENDED")
        self.drifted[name] = is_drifted

    def play(self, what: str, name: str, text: str) -> None:
        """Do one step, and what it is to do in the model."""
        if what == "change":
            self.cloudy.view().call("network.update_network", self.cloudy.row(self.stack, name).physical_id, name=text)
            self.live[name] = text
        elif what == "check":
            made = calls(self.cloudy)
            self.stack = self.cloudy.check(self.stack)
            assert made == []
            for one in NAMES:
                self.turn(one, self.live[one] != self.stored[one])
        elif what == "outage":
            with Outage(self.cloudy):
                self.stack = self.cloudy.check(self.stack)
            self.drifted = {one: self.drifted.get(one, False) for one in NAMES}
        elif what in ("revert", "accept"):
            self.settle(what, (name,) if name else ())
        else:
            self.update(what, name, text)

    def settle(self, what: str, chosen: tuple[str, ...]) -> None:
        """Put back or accept what is drifted, if the stack and an object admit it."""
        drifted = [one for one in chosen or NAMES if self.drifted.get(one)]
        wanted = chosen if chosen and what == "revert" else drifted  # one that is named need not be known to drift
        differs = [one for one in wanted if self.live[one] != self.stored[one]]
        if len(wanted) < len(chosen) or not differs:
            with pytest.raises(InvalidStackState):
                (revert if what == "revert" else accept)(self.cloudy, self.stack, *chosen)
            return
        if what == "revert":
            self.stack = revert(self.cloudy, self.stack, *chosen)
        else:
            made = calls(self.cloudy)
            self.stack = accept(self.cloudy, self.stack, *chosen)
            assert made == []
        for one in differs:
            side, other = (self.live, self.stored) if what == "revert" else (self.stored, self.live)
            side[one] = other[one]
            self.note_written(one)

    def update(self, what: str, name: str, text: str) -> None:
        """Update the stack: as it is, with another name, or with a look at the objects."""
        if what == "write":
            is_new = self.stored[name] != text
            self.stored[name] = text
            self.stack = self.cloudy.put(self.stack, template(**self.resources()))
            if is_new:
                self.live[name] = text
                self.note_written(name)
            return
        self.stack = self.cloudy.patch(self.stack, converge=what == "converge")
        if what == "converge":
            for one in NAMES:
                if self.live[one] != self.stored[one]:
                    self.live[one] = self.stored[one]
                    self.note_written(one)

    def note_written(self, name: str) -> None:
        if name in self.drifted:
            self.turn(name, False)

    def look(self) -> None:
        """Compare cloud, rows, lists and events with the model."""
        for name in NAMES:
            assert self.cloudy.thing(self.stack, name)["name"] == self.live[name]
            assert self.cloudy.row(self.stack, name).properties["name"] == self.stored[name]
            record = drift(self.cloudy, self.stack, name)
            assert (record is not None) == (name in self.drifted)
            assert record is None or (record.state is DriftState.DRIFTED) == self.drifted[name]
            found = [line.split()[1] for line in told(self.cloudy, self.stack) if line.startswith(f"{name} ")]
            assert found == self.turns[name]


@pytest.mark.slow
@given(st.lists(STEPS, max_size=12))
@FEW_EXAMPLES
def test_histories(steps: list[tuple[str, str, str]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        cloudy: Any = Cloudy(Path(folder))
        try:
            history = History(cloudy)
            for step in steps:
                history.play(*step)
                history.look()
        finally:
            cloudy.close()
