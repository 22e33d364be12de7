"""Pages of a project and of a stack's parts, and their forms."""

import pytest

from tests.api.conftest import template, value
from tests.tables import few

from .conftest import Browser


@pytest.mark.parametrize("path", few(["actions", "approvals", "healing", "nodes", "playbooks", "services", "audit"]))
def test_each_page_of_an_empty_project_opens(browser: Browser, path: str) -> None:
    page = browser.get(f"/ui/p/empty/{path}")
    assert page.html.find("a", {"aria-current": "page"}).text.lower() == path
    assert page.html.find("aside", {"class": "cli"}).code.text.startswith("heatlite ")


@pytest.mark.slow
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


@pytest.mark.slow
def test_progress_names_the_first_failure(browser: Browser) -> None:
    bad = {"type": "OS::Heat::TestResource", "properties": {"fail": True}}
    path = browser.heat.create(template(a=value(), bad=bad), name="fails")
    page = browser.get(path + "/progress")
    assert page.html.find("section", {"class": "notice"}).strong.text == "First failure: bad"
    assert "healthy" not in page.html.find("div", {"id": "stackhead"}).text
    assert page.html.find("rect", {"class": "bar bad"})
    action = browser.get("/actions?status=FAILED").html.find("td", {"class": "name"}).a["href"]
    assert "Attempt" in browser.get(action).text


@pytest.mark.slow
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


@pytest.mark.slow
def test_outputs_are_shown_with_their_values(browser: Browser) -> None:
    outputs = {"address": {"value": {"v4": ["203.0.113.7"]}, "description": "of the balancer"}}
    path = browser.heat.create(template(a=value()) | {"outputs": outputs}, name="tells")
    row = browser.get(path + "/outputs").html.find("tbody").tr.text
    assert all(text in row for text in ("address", "203.0.113.7", "of the balancer"))
