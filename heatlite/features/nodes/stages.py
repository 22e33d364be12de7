"""Next steps of a playbook run, derived from the states of its node actions.

Pure: reads and writes nothing.
"""

from collections.abc import Collection, Sequence

from msgspec import Struct

from heatlite.features.nodes.states import PENDING, NodeActionState
from heatlite.features.nodes.store.records import NodeActionRecord, RunStep

SKIPPED = "Skipped: its resource is CHECK_FAILED."
"""Error of an action of a stage that does not wait for unhealthy nodes."""
STOPPED = "Its run has stopped before it was sent."
"""Error of an unsent action of a stopped run."""


class Next(Struct, frozen=True):
    """Changes to make now."""

    turns: tuple[RunStep, ...] = ()
    """Actions that may be sent from now on."""
    cancelled: tuple[RunStep, ...] = ()
    """Actions to end: no agent has them, and they will not be sent."""
    recalled: tuple[RunStep, ...] = ()
    """Actions that were sent and have not appeared at their agents yet."""
    skipped: tuple[RunStep, ...] = ()
    """Actions to end whose turn has come: their nodes are unhealthy."""
    failure: RunStep | None = None
    """Reason that stopped the run."""
    has_ended: bool = False
    """True if the run is finished."""


def next_of(
    at_once: Sequence[int | None], actions: Sequence[RunStep], unwell: Collection[str] = frozenset()
) -> Next:
    """Return the next step of an approved run.

    `at_once` holds the limit of concurrent actions per stage (None: no limit); the actions are in their order. After
    the first failure no action starts; actions at agents run to their end. `unwell` are ids of actions to skip when
    their turn has come.
    """
    bad = [one for one in actions if one.has_ended and one.state is not NodeActionState.DONE and not is_skipped(one)]
    if bad:
        failure = min(bad, key=lambda one: (one.state is NodeActionState.CANCELLED, one.error == STOPPED))
        cancelled = tuple(filter(is_unsent, actions))
        recalled = tuple(one for one in actions if one.state in PENDING and not is_unsent(one) and not one.cancel_asked)
        is_over = all(one.has_ended for one in actions)
        return Next(cancelled=cancelled, recalled=recalled, failure=failure, has_ended=is_over)
    left = [one for one in actions if not one.has_ended]
    if not left:
        return Next(has_ended=True)
    stage = min(one.stage for one in left)
    current = [one for one in left if one.stage == stage]
    skipped = [one for one in current if one.turn and is_unsent(one) and one.id in unwell]
    most = at_once[stage]
    room = len(current) if most is None else most - sum(one.turn for one in current) + len(skipped)
    turns: list[RunStep] = []
    for one in current:
        if len(turns) < room and not one.turn:
            (skipped if one.id in unwell else turns).append(one)
    return Next(turns=tuple(turns), skipped=tuple(skipped))


def held_back(actions: Sequence[RunStep]) -> tuple[RunStep, ...]:
    """Return the actions to hold back in a suspended run: no agent has them yet."""
    return tuple(one for one in actions if one.turn and is_unsent(one))


def is_skipped(action: RunStep) -> bool:
    """True if the action has ended because its node was unhealthy."""
    return action.state is NodeActionState.CANCELLED and action.error == SKIPPED


def is_unsent(action: RunStep | NodeActionRecord) -> bool:
    """True if no agent can have the action."""
    return action.state in PENDING and action.sent_at is None
