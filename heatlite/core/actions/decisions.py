"""Decisions of people about work of features, and what carries them out."""

from collections.abc import Sequence
from enum import StrEnum, auto
from typing import Protocol

from msgspec import Struct

from heatlite.core.context import Context
from heatlite.core.json import JsonMap


class DecisionStep(StrEnum):
    """Steps of a decision."""

    ASKED = auto()
    APPROVED = auto()
    REJECTED = auto()
    ENDED = auto()
    """Nothing is left to decide, for another reason."""
    GRANTED = auto()
    """The request itself approves, so nothing waits."""


class Decision(Struct, frozen=True):
    """A step of a decision about work of a feature."""

    step: DecisionStep
    subject: str
    """Kind of the work."""
    target: str
    """Id of the work."""
    project: str
    root_id: str
    by: Context | None = None
    """The user who asks or decides; None: the server."""
    digest: str = ""
    """That of the content, which the decision refers to."""
    resource: str | None = None
    """Path of what it is about, below the root."""
    nodes: tuple[str, ...] = ()
    """Names of the nodes on which it acts."""


class Decider(Protocol):
    """Part of a feature that decides about its work."""

    rule: str
    """Rule that a decision needs."""
    by_another: bool
    """True if the requester may not decide, whatever a policy says."""

    def content(self, target: str) -> JsonMap:
        """Return what will run, and where. Secrets are masked."""

    def waiting(self, root_id: str | None = None) -> Sequence[Decision]:
        """Return the step `ASKED` of all that waits, or of what waits in a tree."""

    def approve(self, context: Context, target: str, digest: str) -> None:
        """Approve, as by the feature's own route. Raises what refuses it."""

    def reject(self, context: Context, target: str, reason: str) -> None:
        """Reject, as by the feature's own route. Raises what refuses it."""
