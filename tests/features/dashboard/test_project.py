"""Pages of a project and of a stack's parts, and their forms."""

import json

import pytest
import yaml
from msgspec.structs import replace

from heatlite import wiring
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.store.store import Store
from tests.api.conftest import template, value
from tests.features.nodes.registered_nodes import registered

from .conftest import Browser

PLAYBOOK = """node_playbook: 2026-11-21
stages:
  - name: first
    nodes: all
    action: {kind: script, args: {config: "true"}}
"""


@pytest.fixture
def store(server: wiring.Embedded) -> Store:
    return server.store


@pytest.mark.parametrize("path", ["actions", "approvals", "healing", "nodes", "playbooks", "services", "audit"])
def test_each_page_of_an_empty_project_opens(browser: Browser, path: str) -> None:
    page = browser.get(f"/ui/p/empty/{path}")
    assert page.html.find("a", {"aria-current": "page"}).text.lower() == path
    assert page.html.find("aside", {"class": "cli"}).code.text.startswith("heatlite ")


@pytest.mark.full
def test_refused_requests_are_replayed_and_dropped_one_by_one(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="refused")
    browser.post(browser.get(path + "/lock"), "/do/lock", reason="fans")
    browser.heat.settle(path)
    for body in ({"suspend": None}, {"check": None}):
        browser.heat.call("POST", path + "/actions", body, code=409)
    page = browser.get(path + "/lock")
    assert "fans" in page.text
    assert page.text.count("/do/replay") == 2
    browser.post(page, "/do/drop")
    browser.post(browser.get(path + "/lock"), "/do/unlock")
    browser.heat.settle(path)
    page = browser.post(browser.get(path + "/lock"), "/do/replay")
    assert "The request was made again." in page.text
    browser.heat.settle(path)
    assert "Nothing was refused." in browser.get(path + "/lock").text


@pytest.mark.full
def test_health_shows_the_plan_of_a_repair_and_does_it(browser: Browser) -> None:
    path = browser.heat.create(template(a=value(), b=value()), name="unwell")
    page = browser.post(browser.get(path + "/health"), "/do/mark", resource="b", reason="smoke")
    assert "smoke" in page.text
    assert "Heal now, exactly this" in page.text
    assert "mode_off holds the repair" in browser.post(page, "/do/heal", 409).text
    page = browser.post(page, "/do/heal", **{"ignore:mode_off": "true"})
    assert "The repair has begun." in page.text
    assert page.html.body["data-calm"] == "60", "no event tells the end of a repair"
    browser.heat.settle(path)
    assert "Every resource counts as healthy." in browser.get(path + "/health").text
    bars = browser.get(path + "/progress").html.find("table", {"class": "bars"}).tbody.find_all("tr")
    assert [row.find("span", {"class": "chip"}).text.strip() for row in bars] == ["create complete", "delete complete"]


def test_progress_names_the_first_failure(browser: Browser) -> None:
    bad = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    path = browser.heat.create(template(a=value(), bad=bad), name="fails")
    page = browser.get(path + "/progress")
    assert page.html.find("section", {"class": "notice"}).strong.text == "First failure: bad"
    assert "healthy" not in page.html.find("div", {"id": "stackhead"}).text
    assert page.html.find("rect", {"class": "bar bad"})
    action = browser.get("/actions?status=FAILED").html.find("td", {"class": "name"}).a["href"]
    assert "Attempt" in browser.get(action).text


@pytest.mark.full
def test_node_actions_and_runs_wait_for_an_approval(browser: Browser, store: Store) -> None:
    path = browser.heat.create(template(web=value(), db=value()), name="machines")
    stack = store.stacks.by_name("demo", "machines")
    assert stack is not None
    for name in ("web", "db"):
        registered(store, stack, name)
    form = next(one for one in browser.get("/playbooks").forms.values() if one.action.endswith("/do/playbook"))
    form["name"], form["document"] = "restart", PLAYBOOK
    assert "restart" in form.submit(status=303).follow().text
    page = browser.post(browser.get(path + "/nodes"), "/do/node_action", kind="script", args='{"script": "reboot"}')
    assert "waits for approval" in page.text
    browser.post(browser.get(path + "/nodes"), "/do/node_action", 400, kind="script", args="{")
    browser.post(page, "/do/run")
    page = browser.get("/approvals")
    assert "script: reboot" in page.text
    assert "Playbook restart" in page.text
    assert browser.get("").html.find("span", {"class": "badge"}).text.startswith("2")
    browser.post(page, "/do/approve")
    page = browser.get("/approvals")
    assert "script: reboot" not in page.text
    browser.post(page, "/do/approve_run")
    assert "Nothing waits for a decision." in browser.get("/approvals").text
    run = browser.get("/playbooks").html.find(id="runs").tbody.a["href"]
    page = browser.get(run)
    matrix = page.html.find("table", {"class": "matrix"})
    assert [one.text for one in matrix.find_all("th", {"scope": "row"})] == ["db", "web"]
    assert len(matrix.find_all("a")) == 2
    one = browser.get("/nodes").html.find("td", {"class": "name"}).a["href"]
    assert "Arguments" in browser.get(one).text


def test_nodes_of_the_same_name_have_rows_of_their_own(browser: Browser, store: Store) -> None:
    below = {"type": "below.yaml"}
    files = {"below.yaml": json.dumps(template(web=value()))}
    browser.heat.create(template(a=below, b=below), name="twins", files=files)
    stack = store.stacks.by_name("demo", "twins")
    assert stack is not None
    ids = {registered(store, one, "web").id for one in store.stacks.descendants(stack)}
    body = {"document": {**yaml.safe_load(PLAYBOOK), "node_playbook": "2026-11-21"}}
    run = browser.heat.call("POST", f"/stacks/twins/{stack.id}/node_playbook_runs", body, code=202).json["action"]["id"]
    matrix = browser.get(f"/actions/{run}").html.find("table", {"class": "matrix"})
    assert {one.text for one in matrix.find_all("th", {"scope": "row"})} == {f"web ({one})" for one in ids}
    assert len(matrix.find_all("a")) == 2
    assert "2 actions" in browser.get("/approvals").text
    browser.heat.call("POST", f"/node_playbook_runs/{run}/reject")


def test_a_node_is_chosen_among_those_of_the_same_name(browser: Browser, store: Store) -> None:
    below = {"type": "below.yaml"}
    files = {"below.yaml": json.dumps(template(web=value()))}
    path = browser.heat.create(template(a=below, b=below), name="pair", files=files)
    stack = store.stacks.by_name("demo", "pair")
    assert stack is not None
    ids = {registered(store, one, "web").id for one in store.stacks.descendants(stack)}
    page = browser.get(f"{path}/nodes")
    form = next(one for one in page.forms.values() if one.action.endswith("/do/node_action"))
    assert {text for _, _, text in form["node"].options} == {f"web ({one})" for one in ids}
    form["kind"], form["args"] = "script", "{"
    form = next(one for one in form.submit(status=400).forms.values() if one.action.endswith("/do/node_action"))
    assert (form["kind"].value, form["args"].value) == ("script", "{")
    form["args"] = "{}"
    chosen = form["node"].value
    assert "waits for approval" in form.submit(status=303).follow().text
    (one,) = browser.heat.get(f"{path}/node_actions")["node_actions"]
    assert one["node_id"] == chosen
    # The approver sees which of them.
    (name,) = (nested.name for nested in store.stacks.descendants(stack) if nested.id == one["stack"])
    assert name in browser.get("/approvals").html.find("section", class_="approval").h2.text
    browser.heat.call("POST", f"/node_actions/{one['id']}/reject")


def test_approvals_beyond_a_page_of_the_api_are_not_forgotten(
    browser: Browser, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = browser.heat.create(template(web=value()), name="crowd")
    stack = store.stacks.by_name("demo", "crowd")
    assert stack is not None
    node = registered(store, stack, "web").id
    document = {**yaml.safe_load(PLAYBOOK), "node_playbook": "2026-11-21"}
    body = {"node": node, "kind": "script"}
    asked = [browser.heat.call("POST", f"{path}/node_actions", body, code=201).json["node_action"] for _ in range(4)]
    body = {"document": document}
    runs = [browser.heat.call("POST", f"{path}/node_playbook_runs", body, code=202).json["action"] for _ in range(2)]
    monkeypatch.setattr("heatlite.features.dashboard.pages.project.NEWEST", 1)
    assert "3 more wait." in browser.get("/approvals").text
    monkeypatch.setattr("heatlite.features.nodes.api.node_actions.MAX_PAGE", 2)
    assert "At least 1 more wait." in browser.get("/approvals").text
    assert "More runs or repairs wait." not in browser.get("/approvals").text
    monkeypatch.setattr("heatlite.api.handlers.actions.MAX_PAGE", 1)
    assert "More runs or repairs wait." in browser.get("/approvals").text
    for one in asked:
        browser.heat.call("POST", f"/node_actions/{one['id']}/reject")
    for one in runs:
        browser.heat.call("POST", f"/node_playbook_runs/{one['id']}/reject")


@pytest.mark.full
def test_a_large_run_hides_no_other_request(browser: Browser, store: Store) -> None:
    browser.heat.create(template(web=value(), db=value(), log=value()), name="busy")
    stack = store.stacks.by_name("demo", "busy")
    assert stack is not None
    for name in ("web", "db", "log"):
        registered(store, stack, name)
    path = f"/stacks/busy/{stack.id}"
    asked = {"node": "web", "kind": "script", "args": {"config": "before all others"}}
    one = browser.heat.call("POST", path + "/node_actions", asked, code=201).json["node_action"]["id"]
    action = {"kind": "script", "args": {"config": "true"}}
    stages = [{"name": f"s{number}", "nodes": "all", "action": action} for number in range(67)]
    document = {"node_playbook": "2026-11-21", "stages": stages}
    run = browser.heat.call("POST", path + "/node_playbook_runs", {"document": document}, code=202).json["action"]["id"]
    page = browser.get("/approvals")
    assert "before all others" in page.text
    assert "201 actions" in page.text
    page = browser.get(f"/actions/{run}")
    assert len(page.html.find("table", {"class": "matrix"}).find_all("a")) == 200
    assert f"heatlite node actions --run {run}" in page.text
    assert "There are more nodes or stages" in page.text
    browser.heat.call("POST", f"/node_actions/{one}/reject")
    browser.heat.call("POST", f"/node_playbook_runs/{run}/reject")


def test_snapshots_are_taken_restored_and_deleted(browser: Browser) -> None:
    path = browser.heat.create(template(a=value("old")), name="snaps")
    page = browser.post(browser.get(path + "/snapshots"), "/do/snapshot", name="before")
    assert "The snapshot is being taken." in page.text
    browser.heat.settle(path)
    browser.heat.call("PATCH", path, {"template": template(a=value("new"))}, code=202)
    browser.heat.settle(path)
    page = browser.get(path + "/snapshots")
    assert page.html.find("td", class_="name").text == "before"
    browser.post(page, "/do/restore")
    assert browser.heat.settle(path)["stack_status"] == "RESTORE_COMPLETE"
    browser.post(browser.get(path + "/snapshots"), "/do/delete_snapshot")
    browser.heat.settle(path)
    assert "The stack has no snapshots." in browser.get(path + "/snapshots").text


def test_outputs_are_shown_with_their_values(browser: Browser) -> None:
    outputs = {"address": {"value": {"v4": ["203.0.113.7"]}, "description": "of the balancer"}}
    path = browser.heat.create(template(a=value()) | {"outputs": outputs}, name="tells")
    row = browser.get(path + "/outputs").html.find("tbody").tr.text
    assert all(text in row for text in ("address", "203.0.113.7", "of the balancer"))


def test_a_policy_is_switched_off_by_the_word_that_yaml_takes_for_false(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="words")
    page = browser.post(browser.get(path + "/health"), "/do/policy", policy="healing_policy: 2026-11-22\nmode: off\n")
    assert "The policy is saved." in page.text
    again = browser.post(page, "/do/policy")  # as the form shows it
    assert "Version 2" in again.text
    assert browser.heat.get(f"{path}/healing")["policy"]["mode"] == "off"
    browser.heat.call("DELETE", f"{path}/healing", code=204)


@pytest.mark.full
def test_the_healing_policy_is_set_by_a_form(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="heals")
    page = browser.post(browser.get(path + "/health"), "/do/policy", 400, policy="mode: [")
    assert "Not done." in page.text
    assert "mode: [" in page.text
    page = browser.post(page, "/do/policy", 400, policy="healing_policy: 2026-11-22\nmode: odd\n")
    page = browser.post(page, "/do/policy", policy="healing_policy: 2026-11-22\nmode: propose\n")
    assert "The policy is saved." in page.text
    assert "Version 1" in page.text
    stale = browser.get(path + "/health")
    browser.post(page, "/do/policy", policy="healing_policy: 2026-11-22\nmode: auto\nversion: 1\n")
    (row,) = browser.get("/healing").html.select("#policies tbody tr")
    assert [cell.text for cell in row.find_all("td")][:4] == ["heals", "auto", "2", "anonymous"]
    assert row.a["href"].endswith(f"{path}/health")
    assert "version 2" in browser.post(stale, "/do/policy", 409).text
    assert "None: nothing is repaired" in browser.post(browser.get(path + "/health"), "/do/policy_off").text


@pytest.mark.full
def test_open_incidents_are_shown_and_closed(browser: Browser, store: Store) -> None:
    member = {"type": "OS::Heat::TestResource"}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": member}}
    path = browser.heat.create(template(g=group), name="told")
    report = {"key": "k", "status": "unhealthy", "stack": "told", "resource": "g/0", "reason": "smoke"}
    browser.heat.call("POST", "/health/generic", {"reports": [report]})
    page = browser.get("/healing")
    (row,) = (row for row in page.html.select("#incidents tbody tr") if "smoke" in row.text)
    assert [cell.text for cell in row.find_all("td")][:4] == ["g/0", "told", "observed", "generic"]
    assert row.a["href"].endswith(f"{path}/health")
    form = next(one for one in page.forms.values() if one.action.endswith("/do/close") and one["id"].value in str(row))
    assert "smoke" not in form.submit(status=303).follow().text
    assert "cleared" in browser.get("/healing?state=CLOSED").text
    (incident,) = (
        one for one in store.of(HealingStore).incidents.page("demo", IncidentQuery()) if one.summary == "smoke"
    )
    with store.transaction():
        assert store.of(HealingStore).incidents.move(replace(incident, state=IncidentState.PROPOSED))
    assert "Repair of g/0 in told" in browser.get("/approvals").html.text
    with store.transaction():
        assert store.of(HealingStore).incidents.move(replace(incident, version=incident.version + 1))


@pytest.mark.full
def test_several_requests_are_decided_at_once(browser: Browser, store: Store) -> None:
    path = browser.heat.create(template(web=value(), db=value()), name="many")
    stack = store.stacks.by_name("demo", "many")
    assert stack is not None
    for name in ("web", "db"):
        registered(store, stack, name)
    browser.heat.call("PUT", "/node_playbooks/several", {"document": PLAYBOOK})
    form = next(one for one in browser.get(path + "/nodes").forms.values() if one.action.endswith("/do/run"))
    form.action = f"{browser.home}{path}/nodes"
    form["playbook"] = "several"
    page = form.submit()
    plan = page.html.find("section", class_="plan")
    assert [one.text for one in plan.find_all("bdi")] == ["several", "db", "web"]
    assert "heatlite node playbook run --dry-run many several" in page.text
    assert browser.heat.get("/actions?action=STACK_PLAYBOOK&target=" + stack.id)["actions"] == []
    browser.heat.call("POST", path + "/node_playbook_runs", {"playbook": "several"}, code=202)
    for node in ("web", "db"):
        body = {"node": node, "kind": "script", "args": {"config": "true"}}
        browser.heat.call("POST", path + "/node_actions", body, code=201)
    page = browser.get("/approvals")
    chosen = page.forms["chosen"]
    assert "Choose at least one" in chosen.submit("decision", value="approve", status=400).text
    picks = {one["name"]: one["value"] for one in page.html.find_all("input", form="chosen")}
    assert len(picks) == 3
    csrf = chosen["csrf"].value
    node = next(name for name in picks if name.startswith("pick:node:"))
    fields = {**picks, node: "0" * 64, "csrf": csrf, "decision": "approve"}
    assert "2 decided, 1 refused" in browser.app.post(chosen.action, fields, status=409).text
    browser.app.post(chosen.action, {"csrf": csrf, node: picks[node], "decision": "reject"}, status=303)
    assert "Nothing waits for a decision." in browser.get("/approvals").text
