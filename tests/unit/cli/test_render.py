"""Texts on a terminal."""

import io
import sys

import pytest

from heatlite.cli.client import causes
from heatlite.cli.output.render import cell, folded, line, one, rows


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_a_terminal_gets_lines_broken_at_words(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "20")
    shown = "heatlite: stack one-two-three is locked\n  second line"
    assert folded(shown, Terminal(), 4) == "heatlite: stack\n    one-two-three is\n    locked\n  second line"


def test_a_word_wider_than_the_terminal_stays_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert folded("a 0123456789abcdef b", Terminal()) == "a\n0123456789abcdef\nb"


def test_a_pipe_gets_the_text_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "10")
    assert folded("a longer text than that", io.StringIO()) == "a longer text than that"


def test_a_cause_hides_its_consequences() -> None:
    own = {"resource_status_reason": "ValueError: no"}
    stopped = {"resource_status_reason": "CREATE aborted: another resource failed"}
    assert causes([stopped, own]) == [own]
    assert causes([stopped]) == [stopped]


def test_a_table_has_no_links_unless_they_are_asked_for(capsys: pytest.CaptureFixture[str]) -> None:
    item = {"name": "a", "links": [{"href": "http://localhost/", "rel": "self"}]}
    one(item, "table", ())
    assert capsys.readouterr().out == "name  a\n"
    one(item, "table", ("links",))
    one(item, "json", ())
    assert capsys.readouterr().out.count("http://localhost/") == 2


def test_a_table_has_a_line_for_each_object_of_a_field(capsys: pytest.CaptureFixture[str]) -> None:
    item = {"name": "a", "alerts": [{"key": "k1"}, {"key": "k2"}], "words": ["b", "c"], "none": []}
    one(item, "table", ())
    assert capsys.readouterr().out.splitlines() == [
        "name    a",
        'alerts  {"key": "k1"}',
        '        {"key": "k2"}',
        'words   ["b", "c"]',
        "none    []",
    ]
    one(item, "value", ("alerts",))
    assert capsys.readouterr().out == '[{"key": "k1"}, {"key": "k2"}]\n'


def test_a_terminal_gets_no_control_characters_of_others(monkeypatch: pytest.MonkeyPatch) -> None:
    given, shown = "swap \x1b]0;a\x07\x9b31m\n\tin rack 7", "swap \\x1b]0;a\\x07\\u009b31m\n\tin rack 7"
    monkeypatch.setenv("TERM", "dumb")
    for stream, meant in ((io.StringIO(), given), (Terminal(), shown)):
        monkeypatch.setattr(sys, "stdout", stream)
        assert (cell(given), folded(given, stream)) == (meant, meant)
        line(given, "red")
        assert stream.getvalue() == f"{meant}\n"


def test_a_text_that_looks_like_a_time_and_is_none_stays_as_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reasons and names come from other users, and from agents."""
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setattr(sys, "stdout", Terminal())
    rows([{"name": "a", "reason": "2026-13-45T99:99:99Z"}], ["name", "reason"], "table", ())
    assert "2026-13-45T99:99:99Z" in sys.stdout.getvalue()
