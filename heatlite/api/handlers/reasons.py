"""GET S/why: the reasons why a stack is as it is."""

from falcon import Response

from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.core.wire.base import shown
from heatlite.engine.why import reading


class Reasons:
    """S/why."""

    def __init__(self, finder: StackFinder, reasons: reading.Reasons) -> None:
        self._finder = finder
        self._reasons = reasons

    def on_get(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """Show the facts on a stack."""
        stack = self._finder.find_live(req, stack_name, stack_id)
        resp.media = shown(self._reasons.of_stack(req.caller, stack))
