"""Routes of the query API and of access keys."""

from heatlite.api.access.login_throttle import proxies
from heatlite.api.access.policy import OPEN
from heatlite.api.components import Components
from heatlite.api.handlers.server import Versions
from heatlite.api.handlers.stacks import StackDetails
from heatlite.api.routes import VERSION, P, Routes
from heatlite.features.query_api import errors
from heatlite.features.query_api.access_keys import AccessKeys
from heatlite.features.query_api.actions import QueryActions
from heatlite.features.query_api.callers import Callers
from heatlite.features.query_api.handler import QueryApi
from heatlite.features.query_api.machine_keys import MachineKeys


def add(routes: Routes, components: Components) -> None:
    """Add the routes. The query API has the path of the version document."""
    store, settings, access = components.store, components.settings, components.access()
    reader, definitions = components.reader, components.definitions
    details = StackDetails(store, definitions, reader, components.accounts)
    hidden_tags = settings.hidden_stack_tags
    actions = QueryActions(
        store, components.stacks, components.software, components.signals, reader, definitions, details, hidden_tags
    )
    machines = MachineKeys(store, settings, reader)
    callers = Callers(access, store, components.clock, machines, proxies(settings.trusted_proxies))
    errors.install(routes.app, VERSION, components.ways_out)
    api = QueryApi(callers, actions, Versions(), routes.trail)
    routes.add(VERSION, api, query={"GET": None, "POST": None}, GET=OPEN, POST=OPEN)

    keys = AccessKeys(store, components.clock, access)
    routes.add(P + "/access_keys", keys, GET="access_keys:index", POST="access_keys:create")
    routes.add(P + "/access_keys/{key_id}", keys, "one", DELETE="access_keys:delete")
