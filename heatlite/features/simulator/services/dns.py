"""Simulated DNS service (Designate). Every change is PENDING for a while."""

from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

ZONE: Final = "dns.zone"
RECORDS: Final = "dns.recordset"


def _pending(view: SimulatedProject, thing: JsonMap, action: str) -> None:
    thing["status"], thing["action"] = "PENDING", action
    view.simulation.later(thing, None if action == "DELETE" else {"status": "ACTIVE", "action": "NONE"})


def _count(view: SimulatedProject, zone: JsonMap) -> None:
    """Increment the serial of a changed zone."""
    zone["serial"] = cast(int, zone["serial"]) + 1
    view.put(ZONE, zone)


def _zone_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb, name = "dns.create_zone", str(thing["name"])
    if not name.endswith("."):
        raise CloudError(verb, f"Provided object does not match schema: '{name}' is not a 'domainname'", 400)
    if thing["type"] == "PRIMARY" and thing.get("email") is None:
        raise CloudError(verb, "Provided object does not match schema: 'email' is a required property", 400)
    if any(one["name"] == name for one in view.simulation.all(ZONE).values()):
        raise CloudConflict(verb, "Duplicate Zone")
    thing["serial"] = int(view.simulation.clock.now())
    _pending(view, thing, "CREATE")


def _zone_changed(view: SimulatedProject, thing: JsonMap, _asked: JsonMap) -> None:
    _count(view, thing)
    _pending(view, thing, "UPDATE")


def _zone_removed(view: SimulatedProject, thing: JsonMap) -> None:
    for one in list(view.simulation.all(RECORDS).values()):
        if one["zone_id"] == thing["id"]:
            view.drop(RECORDS, one)


def _records_made(view: SimulatedProject, thing: JsonMap) -> None:
    verb = "dns.create_recordset"
    zone = view.thing(ZONE, thing["zone_id"], verb)
    if not f".{thing['name']}".endswith(f".{zone['name']}"):
        raise CloudError(verb, "RecordSet is not contained within it's parent zone", 400)
    for one in view.simulation.all(RECORDS).values():
        if all(one[key] == thing[key] for key in ("zone_id", "name", "type")):
            raise CloudConflict(verb, "Duplicate RecordSet")
    thing["zone_name"] = zone["name"]
    _count(view, zone)
    _pending(view, thing, "CREATE")


def _records_changed(view: SimulatedProject, thing: JsonMap, _asked: JsonMap) -> None:
    _count(view, view.thing(ZONE, thing["zone_id"]))
    _pending(view, thing, "UPDATE")


def _records_removed(view: SimulatedProject, thing: JsonMap) -> None:
    _count(view, view.thing(ZONE, thing["zone_id"]))


class Pending(Collection, frozen=True):
    """Kind of object whose deletion takes time."""

    def _drop(self, view: SimulatedProject, thing: JsonMap) -> Json:
        if thing["action"] != "DELETE":
            super()._drop(view, thing)
        return thing

    def _end(self, view: SimulatedProject, thing: JsonMap) -> None:
        _pending(view, thing, "DELETE")
        view.put(self.kind, thing)


COLLECTIONS: list[Collection] = [
    Pending(
        ZONE,
        {"type": "PRIMARY", "ttl": 3600, "description": None, "masters": [], "attributes": {}, "shared": False},
        required=("name",),
        made=_zone_made,
        changed=_zone_changed,
        removed=_zone_removed,
    ),
    Pending(
        RECORDS,
        {"ttl": None, "description": None},
        within="zone_id",
        required=("name", "type", "records"),
        made=_records_made,
        changed=_records_changed,
        removed=_records_removed,
    ),
]

VERBS: dict[str, Verb] = {}


def furnish(view: SimulatedProject) -> None:
    """Create nothing: there are no zones at first."""
