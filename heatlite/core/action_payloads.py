"""Typed contents of the JSON columns of an action's row: inputs, outputs and data.

`to_json` leaves out what is not set and writes keys in a fixed order. The stored text and the API's answer depend on
both.
"""

from collections.abc import Mapping

from msgspec import Struct

from heatlite.core.check_tally import CheckTally
from heatlite.core.json import Json, JsonMap, as_map, as_maps, as_text, as_texts
from heatlite.core.repairs import Selection
from heatlite.core.status import LockLevel, Result


class PlaybookStage(Struct, frozen=True):
    """One stage of a playbook's run."""

    name: str
    at_once: int | None
    """The number of node actions that may run at once; None: all."""
    nodes: int
    """The number of nodes that the stage acts on."""

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        return {"name": self.name, "at_once": self.at_once or "all", "nodes": self.nodes}

    @classmethod
    def from_json(cls, stored: JsonMap) -> "PlaybookStage":
        """Read the stored form."""
        at_once, nodes = stored.get("at_once"), stored.get("nodes")
        return cls(
            str(stored.get("name")),
            at_once if isinstance(at_once, int) else None,
            nodes if isinstance(nodes, int) else 0,
        )


class PlaybookInputs(Struct, frozen=True):
    """The playbook that an action runs."""

    name: str | None
    """None for a playbook that was given as text."""
    digest: str
    """The digest of the run's plan; an approval may name it."""
    stages: tuple[PlaybookStage, ...]


GROUP_KEYS = ("resize", "scale_out", "scale_in", "delete_members")
"""Requests that change the members of a group."""


class Asked(Struct, frozen=True):
    """The request that an action on a group comes from.

    Its key, or ``signal``, and its options with defaults.
    """

    key: str
    options: JsonMap

    @classmethod
    def from_json(cls, stored: JsonMap) -> "Asked | None":
        """Read the stored form."""
        for key in (*GROUP_KEYS, "signal"):
            options = stored.get(key)
            if isinstance(options, dict):
                return cls(key, options)
        return None


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


class ActionInputs(Struct, frozen=True):
    """The options of an action."""

    resources: JsonMap | None = None
    """Of an adoption or a restore: the recorded resources, by name."""
    converge: bool = False
    """Observe the real objects before the update is planned."""
    retry: bool = False
    """Continue an operation that had failed."""
    level: LockLevel | None = None
    """The reach of a lock."""
    snapshot: str | None = None
    """The id of the snapshot to take."""
    deleted_snapshot: str | None = None
    """The id of the snapshot to delete."""
    abandon: bool = False
    """Forget the objects instead of deleting them."""
    force: bool = False
    """Delete in any case; leave behind objects that cannot be deleted."""
    playbook: PlaybookInputs | None = None
    heal: Selection | None = None
    """Of a restricted update: the resources that it repairs."""
    asked: Asked | None = None
    """Of a change of a group's members."""
    checked: tuple[str, ...] = ()
    """Of a check: names of the resources to check; (): all."""
    believes_absence: bool = False
    """Of a check: mark objects that are not found, however many."""
    reason: str | None = None
    """Of a lock."""
    parameters: Mapping[str, str | None] = {}
    """Of a creation or an update: values that it gives to parameters, as `shown_parameters` returns them."""

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        stored: JsonMap = {} if self.resources is None else {"resources": self.resources}
        first: JsonMap = {
            "converge": self.converge or None,
            "retry": self.retry or None,
            "level": self.level,
            "snapshot": self.snapshot,
            "delete": self.deleted_snapshot,
            "abandon": self.abandon or None,
            "force": self.force or None,
        }
        stored |= {key: value for key, value in first.items() if value is not None}
        if self.playbook is not None:
            stored["playbook"] = self.playbook.name
            stored["digest"] = self.playbook.digest
            stored["stages"] = [stage.to_json() for stage in self.playbook.stages]
        if self.heal is not None:
            stored["heal"] = self.heal.to_json()
        if self.asked is not None:
            stored[self.asked.key] = self.asked.options
        if self.checked:
            stored["checked"] = [*self.checked]
        if self.believes_absence:
            stored["believe_absent"] = True
        if self.reason is not None:
            stored["reason"] = self.reason
        if self.parameters:
            stored["parameters"] = {**self.parameters}
        return stored

    @classmethod
    def from_json(cls, stored: JsonMap) -> "ActionInputs":
        """Read the stored form."""
        if not stored:
            return cls()
        resources, level = stored.get("resources"), stored.get("level")
        return cls(
            resources=resources if isinstance(resources, dict) else None,
            converge=bool(stored.get("converge")),
            retry=bool(stored.get("retry")),
            level=LockLevel(level) if isinstance(level, str) else None,
            snapshot=as_text(stored.get("snapshot")),
            deleted_snapshot=as_text(stored.get("delete")),
            abandon=bool(stored.get("abandon")),
            force=bool(stored.get("force")),
            playbook=_playbook(stored),
            heal=Selection.from_json(stored.get("heal")),
            asked=Asked.from_json(stored),
            checked=as_texts(stored.get("checked")),
            believes_absence=bool(stored.get("believe_absent")),
            reason=as_text(stored.get("reason")),
            parameters=_by_name(stored.get("parameters")),
        )


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


class PlaybookResult(Struct, frozen=True):
    """The outcome of a playbook's run."""

    stages: tuple[StageResult, ...]
    failed: tuple[FailedNodeAction, ...]

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        stages: list[JsonMap] = [{"name": one.name, "states": {**one.states}} for one in self.stages]
        failed: list[JsonMap] = [
            {"id": one.id, "stage": one.stage, "node": one.node, "state": one.state} for one in self.failed
        ]
        return {"stages": stages, "failed": failed}


class ActionOutputs(Struct, frozen=True):
    """The outcome of an action that has ended; all empty before."""

    result: Result | None = None
    stack_status: str | None = None
    """``CREATE_COMPLETE``, if the action has set the stack's state at its end."""
    error: str | None = None
    checked: CheckTally | None = None
    playbook: PlaybookResult | None = None
    members: "MembersResult | None" = None

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        stored: JsonMap = {}
        if self.result is not None:
            stored["result"] = self.result
        if self.stack_status is not None:
            stored["stack_status"] = self.stack_status
        if self.error is not None:
            stored["error"] = self.error
        if self.checked is not None:
            stored["checked"] = self.checked.to_json()
        if self.playbook is not None:
            stored |= self.playbook.to_json()
        if self.members is not None:
            stored |= self.members.to_json()
        return stored

    @classmethod
    def from_json(cls, stored: JsonMap) -> "ActionOutputs":
        """Read the stored form."""
        if not stored:
            return cls()
        result = stored.get("result")
        return cls(
            Result(result) if isinstance(result, str) else None,
            as_text(stored.get("stack_status")),
            as_text(stored.get("error")),
            CheckTally.from_json(stored.get("checked")),
            _playbook_result(stored),
            MembersResult.from_json(stored),
        )


class MemberChange(Struct, frozen=True):
    """The members that a change of a group creates or deletes, or a repair replaces."""

    names: tuple[str, ...]
    criteria: str | None = None
    grace_period: int | None = None
    objects: Mapping[str, str | None] = {}
    """Physical ids of deleted and replaced members, by name or path."""

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        stored: JsonMap = {"count": len(self.names), "candidates": [*self.names]}
        if self.criteria is not None:
            stored["criteria"] = self.criteria
        if self.grace_period is not None:
            stored["grace_period"] = self.grace_period
        if self.objects:
            stored["objects"] = {**self.objects}
        return stored

    @classmethod
    def from_json(cls, stored: Json) -> "MemberChange | None":
        """Read the stored form; None for anything but an object."""
        names = stored.get("candidates") if isinstance(stored, dict) else None
        if not isinstance(stored, dict) or not isinstance(names, list):
            return None
        grace = stored.get("grace_period")
        return cls(
            as_texts(names),
            as_text(stored.get("criteria")),
            grace if isinstance(grace, int) else None,
            _by_name(stored.get("objects")),
        )


class MembersResult(Struct, frozen=True):
    """The members that an action has added, removed and replaced."""

    before: int | None = None
    """The size before; None for a repair, which changes no size."""
    after: int | None = None
    added: Mapping[str, str | None] = {}
    """Physical ids by name."""
    removed: Mapping[str, str | None] = {}
    replaced: Mapping[str, tuple[str | None, str | None]] = {}
    """Old and new physical ids by path."""

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        replaced: JsonMap = {path: [*ids] for path, ids in self.replaced.items()}
        if self.before is None:
            return {"replaced": replaced}
        size: JsonMap = {"before": self.before, "after": self.after}
        return {"size": size, "added": {**self.added}, "removed": {**self.removed}, "replaced": replaced}

    @classmethod
    def from_json(cls, stored: JsonMap) -> "MembersResult | None":
        """Read the stored form; None if there is none."""
        replaced, size = stored.get("replaced"), stored.get("size")
        if not isinstance(replaced, dict):
            return None
        pairs = {path: ids for path, ids in replaced.items() if isinstance(ids, list) and len(ids) == 2}
        counts = as_map(size)
        before, after = counts.get("before"), counts.get("after")
        return cls(
            before if isinstance(before, int) else None,
            after if isinstance(after, int) else None,
            _by_name(stored.get("added")),
            _by_name(stored.get("removed")),
            {path: (as_text(old), as_text(new)) for path, (old, new) in pairs.items()},
        )


class StopRecord(Struct, frozen=True):
    """The reason why an action stops, for the next attempt at it."""

    made: bool = False
    """All that was wanted exists; only the clean-up is left."""
    cause: str | None = None
    """The name of the cause."""
    until: float | None = None
    """End of the time for running calls, in seconds since the epoch.
    Suspensions do not count."""
    failures: tuple[str, ...] = ()

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        stored: JsonMap = {"made": True} if self.made else {}
        if self.cause is not None:
            stored |= {"cause": self.cause, "until": self.until}
        if self.failures:
            stored["failures"] = [*self.failures]
        return stored

    @classmethod
    def from_json(cls, stored: Json) -> "StopRecord | None":
        """Read the stored form; None for anything but an object."""
        if not isinstance(stored, dict):
            return None
        cause, until = stored.get("cause"), stored.get("until")
        known = isinstance(cause, str) and isinstance(until, int | float)
        return cls(
            bool(stored.get("made")),
            str(cause) if known else None,
            until if isinstance(until, int | float) and known else None,
            as_texts(stored.get("failures")),
        )


class ActionData(Struct, frozen=True):
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

    def to_json(self) -> JsonMap:
        """Return the stored form."""
        stored: JsonMap = {}
        if self.creation is not None:
            stored["creation"] = self.creation.to_json()
        if self.deletion is not None:
            stored["deletion"] = self.deletion.to_json()
        if self.replacement is not None:
            stored["replacement"] = self.replacement.to_json()
        if self.rolled_back_after is not None:
            stored["rolled_back_after"] = self.rolled_back_after
        if self.stopping is not None:
            stored["stopping"] = self.stopping.to_json()
        if self.checked is not None:
            stored["checked"] = self.checked.to_json(named=True)
        if self.left:
            stored["left"] = [*self.left]
        return stored

    @classmethod
    def from_json(cls, stored: JsonMap) -> "ActionData":
        """Read the stored form."""
        if not stored:
            return cls()
        after = stored.get("rolled_back_after")
        return cls(
            MemberChange.from_json(stored.get("creation")),
            MemberChange.from_json(stored.get("deletion")),
            MemberChange.from_json(stored.get("replacement")),
            Result(after) if isinstance(after, str) else None,
            StopRecord.from_json(stored.get("stopping")),
            CheckTally.from_json(stored.get("checked")),
            as_texts(stored.get("left")),
        )


def _by_name(value: Json) -> dict[str, str | None]:
    return {name: None if one is None else str(one) for name, one in as_map(value).items()}


def _playbook(stored: JsonMap) -> PlaybookInputs | None:
    if "stages" not in stored:
        return None
    stages = tuple(PlaybookStage.from_json(one) for one in as_maps(stored["stages"]))
    return PlaybookInputs(as_text(stored.get("playbook")), str(stored.get("digest")), stages)


def _playbook_result(stored: JsonMap) -> PlaybookResult | None:
    if "stages" not in stored:
        return None
    stages = []
    for one in as_maps(stored["stages"]):
        counts = as_map(one.get("states")).items()
        stages.append(StageResult(str(one.get("name")), {name: n for name, n in counts if isinstance(n, int)}))
    failed = [
        FailedNodeAction(*(str(one.get(key)) for key in ("id", "stage", "node", "state")))
        for one in as_maps(stored.get("failed"))
    ]
    return PlaybookResult(tuple(stages), tuple(failed))
