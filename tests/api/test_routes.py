"""A part of the route table: methods, redirects, version documents, unknown URLs."""

import re
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite
from tests.tables import few

from .conftest import Heat, served_routes, template, value

P = "/v1/demo"
S = P + "/stacks/n/i"

ROUTES: dict[str, str] = {
    "/": "GET",
    "/versions": "GET",
    "/v1": "GET POST",
    "/healthcheck": "GET",
    P + "/stacks": "GET POST",
    P + "/stacks/detail": "GET",
    P + "/stacks/preview": "POST",
    P + "/stacks/n": "GET POST PUT PATCH DELETE",
    P + "/stacks/n/resources": "GET POST",
    P + "/stacks/n/events": "GET POST",
    P + "/stacks/n/template": "GET POST",
    P + "/stacks/n/actions": "GET POST",
    P + "/stacks/n/environment": "GET",
    P + "/stacks/n/files": "GET",
    S: "GET PUT PATCH DELETE",
    S + "/preview": "PUT PATCH",
    S + "/template": "GET",
    S + "/environment": "GET",
    S + "/files": "GET",
    S + "/outputs": "GET",
    S + "/outputs/o": "GET",
    S + "/abandon": "DELETE",
    S + "/export": "GET",
    S + "/actions": "POST",
    S + "/lock": "GET",
    S + "/lock/suppressed/1": "DELETE",
    S + "/lock/suppressed/1/replay": "POST",
    S + "/resources": "GET PATCH",
    S + "/resources/r": "GET PATCH",
    S + "/resources/r/metadata": "GET",
    S + "/resources/r/signal": "POST",
    S + "/events": "GET",
    S + "/resources/r/events": "GET",
    S + "/resources/r/events/1": "GET",
    P + "/validate": "POST",
    P + "/resource_types": "GET",
    P + "/resource_types/t": "GET",
    P + "/resource_types/t/template": "GET",
    P + "/template_versions": "GET",
    P + "/template_versions/v/functions": "GET",
    P + "/build_info": "GET",
    P + "/services": "GET",
}
P_TEMPLATE = "/v1/{project}/"
METHODS = ("GET", "POST", "PUT", "PATCH", "DELETE", "HEAD")


def allowed(response: object) -> set[str]:
    return set(re.split(r",\s*", response.headers["Allow"])) - {"OPTIONS"}  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", ROUTES)
def test_options_tells_the_methods(refusing: Heat, path: str) -> None:
    response = refusing.app.request(path, method="OPTIONS")
    assert response.status_int == 204
    assert allowed(response) == set(ROUTES[path].split())


@pytest.mark.parametrize("path", ROUTES)
def test_other_methods_are_405(refusing: Heat, path: str) -> None:
    for method in METHODS:
        if method in ROUTES[path].split():
            continue
        response = refusing.app.request(path, method=method, expect_errors=True)
        assert response.status_int == 405, method
        assert allowed(response) == set(ROUTES[path].split())
        assert response.headers["X-Openstack-Request-Id"].startswith("req-")
        if method != "HEAD":
            assert response.json["error"]["type"] == "HTTPMethodNotAllowed"
            assert response.json["title"] == "Method Not Allowed"
            assert response.json["explanation"].startswith("The server could not comply with the request")


@pytest.mark.filterwarnings("ignore:Unknown REQUEST_METHOD")
@pytest.mark.parametrize("method", ["FOO", "TRACE", "CONNECT", "PROPFIND"])
def test_a_method_that_nobody_knows_is_405(refusing: Heat, method: str) -> None:
    response = refusing.app.request(P + "/stacks", method=method, expect_errors=True)
    assert response.status_int == 405
    assert allowed(response) == {"GET", "POST"}


@pytest.mark.parametrize("path", ["/v1/demo/nothing", "/v1/demo", "/v2", "/favicon.ico", S + "/x"])
def test_an_unknown_url_is_404(refusing: Heat, path: str) -> None:
    response = refusing.app.get(path, expect_errors=True)
    assert response.status_int == 404
    assert response.json["error"]["type"] == "HTTPNotFound"


@pytest.mark.parametrize("path", ["/stacks", "/v1/stacks", "/v1/stacks/n", "/stacks/n/i/resources", "/v1/build_info"])
def test_an_endpoint_without_a_project_is_told_the_right_one(refusing: Heat, path: str) -> None:
    response = refusing.app.get(path, expect_errors=True, headers={"Host": "127.0.0.1:8004"})
    assert response.status_int == 404
    assert "http://127.0.0.1:8004/v1/{project}" in response.json["error"]["message"]


def test_version_documents(refusing: Heat) -> None:
    for path, code in (("/", 300), ("/versions", 300), ("/v1", 200), ("/v1/", 200)):
        response = refusing.app.get(path, status=code)
        assert response.json == {
            "versions": [
                {
                    "id": "v1.0",
                    "status": "CURRENT",
                    "links": [{"rel": "self", "href": "http://localhost:80/v1/"}],
                }
            ]
        }


def test_the_long_version_is_the_same_api(refusing: Heat) -> None:
    assert refusing.app.get("/v1.0/demo/stacks").json == {"stacks": []}


def test_health(refusing: Heat) -> None:
    assert refusing.app.get("/healthcheck").text == "OK"


class TestLookup:
    """`/stacks/{name or id}`: 302 to the canonical URL, whatever the method."""

    def test_by_name_and_by_id(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        for found in ("s", path.rpartition("/")[2]):
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                response = heat.call(method, f"/stacks/{found}", code=302)
                assert response.location == f"http://localhost:80{heat.root}{path}"

    def test_what_belongs_to_it(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        for method, children in (
            ("GET", "resources events template actions environment files outputs lock"),
            ("POST", "resources events template actions"),
        ):
            for child in children.split():
                response = heat.call(method, f"/stacks/s/{child}?nested_depth=2&type=a%20b", code=302)
                assert response.location == f"http://localhost:80{heat.root}{path}/{child}?nested_depth=2&type=a%20b"
        heat.call("PATCH", "/stacks/s/resources/a", {"mark_unhealthy": True}, code=404)

    def test_by_arn(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        arn = f"arn:openstack:heat::{heat.project}:{path[1:]}"
        for asked in (arn, arn.replace("/", "%2F").replace(":", "%3A")):
            for method in ("GET", "POST", "PUT", "PATCH", "DELETE"):
                response = heat.call(method, f"/stacks/{asked}", code=302)
                assert response.location == f"http://localhost:80{heat.root}{path}"
        assert heat.call("GET", f"/stacks/{arn}/resources/a", code=302).location.endswith(f"{path}/resources/a")
        assert heat.other.fault("GET", f"/stacks/{arn}", code=403)[0] == "InvalidTenant"

    def test_unknown(self, heat: Heat) -> None:
        expected = "EntityNotFound", "The Stack (nope) could not be found."
        assert heat.fault("GET", "/stacks/nope", code=404) == expected
        assert heat.fault("GET", "/stacks/nope/events", code=404) == expected
        unknown = "01234567-89ab-7def-8123-456789abcdef"
        assert heat.fault("DELETE", f"/stacks/{unknown}", code=404)[0] == "EntityNotFound"

    def test_a_deleted_stack_is_found_by_its_id_alone(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        heat.call("DELETE", path, code=204)
        heat.settle(path)
        heat.call("GET", "/stacks/s", code=404)
        assert heat.call("GET", f"/stacks/{path.rpartition('/')[2]}", code=302).location.endswith(path)

    def test_names_like_routes(self, heat: Heat) -> None:
        for name in ("detail", "preview", "resources"):
            path = heat.create(template(a=value()), name=name)
            assert heat.get(path)["stack"]["stack_name"] == name
            assert heat.get(f"{path}/resources")["resources"][0]["resource_name"] == "a"

    def test_behind_a_proxy(self, heat: Heat) -> None:
        path = heat.create(template(a=value()))
        headers = {"X-Forwarded-Proto": "https", "X-Forwarded-Host": "cloud.example"}
        response = heat.call("GET", "/stacks/s", headers=headers, code=302)
        assert response.location == f"https://cloud.example{heat.root}{path}"


@pytest.mark.parametrize(
    "headers",
    few(
        [
            {"Host": "LOCALHOST"},
            {"Host": "[::1]:8004"},
            {"X-Forwarded-Host": "\xe4 <b>"},
            {"X-Forwarded-Proto": "\xe4"},
            {"Forwarded": "zz;;=,"},
            {"Forwarded": 'host="\xe4";proto='},
            {"Content-Type": ";;"},
            {"Accept": "zz"},
            {"X-Auth-Token": "\xe4"},
        ]
    ),
)
def test_odd_headers(heat: Heat, headers: dict[str, str]) -> None:
    heat.create(template(a=value()))
    assert heat.call("GET", "/stacks", headers=headers, code=200).json["stacks"]
    assert heat.call("GET", "/stacks/s", headers=headers, code=302).location


@pytest.mark.parametrize(
    "host", ["evil.example", "evil.example:80", "127.evil.example", "127.0.0.1.evil.example", "a b", "\xe4"]
)
def test_a_name_that_somebody_has_pointed_here_is_refused(refusing: Heat, host: str) -> None:
    shown = refusing.call("GET", "/stacks", code=403, headers={"Host": host}).json["error"]
    assert shown["type"] == "Forbidden"
    assert "Host" in shown["message"]


def test_the_public_url(tmp_path: Path) -> None:
    settings = Settings(database=sqlite(tmp_path), public_url="https://cloud.example/orchestration/")
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)
        path = heat.create(template(a=value()))
        url = f"https://cloud.example/orchestration/v1/demo{path}"
        headers = {"X-Forwarded-Host": "other.example", "Origin": "https://cloud.example"}
        assert heat.call("GET", "/stacks/s", headers=headers, code=302).location == url
        assert heat.get(path)["stack"]["links"][0]["href"] == url
    finally:
        server.close()


@pytest.mark.parametrize(
    "origin", few(["http://evil.example", "http://localhost:81", "https://localhost:80", "null", ""])
)
@pytest.mark.parametrize("method", few(["POST", "PUT", "PATCH", "DELETE", "GET", "OPTIONS"]))
def test_a_web_page_of_another_site_is_refused(heat: Heat, method: str, origin: str) -> None:
    path = heat.create(template(a=value()))
    response = heat.call(method, path, b"{}", 403, {"Origin": origin, "Content-Type": "text/plain"})
    assert response.json["error"]["type"] == "Forbidden"
    assert heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"


@pytest.mark.slow
def test_another_project_sees_nothing(own_heat: Heat) -> None:
    path = own_heat.create(template(a=value()), tags="t")
    other = own_heat.other
    assert other.get("/stacks") == {"stacks": []}
    assert other.get(f"/stacks?id={path.rpartition('/')[2]}&show_deleted=true&show_nested=true") == {"stacks": []}
    assert other.get("/stacks/detail") == {"stacks": []}
    mark, update = {"mark_unhealthy": True}, {"template": template(a=value())}
    for method, below, body in (
        ("GET", "", None),
        ("PUT", "", update),
        ("PATCH", "", {}),
        ("DELETE", "", None),
        ("PUT", "/preview", update),
        ("PATCH", "/preview", {}),
        ("GET", "/template", None),
        ("GET", "/environment", None),
        ("GET", "/files", None),
        ("GET", "/outputs", None),
        ("GET", "/outputs/o", None),
        ("POST", "/actions", {"check": None}),
        ("POST", "/actions", {"lock": None}),
        ("GET", "/lock", None),
        ("DELETE", "/lock/suppressed/1", None),
        ("POST", "/lock/suppressed/1/replay", None),
        ("GET", "/resources", None),
        ("GET", "/resources/a", None),
        ("PATCH", "/resources/a", mark),
        ("GET", "/resources/a/metadata", None),
        ("POST", "/resources/a/signal", None),
        ("GET", "/events", None),
        ("GET", "/resources/a/events", None),
        ("GET", "/resources/a/events/1", None),
    ):
        assert other.fault(method, path + below, body, code=404)[0] == "EntityNotFound", (method, below)
    other.call("GET", f"/stacks/{path.rpartition('/')[2]}", code=404)
    other.call("GET", "/stacks/s", code=404)
    assert own_heat.get(path)["stack"]["stack_status"] == "CREATE_COMPLETE"
    other.create(template(a=value()))
    every = own_heat.get("/stacks?global_tenant=True")["stacks"]
    assert sorted(stack["project"] for stack in every) == ["demo", "demo-other"]


def test_a_path_without_its_project_is_explained(refusing: Heat) -> None:
    below = {
        path.removeprefix(P_TEMPLATE).split("/")[0]
        for _, path in served_routes(refusing.wsgi)
        if path.startswith(P_TEMPLATE)
    }
    assert {"stacks", "resource_types"} <= below
    for word in below:
        response = refusing.app.get(f"/v1/{word}/a/b/c/d/e/f/g", status=404)
        assert "has no project" in response.json["error"]["message"]
