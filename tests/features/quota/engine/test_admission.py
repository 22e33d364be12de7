"""Admission by quota: what is refused, what is reserved, and for how long."""

import json
from collections.abc import Callable, Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from msgspec import convert
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import ActionConflict, HeatliteError, ResourceIsLocked, StackLocked
from heatlite.core.json import JsonMap, as_maps
from heatlite.core.status import ActionStatus, LockLevel, state
from heatlite.engine.state.group_requests import ScaleOut
from heatlite.engine.state.requests import StackRequest
from heatlite.features.quota.assessment import KindState
from heatlite.features.quota.examiner import QuotaExceeded
from heatlite.features.quota.feature import QuotaSettings
from heatlite.features.quota.parts import Quotas
from heatlite.features.quota.store.store import QuotaStore
from heatlite.features.schedules.operations import WantedSchedule
from heatlite.features.schedules.parts import Schedules
from heatlite.features.schedules.store.records import ScheduledTask
from heatlite.features.schedules.store.store import SchedulesStore
from tests.engine.conftest import ADMIN, MEMBER, ref, resource, template
from tests.types.conftest import Cloudy

Troubled = Callable[..., Cloudy]


def nets(count: int, **more: Any) -> dict[str, Any]:
    return {f"net{number}": resource("OS::Neutron::Net", **more) for number in range(count)}


def shortages(error: HeatliteError) -> dict[str, tuple[Any, ...]]:
    """Kind → limit, used, reserved, needed, short."""
    found = convert(error.facts["shortages"], list[KindState])
    return {one.kind: (one.limit, one.used, one.reserved, one.needed, one.short) for one in found}


def refused(cloudy: Cloudy, change: Callable[[], object]) -> dict[str, tuple[Any, ...]]:
    """The shortages of a refusal, which leaves everything as it is."""
    before = cloudy.census()
    with pytest.raises(QuotaExceeded) as found:
        change()
    assert cloudy.census() == before
    assert reserved(cloudy) == 0
    return shortages(found.value)


def reserved(cloudy: Cloudy) -> int:
    return int(next(one.values[()] for one in cloudy.store.of(QuotaStore).gauges()))


def raise_limit(cloudy: Cloudy, service: str = "network", **limits: int) -> None:
    cloudy.admin.call(f"{service}.update_quota", cloudy.who.project, **limits)
    cloudy.components.of(Quotas).limits.forget()


def test_all_shortages_are_named_at_once(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"network.router": 1, "network.ip": 0})
    cloudy.who = MEMBER
    asked = {
        "one": resource("OS::Neutron::Router"),
        "two": resource("OS::Neutron::Router"),
        "ip": resource("OS::Neutron::FloatingIP", floating_network="public"),
    }
    found = refused(cloudy, lambda: cloudy.create(template(**asked)))
    assert found == {"network.floatingip": (0, 0, 0, 1, 1), "network.router": (1, 0, 0, 2, 1)}
    assert cloudy.store.stacks.by_name("demo", "s") is None
    raise_limit(cloudy, router=2, floatingip=1)
    cloudy.made(asked)
    assert reserved(cloudy) == 0


@pytest.mark.parametrize(
    "limit, used, needed, short",
    [(3, 0, 3, 0), (2, 0, 3, 1), (-1, 5, 3, 0), (0, 0, 1, 1), (3, 1, 2, 0), (3, 2, 2, 1), (1, 2, 0, 0)],
)
def test_what_fits_exactly_is_accepted(troubled: Troubled, limit: int, used: int, needed: int, short: int) -> None:
    cloudy = troubled()
    if used:
        cloudy.made(nets(used), "before")
    raise_limit(cloudy, network=limit)
    asked = {**nets(needed), "router": resource("OS::Neutron::Router")}
    if short:
        found = refused(cloudy, lambda: cloudy.create(template(**asked)))
        assert found == {"network.network": (limit, used, 0, needed, short)}
    else:
        cloudy.made(asked)


def test_the_order_of_a_replacement_counts(troubled: Troubled) -> None:
    """3.6: only create_first needs room for both."""
    cloudy = troubled(quotas={"compute.server": 1})
    net = {"allocate_network": "none"}

    def server(**more: Any) -> dict[str, Any]:
        return {"vm": resource("OS::Nova::Server", flavor="m1.nano", networks=[net], **more)}

    stack = cloudy.made(server(image="cirros"))
    zone = {"image": "cirros", "availability_zone": "nova"}
    first = {"vm": {**server(**zone)["vm"], "update_policy": {"replacement": {"order": "create_first"}}}}
    found = refused(cloudy, lambda: cloudy.put(stack, template(**first)))
    assert found == {"compute.instances": (1, 1, 0, 1, 1)}
    cloudy.changed(stack, {"vm": {**server(**zone)["vm"], "update_policy": {"replacement": {"order": "delete_first"}}}})
    grown = {**zone, "flavor": "m1.tiny"}
    cloudy.changed(stack, {"vm": resource("OS::Nova::Server", networks=[net], **grown)})


def test_what_an_update_deletes_at_its_end_makes_no_room(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"network.network": 3})
    stack = cloudy.made(nets(3))
    others = {f"other{number}": resource("OS::Neutron::Net") for number in range(3)}
    with pytest.raises(QuotaExceeded, match="do it in two updates, the first of which deletes"):
        cloudy.put(stack, template(**others))
    assert cloudy.get(stack).status == "COMPLETE"
    cloudy.changed(stack, {})
    cloudy.changed(stack, others)


def test_growth_in_place_needs_the_difference(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"block_storage.gigabytes": 5})
    stack = cloudy.made({"disk": resource("OS::Cinder::Volume", size=3)})
    found = refused(cloudy, lambda: cloudy.put(stack, template(disk=resource("OS::Cinder::Volume", size=6))))
    assert found == {"block_storage.gigabytes": (5, 3, 0, 3, 1)}
    cloudy.changed(stack, {"disk": resource("OS::Cinder::Volume", size=5)})
    cloudy.delete(stack)


@pytest.mark.slow
def test_two_actions_never_count_the_same_room(cloudy: Cloudy) -> None:
    """3.4, 3.7: an object is reserved until usage was read after it was made."""
    raise_limit(cloudy, network=3)
    waits = {"wait": resource("OS::Heat::Delay", min_wait=100)}
    with cloudy.clock.held():
        first = cloudy.create(template(**nets(2), **waits), "first", wait=False)
        assert reserved(cloudy) == 1
        found = refused_beside(cloudy, nets(2))
        limit, used, held, needed, short = found["network.network"]
        assert (limit, needed) == (3, 2) and used + held >= 2 and short == used + held - 1
        cloudy.begun(lambda: cloudy.count("network.network") - 1 == 2)
        cloudy.begun(lambda: all(row.physical_id for row in cloudy.rows(first) if row.name.startswith("net")))
        assert refused_beside(cloudy, nets(2)) == {"network.network": (3, 2, 0, 2, 1)}
    cloudy.settle(first)
    cloudy.made(nets(1), "second")
    assert reserved(cloudy) == 0
    assert refused(cloudy, lambda: cloudy.create(template(**nets(1)), "third")) == {"network.network": (3, 3, 0, 1, 1)}
    cloudy.delete(first)
    cloudy.made(nets(2), "third")


def refused_beside(cloudy: Cloudy, asked: Mapping[str, Any]) -> dict[str, tuple[Any, ...]]:
    with pytest.raises(QuotaExceeded) as found:
        cloudy.create(template(**asked), "other")
    return shortages(found.value)


def test_a_remembered_reading_lets_nothing_in_twice(cloudy: Cloudy) -> None:
    """Room of an ended action counts until usage is read after it."""
    raise_limit(cloudy, network=4)
    with cloudy.clock.held():
        for name in ("one", "two", "three", "four"):
            cloudy.made(nets(1), name)
        assert refused(cloudy, lambda: cloudy.create(template(**nets(1)))) == {"network.network": (4, 4, 0, 1, 1)}


def test_a_failed_action_holds_no_room(troubled: Troubled) -> None:
    fault = {"verb": "network.create_router", "raises": "refused"}
    cloudy = troubled(quotas={"network.network": 2}, faults=[fault])
    failed = cloudy.create(template(**nets(2), router=resource("OS::Neutron::Router")))
    assert failed.status == "FAILED"
    assert reserved(cloudy) == 0
    cloudy.delete(failed)
    cloudy.made(nets(2), "other")


@pytest.mark.parametrize("trouble", ["timeout", "refused", "unavailable"])
def test_limits_that_cannot_be_read_refuse_nothing(troubled: Troubled, trouble: str) -> None:
    cloudy = troubled(quotas={"network.network": 1}, faults=[{"verb": "network.get_quota", "raises": trouble}])
    plan = cloudy.stacks.preview_create(
        cloudy.who, StackRequest(name="s", template=template(**nets(2))), plan=True
    ).plan
    assert plan is not None
    quota: JsonMap = plan.details["quota"]  # type: ignore[assignment]
    assert (quota["state"], [*quota["causes"]]) == ("unknown", ["network"])  # type: ignore[misc]
    assert as_maps(quota["kinds"])[0]["limit"] is None
    stack = cloudy.create(template(**nets(1)))
    assert state(stack.verb, stack.status) == "CREATE_COMPLETE"


def test_a_service_that_the_cloud_lacks_is_left_out(troubled: Troubled) -> None:
    cloudy = troubled(services=["compute", "image", "network", "identity"])
    plan = cloudy.stacks.preview_create(
        cloudy.who, StackRequest(name="s", template=template(**nets(1))), plan=True
    ).plan
    assert plan is not None
    assert json.loads(json.dumps(plan.details))["quota"]["state"] == "fits"
    found = cloudy.components.of(Quotas).examiner.of_project(cloudy.who)
    assert {one.kind.partition(".")[0] for one in found.kinds} == {"compute", "network"}
    assert found.causes == {}


def test_a_definition_that_sets_the_limit_makes_it_unknown(cloudy: Cloudy) -> None:
    """The project is named: it is that of the request."""
    cloudy.who = ADMIN
    raise_limit(cloudy, network=0)
    quota = resource("OS::Neutron::Quota", project="demo", network=2)
    stack = cloudy.made({"quota": quota, **{name: {**one, "depends_on": "quota"} for name, one in nets(2).items()}})
    assert cloudy.view().call("network.get_quota", "demo")["network"] == 2  # type: ignore[index,call-overload]
    found = refused(cloudy, lambda: cloudy.create(template(**nets(1)), "other"))
    assert found == {"network.network": (2, 2, 0, 1, 1)}
    cloudy.delete(stack)


@pytest.mark.parametrize("mode, accepted", [("warn", True), ("off", True), ("refuse", False)])
def test_a_request_chooses_what_a_shortage_does(troubled: Troubled, mode: str, accepted: bool) -> None:
    cloudy = troubled(quotas={"network.network": 0})
    cloudy.who = replace(cloudy.who, options={"quota_check": mode})
    if not accepted:
        refused(cloudy, lambda: cloudy.create(template(**nets(1))))
        return
    stack = cloudy.create(template(**nets(1)), wait=False)
    told = [str(one.status_reason) for one in cloudy.events(stack) if "quota does not suffice" in one.status_reason]
    assert bool(told) is (mode == "warn")
    assert reserved(cloudy) == (mode == "warn")
    cloudy.settle(stack)


def test_a_setting_is_the_default(place: Any) -> None:
    from heatlite.features.simulator.feature import SimulatorSettings

    file = place / "simulation.yaml"
    file.write_text(json.dumps({"quotas": {"network.network": 0}}))
    given = (SimulatorSettings(simulation=str(file)), QuotaSettings(quota_check="off"))
    cloudy = Cloudy(place, {"of_features": given})
    try:
        stack = cloudy.create(template(**nets(1)), wait=False)
        assert reserved(cloudy) == 0
        cloudy.settle(stack)
    finally:
        cloudy.close()


def test_a_retry_needs_what_is_missing(troubled: Troubled) -> None:
    fault = {"verb": "network.create_router", "number": 1, "raises": "refused"}
    cloudy = troubled(quotas={"network.network": 2}, faults=[fault])
    failed = cloudy.create(template(**nets(2), router=resource("OS::Neutron::Router")))
    assert failed.status == "FAILED"
    cloudy.stacks.retry(cloudy.who, cloudy.get(failed))
    assert cloudy.settle(failed).status == "COMPLETE"


def test_a_resized_group_is_refused_as_a_whole(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"network.network": 3})
    member = {"type": "OS::Neutron::Net", "properties": {}}
    group = resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=9, desired_capacity=2, resource=member)
    stack = cloudy.made({"group": group})
    found = refused(cloudy, lambda: cloudy.components.groups.change(cloudy.who, stack, "group", ScaleOut(2)))
    assert found == {"network.network": (3, 2, 0, 2, 1)}
    cloudy.components.groups.change(cloudy.who, stack, "group", ScaleOut(1, ignore_cooldown=True))
    cloudy.settle(stack)
    (nested,) = cloudy.store.stacks.descendants(cloudy.get(stack))
    cloudy.settle(nested)
    assert reserved(cloudy) == 0
    assert cloudy.count("network.network") - 1 == 3


def test_no_reservation_is_left_without_its_action(cloudy: Cloudy) -> None:
    with cloudy.clock.held():
        stack = cloudy.create(template(**nets(1), wait=resource("OS::Heat::Delay", min_wait=100)), wait=False)
        assert reserved(cloudy) == 1
        (action,) = cloudy.store.actions.live([stack.id])
        cloudy.stacks.delete(cloudy.who, cloudy.get(stack))
    cloudy.settle(stack)
    assert reserved(cloudy) == 0
    assert cloudy.store.actions.get(action.id).status in (ActionStatus.CANCELLED, ActionStatus.FAILED)
    assert cloudy.store.inconsistencies(cloudy.clock.now(), 0.0) == []


@pytest.mark.slow
def test_what_ended_while_the_feature_was_off_is_removed(cloudy: Cloudy) -> None:
    with cloudy.clock.held():
        stack = cloudy.create(template(**nets(1), wait=resource("OS::Heat::Delay", min_wait=100)), wait=False)
        with cloudy.store.transaction():
            cloudy.store.database.write("UPDATE quota_reservation SET action_id = 'gone'")
            ((remove, old),) = cloudy.store.of(QuotaStore).old_rows(cloudy.settings, cloudy.clock.now(), 10)
            remove(old)
        assert (old, reserved(cloudy)) == (["gone"], 0)
    cloudy.stacks.delete(cloudy.who, cloudy.settle(stack))


@pytest.mark.slow
def test_a_scaling_signal_is_ignored(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"network.network": 2})
    member = {"type": "OS::Neutron::Net", "properties": {}}
    group = resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=9, desired_capacity=2, resource=member)
    more = {"adjustment_type": "change_in_capacity", "scaling_adjustment": 1}
    policy = resource("OS::Heat::ScalingPolicy", auto_scaling_group_id=ref("group"), **more)
    stack = cloudy.made({"group": group, "policy": policy})
    signals = cloudy.components.signals
    ignored = signals.signal(cloudy.who, stack, cloudy.row(stack, "policy"), None)
    assert str(ignored) == "quota"
    told = {(one.resource_name, "network.network needs 1 more" in one.status_reason) for one in cloudy.events(stack)}
    assert {("group", True), ("policy", True)} <= told
    with pytest.raises(QuotaExceeded):
        signals.signal(cloudy.who, stack, cloudy.row(stack, "policy"), None, fail_fast=True)
    assert reserved(cloudy) == 0
    raise_limit(cloudy, network=3)
    assert signals.signal(cloudy.who, stack, cloudy.row(stack, "policy"), None) is None
    (nested,) = cloudy.store.stacks.descendants(cloudy.get(stack))
    cloudy.settle(nested)
    assert cloudy.count("network.network") - 1 == 3 and reserved(cloudy) == 0


def test_a_schedule_that_grows_a_group_is_refused(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"network.network": 2})
    member = {"type": "OS::Neutron::Net", "properties": {}}
    group = resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=9, desired_capacity=2, resource=member)
    stack, parts = cloudy.made({"group": group}), cloudy.components.of(Schedules)
    grows = {"resource": "group", "desired_capacity": 3}
    parts.operations.add(
        cloudy.who, stack, WantedSchedule("day", "* * * * *", "UTC", ScheduledTask.RESIZE, grows, 0, True, None, None)
    )
    with cloudy.clock.held():
        cloudy.clock.pass_(60)
        parts.sweep.run(cloudy.store.of(SchedulesStore).due(cloudy.clock.now()))
    last = parts.operations.get(stack, "day").last
    assert last is not None and (last.result, last.code) == ("refused", "QuotaExceeded")
    refusal = next(one for one in cloudy.events(stack) if one.verb == "SCHEDULE")
    assert "network.network needs 1 more, 0 free of 2: short by 1" in refusal.status_reason
    assert reserved(cloudy) == 0


def test_a_scheduled_request_is_cancelled_with_the_shortages(cloudy: Cloudy) -> None:
    stack = cloudy.made(nets(1))
    now, request = cloudy.clock.now(), StackRequest(template=template(**nets(2)))
    plan = cloudy.stacks.preview_update(cloudy.who, stack, request, existing=True, plan=True).plan
    assert plan is not None
    cloudy.components.scheduled.update(cloudy.who, stack, replace(request, plan_digest=plan.digest), now + 100)
    raise_limit(cloudy, network=1)
    (action,) = cloudy.store.queue.due(now + 200)
    cloudy.clock.pass_(200)
    cloudy.wait_for(lambda: cloudy.store.actions.get(action.id).status is ActionStatus.CANCELLED)
    assert "network.network needs 1 more, 0 free of 1: short by 1" in cloudy.store.actions.get(action.id).status_reason
    assert cloudy.count("network.network") - 1 == 1


@pytest.mark.slow
@pytest.mark.parametrize("level", [LockLevel.STACKS, LockLevel.ALL])
def test_the_lock_is_asked_first(troubled: Troubled, level: LockLevel) -> None:
    """No limit is read for a stack that is locked."""
    cloudy = troubled(quotas={"network.network": 3})
    member = {"type": "OS::Neutron::Net", "properties": {}}
    group = resource("OS::Heat::AutoScalingGroup", min_size=0, max_size=9, desired_capacity=1, resource=member)
    more = {"adjustment_type": "change_in_capacity", "scaling_adjustment": 3}
    policy = resource("OS::Heat::ScalingPolicy", auto_scaling_group_id=ref("group"), **more)
    resources = {**nets(1), "group": group, "policy": policy}
    stack = cloudy.made(resources)
    cloudy.mark(stack, "net0")
    raise_limit(cloudy, network=0)
    cloudy.lock(stack, level)
    stack, groups, signals = cloudy.get(stack), cloudy.components.groups, cloudy.components.signals
    (nested,) = cloudy.store.stacks.descendants(stack)
    members = [one.name for one in cloudy.rows(nested)]
    asked: dict[str, Callable[[], object]] = {
        "update": lambda: cloudy.put(stack, template(**{**resources, **nets(5)})),
        "scale out": lambda: groups.change(cloudy.who, stack, "group", ScaleOut(3)),
        "replace": lambda: groups.replace_members(cloudy.who, stack, "group", members),
        "recover": lambda: groups.recover(cloudy.who, stack, "net0", RepairStep.REPLACE, {}),
        "signal": lambda: signals.signal(cloudy.who, stack, cloudy.row(stack, "policy"), None, fail_fast=True),
    }
    read = cloudy.components.of(Quotas).limits
    for name, ask in asked.items():
        with pytest.raises(StackLocked):
            ask()
        assert not read._known, name
    stack = cloudy.unlock(stack)
    for ask in asked.values():
        with pytest.raises(QuotaExceeded):
            ask()


@pytest.mark.slow
def test_a_running_action_is_asked_before_the_quota(troubled: Troubled) -> None:
    cloudy = troubled(quotas={"network.network": 2})
    member = {"type": "OS::Neutron::Net", "properties": {}}
    group = resource("OS::Heat::ResourceGroup", count=1, resource_def=member)
    stack = cloudy.made({"group": group})
    with cloudy.clock.held():
        cloudy.put(stack, template(group=group, wait=resource("OS::Heat::Delay", min_wait=100)), wait=False)
        for grow in (
            lambda: cloudy.components.groups.change(cloudy.who, stack, "group", ScaleOut(5)),
            lambda: cloudy.put(stack, template(**nets(5)), wait=False),
        ):
            with pytest.raises((ActionConflict, ResourceIsLocked)) as found:
                grow()
            assert not isinstance(found.value, QuotaExceeded)
    cloudy.settle(stack)
    with pytest.raises(QuotaExceeded):
        cloudy.components.groups.change(cloudy.who, cloudy.get(stack), "group", ScaleOut(5))


def test_a_changed_limit_is_read_again(cloudy: Cloudy) -> None:
    """Changes of limits by actions are known to all, whatever they remember."""
    cloudy.who = ADMIN
    cloudy.made(nets(1))
    quota = cloudy.made({"quota": resource("OS::Neutron::Quota", project="demo", network=1)}, "limits")
    found = refused(cloudy, lambda: cloudy.create(template(**nets(1)), "other"))
    assert found == {"network.network": (1, 1, 0, 1, 1)}
    cloudy.delete(quota)
    cloudy.made(nets(1), "other")


@pytest.mark.slow
def test_of_many_at_once_no_more_are_accepted_than_fit(cloudy: Cloudy) -> None:
    """3.4, with threads that ask at the same time."""
    raise_limit(cloudy, network=3)

    def create(number: int) -> str:
        try:
            return cloudy.create(template(**nets(1)), f"s{number}", wait=False).id
        except (QuotaExceeded, ActionConflict):
            return ""

    with ThreadPoolExecutor(6) as pool:
        made = [one for one in pool.map(create, range(6)) if one]
    assert 1 <= len(made) <= 3
    for one in made:
        stack = cloudy.store.stacks.get(one)
        assert stack is not None and cloudy.settle(stack).status == "COMPLETE"
    assert reserved(cloudy) == 0
