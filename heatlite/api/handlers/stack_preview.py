"""S/preview, S/export and S/abandon."""

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.core.json import JsonMap
from heatlite.engine.operations.export import Export
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.state import requests
from heatlite.features.healing.api import bodies as healing_bodies
from heatlite.features.healing.by_hand import HealByHand
from heatlite.store.records import StackRecord


class StackPreview:
    """S/preview: previews of an update or a repair."""

    def __init__(self, finder: StackFinder, stacks: Stacks, healing: HealByHand) -> None:
        self._finder = finder
        self._stacks = stacks
        self._healing = healing

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Preview a PUT."""
        resp.media = self._preview(req, self._finder.find_live(req, stack_name, stack_id), bodies.whole(req), False)

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Preview a PATCH, or with the key `heal` the repair that `actions` would begin."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        body = bodies.read(req)
        if isinstance(body, dict) and body.keys() == {"heal"}:
            resp.media = views.repair(self._healing.plan(stack, healing_bodies.heal(body["heal"])))
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
