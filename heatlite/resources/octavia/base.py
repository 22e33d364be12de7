"""Base of the load balancer service types.

A load balancer handles one request at a time. While it is PENDING_…, it rejects every change of its parts
("immutable", 409) and of itself ("Invalid state", 409). That is no failure: the request is retried until it is
accepted.
"""

from collections.abc import Callable
from typing import TypeVar, cast

from heatlite.clients.cloud import CloudConflict, CloudNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.plugin import Change, CloudResource, Schema
from heatlite.plugin.cloud import WentToError

P_co = TypeVar("P_co", bound=Schema, covariant=True)

ABOVE = {"l7policy": "l7_policy", "listener": "listener", "pool": "pool", "loadbalancer": "load_balancer"}
"""Property → the kind of the object that it names. The resource's object is a part of that."""

AT_WORK = ("immutable", "invalid state")
"""Texts of the rejections."""

AGAIN = 2.0
"""Seconds until a rejected request is retried."""


class OctaviaResource(CloudResource[P_co]):
    """Base of the types."""

    ready = frozenset({"ACTIVE"})
    unwell = frozenset({"DELETED"})

    def status_of(self, thing: JsonMap) -> str:
        return str(thing.get("provisioning_status") or "").upper()

    def _heard(self, ask: Callable[[], object]) -> bool:
        """True if a request was accepted.

        Raises CloudError on failure, WentToError if a retry is pointless.
        """
        try:
            ask()
        except CloudConflict as error:
            if not any(text in error.reason.lower() for text in AT_WORK):
                raise
            balancer = self._balancer()
            if self.status_of(balancer) in self.broken:
                text = (
                    f"the load balancer {balancer['id']} is in ERROR: nothing of it can be changed until it is mended"
                )
                raise WentToError(text) from error
            return False
        return True

    def _balancer(self) -> JsonMap:
        """Return the load balancer to which the object belongs. Raises CloudError."""
        properties = self.resolved({name: self.facts.properties.get(name) for name in ABOVE})
        above = [(noun, properties[name]) for name, noun in ABOVE.items() if properties.get(name) is not None]
        noun, key = above[0] if above else ("load_balancer", self.physical_id)
        thing = self.map(self.service(f"get_{noun}", key))
        if noun == "l7_policy":
            noun, thing = "listener", self.map(self.service("get_listener", thing["listener_id"]))
        if noun != "load_balancer":
            key = cast(list[JsonMap], thing["loadbalancers"])[0]["id"]
            thing = self.map(self.service("get_load_balancer", key))
        return thing

    def handle_create(self) -> Json:
        self._heard(super().handle_create)
        return None

    def check_create_complete(self, token: Json) -> bool | float:
        if self.physical_id is None:
            self.physical_id = self.find()  # it may have been accepted before a crash
        if self.physical_id is None:
            self.handle_create()
            return AGAIN
        return self.is_ready()

    def handle_update(self, change: Change) -> Json:
        self.data["update"] = self.update_args(change)
        self._update()
        return None

    def _update(self) -> None:
        args = cast(JsonMap, self.data["update"])
        if not args or self._heard(lambda: self.service(f"update_{self.noun}", *self.address, **args)):
            del self.data["update"]

    def check_update_complete(self, token: Json) -> bool | float:
        if "update" in self.data:
            self._update()
            return AGAIN
        return self.is_ready()

    def handle_delete(self) -> Json:
        self.data["deleting"] = self._heard(super().handle_delete)
        return None

    def check_delete_complete(self, token: Json) -> bool | float:
        if self.physical_id is None:
            return True
        try:
            thing = self.fetch()
        except CloudNotFound:
            return True
        status = self.status_of(thing)
        if status == "DELETED":
            return True
        if not self.data.get("deleting"):
            self.handle_delete()
            return AGAIN
        if status in self.broken:
            raise WentToError(self.why(thing, "delete"))
        return False
