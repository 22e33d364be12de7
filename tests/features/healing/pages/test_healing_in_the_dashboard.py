"""Pages of incidents and policies, and their cards on other pages."""

import pytest
from msgspec.structs import replace

from heatlite import wiring
from heatlite.features.healing import pages
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.store.store import Store
from tests.api.conftest import template, value
from tests.features.dashboard.conftest import Browser


@pytest.fixture
def store(server: wiring.Embedded) -> Store:
    return server.store


@pytest.mark.slow
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


@pytest.mark.slow
def test_a_policy_is_switched_off_by_the_word_that_yaml_takes_for_false(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="words")
    page = browser.post(browser.get(path + "/health"), "/do/policy", policy="healing_policy: 2026-11-22\nmode: off\n")
    assert "The policy is saved." in page.text
    again = browser.post(page, "/do/policy")  # as the form shows it
    assert "Version 2" in again.text
    assert browser.heat.get(f"{path}/healing")["policy"]["mode"] == "off"
    browser.heat.call("DELETE", f"{path}/healing", code=204)


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
def test_the_incidents_of_a_stack_have_pages(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE", 2)
    names = ("a", "b", "c", "d", "e")
    path = browser.heat.create(template(**{name: {"type": "OS::Heat::TestResource"} for name in names}), name="pages")
    reports = [{"key": name, "status": "unhealthy", "stack": "pages", "resource": name} for name in names]
    browser.heat.call("POST", "/health/generic", {"reports": reports}, code=200)
    page, found = browser.get(f"{path}/health"), []
    for count in (2, 2, 1):
        listed = page.html.find(attrs={"aria-label": "Incidents"}).tbody.find_all("td", class_="name")
        assert (len(listed), "Next page" in page.text) == (count, count == 2)
        found += [one.text for one in listed]
        page = page.click("Next page") if count == 2 else browser.get(f"{path}/health?marker=closed-meanwhile")
    assert sorted(found) == [*names]
    assert "Next page" in page.text


@pytest.mark.slow
def test_a_nested_stack_leaves_its_health_to_the_root(browser: Browser) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    path = browser.heat.create(template(g=group), name="roots")
    listed = browser.heat.get(f"{path}/resources?nested_depth=1")["resources"]
    (member,) = [one for one in listed if one["resource_name"] == "0"]
    nested = next(link["href"] for link in member["links"] if link["rel"] == "stack").partition("/demo")[2]
    browser.heat.call("PATCH", f"{nested}/resources/0", {"mark_unhealthy": True}, code=200)
    page = browser.get(f"{nested}/health")
    assert ">healthy<" not in str(page.html.find(id="stackhead"))
    assert "No open incidents" not in page.text and "nothing is repaired" not in page.text
    page.click("roots", href="/health$")
