"""A plan is plain data: which steps there are, what each waits for, and what it will do as far as that is known."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from heatlite.core.json import JsonMap
from heatlite.store.records import ResourceRecord


class Outcome(StrEnum):
    """What is to become of one resource."""

    CREATE = "create"
    CONTINUE = "continue"
    """A create that was cut off goes on."""
    KEEP = "keep"
    UPDATE = "update"
    """Changed in place."""
    REPLACE = "replace"
    """A new object; when the old one goes, `Replacement` says: in the clean-up, or before."""
    REBUILD = "rebuild"
    """Made anew in place, the replacement of types that can do that."""
    REFUSE = "refuse"
    """An immutable property would change, or the type knows that a change cannot be made: the step fails."""
    RESTRICT = "restrict"
    """The environment forbids what would be needed: the step fails, and the resource stays as it is."""
    PROTECT = "protect"
    """A protected object would have to go: the operation is refused, or the step fails and the object stays."""
    DELETE = "delete"
    CHECK = "check"
    SNAPSHOT = "snapshot"
    SUSPEND = "suspend"
    RESUME = "resume"
    LOCK = "lock"
    UNLOCK = "unlock"


@dataclass(frozen=True, slots=True)
class Decision:
    """What one resource needs, and why. `row` is the row that was judged."""

    outcome: Outcome
    row: ResourceRecord
    changed: frozenset[str] = frozenset()
    """Properties that differ, as far as their values are known; an unknown value differs."""
    cause: str = ""
    before: JsonMap = field(default_factory=dict)
    """Of an update: the properties that it starts from."""
    deletes_first: bool = False
    """Of a replacement: the object goes before the new one is made."""


@dataclass(frozen=True, slots=True)
class Step:
    """One piece of work. `key` is a row's id; while converging a resource name, except for what goes first."""

    key: str
    name: str
    outcome: Outcome
    requires: tuple[str, ...] = ()
    """Keys of the steps of this plan that have to succeed first."""
    row: ResourceRecord | None = None
    cause: str = ""
    deletes_first: bool = False
    """Of a replacement: the object goes before the new one is made."""
    keeps_name: bool = False
    """Of a deletion in the middle of an update: the new object is to have the old one's physical name."""


@dataclass(frozen=True, slots=True)
class Plan:
    """Steps by key. Whatever is not in it stays as it is."""

    steps: Mapping[str, Step]
    kept: Mapping[str, ResourceRecord]
    """While converging: the row of each name that needs no step."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """While converging: names of resources that cannot be replaced as they have to be, and why."""
    goes_on: bool = False
    """Whether independent steps still start after one has failed."""
    optional: bool = False
    """Whether the operation may succeed although a step has failed; only the resource tells of that."""


def waiting(steps: Iterable[Step]) -> tuple[dict[str, int], dict[str, list[str]]]:
    """How many steps each step waits for, and who waits for it."""
    open_count: dict[str, int] = {}
    dependents: dict[str, list[str]] = {}
    for step in steps:
        open_count[step.key] = len(step.requires)
        for key in step.requires:
            dependents.setdefault(key, []).append(step.key)
    return open_count, dependents
