"""Reads the rows of a tree, and asks the core and features for its facts."""

from collections.abc import Callable, Mapping, Sequence, Set
from functools import partial
from typing import TypeAlias

from heatlite.clients.cloud import CloudError
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.errors import HeatliteError
from heatlite.core.status import LIVE_ACTIONS, ActionStatus, Verb
from heatlite.core.wire.why import Why
from heatlite.engine.dispatch.hints import is_up
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.why.facts import NEEDS_REASON, completed, reasons, scheduled_text, why
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.plugin.naming import UUID
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

More: TypeAlias = Callable[[ExplainedTree, Sequence[Told]], Sequence[Told]]
"""Returns the facts on a tree with those of a feature."""

RECENT = 3600.0
"""Seconds for which the refusal of the last request on a stack is told."""


class Reasons:
    """Tells why stacks and actions are as they are. Asks no cloud, and writes nothing."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        definitions: Definitions,
        features: Callable[[], Sequence[More]],
        has_engine: Callable[[], bool],
        clouds: StackClouds,
        off: Sequence[str],
    ) -> None:
        """`features` returns the parts of features; `off` names those that are off.

        `has_engine` is that of `Components`.
        """
        self._has_engine = has_engine
        self._clouds = clouds
        self._off = off
        self._store = store
        self._clock = clock
        self._definitions = definitions
        self._features = features

    def of_stack(self, caller: Context, stack: StackRecord) -> Why:
        """Return the facts on a stack, on what is above it, and on what is nested in it."""
        tree = self._tree(caller, stack)
        around = {one.id for one in tree.around(tree.by_id[stack.id])}
        told = [one for one in self._told(tree) if one.stack_id in around]
        facts = [one.fact for one in told if caller.may(one.rule)]
        waits = any(one.fact.blocks for one in told)
        return Why(waits=waits, facts=facts, hidden=len(told) - len(facts))

    def of_actions(self, caller: Context, actions: Sequence[ActionRecord]) -> dict[str, str]:
        """Return the reasons of those actions that wait, by id."""
        found: dict[str, str] = {}
        waiting = [one for one in actions if one.status in NEEDS_REASON]
        for one in waiting:
            if _waits_for_its_time(one):
                found[one.id] = scheduled_text(one)
        roots = {one.root_id: None for one in waiting if one.id not in found}
        for root in self._store.stacks.of_ids([*roots]).values():
            found |= reasons(self._told(self._tree(caller, root)))
        return {one.id: found[one.id] for one in waiting if one.id in found}

    def _told(self, tree: ExplainedTree) -> list[Told]:
        told: Sequence[Told] = why(tree)
        for feature in self._features():
            told = feature(tree, told)
        return completed(tree, told)

    def _tree(self, caller: Context, stack: StackRecord) -> ExplainedTree:
        store, now = self._store, self._clock.now()
        root = stack if stack.root_id is None else store.stacks.get(stack.root_id) or stack
        stacks = [root, *store.stacks.descendants(root)]
        if all(one.id != stack.id for one in stacks):  # it was retained, and what it was nested in is gone
            stacks = [stack, *store.stacks.descendants(stack)]
        inside = {one.id for one in stacks}
        actions = store.actions.open_of_root(root.id)
        live = [one for one in actions if one.status in LIVE_ACTIONS]
        waits = store.dependencies.open_of([one.id for one in actions])
        own = {one.id for one in actions}
        others = store.actions.by_id([*{one: None for some in waits.values() for one in some if one not in own}])
        rows = [row for row in store.resources.noteworthy(root.id) if row.stack_id in inside]
        tried = [one.id for one in actions if one.status is ActionStatus.READY and one.retries]
        return ExplainedTree(
            stacks=stacks,
            rows=rows,
            actions=actions,
            holding=frozenset(one.id for one in store.actions.holding(live)),
            waits=waits,
            others=others,
            errors=store.actions.last_reasons(tried),
            engines=[one for one in store.services.list() if is_up(one, now, self._has_engine)] if actions else (),
            off=self._off,
            owners=self._owners(root, inside, rows),
            now=now,
            caller=caller,
            definitions=self._definitions,
            cloud_refusal=partial(self._cloud_refusal, root),
            last_request=store.audit.last_of_stack(root.project, root.id, now - RECENT),
        )

    def _cloud_refusal(self, root: StackRecord) -> HeatliteError | None:
        try:
            return self._clouds.refusal(root)
        except CloudError:  # what its settings lack is the answer to the operation
            return None

    def _owners(self, root: StackRecord, inside: Set[str], rows: Sequence[ResourceRecord]) -> Mapping[str, str]:
        """Return the resources of other stacks whose objects are in the way of deletions.

        The reason of a deletion names those of its own stack.
        """
        states = [row.state_without_lock for row in rows]
        named = sorted({key for one in states if one.verb is Verb.DELETE for key in UUID.findall(one.status_reason)})
        found = self._store.resources.with_objects(root.project, named) if named else ()
        others = [row for row in found if row.stack_id not in inside]
        stacks = self._store.stacks.of_ids([row.stack_id for row in others]) if others else {}
        return {
            row.physical_id: f"{row.name} of stack {stacks[row.stack_id].name}"
            for row in others
            if row.physical_id is not None and row.stack_id in stacks
        }


def _waits_for_its_time(action: ActionRecord) -> bool:
    """Return True for a scheduled action of a root that waits for nothing else.

    Its row tells all of it, and there may be many.
    """
    is_root, is_scheduled = action.stack_id == action.root_id, action.not_before is not None
    is_free = not action.pending and action.data.approval is None
    return action.status is ActionStatus.INIT and is_scheduled and is_free and is_root
