"""Verbs of services without sufficient SDK support, as plain REST requests.

`RestTables` describe them: kinds of objects with the regular verbs, and single requests. Both use the SDK's connection,
which brings authentication, catalog, timeouts and errors.
"""

import re
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
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

    name: str
    """The SDK's name of its type, the first part of its verbs."""
    version: str
    """Part of the path that a catalog may leave out."""
    headers: Mapping[str, str] = {}


LOAD_BALANCER: Final = Service("load_balancer", "/v2.0")
MESSAGING: Final = Service("messaging", "/v2", {"Client-ID": str(uuid.uuid4())})


class ObjectKind(Struct, frozen=True):
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


class RestCall(Struct, frozen=True):
    """A single request whose attributes are its body, or its query where it has none."""

    method: str
    path: str
    """Path; ``{}`` stands for each argument."""
    body: str = ""
    """Attribute that is the whole body; text is sent as it is."""
    content_type: str = "application/json"
    in_query: bool = False
    """True if the attributes are the query, though the method has a body."""


def request(
    connection: "Connection",
    service: Service,
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

    adapter = _adapter(connection, service)
    if not VERSIONED.search(adapter.get_endpoint() or ""):
        path = service.version + path
    # Mistral refuses to answer a text with JSON if only JSON is accepted, and does so if anything is.
    headers = {"Accept": "application/json" if content_type != TEXT else "*/*", **service.headers}
    data = None if body is None else body if isinstance(body, str) else dump(body)
    if data is not None:
        headers["Content-Type"] = content_type
    answer = adapter.request(path, method, headers=headers, params=query, data=data)
    raise_from_response(answer)
    return cast(JsonMap | list[JsonMap], answer.json() if answer.content else {})


def _adapter(connection: "Connection", service: Service) -> "Proxy":
    adapter = connection.config.get_session_client(service.name.replace("_", "-"))
    # Otherwise each call would ask for versions first, which some of the services do not tell.
    adapter.version = adapter.min_version = adapter.max_version = None
    return adapter


def _endpoint(service: Service, connection: "Connection") -> str:
    """Return the URL of a service with the version of its API."""
    url = str(_adapter(connection, service).get_endpoint() or "").rstrip("/")
    return url if VERSIONED.search(url) else url + service.version


class Objects:
    """The regular verbs of one kind."""

    def __init__(self, service: Service, noun: str, kind: ObjectKind) -> None:
        self._service = service
        self._noun = noun
        self._kind = kind

    def verbs(self) -> Iterator[tuple[str, Callable[..., object]]]:
        """Yield each verb's name and function."""
        for verb in ("create", "get", "find", "update", "delete"):
            yield f"{self._service.name}.{verb}_{self._noun}", getattr(self, verb)
        yield f"{self._service.name}.{self._noun}s", self.list

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


def _send(
    service: Service, call: RestCall, connection: "Connection", *arguments: str, **attributes: Json
) -> JsonMap | list[JsonMap]:
    path = call.path.format(*arguments)
    if call.in_query or call.method in ("GET", "DELETE"):
        return request(connection, service, call.method, path, query=attributes)
    body = attributes[call.body] if call.body else attributes
    return request(connection, service, call.method, path, body, content_type=call.content_type)


class RestTables(Struct, frozen=True):
    """Services in plain REST."""

    services: Sequence[Service]
    kinds: Mapping[str, ObjectKind] = {}
    """Objects by ``service.noun``, the end of their verbs."""
    calls: Mapping[str, RestCall] = {}
    """Requests by their verb."""

    def verbs(self) -> Iterator[tuple[str, Callable[..., object]]]:
        """Yield the verbs of all services with the function of each."""
        services = {one.name: one for one in self.services}
        for name, kind in self.kinds.items():
            service, _, noun = name.partition(".")
            yield from Objects(services[service], noun, kind).verbs()
        for verb, call in self.calls.items():
            yield verb, partial(_send, services[verb.partition(".")[0]], call)
        for one in self.services:
            yield f"{one.name}.endpoint", partial(_endpoint, one)


CORE: Final = RestTables(
    services=(
        LOAD_BALANCER,
        MESSAGING,
    ),
    kinds={
        # The SDK gives objects without an id, and sends quotas by old names.
        "load_balancer.availability_zone": ObjectKind(
            "/lbaas/availabilityzones", "availability_zone", "availability_zones", key="name"
        ),
        "load_balancer.quota": ObjectKind("/lbaas/quotas", "quota", "quotas", key="project_id"),
        "messaging.queue": ObjectKind("/queues", many="queues", key="name"),
    },
    calls={
        "messaging.delete_message": RestCall("DELETE", "/queues/{}/messages/{}"),
        "messaging.messages": RestCall("GET", "/queues/{}/messages"),
        "messaging.post_messages": RestCall("POST", "/queues/{}/messages"),
        "messaging.put_queue": RestCall("PUT", "/queues/{}", "metadata"),
    },
)
"""Services of the core's types."""
