"""Log lines and metrics of actions."""

import logging

from heatlite.core.runtime.logs import about
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import ENDED_ACTIONS, ActionStatus
from heatlite.store.listeners import Moved
from heatlite.store.records import ActionRecord

log = logging.getLogger(__name__)


def about_action(action: ActionRecord) -> about:
    """Return a context whose log lines carry the ids of the action and of its request."""
    request = action.context.get("request_id")
    request_id = request if isinstance(request, str) else None
    return about(request_id=request_id, action_id=action.id, stack_id=action.stack_id)


def report_moves(meter: Meter) -> Moved:
    """Return a listener that logs every move of an action and counts every end.

    It does not log why an action failed: reasons may quote secrets. The action itself has the reason.
    """

    def report_change(action: ActionRecord, after: ActionStatus, reason: str) -> None:
        ended = after in ENDED_ACTIONS
        with about_action(action):
            why = f": {reason}" if reason and not ended else ""
            log.info("%s: %s -> %s%s", action.name, action.status, after, why)
        if ended:
            meter.action_ended(action.verb, after)

    return report_change
