"""Pages of drift."""

import pytest

from tests.api.conftest import template
from tests.features.dashboard.conftest import Browser
from tests.features.drift.api.test_lists import DRIFTING, WELL, checked


@pytest.mark.slow
def test_drift_is_listed_put_back_and_accepted(browser: Browser) -> None:
    heat = browser.heat.of("drifting")
    path, other = heat.create(template(a=DRIFTING, b=WELL), "shop"), heat.create(template(a=DRIFTING), "other")
    browser = Browser(heat.wsgi, "drifting")
    for page in (browser.get("/drift"), browser.get(f"{path}/drift")):
        assert "Nothing is drifted." in page.text
    assert browser.get(path).html.find(id="drifted") is None
    for one in (path, other):
        checked(heat, one)
    rows = [" ".join(row.get_text(" ").split()) for row in browser.get("/drift").html.select("#entries tbody tr")]
    assert sorted(row.rpartition('"')[0] for row in rows) == ['a other /value "v" "w', 'a shop /value "v" "w']
    assert "1 drifted" in browser.get(path).html.find(id="drifted").text
    page = browser.get(f"{path}/drift")
    assert "1 drifted, 1 in sync" in page.text
    assert not [one for one in page.forms.values() if "_drift" in one.action], "no plan without a request for it"
    page = page.click("Plan to accept")
    assert "replace /resources/a/properties/value" in page.html.find(id="accept_drift").text
    page = browser.get(f"{path}/drift").click("Plan to put back")
    form = next(one for one in page.forms.values() if one.action.endswith("/do/revert_drift"))
    form.submit()
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"{path}/drift")["drift"]["drifted"] == 0
    page = browser.get(f"{other}/drift?plan=accept_drift")
    next(one for one in page.forms.values() if one.action.endswith("/do/accept_drift")).submit()
    assert heat.get(f"{other}/drift")["drift"]["drifted"] == 0
    assert heat.get(f"{other}/template")["resources"]["a"]["properties"]["value"] == "w"


@pytest.mark.slow
def test_pages_of_drift_have_no_hidden_value(browser: Browser) -> None:
    """Law 1.8."""
    heat = browser.heat.of("hiding")
    hidden = {"p": {"type": "string", "hidden": True, "default": "hunter2"}}
    given = {**DRIFTING, "properties": {"value": {"get_param": "p"}, "live_value": "swordfish"}}
    path = heat.create({**template(a=given), "parameters": hidden}, "shop")
    checked(heat, path)
    browser = Browser(heat.wsgi, "hiding")
    plans = (browser.get(f"{path}/drift?plan={name}") for name in ("revert_drift", "accept_drift"))
    for page in (browser.get("/drift"), browser.get(f"{path}/drift"), *plans):
        assert "******" in page.text
        assert "hunter2" not in page.text
        assert "swordfish" not in page.text
