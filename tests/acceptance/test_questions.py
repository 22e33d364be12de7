"""Questions of commands, on a terminal and without one; and results for programs."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from .processes import Server
from .terminals import TEMPLATES, on_terminal

HELLO = str(TEMPLATES / "hello.yaml")
GROUP = """\
heat_template_version: 2021-04-16
resources:
  g: {type: OS::Heat::ResourceGroup, properties: {count: 2, resource_def: {type: OS::Heat::RandomString}}}
"""
NOTHING = "heatlite: Nothing was done."


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has never seen heatlite, with a stack that has a group."""
    for name in list(os.environ):
        if name.startswith(("OS_", "HEATLITE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    (tmp_path / "web.yaml").write_text(GROUP)
    return tmp_path


def piped(*words: str, **variables: str) -> tuple[int, str, str]:
    """Run a command without a terminal. Returns exit code, stdout and stderr."""
    done = subprocess.run(
        [sys.executable, "-m", "heatlite", *words],
        cwd=TEMPLATES.parent, env={**os.environ, **variables}, input="y\n", capture_output=True, text=True, check=False,
    )  # fmt: skip
    return done.returncode, done.stdout, done.stderr


@pytest.mark.slow
def test_each_question_on_a_terminal(home: Path) -> None:
    """It is asked, "n" does nothing, a pipe is refused, and "y" does it."""
    web, backup = str(home / "web.yaml"), str(home / "backup.db")
    Path(backup).touch()
    for words, question, effect in [
        (["up", web], "Do it? [y/N]", "web: CREATE_COMPLETE in "),
        (["group", "delete", "web", "g", "0"], "Delete 0 of g? [y/N]", "SUCCEEDED"),
        (["db", "backup", "--force", backup], "Backup with --force? [y/N]", f"Wrote {backup}."),
        (
            ["down", "--force", "web"],
            "Delete the stack web with 2 resources, and leave behind what cannot be deleted? [y/N]",
            "web: DELETE_COMPLETE in ",
        ),
    ]:
        code, shown = on_terminal(200, *words, answer="n")
        assert code == 1 and question in shown and NOTHING in shown and effect not in shown, shown
        code, out, err = piped(*words)
        assert (code, out) == (2, ""), words
        assert err.endswith("and there is no terminal to ask on. Give --yes to go on without a question.\n")
        code, shown = on_terminal(200, *words)
        assert code == 0 and question in shown and effect in shown, shown
    assert on_terminal(200, "ls")[1].startswith("No stacks in project default")


@pytest.mark.slow
def test_yes_asks_nothing(home: Path) -> None:
    code, shown = on_terminal(200, "up", "-y", str(home / "web.yaml"))
    assert code == 0 and "[y/N]" not in shown and "Plan:" not in shown
    code, shown = on_terminal(200, "down", "web", "-f", "json")
    assert code == 2 and shown.endswith("heatlite: The format json has no question: give --yes, too.\r\n")
    code, out, _ = piped("down", "-y", "web")
    assert code == 0 and "web: DELETE_COMPLETE in " in out


@pytest.mark.slow
def test_an_action_is_taken_from_its_worker_with_consent(home: Path, serve: Callable[..., Server]) -> None:
    endpoint = {"HEATLITE_ENDPOINT": serve().url}
    waiting = "{w: {type: OS::Heat::TestResource, properties: {wait_secs: 600}}}"
    (home / "slow.yaml").write_text(f"{{heat_template_version: 2021-04-16, resources: {waiting}}}")
    assert piped("up", "--yes", "--no-wait", str(home / "slow.yaml"), **endpoint)[0] == 0
    action = json.loads(piped("action", "list", "--action", "STACK_CREATE", "-f", "json", **endpoint)[1])[0]["id"]
    words = ("action", "signal", action, "cancel", "--force")
    code, shown = on_terminal(200, *words, answer="", **endpoint)
    assert code == 1 and f"Cancel {action}, even if a worker holds it? [y/N]" in shown and NOTHING in shown
    code, _, err = piped(*words, **endpoint)
    assert (code, err[:70]) == (2, "heatlite: --force takes the action from its worker, and there is no te")
    code, shown = on_terminal(200, *words, **endpoint)
    assert code == 0 and "CANCELLED" in shown, shown


@pytest.mark.slow
def test_a_retry_that_succeeds_is_told_to_programs(home: Path) -> None:
    (home / "net.yaml").write_text("{heat_template_version: 2021-04-16, resources: {net: {type: OS::Neutron::Net}}}")
    (home / "faults.yaml").write_text("faults: [{verb: network.create_network, raises: refused}]")
    cloud = {"HEATLITE_CLOUD": "simulated"}
    code, out, _ = piped("up", "-y", str(home / "net.yaml"), HEATLITE_SIMULATION=str(home / "faults.yaml"), **cloud)
    assert code == 1 and "net: CREATE_FAILED in " in out
    code, out, err = piped("retry", "net", "-f", "json", **cloud)
    assert code == 0, err
    *events, result = map(json.loads, out.splitlines())
    assert {event["type"] for event in events} == {"event"}
    assert events[-1]["resource_status"] == "CREATE_COMPLETE"
    assert (result["type"], result["stack_status"], result["counts"]) == ("result", "CREATE_COMPLETE", {"replaced": 1})


@pytest.mark.slow
def test_a_summary_counts_its_own_operation_only(home: Path) -> None:
    for words in (["up", "-y", str(home / "web.yaml")], ["group", "resize", "web", "g", "1"]):
        assert piped(*words)[0] == 0
    out = piped("up", "-y", str(home / "web.yaml"), "-f", "json")[1]
    assert json.loads(out.splitlines()[-1])["counts"] == {"unchanged": 2}
    for command in ("show", "resources"):
        told = "heatlite: The Stack (wbe) could not be found. Did you mean web? (HTTP 404)\n"
        assert piped(command, "wbe") == (1, "", told)
    assert piped("mark-unhealthy", "web", "g/0", "--reason", "disk")[1] == "web.g/0: CHECK_FAILED  disk\n"
