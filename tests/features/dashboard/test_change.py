"""New stacks and changes: problems, parameters, plans."""

import json

import pytest
from webtest import Form, TestResponse

from tests.api.conftest import template, value

from .conftest import Browser

TEXT = """heat_template_version: 2021-04-16
parameters:
  size: {type: number, default: 3, constraints: [{range: {min: 1, max: 5}}]}
  password: {type: string, hidden: true}
resources:
  a:
    type: OS::Heat::Value
    properties: {value: {get_param: size}}
  b:
    type: OS::Heat::Value
    properties: {value: {get_param: password}}
"""


def draft(page: TestResponse) -> Form:
    """The form of a change."""
    return next(one for one in page.forms.values() if one.action.endswith("/change"))


@pytest.mark.slow
def test_a_stack_is_created_as_planned(browser: Browser) -> None:
    page = browser.get("/new")
    page = browser.post(page, "/new", 200, stack_name="made", template=TEXT)
    assert "needed" in page.text
    assert "Create exactly this" not in page.text
    form = page.forms[0]
    form["p:password"], form["p:size"] = "s3cret-value", "4"
    page = form.submit("step", value="plan")
    assert "Create exactly this" in page.text
    assert "s3cret-value" not in page.text
    page.forms[0]["p:size"] = "5"
    page = page.forms[0].submit("step", value="do", status=409)
    assert "This is the new plan." in page.text
    done = page.forms[0].submit("step", value="do", status=303).follow()
    assert "The stack is being created." in done.text
    path = done.request.path.removeprefix(browser.home)
    assert browser.heat.settle(path, "CREATE_COMPLETE")["parameters"]["size"] == "5"
    assert "s3cret-value" not in browser.get(path + "/change").text
    (row,) = [one for one in browser.heat.get("/audit")["audit"] if one["stack_name"] == "made"]
    assert row["operation"] == "stacks:create"


@pytest.mark.slow
def test_problems_stand_beside_the_text(browser: Browser) -> None:
    page = browser.get("/new")
    text = TEXT.replace("OS::Heat::Value\n    properties: {value: {get_param: size}}", "OS::No::Type")
    page = browser.post(page, "/new", 400, stack_name="bad", template=text)
    assert page.html.find(id="L7")["class"] == ["hit"]
    assert "line 7, column" in page.text
    page = browser.post(page, "/new", 400, template="a: [")
    assert "Create exactly this" not in page.text


@pytest.mark.slow
def test_a_file_and_an_address_are_templates_too(browser: Browser) -> None:
    form = browser.get("/new").forms[0]
    form["stack_name"] = "filed"
    form["file"] = ("t.yaml", TEXT.encode())
    assert 'name="p:size"' in form.submit("step", value="plan").text
    form = browser.get("/new").forms[0]
    form["stack_name"], form["template_url"] = "far", "http://127.0.0.1:1/t.yaml"
    assert "Not done." in form.submit("step", value="plan", status="*").text


def test_typed_parameters_outlive_a_faulty_template(browser: Browser) -> None:
    form = browser.get("/new").forms[0]
    form["stack_name"], form["template"] = "typed", TEXT
    form = form.submit("step", value="plan").forms[0]
    form["p:password"], form["p:size"] = "s3cret-value", "4"
    form["template"] = TEXT + "  c: {type: OS::No::Type}\n"
    page = form.submit("step", value="plan", status=400)
    assert "s3cret-value" not in page.text
    page.forms[0]["template"] = TEXT
    page = page.forms[0].submit("step", value="plan")
    assert "Create exactly this" in page.text
    assert "s3cret-value" not in page.text
    assert page.forms[0]["p:size"].value == "4"
    # A parameter that the template has no longer.
    page.forms[0]["template"] = TEXT.replace("  size:", "  length:").replace("get_param: size", "get_param: length")
    page = page.forms[0].submit("step", value="plan", status=400)
    assert "The Parameter (size) was not defined in template." in page.text
    page = page.forms[0].submit("step", value="plan")
    assert "Create exactly this" in page.text
    assert "as typed before" in page.text


@pytest.mark.slow
def test_typed_parameters_outlive_a_refused_plan(browser: Browser) -> None:
    path = browser.heat.create(TEXT, name="locked-out", parameters={"password": "s3cret-value"})
    form = draft(draft(browser.get(path + "/change")).submit("step", value="plan"))
    form["p:size"] = "4"
    page = draft(form.submit("step", value="plan"))
    browser.heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
    browser.heat.settle(path)
    page = draft(page.submit("step", value="do", status=409))
    browser.heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
    browser.heat.settle(path)
    page = page.submit("step", value="plan")
    assert draft(page)["p:size"].value == "4"
    assert "<ins>" in page.text


def test_a_typed_text_outlives_its_stack(browser: Browser) -> None:
    path = browser.heat.create(template(a=value("old")), name="leaves")
    form = draft(browser.get(path + "/change"))
    form["template"] = TEXT
    browser.heat.call("DELETE", path, code=204)
    browser.heat.settle(path)
    page = form.submit("step", value="plan", status=404)
    assert "could not be found" in page.text
    again = next(one for one in page.forms.values() if one.action.endswith("/new"))
    assert (again["stack_name"].value, again["template"].value) == ("leaves", TEXT)


@pytest.mark.slow
def test_a_form_has_many_parameters_but_not_any_number(browser: Browser) -> None:
    parameters = {f"p{number}": {"type": "string", "default": ""} for number in range(80)}
    text = json.dumps({"heat_template_version": "2021-04-16", "parameters": parameters})
    page = browser.post(browser.get("/new"), "/new", 200, stack_name="eighty", template=text)
    assert 'name="p:p79"' in page.forms[0].submit("step", value="plan").text
    answer = browser.app.post("/ui/p/demo/new", "a=&" * 3000, status=400)
    assert "more than 2000 fields" in answer.text


def test_the_name_of_a_field_is_text(browser: Browser) -> None:
    part = b'--x\r\nContent-Disposition: form-data; name="\xff"\r\n\r\n1\r\n--x--\r\n'
    answer = browser.app.post("/ui/login", part, {"Content-Type": "multipart/form-data; boundary=x"}, status=400)
    assert "not UTF-8" in answer.text


@pytest.mark.slow
def test_a_change_does_exactly_its_plan(browser: Browser) -> None:
    path = browser.heat.create(template(a=value("old"), b=value()), name="changes")
    form = draft(browser.get(path + "/change"))
    assert "heat_template_version" in form["template"].value
    form["template"] = form["template"].value.replace("old", "new")
    page = form.submit("step", value="plan")
    assert "<ins>" in page.text
    assert "the definition changed" in page.text
    done = draft(page).submit("step", value="do", status=303).follow()
    assert "The plan is being done." in done.text
    browser.heat.settle(path, "UPDATE_COMPLETE")


def test_a_stale_plan_does_nothing_and_is_made_again(browser: Browser) -> None:
    path = browser.heat.create(template(a=value("old")), name="stale")
    form = draft(browser.get(path + "/change"))
    form["template"] = form["template"].value.replace("old", "new")
    page = form.submit("step", value="plan")
    browser.heat.call("PATCH", path, {"template": template(a=value("other"))}, code=202)
    browser.heat.settle(path)
    page = draft(page).submit("step", value="do", status=409)
    assert "This is the new plan." in page.text
    assert "other" in page.text
    draft(page).submit("step", value="do", status=303)
    browser.heat.settle(path, "UPDATE_COMPLETE")
