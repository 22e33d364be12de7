"""Restricted updates: resources that one repairs, replaces or leaves out."""

from collections.abc import Mapping
from enum import StrEnum
from functools import cached_property

from msgspec import UNSET, Struct, UnsetType, field
from msgspec.structs import replace


class RepairStep(StrEnum):
    """A way to repair one member."""

    REPLACE = "replace"
    REBOOT = "reboot"
    """Restarts the object, which keeps its id; only for types that support it."""
    REBUILD = "rebuild"
    """Makes the object again in place; only for types that support it."""


class RepairPart(StrEnum):
    """The part of a resource in a restricted update, as a plan shows it."""

    NAMED = "named"
    PULLED_IN = "pulled_in"
    """Something that is named requires it."""
    LEFT_OUT = "left_out"
    """It would change, and stays as it is."""


class Kept(Struct, frozen=True):
    """Resources that earlier updates have left out.

    No definition says how they are. An update notes in their rows what it does there, for its rollback.
    """

    update: str
    """The id of the root's action."""
    paths: tuple[str, ...] | None
    """None: all of the stack."""
    names: tuple[str, ...] = ()
    """Of a rollback of all: the resources that were there. Those whose old object is deleted are made again."""
    undoes: bool = False
    """True in the rollback."""

    def has(self, name: str) -> bool:
        """Return True for a resource of this stack that is left out, with all below."""
        return self.paths is None or name in self.paths

    def below(self, name: str) -> "Kept | None":
        """Return those within the nested stack of a resource; None: there are none."""
        if self.paths is None or name in self.paths:
            return replace(self, paths=None, names=())
        start = f"{name}/"
        paths = tuple(path.removeprefix(start) for path in self.paths if path.startswith(start))
        return replace(self, paths=paths) if paths else None


class Selection(Struct, frozen=True, dict=True):
    """The resources that a restricted update repairs, replaces or leaves out.

    After a repair all others keep their objects. An update of the definition does all but what it leaves out.

    A path has the names of resources from the stack on, with ``/`` between them: ``web/2/server``.
    """

    steps: Mapping[str, RepairStep | None] = field(name="members")
    """By path. None: the object is observed, and updated in place to what its definition says."""
    incidents: tuple[str, ...] = ()
    compares: bool | UnsetType = UNSET
    """Of a nested stack that reads something of a repaired resource: its healthy members follow its new values."""
    outside: tuple[str, ...] | UnsetType = UNSET
    """Of an update of the definition: the paths that it leaves as they are, with all below. UNSET: a repair."""
    gone: tuple[str, ...] | UnsetType = UNSET
    """Of a rollback in this stack: ids of the rows that its update has made for what it leaves. It deletes them."""

    @property
    def is_repair(self) -> bool:
        """True if it leaves all that it does not select.

        Else it does all but what is `outside`.
        """
        return self.outside is UNSET

    @property
    def cause(self) -> str:
        """The cause of a step, as a plan shows it."""
        return f"its {'repair' if self.is_repair else 'replacement'} was asked for"

    @property
    def undone(self) -> "Selection":
        """The selection of the rollback, which replaces nothing on request."""
        return replace(self, steps={})

    def leaves(self, name: str) -> bool:
        """Return True if an update of the definition leaves out a resource of this stack."""
        return name in self._left

    @cached_property
    def _left(self) -> frozenset[str]:
        """The outside, to be asked for each resource of a stack."""
        return frozenset(self.outside or ())

    def omits(self, name: str) -> bool:
        """Return True if the update does not make a resource that was never made."""
        return not self.compares if self.is_repair else self.leaves(name)

    def step(self, name: str) -> RepairStep | None:
        """Return the step that repairs a resource of this stack; None: nothing does."""
        return self.steps.get(name)

    def reverts(self, name: str) -> bool:
        """Return True for a resource of this stack that only its observed object changes."""
        return name in self.steps and self.steps[name] is None

    def leads_to(self, name: str) -> bool:
        """Return True if something in the nested stack of a resource is selected."""
        return any(path.startswith(f"{name}/") for path in self.steps)

    def below(self, name: str, compares: bool = False) -> "Selection":
        """Return the selection within the nested stack of a resource."""
        start = f"{name}/"
        steps = {path.removeprefix(start): step for path, step in self.steps.items() if path.startswith(start)}
        if self.outside is UNSET:
            return Selection(steps, compares=compares or UNSET)
        outside = tuple(path.removeprefix(start) for path in self.outside if path.startswith(start))
        return Selection(steps, outside=outside)

    def selects(self, path: tuple[str, ...]) -> bool:
        """Return True for the path of a resource that a step repairs, or of one below it."""
        return any(self.step("/".join(path[:length])) is not None for length in range(1, len(path) + 1))
