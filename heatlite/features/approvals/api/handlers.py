"""P/approvals and below."""

from http import HTTPStatus

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import page, page_size
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.core.wire.base import Body, ShortText
from heatlite.features.approvals import views
from heatlite.features.approvals.operations import Approvals
from heatlite.features.approvals.store.records import ApprovalRecord, ApprovalState, Subject
from heatlite.features.approvals.store.store import ApprovalQuery, ApprovalStore
from heatlite.store.store import Store

KEYS = ("state", "subject", "stack", "requested_by", "limit", "marker")
MAX_PAGE = 200


class Approval(Body, frozen=True):
    """A yes to one content."""

    digest: str
    """The ``digest`` of the approval."""
    reason: ShortText = ""
    """Text for the record, at most 255 characters."""


class Rejection(Body, frozen=True):
    """A no."""

    reason: ShortText = ""
    """Text for the record, at most 255 characters."""


class ApprovalRoutes:
    """P/approvals and below."""

    def __init__(self, store: Store, approvals: Approvals) -> None:
        self._store = store
        self._rows = store.of(ApprovalStore)
        self._approvals = approvals

    def on_get(self, req: Request, resp: Response) -> None:
        """List approvals, newest first."""
        limit, marker = page_size(req, MAX_PAGE), query.text(req, "marker")
        asked = ApprovalQuery(
            state=query.several_of(req, "state", {one.value: one.value for one in ApprovalState}),
            subject=query.several_of(req, "subject", {one.value: one.value for one in Subject}),
            stack=query.several(req, "stack"),
            requested_by=query.several(req, "requested_by"),
            limit=limit + 1,
            after=None if marker is None else self._marked(req, marker),
        )
        found = self._rows.page(req.caller.project, asked)
        resp.media = page(req, "approvals", found, limit, lambda one: self._shown(req, one), lambda one: one.id)

    def _marked(self, req: Request, marker: str) -> ApprovalRecord:
        found = self._rows.get(marker)
        if found is None or found.project != req.caller.project:
            raise HTTPBadRequest(f"marker: there is no approval {marker}. Take it from the link to the next page.")
        return found

    def on_get_one(self, req: Request, resp: Response, approval_id: str) -> None:
        """Show an approval with its content."""
        record = self._approvals.get(req.caller.project, approval_id)
        resp.media = {"approval": {**self._shown(req, record), "content": self._approvals.content(record)}}

    def on_post_approve(self, req: Request, resp: Response, approval_id: str) -> None:
        """Approve, and begin what waits."""
        record = self._decided(req, approval_id)
        asked = bodies.checked(req, Approval)
        record = self._approvals.approve(req.caller, record, asked.digest, asked.reason)
        if record.action_id is not None and record.action_id not in req.queued:
            req.queued.append(record.action_id)
        resp.status = HTTPStatus.ACCEPTED
        resp.media = {"approval": self._shown(req, record)}

    def on_post_reject(self, req: Request, resp: Response, approval_id: str) -> None:
        """Reject."""
        record = self._decided(req, approval_id)
        record = self._approvals.reject(req.caller, record, bodies.checked(req, Rejection).reason)
        resp.media = {"approval": self._shown(req, record)}

    def _decided(self, req: Request, approval_id: str) -> ApprovalRecord:
        """Return the approval to decide, and name it for the audit log. Raises Forbidden."""
        record = self._approvals.get(req.caller.project, approval_id)
        req.require(self._approvals.rule(record))
        req.concerns(stack_name=record.stack_name, target=record.id)
        if record.stack_id:
            req.concerns(stack_id=record.stack_id)
        if record.resource:
            req.concerns(resource_name=record.resource)
        req.plan_digest = record.digest
        req.caller.approvals[:] = [record.id]
        return record

    def _shown(self, req: Request, record: ApprovalRecord) -> JsonMap:
        return views.shown(record, self._approvals.may_decide(req.caller, record))
