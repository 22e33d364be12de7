"""Hostile texts in every name × every page: they stay texts, and links work."""

import json
import re
from typing import Any
from urllib.parse import quote, urldefrag, urljoin, urlsplit

import pytest
from bs4 import BeautifulSoup

from heatlite import wiring
from tests.api.conftest import Heat, template, value
from tests.features.dashboard.conftest import ADDED, PROJECT_FORMS, STACK_FORMS, Browser
from tests.features.nodes.registered_nodes import registered
from tests.waiting import eventually

from .test_login import PROJECT_PAGES, STACK_PAGES

MARKS = re.compile("[\x7f-\x9f\u200b-\u200f\u2028-\u202e\u2066-\u2069]")
NO_PAGES = re.compile(r"/(events|audit\.csv|static|logout)\b|/template\b")
MOST_PAGES = 400


def evil(field: str) -> str:
    """A text that is a tag of this name where a page takes it for markup."""
    return f"<hx-{field}>\"'><hx-{field} onx=1>{{{{7*7}}}}?a=b#c%2F&amp;\u202e+;,".replace(",", "")


FIELDS = (  # each is printed by a page
    "resource", "description", "parameter", "label", "about", "default", "output", "result", "value", "later", "tag",
    "mark", "locked", "kept", "bake", "rule", "rejected", "report", "snapshot", "node", "argument",
    "stage", "member",
)  # fmt: skip


def made(word: str) -> dict[str, Any]:
    """A template with hostile names. Another word replaces a resource."""
    kind = "OS::Heat::TestResource"
    thing = {"type": kind, "properties": {"value": evil(word), "update_replace": True}}
    group = {"type": "OS::Heat::ResourceGroup", "properties": {"count": 1, "resource_def": value(evil("member"))}}
    found: dict[str, Any] = template(**{evil("resource"): value(evil(word)), "a": thing, "group": group})
    found["description"] = evil("description")
    parameter = {"type": "string", "default": evil("default"), "description": evil("about"), "label": evil("label")}
    found["parameters"] = {evil("parameter"): parameter}
    found["outputs"] = {evil("output"): {"value": evil("result"), "description": evil("about")}}
    return found


def action(heat: Heat, path: str, name: str, body: object, code: int = 200) -> None:
    heat.call("POST", f"{path}/actions", {name: body}, code)


def fill(heat: Heat, server: wiring.Embedded) -> None:
    """Make stacks with a hostile text in each field, in all that pages show of them."""
    path = heat.create(made("value"), "one", tags=[evil("tag")])
    update: dict[str, Any] = {"template": made("later"), "guard": {"bake": 3600}, "tags": evil("tag")}
    heat.call("PUT", path, update, 202)
    eventually(lambda: "guard" in heat.get(path)["stack"] and heat.get(path)["stack"]["guard"]["phase"] == "bake")
    action(heat, path, "end_bake", {"reason": evil("bake")})
    heat.settle(path, "UPDATE_COMPLETE")
    heat.call("POST", f"{path}/snapshots", {"name": evil("snapshot")}, 200)
    heat.settle(path, "SNAPSHOT_COMPLETE")
    action(heat, path, "protect", {"reason": evil("kept")})

    report = {"key": "k", "status": "unhealthy", "stack": "one", "resource": "a", "reason": evil("report")}
    heat.call("POST", "/health/generic", {"reports": [report]}, 200)
    mark = {"mark_unhealthy": True, "resource_status_reason": evil("mark")}
    heat.call("PATCH", f"{path}/resources/a", mark, 200)
    action(heat, path, "lock", {"reason": evil("locked")})
    heat.call("PUT", path, {"template": made("value")}, 409)

    rule = {"name": "r", "for": "plan", "when": "true", "then": "approve", "message": evil("rule")}
    form = {"change_policy": "2026-11-28"}
    heat.call("PUT", "/change_policy", {**form, "rules": [rule]}, 200)
    for name in ("two", "three"):
        heat.call("POST", "/stacks", {"stack_name": name, "template": made("value")}, 409)
    waiting = heat.get("/approvals")["approvals"][0]
    heat.call("POST", f"/approvals/{waiting['id']}/reject", {"reason": evil("rejected")}, 200)
    heat.call("PUT", "/change_policy", form, 200)

    nodes = heat.create(template(**{evil("node"): value()}), "nodes")
    stack = server.store.stacks.get(nodes.rpartition("/")[2])
    assert stack is not None
    registered(server.store, stack, evil("node"))
    asked = {"node": evil("node"), "kind": "script", "args": {"config": evil("argument")}}
    heat.call("POST", f"{nodes}/node_actions", asked, 201)
    stage = {"name": evil("stage"), "nodes": "all", "action": {"kind": "script", "args": {"config": "true"}}}
    document = json.dumps({"node_playbook": "2026-11-21", "stages": [stage]})
    heat.call("POST", f"{nodes}/node_playbook_runs", {"document": document}, 202)
    heat.call("PUT", f"{nodes}/healing", {"healing_policy": "2026-11-22", "mode": "off"}, 200)
    heat.call("PUT", "/change_policy", {**form, "rules": [{**rule, "then": "deny"}]}, 200)
    heat.call("PUT", nodes, {"template": template(b=value())}, 403)


def shown(page: BeautifulSoup) -> str:
    """All texts of a page, also those in attributes."""
    parts = [page.get_text(" ")]
    for one in page.find_all(True):
        parts += [str(text) for text in one.attrs.values()]
    return " ".join(parts)


def faults(page: BeautifulSoup) -> list[str]:
    """List the tags that a page has made of texts, and its marks of direction."""
    found = [str(one)[:100] for one in page.find_all(lambda tag: tag.name.startswith("hx-") or "onx" in tag.attrs)]
    for field in page.find_all(["input", "textarea", "option"]):
        field.decompose()
    for one in page.find_all(attrs={"data-copy": True}) + page.find_all(attrs={"data-graph": True}):
        one.attrs.clear()
    return found + MARKS.findall(page.get_text())


@pytest.mark.slow
def test_every_page(server: wiring.Embedded) -> None:
    browser = Browser(server.app, "hostile")
    fill(browser.heat, server)
    todo = [browser.home, *(f"{browser.home}{page}" for page in PROJECT_PAGES)]
    todo += [f"{browser.home}/approvals/{one['id']}" for one in browser.heat.get("/approvals")["approvals"]]
    todo += [f"{browser.home}?search={quote(evil('tag'))}", f"{browser.home}/nothing/{quote(evil('tag'))}"]
    seen, printed, wrong = set(todo), set[str](), {}
    while todo and len(seen) < MOST_PAGES:
        address = todo.pop()
        answer = browser.app.get(address, expect_errors=True)
        if answer.status_int != 200 and "/nothing/" not in address:
            wrong[address] = [answer.status]
            continue
        printed |= {*re.findall(r"<hx-([a-z]+)>", shown(answer.html))}
        links = [urljoin(address, one["href"]) for one in answer.html.find_all("a", href=True)]
        found = faults(answer.html)
        if found:
            wrong[address] = found
        for link in (urldefrag(one).url for one in links):
            if urlsplit(link).path.startswith(browser.home) and not NO_PAGES.search(link) and link not in seen:
                seen.add(link)
                todo.append(link)
    assert wrong == {}
    assert len(seen) < MOST_PAGES
    assert {*FIELDS} - printed == set()
    stack = "/stacks/{name}/{stack_id}"
    pages = [*PROJECT_PAGES, "/actions/{action}", *(one for each in ADDED for one in each.project)]
    pages += [f"{stack}{one}" for one in (*STACK_PAGES, "/change", "/resources/{resource}")]
    pages += [f"{stack}{one}" for each in ADDED for one in each.stack]
    paths = [urlsplit(one).path.removeprefix(browser.home) for one in seen]
    patterns = {page: re.sub(r"\{[a-z_:]+\}", "[^/]+", page) + "/?" for page in pages}
    assert [page for page, one in patterns.items() if not any(re.fullmatch(one, path) for path in paths)] == []


@pytest.mark.slow
def test_every_form(browser: Browser) -> None:
    """The answer to a form that is refused shows what was sent."""
    path = browser.heat.create(template(a=value()), name="forms")
    csrf = {"csrf": browser.get(path).forms[0]["csrf"].value}
    names = ("id", "resource", "reason", "name", "document", "level", "expires_at", "args", "kind", "digest", "text")
    fields = {name: evil("field") for name in names}
    addresses = [f"{browser.home}{path}/do/{deed}" for deed in {*STACK_FORMS} - {"delete"}]
    addresses += [f"{browser.home}/do/{deed}" for deed in PROJECT_FORMS]
    addresses += [f"{browser.home}/new", f"{browser.home}{path}/change", "/ui/login"]
    for address in addresses:
        answer = browser.app.post(address, {**csrf, **fields}, expect_errors=True)
        if "text/html" in answer.content_type:
            assert faults(answer.html) == [], address
