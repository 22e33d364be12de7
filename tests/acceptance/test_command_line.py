"""The tutorial docs/tour.md without a server: each command runs its own engine."""

import io
import json
import os
import signal
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from functools import partial
from pathlib import Path

import pytest

from heatlite.__main__ import main

from .terminals import on_terminal

TEMPLATES = Path(__file__).parents[2] / "templates"
STORY = str(TEMPLATES / "maintenance-story.yaml")
UP = ["up", "--yes", STORY, "-n", "story", "-P", "boot_time=0"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A user who has never seen heatlite."""
    for name in list(os.environ):
        if name.startswith(("OS_", "HEATLITE_", "XDG_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    return tmp_path


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Run a command line; return its stdout, or its stderr if it was to fail."""

    def run(*words: str, code: int = 0) -> str:
        found = main(words)
        out, err = capsys.readouterr()
        assert found == code, out + err
        return err if code else out

    return run


def states(run: Callable[..., str], stack: str = "story") -> dict[str, str]:
    listed = json.loads(run("resources", stack, "-f", "json"))
    return {item["resource_name"]: item["resource_status"] for item in listed}


@pytest.mark.slow
def test_create_mark_replace(run: Callable[..., str]) -> None:
    plan = run("plan", STORY, "-n", "story")
    assert [line[:2] for line in plan.splitlines()[:-1] if line[0] != " "] == ["+ "] * 4
    assert plan.splitlines()[-1] == "Plan: 4 added, 0 updated, 0 replaced, 0 deleted, 0 unchanged."
    assert run("ls") == ""  # a plan does nothing

    out = run(*UP).splitlines()
    assert out[0].endswith("Z [story]: CREATE_IN_PROGRESS  Stack CREATE started")
    assert out[-4].endswith("Z [story]: CREATE_COMPLETE  Stack CREATE completed successfully")
    assert out[-3].endswith(": 4 added")
    assert out[-2].startswith('members = ["')
    assert out[-1].startswith("token = ")
    assert sum("CREATE_COMPLETE  state changed" in line for line in out) == 4
    before = json.loads(run("resources", "story", "-f", "json", "-c", "resource_name", "-c", "physical_resource_id"))

    assert run("mark-unhealthy", "story", "member_1", "--reason", "disk errors") == (
        "story.member_1: CHECK_FAILED  disk errors\n"
    )
    assert "± member_1  (OS::Heat::TestResource)  unhealthy: disk errors\n" in run("plan", *UP[2:])
    assert states(run)["member_1"] == "CHECK_FAILED"
    out = run(*UP).splitlines()
    assert "[story.member_1]: CREATE_COMPLETE" in "\n".join(out)
    assert "[story.member_2]" not in "\n".join(out)
    after = json.loads(run("resources", "story", "-f", "json", "-c", "resource_name", "-c", "physical_resource_id"))
    changed = [new["resource_name"] for old, new in zip(before, after, strict=True) if old != new]
    assert changed == ["member_1"]

    run("mark-unhealthy", "story", "member_2")
    assert run("mark-healthy", "story", "member_2", "--reason", "fixed") == "story.member_2: CHECK_COMPLETE  fixed\n"
    assert "1 replaced" not in run("plan", *UP[2:])


@pytest.mark.slow
def test_confirm_shows_the_plan_and_does_that_or_nothing(
    run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def write(text: str) -> str:
        lines = [
            "heat_template_version: 2021-04-16",
            "parameters: {secret: {type: string, hidden: true, default: hunter}}",
            "resources:",
            f"  a: {{type: OS::Heat::TestResource, properties: {{value: {text}, update_replace_value: {text}}}}}",
            "  b: {type: OS::Heat::Value, properties: {value: [{get_attr: [a, output]}, {get_param: secret}]}}",
        ]
        (tmp_path / "s.yaml").write_text("\n".join(lines))
        return str(tmp_path / "s.yaml")

    class Terminal(io.StringIO):
        def isatty(self) -> bool:
            return True

    def answer(text: str) -> None:
        monkeypatch.setattr(sys, "stdin", Terminal(text))

    assert run("up", write("one"), code=2) == (
        "heatlite: `up` changes a stack, and there is no terminal to ask on. Give --yes to go on without a question.\n"
    )
    assert run("plan", write("one"), "--detailed-exitcode", code=2) == ""
    answer("no\n")
    assert run("up", write("one"), code=1) == "Do it? [y/N] heatlite: Nothing was done.\n"
    assert run("ls") == ""
    answer("y\n")
    out = run("up", write("one"))
    assert out.startswith(
        "+ a  (OS::Heat::TestResource)\n    update_replace_value: one\n    value: one\n"
        '+ b  (OS::Heat::Value)\n    value: ["(known after the update)", "******"]\n'
        "Plan: 2 added, 0 updated, 0 replaced, 0 deleted, 0 unchanged.\n"
    )
    assert "CREATE_COMPLETE" in out
    answer("")
    assert run("up", write("two"), code=1).endswith("heatlite: Nothing was done.\n")
    answer("yes\n")
    out = run("up", write("two"))
    assert out.startswith(
        "± a  (OS::Heat::TestResource)  a property changed that cannot be changed in place\n"
        "    update_replace_value: one → two  (replaces)\n    value: one → two\n"
        "~ b  (OS::Heat::Value)  the definition changed\n"
        '    value: ["one", "******"] → ["(known after the update)", "******"]  (from a)\n'
        "Plan: 0 added, 1 updated, 1 replaced, 0 deleted, 0 unchanged.\n"
    )
    assert out.splitlines()[-1].startswith("s: UPDATE_COMPLETE in ")
    listed = json.loads(run("plan", write("two"), "-f", "json", "--detailed-exitcode"))
    assert [(item["change"], item["resource_name"]) for item in listed] == [("unchanged", "a"), ("unchanged", "b")]
    answer("")  # without changes there is no question
    assert "UPDATE_COMPLETE" in run("up", write("two"))
    answer("n\n")
    asked = run("down", "s", code=1)
    assert asked == "Delete the stack s with 2 resources? [y/N] heatlite: Nothing was done.\n"


@pytest.mark.slow
def test_results_for_programs(run: Callable[..., str], tmp_path: Path) -> None:
    def write(value: str) -> str:
        a = f"a: {{type: OS::Heat::TestResource, properties: {{update_replace_value: '{value}'}}}}"
        b = "b: {type: OS::Heat::TestResource, properties: {value: x}}"
        (tmp_path / "s.yaml").write_text(
            f"{{heat_template_version: 2021-04-16, resources: {{{a}, {b}}}, outputs: {{o: {{value: {value}}}}}}}"
        )
        return str(tmp_path / "s.yaml")

    def records(*words: str, code: int = 0) -> list[dict[str, object]]:
        main_out = run(*words, "-f", "json", code=code)
        return [json.loads(line) for line in main_out.splitlines()]

    *events, result = records("up", "-y", write("1"))
    assert {event["type"] for event in events} == {"event"} and events[0]["stack_name"] == "s"
    assert (result["type"], result["stack_status"], result["outputs"]) == ("result", "CREATE_COMPLETE", {"o": 1})
    assert result["counts"] == {"added": 2}
    assert records("up", "-y", write("2"))[-1]["counts"] == {"replaced": 1, "unchanged": 1}
    assert records("check", "s")[-1]["stack_status"] == "CHECK_COMPLETE"
    assert "needs a running server" in run("down", "-y", "s", "--no-wait", code=2)
    *_, result = records("down", "-y", "s")
    assert (result["stack_status"], result["counts"]) == ("DELETE_COMPLETE", {"deleted": 2})


@pytest.mark.slow
def test_a_bad_template_is_told_whole(run: Callable[..., str], tmp_path: Path) -> None:
    lines = ["heat_template_version: 2021-04-16", "resources:", "  a: {type: No::Such}", "  b: {type: No::Other}"]
    (tmp_path / "bad.yaml").write_text("\n".join(lines))
    for command in (("up", "-y"), ("plan",)):
        message = run(*command, str(tmp_path / "bad.yaml"), code=1)
        first, second = message.splitlines()
        assert first.startswith(f"heatlite: {tmp_path}/bad.yaml:3:")
        assert "The Resource Type (No::Such) could not be found." in first
        assert second.startswith(f"{tmp_path}/bad.yaml:4:") and second.endswith("(HTTP 400)")


@pytest.mark.slow
def test_warnings_come_before_the_question(
    run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "w.yaml"
    value = "resources: {a: {type: OS::Heat::Value, properties: {value: {get_parm: name}}}}"
    file.write_text(f"heat_template_version: 2021-04-16\n{value}\n")
    warning = f'{file}:2:61: warning: "get_parm" is no function, so the map is taken as data.'
    warning += " (if a function is meant: get_param)\n"
    assert run("plan", str(file), "--detailed-exitcode", code=2) == warning
    stdin = io.StringIO("no\n")
    monkeypatch.setattr(stdin, "isatty", lambda: True)
    monkeypatch.setattr(sys, "stdin", stdin)
    assert run("up", str(file), code=1) == f"{warning}Do it? [y/N] heatlite: Nothing was done.\n"


@pytest.mark.slow
def test_very_many_errors_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "many.yaml"
    lines = [f"  r{i}: {{type: OS::Heat::Nope{i}}}" for i in range(60)]
    file.write_text("\n".join(["heat_template_version: 2021-04-16", "resources:", *lines]))
    for command in ("validate", "plan", "up -y"):
        assert main([*command.split(), str(file)]) == 1
        shown = "".join(capsys.readouterr())
        assert len([line for line in shown.splitlines() if ": error: " in line]) == 40
        assert "20 more: heatlite validate --format json lists all" in shown


@pytest.mark.slow
def test_all_that_the_cloud_does_not_have_is_told_with_its_place(run: Callable[..., str], tmp_path: Path) -> None:
    files = {
        "bad.yaml": [
            "heat_template_version: 2021-04-16",
            "parameters:",
            "  image: {type: string, constraints: [{custom_constraint: glance.image}]}",
            "  flavor: {type: string, default: none, constraints: [{custom_constraint: nova.flavor}]}",
            "  key: {type: string, constraints: [{custom_constraint: nova.keypair}]}",
            "resources:",
            "  a.b:",
            "    type: OS::Neutron::Port",
            "    properties:",
            "      network: none",
            "      fixed_ips:",
            "      - {subnet: none}",
            "  disk: {type: OS::Cinder::Volume, properties: {size: 0, image: none}}",
            "  nested: {type: n.yaml}",
        ],
        "n.yaml": [
            "heat_template_version: 2021-04-16",
            "resources:",
            "  ip: {type: OS::Neutron::FloatingIP, properties: {floating_network: none}}",
        ],
        "e.yaml": ["parameters:", "  image: none"],
    }
    for name, lines in files.items():
        (tmp_path / name).write_text("\n".join(lines))
    words = [f"{tmp_path}/bad.yaml", "-e", f"{tmp_path}/e.yaml", "-P", "key=none", "--cloud", "simulated"]
    for command in (("up", "-y"), ("plan",)):
        message = run(*command, *words, code=1).replace("The cloud is simulated: nothing in it is real.\n", "")
        told = [line.split(": error: ") for line in message.removeprefix("heatlite: ").splitlines()]
        assert [place.removeprefix(f"{tmp_path}/") for place, _ in told] == [
            "-P", "bad.yaml:4:26", "bad.yaml:10:7", "bad.yaml:12:10", "bad.yaml:13:49", "bad.yaml:13:58",
            "e.yaml:2:3", "n.yaml:3:52",
        ]  # fmt: skip
        assert sum("could not be found" in text for _, text in told) == 7


@pytest.mark.slow
def test_lock_refuses_and_lists_and_replays(run: Callable[..., str]) -> None:
    run(*UP)
    out = run("lock", "story", "--level", "stacks", "--reason", "disk swap", "--expires", "+2h")
    assert "[story]: LOCK_COMPLETE" in out
    for refused in (UP, ["mark-unhealthy", "story", "member_2"], ["down", "--yes", "story"]):
        message = run(*refused, code=1)
        assert "disk swap" in message
        assert "unlock" in message
        assert message.endswith("(HTTP 409)\n")
        assert message.count("\n") == 1
    assert "story" in run("ls")  # reads are free
    assert run("outputs", "story", "-f", "value", "-c", "output_key") == "members\ntoken\n"

    status = json.loads(run("lock-status", "story", "-f", "json"))
    assert (status["lock"]["level"], status["lock"]["reason"]) == ("stacks", "disk swap")
    entries = {entry["request"]: entry["id"] for entry in status["suppressed"]}
    assert entries.keys() == {"update", "mark_unhealthy", "delete"}
    shown = run("lock-status", "story")
    assert "disk swap" in shown
    assert f"Refused or ignored since {status['lock']['locked_at']} (--replay ID repeats it" in shown
    assert "before that" not in shown

    assert "[story]: UNLOCK_COMPLETE" in run("unlock", "story")
    shown = run("lock-status", "story")
    assert shown.startswith("story is not locked.\n\nRefused or ignored while it was locked (--replay ID")
    assert run("lock-status", "story", "--drop", entries["delete"]) == f"Dropped {entries['delete']}.\n"
    run("lock-status", "story", "--replay", entries["mark_unhealthy"])
    assert states(run)["member_2"] == "CHECK_FAILED"
    out = run("lock-status", "story", "--replay", entries["update"])
    assert "[story]: UPDATE_COMPLETE" in out
    assert json.loads(run("lock-status", "story", "-f", "json"))["suppressed"] == []


@pytest.mark.slow
def test_failures_are_reported(run: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "boom.yaml"
    path.write_text(
        "heat_template_version: 2018-08-31\n"
        "resources:\n"
        "  ok: {type: OS::Heat::RandomString}\n"
        "  boom: {type: OS::Heat::TestResource, properties: {fail: true}, depends_on: ok}\n"
    )
    failed = run("up", "--yes", str(path), code=1)
    assert failed.splitlines()[0] == "boom: CREATE_FAILED"
    assert failed.splitlines()[1].startswith("  boom (OS::Heat::TestResource): CREATE_FAILED  ValueError")
    assert failed.splitlines()[2:] == ["Continue with: heatlite retry boom"]

    failed = run("up", "--yes", str(path), "-n", "back", "--rollback", code=1)
    assert failed.splitlines()[0] == "back: ROLLBACK_COMPLETE"
    assert failed.splitlines()[1].startswith("  boom (OS::Heat::TestResource): CREATE_FAILED  ValueError")
    assert run("resources", "back") == ""

    again = run("retry", "boom", code=1)
    assert again.splitlines()[0] == "boom: CREATE_FAILED"
    assert "Stack back is ROLLBACK_COMPLETE: there is no failed create or update" in run("retry", "back", code=1)
    path.write_text(
        "heat_template_version: 2018-08-31\n"
        "resources:\n"
        "  kept: {type: OS::Heat::RandomString, deletion_policy: Retain}\n"
    )
    run("up", "--yes", str(path), "-n", "kept")
    out = run("down", "--yes", "--force", "kept")
    assert "DELETE_COMPLETE  Stack DELETE completed successfully. Left behind: kept (OS::Heat::RandomString, " in out

    assert run("down", "--yes", "nothing", code=1) == "heatlite: The Stack (nothing) could not be found. (HTTP 404)\n"
    unknown = run("up", "--yes", STORY, "-P", "size=1", code=1)
    assert unknown == "heatlite: -P: error: The Parameter (size) was not defined in template. (HTTP 400)\n"


@pytest.mark.slow
def test_the_state_of_a_stack_is_explained(run: Callable[..., str], tmp_path: Path) -> None:
    path = tmp_path / "s.yaml"
    path.write_text(
        "heat_template_version: 2018-08-31\n"
        "parameters: {p: {type: string, default: v}}\n"
        "resources:\n"
        "  ok: {type: OS::Heat::RandomString}\n"
        "  boom: {type: OS::Heat::TestResource, properties: {fail: true}, depends_on: ok}\n"
        "outputs: {o: {value: {get_param: p}}}\n"
    )
    run("up", "-y", str(path), code=1)
    shown = run("explain", "s")
    assert shown.startswith("s  CREATE_FAILED\n  boom (OS::Heat::TestResource) is CREATE_FAILED: ValueError")
    assert "\nNext:\n  heatlite retry s    continues where it has failed\n  heatlite up FILE -n s    updates" in shown
    run("mark-unhealthy", "s", "ok", "--reason", "disk errors")
    run("protect", "s", "--reason", "production")
    run("lock", "s", "--level", "stacks", "--reason", "rack 7")
    shown = run("show", "s")
    assert "locked (stacks) by anonymous since " in shown and ": rack 7\n" in shown
    assert "protected from deletion by anonymous: production\n" in shown
    assert "\nParameters:\n  p  v\n\nOutputs:\n  o  v\n\nResources: 2\n" in shown
    assert "heatlite unlock s    lifts the lock" in run("explain", "s")
    assert "There are none" not in run("resources", "s", "-o", "wide")


@pytest.mark.slow
def test_a_terminal_shows_the_plan_the_course_and_the_summary(tmp_path: Path) -> None:
    group = "{count: 2, resource_def: {type: 'OS::Heat::RandomString'}}"
    (tmp_path / "s.yaml").write_text(
        "heat_template_version: 2021-04-16\n"
        f"resources: {{g: {{type: OS::Heat::ResourceGroup, properties: {group}}}}}\n"
    )
    code, shown = on_terminal(70, "up", str(tmp_path / "s.yaml"))
    assert code == 0, shown
    assert "+ g  (OS::Heat::ResourceGroup)" in shown and "Do it? [y/N]" in shown
    assert "g  CREATE_COMPLETE" in shown and "inside: 2 done" in shown
    assert "Plan: 3 added" in shown and "s: CREATE_COMPLETE in " in shown and ": 3 added" in shown


@pytest.mark.slow
def test_no_line_is_wider_than_the_terminal(run: Callable[..., str]) -> None:
    run(*UP)
    run("lock", "story", "--level", "stacks")
    run("down", "--yes", "story", code=1)
    commands = [
        "", "nosuch", "ls", "resources story", "action list", "events story", "lock-status story", "audit",
        "show story", "explain story", "down story",
    ]  # fmt: skip
    for command in commands:
        _, shown = on_terminal(62, *command.split(), HEATLITE_DATABAS="1")
        assert [line for line in shown.splitlines() if len(line) > 62] == [], command


@pytest.mark.slow
@pytest.mark.parametrize("command", ["resources story -o wide", "ls -o wide", "show story -c id"])
def test_no_word_is_broken(run: Callable[..., str], command: str) -> None:
    run(*UP)
    name, *words = command.split()
    whole = set(run(name, *words).split())
    _, shown = on_terminal(50, name, *words)
    broken = [word for word in shown.split() if word not in whole]
    assert shown and broken == []


@pytest.mark.slow
def test_headings_of_a_table_differ(run: Callable[..., str]) -> None:
    run(*UP)
    run("mark-unhealthy", "story", "member_1")
    _, shown = on_terminal(80, "audit")
    assert shown.split()[:6] == ["time", "user", "operation", "stack", "resource", "outcome"]


@pytest.mark.slow
def test_down(run: Callable[..., str]) -> None:
    run(*UP)
    lines = run("events", "story").splitlines()
    assert lines[0].endswith("[story]: CREATE_IN_PROGRESS  Stack CREATE started")
    assert len(json.loads(run("events", "story", "--format", "json"))) == len(lines)
    *_, ended, summary = run("down", "--yes", "story").splitlines()
    assert ended.endswith("[story]: DELETE_COMPLETE  Stack DELETE completed successfully")
    assert summary.startswith("story: DELETE_COMPLETE in ") and summary.endswith(": 4 deleted")
    assert run("ls") == ""


@pytest.mark.slow
def test_checks(run: Callable[..., str]) -> None:
    run(*UP)
    assert "[story]: CHECK_COMPLETE" in run("check", "story", "--every", "10m")
    told = run("check", "story", "--at", "2100-01-01T08:00:00+02:00")
    assert told == "story: check scheduled at 2100-01-01T06:00:00Z\n"
    kept = json.loads(run("action", "list", "--status", "INIT", "-f", "json"))
    assert [item["name"][:12] for item in kept] == ["stack_check_"] * 2
    assert "a CHECK every 600 seconds already" in run("check", "story", "--every", "1h", code=1)


@pytest.mark.slow
def test_types_and_database(run: Callable[..., str]) -> None:
    assert "OS::Heat::Value" in run("types", "list", "-f", "value", "-c", "resource_type").splitlines()
    shown = run("types", "show", "OS::Heat::RandomString")
    assert shown.startswith("OS::Heat::RandomString\n")
    assert "length" in shown
    assert json.loads(run("types", "show", "OS::Heat::Value", "-f", "json"))["attributes"]["value"]
    assert "could not be found" in run("types", "show", "No::Such", code=1)
    assert "Did you mean OS::Heat::Value" in run("types", "show", "OS::Heat::Valeu", code=1)
    assert {item["applied"] for item in json.loads(run("db", "status", "-f", "json"))} == {True}


LONG_ENOUGH = (1.5, 15, 120)
"""Seconds that a resource takes, one after the other until it is interrupted: the machine may take its time, too."""


@pytest.mark.slow
def test_interrupted_work_is_taken_up_again(run: Callable[..., str], tmp_path: Path) -> None:
    for number, seconds in enumerate(LONG_ENOUGH):
        path = tmp_path / f"slow{number}.yaml"
        path.write_text(
            "heat_template_version: 2018-08-31\n"
            f"resources: {{slow: {{type: OS::Heat::TestResource, properties: {{wait_secs: {seconds}}}}}}}\n"
        )
        code, errors = interrupted(["up", "--yes", str(path)], f"slow{number}.slow")
        if code != 0:
            break
        run("down", "--yes", f"slow{number}")
    assert "continue with: heatlite up" in errors
    assert code == 130
    run("up", "--yes", str(path))
    # Not in what `up` prints: an action that is almost over has ended before its events are followed.
    assert f"[slow{number}]: CREATE_COMPLETE" in run("events", f"slow{number}")
    assert run("ls", "-f", "value", "-c", "stack_status") == "UPDATE_COMPLETE\n"


def interrupted(command: list[str], until: str) -> tuple[int, str]:
    """Interrupt a command line after its first output; return exit code and errors."""
    words = [sys.executable, "-m", "heatlite", *command]
    pipe = subprocess.PIPE
    with subprocess.Popen(
        words,
        cwd=TEMPLATES.parent,
        stdout=pipe,
        stderr=pipe,
        text=True,
        # A shell starts what runs in its background with SIGINT ignored, and so would the tests.
        preexec_fn=partial(signal.signal, signal.SIGINT, signal.default_int_handler),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stdout:
            if until in line:
                break
        process.send_signal(signal.SIGINT)
        errors = process.stderr.read()
    return process.returncode, errors


@pytest.mark.slow
def test_actions(run: Callable[..., str], tmp_path: Path) -> None:
    def write(name: str, properties: str) -> str:
        resource = f"{{type: OS::Heat::TestResource, properties: {{{properties}}}}}"
        path = tmp_path / f"{name}.yaml"
        path.write_text(f"heat_template_version: 2021-04-16\nresources: {{a: {resource}}}\n")
        return str(path)

    run("up", "--yes", write("good", ""))
    run("up", "--yes", write("bad", "fail: true"), code=1)
    listed = json.loads(run("action", "list", "-f", "json"))
    assert [item["status"] for item in listed] == ["FAILED", "SUCCEEDED"]
    bad, good = listed
    assert run("action", "list", "--status", "FAILED,RUNNING", "-f", "value", "-c", "id") == f"{bad['id']}\n"
    assert run("action", "list", "--target", "good", "-f", "value", "-c", "id") == f"{good['id']}\n"
    assert run("action", "list", "bad", "-f", "value", "-c", "id") == f"{bad['id']}\n"
    assert run("action", "list", "--sort", "created_at", "--limit", "1", "-f", "value", "-c", "id") == f"{good['id']}\n"
    assert run("action", "show", bad["id"][:8], "-f", "value", "-c", "action") == "STACK_CREATE\n"
    moves = json.loads(run("action", "show", good["name"], "--history", "-f", "json"))
    assert [move["to"] for move in moves] == ["READY", "RUNNING", "SUCCEEDED"]
    assert f"{good['id']}: SUCCEEDED  Stack CREATE completed" in run("action", "wait", good["id"])
    run("action", "wait", bad["id"], code=1)
    assert "has ended already" in run("action", "signal", good["id"], "CANCEL", code=1)
    assert "Unknown status DONE; there are: INIT, " in run("action", "list", "--status", "DONE", code=1)
    assert "The Action (nope) could not be found" in run("action", "show", "nope", code=1)


@pytest.mark.slow
def test_who_waits_for_an_action_leaves_it_alone(
    run: Callable[..., str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def was_left_alone(stack: str, seconds: float) -> bool:
        """Return False if its action, of so many seconds, has ended too early."""
        properties = f"{{action_wait_secs: {{create: {seconds}}}}}"
        (tmp_path / f"{stack}.yaml").write_text(
            "heat_template_version: 2021-04-16\n"
            f"resources: {{a: {{type: OS::Heat::TestResource, properties: {properties}}}}}\n"
        )
        if interrupted(["up", "--yes", str(tmp_path / f"{stack}.yaml")], f"{stack}.a")[0] == 0:
            return False
        action = run("action", "list", stack, "-f", "value", "-c", "id").strip()
        code, errors = interrupted(["action", "wait", action], ": R")
        if code == 0:
            return False
        assert code == 130
        assert f"nothing is lost; wait again with: heatlite action wait {action}" in errors
        code = main(["action", "wait", action, "--timeout", "0"])
        errors = capsys.readouterr().err
        if code == 0:
            return False
        assert (code, "Not ended within 0 seconds." in errors) == (124, True), errors
        assert ": SUCCEEDED" in run("action", "wait", action, "--timeout", "240")
        assert "CANCEL" not in run("action", "show", action, "--history")
        return True

    assert any(was_left_alone(f"slow{seconds}", seconds) for seconds in (3, 10, 30, 120))


@pytest.mark.slow
def test_the_list_of_actions_goes_over_pages(run: Callable[..., str], tmp_path: Path) -> None:
    (tmp_path / "small.yaml").write_text(
        "heat_template_version: 2021-04-16\nresources: {a: {type: OS::Heat::Value, properties: {value: v}}}\n"
    )
    run("up", "--yes", str(tmp_path / "small.yaml"))
    for _ in range(2):
        run("up", "--yes", str(tmp_path / "small.yaml"))
    assert len(run("action", "list", "-f", "value", "-c", "id", "--limit", "0").splitlines()) == 3

    def limited(limit: int) -> tuple[list[str], str]:
        words = ["action", "list", "-f", "value", "-c", "id", "--limit", str(limit)]
        command = [sys.executable, "-m", "heatlite", *words]
        shown = subprocess.run(command, cwd=TEMPLATES.parent, capture_output=True, text=True, check=True)
        return shown.stdout.splitlines(), shown.stderr

    everything = run("action", "list", "-f", "value", "-c", "id").splitlines()
    assert limited(2) == (everything[:2], "There are more rows: use --limit 4, or --limit 0 for all.\n")
    assert limited(3) == (everything, "")


@pytest.mark.slow
def test_a_database_that_is_none(run: Callable[..., str], tmp_path: Path) -> None:
    assert run("ls", "--database", "foo://x", code=2).startswith("heatlite: Unknown kind of database: 'foo'; use ")
    assert run("ls", "--database", "/tmp/x.db", code=2).startswith("heatlite: The database is not given as a URL; ")
    (tmp_path / "text.db").write_text("no database at all" * 100)
    told = run("ls", "--database", f"sqlite:///{tmp_path}/text.db", code=1)
    assert "file is not a database. Install a backup (heatlite db restore FILE), or give another" in told
    assert "try again" not in told
    assert "Not a directory" in run("ls", "--database", f"sqlite:///{tmp_path}/text.db/below.db", code=1)
    for words in (("fsck",), ("keys", "rotate")):
        assert "There is no database" in run(*words, "--database", f"sqlite:///{tmp_path}/typo.db", code=1)
    assert not (tmp_path / "typo.db").exists(), "an empty one would seem to be sound"
    newer = f"sqlite:///{tmp_path}/newer.db"
    command = [sys.executable, "-m", "heatlite", "ls", "--database", newer]
    told = [subprocess.run(command, cwd=TEMPLATES.parent, capture_output=True, text=True).stderr for _ in range(2)]
    nothing = f"No stacks in project default of {newer}.\n"
    assert told == [f"heatlite: {newer} is a new database, with nothing in it.\n{nothing}", nothing]
    with closing(sqlite3.connect(tmp_path / "newer.db")) as database, database:
        database.execute("INSERT INTO schema_migration (name, applied) VALUES ('9999_from_the_future', '2030-01-01')")
    assert "Install the heatlite that made it" in run("ls", "--database", newer, code=1)


@pytest.mark.slow
def test_a_check_without_an_answer_promises_no_replacement(
    run: Callable[..., str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = tmp_path / "nets.yaml"
    net = "{type: OS::Neutron::Net}"
    file.write_text(f"{{heat_template_version: 2021-04-16, resources: {{a: {net}, b: {net}}}}}")
    simulated = ("--cloud", "simulated")
    run("up", "--yes", str(file), *simulated)
    (tmp_path / "faults.yaml").write_text('faults: [{verb: "network.*", raises: refused}]')
    monkeypatch.setenv("HEATLITE_SIMULATION", str(tmp_path / "faults.yaml"))
    said = run("check", "nets", *simulated, code=1)
    assert said.count("HTTP 400") == 1 and "2 could not be looked at" in said
    assert said.endswith("No update replaces what could not be looked at. Check again: heatlite check nets\n")
    assert "no update replaces" in run("explain", "nets", *simulated)
    assert "2 unchanged" in run("plan", str(file), *simulated)


@pytest.mark.slow
def test_a_cloud_that_was_forgotten(run: Callable[..., str], tmp_path: Path) -> None:
    file = tmp_path / "net.yaml"
    file.write_text("{heat_template_version: 2021-04-16, resources: {net: {type: OS::Neutron::Net}}}")
    simulated = ("--cloud", "simulated")
    run("up", "--yes", str(file), *simulated)
    recorded = json.loads(run("show", "net", "-f", "json"))["cloud"]
    assert (recorded["name"], recorded["project_id"]) == ("simulated", "default")
    file_words = ["up", "-y", str(file)]
    for words in (["down", "-y", "net"], ["check", "net"], file_words, ["plan", str(file)], ["lock", "net"]):
        said = run(*words, code=1)
        assert f"Stack net has its objects in the cloud simulated ({recorded['auth_url']}" in said, words
        assert "no cloud is set here" in said
    assert states(run, "net") == {"net": "CREATE_COMPLETE"}
    for path in tmp_path.rglob("heatlite.cloud*"):
        path.unlink()
    assert "the cloud that is set here is simulated (simulated:" in run("down", "--yes", "net", *simulated, code=1)
    run("up", "--yes", str(file), *simulated, "--adopt-cloud")
    assert json.loads(run("show", "net", "-f", "json"))["cloud"]["auth_url"] != recorded["auth_url"]
    events = json.loads(run("events", "net", "--format", "json"))
    assert any("has it adopt the cloud simulated" in event["resource_status_reason"] for event in events)
    run("down", "--yes", "net", *simulated)


UNUSED = (
    *("asyncpg", "bcrypt", "celery", "gunicorn", "jsonschema", "keystoneauth1", "openstack", "prometheus_client"),
    *("psycopg", "psycopg2", "pymysql", "rich.console"),
    *("heatlite.agent", "heatlite.cli.osc", "heatlite.features.dashboard.app", "heatlite.features.healing.parts"),
    *("heatlite.features.migrate.commands", "heatlite.features.nodes.agents.orchestrator"),
    *("heatlite.features.query_api.routes", "heatlite.features.simulator.simulation"),
    *("heatlite.api.further_routes", "heatlite.clients.connection", "heatlite.store.admin.backup"),
    *("playhouse", "tomllib", "zoneinfo"),
)
"""Modules that the first example does not need."""


@pytest.mark.slow
def test_up_imports_what_it_uses(tmp_path: Path) -> None:
    """Imports are most of the processor time of a short command."""
    code = (
        "import sys; from heatlite.__main__ import main; sys.argv[1:] = ['up', 'templates/hello.yaml', '--yes'];"
        " code = main(); print(*sys.modules, file=sys.stderr); sys.exit(code)"
    )
    environ = {**os.environ, "XDG_DATA_HOME": str(tmp_path), "XDG_CONFIG_HOME": str(tmp_path)}
    command = [sys.executable, "-c", code]
    done = subprocess.run(command, cwd=TEMPLATES.parent, env=environ, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    modules = done.stderr.split()
    assert not sorted({*UNUSED} & {*modules})
    types = [name for name in modules if name.startswith("heatlite.resources.")]
    assert types == ["heatlite.resources.heat", "heatlite.resources.heat.values"], "types that the template names"
