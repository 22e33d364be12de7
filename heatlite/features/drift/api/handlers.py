"""Lists of drift."""

from collections import defaultdict
from collections.abc import Mapping, Sequence

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder, next_page, page_size
from heatlite.api.request import Request
from heatlite.api.wire import views
from heatlite.core.errors import StackNotFound
from heatlite.core.json import Json, JsonMap
from heatlite.core.redaction.masking import Mask
from heatlite.engine.types.outputs import StackReader
from heatlite.features.drift.api import views as drift_views
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore, Listed
from heatlite.store.store import Store

MAX_PAGE = 1000
KEYS = ("state", "ignored", "limit", "marker")
PROJECT_KEYS = (*KEYS, "resource_type", "stack")


class DriftList:
    """S/drift and P/drift."""

    def __init__(self, store: Store, reader: StackReader, finder: StackFinder) -> None:
        self._store = store
        self._reader = reader
        self._drift = store.of(DriftStore)
        self._finder = finder

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the drift in the tree of a stack."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        path = f"stacks/{stack.name}/{stack.id}/drift"
        resp.media = self._listed(req, path, (stack.root_id or stack.id,), ())

    def on_get_project(self, req: Request, resp: Response) -> None:
        """List the drift in all stacks of the project."""
        roots = tuple(self._root(req, name) for name in query.several(req, "stack"))
        resp.media = self._listed(req, "drift", roots, query.several(req, "resource_type"))

    def _root(self, req: Request, name: str) -> str:
        """Return the id of the root of a stack. Raises StackNotFound."""
        project, stacks = req.caller.project, self._store.stacks
        stack = stacks.by_name(project, name) or stacks.get(name)
        if stack is None or stack.project != project or stack.deleted_at is not None:
            raise StackNotFound(name=name)
        return stack.root_id or stack.id

    def _masks(self, req: Request, shown: Sequence[Listed]) -> Mapping[str, Mask]:
        """Return the masks of resources for the caller, as of other answers, by their ids."""
        names, known = defaultdict[str, set[str]](set), dict[str, list[Json]]()
        for one in shown:
            if one.drift is not None and one.drift.differences:
                names[one.stack_id].add(one.name)
        stacks = self._store.stacks.of_ids([*names])
        masks = {key: self._reader.masks(req.caller, stack, names[key], known) for key, stack in stacks.items()}
        return {one.resource_id: masks[one.stack_id](one.name) for one in shown if one.stack_id in masks}

    def _listed(self, req: Request, path: str, roots: tuple[str, ...], types: tuple[str, ...]) -> JsonMap:
        limit, ignored = page_size(req, MAX_PAGE), query.flag(req, "ignored")
        states = query.several_of(req, "state", {str(one): one for one in DriftState}) or (DriftState.DRIFTED,)
        marker = query.text(req, "marker") or ""
        asked = DriftQuery(states, types, roots, ignored, limit=limit + 1, marker=marker)
        found, project = self._drift.page(req.caller.project, asked), req.caller.project
        shown, paths = found[:limit], self._drift.paths(found[:limit])
        masks = self._masks(req, shown)
        resources = [
            drift_views.resource(one, paths[one.resource_id], ignored, masks.get(one.resource_id)) for one in shown
        ]
        counts = drift_views.counts(self._drift.counts(project, roots))
        listed: JsonMap = {"drift": {**counts, "resources": resources}}
        if 0 < limit < len(found):
            listed["links"] = [views.link("next", next_page(req, path, shown[-1].resource_id))]
        return listed
