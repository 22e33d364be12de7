"""Answers about approvals."""

from msgspec import UNSET
from msgspec.structs import replace

from heatlite.api.wire import views
from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.approvals.store.records import ApprovalRecord


def plan_content(plan: ShownPlan, above: tuple[str, ...] = ()) -> JsonMap:
    """Return the content of an approval of a plan, whose secrets are masked.

    `above` is the path of the stack that it changes. It has what changes, and what is left out or retained on request.
    """
    told = [one for one in plan.resources if one.action != "keep" or one.selection is not UNSET]
    resources = tuple(replace(one, path=(*above, *one.path)) for one in told)
    return views.repair(replace(plan, resources=resources))


def shown(record: ApprovalRecord, may_decide: bool) -> JsonMap:
    """Return an approval without its content."""
    return {
        "id": record.id,
        "subject": record.subject.value,
        "state": record.state.value,
        "stack_name": record.stack_name,
        "stack_id": record.stack_id or None,
        "resource": record.resource,
        "nodes": [*record.nodes],
        "digest": record.digest,
        "because": [*record.because],
        "requested_by": record.requested_by,
        "requested_at": to_text(record.requested_at),
        "expires_at": to_text(record.expires_at),
        "decided_by": record.decided_by,
        "decided_at": to_text(record.decided_at),
        "reason": record.reason,
        "action_id": record.action_id,
        "incident_id": record.incident_id,
        "node_action_id": record.node_action_id,
        "replaced_by": record.replaced_by,
        "may_decide": may_decide,
    }
