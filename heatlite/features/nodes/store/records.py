"""Records of nodes, node actions, orchestrations and playbooks."""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.json import JsonMap
from heatlite.features.nodes.states import ENDED, NodeActionState, NodeState, Requester, TransitionOrigin


class NodeRecord(Struct, frozen=True):
    """A node: a resource with an agent."""

    id: str
    """Id of the resource's row. A replacement of the resource is another node."""
    stack_id: str
    root_id: str
    project: str
    name: str
    url: str
    """URL of the agent."""
    secret: str
    """Shared secret by which agent and server authenticate."""
    instance: str
    """Id of the agent's database that `revision` belongs to; "" before the first answer."""
    revision: int
    """Number of the last known change of the agent."""
    agent: str
    """Version of the agent."""
    kinds: Sequence[str]
    deployments: bool
    """True if the agent carries out software deployments."""
    state: NodeState
    reason: str
    """Reason for UNREACHABLE."""
    registered_at: float
    seen_at: float | None = None
    """Time of the last answer."""


class NodeActionRecord(Struct, frozen=True):
    """An action on one node."""

    id: str
    project: str
    stack_id: str
    root_id: str
    node_id: str
    node: str
    kind: str
    args: JsonMap
    digest: str
    """Digest of kind, arguments and node. An approval names it."""
    state: NodeActionState
    requester: Requester
    requested_by: str
    created_at: float
    updated_at: float
    scheduled_at: float | None = None
    """Time of arrival at the agent; this and the next two by the agent's clock."""
    started_at: float | None = None
    finished_at: float | None = None
    approved_by: str | None = None
    approved_at: float | None = None
    sent_at: float | None = None
    """Time from which the agent may have it."""
    attempts: int = 0
    """Failed attempts to send it."""
    error: str = ""
    progress: JsonMap = {}
    outputs: JsonMap = {}
    cancel_asked: bool = False
    turn: bool = True
    """False while it waits for others of its playbook's run."""
    run_id: str | None = None
    """Id of the action that runs its playbook."""
    stage: int | None = None
    deployment_id: str | None = None
    """Id of the software deployment that it carries out."""
    seq: int = 0

    @property
    def has_ended(self) -> bool:
        """True if it will not change any more."""
        return self.state in ENDED


class RunStep(Struct, frozen=True):
    """The part of a node action that its playbook's run reads.

    A run may have thousands.
    """

    id: str
    node: str
    kind: str
    state: NodeActionState
    stage: int
    turn: bool = False
    sent_at: float | None = None
    cancel_asked: bool = False
    error: str = ""
    node_id: str = ""

    @property
    def has_ended(self) -> bool:
        """True if it will not change any more."""
        return self.state in ENDED


class NodeTransitionRecord(Struct, frozen=True):
    """One line in the history of a node action."""

    action_id: str
    time: float
    state: NodeActionState
    origin: TransitionOrigin
    user: str | None = None
    reason: str = ""


class OrchestrationRecord(Struct, frozen=True):
    """The lease and schedule of the orchestration of a tree's nodes."""

    root_id: str
    due_at: float
    owner: str | None = None
    lease_until: float = 0.0
    fence: int = 0
    nudges: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    report: JsonMap = {}
    """Result of the last run: ``nodes``, ``errors`` (node → text) …"""


class NodePlaybookRecord(Struct, frozen=True):
    """A playbook of a project."""

    project: str
    name: str
    document: str
    """YAML."""
    created_by: str
    created_at: float
    updated_at: float | None = None
