"""Reasons of a stack: the same on the page, in the API and on the command line."""

from pathlib import Path

import pytest

from tests.api.conftest import template, value
from tests.api.test_commands import Here

from .conftest import Browser


def test_all_print_the_same_reasons(
    browser: Browser, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    heat, bad = browser.heat, {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    path = heat.create(template(a=value(), bad=bad), name="why")
    heat.call("POST", f"{path}/actions", {"protect": {"reason": "production"}}, code=200)
    heat.call("POST", f"{path}/actions", {"check": {"not_before": "2099-01-01T00:00:00Z"}}, code=200)
    heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks", "reason": "rack 7"}}, code=200)
    heat.settle(path)
    found = heat.get(f"{path}/why")
    assert found["waits"]
    assert [one["code"] for one in found["facts"]] == ["scheduled", "locked", "failed", "protected"]
    shown = browser.get(path).html.find("div", {"id": "why"}).find_all("li")
    assert [one["data-code"] for one in shown] == [one["code"] for one in found["facts"]]
    assert [one.bdi.text for one in shown] == [one["text"] for one in found["facts"]]
    for command in ("explain why", "show why"):
        assert Here(heat)(command) == 0
        told = " ".join(capsys.readouterr().out.split())
        assert [one["text"] for one in found["facts"] if one["text"] not in told] == []
    (action,) = heat.get("/actions?status=INIT")["actions"]
    assert action["status_reason"] == found["facts"][0]["text"]


def test_a_stack_at_rest_has_none(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="rest")
    assert browser.get(path).html.find("div", {"id": "why"}).text.strip() == ""
