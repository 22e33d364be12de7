"""Reverts and acceptances by request and by command."""

import json
from pathlib import Path

import pytest

from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.features.drift.api.test_lists import DRIFTING, WELL, checked

# Its object tells another value whatever is written: each check finds it again.


def revert(heat: Heat, path: str, asked: object, code: int) -> str:
    """Return the type of the error; "" for none."""
    answer = heat.call("POST", f"{path}/actions", {"revert_drift": asked}, code)
    return "" if code == 200 else str(answer.json["error"]["type"])


def plan(heat: Heat, path: str, asked: object) -> dict[str, str]:
    """Return what the preview changes, and the digest of the plan as ""."""
    shown = heat.call("PATCH", f"{path}/preview?plan=true", {"revert_drift": asked}, 200).json
    assert [*shown] == ["plan"]
    changed = [one for one in shown["plan"]["resources"] if one["action"] != "keep"]
    return {"": shown["plan"]["digest"], **{"/".join(one["path"]): one["action"] for one in changed}}


@pytest.mark.slow
def test_by_request(heat: Heat) -> None:
    child = json.dumps(template(x=DRIFTING, y=WELL))
    path = heat.create(template(a=DRIFTING, b=WELL, n={"type": "child.yaml"}), files={"child.yaml": child})
    assert revert(heat, path, None, 409) == "InvalidStackState"
    checked(heat, path)
    definition = heat.get(f"{path}/template"), heat.get(f"{path}/environment")
    shown = plan(heat, path, {"resources": ["n/x"]})
    assert shown.pop("")
    assert shown == {"n": "update", "n/x": "update"}
    digest = plan(heat, path, None)[""]
    assert revert(heat, path, {"resources": ["n"], "plan_digest": digest}, 409) == "PlanChanged"
    answer = heat.call("POST", f"{path}/actions", {"revert_drift": {"plan_digest": digest}}, 200)
    assert answer.json is None
    heat.settle(path, "UPDATE_COMPLETE")
    (action,) = heat.get("/actions?action=STACK_UPDATE&stack=s")["actions"]
    assert answer.headers["X-Heatlite-Action"].endswith(action["id"])
    assert (action["cause"], action["outputs"]["reverted"]) == ("RPC Request", ["a", "n/x"])
    assert action["inputs"] == {"revert_drift": {"plan_digest": digest}}
    assert (heat.get(f"{path}/template"), heat.get(f"{path}/environment")) == definition
    assert heat.get(f"{path}/drift")["drift"]["drifted"] == 0
    assert revert(heat, path, {}, 409) == "InvalidStackState"


def test_closed_bodies(heat: Heat) -> None:
    path = heat.create(template(a=DRIFTING))
    for wrong in (7, {"resource": "a"}, {"resources": []}, {"resources": [""]}, {"plan_digest": 1}):
        assert revert(heat, path, wrong, 400) == "HTTPBadRequest"
    assert revert(heat, path, {"resources": ["z"]}, 404) == "ResourceNotFound"
    for asked in ({"resource": "a"}, 7):
        heat.call("PATCH", f"{path}/preview?plan=true", {"revert_drift": asked}, 400)
    answer = heat.call("PATCH", f"{path}/preview?plan=true", {"revert_drift": None, "parameters": {}}, 400)
    assert "takes no other key" in answer.json["error"]["message"]


@pytest.mark.slow
def test_by_command(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    here = Here(heat)
    path = heat.create(template(a=DRIFTING, b=DRIFTING, c=WELL))
    assert here("drift revert s --yes") != 0
    checked(heat, path)
    capsys.readouterr()
    assert here("drift revert s a --yes") == 0
    assert "~ a  (OS::Heat::TestResource)  its object differs" in capsys.readouterr().out
    assert [one["path"] for one in heat.get(f"{path}/drift")["drift"]["resources"]] == ["b"]
    assert here("drift revert s --yes") == 0
    assert heat.get(f"{path}/drift")["drift"]["drifted"] == 0


@pytest.mark.slow
def test_accepting(heat: Heat, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    """The template that `--write` leaves plans nothing."""
    here, file = Here(heat), tmp_path / "web.yaml"
    written = "heat_template_version: 2021-04-16\nresources:\n  a:  # the first\n    type: OS::Heat::TestResource\n"
    file.write_text(written + "    properties:\n      value: v  # gold\n      live_value: w\n")
    assert here(f"up {file} -n s --yes") == 0
    path = f"/stacks/s/{heat.get('/stacks')['stacks'][0]['id']}"
    for wrong in (
        None, {}, {"resources": ["a"]}, {"other": 1, "plan_digest": "x"},
        {"differences": [{"path": "a", "pointer": "value"}], "plan_digest": "x"},
        {"differences": [{"path": "a", "pointer": "/value"}], "resources": ["a"], "plan_digest": "x"},
    ):  # fmt: skip
        assert heat.call("POST", f"{path}/actions", {"accept_drift": wrong}, 400).json["error"]["type"]
    checked(heat, path)
    capsys.readouterr()
    assert here(f"drift accept s --yes --write {file}") == 0
    out, err = capsys.readouterr()
    assert '~ template /resources/a/properties/value: replace "w"' in out
    assert f"changed {file}" in err
    assert file.read_text() == written + "    properties:\n      value: w  # gold\n      live_value: w\n"
    assert heat.get(f"{path}/drift")["drift"]["drifted"] == 0
    assert here(f"plan {file} -n s --detailed-exitcode") == 0
    action, *_ = heat.get("/actions?action=STACK_UPDATE&stack=s")["actions"]
    assert (action["status"], action["outputs"]["accepted"]) == ("SUCCEEDED", {"a": ["/value"]})
    assert [*action["inputs"]] == ["accept_drift"]
