"""Repairs by a restricted update: the selected members, and the step for each."""

from collections.abc import Mapping
from enum import StrEnum

from msgspec import UNSET, Struct, UnsetType, field


class RepairStep(StrEnum):
    """A way to repair one member."""

    REPLACE = "replace"
    REBOOT = "reboot"
    """Restarts the object, which keeps its id; only for types that support it."""
    REBUILD = "rebuild"
    """Makes the object again in place; only for types that support it."""


class Selection(Struct, frozen=True):
    """The resources that a restricted update repairs. All others keep their objects.

    A path has the names of resources from the stack on, with ``/`` between them: ``web/2/server``.
    """

    steps: Mapping[str, RepairStep] = field(name="members")
    """By path."""
    incidents: tuple[str, ...] = ()
    compares: bool | UnsetType = UNSET
    """Of a nested stack that reads something of a repaired resource: its healthy members follow its new values."""

    def step(self, name: str) -> RepairStep | None:
        """Return the step for a resource of this stack; None: it is not selected itself."""
        return self.steps.get(name)

    def leads_to(self, name: str) -> bool:
        """Return True if something in the nested stack of a resource is selected."""
        return any(path.startswith(f"{name}/") for path in self.steps)

    def below(self, name: str, compares: bool = False) -> "Selection":
        """Return the selection within the nested stack of a resource."""
        start = f"{name}/"
        steps = {path.removeprefix(start): step for path, step in self.steps.items() if path.startswith(start)}
        return Selection(steps, compares=compares or UNSET)

    def selects(self, path: tuple[str, ...]) -> bool:
        """Return True for the path of a selected resource, or of one below it."""
        return any("/".join(path[:length]) in self.steps for length in range(1, len(path) + 1))
