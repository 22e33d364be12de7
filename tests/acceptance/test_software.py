"""Software configs and deployments with the unmodified `openstack` command."""

from pathlib import Path
from typing import Any

from tests.acceptance.processes import OpenStack

SCRIPT = "#!/bin/sh\necho $greeting\n"
DEFINITION = "inputs:\n- name: greeting\n  default: hello\noutputs:\n- name: result\noptions: {}\n"


def test_a_config_and_its_deployment(openstack: OpenStack, tmp_path: Path) -> None:
    (tmp_path / "script.sh").write_text(SCRIPT)
    (tmp_path / "definition.yaml").write_text(DEFINITION)
    made: Any = openstack.json(
        "software", "config", "create", "greet", "--group", "script",
        "--config-file", str(tmp_path / "script.sh"), "--definition-file", str(tmp_path / "definition.yaml"),
    )  # fmt: skip
    assert (made["name"], made["group"], made["config"]) == ("greet", "script", SCRIPT)
    assert made["inputs"][0]["default"] == "hello"
    shown: Any = openstack.json("software", "config", "show", made["id"])
    assert shown["id"] == made["id"]
    assert openstack.ok("software", "config", "show", made["id"], "--config-only").out.strip() == SCRIPT.strip()
    listed: Any = openstack.json("software", "config", "list", "--limit", "1")
    assert [row["id"] for row in listed] == [made["id"]]

    deployed: Any = openstack.json(
        "software", "deployment", "create", "greet-web", "--server", "web", "--config", made["id"],
        "--input-value", "greeting=good day", "--action", "UPDATE", "--signal-transport", "NO_SIGNAL",
    )  # fmt: skip
    assert (deployed["server_id"], deployed["status"]) == ("web", "IN_PROGRESS")
    of_web: Any = openstack.json("software", "deployment", "list", "--server", "web", "--long")
    assert [(row["id"], row["status"]) for row in of_web] == [(deployed["id"], "IN_PROGRESS")]
    assert openstack.json("software", "deployment", "list", "--server", "other") == []
    shown = openstack.json("software", "deployment", "show", deployed["id"], "--long")
    assert shown["output_values"] == {}

    done = openstack.ok("software", "deployment", "metadata", "show", "web")
    (told,) = done.data  # type: ignore[misc]
    assert told["name"] == "greet-web"
    inputs = {one["name"]: one["value"] for one in told["inputs"]}
    assert inputs == {
        "greeting": "good day", "deploy_server_id": "web", "deploy_action": "UPDATE",
        "deploy_signal_transport": "NO_SIGNAL",
    }  # fmt: skip

    openstack.ok("software", "deployment", "output", "show", deployed["id"], "--all")
    openstack.ok("software", "deployment", "delete", deployed["id"])
    assert "not found" in openstack("software", "deployment", "show", deployed["id"]).err
    assert "not found" in openstack("software", "config", "show", deployed["config_id"]).err
    openstack.ok("software", "config", "delete", made["id"])
    refused = openstack("software", "config", "delete", made["id"])
    assert refused.code == 1
