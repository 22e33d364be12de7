"""Show a lock; drop or replay the requests that it suppressed.

`stack_actions.py` sets and lifts the lock.
"""

from collections.abc import Callable
from http import HTTPStatus
from io import BytesIO
from wsgiref.types import WSGIApplication

from falcon import Response

from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import REPLAY, Request
from heatlite.api.wire import views
from heatlite.core.context import Replay
from heatlite.core.errors import NotFound
from heatlite.core.json import dump
from heatlite.engine.operations.maintenance_lock import MaintenanceLock
from heatlite.store.records import StackRecord, SuppressedRecord
from heatlite.store.store import Store


class Lock:
    """The lock of a stack, and the requests that it suppressed."""

    def __init__(self, finder: StackFinder, store: Store, maintenance: MaintenanceLock, app: WSGIApplication) -> None:
        """`app` is the application itself: a replay is a request to it."""
        self._finder = finder
        self._store = store
        self._maintenance = maintenance
        self._app = app

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show the lock and the suppressed requests."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        holder = next((one for one in (stack, *self._store.stacks.ancestors(stack)) if one.lock is not None), None)
        suppressed, dropped = self._maintenance.listed(stack)
        tree = {one.id: one.name for one in (stack, *self._store.stacks.descendants(stack))}
        resp.media = views.lock(stack, holder, suppressed, dropped, tree)

    def on_delete_suppressed(
        self, req: Request, resp: Response, stack_name: str, stack_id: str, suppressed_id: str
    ) -> None:
        """Drop a suppressed request."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        self._maintenance.drop_suppressed(req.caller, stack, entry_id(suppressed_id))
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_replay(self, req: Request, resp: Response, stack_name: str, stack_id: str, suppressed_id: str) -> None:
        """Repeat a suppressed request and return its answer.

        A success removes it from the list.
        """
        stack = self._finder.find_live(req, stack_name, stack_id)
        target, entry, replay = self._maintenance.replay(req.caller, stack, entry_id(suppressed_id))
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
            self._maintenance.replayed(req.caller, entry, replay)


def entry_id(text: str) -> int:
    """Return the number of an entry. Raises NotFound."""
    if not (text.isascii() and text.isdecimal() and len(text) < 19):
        raise NotFound(entity="Suppressed request", name=text)
    return int(text)


def original(req: Request, stack: StackRecord, entry: SuppressedRecord, replay: Replay) -> dict[str, object]:
    """Return the WSGI environment of the suppressed request.

    Its headers are those of the replaying request.
    """
    body = b"" if entry.body is None else dump(entry.body).encode()
    path = f"/v1/{stack.project}/stacks/{stack.name}/{stack.id}{entry.path}"
    return {
        **req.env,
        REPLAY: replay,
        "REQUEST_METHOD": entry.method,
        "PATH_INFO": path.encode().decode("latin-1"),
        "QUERY_STRING": entry.query,
        "CONTENT_TYPE": "application/json",
        "CONTENT_LENGTH": str(len(body)),
        "wsgi.input": BytesIO(body),
    }
