"""S/sources and S/readers."""

from falcon import Response

from heatlite.api.components import Components
from heatlite.api.handlers.common import StackFinder
from heatlite.api.request import Request
from heatlite.core.wire.base import filled, shown
from heatlite.features.parameter_sources.outputs import Outputs
from heatlite.features.parameter_sources.readings import of_owner, of_stack, require_root
from heatlite.features.parameter_sources.states import states
from heatlite.features.parameter_sources.wire import ShownReader, ShownSource


class StackReadings:
    """Lists of what a stack has from others, and others from it."""

    def __init__(self, core: Components, finder: StackFinder) -> None:
        self._store = core.store
        self._outputs = core.of(Outputs)
        self._finder = finder

    def on_get_sources(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the parameters of a root stack that have values from other stacks."""
        stack = require_root(self._store, self._finder.find_live(req, stack_name, stack_id))
        found = states(self._store, self._outputs, of_stack(self._store, stack))
        resp.media = {
            "sources": [
                shown(filled(ShownSource, one, stack_name=one.owner_name, stack_id=one.owner_id, state=state))
                for one, state in found
            ]
        }

    def on_get_readers(self, req: Request, resp: Response, stack_name: str, stack_id: str) -> None:
        """List the parameters of other stacks that have values from a root stack."""
        stack = require_root(self._store, self._finder.find_live(req, stack_name, stack_id))
        resp.media = {
            "readers": [
                shown(filled(ShownReader, one, stack_name=reader.name, stack_id=reader.id))
                for one, reader in of_owner(self._store, stack)
            ]
        }
