"""Values of settings, as files and variables have them."""

import math
from collections.abc import Mapping, Sequence
from enum import StrEnum

_KINDS: dict[object, type[int] | type[float] | type[str]] = {int: int, int | None: int, float: float}


Value = int | float | str | tuple[str, ...] | Mapping[str, str]

MAY_BE_0 = frozenset(
    {"port", "metrics_port", "processes", "action_retry_limit", "client_retry_limit", "execution_retry_limit"}
)
"""Port 0: any free one."""

UNLIMITED = -1
MAY_BE_UNLIMITED = frozenset(
    {
        "max_resources_per_stack", "max_stacks_per_tenant", "max_snapshots_per_stack",
        "max_software_configs_per_tenant", "max_software_deployments_per_tenant",
    }
)  # fmt: skip
"""Limits that -1 switches off, as in Heat."""


TEXTS: Sequence[object] = (str, str | None, tuple[str, ...], tuple[str, ...] | None, Mapping[str, str])
"""Types of texts, and of lists and tables of texts."""
_LISTS: Sequence[object] = (tuple[str, ...], tuple[str, ...] | None)


def is_setting(kind: object) -> bool:
    """Return whether a setting may have a type."""
    is_choice = isinstance(kind, type) and issubclass(kind, StrEnum)
    return is_choice or kind is bool or kind in (*_KINDS, *TEXTS)


def setting_value(name: str, kind: object, value: object, is_secret: bool, is_line: bool) -> Value:
    """Return a value as the type of its field. Raises ValueError.

    Errors do not show one that `is_secret`. In one that `is_line` commas separate the texts of a list.
    """
    shown = "" if is_secret else f", not {value!r}"
    if kind in _LISTS:
        return _texts(name, value, is_line, shown)
    if kind == Mapping[str, str]:
        return _table(name, value)
    if kind is bool:
        if str(value).lower() not in ("true", "false"):
            raise ValueError(f"{name} must be true or false, not {value!r}.")
        return str(value).lower() == "true"
    if isinstance(kind, type) and issubclass(kind, StrEnum):
        if value not in [*kind]:
            raise ValueError(f"{name} must be {' or '.join(kind)}, not {value!r}.")
        return kind(str(value))
    target = _KINDS.get(kind, str)
    if isinstance(value, bool) or not isinstance(value, str if target is str else str | int | float):
        raise ValueError(f"{name} must be {'text' if target is str else 'a number'}{shown}.")
    try:
        number = target(value)
    except (ValueError, OverflowError):
        raise ValueError(f"{name} must be a number, not {value!r}.") from None
    return number if isinstance(number, str) else _number(name, number, value)


def _number(name: str, number: int | float, value: object) -> int | float:
    """The number of a setting that was written as `value`, within its limits."""
    if isinstance(number, int) and isinstance(value, float) and number != value:
        raise ValueError(f"{name} must be a whole number, not {value!r}.")
    if number == UNLIMITED and name in MAY_BE_UNLIMITED:
        return number
    if not math.isfinite(number) or number < 0 or (number == 0 and name not in MAY_BE_0):
        raise ValueError(f"{name} must be greater than 0, not {value!r}.")
    if name in ("port", "metrics_port") and number > 65535:
        raise ValueError(f"a port is at most 65535, not {value!r}.")
    return number


def _texts(name: str, value: object, is_line: bool, shown: str) -> tuple[str, ...]:
    items: object = value.split(",") if isinstance(value, str) and is_line else value
    if not isinstance(items, list) or not all(isinstance(item, str) for item in items):
        raise ValueError(f"{name} must be a list of texts{shown}.")
    return tuple(item.strip() for item in items if item.strip())


def _table(name: str, value: object) -> dict[str, str]:
    """A table of the file; numbers and truth values in it as texts."""
    if not isinstance(value, dict):
        raise ValueError(f"{name} must be a table: [{name}].")
    for key, item in value.items():
        if not isinstance(item, str | int | float):
            raise ValueError(f"{key} in [{name}] must be text, a number, true or false.")
    return {key: str(item) for key, item in value.items()}
