"""Playbooks: valid forms, and reports of problems."""

import pytest

from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded
from heatlite.features.nodes.playbook_text import NodeAttribute, Stage, read_playbook
from heatlite.template.source.loader import MAX_TEMPLATE_SIZE
from tests.tables import table

GOOD = """\
node_playbook: 2026-11-21
description: Restart the database
stages:
  - name: drain
    nodes: all
    action: {kind: script, args: {config: "drain"}}
  - name: restart
    nodes: {names: [b, a]}
    at_once: 2
    action: {kind: service.restart}
  - name: test
    nodes: {attribute: {name: [metadata, role], equals: {of: 1}}}
    at_once: all
    action: {kind: test/success}
"""


def test_it_is_read() -> None:
    playbook = read_playbook(GOOD)
    assert playbook.description == "Restart the database"
    assert playbook.stages == (
        Stage("drain", None, None, 1, "script", {"config": "drain"}),
        Stage("restart", ("b", "a"), None, 2, "service.restart", {}),
        Stage("test", None, NodeAttribute(("metadata", "role"), {"of": 1}), None, "test/success", {}),
    )


@table(
    ("old", "new", "message"),
    [
        ("2026-11-21", "2020-01-01", "node_playbook: must be one of: 2026-11-21. (line 1,"),
        ("description", "discription", "discription: unknown key discription; there are: node_playbook, description,"),
        ("at_once: 2", "at_once: 0", "stages[1].at_once: must be at least 1. (line 9,"),
        ("at_once: 2", "at_once: some", "stages[1].at_once: must be one of: all. (line 9,"),
        ("nodes: all", "nodes: any", "stages[0].nodes: must be one of: all. (line 5,"),
        ("nodes: all\n", "nodes: {}\n", "stages[0].nodes: needs at least 1 entry. (line 5,"),
        ("[b, a]", "[b, b]", "stages[1].nodes.names: names something twice. (line 8,"),
        ("[b, a]", "[]", "stages[1].nodes.names: needs at least 1 entry. (line 8,"),
        (", equals: {of: 1}", "", "stages[2].nodes.attribute: needs equals. (line 12,"),
        ("kind: script, ", "", "stages[0].action: needs kind. (line 6,"),
        ("name: test", "name: drain", "stages[2].name: there is a stage drain before. (line 11,"),
        ("    at_once: 2", "    name: again", "stages[1].name: stands there twice. (line 9,"),
    ],
)
def test_what_is_wrong_has_a_place(old: str, new: str, message: str) -> None:
    with pytest.raises(HTTPBadRequest) as raised:
        read_playbook(GOOD.replace(old, new, 1))
    assert raised.value.message.startswith(f"Playbook not valid: {message}")
    assert raised.value.problems[0].line > 0


def test_all_that_is_wrong_is_told() -> None:
    with pytest.raises(HTTPBadRequest) as raised:
        read_playbook(GOOD.replace("at_once: 2", "at_once: 0").replace("kind: test/success", "sort: test"))
    found = {problem.where for problem in raised.value.problems}
    assert found == {"stages[1].at_once", "stages[2].action", "stages[2].action.sort"}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("stages: [", "Playbook not in valid format: Error parsing playbook"),
        ("- a", "The playbook is not a JSON object or YAML mapping"),
        ("a: &a [*a]", "Playbook not in valid format"),
    ],
)
def test_what_is_no_playbook_at_all(text: str, message: str) -> None:
    with pytest.raises(HTTPBadRequest, match=message):
        read_playbook(text)


def test_missing_keys_are_named_once() -> None:
    with pytest.raises(HTTPBadRequest) as raised:
        read_playbook("description: nothing")
    assert [problem.text for problem in raised.value.problems] == ["Playbook not valid: needs node_playbook, stages."]


def test_it_has_a_limit() -> None:
    with pytest.raises(RequestLimitExceeded):
        read_playbook("#" * (MAX_TEMPLATE_SIZE + 1))
