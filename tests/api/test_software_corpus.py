"""Software templates of openstack/heat-templates, from creation to deletion.

The types of clouds that are not there stand for nothing (OS::Heat::None); the test answers as the servers would.
"""

import os
import time
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import yaml

from heatlite.cli import files
from tests.tables import few

from .conftest import Heat

CORPUS = Path(os.environ.get("HEATLITE_CORPUS") or Path(__file__).parents[3] / "shared" / "corpus")
FOLDER = "heat-templates/hot/software-config"
VERDICTS = yaml.load((Path(__file__).parents[1] / "corpus" / "verdicts.yaml").read_text(), yaml.CSafeLoader)
pytestmark = [
    pytest.mark.corpus,
    pytest.mark.skipif(not CORPUS.is_dir(), reason=f"there is no corpus of templates at {CORPUS}"),
]
NONE = dict.fromkeys(("OS::Nova::*", "OS::Neutron::*"), "OS::Heat::None")


def is_whole(verdict: object) -> bool:
    """True if a template fails only for lack of a cloud or an environment."""
    missing = verdict.get("missing types", []) if isinstance(verdict, dict) else []
    clouds = ("OS::Nova::", "OS::Neutron::", "Heat::InstallConfigAgent")
    good = verdict == "accepted" or (isinstance(verdict, dict) and verdict.keys() == {"missing types"})
    return good and all(name.startswith(clouds) for name in missing)


TEMPLATES = [name for name, verdict in VERDICTS.items() if name.startswith(FOLDER) and is_whole(verdict)]


def bundle(name: str) -> dict[str, Any]:
    """The request of a client, with a value for each parameter that needs one."""
    path = CORPUS / name
    environments = [CORPUS / FOLDER / "boot-config" / "none_env.yaml", path.with_name(f"{path.stem}_env.yaml")]
    given = files.gather(path, [one for one in environments if one.exists()])
    body: dict[str, Any] = dict(given.body({}))
    body["environment"]["resource_registry"] = {**NONE, **body["environment"].get("resource_registry", {})}
    needed = {key: one for key, one in body["template"].get("parameters", {}).items() if "default" not in one}
    body["parameters"] = {key: 1 if one["type"] == "number" else "someValue" for key, one in needed.items()}
    return body


def answer(heat: Heat) -> None:
    """Do as every server would that has something to do."""
    for one in heat.get("/software_deployments")["software_deployments"]:
        if one["status"] != "IN_PROGRESS":
            continue
        config = heat.get(f"/software_configs/{one['config_id']}")["software_config"]
        inputs = {each["name"]: each["value"] for each in config["inputs"]}
        outputs = {each["name"]: f"{each['name']} of {inputs['deploy_resource_name']}" for each in config["outputs"]}
        url = urlsplit(inputs["deploy_signal_id"])
        outputs["deploy_status_code"] = "0"
        heat.call(inputs["deploy_signal_verb"], f"{url.path}?{url.query}", outputs, code=200)


def played(heat: Heat, path: str) -> str:
    end = time.monotonic() + 240
    while (stack := heat.get(path)["stack"])["stack_status"].endswith("_IN_PROGRESS"):
        assert time.monotonic() < end, heat.get(f"{path}/resources")
        answer(heat)
        time.sleep(0.003)
    return f"{stack['stack_status']}: {stack['stack_status_reason']}"


@pytest.mark.parametrize("name", few(TEMPLATES), ids=lambda name: name.removeprefix(f"{FOLDER}/"))
def test_from_creation_to_deletion(heat: Heat, name: str) -> None:
    body = bundle(name)
    answered = heat.call("POST", "/stacks", {**body, "stack_name": "s"}, code=201).json
    path = f"/stacks/s/{answered['stack']['id']}"
    assert played(heat, path).startswith("CREATE_COMPLETE")
    kinds = [one["type"] for one in body["template"]["resources"].values()]
    deployments = heat.get("/software_deployments")["software_deployments"]
    assert len(deployments) >= sum(kind.endswith("Deployment") for kind in kinds)

    for one in body["template"]["resources"].values():
        if one["type"].endswith(("Deployment", "DeploymentGroup")):
            one["properties"]["input_values"] = {**one["properties"].get("input_values", {}), "updated": "yes"}
    heat.call("PUT", path, body, code=202)
    assert played(heat, path).startswith("UPDATE_COMPLETE")
    changed = heat.get("/software_deployments")["software_deployments"]
    assert [one["id"] for one in changed] == [one["id"] for one in deployments]
    assert {one["action"] for one in changed} <= {"CREATE", "UPDATE"}

    heat.call("DELETE", path, code=204)
    assert played(heat, path).startswith("DELETE_COMPLETE")
    assert heat.get("/software_deployments") == {"software_deployments": []}
    assert heat.get("/software_configs") == {"software_configs": []}
