"""Repairs that do not fit the quota: the brake of the loop, and operators."""

from collections.abc import Callable
from typing import Any

import pytest

from heatlite.features.healing.by_hand import HealRequest
from heatlite.features.healing.parts import Healing as Parts
from heatlite.features.healing.terms import IGNORABLE
from heatlite.features.quota.examiner import QuotaExceeded
from heatlite.features.quota.parts import Quotas
from tests.engine.conftest import resource
from tests.engine.test_groups import group
from tests.features.drift.engine.test_reverting import revert
from tests.features.healing.engine.test_healing import AUTO, Healing
from tests.types.conftest import Cloudy


def limit(cloudy: Cloudy, instances: int) -> None:
    cloudy.admin.call("compute.update_quota_set", cloudy.who.project, instances=instances)
    cloudy.components.of(Quotas).limits.forget()


@pytest.mark.slow
def test_drift_is_put_back_if_that_fits(troubled: Callable[..., Cloudy]) -> None:
    """The growth of an object counts from what it is, not from what is stored."""
    cloudy = troubled()
    server = resource("OS::Nova::Server", flavor="m1.small", image="cirros", networks=[{"allocate_network": "none"}])
    stack, view = cloudy.made({"web": server}), cloudy.view()
    key = cloudy.row(stack, "web").physical_id
    sizes: Any = {one["name"]: one for one in view.call("compute.flavors")}  # type: ignore[union-attr, index]
    view.call("compute.resize_server", key, sizes["m1.nano"]["id"])
    cloudy.wait_for(lambda: view.call("compute.get_server", key)["status"] == "VERIFY_RESIZE")  # type: ignore[index, call-overload]
    view.call("compute.confirm_server_resize", key)
    cloudy.admin.call("compute.update_quota_set", cloudy.who.project, ram=sizes["m1.small"]["ram"] - 1)
    cloudy.components.of(Quotas).limits.forget()
    with pytest.raises(QuotaExceeded) as refused:
        revert(cloudy, stack, "web")
    (short,) = refused.value.facts["shortages"]  # type: ignore[misc]
    assert short["kind"] == "compute.ram" and short["needed"] == sizes["m1.small"]["ram"] - sizes["m1.nano"]["ram"]
    with pytest.raises(QuotaExceeded):
        cloudy.patch(stack, converge=True)
    cloudy.admin.call("compute.update_quota_set", cloudy.who.project, ram=sizes["m1.small"]["ram"])
    cloudy.components.of(Quotas).limits.forget()
    revert(cloudy, stack, "web")
    assert cloudy.store.database.read("SELECT COUNT(*) FROM quota_reservation") == [(0,)]


@pytest.mark.slow
def test_a_repair_waits_for_room(troubled: Callable[..., Cloudy]) -> None:
    cloudy = troubled()
    network = {"allocate_network": "none"}
    server = resource("OS::Nova::Server", flavor="m1.nano", image="cirros", networks=[network])
    stack = cloudy.made({"g": group(2, server)})
    limit(cloudy, 2)
    with cloudy.clock.held():
        healing = Healing(cloudy, stack)
        healing.policy(**AUTO)
        healing.pass_(700)
        before, incident = healing.ids(), healing.fire("g/0")
        healing.pass_(300)
        assert healing.told(incident) == ("MARKED", "quota")
        by_hand = cloudy.components.of(Parts).by_hand
        asked = HealRequest(resources=("g/0",))
        assert by_hand.plan(cloudy.get(stack), asked).details["quota"]["state"] == "short"  # type: ignore[index,call-overload]
        with pytest.raises(QuotaExceeded):
            by_hand.heal(cloudy.who, cloudy.get(stack), asked, {})
        assert healing.ids() == before and cloudy.count("compute.server") == 2
        limit(cloudy, 3)
        healing.pass_(300)
        assert healing.told(incident)[0] in ("SETTLING", "CLOSED")
        after = healing.ids()
        assert {name for name in before if before[name] != after[name]} == {"0"}
        limit(cloudy, 2)
        forced = HealRequest(resources=("g/1",), ignore=tuple(IGNORABLE))  # type: ignore[arg-type]
        by_hand.heal(cloudy.who, cloudy.get(stack), forced, {})
