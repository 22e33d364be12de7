"""Commands on approvals, and commands whose changes wait for one."""

import io
from collections.abc import Callable, Mapping
from pathlib import Path
from threading import Thread
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.cli.transport import ApiTransport, HttpAnswer
from heatlite.core.config import Settings
from heatlite.core.json import dump
from tests.api.conftest import Heat, template
from tests.api.test_commands import Here
from tests.waiting import eventually

from .test_approvals import policy
from .test_subjects import NEEDS, clouded, heat, opened

__all__ = ["clouded", "heat"]

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

    def during(self, line: str, decide: Callable[[str], int], said: Callable[[], bool] = lambda: True) -> int:
        return during(self.heat, line, decide, said)


def pending(heat: Heat) -> Any:
    return heat.get("/approvals?state=PENDING")["approvals"]


def during(heat: Heat, line: str, decide: Callable[[str], int], said: Callable[[], bool] = lambda: True) -> int:
    """Run a command, and decide meanwhile, once it has `said` what it waits for.

    Returns its exit code.
    """
    codes: list[int] = []
    thread = Thread(target=lambda: codes.append(Elsewhere(heat)(line)))
    thread.start()
    found = eventually(lambda: [one for one in pending(heat) if one["action_id"]], "the command waits")
    eventually(said, "it says so")
    assert decide(found[0]["id"]) == 0
    thread.join(60)
    return codes[0]


@pytest.fixture
def waiting(own_heat: Heat, tmp_path: Path) -> Waiting:
    return Waiting(own_heat, tmp_path)


@pytest.mark.slow
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


@pytest.mark.slow
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


class AnsweredLate(Remote):
    """A connection to a server that reads an action late: after its rejection."""

    def __init__(self, inner: ApiTransport, heat: Heat) -> None:
        super().__init__(inner)
        self._heat = heat

    def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
        answer = super().send(method, target, headers, body)
        if "approval=wait" not in target:
            return answer
        (found,) = pending(self._heat)
        self._heat.call("POST", f"/approvals/{found['id']}/reject", {"reason": "at once"}, code=200)
        return replace(answer, data=self._heat.get(f"/actions/{found['action_id']}"))


def test_a_rejection_before_the_answer_ends_the_command(
    waiting: Waiting, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    connect = Elsewhere.connect
    monkeypatch.setattr(Elsewhere, "connect", lambda here, *given: AnsweredLate(connect(here, *given), waiting.heat))
    assert waiting.here("down s -y") == 1
    assert "Nothing was begun: Rejected by" in capsys.readouterr().err


@pytest.mark.slow
def test_a_refresh_waits(waiting: Waiting) -> None:
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
    policy = {"change_policy": "2026-11-28", "approve": "always"}
    heat.call("PUT", f"{waiting.path}/change_policy", policy, code=200)
    assert waiting.during("refresh s -y", lambda key: waiting.here(f"approval approve {key} -y")) == 0
    (found,) = heat.get("/approvals")["approvals"]
    assert found["state"] == "DONE"


@pytest.mark.slow
def test_without_waiting(waiting: Waiting, capsys: pytest.CaptureFixture[str]) -> None:
    assert waiting.here("down s -y --no-wait") == 0
    assert "It begins once it is approved" in capsys.readouterr().out
    assert len(pending(waiting.heat)) == 1
    assert Here(waiting.heat)("down s -y") == 0, "without a server it does not wait"
    assert waiting.here("approval approve zz") != 0
    assert waiting.here("change-policy off s -y") == 0
    capsys.readouterr()
    assert Here(waiting.heat)(f"approval approve {pending(waiting.heat)[0]['id']} -y") == 0
    assert "SUCCEEDED" in capsys.readouterr().out, "without a server this command carries it out"


def in_file(folder: Path, body: Any) -> Path:
    (folder / "given.yaml").write_text(dump(body))
    return folder / "given.yaml"


LINES: dict[str, Callable[[Any, Path], str]] = {
    "update": lambda body, folder: f"up {in_file(folder, body['template'])} -n s",
    "undo": lambda body, folder: "undo s",
    "retry": lambda body, folder: "retry s",
    "delete": lambda body, folder: "down s",
    "force_delete": lambda body, folder: "down s --force",
    "resize": lambda body, folder: "group resize s g 1",
    "scale_out": lambda body, folder: "group scale-out s g",
    "scale_in": lambda body, folder: "group scale-in s g",
    "delete_members": lambda body, folder: "group delete s g 1",
    "replace_members": lambda body, folder: "group replace s g 1",
    "leave": lambda body, folder: "group leave s g 1",
    "attach_policy": lambda body, folder: (
        f"group attach-policy s g lb load_balancing --options {dump(body['attach_policy']['options'])}"
    ),
    "update_policy": lambda body, folder: (
        f"group update-policy s g lb --options {dump(body['update_policy']['options'])}"
    ),
    "detach_policy": lambda body, folder: "group detach-policy s g lb",
    "join": lambda body, folder: f"group join s g {body['join']['members'][0]['id']}",
    "import": lambda body, folder: f"import s --from-file {in_file(folder, {'import': body['import']})} --generate",
    "detach": lambda body, folder: "detach s a",
    "move": lambda body, folder: "move s a z",
    "accept_drift": lambda body, folder: "drift accept s",
}
"""Commands that send the requests of `NEEDS`."""
UNASKED = {
    "retry", "resize", "scale_out", "scale_in", "replace_members", "attach_policy", "update_policy", "detach_policy",
}  # fmt: skip
"""Commands without a question."""


def test_each_request_that_needs_an_approval_has_its_command() -> None:
    assert NEEDS.keys() - LINES.keys() == {"restore"}, "that of a snapshot is openstack's"


def asked_for(heat: Heat, word: str, folder: Path) -> str:
    """Prepare a stack, and return the command that changes it."""
    path = heat.create(NEEDS[word].template)
    body = NEEDS[word].request(heat, path).body
    if "import" in (body or {}):
        body["import"].pop("plan_digest")
    policy(heat, approve="always")
    return LINES[word](body, folder)


@pytest.mark.slow
@pytest.mark.parametrize("word", LINES)
def test_each_command_waits_and_follows(
    heat: Heat, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    line = asked_for(heat, word, tmp_path)
    line += "" if word in UNASKED else " -y"
    code = during(heat, line, lambda key: Elsewhere(heat)(f"approval approve {key} -y"))
    assert code == (1 if word == "retry" else 0), capsys.readouterr().err
    (found,) = heat.get("/approvals")["approvals"]
    assert (found["state"], opened(heat)) == ("DONE", [])


@pytest.mark.slow
@pytest.mark.parametrize("word", [word for word in LINES if word not in UNASKED])
def test_each_question_comes_after_the_word_of_the_approval(
    heat: Heat, word: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    line = asked_for(heat, word, tmp_path)
    terminal = io.StringIO("n\n")
    monkeypatch.setattr(terminal, "isatty", lambda: True)
    monkeypatch.setattr("sys.stdin", terminal)
    assert Elsewhere(heat)(line) == 1
    said = capsys.readouterr()
    assert "Approval: needed (approve:always)" in said.out
    assert said.err.endswith("[y/N] heatlite: Nothing was done.\n")
    assert heat.get("/approvals")["approvals"] == []
