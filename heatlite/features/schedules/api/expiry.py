"""S/expiry: when a stack ends by itself."""

from http import HTTPStatus
from typing import Annotated

from falcon import Response
from msgspec import Meta

from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.clock import from_text
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import Json, whole_numbers
from heatlite.core.validation import all_faults, convert
from heatlite.core.wire.base import Body, Time
from heatlite.engine.state.requests import MAX_SPAN
from heatlite.features.schedules.expiry.operations import ExpiryOperations, WantedExpiry
from heatlite.features.schedules.expiry.state import LEAST_AHEAD, Then
from heatlite.features.schedules.store.expiries import shown


class ExpiryBody(Body, frozen=True):
    """The expiry of a stack."""

    expires_at: Time
    """Time of the end (ISO 8601; without a zone UTC), at least a minute ahead."""
    then: Then = Then.DELETE
    """``delete`` the stack, or ``suspend`` it."""
    warn_before: Annotated[
        tuple[Annotated[int, Meta(ge=LEAST_AHEAD, le=MAX_SPAN)], ...], Meta(min_length=1, max_length=5)
    ] = (86_400, 3600)
    """Seconds before the time at which an event warns: 1 to 5 numbers, each at least 60."""


class StackExpiry:
    """S/expiry."""

    def __init__(self, finder: StackFinder, operations: ExpiryOperations) -> None:
        self._finder = finder
        self._operations = operations

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show the expiry of a stack."""
        found = self._operations.get(self._finder.find_live(req, stack_name, stack_id))
        resp.media = {"expiry": shown(found)}

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Set the expiry of a stack."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        resp.media = {"expiry": shown(self._operations.put(req.caller, stack, expiry(bodies.read(req))))}

    def on_delete(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Remove the expiry of a stack."""
        self._operations.delete(req.caller, self._finder.find_live(req, stack_name, stack_id))
        resp.status = HTTPStatus.NO_CONTENT


def expiry(value: Json) -> WantedExpiry:
    """Return the expiry of a body. Raises HTTPBadRequest with all its faults."""
    value = whole_numbers(value)
    found = all_faults(value, ExpiryBody)
    if found:
        raise HTTPBadRequest(" ".join(found))
    given = convert(value, ExpiryBody)
    return WantedExpiry(from_text(given.expires_at), given.then, given.warn_before)
