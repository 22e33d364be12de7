"""SQL conditions on the health of a row `item` of the table `resource`."""

from heatlite.core.status import Verb


def begins(column: str, text: str) -> str:
    """Return a condition.

    SQLite compiles a statement with `LIKE ?` anew for each execution.
    """
    return f"substr({column}, 1, {len(text)}) = '{text}'"


FAILED_BEFORE_LOCK = '["CHECK","FAILED",'
"""Begin of `Resource.before_lock` of a resource that failed its check before the lock."""

_IS_FAILED = "item.verb = 'CHECK' AND item.status = 'FAILED'"

MAY_BE_UNWELL = f"(({_IS_FAILED}) OR item.before_lock IS NOT NULL OR item.health IS NOT NULL)"
"""The condition of the index `resource_unwell`. The others imply it; without it the index is not used."""
IS_UNHEALTHY = f"(item.before_lock IS NULL AND {_IS_FAILED} OR {begins('item.before_lock', FAILED_BEFORE_LOCK)})"
"""CHECK_FAILED, also under a lock."""
IS_UNKNOWN = f"(item.health IS NOT NULL AND NOT {begins('item.health', '[null,')})"
"""The last check could not look at the object."""
HAS_FAILED = f"""(item.status = 'FAILED' OR item.before_lock IS NOT NULL AND ({' OR '.join(
    begins('item.before_lock', f'["{verb}","FAILED",') for verb in Verb
)}))"""
"""Failed, also under a lock."""
