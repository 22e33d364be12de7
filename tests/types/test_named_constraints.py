"""Constraints of types and templates are all checked if they can be."""

from collections.abc import Iterator

import pytest

from heatlite.clients.finders import FINDERS
from heatlite.clients.rest import OTHERWISE
from heatlite.features.simulator.services import VERBS
from heatlite.plugin import Schema
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field
from heatlite.resources import BUILTIN
from heatlite.template.parameters.constraints import CLOUD, NAMED
from heatlite.template.parameters.rules import Custom
from tests.tables import table

NOT_ASKED = {
    "blazar.reservation": "no type names one",
    "neutron.lbaas.listener": "a service that was replaced by Octavia",
    "neutron.lbaas.loadbalancer": "a service that was replaced by Octavia",
    "neutron.lbaas.pool": "a service that was replaced by Octavia",
    "neutron.lbaas.provider": "a service that was replaced by Octavia",
    "neutron.taas.tap_flow": "no type names one",
    "zaqar.queue": "the service makes queues when they are first used",
}
"""Constraints that always hold, with the reasons."""


def within(schema: type[Schema]) -> Iterator[Field]:
    for field in schema.fields.values():
        one: Field | None = field
        while one is not None:
            yield one
            if one.schema is not None:
                yield from within(one.schema)
            one = one.item


def named(type_name: str) -> set[str]:
    fields = within(Registry(BUILTIN).get(type_name).schema)
    return {one.name for field in fields for one in field.constraints if isinstance(one, Custom)}


@table("type_name", sorted(BUILTIN))
def test_what_a_type_names_is_asked(type_name: str) -> None:
    assert named(type_name) <= FINDERS.keys() | NAMED.keys() | {"zaqar.queue"}


def test_what_only_a_template_can_name_is_asked_or_has_a_reason() -> None:
    assert CLOUD - FINDERS.keys() == NOT_ASKED.keys()


@table("constraint", sorted(FINDERS))
def test_a_cloud_answers(constraint: str) -> None:
    verb = FINDERS[constraint].verb
    if verb in VERBS or verb in OTHERWISE:
        return
    service, _, name = verb.partition(".")
    proxy = pytest.importorskip(f"openstack.{service}.v2._proxy", reason="openstacksdk is not installed").Proxy
    assert hasattr(proxy, name)
