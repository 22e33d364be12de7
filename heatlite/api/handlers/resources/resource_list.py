"""Lists of the resources of a stack, whole or in pages."""

from collections.abc import Callable, Iterator, Sequence
from itertools import islice

from msgspec import Struct
from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.handlers.common import ListBudget, next_page
from heatlite.api.request import Request
from heatlite.api.wire import health_views, views
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import Mask
from heatlite.engine.state.values import left_over
from heatlite.engine.types.outputs import Above, StackReader
from heatlite.store.database.sql import IN_LIMIT
from heatlite.store.records import HealthNote, ResourceRecord, StackPlace, StackRecord
from heatlite.store.stacks.resource_query import ResourceQuery
from heatlite.store.store import Store

FILTERS = ("type", "status", "name", "action", "id", "physical_resource_id")
LIST_KEYS = (*FILTERS, "health", "nested_depth", "with_detail", "limit", "marker")
HEALTH = ("unhealthy", "unknown", "suspected")
"""States of health of a resource that a list shows."""


class ListQuery(Struct, frozen=True):
    """A query for a list of resources."""

    filters: ResourceQuery
    health: frozenset[str]
    """The states of health of the resources; empty: any."""
    depth: int
    detailed: bool
    limit: int | None
    marker: str | None

    @property
    def in_pages(self) -> bool:
        """True for a page, which has another order than the whole list."""
        return self.limit is not None or self.marker is not None

    @property
    def is_whole(self) -> bool:
        """True for all resources: neither filters nor pages."""
        return not self.in_pages and not self.health and self.filters.accepts_all


def list_query(req: Request) -> ListQuery:
    """Read the query of a list. Raises HTTPBadRequest."""
    given = query.filters(req, FILTERS)
    return ListQuery(
        filters=ResourceQuery(
            type=given.get("type", ()),
            status=given.get("status", ()),
            name=given.get("name", ()),
            action=given.get("action", ()),
            id=given.get("id", ()),
            physical_resource_id=given.get("physical_resource_id", ()),
        ),
        health=frozenset(query.several_of(req, "health", {one: one for one in HEALTH})),
        depth=query.number(req, "nested_depth") or 0,
        detailed=query.flag(req, "with_detail"),
        limit=query.number(req, "limit", blank=True),
        marker=query.text(req, "marker", blank=True),
    )


class Found(Struct, frozen=True):
    """A resource of a list, its stack and the notes on its health."""

    stack: StackRecord
    row: ResourceRecord
    notes: Sequence[HealthNote]
    nests: bool


class ResourceList:
    """Lists resources.

    The whole list is in the order of creation, stack by stack. Pages are by name within a stack: that order has an
    index, so a page costs the same in a large stack.
    """

    def __init__(self, store: Store, reader: StackReader) -> None:
        self._store = store
        self._reader = reader

    def of(self, req: Request, stack: StackRecord, asked: ListQuery) -> JsonMap:
        """Return the list that a query asks for.

        Raises HTTPBadRequest for an unknown marker.
        """
        limit = asked.limit
        if limit == 0:
            return {"resources": []}
        # One more than the page shows if there is a next page.
        found = [*islice(self._found(stack, asked), None if limit is None else limit + 1)]
        listed: JsonMap = {"resources": [*self._shown(req, found[:limit], asked)]}
        if limit is not None and len(found) > limit:
            path = f"stacks/{stack.name}/{stack.id}/resources"
            listed["links"] = [views.link("next", next_page(req, path, found[limit - 1].row.id))]
        return listed

    def _found(self, stack: StackRecord, asked: ListQuery) -> Iterator[Found]:
        """Yield the resources that a query asks for, from its marker on, stack by stack.

        Raises HTTPBadRequest for an unknown marker.
        """
        places = self._store.resources.attached(self._store.stacks.places(stack, asked.depth)) if asked.depth else []
        stack_ids = [stack.id, *sorted(one.id for one in places)]
        filters = asked.filters
        if asked.health:
            filters = replace(filters, unwell_of=stack.root_id or stack.id)
        if not asked.in_pages:
            yield from self._passing(stack, self._store.resources.listed(stack_ids[:1], filters), asked)
            yield from self._passing(stack, self._store.resources.listed(stack_ids[1:], filters), asked)
            return
        after = None
        if asked.marker is not None:
            owner_id, after = self._marked(stack, places, asked.marker)
            stack_ids = stack_ids[stack_ids.index(owner_id) :]
        # One more than the page shows if there is a next page.
        size = min((IN_LIMIT if asked.limit is None else asked.limit) + 1, IN_LIMIT)
        while stack_ids:
            # Without filters each stack has some of the rows. Filters may leave few of many stacks.
            width = 1 if after is not None or filters.accepts_all or stack_ids[0] == stack.id else IN_LIMIT
            rows = self._store.resources.page(stack_ids[:width], filters, after, size)
            yield from self._passing(stack, rows, asked)
            if len(rows) < size:
                stack_ids, after = stack_ids[width:], None
            else:
                stack_ids, after = stack_ids[stack_ids.index(rows[-1].stack_id) :], rows[-1].name

    def _marked(self, stack: StackRecord, places: Sequence[StackPlace], marker: str) -> tuple[str, str]:
        """Return the stack of a marker and the name of its resource.

        The marker is the id of a row, or the name or path of a resource.
        """
        paths = {stack.id: ""}
        for place in places:
            paths[place.id] = f"{paths[place.parent_id]}{place.parent_resource}/"
        row = self._store.resources.get(marker)
        if row is not None and row.stack_id in paths:
            return row.stack_id, row.name
        above, slash, name = marker.rpartition("/")
        for owner_id in reversed([key for key, path in paths.items() if path == above + slash]):
            if self._store.resources.by_name(owner_id, [name]):
                return owner_id, name
        raise HTTPBadRequest(f"The marker {marker} is no resource of this list. Begin anew without a marker.")

    def _passing(self, stack: StackRecord, rows: Sequence[ResourceRecord], asked: ListQuery) -> Iterator[Found]:
        """Yield the resources of the rows that have the health asked for."""
        others = self._store.stacks.of_ids(sorted({row.stack_id for row in rows} - {stack.id}))
        stacks = {stack.id: stack, **others}
        notes: dict[str, list[HealthNote]] = {}
        if asked.in_pages:
            told = self._store.health_of([row.id for row in rows])
        else:
            told = self._store.health_in(stack.root_id or stack.id) if rows else []
        for note in told:
            notes.setdefault(note.resource_id, []).append(note)
        for row in rows:
            owner, own = stacks.get(row.stack_id), notes.get(row.id, ())
            if owner is None:
                continue  # removed since its rows were read
            nests = self._reader.nests(owner, row)
            if not asked.health or health_views.state_of(row, own, nests) in asked.health:
                yield Found(owner, row, own, nests)

    def _shown(self, req: Request, found: Sequence[Found], asked: ListQuery) -> Iterator[JsonMap]:
        """Yield what a list shows of resources."""
        budget = ListBudget(self._reader.longest_list)
        masks: dict[str, Callable[[str], Mask]] = {}
        known: Above = {}
        has_most = asked.is_whole or len(found) > IN_LIMIT
        names = None if has_most else sorted({one.row.name for one in found})
        facts = self._store.resource_facts([one.row.id for one in found])
        doubled = self._store.resources.of_doubled(sorted({one.stack.id for one in found}), names)
        for one in found:
            stack, row = one.stack, one.row
            required_by = self._reader.required_by(stack, row.name)
            key = stack.id, row.name
            old = left_over(doubled[key], row) if key in doubled else ()
            item = views.resource(req.base, stack, row, required_by, one.nests, one.notes, old)
            item.update(facts.get(row.id, {}))
            if asked.detailed:
                if stack.id not in masks:
                    within = {other.row.name for other in found if other.stack.id == stack.id}
                    masks[stack.id] = self._reader.masks(req.caller, stack, within if asked.in_pages else None, known)
                masked = masks[stack.id](row.name)
                attributes = {} if budget.is_spent else self._reader.attributes(req.caller, stack, row, (), masked)
                item.update(views.details(row, attributes))
                if not budget.fits(attributes):
                    item.update({"attributes": None, "attributes_error": f"{budget.reason} Show the resource."})
            yield item
