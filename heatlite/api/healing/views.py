"""Answers about policies, scopes and incidents."""

from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.healing.operations import Overview, ScopeView
from heatlite.store.healing.records import IncidentRecord, ObservationRecord


def overview(found: Overview) -> JsonMap:
    """Return the answer of GET S/healing."""
    policy = found.policy
    return {
        "policy": None if policy is None else policy.document,
        "version": 0 if policy is None else policy.version,
        "updated_by": None if policy is None else policy.updated_by,
        "updated_at": None if policy is None else to_text(policy.updated_at),
        "scopes": [_scope(one) for one in found.scopes],
        "incidents": [incident(one) for one in found.incidents],
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
