"""The resources of a stack: list, show, mark, metadata."""

from collections.abc import Iterator, Mapping, Sequence
from typing import cast

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.access.policy import SIGNAL
from heatlite.api.handlers.common import ListBudget, StackFinder, ignored
from heatlite.api.request import Request
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.engine.operations.health_marks import HealthMarks
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.outputs import StackReader
from heatlite.store.healing.records import IncidentRecord
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store

FILTERS = ("type", "status", "name", "action", "id", "physical_resource_id")
LIST_KEYS = frozenset({*FILTERS, "nested_depth", "with_detail", "limit", "marker"})


def matches(row: ResourceRecord, wanted: dict[str, tuple[str, ...]]) -> bool:
    """Return True if a resource passes the filters.

    `type` matches a substring, the others match exactly. Several values of one filter are alternatives.
    """
    has: dict[str, tuple[str, ...]] = {
        "name": (row.name,),
        "status": (row.status, f"{row.verb}_{row.status}"),
        "action": (row.verb,),
        "id": (row.id,),
        "physical_resource_id": (row.physical_id or "",),
    }
    return all(
        any(value in row.type for value in values) if key == "type" else not set(values).isdisjoint(has[key])
        for key, values in wanted.items()
    )


class Resources:
    """S/resources."""

    def __init__(self, finder: StackFinder, store: Store, reader: StackReader, health: HealthMarks) -> None:
        self._finder = finder
        self._store = store
        self._reader = reader
        self._health = health

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List resources. Unlike other lists, rejects unknown keys, as Heat does."""
        unknown = sorted(req.params.keys() - LIST_KEYS)
        if unknown:
            raise HTTPBadRequest(f"Invalid filter parameters {unknown}")
        depth = query.number(req, "nested_depth") or 0
        detailed = query.flag(req, "with_detail")
        wanted = query.filters(req, FILTERS)
        stack = self._finder.find(req, stack_name, stack_id)
        nested = self._store.resources.attached(self._store.stacks.descendants(stack)) if depth else []
        shown = [one for one in (stack, *nested) if one.depth - stack.depth <= depth]
        incidents: dict[str, list[IncidentRecord]] = {}
        for incident in self._store.incidents.open_of_root(stack.root_id or stack.id):
            incidents.setdefault(incident.resource_id, []).append(incident)
        budget = ListBudget(self._reader.longest_list) if detailed else None
        listed = (item for one in shown for item in self._list(req, one, wanted, budget, incidents))
        resp.media = {"resources": [*listed]}

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Mark several resources of a tree unhealthy or healthy: all or none."""
        marks = bodies.marks(req)
        req.concerns(resource_name=", ".join(mark.resource for mark in marks))
        stack = self._finder.find_live(req, stack_name, stack_id)
        ignored(resp, self._health.mark_all(req.caller, stack, marks))
        resp.text = "null"

    def _list(
        self,
        req: Request,
        stack: StackRecord,
        wanted: dict[str, tuple[str, ...]],
        budget: ListBudget | None,
        incidents: Mapping[str, Sequence[IncidentRecord]],
    ) -> Iterator[JsonMap]:
        """Yield the resources of one stack that pass the filters. `budget`: with details."""
        rows = current_rows(self._store.resources.of(stack.id))
        masks = self._reader.masks(req.caller, stack)
        for row in rows:
            if matches(row, wanted):
                nested = self._reader.nests(stack, row)
                required_by = self._reader.required_by(stack, row.name)
                item = views.resource(req.base, stack, row, required_by, nested, incidents.get(row.id, ()))
                if budget is not None:
                    masked = masks(row.name)
                    attributes = {} if budget.is_spent else self._reader.attributes(req.caller, stack, row, (), masked)
                    item.update(views.details(row, attributes))
                    if not budget.fits(attributes):
                        item.update({"attributes": None, "attributes_error": f"{budget.reason} Show the resource."})
                yield item


class Resource:
    """S/resources/{resource_name} and its metadata."""

    def __init__(
        self, finder: StackFinder, store: Store, reader: StackReader, health: HealthMarks, software: Software
    ) -> None:
        self._finder = finder
        self._store = store
        self._software = software
        self._reader = reader
        self._health = health

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Show a resource with its attributes."""
        stack = self._finder.find(req, stack_name, stack_id)
        row = self._reader.resource(stack, resource_name)
        required_by = self._reader.required_by(stack, row.name)
        attributes = self._reader.attributes(req.caller, stack, row, query.values(req, "with_attr"))
        incidents = self._store.incidents.open_of_resource(row.id)
        shown = views.resource(req.base, stack, row, required_by, self._reader.nests(stack, row), incidents)
        size = self._reader.set_size(stack, row)
        shown.update(views.details(row, attributes))
        resp.media = {"resource": shown if size is None else {**shown, "size": size}}

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Mark a resource unhealthy, or healthy again."""
        mark = bodies.mark(req, resource_name)
        stack = self._finder.find_live(req, stack_name, stack_id)
        ignored(resp, self._health.mark(req.caller, stack, resource_name, mark.unhealthy, mark.reason))
        resp.text = "null"

    def on_get_metadata(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Return the metadata and the software to apply, as agents poll them."""
        stack = self._finder.find(req, stack_name, stack_id)
        row = self._reader.resource(stack, resource_name)
        resp.media = {"metadata": metadata_of(req.caller, self._software, self._reader, stack, row)}


def metadata_of(
    caller: Context, software: Software, reader: StackReader, stack: StackRecord, row: ResourceRecord
) -> JsonMap:
    """Return the metadata of a resource and the software to apply.

    A caller without the right to signal sees no credentials for signals.
    """
    deployed = software.of_server(stack.project, row.physical_id) if row.physical_id else []
    for_agent = caller.may(SIGNAL)
    metadata = reader.metadata(stack, row, for_agent)
    if not for_agent:
        metadata = cast(JsonMap, reader.mask_of(caller, stack, row.name).json(metadata))
    deployments = [views.config(one, views.masked_inputs(caller, by_agent=True)) for one in deployed]
    return {**metadata, **({"deployments": deployments} if deployments else {})}
