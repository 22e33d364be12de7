"""Faults that an agent must survive: kills, runaway scripts, a full disk …"""

import errno
import json
import os
import resource
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from urllib.parse import urlsplit

import pytest

from heatlite.agent import commands, form
from heatlite.agent.actions import Action, Actions
from heatlite.agent.form import RUNNING
from heatlite.agent.kinds import Step, kinds
from heatlite.agent.runner import Runner
from heatlite.agent.settings import AgentSettings, External, Limits
from tests.agent.agents import ROOT, Agent, Registry, lives
from tests.waiting import eventually

pytestmark = pytest.mark.slow

SETTINGS = """
[limits]
memory_mib = 300
file_mib = 1
output_kib = 4
grace_seconds = 0.3
"""


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Agent]:
    """The one file that `heatlite node agent` writes, far from heatlite."""
    folder = tmp_path_factory.mktemp("faults")
    program = folder / "heatlite-agent"
    write = [sys.executable, "-m", "heatlite", "node", "agent", str(program)]
    subprocess.run(write, check=True, stdout=subprocess.PIPE)
    assert os.access(program, os.X_OK)
    agent = Agent(folder / "agent", settings=SETTINGS, program=(sys.executable, "-I", "-S", str(program))).start()
    yield agent
    agent.stop()


def test_a_cancelled_script_is_ended_with_all_that_it_started(agent: Agent, tmp_path: Path) -> None:
    action = agent.script(
        # One that floods, one that ignores TERM, one that has forked twice and left for a session of its own.
        "trap '' TERM; here=$folder; echo $$ > $here/script; "
        "yes & echo $! > $here/yes; "
        "(trap '' TERM; setsid sh -c 'sleep 300 & echo $! > $folder/daemon; sleep 301' &) ; "
        "while :; do sleep 0.1; done",
        inputs={"folder": str(tmp_path)},
    )
    waiting = agent.script("touch $never", inputs={"never": str(tmp_path / "never")})
    names = ("script", "yes", "daemon")
    eventually(lambda: all((tmp_path / name).exists() and (tmp_path / name).read_text().strip() for name in names))
    processes = [int((tmp_path / name).read_text()) for name in names]
    assert all(map(lives, processes))
    # What has not begun is cancelled at once, though another runs.
    assert agent.cancel(waiting)["state"] == "CANCELLED"
    assert agent.cancel(action)["id"] == action
    record = agent.ended(action)
    assert (record["state"], record["error"]) == ("CANCELLED", "cancelled")
    assert not any(map(lives, processes))
    stdout = record["outputs"]["deploy_stdout"]
    assert "[… the middle is left out …]" in stdout
    assert 2000 < len(stdout.encode()) <= 4096
    # What has ended stays as it is.
    assert agent.cancel(action) == record
    assert not (tmp_path / "never").exists()


def test_without_a_subreaper_the_process_group_is_ended(tmp_path: Path) -> None:
    """As on systems that are not Linux: what has not left the group goes."""
    order = {
        "command": ["/bin/sh", "-c", "trap '' TERM; sleep 300 & echo $!; touch begun; while :; do sleep 0.1; done"],
        "environment": dict(os.environ), "outputs": [], "seconds": 600, "memory": 2**32, "file_size": 2**20,
        "output": 4096, "grace": 0.1, "stays": False,
    }  # fmt: skip
    (tmp_path / "order").write_text(json.dumps(order))
    (tmp_path / "stdin").touch()
    program = "import sys; sys.platform = 'other'; from pathlib import Path; from heatlite.agent import supervise; "
    command = [sys.executable, "-c", f"{program} sys.exit(supervise.main(Path({str(tmp_path)!r})))"]
    subprocess.run(command, check=True, cwd=ROOT)
    eventually((tmp_path / "begun").exists)
    os.kill(int((tmp_path / "claim").read_text()), signal.SIGTERM)
    eventually((tmp_path / "result").exists)
    result = json.loads((tmp_path / "result").read_text())
    assert (result["ended"], result["error"]) == ("asked to", "ended by signal 9 (Killed)")
    assert not lives(int(result["stdout"]))


def test_a_kind_that_takes_too_long_is_ended_with_all_that_it_has_started(tmp_path: Path) -> None:
    stubborn = ("/bin/sh", "-c", f"(trap '' TERM; exec sleep 300) >/dev/null 2>&1 & echo $! > {tmp_path}/pid")
    check = ("/bin/echo", '{"status": "running", "outputs": {"moved": 3}}')
    settings = AgentSettings(
        limits=Limits(seconds=60, grace_seconds=0.3), external=[External("site/long", "", stubborn, check)]
    )
    long = kinds(settings)["site/long"]
    began = form.as_text(datetime.now(UTC) - timedelta(seconds=61))
    action = Action(1, "1", "site/long", {}, "", began, began, began, None, RUNNING, {}, {}, "", 1, False)

    def step() -> Step | None:
        found = long.step(action, tmp_path / "work")
        return None if found.state == RUNNING else found

    ended = eventually(step)
    assert not lives(int((tmp_path / "pid").read_text()))
    assert (ended.state, ended.outputs) == ("FAILED", {"moved": 3})
    assert ended.error == "took longer than 60 s (limits.seconds), and was ended"


def test_memory_files_and_output_have_limits(agent: Agent) -> None:
    python = f"exec {sys.executable} -S -c"
    memory = agent.script(f"{python} 'bytearray(400 * 1024 * 1024)'")
    file = agent.script("head -c 2000000 /dev/zero > much; wc -c < much; exit 7")
    output = agent.script(
        "head -c 3000000 /dev/zero; (printf x; head -c 9000 /dev/zero) > $heat_outputs_path.one",
        outputs=["one"],
    )
    broken = agent.schedule("script", {"config": "#!/nowhere/sh\n"})
    record = agent.ended(broken)
    assert (record["state"], record["error"].partition(":")[0].startswith("could not start")) == ("FAILED", True)
    record = agent.ended(memory)
    assert record["state"] == "FAILED"
    assert "MemoryError" in record["outputs"]["deploy_stderr"]
    record = agent.ended(file)
    assert (record["outputs"]["deploy_stdout"].strip(), record["error"]) == (str(1024 * 1024), "exit status 7")
    record = agent.ended(output)
    assert record["state"] == "DONE"
    assert all(len(record["outputs"][name].encode()) <= 4096 for name in ("one", "deploy_stdout"))
    assert record["outputs"]["one"].startswith("x")


def test_an_agent_that_is_killed_goes_on_where_it_was(agent: Agent, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    script = 'echo began >> $runs; while [ ! -e "$go" ]; do sleep 0.05; done; echo ended >> $runs; echo said'
    identity, secret = agent.get("/v1/agent")["instance"], agent.secret

    def begin(name: str) -> str:
        runs.unlink(missing_ok=True)
        action = agent.script(script, inputs={"runs": str(runs), "go": str(tmp_path / name)})
        eventually(runs.exists)
        return action

    def go(name: str) -> None:
        (tmp_path / name).touch()
        eventually(lambda: "ended" in runs.read_text())

    # Killed; the script ends while there is no agent.
    action = begin("killed")
    after = agent.schedule("test/success")
    agent.stop(signal.SIGKILL)
    go("killed")
    agent.start()
    record = agent.ended(action)
    assert (record["state"], record["outputs"]["deploy_stdout"]) == ("DONE", "said\n")
    assert runs.read_text() == "began\nended\n"
    assert record["finished_at"] <= agent.ended(after)["started_at"]
    assert (agent.get("/v1/agent")["instance"], agent.secret) == (identity, secret)
    # Stopped; the script is still running when the next process comes.
    action = begin("stopped")
    assert agent.stop() == 0
    agent.start()
    assert agent.action(action)["state"] == "RUNNING"
    go("stopped")
    assert agent.ended(action)["state"] == "DONE"
    assert runs.read_text() == "began\nended\n"
    # Cancelled by the next process.
    action = begin("cancelled")
    agent.stop(signal.SIGKILL)
    agent.start()
    agent.cancel(action)
    assert agent.ended(action)["state"] == "CANCELLED"
    # What watches over the script is killed, too: nobody knows how far it came, and nothing of it is left.
    daemon = tmp_path / "daemon"
    script = "(trap '' TERM; setsid sh -c 'echo $$ > $daemon; while :; do sleep 0.1; done' &)\n" + script
    inputs = {"runs": str(runs), "go": str(tmp_path / "never"), "daemon": str(daemon)}
    runs.unlink()
    action = agent.script(script, inputs=inputs)
    eventually(lambda: runs.exists() and daemon.exists() and daemon.read_text().strip())
    agent.stop(signal.SIGKILL)
    (claim,) = agent.folder.glob("work/*/*/command/claim")
    os.kill(int(claim.read_text()), signal.SIGKILL)
    assert lives(int(daemon.read_text()))
    agent.start()
    record = agent.ended(action)
    assert (record["state"], record["error"].partition(":")[0]) == ("FAILED", "interrupted")
    assert runs.read_text() == "began\n"
    assert not lives(int(daemon.read_text()))


def test_whenever_it_is_killed_everything_is_done_once_and_in_order(agent: Agent, tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    actions = [agent.script(f"echo {number} >> $runs", inputs={"runs": str(runs)}) for number in range(12)]
    for pause in (0.0, 0.03, 0.11, 0.07):
        time.sleep(pause)  # anywhere: the answer is the same
        agent.stop(signal.SIGKILL)
        agent.start()
    assert [agent.ended(action)["state"] for action in actions] == ["DONE"] * 12
    assert runs.read_text().split() == [str(number) for number in range(12)]
    eventually(lambda: not list(agent.folder.glob("work/*/*")))


def test_the_queue_is_bounded_and_old_actions_are_forgotten(agent: Agent, tmp_path: Path) -> None:
    first = agent.schedule("test/success", id="first")
    agent.ended(first)
    hold = agent.script("while :; do sleep 1; done")
    waiting = [agent.schedule("test/success") for _ in range(99)]
    answer = agent.ask("POST", "/v1/actions", {"kind": "test/success"})
    assert (answer.status, answer.body["error"]) == (429, "QueueFull")
    assert agent.ask("POST", "/v1/actions", {"kind": "test/success", "id": waiting[0]}).status == 200
    agent.cancel(hold)
    agent.ended(waiting[-1])
    finished = [one["id"] for one in agent.get("/v1/actions/finished")["actions"]]
    assert finished == [*reversed(waiting), hold]
    assert set(agent.get("/v1/changes")["known"]) == set(finished)
    assert agent.ask("GET", "/v1/actions/first").status == 404
    # What is asked for again late is not done again.
    answer = agent.ask("POST", "/v1/actions", {"kind": "test/success", "id": "first"})
    assert (answer.status, answer.body["error"]) == (409, "ActionExists")


def test_a_disk_without_room_is_waited_for(agent: Agent) -> None:
    """No file of the agent may grow, which SQLite cannot tell from a full disk."""
    assert agent.process is not None
    loop = agent.schedule("test/loop", {"target": 1_000_000})
    eventually(lambda: agent.action(loop)["progress"])
    resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))
    answer = agent.ask("POST", "/v1/actions", {"kind": "test/success"})
    assert (answer.status, answer.body["error"], answer.signed) == (503, "OutOfOrder", True)
    assert agent.action(loop)["state"] == "RUNNING"
    resource.prlimit(agent.process.pid, resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    agent.cancel(loop)
    assert agent.ended(loop)["state"] == "CANCELLED"
    assert agent.ended(agent.schedule("test/success"))["state"] == "DONE"


def test_a_supervisor_without_room_fails_no_action(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk may fill up between the order and the claim."""
    full = "import os\ndef full(*_):\n    raise OSError(28, 'No space left')\nos.link = full\n"
    program = commands._PROGRAM
    actions = Actions(tmp_path / "agent.sqlite")
    runner = Runner(actions, kinds(AgentSettings()), tmp_path / "work", lambda: None)
    actions.schedule("1", "script", {"config": "echo room"}, "agent", form.now())
    monkeypatch.setattr(commands, "_PROGRAM", full + program)
    assert runner._go_on(1) == 0  # it has begun
    with pytest.raises(OSError, match="No space left") as error:
        runner._go_on(1)
    assert error.value.errno == errno.ENOSPC
    assert actions.get("1")["action"]["state"] == "RUNNING"
    assert not list(tmp_path.glob("work/*/*/*/claim*"))

    monkeypatch.setattr(commands, "_PROGRAM", program)
    eventually(lambda: runner._go_on(1) is None)
    assert actions.get("1")["action"]["outputs"]["deploy_stdout"] == "room\n"
    actions.close()


def test_a_machine_that_loses_power_starts_nothing_twice(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The record of a start is on the disk before the command starts."""
    synced = tmp_path / "synced"
    noted = f"""
import os
def note(descriptor, fsync=os.fsync):
    with open({str(synced)!r}, "a") as file:
        print(os.readlink(f"/proc/self/fd/{{descriptor}}"), file=file)
    fsync(descriptor)
os.fsync = note
"""
    monkeypatch.setattr(os, "fsync", os.fsync)  # taken back at the end
    exec(noted)
    monkeypatch.setattr(commands, "_PROGRAM", noted + commands._PROGRAM)
    actions = Actions(tmp_path / "agent.sqlite")
    assert actions._connection.execute("PRAGMA synchronous").fetchone() == (3,)  # EXTRA
    runner = Runner(actions, kinds(AgentSettings()), tmp_path / "work", lambda: None)
    actions.schedule("1", "script", {"config": f"cat {synced}"}, "agent", form.now())
    eventually(lambda: runner._go_on(1) is None)
    before = str(actions.get("1")["action"]["outputs"]["deploy_stdout"]).splitlines()
    of_action = tmp_path / "work" / actions.identity()[0] / "1"
    folders = [tmp_path, tmp_path / "work", of_action.parent, of_action, of_action / "command"]
    assert {*map(str, folders), str(of_action / "command" / "order")} <= set(before)
    actions.close()


@pytest.mark.parametrize("who", ["agent", "supervisor"])
@pytest.mark.parametrize("kind", ["script", "site/clear"])
def test_a_command_that_clears_its_folder_runs_once(tmp_path: Path, kind: str, who: str) -> None:
    """A script that empties its working directory is not started again."""
    clear = f"echo ran >> {tmp_path}/ran; rm -rf ./* ../check; exec sleep 300"
    own = External("site/clear", "", ("/bin/sh", "-c", clear), ("/bin/echo", '{"status": "running"}'))
    settings = AgentSettings(external=[own], limits=Limits(grace_seconds=0.3))
    actions = Actions(tmp_path / "agent.sqlite")
    runner = Runner(actions, kinds(settings), tmp_path / "work", lambda: None)
    actions.schedule("1", kind, {"config": clear} if kind == "script" else {}, "agent", form.now())
    assert runner._go_on(1) == 0  # it has begun
    runner._go_on(1)
    eventually(lambda: not list(tmp_path.glob("work/*/*/*/claim")))
    if who == "supervisor":  # it notices first, and writes a result where it can
        eventually(lambda: list(tmp_path.glob("work/*/*/*/result")))

    def has_ended() -> bool:
        ended = runner._go_on(1) is None
        assert (tmp_path / "ran").read_text() == "ran\n"
        return ended

    eventually(has_ended)
    record = actions.get("1")["action"]
    assert record["state"] == "FAILED" and "its folder" in record["error"]
    actions.close()


def test_clients_that_are_slow_keep_nobody_out(agent: Agent) -> None:
    address = urlsplit(agent.url)
    slow = [socket.create_connection((address.hostname, address.port)) for _ in range(80)]
    try:
        for connection in slow:
            try:
                connection.sendall(b"POST /v1/actions HTTP/1.1\r\nContent-Length: 10\r\n")
            except OSError:
                continue  # made room already
        assert agent.ended(agent.schedule("test/success"))["state"] == "DONE"
    finally:
        for connection in slow:
            connection.close()


@pytest.mark.slow
def test_a_wiped_folder_is_another_agent(agent: Agent, tmp_path: Path) -> None:
    """The last agent starts over with another secret and database, and says so."""
    identity, secret = agent.get("/v1/agent")["instance"], agent.secret
    action = agent.script("echo $$ > $folder/pid; sleep 300", inputs={"folder": str(tmp_path)})
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    agent.stop(signal.SIGKILL)
    # Only the database: what it knew of is ended, and nothing of it is taken for an action of the new one.
    (agent.folder / "agent.sqlite").unlink()
    agent.start()
    assert agent.get("/v1/agent")["instance"] != identity
    assert agent.secret != secret, "what was signed for the old one is worth nothing"
    eventually(lambda: not lives(int((tmp_path / "pid").read_text())))
    assert agent.ended(agent.script("echo new"))["outputs"]["deploy_stdout"] == "new\n"
    assert agent.ask("GET", f"/v1/actions/{action}").status == 404
    # All of it, while something runs.
    identity = agent.get("/v1/agent")["instance"]
    (tmp_path / "pid").unlink()
    agent.script("echo $$ > $folder/pid; sleep 300", inputs={"folder": str(tmp_path)})
    eventually(lambda: (tmp_path / "pid").exists() and (tmp_path / "pid").read_text())
    agent.stop(signal.SIGKILL)
    subprocess.run(["rm", "-r", str(agent.folder)], check=True)
    eventually(lambda: not lives(int((tmp_path / "pid").read_text())))
    metadata = agent.folder.with_suffix(".json")
    agent.settings.write_text(f'metadata = "{metadata}"\n[limits]\nseconds = 0.5\n')
    with Registry() as registry:
        agent.start()
        agent.get("/v1/agent")
        # The URL to register at may come later; somebody writes that file by and by.
        metadata.write_text("{")
        metadata.write_text(json.dumps({"heatlite_agent": {"register": registry.url("/nodes/2")}}))
        eventually(lambda: registry.requests)
        _, path, body = registry.requests[0]
        assert (path, body["secret"]) == ("/nodes/2", agent.secret)
        assert body["instance"] == agent.get("/v1/agent")["instance"]
        assert identity != body["instance"]
        assert secret != body["secret"]
        assert agent.get("/v1/changes")["known"] == []
        # With these settings nothing may last.
        record = agent.ended(agent.script("sleep 300"))
        assert (record["state"], record["error"]) == (
            "FAILED",
            "took longer than 0.5 s (limits.seconds), and was ended",
        )


def test_a_server_that_is_not_there_is_named_in_words(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    agent = Agent(tmp_path / "agent", settings=f'register = "http://127.0.0.1:{port}/nodes/1"')
    agent.start()
    try:
        eventually(lambda: "register-failed" in agent.log())
        assert "nothing listens there: is the server running?" in agent.log() and "Errno" not in agent.log()
    finally:
        agent.stop()


class Refusing(BaseHTTPRequestHandler):
    """A server that refuses every agent with a sentence."""

    def do_PUT(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        message = f"url: node_hosts does not list it ({self.path})."
        said = json.dumps({"code": 400, "error": {"type": "HTTPBadRequest", "message": message}}).encode()
        self.send_response(400)
        self.send_header("Content-Length", str(len(said)))
        self.end_headers()
        self.wfile.write(said)

    def log_message(self, *_: object) -> None:
        pass


def test_why_the_server_refuses_is_in_the_log_of_the_agent(tmp_path: Path) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    url = f"http://127.0.0.1:{server.server_address[1]}/nodes/1?Signature=hush"
    agent = Agent(tmp_path / "agent", settings=f'register = "{url}"')
    agent.start()
    try:
        eventually(lambda: "register-failed" in agent.log())
        assert "HTTP 400: url: node_hosts does not list it" in agent.log() and "hush" not in agent.log()
    finally:
        agent.stop()
        server.shutdown()
        server.server_close()
