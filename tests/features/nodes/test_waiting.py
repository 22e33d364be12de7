"""Stack actions and work for agents in each other's way, with agents that answer."""

import pytest

from heatlite.core.status import ActionStatus, Verb
from heatlite.engine.state.requests import Timing
from tests.engine.conftest import MEMBER, engine, place, plugins, resource, template, thing  # noqa: F401  # fixtures
from tests.features.nodes.nodes_of_a_stack import Site, site  # noqa: F401


@pytest.mark.slow
def test_an_endless_stream_of_work_keeps_no_update_waiting(site: Site) -> None:  # noqa: F811
    """The update waits for actions sent before it; later ones are sent after it."""
    agent = site.agents["a"]
    has, later = site.ask("a"), []
    site.orchestrate()
    server = resource("OS::Heat::DeployedServer")
    site.engine.put(site.stack, template(a=server, b=server, new=thing()), wait=False)
    (update,) = site.store.actions.live([site.stack.id])
    for _ in range(3):
        later += [site.ask("a"), site.ask("b")]
        site.orchestrate()
        assert [one.status for one in site.store.actions.live([site.stack.id])] == [ActionStatus.WAITING]
    assert list(agent.actions) == [has]
    assert site.agents["b"].actions == {}
    assert site.report["held_by"] == [update.id]
    agent.move(has, "DONE")
    site.orchestrate()
    assert site.engine.settle(site.stack).status == "COMPLETE"
    assert "new" in site.engine.states(site.stack)
    site.engine.wait_for(lambda: all(site.action(one).sent_at for one in later))


@pytest.mark.slow
def test_what_an_action_depends_on_is_sent_although_it_holds_the_stack(site: Site) -> None:  # noqa: F811
    agent, (first, second) = site.agents["a"], (site.ask("a"), site.ask("a"))
    site.engine.stacks.check(MEMBER, site.engine.get(site.stack), Timing(depends_on=(second,)))
    site.orchestrate()
    assert list(agent.actions) == [second]
    agent.move(second, "DONE")
    site.orchestrate()
    stack = site.engine.settle(site.stack)
    assert (stack.verb, stack.status) == (Verb.CHECK, "COMPLETE")
    site.engine.wait_for(lambda: agent.has(first) == "NEW")
