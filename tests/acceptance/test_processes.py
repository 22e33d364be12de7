"""`heatlite` as a user starts it: commands and servers as processes of their own."""

import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from pathlib import Path

import pytest

from tests.acceptance.conftest import need
from tests.acceptance.processes import START_SECONDS, TEMPLATES, CommandLine, Server, environment
from tests.processes import freeze
from tests.waiting import eventually

HELLO = str(TEMPLATES / "hello.yaml")
STORY = str(TEMPLATES / "maintenance-story.yaml")
UP = ["up", "--yes", STORY, "-n", "story", "-P", "boot_time=0"]


def values(text: str) -> list[str]:
    return sorted(text.split("\n")[:-1])


@pytest.mark.slow
def test_up_tells_of_every_resource(heatlite: CommandLine, tmp_path: Path) -> None:
    lines = [f"  r{n}: {{type: OS::Heat::RandomString, depends_on: [{f'r{n - 1}' if n else ''}]}}" for n in range(10)]
    (tmp_path / "ten.yaml").write_text("\n".join(["heat_template_version: 2018-08-31", "resources:", *lines]))
    done = heatlite("up", "--yes", "ten.yaml")
    assert (done.code, done.err) == (0, "")
    assert done.out.count("CREATE_COMPLETE  state changed") == 10


@pytest.mark.slow
def test_the_story_with_a_server(heatlite: CommandLine, serve: Callable[[], Server]) -> None:
    """Commands find the server that works on their database."""
    server = serve()
    heatlite.variables["HEATLITE_DATABASE"] = f"sqlite:///{server.home / 'heatlite.db'}"
    assert heatlite("plan", *UP[2:]).out.endswith("Plan: 4 added, 0 updated, 0 replaced, 0 deleted, 0 unchanged.\n")
    made = heatlite(*UP)
    assert (made.code, made.err) == (0, "")
    assert "[story]: CREATE_COMPLETE" in made.out
    assert json.loads(heatlite("ls", "-f", "json").out)[0]["stack_status"] == "CREATE_COMPLETE"
    assert server.request("GET", "/v1/default/stacks/story").status == 302  # it is the server's

    assert heatlite("mark-unhealthy", "story", "member_1", "--reason", "disk").code == 0
    again = heatlite(*UP)
    assert "[story.member_1]: DELETE_COMPLETE" in again.out
    assert "[story]: UPDATE_COMPLETE" in again.out

    assert heatlite("lock", "story", "--reason", "rack 7", "--expires", "+2h").code == 0
    for words in (UP, ["down", "--yes", "story"]):
        refused = heatlite(*words)
        assert (refused.code, refused.out) == (1, "")
        assert "rack 7" in refused.err
        assert "heatlite unlock story" in refused.err
    status = json.loads(heatlite("lock-status", "story", "-f", "json").out)
    assert [entry["request"] for entry in status["suppressed"]] == ["update", "delete"]
    assert heatlite("unlock", "story").code == 0

    events = json.loads(heatlite("events", "story", "--format", "json").out)
    assert (events[0]["resource_status"], events[-1]["resource_status"]) == ("CREATE_IN_PROGRESS", "UNLOCK_COMPLETE")
    listed = heatlite("resources", "story", "-f", "value", "-c", "resource_name")
    assert values(listed.out) == ["endpoint", "member_1", "member_2", "token"]
    down = heatlite("down", "--yes", "story")
    assert (down.code, down.err) == (0, "")
    assert down.out.endswith(": 4 deleted\n")
    assert heatlite("ls").out == ""
    server.stop()
    assert heatlite("ls", "--endpoint", server.url).err == (
        f"heatlite: No server answers at {server.url}. Start one with: heatlite serve\n"
    )


@pytest.mark.slow
def test_up_uses_a_server_that_starts_meanwhile(
    heatlite: CommandLine, serve: Callable[[], Server], tmp_path: Path
) -> None:
    """It finds no server, and then another process has the engine."""
    database = tmp_path / "heatlite.db"
    heatlite.variables["HEATLITE_DATABASE"] = f"sqlite:///{database}"
    with closing(sqlite3.connect(database, isolation_level=None)) as held:
        held.execute("BEGIN EXCLUSIVE")
        up = heatlite.start("up", "--yes", HELLO)
        eventually(lambda: database in opened_files(up.pid), "it opens the database")
        freeze(up.pid)
    server = serve()
    up.send_signal(signal.SIGCONT)
    out, err = up.communicate(timeout=START_SECONDS)
    assert (up.returncode, err) == (0, "")
    assert "[hello]: CREATE_COMPLETE" in out
    assert server.request("GET", "/v1/default/stacks/hello").status == 302


def opened_files(pid: int) -> Iterator[Path]:
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        with suppress(FileNotFoundError):  # it is closed by now
            yield descriptor.readlink()


@pytest.mark.slow
def test_failures(heatlite: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "boom.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "resources:\n"
        "  a: {type: OS::Heat::TestResource, properties: {fail: true}}\n"
        "  b: {type: Example::Local::File, properties: {fail: true}}\n"
    )
    failed = heatlite("up", "--yes", "boom.yaml")
    assert failed.code == 1
    first, *rest = failed.err.splitlines()
    assert (first, rest.pop()) == ("boom: CREATE_FAILED", "Continue with: heatlite retry boom")
    assert sorted(line.partition(":  ")[0].split(":")[0] for line in rest) == [
        "  a (OS", "  b (Example",
    ]  # fmt: skip
    assert heatlite("up", "--yes", "nothing.yaml").err == "heatlite: nothing.yaml: no such file\n"
    assert heatlite("down", "--yes", "nothing").err == "heatlite: The Stack (nothing) could not be found. (HTTP 404)\n"
    assert heatlite("nothing").code == 2


@pytest.mark.slow
def test_validate_tells_every_problem(heatlite: CommandLine, tmp_path: Path) -> None:
    (tmp_path / "bad.yaml").write_text(
        "heat_template_version: 2018-08-31\n"
        "resources:\n"
        "  a: {type: No::Such}\n"
        "  b: {type: OS::Heat::RandomString, properties: {length: 9999}}\n"
        "  c: {type: OS::Heat::Value, properties: {value: {get_param: missing}}}\n"
        "outputs:\n"
        "  o: {value: {get_attr: [b, nothing]}}\n"
    )
    done = heatlite("validate", "bad.yaml")
    assert done.code == 1
    errors = [line for line in done.out.splitlines() if ": error: " in line]
    assert [line.split(":")[:2] for line in errors] == [["bad.yaml", number] for number in ("3", "4", "5", "7")]
    assert all(line.split(":")[2].isdigit() for line in errors)
    assert done.err == "4 errors\n"
    assert heatlite("validate", HELLO).code == 0


@pytest.mark.slow
def test_openstack_after_env_and_clouds(heatlite: CommandLine, server: Server, tmp_path: Path) -> None:
    """With a stale openrc about, which would break it."""
    need("openstackclient", "python-openstackclient")
    program = 'heatlite() { "$PYTHON" -m heatlite "$@"; }; '
    stale = {"OS_AUTH_URL": "http://h:5000/v3", "OS_PROJECT_NAME": "p", "OS_USERNAME": "u"}
    run = '"$PYTHON" -c "import sys; from openstackclient.shell import main; sys.exit(main())" stack list -f value'
    point = ["--endpoint", server.url, "--project", "openstack-after-env"]
    for line in (
        f'eval "$(heatlite env {" ".join(point)})" && {run}',
        f'heatlite clouds {" ".join(point)} && unset ${{!OS_@}} && OS_CLOUD=heatlite {run}',
    ):
        done = subprocess.run(
            ["bash", "-c", program + line],
            cwd=tmp_path,
            env=environment(tmp_path, PYTHON=sys.executable, **stale),
            capture_output=True,
            text=True,
            timeout=START_SECONDS,
            check=False,
        )
        assert (done.returncode, done.stderr.count("Traceback")) == (0, 0), done.stdout + done.stderr


@pytest.mark.slow
def test_env_names_the_server_that_runs(heatlite: CommandLine, serve: Callable[[], Server]) -> None:
    server = serve()
    database = f"sqlite:///{server.home / 'heatlite.db'}"
    assert f"export OS_ENDPOINT={server.url}/v1/default\n" in heatlite("env", "--database", database).out


@pytest.mark.slow
def test_a_second_server_is_refused(heatlite: CommandLine, serve: Callable[[], Server]) -> None:
    server = serve()
    database = f"sqlite:///{server.home / 'heatlite.db'}"
    second = heatlite("serve", "--port", "0", "--database", database)
    assert second.code == 1
    assert f"(process {server.process.pid}) uses {database} and serves {server.url}" in second.err
    assert second.err.count("\n") == 1
    taken = heatlite("serve", "--port", str(server.port))
    assert taken.code == 1
    assert taken.err == (
        f"heatlite: Cannot listen on 127.0.0.1, port {server.port}: Address already in use."
        " Choose another port with --port.\n"
    )


@pytest.mark.slow
@pytest.mark.parametrize("host", ["0.0.0.0", "example.org"])
def test_only_this_machine_may_connect(heatlite: CommandLine, host: str) -> None:
    done = heatlite("serve", "--host", host)
    assert done.code == 2
    assert done.err.startswith(f"heatlite: Refusing to listen on {host}: ")


@pytest.mark.slow
def test_any_free_port(heatlite: CommandLine, tmp_path: Path) -> None:
    """The others find it by the database."""
    with heatlite.start("serve", "--port", "0") as process:
        try:
            eventually(lambda: "export OS_ENDPOINT=http://127.0.0.1:" in heatlite("env").out, "the server is found")
            eventually(lambda: ":8004/" not in heatlite("env").out, "the port is known")
            assert heatlite("up", "--yes", HELLO).code == 0
        finally:
            process.send_signal(signal.SIGTERM)
        _, log = process.communicate(timeout=START_SECONDS)
    assert process.returncode == 0
    assert "heatlite 0.1.0 at http://127.0.0.1:" in log


@pytest.mark.slow
def test_sigterm_in_the_middle_of_a_create(serve: Callable[[], Server]) -> None:
    """The server leaves at once, and the next one goes on where it was."""
    first = serve()
    waits = {"type": "OS::Heat::TestResource", "properties": {"wait_secs": 2}}
    template = {
        "heat_template_version": "2018-08-31",
        "resources": {"slow": waits, "after": {"type": "OS::Heat::RandomString", "depends_on": "slow"}},
    }
    path = first.create("long", template)
    eventually(lambda: bool(first.resources(path).get("slow")), "the object is made and known, and not ready yet")
    before = first.resources(path)
    first.stop()
    second = serve()
    assert second.settled(path) == "CREATE_COMPLETE"
    assert second.resources(path)["slow"] == before["slow"]
    slow = [one["resource_status"] for one in second.listed(path, "events") if one["resource_name"] == "slow"]
    assert sorted(slow) == ["CREATE_COMPLETE", "CREATE_IN_PROGRESS"]
    second.stop()


ARROW = r"""heat_template_version: 2021-04-16
outputs: {arrow: {value: "\u2192"}}
"""


@pytest.mark.slow
def test_output_that_cannot_be_written(heatlite: CommandLine, tmp_path: Path) -> None:
    """A terminal without UTF-8, a full disk, and a reader that has enough."""
    (tmp_path / "arrow.yaml").write_text(ARROW)
    done = heatlite("up", "arrow.yaml", "--yes", PYTHONIOENCODING="ascii")
    assert (done.code, "arrow = \\u2192" in done.out) == (0, True)
    gone, pipe = os.pipe()
    os.close(gone)
    full = os.open("/dev/full", os.O_WRONLY)
    for out, told in ((full, "heatlite: standard output: No space left on device\n"), (pipe, "")):
        found = subprocess.run(
            [sys.executable, "-m", "heatlite", "config", "show"],
            env=environment(tmp_path),
            stdout=out,
            stderr=subprocess.PIPE,
            text=True,
            check=False,
        )
        assert (found.returncode, found.stderr) == (1, told)
        os.close(out)
