"""A stack tree as the loop sees it: places, members, and what is unhealthy."""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from msgspec import Struct

from heatlite.core.status import Status, Verb
from heatlite.engine.state.resource_paths import paths_to
from heatlite.engine.state.values import current_rows
from heatlite.features.healing.rules.brakes import ScopeFacts
from heatlite.features.healing.rules.policy import TreePolicy
from heatlite.features.healing.rules.slots import Slot, drift_scope, members_scope, slot_at
from heatlite.features.healing.store.records import HealingScopeRecord, IncidentRecord, RepairRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import REVERT, IncidentState
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

CHANGES = frozenset({
    Verb.CREATE, Verb.ADOPT, Verb.UPDATE, Verb.ROLLBACK, Verb.RESTORE, Verb.SUSPEND, Verb.RESUME,
})  # fmt: skip
"""Verbs of a stack whose failure an operator has to look at before anything is repaired."""

WORKED_ON = frozenset({IncidentState.REPAIRING, IncidentState.SETTLING})


class SlotPlace(Struct, frozen=True):
    """A slot with its present row, and the stacks on the way to it from the root."""

    slot: Slot
    row: ResourceRecord
    stacks: tuple[StackRecord, ...]
    nested: StackRecord | None = None
    """The nested stack of the row."""


class WatchedTree(Struct, frozen=True, dict=True):
    """A live tree with its incidents and repairs.

    It is read in one transaction that holds the root's row.
    """

    root: StackRecord
    places: Mapping[str, SlotPlace]
    """By path."""
    incidents: Sequence[IncidentRecord]
    """Open ones, oldest first."""
    scopes: Mapping[str, HealingScopeRecord]
    repairs: Sequence[RepairRecord]
    actions: Sequence[ActionRecord]
    """Those that hold a stack of the tree."""
    released_at: float
    """Time of the last lock, unlock, suspend or resume in the tree."""
    stack_failed: bool
    policy: TreePolicy

    @cached_property
    def members(self) -> Mapping[str, frozenset[str]]:
        """Members by scope."""
        return _grouped((place.slot.scope, place.slot.member) for place in self.places.values())

    @cached_property
    def unhealthy(self) -> Mapping[str, frozenset[str]]:
        """Members by scope that have an open incident or a failed row."""
        failed = [
            (place.slot.scope, place.slot.member)
            for place in self.places.values()
            if place.row.state_without_lock.status is Status.FAILED
        ]
        return _grouped([*failed, *((one.scope, one.member) for one in self.incidents)])

    @cached_property
    def under_repair(self) -> Mapping[str, frozenset[str]]:
        """Members by scope that a repair works on, or whose repair settles."""
        return _grouped((one.scope, one.member) for one in self.incidents if one.state in WORKED_ON)

    def scope_facts(self, scope: str, now: float) -> ScopeFacts:
        """Return the facts of a scope.

        That of drift has failures and a suspension of its own.
        """
        own, scope = scope, members_scope(scope)
        repairs = [one for one in self.repairs if one.scope == scope]
        record = self.scopes.get(own, HealingScopeRecord(self.root.id, own))
        ends = [one.ended_at for one in repairs if one.ended_at is not None]
        return ScopeFacts(
            members=max(1, len(self.members.get(scope, ()))),
            unhealthy=len(self.unhealthy.get(scope, ())),
            under_repair=len(self.under_repair.get(scope, ())),
            is_suspended=record.is_suspended,
            failures=self.failures(own, now),
            last_repair_end=max(ends, default=None),
            begun=tuple(sorted({(one.begun_at, one.action_id, one.member): one.begun_at for one in repairs}.values())),
        )

    def failures(self, scope: str, now: float) -> int:
        """Return the failed repairs in a row of a scope.

        A quiet time after the last repair ends the row.
        """
        record = self.scopes.get(scope)
        if record is None or record.failures == 0:
            return 0
        ends = [one.ended_at for one in self.repairs if failure_scope(one) == scope and one.ended_at is not None]
        quiet = max(ends, default=0.0) + self.policy.of_scope(scope).min_healthy < now
        return 0 if quiet and not record.is_suspended else record.failures

    def settles_until(self, path: str) -> float:
        """Return the end of the settling of a slot's last repair; 0: there was none."""
        return max((one.settles_until or 0.0 for one in self.repairs if one.path == path), default=0.0)

    @property
    def is_going(self) -> bool:
        """True if the tree is deleted, or about to be."""
        return self.root.deleted_at is not None or self.root.verb is Verb.DELETE


def failure_scope(repair: RepairRecord) -> str:
    """Return the scope that counts the failure of a repair."""
    return drift_scope(repair.scope) if repair.step == REVERT else repair.scope


def read_tree(store: Store, root: StackRecord, policy: TreePolicy, now: float, period: float) -> WatchedTree:
    """Read a live tree. `period`: seconds to look back for repairs."""
    stacks = (root, *store.stacks.descendants(root))
    actions = store.actions.holding(store.actions.live_of_root(root.id))
    incidents = store.of(HealingStore).incidents.open_of_root(root.id)
    return tree_of(store, stacks, actions, incidents, policy, now - period)


def tree_of(
    store: Store,
    stacks: Sequence[StackRecord],
    actions: Sequence[ActionRecord],
    incidents: Sequence[IncidentRecord],
    policy: TreePolicy,
    since: float,
    whole: Sequence[ResourceRecord] | None = None,
) -> WatchedTree:
    """Read the rest of a live tree.

    `stacks` begin with its root. Repairs are those begun since a time. With `whole`, the rows that have failed, all
    others have no more than their states.
    """
    root, rows = stacks[0], store.of(HealingStore)
    return WatchedTree(
        root=root,
        places=_placed(_rows_of(store, root, whole), root, {one.id: one for one in stacks}),
        incidents=incidents,
        scopes=rows.scopes.of_root(root.id),
        repairs=rows.repairs.of_root(root.id, since),
        actions=actions,
        released_at=store.actions.last_release([one.id for one in stacks]),
        stack_failed=has_failed(store, root),
        policy=policy,
    )


def read_places(store: Store, root: StackRecord) -> Mapping[str, SlotPlace]:
    """Return the places of a live tree by path."""
    stacks = {one.id: one for one in (root, *store.stacks.descendants(root))}
    return _placed(store.resources.of_tree(root.id), root, stacks)


def _rows_of(store: Store, root: StackRecord, whole: Sequence[ResourceRecord] | None) -> Iterable[ResourceRecord]:
    if whole is None:
        return store.resources.of_tree(root.id)
    known = {row.id: row for row in whole}
    return (known.get(row.id, row) for row in store.resources.outlines(root.id))


def _placed(
    every: Iterable[ResourceRecord], root: StackRecord, stacks: Mapping[str, StackRecord]
) -> Mapping[str, SlotPlace]:
    rows: dict[str, list[ResourceRecord]] = {}
    for row in every:
        rows.setdefault(row.stack_id, []).append(row)
    places: dict[str, SlotPlace] = {}
    _add_places(places, (root,), (), stacks, rows)
    return places


def place_of(store: Store, row: ResourceRecord) -> SlotPlace | None:
    """Return the place of a row by the stacks above it; None: it is not current.

    Reads these stacks and their resources only. `nested` is not set.
    """
    way = next(paths_to(store, [row]), None)
    return None if way is None else SlotPlace(
        slot_at([(one.name, one.mapped_type) for one in way.rows]), row, way.stacks
    )


def row_at(store: Store, stack: StackRecord, path: str) -> ResourceRecord | None:
    """Return the current row at a path below a stack; None: there is none."""
    *above, name = path.split("/")
    for one in above:
        found = current_rows(store.resources.by_name(stack.id, [one]))
        nested = store.stacks.get(found[0].physical_id or "") if found else None
        if nested is None or nested.parent_id != stack.id:
            return None
        stack = nested
    return next(iter(current_rows(store.resources.by_name(stack.id, [name]))), None)


def _add_places(
    places: dict[str, SlotPlace],
    above: tuple[StackRecord, ...],
    chain: tuple[tuple[str, str], ...],
    stacks: Mapping[str, StackRecord],
    rows: Mapping[str, Sequence[ResourceRecord]],
) -> None:
    for row in current_rows(rows.get(above[-1].id, ())):
        to_row = (*chain, (row.name, row.mapped_type))
        nested = stacks.get(row.physical_id or "")
        nested = nested if nested is not None and nested.parent_id == above[-1].id else None
        slot = slot_at(to_row)
        places[slot.path] = SlotPlace(slot, row, above, nested)
        if nested is not None:
            _add_places(places, (*above, nested), to_row, stacks, rows)


def has_failed(store: Store, root: StackRecord) -> bool:
    """Return True if the last change of a root stack failed and was no repair."""
    verb, status = root.state_without_lock
    if status is not Status.FAILED or verb not in CHANGES:
        return False
    last = store.actions.last(root.id, verb)
    return last is None or last.inputs.heal is None


def _grouped(pairs: Iterable[tuple[str, str]]) -> dict[str, frozenset[str]]:
    found: dict[str, set[str]] = {}
    for scope, member in pairs:
        found.setdefault(scope, set()).add(member)
    return {scope: frozenset(members) for scope, members in found.items()}
