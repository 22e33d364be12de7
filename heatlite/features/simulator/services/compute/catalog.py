"""Key pairs, flavors, server groups, hosts, aggregates and quotas."""

from operator import itemgetter
from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound, OverQuota
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.compute.states import SERVER
from heatlite.features.simulator.simulation import SimulatedProject, Verb

FLAVOR: Final = "compute.flavor"
GROUP: Final = "compute.server_group"
AGGREGATE: Final = "compute.aggregate"
KEYPAIR: Final = "compute.keypair"
QUOTA: Final = "compute.quota_set"
PUBLIC: Final = "os-flavor-access:is_public"

FLAVORS: Final = {
    "m1.nano": (1, 64, 1), "m1.tiny": (1, 512, 1), "m1.small": (1, 2048, 20), "m1.medium": (2, 4096, 40),
    "m1.large": (4, 8192, 80),
}  # fmt: skip
"""Name → virtual CPUs, MiB of memory, GiB of disk."""
HOSTS: Final = tuple(f"fake-{number}" for number in range(1, 9))
"""Hosts of servers."""
ZONE: Final = "nova"
MAX_SIZE: Final = 1_000_000
"""MiB of memory of a host."""
LIMITS: Final = {
    "instances": 10_000, "cores": 100_000, "ram": 1_000_000_000, "key_pairs": 10_000, "server_groups": 10_000,
    "server_group_members": 1_000, "metadata_items": 128, "injected_files": 5,
    "injected_file_content_bytes": 10_240, "injected_file_path_bytes": 255,
}  # fmt: skip
"""Default quotas of a project."""


# -- key pairs ---------------------------------------------------------------------------------------


def _keypair_made(view: SimulatedProject, thing: JsonMap) -> None:
    _refuse_one_more(view, "compute.create_keypair", KEYPAIR, "key_pairs")
    if not thing.get("public_key"):
        thing["public_key"] = f"ssh-rsa SIMULATED {thing['name']}"
        thing["private_key"] = "-----BEGIN SIMULATED PRIVATE KEY-----"
    thing["id"] = thing["name"]
    thing["fingerprint"] = "00:" * 15 + "00"


# -- flavors -----------------------------------------------------------------------------------------


def _flavor_made(view: SimulatedProject, thing: JsonMap) -> None:
    others = view.simulation.all(FLAVOR)
    if str(thing["id"]) in others:
        raise CloudConflict("compute.create_flavor", f"Flavor with ID {thing['id']} already exists.")


def flavor_of(view: SimulatedProject, verb: str, key: Json) -> JsonMap:
    """Return a flavor by id. Raises CloudError like the service if it is missing."""
    found = view.simulation.all(FLAVOR).get(str(key))
    if found is None:
        raise CloudError(verb, f"Flavor {key} could not be found.", 400)
    return found


def embedded(flavor: JsonMap) -> JsonMap:
    """Return a flavor as embedded in servers."""
    kept = {key: flavor.get(key) for key in ("disk", "ram", "vcpus", "swap", "extra_specs")}
    return {"original_name": flavor["name"], "ephemeral": flavor["OS-FLV-EXT-DATA:ephemeral"], **kept}


def _specs(view: SimulatedProject, key: Json, specs: Json) -> Json:
    flavor = view.thing(FLAVOR, key, "compute.create_flavor_extra_specs")
    cast(JsonMap, flavor["extra_specs"]).update(cast(JsonMap, specs))
    return view.put(FLAVOR, flavor)


def _without_spec(view: SimulatedProject, key: Json, name: Json) -> Json:
    verb = "compute.delete_flavor_extra_specs_property"
    flavor = view.thing(FLAVOR, key, verb)
    specs = cast(JsonMap, flavor["extra_specs"])
    if str(name) not in specs:
        raise CloudNotFound(verb, f"Flavor {key} has no extra specs with key {name}.")
    del specs[str(name)]
    view.put(FLAVOR, flavor)
    return None


def _access(view: SimulatedProject, key: Json) -> list[Json]:
    flavor = view.thing(FLAVOR, key, "compute.get_flavor_access")
    return cast(list[Json], flavor.setdefault("_access", []))


def _let_in(view: SimulatedProject, key: Json, project: Json) -> Json:
    projects = _access(view, key)
    if project in projects:
        verb = "compute.flavor_add_tenant_access"
        raise CloudConflict(verb, f"Flavor access already exists for flavor {key} and project {project} combination.")
    projects.append(project)
    view.put(FLAVOR, view.thing(FLAVOR, key))
    return None


def _shut_out(view: SimulatedProject, key: Json, project: Json) -> Json:
    projects = _access(view, key)
    if project not in projects:
        verb = "compute.flavor_remove_tenant_access"
        raise CloudNotFound(verb, f"Flavor access not found for {key} / {project} combination.")
    projects.remove(project)
    view.put(FLAVOR, view.thing(FLAVOR, key))
    return None


def _who_may(view: SimulatedProject, key: Json) -> Json:
    return [{"flavor_id": key, "tenant_id": project} for project in _access(view, key)]


# -- server groups -----------------------------------------------------------------------------------


def _group_made(view: SimulatedProject, thing: JsonMap) -> None:
    _refuse_one_more(view, "compute.create_server_group", GROUP, "server_groups")
    policy = thing.get("policy")
    if policy not in ("anti-affinity", "affinity", "soft-anti-affinity", "soft-affinity"):
        verb, text = "compute.create_server_group", f"Invalid input for field/attribute policy. Value: {policy}."
        raise CloudError(verb, text, 400)
    if thing.get("rules") and policy != "anti-affinity":
        text = "Only anti-affinity policy supports rules."
        raise CloudError("compute.create_server_group", text, 400)
    thing["policies"] = [policy]


def host_for(view: SimulatedProject, verb: str, thing: JsonMap) -> str | None:
    """Return the host for a new server under its group's policy; None if none fits.

    Raises CloudError.
    """
    hints = cast(JsonMap, thing.get("_hints") or {})
    servers = view.simulation.all("compute.server")
    load = dict.fromkeys(HOSTS, 0)
    for server in servers.values():
        if server.get("_host") in load:
            load[str(server["_host"])] += 1
    free = sorted(HOSTS, key=load.__getitem__)
    if hints.get("group") is None:
        return free[0]
    group = view.simulation.all(GROUP).get(str(hints["group"]))
    if group is None:
        raise CloudError(verb, f"Instance group {hints['group']} could not be found.", 400)
    members = cast(list[Json], group["members"])
    used = [str(servers[one]["_host"]) for one in map(str, members) if one in servers]
    members.append(thing["id"])
    view.put(GROUP, group)
    if group["policy"] == "affinity" and used:
        return used[0]
    if group["policy"] == "anti-affinity":
        most = cast(JsonMap, group.get("rules") or {}).get("max_server_per_host") or 1
        return next((host for host in free if used.count(host) < cast(int, most)), None)
    return free[0]


def leave_groups(view: SimulatedProject, server: JsonMap) -> None:
    """Remove a deleted server from its group."""
    for group in view.simulation.all(GROUP).values():
        members = cast(list[Json], group["members"])
        if server["id"] in members:
            members.remove(server["id"])
            view.put(GROUP, group)


# -- hosts -------------------------------------------------------------------------------------------


def _hypervisors(_view: SimulatedProject, **_: Json) -> Json:
    return [_hypervisor(host) for host in HOSTS]


def _hypervisor(host: str) -> Json:
    return {"id": host, "name": host, "hypervisor_hostname": host, "state": "up", "status": "enabled"}


def _find_hypervisor(_view: SimulatedProject, name: Json, ignore_missing: bool = True, **_: Json) -> Json:
    if name in HOSTS:
        return _hypervisor(str(name))
    if ignore_missing:
        return None
    raise CloudNotFound("compute.find_hypervisor", f"No Hypervisor found for {name}")


def zones(view: SimulatedProject) -> set[Json]:
    """Return the existing availability zones."""
    return {ZONE, *(one.get("availability_zone") for one in view.simulation.all(AGGREGATE).values())} - {None}


def _new_aggregate(view: SimulatedProject, **attributes: Json) -> Json:
    zone = attributes.get("availability_zone")
    metadata = {} if zone is None else {"availability_zone": zone}
    number = 1 + max((cast(int, one["id"]) for one in view.simulation.all(AGGREGATE).values()), default=0)
    return _AGGREGATES.create(view, **{**attributes, "id": number, "metadata": metadata})


def _aggregate_changed(_view: SimulatedProject, thing: JsonMap, attributes: JsonMap) -> None:
    if attributes.get("availability_zone") is not None:
        cast(JsonMap, thing["metadata"])["availability_zone"] = attributes["availability_zone"]


def _aggregate_removed(_view: SimulatedProject, thing: JsonMap) -> None:
    if thing["hosts"]:
        text = f"Cannot remove host from aggregate {thing['id']}. Reason: Host aggregate is not empty."
        raise CloudError("compute.delete_aggregate", text, 400)


def _add_host(view: SimulatedProject, key: Json, host: Json) -> Json:
    verb = "compute.add_host_to_aggregate"
    aggregate = view.thing(AGGREGATE, key, verb)
    if host not in HOSTS:
        raise CloudNotFound(verb, f"Compute host {host} could not be found.")
    hosts = cast(list[Json], aggregate["hosts"])
    if host in hosts:
        text = f"Cannot add host to aggregate {key}. Reason: Aggregate {key} already has host {host}."
        raise CloudConflict(verb, text)
    hosts.append(host)
    return view.put(AGGREGATE, aggregate)


def _remove_host(view: SimulatedProject, key: Json, host: Json) -> Json:
    verb = "compute.remove_host_from_aggregate"
    aggregate = view.thing(AGGREGATE, key, verb)
    hosts = cast(list[Json], aggregate["hosts"])
    if host not in hosts:
        raise CloudNotFound(verb, f"Cannot remove host {host} in aggregate {key}: not found.")
    hosts.remove(host)
    return view.put(AGGREGATE, aggregate)


def _set_aggregate_metadata(view: SimulatedProject, key: Json, metadata: Json) -> Json:
    """Update an aggregate's metadata. Null removes a key; the zone is metadata, too."""
    aggregate = view.thing(AGGREGATE, key, "compute.set_aggregate_metadata")
    kept = {**cast(JsonMap, aggregate["metadata"]), **cast(JsonMap, metadata)}
    aggregate["metadata"] = {name: value for name, value in kept.items() if value is not None}
    aggregate["availability_zone"] = cast(JsonMap, aggregate["metadata"]).get("availability_zone")
    return view.put(AGGREGATE, aggregate)


# -- quotas ------------------------------------------------------------------------------------------


def limits(view: SimulatedProject, project: Json) -> JsonMap:
    """Return the quotas of a project."""
    given = view.simulation.scenario.quotas
    kinds = {"instances": SERVER, "server_groups": GROUP, "key_pairs": KEYPAIR}
    keys = {name: kinds[name] if kinds.get(name) in given else f"compute.{name}" for name in LIMITS}
    scripted = {name: given[key] for name, key in keys.items() if key in given}
    return {**LIMITS, **scripted, **view.simulation.all(QUOTA).get(str(project), {}), "id": project}


def _get_quota(view: SimulatedProject, project: Json, **_: Json) -> Json:
    return limits(view, project)


def _update_quota(view: SimulatedProject, project: Json, **given: Json) -> Json:
    unknown = sorted(given.keys() - LIMITS.keys())
    if unknown:
        text = f"Additional properties are not allowed ({unknown[0]!r} was unexpected)"
        raise CloudError("compute.update_quota_set", f"Invalid input for field/attribute quota_set. {text}", 400)
    view.put(QUOTA, {**view.simulation.all(QUOTA).get(str(project), {}), **given, "id": project})
    return limits(view, project)


def _revert_quota(view: SimulatedProject, project: Json, **_: Json) -> Json:
    view.simulation.drop(QUOTA, str(project))
    return None


def refuse_too_many(view: SimulatedProject, verb: str, flavor: JsonMap, less: JsonMap | None = None) -> None:
    """Check the quotas for another server, or for a resize from the flavor `less`.

    Raises OverQuota.
    """
    allowed = limits(view, view.project)
    own = [one for one in view.simulation.all(SERVER).values() if one["project_id"] == view.project]
    flavors = [cast(JsonMap, one["flavor"]) for one in own]
    for name, key in (("instances", ""), ("cores", "vcpus"), ("ram", "ram")):
        limit = cast(int, allowed[name])
        if limit < 0:
            continue
        more = _amount(flavor, key) - (_amount(less, key) if less else 0)
        used = sum(map(itemgetter(key), flavors)) if key else len(flavors)
        if more > 0 and limit < used + more:
            text = f"Quota exceeded for {name}: Requested {more}, but already used {used} of {limit} {name}"
            raise OverQuota(verb, text)


def _refuse_one_more(view: SimulatedProject, verb: str, kind: str, name: str) -> None:
    """Check the quota of a kind for another object. Raises OverQuota."""
    limit, used = cast(int, limits(view, view.project)[name]), len(_owned(view, kind))
    if 0 <= limit <= used:
        text = f"Quota exceeded, too many {name.replace('_', ' ')}: already used {used} of {limit}"
        raise OverQuota(verb, text)


def _owned(view: SimulatedProject, kind: str) -> list[JsonMap]:
    return [one for one in view.simulation.all(kind).values() if one.get("project_id") == view.project]


def _get_limits(view: SimulatedProject) -> Json:
    """Return the limits of the project and its use, by Nova's names."""
    allowed, flavors = limits(view, view.project), [cast(JsonMap, one["flavor"]) for one in _owned(view, SERVER)]
    absolute: JsonMap = {
        "maxTotalInstances": allowed["instances"],
        "totalInstancesUsed": len(flavors),
        "maxTotalCores": allowed["cores"],
        "totalCoresUsed": sum(_amount(one, "vcpus") for one in flavors),
        "maxTotalRAMSize": allowed["ram"],
        "totalRAMUsed": sum(_amount(one, "ram") for one in flavors),
        "maxServerGroups": allowed["server_groups"],
        "totalServerGroupsUsed": len(_owned(view, GROUP)),
        "maxServerGroupMembers": allowed["server_group_members"],
        "maxTotalKeypairs": allowed["key_pairs"],
        "maxServerMeta": allowed["metadata_items"],
    }
    return {"absolute": absolute, "rate": []}


def _amount(flavor: JsonMap, key: str) -> int:
    """Return what a server of the flavor uses; no key: itself."""
    return cast(int, flavor[key]) if key else 1


# -- collections and verbs ---------------------------------------------------------------------------

_AGGREGATES = Collection(
    AGGREGATE,
    {"hosts": [], "metadata": {}, "availability_zone": None, "deleted": False},
    required=("name",),
    owned=False,
    unique=True,
    changed=_aggregate_changed,
    removed=_aggregate_removed,
)

COLLECTIONS: list[Collection] = [
    Collection(
        KEYPAIR,
        {"type": "ssh"},
        required=("name",),
        unique=True,
        key="name",
        made=_keypair_made,
        lacks=("update",),
    ),
    Collection(
        FLAVOR,
        {"OS-FLV-EXT-DATA:ephemeral": 0, "swap": 0, "rxtx_factor": 1.0, PUBLIC: True, "extra_specs": {}, "disk": 0},
        required=("name", "ram", "vcpus"),
        owned=False,
        unique=True,
        made=_flavor_made,
    ),
    Collection(GROUP, {"members": [], "rules": {}}, required=("name", "policy"), made=_group_made, lacks=("update",)),
    _AGGREGATES,
]

VERBS: dict[str, Verb] = {
    "compute.create_flavor_extra_specs": _specs,
    "compute.delete_flavor_extra_specs_property": _without_spec,
    "compute.flavor_add_tenant_access": _let_in,
    "compute.flavor_remove_tenant_access": _shut_out,
    "compute.get_flavor_access": _who_may,
    "compute.hypervisors": _hypervisors,
    "compute.find_hypervisor": _find_hypervisor,
    "compute.create_aggregate": _new_aggregate,
    "compute.add_host_to_aggregate": _add_host,
    "compute.remove_host_from_aggregate": _remove_host,
    "compute.set_aggregate_metadata": _set_aggregate_metadata,
    "compute.get_limits": _get_limits,
    "compute.get_quota_set": _get_quota,
    "compute.update_quota_set": _update_quota,
    "compute.revert_quota_set": _revert_quota,
}


def furnish(view: SimulatedProject) -> None:
    """Create the usual flavors."""
    for number, (name, (vcpus, ram, disk)) in enumerate(FLAVORS.items(), 1):
        view.call("compute.create_flavor", id=str(number), name=name, vcpus=vcpus, ram=ram, disk=disk)
