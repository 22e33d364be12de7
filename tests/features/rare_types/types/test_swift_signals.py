"""Signals by objects in the object store."""

import hashlib
import hmac
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any, cast
from urllib.parse import parse_qs, urlsplit

import pytest

from heatlite.core.json import Json
from heatlite.features.simulator.simulation import SimulatedProject
from heatlite.plugin import Facts
from heatlite.resources.heat.signals.temp_urls import KEY_HEADER, MetadataObject, place_of, temp_url
from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.tables import few, sampled
from tests.types.conftest import Cloudy

PATIENCE = 240
"""Seconds until another thread asks: the machine may be busy."""
WAITING = template(
    handle=resource("OS::Heat::SwiftSignalHandle"),
    a=resource("OS::Heat::SwiftSignal", handle={"get_resource": "handle"}, timeout=60, count=2),
    outputs={"url": {"get_attr": ["handle", "endpoint"]}, "data": {"get_attr": ["a", "data"]}},
)


def put(cloudy: Cloudy, stack: StackRecord, body: Any) -> None:
    """A machine's request to the URL."""
    handles = [one for one in cloudy.rows(stack) if one.name == "handle"]
    name = max(handles, key=lambda one: one.created_at).physical_id
    text = body if isinstance(body, str) else json.dumps(body)
    cloudy.view().call("object_store.create_object", name, "signal", data=text)


def waiting(cloudy: Cloudy) -> StackRecord:
    stack = cloudy.create(WAITING, wait=False)
    listening(cloudy, stack)
    return stack


def listening(cloudy: Cloudy, stack: StackRecord) -> None:
    """Wait until the resource waits for signals."""
    cloudy.wait_for(lambda: ("a", "IN_PROGRESS") in [(one.name, one.status) for one in cloudy.rows(stack)])
    cloudy.wait_for(cloudy.clock.at_rest)


def test_it_waits_for_its_signals(cloudy: Cloudy) -> None:
    with cloudy.clock.held():
        stack = waiting(cloudy)
        put(cloudy, stack, {"data": "one"})
        put(cloudy, stack, {"id": "x", "data": [2, "\0\ud800"]})
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    found = cloudy.outputs(stack)
    assert json.loads(str(found["data"])) == {"1": "one", "x": [2, "??"]}
    url = urlsplit(str(found["url"]))
    query = parse_qs(url.query)
    key = str(cloudy.row(stack, "handle").data["key"])
    signed = f"PUT\n{query['temp_url_expires'][0]}\n{url.path}".encode()
    assert query["temp_url_sig"] == [hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()]
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    few(
        [
            ({"status": "FAILURE", "reason": "no disk"}, "no disk"),
            ("{", "Signal 1 is no JSON"),
            ("1e999", "Signal 1 is no JSON"),
        ]
    ),
)
def test_a_failure_fails_it(cloudy: Cloudy, body: Any, reason: str) -> None:
    with cloudy.clock.held():
        stack = waiting(cloudy)
        put(cloudy, stack, body)
    stack = cloudy.settle(stack)
    assert stack.status == "FAILED"
    assert f"WaitConditionFailure: resources.a: {reason}" in stack.status_reason


def test_it_waits_no_longer_than_its_timeout(cloudy: Cloudy) -> None:
    stack = cloudy.create(WAITING)
    assert stack.status == "FAILED"
    assert "WaitConditionTimeout: resources.a: 0 of 2 received" in stack.status_reason


def test_a_marked_handle_is_replaced_with_what_waits_for_it(cloudy: Cloudy) -> None:
    with cloudy.clock.held():
        stack = waiting(cloudy)
        put(cloudy, stack, "")
        put(cloudy, stack, "")
    stack = cloudy.settle(stack)
    before = cloudy.row(stack, "handle").physical_id
    cloudy.mark(stack, "handle")
    with cloudy.clock.held():
        cloudy.patch(stack, wait=False)
        listening(cloudy, stack)
        put(cloudy, stack, "")
        put(cloudy, stack, "")
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.row(stack, "handle").physical_id != before
    assert cloudy.count("object_store.container") == 1


@pytest.mark.parametrize(
    ("answer", "status", "shown"),
    sampled(
        [
            ('{"deploy_stdout": "done", "deploy_status_code": 0}', "COMPLETE", "done"),
            ("", "COMPLETE", None),
            ('{"deploy_stdout": "a\\u0000b\\ud800", "deploy_status_code": 0}', "COMPLETE", "a?b?"),
            ('{"deploy_stdout": 1e999, "deploy_status_code": 0}', "FAILED", None),
            ('{"deploy_stdout": ' + "[" * 500 + "]" * 500 + "}", "FAILED", None),
            ("[" * 100_000, "FAILED", None),
            ('{"deploy_status_code": 2}', "FAILED", None),
            ("not JSON", "FAILED", None),
        ],
        2,
        pytest.mark.thorough,
    ),
)
def test_a_server_answers_a_deployment_by_an_object(
    cloudy: Cloudy, answer: str, status: str, shown: str | None
) -> None:
    made = template(
        server=resource("OS::Heat::DeployedServer"),
        config=resource("OS::Heat::SoftwareConfig", group="script", config="x"),
        apply=resource(
            "OS::Heat::SoftwareDeployment",
            server={"get_resource": "server"},
            config={"get_resource": "config"},
            signal_transport="TEMP_URL_SIGNAL",
        ),
        outputs={"stdout": {"get_attr": ["apply", "deploy_stdout"]}},
    )

    def told() -> dict[str, Any]:
        (server,) = [one for one in cloudy.rows(stack) if one.name == "server"] or [None]
        found = cloudy.store.software_configs.of_server(stack.project, str(server and server.physical_id))
        return {str(one["name"]): one["value"] for one in found[0].inputs} if found else {}

    with cloudy.clock.held():
        stack = cloudy.create(made, wait=False)
        cloudy.wait_for(told)
        inputs = told()
        assert inputs["deploy_signal_verb"] == "PUT"
        url = urlsplit(inputs["deploy_signal_id"])
        _, container, name = url.path.rsplit("/", 2)
        cloudy.view().call("object_store.create_object", container, name, data=answer)
    stack = cloudy.settle(stack)
    assert stack.status == status, cloudy.why(stack)
    assert cloudy.outputs(stack)["stdout"] == shown
    (headers,) = [one["_headers"] for one in cloudy.view().simulation.all("object_store.container").values()]
    key = headers["x-container-meta-temp-url-key"]
    query = parse_qs(url.query)
    signed = f"PUT\n{query['temp_url_expires'][0]}\n{url.path}".encode()
    assert query["temp_url_sig"] == [hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()]
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0


def test_a_wait_condition_handle_takes_signals_from_objects(cloudy: Cloudy) -> None:
    made = template(
        handle=resource("OS::Heat::WaitConditionHandle", signal_transport="TEMP_URL_SIGNAL"),
        a=resource("OS::Heat::WaitCondition", handle={"get_resource": "handle"}, timeout=60, count=2),
        outputs={"signal": {"get_attr": ["handle", "signal"]}, "data": {"get_attr": ["a", "data"]}},
    )
    with cloudy.clock.held():
        stack = cloudy.create(made, wait=False)
        listening(cloudy, stack)
        put(cloudy, stack, {"data": "one"})
        put(cloudy, stack, {"id": "x", "data": [2]})
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    found = cloudy.outputs(stack)
    assert json.loads(str(found["data"])) == {"1": "one", "x": [2]}
    url = urlsplit(json.loads(str(found["signal"]))["alarm_url"])
    handle = cloudy.row(stack, "handle")
    assert url.path.endswith(f"/{handle.physical_id}/signal")
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0


@pytest.mark.parametrize(
    ("body", "reason"),
    few(
        [({"status": "FAILURE", "reason": "no disk"}, "no disk"), ("{", "Signal 1 is no JSON"), ({"x": 1}, "has no x")]
    ),
)
def test_a_failure_in_an_object_fails_a_wait_condition(cloudy: Cloudy, body: Any, reason: str) -> None:
    made = template(
        handle=resource("OS::Heat::WaitConditionHandle", signal_transport="TEMP_URL_SIGNAL"),
        a=resource("OS::Heat::WaitCondition", handle={"get_resource": "handle"}, timeout=60),
    )
    with cloudy.clock.held():
        stack = cloudy.create(made, wait=False)
        listening(cloudy, stack)
        put(cloudy, stack, body)
    stack = cloudy.settle(stack)
    assert (stack.status, reason in stack.status_reason) == ("FAILED", True), stack.status_reason


NOVA = {"flavor": "m1.nano", "image": "cirros", "user_data_format": "SOFTWARE_CONFIG"}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("kind", "more", "named"),
    few(
        [
            ("OS::Heat::DeployedServer", {}, None),
            (
                "OS::Heat::DeployedServer",
                {"deployment_swift_data": {"container": "box", "object": "web"}},
                ("box", "web"),
            ),
            ("OS::Nova::Server", NOVA, None),
        ]
    ),
)
def test_an_agent_reads_its_metadata_from_an_object(
    cloudy: Cloudy, kind: str, more: dict[str, Any], named: tuple[str, str] | None
) -> None:
    server = resource(kind, software_config_transport="POLL_TEMP_URL", **more)
    resources = {"server": {**server, "metadata": {"role": "web"}}}
    shown = {"occ": {"get_attr": ["server", "os_collect_config"]}}
    stack = cloudy.create(template(**resources, outputs=shown))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    occ: Any = cloudy.outputs(stack)["occ"]
    assert occ["collectors"] == ["request", "local"]
    url = urlsplit(occ["request"]["metadata_url"])
    _, container, name = url.path.rsplit("/", 2)
    assert named in (None, (container, name))

    def told() -> Any:
        return json.loads(str(cloudy.view().call("object_store.download_object", name, container=container)))

    (headers,) = [one["_headers"] for one in cloudy.view().simulation.all("object_store.container").values()]
    query = parse_qs(url.query)
    signed = f"GET\n{query['temp_url_expires'][0]}\n{url.path}".encode()
    key = headers["x-container-meta-temp-url-key"]
    assert query["temp_url_sig"] == [hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()]
    assert (told()["role"], told()["deployments"], told()["os-collect-config"]) == ("web", [], occ)
    applied = {
        "config": resource("OS::Heat::SoftwareConfig", group="script", config="x"),
        "apply": resource(
            "OS::Heat::SoftwareDeployment",
            server={"get_resource": "server"},
            config={"get_resource": "config"},
            signal_transport="NO_SIGNAL",
        ),
    }
    stack = cloudy.put(stack, template(**resources, **applied, outputs=shown))
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert [one["config"] for one in told()["deployments"]] == ["x"]
    resources["server"]["metadata"] = {"role": "db"}
    stack = cloudy.put(stack, template(**resources, outputs=shown))
    assert (told()["role"], told()["deployments"]) == ("db", [])
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0


@pytest.mark.slow
@pytest.mark.parametrize("swift", few([None, {"container": "box", "object": "web"}]))
def test_the_object_of_a_replaced_server_goes_unless_it_is_named(cloudy: Cloudy, swift: dict[str, str] | None) -> None:
    more = {} if swift is None else {"deployment_swift_data": swift}
    server = resource("OS::Heat::DeployedServer", software_config_transport="POLL_TEMP_URL", **more)
    stack = cloudy.made({"server": server})
    before = cloudy.row(stack, "server").physical_id
    cloudy.mark(stack, "server")
    stack = cloudy.patch(stack)
    assert cloudy.row(stack, "server").physical_id != before
    (box,) = cloudy.view().simulation.all("object_store.container").values()
    assert box["name"] == ("box" if swift else cloudy.row(stack, "server").physical_name)
    assert len(box["_objects"]) == 1
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0


def test_a_container_that_is_gone_keeps_no_deployment(cloudy: Cloudy) -> None:
    server = resource("OS::Heat::DeployedServer", software_config_transport="POLL_TEMP_URL")
    apply = resource("OS::Heat::SoftwareDeployment", server={"get_resource": "server"}, signal_transport="NO_SIGNAL")
    stack = cloudy.made({"server": server, "apply": apply})
    name = cloudy.row(stack, "server").physical_name
    (one,) = cloudy.view().call("object_store.objects", name)
    cloudy.view().call("object_store.delete_object", one["name"], container=name)
    cloudy.view().call("object_store.delete_container", name)
    assert cloudy.delete(stack).status == "COMPLETE"


def test_servers_that_share_a_container_get_one_key(cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two workers ask for the key before the container has one."""
    both, call = threading.Barrier(2), SimulatedProject.call

    def slow(self: SimulatedProject, verb: str, *arguments: Json, **attributes: Json) -> Json:
        try:
            return call(self, verb, *arguments, **attributes)
        finally:
            if verb == "object_store.get_container_metadata":
                both.wait(PATIENCE)

    monkeypatch.setattr(SimulatedProject, "call", slow)
    stack = cloudy.made({})
    services = cloudy.components.engine_services.services
    facts = Facts("a", stack.id, stack.name, stack.project, "s-a", None, {}, {}, cloudy.clock.now, services)
    with ThreadPoolExecutor(2) as threads:
        urls = [*threads.map(lambda name: MetadataObject(facts, "shared", name).open(), ("a b", "c%20"))]
    (headers,) = [one["_headers"] for one in cloudy.view().simulation.all("object_store.container").values()]
    store, key = str(cloudy.view().call("object_store.get_endpoint")), headers["x-container-meta-temp-url-key"]
    assert urls == [temp_url(store, f"shared/{name}", key, "GET") for name in ("a b", "c%20")]
    assert [place_of(url) for url in urls] == [("shared", "a b"), ("shared", "c%20")]
    assert "/shared/a%20b?" in urls[0]


def test_a_key_that_a_container_has_stays(cloudy: Cloudy) -> None:
    cloudy.view().call("object_store.create_container", "box", **{KEY_HEADER: "theirs"})
    more = {"software_config_transport": "POLL_TEMP_URL", "deployment_swift_data": {"container": "box", "object": "x"}}
    stack = cloudy.made({"server": resource("OS::Heat::DeployedServer", **more)})
    store = str(cloudy.view().call("object_store.get_endpoint"))
    assert cloudy.row(stack, "server").data["metadata_url"] == temp_url(store, "box/x", "theirs", "GET")


def test_a_shared_container_that_goes_meanwhile_is_made_again(cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another stack deletes it before the new server has its object there."""
    simulation = cloudy.view().simulation
    write = cast(dict[str, Any], simulation.verbs)["object_store.create_object"]
    keys: list[str] = []

    def late(view: SimulatedProject, container: Json, *arguments: Json, **attributes: Json) -> Json:
        if not keys:
            keys.append(cast(Any, view.call("object_store.get_container_metadata", container))[KEY_HEADER.lower()])
            view.call("object_store.delete_container", container)
        return cast(Json, write(view, container, *arguments, **attributes))

    monkeypatch.setitem(cast(dict[str, Any], simulation.verbs), "object_store.create_object", late)
    more = {"software_config_transport": "POLL_TEMP_URL", "deployment_swift_data": {"container": "box", "object": "x"}}
    stack = cloudy.made({"server": resource("OS::Heat::DeployedServer", **more)})
    (box,) = simulation.all("object_store.container").values()
    assert box["_headers"][KEY_HEADER.lower()] == keys[0]
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0
