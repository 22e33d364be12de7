"""Sentences about quotas."""

from heatlite.features.quota.assessment import Assessment, KindState
from heatlite.features.quota.limits import UNLIMITED
from heatlite.features.quota.needs import LARGEST


def shortage_text(found: Assessment) -> str:
    """Return all shortages as a text."""
    return "; ".join(f"{one.kind} {kind_text(one)}" for one in found.shortages)


def kind_text(one: KindState) -> str:
    """Return needs and room of one kind as a text."""
    least = "" if one.known else "at least "
    if one.limit is None:
        return f"needs {least}{one.needed} more, limit not known"
    if one.limit == UNLIMITED:
        return f"needs {least}{one.needed} more, no limit"
    short = f": short by {one.short}" if one.short else ""
    if one.kind == LARGEST:
        return f"needs {least}{one.needed} of {one.limit}{short}"
    free = max(0, one.limit - (one.used or 0) - one.reserved)
    held = f" ({one.reserved} reserved by {', '.join(one.holders)})" if one.reserved else ""
    return f"needs {least}{one.needed} more, {free} free of {one.limit}{held}{short}"
