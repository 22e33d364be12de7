"""Playbooks of a project, and their runs on the nodes of a stack tree.

A run is an action: the routes of actions show it and send signals to it.
"""

from functools import partial
from http import HTTPStatus

from falcon import Response
from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder, page, page_size
from heatlite.api.request import Request
from heatlite.api.wire import bodies, views
from heatlite.core.errors import EntityNotFound, HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.core.wire.base import Body
from heatlite.engine.why.reading import Reasons
from heatlite.features.nodes.api import views as node_views
from heatlite.features.nodes.api.node_actions import MAX_PAGE, digest_of
from heatlite.features.nodes.playbooks import Playbooks as PlaybookOperations
from heatlite.features.nodes.playbooks import RunRequest
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store


class PlaybookText(Body, frozen=True):
    """A playbook."""

    document: str
    """The playbook: YAML or JSON."""


class Playbooks:
    """P/node_playbooks, P/node_playbook_runs and below; S/node_playbook_runs."""

    def __init__(
        self, finder: StackFinder, store: Store, playbooks: PlaybookOperations, reasons: Reasons
    ) -> None:
        self._reasons = reasons
        self._finder = finder
        self._store = store
        self._rows = store.of(NodeStore)
        self._playbooks = playbooks

    def on_get(self, req: Request, resp: Response) -> None:
        """List the playbooks of the project by name."""
        limit = page_size(req, MAX_PAGE)
        rest = self._rows.playbooks.list(req.caller.project, limit + 1, query.text(req, "marker"))
        show = partial(node_views.playbook_summary, req.base)
        resp.media = page(req, "node_playbooks", rest, limit, show, lambda one: one.name)

    def on_get_one(self, req: Request, resp: Response, playbook: str) -> None:
        """Show a playbook with its text."""
        found = self._playbooks.get(req.caller.project, playbook)
        resp.media = {"node_playbook": node_views.playbook(req.base, found)}

    def on_put_one(self, req: Request, resp: Response, playbook: str) -> None:
        """Create or replace a playbook."""
        is_new = self._playbooks.put(req.caller, playbook, bodies.checked(req, PlaybookText).document)
        resp.status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        self.on_get_one(req, resp, playbook)

    def on_delete_one(self, req: Request, resp: Response, playbook: str) -> None:
        """Delete a playbook."""
        self._playbooks.delete(req.caller.project, playbook)
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_run(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Create a run, or preview it."""
        asked = bodies.checked(req, RunRequest)
        if (asked.playbook is None) == (asked.document is None):
            raise HTTPBadRequest('A run needs either the name of a playbook ("playbook") or its text ("document").')
        stack = self._finder.find_live(req, stack_name, stack_id)
        if asked.dry_run:
            resp.media = node_views.playbook_plan(self._playbooks.plan(stack, asked))
            return
        req.concerns(target=asked.playbook or "")
        run = self._store.actions.get(self._playbooks.run(req.caller, stack, asked))
        assert run is not None
        resp.status = HTTPStatus.ACCEPTED
        resp.media = self._shown(req, run)

    def on_post_approve(self, req: Request, resp: Response, run: str) -> None:
        """Approve a run."""
        digest = digest_of(req)
        resp.media = self._shown(req, self._playbooks.approve(req.caller, self._find(req, run), digest))

    def on_post_reject(self, req: Request, resp: Response, run: str) -> None:
        """Reject a run."""
        bodies.checked_or_empty(req, bodies.Nothing)
        resp.media = self._shown(req, self._playbooks.reject(req.caller, self._find(req, run)))

    def _shown(self, req: Request, run: ActionRecord) -> JsonMap:
        reason = self._reasons.of_actions(req.caller, [run]).get(run.id, run.status_reason)
        run = replace(run, status_reason=reason)
        return {"action": views.action(req.base, run, self._store.action_list.relations([run])[run.id])}

    def _find(self, req: Request, run_id: str) -> ActionRecord:
        """Return the run in the caller's project. Raises EntityNotFound.

        Names its stack for the audit log.
        """
        found = self._store.actions.get(run_id)
        if found is None or found.project != req.caller.project or found.verb is not Verb.RUN:
            raise EntityNotFound(entity="Run of a playbook", name=run_id)
        req.concerns(self._store.stacks.get(found.stack_id))
        return found
