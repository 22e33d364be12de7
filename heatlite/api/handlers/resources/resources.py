"""The resources of a stack, or of a project: list, find, show, mark, metadata."""

from typing import cast

from falcon import Response

from heatlite.api import query
from heatlite.api.access.policy import SIGNAL
from heatlite.api.handlers.common import StackFinder, ignored
from heatlite.api.handlers.resources.resource_list import ResourceList, list_query
from heatlite.api.handlers.software import for_agent
from heatlite.api.request import Request
from heatlite.api.wire import bodies, views
from heatlite.core.context import STACK_USER, Context
from heatlite.core.errors import HTTPBadRequest, ResourceNotFound
from heatlite.core.json import JsonMap
from heatlite.engine.operations.health_marks import HealthMarks
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.resource_paths import paths_to
from heatlite.engine.state.unit_of_work import MOVED_TO, moved_text
from heatlite.engine.types.outputs import StackReader
from heatlite.plugin.groups import POLICIES
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.store.store import Store

MAX_OBJECTS = 50
"""Most physical ids of a query."""


class Objects:
    """P/resources: resources by the ids of their objects."""

    def __init__(self, store: Store, reader: StackReader) -> None:
        self._store = store
        self._reader = reader

    def on_get(self, req: Request, resp: Response) -> None:
        """List the current resources of the project that have one of the physical ids."""
        wanted = query.values(req, "physical_resource_id")
        if not 0 < len(wanted) <= MAX_OBJECTS:
            raise HTTPBadRequest(f"Give physical_resource_id 1 to {MAX_OBJECTS} times.")
        ways = [*paths_to(self._store, self._store.resources.with_objects(req.caller.project, wanted))]
        row_ids = [way.rows[-1].id for way in ways]
        notes, facts = self._store.health_of(row_ids), self._store.resource_facts(row_ids)
        found = list[JsonMap]()
        for way in sorted(ways, key=lambda way: (way.stacks[0].id, way.path)):
            root, stack, row = way.stacks[0], way.stacks[-1], way.rows[-1]
            own = [note for note in notes if note.resource_id == row.id]
            shown = views.resource(req.base, stack, row, (), self._reader.nests(stack, row), own)
            where: JsonMap = {
                "stack_name": stack.name,
                "stack_id": stack.id,
                "root_stack_name": root.name,
                "root_stack_id": root.id,
                "path": way.path,
                "owned": row.external_id is None,
            }
            found.append({**shown, **facts.get(row.id, {}), **where})
        resp.media = {"resources": found}


class Resources:
    """S/resources."""

    def __init__(self, finder: StackFinder, store: Store, reader: StackReader, health: HealthMarks) -> None:
        self._finder = finder
        self._health = health
        self._list = ResourceList(store, reader)

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List resources; with `limit` or `marker` in pages."""
        asked = list_query(req)
        resp.media = self._list.of(req, self._finder.find(req, stack_name, stack_id), asked)

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Mark several resources of a tree unhealthy or healthy: all or none."""
        marks = bodies.marks(req)
        req.concerns(resource_name=", ".join(mark.resource for mark in marks))
        stack = self._finder.find_live(req, stack_name, stack_id)
        ignored(resp, self._health.mark_all(req.caller, stack, marks))
        resp.text = "null"


class Resource:
    """S/resources/{resource_name} and its metadata.

    The name may be a path, or a physical id.
    """

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
        try:
            stack, row, old = self._reader.with_left_over(stack, resource_name)
        except ResourceNotFound as error:
            raise self._moved(stack, resource_name) or error from None
        required_by = self._reader.required_by(stack, row.name)
        attributes = self._reader.attributes(req.caller, stack, row, query.values(req, "with_attr"))
        notes, facts = self._store.health_of([row.id]), self._store.resource_facts([row.id])
        shown = views.resource(req.base, stack, row, required_by, self._reader.nests(stack, row), notes, old)
        shown.update(facts.get(row.id, {}))
        size, policies = self._reader.set_size(stack, row), row.data.get(POLICIES)
        shown.update(views.details(row, attributes))
        shown.update({} if size is None else {"size": size})
        shown.update({"policies": policies} if policies else {})
        resp.media = {"resource": shown}

    def _moved(self, stack: StackRecord, old: str) -> ResourceNotFound | None:
        """Return the error for a name that a resource had before a move, if events tell.

        Their rows have its present name.
        """
        moves = EventQuery(resource_action=(Operation.MOVE.name,))
        place = next(
            (
                one.status_reason.removeprefix(MOVED_TO) if one.resource_name == old else one.resource_name
                for one in self._store.events.list(stack.id, moves)
                if one.status_reason == moved_text(old)
                or one.resource_name == old and one.status_reason.startswith(MOVED_TO)
            ),
            None,
        )
        if place is None:
            return None
        error = ResourceNotFound(resource_name=old, stack_name=stack.name)
        error.message += f" It has moved to {place}."
        return error

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Mark a resource unhealthy, or healthy again."""
        mark = bodies.mark(req, resource_name)
        stack = self._finder.find_live(req, stack_name, stack_id)
        ignored(resp, self._health.mark(req.caller, stack, resource_name, mark.unhealthy, mark.reason))
        resp.text = "null"

    def on_get_metadata(self, req: Request, resp: Response, stack_name: str, stack_id: str, resource_name: str) -> None:
        """Return the metadata and the software to apply, as agents poll them."""
        stack = self._finder.find(req, stack_name, stack_id)
        stack, row = self._reader.resource_at(stack, resource_name)
        resp.media = {"metadata": metadata_of(req.caller, self._software, self._reader, stack, row)}


def metadata_of(
    caller: Context, software: Software, reader: StackReader, stack: StackRecord, row: ResourceRecord
) -> JsonMap:
    """Return the metadata of a resource and the software to apply.

    A caller without the right to signal sees no credentials for signals. Only agents, and callers who may export the
    stack, see what is hidden.
    """
    deployed = software.of_server(stack.project, row.physical_id) if row.physical_id else []
    metadata = reader.metadata(stack, row, caller.may(SIGNAL))
    if STACK_USER not in caller.roles and not caller.may_see_hidden:
        metadata = cast(JsonMap, reader.mask_of(caller, stack, row.name).json(metadata))
    deployments = for_agent(caller, reader, deployed)
    return {**metadata, **({"deployments": deployments} if deployments else {})}
