"""The API's answers as plain values, and its refusals as Refused."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import cast
from urllib.parse import quote, unquote, urlencode, urlsplit

from heatlite.cli.errors import CommandError, Refused
from heatlite.cli.transport import Answer, Transport
from heatlite.core.json import Json

Object = Mapping[str, Json]


def split_endpoint(url: str, project: str | None) -> tuple[str, str]:
    """An endpoint's server and the path that all requests begin with.

    ``http://h:8004`` gets ``/v1/<project>`` appended (project `default` if not given); one that already names a
    version, as OS_ENDPOINT does, is taken as it is unless another project is asked for.
    """
    parts = urlsplit(url if "://" in url else f"http://{url}")
    base, version, given = parts.path.rstrip("/").partition("/v1")
    chosen = project or unquote(given.strip("/")) or "default"
    return f"{parts.scheme}://{parts.netloc}", f"{base}{version or '/v1'}/{quote(chosen, safe='')}"


def part(name: str) -> str:
    """A name as one part of a path."""
    return quote(name, safe="")


def text(value: Json) -> str:
    """A field as text; null is the empty text."""
    return "" if value is None else str(value)


def objects(answer: Json, key: str) -> list[Object]:
    """The list of objects that an answer carries under `key`."""
    found = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise CommandError(f"The server's answer has no list of {key}; is it a Heat API?")
    return cast(list[Object], found)


def an_object(answer: Json, key: str | None = None) -> Object:
    """The object that an answer is, or carries under `key`."""
    found = answer if key is None else answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(found, Mapping):
        raise CommandError(f"The server's answer has no {key or 'object'}; is it a Heat API?")
    return found


def health_of(resource: Object) -> str:
    """The health of a resource beside its status: ``unknown``; "" where there is nothing to say."""
    return text(an_object(resource, "health").get("state")) if resource.get("health") else ""


@dataclass(frozen=True, slots=True)
class Stack:
    """A stack as `show` tells it, without outputs."""

    name: str
    id: str
    status: str
    status_reason: str
    fields: Object

    @property
    def path(self) -> str:
        """``/stacks/<name>/<id>``."""
        return f"/stacks/{part(self.name)}/{part(self.id)}"

    @property
    def in_progress(self) -> bool:
        """Whether something is being done to the stack."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def failed(self) -> bool:
        """Whether what was last done to it failed."""
        return self.status.endswith("_FAILED")


def _stack(fields: Object) -> Stack:
    return Stack(
        text(fields.get("stack_name")),
        text(fields.get("id")),
        text(fields.get("stack_status")),
        text(fields.get("stack_status_reason")),
        fields,
    )


def _message(answer: Answer) -> str:
    """What an error says, from Heat's fault format or whatever else came."""
    if isinstance(answer.data, Mapping):
        error = answer.data.get("error")
        if isinstance(error, Mapping):
            message = error.get("message") or error.get("type")
            if message:
                return str(message)
        for key in ("message", "explanation", "description", "title"):
            if answer.data.get(key):
                return str(answer.data[key])
    return f"The server answered {answer.status}."


class Client:
    """The API of one project. Every method raises Refused where the server says no, Unreachable where none is."""

    def __init__(self, transport: Transport, prefix: str) -> None:
        self._transport = transport
        self._prefix = prefix

    def request(self, method: str, path: str, body: Json = None, query: Mapping[str, str] | None = None) -> Json:
        """One request below the project. Returns the decoded answer."""
        target = f"{self._prefix}{path}"
        if query:
            target += f"?{urlencode(query)}"
        answer = self._transport.request(method, target, body)
        if answer.status >= 400:
            raise Refused(_message(answer), answer.status)
        return answer.data

    # -- stacks --------------------------------------------------------------------------------

    def stacks(self) -> list[Object]:
        """All stacks of the project, newest first."""
        return objects(self.request("GET", "/stacks"), "stacks")

    def show(self, name: str) -> Object:
        """A stack by name or id, with outputs."""
        return an_object(self.request("GET", f"/stacks/{part(name)}"), "stack")

    def find(self, name: str) -> Stack:
        """A stack by name or id."""
        query = {"resolve_outputs": "False"}
        return _stack(an_object(self.request("GET", f"/stacks/{part(name)}", query=query), "stack"))

    def find_or_none(self, name: str) -> Stack | None:
        """A stack by name or id, None if there is none."""
        try:
            return self.find(name)
        except Refused as error:
            if error.status == 404:
                return None
            raise

    def again(self, stack: Stack) -> Stack | None:
        """How the stack stands now; None once it is gone."""
        try:
            data = self.request("GET", stack.path, query={"resolve_outputs": "False"})
        except Refused as error:
            if error.status == 404:
                return None
            raise
        return _stack(an_object(data, "stack"))

    def action(self, stack: Stack, name: str, value: Json = None) -> None:
        """One of the stack's actions: lock, unlock …"""
        self.request("POST", f"{stack.path}/actions", {name: value})

    # -- what is in a stack ----------------------------------------------------------------------

    def resources(self, stack: Stack) -> list[Object]:
        """The stack's resources."""
        return objects(self.request("GET", f"{stack.path}/resources"), "resources")

    def events(self, stack: Stack, after: str | None = None, nested: int = 0) -> list[Object]:
        """The stack's events, oldest first; only those after the event with the id `after`. With those of so many
        levels of nested stacks."""
        query = {"sort_dir": "asc", **({"nested_depth": str(nested)} if nested else {})}
        if after is not None:
            query["marker"] = after
        return objects(self.request("GET", f"{stack.path}/events", query=query), "events")

    def last_event(self, stack: Stack, nested: int = 0) -> str | None:
        """The id of the newest event."""
        query = {"sort_dir": "desc", "limit": "1", **({"nested_depth": str(nested)} if nested else {})}
        found = objects(self.request("GET", f"{stack.path}/events", query=query), "events")
        return text(found[0].get("id")) if found else None


def failures(resources: Iterable[Object]) -> Iterator[Object]:
    """Those resources whose status is a failure."""
    return (item for item in resources if text(item.get("resource_status")).endswith("_FAILED"))
