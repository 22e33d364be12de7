"""Image, volume and object verbs that the SDK does not offer as JSON in and out."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final
from urllib.parse import quote

from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from openstack.connection import Connection

PATCH: Final = {"Content-Type": "application/openstack-images-v2.1-json-patch", "Accept": ""}


def _create_image(connection: "Connection", **attributes: Json) -> object:
    """Create an image without the SDK's verb.

    That verb adds properties and looks for a file of that name.
    """
    from openstack.image.v2.image import Image

    return Image.new(**attributes).create(connection.image)


def _update_image(connection: "Connection", key: str, **attributes: Json) -> object:
    """Update an image by a JSON patch.

    Null removes a property; the SDK's verb would store the null.
    """
    present = connection.image.get_image(key).to_dict(original_names=True, computed=False)
    names = present.keys() | (present.get("properties") or {}).keys()
    changes: list[Json] = []
    for name, value in attributes.items():
        if value is not None:
            changes.append({"op": "add", "path": f"/{name}", "value": value})
        elif name in names:
            changes.append({"op": "remove", "path": f"/{name}"})
    _sent(connection, "image", "patch", f"/images/{key}", json=changes, headers=PATCH)
    return connection.image.get_image(key)


def _import_image(connection: "Connection", key: str, method: str, uri: str) -> None:
    """Import an image by id.

    The SDK's verb needs the image object and does not raise errors; the same holds for the next two verbs.
    """
    body = {"method": {"name": method, "uri": uri}}
    _sent(connection, "image", "post", f"/images/{key}/import", json=body)


def _deactivate_image(connection: "Connection", key: str) -> None:
    _sent(connection, "image", "post", f"/images/{key}/actions/deactivate")


def _reactivate_image(connection: "Connection", key: str) -> None:
    _sent(connection, "image", "post", f"/images/{key}/actions/reactivate")


def _update_type(connection: "Connection", key: str, **attributes: Json) -> object:
    """Update a volume type.

    The API names its visibility differently here than in a creation.
    """
    _sent(connection, "block_storage", "put", f"/types/{key}", json={"volume_type": attributes})
    return connection.block_storage.get_type(key)


def _create_container(connection: "Connection", name: str, **headers: str) -> JsonMap:
    """Create a container with the given headers."""
    _sent(connection, "object_store", "put", f"/{quote(name)}", headers=headers)
    return {"name": name}


def _container_metadata(connection: "Connection", name: str) -> JsonMap:
    answer = _sent(connection, "object_store", "head", f"/{quote(name)}")
    return {key.lower(): value for key, value in answer.items()}


def _quoting(verb: str) -> Callable[..., object]:
    """Return a verb for objects whose names may have any characters.

    The SDK puts names into the path as they are, and hides the 404 of a deletion.
    """
    hides = {"ignore_missing": False} if verb.startswith("delete_") else {}

    def call(connection: "Connection", *names: str, **more: str) -> object:
        if "container" in more:
            more["container"] = quote(more["container"])
        return getattr(connection.object_store, verb)(*map(quote, names), **more, **hides)

    return call


def _sent(connection: "Connection", service: str, method: str, path: str, **more: object) -> Mapping[str, str]:
    """Send a request and return the headers of the answer. Raises the SDK's errors."""
    from openstack.exceptions import raise_from_response

    response = getattr(getattr(connection, service), method)(path, **more)
    raise_from_response(response)
    headers: Mapping[str, str] = response.headers
    return headers


OTHERWISE: Final[Mapping[str, Callable[..., object]]] = {
    "image.create_image": _create_image,
    "image.update_image": _update_image,
    "image.import_image": _import_image,
    "image.deactivate_image": _deactivate_image,
    "image.reactivate_image": _reactivate_image,
    "block_storage.update_type": _update_type,
    "object_store.create_container": _create_container,
    "object_store.get_container_metadata": _container_metadata,
    **{
        f"object_store.{verb}": _quoting(verb)
        for verb in ("delete_container", "objects", "create_object", "delete_object", "download_object")
    },
}
