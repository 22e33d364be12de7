"""S/preview, S/export and S/abandon."""

from collections.abc import Mapping, Sequence

from falcon import Response
from msgspec import Struct

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder
from heatlite.api.handlers.resources.member_actions import PLANS, MemberActions
from heatlite.api.request import Request
from heatlite.api.wire import bodies, stack_bodies, views
from heatlite.core.errors import HTTPBadRequest, features_off
from heatlite.core.json import JsonMap, as_map
from heatlite.engine.operations.export import Export
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.state import requests
from heatlite.engine.state.requests import StackAction
from heatlite.store.records import StackRecord

DELETE = "delete"
"""Key of the preview of a deletion."""


class StackPreview:
    """S/preview: previews of an update, of a deletion, or of an action of a feature."""

    def __init__(
        self,
        finder: StackFinder,
        stacks: Stacks,
        members: MemberActions,
        others: Mapping[str, StackAction],
        off: Sequence[str],
        further: Sequence[type[Struct]],
    ) -> None:
        """Create it.

        `off` are the features that are off: their actions are unknown. `further` has the keys of others in a
        definition.
        """
        self._further = further
        self._finder = finder
        self._stacks = stacks
        self._members = members
        self._others = others
        self._off = off

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Preview a PUT."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        resp.media = self._preview(req, stack, stack_bodies.whole(req, self._further), False)

    def on_patch(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Preview a PATCH, or the deletion or the action that a key names."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        body = bodies.read(req)
        name = next((key for key in as_map(body) if key in PLANS or key in self._others or key == DELETE), None)
        if name is None:
            keys = as_map(body).keys()
            if keys and keys.isdisjoint(stack_bodies.keys(self._further)):  # Heat's clients never send such a body
                text = f"A preview of an update has none of the keys {', '.join(sorted(keys))}."
                raise HTTPBadRequest(f"{text} {features_off(self._off)}".rstrip())
            resp.media = self._preview(req, stack, stack_bodies.change(body, self._further), True)
            return
        if others := sorted(as_map(body).keys() - {name}):
            raise HTTPBadRequest(f"The preview of {name} takes no other key, such as {', '.join(others)}.")
        value = as_map(body)[name]
        if name == DELETE:
            plan = self._stacks.preview_deletion(req.caller, stack, stack_bodies.deletion(value))
            resp.media = views.repair(plan)
        elif name in PLANS:
            resp.media = views.repair(self._members.plan(req.caller, stack, name, value))
        else:
            resp.media = views.repair(self._others[name].plan(req.caller, stack, value))

    def _preview(self, req: Request, stack: StackRecord, request: requests.StackRequest, existing: bool) -> JsonMap:
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
