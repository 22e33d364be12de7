"""The key `guard` of a request."""

from collections.abc import Mapping, Sequence

from msgspec import Struct

from heatlite.core.wire.guards import GuardRequest


class GuardKeys(Struct, frozen=True):
    """Keys of guards in the body of an update."""

    guard: GuardRequest | bool | None = None
    """Guard of the update: until its clean-up it can be taken back. Default: that of the stack's change policy.

    ``false``: none, also if the policy has one.
    """


def matches(condition: Mapping[str, Sequence[str]], given: Mapping[str, Mapping[str, str]]) -> bool:
    """Return True if an alert has one of the values at each place."""
    return all(_at(place, given) in values for place, values in condition.items())


def _at(place: str, given: Mapping[str, Mapping[str, str]]) -> str:
    table, _, name = place.partition(".")
    return given.get(table, {}).get(name, "")
