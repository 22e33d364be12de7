"""Snapshots of a stack."""

from http import HTTPStatus

from falcon import Response

from heatlite.api import bodies, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.handlers.stacks import say
from heatlite.api.request import Request


class Snapshots(Handler):
    """S/snapshots and below."""

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """All of them, oldest first."""
        stack = self.find_live(req, stack_name, stack_id)
        found = self.store.snapshots.of(stack.id)
        resp.media = {"snapshots": [views.snapshot(self.snapshots.shown(req.caller, stack, one)) for one in found]}

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Take one."""
        name = bodies.snapshot(req)
        stack = self.find_live(req, stack_name, stack_id)
        resp.media = views.snapshot(self.snapshots.take(req.caller, stack, name))

    def on_get_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, snapshot_id: str) -> None:
        """Show one, with what the stack was."""
        stack = self.find_live(req, stack_name, stack_id)
        found = self.snapshots.get(stack, snapshot_id)
        resp.media = {"snapshot": views.snapshot(self.snapshots.shown(req.caller, stack, found))}

    def on_delete_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, snapshot_id: str) -> None:
        """Remove one."""
        self.snapshots.delete(req.caller, self.find_live(req, stack_name, stack_id), snapshot_id)
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_restore(self, req: Request, resp: Response, stack_name: str, stack_id: str, snapshot_id: str) -> None:
        """Make the stack again what it was."""
        self.snapshots.restore(req.caller, self.find_live(req, stack_name, stack_id), snapshot_id)
        say(resp, HTTPStatus.ACCEPTED)
