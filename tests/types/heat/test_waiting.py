"""OS::Heat::Delay and OS::Heat::TestResource: delays, failures, locks."""

import json
import time
from collections.abc import Callable
from typing import Any

import pytest

from heatlite.core.json import JsonMap
from heatlite.core.runtime.bulkhead import MustWait, waits
from heatlite.plugin import Change, Unhealthy
from heatlite.resources.heat.delay import Delay
from heatlite.resources.heat.testing import TestResource

Build = Callable[..., Any]


# -- OS::Heat::Delay ---------------------------------------------------------------------------------


@pytest.mark.parametrize("action", ["CREATE", "DELETE", "SUSPEND", "RESUME"])
def test_a_delay_waits_in_the_actions_named(build: Build, clock: Any, action: str) -> None:
    resource = build(Delay, {"min_wait": 10, "actions": [action]})
    for other in ("create", "delete", "suspend", "resume"):
        token = getattr(resource, f"handle_{other}")()
        check = getattr(resource, f"check_{other}_complete")
        assert check(token) == (10 if other == action.lower() else True)
        clock.time += 9
        assert check(json.loads(json.dumps(token))) == (1 if other == action.lower() else True)
        clock.time += 1
        assert check(token) is True


def test_a_delay_waits_in_create_unless_told(build: Build) -> None:
    resource = build(Delay, {"min_wait": 10})
    assert resource.check_delete_complete(resource.handle_delete()) is True
    assert resource.check_create_complete(resource.handle_create()) == 10


def test_jitter_is_drawn_between_its_bounds(build: Build, clock: Any) -> None:
    resource = build(Delay, {"min_wait": 10, "max_jitter": 5, "jitter_multiplier": 2})
    waits = [resource.handle_create() - clock.time for _ in range(200)]
    assert all(10 <= wait <= 20 for wait in waits)
    assert max(waits) > 15 > min(waits)  # a fair coin 200 times


def test_a_delays_next_wait_reads_the_new_properties(build: Build) -> None:
    assert Delay.schema.updatable == set(Delay.schema.fields)
    resource = build(Delay, {"min_wait": 3, "actions": ["DELETE"]})
    assert resource.handle_update(Change(frozenset({"min_wait"}), {}, {"min_wait": 3})) is None
    assert resource.check_delete_complete(resource.handle_delete()) == 3


def test_faults_of_a_delay() -> None:
    assert [(fault.path, fault.text) for fault in Delay.check_properties({"min_wait": -1, "actions": ["UPDATE"]})] == [
        (("min_wait",), "-1 is out of range (min: 0, max: None)"),
        (("actions",), "\"['UPDATE']\" is not an allowed value [CREATE, DELETE, SUSPEND, RESUME]"),
    ]


# -- OS::Heat::TestResource --------------------------------------------------------------------------


def test_it_keeps_its_text(build: Build) -> None:
    resource = build(TestResource, {"value": "x"})
    assert resource.check_create_complete(resource.handle_create()) is True
    assert resource.attributes() == {"output": "x"}
    assert resource.reference() == resource.physical_name


def test_wait_secs_holds_for_create_update_and_delete(build: Build) -> None:
    resource = build(TestResource, {"wait_secs": "5"})
    change = Change(frozenset({"value"}), {}, {"value": "y"})
    for token, check in (
        (resource.handle_create(), resource.check_create_complete),
        (resource.handle_update(change), resource.check_update_complete),
        (resource.handle_delete(), resource.check_delete_complete),
    ):
        assert check(json.loads(json.dumps(token))) == 5
    for verb in ("check", "lock", "unlock"):
        token = getattr(resource, f"handle_{verb}")()
        assert getattr(resource, f"check_{verb}_complete")(token) is True


@pytest.mark.parametrize("verb", ["create", "update", "delete", "check", "lock", "unlock"])
def test_an_action_can_have_a_time_of_its_own(build: Build, verb: str) -> None:
    resource = build(TestResource, {"wait_secs": 5, "action_wait_secs": {verb: 7}})
    change = [Change(frozenset({"value"}), {}, {"value": "y"})] if verb == "update" else []
    token = getattr(resource, f"handle_{verb}")(*change)
    assert getattr(resource, f"check_{verb}_complete")(token) == 7
    if verb != "create":
        assert resource.check_create_complete(resource.handle_create()) == 5


def test_a_wait_below_zero_never_ends(build: Build, clock: Any) -> None:
    resource = build(TestResource, {"wait_secs": -1})
    token = resource.handle_create()
    clock.time += 1e9
    assert resource.check_create_complete(token) is False


def test_an_update_of_anything_but_the_value_takes_no_time(build: Build) -> None:
    resource = build(TestResource, {"wait_secs": 5})
    token = resource.handle_update(Change(frozenset({"wait_secs"}), {}, {"wait_secs": 5}))
    assert resource.check_update_complete(token) is True


def test_an_update_keeps_the_new_text(build: Build) -> None:
    resource = build(TestResource, {"value": "new"}, data={"value": "old"})
    resource.handle_update(Change(frozenset({"value"}), {"value": "old"}, {"value": "new"}))
    assert resource.attribute("output") == "new"


@pytest.mark.parametrize("verb", ["create", "update", "check"])
def test_it_fails_when_its_time_has_passed(build: Build, clock: Any, verb: str) -> None:
    resource = build(TestResource, {"fail": "true", "action_wait_secs": {verb: 3}})
    change = [Change(frozenset({"value"}), {}, {"value": "y"})] if verb == "update" else []
    token = getattr(resource, f"handle_{verb}")(*change)
    check = getattr(resource, f"check_{verb}_complete")
    assert check(token) == 3
    clock.time += 3
    with pytest.raises((ValueError, Unhealthy), match=r"^Test Resource failed a$"):
        check(token)


def test_a_failed_create_leaves_nothing_and_delete_never_fails(build: Build) -> None:
    resource = build(TestResource, {"fail": True})
    resource.handle_create()
    assert (resource.physical_id, resource.attribute("output")) == (None, None)
    assert resource.check_delete_complete(resource.handle_delete()) is True


def test_another_value_replaces_with_update_replace(build: Build) -> None:
    resource = build(TestResource)
    on, off = {"update_replace": True}, {"update_replace": False}
    assert resource.needs_replace(Change(frozenset({"value"}), on, on))
    assert resource.needs_replace(Change(frozenset({"value", "update_replace"}), off, on))
    assert not resource.needs_replace(Change(frozenset({"update_replace"}), off, on))
    assert not resource.needs_replace(Change(frozenset({"value"}), on, off))
    assert TestResource.schema.fields.keys() - TestResource.schema.updatable == {"update_replace_value"}


@pytest.mark.parametrize("before", [False, True])
def test_unlock_restores_what_lock_found(build: Build, before: bool) -> None:
    resource = build(TestResource, data={"locked": before})
    token = resource.handle_lock()
    assert resource.data["locked"] is before  # the handler only looks
    assert resource.check_lock_complete(token) is True
    assert resource.check_lock_complete(resource.handle_lock()) is True  # our own lock is not somebody else's
    assert resource.data["locked"] is True
    for _ in range(2):  # nor may a second unlock change anything
        assert resource.check_unlock_complete(resource.handle_unlock()) is True
        assert resource.data["locked"] is before


@pytest.mark.parametrize("verb", ["lock", "unlock"])
def test_lock_and_unlock_fail_as_told(build: Build, verb: str) -> None:
    resource = build(TestResource, {f"fail_{verb}": True}, data={"locked": False})
    with pytest.raises(ValueError, match=r"^Test Resource failed a$"):
        getattr(resource, f"check_{verb}_complete")(getattr(resource, f"handle_{verb}")())
    assert resource.data["locked"] is False


def test_what_it_can_do() -> None:
    can = {"create", "update", "delete", "check", "lock", "unlock"}
    verbs = can | {"suspend", "resume", "snapshot"}
    assert {verb for verb in verbs if TestResource.has(verb)} == can
    assert {verb for verb in verbs if TestResource.polls(verb)} == can


@pytest.mark.parametrize(
    ("properties", "checked"),
    [
        ({}, {"check", "lock", "unlock"}),
        ({"fail": True}, {"create", "update", "check", "lock", "unlock"}),
        ({"wait_secs": 1}, {"create", "update", "delete", "check", "lock", "unlock"}),
        ({"action_wait_secs": {"delete": -1}}, {"delete", "check", "lock", "unlock"}),
    ],
)
def test_only_what_succeeds_at_once_needs_no_check(build: Build, properties: JsonMap, checked: set[str]) -> None:
    resource = build(TestResource, properties)
    change = Change(frozenset({"value"}), {}, properties)
    verbs = ("create", "update", "delete", "check", "lock", "unlock")
    tokens = {verb: getattr(resource, f"handle_{verb}")(*[change] * (verb == "update")) for verb in verbs}
    assert {verb for verb in verbs if resource.needs_check(verb, tokens[verb])} == checked


def test_reading_the_attribute_takes_its_time(build: Build) -> None:
    resource = build(TestResource, {"value": "x", "attr_wait_secs": 0.05})
    resource.handle_create()
    began = time.monotonic()
    assert resource.attribute("output") == "x"
    assert time.monotonic() - began >= 0.05
    with pytest.raises(MustWait), waits(allowed=False):
        resource.attribute("output")
