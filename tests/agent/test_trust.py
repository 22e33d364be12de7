"""Trust between an agent, its server and the other users of its machine."""

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite.agent import daemon
from heatlite.agent.kinds import kinds
from heatlite.agent.program import main
from heatlite.agent.settings import AgentSettings, BadSettings, check, load, register_address
from tests.agent.agents import ROOT, Agent, Registry
from tests.waiting import eventually


@pytest.fixture
def proxy() -> Iterator[tuple[str, list[bytes]]]:
    """The address of what stands for a proxy, and what it is told."""
    heard: list[bytes] = []
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def listen() -> None:
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    connection.settimeout(5)
                    heard.append(connection.recv(65536))

        thread = threading.Thread(target=listen)
        thread.start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", heard
        listening.shutdown(socket.SHUT_RDWR)
        thread.join()


@pytest.mark.slow
def test_the_secret_goes_through_no_proxy_of_plain_http(
    tmp_path: Path, proxy: tuple[str, list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    address, heard = proxy
    for name in ("http_proxy", "HTTP_PROXY", "https_proxy", "all_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, address)
    for name in ("no_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    with Registry() as registry:
        agent = Agent(tmp_path / "plain", settings=f'register = "{registry.url("/nodes/1")}"').start()
        eventually(lambda: registry.count("PUT"))
        agent.ended(agent.schedule("test/success"))
        eventually(lambda: registry.count("POST"))
        assert heard == []
        assert agent.stop() == 0
    # With TLS the proxy is asked for a tunnel, and is told no more than whither.
    agent = Agent(tmp_path / "tls", settings='register = "https://heat.example:8004/nodes/2?Signature=x"').start()
    eventually(lambda: heard)
    assert heard[0].startswith(b"CONNECT heat.example:8004 HTTP/1.")
    assert agent.secret.encode() not in heard[0]
    assert b"Signature" not in heard[0]
    assert agent.stop() == 0


@pytest.mark.slow
def test_what_was_signed_for_a_database_that_is_lost_is_not_done_again(tmp_path: Path) -> None:
    agent = Agent(tmp_path / "agent").start()
    secret, nonce = agent.secret, "n" * 24
    asked = {"kind": "script", "args": {"config": f"echo once >> {tmp_path}/done"}}
    first = agent.ask("POST", "/v1/actions", asked, nonce=nonce)
    assert first.status == 201
    agent.ended(first.body["id"])
    assert agent.ask("POST", "/v1/actions", asked, nonce=nonce).status == 200, "it is known"
    for lose in (Path.unlink, lambda file: file.write_bytes(b"")):
        agent.stop(signal.SIGKILL)
        lose(agent.folder / "agent.sqlite")
        agent.start()
        assert agent.ask("POST", "/v1/actions", asked, secret, nonce).status == 401
        assert agent.get("/v1/actions/finished") == {"actions": []}
    assert (tmp_path / "done").read_text() == "once\n"
    # Its secret is its own again for as long as the database is there.
    secret = agent.secret
    agent.stop()
    assert agent.start().secret == secret
    agent.stop()


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """An agent that does not start."""
    return subprocess.run(
        [sys.executable, "-m", "heatlite.agent", "run", "--folder", str(folder), "--listen", "127.0.0.1:0"],
        cwd=ROOT, capture_output=True, text=True, timeout=240,
    )  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize(
    ("writable", "reason"), [("folder", "other users may write"), ("secret", "other users may write")]
)
def test_what_others_may_write_is_refused(tmp_path: Path, writable: str, reason: str) -> None:
    folder = tmp_path / "agent"
    folder.mkdir(mode=0o700)
    (folder / "secret").write_text("s" * 64)
    (folder / "secret").chmod(0o600)
    (folder / "agent.sqlite").touch(0o600)
    path = folder if writable == "folder" else folder / "secret"
    path.chmod(path.stat().st_mode | 0o020)
    mode = path.stat().st_mode
    done = run(folder)
    assert done.returncode == 2
    assert f"{reason} {path}" in done.stderr
    assert path.stat().st_mode == mode, "it is left as it is"


@pytest.mark.parametrize("of_another", ["folder", "secret", "agent.sqlite"])
def test_what_another_user_owns_is_refused(tmp_path: Path, of_another: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "agent"
    folder.mkdir(mode=0o700)
    for name in ("secret", "agent.sqlite"):
        (folder / name).write_text("s" * 64)
        (folder / name).chmod(0o600)
    path = folder if of_another == "folder" else folder / of_another
    if os.geteuid() == 0:
        os.chown(path, 65534, -1)
    else:  # only root can give a file away
        us = os.stat

        def of_somebody(file: Path, **more: bool) -> os.stat_result:
            found = us(file, **more)
            return os.stat_result((*found[:4], 65534, *found[5:])) if Path(file) == path else found

        monkeypatch.setattr(os, "stat", of_somebody)
    with pytest.raises(BadSettings, match=rf"{path} belongs to another user \(id 65534\)"):
        daemon.run(AgentSettings(folder=folder, port=0))


@pytest.mark.slow
def test_the_url_to_register_at_comes_from_a_file(tmp_path: Path) -> None:
    """A command line can be read by all users of the machine."""
    with Registry() as registry:
        (tmp_path / "url").write_text(registry.url("/nodes/1?Signature=x") + "\n")
        agent = Agent(tmp_path / "agent", "--register-from", str(tmp_path / "url")).start()
        eventually(lambda: registry.count("PUT"))
        assert registry.requests[0][1] == "/nodes/1?Signature=x"
        assert agent.process is not None
        assert b"Signature" not in Path(f"/proc/{agent.process.pid}/cmdline").read_bytes()
        assert agent.stop() == 0


@pytest.mark.parametrize(
    ("content", "reason"),
    [(None, "No such file"), ("", "no http or https URL"), ("http://heat.example/x", "plain http"), (b"\xff", "utf-8")],
)
def test_a_file_without_such_a_url_is_refused(
    tmp_path: Path, content: str | bytes | None, reason: str, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "url"
    if content is not None:
        file.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert main(["run", "--folder", str(tmp_path / "agent"), "--register-from", str(file)]) == 2
    shown = capsys.readouterr().err
    assert "--register-from" in shown
    assert reason in shown


def test_a_url_with_a_password_is_refused_without_showing_it() -> None:
    with pytest.raises(BadSettings, match=r"^register: no user and password belong") as error:
        register_address("register", "https://mia:sesame@heat.example/v1/x")
    assert "sesame" not in str(error.value)


def test_settings_with_a_secret_that_others_may_read_get_a_warning(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "agent.toml"
    for text, mode, warns in (
        ('register = "https://h/x"', 0o600, False),
        ('register = "https://h/x"', 0o644, True),
        ('listen = "127.0.0.1:0"', 0o644, False),
    ):
        file.write_text(text)
        file.chmod(mode)
        load(file)
        assert ("settings-readable" in capsys.readouterr().err) == warns


def test_scripts_can_be_switched_off(tmp_path: Path) -> None:
    file = tmp_path / "agent.toml"
    service = '[services]\ncommand = ["systemctl", "{verb}", "{service}"]\nallowed = ["web"]\n'
    file.write_text(f"script = false\n{service}")
    assert [*kinds(load(file))] == [
        "service.restart", "service.start", "service.stop", "test/fail", "test/loop", "test/success"
    ]  # fmt: skip
    file.write_text("script = false\ndeployments = true\n")
    with pytest.raises(BadSettings, match="software deployments are scripts"):
        check(load(file))
