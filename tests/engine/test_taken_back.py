"""Older objects that an update of a part takes back, beside newer ones in use.

A failed update has replaced an object, and others use the new one already. Then an update of a part takes the old one
back (G8), and leaves the users out: both objects stay (D5). The old one is that of the resource from then on.
"""

import json
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.status import Status
from heatlite.engine.state.requests import Reach
from heatlite.store.records import ResourceRecord, StackRecord

from .conftest import Engine, attr, ref, resource, template, thing

pytestmark = pytest.mark.database
TARGET, EXCLUDE = Reach(target=("net",)), Reach(exclude=("port",))


def site(value: str, nested: bool, **more: Any) -> dict[str, Any]:
    """A template with files; the resources are those of a nested stack, perhaps."""
    outputs = {"id": {"value": ref("net")}, "of": {"value": attr("net", "output")}}
    own: Any = template(net=thing(value, update_replace=True), port=thing(ref("net")))
    own["outputs"] = outputs
    own["resources"].update(more)
    if not nested:
        return {"template": own}
    above = {name: {"value": attr("top", name)} for name in outputs}
    files = {"top.yaml": json.dumps(own)}
    return {"template": {**template(top=resource("top.yaml")), "outputs": above}, "files": files}


class Site:
    """A stack with both objects of `net`."""

    def __init__(self, engine: Engine, nested: bool) -> None:
        self.engine, self.nested = engine, nested
        self.stack = engine.create(**site("1", nested))
        (self.old,) = self.rows("net")
        self.put("2", bad=thing(fail=True, depends_on="port"), status=Status.FAILED)
        self.new = next(row for row in self.rows("net") if row.id != self.old.id)
        assert self.value() == self.new.physical_id
        assert self.rows("port")[0].uses == (self.new.id,)

    @property
    def home(self) -> StackRecord:
        """The stack that has the resources."""
        return self.engine.store.stacks.descendants(self.stack)[0] if self.nested else self.engine.get(self.stack)

    def rows(self, name: str) -> list[ResourceRecord]:
        return [row for row in self.engine.rows(self.home) if row.name == name]

    def value(self) -> object:
        return self.engine.outputs(self.stack)["id"]

    def put(self, value: str, status: Status = Status.COMPLETE, reach: Reach | None = None, **more: Any) -> None:
        given = {} if reach is None else {"reach": self.reach(reach)}
        self.stack = self.engine.put(self.stack, **site(value, self.nested, **more), **given)
        assert self.stack.status is status, self.stack.status_reason

    def reach(self, reach: Reach) -> Reach:
        if not self.nested:
            return reach
        return Reach(*(tuple(f"top/{name}" for name in names) for names in (reach.target, reach.exclude)))

    def is_taken_back(self) -> bool:
        """True if the old object counts everywhere, and the new one is still there."""
        shown = self.engine.components.reader.resource(self.home, "net")
        both = {row.id for row in self.rows("net")} == {self.old.id, self.new.id}
        assert self.rows("port")[0].uses == (self.new.id,)
        return both and self.value() == self.old.physical_id == shown.physical_id


@pytest.fixture(params=[False, True], ids=["flat", "nested"])
def place(request: pytest.FixtureRequest, engine: Engine) -> Site:
    return Site(engine, request.param)


def check(place: Site) -> None:
    place.engine.stacks.check(place.engine.who, place.stack)
    place.stack = place.engine.settle(place.stack)


def suspended(place: Site) -> None:
    place.engine.stacks.suspend(place.engine.who, place.stack)
    place.engine.settle(place.stack)
    place.engine.stacks.resume(place.engine.who, place.engine.get(place.stack))
    place.stack = place.engine.settle(place.stack)


def again(place: Site) -> None:
    place.put("1", reach=EXCLUDE)


def rolled_back(place: Site) -> None:
    bad = site("1", place.nested, bad=thing(fail=True))
    place.stack = place.engine.put(place.stack, **bad, reach=place.reach(EXCLUDE), disable_rollback=False)
    assert (place.stack.verb, place.stack.status) == ("ROLLBACK", Status.COMPLETE), place.stack.status_reason


@pytest.mark.slow
@pytest.mark.parametrize("reach", [TARGET, EXCLUDE], ids=["target", "exclude"])
@pytest.mark.parametrize("then", [check, suspended, again, rolled_back])
def test_the_old_object_counts(place: Site, reach: Reach, then: Callable[[Site], None]) -> None:
    place.put("1", reach=reach)
    assert place.is_taken_back()
    then(place)
    assert place.is_taken_back()


@pytest.mark.slow
@pytest.mark.parametrize("value", ["1", "2", "3"])
def test_an_update_of_all_leaves_one(place: Site, value: str) -> None:
    """It chooses the object that fits, and deletes the others."""
    place.put("1", reach=TARGET)
    place.put(value)
    (row,) = place.rows("net")
    assert place.value() == row.physical_id and place.rows("port")[0].uses == (row.id,)
    assert row.id == {"1": place.old.id, "2": place.new.id}.get(value, row.id)
    assert "passed_over" not in row.data


@pytest.mark.slow
def test_the_newer_one_taken_back_in_its_turn(place: Site) -> None:
    place.put("1", reach=TARGET)
    place.put("2", reach=TARGET)
    assert place.value() == place.new.physical_id and len(place.rows("port")) == 1
