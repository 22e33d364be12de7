"""Trunks."""

from typing import cast

from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.services.network.common import NetworkKind, conflict, items, missing
from heatlite.features.simulator.simulation import SimulatedProject, Verb


def _made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "network.create_trunk"
    port = view.thing("network.port", thing["port_id"], verb)
    if port["device_id"]:
        conflict(verb, f"Port {port['id']} is currently in use and is not eligible for use as a parent port.")
    _refuse_used(view, port["id"], verb)
    subs, thing["sub_ports"] = items(thing, "sub_ports"), []
    _join(view, thing, subs, verb)


def _refuse_used(view: SimulatedProject, port: Json, verb: str) -> None:
    for trunk in view.simulation.all("network.trunk").values():
        if trunk["port_id"] == port:
            conflict(verb, f"Port {port} is in use by another trunk: it is the parent port of {trunk['id']}.")
        if any(one["port_id"] == port for one in items(trunk, "sub_ports")):
            conflict(verb, f"Port {port} is in use by another trunk {trunk['id']}.")


def _join(view: SimulatedProject, trunk: JsonMap, subs: list[JsonMap], verb: str) -> None:
    known = items(trunk, "sub_ports")
    for one in subs:
        view.thing("network.port", one["port_id"], verb)
        _refuse_used(view, one["port_id"], verb)
        tag = (one.get("segmentation_type"), one.get("segmentation_id"))
        if one["port_id"] == trunk["port_id"] or any(
            (other["segmentation_type"], other["segmentation_id"]) == tag for other in known
        ):
            conflict(verb, f"segmentation_type {tag[0]} and segmentation_id {tag[1]} already in use on trunk "
                           f"{trunk['id']}.")  # fmt: skip
        names = ("port_id", "segmentation_type", "segmentation_id")
        known = [*known, {name: one.get(name) for name in names}]
    trunk["sub_ports"] = cast(Json, known)


def _add(view: SimulatedProject, trunk: Json, subports: Json) -> Json:
    verb = "network.add_trunk_subports"
    thing = view.thing("network.trunk", trunk, verb)
    _join(view, thing, cast(list[JsonMap], subports), verb)
    thing["status"] = "DOWN"  # until they are bound
    return view.put("network.trunk", thing)


def _leave(view: SimulatedProject, trunk: Json, subports: Json) -> Json:
    verb = "network.delete_trunk_subports"
    thing = view.thing("network.trunk", trunk, verb)
    gone = {str(one["port_id"]) for one in cast(list[JsonMap], subports)}
    unknown = gone - {str(one["port_id"]) for one in items(thing, "sub_ports")}
    if unknown:
        raise missing(verb, f"SubPort on trunk {trunk} with parent port {unknown.pop()} could not be found.")
    thing["sub_ports"] = cast(Json, [one for one in items(thing, "sub_ports") if one["port_id"] not in gone])
    return view.put("network.trunk", thing)


def _subports(view: SimulatedProject, trunk: Json) -> Json:
    return {"sub_ports": view.thing("network.trunk", trunk, "network.get_trunk_subports")["sub_ports"]}


def _removed(view: SimulatedProject, thing: JsonMap) -> None:
    port = view.simulation.all("network.port").get(str(thing["port_id"]))
    if port is not None and port["device_id"]:
        conflict("network.delete_trunk", f"Trunk {thing['id']} is currently in use.")


COLLECTIONS = [
    NetworkKind(
        "network.trunk",
        {"name": "", "admin_state_up": True, "status": "ACTIVE", "sub_ports": []},
        required=("port_id",),
        made=_made,
        removed=_removed,
        fixed=("port_id",),
    )
]

VERBS: dict[str, Verb] = {
    "network.add_trunk_subports": _add,
    "network.delete_trunk_subports": _leave,
    "network.get_trunk_subports": _subports,
}
