"""`heatlite plan`, `up` and `change-policy` with rules."""

import json
from pathlib import Path

import pytest

from heatlite.__main__ import main
from tests.api.conftest import Heat, template, value
from tests.api.test_commands import Here

POLICY = """\
change_policy: 2026-11-28
rules:
  - {name: no-x, for: resource, types: ["OS::Heat::*"], on: [create], when: resource.properties.value == 'x',
     then: deny, message: x is not allowed}
  - {name: hm, for: plan, when: plan.counts.create > 0, then: warn, message: it makes something}
"""


@pytest.mark.slow
def test_plan_and_up(heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    here, policy, stack = Here(heat), tmp_path / "policy.yaml", tmp_path / "stack.yaml"
    policy.write_text(POLICY)
    assert here(f"change-policy set {policy}") == 0
    stack.write_text(json.dumps(template(a=value("x"), b=value("y"))))
    capsys.readouterr()
    assert here(f"plan {stack}") == 1
    told, error = capsys.readouterr()
    assert error == ""
    assert "! warn hm: it makes something\n! deny no-x  a: x is not allowed\n" in told
    assert here(f"up {stack} --yes") == 1
    assert "because of a rule of a change policy: no-x at a: x is not allowed" in "".join(capsys.readouterr())
    stack.write_text(json.dumps(template(b=value("y"))))
    assert here(f"plan {stack}") == 0
    assert "! warn hm" in capsys.readouterr().out
    policy.write_text(POLICY.replace("resource.properties.value == 'x'", "resource.prop == 1"))
    assert here(f"change-policy set {policy}") == 1
    assert "line 1, column 9: undeclared reference to 'resource.prop'" in "".join(capsys.readouterr())


def test_validate_asks_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert main(["validate", str(policy)]) == 0
    for wrong, told in (("resource.prop == 1", "line 1, column 9: undeclared reference"), ("''", "may not be empty")):
        policy.write_text(POLICY.replace("resource.properties.value == 'x'", wrong))
        assert main(["validate", str(policy)]) == 1
        assert told in "".join(capsys.readouterr())
