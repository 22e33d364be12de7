"""Quotas in answers, requests and commands."""

import json
import re
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.core.json import Json
from heatlite.features.quota.parts import Quotas
from heatlite.features.simulator.simulation import ADMIN
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here

NET = {"type": "OS::Neutron::Net"}
TWO = template(one=NET, two=NET, plain={"type": "OS::Heat::RandomString"})


def limit(server: wiring.Embedded, heat: Heat, **limits: Json) -> None:
    clouds = server.components.engine_services.services.clouds
    clouds.of(ADMIN).cloud.call("network.update_quota", heat.project, **limits)
    server.components.of(Quotas).limits.forget()


def test_a_plan_shows_what_it_needs(heat: Heat, server: wiring.Embedded) -> None:
    limit(server, heat, network=1)
    answer = heat.call("POST", "/stacks/preview?plan=true", {"stack_name": "s", "template": TWO}, 200).json
    quota = answer["plan"]["quota"]
    assert quota.keys() == {"state", "read_at", "causes", "kinds"}
    assert (quota["state"], quota["causes"]) == ("short", {})
    assert quota["kinds"] == [
        {
            "kind": "network.network", "limit": 1, "used": 0, "reserved": 0, "needed": 2, "known": True, "short": 1,
            "holders": [],
        }
    ]  # fmt: skip
    off = heat.call("POST", "/stacks/preview?plan=true&quota_check=off", {"stack_name": "s", "template": TWO}, 200)
    assert "quota" not in off.json["plan"]
    plain = heat.call("POST", "/stacks/preview", {"stack_name": "s", "template": TWO}, 200).json
    assert "plan" not in plain


def test_a_refusal_has_the_shortages_and_leaves_nothing(heat: Heat, server: wiring.Embedded) -> None:
    limit(server, heat, network=1)
    refusal = heat.call("POST", "/stacks", {"stack_name": "s", "template": TWO}, 409).json["error"]
    assert refusal["type"] == "QuotaExceeded"
    assert [(one["kind"], one["short"]) for one in refusal["shortages"]] == [("network.network", 1)]
    assert "network.network needs 2 more, 1 free of 1: short by 1" in refusal["message"]
    assert heat.get("/stacks")["stacks"] == heat.get("/actions")["actions"] == []
    wrong = heat.fault("POST", "/stacks?quota_check=maybe", {"stack_name": "s", "template": TWO})
    assert wrong == ("HTTPBadRequest", "Unknown quota_check maybe; there are: refuse, warn, off.")
    heat.fault("GET", "/stacks?quota_check=off")
    path = heat.create(template(one=NET))
    body = {"template": TWO}
    plan = heat.call("PUT", f"{path}/preview?plan=true", body, 200).json["plan"]
    assert (plan["quota"]["state"], plan["quota"]["kinds"][0]["needed"]) == ("short", 1)
    for method, query in (("PUT", ""), ("PATCH", "?quota_check=refuse")):
        assert heat.call(method, path + query, body, 409).json["error"]["type"] == "QuotaExceeded"
    limit(server, heat, network=2)
    digest = heat.call("PUT", f"{path}/preview?plan=true", body, 200).json["plan"]["digest"]
    heat.call("PUT", path, {**body, "plan_digest": digest}, 202)
    heat.settle(path, "UPDATE_COMPLETE")


def test_the_quota_of_a_project(heat: Heat, server: wiring.Embedded) -> None:
    limit(server, heat, network=3)
    heat.create(template(one=NET))
    server.components.of(Quotas).limits.forget()
    quota = heat.get("/quota")["quota"]
    kinds = {one["kind"]: one for one in quota["kinds"]}
    assert (quota["state"], quota["causes"]) == ("fits", {})
    assert kinds["network.network"] == {
        "kind": "network.network", "limit": 3, "used": 1, "reserved": 0, "holders": [],
    }  # fmt: skip
    assert {kind.partition(".")[0] for kind in kinds} == {"compute", "block_storage", "network", "load_balancer"}
    assert {f"compute.{kind}" for kind in ("instances", "cores", "ram", "server_groups", "key_pairs")} <= kinds.keys()


@pytest.mark.slow
def test_commands(
    heat: Heat, server: wiring.Embedded, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    limit(server, heat, network=1)
    here, file = Here(heat), tmp_path / "nets.yaml"
    file.write_text(json.dumps(TWO))
    assert here(f"plan {file} --detailed-exitcode") == 1
    told = capsys.readouterr().out
    assert re.search(r"Quota \(read \d+s ago\): does not fit", told)
    assert "  network.network needs 2 more, 1 free of 1: short by 1" in told
    assert here(f"plan {file}") == 0
    assert here(f"up {file} --yes") == 1
    assert "short by 1" in "".join(capsys.readouterr())
    limit(server, heat, network=-1)
    assert here(f"plan {file} --detailed-exitcode") == 2
    told = capsys.readouterr().out
    assert re.search(r"\.\nQuota \(read \d+s ago\): it fits\n$", told), "one line"


@contextmanager
def counted_calls(heat: Heat, server: wiring.Embedded) -> Iterator[list[str]]:
    """Yield the verbs that the cloud is asked from now on."""
    calls: list[str] = []
    cloud: Any = server.components.engine_services.services.clouds.of(heat.project).cloud
    simulation, ask = cloud.simulation, cloud.simulation.call

    def counted(view: Any, verb: str, *rest: Any) -> Any:
        calls.append(verb)
        return ask(view, verb, *rest)

    simulation.call = counted
    try:
        yield calls
    finally:
        del simulation.call


def test_statements_and_calls_do_not_grow_with_a_plan(heat: Heat, server: wiring.Embedded) -> None:
    """10: at most one reading of each service for a plan of any size."""
    with counted_calls(heat, server) as calls:
        for count in (1, 300):
            calls.clear()
            server.components.of(Quotas).limits.forget()
            resources = {f"n{number}": NET for number in range(count)}
            heat.call("POST", "/stacks/preview?plan=true", {"stack_name": "s", "template": template(**resources)}, 200)
            assert calls == ["network.get_quota"]
            calls.clear()
            heat.call("POST", "/stacks/preview?plan=true", {"stack_name": "s", "template": template(**resources)}, 200)
            assert calls == []


@pytest.mark.parametrize(
    "change, asked",
    [
        ({"one": {**NET, "properties": {"name": "renamed"}}}, 0),
        ({"plain": None}, 0),
        ({"one": None}, 0),
        ({"plain": {"type": "OS::Heat::RandomString", "properties": {"salt": "anew"}}}, 0),
        ({"three": NET}, 1),
        ({"one": {"type": "OS::Neutron::Router"}}, 1),
    ],
)
def test_only_an_update_with_new_objects_asks_for_limits(
    heat: Heat, server: wiring.Embedded, change: dict[str, Any], asked: int
) -> None:
    path = heat.create(TWO)
    server.components.of(Quotas).limits.forget()
    resources = {name: one for name, one in {**TWO["resources"], **change}.items() if one is not None}
    with counted_calls(heat, server) as calls:
        heat.call("PUT", path, {"template": template(**resources)}, 202)
        heat.settle(path, "UPDATE_COMPLETE")
    assert calls.count("network.get_quota") == asked
