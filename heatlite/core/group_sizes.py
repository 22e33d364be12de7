"""Sizes of groups: adjustments and limits. Pure functions."""

import math


def within(size: int, low: int, high: int) -> int:
    """Return the nearest size within the limits."""
    return max(low, min(size, high))


def adjusted(current: int, adjustment: float, kind: str, least: int | None = None) -> int:
    """Return the size of a group after an adjustment, before any limits.

    `kind` is change_in_capacity, exact_capacity or percent_change_in_capacity. Percentages are rounded towards 0, but
    change the size by at least 1, or by `least`.
    """
    if kind == "exact_capacity":
        return int(adjustment)
    if kind == "change_in_capacity":
        return current + int(adjustment)
    exact = current * adjustment / 100
    step = 0 if exact == 0 else max(1, math.floor(abs(exact)), least or 0)
    return current + int(math.copysign(step, exact))
