"""`heatlite user`, and what the command line proves itself with."""

import getpass
import sys
from base64 import b64decode
from collections.abc import Mapping
from pathlib import Path

import pytest

from heatlite.cli.errors import CommandError
from heatlite.cli.main import run
from heatlite.cli.transport import credentials
from heatlite.core.config import Settings
from tests.unit.cli.test_commands import Recorder


class Writer(Recorder):
    """Notes what is to be written."""

    def add_user(self, settings: Settings, user: str, password: str, projects: Mapping[str, frozenset[str]]) -> Path:
        self.added = (user, password, projects)
        return Path("users")

    def give_token(
        self, settings: Settings, user: str, projects: Mapping[str, frozenset[str]], expires: float | None
    ) -> str:
        self.given = (user, projects, expires)
        return "the-token"


@pytest.fixture
def terminal(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The text typed there."""
    typed: list[str] = []
    monkeypatch.setattr(sys.stdin, "isatty", lambda: True)
    monkeypatch.setattr(getpass, "getpass", lambda prompt: typed.pop(0))
    return typed


def test_a_password_is_asked_for_twice(terminal: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    host = Writer()
    terminal += ["sesame", "sesame", "sesame", "other"]
    assert run(["user", "add", "mia", "--project", "a=reader,member", "--project", "b"], host) == 0
    assert host.added == ("mia", "sesame", {"a": frozenset({"reader", "member"}), "b": frozenset({"member"})})
    host.added = None  # type: ignore[assignment]
    assert run(["user", "add", "mia"], host) == 1
    assert host.added is None
    shown = capsys.readouterr()
    assert "The passwords differ" in shown.err
    assert "sesame" not in shown.out + shown.err


def test_who_makes_an_administrator_is_told(capsys: pytest.CaptureFixture[str], terminal: list[str]) -> None:
    """The role is of one project by its form only."""
    for roles, told in (("member", False), ("reader,admin", True)):
        terminal += ["sesame", "sesame"]
        for words in (["user", "add", "eve"], ["user", "token", "eve"]):
            assert run([*words, "--project", f"p2={roles}"], Writer()) == 0
            assert ("eve is an administrator of all projects" in capsys.readouterr().err) == told


@pytest.mark.parametrize("project", ["=member", "a=", "a/b", "a=,"])
def test_projects_that_are_none(project: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(["user", "token", "ci", "--project", project], Writer()) == 2
    assert "PROJECT=ROLE,ROLE" in capsys.readouterr().err


def test_a_token_is_printed_and_nothing_else(capsys: pytest.CaptureFixture[str]) -> None:
    host = Writer()
    assert run(["user", "token", "ci", "--expires", "2999-01-01T00:00:00Z"], host) == 0
    assert capsys.readouterr().out == "the-token\n"
    assert host.given == ("ci", {"default": frozenset({"member"})}, 32472144000.0)


def test_what_proves_who_asks(terminal: list[str]) -> None:
    assert credentials(Settings(database="")) == {}
    assert credentials(Settings(database="", token="t", username="mia")) == {"X-Auth-Token": "t"}
    terminal.append("pä:ss")
    for settings in (Settings(database="", username="mia", password="pä:ss"), Settings(database="", username="mia")):
        scheme, _, pair = credentials(settings)["Authorization"].partition(" ")
        assert (scheme, b64decode(pair).decode()) == ("Basic", "mia:pä:ss")


def test_nobody_is_there_to_ask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stdin, "isatty", lambda: False)
    with pytest.raises(CommandError, match="HEATLITE_PASSWORD"):
        credentials(Settings(database="", username="mia"))
