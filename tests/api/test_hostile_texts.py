"""Marks of direction and control characters in texts of others, in every output."""

import csv
import io
import json
import re
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from heatlite.__main__ import Program
from heatlite.cli.main import run
from heatlite.cli.transport import ApiTransport, WSGITransport
from heatlite.core.config import Settings
from tests.commands import every_command

from .conftest import Heat, template, value

HOSTILE: Final = "\x1b[5na\u202eb\u2066c\u200bd\u2028e\u200ff\x1b]0;t\x07\x9b31m\x85g\x7fh\ufeff"
NEVER: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069\ufeff]")
OURS: Final = re.compile("\x1b\\[(?!5n)[0-9;?]*[A-Za-z]|\r")
"""Colours and moves of the cursor."""
FORMULA: Final = "=HYPERLINK(1)"

TEXTS_OF_NOBODY: Final = frozenset({
    "serve", "api", "worker", "db status", "db upgrade", "db backup", "db restore", "keys", "fsck", "user add",
    "user token", "env", "clouds", "config show", "config contexts", "completion", "init", "types", "schema",
    "services", "migrate plan", "migrate run", "migrate finish", "node agent",
})  # fmt: skip
"""Commands that show no text of another user."""


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def terminal(heat: Heat, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = {"HOME": str(tmp_path), "HEATLITE_PROJECT": heat.project, "TERM": "xterm", "COLUMNS": "100"}
    for name, set_to in settings.items():
        monkeypatch.setenv(name, set_to)
    monkeypatch.chdir(tmp_path)


class Person(Program):
    """Runs command lines; gives what they show."""

    def __init__(self, heat: Heat) -> None:
        super().__init__()
        self._heat = heat

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        return WSGITransport(self._heat.wsgi)

    def on(self, stream: type[io.StringIO], *words: str) -> str:
        out, before = stream(), (sys.stdout, sys.stderr)
        sys.stdout = sys.stderr = out
        try:
            run(words, self)
        except SystemExit as error:
            raise AssertionError(f"{words}: {out.getvalue()}") from error
        finally:
            sys.stdout, sys.stderr = before
        return out.getvalue()


def hostile_stack(heat: Heat, name: str = "s", **more: Any) -> str:
    group = {
        "type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value(HOSTILE)},
    }  # fmt: skip
    broken = {
        "type": "OS::Heat::TestResource", "properties": {"fail": True, "value": HOSTILE, "action_wait_secs": {}},
    }  # fmt: skip
    made = template(**{f"r{HOSTILE}": value(HOSTILE), "plain": value(FORMULA), "group": group, **more})
    made["parameters"] = {"p": {"type": "string", "default": "x", "description": HOSTILE, "label": HOSTILE}}
    made["outputs"] = {
        f"o{HOSTILE}": {"value": HOSTILE, "description": HOSTILE},
        "formula": {"value": FORMULA}, "number": {"value": "-5"},
    }  # fmt: skip
    Path("s.yaml").write_text(json.dumps(made))
    Path("broken.yaml").write_text(json.dumps(template(**{f"r{HOSTILE}": broken})))
    return heat.create(made, name, tags=HOSTILE, parameters={"p": HOSTILE})


PLAYBOOK: Final = "name: deploy\nstages:\n- name: one\n  hosts: all\n  action: script\n"
LINES: Final[Sequence[Sequence[str]]] = [
    ["ls"], ["show", "s"], ["explain", "s"], ["resources", "s", "--nested", "2"], ["resources", "s", "-o", "wide"],
    ["find", HOSTILE], ["outputs", "s"], ["events", "s"], ["history", "s"], ["history", "s", "--diff", "1", "1"],
    ["undo", "s", "-y"], ["validate", "s.yaml"],
    ["plan", "broken.yaml", "-n", "s"], ["plan", "s.yaml", "-n", "other", "-P", f"p={HOSTILE}"],
    ["mark-unhealthy", "s", "plain", "--reason", HOSTILE], ["resources", "s"], ["show", "s"], ["explain", "s"],
    ["health", "show", "s"], ["incident", "list"], ["incident", "show", HOSTILE], ["incident", "approve", HOSTILE],
    ["incident", "close", HOSTILE], ["healing", "show", "s"], ["healing", "list"], ["healing", "off", "s"],
    ["readers", "s"], ["refresh", "s", HOSTILE, "-y"], ["end-bake", "s", "--reason", HOSTILE],
    ["approval", "list", "--stack", HOSTILE], ["approval", "show", HOSTILE], ["approval", "reject", HOSTILE],
    ["approval", "approve", HOSTILE, "-y"],
    ["change-policy", "show", "s"], ["change-policy", "set", HOSTILE, "s"], ["change-policy", "off", "s", "-y"],
    ["healing", "set", "s", HOSTILE], ["healing", "acknowledge", "s", HOSTILE],
    ["schedule", "add", "s", HOSTILE, "resize", HOSTILE, "--cron", HOSTILE, "--timezone", HOSTILE],
    ["schedule", "list", "s"], ["schedule", "show", "s", HOSTILE], ["schedule", "pause", "s", HOSTILE],
    ["schedule", "unpause", "s", HOSTILE], ["schedule", "remove", "s", HOSTILE],
    ["expire", "s", "never"], ["drift", "show", "s"], ["drift", "revert", "s", "-y"],
    ["drift", "accept", "s", "-y"], ["import", "s", f"{HOSTILE}={HOSTILE}", "-y"], ["detach", "s", HOSTILE, "-y"],
    ["move", "s", HOSTILE, HOSTILE, "-y"],
    ["mark-healthy", "s", "plain", "--reason", HOSTILE], ["check", "s"], ["protect", "s", "plain", "--reason", HOSTILE],
    ["unprotect", "s", "plain"], ["protect", "s", "--reason", HOSTILE], ["unprotect", "s"],
    ["lock", "s", "--reason", HOSTILE, "-y"], ["lock-status", "s"], ["up", "broken.yaml", "-n", "s", "-y"],
    ["explain", "s"], ["down", "s", "-y"], ["lock-status", "s"], ["unlock", "s"], ["rotate-keys", "s"],
    ["group", "scale-out", "s", f"r{HOSTILE}"], ["group", "scale-in", "s", f"r{HOSTILE}"],
    ["group", "resize", "s", f"r{HOSTILE}", "2"], ["group", "replace", "s", f"r{HOSTILE}", "0"],
    ["group", "delete", "s", f"r{HOSTILE}", "0"], ["group", "leave", "s", f"r{HOSTILE}", HOSTILE, "-y"],
    ["group", "join", "s", f"r{HOSTILE}", HOSTILE, "-y"],
    *(["group", f"{verb}-policy", "s", f"r{HOSTILE}", HOSTILE, *more]
      for verb, more in (("attach", [HOSTILE]), ("update", ["--disable"]), ("detach", []))),
    ["member", "check", "s", f"r{HOSTILE}"],
    ["member", "recover", "s", f"r{HOSTILE}"], ["health", "source", "show", HOSTILE],
    ["health", "source", "put", HOSTILE, HOSTILE], ["health", "source", "acknowledge", HOSTILE],
    ["health", "token", "create", HOSTILE, "--source", HOSTILE], ["health", "token", "list"],
    ["health", "token", "delete", HOSTILE],
    ["node", "list", "s"], ["node", "actions", "s"], ["node", "run", "s", HOSTILE, "script"],
    ["node", "show", HOSTILE],
    ["node", "approve", HOSTILE], ["node", "reject", HOSTILE], ["node", "cancel", HOSTILE],
    ["node", "orchestrate", "s"],
    ["node", "wait", HOSTILE], ["node", "token", "s", HOSTILE], ["node", "playbook", "put", "playbook.yaml"],
    ["node", "playbook", "run", "s", HOSTILE], ["node", "playbook", "list"], ["node", "playbook", "show", HOSTILE],
    ["node", "playbook", "approve", HOSTILE], ["node", "playbook", "reject", HOSTILE],
    ["node", "playbook", "delete", HOSTILE], ["test", "trial.yaml"],
    ["migrate", "terraform", "hostile.tfstate", "--out", f"out{HOSTILE}"],
    ["up", "broken.yaml", "-n", "s", "-y"], ["show", "s"], ["explain", "s"], ["events", "s"], ["retry", "s"],
    ["heal", "s", "-y"], ["action", "list"], ["action", "show", HOSTILE], ["action", "signal", HOSTILE, "CANCEL"],
    ["action", "wait", HOSTILE], ["audit"], ["down", "s", "-y"],
]  # fmt: skip


@pytest.mark.slow
def test_a_terminal_shows_no_mark_of_direction_whatever_the_command(heat: Heat) -> None:
    hostile_stack(heat)
    Path("playbook.yaml").write_text(PLAYBOOK.replace("deploy", json.dumps(HOSTILE)))
    Path("trial.yaml").write_text(json.dumps({"template": "broken.yaml", "cases": [{"name": HOSTILE}]}))
    volume = {"attributes": {"id": "x", "size": 1}, "index_key": HOSTILE}
    disk = {"type": "openstack_blockstorage_volume_v3", "name": HOSTILE, "instances": [volume]}
    Path("hostile.tfstate").write_text(json.dumps({"version": 4, "resources": [disk, {**disk, "type": HOSTILE}]}))
    person = Person(heat)
    shown = {" ".join(words): person.on(Terminal, *words) for words in LINES}
    cleaned = {line: OURS.sub("", text) for line, text in shown.items()}
    bad = {line: found[0] for line, text in cleaned.items() if (found := re.search(f".{{,30}}{NEVER.pattern}", text))}
    assert bad == {}
    assert sum("\\u202e" in text for text in shown.values()) > 40
    names = {one.prog.partition(" ")[2] for one in every_command().below() if not one.commands}
    every = {name for name in names if any(line == name or line.startswith(f"{name} ") for line in shown)}
    assert names - every == TEXTS_OF_NOBODY & names


def test_the_formats_of_a_terminal_and_of_a_pipe(heat: Heat) -> None:
    hostile_stack(heat)
    person = Person(heat)
    shown = person.on(Terminal, "outputs", "s", "-f", "json")
    assert NEVER.search(shown) is None
    assert {one["output_key"]: one["output_value"] for one in json.loads(shown)}[f"o{HOSTILE}"] == HOSTILE
    assert NEVER.search(person.on(Terminal, "outputs", "s", "-f", "yaml")) is None
    piped = person.on(io.StringIO, "outputs", "s", "-f", "value", "-c", "output_value")
    assert HOSTILE in piped
    rows = [*csv.reader(io.StringIO(person.on(io.StringIO, "outputs", "s", "-f", "csv")))]
    cells = {row[0]: row for row in rows}
    assert f"'{FORMULA}" in cells["formula"] and "-5" in cells["number"]
    assert not any(cell.startswith(("=", "+", "@", "\t", "\r")) for row in rows for cell in row)
