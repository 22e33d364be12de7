"""The actions of a project: list, show, signal, history."""

from collections.abc import Callable, Mapping
from http import HTTPStatus

from falcon import Response
from msgspec.structs import replace

from heatlite.api import query
from heatlite.api.handlers.common import MAX_PAGE, next_page
from heatlite.api.handlers.stacks import UUID
from heatlite.api.request import Request
from heatlite.api.wire import bodies, views
from heatlite.core.clock import to_text
from heatlite.core.errors import EntityNotFound, HTTPBadRequest, MultipleChoices
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Cause, Verb
from heatlite.engine.operations.action_signals import ActionSignals
from heatlite.engine.state.guarding import Guarding
from heatlite.engine.why.reading import Reasons
from heatlite.store.actions.listing import MIN_ID_LENGTH, SORTED_BY, ActionQuery
from heatlite.store.records import ActionRecord
from heatlite.store.stacks.stacks import Stacks
from heatlite.store.store import Store

MAX_CANDIDATES = 10
"""Actions that the error for an ambiguous reference lists."""

KEYS = ("name", "target", "stack", "action", "cause", "status", "sort", "limit", "marker")


def list_query(req: Request, stacks: Stacks) -> ActionQuery:
    """Read the query of a list. Raises HTTPBadRequest."""
    target = query.several(req, "target")
    for stack_id in target:
        if not UUID.fullmatch(stack_id):
            raise HTTPBadRequest(f"target must be the id of a stack, a UUID, not {stack_id}.")
    limit = query.number(req, "limit")
    return ActionQuery(
        limit=MAX_PAGE if limit is None else min(limit, MAX_PAGE),
        name=query.several(req, "name"),
        target=target,
        stack=[_stack_id(req, stacks, one) for one in query.several(req, "stack")],
        cause=query.several_of(req, "cause", {cause.value: cause for cause in Cause}),
        verb=query.several_of(req, "action", {views.action_word(verb): verb for verb in Verb if verb is not Verb.INIT}),
        status=query.several_of(req, "status", {status.value: status for status in ActionStatus}),
        sort=query.sort(req, SORTED_BY),
        marker=query.text(req, "marker"),
    )


def _stack_id(req: Request, stacks: Stacks, stack: str) -> str:
    """Return the id of the live stack with a name; anything else as it is."""
    found = None if UUID.fullmatch(stack) else stacks.by_name(req.caller.project, stack)
    return stack if found is None else found.id


class Actions:
    """P/actions and below."""

    def __init__(
        self, store: Store, controls: ActionSignals, reasons: Reasons, guarding: Callable[[], Guarding | None]
    ) -> None:
        self._store = store
        self._reasons = reasons
        self._controls = controls
        self._guarding = guarding

    def on_get(self, req: Request, resp: Response) -> None:
        """List actions, filtered, sorted and in pages."""
        asked = list_query(req, self._store.stacks)
        # One more than the page shows if there is a next page.
        rest = self._store.action_list.page(req.caller.project, replace(asked, limit=asked.limit + 1))
        found = rest[: asked.limit]
        listed: JsonMap = {"actions": self._shown(req, found)}
        if found and len(rest) > len(found):
            listed["links"] = [views.link("next", next_page(req, "actions", found[-1].id))]
        resp.media = listed

    def on_get_one(self, req: Request, resp: Response, action: str) -> None:
        """Show an action."""
        resp.media = {"action": self._shown(req, [self._find(req, action)])[0]}

    def on_post_one(self, req: Request, resp: Response, action: str) -> None:
        """Send a signal to an action, and show the action."""
        asked = bodies.checked(req, bodies.ActionSignal)
        if asked.force:
            req.require("actions:force")
        found = self._find(req, action)
        req.concerns(self._store.stacks.get(found.stack_id), target=found.id)
        signalled = self._controls.signal(req.caller, found, asked.signal, asked.force)
        resp.status = HTTPStatus.ACCEPTED
        resp.media = {"action": self._shown(req, [signalled])[0]}

    def on_get_history(self, req: Request, resp: Response, action: str) -> None:
        """List the transitions of an action, oldest first."""
        found = self._find(req, action)
        resp.media = {"history": [views.transition(one) for one in self._store.actions.history(found.id)]}

    def _shown(self, req: Request, actions: list[ActionRecord]) -> list[JsonMap]:
        relations = self._store.action_list.relations(actions)
        reasons = self._reasons.of_actions(req.caller, actions)
        told = [replace(one, status_reason=reasons.get(one.id, one.status_reason)) for one in actions]
        guards = self._guards([one.id for one in actions if one.inputs.guard is not None])
        return [views.action(req.base, one, relations[one.id], guards.get(one.id, {})) for one in told]

    def _guards(self, action_ids: list[str]) -> Mapping[str, JsonMap]:
        """Return further keys of the guards of actions."""
        guarding = self._guarding() if action_ids else None
        return {} if guarding is None else guarding.shown(action_ids)

    def _find(self, req: Request, reference: str) -> ActionRecord:
        """Return the action of the project with this id, name or beginning of an id.

        Raises EntityNotFound, MultipleChoices.
        """
        found = self._store.action_list.find(req.caller.project, reference, MAX_CANDIDATES + 1)
        if len(found) == 1:
            return found[0]
        if not found:
            raise EntityNotFound(
                f"The Action ({reference}) could not be found: no action of this project has that id or name, or an id"
                f" that begins with it (at least {MIN_ID_LENGTH} characters)."
            )
        raise MultipleChoices(f"{reference} matches several actions. Use the id of one: {candidates(found)}.")


def candidates(actions: list[ActionRecord]) -> str:
    """Return the actions to choose from, newest first, as text."""
    named = [f"{one.id} {one.name} {one.status} {to_text(one.created_at)}" for one in actions[:MAX_CANDIDATES]]
    return "; ".join([*named, "and more"] if len(actions) > MAX_CANDIDATES else named)
