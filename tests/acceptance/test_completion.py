"""Completion in real shells: commands, stacks, resources, contexts."""

import os
import pty
import re
import select
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from pathlib import Path

import pytest

from heatlite.__main__ import main

pytest.importorskip("argcomplete")

TEMPLATES = Path(__file__).parents[2] / "templates"
GROUP = """
heat_template_version: 2021-04-16
resources:
  members:
    type: OS::Heat::ResourceGroup
    properties: {count: 2, resource_def: {type: OS::Heat::None}}
"""


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Mapping[str, str]:
    """A user with two stacks and a context, and `heatlite` on the PATH."""
    for name in list(os.environ):
        if name.startswith(("OS_", "HEATLITE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "grouped.yaml").write_text(GROUP)
    assert main(["up", "--yes", str(TEMPLATES / "hello.yaml")]) == 0
    assert main(["up", "--yes", str(tmp_path / "grouped.yaml")]) == 0
    settings = tmp_path / ".config" / "heatlite"
    settings.mkdir(parents=True)
    (settings / "contexts.toml").write_text("[laboratory]\nendpoint = 'http://127.0.0.1:9'\n")
    program = tmp_path / "bin" / "heatlite"
    program.parent.mkdir()
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -m heatlite "$@"\n')
    program.chmod(0o755)
    monkeypatch.chdir(TEMPLATES.parent)
    return {**os.environ, "PATH": f"{program.parent}:{os.environ['PATH']}", "TERM": "dumb", "PS1": "> "}


class Shell:
    """An interactive shell on a terminal."""

    def __init__(self, command: list[str], environ: Mapping[str, str]) -> None:
        pid, self._terminal = pty.fork()
        if pid == 0:
            os.execvpe(command[0], command, environ)
        self._pid = pid

    def type(self, keys: str, until: str) -> str:
        """Type keys; return the output when it matches. Fails without a match."""
        os.write(self._terminal, keys.encode())
        shown = ""
        end = time.monotonic() + 240
        while time.monotonic() < end:
            if select.select([self._terminal], [], [], 1)[0]:
                shown += os.read(self._terminal, 65536).decode(errors="replace")
            if re.search(until, shown):
                return shown
        pytest.fail(f"{keys!r} shows no {until!r}: {shown!r}")

    def close(self) -> None:
        """End the shell."""
        os.kill(self._pid, signal.SIGKILL)
        os.waitpid(self._pid, 0)
        os.close(self._terminal)


@pytest.fixture(params=["bash", "zsh"])
def shell(request: pytest.FixtureRequest, environ: Mapping[str, str]) -> Iterator[Shell]:
    program = shutil.which(request.param)
    if program is None:
        pytest.skip(f"{request.param} is not installed")
    begin = "--norc" if request.param == "bash" else "-f"
    load = "autoload -U compinit && compinit -u -D && " if request.param == "zsh" else ""
    with closing(Shell([program, begin, "-i"], environ)) as shell:
        shell.type(f"{load}eval \"$(heatlite completion {request.param})\" && echo rea''dy\n", "ready")
        yield shell


@pytest.mark.slow
def test_bash_and_zsh(shell: Shell) -> None:
    clear = "\x15"  # Ctrl-U
    shell.type("heatlite unl\t", r"heatlite unlock ")
    shell.type(f"{clear}heatlite show he\t", r"heatlite show hello ")
    every = r"(?s)(?=.*card)(?=.*greeting)(?=.*nothing).*secret"
    shown = shell.type(f"{clear}heatlite mark-unhealthy hello \t\t", every)
    assert "--reason" not in shown  # names come alone: options after a minus
    shell.type(f"{clear}heatlite mark-unhealthy grouped mem\t", r"grouped members")
    shell.type(f"{clear}heatlite mark-unhealthy grouped members/\t\t", r"(?s)(?=.*members/0).*members/1")
    shell.type(f"{clear}heatlite ls --context lab\t", r"--context laboratory ")
    shell.type(f"{clear}heatlite ls --unh\t", r"ls --unhealthy ")
    shell.type(f"{clear}heatlite up templates/hel\t", r"templates/hello\.yaml ")


@pytest.mark.slow
def test_fish(environ: Mapping[str, str]) -> None:
    program = shutil.which("fish")
    if program is None:
        pytest.skip("fish is not installed")

    def completed(line: str) -> list[str]:
        code = f"heatlite completion fish | source; complete -C '{line}'"
        run = subprocess.run([program, "-N", "-c", code], env=environ, capture_output=True, text=True, check=True)
        return [found.partition("\t")[0] for found in run.stdout.split("\n") if found.strip()]

    assert completed("heatlite unl") == ["unlock"]
    assert completed("heatlite show ") == ["grouped", "hello"]
    assert completed("heatlite mark-unhealthy hello ") == ["card", "greeting", "nothing", "secret"]
    assert completed("heatlite group delete grouped members ") == ["0", "1"]
    assert completed("heatlite ls --context l") == ["laboratory"]
    assert "templates/hello.yaml" in completed("heatlite up templates/hel")
