"""Breakers, failures and suspensions of scopes."""

from collections.abc import Iterator

from msgspec.structs import replace

from heatlite.engine.state.unit_of_work import STACK_TYPE
from heatlite.features.healing.loop.tree import WatchedTree, failure_scope
from heatlite.features.healing.reports import DRIFT
from heatlite.features.healing.store.records import HealingScopeRecord, IncidentRecord, RepairRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import REVERT, IncidentState, RepairResult
from heatlite.store.records import EventRecord
from heatlite.store.store import Store

BREAKER = "HEALING_BREAKER"
SUSPENDED = "HEALING_SCOPE"


def refresh_breakers(store: Store, tree: WatchedTree, now: float) -> bool:
    """Open and close the breakers of a tree.

    One without an open incident is closed: it holds nothing. Returns True if one closed: then all incidents need new
    evidence.
    """
    closed = False
    reported = {one.scope for one in tree.incidents}
    for scope in sorted({*reported, *tree.scopes}):
        record = tree.scopes.get(scope, HealingScopeRecord(tree.root.id, scope))
        facts = tree.scope_facts(scope, now)
        allowed = tree.policy.of_scope(scope).max_unhealthy.of(facts.members)
        is_open, was_open = scope in reported and facts.unhealthy > allowed, record.open_since is not None
        if is_open == was_open:
            continue
        store.of(HealingStore).scopes.save(replace(record, open_since=now if is_open else None))
        reason = f"{scope}: {facts.unhealthy} of {facts.members} unhealthy, {allowed} allowed"
        status = "OPEN" if is_open else "CLOSED"
        store.events.append_many(list(_scope_events(tree, scope, BREAKER, status, reason, now)))
        closed = closed or was_open
    if closed:
        store.of(HealingStore).incidents.demand_evidence(now, root_id=tree.root.id)
    return closed


def judge_new(store: Store, tree: WatchedTree, incident: IncidentRecord, now: float) -> IncidentRecord:
    """Count the last repair of a slot as failed if a new incident follows too soon.

    Returns it at the next step.
    """
    is_new = incident.state in (IncidentState.OBSERVED, IncidentState.MARKED) and not incident.history
    if not is_new or incident.step or (incident.evidence_since or 0.0) <= tree.settles_until(incident.path):
        return incident
    soon = float(tree.policy.at(incident.path).min_healthy)
    for repair in reversed(tree.repairs):
        ended = repair.ended_at
        if repair.path != incident.path or ended is None or repair.incident_id == incident.id:
            continue
        if (repair.step == REVERT) != (incident.source == DRIFT):
            continue
        if repair.result is RepairResult.CANCELLED or incident.created_at >= ended + soon:
            break
        if not repair.is_failure:
            store.of(HealingStore).repairs.save(replace(repair, is_failure=True))
            count_failure(store, tree, repair, now)
        return replace(incident, step=repair.position + 1)
    return incident


def count_failure(store: Store, tree: WatchedTree, repair: RepairRecord, now: float) -> None:
    """Count a member's failed repair once, and suspend the scope after too many."""
    same = [one for one in store.of(HealingStore).repairs.of_action(repair.action_id) if one.member == repair.member]
    if any(one.is_failure and one.id != repair.id for one in same):
        return
    scope = failure_scope(repair)
    stored = store.of(HealingStore).scopes.of_root(tree.root.id).get(scope)
    record = stored or HealingScopeRecord(tree.root.id, scope)
    is_row = tree.failures(scope, now) > 0 or stored != tree.scopes.get(scope)
    failures = (record.failures if is_row else 0) + 1
    limit = tree.policy.of_scope(repair.scope).give_up_after
    suspends = failures >= limit and not record.is_suspended
    store.of(HealingStore).scopes.save(replace(record, failures=failures, is_suspended=record.is_suspended or suspends))
    if suspends:
        reason = f"{scope}: {failures} failed repairs in a row; acknowledge it to go on"
        store.events.append_many(list(_scope_events(tree, repair.scope, SUSPENDED, "SUSPENDED", reason, now)))


def _scope_events(
    tree: WatchedTree, scope: str, verb: str, status: str, reason: str, now: float
) -> Iterator[EventRecord]:
    """Yield the event of a scope: on its group, or on the root for a scope by type."""
    place = tree.places.get(scope)
    if place is None:
        root = tree.root
        yield EventRecord(root.id, root.name, STACK_TYPE, root.id, verb, status, reason[:255], now)
    else:
        row = place.row
        yield EventRecord(row.stack_id, row.name, row.type, row.physical_id, verb, status, reason[:255], now)
