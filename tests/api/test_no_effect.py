"""Signals, marks and repairs × states: each one without effect leaves a word.

That is an error, an action, an event, an entry of a lock or, for what is so already, a header.
"""

from collections.abc import Callable
from itertools import product
from typing import Any, Final

import pytest

from heatlite.core.status import Status, Verb
from heatlite.engine.state.unit_of_work import row_with_state
from heatlite.features.healing.store.records import HealingScopeRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.store.store import Store
from tests.tables import sampled
from tests.waiting import eventually

from .conftest import Heat, template

pytestmark = pytest.mark.slow

MEMBER = {"type": "OS::Heat::TestResource", "properties": {"value": "v"}}


def group(**more: object) -> dict[str, object]:
    properties = {"min_size": 1, "max_size": 4, "desired_capacity": 2, "resource": MEMBER, **more}
    return {"type": "OS::Heat::AutoScalingGroup", "properties": properties}


def policy(number: int, of: object = {"get_resource": "g"}) -> dict[str, object]:
    properties = {"adjustment_type": "change_in_capacity", "auto_scaling_group_id": of, "scaling_adjustment": number}
    return {"type": "OS::Heat::ScalingPolicy", "properties": properties}


def made(**more: object) -> dict[str, object]:
    return template(g=group(**more), up=policy(1), down=policy(-1), lost=policy(1, "nobody"), a=MEMBER)


def action(heat: Heat, path: str, **body: object) -> None:
    heat.call("POST", f"{path}/actions", body, code=200)
    heat.settle(path)


def mark(heat: Heat, path: str, name: str) -> None:
    heat.call("PATCH", f"{path}/resources", {"marks": [{"resource": name, "mark_unhealthy": True}]}, code=200)


def fail(store: Store, path: str, name: str) -> None:
    """Let a resource be one whose update has failed."""
    (row,) = store.resources.by_name(path.rpartition("/")[2], [name])
    with store.transaction():
        store.resources.save_many([row_with_state(row, Verb.UPDATE, Status.FAILED, "it broke", 1.0)])


def update(heat: Heat, path: str) -> None:
    """Begin an update that does not end by itself."""
    slow = {**MEMBER, "properties": {"value": "w", "action_wait_secs": {"update": -1}}}
    heat.call("PUT", path, {"template": {**made(), "resources": {**made()["resources"], "a": slow}}}, code=202)  # type: ignore[dict-item]
    eventually(lambda: heat.get(f"{path}/resources/a")["resource"]["resource_status"] == "UPDATE_IN_PROGRESS")


def brake(heat: Heat, store: Store, path: str) -> None:
    """Suspend the automatic repair of what is marked."""
    mark(heat, path, "a")
    heat.call("PUT", f"{path}/healing", {"healing_policy": "2026-11-22", "mode": "auto"}, code=200)
    scope = HealingScopeRecord(path.rpartition("/")[2], "type:OS::Heat::TestResource", is_suspended=True)
    with store.transaction():
        store.of(HealingStore).scopes.save(scope)


def mode_off(heat: Heat, path: str) -> None:
    mark(heat, path, "a")
    heat.call("PUT", f"{path}/healing", {"healing_policy": "2026-11-22", "mode": "off"}, code=200)


def delete(heat: Heat, path: str) -> None:
    heat.call("DELETE", path, code=204)
    heat.settle(path)


STATES: Final[dict[str, Callable[[Heat, Store, str], object]]] = {
    "at rest": lambda heat, store, path: None,
    "group marked": lambda heat, store, path: mark(heat, path, "g"),
    "group failed": lambda heat, store, path: fail(store, path, "g"),
    "member marked": lambda heat, store, path: mark(heat, path, f"g/{member(heat, path)}"),
    "resource marked": lambda heat, store, path: mark(heat, path, "a"),
    "policy marked": lambda heat, store, path: mark(heat, path, "up"),
    "locked": lambda heat, store, path: action(heat, path, lock={"level": "stacks"}),
    "protected": lambda heat, store, path: action(heat, path, protect=None),
    "suspended": lambda heat, store, path: action(heat, path, suspend=None),
    "deleted": lambda heat, store, path: delete(heat, path),
    "in progress": lambda heat, store, path: update(heat, path),
    "suspended scope": brake,
    "mode off": lambda heat, store, path: mode_off(heat, path),
}
SIZES: Final = {
    "at the largest size": {"max_size": 2},
    "at the smallest size": {"min_size": 2},
    "cooldown": {"cooldown": 900},
}
"""Properties of the group in a state; a state that is in no other table has a stack at rest."""

MARK, CLEAR = {"mark_unhealthy": True}, {"mark_unhealthy": False}
OPERATIONS: Final[dict[str, tuple[str, str, Any]]] = {
    "signal up": ("POST", "resources/up/signal", {}),
    "signal down": ("POST", "resources/down/signal", {}),
    "signal up, fail fast": ("POST", "resources/up/signal?fail_fast=true", {}),
    "signal without a group": ("POST", "resources/lost/signal", {}),
    "signal without a group, fail fast": ("POST", "resources/lost/signal?fail_fast=true", {}),
    "alarm is over": ("POST", "resources/up/signal", {"current": "ok"}),
    "mark group": ("PATCH", "resources/g", MARK),
    "mark resource": ("PATCH", "resources/a", MARK),
    "clear group": ("PATCH", "resources/g", CLEAR),
    "clear resource": ("PATCH", "resources/a", CLEAR),
    "mark member": ("PATCH", "resources", {"marks": [{"resource": "g/MEMBER", **MARK}]}),
    "clear members": ("PATCH", "resources", {"marks": [{"resource": "g/MEMBER", **CLEAR}, {"resource": "a", **CLEAR}]}),
    "recover group": ("POST", "resources/g/actions", {"recover": {"operation": "RECREATE"}}),
    "recover resource": ("POST", "resources/a/actions", {"recover": {"operation": "RECREATE"}}),
    "recover member": ("POST", "resources/g/MEMBER/actions", {"recover": {"operation": "RECREATE"}}),
    "replace member": ("POST", "resources/g/actions", {"replace_members": {"members": ["MEMBER"]}}),
    "scale out": ("POST", "resources/g/actions", {"scale_out": {}}),
    "scale in": ("POST", "resources/g/actions", {"scale_in": {}}),
    "same size": ("POST", "resources/g/actions", {"resize": {"adjustment_type": "EXACT_CAPACITY", "number": 2}}),
    "check resource": ("POST", "resources/a/actions", {"check": {}}),
    "heal": ("POST", "actions", {"heal": None}),
    "heal resource": ("POST", "actions", {"heal": {"resources": ["a"]}}),
    "heal member": ("POST", "actions", {"heal": {"resources": ["g/MEMBER"]}}),
    "revert drift": ("POST", "actions", {"revert_drift": None}),
    "revert drift of a resource": ("POST", "actions", {"revert_drift": {"resources": ["a"]}}),
    "suspend": ("POST", "actions", {"suspend": None}),
    "resume": ("POST", "actions", {"resume": None}),
    "retry": ("POST", "actions", {"retry": None}),
    "cancel": ("POST", "actions", {"cancel_update": None}),
    "lock": ("POST", "actions", {"lock": {"level": "stacks"}}),
    "unlock": ("POST", "actions", {"unlock": None}),
    "protect": ("POST", "actions", {"protect": None}),
    "unprotect": ("POST", "actions", {"unprotect": None}),
    "unprotect resource": ("POST", "actions", {"unprotect": {"resource": "a"}}),
    "rotate keys": ("POST", "actions", {"rotate_keys": None}),
    "acknowledge": ("POST", "healing/acknowledge", {"scope": "type:OS::Heat::TestResource"}),
    "orchestrate": ("POST", "orchestrate", None),
}
SO_ALREADY: Final = {"not_marked", "deleted", "no_change", "not_alarm"}
"""Words of the header that need no event, unless a group was to be scaled: nothing was missed."""


def member(heat: Heat, path: str) -> str:
    """The name of a member; of a deleted group any."""
    found = heat.call("GET", f"{path}/resources?nested_depth=1").json.get("resources", [])
    return next((str(one["resource_name"]) for one in found if one.get("parent_resource") == "g"), "0")


def traces(heat: Heat, path: str) -> list[object]:
    """Ids of events and actions, and the entries of the lock."""
    events = heat.call("GET", f"{path}/events?nested_depth=1").json.get("events", [])
    actions = heat.get("/actions")["actions"]
    lock = heat.call("GET", f"{path}/lock").json.get("suppressed", [])
    return [*(one["id"] for one in (*events, *actions)), *((one["id"], one["count"]) for one in lock)]


PAIRS = sampled(sorted(product({*STATES, *SIZES}, OPERATIONS)), 8, pytest.mark.thorough)
"""Each state with several operations, and each operation in several states; all pairs in a thorough run."""


@pytest.mark.parametrize(("state", "operation"), PAIRS)
def test_nothing_is_silent(heat: Heat, store: Store, state: str, operation: str) -> None:
    path = heat.create(made(**SIZES.get(state, {})))
    STATES.get(state, STATES["at rest"])(heat, store, path)
    name = member(heat, path)
    method, below, body = OPERATIONS[operation]
    before = traces(heat, path)
    named = _named(body, name)
    answer = heat.call(method, f"{path}/{below.replace('MEMBER', name)}", named)
    assert answer.status_int < 500
    if answer.status_int >= 400:
        assert answer.json["error"]["message"]
        return
    ignored = answer.headers.get("X-Heatlite-Ignored", "").partition(";")[0]
    if ignored in SO_ALREADY and not (ignored == "no_change" and "signal" in below):
        return
    if answer.text in ("", "null"):  # what an operation does shows as soon as an engine has looked at it
        eventually(lambda: [one for one in traces(heat, path) if one not in before], f"a trace of {operation} {state}")


def _named(body: Any, name: str) -> Any:
    """The body with the member's name."""
    if isinstance(body, dict):
        return {key: _named(value, name) for key, value in body.items()}
    if isinstance(body, list):
        return [_named(value, name) for value in body]
    return body.replace("MEMBER", name) if isinstance(body, str) else body
