"""Pages and forms without JavaScript."""

import re
from pathlib import Path
from urllib.parse import quote

import pytest
from webtest import TestResponse

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.features.dashboard.feature import DashboardSettings
from heatlite.features.dashboard.pages.tree import MOST_ROWS
from tests.api.conftest import template, value
from tests.databases import sqlite
from tests.tables import few, table
from tests.waiting import eventually

from .conftest import PROJECT_FORMS, STACK_FORMS, Browser
from .test_login import PROJECT_PAGES, STACK_PAGES

HOSTILE = {
    "<img src=x onerror=alert(1)>": "<img",
    "\u202eevil": "\u202eevil",
    "n" * 255: "n" * 255,
}


def test_the_root_leads_to_the_projects(browser: Browser) -> None:
    browser.heat.create(template(a=value()), name="first")
    page = browser.app.get("/ui", status=303).follow()
    assert "demo" in page.text


@pytest.mark.slow
def test_the_list_filters_by_name_and_status(browser: Browser) -> None:
    for name in ("alpha-web", "beta-web"):
        browser.heat.create(template(a=value()), name=name)
    form = browser.get("").forms[0]
    form["search"] = "ALPHA"
    page = form.submit()
    assert "alpha-web" in page.text
    assert "beta-web" not in page.text
    assert "heatlite ls --search ALPHA --project demo" in page.text
    assert "No stack matches" in browser.get("?status=FAILED&search=beta").text


@pytest.mark.slow
def test_the_list_shows_only_unhealthy_or_locked_stacks(browser: Browser) -> None:
    paths = {name: browser.heat.create(template(a=value()), name=name) for name in ("only-fine", "only-bad")}
    path = paths["only-bad"]
    browser.heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    link = browser.get("").html.find("dl", id="counts").find("div", class_="unhealthy").a["href"]
    for address in (link, "?only=unhealthy&search=only-"):
        page = browser.get(address)
        assert "only-bad" in page.text
        assert "only-fine" not in page.text
    assert "heatlite ls --search only- --unhealthy" in page.text
    assert "No stack matches" in browser.get("?only=locked&search=only-").text


@pytest.mark.slow
def test_an_object_leads_to_its_resource(browser: Browser) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    path = browser.heat.create(template(g=group), name="holds")
    listed = browser.heat.get(f"{path}/resources?nested_depth=1")["resources"]
    (physical,) = [one["physical_resource_id"] for one in listed if one["resource_name"] == "0"]
    page = browser.get(f"?search={physical}")
    assert f"heatlite find {physical} --project demo" in page.text
    assert page.html.find(id="list").a["href"] == f"{browser.home}{path}/resources/g/0"
    page.click("g/0")


@pytest.mark.slow
def test_a_stack_is_locked_and_unlocked_by_forms(browser: Browser) -> None:
    path = browser.heat.create(template(a=value(), b=value({"get_attr": ["a", "value"]})), name="locks")
    page = browser.get(path)
    page = browser.post(page, "/do/lock", reason="fans", level="all")
    assert "The stack is locked." in page.text
    assert "fans" in page.text
    assert browser.heat.get(path + "/lock")["lock"]["reason"] == "fans"
    assert "locked" in browser.get("?search=locks").text
    browser.heat.settle(path)
    page = browser.post(browser.get(path), "/do/suspend", code=409)
    assert "Not done." in page.text
    browser.post(page, "/do/unlock")
    browser.heat.settle(path)
    assert browser.heat.get(path + "/lock")["lock"] is None


@pytest.mark.slow
def test_a_resource_is_marked_and_unmarked(browser: Browser) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 2, "resource_def": value()}}
    path = browser.heat.create(template(g=group), name="marks")
    page = browser.get(path)
    assert "Fold g" in page.text
    assert "Fold" not in browser.get(f"{path}?toggle=g").text
    page = browser.get(f"{path}/resources/g/1")
    assert browser.post(page, "/do/mark", reason="smoke").status_int == 200
    assert "1 unhealthy" in browser.get("?search=marks").text
    page = browser.get(f"{path}/resources/g/1")
    assert "smoke" in page.text
    browser.post(page, "/do/mark")
    assert "healthy" in browser.get("?search=marks").text


@pytest.mark.slow
@table("name", ["a b", "ü", "a%20b", "a?b"])
def test_resources_of_any_name_have_a_page(browser: Browser, name: str) -> None:
    path = browser.heat.create(template(**{name: value()}), name=f"n{name.encode().hex()}")
    page = browser.get(f"{path}/resources/{quote(name)}")
    assert name in page.html.text
    assert "The mark is changed." in browser.post(page, "/do/mark", reason="smoke").text


@pytest.mark.slow
def test_a_large_stack_is_shown_whole_on_request(browser: Browser) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    path = browser.heat.create(template(g=group, **{f"r{number}": value() for number in range(MOST_ROWS)}), name="wide")
    page = browser.get(f"{path}?toggle=g")
    assert len(page.html.find("table", class_="tree").tbody.find_all("tr")) == MOST_ROWS
    page = page.click(f"Show all {MOST_ROWS + 2}")
    assert len(page.html.find("table", class_="tree").tbody.find_all("tr")) == MOST_ROWS + 1
    assert page.html.find("a", class_="fold")["href"].endswith("?all=true")


@pytest.mark.slow
def test_a_deletion_needs_the_name(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="goes")
    page = browser.get(path).click("Delete …")
    page = browser.post(page, "/do/delete", code=400, confirm="went")
    assert "Type the name" in page.text
    assert "The deletion has begun." in browser.post(page, "/do/delete", confirm="goes").text


def deletion(page: TestResponse) -> dict[str, str]:
    """The entries of the plan of a deletion: path → what is done."""
    rows = page.html.select("#deletion .change")
    return {row.strong.text: row.find("span", class_="chip").text.strip() for row in rows}


@pytest.mark.slow
def test_a_deletion_shows_its_plan_first(browser: Browser) -> None:
    """Objects that go, that stay by policy, and on request with what they require."""
    kept = {**value("k"), "deletion_policy": "Retain"}
    nested = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    made = template(net=value("n"), db={**value("d"), "depends_on": "net"}, kept=kept, web=nested)
    path = browser.heat.create(made, name="planned-end")
    page = browser.get(f"{path}/delete")
    assert deletion(page) == {"db": "delete", "kept": "stays", "net": "delete", "web": "delete", "web/0": "delete"}
    assert [one["name"] for one in page.html.select("input[type=checkbox]")] == ["retain.db", "retain.net"]
    assert "its deletion policy retains it" in page.text and "4 objects" in page.text
    again = page.forms[0]
    again["retain.db"] = True
    page = again.submit()
    assert deletion(page) == {"db": "stays", "kept": "stays", "net": "stays", "web": "delete", "web/0": "delete"}
    assert "db requires it" in page.text and "--retain db" in page.text
    assert "There is no such page" not in browser.get(f"{path}/delete?retain.nothing=on").text
    assert "there is no such resource" in browser.get(f"{path}/delete?retain.nothing=on").html.find(id="deletion").text

    browser.heat.call("PATCH", path, {"template": {**made, "resources": {**made["resources"], "new": value()}}}, 202)
    browser.heat.settle(path)
    page = browser.post(page, "/do/delete", code=409, confirm="planned-end")
    assert "new" in deletion(page), "the plan as it is now, with the choice"
    assert deletion(page)["net"] == "stays"
    browser.post(page, "/do/delete", confirm="planned-end")
    browser.heat.settle(path, "DELETE_COMPLETE")
    action = browser.heat.get(f"/actions?target={path.rpartition('/')[2]}&action=STACK_DELETE")["actions"][0]
    assert sorted(one["path"] for one in action["outputs"]["retained"]) == ["db", "net"]


@pytest.mark.slow
def test_a_deletion_that_is_refused_has_no_form(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="held")
    browser.heat.call("POST", f"{path}/actions", {"protect": {"resource": "a"}}, 200)
    page = browser.get(f"{path}/delete")
    assert "protected" in page.html.find(id="deletion").text
    assert not [one for one in page.forms.values() if one.action.endswith("/do/delete")]


@pytest.mark.slow
def test_a_deleted_stack_offers_nothing_that_is_refused(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="past")
    browser.heat.call("DELETE", path, code=204)
    browser.heat.settle(path)
    page = browser.get(path)
    assert "delete complete" in page.html.find(id="stackhead").text
    assert [one.action for one in page.forms.values()] == []
    for link in page.html.find("nav", class_="tabs").find_all("a"):
        browser.get(link["href"])


@pytest.mark.slow
def test_a_form_needs_its_token_and_origin(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="forged")
    browser.get(path)
    address = f"{browser.home}{path}/do/lock"
    browser.app.post(address, {"csrf": "0" * 64}, status=403)
    browser.app.post(address, {}, status=403)
    form = next(one for one in browser.get(path).forms.values() if one.action.endswith("/do/lock"))
    fields = dict(form.submit_fields())
    browser.app.post(address, fields, headers={"Sec-Fetch-Site": "cross-site"}, status=403)
    browser.app.post(address, fields, headers={"Origin": "http://elsewhere.example"}, status=403)
    assert browser.heat.get(path + "/lock")["lock"] is None
    own = {"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:80"}
    browser.app.post(address, fields, headers=own, status=303)


@pytest.mark.slow
def test_a_refresh_without_news_is_empty(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="calm")
    pages = [f"{browser.home}{path}{part}" for part in ("", "/health", "/lock", "/nodes", "/progress", "/snapshots")]
    pages += [f"{browser.home}{part}" for part in ("", "/actions", "/approvals", "/healing", "/playbooks")]
    tags = {page: {"If-None-Match": browser.get(page).html.body["data-tag"]} for page in pages}
    for page in pages:
        assert browser.app.get(page, headers=tags[page], status=304).body == b""
    browser.heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    for page in (pages[0], pages[1], browser.home):
        assert "unhealthy" in browser.app.get(page, headers=tags[page], status=200).text


@pytest.mark.slow
@table(
    ("page", "deed", "code", "typed"),
    [
        ("", "lock", 400, {"level": "stacks", "reason": "new fans", "expires_at": "never"}),
        ("/lock", "lock", 400, {"level": "stacks", "reason": "new fans", "expires_at": "never"}),
        ("/health", "mark", 404, {"resource": "nothing", "reason": "smoke"}),
        ("/snapshots", "snapshot", 400, {"name": "n" * 300}),
    ],
)
def test_a_refused_form_keeps_what_was_typed(
    browser: Browser, page: str, deed: str, code: int, typed: dict[str, str]
) -> None:
    path = browser.heat.create(template(a=value()), name=f"keeps-{deed}{page.strip('/')}")
    shown = browser.post(browser.get(path + page), f"/do/{deed}", code, **typed)
    assert "Not done." in shown.text
    form = next(one for one in shown.forms.values() if one.action.endswith(f"/do/{deed}"))
    assert {name: form[name].value for name in typed} == typed


@pytest.mark.slow
def test_a_refused_mark_keeps_its_reason_on_the_page_of_its_resource(browser: Browser) -> None:
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value()}}
    path = browser.heat.create(template(**{"a b": group}), name="keeps-mark")
    here = f"{path}/resources/a%20b/0"
    page = browser.get(here)
    browser.heat.call("POST", f"{path}/actions", {"lock": {"level": "all"}}, code=200)
    page = browser.post(page, "/do/mark", 409, reason="smoke")
    assert "Not done." in page.text
    form = next(one for one in page.forms.values() if one.action.endswith("/do/mark"))
    assert (form["resource"].value, form["reason"].value) == ("a b/0", "smoke")
    assert page.html.body["data-page"] == f"{browser.home}{here}"


def test_a_refused_playbook_keeps_its_name(browser: Browser) -> None:
    page = browser.post(browser.get("/playbooks"), "/do/playbook", 400, name="restart", document="stages: [")
    form = next(one for one in page.forms.values() if one.action.endswith("/do/playbook"))
    assert (form["name"].value, form["document"].value) == ("restart", "stages: [")


@pytest.mark.slow
def test_the_list_shows_the_action_of_a_stack_beside_a_large_tree(
    browser: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    endless = {"type": "OS::Heat::TestResource", "properties": {"action_wait_secs": {"create": -1}}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": endless}}
    path = browser.heat.create(template(g=group), name="large-tree", wait=False)
    root = path.rpartition("/")[2]
    monkeypatch.setattr("heatlite.api.handlers.actions.MAX_PAGE", 1)

    def has_nested_action() -> bool:
        (newest,) = browser.heat.get("/actions")["actions"]
        return bool(newest["target"] != root)

    eventually(has_nested_action, "the action of the group")
    (row,) = browser.get("?search=large-tree").html.select("#list tbody tr")
    assert "create" in row.find_all("td")[4].text
    browser.heat.call("DELETE", path, code=204)
    browser.heat.settle(path, "DELETE_COMPLETE")


@pytest.mark.slow
def test_a_refused_form_names_the_page_to_go_on_with(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="refuses")
    page = browser.post(browser.get(path), "/do/lock", expires_at="never", code=400)
    assert page.html.body["data-page"] == f"{browser.home}{path}"
    page = browser.post(browser.get(f"{path}/lock"), "/do/lock", expires_at="never", code=400)
    assert page.html.body["data-page"] == f"{browser.home}{path}/lock"
    assert "data-page" not in browser.get(path).html.body.attrs


@pytest.mark.slow
def test_no_page_has_a_secret(browser: Browser) -> None:
    """Not of a hidden parameter, of a property that has it, nor of a refused request."""
    text = template(a=value({"get_param": "password"})) | {
        "parameters": {"password": {"type": "string", "hidden": True}},
    }
    path = browser.heat.create(text, name="secret", parameters={"password": "s3cret-1"})
    browser.heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
    browser.heat.call("POST", f"{path}/actions", {"lock": {"level": "all"}}, code=200)
    browser.heat.settle(path)
    browser.heat.call("PATCH", path, {"parameters": {"password": "s3cret-2"}}, code=409)
    parts = ("", "/resources/a", "/progress", "/outputs", "/snapshots", "/health", "/lock", "/change")
    for page in (*(path + part for part in parts), "", "/actions", "/audit"):
        assert "s3cret" not in browser.get(page).text, page
    assert "update" in browser.get(f"{path}/lock").text


@pytest.mark.slow
def test_odd_forms_are_no_fault_of_the_server(browser: Browser) -> None:
    path = browser.heat.create(template(a=value()), name="odd")
    csrf = {"csrf": browser.get(path).forms[0]["csrf"].value}
    names = ("id", "resource", "reason", "name", "document", "level", "expires_at", "args", "sealed")
    odd = dict.fromkeys(names, "\x00ü{")
    addresses = [f"{browser.home}{path}/do/{deed}" for deed in {*STACK_FORMS} - {"delete"}]
    addresses += [f"{browser.home}/do/{deed}" for deed in PROJECT_FORMS]
    addresses += [f"{browser.home}/new", f"{browser.home}{path}/change", "/ui/login", "/ui/logout"]
    for address in addresses:
        for fields in ({}, odd, {**odd, "step": "do", "file": "a: &a [*a]", "digest": "x"}):
            answer = browser.app.post(address, {**csrf, **fields}, expect_errors=True)
            assert answer.status_int < 500, (address, fields, answer.text)
    assert browser.app.get("/ui/login", status=303).location.endswith("/ui")


@pytest.mark.slow
def test_features_that_are_off_have_no_pages(tmp_path: Path) -> None:
    alone = Settings(database=sqlite(tmp_path), features=("dashboard",), of_features=(DashboardSettings(ui=True),))
    server = wiring.embedded(alone)
    try:
        browser = Browser(server.app)
        path = browser.heat.create(template(a=value()), name="s")
        for page in ("/healing", "/nodes", "/playbooks", f"{path}/nodes"):
            browser.get(page, code=404)
        shown = browser.get("/approvals").text + browser.get(path).text + browser.get(f"{path}/health").text
        assert not re.search(r">(Nodes|Playbooks|Healing|Policy)<", shown)
        assert "/do/approve" not in shown
    finally:
        server.close()


def test_unknown_pages_say_so(browser: Browser) -> None:
    assert "There is no such page." in browser.get("/nothing", code=404).text
    assert "could not be found" in browser.get("/stacks/x/00000000-0000-0000-0000-000000000000", code=404).text
    assert browser.app.post("/ui", {"a": "b"}, status=403)


@pytest.mark.slow
@pytest.mark.parametrize("text", few(HOSTILE), ids=["markup", "direction", "long"])
def test_hostile_texts_stay_texts(browser: Browser, text: str) -> None:
    path = browser.heat.create(template(a=value(text)), name=f"h{len(text)}", tags=[text[:80].replace(",", "")])
    browser.post(browser.get(path), "/do/lock", reason=text)
    for page in (browser.get(path), browser.get("?search=h"), browser.get(f"{path}/resources/a")):
        assert "<img" not in page.text


@pytest.mark.slow
def test_marks_of_direction_show_as_escapes_on_every_page(browser: Browser) -> None:
    evil = "a\u202eb\u2066c\u200bd\u2028e\x9bf"
    made = template(**{f"r{evil}": value(evil), "a": value(evil)})
    made["outputs"] = {f"o{evil}": {"value": evil, "description": evil}}
    made["parameters"] = {f"p{evil}": {"type": "string", "default": evil, "description": evil, "label": evil}}
    path = browser.heat.create(made, name="direction", tags=evil)
    mark = {"mark_unhealthy": True, "resource_status_reason": evil}
    browser.heat.call("PATCH", f"{path}/resources/a", mark, code=200)
    browser.heat.call("POST", f"{path}/actions", {"lock": {"reason": evil}}, code=200)
    resource = f"/resources/{quote(f'r{evil}')}"
    shown = [f"{path}{one}" for one in (*STACK_PAGES, resource, "/change")] + [*PROJECT_PAGES, f"?search={quote(evil)}"]
    for address in shown:
        page = browser.get(address)
        for field in page.html.find_all(["input", "textarea", "option"]):
            field.decompose()
        for one in page.html.find_all(attrs={"data-copy": True}) + page.html.find_all(attrs={"data-graph": True}):
            del one["data-copy"], one["data-graph"]
        assert re.search("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]", str(page.html)) is None, address
    assert "a\\u202eb" in browser.get(path).text
    forms = browser.get(f"{path}/change").forms.values()
    assert "a\u202eb" in "".join(text for form in forms for _, text in form.submit_fields() if isinstance(text, str))


@pytest.mark.slow
def test_pages_without_healing(tmp_path: Path) -> None:
    alone = Settings(database=sqlite(tmp_path), features=("dashboard",), of_features=(DashboardSettings(ui=True),))
    server = wiring.embedded(alone)
    try:
        browser = Browser(server.app)
        path = browser.heat.create(template(a=value()), name="s")
        browser.heat.call("PATCH", f"{path}/resources/a", {"mark_unhealthy": True}, code=200)
        page = browser.get(f"{path}/health")
        assert "Mark healthy" in page.text
        assert not {"Incidents", "Policy", "Healing"} & {one.text.strip() for one in page.html.find_all(["h2", "a"])}
        assert "Heal …" not in browser.get(path).text
    finally:
        server.close()
