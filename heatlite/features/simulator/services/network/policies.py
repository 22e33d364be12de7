"""Sharing of objects between projects (RBAC policies), and quotas."""

from typing import cast

from heatlite.clients.cloud import CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.network.common import NetworkKind, conflict, limits, refuse
from heatlite.features.simulator.simulation import ADMIN, SimulatedProject, Verb

KINDS = {"subnetpool": "subnet_pool"}
"""Names of kinds in RBAC policies, where they differ from the SDK's."""
EXTERNAL = "access_as_external"


def _object(view: SimulatedProject, policy: JsonMap, verb: str) -> tuple[str, JsonMap]:
    kind = f"network.{KINDS.get(str(policy['object_type']), policy['object_type'])}"
    return kind, view.thing(kind, policy["object_id"], verb)


def _made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_rbac_policy"
    _object(view, thing, verb)
    if thing["action"] == EXTERNAL and thing["object_type"] != "network":
        refuse(verb, f"Invalid action '{EXTERNAL}' for object type '{thing['object_type']}'.")
    _refuse_twin(view, thing, verb)
    _show(view, thing, thing, None)


def _refuse_twin(view: SimulatedProject, policy: JsonMap, verb: str) -> None:
    for one in view.simulation.all("network.rbac_policy").values():
        same = all(one[name] == policy[name] for name in ("object_id", "object_type", "target_tenant", "action"))
        if same and one["id"] != policy["id"]:
            conflict(verb, f"An RBAC policy already exists with those values: {one['id']}.")


def _changed(view: SimulatedProject, thing: JsonMap, asked: JsonMap) -> None:
    new = {**thing, **asked}
    _refuse_twin(view, new, "network.update_rbac_policy")
    _refuse_needed(view, thing, "network.update_rbac_policy")
    _show(view, new, new, thing)


def _removed(view: SimulatedProject, thing: JsonMap) -> None:
    _refuse_needed(view, thing, "network.delete_rbac_policy")
    _show(view, thing, None, thing)


def _refuse_needed(view: SimulatedProject, policy: JsonMap, verb: str) -> None:
    """Reject withdrawing a network from a project that has ports on it."""
    if policy["object_type"] != "network":
        return
    _, network = _object(view, policy, verb)
    for port in view.simulation.all("network.port").values():
        foreign = port["network_id"] == network["id"] and port["project_id"] not in ("", network["project_id"])
        if foreign and policy["target_tenant"] in ("*", port["project_id"]) and not network["shared"]:
            conflict(verb, f"RBAC policy on object {network['id']} cannot be removed because other objects depend on "
                           f"it. Details: port {port['id']}.")  # fmt: skip


def _show(view: SimulatedProject, policy: JsonMap, now: JsonMap | None, before: JsonMap | None) -> None:
    """Update the visibility of a policy's object."""
    verb = "network.create_rbac_policy"
    kind, thing = _object(SimulatedProject(view.simulation, ADMIN), policy, verb)
    known = cast(list[Json], thing.get("_shown_to") or [])
    if before is not None and before["target_tenant"] in known:
        known.remove(before["target_tenant"])
    if now is not None:
        known.append(now["target_tenant"])
    thing["_shown_to"] = known
    if policy["action"] == EXTERNAL:
        thing["router:external"] = bool(known)
    view.put(kind, thing)
    for subnet in view.simulation.all("network.subnet").values():
        if kind == "network.network" and subnet["network_id"] == thing["id"] and policy["action"] != EXTERNAL:
            subnet["_shown_to"] = ["*"] if thing["shared"] else known
            view.put("network.subnet", subnet)


# -- quotas ----------------------------------------------------------------------------------------


def _get_quota(view: SimulatedProject, project: Json, details: bool = False) -> Json:
    """Return a project's quotas, with the usage of each on request."""
    found = limits(view, str(project))
    if not details:
        return cast(Json, found)
    nouns = {"floatingip": "ip", "subnetpool": "subnet_pool"}
    used = {
        name: sum(
            one["project_id"] == project for one in view.simulation.all(f"network.{nouns.get(name, name)}").values()
        )
        for name in found
    }
    return {name: {"limit": limit, "used": used[name], "reserved": 0} for name, limit in found.items()}


def _update_quota(view: SimulatedProject, project: Json, **attributes: Json) -> Json:
    own = view.simulation.all("network.quota").get(str(project), {"id": project})
    own.update({name: value for name, value in attributes.items() if value is not None})
    view.put("network.quota", own)
    return _get_quota(view, project)


def _delete_quota(view: SimulatedProject, project: Json) -> Json:
    if str(project) not in view.simulation.all("network.quota"):
        raise CloudNotFound("network.delete_quota", f"Quota for tenant {project} could not be found.")
    view.drop("network.quota", {"id": project})
    return None


COLLECTIONS = [
    NetworkKind(
        "network.rbac_policy",
        plural="rbac_policies",
        required=("object_id", "object_type", "action", "target_tenant"),
        made=_made,
        changed=_changed,
        removed=_removed,
        standard=False,
    )
]

VERBS: dict[str, Verb] = {
    "network.get_quota": _get_quota,
    "network.get_quota_default": lambda view, _project: cast(Json, limits(view, "")),
    "network.update_quota": _update_quota,
    "network.delete_quota": _delete_quota,
}
