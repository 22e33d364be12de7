"""Places in a stack tree, and the members and scopes that brakes count."""

from collections.abc import Sequence
from dataclasses import dataclass

GROUPS = frozenset({
    "OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup", "OS::Heat::InstanceGroup",
    "AWS::AutoScaling::AutoScalingGroup",
})  # fmt: skip
"""Types whose resources are members of a scope."""


@dataclass(frozen=True, slots=True)
class Slot:
    """A place in a tree."""

    path: str
    """Names from the root to the resource: ``web/2/server``."""
    member: str
    """Path of the member that brakes count."""
    scope: str
    """Path of the member's innermost group, or ``type:TYPE``."""


def slot_at(chain: Sequence[tuple[str, str]]) -> Slot:
    """Return the place of the last resource of a chain.

    The chain has name and mapped type of each resource, from the root on. A resource below a group belongs to the
    member of its innermost group. Any other is a member itself; its scope is all resources of its type that no group
    holds.
    """
    names = [name for name, _ in chain]
    path = "/".join(names)
    for length in range(len(chain) - 1, 0, -1):
        if chain[length - 1][1] in GROUPS:
            return Slot(path, "/".join(names[: length + 1]), "/".join(names[:length]))
    return Slot(path, path, f"type:{chain[-1][1]}")
