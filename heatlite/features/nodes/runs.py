"""Playbook runs: each advances when the run or one of its node actions changes.

No worker holds a run. It is WAITING until its last node action ends, and ends in the same transaction. A run that ends
otherwise (CANCEL, timeout, deletion of the stack) ends its remaining node actions with it.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from msgspec.structs import replace

from heatlite.core.actions.decisions import Decision, DecisionStep
from heatlite.core.actions.payloads import ActionOutputs, FailedNodeAction, PlaybookStage, StageResult
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.status import ENDED_ACTIONS, MAX_REASON, STATUS_AFTER, ActionStatus, Result, Status, Verb
from heatlite.engine.execution.termination import outputs
from heatlite.engine.state.unit_of_work import stack_event
from heatlite.features.nodes.stages import SKIPPED, STOPPED, Next, held_back, is_skipped, is_unsent, next_of
from heatlite.features.nodes.states import NodeActionState, TransitionOrigin
from heatlite.features.nodes.store.records import NodeActionRecord, NodeTransitionRecord, RunStep
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.records import ActionRecord
from heatlite.store.store import Store

PLAYBOOK_RUN = "playbook_run"
"""Subject of decisions."""

GONE = "its run is no longer kept"

Record: TypeAlias = Callable[[Sequence[NodeActionRecord], Sequence[NodeTransitionRecord]], None]


class Runs:
    """Advances runs. Call in a transaction that holds the root of the run's tree."""

    def __init__(self, store: Store, clock: Clock, record: Record) -> None:
        """Create it. `record` writes node actions, with history lines."""
        self._store = store
        self._rows = store.of(NodeStore)
        self._clock = clock
        self._record = record

    def moved(self, run: ActionRecord, after: ActionStatus, reason: str) -> None:
        """Advance a run whose status has changed."""
        if run.status is ActionStatus.INIT and after is ActionStatus.WAITING:
            self._write_event(run, Status.IN_PROGRESS, f"{title(run)} started")
        elif run.status is not ActionStatus.INIT and after in ENDED_ACTIONS:
            status = Status.COMPLETE if after is ActionStatus.SUCCEEDED else Status.FAILED
            self._write_event(run, status, f"{title(run)}: {reason}")
        if run.status is ActionStatus.INIT and after in ENDED_ACTIONS:
            self._store.listeners.decided(decision_of_run(DecisionStep.ENDED, run))
        self.advance(run.id)

    def advance(self, run_id: str) -> None:
        """Start or end node actions according to their states, and end the run.

        Idempotent.
        """
        run = self._store.actions.lock(run_id)
        steps = self._rows.node_actions.steps(run_id)
        if run is None or run.status in ENDED_ACTIONS:
            left = [one for one in steps if not one.has_ended and (is_unsent(one) or not one.cancel_asked)]
            self._change(left, _taken_back, GONE if run is None else run.status_reason)
            return
        following = next_of(at_once(run), steps, self._unwell(run, steps))
        if following.cancelled or following.recalled:
            self._change([*following.cancelled, *following.recalled], _taken_back, "its run has stopped")
        elif following.has_ended:
            self._end(run, steps, following)
        elif run.status is ActionStatus.SUSPENDED:
            self._change(held_back(steps), lambda one: replace(one, turn=False))
        elif run.status is ActionStatus.WAITING:
            self._change(following.turns, lambda one: replace(one, turn=True))
            self._change(following.skipped, _skipped, SKIPPED)

    def _unwell(self, run: ActionRecord, steps: Sequence[RunStep]) -> set[str]:
        """Return the ids of the steps that are to be skipped when their turn comes."""
        skipping = {number for number, stage in enumerate(_stages(run)) if stage.unhealthy == "skip"}
        scheduled = [one for one in steps if one.state is NodeActionState.PENDING_SCHEDULE and is_unsent(one)]
        open_steps = [one for one in scheduled if one.stage in skipping]
        if not open_steps:
            return set()
        states = self._store.resources.states([one.node_id for one in open_steps])
        return {one.id for one in open_steps if states.get(one.node_id) == (Verb.CHECK, Status.FAILED)}

    def _change(
        self, steps: Sequence[RunStep], how: Callable[[NodeActionRecord], NodeActionRecord], reason: str = ""
    ) -> None:
        """Write node actions and wake the orchestrator.

        A reason becomes a line of history. The write calls `advance` again, which finds nothing left to do.
        """
        if not steps:
            return
        now = self._clock.now()
        existing = self._rows.node_actions.existing([step.id for step in steps])
        changed = [replace(one, updated_at=now) for one in map(how, existing)]
        lines = [NodeTransitionRecord(one.id, now, one.state, TransitionOrigin.SERVER, None, reason) for one in changed]
        self._record(changed, lines if reason else ())
        if not all(one.has_ended for one in changed):
            self._rows.orchestrations.nudge(changed[0].root_id, now)

    def _end(self, run: ActionRecord, steps: Sequence[RunStep], following: Next) -> None:
        failure, skipped = following.failure, [one.node for one in steps if is_skipped(one)]
        if failure is None and skipped:
            result, reason = Result.ERROR, f"All stages are done, without unhealthy nodes: {', '.join(skipped)}"
        elif failure is None:
            result, reason = Result.OK, "All stages are done"
        else:
            result = Result.CANCEL if run.status is ActionStatus.INIT else Result.ERROR
            stage = stage_names(run)[failure.stage]
            reason = f"Stage {stage}: {failure.kind} on node {failure.node} is {failure.state}"
        told = _with_stages(outputs(result, reason), run, steps)
        self._store.moves.end(run, STATUS_AFTER[result], reason, self._clock.now(), told)

    def _write_event(self, run: ActionRecord, status: Status, reason: str) -> None:
        """Write an event of the stack, whose state stays as it is."""
        stack = self._store.stacks.get(run.stack_id)
        if stack is not None:
            event = stack_event(stack, self._clock.now())
            event = replace(event, verb=Verb.RUN, status=status, status_reason=reason[:MAX_REASON])
            self._store.events.append_many([event])


def _taken_back(action: NodeActionRecord) -> NodeActionRecord:
    """End the node actions that no agent has; ask agents to end the others."""
    if is_unsent(action):
        return replace(action, state=NodeActionState.CANCELLED, turn=False, error=STOPPED)
    return replace(action, cancel_asked=True)


def _skipped(action: NodeActionRecord) -> NodeActionRecord:
    return replace(action, state=NodeActionState.CANCELLED, turn=False, error=SKIPPED)


def decision_of_run(
    step: DecisionStep, run: ActionRecord, by: Context | None = None, nodes: tuple[str, ...] = ()
) -> Decision:
    """Return a step of the decision about a run."""
    return Decision(step, PLAYBOOK_RUN, run.id, run.project, run.root_id, by, run.inputs.digest, nodes=nodes)


def title(run: ActionRecord) -> str:
    """Return the run's title: ``Playbook restart``."""
    return f"Playbook {run.inputs.playbook}" if run.inputs.playbook else "Playbook"


def _stages(run: ActionRecord) -> Sequence[PlaybookStage]:
    assert run.inputs.stages is not None
    return run.inputs.stages


def at_once(run: ActionRecord) -> list[int | None]:
    """Return the limit of concurrent node actions of each stage; None: no limit."""
    return [None if stage.at_once == "all" else stage.at_once for stage in _stages(run)]


def stage_names(run: ActionRecord) -> list[str]:
    """Return the names of the stages."""
    return [stage.name for stage in _stages(run)]


def _with_stages(outputs: ActionOutputs, run: ActionRecord, steps: Sequence[RunStep]) -> ActionOutputs:
    """Add the states of each stage's node actions, and those that failed, to outputs."""
    names = stage_names(run)
    stages: list[StageResult] = []
    for number, name in enumerate(names):
        states = [one.state for one in steps if one.stage == number]
        counts = {state.value: states.count(state) for state in NodeActionState if state in states}
        stages.append(StageResult(name, counts))

    def told(chosen: Iterable[RunStep]) -> tuple[FailedNodeAction, ...]:
        return tuple(FailedNodeAction(one.id, names[one.stage], one.node, one.state.value) for one in chosen)

    failed = told(one for one in steps if one.state in (NodeActionState.FAILED, NodeActionState.LOST))
    skipped = told(filter(is_skipped, steps))
    return replace(outputs, stages=tuple(stages), failed=failed, skipped=skipped or None)
