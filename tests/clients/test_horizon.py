"""Horizon with heat-dashboard: each panel, without JavaScript."""

import json
import os
import re
import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from benchmarks.ports import free_port
from tests.clients.installing import environment
from tests.clients.region import FLAVOR, NETWORK, Region
from tests.waiting import eventually

pytestmark = pytest.mark.clients

VERSIONS = ("horizon==27.0.0", "heat-dashboard==16.0.0")
HERE = Path(__file__).parent
PATIENCE = 240
"""Seconds for Horizon to start, and for a stack to settle: the machine may be busy."""
TEMPLATE = """\
heat_template_version: 2018-08-31
description: A stack of Horizon
parameters:
  text: {type: string, default: one, label: Said}
  count: {type: number, default: 2, constraints: [{range: {min: 1, max: 5}}]}
  listed: {type: comma_delimited_list, default: "a,b"}
  mapped: {type: json, default: {a: 1}}
  flag: {type: boolean, default: true}
  pick: {type: string, default: x, constraints: [{allowed_values: [x, y]}]}
  secret: {type: string, hidden: true}
  flavor: {type: string, default: m1.nano, constraints: [{custom_constraint: nova.flavor}]}
  network: {type: string, constraints: [{custom_constraint: neutron.network}]}
parameter_groups:
- {label: first, parameters: [text, count, listed, mapped, flag, pick]}
- {label: second, parameters: [secret, flavor, network]}
resources:
  net: {type: OS::Neutron::Net}
  port: {type: OS::Neutron::Port, properties: {network: {get_resource: net}}}
  said: {type: OS::Heat::Value, properties: {value: {get_param: text}}}
outputs:
  text: {value: {get_attr: [said, value]}, description: The word}
"""


class Browser:
    """A session of a user in Horizon."""

    def __init__(self, home: str) -> None:
        import requests

        self.home = home
        self._session = requests.Session()

    def get(self, path: str) -> Any:
        return self._page(self._session.get(f"{self.home}{path}", timeout=PATIENCE))

    def part(self, path: str) -> str:
        """The text of a part of a page, as scripts of the page ask for it."""
        headers = {"X-Requested-With": "XMLHttpRequest"}
        return _words(self._page(self._session.get(f"{self.home}{path}", headers=headers, timeout=PATIENCE)))

    def text(self, path: str) -> str:
        """The text of a page, without its head and menu."""
        return _words(self.get(path).xpath("//*[@id='content_body' or @id='main_content']")[-1])

    def data(self, path: str) -> Any:
        answer = self._session.get(f"{self.home}{path}", timeout=PATIENCE)
        assert answer.status_code == 200, answer.text
        return json.loads(answer.text)

    def send(self, page: Any, path: str, refused: str = "", **fields: str) -> Any:
        """Fill and send the page's form whose target ends with `path`.

        `refused` is part of an expected error.
        """
        (form,) = [one for one in page.forms if (one.get("action") or "").partition("?")[0].endswith(path)]
        filled = {**dict(form.form_values()), **fields}
        return self._page(self._session.post(f"{self.home}{form.get('action')}", filled, timeout=PATIENCE), refused)

    def row(self, name: str) -> Any:
        """The row of a stack in the index, or None."""
        rows = self.get("/project/stacks/").xpath("//tr[@data-object-id]")
        return next((one for one in rows if name in _words(one)), None)

    def settled(self, name: str, status: str) -> None:
        """Wait for a status as the page does: by looks at the row."""
        identifier = self.row(name).get("data-object-id")
        path = f"/project/stacks/?action=row_update&table=stacks&obj_id={identifier}"
        eventually(lambda: status in self.part(path), f"{name} is {status}", PATIENCE)

    def act(self, name: str, action: str) -> None:
        """Press a button of a stack's row."""
        page = self.get("/project/stacks/")
        rows = page.xpath("//tr[@data-object-id]")
        (identifier,) = [one.get("data-object-id") for one in rows if name in _words(one)]
        self.send(page, "/project/stacks/", action=f"stacks__{action}__{identifier}")

    @staticmethod
    def _page(answer: Any, refused: str = "") -> Any:
        from lxml import html

        assert answer.status_code == 200, answer.text[-2000:]
        page = html.fromstring(answer.text)
        errors = [_words(one) for one in page.xpath("//*[contains(@class, 'alert-danger')]")]
        told = [one for one in errors if "requires JavaScript" not in one]
        told += [_words(one) for one in page.xpath("//*[contains(@class, 'has-error')]")]
        assert told == [] if not refused else any(refused in one for one in told), told
        return page


def _words(element: Any) -> str:
    return " ".join(element.text_content().split())


@pytest.fixture(scope="module")
def browser(region: Region, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """A Horizon in which the region's member is logged in."""
    pytest.importorskip("lxml", reason="lxml is not installed")
    python = environment("horizon", *VERSIONS) / "python"
    port = free_port()
    log = tmp_path_factory.mktemp("horizon") / "horizon.log"
    options = ("--settings", "horizon_settings", "--pythonpath", str(HERE), "--noreload", "--skip-checks")
    with log.open("w") as output:
        process = subprocess.Popen(
            [python, "-W", "ignore", "-m", "django", "runserver", *options, f"127.0.0.1:{port}"],
            env={**os.environ, **region.variables}, cwd=log.parent, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        eventually(lambda: _listens(port) or process.poll() is not None, "Horizon listens", PATIENCE)
        assert process.poll() is None, log.read_text()
        made = Browser(f"http://127.0.0.1:{port}")
        form = {"username": region.name, "password": region.password}
        made.send(made.get("/auth/login/"), "/auth/login/", **form)
        made.get(f"/auth/switch_services_region/{region.name}/")
        yield made
    finally:
        process.kill()
        process.wait()


def _listens(port: int) -> bool:
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) == 0


def _templated(browser: Browser, path: str, environment: str = "", template: str = TEMPLATE) -> Any:
    """Give a template to a form; the page after it."""
    given = {
        "template_source": "raw", "template_data": template,
        "environment_source": "raw", "environment_data": environment,
    }  # fmt: skip
    return browser.send(browser.get(path), path, **given)


def test_a_stack(browser: Browser, region: Region) -> None:
    stacks = "/project/stacks"
    form = _templated(browser, f"{stacks}/select_template", "parameters: {text: two}")
    choices = {each.get("name"): _words(each) for each in form.xpath("//select")}
    assert FLAVOR in choices["__param_flavor"]
    assert NETWORK in choices["__param_network"]
    given = {"stack_name": "by-horizon", "password": region.password, "__param_secret": "swordfish"}
    browser.send(form, f"{stacks}/launch", **given)
    browser.settled("by-horizon", "Create Complete")
    identifier = browser.row("by-horizon").get("data-object-id")
    detail = f"{stacks}/stack/{identifier}/"

    overview = browser.text(f"{detail}?tab=stack_details__overview")
    assert "A stack of Horizon" in overview
    assert "The word two" in overview
    assert "secret ******" in overview
    assert "swordfish" not in overview
    resources = browser.text(f"{detail}?tab=stack_details__resources")
    assert all(word in resources for word in ("OS::Neutron::Net", "OS::Neutron::Port", "OS::Heat::Value"))
    assert "Create Complete" in browser.text(f"{detail}?tab=stack_details__events")
    assert "heat_template_version" in browser.text(f"{detail}?tab=stack_details__stack_template")
    assert "OS::Neutron::Net" in browser.text(f"{detail}net/")
    graph = browser.data(f"{stacks}/get_d3_data/{identifier}/")
    assert graph["stack"]["status"] == "CREATE_COMPLETE"
    assert {one["name"]: one["required_by"] for one in graph["nodes"]} == {"net": ["port"], "port": [], "said": []}

    form = _templated(browser, f"{stacks}/{identifier}/change_template")
    changes = {"password": region.password, "__param_text": "three", "__param_secret": "swordfish"}
    browser.send(form, f"{stacks}/{identifier}/edit_stack", **changes)
    browser.settled("by-horizon", "Update Complete")
    assert "The word three" in browser.text(f"{detail}?tab=stack_details__overview")

    for action, status in (("check", "Check"), ("suspend", "Suspend"), ("resume", "Resume")):
        browser.act("by-horizon", action)
        browser.settled("by-horizon", f"{status} Complete")
    browser.act("by-horizon", "delete")
    eventually(lambda: browser.row("by-horizon") is None, "by-horizon is gone", PATIENCE)


def test_a_preview(browser: Browser) -> None:
    """The page has no fields for parameters: the environment sets the required ones."""
    path = "/project/stacks/preview"
    form = _templated(browser, f"{path}_template")
    missing = "The Parameter (secret) was not provided."  # a Heat 27 answers the same
    browser.send(form, path, refused=missing, stack_name="previewed")
    form = _templated(browser, f"{path}_template", f"parameters: {{secret: swordfish, network: {NETWORK}}}")
    shown = _words(browser.send(form, path, stack_name="previewed"))
    assert "stack_name previewed" in shown
    assert "OS::Neutron::Port" in shown
    assert "swordfish" not in shown
    assert browser.row("previewed") is None


def test_a_faulty_template(browser: Browser) -> None:
    faulty = TEMPLATE.replace("OS::Heat::Value", "OS::Heat::Nothing")
    given = {
        "template_source": "raw", "template_data": faulty, "environment_source": "raw", "environment_data": "",
    }  # fmt: skip
    path = "/project/stacks/select_template"
    browser.send(browser.get(path), path, refused="OS::Heat::Nothing", **given)


def test_resource_types(browser: Browser) -> None:
    page = browser.get("/project/resource_types/")
    names = {one.get("data-object-id") for one in page.xpath("//tr[@data-object-id]")}
    assert {"OS::Nova::Server", "OS::Heat::ResourceGroup", "AWS::EC2::Instance"} <= names
    for name in ("OS::Nova::Server", "OS::Heat::AutoScalingGroup", "AWS::EC2::Instance"):
        shown = browser.text(f"/project/resource_types/{name}/")
        assert name in shown
        assert "type: " in shown
    wanted = {"resource_types__filter__q": "Neutron", "resource_types__filter__q_field": "name"}
    found = browser.send(page, "/project/resource_types/", **wanted)
    names = {one.get("data-object-id") for one in found.xpath("//tr[@data-object-id]")}
    assert names
    assert all(name.startswith("OS::Neutron::") for name in names)


def test_template_versions(browser: Browser) -> None:
    page = browser.get("/project/template_versions/")
    rows = page.xpath("//tr[@data-object-id]")
    assert any("heat_template_version.2021-04-16" in _words(one) for one in rows)
    for link in page.xpath("//tr[@data-object-id]//a/@href"):
        name = re.sub("/$", "", link).rpartition("/")[2]
        shown = browser.text(f"{link}?tab=template_version_details__template_functions")
        assert ("get_attr" in shown) == name.startswith("heat_template_version"), shown


def test_the_template_generator(browser: Browser) -> None:
    assert "Template Generator" in _words(browser.get("/project/template_generator/"))
    options = browser.data("/project/template_generator/get_resource_options")
    assert options["auth"]["admin"] is False
    assert FLAVOR in {one["name"] for one in options["flavors"]}
    assert "2021-04-16" in {one["name"].rpartition(".")[2] for one in options["template_versions"]}
