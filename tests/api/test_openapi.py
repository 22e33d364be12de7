"""The OpenAPI document describes the API; the page at /docs needs nothing else."""

import base64
import hashlib
import json
import re
from collections.abc import Iterator

import pytest

from tools.openapi.reference import Reference

from .conftest import Heat, served_routes
from .described import DOCUMENT, SOURCE, unlike


def test_the_server_sends_the_document(refusing: Heat) -> None:
    assert refusing.app.get("/openapi.json").json == DOCUMENT


def test_it_has_the_routes_of_the_server(refusing: Heat) -> None:
    served = {(method, re.sub(r"\{\w+\}", "{}", path)) for method, path in served_routes(refusing.wsgi)}
    described = {
        (method.upper(), re.sub(r"\{\w+\}", "{}", path))
        for path, methods in DOCUMENT["paths"].items()
        for method in methods
    }
    assert described - served == {("POST", "/v1/signal/{}"), ("PUT", "/v1/waitcondition/{}")}
    assert served <= described


def schemas_of(place: object) -> Iterator[object]:
    """The schemas of a part of the document, each with those within it."""
    if isinstance(place, dict):
        for key, inner in place.items():
            if key == "examples":
                continue
            if key in ("schema", "items"):
                yield inner
            if key in ("properties", "schemas") and isinstance(inner, dict):
                yield from inner.values()
            yield from schemas_of(inner)
    elif isinstance(place, list):
        for inner in place:
            yield from schemas_of(inner)


def test_generators_of_clients_can_read_it() -> None:
    """They know neither ``true`` as a schema nor words of several kinds in one."""
    found = [*schemas_of(DOCUMENT)]
    assert len(found) > 1000
    assert [one for one in found if isinstance(one, bool)] == []
    words = [one["enum"] for one in found if isinstance(one, dict) and "enum" in one]
    assert [one for one in words if len({type(word) for word in one if word is not None}) > 1] == []


def test_operations_have_ids_of_their_own() -> None:
    ids = [one["operationId"] for methods in DOCUMENT["paths"].values() for one in methods.values()]
    assert len(ids) == len(set(ids))


@pytest.mark.slow
def test_it_describes_the_samples_of_the_reference() -> None:
    faults = [
        f"{name}: {fault}"
        for operation in Reference(SOURCE).operations()
        for name in operation.samples
        for fault in unlike(operation, json.loads((SOURCE / "samples" / f"{name}.json").read_text()), name)
    ]
    assert faults == []


def test_the_page_allows_itself_and_nothing_else(refusing: Heat) -> None:
    shown = refusing.app.get("/docs")
    policy = shown.headers["Content-Security-Policy"]
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    script = re.findall("<script>(.*?)</script>", shown.text, re.DOTALL)[0]
    assert base64.b64encode(hashlib.sha256(script.encode()).digest()).decode() in policy
    assert re.findall(r"(?:src|href|action|\bon\w+)=\"([^\"]*)\"|url\(", shown.text) == ["openapi.json"]
    assert "innerHTML" not in shown.text
