"""A service out of reach: nothing is made twice or lost, and no wait is endless."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from webtest import TestApp

from tests.engine.conftest import START, place, ref, resource, template  # noqa: F401 - a fixture
from tests.tables import sampled
from tests.types.conftest import Cloudy, troubled  # noqa: F401 - a fixture

Troubled = Callable[..., Cloudy]

NET = {"net": resource("OS::Neutron::Net", tags=["one"])}


def fails(verb: str, times: int, raises: str = "timeout") -> list[dict[str, Any]]:
    """The next calls of a verb fail; the one after them does not."""
    return [{"verb": verb, "number": 1, "raises": raises} for _ in range(times)]


@pytest.mark.parametrize("raises", sampled(["timeout", "unavailable", "garbage", "lost"], 2, pytest.mark.thorough))
@pytest.mark.parametrize("times", [1, 3])
def test_a_create_without_an_answer_makes_exactly_one(troubled: Troubled, raises: str, times: int) -> None:  # noqa: F811
    cloudy = troubled(faults=fails("network.create_network", times, raises))
    before = cloudy.count("network.network")
    stack = cloudy.made(NET)
    assert cloudy.count("network.network") == before + 1
    assert cloudy.thing(stack, "net")["tags"] == ["one"]
    assert cloudy.told(stack) == [
        "s CREATE_IN_PROGRESS", "net CREATE_IN_PROGRESS", "net CREATE_COMPLETE", "s CREATE_COMPLETE",
    ]  # fmt: skip


def test_what_comes_after_the_create_is_done_too(troubled: Troubled) -> None:  # noqa: F811
    cloudy = troubled(faults=fails("network.set_tags", 2))
    before = cloudy.count("network.network")
    stack = cloudy.made(NET)
    assert cloudy.count("network.network") == before + 1
    assert cloudy.thing(stack, "net")["tags"] == ["one"]


def test_a_look_for_what_was_made_may_fail_as_well(troubled: Troubled) -> None:  # noqa: F811
    cloudy = troubled(faults=[*fails("network.create_network", 1, "lost"), *fails("network.networks", 2)])
    before = cloudy.count("network.network")
    cloudy.made(NET)
    assert cloudy.count("network.network") == before + 1


def test_an_outage_of_four_minutes_is_waited_for(troubled: Troubled) -> None:  # noqa: F811
    cloudy = troubled(faults=fails("network.create_network", 12, "unavailable"))
    cloudy.made(NET)
    assert 180 < cloudy.clock.now() - START < 300


def test_an_outage_of_five_minutes_fails_and_says_why(troubled: Troubled) -> None:  # noqa: F811
    cloudy = troubled(faults=[{"verb": "network.create_network", "raises": "unavailable", "message": "Out of order"}])
    before = cloudy.census()
    stack = cloudy.create(template(**NET))
    assert cloudy.states(stack) == {"net": "CREATE_FAILED"}
    assert 300 <= cloudy.clock.now() - START < 360
    reason = cloudy.row(stack, "net").status_reason
    assert reason.startswith("CloudUnavailable: resources.net: network.create_network: Out of order (HTTP 503)")
    cloudy.delete(stack)
    assert cloudy.census() == before


def test_an_outage_is_over_when_the_service_answers(troubled: Troubled) -> None:  # noqa: F811
    """Two of them, of four minutes each, are no outage of eight."""
    cloudy = troubled(faults=[*fails("network.create_network", 12), *fails("network.create_port", 12)])
    cloudy.made({**NET, "port": resource("OS::Neutron::Port", network=ref("net"))})


@pytest.mark.parametrize("operation", ["update", "check", "delete"])
def test_every_operation_waits(troubled: Troubled, operation: str) -> None:  # noqa: F811
    verb = {"update": "update_network", "check": "get_network", "delete": "delete_network"}[operation]
    cloudy = troubled(faults=fails(f"network.{verb}", 3))
    before = cloudy.count("network.network")
    stack = cloudy.made(NET)
    match operation:
        case "update":
            stack = cloudy.changed(stack, {"net": resource("OS::Neutron::Net", tags=["one"], name="new")})
            assert cloudy.thing(stack, "net")["name"] == "new"
        case "check":
            assert cloudy.check(stack).status == "COMPLETE"
        case _:
            cloudy.delete(stack)
            assert cloudy.count("network.network") == before


def test_an_engine_that_ends_within_an_outage_loses_nothing(troubled: Troubled) -> None:  # noqa: F811
    cloudy = troubled(faults=fails("network.create_network", 4, "lost"))
    before = cloudy.count("network.network")
    with cloudy.clock.held():
        stack = cloudy.create(template(**NET), wait=False)
        cloudy.begun(lambda: cloudy.count("network.network") == before + 1)
        cloudy.close()
    cloudy.open()
    stack = cloudy.settle(stack)
    assert cloudy.states(stack) == {"net": "CREATE_COMPLETE"}
    assert cloudy.count("network.network") == before + 1


# -- while a template is checked ---------------------------------------------------------------------------


@pytest.mark.parametrize("raises", ["timeout", "unavailable", "garbage"])
def test_a_template_that_cannot_be_checked_is_503_with_the_service(troubled: Troubled, raises: str) -> None:  # noqa: F811
    cloudy = troubled(faults=[{"verb": "network.find_network", "raises": raises, "message": "No answer"}])
    app = TestApp(cloudy.front.app)
    body = {"stack_name": "s", "template": template(port=resource("OS::Neutron::Port", network="public"))}
    answer = app.post_json("/v1/demo/stacks", body, status=503)
    assert answer.json["error"]["type"] == "CloudUnavailable"
    assert answer.json["error"]["message"].startswith("network.find_network: No answer")
    app.get("/v1/demo/stacks/s", status=404)


def test_names_that_mean_several_or_nothing_are_told(troubled: Troubled) -> None:  # noqa: F811
    cloudy = troubled()
    for _ in range(2):
        cloudy.view().call("network.create_network", name="twin")
    app = TestApp(cloudy.front.app)
    for name, text in (
        ("twin", "More than one network is called 'twin': give the id of the one that is meant."),
        ("nobody", "The Network (nobody) could not be found."),
    ):
        ports = template(port=resource("OS::Neutron::Port", network=name))
        answer = app.post_json("/v1/demo/stacks", {"stack_name": "s", "template": ports}, status=400)
        assert answer.json["error"]["type"] == "StackValidationFailed"
        assert text in json.dumps(answer.json["error"]["message"])
