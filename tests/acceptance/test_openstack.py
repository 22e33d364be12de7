"""The `openstack` command with python-heatclient's commands and those of heatlite."""

import json
import re
from collections.abc import Iterator
from importlib.metadata import distribution
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.processes import TEMPLATES, OpenStack, Server
from tests.tables import sampled
from tests.waiting import eventually

STORY = str(TEMPLATES / "maintenance-story.yaml")


@pytest.fixture(scope="module")
def story(openstack: OpenStack) -> Iterator[str]:
    """A stack that is only looked at."""
    created = openstack.ok(
        "stack", "create", "-t", STORY, "--parameter", "boot_time=0", "--tags", "a,b", "--wait", "--poll", "0", "reads"
    )  # fmt: skip
    assert "CREATE_COMPLETE" in created.out  # of the events it prints few if two of its polls find none
    yield "reads"
    openstack.ok("stack", "delete", "--yes", "reads")


READS = {
    "stack list": "CREATE_COMPLETE",
    "stack list --long": "demo",
    "stack list --short": "reads",
    "stack list --deleted": "reads",
    "stack list --nested": "reads",
    "stack list --hidden": "reads",
    "stack list --tags a,b": "reads",
    "stack list --property stack_status=CREATE_COMPLETE --sort stack_name:desc": "reads",
    "stack show reads": "token_length",
    "stack show reads --no-resolve-outputs": "CREATE_COMPLETE",
    "stack template show reads": "get_attr",
    "stack environment show reads": "boot_time: '0'",
    "stack file list reads": "files: {}",
    "stack output list reads": "The token that the members share.",
    "stack output show reads token": "output_value",
    "stack output show reads --all": "output_value",
    "stack resource list reads": "OS::Heat::RandomString",
    "stack resource list reads --long -n 2": "reads-token-",
    "stack resource list reads --filter type=OS::Heat::Value": "endpoint",
    "stack resource list reads -f dot": "-> r_",
    "stack resource show reads token": "required_by",
    "stack resource show reads token --with-attr value": "value",
    "stack resource metadata reads token": "{}",
    "stack event list reads": "[reads.member_2]: CREATE_COMPLETE",
    "stack event list reads --nested-depth 3": "[reads.token]: CREATE_COMPLETE",
    "stack event list reads --resource token -f value": "state changed",
    "stack event list reads --limit 1": "[reads]: CREATE_IN_PROGRESS",
    "stack event list reads --sort event_time:desc": "[reads]: CREATE_COMPLETE",
    "stack failures list reads": "",
    "orchestration template validate -t {story}": "MinValue: 8",
    "orchestration template validate --show-nested --ignore-errors 99001 -t {story}": "Label: token_length",
    "orchestration template version list": "heat_template_version.rocky",
    "orchestration template function list heat_template_version.rocky": "get_attr",
    "orchestration template function list --with_conditions heat_template_version.rocky": "equals",
    "orchestration resource type list": "OS::Heat::RandomString",
    "orchestration resource type list --long --filter name=.*Random.*": "Description",
    "orchestration resource type show OS::Heat::Value": "update_allowed: true",
    "orchestration resource type show --long OS::Heat::Value": "description",
    "orchestration resource type show OS::Heat::Value --template-type hot": "heat_template_version",
    "orchestration build info": "revision",
    "stack create --dry-run -t {story} other": "OS::Heat::TestResource",
    "stack update --dry-run -t {story} --parameter token_length=30 reads": "replaced",
    "stack update --dry-run --existing --show-nested reads": "unchanged",
}
"""Command line → what must be in the answer."""

REFUSED = {
    "stack show nothing": "Stack not found: nothing",
    "stack create -t {story} reads": "The Stack (reads) already exists.",
    "stack create -t {story} --parameter zz=1 other": "The Parameter (zz) was not defined in template.",
    "stack create -t {story} --parameter token_length=7 other": "7 is out of range (min: 8, max: 64)",
    "stack create -t {story} 9lives": "must start with alpha",
    "stack output show reads nothing": "Stack reads or output nothing not found.",
    "stack resource show reads nothing": "nothing",
    "stack resource signal reads token": "signal is not supported for resource.",
    "stack resource mark unhealthy reads nothing": "nothing",
    "stack event show reads token 999999": "999999",
    "stack cancel reads": "not in cancelable state",
    "stack hook poll reads": "not IN_PROGRESS",
    "stack delete --yes nothing": "Unable to delete 1 of the 1 stacks.",
    "orchestration resource type show No::Such": "not found: No::Such",
    "orchestration template function list zz": "not found",
}
"""Command line → what its error has to say."""


def words(line: str) -> list[str]:
    return [word.format(story=STORY) for word in line.split()]


@pytest.mark.parametrize("line", sampled(READS, 11, pytest.mark.thorough))
def test_reads(openstack: OpenStack, story: str, line: str) -> None:
    assert READS[line] in openstack.ok(*words(line)).out


@pytest.mark.parametrize("line", sampled(REFUSED, 4, pytest.mark.thorough))
def test_refusals_say_why(openstack: OpenStack, story: str, line: str) -> None:
    done = openstack(*words(line))
    assert done.code != 0
    assert REFUSED[line] in done.err


def test_a_dry_run_of_an_update_tells_what_would_happen(openstack: OpenStack, story: str) -> None:
    changes: Any = openstack.json("stack", "update", "--dry-run", "-t", STORY, "--parameter", "token_length=30", story)
    found = {kind: {item["resource_name"] for item in items} for kind, items in changes.items()}
    assert found["replaced"] == {"token"}
    assert found["added"] == found["deleted"] == set()


def test_show_event(openstack: OpenStack, story: str) -> None:
    events: Any = openstack.json("stack", "event", "list", story, "--resource", "token")
    shown: Any = openstack.json("stack", "event", "show", story, "token", events[-1]["id"])
    assert (shown["resource_type"], shown["resource_status"]) == ("OS::Heat::RandomString", "CREATE_COMPLETE")


def test_service_list(openstack: OpenStack) -> None:
    eventually(lambda: openstack.json("orchestration", "service", "list") != [], "the engine reports")
    services: Any = openstack.json("orchestration", "service", "list")
    assert [(row["Binary"], row["Status"]) for row in services] == [("heat-engine", "up")]


def test_pages(openstack: OpenStack, server: Server, story: str) -> None:
    empty = {"heat_template_version": "2018-08-31"}
    paths = [server.create(f"page-{number}", empty) for number in range(5)]
    for path in paths:
        server.settled(path)
    listed: Any = openstack.json("stack", "list", "--limit", "2")
    assert [row["Stack Name"] for row in listed] == ["page-4", "page-3"]
    listed = openstack.json("stack", "list", "--limit", "3", "--marker", listed[-1]["ID"])
    assert [row["Stack Name"] for row in listed] == ["page-2", "page-1", "page-0"]
    openstack.ok("stack", "delete", "--yes", *(f"page-{number}" for number in range(5)))
    for path in paths:
        assert server.settled(path) == "DELETE_COMPLETE"


def physical_ids(openstack: OpenStack, stack: str) -> dict[str, str]:
    listed: Any = openstack.json("stack", "resource", "list", stack)
    return {row["resource_name"]: row["physical_resource_id"] for row in listed}


@pytest.mark.slow
def test_mark_and_replace_then_lock_and_unlock(openstack: OpenStack, server: Server, lock_commands: None) -> None:
    openstack.ok("stack", "create", "-t", STORY, "--parameter", "boot_time=0", "--wait", "--poll", "0", "main")
    stack: Any = openstack.json("stack", "show", "main")
    path = f"/stacks/main/{stack['id']}"
    before = physical_ids(openstack, "main")

    openstack.ok("stack", "resource", "mark", "unhealthy", "main", "member_1", "disk errors")
    shown: Any = openstack.json("stack", "resource", "show", "main", "member_1")
    assert (shown["resource_status"], shown["resource_status_reason"]) == ("CHECK_FAILED", "disk errors")
    changes: Any = openstack.json("stack", "update", "--existing", "--dry-run", "main")
    assert [item["resource_name"] for item in changes["replaced"]] == ["member_1"]
    openstack.ok("stack", "update", "--existing", "main")
    assert server.settled(path) == "UPDATE_COMPLETE"
    after = physical_ids(openstack, "main")
    assert [name for name in before if before[name] != after[name]] == ["member_1"]

    openstack.ok("stack", "resource", "mark", "unhealthy", "main", "member_2")
    openstack.ok("stack", "resource", "mark", "unhealthy", "--reset", "main", "member_2")
    openstack.ok("stack", "check", "main")
    assert server.settled(path) == "CHECK_COMPLETE"

    locked: Any = openstack.json("stack", "lock", "--level", "stacks", "--reason", "disk swap", "--wait", "main")
    assert (locked["stack_status"], locked["level"], locked["reason"]) == ("LOCK_COMPLETE", "stacks", "disk swap")
    for line in (
        f"stack update -t {STORY} main",
        "stack update --existing main",
        "stack delete --yes main",
        "stack check main",
        "stack resource mark unhealthy main member_1",
    ):
        refused = openstack(*line.split())
        assert refused.code != 0, line
        for said in ("disk swap", "stacks", "anonymous", "openstack stack unlock main"):
            assert said in refused.err, line
    assert physical_ids(openstack, "main") == after
    shown = openstack.json("stack", "lock", "show", "main")
    assert [entry["request"] for entry in shown["suppressed"]] == [
        "update", "update", "delete", "check", "mark_unhealthy",
    ]  # fmt: skip
    assert "delete main by anonymous" in openstack.ok("stack", "lock", "show", "main").out

    unlocked: Any = openstack.json("stack", "unlock", "--wait", "main")
    assert (unlocked["stack_status"], unlocked["locked"]) == ("UNLOCK_COMPLETE", False)
    assert "not locked" in openstack("stack", "unlock", "main").err
    openstack.ok("stack", "update", "-t", STORY, "--parameter", "boot_time=0", "main")
    assert server.settled(path) == "UPDATE_COMPLETE"
    openstack.ok("stack", "delete", "--yes", "main")
    assert server.settled(path) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_hooks(openstack: OpenStack, server: Server, tmp_path: Path) -> None:
    """`hook poll` and `hook clear` find their way by the events."""
    template = tmp_path / "pair.yaml"
    members = {name: {"type": "OS::Heat::TestResource", "properties": {"value": name}} for name in ("one", "two")}
    template.write_text(json.dumps({"heat_template_version": "2018-08-31", "resources": members}))

    def waiting() -> list[str]:
        found: Any = openstack.json("stack", "hook", "poll", "hooked")
        return [row["Resource Status Reason"] for row in found]

    openstack.ok("stack", "create", "-t", str(template), "--pre-create", "*", "hooked")
    stack: Any = openstack.json("stack", "show", "hooked")
    path, paused = f"/stacks/hooked/{stack['id']}", "CREATE paused until Hook pre-create is cleared"
    eventually(lambda: waiting() == [paused] * 2, "both resources wait")
    openstack.ok("stack", "hook", "clear", "--pre-create", "hooked", "one")
    assert waiting() == [paused]
    assert "resource one" in openstack("stack", "hook", "clear", "--pre-create", "hooked", "one").err
    openstack.ok("stack", "hook", "clear", "--pre-create", "hooked", "two")
    assert server.settled(path) == "CREATE_COMPLETE"

    openstack.ok("stack", "update", "--existing", "--pre-update", "one", "hooked")
    eventually(lambda: len(waiting()) == 1, "one waits before its update")
    openstack.ok("stack", "hook", "clear", "hooked", "one")
    assert server.settled(path) == "UPDATE_COMPLETE"
    openstack.ok("stack", "delete", "--yes", "hooked")
    assert server.settled(path) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_hooks_of_the_members_of_a_group(openstack: OpenStack, server: Server, tmp_path: Path) -> None:
    """The client passes lifecycle hooks unchanged, and releases members by their path."""
    template, environment = tmp_path / "group.yaml", tmp_path / "environment.yaml"
    member = {"type": "OS::Heat::TestResource", "properties": {"value": "m"}}
    sizes = {"parameters": {"size": {"type": "number"}}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": {"get_param": "size"}, "resource_def": member}}
    template.write_text(json.dumps({"heat_template_version": "2018-08-31", **sizes, "resources": {"g": group}}))
    hooks = {"lifecycle_hook": {"timeout": 600}, "hooks": "pre-delete"}
    environment.write_text(json.dumps({"resource_registry": {"resources": {"g": {"*": hooks}}}}))
    given = ("-t", str(template), "-e", str(environment))
    openstack.ok("stack", "create", *given, "--parameter", "size=3", "members")
    stack: Any = openstack.json("stack", "show", "members")
    path, paused = f"/stacks/members/{stack['id']}", "DELETE paused until Hook pre-delete is cleared"
    assert server.settled(path) == "CREATE_COMPLETE"

    def told() -> int:
        return openstack.ok("stack", "event", "list", "--nested-depth", "2", "members").out.count(paused)

    openstack.ok("stack", "update", *given, "--parameter", "size=1", "members")
    eventually(lambda: told() == 2, "two members wait")
    openstack.ok("stack", "hook", "clear", "--pre-delete", "members", "g/1", "g/2")
    assert server.settled(path) == "UPDATE_COMPLETE"

    openstack.ok("stack", "delete", "--yes", "members")
    eventually(lambda: told() == 3, "the last one waits")
    found: Any = openstack.json("stack", "hook", "poll", "--nested-depth", "2", "members")
    assert [row["Resource Status Reason"] for row in found] == [paused]
    openstack.ok("stack", "hook", "clear", "members", "g/0")
    assert server.settled(path) == "DELETE_COMPLETE"


@pytest.mark.slow
def test_snapshots(openstack: OpenStack, server: Server, tmp_path: Path) -> None:
    template = tmp_path / "value.yaml"
    made = {"type": "OS::Heat::TestResource", "properties": {"value": {"get_param": "p"}}}
    parameters = {"p": {"type": "string", "default": "old"}}
    text = {"heat_template_version": "2018-08-31", "parameters": parameters, "resources": {"a": made}}
    template.write_text(json.dumps(text))
    openstack.ok("stack", "create", "-t", str(template), "--wait", "--poll", "0", "kept")
    stack: Any = openstack.json("stack", "show", "kept")
    path = f"/stacks/kept/{stack['id']}"
    taken: Any = openstack.json("stack", "snapshot", "create", "--name", "first", "kept")
    assert (taken["name"], taken["status"]) == ("first", "IN_PROGRESS")
    assert server.settled(path) == "SNAPSHOT_COMPLETE"
    (listed,) = openstack.json("stack", "snapshot", "list", "kept")
    assert (listed["id"], listed["status"]) == (taken["ID"], "COMPLETE")
    shown: Any = openstack.json("stack", "snapshot", "show", "kept", taken["ID"])
    assert shown["snapshot"]["data"]["resources"]["a"]["resource_data"] == {"value": "old"}
    openstack.ok("stack", "update", "--existing", "--parameter", "p=new", "kept")
    assert server.settled(path) == "UPDATE_COMPLETE"
    openstack.ok("stack", "snapshot", "restore", "kept", taken["ID"])
    assert server.settled(path) == "RESTORE_COMPLETE"
    restored: Any = openstack.json("stack", "show", "kept")
    assert restored["parameters"]["p"] == "old"
    openstack.ok("stack", "snapshot", "delete", "--yes", "kept", taken["ID"])
    assert openstack.json("stack", "snapshot", "list", "kept") == []
    openstack.ok("stack", "delete", "--yes", "--wait", "kept")


@pytest.mark.slow
def test_suspend_resume_export_abandon_adopt(openstack: OpenStack, server: Server, tmp_path: Path) -> None:
    openstack.ok("stack", "create", "-t", STORY, "--parameter", "boot_time=0", "--wait", "--poll", "0", "moving")
    stack: Any = openstack.json("stack", "show", "moving")
    path, before = f"/stacks/moving/{stack['id']}", physical_ids(openstack, "moving")
    assert "SUSPEND_COMPLETE" in openstack.ok("stack", "suspend", "--wait", "moving").out
    assert server.settled(path) == "SUSPEND_COMPLETE"
    assert "RESUME_COMPLETE" in openstack.ok("stack", "resume", "--wait", "moving").out
    exported = tmp_path / "exported.json"
    openstack.ok("stack", "export", "--output-file", str(exported), "moving")
    abandoned = tmp_path / "abandoned.json"
    openstack.ok("stack", "abandon", "--output-file", str(abandoned), "moving")
    assert server.settled(path) == "DELETE_COMPLETE"
    assert json.loads(abandoned.read_text()) == json.loads(exported.read_text())
    adopted = openstack.ok("stack", "adopt", "--adopt-file", str(abandoned), "--wait", "moved")
    assert "ADOPT_COMPLETE" in adopted.out
    assert physical_ids(openstack, "moved") == before
    changes: Any = openstack.json("stack", "update", "--existing", "--dry-run", "moved")
    assert {item["resource_name"] for item in changes.pop("unchanged")} == set(before)
    assert not any(changes.values())
    openstack.ok("stack", "delete", "--yes", "--wait", "moved")


def test_cancel(openstack: OpenStack, server: Server, tmp_path: Path) -> None:
    template = tmp_path / "slow.yaml"
    template.write_text(
        "heat_template_version: 2018-08-31\n"
        "parameters: {wait: {type: number, default: 0}}\n"
        "resources:\n"
        "  a: {type: OS::Heat::TestResource, properties: {wait_secs: {get_param: wait}, value: {get_param: wait}}}\n"
    )
    openstack.ok("stack", "create", "-t", str(template), "--wait", "--poll", "0", "cancelled")
    stack: Any = openstack.json("stack", "show", "cancelled")
    path = f"/stacks/cancelled/{stack['id']}"
    openstack.ok("stack", "update", "--existing", "--parameter", "wait=60", "cancelled")
    openstack.ok("stack", "cancel", "--no-rollback", "cancelled")
    openstack.ok("stack", "delete", "--yes", "cancelled")
    assert server.settled(path) == "DELETE_COMPLETE"


def test_failures_are_listed(openstack: OpenStack, server: Server, tmp_path: Path) -> None:
    template = tmp_path / "boom.yaml"
    template.write_text(
        "heat_template_version: 2018-08-31\n"
        "resources: {boom: {type: OS::Heat::TestResource, properties: {fail: true}}}\n"
    )
    done = openstack("stack", "create", "-t", str(template), "--wait", "--poll", "0", "boom")
    assert done.code != 0
    # The client reads no events any more when the stack ends between its last look at them and its look at the stack.
    assert "Stack boom CREATE_FAILED" in done.err
    assert "[boom]: CREATE_FAILED" in openstack.ok("stack", "event", "list", "boom").out
    assert "resource_type: OS::Heat::TestResource" in openstack.ok("stack", "failures", "list", "--long", "boom").out
    openstack.ok("stack", "delete", "--yes", "boom")


@pytest.mark.corpus
@pytest.mark.parametrize(
    ("template", "given", "outputs"),
    [
        ("condition.yaml", [], {"prod_resource": "no_prod_res", "test_res_value": "env_is_test"}),
        ("condition.yaml", ["env_type=prod"], {"res_value": "prod_res", "test_res_value": "env_is_prod"}),
        ("resource_group/random.yaml", ["lengths=4,5,6", "index=1"], {}),
    ],
)
def test_templates_of_others(
    openstack: OpenStack, server: Server, corpus: Path, template: str, given: list[str], outputs: dict[str, str]
) -> None:
    options = [word for item in given for word in ("--parameter", item)]
    openstack.ok("stack", "create", "-t", str(corpus / template), *options, "--wait", "--poll", "0", "theirs")
    stack: Any = openstack.json("stack", "show", "theirs")
    values = {item["output_key"]: item.get("output_value") for item in stack["outputs"]}
    assert outputs.items() <= values.items()
    if "random" in template:
        assert len(values["value"]) == 5
    openstack.ok("stack", "update", "-t", str(corpus / template), *options, "theirs")
    path = f"/stacks/theirs/{stack['id']}"
    assert server.settled(path) == "UPDATE_COMPLETE"
    openstack.ok("stack", "delete", "--yes", "theirs")
    assert server.settled(path) == "DELETE_COMPLETE"


def test_every_command_of_heats_client_is_used() -> None:
    """Some test of this folder runs it against a server."""
    pytest.importorskip("heatclient", reason="python-heatclient is not installed: pip install -e '.[client]'")
    every = distribution("python-heatclient").entry_points
    commands = [one.name for one in every if one.group.startswith("openstack.")]
    assert len(commands) > 40
    texts = "\n".join(path.read_text() for path in Path(__file__).parent.glob("*.py"))
    words = re.sub(r'",\s*"', " ", texts)
    assert [name for name in commands if name.replace("_", " ") not in words] == []
