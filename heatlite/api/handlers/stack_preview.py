"""S/preview, S/export and S/abandon."""

from collections.abc import Mapping

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.routes import StackAction
from heatlite.core.json import JsonMap
from heatlite.engine.operations.export import Export
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.state import requests
from heatlite.store.records import StackRecord


class StackPreview:
    """S/preview: previews of an update, or of an action of a feature."""

    def __init__(self, finder: StackFinder, stacks: Stacks, others: Mapping[str, StackAction]) -> None:
        self._finder = finder
        self._stacks = stacks
        self._others = others

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Preview a PUT."""
        resp.media = self._preview(req, self._finder.find_live(req, stack_name, stack_id), bodies.whole(req), False)

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Preview a PATCH, or the action of a feature that the only key names."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        body = bodies.read(req)
        named = [*body.items()] if isinstance(body, dict) and len(body) == 1 else []
        for name, value in named:
            if name in self._others:
                resp.media = views.repair(self._others[name].plan(stack, value))
                break
        else:
            resp.media = self._preview(req, stack, bodies.change(body), True)

    def _preview(self, req: Request, stack: StackRecord, request: requests.Request, existing: bool) -> JsonMap:
        nested, plan = query.flag(req, "show_nested"), query.flag(req, "plan")
        return views.changes(self._stacks.preview_update(req.caller, stack, request, existing, nested, plan))


class StackExport:
    """S/export and S/abandon."""

    def __init__(self, finder: StackFinder, exports: Export) -> None:
        self._finder = finder
        self._handover = exports

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Return the stack's record."""
        resp.media = self._handover.export(self._finder.find_live(req, stack_name, stack_id))

    def on_delete_abandon(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Forget the stack, keep its objects, and return its record."""
        resp.media = self._handover.abandon(req.caller, self._finder.find_live(req, stack_name, stack_id))
