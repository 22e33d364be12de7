"""Servers with authentication, and unmodified clients."""

import json
import subprocess
import sys
import threading
from base64 import b64encode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import HTTPConnection
from pathlib import Path

import pytest

from benchmarks.ports import free_port
from tests.acceptance.conftest import need
from tests.acceptance.processes import START_SECONDS, TEMPLATES, CommandLine, OpenStack, Server, environment
from tests.acceptance.terminals import on_terminal
from tests.waiting import eventually

pytestmark = pytest.mark.slow

HELLO = str(TEMPLATES / "hello.yaml")
PASSWORD = "söme: p'assword"


def heatlite(home: Path, *words: str, stdin: str = "", **variables: str) -> "subprocess.CompletedProcess[str]":
    return subprocess.run(
        [sys.executable, "-m", "heatlite", *words],
        cwd=home, env=environment(home, **variables), input=stdin, capture_output=True, text=True, check=False,
    )  # fmt: skip


LIST = """
import openstack
connection = openstack.connect(cloud='heatlite')
print([stack.name for stack in connection.orchestration.stacks()])
"""


def listed_by_the_sdk(folder: Path, **proof: str) -> str:
    """With the clouds.yaml that `heatlite clouds` writes."""
    need("openstack", "openstacksdk")
    heatlite(folder, "clouds", "--project", "demo", **proof)
    assert (folder / "clouds.yaml").stat().st_mode & 0o777 == 0o600
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", LIST],
        cwd=folder, env=environment(folder), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[str], Server]]:
    """Start a server with accounts written by `heatlite user`.

    Its log must not contain secrets.
    """
    started = []

    def serve(auth: str) -> Server:
        started.append(Server(tmp_path, HEATLITE_AUTH=auth))
        return started[-1]

    yield serve
    for server in started:
        server.stop()
        assert server.complaints() == ""
        log = server.log.read_text()
        assert PASSWORD not in log and b64encode(f"mia:{PASSWORD}".encode()).decode() not in log


def story(openstack: OpenStack, owner: str) -> None:
    """A stack is made, shown and deleted."""
    try:
        openstack.ok("stack", "create", "-t", HELLO, "--wait", "--poll", "0", "mine")
        assert openstack.json("stack", "show", "mine")["stack_owner"] == owner  # type: ignore[index]
        openstack.ok("stack", "delete", "--yes", "--wait", "mine")
        refused = openstack("orchestration", "service", "list")
        assert refused.code != 0 and "service:index" in refused.err
    finally:
        openstack.close()


def test_a_name_and_a_password(start: Callable[[str], Server], tmp_path: Path) -> None:
    pytest.importorskip("bcrypt", reason="bcrypt is not installed (extra `server`)")
    added = heatlite(tmp_path, "user", "add", "mia", "--project", "demo=member,reader", stdin=f"{PASSWORD}\n")
    assert added.returncode == 0, added.stderr
    assert PASSWORD not in added.stdout + added.stderr
    files = tmp_path / ".config" / "heatlite"
    assert {one.name: one.stat().st_mode & 0o777 for one in files.iterdir()} == {"users": 0o600, "users.toml": 0o600}
    heatlite(tmp_path, "user", "add", "max", "--project", "demo=member,reader", stdin=f"{PASSWORD}\n")
    server = start("basic")
    assert server.request("GET", "/stacks").status == 401

    command = CommandLine(tmp_path, {"HEATLITE_PROJECT": "demo"})
    up = command("up", "-y", HELLO, HEATLITE_ENDPOINT=server.url, HEATLITE_USERNAME="mia", HEATLITE_PASSWORD=PASSWORD)
    assert up.code == 0, up.err
    refused = command("ls", "--username", "mia", HEATLITE_ENDPOINT=server.url, HEATLITE_PASSWORD="wrong")
    assert (refused.code, refused.err) == (
        1, f"heatlite: mia was refused at {server.url}: the user or the password is wrong. HEATLITE_PASSWORD gives"
        " another. (HTTP 401)\n",
    )  # fmt: skip
    silent = command("ls", "--username", "mia", HEATLITE_ENDPOINT=server.url)
    assert (silent.code, silent.err) == (2, "heatlite: The username has no password: set HEATLITE_PASSWORD.\n")

    other = {"HEATLITE_ENDPOINT": server.url, "HEATLITE_USERNAME": "max", "HEATLITE_PASSWORD": PASSWORD}
    asked = command("lock", "hello", **other)
    assert (asked.code, asked.err) == (
        2, "heatlite: The stack hello belongs to mia, and there is no terminal to ask on."
        " Give --yes to go on without a question.\n",
    )  # fmt: skip
    demo = {**other, "HEATLITE_PROJECT": "demo"}
    question = "The stack hello belongs to mia. Lock it with all its resources? [y/N]"
    code, shown = on_terminal(200, "lock", "hello", answer="n", **environment(tmp_path, **demo))
    assert code == 1 and question in shown and "Nothing was done" in shown
    code, shown = on_terminal(200, "lock", "hello", **environment(tmp_path, **demo))
    assert code == 0 and question in shown and "LOCK_COMPLETE" in shown
    assert command("lock", "hello", "--yes", **other).code == 0
    refused = command("up", "-y", HELLO, "-f", "json", **other)
    assert (refused.code, json.loads(refused.out)["http_status"]) == (1, 409)
    assert command("unlock", "hello", **other).code == 0

    database = ("--database", f"sqlite:///{tmp_path / 'heatlite.db'}")
    at_once = ("--yes", "--no-wait", "-f", "json")
    found = command("down", *at_once, "hello", *database, HEATLITE_USERNAME="mia", HEATLITE_PASSWORD=PASSWORD)
    assert found.code == 0, found.err  # the server was found by its database
    assert json.loads(found.out)["type"] == "started"

    need("openstackclient", "python-openstackclient")
    need("heatclient", "python-heatclient")
    proof = {"HEATLITE_USERNAME": "mia", "HEATLITE_PASSWORD": PASSWORD, "HEATLITE_ENDPOINT": server.url}
    script = heatlite(tmp_path, "env", "--project", "demo", **proof).stdout
    shown = subprocess.run(["bash", "-c", f"{script}\nenv -0"], capture_output=True, text=True, check=True).stdout
    variables = dict(line.split("=", 1) for line in shown.split("\0") if line.startswith("OS_"))
    assert variables.keys() == {"OS_AUTH_TYPE", "OS_ENDPOINT", "OS_USERNAME", "OS_PASSWORD"}
    story(OpenStack(tmp_path, variables), "mia")
    assert listed_by_the_sdk(tmp_path, **proof) == "[]\n"


@pytest.mark.slow
def test_a_token(start: Callable[[str], Server], tmp_path: Path) -> None:
    given = heatlite(tmp_path, "user", "token", "ci", "--project", "demo", "--expires", "+1d")
    assert given.returncode == 0, given.stderr
    token = given.stdout.strip()
    server = start("tokens")
    command = CommandLine(tmp_path, {"HEATLITE_ENDPOINT": server.url, "HEATLITE_PROJECT": "demo"})
    assert command("ls").code == 1
    assert command("ls", HEATLITE_TOKEN=token).code == 0
    other = command("ls", "--project", "other", HEATLITE_TOKEN=token)
    assert (other.code, other.err) == (1, "heatlite: You are not authorized to use the project other. (HTTP 403)\n")

    need("openstackclient", "python-openstackclient")
    need("heatclient", "python-heatclient")
    variables = {"OS_AUTH_TYPE": "admin_token", "OS_ENDPOINT": f"{server.url}/v1/demo", "OS_TOKEN": token}
    story(OpenStack(tmp_path, variables), "ci")
    wrong = OpenStack(tmp_path, {**variables, "OS_TOKEN": "wrong"})
    try:
        refused = wrong("stack", "list")
        assert refused.code != 0
        assert "requires authentication" in refused.err
    finally:
        wrong.close()

    assert listed_by_the_sdk(tmp_path, HEATLITE_ENDPOINT=server.url, HEATLITE_TOKEN=token) == "[]\n"
    assert token not in server.log.read_text()


BESIDE = """
heat_template_version: 2021-04-16
resources:
  beside:
    type: OS::Heat::Stack
    properties:
      template: |
        heat_template_version: 2021-04-16
        resources: {v: {type: OS::Heat::Value, properties: {value: found}}}
        outputs: {o: {value: {get_attr: [v, value]}}}
outputs: {o: {value: {get_attr: [beside, outputs, o]}}}
"""


@pytest.mark.slow
def test_a_stack_beside_its_own(tmp_path: Path) -> None:
    """The server has to let itself in."""
    token = heatlite(tmp_path, "user", "token", "ci", "--project", "demo").stdout.strip()
    server = Server(tmp_path, free_port(), HEATLITE_AUTH="tokens")
    try:
        file = tmp_path / "beside.yaml"
        file.write_text(BESIDE)
        proof = {"HEATLITE_ENDPOINT": server.url, "HEATLITE_PROJECT": "demo", "HEATLITE_TOKEN": token}
        command = CommandLine(tmp_path, proof)
        up = command("up", "--yes", str(file))
        assert up.code == 0, up.out + up.err
        assert "found" in up.out
        assert command("down", "--yes", "beside").code == 0
        assert command("ls", "-f", "json").data == []
    finally:
        server.stop()


def test_in_one_process_nobody_is_asked(tmp_path: Path) -> None:
    """Access to the database gives access to everything."""
    done = CommandLine(tmp_path)("up", "--yes", HELLO, HEATLITE_AUTH="basic")
    assert done.code == 0, done.err


def test_a_server_without_its_files_says_what_is_missing(tmp_path: Path) -> None:
    done = heatlite(tmp_path, "serve", "--port", "0", "--host", "0.0.0.0", HEATLITE_AUTH="tokens")
    assert done.returncode == 2
    assert done.stderr.startswith(f"heatlite: The list of tokens ({tmp_path}/.config/heatlite/tokens.toml) cannot be")


@pytest.mark.slow
def test_guessing_leaves_the_server_to_others(start: Callable[[str], Server], tmp_path: Path) -> None:
    """Wrong logins with new names and forged addresses, more than threads."""
    need("bcrypt", "bcrypt")
    heatlite(tmp_path, "user", "add", "mia", "--project", "demo=member", stdin=PASSWORD + "\n")
    server = start("basic")
    wrong: list[int] = []
    ended = threading.Event()

    def guess(number: int) -> None:
        while not ended.is_set():
            connection = HTTPConnection("127.0.0.1", server.port, timeout=START_SECONDS)
            name = b64encode(f"u{number}-{len(wrong)}:x".encode()).decode()
            headers = {"Authorization": f"Basic {name}", "X-Forwarded-For": f"9.9.{number}.{len(wrong) % 250}"}
            connection.request("GET", "/v1/demo/stacks", headers=headers)
            answer = connection.getresponse()
            wrong.append(answer.status)
            assert answer.status == 401 or int(answer.headers["Retry-After"]) > 0
            connection.close()

    with ThreadPoolExecutor(16) as pool:
        guessing = [pool.submit(guess, number) for number in range(16)]
        try:
            eventually(lambda: len(wrong) > 100 and {401, 503, 429} <= {*wrong}, "they are slowed down")
            for _ in range(5):
                assert server.request("GET", "/healthcheck").status == 200
                assert server.request("GET", "/v1/demo/stacks").status == 401
        finally:
            ended.set()
        for one in guessing:
            one.result()
