"""Base of groups with members that operations add and remove."""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import cast

from msgspec import Struct

from heatlite.core.json import Json
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.plugin.resource import P_co

SIZE = "size"
"""Key of `data`: the size that an operation set, and the template's number then."""
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
    def leaving_order(self) -> list[str]:
        """Return the members in the order in which they leave when the group shrinks."""

    @abstractmethod
    def new_names(self, count: int, leaving: Sequence[str]) -> list[str]:
        """Return names for new members, none of them of a present or a leaving one."""

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
        """Forget a remembered size if the template's number is another since.

        Call as an update begins.
        """
        stored = self.data.get(SIZE)
        if isinstance(stored, dict) and stored.get("over") != asked:
            self.forget_size()

    # -- cooldown -------------------------------------------------------------------------------------

    def cooldown_left(self) -> float:
        """Return the seconds until the group may be scaled again; 0: it may."""
        return max(0.0, cast(float, self.data.get(COOLDOWN, 0)) - self.facts.now())

    def begin_cooldown(self, seconds: float, reason: str) -> None:
        """Begin a cooldown. Metadata shows its end and reason."""
        self.data[COOLDOWN] = self.facts.now() + seconds
        self.data["cooldown_reason"] = reason
