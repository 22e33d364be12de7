"""Answers about drift."""

from msgspec import to_builtins

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import MASK, Mask
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftCounts, Listed


def counts(found: DriftCounts) -> JsonMap:
    """Return the numbers of a list."""
    return {
        "drifted": found.drifted,
        "in_sync": found.in_sync,
        "unknown": found.unknown,
        "not_checked": found.not_checked,
        "ignored": found.ignored,
        "checked_at": to_text(found.checked_at),
    }


def resource(one: Listed, path: str, shows_ignored: bool, mask: Mask | None) -> JsonMap:
    """Return a resource of a list, masked, with its ignored differences if wanted."""
    drift = one.drift
    differences = () if drift is None else drift.differences or ()
    return {
        "id": one.resource_id,
        "resource_name": one.name,
        "path": path,
        "stack_id": one.stack_id,
        "root_stack_id": one.root_id,
        "resource_type": one.type,
        "physical_resource_id": one.physical_id,
        "state": str(DriftState.NOT_CHECKED if drift is None else drift.state),
        "since": None if drift is None else to_text(drift.since),
        "unknown_since": None if drift is None else to_text(drift.unknown_since),
        "checked_at": None if drift is None else to_text(drift.checked_at),
        "ignored": 0 if drift is None else drift.ignored,
        "truncated": drift is not None and drift.truncated,
        "differences": [masked(to_builtins(each), mask) for each in differences if shows_ignored or not each.ignored],
    }


def masked(difference: JsonMap, mask: Mask | None) -> JsonMap:
    """Return a difference as a caller may see it.

    Where one side has a secret in it, the other may have another one.
    """
    if mask is None:
        return difference
    sides = difference.keys() & {"stored", "live"}
    is_secret = any(mask.json(difference[side]) != difference[side] for side in sides)
    shown = {**difference, "path": mask.text(str(difference["path"]))}
    return {**shown, **dict.fromkeys(sides, MASK)} if is_secret else shown
