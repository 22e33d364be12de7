"""Hooks of resources: names, texts and rules (docs/decisions/0010)."""

from collections.abc import Mapping

from heatlite.core.status import Verb
from heatlite.store.records import ResourceRecord

PRE_DELETE = "pre-delete"

CONVERGING = frozenset({Verb.UPDATE, Verb.ROLLBACK, Verb.RESTORE})

STOPS_IN: Mapping[str, frozenset[Verb]] = {
    "pre-create": frozenset({Verb.CREATE}),
    "post-create": frozenset({Verb.CREATE}),
    "pre-update": CONVERGING,
    "post-update": CONVERGING,
    PRE_DELETE: frozenset({Verb.DELETE}),
    "post-delete": frozenset({Verb.DELETE}),
}
"""Hook → stack operations in which it applies. An update ignores hooks of resources that it creates or removes."""


def verb_of(hook: str) -> Verb:
    """Return the operation that the hook precedes or follows."""
    return Verb(hook.partition("-")[2].upper())


def reached_text(hook: str) -> str:
    """Return the event text of a reached hook. Clients search for it."""
    return f"{verb_of(hook)} paused until Hook {hook} is cleared"


def cleared_text(hook: str) -> str:
    """Return the event text of a cleared hook. Clients search for it."""
    return f"Hook {hook} is cleared"


def expired_text(hook: str) -> str:
    """Return the event text of an expired wait."""
    return f"{cleared_text(hook)}: its time is over"


def waits_at(row: ResourceRecord) -> str | None:
    """Return the hook at which the row waits; None: it does not wait."""
    hook = row.token.get("hook") if row.token is not None else None
    return hook if isinstance(hook, str) else None


def lifecycle_token(row: ResourceRecord) -> str | None:
    """Return the token of a row's wait before its deletion, as sent to webhooks."""
    token = row.token.get("lifecycle_action_token") if row.token is not None else None
    return token if isinstance(token, str) else None


def waits_until(row: ResourceRecord) -> float | None:
    """Return the timeout of a row's wait, in seconds since the epoch."""
    until = row.token.get("until") if row.token is not None else None
    return float(until) if isinstance(until, int | float) else None


def is_over(row: ResourceRecord, now: float) -> bool:
    """True if the wait of a row has timed out."""
    until = waits_until(row)
    return until is not None and until <= now


def clearing(verb: Verb, hook: str, row: ResourceRecord) -> str:
    """Return the key of the message that clears a hook during a stack operation.

    A deletion is keyed by row, since a name may have several rows; a create or an update is keyed by name.
    """
    return f"{verb} {hook} {row.id if verb_of(hook) is Verb.DELETE else row.name}"
