"""Security groups and their rules."""

import ipaddress
from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.network.common import NetworkKind, conflict, refuse
from heatlite.features.simulator.simulation import SimulatedProject, Verb

DEFAULT = "default"
WITH_PORTS = ("tcp", "udp", "sctp", "udplite", "dccp", "6", "17", "132", "136", "33")
WITH_TYPES = ("icmp", "icmpv6", "ipv6-icmp", "1", "58")
"""Protocols whose port range holds an ICMP type and code."""


def default_group(view: SimulatedProject, project: Json) -> JsonMap:
    """Return the default group of a project; created on first use."""
    for one in view.simulation.all("network.security_group").values():
        if one["project_id"] == project and one["name"] == DEFAULT:
            return one
    group = cast(
        JsonMap, Collection.create(KIND, view, **_blank(project), name=DEFAULT, description="Default security group")
    )
    for ethertype in ("IPv4", "IPv6"):
        _add(view, group, direction="ingress", ethertype=ethertype, remote_group_id=group["id"])
    return _with_rules(view, group)


def _blank(project: Json) -> JsonMap:
    return {"project_id": project, "tenant_id": project, "tags": [], "revision_number": 1}


def _made(_view: SimulatedProject, thing: JsonMap) -> None:
    if thing["name"] == DEFAULT and thing["description"] != "Default security group":
        conflict("network.create_security_group", "Default security group already exists.")


def _create(view: SimulatedProject, **attributes: Json) -> Json:
    default_group(view, view.project)
    group = cast(JsonMap, KIND.create(view, **attributes))
    return _with_rules(view, group)


def _with_rules(view: SimulatedProject, group: JsonMap) -> JsonMap:
    """Add the default rules of a new group, which allow all outgoing traffic."""
    for ethertype in ("IPv4", "IPv6"):
        _add(view, group, direction="egress", ethertype=ethertype)
    return _shown(view, group)


def _add(view: SimulatedProject, group: JsonMap, **rule: Json) -> None:
    """Add a default rule, which is exempt from the quota."""
    rule = {**_blank(group["project_id"]), **rule, "security_group_id": group["id"], "description": None}
    Collection.create(RULE, view, **{**dict.fromkeys(_EMPTY), **rule})


def _shown(view: SimulatedProject, group: JsonMap) -> JsonMap:
    """Return a group with its rules."""
    rules = view.simulation.all("network.security_group_rule").values()
    return {**group, "security_group_rules": [one for one in rules if one["security_group_id"] == group["id"]]}


def _get(view: SimulatedProject, key: Json, **_: Json) -> Json:
    return _shown(view, cast(JsonMap, KIND.get(view, key)))


def _find(view: SimulatedProject, name_or_id: Json, ignore_missing: bool = True, **query: Json) -> Json:
    default_group(view, view.project)
    if view.project == "admin":  # the administrator sees all groups: look in its own project
        query.setdefault("project_id", view.project)
    found = KIND.find(view, name_or_id, ignore_missing=ignore_missing, **query)
    return None if found is None else _shown(view, cast(JsonMap, found))


def _groups(view: SimulatedProject, **query: Json) -> Json:
    default_group(view, view.project)
    return [_shown(view, one) for one in cast(list[JsonMap], KIND.list(view, **query))]


def _update(view: SimulatedProject, key: Json, **attributes: Json) -> Json:
    return _shown(view, cast(JsonMap, KIND.update(view, key, **attributes)))


def _changed(_view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    if thing["name"] == DEFAULT and asked.get("name", DEFAULT) != DEFAULT:
        conflict("network.update_security_group", "Updating default security group not allowed.")
    if asked.get("stateful", True) is None:
        asked["stateful"] = True


def _removed(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.delete_security_group"
    if thing["name"] == DEFAULT:
        conflict(verb, "Insufficient rights for removing default security group.")
    if any(thing["id"] in cast(list[Json], one["security_groups"]) for one in
           view.simulation.all("network.port").values()):  # fmt: skip
        conflict(verb, f"Security Group {thing['id']} in use.")
    for rule in list(view.simulation.all("network.security_group_rule").values()):
        if thing["id"] in (rule["security_group_id"], rule["remote_group_id"]):
            view.drop("network.security_group_rule", rule)


# -- rules -----------------------------------------------------------------------------------------

_EMPTY = ("protocol", "port_range_min", "port_range_max", "remote_ip_prefix", "remote_group_id",
          "remote_address_group_id")  # fmt: skip
_SAME = ("security_group_id", "direction", "ethertype", *_EMPTY)


def _rule_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_security_group_rule"
    thing.pop("tags", None)
    view.thing("network.security_group", thing["security_group_id"], verb)
    if thing.get("remote_group_id") is not None:
        view.thing("network.security_group", thing["remote_group_id"], verb)
        if thing.get("remote_ip_prefix") is not None:
            refuse(verb, "Only remote_ip_prefix or remote_group_id or remote_address_group_id may be provided.")
    if thing.get("protocol") is not None:
        thing["protocol"] = str(thing["protocol"]).lower()
    _check_range(thing, verb)
    prefix = thing.get("remote_ip_prefix")
    if prefix is not None:
        version = f"IPv{ipaddress.ip_interface(str(prefix)).version}"  # of any address in the network
        if version != thing["ethertype"]:
            refuse(verb, f"Conflicting value ethertype {thing['ethertype']} for CIDR {prefix}")
    for one in view.simulation.all("network.security_group_rule").values():
        if all(one.get(name) == thing.get(name) for name in _SAME):
            conflict(verb, f"Security group rule already exists. Rule id is {one['id']}.")


def _check_range(thing: JsonMap, verb: str) -> None:
    low, high, protocol = thing.get("port_range_min"), thing.get("port_range_max"), thing.get("protocol")
    if low is None and high is None:
        return
    if protocol is None:
        refuse(verb, "Invalid input for operation: Must also specify protocol if port range is given.")
    if protocol in WITH_TYPES:
        if low is None:
            refuse(verb, f"ICMP code (port-range-max) {high} is provided but ICMP type (port-range-min) is missing.")
        for name in ("port_range_min", "port_range_max"):
            if thing.get(name) is not None and cast(int, thing[name]) > 255:
                refuse(verb, f"Invalid value for ICMP: {thing[name]} must be 0 to 255.")
    elif protocol in WITH_PORTS:
        if low is None or high is None or cast(int, low) > cast(int, high):
            refuse(verb, "For TCP/UDP protocols, port_range_min must be <= port_range_max")
        if cast(int, low) < 1:
            refuse(verb, "Invalid value for port 0")


KIND = NetworkKind(
    "network.security_group",
    {"name": "", "stateful": True, "shared": False},
    made=_made,
    changed=_changed,
    removed=_removed,
)

RULE = NetworkKind(
    "network.security_group_rule",
    {"ethertype": "IPv4", **dict.fromkeys(_EMPTY)},
    required=("security_group_id", "direction"),
    made=_rule_made,
    lacks=("update",),
)

COLLECTIONS = [KIND, RULE]

VERBS: dict[str, Verb] = {
    "network.create_security_group": _create,
    "network.get_security_group": _get,
    "network.find_security_group": _find,
    "network.security_groups": _groups,
    "network.update_security_group": _update,
}
