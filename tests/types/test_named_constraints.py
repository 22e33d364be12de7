"""Every constraint that a type, or a template, may name is asked where it can be answered."""

from collections.abc import Iterator

import pytest

from heatlite.clients.finders import FINDERS
from heatlite.plugin import Schema
from heatlite.plugin.constraints import Custom
from heatlite.plugin.registry import Registry
from heatlite.plugin.schema import Field
from heatlite.resources import BUILTIN
from heatlite.simulated.services import VERBS
from heatlite.template.constraints import CLOUD, NAMED

NOT_ASKED = {
    "blazar.reservation": "no type of that service",
    "ironic.node": "no type of that service",
    "ironic.portgroup": "no type of that service",
    "magnum.cluster_template": "no type of that service",
    "manila.share_network": "no type of that service",
    "manila.share_snapshot": "no type of that service",
    "manila.share_type": "no type of that service",
    "mistral.workflow": "no type of that service",
    "neutron.flow_classifier": "an extension of which we have no type",
    "neutron.lbaas.listener": "a service that was replaced by Octavia",
    "neutron.lbaas.loadbalancer": "a service that was replaced by Octavia",
    "neutron.lbaas.pool": "a service that was replaced by Octavia",
    "neutron.lbaas.provider": "a service that was replaced by Octavia",
    "neutron.port_pair": "an extension of which we have no type",
    "neutron.port_pair_group": "an extension of which we have no type",
    "neutron.taas.tap_flow": "an extension of which we have no type",
    "neutron.taas.tap_service": "an extension of which we have no type",
    "trove.flavor": "no type of that service",
    "zaqar.queue": "no type of that service",
}
"""Constraints that hold for every value, and why nobody is asked."""


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


@pytest.mark.parametrize("type_name", sorted(BUILTIN))
def test_what_a_type_names_is_asked(type_name: str) -> None:
    assert named(type_name) <= FINDERS.keys() | NAMED.keys()


def test_what_only_a_template_can_name_is_asked_or_has_a_reason() -> None:
    assert CLOUD - FINDERS.keys() == NOT_ASKED.keys()


@pytest.mark.parametrize("constraint", sorted(FINDERS))
def test_the_simulated_cloud_answers(constraint: str) -> None:
    assert FINDERS[constraint].verb in VERBS
