"""Typed contents of the JSON columns of an action's row: inputs, outputs and data.

The fields, in this order, are the keys of the stored text and of the API's answer. Both lack what is not set.
"""

from collections.abc import Mapping
from enum import StrEnum
from typing import Literal, Self

from msgspec import UNSET, Struct, UnsetType, field

from heatlite.core.actions.check_tally import CheckCounts, CheckTally
from heatlite.core.actions.repairs import Kept, Selection
from heatlite.core.json import AnyMap, JsonMap
from heatlite.core.status import LockLevel, Result, Status, Verb


class PlaybookStage(Struct, frozen=True):
    """One stage of a playbook's run."""

    name: str
    at_once: int | Literal["all"]
    """The number of node actions that may run at once."""
    nodes: int
    """The number of nodes that the stage acts on."""
    unhealthy: Literal["skip"] | UnsetType = UNSET
    """Treatment of a node that is CHECK_FAILED. Without it the stage waits."""


GROUP_KEYS = (
    "resize", "scale_out", "scale_in", "delete_members", "join", "leave", "attach_policy", "update_policy",
    "detach_policy",
)  # fmt: skip
"""Requests that change the members of a group, or its policies."""


class GroupRequest(Struct, frozen=True):
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


class BakeEnd(StrEnum):
    """The end of the time in which an update could be taken back."""

    PASSED = "passed"
    FIRED = "fired"
    """Something has taken it back."""
    UNKNOWN = "unknown"
    """Nobody could tell whether it is well."""
    ENDED = "ended"
    """By hand."""


class ActionInputs(Struct, frozen=True, omit_defaults=True):
    """The options of an action."""

    resources: AnyMap | None = None
    """Of an adoption or a restore: the recorded resources, by name."""
    left_out: Mapping[str, str] = {}
    """Of a restore: places of resources of the snapshot that have moved to other stacks since, by name."""
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
    retain: tuple[str, ...] = ()
    """Of a deletion: names of resources whose objects stay."""
    playbook: str | None | UnsetType = UNSET
    """The name of the playbook that an action runs; None for a playbook that was given as text."""
    digest: str = ""
    """The digest of the plan of a playbook's run, which an approval may name, or of a scheduled update."""
    stages: tuple[PlaybookStage, ...] | None = None
    """Of a playbook's run."""
    heal: Selection | None = None
    """Of a restricted update: the resources that it repairs."""
    selection: Selection | None = None
    """Of an update of the definition: what it leaves out, and what it replaces on request."""
    resize: AnyMap | None = None
    """Options of a change of a group's members, as the others of `GROUP_KEYS` and `signal`: see `asked`."""
    scale_out: AnyMap | None = None
    scale_in: AnyMap | None = None
    delete_members: AnyMap | None = None
    join: AnyMap | None = None
    leave: AnyMap | None = None
    attach_policy: AnyMap | None = None
    update_policy: AnyMap | None = None
    detach_policy: AnyMap | None = None
    signal: AnyMap | None = None
    checked: tuple[str, ...] = ()
    """Of a check: names of the resources to check; (): all."""
    believes_absence: bool = field(default=False, name="believe_absent")
    """Of a check: mark objects that are not found, however many."""
    reason: str | None = None
    """Of a lock."""
    parameters: Mapping[str, str | None] = {}
    """Of a creation or an update: values that it gives to parameters, as `shown_parameters` returns them."""
    request: AnyMap | None = None
    """The body of the request without secrets, ``{"revert_drift": …}``. Answers show it in place of all others."""
    guard: AnyMap | None = None
    """Of an update that may be taken back until its clean-up, with the seconds in ``bake`` that it waits before."""
    keeps_old: bool = False
    """Of a nested stack's update: its old objects stay until a clean-up."""
    cleans_after: str | None = None
    """Of the clean-up of a nested stack: the id of the update that has left the old objects."""
    kept: Kept | None = None
    """Of a nested stack's update: the resources of which it keeps how they were, or puts that back."""

    @property
    def leaves_old(self) -> bool:
        """True if an update leaves old objects for a later clean-up."""
        return self.keeps_old or self.guard is not None

    @property
    def keeps_previous(self) -> bool:
        """True if an update that succeeds leaves the definition to which a rollback leads.

        A repair does not reach one that an earlier update has failed to reach. Below, the tree's rollback may need it.
        """
        return self.heal is not None or self.kept is not None

    @property
    def bake(self) -> int:
        """The seconds that an update with a guard waits before its clean-up."""
        seconds = (self.guard or {}).get("bake")
        return seconds if isinstance(seconds, int) else 0

    @property
    def restricted(self) -> Selection | None:
        """The selection of a restricted update of either kind; None: all is done."""
        return self.heal or self.selection

    @property
    def operation(self) -> str | None:
        """The key of the request, such as ``import``.

        None: the verb of the action says all.
        """
        return next(iter(self.request or ()), None)

    @property
    def asked(self) -> GroupRequest | None:
        """The request that changes a group's members; None for another action."""
        found = ((key, getattr(self, key)) for key in (*GROUP_KEYS, "signal"))
        return next((GroupRequest(key, options) for key, options in found if options is not None), None)


class StageResult(Struct, frozen=True):
    """The node actions of one stage of a playbook's run that has ended."""

    name: str
    states: dict[str, int]
    """The number of node actions by state."""


class FailedNodeAction(Struct, frozen=True):
    """A node action that failed, was lost or was skipped in a playbook's run."""

    id: str
    stage: str
    node: str
    state: str


class GroupSizes(Struct, frozen=True):
    """The sizes of a group around an action."""

    before: int
    after: int


class ObjectOutput(Struct, frozen=True):
    """An object, as a body of an import names it."""

    type: str
    id: str


RETAINED = "Its object stays in the cloud, as was asked for"
"""Reason of a resource whose deletion retains its object on request."""


class RetainedObject(Struct, frozen=True):
    """An object that a deletion leaves in the cloud on request."""

    path: str
    type: str
    physical_id: str


class GuardOutput(Struct, frozen=True):
    """The end of a guard."""

    result: BakeEnd


class ActionOutputs(Struct, frozen=True, omit_defaults=True):
    """The outcome of an action that has ended; all empty before."""

    result: Result | None = None
    stack_status: str | None = None
    """``CREATE_COMPLETE``, if the action has set the stack's state at its end."""
    error: str | None = None
    code: str | None = None
    """Of a scheduled action that was refused at its time: the code of the error."""
    checked: CheckCounts | None = None
    stages: tuple[StageResult, ...] | None = None
    """Of a playbook's run, as `failed`."""
    failed: tuple[FailedNodeAction, ...] | None = None
    skipped: tuple[FailedNodeAction, ...] | None = None
    """Those of a playbook's run whose nodes were CHECK_FAILED when their turn came."""
    size: GroupSizes | None = None
    """Of a change of a group's members."""
    added: Mapping[str, str | None] | None = None
    """Physical ids of the group's new members, by name."""
    removed: Mapping[str, str | None] | None = None
    replaced: Mapping[str, tuple[str | None, str | None]] | None = None
    """Old and new physical ids of replaced members, by path."""
    reverted: tuple[str, ...] | None = None
    """Paths of resources whose drift the action has put back."""
    accepted: Mapping[str, tuple[str, ...]] | None = None
    """JSON Pointers of the differences that the action has accepted, by resource."""
    imported: Mapping[str, ObjectOutput] | None = None
    """Objects that came under the care of the stack, by path."""
    detached: Mapping[str, ObjectOutput] | None = None
    """Objects that left it alive, by path."""
    moved: Mapping[str, str] | None = None
    """New names of resources, by the old ones."""
    retained: tuple[RetainedObject, ...] | None = None
    """Objects that a deletion has left in the cloud on request."""
    guard: GuardOutput | None = None
    """Of an update with a guard."""
    policies: Mapping[str, AnyMap] | None = None
    """Results that the policies of a group have told after the change of its members, by name."""


class MemberChange(Struct, frozen=True, omit_defaults=True):
    """The members that a change of a group creates or deletes, or a repair replaces."""

    count: int
    names: tuple[str, ...] = field(name="candidates")
    criteria: str | None = None
    grace_period: int | None = None
    objects: Mapping[str, str | None] = {}
    """Physical ids of deleted and replaced members, by name or path."""
    zones: Mapping[str, int] = {}
    """The number of members by zone, if a policy has decided it."""

    @classmethod
    def of(
        cls,
        names: tuple[str, ...],
        criteria: str | None = None,
        grace_period: int | None = None,
        objects: Mapping[str, str | None] = {},
        zones: Mapping[str, int] = {},
    ) -> Self:
        """Return the change of these members."""
        return cls(len(names), names, criteria, grace_period, objects, zones)


class MemberPlacement(Struct, frozen=True):
    """The place of a new member."""

    name: str
    zone: str


class Placement(Struct, frozen=True):
    """The places of new members."""

    count: int
    placements: tuple[MemberPlacement, ...]


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


class AwaitedApproval(Struct, frozen=True):
    """The approval that an action waits for, or has waited for."""

    id: str
    digest: str
    """That of the plan."""


class Bake(Struct, frozen=True, omit_defaults=True):
    """The time in which an update may be taken back.

    Both ends are seconds since the epoch.
    """

    since: float
    until: float
    ended: BakeEnd | None = None


class ActionData(Struct, frozen=True, omit_defaults=True):
    """The decisions and the progress of an action."""

    creation: MemberChange | None = None
    deletion: MemberChange | None = None
    placement: Placement | None = None
    """Of new members, if a policy has decided it."""
    policies: AnyMap = {}
    """Further decisions of the policies of the group, by type."""
    replacement: MemberChange | None = None
    """Of a repair: the paths of the selected resources."""
    reverted: tuple[str, ...] = ()
    """Paths of resources whose drift the action puts back; of the stack itself, also before they have ended."""
    rolled_back_after: Result | None = None
    """The result that the action's rollback followed."""
    stopping: StopRecord | None = None
    """Of the phase that runs."""
    checked: CheckTally | None = None
    """Of the phase that runs: the verdicts so far."""
    left: tuple[str, ...] = ()
    """Objects that an update has left behind, because their policy is `Retain`."""
    retained: tuple[RetainedObject, ...] = ()
    """Objects that a deletion leaves in the cloud on request, with those that they require."""
    state_before: tuple[Verb, Status, str] | None = None
    """Of members that leave when the action ends, after their lifecycle hooks: the state of their stack."""
    approval: AwaitedApproval | None = None
    guard: Bake | None = None
    """Of an update with a guard, from the end of its changes on."""
    old: tuple[str, ...] = ()
    """Ids of the rows that a later clean-up deletes."""
    unclean: Mapping[str, str] = {}
    """Ids of rows of nested stacks with old objects, and of the actions that have left these."""
