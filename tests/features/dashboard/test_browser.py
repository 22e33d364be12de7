"""Stories of users of the dashboard in a real browser."""
# ruff: noqa: F401, F811 - fixtures

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from heatlite.store.store import Store
from tests.acceptance.processes import Server
from tests.api.conftest import template, value
from tests.features.nodes.registered_nodes import registered
from tests.waiting import eventually

from .chromium import (
    DESKTOP,
    NEEDS_CHROMIUM,
    PASSWORD,
    PHONE,
    ZOOMED,
    Api,
    User,
    api,
    browser,
    playwright,
    server,
    visit,
)

pytestmark = [pytest.mark.chromium, pytest.mark.slow, NEEDS_CHROMIUM]

NETWORK = template(
    net=value("10.0.0.0/24"),
    subnet=value({"get_attr": ["net", "value"]}),
    port=value({"get_attr": ["subnet", "value"]}),
    server=value({"get_attr": ["port", "value"]}),
    address=value({"get_attr": ["port", "value"]}),
    web={
        "type": "OS::Heat::ResourceGroup",
        "properties": {"count": 3, "resource_def": value()},
        "depends_on": "server",
    },
) | {"outputs": {"address": {"value": "203.0.113.7"}}}


def test_a_day_of_an_operator(visit: Callable[..., User], api: Api, server: Server) -> None:
    """Create, plan, update, mark, heal, lock, replay; another user approves."""
    mia = visit()
    mia.check("empty")
    page = mia.open("/new")
    mia.check("new")
    page.get_by_label("Name of the stack").fill("shop")
    wrong = "heat_template_version: 2021-04-16\nresources:\n  web:\n    type: OS::Nope\n"
    page.locator("textarea[name=template]").fill(wrong)
    mia.press("Check and plan")
    mia.sees("could not be found")
    mia.check("problems")
    text = "heat_template_version: 2021-04-16\nparameters:\n  size: {type: number, default: 2}\nresources:\n"
    text += "  web: {type: OS::Heat::Value, properties: {value: {get_param: size}}}\n"
    text += "  front: {type: OS::Heat::Value, properties: {value: {get_attr: [web, value]}}}\n"
    page.locator("textarea[name=template]").fill(text)
    mia.press("Check and plan")
    mia.sees("Create exactly this")
    mia.check("create-plan")
    mia.press("Create exactly this")
    mia.sees("The stack is being created.")
    mia.sees("create complete")
    playwright.expect(page.locator("#live")).to_have_text("live")
    playwright.expect(page.locator(".g-node")).to_have_count(2)
    mia.check("stack")
    stack = page.url.split("?")[0].partition("/ui/p/demo")[2]

    # A change from elsewhere appears without a click.
    api.call("PATCH", f"{stack}/resources/web", {"mark_unhealthy": True, "resource_status_reason": "smoke"}, code=200)
    playwright.expect(page.locator("tr.bad")).to_contain_text("web")
    playwright.expect(page.locator(".g-unhealthy")).to_have_count(1)
    page.locator(".g-unhealthy").click()
    playwright.expect(page.locator("#panel")).to_contain_text("smoke")
    mia.check("unhealthy")
    page.get_by_role("link", name="Heal …").first.click()
    page.get_by_text("Ignore brakes").click()
    page.get_by_label("mode off").check()
    mia.check("health")
    mia.press("Heal now, exactly this")
    mia.sees("The repair has begun.")
    api.settle(stack)
    mia.open(f"{stack}/progress")
    mia.check("progress")

    mia.open(f"{stack}/change")
    page.locator("textarea[name=template]").fill(text.replace("front", "back"))
    mia.press("Check and plan")
    mia.sees("the template does not have it")
    mia.check("plan")
    mia.open(f"{stack}/lock")
    page.get_by_label("Reason").fill("new fans")
    mia.press("Lock")
    mia.sees("The stack is locked.")
    api.settle(stack)
    api.call("POST", f"{stack}/actions", {"suspend": None}, code=409)
    mia.open(f"{stack}/lock")
    mia.sees("new fans")
    mia.check("lock")
    mia.open("")
    mia.check("stacks")
    mia.open(f"{stack}/lock")
    mia.press("Unlock")
    api.settle(stack)
    mia.open(f"{stack}/lock")
    mia.press("Replay")
    mia.sees("The request was made again.")
    assert api.settle(stack)["stack_status"] == "SUSPEND_COMPLETE"


def test_one_asks_and_another_approves(visit: Callable[..., User], api: Api, server: Server) -> None:
    path = api.create(template(db1=value(), db2=value()), name="database")
    store = Store.open(f"sqlite:///{server.home / 'heatlite.db'}")
    stack = store.stacks.by_name("demo", "database")
    assert stack is not None
    for name in ("db1", "db2"):
        registered(store, stack, name)
    store.close()
    mia, rob = visit(), visit("rob")
    page = mia.open("/playbooks")
    page.locator("input[name=name]").fill("restart")
    action = "action: {kind: script, args: {config: 'systemctl restart postgresql'}}"
    text = f"node_playbook: 2026-11-21\nstages:\n  - name: restart\n    at_once: 1\n    nodes: all\n    {action}\n"
    page.locator("textarea[name=document]").fill(text)
    mia.press("Save")
    mia.sees("The playbook is saved.")
    mia.check("playbooks")
    mia.open(f"{path}/nodes")
    page.get_by_label("Kind").fill("script")
    page.get_by_label("Arguments (JSON)").fill('{"config": "reboot"}')
    mia.page.locator("form[action$='/do/node_action'] button").click()
    mia.sees("The action waits for approval.")
    mia.page.locator("form[action$='/do/run'] button:not([formaction])").click()
    mia.sees("The run waits for approval.")
    mia.check("stack-nodes")
    mia.open("/approvals")
    mia.check("approvals")
    mia.press("Approve")
    mia.sees("another user must approve")
    rob.open("/approvals")
    rob.press("Choose all")
    rob.press("Approve the chosen")
    rob.sees("Decided.")
    rob.sees("Nothing waits for a decision.")
    rob.open("/nodes")
    rob.check("nodes")
    rob.open("/playbooks")
    rob.page.locator("#runs a").first.click()
    rob.sees("Stages and nodes")
    rob.check("run")


def test_hostile_names_stay_text(visit: Callable[..., User], api: Api) -> None:
    """Names of stacks have few characters; tags, values and reasons any."""
    evil = "<img src=x onerror=alert(1)>"
    resource = value([evil, "\u202eevil", "w" * 255])
    names = ("a" * 200, "<b>", "__proto__")
    path = api.create(template(**dict.fromkeys(names, resource)), name="n" * 255, tags=[evil, "\u202eevil"])
    api.call("PUT", path, {"template": template(**dict.fromkeys(names, resource), a=value(evil))}, code=202)
    api.settle(path)
    api.call("POST", path + "/actions", {"lock": {"level": "all", "reason": evil}}, code=200)
    api.settle(path)
    mia = visit()
    shown = {"list": "?search=nnn", "stack": path}
    shown |= {part: f"{path}/{part}" for part in ("lock", "delete", "history?diff=2&to=1", "values")}
    for name, part in shown.items():
        mia.open(path if part == path else part)
        mia.check(f"hostile-{name.partition('?')[0]}")
        assert mia.page.locator("main img").count() == 0
    playwright.expect(mia.open(path).locator(".g-node")).to_have_count(4)


def test_a_stale_plan_is_not_done(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value("old")), name="stale")
    mia = visit()
    page = mia.open(f"{path}/change")
    box = page.locator("textarea[name=template]")
    box.fill(box.input_value().replace("old", "new"))
    mia.press("Check and plan")
    mia.sees("Do exactly this")
    api.call("PATCH", path, {"template": template(a=value("other"))}, code=202)
    api.settle(path)
    mia.press("Do exactly this")
    mia.sees("This is the new plan.")
    mia.check("stale")


def test_the_end_of_a_session_leads_to_the_login_and_back(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value()), name="ends")
    mia = visit()
    page = mia.open(path)
    playwright.expect(page.locator("#live")).to_have_text("live")
    page.context.clear_cookies()
    api.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    playwright.expect(page.get_by_label("Password")).to_be_visible()
    mia.check("login")
    mia.log_in()
    assert path in page.url


def test_a_text_outlives_the_session(visit: Callable[..., User], api: Api) -> None:
    """The session ends during an edit: another tab logs in, the form goes on."""
    path = api.create(template(a=value("old")), name="typed")
    mia = visit()
    page = mia.open(f"{path}/change")
    playwright.expect(page.locator("#live")).to_have_text("live")
    box = page.locator("textarea[name=template]")
    box.fill(box.input_value().replace("old", "typed by mia"))
    page.context.clear_cookies()
    api.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    playwright.expect(page.locator("#live")).to_have_text("session ended: log in")
    mia.check("session-ended")
    mia.press("Check and plan")
    mia.sees("Log in in a new tab, then reload this page")
    mia.check("session-ended-form")
    with page.context.expect_page() as opened:
        page.get_by_role("link", name="Log in in a new tab").click()
    opened.value.get_by_label("Name").fill("mia")
    opened.value.get_by_label("Password").fill(PASSWORD)
    opened.value.get_by_role("button", name="Log in").click()
    playwright.expect(opened.value.get_by_role("button", name="Log out")).to_be_visible()
    opened.value.close()
    page.reload()
    mia.sees("Look at it, and press again.")
    playwright.expect(page.locator("textarea[name=template]")).to_have_value(re.compile("typed by mia"))
    mia.press("Check and plan")
    mia.sees("Do exactly this")


def test_a_page_goes_on_after_a_refused_form(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value()), name="goeson")
    mia = visit()
    page = mia.open(f"{path}/lock")
    page.get_by_label("Until").fill("never")
    mia.press("Lock")
    mia.sees("Not done.")
    assert page.url.endswith(f"{path}/lock")
    mia.check("refused-form")
    page.reload()
    playwright.expect(page.locator(".notice")).to_have_count(0)


def test_a_lost_connection_is_shown_and_comes_back(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value()), name="offline")
    mia = visit()
    page = mia.open(path)
    playwright.expect(page.locator("#live")).to_have_text("live")
    page.route("**/events", lambda route: route.abort())
    page.reload()
    playwright.expect(page.locator("#live")).to_have_text("connection lost")
    api.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    page.unroute("**/events")
    playwright.expect(page.locator("#live")).to_have_text("live")
    playwright.expect(page.locator("tr.bad")).to_be_visible()


def test_every_page_in_the_dark_zoomed_and_on_a_phone(visit: Callable[..., User], api: Api) -> None:
    path = api.create(NETWORK, name="frontend", tags=["prod", "zone:a"])
    api.create(template(bad={"type": "OS::Heat::TestResource", "properties": {"fail": True}}), name="broken")
    nested = api.get(f"{path}/resources?nested_depth=2")["resources"]
    member = next(one for one in nested if one["resource_name"] == "1")["links"][0]["href"].partition("/v1/")[2]
    mark = {"mark_unhealthy": True, "resource_status_reason": "no answer on port 80"}
    api.call("PATCH", f"/v1/{member}", mark, code=200)
    parts = ["", "/progress", "/outputs", "/snapshots", "/health", "/lock", "/nodes", "/change", "/resources/web/1"]
    parts += ["/delete", "/history?diff=2&to=1", "/values?plan=refresh"]
    pages = ["", "/new", "/approvals", "/actions", "/healing", "/nodes", "/playbooks", "/services", "/audit"]
    api.call("PATCH", path, {"tags": "prod,zone:b"}, code=202)
    api.settle(path)
    action = api.get(f"/actions?target={path.rpartition('/')[2]}")["actions"][-1]
    pages += [f"/actions/{action['id']}", "/nothing", "/../../projects", "?search=nothing"]
    user = visit("ann", reduced_motion="reduce")
    for address in [*pages, *(path + part for part in parts)]:
        page = user.open(address)
        named = {path: "frontend", action["id"]: "one", "../../": "", "?": ""}
        name = address
        for part, short in named.items():
            name = name.replace(part, short)
        name = re.sub(r"[/?&=]", "-", name.strip("/")) or "list"
        user.check(f"wide-{name}")
        page.emulate_media(color_scheme="dark")
        user.check(f"dark-{name}")
        page.emulate_media(color_scheme="light")
        page.set_viewport_size(ZOOMED)
        user.picture(f"zoom-{name}")
        page.set_viewport_size(PHONE)
        user.check(f"phone-{name}")
        page.set_viewport_size(DESKTOP)


def test_an_object_is_found_and_a_snapshot_brings_it_back(visit: Callable[..., User], api: Api) -> None:
    """Look up an object, take a snapshot, see it appear, restore it."""
    path = api.create(template(a=value("old")), name="finds")
    physical = api.get(f"{path}/resources/a")["resource"]["physical_resource_id"]
    mia = visit()
    mia.page.get_by_role("searchbox").fill(physical)
    mia.sees("Resources with this object")
    mia.check("found")
    playwright.expect(mia.page.locator(".cli code")).to_have_text(f"heatlite find {physical} --project demo")
    for is_marked, shown in ((True, "unhealthy"), (False, "check complete")):
        api.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": is_marked}, code=200)
        playwright.expect(mia.page.locator("#list")).to_contain_text(shown)
        playwright.expect(mia.page.locator("#list")).to_contain_text("Resources with this object")
    mia.page.locator("#list").get_by_role("link", name="a", exact=True).click()
    mia.sees("Properties")
    page = mia.open(f"{path}/snapshots")
    page.get_by_label("Name").fill("friday")
    mia.press("Take a snapshot")
    mia.sees("snapshot complete")
    mia.check("snapshots")
    api.settle(path)
    page.get_by_text("Restore …").click()
    page.get_by_label("Replace the present state").check()
    mia.press("Restore")
    mia.sees("The stack is being restored.")
    assert api.settle(path)["stack_status"] == "RESTORE_COMPLETE"


def test_a_keyboard_reaches_a_resource(visit: Callable[..., User], api: Api) -> None:
    path = api.create(template(a=value(), b=value({"get_attr": ["a", "value"]})), name="keys")
    mia = visit()
    page = mia.open(path)
    page.keyboard.press("Tab")
    playwright.expect(page.locator(":focus")).to_have_text("Skip to content")
    node = page.locator(".g-node").first
    node.focus()
    page.keyboard.press("Enter")
    playwright.expect(page.locator("#panel h2").first).to_contain_text("a")


def test_pages_work_without_javascript(visit: Callable[..., User], api: Api) -> None:
    path = api.create(NETWORK, name="plain")
    mia = visit(java_script_enabled=False)
    page = mia.open(path)
    page.locator("details", has_text="Lock for maintenance").locator("summary").click()
    page.get_by_label("Reason").fill("fans")
    mia.press("Lock")
    mia.sees("The stack is locked.")
    eventually(lambda: bool(api.get(f"{path}/lock")["lock"]), "the lock is set")
    for part in ("", path, f"{path}/resources/net", f"{path}/health", "/new"):
        mia.open(part)
        mia.picture(f"plain-{part.replace(path, 'stack').strip('/').replace('/', '-') or 'list'}")


def test_a_keyboard_locks_and_unlocks(visit: Callable[..., User], api: Api) -> None:
    """The focus is always visible. No pointer is needed."""
    path = api.create(template(a=value()), name="typist")
    mia = visit()
    page = mia.open(f"{path}/lock")

    def tab_to(name: str) -> None:
        for _ in range(60):
            page.keyboard.press("Tab")
            label = page.evaluate("(document.activeElement.labels?.[0] ?? document.activeElement).textContent.trim()")
            if label == name:
                outline = page.evaluate("getComputedStyle(document.activeElement).outlineStyle")
                assert outline != "none", f"the focus on {name} is not visible"
                return
        raise AssertionError(f"no Tab reaches {name}")

    tab_to("Reason")
    page.keyboard.type("fans")
    tab_to("Lock")
    mia.picture("keyboard")
    page.keyboard.press("Enter")
    mia.sees("The stack is locked.")
    api.settle(path)
    page = mia.open(f"{path}/lock")
    tab_to("Unlock")
    page.keyboard.press("Enter")
    mia.sees("The lock is gone.")


def test_the_page_of_the_api_sends_requests(browser: Any, tmp_path: Path) -> None:
    server = Server(tmp_path)
    user = User(browser, server)
    try:
        page = user.page
        page.goto(f"{server.url}/docs")
        create, listing = page.locator("#create_stack"), page.locator("#list_stacks")
        page.get_by_label("find").fill("create stack")
        playwright.expect(listing).to_be_hidden()
        create.locator("summary").click()
        create.get_by_label("body").fill(json.dumps({"stack_name": "made", "template": template(a=value())}))
        user.check("docs")
        create.get_by_role("button", name="Send").click()
        playwright.expect(create.get_by_role("status")).to_contain_text("201")
        playwright.expect(create.locator("pre")).to_contain_text('"rel": "self"')
        page.get_by_label("find").fill("list stacks")
        listing.locator("summary").click()
        listing.get_by_label(re.compile("^name")).fill("made")
        listing.get_by_role("button", name="Send").click()
        playwright.expect(listing.get_by_role("status")).to_contain_text("200")
        playwright.expect(listing.locator("pre")).to_contain_text('"stack_name": "made"')
        assert "`" not in listing.inner_text()
        user.check("docs-answer")
    finally:
        user.close()
        server.kill()
