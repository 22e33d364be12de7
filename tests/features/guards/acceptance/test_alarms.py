"""Guards with Debian's Prometheus and Alertmanager: an alarm takes updates back."""

from typing import Any

import pytest

from tests.features.healing.acceptance.monitoring import shipped
from tests.features.healing.acceptance.test_healing import PATIENCE, Site
from tests.waiting import eventually

BAKE = 3600
CRITICAL = {"bake": BAKE, "alerts": [{"labels.severity": ["critical"]}]}


def version(number: int, **more: object) -> dict[str, Any]:
    """The shipped stack, with servers that another version replaces."""
    found: dict[str, Any] = shipped("stack.yaml")
    server = found["resources"]["web"]["properties"]["resource_def"]["properties"]
    server.update(user_data_format="RAW", user_data=f"#!/bin/sh\necho {number}")
    found["resources"].update(more)
    return found


def update(site: Site, template: object, guard: object) -> int:
    return site.server.request("PUT", site.path, {"template": template, "guard": guard}).status


def guard(site: Site) -> dict[str, Any]:
    shown: Any = site.server.stack(site.path)
    return dict(shown.get("guard") or {})


def begins(site: Site, template: object, given: object, phase: str) -> set[str]:
    """Begin an update, until a phase of its guard. Returns its new servers."""
    before = {*site.members().values()}
    assert update(site, template, given) == 202
    eventually(lambda: len(site.exporter.servers()) == 2 * len(before), "all new servers are made", PATIENCE)
    eventually(lambda: guard(site).get("phase") == phase, f"the guard is in its phase {phase}", PATIENCE)
    assert before < {*site.exporter.servers()}
    return {*site.exporter.servers()} - before


def goes_back(site: Site, before: dict[str, str], new: set[str]) -> None:
    """Have one new server not answer: its alarm restores those before it."""
    watched = site.prometheus.up
    eventually(lambda: dict.fromkeys(new, "1").items() <= watched().items(), "the new servers are watched", PATIENCE)
    site.stop(min(new))
    assert site.server.settled(site.path) == "ROLLBACK_COMPLETE"
    assert "The guard has taken the update back: alertmanager reported ServerDown: The exporter of" in (
        site.server.stack(site.path)["stack_status_reason"]
    )
    assert site.members() == before
    assert {*site.exporter.servers()} == {*before.values()}


@pytest.mark.slow
def test_an_alarm_takes_an_update_back(site: Site) -> None:
    """Acceptance 6: in the changes, then in the bake; without an alarm it passes."""
    before = site.members()
    slow = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": 3600}}}
    goes_back(site, before, begins(site, version(1, slow=slow), CRITICAL, "update"))

    # Until Prometheus has lost the server that is gone, its alert stands.
    eventually(lambda: update(site, version(2), {"bake": BAKE}) == 202, "the alert is over", PATIENCE)
    eventually(lambda: guard(site).get("phase") == "bake", "it bakes", PATIENCE)
    eventually(lambda: guard(site)["heard"] == ["alertmanager"], "the watchdog is heard", PATIENCE)
    goes_back(site, before, {*site.exporter.servers()} - {*before.values()})

    eventually(lambda: update(site, version(3), {**CRITICAL, "bake": 1}) == 202, "the alert is over", PATIENCE)
    assert site.server.settled(site.path) == "UPDATE_COMPLETE"
    assert {*site.exporter.servers()} == {*site.members().values()}
    assert not {*before.values()} & {*site.members().values()}
    found: Any = site.server.request("GET", f"/actions?action=STACK_UPDATE&target={site.path.rpartition('/')[2]}").data
    results = [one["outputs"]["guard"]["result"] for one in found["actions"]]
    assert results == ["passed", "fired", "fired"]
