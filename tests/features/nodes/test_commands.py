"""`heatlite node …` over the real API."""

import json
import time
from pathlib import Path

import pytest
from msgspec.structs import replace

from heatlite.cli.main import run
from heatlite.features.nodes.states import NodeActionState, NodeState
from heatlite.features.nodes.store.store import NodeStore
from tests.api.conftest import template, value
from tests.commands import every_command
from tests.features.nodes.registered_nodes import registered
from tests.tables import few, table

from .conftest import Here


@pytest.mark.slow
def test_from_asking_to_the_end(node: Here, capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    site = node.site
    (tmp_path / "fix.sh").write_text("echo $who\n")
    assert node(f"run s a --script {tmp_path / 'fix.sh'} --arg who=mia --args", '{"outputs": ["o"]}') == 0
    shown = capsys.readouterr()
    (action,) = site.store.of(NodeStore).node_actions.page(site.heat.project)
    assert action.args == {"config": "echo $who\n", "inputs": {"who": "mia"}, "outputs": ["o"]}
    assert shown.out == f"{action.id} script on a: PENDING_APPROVE\n"
    assert f"heatlite node approve {action.id}" in shown.err

    assert node("run s b test/success --granted --arg n=1") == 0
    granted = site.store.of(NodeStore).node_actions.page(site.heat.project)[0]
    assert (granted.state, granted.args) == (NodeActionState.PENDING_SCHEDULE, {"n": "1"})
    assert node(f"approve {granted.id} {action.id} nobody") == 1
    shown = capsys.readouterr()
    assert shown.out.splitlines()[-1] == f"{action.id} script on a: PENDING_SCHEDULE"
    assert "only what is PENDING_APPROVE can be approved. (HTTP 400)" in shown.err
    assert "nobody: The Node action (nobody) could not be found. (HTTP 404)" in shown.err

    with site.store.transaction():
        site.ledger.record([replace(site.now(action), state=NodeActionState.RUNNING, sent_at=1.0)])
    assert node(f"wait {action.id} --timeout 0.01") == 124
    assert node(f"cancel {action.id} {granted.id}") == 0
    shown = capsys.readouterr()
    assert f"{granted.id} test/success on b: CANCELLED" in shown.out
    assert "The agent was asked to cancel it." in shown.err
    with site.store.transaction():
        ended = replace(site.now(action), state=NodeActionState.CANCELLED, error="ended by TERM")
        site.ledger.record([ended])
    assert run(["events", "s", "--project", site.heat.project], node) == 0  # type: ignore[arg-type]
    told = [line.partition(" [")[2] for line in capsys.readouterr().out.splitlines() if " [s.a]: NODE" in line]
    assert told == [
        "s.a]: NODE_ACTION_PENDING_APPROVE  script",
        "s.a]: NODE_ACTION_PENDING_SCHEDULE  script",
        "s.a]: NODE_ACTION_RUNNING  script",
        "s.a]: NODE_ACTION_CANCELLED  script: ended by TERM",
    ]
    assert node(f"wait {action.id}") == 1
    assert capsys.readouterr().out == f"{action.id} script on a: CANCELLED  ended by TERM\n"

    found = site.store.of(NodeStore).orchestrations.get(site.stack.id)
    assert found is not None
    assert node("orchestrate s") == 0
    again = site.store.of(NodeStore).orchestrations.get(site.stack.id)
    assert again is not None and again.nudges == found.nudges + 1
    assert capsys.readouterr().out == ""

    assert node("actions s --sort node -f value -c node -c state") == 0
    assert capsys.readouterr().out == "a CANCELLED\nb CANCELLED\n"
    assert node("actions --node b --limit 1 -f json") == 0
    assert [one["id"] for one in json.loads(capsys.readouterr().out)] == [granted.id]
    assert node(f"show {action.id} --history -f value -c state -c user") == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["PENDING_APPROVE anonymous", "PENDING_SCHEDULE anonymous"]


@pytest.mark.slow
def test_nodes_are_listed_by_name(node: Here, capsys: pytest.CaptureFixture[str]) -> None:
    path = node.site.heat.create(template(z=value(), a=value(depends_on="z")), name="t")
    stack = node.site.store.stacks.get(path.rpartition("/")[2])
    assert stack is not None
    for name in ("z", "a"):
        registered(node.site.store, stack, name)
    assert node("list t -f value -c name") == 0
    assert capsys.readouterr().out == "a\nz\n"


def test_a_list_of_nodes_says_why_work_waits(node: Here, capsys: pytest.CaptureFixture[str]) -> None:
    store, root = node.site.store, node.site.stack.id
    with store.transaction():
        store.of(NodeStore).orchestrations.nudge(root, 1.0)
        silent = replace(node.site.nodes["b"], state=NodeState.UNREACHABLE, reason="no route")
        store.of(NodeStore).nodes.save_many([silent])
    found = store.of(NodeStore).orchestrations.get(root)
    assert found is not None
    errors = {"a": "its resource is CHECK_FAILED: it gets no work", "b": "no route"}
    with store.transaction():
        later = time.time() + 86_400  # the server's own engine would contact the nodes
        store.of(NodeStore).orchestrations.finish(found, 2.0, later, {"errors": errors, "held_by": ["4f1c"]})
    assert node("list s -f value -c name -c reason") == 0
    shown = capsys.readouterr()
    assert shown.out == "a its resource is CHECK_FAILED: it gets no work\nb no route\n"
    assert shown.err == "Work waits for a stack action: heatlite action show 4f1c\n"


@pytest.mark.parametrize(
    ("line", "code", "text"),
    few(
        [
            ("run s a", 2, "Give a KIND, or a file with --script"),
            ("run s a script --arg word", 2, "--arg word: must be NAME=VALUE"),
            ("run s a script --args [1]", 2, "--args must be a JSON object"),
            ("run s a script --args {", 2, "--args is not JSON"),
            ("run s a --script /nowhere", 2, "/nowhere: cannot be read"),
            ("run s nowhere script", 1, "The Node (nowhere) could not be found in stack s"),
            ("token s a", 1, "its metadata has no heatlite_agent"),
        ]
    ),
)
def test_what_is_wrong_is_said(node: Here, capsys: pytest.CaptureFixture[str], line: str, code: int, text: str) -> None:
    assert node(line) == code
    assert text in capsys.readouterr().err
    assert node.site.store.of(NodeStore).node_actions.page(node.site.heat.project) == []


@pytest.mark.slow
@table(
    "line",
    [
        "node list story -f json",
        "node actions story --state PENDING_APPROVE,NEW --node db --kind script --requester user --sort state:desc",
        "node actions --run 1a --limit 0",
        "node show 1a2b --history",
        "node run story db service.restart --arg service=web --args {} --granted --id 1a2b",
        "node run story db --script fix.sh",
        "node approve 1a 2b 3c",
        "node orchestrate story",
        "node wait 1a2b --timeout 0.5",
        "node token story db",
    ],
)
def test_command_lines_are_understood(line: str) -> None:
    assert callable(every_command().parse_args(line.split()).run)
