"""The page of values of other stacks."""

import json
from typing import Any

import pytest

from tests.api.conftest import template
from tests.features.dashboard.conftest import Browser
from tests.features.parameter_sources.api.test_sources import (
    SECRET,
    grant,
    owner,
    parameters,
    patch,
    read,
    reader,
    source,
    sources,
)


def rows(page: Any, part: str) -> list[list[str]]:
    """Return the words of the rows of a table, without the time at their end."""
    found = [row.select("td")[:-1] for row in page.html.select(f"#{part} tbody tr")]
    return [[" ".join(cell.get_text(" ").split()) for cell in cells] for cells in found]


@pytest.mark.slow
def test_sources_readers_and_a_refresh(browser: Browser) -> None:
    heat = browser.heat.of("valued")
    base = heat.create(owner(net="a"), "base")
    path = read(heat, net_id=source("base"))
    browser = Browser(heat.wsgi, "valued")
    page = browser.get(f"{path}/values")
    assert rows(page, "sources") == [["net_id", "base", "net", "current"]]
    assert "Plan to read again" not in page.text and "No other stack has a value of it." in page.text
    assert rows(browser.get(f"{base}/values"), "readers") == [["net", "reader", "net_id"]]
    assert f"{path}" in str(browser.get(f"{base}/values").html.find(id="readers"))
    patch(heat, base, parameters={"net": "b"})
    page = browser.get(f"{path}/values")
    assert rows(page, "sources") == [["net_id", "base", "net", "behind"]] and page.html.find(id="refresh") is None
    page = page.click("Plan to read again")
    plan = " ".join(page.html.find(id="refresh").text.split())
    assert "net_id a → b" in plan and "update" in plan
    next(one for one in page.forms.values() if one.action.endswith("/do/refresh")).submit()
    heat.settle(path, "UPDATE_COMPLETE")
    assert parameters(heat, path) == {"net_id": "b"}
    heat.call("DELETE", base, code=204)
    heat.settle(base, "DELETE_COMPLETE")
    page = browser.get(f"{path}/values?plan=refresh")
    assert rows(page, "sources") == [["net_id", "base", "net", "gone"]] and page.html.find(id="refresh") is None
    assert not page.html.select("#sources tbody a")


@pytest.mark.slow
def test_other_projects_hidden_values_and_refusals(browser: Browser) -> None:
    """Z4: a hidden value is masked. A stack of another project has no link."""
    heat = browser.heat.of("valued-hidden")
    base = heat.create(owner(hidden=True, net=SECRET), "base")
    grant(heat, base, (heat.other.project, "*"))
    theirs = {"net_id": {**source("base"), "project": heat.project}}
    path = heat.other.create(reader("net_id", hidden=True), "theirs", parameter_sources=theirs)
    patch(heat, base, parameters={"net": f"{SECRET}-new"})
    browser, other = Browser(heat.wsgi, heat.project), Browser(heat.wsgi, heat.other.project)
    page = browser.get(f"{base}/values")
    assert rows(page, "readers") == [["net", f"theirs in {heat.other.project}", "net_id"]]
    assert not page.html.select("#readers tbody a")
    page = other.get(f"{path}/values?plan=refresh")
    assert "****** → ******" in " ".join(page.html.find(id="refresh").text.split())
    assert SECRET not in page.text and not page.html.select("#sources tbody a")
    heat.other.call("POST", f"{path}/actions", {"lock": {"reason": "tests"}}, 200)
    heat.other.settle(path)
    form = next(one for one in page.forms.values() if one.action.endswith("/do/refresh"))
    assert "is under maintenance" in form.submit(status=409).text
    assert sources(heat.other, path) == [("net_id", "base", "net", "behind")]


@pytest.mark.slow
def test_nested_stacks(browser: Browser) -> None:
    """Z6."""
    heat = browser.heat.of("valued-nested")
    path = heat.create(template(c={"type": "c.yaml"}), "shop", files={"c.yaml": json.dumps(template())})
    nested = heat.get(f"{path}/resources/c")["resource"]["physical_resource_id"]
    location = heat.call("GET", f"/stacks/{nested}", code=302).location
    page = Browser(heat.wsgi, "valued-nested").get(f"{location[location.index('/stacks/'):]}/values")
    assert "come from its root" in page.text
