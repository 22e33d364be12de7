"""Groups with members that operations add and remove, and policies of them.

The policies of a group are a chain: before a change of members each reads what those before it have decided, and adds
its part (`pre_op`). After the action each is told the result (`post_op`). Other packages add types by an entry point::

    [options.entry_points]
    heatlite.plugin.groups =
        racks = example_racks:RackPolicy
"""

import re
from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import ClassVar, Final, cast

from msgspec import Struct

from heatlite.core.errors import InvalidValue
from heatlite.core.json import Json, JsonMap
from heatlite.core.runtime.entry_points import announced
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.resource import P_co

MEMBER_NAME = re.compile(r"[A-Za-z0-9_-]{1,255}")
"""Names that requests may give to members of groups without numbers."""
SIZE = "size"
"""Key of `data`: the size that an operation set, and the template's number then."""
LIMITS = "limits"
"""Key of `data`: the limits that an operation set, and the template's then."""
ENTRY_POINTS: Final = "heatlite.plugin.groups"
POLICIES: Final = "policies"
"""Key of a group's `data`: its policies by name."""
PLACEMENT: Final = "placement"
"""Key of a member's `data`: its place, ``{"zone": …}``. Its type obeys it when it makes the object."""
LOADBALANCERS: Final = "loadbalancers"
"""Key of a member's data: its places in pools of load balancers."""
BY_ADDRESS: Final = "by_address"
"""Key of `data` of a pool's member that a policy has put there: it is known by its address."""
COOLDOWN = "cooldown_until"
"""Key of `data`: end of the cooldown, in seconds since the epoch."""


class SizeLimits(Struct, frozen=True):
    """Limits of a group's size, and the seconds between two scalings."""

    low: int
    high: int
    cooldown: float = 0.0


class SizedGroup(StackResource[P_co]):
    """Group whose size operations change. Each has the members of one nested stack."""

    @property
    @abstractmethod
    def definitions(self) -> Mapping[str, Json]:
        """Definitions of the members by name; {} while there is no nested stack."""

    @abstractmethod
    def size_limits(self) -> SizeLimits:
        """Return the limits of the template."""

    @abstractmethod
    def asked_size(self) -> int | None:
        """Return the size that the template asks for; None: it leaves the size open."""

    @abstractmethod
    def next_size(self) -> int:
        """Return the number of members that an update leads to."""

    @abstractmethod
    def leaving_order(self) -> list[str]:
        """Return the members in the order in which they leave when the group shrinks."""

    def named_leaving(self) -> Sequence[str]:
        """Return the members that the template itself names to leave in an update."""
        return ()

    @abstractmethod
    def let_leave(self, names: Sequence[str], since: float) -> None:
        """Have an update take these members out before all others. Stores that in `data`.

        The policies of the group have chosen them. What failed updates have stored since a time stays: a rollback
        undoes them, too.
        """

    @abstractmethod
    def let_stay(self, since: float) -> None:
        """Forget what `let_leave` has stored since a time: a rollback undoes that update."""

    @abstractmethod
    def new_names(self, count: int, leaving: Sequence[str]) -> list[str]:
        """Return names for new members, none of them of a present or a leaving one."""

    def admit(self, names: Sequence[str]) -> None:
        """Accept names that a request gives to new members. Raises InvalidValue.

        A name that was kept out since an operation removed it may be used again.
        """
        wrong = [name for name in names if MEMBER_NAME.fullmatch(name) is None or name in self.definitions]
        if wrong:
            raise InvalidValue(
                f"Group {self.name} cannot have a new member {', '.join(wrong)}: the name is in use, or has other"
                " characters than letters, digits, _ and -."
            )

    @abstractmethod
    def new_definition(self, name: str) -> Json:
        """Return the definition that a new member with this name gets."""

    @abstractmethod
    def having(self, names: Sequence[str]) -> ChildStack:
        """Return the nested stack with these members: present ones stay as they are.

        Stores in `data` what follows.
        """

    def is_outdated(self, name: str) -> bool:
        """Return True if a member has an older definition than new members get."""
        return self.definitions[name] != self.new_definition(name)

    # -- the size that an operation has set ----------------------------------------------------------

    def set_size(self, size: int, by: str) -> None:
        """Remember a size, for updates with the same number in the template."""
        self.data[SIZE] = {"set": size, "over": self.asked_size(), "by": by, "at": self.facts.now()}

    def forget_size(self) -> None:
        """Have the next update return to the template's number."""
        self.data.pop(SIZE, None)

    def remembered_size(self, asked: int | None) -> int | None:
        """Return the remembered size; None without a valid one.

        It is valid while the template's number is the same.
        """
        stored = self.data.get(SIZE)
        if not isinstance(stored, dict) or stored.get("over") != asked:
            return None
        return cast(int, stored["set"])

    def drop_outdated_size(self, asked: int | None) -> None:
        """Forget a remembered size, or limits, if the template's numbers are others since.

        Call as an update begins.
        """
        if self.remembered_limits() is None:
            self.forget_limits()
        stored = self.data.get(SIZE)
        if isinstance(stored, dict) and stored.get("over") != asked:
            self.forget_size()

    # -- the limits that an operation has set ---------------------------------------------------------

    @property
    def limits(self) -> SizeLimits:
        """The limits in force: those that an operation has set, else the template's."""
        return self.remembered_limits() or self.size_limits()

    def set_limits(self, low: int, high: int, by: str) -> None:
        """Remember limits, while the template has the same as now."""
        template = self.size_limits()
        over = [template.low, template.high]
        self.data[LIMITS] = {"set": [low, high], "over": over, "by": by, "at": self.facts.now()}

    def forget_limits(self) -> None:
        """Return to the limits of the template."""
        self.data.pop(LIMITS, None)

    def remembered_limits(self) -> SizeLimits | None:
        """Return the remembered limits; None without valid ones.

        They are valid while the template's are the same.
        """
        stored, template = self.data.get(LIMITS), self.size_limits()
        if not isinstance(stored, dict) or stored.get("over") != [template.low, template.high]:
            return None
        low, high = cast(tuple[int, int], stored["set"])
        return SizeLimits(low, high, template.cooldown)

    # -- cooldown -------------------------------------------------------------------------------------

    def cooldown_left(self) -> float:
        """Return the seconds until the group may be scaled again; 0: it may."""
        return max(0.0, cast(float, self.data.get(COOLDOWN, 0)) - self.facts.now())

    def begin_cooldown(self, seconds: float, reason: str) -> None:
        """Begin a cooldown. Metadata shows its end and reason."""
        self.data[COOLDOWN] = self.facts.now() + seconds
        self.data["cooldown_reason"] = reason


# -- policies ------------------------------------------------------------------------------------------


class MemberFacts(Struct, frozen=True):
    """Facts of one member of a group."""

    name: str
    physical_id: str | None
    created_at: float
    failed: bool = False
    outdated: bool = False
    """Its definition is an older one than new members get."""
    zone: str = ""


class Decisions(Struct, frozen=True):
    """A change of members, as far as it is decided."""

    operation: str
    """Key of the request: ``scale_in``."""
    members: Sequence[MemberFacts] = ()
    """Present members, in the order in which they leave unless a policy has another one."""
    creation: int = 0
    """Number of new members."""
    deletion: int = 0
    """Number of members that leave."""
    candidates: tuple[str, ...] = ()
    """Names of members that leave, in this order. Fewer than `deletion`: the others are not chosen yet."""
    criteria: str | None = None
    """Order of members that leave, as the request names it."""
    grace_period: int | None = None
    """Seconds before the deletion begins, as the request names them."""
    zones: tuple[str, ...] = ()
    """Zones of the new members, one for each; empty: not decided."""
    gives_up: Mapping[str, int] = {}
    """By zone, how many members leave it; empty: not decided."""
    further: Mapping[str, Json] = {}
    """By type of a policy, what else it has decided. `data.policies` of the action has it."""

    @property
    def remaining(self) -> list[MemberFacts]:
        """Members that are not chosen to leave."""
        return [one for one in self.members if one.name not in self.candidates]


class GroupPolicy:
    """Base of the types of policies."""

    type_name: ClassVar[str]
    priority: ClassVar[int]
    """Place in the chain: lower ones come first."""
    options: ClassVar[type[Struct]]
    """Struct that checks and describes its options."""
    finds: ClassVar[Mapping[str, str]] = {}
    """Options with the name or id of an object of the cloud, each with its finder, as `prop(find=…)`. The policy gets
    the id."""

    def __init__(self, options: Struct) -> None:
        """`options` are an object of the class of that name."""

    def pre_op(self, decided: Decisions) -> Decisions:
        """Return the decisions with those of the policy.

        Raises HeatliteError to refuse the change.
        """
        return decided

    def post_op(self, data: JsonMap, result: str) -> JsonMap:
        """Return what `outputs.policies` of the ended action has of the policy.

        `data` are the decisions of the action, as its answer shows them. `result` is ``OK`` or another result.
        """
        return {}


def further_types() -> Mapping[str, type[GroupPolicy]]:
    """Return the types of other packages, by name."""
    found = {one.name: one.load() for one in announced(ENTRY_POINTS)}
    return {name: kind for name, kind in found.items() if isinstance(kind, type) and issubclass(kind, GroupPolicy)}
