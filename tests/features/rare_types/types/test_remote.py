"""OS::Heat::Stack without a server; with two: tests/acceptance/test_regions.py."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.features.rare_types.remote import RemoteStack
from heatlite.plugin import Change
from heatlite.template.expression import UNKNOWN
from heatlite.template.types import Installation
from tests.tables import table

LISTED = Installation(regions=frozenset({"near", "far"}))


def given(region: object) -> dict[str, object]:
    return {"template": "x", "context": {"region_name": region}}


@table("properties", [{}, {"context": UNKNOWN}, given(UNKNOWN), given("far"), given(None)])
def test_a_region_that_is_listed_or_not_known_yet(properties: dict[str, object]) -> None:
    assert RemoteStack.check_installation(properties, LISTED) == []


def test_without_a_server_nobody_knows_the_regions() -> None:
    assert RemoteStack.check_installation(given("atlantis"), Installation()) == []


@pytest.mark.parametrize(
    ("installation", "known"), [(LISTED, "far, near"), (Installation(regions=frozenset()), "none")]
)
def test_a_region_that_is_not_listed(installation: Installation, known: str) -> None:
    (fault,) = RemoteStack.check_installation(given("atlantis"), installation)
    text = f'there is no region "atlantis"; the setting regions of the server lists: {known}'
    assert (fault.path, fault.text) == (("context", "region_name"), text)


@pytest.mark.parametrize(
    ("old", "new", "replaced"),
    [("near", "far", True), ("near", None, True), (None, "far", True), ("far", "far", False), ("far", UNKNOWN, False)],
)
def test_another_region_is_another_stack(build: Callable[..., Any], old: object, new: object, replaced: bool) -> None:
    stack = build(RemoteStack, {"template": "x"})
    change = Change(frozenset({"context"}), given(old), given(new))
    assert stack.needs_replace(change) is replaced


@pytest.mark.parametrize("insecure", ["true", False])
def test_a_context_that_the_installation_can_serve(insecure: object) -> None:
    properties = {"template": "x", "context": {"insecure": insecure}, "timeout": "5", "parameters": {"a": [1]}}
    assert RemoteStack.check_properties(properties) == []


def test_a_certificate_has_no_such_letters() -> None:
    given = {"template": "t", "context": {"region_name": "r", "ca_cert": "ä"}}
    (fault,) = RemoteStack.check_properties(given)
    assert "ca_cert holds no certificate" in fault.text
