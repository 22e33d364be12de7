"""Values that `up` keeps, and those that it forgets with `--reset`.

F6: an update of the command line is a PATCH. Requests of Heat's clients mean what they did.
"""

import json
from pathlib import Path
from typing import Any

import pytest

from .conftest import Heat, template
from .test_commands import Here, nobody  # noqa: F401

SECRET = "tr0ub4dor-and-3"


def text(default: str, **more: object) -> dict[str, object]:
    return {"type": "string", "default": default, **more}


def made(*names: str) -> dict[str, object]:
    """A template with some parameters, which are its outputs."""
    known = {"n": text("one"), "m": text("one"), "gone": text("one"), "secret": text("none", hidden=True)}
    outputs = {name: {"value": {"get_param": name}} for name in names}
    return {**template(), "parameters": {name: known[name] for name in names}, "outputs": outputs}


@pytest.fixture
def here(heat: Heat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.chdir(tmp_path)
    return Here(heat)


def parameters(heat: Heat) -> dict[str, Any]:
    """The values that the stack was given."""
    stack = heat.get("/stacks")["stacks"][0]
    return dict(heat.get(f"/stacks/s/{stack['id']}/environment")["parameters"])


def outputs(heat: Heat) -> dict[str, Any]:
    stack = heat.get("/stacks")["stacks"][0]
    found = heat.get(f"/stacks/s/{stack['id']}")["stack"]["outputs"]
    return {one["output_key"]: one["output_value"] for one in found}


def write(**content: object) -> None:
    for name, value in content.items():
        Path(f"{name}.yaml").write_text(json.dumps(value))


@pytest.mark.slow
def test_up_keeps_and_resets(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    write(s=made("n", "m", "gone", "secret"), e={"parameters": {"m": "three"}, "parameter_defaults": {"x": "y"}})
    assert here(f"up s.yaml -y -P n=two -P gone=two -P secret={SECRET} --tags a,b -e e.yaml") == 0
    write(s=made("n", "m", "secret"))
    capsys.readouterr()
    assert here("plan s.yaml") == 0
    header = capsys.readouterr().out.splitlines()[0]
    assert {*header.removeprefix("keeps ").split(", ")} == {"n=two", "secret=******", "m=three"}
    assert here("up s.yaml -y -P m=four") == 0
    assert parameters(heat) == {"n": "two", "m": "four", "secret": "******"}
    assert outputs(heat) == {"n": "two", "m": "four", "secret": SECRET}
    assert heat.get("/stacks")["stacks"][0]["tags"] == ["a", "b"]
    assert here("plan s.yaml -e e.yaml -P n=five") == 0
    assert "keeps secret=******\n" in capsys.readouterr().out
    assert here("plan s.yaml --reset") == 0
    assert "keeps" not in capsys.readouterr().out
    assert here("up s.yaml -y --reset") == 0
    assert parameters(heat) == {}
    assert outputs(heat) == {"n": "one", "m": "one", "secret": "none"}
    assert not heat.get("/stacks")["stacks"][0]["tags"]


def test_a_required_parameter_is_not_typed_again(heat: Heat, here: Here) -> None:
    write(s={**made(), "parameters": {"n": {"type": "string"}}})
    assert here("up s.yaml -y") == 1
    assert here("up s.yaml -y -P n=two") == 0
    assert here("up s.yaml -y") == 0
    assert here("up s.yaml -y --reset") == 1
    assert parameters(heat) == {"n": "two"}


def test_requests_of_clients_are_as_before(heat: Heat) -> None:
    """Acceptance 5: PUT forgets what it does not have, PATCH keeps it."""
    whole = made("n", "m")
    path = heat.create(whole, parameters={"n": "two", "m": "two"}, tags="a")
    heat.call("PATCH", path, {"template": whole, "parameters": {"m": "three"}}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert parameters(heat) == {"n": "two", "m": "three"}
    heat.call("PUT", path, {"template": whole, "parameters": {"m": "four"}}, 202)
    heat.settle(path, "UPDATE_COMPLETE")
    assert parameters(heat) == {"m": "four"}
    assert not heat.get(path)["stack"]["tags"]


def test_a_misspelt_parameter_is_an_error(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    """A PATCH leaves out what the template does not have; `up` says it before."""
    write(s=made("n"), e={"parameters": {"nn": "x"}})
    assert here("up s.yaml -y -P n=two") == 0
    lines = ("up s.yaml -y -P nn=1", "up s.yaml -y -e e.yaml", "up s.yaml -y --reset -P nn=1", "plan s.yaml -P nn=1")
    for given in lines:
        capsys.readouterr()
        assert here(given) == 1
        assert "nn" in capsys.readouterr().err
    assert parameters(heat) == {"n": "two"}
