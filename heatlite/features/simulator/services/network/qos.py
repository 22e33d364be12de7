"""QoS policies and their rules."""

from collections.abc import Mapping
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.network.common import NetworkKind, conflict
from heatlite.features.simulator.simulation import SimulatedProject, Verb

RULES: Mapping[str, tuple[JsonMap, tuple[str, ...]]] = {
    "bandwidth_limit": ({"max_burst_kbps": 0, "direction": "egress"}, ("max_kbps",)),
    "dscp_marking": ({}, ("dscp_mark",)),
    "minimum_bandwidth": ({"direction": "egress"}, ("min_kbps",)),
    "minimum_packet_rate": ({"direction": "egress"}, ("min_kpps",)),
}
"""Kinds of rules with their default and required attributes."""


def _shown(view: SimulatedProject, policy: JsonMap) -> JsonMap:
    """Return a policy with its rules."""
    rules: list[Json] = [
        {**one, "type": kind, "qos_policy_id": policy["id"]}
        for kind in RULES
        for one in view.simulation.all(f"network.qos_{kind}_rule").values()
        if one["_qos_policy_id"] == policy["id"]
    ]
    return {**policy, "rules": rules}


def _get(view: SimulatedProject, key: Json, **_: Json) -> Json:
    return _shown(view, cast(JsonMap, POLICY.get(view, key)))


def _create(view: SimulatedProject, **attributes: Json) -> Json:
    return _shown(view, cast(JsonMap, POLICY.create(view, **attributes)))


def _update(view: SimulatedProject, key: Json, **attributes: Json) -> Json:
    return _shown(view, cast(JsonMap, POLICY.update(view, key, **attributes)))


def _policies(view: SimulatedProject, **query: Json) -> Json:
    return [_shown(view, one) for one in cast(list[JsonMap], POLICY.list(view, **query))]


def _removed(view: SimulatedProject, thing: JsonMap) -> None:
    for noun in ("network", "port", "ip"):
        for one in view.simulation.all(f"network.{noun}").values():
            if one.get("qos_policy_id") == thing["id"]:
                conflict("network.delete_qos_policy", f"QoS Policy {thing['id']} is used by {noun} {one['id']}.")
    for kind in RULES:
        for rule in list(view.simulation.all(f"network.qos_{kind}_rule").values()):
            if rule["_qos_policy_id"] == thing["id"]:
                view.drop(f"network.qos_{kind}_rule", rule)


def _refuse_twin(kind: str, view: SimulatedProject, thing: JsonMap, verb: str) -> None:
    view.thing("network.qos_policy", thing["_qos_policy_id"], verb)
    for one in view.simulation.all(f"network.qos_{kind}_rule").values():
        same = (one["_qos_policy_id"], one.get("direction")) == (thing["_qos_policy_id"], thing.get("direction"))
        if same and one["id"] != thing["id"]:
            conflict(verb, f"Rule {kind} is conflicting with rule {one['id']} which already exists in QoS Policy "
                           f"{thing['_qos_policy_id']}.")  # fmt: skip


def _refuse_more(kind: str, view: SimulatedProject, thing: JsonMap, verb: str) -> None:
    """Reject a minimum bandwidth above the maximum bandwidth."""
    other, own = ("minimum_bandwidth", "max_kbps") if kind == "bandwidth_limit" else ("bandwidth_limit", "min_kbps")
    if own not in thing:
        return
    for one in view.simulation.all(f"network.qos_{other}_rule").values():
        if (one["_qos_policy_id"], one["direction"]) != (thing["_qos_policy_id"], thing["direction"]):
            continue
        its = cast(int, one["min_kbps"] if own == "max_kbps" else one["max_kbps"])
        mine = cast(int, thing[own])
        if mine < its if own == "max_kbps" else mine > its:
            conflict(verb, f"Unable to add the rule with value {mine} to the policy {thing['_qos_policy_id']} as the "
                           f"existing rule of type {other} has value {its}.")  # fmt: skip


def _rule(kind: str, defaults: JsonMap, required: tuple[str, ...]) -> NetworkKind:
    noun = f"qos_{kind}_rule"

    def made(view: SimulatedProject, thing: JsonMap) -> None:
        for name in ("project_id", "tenant_id"):  # owned through the policy
            thing.pop(name, None)
        _refuse_twin(kind, view, thing, f"network.create_{noun}")
        _refuse_more(kind, view, thing, f"network.create_{noun}")

    def changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
        _refuse_twin(kind, view, {**thing, **asked}, f"network.update_{noun}")
        _refuse_more(kind, view, {**thing, **asked}, f"network.update_{noun}")

    return NetworkKind(
        f"network.{noun}",
        defaults,
        within="_qos_policy_id",
        required=required,
        made=made,
        changed=changed,
        standard=False,
    )


POLICY = NetworkKind(
    "network.qos_policy",
    {"name": "", "shared": False, "is_default": False},
    plural="qos_policies",
    required=("name",),
    removed=_removed,
)

COLLECTIONS = [POLICY, *(_rule(kind, *rest) for kind, rest in RULES.items())]

VERBS: dict[str, Verb] = {
    "network.create_qos_policy": _create,
    "network.get_qos_policy": _get,
    "network.update_qos_policy": _update,
    "network.qos_policies": _policies,
}
