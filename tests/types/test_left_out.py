"""Updates of a part over each type: calls, rows and events (law D3)."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heatlite.core.json import dump
from heatlite.core.status import Status
from heatlite.engine.state.requests import Reach, StackRequest
from heatlite.features.ownership.reading import CHANGES
from heatlite.store.records import StackRecord
from tests.engine.conftest import ref, resource, template, thing
from tests.tables import sampled
from tests.types.conftest import Cloudy
from tests.types.marking import EXAMPLES
from tests.types.standing import Standing


@contextmanager
def recorded(cloudy: Cloudy) -> Iterator[list[tuple[str, str]]]:
    """Yield the calls to the cloud: their verbs, with what they name."""
    calls: list[tuple[str, str]] = []
    simulation = cloudy.view().simulation
    before: Mapping[str, Any] = simulation.verbs

    def noted(verb: str, call: Any) -> Any:
        def run(view: Any, *arguments: Any, **attributes: Any) -> Any:
            calls.append((verb, repr((arguments, attributes))))
            return call(view, *arguments, **attributes)

        return run

    simulation.verbs = {verb: noted(verb, call) for verb, call in before.items()}
    try:
        yield calls
    finally:
        simulation.verbs = before


def told(cloudy: Cloudy, stack: StackRecord) -> set[str]:
    return {event.id for event in cloudy.events(stack) if event.resource_name != stack.name}


@pytest.mark.slow
@pytest.mark.parametrize("file", sampled(EXAMPLES, 6), ids=lambda file: file.stem)
def test_nothing_is_called_for_objects_of_any_type_that_are_left_out(tmp_path: Path, file: Path) -> None:
    """The new template has only another resource: all others would be deleted.

    What an update observes is no more than what it touches.
    """
    standing = Standing(tmp_path, file)
    with standing.ends:
        cloudy, stack = standing.cloudy, standing.marks.stack
        tree = [stack, *cloudy.store.stacks.descendants(stack)]
        before = {one.id: (cloudy.rows(one), told(cloudy, one)) for one in tree}
        after, reach = template(only_new=thing("o")), Reach(target=("only_new",))
        asked = StackRequest(template=after, reach=reach)
        plan = cloudy.stacks.preview_update(cloudy.who, stack, asked, existing=False, plan=True).plan
        assert plan is not None
        rows = {row.name for row in cloudy.rows(stack)}
        assert {one.path[0] for one in plan.resources if one.selection == "left_out"} == rows
        with recorded(cloudy) as calls:
            stack = cloudy.put(stack, after, reach=reach, converge=True)
        assert stack.status is Status.COMPLETE, cloudy.why(stack)
        assert calls == []
        for one in tree:
            kept, events = before[one.id]
            now = [row for row in cloudy.rows(one) if row.name != "only_new"]
            assert dump(now) == dump(kept)
            assert {key for key in told(cloudy, one) if key not in events} == (
                {event.id for event in cloudy.events(one) if event.resource_name == "only_new"}
            )
        assert standing.census() == standing.full


NET = resource("OS::Neutron::Net", name="backend")
CHANGED: Mapping[str, Any] = {
    "net": resource("OS::Neutron::Net", name="other"),
    "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24", name="s2"),
    "port": resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("sub")}], name="p2"),
    "web": resource(
        "OS::Nova::Server", image="cirros", flavor="m1.medium", networks=[{"port": ref("port")}], metadata={"v": "2"}
    ),
    "data": resource("OS::Cinder::Volume", size=2),
    "other": resource("OS::Cinder::Volume", size=2),
}
BEFORE: Mapping[str, Any] = {
    "net": NET,
    "sub": resource("OS::Neutron::Subnet", network=ref("net"), cidr="10.0.0.0/24"),
    "port": resource("OS::Neutron::Port", network=ref("net"), fixed_ips=[{"subnet": ref("sub")}]),
    "web": resource("OS::Nova::Server", image="cirros", flavor="m1.small", networks=[{"port": ref("port")}]),
    "data": resource("OS::Cinder::Volume", size=1),
    "other": resource("OS::Cinder::Volume", size=1),
}
NEEDS = {"net": {"net"}, "sub": {"net", "sub"}, "port": {"net", "sub", "port"}, "data": {"data"}, "other": {"other"}}
"""Names that a target takes. A server takes all of its network."""


@pytest.mark.parametrize("name", [*sampled(NEEDS, 5), "web"])
def test_only_the_target_and_what_it_requires_is_called(cloudy: Cloudy, name: str) -> None:
    stack = cloudy.made(BEFORE)
    taken = NEEDS.get(name, {"net", "sub", "port", "web"})
    ids = {row.name: row.physical_id or "" for row in cloudy.rows(stack)}
    with recorded(cloudy) as calls:
        stack = cloudy.put(stack, template(**CHANGED), reach=Reach(target=(name,)))
    assert stack.status is Status.COMPLETE, cloudy.why(stack)
    assert any(CHANGES.match(verb.partition(".")[2]) for verb, _ in calls)
    named = {key for key, physical_id in ids.items() if any(physical_id in text for _, text in calls)}
    assert named <= taken and name in named, calls
    assert stack.restricted is not None and {*stack.restricted.left_out} == CHANGED.keys() - taken
