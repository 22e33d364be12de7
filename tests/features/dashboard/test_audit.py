"""The page of the audit log."""

import csv
from io import StringIO

import pytest

from heatlite.features.dashboard.pages import audit
from tests.api.conftest import template, value

from .conftest import Browser


@pytest.mark.slow
def test_the_log_is_filtered_and_exported(browser: Browser) -> None:
    name = "=audited"
    browser.heat.create(template(a=value()), name="audited")
    browser.heat.fault("POST", "/stacks", {"stack_name": name, "template": template()})
    page = browser.get("/audit")
    assert "stacks:create" in page.text
    assert "refused 400" in page.text
    assert "heatlite audit" in page.text
    form = page.forms[0] if "user" in page.forms[0].fields else page.forms[1]
    form["outcome"], form["stack"] = "done", "audited"
    page = form.submit()
    assert "refused 400" not in page.text
    assert "heatlite audit --outcome done --stack audited" in page.text
    assert "No request matches" in browser.get("/audit?user=nobody").text
    assert "since is not a time" in browser.get("/audit?since=never", code=400).text

    link = browser.get("/audit?outcome=refused").html.find("a", string="Export as CSV")["href"]
    export = browser.get(link)
    assert export.content_type == "text/csv"
    rows = [*csv.DictReader(StringIO(export.text))]
    assert {row["outcome"] for row in rows} == {"refused"}
    browser.get("/audit.csv?outcome=odd", code=400)


@pytest.mark.slow
def test_an_export_has_a_limit(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(audit, "EXPORT_PAGE", 2)
    monkeypatch.setattr(audit, "EXPORT_PAGES", 3)
    for number in range(7):
        browser.heat.call("DELETE", f"/stacks/none{number}/0191cf3b-6f0c-7d2e-9f7a-5a1b2c3d4e5f", code=404)
    assert len([*csv.DictReader(StringIO(browser.get("/audit.csv").text))]) == 6


def test_a_spreadsheet_runs_nothing(browser: Browser) -> None:
    browser.heat.call("DELETE", "/stacks/=cmd()/0191cf3b-6f0c-7d2e-9f7a-5a1b2c3d4e5f", code=404)
    rows = [*csv.DictReader(StringIO(browser.get("/audit.csv?stack==cmd()").text))]
    assert [row["stack_name"] for row in rows] == ["'=cmd()"]
