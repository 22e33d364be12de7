"""Tasks of schedules: operations that users may begin, too."""

from heatlite.core.context import Context
from heatlite.core.errors import InvalidStackState
from heatlite.core.json import JsonMap
from heatlite.core.status import Verb
from heatlite.engine.operations.groups import Groups
from heatlite.engine.operations.scheduled_actions import ScheduledActions
from heatlite.engine.state.group_requests import Adjustment, NewLimits, ResizeRequest, SizeRequest
from heatlite.engine.state.requests import AT_ONCE
from heatlite.engine.types.outputs import StackReader
from heatlite.features.schedules.store.records import ScheduledTask
from heatlite.store.records import StackRecord

VERBS = {ScheduledTask.SUSPEND: Verb.SUSPEND, ScheduledTask.RESUME: Verb.RESUME, ScheduledTask.CHECK: Verb.CHECK}


class Tasks:
    """Begins the tasks of schedules."""

    def __init__(self, scheduled_actions: ScheduledActions, groups: Groups, reader: StackReader) -> None:
        self._scheduled_actions = scheduled_actions
        self._groups = groups
        self._reader = reader

    def check_rights(self, context: Context, task: ScheduledTask) -> None:
        """Raise Forbidden unless the caller may do a task at once."""
        context.require("actions:action")
        context.require(f"actions:{task}")

    def begin(self, context: Context, stack: StackRecord, task: ScheduledTask, options: JsonMap) -> None:
        """Begin a task. Raises Forbidden, and what refuses its operation."""
        self.check_rights(context, task)
        if task is ScheduledTask.RESIZE:
            owner, group = self._reader.resource_at(stack, str(options["resource"]))
            self._groups.change(context, owner, group.name, size_request(options))
            return
        if task is ScheduledTask.CHECK and self._scheduled_actions.is_suspended(stack):
            raise InvalidStackState(f"Stack {stack.name} is suspended: once checked, it could not be resumed.")
        self._scheduled_actions.start(context, stack, VERBS[task], AT_ONCE)


def size_request(options: JsonMap) -> SizeRequest:
    """Return the change of a group that a task asks for.

    A size beyond the limits is cut.
    """
    low, high, size = (
        None if (value := options.get(key)) is None else int(str(value))
        for key in ("min_size", "max_size", "desired_capacity")
    )
    if size is None:
        return NewLimits(low, high)
    return ResizeRequest(Adjustment.EXACT_CAPACITY, size, strict=False, min_size=low, max_size=high)
