"""Nodes of objects that leave their stack alive."""

import pytest
from msgspec import convert

from heatlite.features.nodes.store.store import NodeStore
from heatlite.features.ownership.bodies import DetachRequest
from heatlite.features.ownership.detaching import Detachments
from tests.features.nodes.nodes_of_a_stack import Site, site  # noqa: F401 - a fixture


@pytest.mark.slow
@pytest.mark.parametrize("as_external", [False, True])
def test_a_node_goes_with_the_row_of_its_object(site: Site, as_external: bool) -> None:  # noqa: F811
    """Its row stays as a reference to the object, if that was asked for."""
    of = site.engine
    waits, sent = site.ask("a"), site.ask("a")
    site.orchestrate()
    operations = of.components.of(Detachments)
    asked = convert({"resources": ["a"], "as_external": as_external}, DetachRequest)
    digest = operations.plan(of.who, of.get(site.stack), asked).digest
    asked = convert({"resources": ["a"], "as_external": as_external, "plan_digest": digest}, DetachRequest)
    operations.start(of.who, of.get(site.stack), asked, {})
    nodes = site.store.of(NodeStore).nodes
    left = ["a", "b"] if as_external else ["b"]
    of.wait_for(lambda: sorted(node.name for node in nodes.of_root(site.stack.id)) == left)
    if as_external:
        site.orchestrate()
        assert {site.state(waits), site.state(sent)} == {"NEW"}
    else:
        assert {site.state(waits), site.state(sent)} <= {"LOST", "CANCELLED"}
    assert site.store.inconsistencies(of.clock.now(), 0.0) == []


