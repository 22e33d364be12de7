"""The page docs/maintenance.md: a locked stack, three agents, restarts one by one."""

import json
import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from shutil import rmtree
from signal import SIGKILL
from urllib.parse import urlsplit

import pytest

from benchmarks.ports import free_port
from heatlite.__main__ import main
from tests.acceptance.processes import TEMPLATES, CommandLine, Server
from tests.agent.agents import Agent, lives
from tests.waiting import eventually

STACK = str(TEMPLATES / "maintenance" / "stack.yaml")
PLAYBOOK = str(TEMPLATES / "maintenance" / "restart.yaml")
NODES = ("db1", "db2", "db3")
PATIENCE = 240
ONE_BY_ONE = [line for name in NODES for line in (f"{name} restart postgresql", f"{name} is up")]
"""Actions on the services."""

SERVICE = """\
#!/bin/sh
echo "{node} $1 $2" >> {log}
until [ -e {go} ]; do sleep 0.05; done
echo "{node} is up" >> {log}
"""
SETTINGS = """\
[limits]
grace_seconds = 0.2
[services]
command = ["{command}", "{{verb}}", "{{service}}"]
allowed = ["postgresql"]
"""


STUBBORN = """\
trap '' TERM
echo $$ > $pid
while :; do sleep 0.1; done
"""


@pytest.fixture
def site(serve: Callable[..., Server]) -> Server:
    """A server for this story, at a port that stays free when it dies."""
    return serve(free_port())


@pytest.fixture
def run(
    site: Server, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> Callable[..., str]:
    """Run a command line against the server; return stdout, or stderr of a failure."""
    for name in list(os.environ):
        if name.startswith(("OS_", "HEATLITE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("HEATLITE_ENDPOINT", site.url)

    def run(*words: str, code: int = 0) -> str:
        found = main(words)
        out, err = capsys.readouterr()
        assert found == code, out + err
        return err if code else out

    return run


@pytest.fixture
def agents(run: Callable[..., str], site: Server, tmp_path: Path) -> Iterator[dict[str, Agent]]:
    """The stack, and an agent beside each of its machines.

    Their service writes what is done to it into the file ``log``, and restarts only while the file ``go`` is there.
    """
    log, started = tmp_path / "log", {}
    run("up", "--yes", STACK, "-n", "db")
    with ExitStack() as ends:
        for name in NODES:
            service = tmp_path / f"{name}-service"
            service.write_text(SERVICE.format(node=name, log=log, go=tmp_path / "go"))
            service.chmod(0o700)
            # The server was told to take any port, so it does not know in what it writes down which one that is.
            url = urlsplit(run("node", "token", "db", name).strip())._replace(netloc=f"127.0.0.1:{site.port}")
            settings = f'register = "{url.geturl()}"\n{SETTINGS.format(command=service)}'
            started[name] = Agent(tmp_path / name, settings=settings).start()
            ends.callback(started[name].stop)
        eventually(lambda: states(run) == ["UP"] * len(NODES), "all agents are known", PATIENCE)
        yield started


def states(run: Callable[..., str]) -> list[str]:
    return [node["state"] for node in json.loads(run("node", "list", "db", "-f", "json"))]


@pytest.mark.slow
def test_a_rolling_restart_under_a_lock(
    run: Callable[..., str], site: Server, agents: dict[str, Agent], tmp_path: Path, heatlite: CommandLine
) -> None:
    machines = tmp_path / "log"
    before = run("resources", "db", "-f", "json", "-c", "resource_name", "-c", "physical_resource_id")
    run("lock", "db", "--level", "stacks", "--reason", "kernel update")
    assert run("node", "playbook", "put", PLAYBOOK, "-n", "restart").startswith("restart is stored; ")
    planned = run("node", "playbook", "run", "db", "restart", "--dry-run", "-f", "value", "-c", "stage", "-c", "node")
    assert planned.splitlines() == [f"{stage} {name}" for stage in ("restart", "note") for name in NODES]
    _, action_id, status, *why = run("node", "playbook", "run", "db", "restart").split()
    assert status == "INIT"
    assert "waits for an approval" in " ".join(why)
    assert not machines.exists(), "nobody has approved it"

    action_id = action_id.rstrip(":")
    watching = heatlite.start("node", "playbook", "approve", action_id, "--wait", HEATLITE_ENDPOINT=site.url)
    try:
        first = "db1 restart postgresql\n"
        eventually(lambda: machines.exists() and machines.read_text() == first, "the first restart begins", PATIENCE)
        assert "PLAYBOOK" in run("unlock", "db", code=1)
        assert "under maintenance" in run("up", "--yes", STACK, "-n", "db", code=1)
        stack_id = json.loads(run("show", "db", "-f", "json", "-c", "id"))["id"]
        policy = f"/v1/default/stacks/db/{stack_id}/resources/more_readers"
        assert site.request("POST", f"{policy}/signal", {}).status == 200
        (tmp_path / "go").touch()
        out, err = watching.communicate(timeout=PATIENCE)
    finally:
        watching.kill()
        watching.wait()
    assert (watching.returncode, err) == (0, "")
    assert machines.read_text().splitlines() == ONE_BY_ONE
    told = [line.partition("Z [")[2] for line in out.splitlines()[1:-1]]
    assert told[0] == "db]: PLAYBOOK_IN_PROGRESS  Playbook restart started"
    restarted = [f"db.{name}]: NODE_ACTION_DONE  service.restart" for name in NODES]
    assert [line for line in told if line.endswith("DONE  service.restart")] == restarted
    assert told[-1] == "db]: PLAYBOOK_COMPLETE  Playbook restart: All stages are done"
    assert out.splitlines()[-1].endswith(": SUCCEEDED  All stages are done")

    suppressed = run("lock-status", "db")
    assert "signal" in suppressed and "more_readers" in suppressed
    run("unlock", "db")
    assert run("resources", "db", "-f", "json", "-c", "resource_name", "-c", "physical_resource_id") == before
    assert "0 added, 0 updated, 0 replaced, 0 deleted" in run("plan", STACK, "-n", "db")
    done = json.loads(run("node", "actions", "db", "--kind", "script", "-f", "json"))
    assert sorted(one["node"] for one in done if one["state"] == "DONE") == [*NODES]
    noted = json.loads(run("node", "show", done[0]["id"], "-f", "json"))
    assert noted["outputs"]["restarted_at"].strip().endswith("Z")

    # Once more, and the server dies in the middle of it: nothing is lost, and nothing is done twice.
    machines.unlink()
    (tmp_path / "go").unlink()
    _, action_id, status, *_ = run("node", "playbook", "run", "db", PLAYBOOK, "--granted").split()
    assert status == "WAITING"
    eventually(lambda: machines.exists() and machines.read_text() == first, "the first restart begins", PATIENCE)
    site.kill()
    (tmp_path / "go").touch()
    heir = Server(tmp_path, site.port)
    try:
        assert run("action", "wait", action_id.rstrip(":")).endswith(": SUCCEEDED  All stages are done\n")
        assert machines.read_text().splitlines() == ONE_BY_ONE
        what_goes_wrong_on_one_machine(run, agents["db1"], tmp_path)
        assert heir.complaints() == ""
    finally:
        heir.kill()


def what_goes_wrong_on_one_machine(run: Callable[..., str], agent: Agent, folder: Path) -> None:
    """The agent is away, then gets all; a script hangs; then its disk is wiped."""
    script, pid = folder / "stubborn.sh", folder / "pid"
    script.write_text(STUBBORN)
    agent.stop(SIGKILL)
    asked = ["node", "run", "db", "db1", "--script", str(script), "--arg", f"pid={pid}", "--granted"]
    first, second, third = (run(*asked).split()[0] for _ in range(3))
    agent.start()

    def stand() -> str:
        return run("node", "actions", "db", "--node", "db1", "--limit", "3", "-f", "value", "-c", "state")

    def running() -> int:
        eventually(lambda: pid.exists() and pid.read_text().strip(), "a script runs", PATIENCE)
        process = int(pid.read_text())
        pid.unlink()
        return process

    process = running()
    eventually(lambda: stand().split() == ["NEW", "NEW", "RUNNING"], "the server knows that", PATIENCE)
    assert lives(process)
    run("node", "cancel", first)
    run("node", "wait", first, code=1)
    assert stand().split()[2] == "CANCELLED"
    assert not lives(process)
    history = run("node", "show", first, "--history", "-f", "value", "-c", "state", "-c", "origin").splitlines()
    assert history[:1] + history[-3:] == ["PENDING_SCHEDULE server", "NEW agent", "RUNNING agent", "CANCELLED agent"]

    process = running()
    agent.stop(SIGKILL)
    rmtree(agent.folder)
    agent.start()
    for lost in (second, third):
        run("node", "wait", lost, code=1)
    assert stand().split() == ["LOST", "LOST", "CANCELLED"]
    assert "NODE_REPLACED" in run("events", "db")
    eventually(lambda: not lives(process), "nobody would know of it any more", PATIENCE)
    assert run(*asked[:4], "test/success", "--granted").endswith("PENDING_SCHEDULE\n")
    eventually(lambda: "DONE" in stand().split(), "it works again", PATIENCE)
