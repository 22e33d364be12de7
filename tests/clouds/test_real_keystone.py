"""`auth` = ``keystone`` before a Keystone that is one: that of a cloud on this machine, where one runs."""

import json
import os
from collections.abc import Iterator
from http.client import HTTPConnection
from importlib.util import find_spec
from pathlib import Path
from urllib.parse import urlsplit

import pytest
import yaml

from heatlite import wiring
from heatlite.core.config import Auth, Settings
from tests.api.conftest import Heat, template, value

FOLDER = Path(os.environ.get("CLOUD_HOME") or Path.home() / ".cache" / "heatlite-cloud")


class RealKeystone:
    """Logs in the people that clouds.yaml names."""

    def __init__(self) -> None:
        clouds = yaml.safe_load((FOLDER / "clouds.yaml").read_text())["clouds"]
        self.accounts = {name.removeprefix("fakecloud-"): cloud["auth"] for name, cloud in clouds.items()}
        self.url = self.accounts["demo"]["auth_url"]

    def ask(self, method: str, path: str, body: object = None, **headers: str) -> tuple[int, str | None, dict]:
        parts = urlsplit(self.url)
        connection = HTTPConnection(parts.hostname or "", parts.port, timeout=20)
        try:
            sent = {name.replace("_", "-"): text for name, text in headers.items()}
            sent["Content-Type"] = "application/json"
            root = parts.path.rstrip("/").removesuffix("/v3")
            connection.request(method, f"{root}/v3{path}", json.dumps(body) if body else None, sent)
            answer = connection.getresponse()
            text = answer.read()
            return answer.status, answer.headers["X-Subject-Token"], json.loads(text) if text else {}
        finally:
            connection.close()

    def login(self, name: str) -> tuple[str, str]:
        """A token, and the id of its project."""
        account = self.accounts[name]
        domain = {"id": "default"}
        user = {"name": account["username"], "domain": domain, "password": account["password"]}
        scope = {"project": {"name": account["project_name"], "domain": domain}}
        auth = {"identity": {"methods": ["password"], "password": {"user": user}}, "scope": scope}
        status, token, body = self.ask("POST", "/auth/tokens", {"auth": auth})
        assert status == 201 and token is not None, body
        return token, body["token"]["project"]["id"]


@pytest.fixture(scope="module")
def keystone() -> RealKeystone:
    if find_spec("keystonemiddleware") is None:
        pytest.skip("keystonemiddleware is not installed (extra `keystone`)")
    if not (FOLDER / "clouds.yaml").exists():
        pytest.skip(f"no cloud in {FOLDER}; CLOUD_HOME names another folder")
    found = RealKeystone()
    try:
        found.ask("GET", "")
    except OSError:
        pytest.skip(f"the cloud in {FOLDER} does not run")
    return found


@pytest.fixture
def server(keystone: RealKeystone, tmp_path: Path) -> Iterator[wiring.Embedded]:
    password = keystone.accounts["demo"]["password"]
    table = {"auth_url": keystone.url, "username": "heat", "password": password, "project_name": "service"}
    settings = Settings(database=f"sqlite:///{tmp_path / 'heat.db'}", auth=Auth.KEYSTONE, keystone=table)
    server = wiring.embedded(settings)
    yield server
    server.close()


def test_its_tokens_open_their_projects(keystone: RealKeystone, server: wiring.Embedded) -> None:
    token, project = keystone.login("demo")
    demo = Heat(server.app, project, {"X-Auth-Token": token})
    path = demo.create(template(a=value()))
    assert demo.get(path)["stack"]["stack_owner"] == "demo"
    demo.call("GET", "/services", code=403)
    token, other = keystone.login("alt")
    alt = Heat(server.app, other, {"X-Auth-Token": token})
    alt.call("GET", path, code=404)
    assert alt.of(project).fault("GET", path, code=403)[0] == "HTTPForbidden"
    token, _ = keystone.login("demo-admin")
    Heat(server.app, other, {"X-Auth-Token": token}).get("/services")
    Heat(server.app, project, {"X-Auth-Token": "gAAAAABnonsense"}).call("GET", path, code=401)


def test_a_token_that_was_taken_back(keystone: RealKeystone, server: wiring.Embedded) -> None:
    token, project = keystone.login("demo")
    assert keystone.ask("DELETE", "/auth/tokens", X_Auth_Token=token, X_Subject_Token=token)[0] == 204
    Heat(server.app, project, {"X-Auth-Token": token}).call("GET", "/stacks", code=401)
