"""Output of commands that wait for others, and about refusals by locks."""

import argparse
import io
import json
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from heatlite import wiring
from heatlite.__main__ import Program
from heatlite.cli import client
from heatlite.cli.main import run
from heatlite.cli.parser import CommandParser
from heatlite.cli.transport import ApiTransport, HttpAnswer, Unreachable, WSGITransport
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.json import JsonMap
from heatlite.feature import Feature, installed
from heatlite.template.types import TypeCatalog
from tests.commands import every_command
from tests.databases import sqlite
from tests.engine.conftest import HeldClock
from tests.tables import few, table
from tests.waiting import eventually

from .conftest import Heat, template, value

PATIENCE = 240


class Here:
    """A program whose server is in this process."""

    def __init__(self, heat: Heat) -> None:
        self._heat = heat

    def features(self) -> Sequence[Feature]:
        return installed()

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        return WSGITransport(self._heat.wsgi, place="at here")

    def types(self) -> TypeCatalog:
        return Program().types()

    def __call__(self, line: str) -> int:
        return run([*line.split(), "--project", self._heat.project], self)  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """An environment without the user's settings."""
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.delenv("HEATLITE_ENDPOINT", raising=False)


@pytest.fixture
def clock() -> HeldClock:
    """The clock of `held_heat`."""
    return HeldClock()


@pytest.fixture
def held_heat(tmp_path: Path, clock: HeldClock) -> Iterator[Heat]:
    """A server whose time the test moves."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path), lease_seconds=1e10), clock=clock)
    yield Heat(server.app)
    server.close()


@pytest.mark.slow
def test_two_wait_for_one_deletion_that_is_suspended(
    held_heat: Heat, clock: HeldClock, capsys: pytest.CaptureFixture[str]
) -> None:
    # The second deletes only once the first is gone, so that the action has something left to be suspended for.
    heat = held_heat
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"delete": 60}}}
    path = heat.create(template(a=slow, b={**slow, "depends_on": "a"}))
    said: list[str] = []

    def tells(count: int, words: str) -> bool:
        said.append(capsys.readouterr().err)
        return "".join(said).count(words) == count

    with ThreadPoolExecutor() as pool:
        with clock.held():
            first = pool.submit(Here(heat), "down -y s")
            eventually(lambda: heat.get("/actions?action=STACK_DELETE")["actions"])
            (action,) = heat.get("/actions?action=STACK_DELETE")["actions"]
            eventually(lambda: heat.get(f"{path}/resources/b")["resource"]["resource_status"] == "DELETE_IN_PROGRESS")
            eventually(clock.at_rest)
            heat.call("POST", f"/actions/{action['id']}", {"signal": "SUSPEND"}, code=202)
            try:
                eventually(lambda: heat.get(f"/actions/{action['id']}")["action"]["status"] == "SUSPENDED")
                message = heat.fault("DELETE", path, code=409)[1]
                assert f"resume it (heatlite action signal {action['id']} RESUME" in message
                assert message.endswith(", or cancel it.")
                second = pool.submit(Here(heat), "down -y s")
                resumed = f"is SUSPENDED. Continue it with: heatlite action signal {action['id']} RESUME;"
                eventually(lambda: tells(2, resumed))
                assert not first.done() and not second.done()
            finally:
                heat.call("POST", f"/actions/{action['id']}", {"signal": "RESUME"})
        assert (first.result(PATIENCE), second.result(PATIENCE)) == (0, 0)
    assert tells(1, "s is being deleted already: waiting for that.")
    assert tells(2, resumed)


class Deleting(Here):
    """A program whose user changes or checks a stack while another one deletes it."""

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        heat = self._heat

        class Late(WSGITransport):
            def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
                answer = super().send(method, target, headers, body)
                if method in ("PATCH", "POST"):
                    path = "/stacks/s/" + heat.get("/stacks")["stacks"][0]["id"]
                    heat.call("DELETE", path)
                    heat.settle(path, "DELETE_COMPLETE")
                return answer

        return Late(heat.wsgi)


@pytest.mark.parametrize("line", ["up -y s.yaml -f json", "check s -f json"])
def test_a_stack_that_another_user_deletes_meanwhile_is_a_failure(
    line: str, heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heat.create(template(a=value("x")))
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps(template(a=value("y"))))
    assert Deleting(heat)(line) == 1
    said, complaint = capsys.readouterr()
    meant = "The stack s is gone: it was deleted meanwhile. See: heatlite audit --stack s"
    assert json.loads(said.splitlines()[-1]) == {"type": "error", "message": meant, "http_status": None}
    assert complaint == f"heatlite: {meant}\n"


class Leaving(Here):
    """A program whose server ends after the request that changes something."""

    def connect(self, settings: Settings, reads_only: bool) -> ApiTransport:
        class Last(WSGITransport):
            ended = False

            def send(self, method: str, target: str, headers: Mapping[str, str], body: bytes) -> HttpAnswer:
                if self.ended:
                    raise Unreachable("No server answers.")
                self.ended = method in ("PUT", "POST")
                return super().send(method, target, headers, body)

        return Last(self._heat.wsgi)


@pytest.mark.parametrize(
    ("line", "way"), [("check s", "heatlite events -f s"), ("member check s a", "heatlite action wait ")]
)
def test_a_server_that_is_lost_leaves_the_way_to_go_on(
    line: str, way: str, heat: Heat, capsys: pytest.CaptureFixture[str]
) -> None:
    heat.create(template(a=value("x")))
    assert Leaving(heat)(line) == 1
    told = capsys.readouterr().err
    meant = f"heatlite: No server answers.\nWhat was begun continues as soon as a server runs; watch it with: {way}"
    assert told.startswith(meant)


@pytest.mark.slow
def test_up_creates_a_stack_once_its_deletion_has_ended(
    held_heat: Heat, clock: HeldClock, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"delete": 60}}}
    path = held_heat.create(template(a=slow))
    (tmp_path / "s.yaml").write_text(json.dumps(template(b=value("y"))))
    said: list[str] = []

    def waits() -> bool:
        said.append(capsys.readouterr().err)
        return "s is DELETE_IN_PROGRESS: waiting for that first." in "".join(said)

    with ThreadPoolExecutor() as pool:
        with clock.held():
            held_heat.call("DELETE", path)
            updating = pool.submit(Here(held_heat), f"up -y {tmp_path}/s.yaml")
            eventually(waits)
            eventually(clock.at_rest)
            clock.pass_(60)
        assert updating.result(PATIENCE) == 0
    (made,) = held_heat.get("/stacks")["stacks"]
    assert (made["stack_status"], made["id"] in path) == ("CREATE_COMPLETE", False)


def test_events_are_read_in_pages(
    heat: Heat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    heat.create(template(a=value("x"), b=value("y")))
    assert Here(heat)("events s") == 0
    every = capsys.readouterr().out
    assert every.count("\n") == 6
    for size in (1, 3, 4):
        monkeypatch.setattr(client, "EVENT_PAGE", size)
        assert Here(heat)("events s") == 0
        assert capsys.readouterr().out == every


def test_columns_of_events(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat.create(template(a=value("x")))
    assert Here(heat)("events s -c resource_name -c resource_status") == 0
    shown = capsys.readouterr().out.splitlines()
    assert shown[0].split() == ["resource_name", "resource_status"] and shown[-1].split() == ["s", "CREATE_COMPLETE"]
    assert Here(heat)("events s -c nope") == Here(heat)("events s --follow --format json") == 2
    assert "heatlite: --follow prints lines, without columns and formats." in capsys.readouterr().err


@pytest.mark.slow
def test_what_is_protected_is_shown_and_refused_with_the_way_out(
    heat: Heat, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    thing = {"type": "OS::Heat::TestResource", "properties": {"update_replace_value": "1"}}
    path = heat.create(template(a=thing, b=thing))
    command = Here(heat)
    assert command("protect s --reason production") == 0
    assert capsys.readouterr().out.startswith("s: protected by anonymous since 20")
    assert command("protect s a") == 0
    assert capsys.readouterr().out.startswith("s.a: protected by anonymous since 20")
    shown = heat.call("GET", path).json["stack"]["protection"]
    assert (shown["protected_by"], shown["reason"]) == ("anonymous", "production")
    (listed,) = heat.call("GET", "/stacks").json["stacks"]
    assert listed["protected"]
    held = {one["resource_name"]: one["protection"] for one in heat.call("GET", f"{path}/resources").json["resources"]}
    assert (held["b"], held["a"]["reason"]) == (None, None)
    file = tmp_path / "t.yaml"
    file.write_text(json.dumps(template(b=thing)))
    capsys.readouterr()
    assert command(f"plan {file} -n s") == 0
    plan = capsys.readouterr().out
    assert "! a  (OS::Heat::TestResource)  it would be deleted, but resource a of stack s is protected" in plan
    assert "1 would fail" in plan
    for line in (f"up -y {file} -n s", "down -y s", "down -y s --force"):
        assert command(line) == 1
        assert "heatlite unprotect s" in capsys.readouterr().err
    heat.fault("POST", f"{path}/actions", {"protect": {"resource": "zz"}}, code=404)
    assert (command("unprotect s a --reason moved"), command("unprotect s")) == (0, 0)
    assert capsys.readouterr().out == "s.a: not protected\ns: not protected\n"
    events = heat.call("GET", f"{path}/events").json["events"]
    told = {(one["resource_name"], one["resource_status"], one["resource_status_reason"]) for one in events}
    assert ("a", "UNPROTECT_COMPLETE", "unprotect by anonymous: moved") in told
    assert command("down -y s") == 0


class Typed(io.StringIO):
    """Input from a terminal."""

    def isatty(self) -> bool:
        return True


def test_a_deletion_shows_all_that_goes_and_what_stays(
    heat: Heat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = {"type": "OS::Heat::TestResource"}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": thing}}
    kept = {name: {**one, "deletion_policy": "Retain"} for name, one in (("kept", thing), ("set", group))}
    path = heat.create(template(web=group, a=thing, **kept))
    monkeypatch.setattr("sys.stdin", Typed("n\n"))
    assert Here(heat)("down s") == 1
    said = capsys.readouterr()
    shown = [line.split("  (")[0].strip() for line in said.out.splitlines()]
    assert shown == ["- a", "- web", "- web/0", "- web/1", "kept", "set", "set/0", "set/1"]
    assert all("  stays in the cloud: " in line for line in said.out.splitlines()[4:])
    assert "Delete the stack s with 4 resources? [y/N] heatlite: Nothing was done." in said.err
    listed = heat.call("GET", f"{path}/resources").json["resources"]
    policies = {one["resource_name"]: one["deletion_policy"] for one in listed}
    assert policies == {"web": "Delete", "a": "Delete", "kept": "Retain", "set": "Retain"}


def test_a_deletion_prints_what_it_retains_and_does_that_plan(
    heat: Heat, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    thing = {"type": "OS::Heat::TestResource"}
    port = {**thing, "properties": {"value": {"get_resource": "net"}}}
    path = heat.create(template(net=thing, port=port, a=thing))
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    assert Here(heat)("down s --retain port") == 0
    said = capsys.readouterr()
    lines = [line for line in said.out.splitlines() if "OS::Heat::TestResource" in line]
    assert [line.split("  (")[0].strip() for line in lines[:3]] == ["- a", "net", "port"]
    assert lines[1].endswith("stays in the cloud: port requires it")
    assert lines[2].endswith("stays in the cloud: on request")
    assert "with 1 resource? [y/N]" in said.err
    action = heat.get(f"/actions?target={path.rpartition('/')[2]}")["actions"][0]
    assert [one["path"] for one in action["outputs"]["retained"]] == ["port", "net"]
    for words, told in (("down s2 --retain no", "no such resource"), ("down s2 --retain net/0", "nested")):
        heat.create(template(net=thing), "s2") if words.endswith("no") else None
        assert Here(heat)(words) == 1
        refused = capsys.readouterr().err
        assert told in refused and "[y/N]" not in refused


@pytest.mark.slow
def test_a_part_of_a_stack_is_planned_updated_and_shown(
    heat: Heat, capsys: pytest.CaptureFixture[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    file, command = tmp_path / "s.json", Here(heat)

    def written(text: str) -> None:
        web = value({"get_attr": ["net", "value"]})
        file.write_text(json.dumps(template(net=value(text), web=web, db=value(text))))

    def said(words: str, code: int = 0) -> tuple[str, str]:
        assert command(words) == code, capsys.readouterr()
        found = capsys.readouterr()
        return found.out, found.err

    written("1")
    assert "There is no stack s, so --target has nothing" in said(f"up {file} -y --target web", 1)[1]
    said(f"up {file} -y")
    written("2")
    out, _ = said(f"plan {file} --target web")
    assert "~ net  (OS::Heat::Value)  the definition changed; pulled in" in out
    assert "db  (OS::Heat::Value)  left out; it would be updated: the definition changed" in out
    assert "1 left out." in out
    assert "target and exclude" in said(f"plan {file} --target web --exclude db", 1)[1]
    assert "no resource nowhere" in said(f"up {file} -y --target nowhere", 1)[1]
    monkeypatch.setattr("sys.stdin", Typed("y\n"))
    said(f"up {file} --target web")
    assert "restricted (1)" in said("ls")[0]
    assert "an update has left out db" in said("explain s")[0].replace("\n  ", "")
    assert "The stack is restricted: an update has left out db." in said(f"plan {file}")[0]
    said(f"up {file} -y --replace net")
    assert "restricted" not in said("ls")[0]


@pytest.mark.slow
@table(
    ("words", "reason", "way_out"),
    [
        ("lock s --reason disks", "To lift it: heatlite unlock s", "unlock s"),
        ("protect s", "To lift that: heatlite unprotect s,", "unprotect s"),
        ("protect s g/0", "To lift that: heatlite unprotect s-g-", "unprotect s g/0"),
    ],
)
def test_a_deletion_that_would_be_refused_is_not_asked_for(
    words: str,
    reason: str,
    way_out: str,
    heat: Heat,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    if not heat.call("GET", "/stacks").json["stacks"]:
        group = {"count": 1, "resource_def": {"type": "OS::Heat::TestResource"}}
        heat.create(template(g={"type": "OS::Heat::ResourceGroup", "properties": group}))
    assert Here(heat)(words) == 0
    capsys.readouterr()
    monkeypatch.setattr("sys.stdin", Typed(""))
    assert Here(heat)("down s") == 1
    said = capsys.readouterr().err
    assert "[y/N]" not in said and reason in said, said
    assert Here(heat)(way_out) == 0


class Later(Clock):
    """The time of some hours later."""

    hours = 0

    def now(self) -> float:
        return super().now() + self.hours * 3600


@pytest.mark.slow
def test_what_an_earlier_lock_refused_is_listed_by_itself(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    clock = Later()
    server = wiring.embedded(Settings(database=sqlite(tmp_path)), clock=clock)
    try:
        heat = Heat(server.app)
        heat.create(template(a=value()))
        command = Here(heat)
        assert (command("lock s"), command("down -y s"), command("unlock s")) == (0, 1, 0)
        clock.hours = 1
        assert (command("lock s"), command("mark-unhealthy s a")) == (0, 1)
        capsys.readouterr()
        assert command("lock-status s -c request") == 0
        now, before = capsys.readouterr().out.split("\nRefused or ignored ")[1:]
        assert now.startswith("since 20") and before.startswith("before that (--replay ID")
        assert "mark_unhealthy" in now and "delete" not in now
        assert "delete" in before and "mark_unhealthy" not in before
        assert command("unlock s") == 0
    finally:
        server.close()


def test_new_keys_for_signed_urls(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(template(handle={"type": "OS::Heat::WaitConditionHandle", "properties": {}}))

    def signed_url() -> str:
        return str(heat.get(f"{path}/resources/handle")["resource"]["attributes"]["curl_cli"])

    before = signed_url()
    assert Here(heat)("rotate-keys s") == 0
    assert capsys.readouterr().out == "s: earlier signed URLs and tokens are invalid.\n"
    assert signed_url() != before
    assert Here(heat)("rotate-keys no-such-stack") == 1
    assert "no-such-stack" in capsys.readouterr().err


@pytest.mark.slow
def test_up_and_plan_start_from_the_real_objects(
    heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    here, file = Here(heat), tmp_path / "drifted.yaml"
    drifted = {"type": "OS::Heat::TestResource", "properties": {"value": "v", "live_value": "changed by hand"}}
    file.write_text(json.dumps(template(a=drifted)))
    assert here(f"up {file} --yes --converge") == 0  # there is nothing to start from yet
    capsys.readouterr()
    assert here(f"plan {file} --detailed-exitcode") == 0
    assert here(f"plan {file} --detailed-exitcode --converge") == 2
    assert here(f"up {file} --yes") == 0
    assert "drifted.a" not in "".join(capsys.readouterr())
    assert here(f"up {file} --yes --converge") == 0
    assert "[drifted.a]: UPDATE_COMPLETE" in "".join(capsys.readouterr())
    assert here(f"plan {file} --detailed-exitcode --converge") == 0


@pytest.mark.slow
def test_groups(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    member = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}
    made = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 3, "resource_def": member}}
    path, heatlite = heat.create(template(g=made)), Here(heat)

    def size() -> int:
        return len(heat.get(f"{path}/resources/g")["resource"]["attributes"]["refs"])

    for line, expected in (
        ("group resize s g 5", 5),
        ("group resize s g -2", 3),
        ("group resize s g +34%", 4),
        ("group resize s g template", 3),
        ("group scale-out s g --count 2", 5),
        ("group scale-in s g --criteria youngest_first --grace-period 0s", 4),
        ("group attach-policy s g leavers deletion --priority 7", 4),
        ("group update-policy s g leavers --disable", 4),
        ("group detach-policy s g leavers", 4),
        ("group delete -y s g 1", 3),
        ("group delete -y s g 2 --refill", 3),
        ("group replace s g 0", 3),
        ("member check s g", 3),
        ("member recover s g/0", 3),
    ):
        assert heatlite(line) == 0, line
        assert size() == expected, line
    capsys.readouterr()
    (one, *_) = heat.get(f"{path}/resources/g")["resource"]["attributes"]["refs"]
    assert heatlite("group leave -y s g 0 --refill") == 0
    shown = capsys.readouterr().out
    assert "< g/0  (OS::Heat::TestResource)  its object stays" in shown
    assert "Plan: 1 leaving, 1 added, 0 updated" in shown
    assert size() == 3
    assert heatlite(f"group join -y s g {one}") == 0
    assert "> g/" in capsys.readouterr().out
    assert one in heat.get(f"{path}/resources/g")["resource"]["attributes"]["refs"]
    assert heatlite(f"group join -y s g 0={one}") == 1
    assert "is owned by g/" in capsys.readouterr().err
    assert heatlite("group join -y s g --ids x") == 2
    assert heatlite("group join -y s g --ids x=y") == 1
    assert "needs id, name or filter" in capsys.readouterr().err
    assert heatlite("group attach-policy s g leavers deletion --options {") == 2
    assert heatlite("group detach-policy s g leavers") == 1
    assert heatlite("group resize s g some") == 2
    assert heatlite("group scale-in s g --count 99") == 1
    assert "its limits are" in capsys.readouterr().err


@pytest.mark.slow
def test_healing_from_the_command_line(heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(template(a={"type": "OS::Heat::TestResource"}))
    here, file = Here(heat), tmp_path / "policy.yaml"
    file.write_text("healing_policy: 2026-11-22\nmode: auto\nmax_unhealthy: 40%\n")
    assert here(f"healing set s {file}") == 0
    assert capsys.readouterr().out == "s: healing policy version 1\n"
    assert here("healing show s -f json") == 0
    (scope,) = json.loads(capsys.readouterr().out)
    assert (scope["scope"], scope["breaker"], scope["allowed"]) == ("type:OS::Heat::TestResource", "closed", 1)
    assert here("healing show s --policy -f json") == 0
    assert json.loads(capsys.readouterr().out)["max_unhealthy"] == "40%"
    assert here("healing list -c stack_name -c mode -c version -f json") == 0
    assert json.loads(capsys.readouterr().out) == [{"stack_name": "s", "mode": "auto", "version": 1}]
    assert here("incident list -f json") == 0
    assert json.loads(capsys.readouterr().out) == []
    assert here("incident show none") == 1
    assert "none" in capsys.readouterr().err
    assert here("health show s --check -f json") == 0
    assert json.loads(capsys.readouterr().out) == []
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "a"}
    heat.call("POST", "/health/generic", {"reports": [report]})
    assert here("health show s") == 0
    assert "OBSERVED" in capsys.readouterr().out
    assert here("health source show generic -f json") == 0
    assert json.loads(capsys.readouterr().out)["results"][0]["result"] == "accepted"
    (tmp_path / "source.yaml").write_text("format: generic\nttl: 600\n")
    assert here(f"health source put own {tmp_path / 'source.yaml'}") == here("health source acknowledge own") == 0
    capsys.readouterr()
    assert here("health token create prometheus --source own") == 0
    assert capsys.readouterr().out.startswith("hlh_")
    assert here("health token list -f json") == 0
    (token,) = json.loads(capsys.readouterr().out)
    assert (token["name"], token["source"]) == ("prometheus", "own")
    assert here(f"health token delete {token['id']} -y") == 0
    capsys.readouterr()
    assert here("healing acknowledge s web") == 1
    told = "heatlite: Scope web of stack s is not suspended: there is nothing to acknowledge. (HTTP 404)\n"
    assert capsys.readouterr().err == told
    (incident,) = heat.get("/incidents")["incidents"]
    assert here(f"incident approve {incident['id']} -y") == 1
    told = f"Incident {incident['id']} is OBSERVED: it proposes no repair. See: heatlite incident show {incident['id']}"
    assert capsys.readouterr().err == f"heatlite: {told}\n"
    assert here("healing off s -y") == 0
    assert capsys.readouterr().out == "s: no healing policy\n"
    assert here("healing show s --policy") == 1
    assert capsys.readouterr().err == "heatlite: Stack s has no healing policy: nothing is repaired.\n"
    file.write_text("healing_policy: 2026-11-22\nmode: perhaps\n")
    assert here(f"healing set s {file}") != 0
    assert "mode" in capsys.readouterr().err
    assert heat.get(f"{path}/healing")["policy"] is None


def test_the_policy_of_the_reference_is_set_as_it_stands(
    heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, file = heat.create(template(a={"type": "OS::Heat::TestResource"})), tmp_path / "policy.yaml"
    page = (Path(__file__).parents[2] / "docs/reference/healing.md").read_text(encoding="utf-8")
    file.write_text(page.partition("```yaml\n")[2].partition("```")[0], encoding="utf-8")
    assert Here(heat)(f"healing set s {file}") == 0, capsys.readouterr().err
    policy = heat.get(f"{path}/healing")["policy"]
    assert (policy["mode"], policy["rules"][1]) == ("off", {"match": "web/0", "mode": "off"})


@pytest.mark.slow
def test_an_approval_shows_the_plan_of_its_incident(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    incident = proposed(heat, "OS::Heat::TestResource")
    assert Here(heat)(f"incident approve {incident} -y") == 0
    told = capsys.readouterr().out.splitlines()
    assert told[0].startswith("± a  (OS::Heat::TestResource)  unhealthy: generic: no answer")
    assert told[-1] == "a: REPAIRING"


@pytest.mark.slow
def test_an_approval_asks_for_one_plan(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.syspath_prepend(str(Path(__file__).parents[1] / "engine" / "types"))
    server, asked = wiring.embedded(Settings(database=sqlite(tmp_path))), list[str]()

    def noted(environ: Any, start_response: Any) -> Any:
        asked.append(environ["PATH_INFO"])
        return server.app(environ, start_response)

    try:
        incident = proposed(Heat(server.app), "Test::Phoenix")
        assert Here(Heat(noted))(f"incident approve {incident} -y") == 0
    finally:
        server.close()
    assert "rebooted: " in capsys.readouterr().out.splitlines()[0]
    assert len([path for path in asked if path.endswith("/preview")]) == 1


def proposed(heat: Heat, type_: str) -> str:
    """The id of an incident that proposes the repair of a resource."""
    path = heat.create(template(a={"type": type_}))
    ladder = [{"step": "reboot"}, {"step": "replace"}]
    policy = {"healing_policy": "2026-11-22", "mode": "propose", "grace": 0, "confirm": {"hold": 0}, "ladder": ladder}
    heat.call("PUT", f"{path}/healing", policy, code=200)
    report = {"key": "k", "status": "unhealthy", "stack": "s", "resource": "a", "reason": "no answer"}
    heat.call("POST", "/health/generic", {"reports": [report]}, code=200)
    eventually(lambda: heat.get("/incidents?state=PROPOSED")["incidents"], "it is proposed")
    (incident,) = heat.get("/incidents")["incidents"]
    return str(incident["id"])


def test_an_explanation_names_a_wait_at_a_lifecycle_hook(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    def group(count: int) -> JsonMap:
        member = {"type": "OS::Heat::TestResource"}
        return template(g={"type": "OS::Heat::ResourceGroup", "properties": {"count": count, "resource_def": member}})

    hook = {"resource_registry": {"resources": {"g": {"*": {"lifecycle_hook": {"timeout": 600}}}}}}
    path = heat.create(group(2), environment=hook)
    heat.call("PATCH", path, {"template": group(1), "environment": hook}, code=202)
    waiting = "/actions?status=WAITING_LIFECYCLE_COMPLETION"
    eventually(lambda: heat.get(waiting)["actions"])
    (action,) = heat.get(waiting)["actions"]
    for stack in ("s", action["target"]):
        assert Here(heat)(f"explain {stack}") == 0
        told = capsys.readouterr().out
        assert f"STACK_UPDATE {action['id']} of g is WAITING_LIFECYCLE_COMPLETION since " in " ".join(told.split())
        assert "  openstack stack hook clear --pre-delete s" in told


@pytest.mark.slow
def test_an_explanation_says_that_no_engine_is_alive(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    settings = Settings(database=sqlite(tmp_path))
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)
        slow = {"type": "OS::Heat::TestResource", "properties": {"wait_secs": 600}}
        path = heat.create(template(a=slow), wait=False)
        eventually(lambda: "CREATE_IN_PROGRESS" in heat.call("GET", f"{path}/resources").text)
        eventually(lambda: heat.get("/services")["services"])
        assert Here(heat)("explain s") == 0
        assert "engine" not in capsys.readouterr().out
    finally:
        server.close()
    reader = wiring.reader(settings)
    try:
        assert Here(Heat(reader.app))("explain s") == 0
    finally:
        reader.close()
    told = capsys.readouterr().out
    assert "  no engine is alive: nothing goes on until one is started\n" in told
    assert "\nNext:\n  heatlite serve    starts an engine" in told


def test_the_list_of_stacks_shows_what_is_unhealthy(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(template(a={"type": "OS::Heat::TestResource"}))
    command = Here(heat)
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    assert command("ls --format value -c stack_name -c health") == 0
    assert command("resources s --format value -c resource_name -c health") == 0
    assert command("ls --format json -c health") == 0
    counts, resource, listed = capsys.readouterr().out.split("\n", 2)
    assert (counts, resource) == ("s 1 unhealthy", "a unhealthy")
    assert json.loads(listed)[0]["health"]["unhealthy"] == 1


def test_heal_shows_its_plan_and_repairs(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    path = heat.create(template(a={"type": "OS::Heat::TestResource"}, b={"type": "OS::Heat::TestResource"}))
    command = Here(heat)
    assert command("heal s -y") == 1
    assert "Nothing is marked in stack s" in capsys.readouterr().err
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    before = heat.call("GET", f"{path}/resources/a").json["resource"]["physical_resource_id"]
    assert command("heal s -y") == 1
    held = capsys.readouterr().err
    assert "mode_off holds the repair of a" in held
    assert "heatlite heal --ignore mode_off s a" in held
    assert command("heal s a -y --step replace --ignore mode_off") == 0
    assert "± a  (OS::Heat::TestResource)" in capsys.readouterr().out
    assert heat.call("GET", f"{path}/resources/a").json["resource"]["physical_resource_id"] != before
    plan = heat.call("PATCH", f"{path}/preview?plan=true", {"heal": {"resources": ["b"]}}, code=200).json["plan"]
    assert [item["action"] for item in plan["resources"] if item["path"] == ["b"]] == ["replace"]
    assert heat.call("GET", f"{path}/resources/b").json["resource"]["resource_status"] == "CREATE_COMPLETE"


def test_stacks_and_objects_are_found(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    here = Here(heat)
    for name in ("web-1", "web-2", "db"):
        path = heat.create(template(a=value(name)), name=name)
    heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    for options, expected in {
        "--search web": ["web-2", "web-1"],
        "--unhealthy": ["db"],
        "--locked": [],
        "--status FAILED": [],
    }.items():
        assert here(f"ls {options} -f value -c stack_name") == 0
        assert capsys.readouterr().out.split() == expected
    physical = heat.get(f"{path}/resources/a")["resource"]["physical_resource_id"]
    assert here(f"find {physical} elsewhere -f value -c path -c root_stack_name -c owned -c health") == 0
    assert capsys.readouterr().out.split() == ["a", "db", "true", "unhealthy"]


@pytest.mark.slow
def test_a_member_of_a_group_is_marked_and_protected_by_its_path(
    heat: Heat, capsys: pytest.CaptureFixture[str]
) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": value()}}
    heat.create(template(a=value(), web=group))
    command = Here(heat)
    assert command("mark-unhealthy s web/1 --reason disk") == 0
    shown = capsys.readouterr()
    assert shown.out == "s.web/1: CHECK_FAILED  disk\n" and "heatlite explain s\n" in shown.err
    assert (command("mark-healthy s web/1"), command("protect s web/0"), command("unprotect s web/0")) == (0, 0, 0)
    assert capsys.readouterr().out.endswith("s.web/0: not protected\n")
    assert command("mark-unhealthy s a --reason noise") == command("lock s --level all") == 0
    capsys.readouterr()
    assert command("explain s") == 0
    told = capsys.readouterr().out
    assert "not well: a: noise" in told and "heatlite up FILE -n s    replaces what is not well" in told
    assert command("unlock s") == 0
    assert command("mark-unhealthy s a/1") == 1
    assert "a of s is neither a group nor a nested stack" in capsys.readouterr().err


@pytest.mark.slow
def test_a_path_that_is_shown_can_be_named(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    """Also within a group of groups, and from a nested stack on."""
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    outer = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": group}}
    heat.create(template(a=value(), web=outer))
    command = Here(heat)
    assert command("resources s --nested 5 -f value -c resource_name") == 0
    assert capsys.readouterr().out.split() == ["a", "web", "web/0", "web/0/0"]
    assert command("mark-unhealthy s web/0/0 --reason disk") == 0
    assert command("explain s") == 0
    assert "not well: web/0/0: disk" in capsys.readouterr().out
    assert command("resources s --nested 1 -f json -c resource_name -c physical_resource_id") == 0
    inner = {one["resource_name"]: one["physical_resource_id"] for one in json.loads(capsys.readouterr().out)}["web/0"]
    assert command(f"explain {inner}") == 0
    assert "not well: web/0/0: disk" in capsys.readouterr().out
    assert command(f"mark-healthy {inner} 0") == 0


@pytest.mark.slow
def test_the_effect_of_a_suppressed_request_is_json(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    path, command = heat.create(template(a=value())), Here(heat)
    assert command("lock s") == 0
    marks = [{"resource": "a", "mark_unhealthy": True}]
    heat.fault("PATCH", f"{path}/resources", {"marks": marks}, code=409)
    capsys.readouterr()
    assert command("lock-status s -f value -c effect") == 0
    assert capsys.readouterr().out == f"marks: {json.dumps(marks)}\n"
    assert command("unlock s") == 0


def lists(parser: argparse.ArgumentParser, words: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of all commands that print a table and ask a server."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for name, child in action.choices.items():
            yield from lists(child, (*words, name))
    names = {action.dest for action in parser._actions}
    if not below and {"column", "output", "endpoint"} <= names:
        yield words


VALUE = "resources: {a: {type: OS::Heat::Value, properties: {value: {get_param: pw}}}}\n"
EXAMPLES = {"stack": "s", "source": "generic"}
"""Values of positional arguments."""


@pytest.mark.parametrize("words", few((words,) for words in lists(every_command())), ids=" ".join)
def test_an_empty_table_says_of_what_and_where(
    heat: Heat, words: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    """Commands that show one object print no such line."""
    heat.create(template())
    parser = every_command()
    for word in words:
        (action,) = (one for one in parser._actions if isinstance(one, argparse._SubParsersAction))
        parser = action.choices[word]
    given = [EXAMPLES.get(one.dest, "x") for one in parser._actions if one.required and not one.option_strings]
    flags = ["--format", "table"]
    Here(heat)(" ".join([*words, *given, *flags]))
    out, err = capsys.readouterr()
    assert "There are none" not in err
    if words[-1] in ("list", "ls", "actions", "resources", "outputs", "find", "audit") and not out:
        assert re.match(rf"No [a-z ]+ in project {heat.project} at here\.", err)


@pytest.mark.slow
def test_one_output_and_one_resource(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": value("inside")}}
    outputs = {"word": {"value": {"get_attr": ["a", "value"]}}, "map": {"value": {"x": [1, "ä"]}}}
    heat.create({**template(a=value("hello"), g=group), "outputs": outputs})
    here = Here(heat)
    for line, told in (
        ("outputs s word", "hello\n"),
        ("outputs s map", '{"x": [1, "ä"]}\n'),
        ("outputs s word -f value -c output_value", "hello\n"),
        ("resources s a -f value -c resource_status", "CREATE_COMPLETE\n"),
        ("resources s g/1 -f value -c resource_name -c resource_type", "1\nOS::Heat::Value\n"),
    ):
        assert here(line) == 0
        assert capsys.readouterr().out == told, line
    for line, hint in (("outputs s wrod", "Did you mean word?"), ("resources s g/2", "could not be found")):
        assert here(line) == 1
        assert hint in capsys.readouterr().err, line
    for line in ("mark-unhealthy s aa", "mark-healthy s aa", "protect s aa", "unprotect s aa", "member check s aa"):
        assert here(line) == 1
        assert "Did you mean a?" in capsys.readouterr().err, line
    assert here("group resize s gg 2") == 1
    assert "Did you mean g?" in capsys.readouterr().err


def leaves(parser: CommandParser) -> Iterator[CommandParser]:
    """Yield the commands that can be run."""
    if not parser.commands:
        yield parser
    for one in parser.commands.values():
        yield from leaves(one)


def of_stacks() -> Iterator[list[str]]:
    """Yield an example of each command on a stack, with a misspelt name."""
    every = every_command()
    for parser in {one.prog: one for one in leaves(every)}.values():
        for words in map(shlex.split, parser.examples):
            name = getattr(every.parse_known_args(words)[0], "stack", None)
            if isinstance(name, str) and words[0] != "import" and not any("." in word for word in words):
                flags = {flag for one in parser.arguments for flag in one.option_strings}
                consent = [] if "--yes" not in flags or {"-y", "--yes"} & {*words} else ["--yes"]
                yield ["wbe" if word == name else word for word in words] + consent
                break


@pytest.mark.slow
def test_a_misspelt_stack_is_answered_with_its_name(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat.create(template(a=value("x")), "web")
    lines = [*of_stacks()]
    assert len(lines) > 50
    for line in lines:
        assert run([*line, "--project", heat.project], Here(heat)) == 1, line  # type: ignore[arg-type]
        assert capsys.readouterr().err.endswith("(wbe) could not be found. Did you mean web? (HTTP 404)\n"), line


@pytest.mark.parametrize(
    "line",
    [
        "detach s netwrk -y",
        "detach s netwrk --as-external -y",
        "move s netwrk net -y",
        "drift revert s netwrk -y",
        "drift accept s netwrk -y",
        "heal s netwrk -y",
        "group leave s netwrk 1 -y",
        "group join s netwrk 1 -y",
        "group delete s netwrk 1 -y",
        "group resize s netwrk 2",
        "group scale-out s netwrk",
        "group scale-in s netwrk",
        "group replace s netwrk 1",
        "group detach-policy s netwrk p",
        "member check s netwrk",
        "member recover s netwrk",
        "mark-unhealthy s netwrk",
        "mark-healthy s netwrk",
        "protect s netwrk",
        "unprotect s netwrk",
        "resources s netwrk",
        "resources s netwrk/2",
    ],
)
def test_a_misspelt_resource_is_answered_with_its_name(
    heat: Heat, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    heat.create(template(network=value("x")))
    assert Here(heat)(line) == 1
    told = "The Resource (netwrk) could not be found in Stack s. Did you mean network? (HTTP 404)\n"
    assert capsys.readouterr().err.endswith(told)


@pytest.mark.parametrize(
    "line", ["up s.yaml -y --target netwrk", "plan s.yaml --exclude netwrk", "down s -y --retain netwrk"]
)
def test_a_misspelt_choice_is_answered_with_its_name(
    heat: Heat, line: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("s.yaml").write_text(json.dumps(template(network=value("x"))))
    heat.create(template(network=value("x")))
    assert Here(heat)(line) == 1
    assert 'did you mean "network"?' in capsys.readouterr().err


@pytest.mark.parametrize("command", ["up", "plan"])
def test_a_stack_in_the_place_of_a_file(
    heat: Heat, command: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    heat.create(template(a=value("x")), "web")
    assert Here(heat)(f"{command} web") == 2
    assert f"web is a stack, not a file. Give the template: heatlite {command} FILE -n web." in capsys.readouterr().err
    Path("wbe.yaml").touch()
    for word, told in (("other", ""), ("web.yml", "; did you mean wbe.yaml?")):
        assert Here(heat)(f"{command} {word}") == 2
        assert capsys.readouterr().err == f"heatlite: {word}: no such file{told}\n"


def test_a_missing_parameter_is_named_with_its_place_and_option(
    heat: Heat, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "t.yaml"
    parameter = "  pw: {type: string, description: Password of the database}\n"
    file.write_text(f"heat_template_version: 2018-08-31\nparameters:\n{parameter}{VALUE}")
    assert Here(heat)(f"up --yes {file} -n s") == 1
    place = f"{file}:3:3: error: The Parameter (pw) was not provided. (Password of the database: -P pw=…)"
    assert place in capsys.readouterr().err


def test_what_changes_nothing_says_so(heat: Heat, capsys: pytest.CaptureFixture[str]) -> None:
    heat.create(template(a=value()))
    for line, told in (
        ("mark-healthy s a", "Nothing was changed: it was not marked.\n"),
        ("unprotect s a", "Nothing was changed: there is nothing to change.\n"),
        ("mark-unhealthy s a", ""),
    ):
        assert Here(heat)(line) == 0
        err = capsys.readouterr().err
        assert told in err and (told or "Nothing was changed" not in err), line
