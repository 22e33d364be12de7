"""`heatlite plan`, `up` and `change-policy` with rules."""

import io
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


@pytest.mark.parametrize("line", ["up s.yaml", "undo s", "down s", "heal s a"])
def test_what_a_rule_denies_is_not_asked_for(
    heat: Heat, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = heat.create(template(a=value("x")))
    heat.call("PUT", path, {"template": template(a=value("y"))}, 202)
    heat.settle(path)
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, 200)
    rule = {"name": "night", "for": "plan", "on": ["update", "delete", "heal"], "when": "true", "then": "deny"}
    policy = {"change_policy": "2026-11-28", "rules": [{**rule, "message": "not at night"}]}
    heat.call("PUT", "/change_policy", policy, 200)
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps(template(a=value("z"))))
    terminal = io.StringIO("y\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert Here(heat)(line) == 1
    said = capsys.readouterr()
    assert "! deny night: not at night" in said.out
    assert said.err.endswith("heatlite: A rule denies it. Nothing was done.\n") and "[y/N]" not in said.err


SERVER = """\
heat_template_version: 2021-04-16
parameters: {flavor: {type: string}}
resources:
  net: {type: OS::Neutron::Net}
  group:
    type: OS::Heat::ResourceGroup
    properties:
      count: 1
      resource_def: {type: OS::Nova::Server, properties: {image: no-such, flavor: {get_param: flavor}}}
"""
JUDGES = """\
change_policy: 2026-11-28
rules:
  - {name: sizes, for: resource, types: ["OS::Nova::Server"], on: [create],
     when: resource.properties.flavor != 'm1.small', then: deny, message: too large}
  - {name: hm, for: plan, when: plan.counts.create > 2, then: warn, message: many}
  - {name: later, for: plan, on: [update], when: "true", then: deny, message: not now}
"""


@pytest.mark.slow
def test_validate_judges_templates(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without a server and a cloud: what the rules of a file say of each template."""
    policy, stack, other = tmp_path / "policy.yaml", tmp_path / "a.yaml", tmp_path / "b.yaml"
    policy.write_text(JUDGES)
    stack.write_text(SERVER)
    flavor = {"parameters": {"flavor": {"type": "string"}}}
    other.write_text(json.dumps({**template(v=value({"get_param": "flavor"})), **flavor}))
    judge = ["validate", "--rules", str(policy), str(stack), str(other)]
    assert main([*judge, "-P", "flavor=m1.large"]) == 1
    assert capsys.readouterr().out.splitlines() == [
        f"{stack}:1:1: warning: warn hm: many",
        f"{stack}:5:3: error: deny sizes (group/0): too large",
    ]
    assert main([*judge, "-P", "flavor=m1.small"]) == 0
    assert "warn hm" in capsys.readouterr().out
    assert main(judge) == 1
    assert f"{stack}:1:1: error: its rules were not asked: give all of its parameters" in capsys.readouterr().out
    policy.write_text(JUDGES.replace("flavor != ", "flavor =! "))
    assert main([*judge, "-P", "flavor=m1.small"]) == 1
    assert "policy.yaml:1:1: error: rules[0].when (sizes): line 1, column" in capsys.readouterr().out


TRIAL = """\
template: a.yaml
change_policy: policy.yaml
parameters: {word: fine}
steps:
- {do: create, parameters: {word: x}, expect: {refused: "no-x at a: x is not allowed"}}
- {do: create}
- {do: update, parameters: {word: y}, expect: {refused: "an approval (rule:ask-y)"}}
- {do: update, parameters: {word: z}}
- {do: delete, expect: {refused: "stays"}}
"""


@pytest.mark.slow
def test_trials_are_judged(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`change_policy` of a file of steps: its rules judge each step."""
    word = template(a=value({"get_param": "word"}))
    (tmp_path / "a.yaml").write_text(json.dumps({**word, "parameters": {"word": {"type": "string"}}}))
    (tmp_path / "policy.yaml").write_text(
        "change_policy: 2026-11-28\nrules:\n"
        "- {name: no-x, for: resource, when: resource.properties.value == 'x', on: [create], then: deny,"
        " message: x is not allowed}\n"
        "- {name: ask-y, for: resource, when: resource.properties.value == 'y', on: [update], then: approve,"
        " message: ask}\n"
        "- {name: keep, for: plan, when: 'true', on: [delete], then: deny, message: it stays}\n"
    )
    trial = tmp_path / "trial.yaml"
    trial.write_text(TRIAL)
    assert main(["test", str(trial)]) == 0, capsys.readouterr().out
    trial.write_text(TRIAL.replace("policy.yaml", "none.yaml"))
    assert main(["test", str(trial)]) != 0
    assert "none.yaml: no such file" in capsys.readouterr().err
    (tmp_path / "policy.yaml").write_text("change_policy: 2026-11-28\nrules: 1\n")
    trial.write_text(TRIAL)
    assert main(["test", str(trial)]) != 0
    assert "The change policy is not valid. rules" in capsys.readouterr().err


def test_validate_asks_no_endpoint(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy, stack = tmp_path / "policy.yaml", tmp_path / "a.yaml"
    rule = "{name: cmdb, for: plan, url: 'https://cmdb.example/', then: deny, message: m}"
    policy.write_text(f"change_policy: 2026-11-28\nrules: [{rule}]\n")
    stack.write_text(json.dumps(template(v=value("x"))))
    assert main(["validate", "--rules", str(policy), str(stack)]) == 0
    assert "policy.yaml:1:1: warning: cmdb was not asked: it has an endpoint" in capsys.readouterr().out


def test_validate_asks_no_server(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    policy = tmp_path / "policy.yaml"
    policy.write_text(POLICY)
    assert main(["validate", str(policy)]) == 0
    for wrong, told in (("resource.prop == 1", "line 1, column 9: undeclared reference"), ("''", "may not be empty")):
        policy.write_text(POLICY.replace("resource.properties.value == 'x'", wrong))
        assert main(["validate", str(policy)]) == 1
        assert told in "".join(capsys.readouterr())
