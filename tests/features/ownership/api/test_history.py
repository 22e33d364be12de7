"""Changes of ownership in the list of actions."""

import json
from typing import Any

import pytest

from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.features.ownership.api.test_ownership import NET, network, plan


@pytest.mark.slow
def test_each_is_told_by_its_name(clouded: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat, here = clouded, Here(clouded)
    path = heat.create(template(), "told")
    requests: dict[str, Any] = {
        "import": {"resources": {"net": {"type": NET, "id": network(heat, "to-tell")}}},
        "move": {"moved": [{"from": "net", "to": "lan"}]},
        "detach": {"resources": ["lan"]},
    }
    for key, asked in requests.items():
        digest = plan(heat, path, {key: asked})["digest"]
        heat.call("POST", f"{path}/actions", {key: {**asked, "plan_digest": digest}}, 200)
    heat.call("PATCH", path, {"tags": "x"}, 202)
    heat.settle(path)
    found = heat.get("/actions?stack=told&sort=created_at:asc")["actions"]
    expected = [None, *requests, None]
    assert [one["operation"] for one in found] == expected
    assert {one["action"] for one in found[1:]} == {"STACK_UPDATE"}
    for command in ("history told", "action list told"):
        capsys.readouterr()
        assert here(f"{command} -f json") == 0
        assert [one["operation"] for one in json.loads(capsys.readouterr().out)] == expected[::-1]
