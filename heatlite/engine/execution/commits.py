"""Commits of one execution: fenced transactions that write a tick or the release."""

from collections.abc import Callable, Sequence
from typing import TypeVarTuple

from msgspec.structs import replace

from heatlite.core.actions.check_tally import CheckTally
from heatlite.core.actions.payloads import ActionData, BakeEnd, GuardOutput, StopRecord
from heatlite.core.clock import Clock
from heatlite.core.status import STATUS_AFTER, ActionStatus, Control, Result, Verb
from heatlite.engine.calls.pool import Calls
from heatlite.engine.calls.step_execution import HookWait
from heatlite.engine.calls.stopping import Stopping
from heatlite.engine.execution.members_result import with_members
from heatlite.engine.execution.termination import outputs, suspend_derived
from heatlite.engine.state.database_retry import retry_while_unavailable
from heatlite.engine.state.unit_of_work import UnitOfWork, Writes
from heatlite.engine.steps.breakpoints import Breakpoints, parked_as
from heatlite.engine.steps.children import Children, Order
from heatlite.engine.steps.transitions import Transitions
from heatlite.store.errors import AlreadyCommitted
from heatlite.store.feature_store import ObjectNews
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store

Given = TypeVarTuple("Given")

MAX_UNTOUCHED = 1000
"""Rows of resources whose step has not begun, in one commit. On SQLite requests that write wait for each commit."""


class Commits:
    """Writes the progress and the end of one action."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        lease: float,
        action: ActionRecord,
        unit_of_work: UnitOfWork,
        transitions: Transitions,
        breakpoints: Breakpoints,
        children: Children,
        calls: Calls,
        stopping: Stopping,
    ) -> None:
        self.action = action
        """The action as last written."""
        self.data = action.data
        """The action's data, to be written with the next commit."""
        self.control: Control | None = None
        """The control as of the last commit."""
        self.result: Result | None = None
        """The result, once the end is written."""
        self.guarded: BakeEnd | None = None
        """Of an update with a guard that ends: what became of the guard."""
        self.suspected = action.takeovers
        """The number of takeovers without progress; 0 after a commit."""
        self._store = store
        self._clock = clock
        self._lease = lease
        self._unit_of_work = unit_of_work
        self._transitions = transitions
        self._breakpoints = breakpoints
        self._children = children
        self._calls = calls
        self._stopping = stopping
        self._recorded: int | None = None
        """The size of the stack's rows as other walks of the tree know it."""

    def write_progress(self) -> None:
        """Write the changes of a tick, if any, and the state for the next attempt."""
        data = self.stopped_data()
        is_news, self.data = data != self.data, data
        if self._unit_of_work.dirty or self._children.placed or is_news:
            self.commit()

    def stopped_data(self) -> ActionData:
        """Return the action's data with the state of stopping, for the next attempt."""
        stopped = self._stopping.record(self.action.suspended)
        tally = self._transitions.operations.tally
        return replace(
            self.data,
            stopping=None if stopped == StopRecord() else stopped,
            checked=None if tally == CheckTally() else tally.copy(),
            left=tuple(self._transitions.left),
            reverted=tuple(self._transitions.converging.reverted),
            unclean={**self._transitions.converging.unclean},
        )

    def kept_data(self) -> ActionData:
        """Return the action's data without that of the running phase."""
        return replace(self.stopped_data(), stopping=None, checked=None)

    def commit(
        self,
        stack: StackRecord | None = None,
        ends: Result | None = None,
        also: Callable[[], None] | None = None,
        reason: str = "",
    ) -> None:
        """Write a tick in one fenced transaction. Retries until the database is available.

        Retries write nothing twice. `stack`: its new state. `ends`: the action's result. `also` writes more in the same
        transaction. `reason`: that of an ended action without a new stack state.
        """
        writes, orders, budget = self._unit_of_work.take(), self._children.take(), self._transitions.budget
        if ends is not None:
            budget.recount([*self._unit_of_work.rows.values()])
            self.data = self.kept_data()
        begun = self._clock.now()
        writes = self._write_untouched(writes)
        self._retry(self._write, writes, orders, stack, ends, also, reason)
        self.action = replace(self.action, data=self.data)
        self.suspected = 0
        self._calls.written(begun)
        self._recorded = budget.to_record()
        budget.written()
        self._stopping.control = self.control
        if orders:
            self._children.written(orders)
        self.result = ends

    def _write_untouched(self, writes: Writes) -> Writes:
        """Add many rows of steps that have not begun, in commits of their own.

        Returns the other writes. An attempt after a crash adds the rows that are missing. One that waits at a hook is
        written with its event.
        """
        untouched = [row for row in writes.new if row.verb is Verb.INIT and row.token is None]
        if len(untouched) <= MAX_UNTOUCHED:
            return writes
        for at in range(0, len(untouched), MAX_UNTOUCHED):
            self._retry(self._insert, untouched[at : at + MAX_UNTOUCHED])
        return replace(writes, new=[row for row in writes.new if row.verb is not Verb.INIT or row.token is not None])

    def _insert(self, rows: Sequence[ResourceRecord]) -> None:
        with self._store.transaction():
            self.control = self._store.claims.begin_commit(self.action, self._clock.now(), self._lease)
            self._store.resources.insert_many(rows)

    def _retry(self, write: Callable[[*Given], None], *given: *Given) -> None:
        """Make a commit, until the database is available."""
        try:
            retry_while_unavailable(self._clock, write, *given)
        except AlreadyCommitted as committed:
            self.control = committed.control
        self.action = replace(self.action, commits=self.action.commits + 1)

    def park(self, children: int, held: Sequence[HookWait]) -> bool:
        """Release the action until a child action ends or a hook wait is over.

        `children`: the number of its child actions. `held`: the waits. Returns False if an event of either kind has
        happened already, or if the action has a control.
        """
        store, action = self._store, self.action
        with store.transaction():
            now = self._clock.now()
            self.control = store.claims.renew(action, now, self._lease)
            stays = self.control is None and not self._breakpoints.over(held, now)
            status, wake_at, reason = parked_as(held)
            parked = stays and store.moves.park(action, children, status, now, wake_at, reason)
        self._stopping.control = None if parked else self.control
        return parked

    def hold(self, until: float, reason: str) -> bool:
        """Release the action until a time. Returns False if it has a control."""
        store, action = self._store, self.action
        with store.transaction():
            now = self._clock.now()
            self.control = store.claims.renew(action, now, self._lease)
            held = self.control is None and store.moves.park(action, 0, ActionStatus.WAITING, now, until, reason)
        self._stopping.control = None if held else self.control
        return held

    def set_aside(self) -> bool:
        """Release the action until it is resumed, and suspend all actions derived from it.

        Returns False if it has another control by now.
        """
        store, action, now = self._store, self.action, self._clock.now()
        with store.transaction():
            # This locks the root of the tree, too: every worker locks it before anything else of the tree.
            store.stacks.lock(action.stack_id)
            self.control = store.claims.renew(action, now, self._lease)
            aside = store.moves.suspend_held(action, now)
            if aside:
                # Children that were ordered after the request do not have the control yet.
                suspend_derived(store, action, now)
        self._stopping.control = None if aside else self.control
        return aside

    def _write(
        self,
        writes: Writes,
        orders: list[Order],
        stack: StackRecord | None,
        ends: Result | None,
        also: Callable[[], None] | None,
        reason: str,
    ) -> None:
        store, action, now = self._store, self.action, self._clock.now()
        with store.transaction():
            if ends is not None:
                store.claims.lock_parent(action)
            data = None if self.data == action.data else self.data
            self.control = store.claims.begin_commit(action, now, self._lease, data)
            store.resources.insert_many(writes.new)
            store.resources.save_many(writes.changed)
            seen = store.objects_seen(
                ObjectNews(
                    action.project, action.root_id, now, writes.compared, writes.unseen, writes.updated, writes.gone
                )
            )
            store.resources.delete_many(writes.gone)
            self._children.write(orders)
            held = self._transitions.budget.to_record()
            if held is not None and held != self._recorded:
                store.stack_sizes.record_resources(action.stack_id, action.root_id, held)
            if also is not None:
                also()
            events = [*writes.events, *seen]
            if stack is not None and self.control is Control.ABORT:
                # A delete has taken over the stack's state; this action still writes the resources' events.
                events = [event for event in events if event.physical_id != stack.id]
                stack = None
                if ends is Result.CANCEL:
                    reason = "the stack is deleted"
            store.events.append_many(events)
            if stack is not None:
                store.stacks.save(stack)
                if stack.deleted_at is not None:
                    store.controls.cancel_queued([stack.id], "the stack is deleted", now)  # the scheduled ones
                    store.snapshots.clear(stack.id)
                    store.credentials.delete(stack.id)
                    store.accounts.delete_all(stack.id)
                    store.suppressed.clear(stack.id)  # unreachable from now on, and they may hold secrets
            if ends is not None:
                self._breakpoints.forget()
                reason = reason if stack is None else stack.status_reason
                checked = self._transitions.operations.tally if action.verb is Verb.CHECK else None
                ended = outputs(ends, reason, stack, checked)
                rows = [*self._unit_of_work.rows.values()]
                ended = with_members(ended, store, replace(action, data=self.data), rows)
                if self.guarded is not None:
                    ended = replace(ended, guard=GuardOutput(self.guarded))
                store.moves.finish(action, STATUS_AFTER[ends], reason, now, ended)
                if action.verb is Verb.CHECK and action.parent_id is None:
                    store.tree_checked(action.root_id, now)
