"""Verdicts of checks: healthy, unhealthy or unknown.

A check that cannot observe the object has no verdict. It fails the stack's check and restores the resource's row, so
that no update replaces an object because of an outage (docs/decisions/0022-unknown-health.md).
"""


from msgspec.structs import replace

from heatlite.clients.cloud import CloudError
from heatlite.core.actions.check_tally import COULD_NOT_LOOK
from heatlite.core.redaction.masking import masked
from heatlite.core.status import Status, Verb
from heatlite.plugin.handlers import Unhealthy
from heatlite.store.records import HealthRecord, PreviousState, ResourceRecord

MAX_CAUSE = 200
"""Maximum length of a cause in the reason of a stack, in characters."""

HIDING = frozenset({Verb.CHECK, Verb.LOCK, Verb.UNLOCK})
"""Verbs that keep an earlier failure which they hide (`unit_of_work.row_with_state`)."""


def cause_of(error: BaseException) -> str:
    """Return the cause of a check without a verdict; "" for a verdict: unhealthy.

    Objects with the same problem have the same cause: it names no object and no request.
    """
    if isinstance(error, Unhealthy):
        return ""
    if isinstance(error, CloudError):
        answer = f"HTTP {error.status}" if error.status is not None else type(error).__name__
        return f"{error.service}: {answer}"
    return f"{type(error).__name__}: {masked(str(error))}"[:MAX_CAUSE]


def begun(row: ResourceRecord, marked: bool) -> ResourceRecord:
    """Return the row with its present state saved, for a check without a verdict."""
    before = PreviousState(row.verb, row.status, row.status_reason, row.updated_at)
    known = row.health or HealthRecord()
    return replace(row, health=replace(known, before=before, before_lock=row.before_lock, marked=marked))


def unseen(row: ResourceRecord, reason: str, now: float) -> ResourceRecord | None:
    """Return the row as before the check, with unknown health. None: no check runs."""
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


def event_row(row: ResourceRecord, reason: str) -> ResourceRecord:
    """Return the row as shown in the event of a check without a verdict."""
    return replace(row, verb=Verb.CHECK, status=Status.FAILED, status_reason=COULD_NOT_LOOK + reason)
