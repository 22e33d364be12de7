"""Hooks at which a resource waits: their names, texts and rules (docs/decisions/0010)."""

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
    """The event of a resource that waits from now on. Clients look for this text."""
    return f"{verb_of(hook)} paused until Hook {hook} is cleared"


def cleared_text(hook: str) -> str:
    """The event of the clearing. Clients look for this text."""
    return f"Hook {hook} is cleared"


def expired_text(hook: str) -> str:
    """The event of a wait that goes on for no longer."""
    return f"{cleared_text(hook)}: its time is over"


def waits_at(row: ResourceRecord) -> str | None:
    """The hook at which the row waits."""
    hook = row.token.get("hook") if row.token is not None else None
    return hook if isinstance(hook, str) else None


def lifecycle_token(row: ResourceRecord) -> str | None:
    """By what the wait of a row before its deletion is known to those who were told of it."""
    token = row.token.get("lifecycle_action_token") if row.token is not None else None
    return token if isinstance(token, str) else None


def waits_until(row: ResourceRecord) -> float | None:
    """Return the time at which the wait of a row ends by itself, in seconds since the epoch."""
    until = row.token.get("until") if row.token is not None else None
    return float(until) if isinstance(until, int | float) else None


def is_over(row: ResourceRecord, now: float) -> bool:
    """True if the wait of a row has timed out."""
    until = waits_until(row)
    return until is not None and until <= now


def clearing(verb: Verb, hook: str, row: ResourceRecord) -> str:
    """Return the key of the message that clears the hook of a resource while the stack's operation is `verb`.

    A deletion is keyed by row, of which a name may have several; a create or an update is keyed by name.
    """
    return f"{verb} {hook} {row.id if verb_of(hook) is Verb.DELETE else row.name}"
