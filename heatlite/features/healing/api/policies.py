"""The healing policies and the incidents of a project."""

from http import HTTPStatus

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder, next_page, page, page_size
from heatlite.api.request import Request
from heatlite.api.wire import bodies, views
from heatlite.core.json import AnyMap, as_map, whole_numbers
from heatlite.core.wire.base import Body, ShortText
from heatlite.features.healing.api import views as healing_views
from heatlite.features.healing.operations import HealingOperations
from heatlite.features.healing.store.incidents import IncidentQuery
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import ClosedAs, IncidentState
from heatlite.store.store import Store

KEYS = ("state", "source", "stack_id", "path", "closed_as", "limit", "marker")
MAX_PAGE = 200


class SuspendedScope(Body, frozen=True):
    """A suspended scope."""

    scope: str
    """Path of a group, or ``type:TYPE``."""


class ClosureReason(Body, frozen=True):
    """The closure of an incident."""

    reason: ShortText = ""
    """Text for the history, at most 255 characters."""


class ApprovedPlan(Body, frozen=True):
    """The plan of an incident."""

    plan_digest: str
    """``plan_digest`` of the incident."""


class HealingPolicies:
    """S/healing and below."""

    def __init__(self, finder: StackFinder, healing: HealingOperations) -> None:
        self._finder = finder
        self._healing = healing

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show the policy of a stack, its scopes and its open incidents."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        resp.media = healing_views.overview(self._healing.overview(stack))

    def on_put(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Replace the policy."""
        document = as_map(whole_numbers(bodies.checked(req, AnyMap)))
        self._healing.put_policy(req.caller, self._finder.find_live(req, stack_name, stack_id), document)
        self.on_get(req, resp, stack_name, stack_id)

    def on_delete(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Remove the policy."""
        self._healing.delete_policy(req.caller, self._finder.find_live(req, stack_name, stack_id))
        resp.status = HTTPStatus.NO_CONTENT

    def on_post_acknowledge(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """End the suspension of a scope."""
        scope = bodies.checked(req, SuspendedScope).scope
        req.concerns(target=scope)
        self._healing.acknowledge(req.caller, self._finder.find_live(req, stack_name, stack_id), scope)
        self.on_get(req, resp, stack_name, stack_id)


class ProjectPolicies:
    """P/healing."""

    def __init__(self, store: Store) -> None:
        self._policies = store.of(HealingStore).policies

    def on_get(self, req: Request, resp: Response) -> None:
        """List the policies of the project's stacks."""
        limit = page_size(req, MAX_PAGE)
        found = self._policies.page(req.caller.project, limit + 1, query.text(req, "marker") or "")
        shown = [healing_views.named_policy(name, policy) for name, policy in found[:limit]]
        listed: dict[str, object] = {"healing_policies": shown}
        if 0 < limit < len(found):
            listed["links"] = [views.link("next", next_page(req, "healing", found[limit - 1][1].root_id))]
        resp.media = listed


class Incidents:
    """P/incidents and below."""

    def __init__(self, store: Store, healing: HealingOperations) -> None:
        self._store = store
        self._rows = store.of(HealingStore)
        self._healing = healing

    def on_get(self, req: Request, resp: Response) -> None:
        """List incidents, newest first."""
        limit = page_size(req, MAX_PAGE)
        marker = query.text(req, "marker")
        if marker is not None:
            self._healing.incident(req.caller.project, marker)
        wanted = IncidentQuery(
            state=query.several_of(req, "state", {state.value: state.value for state in IncidentState}),
            closed_as=query.several_of(req, "closed_as", {reason.value: reason.value for reason in ClosedAs}),
            source=query.several(req, "source"),
            stack_id=query.several(req, "stack_id"),
            path=query.values(req, "path"),  # names of resources may have commas
            limit=limit + 1,
            marker=marker,
        )
        rest = self._rows.incidents.page(req.caller.project, wanted)
        resp.media = page(req, "incidents", rest, limit, healing_views.incident, lambda one: one.id)

    def on_get_one(self, req: Request, resp: Response, incident_id: str) -> None:
        """Show an incident with its alerts and its history."""
        found = self._healing.incident(req.caller.project, incident_id)
        resp.media = {"incident": healing_views.incident_details(found, self._healing.alerts(incident_id))}

    def on_post_close(self, req: Request, resp: Response, incident_id: str) -> None:
        """Close an incident, and mute its alerts until they have resolved once."""
        self._name(req, incident_id)
        self._healing.close(req.caller, incident_id, bodies.checked(req, ClosureReason).reason)
        self.on_get_one(req, resp, incident_id)

    def on_post_approve(self, req: Request, resp: Response, incident_id: str) -> None:
        """Begin the repair that an incident proposes."""
        self._name(req, incident_id)
        self._healing.approve(req.caller, incident_id, bodies.checked(req, ApprovedPlan).plan_digest)
        begun = self._healing.incident(req.caller.project, incident_id).action_id
        if begun is not None:
            req.queued.append(begun)
        resp.status = HTTPStatus.ACCEPTED
        self.on_get_one(req, resp, incident_id)

    def _name(self, req: Request, incident_id: str) -> None:
        """Name stack and resource for the audit log. Raises EntityNotFound."""
        found = self._healing.incident(req.caller.project, incident_id)
        req.concerns(self._store.stacks.get(found.root_id), resource_name=found.path)
