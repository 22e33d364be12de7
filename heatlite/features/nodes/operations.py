"""The operations on nodes, which share one ledger."""

from typing import TYPE_CHECKING

from heatlite.features.nodes.agents.client import Agents
from heatlite.features.nodes.agents.registration import NodeRegistry
from heatlite.features.nodes.playbooks import Playbooks
from heatlite.features.nodes.requests import NodeRequests
from heatlite.features.nodes.transitions import NodeLedger

if TYPE_CHECKING:
    from heatlite.api.components import Components


class NodeOperations:
    """Operations for routes and listeners. Get them by `Components.of`."""

    def __init__(self, core: "Components") -> None:
        store, clock, settings = core.store, core.clock, core.settings
        self.ledger = ledger = NodeLedger(store, clock)
        self.agents = Agents(settings)
        self.nodes = NodeRegistry(store, clock, self.agents)
        self.requests = NodeRequests(store, clock, settings, ledger)
        self.playbooks = Playbooks(store, clock, settings, core.admission, core.reader, ledger)
