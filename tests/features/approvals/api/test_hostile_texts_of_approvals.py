"""Control characters and marks of direction in each field that the commands print."""

import csv
import io
import json
from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.features.approvals.store.store import ApprovalStore
from heatlite.wiring import Embedded
from tests.api.conftest import Heat, template
from tests.api.test_hostile_texts import FORMULA, HOSTILE, NEVER, OURS, Person, Terminal, terminal

from .test_approvals import THING, policy

__all__ = ["terminal"]

FIELDS = ("stack_name", "resource", "requested_by", "decided_by", "reason", "because", "nodes")
"""Those that hold a text of a user."""


def asked(heat: Heat) -> dict[str, Any]:
    """Have an update with hostile names and values wait. Returns the approval."""
    path = heat.create(template(**{f"r{HOSTILE}": THING, FORMULA: THING}))
    policy(heat, approve="removals")
    made = template(**{f"n{HOSTILE}": {"type": "OS::Heat::TestResource", "properties": {"value": HOSTILE}}})
    heat.call("PUT", f"{path}?approval=wait", {"template": made}, code=202)
    found: dict[str, Any] = heat.get("/approvals?state=PENDING")["approvals"][0]
    return found


def clean(person: Person, *words: str) -> str:
    shown = OURS.sub("", person.on(Terminal, *words))
    found = NEVER.search(shown)
    assert found is None, f"{words}: {shown[max(0, found.start() - 30) :][:60]!r}"
    return shown


@pytest.mark.slow
@pytest.mark.parametrize("word", ["approve", "reject"])
def test_a_terminal_shows_them_clean(heat: Heat, word: str) -> None:
    person, found = Person(heat), asked(heat)
    for words in (["list"], ["list", "-o", "wide"], ["show", found["id"]]):
        clean(person, "approval", *words)
    assert "x]0;t" not in clean(person, "approval", "show", found["id"])
    clean(person, "approval", word, found["id"], "--reason", HOSTILE, *(["-y"] if word == "approve" else []))
    clean(person, "approval", "show", found["id"])
    clean(person, "explain", "s")
    clean(person, "history", "s")


def test_each_field(server: Embedded, heat: Heat) -> None:
    """Names of users and nodes, too, which other features and Keystone give."""
    found = asked(heat)
    rows = server.store.of(ApprovalStore)
    record = rows.get(found["id"])
    assert record is not None
    texts: dict[str, Any] = dict.fromkeys(FIELDS, HOSTILE) | {"because": (HOSTILE,), "nodes": (HOSTILE,)}
    formulas = {name: (FORMULA,) if name in ("because", "nodes") else FORMULA for name in FIELDS}
    with server.store.transaction():
        rows.move(record, replace(record, **texts))
    person = Person(heat)
    for words in (["list", "-o", "wide"], ["list"], ["show", found["id"]]):
        clean(person, "approval", *words)
    with server.store.transaction():
        rows.move(record, replace(record, **formulas))
    table = person.on(io.StringIO, "approval", "list", "-f", "csv", *(f"-c{name}" for name in FIELDS[:3]))
    (row,) = [*csv.reader(io.StringIO(table))][1:]
    assert not [cell for cell in row if cell.startswith("=")]
    shown = json.loads(person.on(io.StringIO, "approval", "show", found["id"], "-f", "json"))
    assert shown["reason"] == FORMULA
