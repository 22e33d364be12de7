"""Constraints of types and templates are all checked if they can be."""

from collections.abc import Iterator

import pytest

from heatlite.clients.finders import Finder
from heatlite.features.simulator.services.registry import VERBS
from heatlite.plugin import Schema
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field
from heatlite.template.parameters.constraints import CLOUD, NAMED
from heatlite.template.parameters.rules import Custom
from tests.resource_types import ALL_TYPES, FINDERS, REST
from tests.tables import table

OF_REST = {verb for tables in REST for verb, _ in tables.verbs()}


def within(schema: type[Schema]) -> Iterator[Field]:
    for field in schema.fields.values():
        one: Field | None = field
        while one is not None:
            yield one
            if one.schema is not None:
                yield from within(one.schema)
            one = one.item


def named(type_name: str) -> set[str]:
    fields = within(Registry(ALL_TYPES).get(type_name).schema)
    return {one.name for field in fields for one in field.constraints if isinstance(one, Custom)}


@table("type_name", sorted(ALL_TYPES))
def test_what_a_type_names_is_asked(type_name: str) -> None:
    assert named(type_name) <= FINDERS.keys() | NAMED.keys()


def test_what_only_a_template_can_name_is_asked_or_has_a_reason() -> None:
    assert FINDERS.keys() >= CLOUD


@table("finder", [one for _, one in sorted(FINDERS.items()) if one is not None])
def test_a_cloud_answers(finder: Finder) -> None:
    verb = finder.verb
    if verb in VERBS or verb in OF_REST:
        return
    service, _, name = verb.partition(".")
    proxy = pytest.importorskip(f"openstack.{service}.v2._proxy", reason="openstacksdk is not installed").Proxy
    assert hasattr(proxy, name)
