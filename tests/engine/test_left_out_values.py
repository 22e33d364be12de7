"""Values of what updates leave out (laws D3, D5, D7), through updates that fail.

A resource that is left out has its values in no definition. An update that changes it in place and is rolled back puts
them back; one that is not leaves its own, and these count from then on.
"""

import json
from typing import Any

import pytest

from heatlite.core.status import Status
from heatlite.engine.state.requests import Reach
from heatlite.store.records import ResourceRecord, StackRecord

from .conftest import Engine, resource, template, thing

pytestmark = pytest.mark.database
PLACES = {"flat": "x", "nested": "n/x", "member": "g/0"}
LEAVING = {"target": Reach(target=("o", "n/y", "g/1")), "exclude": None}


class Site:
    """A stack whose resource at a place is left out."""

    def __init__(self, engine: Engine, path: str, key: str) -> None:
        self.engine, self.path = engine, path
        self.leaving = LEAVING[key] or Reach(exclude=(path,))
        self.stack = engine.create(**self.definition("1", False))
        self.put("2", leaves=True)
        self.before = self.row

    def definition(self, value: str, fails: bool) -> dict[str, Any]:
        low = json.dumps(template(x=thing(value), y=thing(value)))
        group = resource("OS::Heat::ResourceGroup", count=2, resource_def=thing(value))
        bad = {"bad": thing(fail=True, depends_on=["x", "n", "g", "o"])} if fails else {}
        if fails and self.leaving.target and self.leaves:
            bad = {"o": thing(value, fail=True)}
        found = {"x": thing(value), "n": resource("low.yaml"), "g": group, "o": thing(value), **bad}
        return {"template": template(**found), "files": {"low.yaml": low}}

    leaves = False

    def put(self, value: str, leaves: bool = False, fails: bool = False, rolls_back: bool = False) -> None:
        self.leaves = leaves
        reach = {"reach": self.leaving} if leaves else {}
        given = self.definition(value, fails)
        self.stack = self.engine.put(self.stack, **given, **reach, disable_rollback=not rolls_back)
        ends = Status.FAILED if fails and not rolls_back else Status.COMPLETE
        expected = ("ROLLBACK" if rolls_back else "UPDATE", ends)
        assert (self.stack.verb, self.stack.status) == expected, self.stack.status_reason

    @property
    def row(self) -> ResourceRecord:
        home: StackRecord = self.stack
        *above, name = self.path.split("/")
        for one in above:
            found = self.engine.store.stacks.get(self.engine.row(home, one).physical_id or "")
            assert found is not None
            home = found
        return self.engine.row(home, name)

    def has(self, value: str) -> bool:
        """True if the object is the same, with this value."""
        row = self.row
        same = (row.id, row.physical_id) == (self.before.id, self.before.physical_id)
        return same and row.properties["value"] == value


@pytest.fixture(params=PLACES)
def path(request: pytest.FixtureRequest) -> str:
    return PLACES[request.param]


@pytest.fixture(params=LEAVING)
def site(request: pytest.FixtureRequest, engine: Engine, path: str) -> Site:
    return Site(engine, path, request.param)


@pytest.mark.slow
def test_a_rollback_puts_the_values_back(site: Site) -> None:
    """Twice, as the second one finds what the first one has kept."""
    restricted = site.stack.restricted
    assert site.has("1")
    for value in ("3", "4"):
        site.put(value, fails=True, rolls_back=True)
        assert site.has("1") and site.stack.restricted == restricted
    site.put("2", leaves=True)
    assert site.has("1")
    site.put("5")
    assert site.has("5") and site.stack.restricted is None


@pytest.mark.slow
def test_values_of_a_failed_update_count_once_it_is_left_out_again(site: Site) -> None:
    site.put("3", fails=True)
    assert site.has("3")
    row = site.row
    site.put("4", leaves=True, fails=True, rolls_back=True)
    assert site.row == row
    site.put("4", leaves=True)
    assert site.row == row and site.stack.restricted is not None
    site.put("6", fails=True, rolls_back=True)
    assert site.has("3")


@pytest.mark.slow
def test_values_are_kept_no_longer_than_they_are_needed(site: Site) -> None:
    site.put("3", fails=True, rolls_back=True)
    site.put("4")
    site.put("5")
    assert "kept" not in site.row.data
