"""Rebuild and resize of a server, in steps that never wait for the service."""

from collections.abc import Callable
from typing import Any, Final, cast

from heatlite.clients.cloud import CloudError
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import CloudResource

IDLE: Final = frozenset({"ACTIVE", "SHUTOFF"})
HALTED: Final = frozenset({"PAUSED", "SUSPENDED", "SHELVED", "SHELVED_OFFLOADED", "RESCUE"})
"""States that last until another request; the service neither rebuilds nor resizes a server in them."""
TASK: Final = "OS-EXT-STS:task_state"


class ServerChanges:
    """The changes of one server.

    The server's `data` holds in `doing` the request that was made and may not be finished.
    """

    def __init__(self, server: CloudResource[Any]) -> None:
        self._server = server
        self._data = server.data

    def rebuilt(self, thing: JsonMap, status: str, image: Callable[[], str], arguments: Callable[[], JsonMap]) -> bool:
        """Begin or check the rebuild with this image. True if it is done.

        Raises CloudError if it failed.
        """
        if self._data.get("doing") == "rebuild":
            if status == "ERROR":
                raise self._failure("compute.rebuild_server", thing, "rebuild")
            return status in IDLE
        if status not in IDLE and status != "ERROR":
            return False
        self._server.service("rebuild_server", self._server.physical_id, image(), **arguments())
        self._data["doing"] = "rebuild"
        return False

    def resized(self, thing: JsonMap, status: str, flavor: str) -> bool:
        """Resize to a flavor and confirm. True if both are done.

        Raises CloudError if the resize failed.
        """
        if status == "VERIFY_RESIZE":
            if self._data.get("doing") != "confirm":
                self._confirm()
            return False
        if status not in IDLE:
            if status == "ERROR":
                raise self._failure("compute.resize_server", thing, "resize")
            return False
        if flavor_name(thing) == self._server.map(self._server.service("get_flavor", flavor))["name"]:
            return True
        if self._data.get("doing") is not None:
            why = self._server.why(thing, "resize")
            raise CloudError("compute.resize_server", f"the server has its old flavor: {why}")
        self._server.service("resize_server", self._server.physical_id, flavor)
        self._data["doing"] = "flavor"
        return False

    def _confirm(self) -> None:
        try:
            self._server.service("confirm_server_resize", self._server.physical_id)
        except CloudError as error:
            if error.status not in (400, 409):
                raise
            return  # an interrupted attempt has confirmed it, as its status will tell, or the next check asks again
        self._data["doing"] = "confirm"

    def _failure(self, verb: str, thing: JsonMap, what: str) -> CloudError:
        return CloudError(verb, f"its status is {self._server.why(thing, what)}")


def flavor_name(thing: JsonMap) -> Json:
    """Return the name of a server's flavor, which the service embeds."""
    flavor = cast(JsonMap, thing["flavor"])
    return flavor.get("original_name") or flavor.get("name")
