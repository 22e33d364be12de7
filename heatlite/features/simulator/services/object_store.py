"""Simulated object store (Swift).

Containers are maps of headers, as the service returns them.
"""

import hashlib
from typing import Final, cast

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.features.simulator.collection import Collection
from heatlite.features.simulator.simulation import SimulatedProject, Verb

CONTAINER: Final = "object_store.container"
ACCOUNT: Final = "object_store.account"
ENDPOINT: Final = "https://object-store.simulated/v1/AUTH_"


def _create_container(view: SimulatedProject, name: Json, **headers: Json) -> Json:
    """Create a container, or update the headers of an existing one."""
    key = f"{view.project}/{name}"
    thing = view.simulation.all(CONTAINER).get(key) or {
        "id": key, "name": name, "project_id": view.project, "_headers": {}, "_objects": {},
    }  # fmt: skip
    kept = cast(JsonMap, thing["_headers"])
    for header, value in headers.items():
        kept[header.lower()] = value
    view.put(CONTAINER, thing)
    return {"name": name}


def _get_container_metadata(view: SimulatedProject, name: Json) -> Json:
    thing = _container(view, "get_container_metadata", name)
    objects = cast(dict[str, JsonMap], thing["_objects"])
    return {
        **cast(JsonMap, thing["_headers"]),
        "x-container-object-count": str(len(objects)),
        "x-container-bytes-used": str(sum(cast(int, one["bytes"]) for one in objects.values())),
    }


def _containers(view: SimulatedProject, **_: Json) -> Json:
    own = [one for one in view.things(CONTAINER) if one["project_id"] == view.project]
    return [{"name": one["name"], "count": len(cast(JsonMap, one["_objects"]))} for one in own]


def _delete_container(view: SimulatedProject, name: Json) -> Json:
    thing = _container(view, "delete_container", name)
    if thing["_objects"]:
        text = "There was a conflict when trying to complete your request."
        raise CloudConflict("object_store.delete_container", text)
    view.drop(CONTAINER, thing)
    return None


def _objects(view: SimulatedProject, container: Json, limit: Json = None) -> Json:
    thing = _container(view, "objects", container)
    found = cast(dict[str, JsonMap], thing["_objects"])
    return [found[name] for name in sorted(found)][: cast(int | None, limit)]


def _create_object(view: SimulatedProject, container: Json, name: Json, data: Json = "", **_: Json) -> Json:
    thing = _container(view, "create_object", container)
    content = str(data).encode()
    made: JsonMap = {
        "name": name,
        "bytes": len(content),
        "hash": hashlib.md5(content, usedforsecurity=False).hexdigest(),
        "content_type": "application/octet-stream",
        "_data": str(data),
    }
    objects = cast(dict[str, JsonMap], thing["_objects"])
    if str(name) in objects and cast(JsonMap, thing["_headers"]).get("x-versions-location") == container:
        versions = sum(one.startswith(f"{len(str(name)):03x}") for one in objects)
        earlier = f"{len(str(name)):03x}{name}/{versions:016d}"
        objects[earlier] = {**objects[str(name)], "name": earlier}
    objects[str(name)] = made
    view.put(CONTAINER, thing)
    return made


def _download_object(view: SimulatedProject, name: Json, container: Json = None) -> Json:
    objects = cast(dict[str, JsonMap], _container(view, "download_object", container)["_objects"])
    if str(name) not in objects:
        raise CloudNotFound("object_store.download_object", f"{container}/{name}: Not Found")
    return objects[str(name)]["_data"]


def _delete_object(view: SimulatedProject, name: Json, container: Json = None) -> Json:
    thing = _container(view, "delete_object", container)
    if cast(JsonMap, thing["_objects"]).pop(str(name), None) is None:
        raise CloudNotFound("object_store.delete_object", f"{container}/{name}: Not Found")
    view.put(CONTAINER, thing)
    return None


def _set_account_metadata(view: SimulatedProject, **metadata: Json) -> Json:
    thing = view.simulation.all(ACCOUNT).get(view.project, {"id": view.project, "project_id": view.project})
    view.put(ACCOUNT, {**thing, **metadata})
    return None


def _get_endpoint(view: SimulatedProject) -> Json:
    return ENDPOINT + view.project


def _container(view: SimulatedProject, verb: str, name: Json) -> JsonMap:
    found = view.simulation.all(CONTAINER).get(f"{view.project}/{name}")
    if found is None:
        raise CloudNotFound(f"object_store.{verb}", f"Container {name}: Not Found")
    return found


COLLECTIONS: list[Collection] = []

VERBS: dict[str, Verb] = {
    "object_store.create_container": _create_container,
    "object_store.get_container_metadata": _get_container_metadata,
    "object_store.containers": _containers,
    "object_store.delete_container": _delete_container,
    "object_store.objects": _objects,
    "object_store.create_object": _create_object,
    "object_store.delete_object": _delete_object,
    "object_store.download_object": _download_object,
    "object_store.set_account_metadata": _set_account_metadata,
    "object_store.get_endpoint": _get_endpoint,
}


def furnish(view: SimulatedProject) -> None:
    """Create nothing: the store is empty at first."""
