"""Login with the password of a Keystone, which is on a port of this machine."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Auth, Settings
from heatlite.features.dashboard.feature import DashboardSettings
from tests.acceptance.keystone import Account, Keystone
from tests.api.conftest import Heat, template, value
from tests.databases import sqlite

from .conftest import Browser
from .test_login import log_in

pytest.importorskip("keystonemiddleware", reason="keystonemiddleware is not installed (extra `keystone`)")


@pytest.fixture
def keystone() -> Iterator[Keystone]:
    accounts = {
        "heat": Account("of-heat", {"service": ("service", "admin")}),
        "mia": Account("of-mia", {"demo": ("member", "reader"), "other": ("reader",)}),
        "new": Account("of-new", {}),
    }
    found = Keystone(accounts)
    yield found
    found.close()


@pytest.fixture
def server(keystone: Keystone, tmp_path: Path) -> Iterator[wiring.Embedded]:
    account = {"username": "heat", "password": "of-heat", "project_name": "service", "http_connect_timeout": "240"}
    table = {"auth_url": keystone.url, "http_request_max_retries": "0", **account}
    shown = (DashboardSettings(ui=True),)
    settings = Settings(database=sqlite(tmp_path), auth=Auth.KEYSTONE, keystone=table, of_features=shown)
    server = wiring.embedded(settings)
    yield server
    server.close()


@pytest.mark.slow
def test_a_password_opens_the_projects_of_its_user(server: wiring.Embedded, keystone: Keystone) -> None:
    browser = Browser(server.app, "demo-id")
    assert "accepts neither" in log_in(browser, 401, user="mia", password="of-max").text
    page = log_in(browser, user="mia", password="of-mia").follow().follow()
    assert [one.text.strip() for one in page.html.find("ul", class_="choices").find_all("a")] == ["demo", "other"]
    Heat(server.app, "demo-id", {"X-Auth-Token": keystone.issue("mia", "demo")}).create(template(a=value()), name="web")
    page = page.click("demo")
    assert "web" in page.text
    assert "New stack" in page.text
    asked = keystone.asked.copy()
    browser.get("")
    assert keystone.asked == asked, "the token of a project is kept"
    other = browser.app.get("/ui/p/other-id")
    assert "New stack" not in other.text
    assert "project</span> other" in other.text
    browser.app.get("/ui/p/service-id", status=403)
    rows = server.store.database.read("SELECT content FROM ui_session")
    assert not any(token in str(rows) for token in (*keystone.tokens, "of-mia"))


@pytest.mark.slow
def test_a_token_that_ended_leads_to_the_login(server: wiring.Embedded, keystone: Keystone) -> None:
    browser = Browser(server.app)
    log_in(browser, user="mia", password="of-mia")
    keystone.tokens.clear()
    assert "/ui/login" in browser.app.get("/ui/p/demo-id", status=303).location


@pytest.mark.slow
def test_a_user_without_projects_is_told(server: wiring.Embedded) -> None:
    page = log_in(Browser(server.app), user="new", password="of-new").follow().follow()
    assert "no role in any project" in page.text


@pytest.mark.slow
def test_a_token_opens_its_project(server: wiring.Embedded, keystone: Keystone) -> None:
    browser = Browser(server.app)
    form = browser.app.get("/ui/login?next=/p/demo-id").click("Log in with a token").forms[0]
    form["token"] = keystone.issue("mia", "demo")
    assert "New stack" in form.submit(status=303).follow().text


@pytest.mark.slow
def test_failed_logins_are_delayed_and_keystone_may_be_away(server: wiring.Embedded, keystone: Keystone) -> None:
    browser = Browser(server.app)
    for _ in range(6):
        log_in(browser, 401, user="mia", password="x")
    assert "Too many" in log_in(browser, 429, user="mia", password="of-mia").text
    keystone.trouble = "error"
    assert "it cannot check your password" in log_in(browser, 503, user="new", password="of-new").text
    keystone.trouble = "list"
    log_in(browser, 503, user="new", password="of-new")
