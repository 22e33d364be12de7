"""Pages of what will happen by itself."""

import pytest

from tests.api.conftest import template, value
from tests.features.dashboard.conftest import Browser


@pytest.mark.slow
def test_what_will_happen_is_listed_and_the_next_of_it_is_shown(browser: Browser) -> None:
    heat = browser.heat.of("schedules")
    path, other = heat.create(template(a=value()), "sleeper"), heat.create(template(a=value()), "ends")
    browser = Browser(heat.wsgi, "schedules")
    for page in (browser.get("/schedules"), browser.get(f"{path}/schedules")):
        assert "Nothing will happen by itself." in page.text
    assert browser.get(path).html.find(id="coming") is None
    for name in ("sleep", "more"):
        body = {"name": name, "cron": "0 20 1 1 *", "timezone": "Europe/Vienna", "do": {"suspend": {}}}
        heat.call("POST", f"{path}/schedules", {**body, "enabled": name == "sleep"}, code=201)
    heat.call("PUT", f"{other}/expiry", {"expires_at": "2099-01-01T20:00:00Z"}, code=200)
    rows = browser.get("/schedules").html.select("#entries tbody tr")
    texts = [" ".join(row.get_text(" ").split()) for row in rows]
    assert [row.a.text for row in rows] == ["sleeper", "ends", "sleeper"]
    assert "suspend sleep schedule 0 20 1 1 * Europe/Vienna anonymous" in texts[0]
    assert texts[1].startswith("in ")
    assert texts[2].startswith("paused")
    page = browser.get("/schedules?limit=1")
    assert len(page.html.select("#entries tbody tr")) == 3, "the page has a limit of its own"
    assert len(browser.get(f"{path}/schedules").html.select("#entries tbody tr")) == 2
    coming = " ".join(browser.get(path).html.find(id="coming").get_text(" ").split())
    assert coming.startswith("Next suspend in ")
    assert "schedule sleep , by anonymous" in coming
    assert "delete" in browser.get(other).html.find(id="coming").text


@pytest.mark.slow
def test_pages_of_a_long_list(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("heatlite.features.dashboard.frames.PAGE", 1)
    heat = browser.heat.of("paged")
    path = heat.create(template(a=value()))
    browser = Browser(heat.wsgi, "paged")
    for name in "ab":
        body = {"name": name, "cron": "0 20 1 1 *", "do": {"check": {}}}
        heat.call("POST", f"{path}/schedules", body, code=201)
    for begin in ("/schedules", f"{path}/schedules"):
        first = browser.get(begin)
        second = first.click("Next page")
        seen = [one.html.select("#entries tbody bdi")[-2].text for one in (first, second)]
        assert sorted(seen) == ["a", "b"]
        assert "Next page" not in second.text
