"""P/schedules: what will happen by itself in a project."""

import math

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import page, page_size
from heatlite.api.handlers.stacks import UUID
from heatlite.api.request import Request
from heatlite.core.clock import to_text
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.features.schedules.api import views
from heatlite.features.schedules.store.store import SchedulesStore
from heatlite.features.schedules.store.upcoming import SOURCES, ListPlace, UpcomingEntry, place_of, upcoming
from heatlite.store.store import Store

MAX_PAGE = 200


class ProjectSchedules:
    """P/schedules."""

    def __init__(self, store: Store) -> None:
        self._store = store
        self._rows = store.of(SchedulesStore)

    def on_get(self, req: Request, resp: Response) -> None:
        """List what will happen by itself, the next first."""
        limit, project = page_size(req, MAX_PAGE), req.caller.project
        found = upcoming(self._store.database, project, self._stack_id(req), _marker(req), limit + 1)
        last = self._rows.last([one.id for one in found if one.kind == "schedule"])
        begun = self._store.actions.by_id([one.id for one in found if one.kind in ("action", "series")])

        def show(entry: UpcomingEntry) -> JsonMap:
            action = begun.get(entry.id)
            return {
                "kind": entry.kind,
                "id": entry.id,
                "name": entry.name if action is None else action.name,
                "stack_name": entry.stack_name,
                "stack_id": entry.stack_id,
                "do": entry.do if action is None else {action.word.partition("_")[2].lower(): {}},
                "cron": entry.cron,
                "timezone": entry.timezone,
                "next_at": to_text(entry.next_at),
                "owner": entry.owner,
                "enabled": entry.enabled,
                "last": views.last(last.get(entry.id)),
            }

        resp.media = page(req, "schedules", found, limit, show, _written)

    def _stack_id(self, req: Request) -> str | None:
        """Return the id of the stack that the query names by name or id; None: all."""
        given = query.text(req, "stack")
        if given is None or UUID.fullmatch(given):
            return given
        found = self._store.stacks.by_name(req.caller.project, given)
        return given if found is None else found.id


def _written(entry: UpcomingEntry) -> str:
    place = place_of(entry)
    return f"{place.next_at!r}/{place.kind}/{place.id}"


def _marker(req: Request) -> ListPlace | None:
    """Return the place after which the page begins. Raises HTTPBadRequest."""
    given = query.text(req, "marker")
    if given is None:
        return None
    at, _, rest = given.partition("/")
    kind, _, entry_id = rest.partition("/")
    try:
        moment = float(at)
    except ValueError:
        moment = math.nan
    if math.isnan(moment) or kind not in SOURCES or not entry_id:
        raise HTTPBadRequest(f"marker: {given!r} is none of this list. Take it from the link to the next page.")
    return ListPlace(moment, kind, entry_id)
