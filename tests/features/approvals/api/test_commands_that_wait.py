"""Commands on approvals, and commands whose changes wait for one."""

from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest

from heatlite.cli.transport import ApiTransport, HttpAnswer
from heatlite.core.config import Settings
from heatlite.core.json import dump
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.waiting import eventually

THING = {"type": "OS::Heat::TestResource", "properties": {"value": "one"}}


class Remote(ApiTransport):
    """A connection to a server of another process."""

    def __init__(self, inner: ApiTransport) -> None:
        self._inner, self.place = inner, ""

    def close(self) -> None:
        self._inner.close()

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        return self._inner.send(method, target, headers, body)


class Elsewhere(Here):
    """A program whose server is another process."""

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        return Remote(super().connect(settings, reads_only))


class Waiting:
    """A stack whose removals need approvals."""

    def __init__(self, heat: Heat, folder: Path) -> None:
        self.heat, self.here = heat, Elsewhere(heat)
        self.path = heat.create(template(a=THING))
        self.file = folder / "s.yaml"
        self.file.write_text(dump(template(b=THING)))
        policy = folder / "policy.yaml"
        policy.write_text("change_policy: 2026-11-28\napprove: removals\napproval_ttl: 2h\n")
        assert self.here(f"change-policy set {policy} s") == 0

    def pending(self) -> Any:
        return self.heat.get("/approvals?state=PENDING")["approvals"]

    def during(self, line: str, decide: Callable[[str], int], said: Callable[[], bool] = lambda: True) -> int:
        """Run a command, and decide meanwhile, once it has `said` what it waits for.

        Returns its exit code.
        """
        codes: list[int] = []
        thread = Thread(target=lambda: codes.append(self.here(line)))
        thread.start()
        found = eventually(lambda: [one for one in self.pending() if one["action_id"]], "the command waits")
        eventually(said, "it says so")
        assert decide(found[0]["id"]) == 0
        thread.join(60)
        return codes[0]


@pytest.fixture
def waiting(own_heat: Heat, tmp_path: Path) -> Waiting:
    return Waiting(own_heat, tmp_path)


def test_up_waits_and_follows(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    here = waiting.here
    assert here("change-policy show s -f csv") == 0
    assert "approval_ttl,7200,stack" in capsys.readouterr().out
    assert here(f"plan {waiting.file} -n s") == 0
    assert "Approval: needed (approve:removals)" in capsys.readouterr().out
    told: list[str] = []

    def says_what_to_do() -> bool:
        told.append(capsys.readouterr().err)
        return "heatlite approval approve" in "".join(told)

    approve = "approval approve {} -y".format
    assert waiting.during(f"up {waiting.file} -n s -y", lambda key: here(approve(key[:8])), says_what_to_do) == 0
    assert "UPDATE_COMPLETE" in capsys.readouterr().out
    assert here("approval list --state DONE -f value -c subject") == 0
    assert "update" in capsys.readouterr().out


def test_down_ends_with_the_rejection(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    here = waiting.here
    assert waiting.during("down s -y", lambda key: here(f"approval reject {key} --reason later")) == 1
    assert "Nothing was begun: Rejected by" in capsys.readouterr().err
    assert waiting.heat.get(waiting.path)["stack"]["stack_status"] == "CREATE_COMPLETE"
    (found,) = waiting.heat.get("/approvals")["approvals"]
    assert here(f"approval show {found['id']}") == 0
    shown = capsys.readouterr().out
    assert "REJECTED" in shown
    assert "- a" in shown


@pytest.mark.parametrize("line", ["undo s -y", "refresh s -y", "retry s"])
def test_each_command_that_updates_waits(waiting: Waiting, line: str) -> None:
    heat = waiting.heat
    value = {"v": {"type": "string", "default": "none"}}
    owner = template() | {"parameters": value, "outputs": {"o": {"value": {"get_param": "v"}}}}
    base = heat.create(owner, "base")
    reader = template(a={**THING, "properties": {"value": {"get_param": "v"}}}) | {"parameters": value}
    sources = {"v": {"stack": "base", "output": "o"}}
    heat.call("PATCH", waiting.path, {"template": reader, "parameter_sources": sources}, code=202)
    heat.settle(waiting.path)
    heat.call("PATCH", base, {"parameters": {"v": "two"}}, code=202)
    heat.settle(base)
    if line.startswith("retry"):
        fails = {**THING, "properties": {"fail": True}}
        body = {"template": reader | template(a=THING, b=fails), "disable_rollback": True}
        heat.call("PATCH", waiting.path, body, code=202)
        heat.settle(waiting.path)
    policy = {"change_policy": "2026-11-28", "approve": "always"}
    heat.call("PUT", f"{waiting.path}/change_policy", policy, code=200)
    assert waiting.during(line, lambda key: waiting.here(f"approval approve {key} -y")) == line.startswith("retry")
    (found,) = heat.get("/approvals")["approvals"]
    assert found["state"] == "DONE"


def test_without_waiting(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    assert waiting.here("down s -y --no-wait") == 0
    assert "It begins once it is approved" in capsys.readouterr().out
    assert len(waiting.pending()) == 1
    assert Here(waiting.heat)("down s -y") == 0, "without a server it does not wait"
    assert waiting.here("approval approve zz") != 0
    assert waiting.here("change-policy off s -y") == 0


@pytest.mark.slow
@pytest.mark.parametrize("words", ["replace t g 1", "delete t g 1 -y", "scale-in t g"])
def test_a_change_of_a_group_waits_and_is_followed(
    waiting: Waiting, words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    here, group = waiting.here, {"count": 2, "resource_def": THING}
    path = waiting.heat.create(template(g={"type": "OS::Heat::ResourceGroup", "properties": group}), name="t")
    policy = {"change_policy": "2026-11-28", "approve": "removals"}
    waiting.heat.call("PUT", f"{path}/change_policy", policy, code=200)
    line = f"group {words}"
    assert waiting.during(line, lambda key: here(f"approval approve {key} -y")) == 0, capsys.readouterr().err
    (found,) = waiting.heat.get("/approvals")["approvals"]
    assert (found["state"], found["resource"]) == ("DONE", "g")
