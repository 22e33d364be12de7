"""Plans as plain data: steps, their dependencies, and the reasons of decisions."""

from collections.abc import Iterable, Iterator, Mapping
from enum import Enum, StrEnum, auto

from msgspec import Struct

from heatlite.core.json import JsonMap
from heatlite.store.records import ResourceRecord


class Outcome(StrEnum):
    """The operation that one resource needs."""

    CREATE = "create"
    CONTINUE = "continue"
    """Continues a create that was interrupted."""
    KEEP = "keep"
    UPDATE = "update"
    """Changes the object in place."""
    REPLACE = "replace"
    """Makes a new object. `Replacement` orders the deletion of the old one: in the clean-up, or before."""
    REBUILD = "rebuild"
    """Makes the object again in place, for types that support it."""
    REBOOT = "reboot"
    """Restarts the object, for types that support it. Its row keeps its properties."""
    REFUSE = "refuse"
    """Fails the step: an immutable property would change, or the type knows that the change is impossible."""
    RESTRICT = "restrict"
    """Fails the step: the environment forbids the operation. The resource stays as it is."""
    PROTECT = "protect"
    """Refuses the operation, or fails the step: a protected object would be removed. The object stays."""
    DELETE = "delete"
    CLEAN_UP = "clean_up"
    """Deletes the old objects in a nested stack that an update has left."""
    CHECK = "check"
    SNAPSHOT = "snapshot"
    SUSPEND = "suspend"
    RESUME = "resume"
    LOCK = "lock"
    UNLOCK = "unlock"


NEW_OBJECT = frozenset({Outcome.CREATE, Outcome.CONTINUE, Outcome.REPLACE})
"""Outcomes with a new object: its reference and attributes are unknown until then."""
IN_PLACE = frozenset({Outcome.UPDATE, Outcome.REBUILD, Outcome.REBOOT})
"""Outcomes that change an object, so that its attributes are unknown until then."""


class Reason(Enum):
    """Rules of `decide`, in groups.

    Each function asks its rules in this order, and the first that applies decides. `_decide_nested` asks rules of the
    later groups, too, before MEMBERS_DECIDE. The comment of each rule gives the reason for its place. The last group
    belongs to `choose` and to planning.
    """

    # First: an update that repairs other resources leaves this one as it is, whatever its state.
    OUTSIDE = auto()
    # Before all rules that judge: without an object they have nothing to judge.
    NEVER_MADE = auto()
    # Before all comparisons: a half-deleted object is of no use, even if its row looks as wanted.
    # One whose deletion the service has refused is whole: the later rules judge it.
    DELETION_BEGUN = auto()

    # External objects come before types and properties: heatlite neither changes nor replaces them.
    # First of the group: another id is another object, so the health of the old one does not matter.
    EXTERNAL_ID_CHANGED = auto()
    # Before the verdict: an interrupted check has none yet.
    EXTERNAL_CHECK_INTERRUPTED = auto()
    EXTERNAL_WELL = auto()
    # Last of the group: adopts again everything that was not found well.
    EXTERNAL_NOT_WELL = auto()

    # Before each rule that compares properties or asks the type: both need the same schema on both sides.
    TYPE_CHANGED = auto()
    # Before all rules that replace or update: a retry or a restart must not repeat finished work.
    ALREADY_DONE = auto()
    # After ALREADY_DONE: a repair is not repeated. Before the rest: its state and its definition do not matter.
    SELECTED = auto()

    # Nested stacks come before the rules of plain objects: their members have decisions of their own.
    # First of the group: the others look into the nested stack.
    NESTED_STACK_GONE = auto()
    # Before the mark and the comparison: an unchanged locked stack must stay untouched.
    NESTED_STACK_LOCKED = auto()
    # Last of the group: updates the nested stack even without a change, because only members know of changes within.
    MEMBERS_DECIDE = auto()

    # Before health: the object is replaced anyway.
    EVERY_UPDATE_REPLACES = auto()
    # Before FAILED: a mark or a failed check decides without asking the type.
    UNHEALTHY = auto()
    # Before FAILED: an adoption changes no object, so it is repeated; then the rules decide again.
    ADOPTION_FAILED = auto()
    # Before the comparison: a failed object may not be what its row says.
    FAILED = auto()
    # After FAILED, before the comparison: an unfinished create continues with the new values.
    CREATE_INTERRUPTED = auto()
    # Before the comparison: half a rebuild leaves an object that no update can repair.
    REBUILD_INTERRUPTED = auto()
    # Last rule before the comparison: without an object there is nothing to compare with.
    OBJECT_GONE = auto()

    # First of the changes: no type may accept a change of an immutable property.
    IMMUTABLE_CHANGED = auto()
    # Exception to the rule above: the template is unchanged, but the resource that it names has a new object.
    IMMUTABLE_FOLLOWS = auto()
    # Before updatable: a type may replace for a value even where the property can be updated.
    TYPE_REPLACES = auto()
    # Before the objection: a change that replaces is not made in place, so no objection applies.
    NOT_UPDATABLE = auto()
    # Last chance to refuse: only now the change is certain to be made in place.
    TYPE_OBJECTS = auto()
    # After all rules that replace or refuse. Even without a change: what the deletion has detached is joined again.
    # Also by `choose`, only after KEEP: a newer object has taken over parts of the chosen one.
    TAKEN_BACK = auto()
    # After all rules that replace or refuse: the change, or the rest of an interrupted one, is made in place.
    DEFINITION_CHANGED = auto()
    # After DEFINITION_CHANGED, which says more.
    EVERY_UPDATE_UPDATES = auto()
    # Last: no rule asks for anything.
    UNCHANGED = auto()

    # `choose` overrules the decision about the chosen row.
    # Only after KEEP: any other outcome connects the object again, too.
    JOINED_REPLACED = auto()
    # Before RESTRICTED: protection says more than the environment, and by whom.
    PROTECTED = auto()
    RESTRICTED = auto()

    # Of a plan: another object would have to go first, and stays.
    BLOCKED = auto()
    # Of a plan: the values cannot be evaluated yet, so the step decides when its turn comes.
    NOT_EVALUATED = auto()


class ResourceDecision(Struct, frozen=True):
    """The outcome for one resource. `row` is the row that was judged."""

    outcome: Outcome
    row: ResourceRecord
    reason: Reason
    cause: str = ""
    """The reason as users see it; "" where there is nothing to explain."""
    changed: frozenset[str] = frozenset()
    """Properties that differ; an unknown value differs."""
    before: JsonMap = {}
    """Of an update: the properties that it starts from."""
    is_observed: bool = False
    """True if these were read from the object."""
    deletes_first: bool = False
    """Of a replacement: the old object is deleted before the new one is made."""


class Step(Struct, frozen=True):
    """One operation on one resource.

    `key` is a row's id. In a plan to converge it is the resource name, except for deletions that come first.
    """

    key: str
    name: str
    outcome: Outcome
    requires: tuple[str, ...] = ()
    """Keys of the steps of this plan that must succeed first."""
    row: ResourceRecord | None = None
    cause: str = ""
    deletes_first: bool = False
    """Of a replacement: the old object is deleted before the new one is made."""
    keeps_name: bool = False
    """Of a deletion that comes first: the new object gets the old one's physical name."""


class Plan(Struct, frozen=True):
    """Steps by key. Rows without a step stay as they are."""

    steps: Mapping[str, Step]
    kept: Mapping[str, ResourceRecord]
    """To converge: the row of each name that needs no step."""
    refused: Mapping[str, str] = {}
    """To converge: names of resources that need a replacement which is impossible, with the explanation."""
    goes_on: bool = False
    """Start independent steps even after one has failed."""
    optional: bool = False
    """Let the operation succeed even if a step fails; only the resource reports the failure."""


def waiting(steps: Iterable[Step]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """Return the number of open requirements of each step, and each step's dependents."""
    open_count: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for step in steps:
        open_count[step.key] = len(step.requires)
        for key in step.requires:
            dependents.setdefault(key, []).append(step.key)
    return open_count, dependents


def in_order(steps: Iterable[Step]) -> Iterator[Step]:
    """Yield steps after those that they require."""
    by_key = {step.key: step for step in steps}
    open_count, dependents = waiting(by_key.values())
    ready = [key for key, count in open_count.items() if count == 0]
    while ready:
        key = ready.pop(0)
        yield by_key[key]
        for follower in dependents.get(key, ()):
            open_count[follower] -= 1
            if open_count[follower] == 0:
                ready.append(follower)
