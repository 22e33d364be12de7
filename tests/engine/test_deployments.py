"""Deployments while the engine does other things: gives up, dies, rolls back."""

from typing import Any

import pytest

from heatlite.store.records import SoftwareDeploymentRecord, StackRecord
from heatlite.store.stacks.software import SoftwareDeployments
from tests.tables import few

from .conftest import MEMBER, Engine, ref, resource, template, thing


def deployment(**more: Any) -> dict[str, object]:
    return resource("OS::Heat::SoftwareDeployment", server="web", config=ref("c"), **more)


CONFIG = resource("OS::Heat::SoftwareConfig", config="echo", outputs=[{"name": "y"}])


def deployments(engine: Engine) -> list[SoftwareDeploymentRecord]:
    return engine.store.software_deployments.list("demo")


def answer(engine: Engine, stack: StackRecord, **details: Any) -> None:
    engine.components.signals.signal(MEMBER, engine.get(stack), engine.row(stack, "d"), details)


@pytest.mark.parametrize("verb", few(["create", "update"]))
def test_a_deployment_that_nobody_waits_for_any_longer_has_failed(engine: Engine, verb: str) -> None:
    actions = [verb.upper()]
    before = template(c=CONFIG, d=deployment(actions=actions, name="one"))
    stack = engine.create(before, timeout_mins=1)
    if verb == "update":
        stack = engine.put(stack, template(c=CONFIG, d=deployment(actions=actions, name="two")), timeout_mins=1)
    assert engine.states(stack)["d"] == f"{verb.upper()}_FAILED"
    (found,) = deployments(engine)
    assert (found.status, found.status_reason) == ("FAILED", "Deployment cancelled.")
    answer(engine, stack, y="late")
    assert deployments(engine) == [found]


def test_a_deployment_survives_the_engine(engine: Engine) -> None:
    with engine.clock.held():
        stack = engine.create(template(c=CONFIG, d=deployment()), wait=False)
        engine.begun(lambda: deployments(engine))
        (before,) = deployments(engine)
        engine.close()
        engine.open()
        engine.begun(lambda: engine.states(stack)["d"] == "CREATE_IN_PROGRESS")
        assert deployments(engine) == [before]  # nothing is deployed twice
        answer(engine, stack, y="done")
    stack = engine.settle(stack)
    assert engine.states(stack) == {"c": "CREATE_COMPLETE", "d": "CREATE_COMPLETE"}
    assert deployments(engine)[0].output_values["y"] == "done"


def test_an_answer_that_comes_before_the_engine_looks_is_not_lost(engine: Engine) -> None:
    """The running operation has the resource's row; the answer is stored beside it."""
    with engine.clock.held():
        stack = engine.create(template(c=CONFIG, d=deployment(), slow=thing(wait_secs=50)), wait=False)
        engine.begun(lambda: deployments(engine))
        answer(engine, stack, y=1)
        assert engine.states(stack)["d"] == "CREATE_IN_PROGRESS"
    assert engine.settle(stack).status == "COMPLETE"


@pytest.mark.slow
def test_a_deployment_is_hardly_polled(engine: Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    get, reads = SoftwareDeployments.get, []

    def counted(deployments: SoftwareDeployments, project: str, deployment_id: str) -> SoftwareDeploymentRecord | None:
        reads.append(deployment_id)
        return get(deployments, project, deployment_id)

    monkeypatch.setattr(SoftwareDeployments, "get", counted)
    stack = engine.create(template(c=CONFIG, d=deployment()), timeout_mins=30)
    assert engine.states(stack)["d"] == "CREATE_FAILED"
    assert len(reads) < 30 * 60 / 20


def test_a_rollback_leaves_no_software(engine: Engine) -> None:
    quiet = deployment(signal_transport="NO_SIGNAL")
    stack = engine.create(template(c=CONFIG, d=quiet, bad=thing(fail=True, depends_on="d")), disable_rollback=False)
    assert (stack.verb, stack.status) == ("ROLLBACK", "COMPLETE")
    assert deployments(engine) == []
    assert engine.store.software_configs.count("demo") == 0


def test_what_goes_with_an_update_takes_its_software_along(engine: Engine) -> None:
    stack = engine.create(template(c=CONFIG, d=deployment(signal_transport="NO_SIGNAL")))
    assert engine.store.software_configs.count("demo") == 2
    engine.put(stack, template())
    assert deployments(engine) == []
    assert engine.store.software_configs.count("demo") == 0


def test_a_project_with_too_many_configs_gets_no_more(plugins: object, place: Any) -> None:
    engine = Engine(place, max_software_configs_per_tenant=1)
    try:
        stack = engine.create(template(c=CONFIG, d=deployment(signal_transport="NO_SIGNAL")))
        assert engine.states(stack) == {"c": "CREATE_COMPLETE", "d": "CREATE_FAILED"}
        assert "may not have more" in engine.row(stack, "d").status_reason
        engine.delete(stack)
        assert engine.store.software_configs.count("demo") == 0
    finally:
        engine.close()
