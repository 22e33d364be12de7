"""Puts back what differs from the stored properties."""

import sys
from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.context import Context
from heatlite.core.json import JsonMap
from heatlite.core.wire.base import Paths
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.state.requests import ShownPlan
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


class RevertRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Resources to put back; ``null`` and ``{}`` mean all that is drifted."""

    resources: Paths = ()
    """Paths from the stack on, such as ``web/2``. One of a nested stack stands for what is drifted in it. Default: all
    resources that are drifted, but not those that are unhealthy or failed."""
    plan_digest: str | None = None
    """Digest of an approved plan. If the plan is another one now, the answer is 409 ``PlanChanged``."""


class Reverting:
    """Begins and plans updates that put back drift."""

    def __init__(self, store: Store, repairs: Repairs) -> None:
        self._drift = store.of(DriftStore)
        self._repairs = repairs

    def revert(self, context: Context, stack: StackRecord, asked: RevertRequest, body: JsonMap) -> None:
        """Begin to put back the drift of a tree, or of some of its resources.

        `body` is the request, for a replay. Raises as `Repairs.revert`.
        """
        paths = self._paths(stack, asked)
        self._repairs.revert(context, stack, paths, asked.plan_digest, body, asked.resources)

    def plan(self, stack: StackRecord, asked: RevertRequest) -> ShownPlan:
        """Return the plan of `revert`. Raises as `Repairs.plan_revert`."""
        return self._repairs.plan_revert(stack, self._paths(stack, asked), asked.resources).shown

    def _paths(self, stack: StackRecord, asked: RevertRequest) -> list[str]:
        return drifted_paths(self._drift, stack, asked.resources)


def drifted_paths(store: DriftStore, root: StackRecord, asked: Sequence[str]) -> list[str]:
    """Return the paths of what is drifted in a tree, or of some of its resources."""
    query = DriftQuery((DriftState.DRIFTED,), roots=(root.id,), complete=True, limit=sys.maxsize)
    drifted = sorted(store.paths(store.page(root.project, query)).values())
    found: dict[str, None] = {}
    for path in asked:
        found.update(dict.fromkeys([one for one in drifted if one.startswith(f"{path}/")] or [path]))
    return [*found] if asked else drifted
