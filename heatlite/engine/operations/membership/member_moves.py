"""Seam of the feature that moves members with their rows."""

from typing import Protocol

from heatlite.core.context import Context
from heatlite.engine.state.group_requests import JoinRequest, Leave
from heatlite.engine.state.requests import ShownPlan
from heatlite.store.records import ActionRecord, StackRecord


class MemberMoves(Protocol):
    """Part of a feature: joins and leaves by which members keep their rows."""

    rule: str
    """Rule that they need beside their own."""

    def plan(self, caller: Context, stack: StackRecord, name: str, asked: JoinRequest | Leave) -> ShownPlan:
        """Return the plan of a join or leave.

        Raises as `start`, but passes locks and actions.
        """

    def start(self, caller: Context, stack: StackRecord, name: str, asked: JoinRequest | Leave) -> ActionRecord:
        """Start it, and return its action. Raises what refuses it."""
