"""Pages of approvals."""

from typing import Any

import pytest

from heatlite import wiring
from tests.api.conftest import Heat, template
from tests.features.approvals.api.test_approvals import THING, policy, replacing
from tests.features.approvals.api.test_thousand import MANY, fill
from tests.features.approvals.api.test_work_of_features import SUBJECTS, Work
from tests.features.dashboard.conftest import Browser


def waiting(browser: Browser, project: str) -> tuple[Heat, str, Any]:
    """A stack with an update that waits for an approval."""
    heat = browser.heat.of(project)
    path = heat.create(template(a=THING), "shop")
    policy(heat, path, approve="removals")
    heat.call("PUT", f"{path}?approval=wait", replacing(), code=202)
    (found,) = heat.get("/approvals")["approvals"]
    return heat, path, found


@pytest.mark.slow
def test_a_change_is_shown_and_approved_on_its_page(browser: Browser) -> None:
    heat, path, found = waiting(browser, "approving")
    browser = Browser(heat.wsgi, "approving")
    for page in ("/approvals", "/actions", path, "/audit", f"/approvals/{found['id']}"):
        badge = browser.get(page).html.select_one("nav .badge")
        assert badge is not None, page
        assert badge.text.startswith("1"), page
    assert f"/approvals/{found['id']}" in browser.get("/approvals").text
    page = browser.get(f"/approvals/{found['id']}")
    changes = [" ".join(one.get_text(" ").split()) for one in page.html.select(".changes .change")]
    assert [one.split()[:2] for one in changes] == [["create", "b"], ["delete", "a"]]
    form = next(one for one in page.forms.values() if one.action.endswith("/do/approve_change"))
    form.submit().follow()
    heat.settle(path, "UPDATE_COMPLETE")
    after = browser.get(f"/approvals/{found['id']}")
    assert not [one for one in after.forms.values() if "_change" in one.action]
    assert any(one["href"].endswith(f"/actions/{found['action_id']}") for one in after.html.select("dd a"))
    assert browser.get("/actions").html.select_one("nav .badge") is None


@pytest.mark.slow
def test_a_change_is_rejected_in_the_list(browser: Browser) -> None:
    heat, _, found = waiting(browser, "rejecting")
    browser = Browser(heat.wsgi, "rejecting")
    page = browser.get("/approvals")
    form = next(one for one in page.forms.values() if one.action.endswith("/do/reject_change"))
    form.submit().follow()
    assert heat.get(f"/approvals/{found['id']}")["approval"]["state"] == "REJECTED"


@pytest.mark.slow
@pytest.mark.parametrize("subject", SUBJECTS)
def test_the_page_says_what_will_run(browser: Browser, server: wiring.Embedded, subject: str) -> None:
    heat = browser.heat.of(f"work-{subject}")
    work = Work(server, subject, heat)
    page = Browser(heat.wsgi, f"work-{subject}").get(f"/approvals/{work.target}")
    assert work.stack.name in page.html.h1.text
    assert ("reboot" in page.text) == (subject != "repair")
    assert "xyzzy" not in page.text
    assert len([one for one in page.forms.values() if one.action.endswith("_change")]) == 2


@pytest.mark.slow
def test_a_thousand_wait(browser: Browser, server: wiring.Embedded) -> None:
    """The menu counts all of them, and the page says that there are more."""
    fill(server, browser.heat.of("thousand"))
    browser = Browser(server.app, "thousand")
    for page in ("/approvals", "/actions"):
        badge = browser.get(page).html.select_one("nav .badge")
        assert badge is not None and badge.text.startswith(str(MANY))
    answer = browser.get("/approvals")
    assert "More changes wait." in answer.text
    assert len(answer.body) < 1_000_000
