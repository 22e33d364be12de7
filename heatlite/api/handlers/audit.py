"""The audit log of a project."""

from falcon import Response

from heatlite.api import query
from heatlite.api.handlers.common import MAX_PAGE, page, page_size
from heatlite.api.request import Request
from heatlite.core.clock import to_text
from heatlite.core.errors import NotFound
from heatlite.core.json import JsonMap
from heatlite.store.audit import AuditOutcome, AuditQuery, AuditRecord
from heatlite.store.store import Store

KEYS = ("user", "operation", "outcome", "stack", "address", "request_id", "since", "until", "limit", "marker")


class Audit:
    """P/audit."""

    def __init__(self, store: Store) -> None:
        self._store = store

    def on_get(self, req: Request, resp: Response) -> None:
        """List requests that changed something, and refused ones, newest first."""
        limit = page_size(req, MAX_PAGE)
        marker = query.text(req, "marker")
        project = req.caller.project
        if marker is not None and not self._store.audit.has(project, marker):
            raise NotFound(entity="Request", name=marker)
        query.several_of(req, "outcome", {outcome.value: outcome for outcome in AuditOutcome})
        wanted = AuditQuery(
            **{name: query.several(req, name) for name in KEYS[:6]},
            since=query.moment(req, "since"),
            until=query.moment(req, "until"),
            limit=limit + 1,
            marker=marker,
        )
        found = self._store.audit.page(project, wanted)
        resp.media = page(req, "audit", found, limit, view, lambda one: one.request_id)


def view(record: AuditRecord) -> JsonMap:
    """Return a request as JSON."""
    return {
        "request_id": record.request_id,
        "time": to_text(record.time),
        "last_time": to_text(record.last_time),
        "times": record.times,
        "user": record.user,
        "user_id": record.user_id,
        "address": record.address,
        "method": record.method,
        "path": record.path,
        "operation": record.operation,
        "stack_id": record.stack_id,
        "stack_name": record.stack_name,
        "resource_name": record.resource,
        "target": record.target,
        "outcome": record.outcome,
        "status": record.status,
        "reason": record.reason,
        "plan_digest": record.plan_digest,
        "action_id": record.action_id,
        "approval_id": record.approval_id,
    }
