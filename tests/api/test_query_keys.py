"""Query keys: each request takes those of the reference, and refuses others."""

import re

import pytest

from tests.tables import few

from .conftest import Heat, served_routes, template, value
from .described import DOCUMENT


def documented() -> dict[tuple[str, str], frozenset[str]]:
    """The query keys of the reference by method and path."""
    return {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path)): frozenset(
            one["name"] for one in operation["parameters"] if one["in"] == "query"
        )
        for path, methods in DOCUMENT["paths"].items()
        for method, operation in methods.items()
    }


DOCUMENTED = documented()
KEYS = sorted({"no_such_key", *(key for keys in DOCUMENTED.values() for key in keys)})
ANY = {
    *(("GET", "/v1"), ("POST", "/v1")),
    *(place for place, keys in DOCUMENTED.items() if "Signature" in keys),
    *(place for place in DOCUMENTED if re.fullmatch(r"/v1/\{\}/stacks/\{\}(/(?!detail|preview)\w+)?", place[1])),
}
"""Requests that take any key: the query API checks its own, a signature covers them, a redirect passes them on."""


@pytest.mark.slow
def test_every_request_refuses_the_keys_that_it_does_not_know(refusing: Heat) -> None:
    for method, path in served_routes(refusing.wsgi):
        place = method, re.sub(r"\{\w+\}", "{}", path)
        asked = "&".join(f"{key}=1" for key in KEYS)
        url = re.sub(r"\{\w+\}", "x", path)
        response = refusing.app.request(f"{url}?{asked}", method=method, expect_errors=True)
        refused = re.search(r"Unknown query key (.*?);", response.text)
        if place in ANY:
            assert refused is None, place
        else:
            assert response.status_int == 400, place
            assert refused is not None, place
            assert set(refused[1].split(", ")) == set(KEYS) - DOCUMENTED[place], place


def test_a_method_that_the_route_lacks_is_405_with_any_query(refusing: Heat) -> None:
    for method, path in (("PUT", "/actions"), ("TRACE", "/actions"), ("DELETE", "/stacks/x/x/resources/a/b")):
        refusing.call(method, f"{path}?no_such_key=1", code=405)


def test_keys_of_a_path_into_nested_stacks(refusing: Heat) -> None:
    for below, known in (("", "with_attr"), ("/metadata", None), ("/events", "limit")):
        url = f"/stacks/x/x/resources/a/b{below}"
        assert "Unknown query key" in refusing.fault("GET", f"{url}?no_such_key=1")[1]
        if known is not None:
            assert refusing.fault("GET", f"{url}?{known}=1", code=404)[0] == "EntityNotFound"


@pytest.mark.parametrize(
    "asked",
    few(
        [
            "/stacks?global_tenant=False&show_nested=False&limit=2&sort_keys=stack_name&sort_dir=asc&tags=a&not_tags_any=b",
            "/stacks?tenant_id={project}&name=s&status=CREATE_COMPLETE&owner_id=&show_hidden=True",
            "/stacks?sort_dir=desc&sort_key=created_at&limit=21&page_size=20",
            "{stack}?resolve_outputs=False",
            "{stack}/resources?nested_depth=2&with_detail=True&type=Value",
            "{stack}/resources/a?with_attr=value",
            "{stack}/events?sort_dir=asc&sort_key=event_time&limit=1&nested_depth=1&resource_name=a",
            "{stack}/resources/a/events?sort_dir=asc&limit=1&resource_status=COMPLETE",
            "{stack}/resources/a/events?resource_name=a",
            "/resource_types?with_description=True&name=OS&version=1",
            "/resource_types/OS::Heat::Value?with_description=False",
            "/resource_types/OS::Heat::Value/template?template_type=hot",
            "/template_versions/heat_template_version.2021-04-16/functions?with_condition_func=True",
            "/software_configs?global_tenant=False&limit=1",
            "/software_deployments?server_id=x",
        ]
    ),
)
def test_what_clients_of_heat_send(heat: Heat, asked: str) -> None:
    """Queries of python-heatclient, openstacksdk and gophercloud."""
    stack = heat.create(template(a=value()))
    heat.get(asked.format(stack=stack, project=heat.project))


def test_events_of_one_resource_under_the_name_of_another(heat: Heat) -> None:
    stack = heat.create(template(a=value()))
    kind, text = heat.fault("GET", f"{stack}/resources/a/events?resource_name=b", code=400)
    assert (kind, text.partition(",")[0]) == ("HTTPBadRequest", "resource_name is another one than that of the path")
