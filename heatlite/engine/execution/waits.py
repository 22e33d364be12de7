"""Waits of an action between its changes and its end: members drain, updates bake.

Members that leave a group with their objects do so in the transaction that ends the action, after their lifecycle
hooks. Whatever else ends it, the stack returns to its state before.

An update with a guard keeps its old objects for a while, so that it can be taken back. Nested stacks leave their old
objects until their root has baked; then each has an action that deletes them.
"""

from collections.abc import Callable, Iterator, Mapping

from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, Bake, BakeEnd
from heatlite.core.clock import Clock, to_text
from heatlite.core.status import Control, Result, Status, Verb
from heatlite.engine.calls.step_execution import StepExecution
from heatlite.engine.calls.stopping import Stopping
from heatlite.engine.execution.commits import Commits
from heatlite.engine.execution.final_state import outcome
from heatlite.engine.planning.plan import Plan, Step
from heatlite.engine.planning.planner import passed_over, plan_cleaning, plan_deletions
from heatlite.engine.state.database_retry import retry_while_unavailable
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.guarding import Guarding
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.state.values import current_rows
from heatlite.engine.steps.transitions import Transitions
from heatlite.engine.steps.walk import Walker
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition

LOOKS_AGAIN = 15.0
"""Seconds after which a bake whose time is over, and that goes on, is looked at again."""


def drain(
    action: ActionRecord, definition: Definition, walker: Walker, transitions: Transitions
) -> Iterator[float | None]:
    """Wait until each member is drained. Yields as `Walker.walk`."""
    operations, deletion = transitions.operations, action.data.deletion
    names = () if deletion is None else deletion.names
    transitions.breakpoints.start(Verb.UPDATE, definition.environment)
    operations.only_waits = True
    rows = [row for row in transitions.rows.unit_of_work.rows.values() if row.name in names]
    yield from walker.walk(plan_deletions(rows, ()), operations.begin_wait)
    yield from walker.wait_out()


def end_drain(
    action: ActionRecord, stack: StackRecord, transitions: Transitions, stopping: Stopping
) -> tuple[StackRecord, Result]:
    """Return the stack at the end of the wait, and the action's result."""
    result, before = outcome(stopping, False), action.data.state_before
    assert before is not None
    transitions.settle_leftovers(stopping.stop)
    if result is not Result.OK:
        stack = with_state(stack, *before)
        transitions.rows.unit_of_work.record_event(stack_event(stack, transitions.rows.now()))
        return stack, result
    if before[1] is Status.COMPLETE:
        before = Verb.UPDATE, Status.COMPLETE, "Stack UPDATE completed successfully"
    return with_state(stack, *before), result


class Aftermath:
    """The bake of an update, and the deletion of its old objects."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        definitions: Definitions,
        guarding: Callable[[], Guarding | None],
        commits: Commits,
        transitions: Transitions,
        walker: Walker,
        stopping: Stopping,
    ) -> None:
        self._store = store
        self._clock = clock
        self._definitions = definitions
        self._guarding = guarding
        self._commits = commits
        self._transitions = transitions
        self._walker = walker
        self._stopping = stopping

    @property
    def has_begun(self) -> bool:
        """True if all changes are made: by this update, or by the one before it."""
        return self._commits.data.guard is not None or self._commits.action.inputs.cleans_after is not None

    def keep(self, surplus: Plan) -> Iterator[float | None]:
        """Note the old objects for a later clean-up. Those that are passed over go now.

        Yields as `Walker.walk`.
        """
        rows = self._transitions.rows
        gone = passed_over([rows.unit_of_work.rows[key] for key in surplus.steps], rows.chosen)
        yield from self.delete(plan_deletions(gone, ()), {})
        ids = {row.id for row in gone}
        self._commits.data = replace(self._commits.data, old=tuple(key for key in surplus.steps if key not in ids))

    def _begin(self, stack: StackRecord) -> Bake:
        """Write that all changes are made, and until when they may be taken back."""
        now, bake, guarding = self._clock.now(), self._commits.action.inputs.bake, self._guarding()
        guard, deadline = Bake(now, now + bake), self._stopping.deadline
        if deadline is not None:
            self._stopping.deadline = deadline = deadline + bake

        def also() -> None:
            self._store.moves.set_deadline(self._commits.action.id, deadline)
            if guarding is not None:
                guarding.bake(self._commits.action.id, guard.until)

        stack = with_state(stack, stack.verb, Status.IN_PROGRESS, _text(guard))
        self._transitions.rows.unit_of_work.record_event(stack_event(stack, now))
        self._commits.data = replace(self._commits.stopped_data(), guard=guard)
        self._commits.commit(stack, also=also)
        return guard

    def finish(self, stack: StackRecord) -> Iterator[float | None]:
        """Wait until the bake has ended, then delete the old objects.

        Yields as `Walker.walk`. The bake begins, if it has not. Another update's old objects are deleted at once.
        """
        cleaned = self._commits.action.inputs.cleans_after
        if cleaned is not None:
            left_by = self._store.actions.get(cleaned)
            self._stopping.finish_making()
            yield from self._delete_old(stack, ActionData() if left_by is None else left_by.data)
            return
        guard = self._commits.data.guard or self._begin(stack)
        if guard.ended is None:
            self._stopping.rolls_back = True
            while (until := self._bakes_until(guard)) is not None:
                reason = _text(guard)
                if retry_while_unavailable(self._clock, self._commits.hold, until, reason):
                    yield None
                yield from self._walker.rest()
            if self._stopping.stop is not None:
                return
            self._end(guard)
        yield from self._delete_old(stack, self._commits.data)

    def _bakes_until(self, guard: Bake) -> float | None:
        """Return the time to look again; None: the bake has ended, or the operation stops."""
        self._stopping.check()
        now = self._clock.now()
        if self._stopping.stop is not None or self._stopping.control is Control.END_BAKE:
            return None
        if now < guard.until:
            return guard.until
        return now + LOOKS_AGAIN if self._verdict(guard) is None else None

    def _verdict(self, guard: Bake) -> BakeEnd | None:
        """Return how a bake ends; None: it goes on."""
        guarding = self._guarding()
        if self._stopping.control is Control.END_BAKE:
            return BakeEnd.ENDED
        if guarding is None:
            return BakeEnd.UNKNOWN
        return retry_while_unavailable(self._clock, guarding.verdict, self._commits.action, guard.since)

    def _end(self, guard: Bake) -> None:
        """Write how the bake has ended. From now on nothing takes the update back."""
        ended = self._verdict(guard)

        def also() -> None:
            if self._commits.control is not Control.CANCEL_ROLLBACK:
                self.close()
            self._store.moves.clear_control(self._commits.action.id, Control.END_BAKE)

        self._stopping.finish_making()
        self._commits.data = replace(self._commits.stopped_data(), guard=replace(guard, ended=ended))
        self._commits.commit(also=also)

    def close(self) -> None:
        """Note that nothing takes the update back any more. Call in a transaction."""
        action, guarding = self._commits.action, self._guarding()
        if action.inputs.guard is not None and guarding is not None:
            guarding.close(action.id)

    def _delete_old(self, stack: StackRecord, left: ActionData) -> Iterator[float | None]:
        """Delete the old objects of an update: in nested stacks, then its own."""
        rows = self._transitions.rows
        every = [*rows.unit_of_work.rows.values()]
        rows.definition = self._definitions.of(stack)
        rows.chosen.update({row.name: row for row in current_rows(row for row in every if row.id not in left.old)})
        self._transitions.breakpoints.start(stack.verb, rows.definition.environment)
        keep = {row.id for row in every}.difference(left.old)
        yield from self.delete(plan_deletions(every, keep), left.unclean)

    def delete(self, surplus: Plan, unclean: Mapping[str, str]) -> Iterator[float | None]:
        """Delete what nested stacks have left, then the surplus. Yields as `Walker.walk`.

        `unclean`: the actions that have left it, by the ids of rows.
        """
        operations = self._transitions.operations

        def clean(step: Step) -> StepExecution:
            return operations.begin_cleaning(step, unclean[step.key])

        if unclean:
            every = self._transitions.rows.unit_of_work.rows.values()
            yield from self._walker.walk(plan_cleaning(every, unclean), clean)
        yield from self._walker.walk(surplus, operations.begin_delete)

    # -- the end -----------------------------------------------------------------------------------

    def told(self, stack: StackRecord) -> StackRecord:
        """Return a stack that says why the guard has taken the update back, if so."""
        action, guarding = self._commits.action, self._guarding()
        fired = "" if action.inputs.guard is None or guarding is None else guarding.fired(action.id)
        return replace(stack, status_reason=f"{stack.status_reason}. {fired}") if fired else stack

    def end(self, stack: StackRecord) -> StackRecord:
        """Note the end of the guard, for the outputs of the action.

        Returns the stack that the action leaves.
        """
        guard = self._commits.data.guard
        if stack.verb is not Verb.ROLLBACK:
            self._commits.guarded = None if guard is None else guard.ended
            return stack
        told = self.told(stack)
        self._commits.guarded = None if told is stack else BakeEnd.FIRED
        return told


def _text(bake: Bake) -> str:
    """Return the reason of a stack that bakes."""
    return f"Baking until {to_text(bake.until)}"
