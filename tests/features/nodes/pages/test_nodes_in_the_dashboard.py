"""Pages of nodes and playbooks, and their cards on other pages."""

import json

import pytest
import yaml

from heatlite import wiring
from heatlite.store.store import Store
from tests.api.conftest import template, value
from tests.features.dashboard.conftest import Browser
from tests.features.nodes.registered_nodes import registered

PLAYBOOK = """node_playbook: 2026-11-21
stages:
  - name: first
    nodes: all
    action: {kind: script, args: {config: "true"}}
"""


@pytest.fixture
def store(server: wiring.Embedded) -> Store:
    return server.store


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
    monkeypatch.setattr("heatlite.features.nodes.pages.NEWEST", 1)
    assert "3 more wait." in browser.get("/approvals").text
    monkeypatch.setattr("heatlite.features.nodes.api.node_actions.MAX_PAGE", 2)
    assert "At least 1 more wait." in browser.get("/approvals").text
    assert "More runs wait." not in browser.get("/approvals").text
    monkeypatch.setattr("heatlite.api.handlers.actions.MAX_PAGE", 1)
    assert "More runs wait." in browser.get("/approvals").text
    for one in asked:
        browser.heat.call("POST", f"/node_actions/{one['id']}/reject")
    for one in runs:
        browser.heat.call("POST", f"/node_playbook_runs/{one['id']}/reject")


@pytest.mark.slow
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


@pytest.mark.slow
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
