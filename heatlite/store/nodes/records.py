"""What the store knows of nodes and of what is done on them."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from heatlite.core.json import JsonMap
from heatlite.core.nodes import ENDED, NodeActionState, NodeState, Origin, Requester


@dataclass(frozen=True, slots=True)
class NodeRecord:
    """A resource with an agent beside it."""

    id: str
    """That of the resource's row: a resource that replaces it is another node."""
    stack_id: str
    root_id: str
    project: str
    name: str
    url: str
    """Where its agent listens."""
    secret: str
    """With which agent and server prove who they are."""
    instance: str
    """Which of the agent's databases told `revision`; "" before the first answer."""
    revision: int
    """How far its agent's changes are known."""
    agent: str
    """Its version."""
    kinds: Sequence[str]
    deployments: bool
    """Whether it carries out software deployments."""
    state: NodeState
    reason: str
    """Why it is UNREACHABLE."""
    registered_at: float
    seen_at: float | None = None
    """When it has last answered."""


@dataclass(frozen=True, slots=True)
class NodeActionRecord:
    """One piece of work for one node."""

    id: str
    project: str
    stack_id: str
    root_id: str
    node_id: str
    node: str
    kind: str
    args: JsonMap
    digest: str
    """Of what is done where: what an approval is for."""
    state: NodeActionState
    requester: Requester
    requested_by: str
    created_at: float
    updated_at: float
    scheduled_at: float | None = None
    """When the agent got it; this and the next two by its clock."""
    started_at: float | None = None
    finished_at: float | None = None
    approved_by: str | None = None
    approved_at: float | None = None
    sent_at: float | None = None
    """From when on the agent may have it."""
    attempts: int = 0
    """To send it, that failed."""
    error: str = ""
    progress: JsonMap = field(default_factory=dict)
    outputs: JsonMap = field(default_factory=dict)
    cancel_asked: bool = False
    turn: bool = True
    """False: it waits for others of its playbook's run."""
    run_id: str | None = None
    """The action that runs its playbook."""
    stage: int | None = None
    deployment_id: str | None = None
    """The software deployment that it carries out."""
    seq: int = 0

    @property
    def has_ended(self) -> bool:
        """Whether nothing will come of it any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class RunStep:
    """What a playbook's run has to know of one of its node actions: no more, for there may be thousands of them."""

    id: str
    node: str
    kind: str
    state: NodeActionState
    stage: int
    turn: bool = False
    sent_at: float | None = None
    cancel_asked: bool = False
    error: str = ""

    @property
    def has_ended(self) -> bool:
        """Whether nothing will come of it any more."""
        return self.state in ENDED


@dataclass(frozen=True, slots=True)
class NodeTransitionRecord:
    """A line of a node action's history."""

    action_id: str
    time: float
    state: NodeActionState
    origin: Origin
    user: str | None = None
    reason: str = ""


@dataclass(frozen=True, slots=True)
class OrchestrationRecord:
    """When a tree's nodes are, or were, looked after."""

    root_id: str
    due_at: float
    owner: str | None = None
    lease_until: float = 0.0
    fence: int = 0
    nudges: int = 0
    started_at: float | None = None
    ended_at: float | None = None
    report: JsonMap = field(default_factory=dict)
    """What came of the last: ``nodes``, ``errors`` (node → text) …"""


@dataclass(frozen=True, slots=True)
class NodePlaybookRecord:
    """A playbook of a project."""

    project: str
    name: str
    document: str
    """YAML."""
    created_by: str
    created_at: float
    updated_at: float | None = None
