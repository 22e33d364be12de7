"""Changes of ownership in stacks that an update has left parts out of (law D5)."""

import pytest

from heatlite.core.errors import InvalidStackState
from heatlite.core.status import Status
from heatlite.engine.state.requests import Reach
from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.features.ownership.engine.conftest import Imported
from tests.features.ownership.engine.test_detaching import detached

NET, VOLUME, VALUE = "OS::Neutron::Net", "OS::Cinder::Volume", "OS::Heat::Value"


def shop(version: str, **more: object) -> dict[str, object]:
    made = {"net": resource(NET, name=f"n{version}"), "vol": resource(VOLUME, size=1, name=f"v{version}")}
    return {**made, "web": resource(VALUE, value=version), **more}


def left_out(stack: StackRecord) -> set[str]:
    return set() if stack.restricted is None else {*stack.restricted.left_out}


@pytest.fixture
def restricted(imported: Imported) -> StackRecord:
    """A stack whose network and volume are left out."""
    stack = imported.cloudy.made(shop("1"), "a")
    stack = imported.cloudy.put(stack, template(**shop("2")), reach=Reach(target=("web",)))
    assert stack.status is Status.COMPLETE and left_out(stack) == {"net", "vol"}
    return stack


@pytest.mark.slow
def test_it_has_the_new_names(imported: Imported, restricted: StackRecord) -> None:
    since = restricted.restricted
    assert since is not None
    stack = imported.moved(restricted, {"vol": "disk", "web": "api"})
    assert left_out(stack) == {"net", "disk"} and stack.restricted is not None
    assert (stack.restricted.since, stack.restricted.action_id) == (since.since, since.action_id)
    assert "Restricted: the update has left out net, disk" in stack.status_reason
    assert imported.first_plan(stack) == {"net": "update", "disk": "update"}
    stack = imported.moved(stack, {"net": "disk", "disk": "net"})
    assert left_out(stack) == {"net", "disk"}
    assert imported.cloudy.patch(stack).restricted is None


@pytest.mark.parametrize("other", [{}, {"own": resource(VOLUME, size=1, name="o2")}], ids=["whole", "restricted"])
def test_it_goes_to_another_stack(imported: Imported, restricted: StackRecord, other: dict[str, object]) -> None:
    cloudy = imported.cloudy
    second = cloudy.made({name: resource(VOLUME, size=1, name="o1") for name in other}, "b")
    if other:
        cloudy.put(second, template(**other, more=resource(VALUE, value="m")), reach=Reach(target=("more",)))
    stack = imported.moved(restricted, {"vol": "disk"}, "b")
    assert left_out(stack) == {"net"}
    second = cloudy.get(second)
    assert left_out(second) == {*other, "disk"} and "left out" in second.status_reason
    assert imported.first_plan(second) == dict.fromkeys([*other, "disk"], "update")
    assert cloudy.patch(second).restricted is None


def test_it_ends_with_the_last_that_leaves(imported: Imported, restricted: StackRecord) -> None:
    stack, _ = detached(imported.cloudy, restricted, "vol")
    assert left_out(stack) == {"net"} and stack.status_reason.endswith("left out net")
    stack, _ = detached(imported.cloudy, stack, "net")
    assert stack.restricted is None and "Restricted" not in stack.status_reason


def test_what_has_no_definition_any_more_leaves(imported: Imported) -> None:
    """An update has left out the deletion of a volume."""
    cloudy = imported.cloudy
    stack = cloudy.made({"vol": resource(VOLUME, size=1), "web": resource(VALUE, value="1")}, "a")
    volume = cloudy.row(stack, "vol").physical_id
    stack = cloudy.put(stack, template(web=resource(VALUE, value="2")), reach=Reach(target=("web",)))
    with pytest.raises(InvalidStackState, match="without as_external"):
        detached(cloudy, stack, "vol", as_external=True)
    with pytest.raises(InvalidStackState, match="update the stack first"):
        imported.moved(stack, {"vol": "disk"})
    with imported.untouched():
        stack, answer = detached(cloudy, stack, "vol")
    assert answer == {"detached": {"vol": {"type": VOLUME, "id": volume}}}
    assert stack.restricted is None and {row.name for row in cloudy.rows(stack)} == {"web"}
    assert imported.first_plan(stack) == {}


@pytest.mark.slow
def test_a_path_below_a_renamed_group(imported: Imported) -> None:
    def group(size: int) -> dict[str, object]:
        return resource("OS::Heat::ResourceGroup", count=2, resource_def=resource(VOLUME, size=1, name=f"g{size}"))

    stack = imported.cloudy.made({"g": group(1)}, "a")
    stack = imported.cloudy.put(stack, template(g=group(2)), reach=Reach(exclude=("g/0",)))
    assert left_out(stack) == {"g/0"}
    assert left_out(imported.moved(stack, {"g": "h"})) == {"h/0"}
