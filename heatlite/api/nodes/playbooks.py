"""Playbooks of a project, and their runs on the nodes of a tree of stacks. A run is an action: what it does, and the
signals that it takes, are to be seen and given there."""

from http import HTTPStatus

from falcon import Response
from jsonschema import Draft202012Validator

from heatlite.api import bodies, query, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.handlers.stacks import next_page
from heatlite.api.nodes import views as node_views
from heatlite.api.nodes.node_actions import DECISION, LARGEST_PAGE, NOTHING_ELSE
from heatlite.api.request import Request
from heatlite.core.errors import EntityNotFound, HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.nodes.playbooks import RunRequest
from heatlite.store.records import ActionRecord

PLAYBOOK = Draft202012Validator(
    {"properties": {"document": {"type": "string"}}, "required": ["document"], "additionalProperties": False}
)
RUN = Draft202012Validator(
    {
        "properties": {
            "playbook": {"type": ["string", "null"]},
            "document": {"type": ["string", "object", "null"]},
            "approval": {"enum": ["required", "granted"]},
            "timeout": {"type": ["integer", "null"], "minimum": 0, "maximum": bodies.LONGEST_SPAN},
            "dry_run": {"type": "boolean"},
        },
        "additionalProperties": False,
    }
)


class Playbooks(Handler):
    """P/node_playbooks and below; S/node_playbook_runs; P/node_playbook_runs and below."""

    def on_get(self, req: Request, resp: Response) -> None:
        """Those of the project, by name."""
        query.check_known(req, ("limit", "marker"))
        limit = query.number(req, "limit")
        limit = LARGEST_PAGE if limit is None else min(limit, LARGEST_PAGE)
        # One more than is shown tells whether there is a next page.
        rest = self.store.playbooks.list(req.caller.project, limit + 1, query.text(req, "marker"))
        listed: JsonMap = {"node_playbooks": [node_views.playbook_summary(req.base, one) for one in rest[:limit]]}
        if 0 < limit < len(rest):
            listed["links"] = [views.link("next", next_page(req, "node_playbooks", rest[limit - 1].name))]
        resp.media = listed

    def on_get_one(self, req: Request, resp: Response, playbook: str) -> None:
        """One with its text."""
        found = self.playbooks.get(req.caller.project, playbook)
        resp.media = {"node_playbook": node_views.playbook(req.base, found)}

    def on_put_one(self, req: Request, resp: Response, playbook: str) -> None:
        """Keep one, in place of another."""
        is_new = self.playbooks.put(req.caller, playbook, str(bodies.checked(req, PLAYBOOK)["document"]))
        resp.status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        self.on_get_one(req, resp, playbook)

    def on_delete_one(self, req: Request, resp: Response, playbook: str) -> None:
        """Forget one."""
        self.playbooks.delete(req.caller.project, playbook)
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_run(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Put a run, or show what one would do."""
        body = bodies.checked(req, RUN)
        asked = _run(body)
        stack = self.find_live(req, stack_name, stack_id)
        if body.get("dry_run"):
            resp.media = node_views.playbook_plan(self.playbooks.plan(stack, asked))
            return
        run = self.store.actions.get(self.playbooks.run(req.caller, stack, asked))
        assert run is not None
        resp.status = HTTPStatus.ACCEPTED
        resp.media = self._shown(req, run)

    def on_post_approve(self, req: Request, resp: Response, run: str) -> None:
        """Have it begin."""
        digest = bodies.checked_or_empty(req, DECISION).get("digest")
        found = self._find(req, run)
        approved = self.playbooks.approve(req.caller, found, None if digest is None else str(digest))
        resp.media = self._shown(req, approved)

    def on_post_reject(self, req: Request, resp: Response, run: str) -> None:
        """It is not to be done."""
        bodies.checked_or_empty(req, NOTHING_ELSE)
        resp.media = self._shown(req, self.playbooks.reject(req.caller, self._find(req, run)))

    def _shown(self, req: Request, run: ActionRecord) -> JsonMap:
        return {"action": views.action(req.base, run, self.store.action_list.relations([run])[run.id])}

    def _find(self, req: Request, run_id: str) -> ActionRecord:
        """The run in the caller's project with this id. Raises EntityNotFound."""
        found = self.store.actions.get(run_id)
        if found is None or found.project != req.caller.project or found.verb is not Verb.PLAYBOOK:
            raise EntityNotFound(entity="Run of a playbook", name=run_id)
        return found


def _run(body: JsonMap) -> RunRequest:
    name, document, timeout = body.get("playbook"), body.get("document"), body.get("timeout")
    if (name is None) == (document is None):
        raise HTTPBadRequest('A run needs either the name of a playbook ("playbook") or its text ("document").')
    return RunRequest(
        name=None if name is None else str(name),
        document=document,
        granted=body.get("approval") == "granted",
        timeout=int(timeout) if isinstance(timeout, int | float) else 0,
    )
