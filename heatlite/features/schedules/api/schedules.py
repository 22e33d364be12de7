"""S/schedules and below."""

from http import HTTPStatus

from falcon import Response

from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.api.wire import bodies
from heatlite.core.json import AnyMap
from heatlite.features.schedules.api import views
from heatlite.features.schedules.api.bodies import schedule
from heatlite.features.schedules.operations import ScheduleOperations


class StackSchedules:
    """S/schedules and below."""

    def __init__(self, finder: StackFinder, operations: ScheduleOperations) -> None:
        self._finder = finder
        self._operations = operations

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the schedules of a stack, by name."""
        found = self._operations.list(self._finder.find_live(req, stack_name, stack_id))
        resp.media = {"schedules": [views.schedule(one) for one in found]}

    def on_post(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Add a schedule."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        made = self._operations.add(req.caller, stack, schedule(bodies.checked(req, AnyMap)))
        req.concerns(target=made.name)
        resp.status = HTTPStatus.CREATED
        resp.media = {"schedule": views.schedule(made)}

    def on_get_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, schedule_id: str) -> None:
        """Show a schedule."""
        found = self._operations.get(self._finder.find_live(req, stack_name, stack_id), schedule_id)
        resp.media = {"schedule": views.schedule(found)}

    def on_put_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, schedule_id: str) -> None:
        """Replace a schedule."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        wanted = schedule(bodies.checked(req, AnyMap))
        resp.media = {"schedule": views.schedule(self._operations.put(req.caller, stack, schedule_id, wanted))}

    def on_delete_one(self, req: Request, resp: Response, stack_name: str, stack_id: str, schedule_id: str) -> None:
        """Remove a schedule."""
        self._operations.delete(req.caller, self._finder.find_live(req, stack_name, stack_id), schedule_id)
        resp.status = HTTPStatus.NO_CONTENT
