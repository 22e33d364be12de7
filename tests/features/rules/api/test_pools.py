"""Rules on policies of groups that have members in a pool."""

import pytest

from tests.api.conftest import Heat
from tests.features.approvals.api.test_subjects import BALANCED, balancing, clouded, heat, opened  # noqa: F401
from tests.waiting import eventually

from .test_rules import rule, rules


@pytest.mark.slow
def test_they_see_who_enters(heat: Heat) -> None:  # noqa: F811
    path = heat.create(BALANCED)
    sent = balancing(heat, path)
    seen = "plan.operation == 'scale' && plan.resources.exists(r, r.path == 'g/0' && r.action == 'update')"
    rules(heat, rule(on=["scale"], when=seen))
    answer = sent.to(heat, path)
    assert (answer.status_int, answer.json["error"]["type"]) == (403, "RuleDenied")
    assert "policies" not in heat.get(f"{path}/resources/g")["resource"]
    rules(heat, rule(on=["update"]))
    assert sent.to(heat, path).status_int == 202
    eventually(lambda: not opened(heat), "the members are in the pool")
