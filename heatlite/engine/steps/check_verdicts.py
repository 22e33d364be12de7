"""The verdict of a check: healthy, unhealthy or unknown; and the text of a stack's check that was not all well.

A check that could not look at the object has found out nothing. It fails the stack's check and leaves the resource's
row as it was, so that no update replaces an object on the ground of an outage (docs/decisions/0022-unknown-health.md).
"""

from dataclasses import replace

from heatlite.clients.cloud import CloudError
from heatlite.core.masking import masked
from heatlite.core.status import Status, Verb
from heatlite.plugin.resource import Unhealthy
from heatlite.store.records import HealthRecord, PreviousState, ResourceRecord

COULD_NOT_LOOK = "Could not look: "
"""The begin of the reason of an event that tells of a check without a result."""

LONGEST_CAUSE = 200
"""Characters of a cause in the reason of a stack."""

HIDING = frozenset({Verb.CHECK, Verb.LOCK, Verb.UNLOCK})
"""Verbs that keep what they hide of an earlier failure (`unit_of_work.row_with_state`)."""


def cause_of(error: Exception) -> str:
    """The reason why an object could not be looked at; "" for a definite answer: the object is unhealthy.

    Objects that cannot be looked at for the same reason have the same cause: it names no object and no request.
    """
    if isinstance(error, Unhealthy):
        return ""
    if isinstance(error, CloudError):
        answer = f"HTTP {error.status}" if error.status is not None else type(error).__name__
        return f"{error.service}: {answer}"
    return f"{type(error).__name__}: {masked(str(error))}"[:LONGEST_CAUSE]


def begun(row: ResourceRecord, marked: bool) -> ResourceRecord:
    """The row with the state that a check without a result gives back.

    `marked`: the row is CHECK_FAILED by a mark on the resource itself.
    """
    before = PreviousState(row.verb, row.status, row.status_reason, row.updated_at)
    known = row.health or HealthRecord()
    return replace(row, health=replace(known, before=before, before_lock=row.before_lock, marked=marked))


def unseen(row: ResourceRecord, reason: str, now: float) -> ResourceRecord | None:
    """The row after a check without a result: as before the check, its health unknown. None: the row is in no check."""
    health = row.health
    if health is None or health.before is None:
        return None
    before, since = health.before, health.since
    return replace(
        row,
        verb=before.verb,
        status=before.status,
        status_reason=before.status_reason,
        updated_at=before.updated_at,
        token=None,
        before_lock=health.before_lock,
        before_check=row.before_check if before.verb in HIDING else None,
        health=HealthRecord(now if since is None else since, reason, health.marked),
    )


def told(row: ResourceRecord, reason: str) -> ResourceRecord:
    """The row as the event of a check without a result shows it."""
    return replace(row, verb=Verb.CHECK, status=Status.FAILED, status_reason=COULD_NOT_LOOK + reason)
