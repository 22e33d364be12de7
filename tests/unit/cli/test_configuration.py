"""Contexts, unknown variables, settings in use, proxies and completion."""

import fcntl
import json
import os
import pty
import socket
import subprocess
import sys
import time
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from threading import Thread

import pytest

from heatlite.__main__ import Program, main
from heatlite.cli.errors import CommandError
from heatlite.cli.transport import HTTPTransport
from heatlite.core.config import Settings, unknown_variables

CONTEXTS = """
default = "lab"
[lab]
endpoint = "http://127.0.0.1:1"
[prod]
endpoint = "http://127.0.0.1:2"
token = "sesame"
"""


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user with two contexts."""
    for name in list(os.environ):
        if name.startswith(("OS_", "HEATLITE_", "XDG_")) or name.lower().endswith("_proxy"):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    folder = tmp_path / ".config" / "heatlite"
    folder.mkdir(parents=True)
    (folder / "contexts.toml").write_text(CONTEXTS)
    (folder / "contexts.toml").chmod(0o600)
    return folder


@pytest.mark.parametrize(
    ("words", "variables", "code", "told"),
    [
        ("ls", {}, 1, "No server answers at http://127.0.0.1:1."),
        ("ls --context prod", {}, 1, "No server answers at http://127.0.0.1:2."),
        ("ls", {"HEATLITE_CONTEXT": "prod"}, 1, "No server answers at http://127.0.0.1:2."),
        ("ls --endpoint http://127.0.0.1:3", {}, 1, "No server answers at http://127.0.0.1:3."),
        ("ls", {"HEATLITE_ENDPOINT": "http://127.0.0.1:4"}, 1, "No server answers at http://127.0.0.1:4."),
        ("ls --context prd", {}, 2, "There is no context 'prd' in "),
        ("ls --context prod --endpoint http://127.0.0.1:3", {}, 2, "Both the context prod and an endpoint are given."),
    ],
)
def test_the_server_of_a_command(
    home: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    words: str,
    variables: dict[str, str],
    code: int,
    told: str,
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert main(words.split()) == code
    assert told in capsys.readouterr().err


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("[a]\nendpont = 'x'\n", "[a] has no key endpont; there are: endpoint, project,"),
        ("a = 1\n", "a has to be a table with texts: [a]."),
        ("default = 'b'\n[a]\n", "the default context 'b' is not there; there are: a."),
        ("[a\n", "not valid TOML"),
    ],
)
def test_a_wrong_file_of_contexts(home: Path, capsys: pytest.CaptureFixture[str], text: str, told: str) -> None:
    (home / "contexts.toml").write_text(text)
    assert main(["ls"]) == 2
    assert told in capsys.readouterr().err


def test_secrets_in_a_readable_file_are_refused(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (home / "contexts.toml").chmod(0o644)
    assert main(["ls"]) == 2
    assert "other users may read the secrets in it: chmod 600" in capsys.readouterr().err


def test_the_settings_in_use(home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("HEATLITE_PORT", "8100")
    monkeypatch.setenv("HEATLITE_PROT", "1")
    assert main(["config", "show", "--context", "prod", "-f", "csv"]) == 0
    out, err = capsys.readouterr()
    lines = out.splitlines()
    assert "port,8100,environment" in lines and "host,127.0.0.1,default" in lines
    assert "token,(set),environment" in lines and "sesame" not in out
    assert err == "heatlite: warning: HEATLITE_PROT is set, but there is no such setting; did you mean HEATLITE_PORT?\n"
    assert main(["config", "contexts", "-f", "value", "-c", "name", "-c", "in_use"]) == 0
    assert capsys.readouterr().out == "lab true\nprod false\n"


def test_variables_that_are_no_settings() -> None:
    known = {"HEATLITE_KEYSTONE_AUTH_URL": "", "HEATLITE_ENDPOINT": "", "HEATLITE_TEST_X": "", "PATH": ""}
    assert unknown_variables(list, {**known, "HEATLITE_ZZZZ": "", "HEATLITE_DATABSE": ""}) == {
        "HEATLITE_DATABSE": "HEATLITE_DATABASE", "HEATLITE_ZZZZ": None,
    }  # fmt: skip


class Proxy(BaseHTTPRequestHandler):
    """A proxy that answers itself."""

    def do_GET(self) -> None:
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(f'"{self.path}"'.encode())

    def log_message(self, *_: object) -> None:
        """Print nothing."""


def test_a_proxy_is_used_except_for_this_machine(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server here may listen on all addresses. A proxy would get its credentials."""
    with HTTPServer(("127.0.0.1", 0), Proxy) as proxy:
        Thread(target=proxy.serve_forever, args=(0.01,), daemon=True).start()
        monkeypatch.setenv("http_proxy", f"http://127.0.0.1:{proxy.server_port}")
        answer = HTTPTransport("http://heat.invalid:8004").request("GET", "/v1/")
        assert answer.data == "http://heat.invalid:8004/v1/"
        with pytest.raises(CommandError, match="No server answers at"):
            HTTPTransport("http://127.0.0.1:1").request("GET", "/v1/")
        taken = socket.create_server(("0.0.0.0", 0))
        lock = tmp_path / "heatlite.db.engine"
        url = f"http://0.0.0.0:{taken.getsockname()[1]}"
        taken.close()
        lock.write_text(json.dumps({"pid": 1, "url": url}))
        with lock.open() as held:
            fcntl.flock(held, fcntl.LOCK_EX)
            with pytest.raises(CommandError, match=f"No server answers at {url}"):
                Program().connect(Settings(f"sqlite:///{tmp_path}/heatlite.db"), True).request("GET", "/v1/")
        proxy.shutdown()


def test_a_wrong_file_of_authorities() -> None:
    with pytest.raises(CommandError, match="--cacert /nowhere: no certificates can be read"):
        HTTPTransport("https://heat.invalid", authority="/nowhere")


@pytest.mark.slow
def test_names_are_completed(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    environ = {
        "HOME": str(tmp_path), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_IFS": " ", "_ARGCOMPLETE_STDOUT_FILENAME": "found",
        "COMP_LINE": "heatlite unl", "COMP_POINT": "12",
    }  # fmt: skip
    command = [sys.executable, "-c", "from heatlite.__main__ import main; main()"]
    root = str(Path(__file__).parents[3])
    done = subprocess.run(
        command, cwd=tmp_path, env={**environ, "PYTHONPATH": root}, capture_output=True, text=True, check=False
    )
    assert (tmp_path / "found").read_text().split() == ["unlock"], done.stderr


@pytest.mark.slow
def test_a_shell_waits_neither_for_a_password_nor_for_a_silent_server(home: Path, tmp_path: Path) -> None:
    pytest.importorskip("argcomplete")
    terminal, inside = pty.openpty()
    with socket.create_server(("127.0.0.1", 0)) as silent:
        environ = {
            "HOME": str(tmp_path), "_ARGCOMPLETE": "1", "_ARGCOMPLETE_STDOUT_FILENAME": "found",
            "COMP_LINE": "heatlite show w", "COMP_POINT": "15", "PYTHONPATH": str(Path(__file__).parents[3]),
            "HEATLITE_ENDPOINT": f"http://127.0.0.1:{silent.getsockname()[1]}",
        }  # fmt: skip
        for more in ({"HEATLITE_USERNAME": "mia"}, {}):
            began = time.monotonic()
            subprocess.run(
                [sys.executable, "-m", "heatlite"],
                cwd=tmp_path,
                env={**environ, **more},
                stdin=inside,
                start_new_session=True,
                timeout=240,
                check=True,
            )
            assert time.monotonic() - began < 100, "a command would wait for two minutes"
            assert (tmp_path / "found").read_text() == ""
    os.close(terminal)
    os.close(inside)


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_code_for_a_shell(shell: str, capsys: pytest.CaptureFixture[str]) -> None:
    pytest.importorskip("argcomplete")
    assert main(["completion", shell]) == 0
    assert "heatlite" in capsys.readouterr().out
