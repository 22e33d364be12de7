"""Pages of stacks that updates have left parts of (law D5)."""

import pytest

from tests.api.conftest import template, value

from .conftest import Browser


@pytest.mark.slow
def test_what_is_left_out_is_on_each_page(browser: Browser) -> None:
    path = browser.heat.create(template(web=value("1"), db=value("1")), name="parts")
    assert "restricted" not in browser.get("").text
    body = {"template": template(web=value("2"), db=value("2")), "target": ["web"]}
    browser.heat.call("PUT", path, body, code=202)
    browser.heat.settle(path)
    assert "restricted (1)" in browser.get("").text
    page = browser.get(path)
    assert "restricted (1)" in page.html.find("div", {"class": "head"}).text
    assert "left out are db" in page.html.find("dl", {"id": "about"}).text
    assert [one["data-code"] for one in page.html.find("div", {"id": "why"}).find_all("li")] == ["restricted"]
    browser.heat.call("PATCH", path, {}, code=202)
    browser.heat.settle(path)
    assert "restricted" not in browser.get(path).text
