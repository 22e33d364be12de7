"""What a playbook's run does next, from how its node actions stand. Pure: nothing is read and nothing written."""

from collections.abc import Sequence
from dataclasses import dataclass

from heatlite.core.nodes import PENDING, NodeActionState
from heatlite.store.nodes.records import NodeActionRecord, RunStep

STOPPED = "Its run has stopped before it was sent."
"""The error of what was cancelled for that."""


@dataclass(frozen=True, slots=True)
class Next:
    """What is to be done now."""

    turns: tuple[RunStep, ...] = ()
    """Those that may be sent from now on."""
    cancelled: tuple[RunStep, ...] = ()
    """Those that no agent can have: they will not be sent any more."""
    recalled: tuple[RunStep, ...] = ()
    """Those that were sent, and not seen at their agents yet."""
    failure: RunStep | None = None
    """What has stopped the run."""
    has_ended: bool = False
    """Whether nothing is left to do."""


def next_of(at_once: Sequence[int | None], actions: Sequence[RunStep]) -> Next:
    """What follows from how the node actions of an approved run stand.

    `at_once` says for each stage how many of it may be under way (None: all). The actions are in the order in which
    they are to be done. Once one has ended otherwise than well, nothing new begins; what agents have runs to its end.
    """
    bad = [one for one in actions if one.has_ended and one.state is not NodeActionState.DONE]
    if bad:
        failure = min(bad, key=lambda one: (one.state is NodeActionState.CANCELLED, one.error == STOPPED))
        cancelled = tuple(filter(is_unsent, actions))
        recalled = tuple(one for one in actions if one.state in PENDING and not is_unsent(one) and not one.cancel_asked)
        is_over = all(one.has_ended for one in actions)
        return Next((), cancelled, recalled, failure, is_over)
    left = [one for one in actions if not one.has_ended]
    if not left:
        return Next(has_ended=True)
    stage = min(one.stage for one in left)
    waiting = [one for one in left if one.stage == stage and not one.turn]
    under_way = sum(one.stage == stage and one.turn for one in left)
    most = at_once[stage]
    room = len(waiting) if most is None else max(0, most - under_way)
    return Next(turns=tuple(waiting[:room]))


def held_back(actions: Sequence[RunStep]) -> tuple[RunStep, ...]:
    """Those that lose their turn where a run is suspended: no agent can have them yet."""
    return tuple(one for one in actions if one.turn and is_unsent(one))


def is_unsent(action: RunStep | NodeActionRecord) -> bool:
    """Whether no agent can have it."""
    return action.state in PENDING and action.sent_at is None
