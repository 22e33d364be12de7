"""Needs of plans are what the cloud counts afterwards."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from msgspec import convert

from heatlite.engine.state.requests import StackRequest
from heatlite.features.quota.assessment import KindState, is_of_type
from heatlite.features.quota.needs import LARGEST
from heatlite.features.quota.parts import Quotas
from tests.engine.conftest import ADMIN, ref, resource
from tests.tables import sampled
from tests.types.conftest import Cloudy
from tests.types.marking import EXAMPLES, ROOT, TYPES, read, types_of

FILES = [
    name
    for name in (str(file.relative_to(ROOT)) for file in EXAMPLES)
    if any(TYPES.get(kind).counts for kind in types_of(name)) and not name.endswith("software.yaml")
]
"""Examples with types that count in quotas, without one that waits for agents."""


def kinds(shown: Any) -> dict[str, KindState]:
    return {one.kind: one for one in convert(shown["quota"]["kinds"], list[KindState])}


def planned(cloudy: Cloudy, template: Mapping[str, Any]) -> dict[str, KindState]:
    """The needs of a new stack, as its preview shows them."""
    plan = cloudy.stacks.preview_create(cloudy.who, StackRequest(name="s", template=template), plan=True).plan
    assert plan is not None
    return kinds(plan.details)


def used(cloudy: Cloudy) -> dict[str, int]:
    quotas = cloudy.components.of(Quotas)
    quotas.limits.forget()
    found = quotas.examiner.of_project(cloudy.who)
    assert found.causes == {}
    return {one.kind: one.used or 0 for one in found.kinds}


def limited(cloudy: Cloudy) -> None:
    """Set limits of the load balancer service, which counts nothing without them."""
    names = ("loadbalancer", "listener", "pool", "member", "healthmonitor")
    cloudy.admin.call("load_balancer.update_quota", cloudy.who.project, **dict.fromkeys(names, 1000))


@pytest.mark.parametrize("file", sampled(FILES, 6, pytest.mark.slow))
def test_needs_are_what_the_cloud_counts(cloudy: Cloudy, file: str) -> None:
    cloudy.who = ADMIN
    limited(cloudy)
    template = read(file)
    needs, before = planned(cloudy, template), used(cloudy)
    stack = cloudy.create(template)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    after = used(cloudy)
    added = {kind: count - before.get(kind, 0) for kind, count in after.items() if count != before.get(kind, 0)}
    known = {kind: one.needed for kind, one in needs.items() if one.known and one.needed and kind != LARGEST}
    lower = {kind: one.needed for kind, one in needs.items() if not one.known}
    assert known == {kind: count for kind, count in added.items() if kind not in lower and kind in known}
    assert [kind for kind, count in lower.items() if count > added.get(kind, 0)] == []
    assert {kind for kind in added.keys() - needs.keys() if not is_of_type(kind)} == set()


def test_every_type_that_counts_is_in_an_example() -> None:
    counted = {name for name in TYPES.names() if TYPES.get(name).counts}
    assert counted - {kind for file in FILES for kind in types_of(file)} == set()


def test_members_of_groups_count_as_often_as_they_are(cloudy: Cloudy, tmp_path: Path) -> None:
    net = {"net": resource("OS::Neutron::Net"), "disk": resource("OS::Cinder::Volume", size=2)}
    inner = {"heat_template_version": "2021-04-16", "resources": net}
    group = resource("OS::Heat::ResourceGroup", count=50, resource_def={"type": "inner.yaml"})
    outer = {"heat_template_version": "2021-04-16", "resources": {"group": group}}
    request = StackRequest(name="s", template=outer, files={"inner.yaml": json.dumps(inner)})
    plan = cloudy.stacks.preview_create(cloudy.who, request, plan=True).plan
    assert plan is not None
    found = {kind: one.needed for kind, one in kinds(plan.details).items()}
    assert found == {
        "network.network": 50,
        "block_storage.volumes": 50,
        "block_storage.gigabytes": 100,
        "block_storage.per_volume_gigabytes": 2,
    }
    assert ref("group")
