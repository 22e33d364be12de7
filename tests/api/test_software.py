"""Software configurations and deployments as clients use them."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.engine.operations import software_configs
from tests.databases import sqlite

from .conftest import Heat, new_project

CONFIG = {"name": "install", "group": "script", "config": "#!/bin/sh\n", "inputs": [], "outputs": []}


def config(heat: Heat, **more: object) -> Any:
    return heat.call("POST", "/software_configs", {**CONFIG, **more}, code=200).json["software_config"]


def deployment(heat: Heat, config_id: str, server_id: str = "server-1", **more: object) -> Any:
    body = {"config_id": config_id, "server_id": server_id, **more}
    return heat.call("POST", "/software_deployments", body, code=200).json["software_deployment"]


class TestConfigs:
    def test_a_config_is_kept_as_it_was_given(self, heat: Heat) -> None:
        made = config(
            heat,
            config={"tasks": ["a", 1]},
            inputs=[{"name": "x", "default": {"a": 1}, "type": "Json", "description": "An x."}, {"name": "y"}],
            outputs=[{"name": "e", "error_output": True}],
            options={"o": [1]},
        )
        assert made.keys() == {"id", "name", "group", "config", "inputs", "outputs", "options", "creation_time"}
        assert made["config"] == {"tasks": ["a", 1]}
        assert made["inputs"] == [
            {"name": "x", "default": {"a": 1}, "type": "Json", "description": "An x."},
            {"name": "y", "type": "String"},
        ]
        assert made["outputs"] == [{"name": "e", "type": "String", "error_output": True}]
        assert made["options"] == {"o": [1]}
        assert heat.get(f"/software_configs/{made['id']}") == {"software_config": made}

    @pytest.mark.parametrize("body", [{}, {"inputs": None, "outputs": None}])
    def test_nothing_has_to_be_there(self, heat: Heat, body: dict[str, None]) -> None:
        made = heat.call("POST", "/software_configs", body, code=200).json["software_config"]
        assert {key: made[key] for key in ("name", "group", "config", "inputs", "outputs", "options")} == {
            "name": "", "group": "Heat::Ungrouped", "config": None, "inputs": [], "outputs": [], "options": {},
        }  # fmt: skip

    def test_the_list_is_newest_first_and_in_pages(self, heat: Heat) -> None:
        ids = [config(heat, name=f"c{number}")["id"] for number in range(5)]
        listed = heat.get("/software_configs")["software_configs"]
        assert [item["id"] for item in listed] == ids[::-1]
        assert listed[0].keys() == {"id", "name", "group", "creation_time"}
        page = heat.get("/software_configs?limit=2")["software_configs"]
        assert [item["name"] for item in page] == ["c4", "c3"]
        rest = heat.get(f"/software_configs?limit=9&marker={page[-1]['id']}")["software_configs"]
        assert [item["name"] for item in rest] == ["c2", "c1", "c0"]
        assert heat.get("/software_configs?limit=0") == {"software_configs": []}

    def test_each_project_has_its_own(self, own_heat: Heat) -> None:
        made = config(own_heat)
        other = own_heat.other
        assert other.get("/software_configs") == {"software_configs": []}
        for method in ("GET", "DELETE"):
            assert other.fault(method, f"/software_configs/{made['id']}", code=404)[0] == "NotFound"
        (listed,) = other.get("/software_configs?global_tenant=True")["software_configs"]
        assert (listed["id"], listed["project"]) == (made["id"], "demo")

    def test_delete(self, heat: Heat) -> None:
        made = config(heat)
        given = deployment(heat, made["id"])
        error, text = heat.fault("DELETE", f"/software_configs/{made['id']}")
        assert error == "InvalidRestrictedAction"
        assert made["id"] in text
        heat.call("DELETE", f"/software_deployments/{given['id']}", code=204)
        heat.call("DELETE", f"/software_configs/{made['id']}", code=204)
        for method in ("GET", "DELETE"):
            assert heat.fault(method, f"/software_configs/{made['id']}", code=404) == (
                "NotFound",
                f"The Software config ({made['id']}) could not be found.",
            )

    @pytest.mark.parametrize(
        ("body", "where"),
        [
            (None, "a JSON object"),
            ([], "a JSON object"),
            ({"inputs": {}, "outputs": []}, "inputs: must be a list"),
            ({"inputs": [], "outputs": ["x"]}, "outputs[0]: must be an object"),
            ({"inputs": [{}], "outputs": []}, "inputs[0]: needs name"),
            ({"inputs": [{"name": 1}], "outputs": []}, "inputs[0].name: must be text"),
            ({"inputs": [{"name": "a", "typ": "String"}], "outputs": []}, "inputs[0]: unknown key typ"),
            ({"inputs": [{"name": "a", "type": "Text"}], "outputs": []}, "inputs[0].type: must be one of: Boolean"),
            ({"inputs": [{"name": "a", "replace_on_change": "x"}], "outputs": []}, "inputs[0].replace_on_change"),
            ({"inputs": [], "outputs": [{"name": "a", "default": 1}]}, "outputs[0]: unknown key default"),
            ({"inputs": [], "outputs": [], "config": 1}, "config: must be text or an object or null, not a number."),
            ({"inputs": [], "outputs": [], "options": "x"}, "options: must be an object"),
            ({"inputs": [], "outputs": [], "name": {}}, "name: must be text"),
        ],
    )
    def test_bad_bodies(self, refusing: Heat, body: object, where: str) -> None:
        error, text = refusing.fault("POST", "/software_configs", body)
        assert error == "HTTPBadRequest"
        assert where in text

    def test_bad_queries(self, refusing: Heat) -> None:
        assert refusing.fault("GET", "/software_configs?limit=x")[0] == "HTTPBadRequest"
        assert refusing.fault("GET", "/software_configs?global_tenant=1")[0] == "HTTPBadRequest"


class TestDeployments:
    def test_what_is_left_out_has_a_default(self, heat: Heat) -> None:
        config_id = config(heat)["id"]
        made = deployment(heat, config_id)
        assert made.pop("creation_time")
        assert made == {
            "id": made["id"], "server_id": "server-1", "config_id": config_id, "input_values": {},
            "output_values": None, "action": None, "status": None, "status_reason": "",
        }  # fmt: skip

    def test_show_list_and_delete(self, heat: Heat) -> None:
        config_id = config(heat)["id"]
        one = deployment(heat, config_id, "one", input_values={"a": [1]}, action="CREATE", status="IN_PROGRESS")
        two = deployment(heat, config_id, "two", stack_user_project_id="p" * 64)
        assert heat.get(f"/software_deployments/{one['id']}") == {"software_deployment": one}
        assert one["input_values"] == {"a": [1]}
        assert heat.get("/software_deployments") == {"software_deployments": [one, two]}
        assert heat.get("/software_deployments?server_id=two") == {"software_deployments": [two]}
        assert heat.get("/software_deployments?server_id=TWO") == {"software_deployments": []}
        heat.call("DELETE", f"/software_deployments/{one['id']}", code=204)
        for method in ("GET", "PUT", "DELETE"):
            assert heat.fault(method, f"/software_deployments/{one['id']}", {}, code=404)[0] == "NotFound"
        assert heat.get("/software_deployments") == {"software_deployments": [two]}

    def test_an_update_changes_what_it_names_and_null_names_nothing(self, heat: Heat) -> None:
        first, second = config(heat)["id"], config(heat)["id"]
        made = deployment(heat, first, status="IN_PROGRESS", action="CREATE", input_values={"a": 1})
        path = f"/software_deployments/{made['id']}"
        outputs = {"output_values": {"deploy_stdout": "ok"}, "status": "COMPLETE", "status_reason": "done"}
        changed = heat.call("PUT", path, {**outputs, "action": None}, code=200).json["software_deployment"]
        assert changed.pop("updated_time")
        assert changed == {**made, **outputs}
        more = {"config_id": second, "action": "UPDATE", "input_values": {}, "server_id": "ignored"}
        changed = heat.call("PUT", path, more, code=200).json["software_deployment"]
        assert (changed["config_id"], changed["action"], changed["input_values"]) == (second, "UPDATE", {})
        assert changed["server_id"] == "server-1"

    def test_a_server_is_told_its_configs_by_name(self, heat: Heat) -> None:
        configs = {name: config(heat, name=name) for name in ("b", "a", "c")}
        for name in configs:
            deployment(heat, configs[name]["id"], "other" if name == "c" else "server")
        assert heat.get("/software_deployments/metadata/server") == {"metadata": [configs["a"], configs["b"]]}
        assert heat.get("/software_deployments/metadata/nobody") == {"metadata": []}
        assert heat.other.get("/software_deployments/metadata/server") == {"metadata": []}

    def test_each_project_has_its_own(self, heat: Heat) -> None:
        made = deployment(heat, config(heat)["id"])
        other = heat.other
        assert other.get("/software_deployments") == {"software_deployments": []}
        for method in ("GET", "PUT", "DELETE"):
            assert other.fault(method, f"/software_deployments/{made['id']}", {}, code=404)[0] == "NotFound"
        body = {"config_id": made["config_id"], "server_id": "s"}
        assert other.fault("POST", "/software_deployments", body)[1].startswith("config_id: there is no")

    @pytest.mark.parametrize(
        ("body", "where"),
        [
            (None, "a JSON object"),
            ({}, "needs config_id, server_id"),
            ({"config_id": "x"}, "needs server_id"),
            ({"config_id": "x", "server_id": "s"}, "config_id: there is no software config x."),
            ({"config_id": None, "server_id": "s"}, "config_id: must be text"),
            ({"config_id": "x", "server_id": "s" * 256}, "server_id: may have at most 255 characters."),
            ({"config_id": "x", "server_id": "s", "input_values": []}, "input_values: must be an object"),
            ({"config_id": "x", "server_id": "s", "status": "s" * 256}, "status: may have at most 255"),
            ({"config_id": "x", "server_id": "s", "action": 1}, "action: must be text"),
            ({"config_id": "x", "server_id": "s", "stack_user_project_id": "p" * 65}, "at most 64 characters"),
        ],
    )
    def test_bad_bodies(self, refusing: Heat, body: object, where: str) -> None:
        error, text = refusing.fault("POST", "/software_deployments", body)
        assert error == "HTTPBadRequest"
        assert where in text

    def test_bad_updates(self, heat: Heat) -> None:
        path = f"/software_deployments/{deployment(heat, config(heat)['id'])['id']}"
        assert "output_values" in heat.fault("PUT", path, {"output_values": "x"})[1]
        assert "there is no software config zz" in heat.fault("PUT", path, {"config_id": "zz"})[1]
        assert heat.fault("PUT", path, [])[0] == "HTTPBadRequest"
        assert "updated_time" not in heat.get(path)["software_deployment"]


@pytest.fixture
def narrow(tmp_path: Path) -> Iterator[Heat]:
    """A server on which a project may have two of each."""
    limits = {"max_software_configs_per_tenant": 2, "max_software_deployments_per_tenant": 2}
    server = wiring.embedded(Settings(database=sqlite(tmp_path), **limits))
    yield Heat(server.app)
    server.close()


@pytest.mark.slow
def test_a_project_may_have_so_many(narrow: Heat) -> None:
    config_id = config(narrow)["id"]
    config(narrow)
    assert narrow.fault("POST", "/software_configs", CONFIG) == (
        "RequestLimitExceeded",
        "The project has 2 software configs, and may not have more.",
    )
    for _ in range(2):
        deployment(narrow, config_id)
    body = {"config_id": config_id, "server_id": "s"}
    assert narrow.fault("POST", "/software_deployments", body)[0] == "RequestLimitExceeded"
    config(narrow.other)


@pytest.fixture(scope="module")
def small_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[wiring.Embedded]:
    server = wiring.embedded(Settings(database=sqlite(tmp_path_factory.mktemp("small")), max_resource_data=20_000))
    yield server
    server.close()


@pytest.fixture
def small(small_server: wiring.Embedded) -> Heat:
    """A project whose answers about software have at most 20 000 characters."""
    return new_project(small_server)


def test_a_list_of_deployments_has_a_size(small: Heat) -> None:
    config_id = config(small)["id"]
    for number in range(12):
        deployment(small, config_id, f"s{number}", input_values={"x": "z" * 6000}, status_reason="r")
    listed = small.get("/software_deployments")["software_deployments"]
    assert [one["server_id"] for one in listed] == [f"s{number}" for number in range(12)]
    assert [one["input_values"] is not None for one in listed] == [True] * 3 + [False] * 9
    assert "values_error" not in listed[2]
    assert {name: listed[3][name] for name in ("output_values", "status_reason", "values_error")} == {
        "output_values": None,
        "status_reason": None,
        "values_error": "The values of the list come to more than 20000 characters of JSON (max_resource_data)."
        " Show the deployment.",
    }
    (one,) = small.get("/software_deployments?server_id=s11")["software_deployments"]
    assert one["input_values"] == {"x": "z" * 6000}


def test_the_software_of_a_server_has_a_size(small: Heat) -> None:
    reason = "more than 20000 characters of JSON (max_resource_data)"
    assert reason in small.fault("POST", "/software_configs", {**CONFIG, "config": "z" * 20_000})[1]
    ids = [config(small, config="z" * 8000)["id"] for _ in range(3)]
    first, _ = (deployment(small, config_id) for config_id in ids[:2])
    body = {"config_id": ids[2], "server_id": "server-1"}
    assert reason in small.fault("POST", "/software_deployments", body)[1]
    assert len(small.get("/software_deployments/metadata/server-1")["metadata"]) == 2
    other = deployment(small, config(small, config="small")["id"])
    assert reason in small.fault("PUT", f"/software_deployments/{other['id']}", {"config_id": ids[2]})[1]
    small.call("PUT", f"/software_deployments/{first['id']}", {"config_id": ids[2]}, code=200)


@pytest.mark.parametrize("name", ["name", "group"])
def test_names_have_a_length(small: Heat, name: str) -> None:
    config(small, **{name: "n" * 255})
    assert "255" in small.fault("POST", "/software_configs", {**CONFIG, name: "n" * 256})[1]


def test_the_limits_are_heats() -> None:
    settings = Settings(database="sqlite:///x")
    assert settings.max_software_configs_per_tenant == settings.max_software_deployments_per_tenant == 4096


def test_the_software_of_a_project_has_a_limited_size(heat: Heat, monkeypatch: pytest.MonkeyPatch) -> None:
    """Equal texts are stored, and count, once; that of another project does not count."""
    monkeypatch.setattr(software_configs, "MOST_SPACE", 12_000)
    given = {"name": "c", "group": "script", "config": "x" * 5000}
    heat.other.call("POST", "/software_configs", {**given, "config": "y" * 10_000}, code=200)
    config = heat.call("POST", "/software_configs", given, code=200).json["software_config"]
    for _ in range(3):
        heat.call("POST", "/software_configs", given, code=200)
    heat.call("POST", "/software_configs", {**given, "config": "z" * 5000}, code=200)
    kind, text = heat.fault("POST", "/software_configs", {**given, "config": "w" * 5000})
    assert (kind, "more than 12000 characters" in text) == ("RequestLimitExceeded", True)
    heat.call("POST", "/software_configs", {**given, "config": "small"}, code=200)
    deployed = {"server_id": "s", "config_id": config["id"], "input_values": {"a": "v" * 5000}}
    assert heat.fault("POST", "/software_deployments", deployed)[0] == "RequestLimitExceeded"
    made = heat.call("POST", "/software_deployments", {**deployed, "input_values": {}}, code=200).json
    path = f"/software_deployments/{made['software_deployment']['id']}"
    assert heat.fault("PUT", path, {"output_values": {"a": "u" * 5000}})[0] == "RequestLimitExceeded"
    assert len(heat.get("/software_configs")["software_configs"]) == 6
