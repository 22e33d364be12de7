"""One agent: what it answers, in which order it works, whom it believes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from functools import partial
from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite.agent import form
from heatlite.core.config import Settings
from heatlite.features.nodes.agents.client import Agents, Declined
from heatlite.features.nodes.states import NodeActionState, NodeState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord
from tests.agent.agents import ROOT, Agent, Registry, raw
from tests.waiting import PATIENCE, eventually


@pytest.fixture(scope="module")
def registry() -> Iterator[Registry]:
    with Registry() as registry:
        yield registry


@pytest.fixture(scope="module")
def agent(tmp_path_factory: pytest.TempPathFactory, registry: Registry) -> Iterator[Agent]:
    agent = Agent(
        tmp_path_factory.mktemp("api") / "agent",
        "--deployments",
        settings=f'register = "{registry.url("/nodes/1?signature=S3")}"',
    )
    agent.start()
    yield agent
    assert agent.stop() == 0


def test_it_registers_and_tells_that_something_has_changed(agent: Agent, registry: Registry) -> None:
    eventually(lambda: registry.count("PUT"))
    assert registry.requests[0] == (
        "PUT",
        "/nodes/1?signature=S3",
        {
            "url": agent.url,
            "secret": agent.secret,
            "instance": agent.get("/v1/agent")["instance"],
            "agent": agent.get("/v1/agent")["agent"],
            "kinds": ["script", "test/fail", "test/loop", "test/success"],
            "deployments": True,
        },
    )
    before = registry.count("POST")
    # More changes than events: they go out one at a time, each for all there was.
    ids = [agent.schedule("test/success") for _ in range(5)]
    agent.ended(ids[-1])
    eventually(lambda: registry.count("POST") > before)
    assert {request[1:] for request in registry.requests if request[0] == "POST"} == {("/nodes/1?signature=S3", None)}
    # A server that is away stops nothing, and hears of it later. One that knows nothing of the agent gets to know it.
    registry.status = 503
    agent.ended(agent.schedule("test/success"))
    eventually(lambda: registry.requests[-1][0] == "POST")
    registry.status = 404
    eventually(lambda: registry.requests[-1][0] == "PUT")
    # Nor does it follow to where somebody else may listen.
    registry.status = 307
    count = len(registry.requests)
    eventually(lambda: len(registry.requests) > count)
    registry.status = 200
    assert {request[1] for request in registry.requests} == {"/nodes/1?signature=S3"}


def test_kinds_end_as_they_should_one_after_another(agent: Agent) -> None:
    loop = agent.schedule("test/loop", {"target": 3}, requester="user", created_at="2026-11-21T19:00:00+01:00")
    fail = agent.schedule("test/fail")
    script = agent.script(
        'printf %s "$who" > "$heat_outputs_path.greeting"; echo "$list"; echo oops >&2; exit 3',
        inputs={"who": "wörld", "list": [1, {"a": None}]},
        outputs=["greeting", "missing"],
    )
    done = agent.schedule("test/success")
    assert agent.ended(done)["state"] == "DONE"
    assert agent.get("/v1/actions/queue") == {"actions": []}
    newest = agent.get("/v1/actions/finished")["actions"][:4]
    assert [(one["id"], one["state"]) for one in newest] == [
        (done, "DONE"), (script, "FAILED"), (fail, "FAILED"), (loop, "DONE"),
    ]  # fmt: skip
    record = agent.action(loop)
    assert record["progress"] == {"counter": 3, "target": 3}
    assert (record["created_at"], record["requester"]) == ("2026-11-21T18:00:00.000000Z", "user")
    record = agent.action(script)
    assert record["outputs"] == {
        "greeting": "wörld", "deploy_stdout": '[1, {"a": null}]\n', "deploy_stderr": "oops\n", "deploy_status_code": 3,
    }  # fmt: skip
    assert record["error"] == "exit status 3"
    assert set(record) == form.Record.__annotations__.keys()
    history = agent.get(f"/v1/actions/{script}")["history"]
    assert [line["state"] for line in history] == ["FAILED", "RUNNING", "NEW"]
    times = [form.as_time(record[name]) for name in ("scheduled_at", "started_at", "finished_at")]
    assert times == sorted(times) == [form.as_time(line["time"]) for line in reversed(history)]


def test_changes_are_told_once(agent: Agent) -> None:
    agent.rest()
    first = agent.ended(agent.schedule("test/success"))
    everything = agent.get("/v1/changes")
    instance, revision = everything["instance"], everything["revision"]
    assert first["id"] in everything["known"]
    assert everything["kinds"] == ["script", "test/fail", "test/loop", "test/success"]
    since = f"/v1/changes?instance={instance}&revision={revision}"
    assert agent.get(since) == {"instance": instance, "revision": revision, "unchanged": True}
    second = agent.ended(agent.schedule("test/success"))
    later = agent.get(since)
    assert [told["action"] for told in later["actions"]] == [second]
    assert later["known"] == [*everything["known"], second["id"]]
    # Whoever knows another database, or more than there is, is told everything.
    for query in (f"instance=another&revision={revision}", f"instance={instance}&revision=9999"):
        told = agent.get(f"/v1/changes?{query}")["actions"]
        assert {one["action"]["id"] for one in told} == set(later["known"])
    assert agent.ask("GET", "/v1/changes?revision=-1").status == 400


@pytest.mark.slow
def test_an_id_is_one_action(agent: Agent) -> None:
    body = {"id": "mine", "kind": "test/loop", "args": {"target": 1}}
    answers = [agent.ask("POST", "/v1/actions", body) for _ in range(2)]
    assert [(answer.status, answer.body) for answer in answers] == [(201, {"id": "mine"}), (200, {"id": "mine"})]
    other = agent.ask("POST", "/v1/actions", {**body, "args": {"target": 2}})
    assert (other.status, other.body["error"], other.signed) == (409, "ActionExists", True)
    # Nor does the same request do anything again that names no id.
    nonce = "n" * 16
    answers = [agent.ask("POST", "/v1/actions", {"kind": "test/success"}, nonce=nonce) for _ in range(2)]
    assert [answer.status for answer in answers] == [201, 200]
    assert answers[0].body == answers[1].body


@pytest.mark.slow
def test_the_server_asks_all_it_has_to_over_one_connection(agent: Agent) -> None:
    """The engine's client: several actions, one refused, and an answer of many pages."""
    agent.rest()
    before = agent.get("/v1/agent")
    node = NodeRecord(
        "n", "s", "r", "p", "a", agent.url, agent.secret, "", 0, "1", (), False, NodeState.UP, "", 1.0
    )  # fmt: skip
    # Each byte of it is six in JSON.
    much = "for i in 0 1 2 3 4 5 6; do head -c 60000 /dev/zero | tr '\\0' '\\1' > $heat_outputs_path.$i; done"
    args: form.JsonMap = {"config": much, "outputs": [str(number) for number in range(7)]}
    ids = [f"line-{number}" for number in range(4)]
    agents = Agents(Settings(database="sqlite://"))
    with agents.line(node) as line:
        for one in ids:
            action = NodeActionRecord(
                one, "p", "s", "r", "n", "a", "script", args, "", NodeActionState.PENDING_SCHEDULE, Requester.USER,
                "mia", 1.0, 1.0,
            )  # fmt: skip
            line.send(action, form.now())
            line.send(action, form.now())
            with pytest.raises(Declined, match="There is no kind"):
                line.send(replace(action, kind="test/none"), form.now())
            with pytest.raises(Declined, match="TooLarge"):
                line.send(replace(action, args={"config": "x" * form.MAX_ARGS}), form.now())
        assert not line.cancel("unknown")
    agent.ended(ids[-1])
    with agents.line(node) as line:
        answer = line.changes(before["instance"], before["revision"])
    assert [told.id for told in answer.actions] == ids
    assert [told.state for told in answer.actions] == ["DONE"] * 4
    assert not answer.more


@pytest.mark.slow
def test_much_is_told_in_pages(agent: Agent) -> None:
    agent.rest()
    revision = agent.get("/v1/agent")["revision"]
    # Each byte of it is six in JSON.
    script = "for i in 0 1 2 3 4 5 6 7 8 9; do head -c 60000 /dev/zero | tr '\\0' '\\1' > $heat_outputs_path.$i; done"
    actions = [agent.script(script, outputs=[str(number) for number in range(10)]) for _ in range(3)]
    agent.ended(actions[-1])
    told: list[str] = []
    more = True
    while more:
        page = agent.get(f"/v1/changes?instance={agent.get('/v1/agent')['instance']}&revision={revision}")
        told += [one["action"]["id"] for one in page["actions"]]
        assert len(page["actions"]) == 1
        assert len(json.dumps(page)) < 2 * 2**20
        assert all(page["actions"][0]["action"]["outputs"][str(number)] for number in range(10))
        assert set(actions) <= set(page["known"])
        revision, more = page["revision"], page.get("more", False)
    assert told == actions


@pytest.mark.slow
@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ({"kind": "test/none"}, 400, "UnknownKind"),
        ({}, 400, "InvalidRequest"),
        ([], 400, "InvalidRequest"),
        (b"{", 400, "InvalidRequest"),
        (b"[" * 100_000, 400, "InvalidRequest"),
        (b'{"kind": "test/success", "args": {"a": NaN}}', 400, "InvalidRequest"),
        (b'{"kind": "script", "args": {"config": "x", "inputs": {"a": 1e999}}}', 400, "InvalidRequest"),
        (rb'{"kind": "script", "args": {"config": "\ud800"}}', 400, "InvalidRequest"),
        ({"kind": "test/success", "id": "../up"}, 400, "InvalidRequest"),
        ({"kind": "test/success", "id": "queue"}, 400, "InvalidRequest"),
        ({"kind": "test/success", "requester": "a\nb"}, 400, "InvalidRequest"),
        ({"kind": "test/success", "more": 1}, 400, "InvalidRequest"),
        ({"kind": "test/success", "args": {"a": 1}}, 400, "InvalidRequest"),
        ({"kind": "test/success", "created_at": "2026-11-21T18:00:00"}, 400, "InvalidRequest"),
        ({"kind": "test/loop", "args": {"target": 0}}, 400, "InvalidRequest"),
        ({"kind": "script", "args": {"config": "x", "inputs": {"a=b": 1}}}, 400, "InvalidRequest"),
        ({"kind": "script", "args": {"config": "x", "outputs": ["../x"]}}, 400, "InvalidRequest"),
        ({"kind": "script", "args": {"config": "x" * (256 * 1024)}}, 413, "TooLarge"),
        (b"x" * (600 * 1024), 413, "TooLarge"),
    ],
)  # fmt: skip
def test_what_is_wrong_is_refused(agent: Agent, body: object, status: int, code: str) -> None:
    revision = agent.get("/v1/agent")["revision"]
    answer = agent.ask("POST", "/v1/actions", body)
    assert (answer.status, answer.body["error"], answer.signed) == (status, code, True)
    assert agent.get("/v1/agent")["revision"] == revision


@pytest.mark.slow
def test_nobody_gets_in_without_the_secret(agent: Agent) -> None:
    revision = agent.get("/v1/agent")["revision"]
    work = {"kind": "script", "args": {"config": "true"}}
    for secret, nonce in (("", None), ("0" * 64, None), (None, "short")):
        for method, path in (("POST", "/v1/actions"), ("GET", "/v1/changes"), ("GET", "/nothing")):
            answer = agent.ask(method, path, work if method == "POST" else None, secret=secret, nonce=nonce)
            assert (answer.status, answer.body["error"], answer.signed) == (401, "NotSigned", False)
    chunked = b"POST /v1/actions HTTP/1.1\r\nX-Heatlite-Nonce: nnnnnnnnnnnnnnnn\r\nTransfer-Encoding: chunked\r\n\r\n0\r\n\r\n"  # noqa: E501
    for garbage in (chunked, b"GET\r\n\r\n", b"BREW / HTTP/1.1\r\n\r\n", b"GET / HTTP/1.1\r\nA: " + b"a" * 70_000):
        assert b'"NotSigned"' in raw(agent.url, garbage)
    raw(agent.url, b"\0\xff" * 1000)
    assert agent.get("/v1/agent")["revision"] == revision
    assert agent.ask("GET", "/v1/actions/unknown").body["error"] == "UnknownAction"
    assert agent.ask("GET", "/v1/nothing").status == 400


@pytest.mark.slow
def test_what_the_operator_says_on_the_machine(agent: Agent) -> None:
    scheduled = agent.command("schedule", "script", "--id", "by-hand", "--args", "-", stdin='{"config": "echo S3CRET"}')
    assert (scheduled.returncode, scheduled.stdout) == (0, "by-hand\n")
    assert agent.ended("by-hand")["state"] == "DONE"
    assert "by-hand  DONE" in agent.command("finished").stdout
    assert '"echo S3CRET"' in agent.command("show", "by-hand").stdout
    refused = agent.command("schedule", "test/none")
    assert (refused.returncode, refused.stdout) == (1, "")
    assert "There is no kind 'test/none' here" in refused.stderr
    # What is done is logged, what with is not.
    assert '"by-hand"' in agent.log()
    assert "S3CRET" not in agent.log()
    assert agent.secret not in agent.log()
    assert "signature=" not in agent.log()
    for file in ("secret", "agent.sqlite", "address"):
        assert (agent.folder / file).stat().st_mode & 0o077 == 0
    assert agent.folder.stat().st_mode & 0o077 == 0
    second = agent.command("run", "--listen", "127.0.0.1:0")
    assert second.returncode == 2
    assert "runs in" in second.stderr
    assert Path(agent.folder, "secret").read_text() == agent.secret


@pytest.mark.slow
def test_ctrl_c_ends_a_command_that_waits_quietly(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s" * 64)
    with socket.create_server(("127.0.0.1", 0)) as silent:
        silent.settimeout(PATIENCE)
        (tmp_path / "address").write_text(f"http://127.0.0.1:{silent.getsockname()[1]}")
        with subprocess.Popen(
            [sys.executable, "-m", "heatlite.agent", "queue", "--folder", str(tmp_path)],
            cwd=ROOT,
            stderr=subprocess.PIPE,
            text=True,
            # As in a shell's foreground; in its background SIGINT is ignored.
            preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
        ) as process:
            connection, _ = silent.accept()
            with connection:
                process.send_signal(signal.SIGINT)
                assert process.stderr is not None
                errors = process.stderr.read()
    assert (process.returncode, errors) == (130, "")


@pytest.mark.slow
def test_a_reader_that_has_enough_is_no_fault(agent: Agent) -> None:
    """``heatlite-agent finished | head``."""
    reads, writes = os.pipe()
    os.close(reads)
    command = [sys.executable, "-m", "heatlite.agent", "kinds", "--folder", str(agent.folder)]
    done = subprocess.run(command, stdout=writes, stderr=subprocess.PIPE, text=True, cwd=ROOT)
    os.close(writes)
    assert (done.returncode, done.stderr) == (1, "")
