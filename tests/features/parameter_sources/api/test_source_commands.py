"""Commands of values of other stacks."""

import json
from pathlib import Path

import pytest

from tests.api.conftest import Heat, value
from tests.api.test_commands import Here, Typed, nobody  # noqa: F401
from tests.features.parameter_sources.api.test_sources import grant, owner, parameters, patch, reader, sources


@pytest.fixture
def here(heat: Heat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Here:
    monkeypatch.chdir(tmp_path)
    Path("base.yaml").write_text(json.dumps(owner(net="a")))
    Path("other.yaml").write_text(json.dumps(owner(net="x")))
    Path("web.yaml").write_text(json.dumps(reader("net_id")))
    return Here(heat)


def _path(heat: Heat, name: str) -> str:
    return next(f"/stacks/{name}/{one['id']}" for one in heat.get("/stacks")["stacks"] if one["stack_name"] == name)


@pytest.mark.slow
def test_up_reads_and_refresh_reads_again(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("up base.yaml -y") == 0
    assert here("plan web.yaml --from net_id=base.net") == 0
    assert "net_id: a  (from base.net)" in capsys.readouterr().out.splitlines()
    assert here("up web.yaml -y --from net_id=base.net") == 0
    path = _path(heat, "web")
    assert parameters(heat, path) == {"net_id": "a"}
    assert here("readers base -f value -c stack_name -c parameter -c output") == 0
    assert capsys.readouterr().out.splitlines()[-1].split() == ["web", "net_id", "net"]
    Path("base.yaml").write_text(json.dumps(owner(net="b")))
    assert here("plan base.yaml") == 0
    assert "Output net is changed: web reads it as net_id" in capsys.readouterr().out.splitlines()
    assert here("up base.yaml -y") == 0
    assert here("up web.yaml -y") == 0
    assert sources(heat, path) == [("net_id", "base", "net", "behind")]
    assert here("refresh web net_id -y") == 0
    assert parameters(heat, path) == {"net_id": "b"}
    patch(heat, _path(heat, "base"), parameters={"net": "c"})
    assert here("plan web.yaml --from net_id=base.net") == 0
    assert "keeps net_id=b" in capsys.readouterr().out.splitlines()
    assert here("plan web.yaml --reset --from net_id=base.net") == 0
    assert "net_id: b → c  (from base.net)" in capsys.readouterr().out.splitlines()
    assert here("up other.yaml -y -P net=z") == 0
    assert here("plan web.yaml --from net_id=other.net") == 0
    found = capsys.readouterr().out.splitlines()
    assert "net_id: b → z  (from other.net)" in found
    assert "keeps net_id=b" not in found


def test_down_tells_readers(
    here: Here, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert here("up base.yaml -y") == 0
    assert here("up web.yaml -y --from net_id=base.net") == 0
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    assert here("down base") == 1
    assert "Output net is removed: web reads it as net_id" in capsys.readouterr().out.splitlines()


def test_environment_of_the_command_line(heat: Heat, here: Here) -> None:
    assert here("up base.yaml -y") == 0
    Path("e.yaml").write_text("parameter_sources:\n  net_id: {stack: base, output: net}\n")
    assert here("up web.yaml -y -e e.yaml") == 0
    assert parameters(heat, _path(heat, "web")) == {"net_id": "a"}


def test_source_of_another_project(heat: Heat, here: Here) -> None:
    base = heat.other.create(owner(net="theirs"), "base")
    grant(heat.other, base, (heat.project, "net"))
    assert here(f"up web.yaml -y --from net_id={heat.other.project}/base.net") == 0
    assert parameters(heat, _path(heat, "web")) == {"net_id": "theirs"}


@pytest.mark.parametrize("given", ["net_id", "net_id=base", "=base.net", "net_id=.net", "net_id=base."])
def test_source_of_another_form(here: Here, capsys: pytest.CaptureFixture[str], given: str) -> None:
    assert here(f"up web.yaml -y --from {given}") != 0
    assert f"--from {given}: a source is given as NAME=STACK.OUTPUT." in capsys.readouterr().err


def test_refused_source_is_told(here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    assert here("up web.yaml -y --from net_id=base.net") != 0
    found = capsys.readouterr().err
    assert "there is no stack base" in found
    assert "net_id was not provided" not in found


@pytest.mark.slow
def test_a_move_tells_who_reads(heat: Heat, here: Here, capsys: pytest.CaptureFixture[str]) -> None:
    """E7: before the question, for the outputs of both stacks."""
    assert here("up base.yaml -y") == 0 and here("up other.yaml -n other -y") == 0
    for name in ("base", "other"):
        assert here(f"up web.yaml -n of-{name} -y --from net_id={name}.net") == 0
    left, entered = owner(net="a"), owner(net="x")
    left |= {"outputs": {}, "resources": {}}
    entered |= {"outputs": {}, "resources": {"one": value(), "two": value()}}
    asked = {
        "moved": [{"from": "one", "to": "two"}], "to_stack": "other", "template": left,
        "to_definition": {"template": entered},
    }  # fmt: skip
    Path("move.yaml").write_text(json.dumps({"move": asked}))
    capsys.readouterr()
    assert here("move base --from-file move.yaml --yes") == 0
    told = capsys.readouterr().out.splitlines()
    for name in ("base", "other"):
        assert f"Output net is removed: of-{name} reads it as net_id" in told
