"""Compute verbs that the SDK does not offer as JSON in and out."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from openstack.connection import Connection

WITH_FILES: Final = "2.56"
"""Last microversion that injects files into a server."""


def _create_server(connection: "Connection", **attributes: Json) -> object:
    from openstack.compute.v2.server import Server

    version = WITH_FILES if "personality" in attributes else None
    return Server.new(**attributes).create(connection.compute, microversion=version)


def _set_server_tags(connection: "Connection", key: str, tags: list[str]) -> object:
    """Set all tags at once.

    The SDK's verb for one tag would also add it to servers created later.
    """
    from openstack.compute.v2.server import Server

    return Server.new(id=key).set_tags(connection.compute, tags)


def _set_server_metadata(connection: "Connection", key: str, metadata: JsonMap) -> object:
    """Set a server's metadata; the SDK's verb mistakes the keys for its own arguments."""
    from openstack.compute.v2.server import Server

    return Server.new(id=key).set_metadata(connection.compute, metadata=metadata)


def _set_aggregate_metadata(connection: "Connection", key: str, metadata: JsonMap) -> object:
    """Set an aggregate's metadata, as for servers."""
    from openstack.compute.v2.aggregate import Aggregate

    return Aggregate.new(id=key).set_metadata(connection.compute, metadata=metadata)


def _create_server_image(connection: "Connection", key: str, name: str) -> object:
    """Create an image of a server and return its id.

    The SDK's verb would search it in all images.
    """
    from openstack.compute.v2.server import Server

    made = Server.new(id=key).create_image(connection.compute, name)
    return cast(Json, {"id": made})


def _get_limits(connection: "Connection") -> object:
    """Return the limits of the project.

    The SDK warns of each field that Nova has given up.
    """
    from openstack.exceptions import raise_from_response

    answer = connection.compute.get("/limits")
    raise_from_response(answer)
    return answer.json()["limits"]


OTHERWISE: Final[Mapping[str, Callable[..., object]]] = {
    "compute.create_server": _create_server,
    "compute.set_server_tags": _set_server_tags,
    "compute.set_server_metadata": _set_server_metadata,
    "compute.set_aggregate_metadata": _set_aggregate_metadata,
    "compute.create_server_image": _create_server_image,
    "compute.get_limits": _get_limits,
}
