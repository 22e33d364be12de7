"""The page of revisions."""

import json

import pytest

from tests.api.conftest import template, value
from tests.features.dashboard.conftest import Browser
from tests.features.revisions.api.test_revisions import SECRET, hiding, put, revisions
from tests.tables import few


@pytest.mark.slow
def test_list_changes_and_the_way_back(browser: Browser) -> None:
    heat = browser.heat.of("revised")
    path = heat.create(template(a=value("one")), "shop")
    put(heat, path, {"template": template(a=value("two"), b=value("b"))})
    browser = Browser(heat.wsgi, "revised")
    page = browser.get(f"{path}/history")
    rows = [" ".join(row.get_text(" ").split()) for row in page.html.select("#revisions tbody tr")]
    assert [row.split()[0] for row in rows] == ["2", "1"]
    assert not [one for one in page.forms.values() if one.action.endswith("/do/undo")], "no plan without a request"
    changed = page.click("Changes").html.find(id="diff").text
    assert "resources.a.properties.value" in changed
    assert "two" in changed
    page = page.click("Plan to go back")
    plan = page.html.find(id="undo").text
    assert "Back to revision 1" in plan
    assert "delete" in plan
    next(one for one in page.forms.values() if one.action.endswith("/do/undo")).submit()
    heat.settle(path, "UPDATE_COMPLETE")
    assert heat.get(f"{path}/template") == template(a=value("one"))
    assert revisions(heat, path)[-1]["undo_of"] == 1
    assert "back to 1" in browser.get(f"{path}/history").text
    assert browser.get(f"{path}/history?diff=99&to=x").html.find(id="undo") is None


@pytest.mark.slow
def test_what_gave_a_definition(browser: Browser) -> None:
    heat = browser.heat.of("revised-moved")
    path = heat.create(template(a=value("one")), "shop")
    asked = {"moved": [{"from": "a", "to": "b"}]}
    digest = heat.call("PATCH", f"{path}/preview?plan=true", {"move": asked}, 200).json["plan"]["digest"]
    heat.call("POST", f"{path}/actions", {"move": {**asked, "plan_digest": digest}}, 200)
    assert [one["operation"] for one in revisions(heat, path)] == [None, "move"]
    browser = Browser(heat.wsgi, "revised-moved")
    newest = browser.get(f"{path}/history").html.select("#revisions tbody tr")[0]
    assert newest.select_one(".name").get_text(" ").split() == ["2", "move"]
    (action,) = heat.get("/actions?action=STACK_UPDATE")["actions"]
    assert browser.get(f"/actions/{action['id']}").html.find("h1").text == "Move"
    assert browser.get("/actions").html.select_one("tbody .name").text == "move"


@pytest.mark.slow
def test_hidden_values_and_nested_stacks(browser: Browser) -> None:
    """Z4 and Z6."""
    heat = browser.heat.of("revised-hidden")
    made = hiding(a=value("x"), c={"type": "c.yaml"})
    files = {"c.yaml": json.dumps(template())}
    path = heat.create(made, "shop", parameters={"secret": SECRET}, files=files)
    put(heat, path, {"template": made, "parameters": {"secret": "another-one"}, "files": files})
    browser = Browser(heat.wsgi, "revised-hidden")
    for query in ("", "?diff=2", "?to=1"):
        text = browser.get(f"{path}/history{query}").text
        assert not any(one in text for one in (SECRET, "another-one"))
    nested = heat.get(f"{path}/resources/c")["resource"]["physical_resource_id"]
    location = heat.call("GET", f"/stacks/{nested}", code=302).location
    assert "has the history" in browser.get(f"{location[location.index('/stacks/'):]}/history").text


@pytest.mark.slow
@pytest.mark.parametrize("text", few(["<img src=x onerror=alert(1)>", "a\u202eb\u2066c", "w" * 5000]))
def test_hostile_texts(browser: Browser, text: str) -> None:
    """Texts of a definition stay texts in the list, in the changes and in a plan."""
    heat = browser.heat.of("revised-hostile")
    name = text[:200].replace("/", "")
    path = heat.create(template(**{name: value(text), "a": value("one")}), f"s{len(text)}", tags=text[:80])
    put(heat, path, {"template": template(a=value(text), b=value(text[::-1]))})
    page = Browser(heat.wsgi, "revised-hostile").get(f"{path}/history?diff=2&to=1")
    shown = str(page.html.find("main"))
    assert "<img" not in shown and "\u202e" not in shown and "w" * 2001 not in shown
    assert len(page.html.select("#diff tbody tr")) > 2 and page.html.select("#undo .change")
