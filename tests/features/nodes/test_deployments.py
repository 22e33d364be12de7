"""Software deployments that agents carry out."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid5

import pytest

from heatlite.features.nodes.agents.deployments import SPACE
from tests.agent.agents import Agent
from tests.engine.conftest import Engine, attr, engine, place, plugins, ref, resource, template  # noqa: F401
from tests.features.nodes.nodes_of_a_stack import Site

CONFIG = """#!/bin/sh
echo "$who on $deploy_action, $deploy_signal_id$deploy_signal_verb."
printf done > "$heat_outputs_path.result"
[ "$who" != nobody ]
"""


def deployed(who: str = "world", **more: Any) -> Any:
    config = resource(
        "OS::Heat::SoftwareConfig",
        group="script",
        config=CONFIG,
        inputs=[{"name": "who"}],
        outputs=[{"name": "result"}],
    )
    own = resource(
        "OS::Heat::SoftwareDeployment",
        server=ref("a"),
        config=ref("config"),
        input_values={"who": who},
        actions=["CREATE", "UPDATE", "DELETE"],
        **more,
    )
    outputs = {"said": attr("own", "deploy_stdout"), "result": attr("own", "result")}
    machine = resource("OS::Heat::DeployedServer")
    return template(outputs=outputs, a=machine, b=machine, config=config, own=own)


@pytest.fixture
def site(engine: Engine) -> Iterator[Site]:  # noqa: F811
    site = Site(engine, ("a", "b"))
    yield site
    site.close()


def scripts(site: Site) -> list[Any]:
    return [told["action"] for told in site.agents["a"].actions.values()]


@pytest.mark.slow
def test_an_agent_carries_a_deployment_out_while_its_stack_action_waits(site: Site) -> None:
    agent = site.agents["a"]
    site.register("a", deployments=True)
    with site.engine.clock.held():
        site.engine.put(site.stack, deployed(), wait=False)
        site.engine.wait_for(lambda: agent.actions)
        (one,) = scripts(site)
        assert (one["kind"], one["args"]["outputs"]) == ("script", ["result"])
        assert one["args"]["inputs"].keys() == {
            "who", "deploy_server_id", "deploy_action", "deploy_stack_id", "deploy_resource_name",
        }  # fmt: skip
        other = site.ask("a")
        site.orchestrate()
        assert agent.has(other) is None, "a stack action holds the tree"
        site.orchestrate()
        agent.move(one["id"], "DONE", outputs={"deploy_stdout": "hi", "deploy_status_code": 0, "result": "r"})
        site.orchestrate()
        site.engine.clock.pass_(10)
    stack = site.engine.settle(site.stack)
    assert site.engine.outputs(stack) == {"said": "hi", "result": "r"}
    site.engine.wait_for(lambda: agent.has(other) == "NEW")
    assert site.action(one["id"]).requester == "deployment"
    agent.move(other, "DONE")  # what it has got is waited for
    site.orchestrate()

    with site.engine.clock.held():  # another value: it runs again, and fails
        site.engine.put(site.stack, deployed("nobody"), wait=False)
        site.engine.wait_for(lambda: len(agent.actions) == 3)
        again = scripts(site)[-1]
        agent.move(again["id"], "FAILED", outputs={"deploy_stdout": ""}, error="took too long")
        site.orchestrate()
        site.engine.clock.pass_(10)
    assert site.engine.settle(site.stack).status == "FAILED"
    assert "non-zero status code: -1" in site.engine.row(site.stack, "own").status_reason

    with site.engine.clock.held():  # whoever gives up takes back what was not begun
        site.engine.put(site.stack, deployed("late"), wait=False)
        site.engine.wait_for(lambda: len(agent.actions) == 4)
        late = scripts(site)[-1]["id"]
        site.engine.cancel(site.stack, rollback=False, wait=False)
        site.engine.clock.pass_(1000)
    site.engine.settle(site.stack)
    site.orchestrate()
    assert agent.has(late) == "CANCELLED"
    assert len(agent.actions) == 4


@pytest.mark.slow
def test_a_real_agent_runs_the_script(site: Site, tmp_path: Path) -> None:
    real = Agent(tmp_path / "agent")
    real.start()
    site.agents["a"].close()
    try:
        site.agents["a"].url, site.agents["a"].secret = real.url, real.secret
        site.register("a", deployments=True, instance="")
        site.quiet()
        action = site.ask("a")
        site.orchestrate()
        real.ended(action)
        site.orchestrate()
        assert site.state(action) == "DONE"

        def done() -> bool:
            site.engine.clock.pass_(1.0)
            site.orchestrate()  # nobody tells this engine of events: it has no HTTP
            return not site.store.actions.live([site.stack.id])

        # The agent works in real time. Time that jumps from wait to wait would end the deployment before it.
        with site.engine.clock.held():
            site.engine.put(site.stack, deployed(), wait=False)
            site.engine.wait_for(done)
        stack = site.engine.settle(site.stack)
        assert stack.status == "COMPLETE", stack.status_reason
        assert site.engine.outputs(stack) == {"said": "world on CREATE, .\n", "result": "done"}
    finally:
        assert real.stop() == 0


@pytest.mark.slow
def test_no_other_agent_answers_for_a_server(site: Site) -> None:
    """Though it knows the id that the node action will have."""
    with site.engine.clock.held():
        site.engine.put(site.stack, deployed(), wait=False)
        site.engine.wait_for(lambda: site.store.software_deployments.waiting("demo", "IN_PROGRESS", servers(site)))
        (waits,) = site.store.software_deployments.waiting("demo", "IN_PROGRESS", servers(site))
        stolen = str(uuid5(SPACE, f"{waits.id}/{waits.config_id}"))
        site.agents["b"].put("script", stolen, state="DONE", outputs={"deploy_stdout": "lies", "result": "lies"})
        site.orchestrate()
        assert site.action(stolen).node == "b"
        site.register("a", deployments=True)
        site.orchestrate()
        site.orchestrate()
        (still,) = site.store.software_deployments.waiting("demo", "IN_PROGRESS", servers(site))
        assert still == waits
        site.engine.cancel(site.stack, rollback=False, wait=False)
        site.engine.clock.pass_(1000)
    site.engine.settle(site.stack)


def servers(site: Site) -> list[str]:
    found = site.engine.row(site.stack, "a").physical_id
    assert found is not None
    return [found]
