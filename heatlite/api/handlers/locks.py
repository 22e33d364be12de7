"""The maintenance lock of a stack, and what it kept from happening."""

from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from wsgiref.types import WSGIApplication

from falcon import Response

from heatlite.api import views
from heatlite.api.handlers.handler import Handler, Rooms
from heatlite.api.request import REPLAY, Request
from heatlite.core.context import Replay
from heatlite.core.errors import NotFound
from heatlite.core.json import dump
from heatlite.store.records import StackRecord, SuppressedRecord


class Lock(Handler):
    """S/lock and below. `app` is the application itself: a replay is a request to it."""

    def __init__(self, rooms: Rooms, app: WSGIApplication) -> None:
        super().__init__(rooms)
        self._app = app

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The lock and the suppressed requests."""
        stack = self.find_live(req, stack_name, stack_id)
        holder = next((one for one in (stack, *self.store.stacks.ancestors(stack)) if one.lock is not None), None)
        suppressed, dropped = self.maintenance.listed(stack)
        tree = {one.id: one.name for one in (stack, *self.store.stacks.descendants(stack))}
        resp.media = views.lock(stack, holder, suppressed, dropped, tree)

    def on_delete_suppressed(
        self, req: Request, resp: Response, stack_name: str, stack_id: str, suppressed_id: str
    ) -> None:
        """Forget one suppressed request."""
        stack = self.find_live(req, stack_name, stack_id)
        self.maintenance.drop_suppressed(req.caller, stack, entry_id(suppressed_id))
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_replay(self, req: Request, resp: Response, stack_name: str, stack_id: str, suppressed_id: str) -> None:
        """Make a suppressed request again and answer as it does; once it has gone through, it is off the list."""
        stack = self.find_live(req, stack_name, stack_id)
        target, entry, replay = self.maintenance.replay(req.caller, stack, entry_id(suppressed_id))
        written: list[bytes] = []

        def start_response(
            status: str, headers: list[tuple[str, str]], exc_info: object = None, /
        ) -> Callable[[bytes], object]:
            resp.status = status
            resp.set_headers(headers)
            return written.append

        chunks = self._app(original(req, target, entry, replay), start_response)
        resp.data = b"".join([*written, *chunks])
        if resp.status_code < HTTPStatus.BAD_REQUEST:
            self.maintenance.replayed(req.caller, entry, replay)


def entry_id(text: str) -> int:
    """The number of an entry. Raises NotFound."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NotFound(entity="Suppressed request", name=text)
    return int(text)


def original(req: Request, stack: StackRecord, entry: SuppressedRecord, replay: Replay) -> dict[str, object]:
    """The suppressed request, with the headers of the one that replays it."""
    body = b"" if entry.body is None else dump(entry.body).encode()
    path = f"/v1/{stack.project}/stacks/{stack.name}/{stack.id}{entry.path}"
    return {
        **req.env,
        REPLAY: replay,
        "REQUEST_METHOD": entry.method,
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": "",
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
    }
