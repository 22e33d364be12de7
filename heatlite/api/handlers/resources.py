"""The resources of a stack."""

from collections.abc import Iterator
from dataclasses import replace
from typing import cast

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.access.policy import SIGNAL
from heatlite.api.handlers.handler import Handler
from heatlite.api.request import Request
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.engine.state.values import current_rows
from heatlite.plugin.signing import NATIVE
from heatlite.store.records import ResourceRecord, StackRecord

FILTERS = ("type", "status", "name", "action", "id", "physical_resource_id")
LIST_KEYS = frozenset({*FILTERS, "nested_depth", "with_detail", "limit", "marker"})


def matches(row: ResourceRecord, wanted: dict[str, tuple[str, ...]]) -> bool:
    """Whether a resource passes the filters: type by part of it, the others exactly, each one of several."""
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


class Resources(Handler):
    """S/resources."""

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """The list. An unknown key is refused here, and only here (heat-api §6.1)."""
        unknown = sorted(req.params.keys() - LIST_KEYS)
        if unknown:
            raise HTTPBadRequest(f"Invalid filter parameters {unknown}")
        depth = query.number(req, "nested_depth") or 0
        detailed = query.flag(req, "with_detail")
        wanted = query.filters(req, FILTERS)
        stack = self.find(req, stack_name, stack_id)
        nested = self.store.stacks.descendants(stack) if depth else []
        shown = [one for one in (stack, *nested) if one.depth - stack.depth <= depth]
        resp.media = {"resources": [item for one in shown for item in self._list(req, one, wanted, detailed)]}

    def _list(
        self, req: Request, stack: StackRecord, wanted: dict[str, tuple[str, ...]], detailed: bool
    ) -> Iterator[JsonMap]:
        """The resources of one stack that pass the filters."""
        rows = current_rows(self.store.resources.of(stack.id))
        required_by, masks = views.dependents(rows), self.reading.masks(req.caller, stack)
        for row in rows:
            if matches(row, wanted):
                nested = self.reading.nests(stack, row)
                item = views.resource(req.base, stack, row, required_by.get(row.name, ()), nested)
                if detailed:
                    attributes = self.reading.attributes(req.caller, stack, row, (), masks(row.name))
                    item.update(views.details(row, attributes))
                yield item


class Resource(Handler):
    """S/resources/{resource_name} and below."""

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """One resource with its attributes."""
        stack = self.find(req, stack_name, stack_id)
        row = self.reading.resource(stack, resource_name)
        required_by = views.dependents(current_rows(self.store.resources.of(stack.id))).get(row.name, ())
        attributes = self.reading.attributes(req.caller, stack, row, query.values(req, "with_attr"))
        shown = views.resource(req.base, stack, row, required_by, self.reading.nests(stack, row))
        resp.media = {"resource": {**shown, **views.details(row, attributes)}}

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Mark it unhealthy, or healthy again."""
        mark = bodies.mark(req)
        stack = self.find_live(req, stack_name, stack_id)
        self.health.mark(req.caller, stack, resource_name, mark.unhealthy, mark.reason)
        resp.text = "null"

    def on_get_metadata(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Its metadata, and what software it is to have: agents poll this. Whoever may only look is not told how to
        signal."""
        stack = self.find(req, stack_name, stack_id)
        row = self.reading.resource(stack, resource_name)
        deployed = self.store.software_configs.of_server(stack.project, row.physical_id) if row.physical_id else []
        for_agent = req.caller.may(SIGNAL)
        told = self.reading.metadata(stack, row, for_agent)
        if not for_agent:
            told = cast(JsonMap, self.reading.masks(req.caller, stack)(row.name).json(told))
        deployments = [views.config(one, views.unseen(req.caller, by_agent=True)) for one in deployed]
        resp.media = {"metadata": {**told, **({"deployments": deployments} if deployments else {})}}

    def on_post_signal(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Tell it something."""
        details, proof = bodies.signal(req), query.proof(req)
        if proof.signature:
            project = req.caller.project
            stack, row = self.signals.proven(proof, NATIVE, project, stack_name, stack_id, resource_name)
            req.caller = replace(req.caller, user=row.physical_name)
        else:
            stack = self.find_live(req, stack_name, stack_id)
            row = self.reading.resource(stack, resource_name)
        self.signals.signal(req.caller, stack, row, details)
        resp.text = "null"
