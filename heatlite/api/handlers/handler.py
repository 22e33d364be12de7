"""What every handler has."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from heatlite.api.event_streams import Streams
from heatlite.api.request import Request
from heatlite.core.clock import Clock
from heatlite.core.errors import StackNotFound
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.offered_types import Offer
from heatlite.engine.operations.action_signals import Controls
from heatlite.engine.operations.export import Handover
from heatlite.engine.operations.health_marks import Health
from heatlite.engine.operations.maintenance_lock import Maintenance
from heatlite.engine.operations.protection import Protection
from heatlite.engine.operations.schedule import Schedule
from heatlite.engine.operations.signals import Signals
from heatlite.engine.operations.snapshots import Snapshots
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.outbound.self_auth import Ourselves
from heatlite.engine.planning.outputs import Reading
from heatlite.engine.state.agent_accounts import Accounts
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.values import Surroundings
from heatlite.nodes.agents import Agents
from heatlite.nodes.playbooks import Playbooks
from heatlite.nodes.registration import Nodes
from heatlite.nodes.requests import NodeRequests
from heatlite.nodes.transitions import Ledger
from heatlite.plugin.registry import Registry
from heatlite.store.records import StackRecord, StackSummary
from heatlite.store.store import Store


@dataclass(frozen=True, slots=True)
class Rooms:
    """The engine to write through, the store to read from, and what both know."""

    stacks: Stacks
    handover: Handover
    maintenance: Maintenance
    protection: Protection
    schedule: Schedule
    snapshots: Snapshots
    health: Health
    offer: Offer
    signals: Signals
    controls: Controls
    ledger: Ledger
    playbooks: Playbooks
    software: Software
    node_requests: NodeRequests
    nodes: Nodes
    agents: Agents
    reading: Reading
    definitions: Definitions
    store: Store
    types: Registry
    surroundings: Surroundings
    streams: Streams
    ourselves: Ourselves | None
    accounts: Accounts | None
    clock: Clock


class Handler:
    """Base of the handlers."""

    def __init__(self, rooms: Rooms) -> None:
        self.stacks = rooms.stacks
        self.controls = rooms.controls
        self.playbooks = rooms.playbooks
        self.handover = rooms.handover
        self.maintenance = rooms.maintenance
        self.snapshots = rooms.snapshots
        self.health = rooms.health
        self.offer = rooms.offer
        self.signals = rooms.signals
        self.software = rooms.software
        self.node_requests = rooms.node_requests
        self.nodes = rooms.nodes
        self.reading = rooms.reading
        self.definitions = rooms.definitions
        self.store = rooms.store
        self.types = rooms.types
        self.streams = rooms.streams
        self.accounts = rooms.accounts
        self.clock = rooms.clock

    def agents_of(self, stacks: Sequence[StackRecord | StackSummary]) -> Mapping[str, str]:
        """In which projects of the stack domain the agents of stacks have accounts: stack → project."""
        return {} if self.accounts is None or not stacks else self.accounts.projects(stacks)

    def find(self, req: Request, stack_name: str, stack_id: str) -> StackRecord:
        """The stack of the caller's project with this name and id, even if it was deleted. Raises StackNotFound."""
        stack = self.store.stacks.get(stack_id)
        if stack is None or stack.project != req.caller.project or stack.name != stack_name:
            raise StackNotFound(name=stack_name)
        return stack

    def find_live(self, req: Request, stack_name: str, stack_id: str) -> StackRecord:
        """The same, without deleted ones."""
        stack = self.find(req, stack_name, stack_id)
        if stack.verb is Verb.DELETE and stack.status is Status.COMPLETE:
            raise StackNotFound(name=stack_name)
        return stack
