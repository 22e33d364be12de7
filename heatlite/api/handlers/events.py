"""The events of a stack, as a list or as a stream."""


from falcon import Response
from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.event_streams import Streams
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.wire import views
from heatlite.core.errors import EventNotFound, HTTPBadRequest
from heatlite.core.wire.events import Event
from heatlite.engine.types.outputs import StackReader
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store

EVENT_STREAM = "text/event-stream"

OF_RESOURCE_KEYS = (
    "resource_name", "resource_action", "resource_status", "resource_type", "sort_keys", "sort_key", "sort_dir",
    "limit", "marker", "nested_depth",
)  # fmt: skip
LIST_KEYS = (*OF_RESOURCE_KEYS, "stream")

MAX_EVENTS = 10_000
"""Events of a list. A large tree has millions; the marker leads on."""


def event_query(req: Request, resource_names: tuple[str, ...]) -> EventQuery:
    """Read the query of a list.

    No names: the events of all resources and of the stack.
    """
    return EventQuery(
        resource_name=resource_names,
        resource_action=query.values(req, "resource_action"),
        resource_status=query.values(req, "resource_status"),
        resource_type=query.values(req, "resource_type"),
        sort_keys=(*query.values(req, "sort_keys"), *query.values(req, "sort_key")),  # the second is the SDK's
        sort_dir=query.direction(req) or "desc",
        limit=query.number(req, "limit", blank=True),
        marker=query.text(req, "marker", blank=True),
    )


def check_name(req: Request, path: str) -> None:
    """Raise HTTPBadRequest if the query names another resource than the path.

    openstacksdk sends the name in both.
    """
    if not {path}.issuperset(query.values(req, "resource_name")):
        raise HTTPBadRequest(f"resource_name is another one than that of the path, {path}. Omit it.")


class Events:
    """S/events, S/resources/{resource_name}/events and below."""

    def __init__(self, finder: StackFinder, store: Store, reader: StackReader, streams: Streams) -> None:
        self._finder = finder
        self._store = store
        self._reader = reader
        self._streams = streams

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List events, newest first; or stream them, oldest first, with all later ones."""
        asked = event_query(req, query.values(req, "resource_name"))
        stack = self._finder.find(req, stack_name, stack_id)
        if query.flag(req, "stream") or EVENT_STREAM in (req.get_header("Accept") or ""):
            asked = replace(asked, marker=req.get_header("Last-Event-ID") or asked.marker)
            resp.stream = self._streams.follow(req, stack, query.number(req, "nested_depth") or 0, asked)
            set_stream(resp)
        else:
            resp.media = {"events": self._list(req, stack, asked)}

    def on_get_of_resource(
        self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str
    ) -> None:
        """List the events of a resource."""
        stack, name = self._reader.place_at(self._finder.find(req, stack_name, stack_id), resource_name)
        check_name(req, resource_name)
        asked = event_query(req, (name,))
        events = self._list(req, stack, asked)
        if not events and asked.marker is None:
            raise EventNotFound(f"No events found for resource {resource_name}")
        resp.media = {"events": events}

    def on_get_one(
        self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str, event_id: str
    ) -> None:
        """Show an event."""
        stack, name = self._reader.place_at(self._finder.find(req, stack_name, stack_id), resource_name)
        record = self._store.events.get(stack.id, event_id)
        if record is None or record.resource_name != name:
            raise EventNotFound(event_id=event_id)
        detail = views.event_detail(views.stack_url(req.base, stack), record)
        # The properties are as old as the event: what they referred to is not recorded.
        detail["resource_properties"] = self._reader.masks(req.caller, stack)("").json(record.properties)
        resp.media = {"event": detail}

    def _list(self, req: Request, stack: StackRecord, asked: EventQuery) -> list[Event]:
        url = views.stack_url(req.base, stack)
        asked = replace(asked, limit=MAX_EVENTS if asked.limit is None else min(asked.limit, MAX_EVENTS))
        depth = query.number(req, "nested_depth")
        if not depth:
            return [views.event(url, record) for record in self._store.events.list(stack.id, asked)]
        names = self._store.stacks.nested(stack.id, depth)
        urls = {key: views.url_of(req.base, stack.project, name, key) for key, name in names.items()} | {stack.id: url}
        records = self._store.events.list(stack.id, asked, list(names))
        return [views.event(urls[record.stack_id], record, root=url) for record in records]


class ProjectEvents:
    """P/events."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def on_get(self, req: Request, resp: Response) -> None:
        """Stream the events of all stacks: from now on, or after ``Last-Event-ID``."""
        marker = req.get_header("Last-Event-ID") or query.text(req, "marker")
        resp.stream = self._streams.follow_project(req, req.caller.project, marker)
        set_stream(resp)


def set_stream(resp: Response) -> None:
    """Set the headers of an event stream. nginx would collect its messages otherwise."""
    resp.content_type = EVENT_STREAM
    resp.cache_control = ("no-store",)
    resp.set_header("X-Accel-Buffering", "no")
