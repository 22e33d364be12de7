"""Typed contents of the JSON columns of an action's row: inputs, outputs and data.

The fields, in this order, are the keys of the stored text and of the API's answer. Both lack what is not set.
"""

from collections.abc import Mapping
from typing import Literal, Self

from msgspec import UNSET, Struct, UnsetType, field

from heatlite.core.check_tally import CheckCounts, CheckTally
from heatlite.core.json import AnyMap, JsonMap
from heatlite.core.repairs import Selection
from heatlite.core.status import LockLevel, Result


class PlaybookStage(Struct, frozen=True):
    """One stage of a playbook's run."""

    name: str
    at_once: int | Literal["all"]
    """The number of node actions that may run at once."""
    nodes: int
    """The number of nodes that the stage acts on."""


GROUP_KEYS = ("resize", "scale_out", "scale_in", "delete_members")
"""Requests that change the members of a group."""


class Asked(Struct, frozen=True):
    """The request that an action on a group comes from.

    Its key, or ``signal``, and its options with defaults.
    """

    key: str
    options: JsonMap


MAX_VALUE, MAX_VALUES = 100, 2000
"""Characters of one parameter in the inputs of an action, and of all names and values."""


def shown_parameters(values: Mapping[str, str | None]) -> dict[str, str | None]:
    """Return the values of parameters for the inputs of an action.

    None: the default applies again. Long values are cut. The last entry, ``…``, stands for those that are too many.
    """
    shown, left = dict[str, str | None](), MAX_VALUES
    for name, value in values.items():
        shown[name] = value if value is None or len(value) <= MAX_VALUE else f"{value[: MAX_VALUE - 1]}…"
        left -= len(name) + len(shown[name] or "")
        if left < 0:
            del shown[name]
            return {**shown, "…": f"{len(values) - len(shown)} more"}
    return shown


class ActionInputs(Struct, frozen=True, omit_defaults=True):
    """The options of an action."""

    resources: AnyMap | None = None
    """Of an adoption or a restore: the recorded resources, by name."""
    converge: bool = False
    """Observe the real objects before the update is planned."""
    retry: bool = False
    """Continue an operation that had failed."""
    level: LockLevel | None = None
    """The reach of a lock."""
    snapshot: str | None = None
    """The id of the snapshot to take."""
    deleted_snapshot: str | None = field(default=None, name="delete")
    """The id of the snapshot to delete."""
    abandon: bool = False
    """Forget the objects instead of deleting them."""
    force: bool = False
    """Delete in any case; leave behind objects that cannot be deleted."""
    playbook: str | None | UnsetType = UNSET
    """The name of the playbook that an action runs; None for a playbook that was given as text."""
    digest: str = ""
    """The digest of a playbook run's plan; an approval may name it."""
    stages: tuple[PlaybookStage, ...] | None = None
    """Of a playbook's run."""
    heal: Selection | None = None
    """Of a restricted update: the resources that it repairs."""
    resize: AnyMap | None = None
    """Options of a change of a group's members, as the others of `GROUP_KEYS` and `signal`: see `asked`."""
    scale_out: AnyMap | None = None
    scale_in: AnyMap | None = None
    delete_members: AnyMap | None = None
    signal: AnyMap | None = None
    checked: tuple[str, ...] = ()
    """Of a check: names of the resources to check; (): all."""
    believes_absence: bool = field(default=False, name="believe_absent")
    """Of a check: mark objects that are not found, however many."""
    reason: str | None = None
    """Of a lock."""
    parameters: Mapping[str, str | None] = {}
    """Of a creation or an update: values that it gives to parameters, as `shown_parameters` returns them."""

    @property
    def asked(self) -> Asked | None:
        """The request that changes a group's members; None for another action."""
        found = ((key, getattr(self, key)) for key in (*GROUP_KEYS, "signal"))
        return next((Asked(key, options) for key, options in found if options is not None), None)


class StageResult(Struct, frozen=True):
    """The node actions of one stage of a playbook's run that has ended."""

    name: str
    states: dict[str, int]
    """The number of node actions by state."""


class FailedNodeAction(Struct, frozen=True):
    """A node action that failed, or was lost, in a playbook's run."""

    id: str
    stage: str
    node: str
    state: str


class GroupSizes(Struct, frozen=True):
    """The sizes of a group around an action."""

    before: int
    after: int


class ActionOutputs(Struct, frozen=True, omit_defaults=True):
    """The outcome of an action that has ended; all empty before."""

    result: Result | None = None
    stack_status: str | None = None
    """``CREATE_COMPLETE``, if the action has set the stack's state at its end."""
    error: str | None = None
    checked: CheckCounts | None = None
    stages: tuple[StageResult, ...] | None = None
    """Of a playbook's run, as `failed`."""
    failed: tuple[FailedNodeAction, ...] | None = None
    size: GroupSizes | None = None
    """Of a change of a group's members."""
    added: Mapping[str, str | None] | None = None
    """Physical ids of the group's new members, by name."""
    removed: Mapping[str, str | None] | None = None
    replaced: Mapping[str, tuple[str | None, str | None]] | None = None
    """Old and new physical ids of replaced members, by path."""


class MemberChange(Struct, frozen=True, omit_defaults=True):
    """The members that a change of a group creates or deletes, or a repair replaces."""

    count: int
    names: tuple[str, ...] = field(name="candidates")
    criteria: str | None = None
    grace_period: int | None = None
    objects: Mapping[str, str | None] = {}
    """Physical ids of deleted and replaced members, by name or path."""

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        criteria: str | None = None,
        grace_period: int | None = None,
        objects: Mapping[str, str | None] = {},
    ) -> Self:
        """Return the change of these members."""
        return cls(len(names), names, criteria, grace_period, objects)


class StopRecord(Struct, frozen=True, omit_defaults=True):
    """The reason why an action stops, for the next attempt at it."""

    made: bool = False
    """All that was wanted exists; only the clean-up is left."""
    cause: str | None = None
    """The name of the cause."""
    until: int | float | None = None
    """End of the time for running calls, in seconds since the epoch.
    Suspensions do not count."""
    failures: tuple[str, ...] = ()


class ActionData(Struct, frozen=True, omit_defaults=True):
    """The decisions and the progress of an action."""

    creation: MemberChange | None = None
    deletion: MemberChange | None = None
    replacement: MemberChange | None = None
    """Of a repair: the paths of the selected resources."""
    rolled_back_after: Result | None = None
    """The result that the action's rollback followed."""
    stopping: StopRecord | None = None
    """Of the phase that runs."""
    checked: CheckTally | None = None
    """Of the phase that runs: the verdicts so far."""
    left: tuple[str, ...] = ()
    """Objects that an update has left behind, because their policy is `Retain`."""
