"""Answers about reports, policies, scopes and incidents."""

from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.features.healing.intake.intake import Taken
from heatlite.features.healing.operations import HealingOverview, ScopeView
from heatlite.features.healing.reports import ReportOutcome
from heatlite.features.healing.store.records import HealingPolicyRecord, IncidentRecord, ObservationRecord
from heatlite.features.healing.terms import ReportResult

MAX_ANSWERED = 1000
"""Results in an answer."""


def overview(found: HealingOverview) -> JsonMap:
    """Return the answer of GET S/healing."""
    return {
        **_policy(found.policy),
        "scopes": [_scope(one) for one in found.scopes],
        "incidents": [incident(one) for one in found.incidents],
    }


def named_policy(stack_name: str, record: HealingPolicyRecord) -> JsonMap:
    """Return a policy as in the list of the project."""
    return {"stack_id": record.root_id, "stack_name": stack_name, **_policy(record)}


def _policy(record: HealingPolicyRecord | None) -> JsonMap:
    return {
        "policy": None if record is None else record.document,
        "version": 0 if record is None else record.version,
        "updated_by": None if record is None else record.updated_by,
        "updated_at": None if record is None else to_text(record.updated_at),
    }


def _scope(view: ScopeView) -> JsonMap:
    return {
        "scope": view.scope,
        "members": view.facts.members,
        "unhealthy": view.facts.unhealthy,
        "allowed": view.settings.max_unhealthy.of(view.facts.members),
        "breaker": "closed" if view.record.open_since is None else "open",
        "state": "SUSPENDED" if view.record.is_suspended else "RUNNING",
        "failures": view.facts.failures,
        "repairs_in_period": view.recent,
        "cooldown_until": to_text(view.cooldown_until),
        "next_window": to_text(view.next_window),
    }


def incident(record: IncidentRecord) -> JsonMap:
    """Return an incident as in a list."""
    return {
        "id": record.id,
        "source": record.source,
        "state": record.state,
        "reason": record.reason,
        "also": [*record.also],
        "stack_id": record.stack_id,
        "root_stack_id": record.root_id,
        "path": record.path,
        "member": record.member,
        "scope": record.scope,
        "physical_resource_id": record.physical_id,
        "summary": record.summary,
        "step": record.step,
        "attempt": record.attempt,
        "action_id": record.action_id,
        "plan_digest": record.plan_digest,
        "due": to_text(record.due),
        "created_at": to_text(record.created_at),
        "closed_at": to_text(record.closed_at),
        "closed_as": record.closed_as,
    }


def incident_details(record: IncidentRecord, episodes: Sequence[ObservationRecord]) -> JsonMap:
    """Return an incident with its alerts and its history."""
    alerts: list[JsonMap] = [
        {
            "key": one.key,
            "starts_at": to_text(one.starts_at),
            "first_seen": to_text(one.first_seen),
            "last_seen": to_text(one.last_seen),
            "reports": one.reports,
            "summary": one.summary,
        }
        for one in episodes
    ]
    history: list[JsonMap] = [
        {"time": to_text(line.time), "from": line.before, "to": line.after, "reason": line.reason}
        for line in record.history
    ]
    return {**incident(record), "alerts": alerts, "history": history}


def taken(given: Taken) -> JsonMap:
    """Return the answer of POST health/{source}: repeated reports last."""
    listed: Sequence[ReportOutcome] = sorted(given.outcomes, key=lambda one: one.result is ReportResult.REPEATED)
    return {
        "source": given.source,
        "received": given.received,
        "truncated": given.truncated,
        "counts": {str(result): count for result, count in sorted(given.counts.items())},
        "results": [_outcome(one) for one in listed[:MAX_ANSWERED]],
    }


def _outcome(outcome: ReportOutcome) -> JsonMap:
    return {
        "index": outcome.index,
        "key": outcome.key,
        "result": str(outcome.result),
        "incident": outcome.incident,
        "target": outcome.target,
        "detail": outcome.detail,
    }
