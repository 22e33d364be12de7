"""The objects that the route table gives to handlers."""

from dataclasses import dataclass

from heatlite.api.event_streams import Streams
from heatlite.core.clock import Clock
from heatlite.engine.admission.offered_types import OfferedTypes
from heatlite.engine.operations.action_signals import ActionSignals
from heatlite.engine.operations.export import Export
from heatlite.engine.operations.groups import Groups
from heatlite.engine.operations.health_marks import HealthMarks
from heatlite.engine.operations.maintenance_lock import MaintenanceLock
from heatlite.engine.operations.protection import Protection
from heatlite.engine.operations.repairs import Repairs
from heatlite.engine.operations.schedule import Schedule
from heatlite.engine.operations.signals import Signals
from heatlite.engine.operations.snapshots import Snapshots
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.outbound.self_auth import SelfAuth
from heatlite.engine.planning.outputs import StackReader
from heatlite.engine.state.agent_accounts import Accounts
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.resource_factory import EngineServices
from heatlite.healing.by_hand import HealByHand
from heatlite.healing.intake import Intake
from heatlite.healing.operations import HealingOperations
from heatlite.healing.sweep import HealingLoop
from heatlite.nodes.agents import Agents
from heatlite.nodes.playbooks import Playbooks
from heatlite.nodes.registration import Nodes
from heatlite.nodes.requests import NodeRequests
from heatlite.nodes.transitions import Ledger
from heatlite.plugin.registry import Registry
from heatlite.store.store import Store


@dataclass(frozen=True, slots=True)
class Components:
    """The operations of the engine, the store, and the objects that both share."""

    stacks: Stacks
    exports: Export
    maintenance: MaintenanceLock
    protection: Protection
    schedule: Schedule
    snapshots: Snapshots
    health: HealthMarks
    repairs: Repairs
    healing: HealingLoop
    healing_operations: HealingOperations
    heal_by_hand: HealByHand
    groups: Groups
    intake: Intake
    offer: OfferedTypes
    signals: Signals
    controls: ActionSignals
    ledger: Ledger
    playbooks: Playbooks
    software: Software
    node_requests: NodeRequests
    nodes: Nodes
    agents: Agents
    reader: StackReader
    definitions: Definitions
    store: Store
    types: Registry
    engine_services: EngineServices
    streams: Streams
    self_auth: SelfAuth | None
    accounts: Accounts | None
    clock: Clock
