"""Constraints that plugins add by name."""

from collections.abc import Callable, Iterable
from importlib.metadata import EntryPoint

from heatlite.template.parameters.constraints import Check, add_constraint

GROUP = "heatlite.constraints"


def custom_constraint(name: str) -> Callable[[Check], Check]:
    """Register a check for ``prop(custom=name)`` and ``custom_constraint: name``.

    The check gets a value and returns an error text, or None. It is known once its module is imported. An entry point
    of the group `heatlite.constraints` makes it known from the start. The names of
    `heatlite.template.parameters.constraints` (ip_addr, net_cidr …) are built in.
    """

    def register(check: Check) -> Check:
        add_constraint(name, check)
        return check

    return register


def announce_constraints(entries: Iterable[EntryPoint]) -> None:
    """Register the checks of entry points. Each is loaded at its first use."""
    for entry in entries:
        add_constraint(entry.name, _Announced(entry))


class _Announced:
    """A check that is yet to be loaded."""

    def __init__(self, entry: EntryPoint) -> None:
        self._entry = entry

    def __call__(self, value: object) -> str | None:
        try:
            check: Check = self._entry.load()
        except Exception as error:  # noqa: BLE001  # foreign code: anything may be raised, and none of it may pass
            return f"the constraint cannot be loaded: {type(error).__name__}: {error}"
        add_constraint(self._entry.name, check)
        return check(value)
