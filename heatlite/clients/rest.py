"""Verbs of services without sufficient SDK support, as plain REST requests.

Two tables describe them: `KINDS` has objects with the regular verbs, `CALLS` single requests. Both use the SDK's
connection, which brings authentication, catalog, timeouts and errors.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import TYPE_CHECKING, Final, cast

from msgspec import Struct

from heatlite.core.json import Json, JsonMap, dump

if TYPE_CHECKING:
    from openstack.connection import Connection
    from openstack.proxy import Proxy

VERSIONED: Final = re.compile(r"/v\d[\d.]*(/|$)")
"""URL of a catalog that contains the version of the API already."""

TEXT: Final = "text/plain"


class Service(Struct, frozen=True):
    """A service of the catalog."""

    version: str
    """Part of the path that a catalog may leave out."""
    headers: Mapping[str, str] = {}


SERVICES: Final[Mapping[str, Service]] = {
    "alarming": Service("/v2"),
    "baremetal": Service("/v1", {"X-OpenStack-Ironic-API-Version": "1.58"}),
    "container": Service("/v1", {"OpenStack-API-Version": "container 1.12"}),
    "container_infra": Service("/v1"),
    "database": Service("/v1.0"),
    "identity": Service("/v3"),
    "load_balancer": Service("/v2.0"),
    "messaging": Service("/v2", {"Client-ID": str(uuid.uuid4())}),
    "network": Service("/v2.0"),
    "reservation": Service("/v1"),
    "shared_file_system": Service("/v2", {"X-OpenStack-Manila-API-Version": "2.13"}),
    "workflow": Service("/v2"),
}
"""Services by the first part of their verbs, which is an SDK's name of their type."""


class Kind(Struct, frozen=True):
    """A kind of object with the regular verbs."""

    path: str
    """Path of the list; ``{}`` stands for the id of each parent object."""
    one: str = ""
    """Key of an object in bodies; "": the body is the object."""
    many: str = ""
    """Key of the list of objects; "": the body is the list."""
    detail: str = ""
    """Path of the list with all attributes, below `path`."""
    key: str = "id"
    """Attribute that identifies an object."""
    creation: str = ""
    """Query of a creation."""
    change: str = "PUT"
    """HTTP method of an update; JSON-PATCH: a PATCH with a list of operations."""
    bare: bool = False
    """True if requests contain the object without its key `one`."""


KINDS: Final[Mapping[str, Kind]] = {
    "alarming.alarm": Kind("/alarms", key="alarm_id"),
    "baremetal.node": Kind("/nodes", many="nodes", key="uuid"),
    "baremetal.port": Kind("/ports", many="ports", key="uuid", change="JSON-PATCH"),
    "baremetal.port_group": Kind("/portgroups", many="portgroups", key="uuid"),
    "container.container": Kind(
        "/containers", many="containers", key="uuid", creation="?run=true", change="PATCH"
    ),
    "container_infra.cluster": Kind("/clusters", many="clusters", key="uuid", change="JSON-PATCH"),
    "container_infra.cluster_template": Kind(
        "/clustertemplates", many="clustertemplates", key="uuid", change="JSON-PATCH"
    ),
    "database.cluster": Kind("/clusters", "cluster", "clusters"),
    "database.flavor": Kind("/flavors", "flavor", "flavors", key="str_id"),  # `id` is null unless it is a number
    "database.instance": Kind("/instances", "instance", "instances", change="PATCH"),
    "identity.ec2_credential": Kind(
        "/users/{}/credentials/OS-EC2", "credential", "credentials", key="access", bare=True
    ),
    # The SDK gives objects without an id, and sends quotas by old names.
    "load_balancer.availability_zone": Kind(
        "/lbaas/availabilityzones", "availability_zone", "availability_zones", key="name"
    ),
    "load_balancer.quota": Kind("/lbaas/quotas", "quota", "quotas", key="project_id"),
    "messaging.queue": Kind("/queues", many="queues", key="name"),
    "messaging.subscription": Kind(
        "/queues/{}/subscriptions", many="subscriptions", key="subscription_id", change="PATCH"
    ),
    "network.l2_gateway": Kind("/l2-gateways", "l2_gateway", "l2_gateways"),
    "network.l2_gateway_connection": Kind(
        "/l2-gateway-connections", "l2_gateway_connection", "l2_gateway_connections"
    ),
    "network.metering_label_rule": Kind(  # the SDK warns of remote_ip_prefix
        "/metering/metering-label-rules", "metering_label_rule", "metering_label_rules"
    ),
    "reservation.host": Kind("/os-hosts", "host", "hosts", bare=True),
    "reservation.lease": Kind("/leases", "lease", "leases", bare=True),
    "shared_file_system.security_service": Kind(
        "/security-services", "security_service", "security_services", "/detail"
    ),
    "shared_file_system.share": Kind("/shares", "share", "shares", "/detail"),
    "shared_file_system.share_network": Kind("/share-networks", "share_network", "share_networks", "/detail"),
    "shared_file_system.share_snapshot": Kind("/snapshots", "snapshot", "snapshots"),
    "shared_file_system.share_type": Kind("/types", "share_type", "share_types"),
    "workflow.cron_trigger": Kind("/cron_triggers", many="cron_triggers", key="name"),
    "workflow.execution": Kind("/executions", many="executions"),
    "workflow.workflow": Kind("/workflows", many="workflows"),
}


class Call(Struct, frozen=True):
    """A single request whose attributes are its body, or its query where it has none."""

    method: str
    path: str
    """Path; ``{}`` stands for each argument."""
    body: str = ""
    """Attribute that is the whole body; text is sent as it is."""
    content_type: str = "application/json"
    in_query: bool = False
    """True if the attributes are the query, though the method has a body."""


CALLS: Final[Mapping[str, Call]] = {
    "container.attach_container_network": Call("POST", "/containers/{}/network_attach", in_query=True),
    "container.detach_container_network": Call("POST", "/containers/{}/network_detach", in_query=True),
    "database.act_on_instance": Call("POST", "/instances/{}/action"),
    "database.change_user": Call("PUT", "/instances/{}/users/{}"),
    "database.create_databases": Call("POST", "/instances/{}/databases"),
    "database.create_users": Call("POST", "/instances/{}/users"),
    "database.delete_database": Call("DELETE", "/instances/{}/databases/{}"),
    "database.delete_user": Call("DELETE", "/instances/{}/users/{}"),
    "database.grant_databases": Call("PUT", "/instances/{}/users/{}/databases"),
    "database.revoke_database": Call("DELETE", "/instances/{}/users/{}/databases/{}"),
    "load_balancer.set_members": Call("PUT", "/lbaas/pools/{}/members"),
    "messaging.delete_message": Call("DELETE", "/queues/{}/messages/{}"),
    "messaging.messages": Call("GET", "/queues/{}/messages"),
    "messaging.patch_queue": Call(
        "PATCH", "/queues/{}", "changes", "application/openstack-messaging-v2.0-json-patch"
    ),
    "messaging.post_messages": Call("POST", "/queues/{}/messages"),
    "messaging.put_queue": Call("PUT", "/queues/{}", "metadata"),
    "messaging.share_queue": Call("POST", "/queues/{}/share"),
    "shared_file_system.act_on_share": Call("POST", "/shares/{}/action"),
    "shared_file_system.act_on_share_network": Call("POST", "/share-networks/{}/action"),
    "shared_file_system.delete_share_type_spec": Call("DELETE", "/types/{}/extra_specs/{}"),
    "shared_file_system.export_locations": Call("GET", "/shares/{}/export_locations"),
    "shared_file_system.security_services_of": Call("GET", "/security-services?share_network_id={}"),
    "shared_file_system.set_share_metadata": Call("PUT", "/shares/{}/metadata"),
    "shared_file_system.set_share_type_specs": Call("POST", "/types/{}/extra_specs"),
    "workflow.define_workflow": Call("POST", "/workflows", "definition", TEXT),
    "workflow.redefine_workflow": Call("PUT", "/workflows", "definition", TEXT),
}


def request(
    connection: "Connection",
    service: str,
    method: str,
    path: str,
    body: Json = None,
    query: Mapping[str, Json] | None = None,
    content_type: str = "application/json",
) -> JsonMap | list[JsonMap]:
    """Send a request and return the answer, empty without a body.

    A body is sent as JSON unless it is text. Raises the SDK's errors.
    """
    from openstack.exceptions import raise_from_response

    known, adapter = SERVICES[service], _adapter(connection, service)
    if not VERSIONED.search(adapter.get_endpoint() or ""):
        path = known.version + path
    # Mistral refuses to answer a text with JSON if only JSON is accepted, and does so if anything is.
    headers = {"Accept": "application/json" if content_type != TEXT else "*/*", **known.headers}
    data = None if body is None else body if isinstance(body, str) else dump(body)
    if data is not None:
        headers["Content-Type"] = content_type
    answer = adapter.request(path, method, headers=headers, params=query, data=data)
    raise_from_response(answer)
    return cast(JsonMap | list[JsonMap], answer.json() if answer.content else {})


def _adapter(connection: "Connection", service: str) -> "Proxy":
    adapter = connection.config.get_session_client(service.replace("_", "-"))
    # Otherwise each call would ask for versions first, which some of the services do not tell.
    adapter.version = adapter.min_version = adapter.max_version = None
    return adapter


def _endpoint(service: str, connection: "Connection") -> str:
    """Return the URL of a service with the version of its API."""
    url = str(_adapter(connection, service).get_endpoint() or "").rstrip("/")
    return url if VERSIONED.search(url) else url + SERVICES[service].version


class Objects:
    """The regular verbs of one kind."""

    def __init__(self, name: str, kind: Kind) -> None:
        self._service, _, self._noun = name.partition(".")
        self._kind = kind

    def verbs(self) -> Iterator[tuple[str, Callable[..., object]]]:
        """Yield each verb's name and function."""
        for verb in ("create", "get", "find", "update", "delete"):
            yield f"{self._service}.{verb}_{self._noun}", getattr(self, verb)
        yield f"{self._service}.{self._noun}s", self.list

    def _ask(
        self, connection: "Connection", method: str, path: str, body: Json = None, query: JsonMap | None = None
    ) -> JsonMap:
        return cast(JsonMap, request(connection, self._service, method, path, body, query))

    def _identified(self, thing: JsonMap, asked: str | None = None) -> JsonMap:
        found = thing.get(self._kind.key, thing.get("id", asked))
        if found is None:
            raise KeyError(self._kind.key)
        return {**thing, "id": found}

    def _inner(self, answer: JsonMap) -> JsonMap:
        return cast(JsonMap, answer[self._kind.one]) if self._kind.one else answer

    def _wrapped(self, attributes: JsonMap) -> Json:
        return {self._kind.one: attributes} if self._kind.one and not self._kind.bare else attributes

    def create(self, connection: "Connection", *whole: str, **attributes: Json) -> JsonMap:
        """Create an object."""
        path = self._kind.path.format(*whole) + self._kind.creation
        answer = self._ask(connection, "POST", path, self._wrapped(attributes))
        return self._identified(self._inner(answer))

    def get(self, connection: "Connection", key: str, *whole: str) -> JsonMap:
        """Return an object by its id."""
        return self._identified(
            self._inner(self._ask(connection, "GET", f"{self._kind.path.format(*whole)}/{key}")), key
        )

    def list(self, connection: "Connection", *whole: str, **query: Json) -> list[JsonMap]:
        """List the objects; those that lack the attributes of the query are left out."""
        answer = request(connection, self._service, "GET", self._kind.path.format(*whole) + self._kind.detail)
        found = cast(list[JsonMap], answer[self._kind.many] if isinstance(answer, dict) else answer)
        things = [self._identified(one) for one in found]
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
        self._ask(connection, "DELETE", f"{self._kind.path.format(*whole)}/{key}", query=query)


def _send(name: str, connection: "Connection", *arguments: str, **attributes: Json) -> JsonMap | list[JsonMap]:
    call, service = CALLS[name], name.partition(".")[0]
    path = call.path.format(*arguments)
    if call.in_query or call.method in ("GET", "DELETE"):
        return request(connection, service, call.method, path, query=attributes)
    body = attributes[call.body] if call.body else attributes
    return request(connection, service, call.method, path, body, content_type=call.content_type)


OTHERWISE: Final[Mapping[str, Callable[..., object]]] = {
    **{verb: carry_out for name, kind in KINDS.items() for verb, carry_out in Objects(name, kind).verbs()},
    **{name: partial(_send, name) for name in CALLS},
    **{f"{service}.endpoint": partial(_endpoint, service) for service in SERVICES},
}
