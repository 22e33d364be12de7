"""Node actions: list, create, show, approve, reject, cancel."""

from collections.abc import Sequence
from functools import cache
from http import HTTPStatus
from typing import Literal
from uuid import UUID

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import StackFinder, page, page_size
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.errors import EntityNotFound, HTTPBadRequest
from heatlite.core.json import AnyMap, JsonMap
from heatlite.core.redaction.masking import NOTHING, Mask
from heatlite.core.wire.base import Body, ShortText
from heatlite.engine.types.outputs import StackReader
from heatlite.features.nodes.api import views as node_views
from heatlite.features.nodes.redaction import NodeVeil
from heatlite.features.nodes.requests import NodeRequest, NodeRequests
from heatlite.features.nodes.states import NodeActionState, Requester
from heatlite.features.nodes.store.records import NodeActionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.store import Store

SORTED_BY = {
    "created_at": "seq", "updated_at": "updated_at", "node": "node", "kind": "kind", "state": "state",
}  # fmt: skip
"""Sort keys and their columns. Node actions are numbered in the order of creation."""
KEYS = ("node", "kind", "state", "requester", "run", "stack", "sort", "limit", "marker")
OF_STACK_KEYS = tuple(key for key in KEYS if key != "stack")
MAX_PAGE = 200


class NewNodeAction(Body, frozen=True):
    """A new node action."""

    node: str
    """Name or id of a node of the stack or of one nested in it."""
    kind: ShortText
    """Kind of the action; one of the agent's kinds."""
    args: AnyMap | None = None
    """Arguments of its kind; at most 256 KiB of JSON."""
    approval: Literal["required", "granted"] = "required"
    """``required``: it must be approved; ``granted``: this request approves it.

    ``granted`` is for callers who may approve, and only without the setting ``node_approval_by_another``.
    """
    id: str | None = None
    """A UUID of the caller's own. A repeated request with it answers the first one's action as it is now."""


class NodeDecision(Body, frozen=True):
    """The approval or the rejection of what was read."""

    digest: str | None = None
    """The digest of what was read; if it is another by now, the call is refused."""


class NodeActions:
    """P/node_actions and below; S/node_actions."""

    def __init__(self, finder: StackFinder, store: Store, reader: StackReader, requests: NodeRequests) -> None:
        self._finder = finder
        self._store = store
        self._rows = store.of(NodeStore)
        self._reader = reader
        self._requests = requests

    def on_get(self, req: Request, resp: Response) -> None:
        """List the node actions of the project."""
        resp.media = self._list(req, "node_actions", query.several(req, "stack") or None)

    def on_get_of_stack(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the node actions of a stack and its nested stacks."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        stacks = [stack.id, *(nested.id for nested in self._store.stacks.descendants(stack))]
        resp.media = self._list(req, f"stacks/{stack.name}/{stack.id}/node_actions", stacks)

    def on_post_of_stack(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Create a node action."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        asked = _request(bodies.checked(req, NewNodeAction))
        req.concerns(resource_name=asked.node)
        found, is_new = self._requests.create(req.caller, stack, asked)
        req.concerns(target=found.id)
        resp.status = HTTPStatus.CREATED if is_new else HTTPStatus.OK
        resp.media = self._shown(req, found)

    def on_get_one(self, req: Request, resp: Response, node_action_id: str) -> None:
        """Show a node action with its history."""
        resp.media = self._shown(req, self._find(req, node_action_id))

    def on_post_approve(self, req: Request, resp: Response, node_action_id: str) -> None:
        """Approve a node action."""
        found = self._named(req, node_action_id)
        resp.media = self._shown(req, self._requests.approve(req.caller, found, digest_of(req)))

    def on_post_reject(self, req: Request, resp: Response, node_action_id: str) -> None:
        """Reject a node action."""
        found = self._named(req, node_action_id)
        resp.media = self._shown(req, self._requests.reject(req.caller, found, digest_of(req)))

    def on_post_cancel(self, req: Request, resp: Response, node_action_id: str) -> None:
        """Cancel a node action. 202 if the agent must confirm it first."""
        found = self._named(req, node_action_id)
        bodies.checked_or_empty(req, bodies.Nothing)
        found = self._requests.cancel(req.caller, found)
        resp.status = HTTPStatus.OK if found.has_ended else HTTPStatus.ACCEPTED
        resp.media = self._shown(req, found)

    def _list(self, req: Request, path: str, stacks: Sequence[str] | None) -> JsonMap:
        limit = page_size(req, MAX_PAGE)
        marker = query.text(req, "marker")
        filters = {
            "node": query.several(req, "node"),
            "kind": query.several(req, "kind"),
            "state": query.several_of(req, "state", {state.value: state for state in NodeActionState}),
            "requester": query.several_of(req, "requester", {one.value: one for one in Requester}),
            "run_id": query.several(req, "run"),
        }
        sort = [(SORTED_BY[key], down) for key, down in query.sort(req, SORTED_BY)]
        rest = self._rows.node_actions.page(
            req.caller.project,
            stacks,
            {column: values for column, values in filters.items() if values},
            sort or [("seq", True)],
            limit + 1,
            None if marker is None else self._marked(req, marker),
        )
        mask = cache(self._mask)

        def show(one: NodeActionRecord) -> JsonMap:
            return node_views.node_action_summary(req.base, one, NodeVeil(one, mask(one.stack_id)))

        return page(req, path, rest, limit, show, lambda one: one.id)

    def _marked(self, req: Request, marker: str) -> NodeActionRecord:
        found = self._rows.node_actions.get(marker)
        if found is None or found.project != req.caller.project:
            raise HTTPBadRequest(f"marker must be the id of a node action of this project; {marker} is none.")
        return found

    def _shown(self, req: Request, record: NodeActionRecord) -> JsonMap:
        veil = NodeVeil(record, self._mask(record.stack_id))
        history = self._rows.node_actions.history(record.id)
        depended_by = [one.dependent for one in self._store.dependencies.of(record.id)]
        return {"node_action": node_views.node_action(req.base, record, veil, history, depended_by)}

    def _mask(self, stack_id: str) -> Mask:
        stack = self._store.stacks.get(stack_id)
        return NOTHING if stack is None else self._reader.mask(stack)

    def _named(self, req: Request, action_id: str) -> NodeActionRecord:
        """Do as `_find`, and name its stack and node for the audit log."""
        found = self._find(req, action_id)
        req.concerns(self._store.stacks.get(found.stack_id), resource_name=found.node)
        return found

    def _find(self, req: Request, action_id: str) -> NodeActionRecord:
        """Return the node action of the caller's project. Raises EntityNotFound."""
        found = self._rows.node_actions.get(action_id)
        if found is None or found.project != req.caller.project:
            raise EntityNotFound(entity="Node action", name=action_id)
        return found


def _request(asked: NewNodeAction) -> NodeRequest:
    own_id = None if asked.id is None else _uuid(asked.id)
    return NodeRequest(asked.node, asked.kind, asked.args or {}, asked.approval == "granted", own_id)


def _uuid(given: str) -> str:
    try:
        return str(UUID(given))
    except ValueError:
        raise HTTPBadRequest(f"id: must be a UUID, not {given[:80]}.") from None


def digest_of(req: Request) -> str | None:
    """Return the digest that the decision refers to, if its body has one."""
    return bodies.checked_or_empty(req, NodeDecision).digest
