"""What the engine hands to a resource."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import TYPE_CHECKING, Protocol

from heatlite.clients.clouds import Clouds
from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import Unavailable
from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from heatlite.plugin.resource import Resource
    from heatlite.plugin.schema import Schema


class Mailbox(Protocol):
    """What has been sent to resources. Kept beside their rows, so that it gets through while an operation runs.

    An address is the physical name of a resource.
    """

    def read(self, address: str) -> dict[str, Json]:
        """The contents by key, in the order in which their keys were first put."""

    def size(self, address: str, besides: str) -> tuple[int, int]:
        """How many contents an address has, and their characters as stored; that of the key `besides` counts not."""

    def put(self, address: str, key: str, content: Json) -> None:
        """Keep `content` under `key`, in place of what was there."""

    def clear(self, address: str) -> None:
        """Forget everything of the address."""


UNGROUPED = "Heat::Ungrouped"
"""The group of a software config that names no tool."""


PASSWORD_INPUT = "deploy_password"
"""The input with which a server signals; people are not shown its value."""
SIGNAL_INPUT = "deploy_signal_id"
"""The input with the signed URL that a server answers at; a caller who may not signal is not shown its value."""


@dataclass(frozen=True, slots=True)
class SoftwareConfig:
    """What software a server is to have, and how it gets there."""

    name: str
    group: str
    """The tool that is to apply it: ``script``, ``ansible`` …"""
    config: Json
    """What that tool reads: text, or a map."""
    inputs: Sequence[JsonMap] = ()
    outputs: Sequence[JsonMap] = ()
    options: JsonMap = field(default_factory=dict)


class SoftwareDeployment(Protocol):
    """A configuration given to a server, and what came of it. For reading only."""

    @property
    def config_id(self) -> str:
        """The configuration as the server gets it."""

    @property
    def status(self) -> str:
        """``IN_PROGRESS`` until the server has answered, then ``COMPLETE`` or ``FAILED``."""

    @property
    def status_reason(self) -> str:
        """Why it has that status."""

    @property
    def output_values(self) -> Mapping[str, Json]:
        """What the server has answered."""


class Software(Protocol):
    """The software configurations and deployments of projects.

    They are kept beside the rows of resources: clients have some of their own, and a server's answer gets through while
    an operation runs. Raises NotFound for an id that the project does not have, RequestLimitExceeded where it has as
    many as it may.
    """

    def config(self, project: str, config_id: str) -> SoftwareConfig:
        """A configuration."""

    def put_config(self, project: str, config_id: str, config: SoftwareConfig) -> None:
        """Keep a configuration; it never changes, so one that is there stays."""

    def delete_config(self, project: str, config_id: str) -> None:
        """Forget a configuration. Raises InvalidRestrictedAction while it is deployed."""

    def deployment(self, project: str, deployment_id: str) -> SoftwareDeployment:
        """A deployment."""

    def deploy(
        self,
        project: str,
        deployment_id: str,
        server_id: str,
        action: str,
        config_id: str,
        config: SoftwareConfig,
        awaited: bool,
    ) -> None:
        """Give a server a configuration, in place of the one that this deployment gave it before.

        Ends when the server has answered, or at once if no answer is `awaited`.
        """

    def finish(
        self, project: str, deployment_id: str, failed: bool, reason: str, outputs: Mapping[str, Json] = {}
    ) -> bool:
        """End a deployment and add to its outputs; False if it was not IN_PROGRESS, and then nothing changes."""

    def withdraw(self, project: str, deployment_id: str) -> None:
        """Forget a deployment, if it is there, with the configuration that it gave to the server."""

    def has_server(self, project: str, server_id: str) -> bool:
        """Whether a resource of a live stack has an object with that id."""


class RegionUnavailable(Unavailable):
    """Nobody has answered at a region's endpoint."""

    text = "{region} is not available now: {reason}"

    def __init__(self, region: str, reason: str, sent: bool) -> None:
        super().__init__(region=region, reason=reason)
        self.sent = sent
        """Whether the request may have arrived, and something may come of it."""


class Regions(Protocol):
    """The orchestration services that the operator lists, and this one, by their APIs."""

    def ask(
        self,
        region: str | None,
        project: str,
        method: str,
        path: str,
        body: Json = None,
        ca_cert: str | None = None,
        insecure: bool = False,
    ) -> tuple[int, Json]:
        """Send one request for a project's `path` (``/stacks``) to a region; None: to this server.

        Gives the status and the body, null where that is no JSON. `ca_cert` is the text of the certificates to trust
        (PEM), `insecure` trusts any. Raises RegionUnavailable, and EntityNotFound for a region that is not listed.
        """


@dataclass(frozen=True, slots=True)
class Account:
    """With what an agent lets Keystone give it a token, which opens what concerns its resource and nothing else."""

    auth_url: str
    user_id: str
    username: str
    password: str = field(repr=False)
    project_id: str
    domain: str
    """The domain's id or name, as the operator gives it."""
    region: str | None


class Accounts(Protocol):
    """The accounts that agents have in the stack domain of Keystone."""

    def of(self, stack_id: str, physical_name: str) -> Account | None:
        """That of a resource; None: it has none."""

    def settle(self, resource: "Resource[Schema]") -> None:
        """Make a resource's account if it wants one and has none, remove it if it does not want it. Raises CloudError.
        """

    def close(self, resource: "Resource[Schema]") -> None:
        """Remove a resource's account, if it has one. Raises CloudError."""


@dataclass(frozen=True, slots=True)
class Services:
    """What the installation offers to resources."""

    mailbox: Mailbox
    public_url: str
    """Where clients and machines reach the API: ``http://host:port``."""
    software: Software
    regions: Regions
    max_resources: int = 20_000
    """How many resources a stack may have; a type that makes resources by number asks before it makes them."""
    action_timeout: float = 3600.0
    """Seconds that an operation may take where the stack does not say."""
    client_retry_limit: int = 2
    """How often a request to another service is sent again that nobody has answered."""
    clouds: Clouds = field(default_factory=lambda: Clouds(None, lambda: 0.0))
    """Where the objects of a project's resources lie."""
    accounts: Accounts | None = None
    """None: there is no stack domain."""


class Member(Protocol):
    """One resource of a nested stack. For reading only."""

    @property
    def name(self) -> str:
        """Its name in the nested template."""

    @property
    def action(self) -> str:
        """``CREATE`` and the like."""

    @property
    def status(self) -> str:
        """``IN_PROGRESS``, ``COMPLETE`` or ``FAILED``."""

    @property
    def created_at(self) -> float:
        """Seconds since the epoch, UTC."""

    def reference(self) -> Json:
        """What get_resource gives."""

    def attribute(self, name: str, path: Sequence[Json] = ()) -> Json:
        """What get_attr gives. Raises InvalidTemplateAttribute."""


class Nested(Protocol):
    """The nested stack of a resource, as it is now. For reading only; read when first asked, and then kept."""

    @property
    def id(self) -> str:
        """The stack's id."""

    @property
    def action(self) -> str:
        """``CREATE`` and the like."""

    @property
    def status(self) -> str:
        """``IN_PROGRESS``, ``COMPLETE`` or ``FAILED``."""

    @property
    def template(self) -> Mapping[str, Json]:
        """The template that it was last given."""

    @property
    def members(self) -> Sequence[Member]:
        """Its resources that are in the template, oldest first; one for each name."""

    @property
    def outputs(self) -> Sequence[str]:
        """The names of its outputs."""

    def output(self, name: str) -> Json:
        """The value of an output; null where there is none of that name, or its value cannot be had."""


@dataclass(frozen=True, slots=True)
class Inherited:
    """What a stack that a resource makes has from the one that the resource is in."""

    environment: JsonMap = field(default_factory=dict)
    """Without parameters."""
    files: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Facts:
    """What one resource row says, and the clock."""

    name: str
    """The resource's name in the template."""
    stack_id: str
    stack_name: str
    project: str
    physical_name: str
    """The name that the real object carries; fixed before anything is made, so it can be found again."""
    physical_id: str | None
    """Set by a handler once the object exists; stored with the next commit."""
    properties: JsonMap
    """Coerced, without defaults: what the object is to be. During an update these are the new ones."""
    metadata: JsonMap
    now: Callable[[], float]
    """Seconds since the epoch, UTC."""
    services: Services
    suspended: Callable[[], float] = lambda: 0.0
    """Seconds that the running operation was suspended in all; a timeout that a type keeps itself leaves them out."""
    data: JsonMap = field(default_factory=dict)
    """What handlers keep; stored after each handler and each check."""
    nested: Callable[[], Nested | None] = lambda: None
    """The nested stack, for a type that makes one; None while there is none."""
    update_policy: JsonMap = field(default_factory=dict)
    """The update_policy section, resolved; only where the type makes a nested stack."""
    before: JsonMap | None = None
    """During an update the properties from before it."""
    sibling: "Callable[[str], Resource[Schema] | None]" = lambda _: None
    """The resource of the same stack with this name or physical id; None where there is none."""
    relative: "Callable[[str], Resource[Schema] | None]" = lambda _: None
    """The resource with this physical id in the whole tree of the stack; None where there is none."""
    former: "Callable[[], Resource[Schema] | None]" = lambda: None
    """The resource that this one takes the place of; None: there is none, or it is about to go itself."""
    latter: "Callable[[], Resource[Schema] | None]" = lambda: None
    """The resource that takes the place of this one; None: there is none, or it is about to go itself."""
    users: "Callable[[], Sequence[Resource[Schema]]]" = tuple
    """While the object goes before its replacement is made: the resources of the stack that use it."""
    time_limit: float = inf
    """Seconds that an operation on the stack may take in all."""
    inherited: Callable[[], Inherited] = Inherited
    """During a create and an update."""
    home: Callable[[], CloudIdentity | None] = lambda: None
    """The cloud in which the stack has its objects; None: none is recorded."""
    created_at: float = 0.0
    """When it was decided to make the object: seconds since the epoch."""


@dataclass(frozen=True, slots=True)
class Change:
    """What an update would change. Values are coerced, without defaults."""

    changed: frozenset[str]
    """Names of the properties that differ, defaults applied on both sides."""
    before: Mapping[str, object]
    after: Mapping[str, object]
    """May hold UNKNOWN in a preview."""
    metadata_changed: bool = False
    followed: frozenset[str] = frozenset()
    """Those of `changed` that the template writes as before: something that they name is made anew."""
