"""Volume types and QoS specs in simulated block storage."""

from typing import Final, cast

from heatlite.clients.cloud import CloudError, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.services.block_storage.common import QOS, TYPE, VOLUME, texts
from heatlite.features.simulator.simulation import SimulatedProject, Verb

DEFAULT_TYPE: Final = "__DEFAULT__"
PUBLIC: Final = "os-volume-type-access:is_public"


def _type_made(_view: SimulatedProject, thing: JsonMap) -> None:
    thing["is_public"] = thing.setdefault(PUBLIC, True)


def _type_changed(view: SimulatedProject, thing: JsonMap, attributes: JsonMap) -> None:
    for volume in view.simulation.all(VOLUME).values() if "name" in attributes else ():
        if volume["volume_type"] == thing["name"]:
            volume["volume_type"] = attributes["name"]
            view.put(VOLUME, volume)
    if "is_public" in attributes:
        attributes[PUBLIC] = attributes["is_public"]


def _type_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(volume["volume_type"] == thing["name"] for volume in view.simulation.all(VOLUME).values()):
        text = f"Target volume type is still in use: {thing['id']}"
        raise CloudError("block_storage.delete_type", text, 400)


def type_named(view: SimulatedProject, name_or_id: Json, verb: str) -> JsonMap:
    found = TYPES.find(view, name_or_id)
    if not isinstance(found, dict):
        raise CloudNotFound(verb, f"Volume type with name {name_or_id} could not be found.")
    return found


def _types(view: SimulatedProject, **query: Json) -> Json:
    """List the public types, unless the query asks for others."""
    return TYPES.list(view, **{PUBLIC: True, **query})


def spec(kind: JsonMap, name: str) -> Json:
    return cast(JsonMap, kind["extra_specs"]).get(name)


def _update_type_extra_specs(view: SimulatedProject, key: Json, **specs: Json) -> Json:
    thing = view.thing(TYPE, key)
    cast(JsonMap, thing["extra_specs"]).update(texts("block_storage.update_type_extra_specs", specs))
    return view.put(TYPE, thing)


def _delete_type_extra_specs(view: SimulatedProject, key: Json, keys: Json) -> Json:
    thing = view.thing(TYPE, key)
    for name in cast(list[str], keys):
        cast(JsonMap, thing["extra_specs"]).pop(name, None)
    view.put(TYPE, thing)
    return None


def _get_type_access(view: SimulatedProject, key: Json) -> Json:
    thing = view.thing(TYPE, key)
    return [{"volume_type_id": thing["id"], "project_id": one} for one in cast(list[Json], thing.get("_access", []))]


def _add_type_access(view: SimulatedProject, key: Json, project: Json) -> Json:
    thing = view.thing(TYPE, key, "block_storage.add_type_access")
    if thing[PUBLIC]:
        text = "Type access modification is not applicable to public volume type."
        raise CloudError("block_storage.add_type_access", f"Invalid volume type: {text}", 400)
    access = cast(list[Json], thing.setdefault("_access", []))
    if project in access:
        text = f"Volume type access for {thing['id']} / {project} combination already exists."
        raise CloudError("block_storage.add_type_access", text, 409)
    access.append(project)
    view.put(TYPE, thing)
    return None


def _remove_type_access(view: SimulatedProject, key: Json, project: Json) -> Json:
    thing = view.thing(TYPE, key, "block_storage.remove_type_access")
    access = cast(list[Json], thing.get("_access", []))
    if project not in access:
        text = f"Volume type access not found for {thing['id']} / {project} combination."
        raise CloudNotFound("block_storage.remove_type_access", text)
    access.remove(project)
    view.put(TYPE, thing)
    return None


def _create_type_encryption(view: SimulatedProject, volume_type: Json, **attributes: Json) -> Json:
    verb = "block_storage.create_type_encryption"
    thing = view.thing(TYPE, volume_type, verb)
    if "_encryption" in thing:
        raise CloudError(verb, f"Volume type encryption for type {thing['id']} already exists.", 400)
    made: JsonMap = {
        "encryption_id": view.simulation.new_id("block_storage.type_encryption"),
        "volume_type_id": thing["id"],
        "cipher": None,
        "key_size": None,
        "control_location": "front-end",
        **attributes,
    }
    thing["_encryption"] = made
    view.put(TYPE, thing)
    return made


def _get_type_encryption(view: SimulatedProject, volume_type: Json) -> Json:
    return cast(JsonMap, view.thing(TYPE, volume_type).get("_encryption", {}))


def _update_type_encryption(view: SimulatedProject, *, volume_type: Json, **attributes: Json) -> Json:
    thing, found = _encryption(view, "block_storage.update_type_encryption", volume_type)
    found.update(attributes)
    view.put(TYPE, thing)
    return found


def _delete_type_encryption(view: SimulatedProject, *, volume_type: Json) -> Json:
    thing, _ = _encryption(view, "block_storage.delete_type_encryption", volume_type)
    del thing["_encryption"]
    view.put(TYPE, thing)
    return None


def _encryption(view: SimulatedProject, verb: str, volume_type: Json) -> tuple[JsonMap, JsonMap]:
    thing = view.thing(TYPE, volume_type, verb)
    if "_encryption" not in thing:
        raise CloudNotFound(verb, f"Volume type encryption for type {thing['id']} does not exist.")
    return thing, cast(JsonMap, thing["_encryption"])


def _qos_made(_view: SimulatedProject, thing: JsonMap) -> None:
    known = {"id", "name", "consumer", "created_at", "specs"}
    thing["specs"] = texts("block_storage.create_qos_spec", {key: thing[key] for key in thing.keys() - known})
    for key in thing.keys() - known:
        del thing[key]


def _update_qos_spec(view: SimulatedProject, key: Json, **specs: Json) -> Json:
    thing = view.thing(QOS, key, "block_storage.update_qos_spec")
    consumer = specs.pop("consumer", None)
    if consumer is not None:
        thing["consumer"] = consumer
    cast(JsonMap, thing["specs"]).update(texts("block_storage.update_qos_spec", specs))
    return view.put(QOS, thing)


def _delete_qos_spec_metadata(view: SimulatedProject, key: Json, keys: Json) -> Json:
    verb = "block_storage.delete_qos_spec_metadata"
    thing = view.thing(QOS, key, verb)
    for name in cast(list[str], keys):
        if cast(JsonMap, thing["specs"]).pop(name, None) is None:
            raise CloudError(verb, f"QoS spec {thing['id']} has no spec with key {name}.", 404)
    view.put(QOS, thing)
    return None


def _qos_removed(view: SimulatedProject, thing: JsonMap) -> None:
    if any(kind.get("_qos_specs_id") == thing["id"] for kind in view.simulation.all(TYPE).values()):
        raise CloudError("block_storage.delete_qos_spec", "Qos specs still in use.", 400)


def _associate_qos_spec(view: SimulatedProject, key: Json, vol_type_id: Json) -> Json:
    verb = "block_storage.associate_qos_spec"
    thing, kind = view.thing(QOS, key, verb), view.thing(TYPE, vol_type_id, verb)
    if kind.get("_qos_specs_id") not in (None, thing["id"]):
        text = f"Type {kind['id']} is already associated with another qos specs: {kind['qos_specs_id']}"
        raise CloudError(verb, f"Invalid volume type: {text}", 400)
    kind["_qos_specs_id"] = thing["id"]
    view.put(TYPE, kind)
    return None


def _disassociate_qos_spec(view: SimulatedProject, key: Json, vol_type_id: Json) -> Json:
    verb = "block_storage.disassociate_qos_spec"
    thing, kind = view.thing(QOS, key, verb), view.thing(TYPE, vol_type_id, verb)
    if kind.get("_qos_specs_id") == thing["id"]:
        kind["_qos_specs_id"] = None
        view.put(TYPE, kind)
    return None


def _disassociate_all_qos_spec(view: SimulatedProject, key: Json) -> Json:
    thing = view.thing(QOS, key, "block_storage.disassociate_all_qos_spec")
    for kind in _associated(view, thing):
        kind["_qos_specs_id"] = None
        view.put(TYPE, kind)
    return None


def _qos_spec_associations(view: SimulatedProject, key: Json) -> Json:
    thing = view.thing(QOS, key, "block_storage.qos_spec_associations")
    return [
        {"id": kind["id"], "name": kind["name"], "association_type": "volume_type"} for kind in _associated(view, thing)
    ]


def _associated(view: SimulatedProject, qos: JsonMap) -> list[JsonMap]:
    return [kind for kind in view.simulation.all(TYPE).values() if kind.get("_qos_specs_id") == qos["id"]]


TYPES: Final = Collection(
    TYPE,
    {"description": None, "extra_specs": {}, "_qos_specs_id": None},
    required=("name",),
    owned=False,
    unique=True,
    made=_type_made,
    changed=_type_changed,
    removed=_type_removed,
)

COLLECTIONS: list[Collection] = [
    TYPES,
    Collection(QOS, {"consumer": "back-end"}, required=("name",), owned=False, unique=True, made=_qos_made,
               removed=_qos_removed),
]  # fmt: skip

VERBS: dict[str, Verb] = {
    "block_storage.types": _types,
    "block_storage.update_type_extra_specs": _update_type_extra_specs,
    "block_storage.delete_type_extra_specs": _delete_type_extra_specs,
    "block_storage.get_type_access": _get_type_access,
    "block_storage.add_type_access": _add_type_access,
    "block_storage.remove_type_access": _remove_type_access,
    "block_storage.create_type_encryption": _create_type_encryption,
    "block_storage.get_type_encryption": _get_type_encryption,
    "block_storage.update_type_encryption": _update_type_encryption,
    "block_storage.delete_type_encryption": _delete_type_encryption,
    "block_storage.update_qos_spec": _update_qos_spec,
    "block_storage.delete_qos_spec_metadata": _delete_qos_spec_metadata,
    "block_storage.associate_qos_spec": _associate_qos_spec,
    "block_storage.disassociate_qos_spec": _disassociate_qos_spec,
    "block_storage.disassociate_all_qos_spec": _disassociate_all_qos_spec,
    "block_storage.qos_spec_associations": _qos_spec_associations,
}


def furnish(view: SimulatedProject) -> None:
    """Create the default volume type."""
    view.call("block_storage.create_type", name=DEFAULT_TYPE, description="Default Volume Type")
