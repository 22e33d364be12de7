"""Pages that change while they are open, in a real browser."""
# ruff: noqa: F401, F811 - fixtures

import re
import sqlite3
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from heatlite.store.store import Store
from tests.acceptance.processes import Server
from tests.api.conftest import template, value
from tests.features.nodes.registered_nodes import registered

from .chromium import NEEDS_CHROMIUM, PASSWORD, Api, User, api, browser, playwright, server, visit

pytestmark = [pytest.mark.chromium, pytest.mark.slow, NEEDS_CHROMIUM]

expect = playwright.expect


def mark(api: Api, path: str, is_marked: bool = True) -> None:
    """Make an event, which refreshes the open pages."""
    api.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": is_marked}, code=200)


def machine(api: Api, server: Server, name: str) -> str:
    """Create a stack whose resource `a` is a node. Returns its path."""
    path = api.create(template(a=value()), name=name)
    store = Store.open(f"sqlite:///{server.home / 'heatlite.db'}")
    stack = store.stacks.by_name("demo", name)
    assert stack is not None
    registered(store, stack, "a")
    store.close()
    return path


def ask(api: Api, path: str, text: str) -> str:
    """Ask for an action on a node. Returns its id."""
    asked = {"node": "a", "kind": "script", "args": {"config": text}}
    made: str = api.call("POST", f"{path}/node_actions", asked, code=201).json["node_action"]["id"]
    return made


def test_the_focus_stays_on_the_button_of_its_row(visit: Callable[..., User], api: Api, server: Server) -> None:
    """The keyboard approves the chosen request, though others come and go."""
    path = machine(api, server, "focused")
    ids = [ask(api, path, f"job {number}") for number in range(3)]
    page = visit().open("/approvals")
    expect(page.locator("#live")).to_have_text("live")

    def button(action: str) -> Any:
        return page.locator(f"form[action$='/do/approve']:has(input[name=id][value='{action}']) button")

    button(ids[1]).focus()
    ids.append(ask(api, path, "job 3"))
    mark(api, path)
    expect(button(ids[3])).to_be_visible()
    expect(button(ids[1])).to_be_focused()
    # As many requests as before, and another one in each row.
    api.call("POST", f"/node_actions/{ids[0]}/reject", code=200)
    api.call("POST", f"/node_actions/{ids[3]}/reject", code=200)
    ids += [ask(api, path, f"job {number}") for number in (4, 5)]
    mark(api, path, False)
    expect(button(ids[5])).to_be_visible()
    expect(button(ids[1])).to_be_focused()
    api.call("POST", f"/node_actions/{ids[1]}/reject", code=200)
    ids.append(ask(api, path, "job 6"))
    mark(api, path)
    expect(button(ids[6])).to_be_visible()
    expect(page.locator("#approvals :focus")).to_have_count(0)
    for one in ids[2:3] + ids[4:]:
        api.call("POST", f"/node_actions/{one}/reject", code=200)


def test_a_second_click_asks_for_nothing(visit: Callable[..., User], api: Api, server: Server) -> None:
    """The server has the first request, and its answer is not there yet."""
    path = machine(api, server, "twice")
    page = visit().open(f"{path}/nodes")
    page.get_by_label("Kind").fill("script")
    button = page.locator("form[action$='/do/node_action'] button")
    button.scroll_into_view_if_needed()
    box, sent = button.bounding_box(), list[str]()
    page.on("request", lambda request: sent.append(request.url) if request.method == "POST" else None)
    with closing(sqlite3.connect(server.home / "heatlite.db", isolation_level=None)) as database:
        database.execute("BEGIN IMMEDIATE")
        for _ in range(2):
            page.mouse.click(box["x"] + 5, box["y"] + 5)  # a locator would wait for the answer
            page.wait_for_timeout(300)
        database.execute("ROLLBACK")
    expect(page.get_by_text("The action waits for approval.")).to_be_visible()
    assert len(sent) == 1
    assert len(api.get(f"{path}/node_actions")["node_actions"]) == 1


def test_what_a_refused_form_brings_back_stays(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value()), name="brought")
    mia = visit()
    page = mia.open(path)
    page.get_by_text("Lock for maintenance").click()
    page.get_by_label("Reason").fill("new fans")
    page.get_by_label("Until").fill("never")
    mia.press("Lock")
    mia.sees("Not done.")
    expect(page.locator("#live")).to_have_text("live")
    mark(api, path)
    expect(page.locator("tr.bad")).to_be_visible()
    expect(page.get_by_label("Reason")).to_have_value("new fans")
    mia.check("refused-lock")


def test_a_plan_outlives_the_session(visit: Callable[..., User], api: Api) -> None:
    """The session ends while a plan is read: the text is not lost."""
    path = api.create(template(a=value("old")), name="planned")
    mia = visit()
    page = mia.open(f"{path}/change")
    box = page.locator("textarea[name=template]")
    box.fill(box.input_value().replace("old", "typed by mia"))
    mia.press("Check and plan")
    mia.sees("Do exactly this")
    expect(page.locator("#live")).to_have_text("live")
    page.context.clear_cookies()
    mark(api, path)
    expect(page.locator("#live")).to_have_text("session ended: log in")
    expect(page.locator("textarea[name=template]")).to_have_value(re.compile("typed by mia"))


def test_a_page_names_the_user_for_whom_it_acts(visit: Callable[..., User], api: Api, server: Server) -> None:
    """Another tab logs in as another user."""
    path = api.create(template(a=value()), name="shared")
    mia = visit()
    page = mia.open(path)
    expect(page.locator("#live")).to_have_text("live")
    other = mia.context.new_page()
    other.goto(f"{server.url}/ui/p/demo")
    other.get_by_role("button", name="Log out").click()
    other.get_by_label("Name").fill("rob")
    other.get_by_label("Password").fill(PASSWORD)
    other.get_by_role("button", name="Log in").click()
    expect(other.locator(".user")).to_have_text("rob")
    mark(api, path)
    expect(page.locator("tr.bad")).to_be_visible()
    expect(page.locator(".user")).to_have_text("rob")


def test_a_failed_refresh_is_repeated(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value()), name="busy")
    page = visit().open(path)
    expect(page.locator("#live")).to_have_text("live")
    failed: list[str] = []

    def fail(route: Any) -> None:
        failed.append(route.request.url)
        route.fulfill(status=503)

    page.route(f"**{path}", fail, times=1)
    mark(api, path)
    expect(page.locator("tr.bad")).to_be_visible()
    assert failed


def test_a_link_of_another_site_opens_its_page(visit: Callable[..., User], api: Api, server: Server) -> None:
    """From a chat or an alarm. The session goes on."""
    path = api.create(template(a=value()), name="linked")
    mia = visit()
    link = f'<a href="{server.url}/ui/p/demo{path}">look</a>'
    mia.context.route("http://chat.example/", lambda route: route.fulfill(content_type="text/html", body=link))
    other = mia.context.new_page()
    other.goto("http://chat.example/")
    other.get_by_role("link", name="look").click()
    expect(other.get_by_role("heading", name="linked")).to_be_visible()
    mia.page.reload()
    expect(mia.page.get_by_role("button", name="Log out")).to_be_visible()


def test_two_login_pages_of_one_browser(server: Server, browser: Any, api: Api) -> None:
    """Both tabs log in, though only one has the newest cookie."""
    context = browser.new_context()
    first, second = context.new_page(), context.new_page()
    for page in (first, second):
        page.goto(f"{server.url}/ui/p/demo")
        page.get_by_label("Name").fill("mia")
        page.get_by_label("Password").fill(PASSWORD)
    for page in (first, second):
        page.get_by_role("button", name="Log in").click()
        expect(page.get_by_role("button", name="Log out")).to_be_visible()
        assert page.url.endswith("/ui/p/demo")
    context.close()
