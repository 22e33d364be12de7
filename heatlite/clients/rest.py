"""Verbs of services without sufficient SDK support, as plain REST requests.

Two tables describe them: `KINDS` has objects with the regular verbs, `CALLS` single requests. Both use the SDK's
connection, which brings authentication, catalog, timeouts and errors.
"""

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from openstack.connection import Connection

VERSIONED: Final = re.compile(r"/v\d[\d.]*(/|$)")
"""URL of a catalog that contains the version of the API already."""


@dataclass(frozen=True, slots=True)
class Service:
    """A service of the catalog."""

    version: str
    """Part of the path that a catalog may leave out."""
    headers: Mapping[str, str] = field(default_factory=dict)


SERVICES: Final[Mapping[str, Service]] = {
    "alarming": Service("/v2"),
    "load_balancer": Service("/v2.0"),
    "network": Service("/v2.0"),
}
"""Services by the first part of their verbs, which is an SDK's name of their type."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of object with the regular verbs."""

    path: str
    """Path of the list; ``{}`` stands for the id of each parent object."""
    one: str = ""
    """Key of an object in bodies; "": the body is the object."""
    many: str = ""
    """Key of the list of objects; "": the body is the list."""
    plural: str = ""
    """Name of the verb that lists; "": the noun with an s."""
    key: str = "id"
    """Attribute that identifies an object."""
    change: str = "PUT"
    """HTTP method of an update; JSON-PATCH: a PATCH with a list of operations."""
    bare: bool = False
    """True if requests contain the object without its key `one`."""


KINDS: Final[Mapping[str, Kind]] = {
    "alarming.alarm": Kind("/alarms", key="alarm_id"),
    # The SDK gives objects without an id, and sends quotas by old names.
    "load_balancer.availability_zone": Kind(
        "/lbaas/availabilityzones", "availability_zone", "availability_zones", key="name"
    ),
    "load_balancer.quota": Kind("/lbaas/quotas", "quota", "quotas", key="project_id"),
    "network.fwaas_firewall": Kind("/fw/firewalls", "firewall", "firewalls"),
    "network.fwaas_policy": Kind(
        "/fw/firewall_policies", "firewall_policy", "firewall_policies", plural="fwaas_policies"
    ),
    "network.fwaas_rule": Kind("/fw/firewall_rules", "firewall_rule", "firewall_rules"),
    "network.l2_gateway": Kind("/l2-gateways", "l2_gateway", "l2_gateways"),
    "network.l2_gateway_connection": Kind(
        "/l2-gateway-connections", "l2_gateway_connection", "l2_gateway_connections"
    ),
    "network.metering_label_rule": Kind(  # the SDK warns of remote_ip_prefix
        "/metering/metering-label-rules", "metering_label_rule", "metering_label_rules"
    ),
    "network.network_gateway": Kind("/network-gateways", "network_gateway", "network_gateways"),
}


@dataclass(frozen=True, slots=True)
class Call:
    """A single request whose attributes are its body, or its query where it has none."""

    method: str
    path: str
    """Path; ``{}`` stands for each argument."""


CALLS: Final[Mapping[str, Call]] = {
    "network.connect_network_gateway": Call("PUT", "/network-gateways/{}/connect_network"),
    "network.disconnect_network_gateway": Call("PUT", "/network-gateways/{}/disconnect_network"),
}


def request(
    connection: "Connection", service: str, method: str, path: str, body: Json = None, **query: Json
) -> JsonMap | list[JsonMap]:
    """Send a request and return the answer, empty without a body.

    Raises the SDK's errors.
    """
    from openstack.exceptions import raise_from_response

    known = SERVICES[service]
    adapter = connection.config.get_session_client(service.replace("_", "-"))
    if not VERSIONED.search(adapter.get_endpoint() or ""):
        path = known.version + path
    headers = {"Accept": "application/json", **known.headers}
    answer = adapter.request(path, method, headers=headers, params=query, json=body)
    raise_from_response(answer)
    return cast(JsonMap | list[JsonMap], answer.json() if answer.content else {})


class Objects:
    """The regular verbs of one kind."""

    def __init__(self, name: str, kind: Kind) -> None:
        self._service, _, self._noun = name.partition(".")
        self._kind = kind

    def verbs(self) -> Iterator[tuple[str, Callable[..., object]]]:
        """Yield each verb's name and function."""
        for verb in ("create", "get", "find", "update", "delete"):
            yield f"{self._service}.{verb}_{self._noun}", getattr(self, verb)
        yield f"{self._service}.{self._kind.plural or f'{self._noun}s'}", self.list

    def _ask(self, connection: "Connection", method: str, path: str, body: Json = None, **query: Json) -> JsonMap:
        return cast(JsonMap, request(connection, self._service, method, path, body, **query))

    def _one(self, said: JsonMap) -> JsonMap:
        found = cast(JsonMap, said[self._kind.one] if self._kind.one else said)
        return {**found, "id": found[self._kind.key]}

    def _wrapped(self, attributes: JsonMap) -> Json:
        return {self._kind.one: attributes} if self._kind.one and not self._kind.bare else attributes

    def create(self, connection: "Connection", *whole: str, **attributes: Json) -> JsonMap:
        """Create an object."""
        return self._one(self._ask(connection, "POST", self._kind.path.format(*whole), self._wrapped(attributes)))

    def get(self, connection: "Connection", key: str, *whole: str) -> JsonMap:
        """Return an object by its id."""
        return self._one(self._ask(connection, "GET", f"{self._kind.path.format(*whole)}/{key}"))

    def list(self, connection: "Connection", *whole: str, **query: Json) -> list[JsonMap]:
        """List the objects; those that lack the attributes of the query are left out."""
        said = request(connection, self._service, "GET", self._kind.path.format(*whole))
        found = cast(list[JsonMap], said[self._kind.many] if isinstance(said, dict) else said)
        things = [{**one, "id": one[self._kind.key]} for one in found]
        return [one for one in things if all(one.get(name) == value for name, value in query.items())]

    def find(self, connection: "Connection", name_or_id: str) -> JsonMap | None:
        """Return the object of this id or name, or None. Raises DuplicateResource."""
        from openstack.exceptions import DuplicateResource

        things = self.list(connection)
        by_id = [one for one in things if one["id"] == name_or_id]
        found = by_id or [one for one in things if one.get("name") == name_or_id]
        if len(found) > 1:
            raise DuplicateResource
        return found[0] if found else None

    def update(self, connection: "Connection", key: str, *whole: str, **attributes: Json) -> JsonMap:
        """Update an object."""
        path, method = f"{self._kind.path.format(*whole)}/{key}", self._kind.change
        if method != "JSON-PATCH":
            return self._ask(connection, method, path, self._wrapped(attributes))
        changes: list[Json] = [
            {"op": "remove", "path": f"/{name}"}
            if value is None
            else {"op": "replace", "path": f"/{name}", "value": value}
            for name, value in attributes.items()
        ]
        return self._ask(connection, "PATCH", path, changes)

    def delete(self, connection: "Connection", key: str, *whole: str, **query: Json) -> None:
        """Delete an object."""
        self._ask(connection, "DELETE", f"{self._kind.path.format(*whole)}/{key}", **query)


def _send(name: str, connection: "Connection", *arguments: str, **attributes: Json) -> JsonMap | list[JsonMap]:
    call, service = CALLS[name], name.partition(".")[0]
    path = call.path.format(*arguments)
    if call.method in ("GET", "DELETE"):
        return request(connection, service, call.method, path, **attributes)
    return request(connection, service, call.method, path, attributes)


OTHERWISE: Final[Mapping[str, Callable[..., object]]] = {
    **{verb: carry_out for name, kind in KINDS.items() for verb, carry_out in Objects(name, kind).verbs()},
    **{name: partial(_send, name) for name in CALLS},
}
