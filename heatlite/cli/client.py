"""Client of the API: answers as plain values, errors as Refused."""

import re
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import TYPE_CHECKING, cast
from urllib.parse import quote, unquote, urlencode, urlsplit

from msgspec import Struct

from heatlite.cli.errors import NO_ADDRESS, CommandError, Misuse, RefusedRequest
from heatlite.core.json import Json
from heatlite.core.redaction.masking import origin

if TYPE_CHECKING:
    from heatlite.cli.transport import ApiTransport, HttpAnswer

Object = Mapping[str, Json]

EVENT_PAGE = 1000
"""Events of one request."""


def split_endpoint(url: str, project: str | None) -> tuple[str, str]:
    """Split an endpoint into the server's address and the path of the project.

    Appends ``/v1/<project>`` (`default` if not given) to ``http://h:8004``. An endpoint with a version, as OS_ENDPOINT,
    stays as it is unless `project` is given. Raises Misuse.
    """
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
    except ValueError:
        raise Misuse(NO_ADDRESS.format(shown=origin(url))) from None
    base, version, given = parts.path.rstrip("/").partition("/v1")
    chosen = project or unquote(given.strip("/")) or "default"
    return f"{parts.scheme}://{parts.netloc}", f"{base}{version or '/v1'}/{quote(chosen, safe='')}"


def part(name: str) -> str:
    """Quote a name as one segment of a path."""
    return quote(name, safe="")


def text(value: Json) -> str:
    """Convert a field to text; null to an empty text."""
    return "" if value is None else str(value)


def objects(answer: Json, key: str) -> list[Object]:
    """Return the list of objects under `key` of an answer. Raises CommandError."""
    found = answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(found, list) or not all(isinstance(item, Mapping) for item in found):
        raise CommandError(f"The server's answer has no list of {key}; is it a Heat API?")
    return cast(list[Object], found)


def an_object(answer: Json, key: str | None = None) -> Object:
    """Return the answer, or its value under `key`, as an object. Raises CommandError."""
    found = answer if key is None else answer.get(key) if isinstance(answer, Mapping) else None
    if not isinstance(found, Mapping):
        raise CommandError(f"The server's answer has no {key or 'object'}; is it a Heat API?")
    return found


def counts_of(stack: Object) -> str:
    """Return the counts of a tree, as ``1 unhealthy, 2 suspected``; empty without any."""
    counts = an_object(stack, "health") if stack.get("health") else {}
    return ", ".join(f"{text(count)} {name.replace('_', ' ')}" for name, count in counts.items() if count)


def health_of(resource: Object) -> str:
    """Return the state of a resource's health; empty without one."""
    return text(an_object(resource, "health").get("state")) if resource.get("health") else ""


def with_facts(items: Sequence[Object], names: Sequence[str]) -> tuple[str, ...]:
    """Return the columns of a list, with those of features that tell something.

    After the health, since they are of its kind.
    """
    keys = dict.fromkeys(key for item in items for key in item if key not in names and fact_of(item, key))
    at = names.index("health") + 1
    return (*names[:at], *keys, *names[at:])


def fact_of(item: Object, key: str) -> str:
    """Return what a feature tells of a listed object: its state, or ``2 drifted``.

    Empty if there is no such key, or all its numbers are 0.
    """
    fact = item.get(key)
    numbers = fact.items() if isinstance(fact, Mapping) else ()
    counts = [f"{one} {name.replace('_', ' ')}" for name, one in numbers if type(one) is int and one > 0]
    if counts and isinstance(fact, Mapping) and "state" in fact:
        return text(fact["state"])
    if isinstance(fact, Mapping) and isinstance(left_out := fact.get("left_out"), list):
        return f"{key} ({len(left_out)})"
    return ", ".join(counts)


def _with_paths(resources: Sequence[Object]) -> list[Object]:
    """Return listed resources with their `path` below the stack."""
    holders = {text(one.get("physical_resource_id")): one for one in resources if _link(one, "nested")}

    def path(resource: Object) -> str:
        name, holder = text(resource.get("resource_name")), holders.get(_link(resource, "stack").rpartition("/")[2])
        return name if holder is None else f"{path(holder)}/{name}"

    return [
        listed
        for one in resources
        for listed in ({**one, "path": path(one)}, *({**old, "path": f"{path(one)} (old)"} for old in _old(one)))
    ]


def _old(resource: Object) -> Iterator[Object]:
    """Yield the old objects of a resource as resources, to be listed beside it."""
    for one in objects(resource, "left_over") if resource.get("left_over") else ():
        yield {**one, "resource_name": resource.get("resource_name"), "links": resource.get("links"), "is_old": True}


def _link(resource: Object, rel: str) -> str:
    """Return the address of a link; empty without one."""
    return next((text(link.get("href")) for link in objects(resource, "links") if link.get("rel") == rel), "")


class Stack(Struct, frozen=True):
    """A stack without outputs."""

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
        """True during an operation."""
        return self.status.endswith("_IN_PROGRESS")

    @property
    def failed(self) -> bool:
        """True if the last operation failed."""
        return self.status.endswith("_FAILED")


def _stack(fields: Object) -> Stack:
    return Stack(
        text(fields.get("stack_name")),
        text(fields.get("id")),
        text(fields.get("stack_status")),
        text(fields.get("stack_status_reason")),
        fields,
    )


def _message(answer: "HttpAnswer") -> str:
    """Return the message of an error in Heat's fault format or another form."""
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


def _kind(answer: "HttpAnswer") -> str:
    """Return the type of an error in Heat's fault format; "" in another form."""
    error = answer.data.get("error") if isinstance(answer.data, Mapping) else None
    return text(error.get("type")) if isinstance(error, Mapping) else ""


IGNORED = {
    "deleted": "it is being deleted, or has been",
    "no_change": "there is nothing to change",
    "not_marked": "it was not marked",
}
"""Words of the header `X-Heatlite-Ignored` → texts. Signals have others, which stand for themselves."""
MOST_COMPARED = 1000
"""Stacks whose names are compared with a misspelt one."""


UNKNOWN = re.compile(
    r"The (?P<entity>Stack|Resource|Resource Type) \((?P<name>.+)\) could not be found(?: in Stack (?P<stack>.+))?\."
)
"""Errors for unknown names, as Heat words them."""


def _hinted(error: RefusedRequest, name: str, known: Sequence[str]) -> RefusedRequest:
    """Return the error for an unknown name with similar ones."""
    from difflib import get_close_matches

    close = get_close_matches(name, known)
    return RefusedRequest(f"{error} Did you mean {' or '.join(close)}?", error.status, error.kind) if close else error


class Client:
    """The API of one project.

    Every method raises Refused for an error of the server, and Unreachable.
    """

    def __init__(self, transport: "ApiTransport", prefix: str) -> None:
        self._transport = transport
        self._prefix = prefix

    def request(
        self, method: str, path: str, body: Json = None, query: Mapping[str, str | Sequence[str]] | None = None
    ) -> Json:
        """Send a request to a path below the project. Returns the decoded answer."""
        target = f"{self._prefix}{path}"
        if query:
            target += f"?{urlencode(query, doseq=True)}"
        answer = self._transport.request(method, target, body)
        if answer.status == HTTPStatus.UNAUTHORIZED:
            raise RefusedRequest(self._transport.unauthorized() or _message(answer), answer.status)
        if answer.status >= 400:
            raise RefusedRequest(_message(answer), answer.status, _kind(answer))
        ignored = answer.headers.get("x-heatlite-ignored")
        if ignored is not None:
            print(f"Nothing was changed: {IGNORED.get(ignored, ignored)}.", file=sys.stderr)
        return answer.data

    def lacks_engine(self) -> bool:
        """Return True if the server says that its engine is not running."""
        return text(self._transport.request("GET", "/healthcheck", None).data).startswith("OK, ")

    # -- stacks --------------------------------------------------------------------------------

    def stacks(self, query: Mapping[str, str] | None = None) -> list[Object]:
        """List the stacks of the project, newest first. `query` filters them."""
        return objects(self.request("GET", "/stacks", query=query), "stacks")

    def names(self) -> dict[str, str]:
        """Map ids of stacks of the project to names, nested and deleted ones too."""
        every = {"show_nested": "true", "show_deleted": "true"}
        found = objects(self.request("GET", "/stacks", query=every), "stacks")
        return {text(one.get("id")): text(one.get("stack_name")) for one in found}

    def show(self, name: str) -> Object:
        """Return a stack by name or id, with outputs."""
        return an_object(self.request("GET", f"/stacks/{part(name)}"), "stack")

    def outputs(self, stack: Stack) -> list[Object]:
        """Return the outputs of a stack with their values."""
        shown = self.show(stack.id)
        return objects(shown, "outputs") if shown.get("outputs") else []

    def output(self, stack: Stack, key: str) -> Object:
        """Return one output of a stack."""
        try:
            return an_object(self.request("GET", f"{stack.path}/outputs/{part(key)}"), "output")
        except RefusedRequest as error:
            raise _hinted(error, key, [text(one.get("output_key")) for one in self.outputs(stack)]) from None

    def resource(self, stack: Stack, path: str) -> Object:
        """Return a resource with its attributes, by its path. Raises as `within`."""
        owner, name = self.within(stack, path)
        return an_object(self.request("GET", f"{owner.path}/resources/{part(name)}"), "resource")

    def find(self, name: str) -> Stack:
        """Return a stack by name or id."""
        query = {"resolve_outputs": "False"}
        return _stack(an_object(self.request("GET", f"/stacks/{part(name)}", query=query), "stack"))

    def resource_type(self, name: str) -> Object:
        """Return a resource type with its description."""
        return an_object(self.request("GET", f"/resource_types/{part(name)}", query={"with_description": "True"}))

    @contextmanager
    def suggesting(self) -> Iterator[None]:
        """Extend the error for an unknown stack, resource or type by similar names."""
        try:
            yield
        except RefusedRequest as error:
            found = UNKNOWN.match(str(error)) if error.status == HTTPStatus.NOT_FOUND else None
            if found is None:
                raise
            try:
                known = self._names_of(found["entity"], found["name"], found["stack"])
            except CommandError:  # the caller may not list them
                raise error from None
            raise _hinted(error, found["name"], known) from None

    def _names_of(self, entity: str, name: str, stack: str) -> list[str]:
        """Return the names that there are. Paths of resources go as deep as `name`."""
        if entity == "Stack":
            return [text(one.get("stack_name")) for one in self.stacks({"limit": str(MOST_COMPARED)})]
        if entity == "Resource":
            found = self.resources(self.find(stack), name.count("/"))
            return [text(one["path"]) for one in found if not one.get("is_old")]
        answer = self.request("GET", "/resource_types")
        listed = answer.get("resource_types") if isinstance(answer, Mapping) else None
        return list(map(text, listed)) if isinstance(listed, list) else []

    def find_or_none(self, name: str) -> Stack | None:
        """Return a stack by name or id, or None."""
        try:
            return self.find(name)
        except RefusedRequest as error:
            if error.status == 404:
                return None
            raise

    def again(self, stack: Stack) -> Stack | None:
        """Return the current state of the stack, or None once it is gone."""
        try:
            data = self.request("GET", stack.path, query={"resolve_outputs": "False"})
        except RefusedRequest as error:
            if error.status == 404:
                return None
            raise
        return _stack(an_object(data, "stack"))

    def plan(self, stack: Stack, operation: str, asked: Json) -> Object:
        """Return the plan of an operation of a stack with these options."""
        return an_object(self.request("PATCH", f"{stack.path}/preview", {operation: asked}, {"plan": "True"}), "plan")

    def action(self, stack: Stack, name: str, value: Json = None) -> None:
        """Start an action of the stack: lock, unlock …"""
        self.request("POST", f"{stack.path}/actions", {name: value})

    # -- what is in a stack ----------------------------------------------------------------------

    def within(self, stack: Stack, path: str) -> tuple[Stack, str]:
        """Return the stack that has a resource, and its name there.

        `path` leads through groups and nested stacks: ``web/2``. Raises CommandError for a resource without them.
        """
        *outer, name = path.split("/")
        for one in outer:
            shown = an_object(self.request("GET", f"{stack.path}/resources/{part(one)}"), "resource")
            if not _link(shown, "nested"):
                raise CommandError(
                    f"{one} of {stack.name} is neither a group nor a nested stack, so it has no resource {name}."
                    f" See: heatlite resources {stack.name} --nested 5"
                )
            stack = self.find(text(shown.get("physical_resource_id")))
        return stack, name

    def resources(self, stack: Stack, nested: int = 0) -> list[Object]:
        """List the resources of the stack, and of `nested` levels of stacks in it.

        Each has its `path` below the stack.
        """
        query = {"nested_depth": str(nested)} if nested else None
        return _with_paths(objects(self.request("GET", f"{stack.path}/resources", query=query), "resources"))

    def events(self, stack: Stack, after: str | None = None, nested: int = 0) -> list[Object]:
        """List the events of the stack, oldest first, after the event with the id `after`.

        `nested` is the number of levels of nested stacks to include.
        """
        query = {"sort_dir": "asc", "limit": str(EVENT_PAGE), **({"nested_depth": str(nested)} if nested else {})}
        found: list[Object] = []
        while True:
            if after is not None:
                query["marker"] = after
            page = objects(self.request("GET", f"{stack.path}/events", query=query), "events")
            found += page
            if len(page) < EVENT_PAGE:
                return found
            after = text(page[-1].get("id"))

    def last_event(self, stack: Stack, nested: int) -> str | None:
        """Return the id of the newest event, with `nested` levels of nested stacks."""
        query = {"sort_dir": "desc", "limit": "1", "nested_depth": str(nested)}
        found = objects(self.request("GET", f"{stack.path}/events", query=query), "events")
        return text(found[0].get("id")) if found else None


CONSEQUENCE = "aborted: another resource failed"
"""End of the reason of a resource that stopped because another one failed."""


def causes(failed: Sequence[Object]) -> list[Object]:
    """Return the failed resources that did not only stop with others.

    Returns all if none is left.
    """
    own = [item for item in failed if not text(item.get("resource_status_reason")).endswith(CONSEQUENCE)]
    return own or list(failed)


def failures(resources: Iterable[Object]) -> Iterator[Object]:
    """Yield the resources with a failed status."""
    return (item for item in resources if text(item.get("resource_status")).endswith("_FAILED"))
