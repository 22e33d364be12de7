"""Simulated load balancer service (Octavia).

A load balancer runs one operation at a time, and rejects others meanwhile.
"""

from collections.abc import Callable
from contextlib import suppress
from typing import Final, cast

from msgspec.structs import replace

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound, OverQuota
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

BALANCER: Final = "load_balancer.load_balancer"
LISTENER: Final = "load_balancer.listener"
POOL: Final = "load_balancer.pool"
MEMBER: Final = "load_balancer.member"
MONITOR: Final = "load_balancer.health_monitor"
POLICY: Final = "load_balancer.l7_policy"
RULE: Final = "load_balancer.l7_rule"

ABOVE: Final = {
    LISTENER: (BALANCER, "_balancer"),
    POOL: (BALANCER, "_balancer"),
    MEMBER: (POOL, "pool_id"),
    MONITOR: (POOL, "pool_id"),
    POLICY: (LISTENER, "listener_id"),
    RULE: (POLICY, "l7policy_id"),
}
"""Parent of each kind, and the attribute with the parent's id."""

LISTED: Final = {
    BALANCER: {"listeners": (LISTENER, "_balancer"), "pools": (POOL, "_balancer")},
    LISTENER: {"l7policies": (POLICY, "listener_id")},
    POOL: {"members": (MEMBER, "pool_id"), "listeners": (LISTENER, "default_pool_id")},
    POLICY: {"rules": (RULE, "l7policy_id")},
}
"""Lists of related objects by kind: attribute, their kind, and their attribute with this object's id."""


def _chain(view: SimulatedProject, kind: str, thing: JsonMap, verb: str) -> list[tuple[str, JsonMap]]:
    """Return the ancestors of an object, the load balancer last. Raises CloudNotFound."""
    found: list[tuple[str, JsonMap]] = []
    while kind != BALANCER:
        above, reference = ABOVE[kind]
        thing = view.thing(above, thing[reference], verb)
        kind = above
        found.append((kind, thing))
    return found


def _refuse_at_work(
    view: SimulatedProject, kind: str, thing: JsonMap, verb: str, allowed: tuple[str, ...] = ("ACTIVE",)
) -> list[tuple[str, JsonMap]]:
    """Require an idle load balancer, and return the object's ancestors.

    Raises CloudConflict.
    """
    chain = _chain(view, kind, thing, verb)
    balancer = chain[-1][1] if chain else thing
    if balancer["provisioning_status"] not in allowed:
        text = f"Load Balancer {balancer['id']} is immutable and cannot be updated."
        if not chain:
            text = f"Invalid state {balancer['provisioning_status']} of loadbalancer resource {balancer['id']}"
        raise CloudConflict(verb, text)
    return chain


def _begin(
    view: SimulatedProject, kind: str, thing: JsonMap, verb: str, allowed: tuple[str, ...] = ("ACTIVE",)
) -> None:
    """Start an operation on an object: its ancestors become PENDING_UPDATE.

    Raises CloudConflict while the load balancer has another operation.
    """
    at = view.simulation.clock.now() + view.simulation.scenario.build
    for above, one in _refuse_at_work(view, kind, thing, verb, allowed):
        one["provisioning_status"] = "PENDING_UPDATE"
        # Not `later`: a scripted fault of the part must not affect the load balancer.
        one["_then"] = {"at": at, "becomes": {"provisioning_status": "ACTIVE"}}
        view.put(above, one)


class BalancerPart(Collection, frozen=True):
    """Kind of object whose changes take time and occupy the whole load balancer."""

    def update(self, view: SimulatedProject, key: Json, /, *whole: Json, **attributes: Json) -> Json:
        verb = f"{self.service}.update_{self.noun}"
        thing = self._one(view, "update", key, whole)
        for name in ("pool_id", "default_pool_id", "redirect_pool_id"):
            if attributes.get(name) is not None:
                view.thing(POOL, attributes[name], verb)
        _begin(view, self.kind, thing, verb)
        thing["provisioning_status"] = "PENDING_UPDATE"
        view.simulation.later(thing, {"provisioning_status": "ACTIVE"})
        return _with_related(view, self.kind, cast(JsonMap, super().update(view, key, *whole, **attributes)))

    def _refuse_too_many(self, view: SimulatedProject, verb: str) -> None:
        name = COUNTED.get(self.kind)
        limit = -1 if name is None else cast(int, _limits(view, view.project)[name])
        own = sum(one.get("project_id") == view.project for one in view.simulation.all(self.kind).values())
        if 0 <= limit <= own:
            raise OverQuota(verb, f"Quota has been met for resources: {self.noun}", 403)

    def create(self, view: SimulatedProject, *whole: Json, **attributes: Json) -> Json:
        return _with_related(view, self.kind, cast(JsonMap, super().create(view, *whole, **attributes)))

    def get(self, view: SimulatedProject, key: Json, /, *whole: Json, **_: Json) -> Json:
        return _with_related(view, self.kind, self._one(view, "get", key, whole))

    def list(self, view: SimulatedProject, *whole: Json, **query: Json) -> Json:
        balancer = query.pop("loadbalancer_id", None)
        found = cast(list[JsonMap], super().list(view, *whole, _balancer=balancer, **query))
        return [_with_related(view, self.kind, one) for one in found]

    def delete(self, view: SimulatedProject, key: Json, /, *whole: Json, **more: Json) -> Json:
        verb = f"{self.service}.delete_{self.noun}"
        thing = self._one(view, "delete", key, whole)
        parts = [(LISTENER, one) for one in _parts(view, LISTENER, "_balancer", thing)]
        parts += [(POOL, one) for one in _parts(view, POOL, "_balancer", thing)]
        if parts and not more.get("cascade"):
            raise CloudError(verb, f"Cannot delete Load Balancer {thing['id']} - it has children", 400)
        if self.removed is not None:
            self.removed(view, thing)
        _begin(view, self.kind, thing, verb, ("ACTIVE", "ERROR") if self.kind == BALANCER else ("ACTIVE",))
        self._drop_below(view, self.kind, thing)
        thing["provisioning_status"] = "PENDING_DELETE"
        view.simulation.later(thing, None)
        view.put(self.kind, thing)
        if self.kind == BALANCER:
            with suppress(CloudNotFound):
                view.simulation.verbs["network.delete_port"](view, thing["vip_port_id"])
        return None

    def _drop_below(self, view: SimulatedProject, kind: str, thing: JsonMap) -> None:
        for part, (above, reference) in ABOVE.items():
            if above == kind:
                for one in _parts(view, part, reference, thing):
                    self._drop_below(view, part, one)
                    view.drop(part, one)


def _parts(view: SimulatedProject, kind: str, reference: str, thing: JsonMap) -> list[JsonMap]:
    return [one for one in view.simulation.all(kind).values() if one.get(reference) == thing["id"]]


def _with_related(view: SimulatedProject, kind: str, thing: JsonMap) -> JsonMap:
    """Return an object as the API shows it, with its related objects."""
    told = dict(thing)
    for name, (other, reference) in LISTED.get(kind, {}).items():
        told[name] = [{"id": one["id"]} for one in _parts(view, other, reference, thing)]
    if kind == POOL:
        monitors = _parts(view, MONITOR, "pool_id", thing)
        told["healthmonitor_id"] = monitors[0]["id"] if monitors else None
    if kind in (LISTENER, POOL):
        told["loadbalancers"] = [{"id": thing["_balancer"]}]
    if kind == MONITOR:
        told["pools"] = [{"id": thing["pool_id"]}]
    return told


def _made(
    kind: str, more: Callable[[SimulatedProject, JsonMap], None] | None = None
) -> Callable[[SimulatedProject, JsonMap], None]:
    """Return the hook for new objects of a kind."""
    verb = kind.replace(".", ".create_", 1)

    def made(view: SimulatedProject, thing: JsonMap) -> None:
        if more is not None:
            more(view, thing)
        if kind != BALANCER:
            _begin(view, kind, thing, verb)
        thing["provisioning_status"], thing["operating_status"] = "PENDING_CREATE", "OFFLINE"
        view.simulation.later(thing, {"provisioning_status": "ACTIVE", "operating_status": "ONLINE"})

    return made


def _balancer_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "load_balancer.create_load_balancer"
    if thing.get("vip_subnet_id") is None:
        raise CloudError(verb, "VIP must contain one of: vip_port_id, vip_network_id, vip_subnet_id.", 400)
    try:
        subnet = view.thing("network.subnet", thing["vip_subnet_id"])
    except CloudNotFound as error:
        raise CloudError(verb, f"Subnet {thing['vip_subnet_id']} not found.", 400) from error
    address: JsonMap = {"subnet_id": subnet["id"]}
    if thing.get("vip_address") is not None:
        address["ip_address"] = thing["vip_address"]
    make = view.simulation.verbs["network.create_port"]
    port = make(
        view, name=f"octavia-lb-{thing['id']}", network_id=subnet["network_id"], fixed_ips=[address],
        device_owner="Octavia", device_id=f"lb-{thing['id']}", admin_state_up=False,
    )  # fmt: skip
    taken = cast(JsonMap, port)
    thing["vip_port_id"], thing["vip_network_id"] = taken["id"], subnet["network_id"]
    thing["vip_address"] = cast(list[JsonMap], taken["fixed_ips"])[0]["ip_address"]
    _parts_made(view, thing)


def _parts_made(view: SimulatedProject, thing: JsonMap) -> None:
    """Create the listeners of a request for a load balancer, with their pools."""
    for listener in cast(list[JsonMap], thing.pop("listeners", [])):
        pool = cast(JsonMap, listener["default_pool"])
        own = {name: value for name, value in pool.items() if name not in ("members", "healthmonitor")}
        part: JsonMap = {"pool_id": _put_part(view, POOL, {**own, "_balancer": thing["id"]})["id"]}
        for member in cast(list[JsonMap], pool["members"]):
            _put_part(view, MEMBER, {**member, **part})
        if pool.get("healthmonitor"):
            _put_part(view, MONITOR, {**cast(JsonMap, pool["healthmonitor"]), **part})
        own = {name: value for name, value in listener.items() if name != "default_pool"}
        _put_part(view, LISTENER, {**own, "_balancer": thing["id"], "default_pool_id": part["pool_id"]})


def _put_part(view: SimulatedProject, kind: str, attributes: JsonMap) -> JsonMap:
    """Create a part that is ready together with its load balancer."""
    (regular,) = [one for one in COLLECTIONS if one.kind == kind]
    ready: JsonMap = {"provisioning_status": "ACTIVE", "operating_status": "ONLINE"}
    return cast(JsonMap, replace(regular, made=None, required=()).create(view, **attributes, **ready))


def _listener_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "load_balancer.create_listener"
    thing["_balancer"] = view.thing(BALANCER, thing.pop("loadbalancer_id"), verb)["id"]
    if thing.get("default_pool_id") is not None:
        view.thing(POOL, thing["default_pool_id"], verb)
    for one in view.simulation.all(LISTENER).values():
        if all(one[key] == thing[key] for key in ("_balancer", "protocol_port", "protocol")):
            port = thing["protocol_port"]
            raise CloudConflict(verb, f"Another Listener on this Load Balancer is already using protocol_port {port}")


def _pool_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "load_balancer.create_pool"
    listener, balancer = thing.pop("listener_id", None), thing.pop("loadbalancer_id", None)
    if listener is None and balancer is None:
        raise CloudError(verb, "Must provide at least one of the fields: loadbalancer_id, listener_id.", 400)
    if listener is None:
        thing["_balancer"] = view.thing(BALANCER, balancer, verb)["id"]
        return
    above = view.thing(LISTENER, listener, verb)
    if above.get("default_pool_id") is not None:
        raise CloudConflict(verb, f"Listener {listener} already has a default pool.")
    thing["_balancer"] = above["_balancer"]
    _refuse_at_work(view, LISTENER, above, verb)
    above["default_pool_id"] = thing["id"]
    view.put(LISTENER, above)


def _set_members(view: SimulatedProject, pool: Json, members: Json) -> Json:
    """Replace all members of a pool; those with the same address and port stay.

    Raises CloudConflict.
    """
    _begin(view, POOL, view.thing(POOL, pool), "load_balancer.set_members")
    wanted = {_place(member): member for member in cast(list[JsonMap], members)}
    for one in _parts(view, MEMBER, "pool_id", {"id": pool}):
        if _place(one) in wanted:
            view.put(MEMBER, one | wanted.pop(_place(one)))
        else:
            view.drop(MEMBER, one)
    for member in wanted.values():
        _put_part(view, MEMBER, {**member, "pool_id": pool})
    return None


def _place(member: JsonMap) -> tuple[Json, Json]:
    """Return address and port, by which the service knows a member of a pool."""
    return member["address"], member["protocol_port"]


def _pool_removed(view: SimulatedProject, thing: JsonMap) -> None:
    for policy in _parts(view, POLICY, "redirect_pool_id", thing):
        raise CloudConflict("load_balancer.delete_pool", f"Pool {thing['id']} is in use by L7 policy {policy['id']}")
    _refuse_at_work(view, POOL, thing, "load_balancer.delete_pool")
    for listener in _parts(view, LISTENER, "default_pool_id", thing):
        listener["default_pool_id"] = None
        view.put(LISTENER, listener)


def _member_made(view: SimulatedProject, thing: JsonMap) -> None:
    for one in _parts(view, MEMBER, "pool_id", {"id": thing["pool_id"]}):
        if all(one[key] == thing[key] for key in ("address", "protocol_port")):
            place = f"{thing['address']}:{thing['protocol_port']}"
            raise CloudConflict("load_balancer.create_member", f"Another member on this pool is already using {place}")


def _monitor_made(view: SimulatedProject, thing: JsonMap) -> None:
    if _parts(view, MONITOR, "pool_id", {"id": thing["pool_id"]}):
        text = f"This pool already has a health monitor: {thing['pool_id']}"
        raise CloudConflict("load_balancer.create_health_monitor", text)


def _policy_made(view: SimulatedProject, thing: JsonMap) -> None:
    if thing.get("redirect_pool_id") is not None:
        view.thing(POOL, thing["redirect_pool_id"], "load_balancer.create_l7_policy")
    others = _parts(view, POLICY, "listener_id", {"id": thing["listener_id"]})
    thing["position"] = min(cast(int, thing.get("position") or len(others) + 1), len(others) + 1)


_COMMON: Final[JsonMap] = {"name": "", "description": "", "admin_state_up": True, "tags": []}

COLLECTIONS: list[Collection] = [
    BalancerPart(
        BALANCER,
        {**_COMMON, "provider": "amphora", "flavor_id": None, "availability_zone": None, "vip_qos_policy_id": None},
        made=_made(BALANCER, _balancer_made),
    ),
    BalancerPart(
        LISTENER,
        {
            **_COMMON, "connection_limit": -1, "default_pool_id": None, "default_tls_container_ref": None,
            "sni_container_refs": [], "allowed_cidrs": None, "insert_headers": {},
        },
        required=("loadbalancer_id", "protocol", "protocol_port"),
        made=_made(LISTENER, _listener_made),
    ),
    BalancerPart(
        POOL,
        {**_COMMON, "session_persistence": None, "tls_enabled": False},
        required=("protocol", "lb_algorithm"),
        made=_made(POOL, _pool_made),
        removed=_pool_removed,
    ),
    BalancerPart(
        MEMBER,
        {
            "name": "", "admin_state_up": True, "tags": [], "weight": 1, "subnet_id": None, "monitor_address": None,
            "monitor_port": None, "backup": False,
        },
        within="pool_id",
        required=("address", "protocol_port"),
        made=_made(MEMBER, _member_made),
    ),
    BalancerPart(
        MONITOR,
        {
            "name": "", "admin_state_up": True, "tags": [], "max_retries_down": 3, "http_method": None,
            "url_path": None, "expected_codes": None,
        },
        required=("pool_id", "type", "delay", "timeout", "max_retries"),
        made=_made(MONITOR, _monitor_made),
    ),
    BalancerPart(
        POLICY,
        {**_COMMON, "redirect_pool_id": None, "redirect_url": None},
        plural="l7_policies",
        required=("listener_id", "action"),
        made=_made(POLICY, _policy_made),
    ),
    BalancerPart(
        RULE,
        {"admin_state_up": True, "tags": [], "invert": False, "key": None},
        within="l7policy_id",
        required=("type", "compare_type", "value"),
        made=_made(RULE),
    ),
    Collection("load_balancer.flavor_profile", owned=False, required=("name", "provider_name", "flavor_data")),
    Collection(
        "load_balancer.availability_zone_profile",
        owned=False,
        required=("name", "provider_name", "availability_zone_data"),
    ),
    Collection("load_balancer.flavor", {"enabled": True, "description": ""}, owned=False, unique=True),
    Collection(
        "load_balancer.availability_zone", {"enabled": True, "description": ""}, owned=False, unique=True, key="name"
    ),
]  # fmt: skip

QUOTAS: Final = Collection("load_balancer.quota")


COUNTED: Final = {
    BALANCER: "loadbalancer", LISTENER: "listener", POOL: "pool", MEMBER: "member", MONITOR: "healthmonitor",
}  # fmt: skip
"""Kinds of objects that have a quota, and its name."""


def _limits(view: SimulatedProject, project: str) -> JsonMap:
    """Return the quotas of a project; -1: unlimited."""
    scripted = view.simulation.scenario.quotas
    own = view.simulation.all(QUOTAS.kind).get(project, {})
    return {name: own.get(name, scripted.get(kind, -1)) for kind, name in COUNTED.items()}


def _get_quota(view: SimulatedProject, project: Json) -> Json:
    return {"id": project, **_limits(view, str(project))}


def _update_quota(view: SimulatedProject, project: Json, **attributes: Json) -> Json:
    own = view.simulation.all(QUOTAS.kind).get(str(project), {"id": project})
    view.put(QUOTAS.kind, {**own, **attributes})
    return _get_quota(view, project)


VERBS: dict[str, Verb] = {
    "load_balancer.set_members": _set_members,
    "load_balancer.get_quota": _get_quota,
    "load_balancer.update_quota": _update_quota,
    "load_balancer.delete_quota": QUOTAS.delete,
}


def furnish(view: SimulatedProject) -> None:
    """Create a flavor and an availability zone."""
    view.call("load_balancer.create_flavor", name="single")
    view.call("load_balancer.create_availability_zone", name="nova")
