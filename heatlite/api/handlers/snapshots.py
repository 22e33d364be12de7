"""Snapshots of a stack."""

from http import HTTPStatus

from falcon import Response
from msgspec.structs import replace

from heatlite.api.handlers.common import ListBudget, StackFinder, set_status
from heatlite.api.request import Request
from heatlite.api.wire import bodies, views
from heatlite.engine.operations.snapshots import Snapshots as SnapshotOperations
from heatlite.store.store import Store


class Snapshots:
    """S/snapshots and below."""

    def __init__(self, finder: StackFinder, store: Store, snapshots: SnapshotOperations) -> None:
        self._finder = finder
        self._store = store
        self._snapshots = snapshots

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the snapshots, oldest first."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        budget, listed = ListBudget(self._snapshots.longest_list), []
        for one in self._store.snapshots.each(stack.id):
            shown = replace(one, data=None) if budget.is_spent else self._snapshots.shown(req.caller, stack, one)
            listed.append(views.snapshot(shown))
            if not budget.fits(shown.data or {}):
                listed[-1].update({"data": None, "data_error": f"{budget.reason} Show the snapshot."})
        resp.media = {"snapshots": listed}

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Take a snapshot."""
        name = bodies.checked(req, bodies.SnapshotOptions).name
        stack = self._finder.find_live(req, stack_name, stack_id)
        taken = self._snapshots.take(req.caller, stack, name)
        req.concerns(target=taken.id)
        resp.media = views.snapshot(taken)

    def on_get_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, snapshot_id: str) -> None:
        """Show a snapshot with its data."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        found = self._snapshots.get(stack, snapshot_id)
        resp.media = {"snapshot": views.snapshot(self._snapshots.shown(req.caller, stack, found))}

    def on_delete_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, snapshot_id: str) -> None:
        """Delete a snapshot."""
        self._snapshots.delete(req.caller, self._finder.find_live(req, stack_name, stack_id), snapshot_id)
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_restore(self, req: Request, resp: Response, stack_name: str, stack_id: str, snapshot_id: str) -> None:
        """Restore the stack from a snapshot."""
        guard = bodies.guard_of_restore(req)
        self._snapshots.restore(req.caller, self._finder.find_live(req, stack_name, stack_id), snapshot_id, guard)
        set_status(resp, HTTPStatus.ACCEPTED)
