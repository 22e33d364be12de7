"""The actions of a project: what has been done, is being done, and will be."""

from dataclasses import replace
from http import HTTPStatus

from falcon import Response

from heatlite.api import bodies, query, views
from heatlite.api.handlers.handler import Handler
from heatlite.api.handlers.stacks import UUID, next_page
from heatlite.api.request import Request
from heatlite.core.clock import to_text
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, MultipleChoices
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Verb
from heatlite.store.actions.listing import SHORTEST_ID, SORTED_BY, ActionQuery
from heatlite.store.records import ActionRecord

LARGEST_PAGE = 1000
MOST_CANDIDATES = 10
"""Actions that are listed where a name means several."""

KEYS = ("name", "target", "action", "status", "sort", "limit", "marker")


def list_query(req: Request) -> ActionQuery:
    """What a list asks for."""
    query.check_known(req, KEYS)
    target = query.several(req, "target")
    for stack_id in target:
        if not UUID.fullmatch(stack_id):
            raise HTTPBadRequest(f"target has to be the id of a stack, a UUID, not {stack_id}.")
    limit = query.number(req, "limit")
    return ActionQuery(
        limit=LARGEST_PAGE if limit is None else min(limit, LARGEST_PAGE),
        name=query.several(req, "name"),
        target=target,
        verb=query.several_of(req, "action", {views.action_word(verb): verb for verb in Verb if verb is not Verb.INIT}),
        status=query.several_of(req, "status", {status.value: status for status in ActionStatus}),
        sort=query.sort(req, SORTED_BY),
        marker=query.text(req, "marker"),
    )


class ProjectActions(Handler):
    """P/actions and below."""

    def on_get(self, req: Request, resp: Response) -> None:
        """The list, filtered, sorted and in pages."""
        asked = list_query(req)
        # One more than is shown tells whether there is a next page.
        rest = self.store.action_list.page(req.caller.project, replace(asked, limit=asked.limit + 1))
        found = rest[: asked.limit]
        listed: JsonMap = {"actions": self._shown(req, found)}
        if found and len(rest) > len(found):
            listed["links"] = [views.link("next", next_page(req, "actions", found[-1].id))]
        resp.media = listed

    def on_get_one(self, req: Request, resp: Response, action: str) -> None:
        """Show one."""
        resp.media = {"action": self._shown(req, [self._find(req, action)])[0]}

    def on_post_one(self, req: Request, resp: Response, action: str) -> None:
        """Give it a signal; the answer is the action as it is then."""
        signal, force = bodies.action_signal(req)
        if force:
            req.require("actions:force")
        asked = self.controls.signal(req.caller, self._find(req, action), signal, force)
        resp.status = HTTPStatus.ACCEPTED
        resp.media = {"action": self._shown(req, [asked])[0]}

    def on_get_history(self, req: Request, resp: Response, action: str) -> None:
        """Its moves, oldest first."""
        found = self._find(req, action)
        resp.media = {"history": [views.move(move) for move in self.store.actions.history(found.id)]}

    def _shown(self, req: Request, actions: list[ActionRecord]) -> list[JsonMap]:
        relations = self.store.action_list.relations(actions)
        return [views.action(req.base, action, relations[action.id]) for action in actions]

    def _find(self, req: Request, reference: str) -> ActionRecord:
        """The action of the caller's project that an id, a name or the beginning of an id means.

        Raises EntityNotFound, MultipleChoices.
        """
        found = self.store.action_list.find(req.caller.project, reference, MOST_CANDIDATES + 1)
        if len(found) == 1:
            return found[0]
        if not found:
            raise EntityNotFound(
                f"The Action ({reference}) could not be found: no action of this project has that id or name, or an id"
                f" that begins so (with at least {SHORTEST_ID} characters)."
            )
        raise MultipleChoices(f"{reference} means several actions; name one by its id: {candidates(found)}.")


def candidates(actions: list[ActionRecord]) -> str:
    """Actions to choose from, newest first."""
    named = [f"{one.id} {one.name} {one.status} {to_text(one.created_at)}" for one in actions[:MOST_CANDIDATES]]
    return "; ".join([*named, "and more"] if len(actions) > MOST_CANDIDATES else named)
