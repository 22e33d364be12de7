"""`heatlite node playbook …` over the real API, and `heatlite validate`."""

import json
import threading
from pathlib import Path
from typing import Any

import pytest

from heatlite.__main__ import main
from heatlite.cli.main import run
from heatlite.cli.transport import HttpAnswer, WSGITransport
from heatlite.features.nodes.states import NodeActionState
from heatlite.features.nodes.store.store import NodeStore
from tests.features.nodes.engine.played_agents import sendable, tell, work

from .conftest import Here

GOOD = """\
node_playbook: 2026-11-21
stages:
  - {name: one, nodes: {names: [b, a]}, action: {kind: script, args: {config: exit}}}
  - {name: two, nodes: all, at_once: all, action: {kind: test/success}}
"""


@pytest.fixture
def file(tmp_path: Path) -> Path:
    (tmp_path / "restart.yaml").write_text(GOOD)
    return tmp_path / "restart.yaml"


def test_they_are_kept(node: Here, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert node(f"playbook put {file}") == node(f"playbook put {file} -n again") == 0
    assert "restart is stored; run it with: heatlite node playbook run STACK restart\n" in capsys.readouterr().out
    assert node("playbook list -f value -c name") == node("playbook show again") == node("playbook delete again") == 0
    assert capsys.readouterr().out == "again\nrestart\n" + GOOD
    assert node("playbook show again") == 1
    assert "The Playbook (again) could not be found. (HTTP 404)" in capsys.readouterr().err


def test_what_is_wrong_with_a_file(node: Here, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file.write_text(GOOD.replace("at_once: all", "at_once: 0").replace("nodes: {names: [b, a]}", "nodes: some"))
    wrong = [
        f"{file}:3:17: error: Playbook not valid: stages[0].nodes: must be one of: all. (line 3, column 17)",
        f"{file}:4:29: error: Playbook not valid: stages[1].at_once: must be at least 1. (line 4, column 29)",
    ]
    assert main(["validate", str(file)]) == 1
    assert capsys.readouterr().out.splitlines() == wrong
    for command in (f"playbook put {file}", f"playbook run s {file}"):
        assert node(command) == 1
        assert capsys.readouterr().err == f"heatlite: {wrong[0]}\n{wrong[1]}\n"
    assert node(f"playbook put {file}.yaml") == 2
    assert "No such file" in capsys.readouterr().err
    file.write_text(GOOD)
    assert main(["validate", str(file)]) == 0


@pytest.mark.slow
def test_a_run(node: Here, file: Path, capsys: pytest.CaptureFixture[str]) -> None:
    site = node.site
    assert node(f"playbook run s {file} --dry-run -f value -c stage -c at_once -c node") == 0
    assert capsys.readouterr().out == "one 1 b\none 1 a\ntwo all a\ntwo all b\n"
    assert node(f"playbook run s {file} --timeout 900") == 0
    asked = capsys.readouterr()
    _, action_id, status, *reason = asked.out.split()
    assert " ".join(reason).startswith(f"Playbook waits for an approval: STACK_PLAYBOOK {action_id.rstrip(':')}")
    assert (status, asked.err) == (
        "INIT",
        f"It needs an approval: heatlite node playbook approve {action_id.rstrip(':')}\n",
    )
    action_id = action_id.rstrip(":")
    assert node(f"playbook approve {action_id[:8]}") == 0
    assert f"{action_id}: WAITING  STACK_PLAYBOOK {action_id} is WAITING since " in capsys.readouterr().out
    assert node(f"playbook approve {action_id}") == 1
    assert "is WAITING" in capsys.readouterr().err
    assert work(site.server, site.stack) == ["b", "a", "a b"]
    assert node(f"playbook run s {file}") == 0
    rejected = capsys.readouterr().out.split()[1].rstrip(":")
    assert node(f"playbook reject {rejected}") == 0
    assert capsys.readouterr().out.endswith(": CANCELLED  Rejected by anonymous\n")
    assert run(["action", "wait", action_id, "--project", site.heat.project], node) == 0  # type: ignore[arg-type]


def test_a_failure_is_watched(
    node: Here, file: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    site, is_watched, send = node.site, threading.Event(), WSGITransport.send

    def watch(*sent: Any) -> HttpAnswer:
        answer = send(*sent)
        if sent[1] == "GET" and "/actions/" in sent[2]:
            is_watched.set()
        return answer

    monkeypatch.setattr(WSGITransport, "send", watch)

    def fail() -> None:
        is_watched.wait()
        while not (now := sendable(site.server, site.stack)):
            pass
        tell(site.server, now[0], NodeActionState.FAILED)

    agent = threading.Thread(target=fail)
    agent.start()
    assert node(f"playbook run s {file} --granted --wait") == 1
    agent.join()
    told = capsys.readouterr()
    (run_id,) = {one.run_id for one in site.store.of(NodeStore).node_actions.page(site.heat.project)}
    lines = [line.rpartition("Z [")[2] for line in told.out.splitlines()]
    assert f"{run_id}: WAITING  STACK_PLAYBOOK {run_id} is WAITING since " in lines[0]
    assert "s.b]: NODE_ACTION_FAILED  script" in lines
    assert lines[-2] == "s]: PLAYBOOK_FAILED  Playbook: Stage one: script on node b is FAILED"
    assert lines[-1].endswith(": FAILED  Stage one: script on node b is FAILED")
    assert told.err == f"Result of each node: heatlite node actions --run {run_id}\n"
    assert run(["action", "show", str(run_id), "-f", "json", "--project", site.heat.project], node) == 0  # type: ignore[arg-type]
    assert [one["node"] for one in json.loads(capsys.readouterr().out)["outputs"]["failed"]] == ["b"]
