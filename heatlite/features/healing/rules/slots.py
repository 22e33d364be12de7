"""Places in a stack tree, and the members and scopes that brakes count."""

from collections.abc import Sequence

from msgspec import Struct

SERVER_GROUPS = frozenset({"OS::Heat::InstanceGroup", "AWS::AutoScaling::AutoScalingGroup"})
"""Groups that keep pool members of load balancers beside their servers."""
GROUPS = frozenset({"OS::Heat::ResourceGroup", "OS::Heat::AutoScalingGroup"}) | SERVER_GROUPS
"""Types whose resources are members of a scope."""
POOL_MEMBER = "OS::Octavia::PoolMember"


_OF_DRIFT = "drift:"


class Slot(Struct, frozen=True):
    """A place in a tree."""

    path: str
    """Names from the root to the resource: ``web/2/server``."""
    member: str
    """Path of the member that brakes count."""
    scope: str
    """Path of the member's innermost group, or ``type:TYPE``."""


def drift_scope(scope: str) -> str:
    """Return the scope of the same members that counts the failures of reverts."""
    return f"{_OF_DRIFT}{scope}"


def members_scope(scope: str) -> str:
    """Return the scope that has the members of a scope."""
    return scope.removeprefix(_OF_DRIFT)


def slot_at(chain: Sequence[tuple[str, str]]) -> Slot:
    """Return the place of the last resource of a chain.

    The chain has name and mapped type of each resource, from the root on. A resource below a group belongs to the
    member of its innermost group. Any other is a member itself, also a pool member beside servers; its scope is all
    resources of its type that no group holds.
    """
    if len(chain) == 1:  # most
        return Slot(chain[0][0], chain[0][0], f"type:{chain[0][1]}")
    names = [name for name, _ in chain]
    path = "/".join(names)
    for length in range(len(chain) - 1, 0, -1):
        group, kind = chain[length - 1][1], chain[length][1]
        if group in GROUPS and not (group in SERVER_GROUPS and kind == POOL_MEMBER):
            return Slot(path, "/".join(names[: length + 1]), "/".join(names[:length]))
    return Slot(path, path, f"type:{chain[-1][1]}")
