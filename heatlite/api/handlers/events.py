"""What has happened to a stack."""

from dataclasses import replace

from falcon import Response

from heatlite.api import query, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.request import Request
from heatlite.core.errors import EventNotFound
from heatlite.core.json import JsonMap
from heatlite.store.records import StackRecord
from heatlite.store.stacks.events import EventQuery

EVENT_STREAM = "text/event-stream"


def event_query(req: Request, resource_names: tuple[str, ...]) -> EventQuery:
    """What a list asks for; without names: for the events of everything."""
    return EventQuery(
        resource_name=resource_names,
        resource_action=query.values(req, "resource_action"),
        resource_status=query.values(req, "resource_status"),
        resource_type=query.values(req, "resource_type"),
        sort_keys=query.values(req, "sort_keys"),
        sort_dir=query.direction(req) or "desc",
        limit=query.number(req, "limit", blank=True),
        marker=query.text(req, "marker", blank=True),
    )


class Events(Handler):
    """S/events, and S/resources/{resource_name}/events and below."""

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The events of a stack, newest first; or, as a stream, oldest first and those to come."""
        asked = event_query(req, query.values(req, "resource_name"))
        stack = self.find(req, stack_name, stack_id)
        if query.flag(req, "stream") or EVENT_STREAM in (req.get_header("Accept") or ""):
            asked = replace(asked, marker=req.get_header("Last-Event-ID") or asked.marker)
            resp.stream = self.streams.follow(req, stack, query.number(req, "nested_depth") or 0, asked)
            resp.content_type = EVENT_STREAM
            resp.cache_control = ("no-store",)
        else:
            resp.media = {"events": self._list(req, stack, asked)}

    def on_get_of_resource(
        self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str
    ) -> None:
        """The events of one resource."""
        asked = event_query(req, (resource_name,))
        events = self._list(req, self.find(req, stack_name, stack_id), asked)
        if not events and asked.marker is None:
            raise EventNotFound(f"No events found for resource {resource_name}")
        resp.media = {"events": events}

    def on_get_one(
        self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str, event_id: str
    ) -> None:
        """One event."""
        stack = self.find(req, stack_name, stack_id)
        record = self.store.events.get(stack.id, event_id)
        if record is None or record.resource_name != resource_name:
            raise EventNotFound(event_id=event_id)
        detail = views.event_detail(views.stack_url(req.base, stack), record)
        # The properties are those of that time: what they referred to is not known any more.
        detail["resource_properties"] = self.reading.masks(req.caller, stack)("").json(record.properties)
        resp.media = {"event": detail}

    def _list(self, req: Request, stack: StackRecord, asked: EventQuery) -> list[JsonMap]:
        url = views.stack_url(req.base, stack)
        depth = query.number(req, "nested_depth")
        if not depth:
            return [views.event(url, record) for record in self.store.events.list(stack.id, asked)]
        names = self.store.stacks.nested(stack.id, depth)
        urls = {key: views.url_of(req.base, stack.project, name, key) for key, name in names.items()} | {stack.id: url}
        records = self.store.events.list(stack.id, asked, list(names))
        return [views.event(urls[record.stack_id], record, root=url) for record in records]
