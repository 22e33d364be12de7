"""Interfaces that the engine gives to a resource."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from math import inf
from typing import TYPE_CHECKING, Protocol

from msgspec import Struct, field

from heatlite.clients.cloud import Cloud
from heatlite.clients.clouds import Clouds
from heatlite.core.clouds import CloudIdentity
from heatlite.core.errors import Unavailable
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.redaction.secret_fields import HidesSecrets

if TYPE_CHECKING:
    from heatlite.plugin.resource import Resource
    from heatlite.plugin.schema import Schema


class Mailbox(Protocol):
    """Contents sent to resources.

    Kept beside their rows, so that it gets through while an operation runs.

    An address is the physical name of a resource.
    """

    def read(self, address: str) -> dict[str, Json]:
        """The contents by key, in the order in which their keys were first put."""

    def size(self, address: str, besides: str) -> tuple[int, int]:
        """Return the number and the size of an address's contents.

        The key `besides` does not count.
        """

    def put(self, address: str, key: str, content: Json) -> None:
        """Keep `content` under `key`, in place of what was there."""

    def agree(self, address: str, key: str, content: Json) -> Json:
        """Keep `content` under `key` unless something is there.

        Return what is there then: all workers get the same.
        """

    def clear(self, address: str) -> None:
        """Forget everything of the address."""


UNGROUPED = "Heat::Ungrouped"
"""The group of a software config that names no tool."""


PASSWORD_INPUT = "deploy_password"
"""The input with which a server signals; people are not shown its value."""
SIGNAL_INPUT = "deploy_signal_id"
"""Input with the signed URL for a server's answer.
Callers who may not signal see it masked."""


class SoftwareConfig(Struct, frozen=True):
    """Software for a server, and the tool that installs it."""

    name: str
    group: str
    """The tool that is to apply it: ``script``, ``ansible`` …"""
    config: Json
    """Input of that tool: text, or a map."""
    inputs: Sequence[JsonMap] = ()
    outputs: Sequence[JsonMap] = ()
    options: JsonMap = {}


class SoftwareDeployment(Protocol):
    """A configuration given to a server, and what came of it. For reading only."""

    @property
    def config_id(self) -> str:
        """The configuration as the server gets it."""

    @property
    def action(self) -> str:
        """The stack's operation for which it was deployed last: CREATE, UPDATE …"""

    @property
    def status(self) -> str:
        """``IN_PROGRESS`` until the server has answered, then ``COMPLETE`` or ``FAILED``."""

    @property
    def status_reason(self) -> str:
        """Reason of the status."""

    @property
    def output_values(self) -> Mapping[str, Json]:
        """Answer of the server."""


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
        input_values: JsonMap,
        awaited: bool,
    ) -> None:
        """Replace the configuration and the values that this deployment gave to a server.

        Ends when the server has answered, or at once if no answer is `awaited`.
        """

    def finish(
        self, project: str, deployment_id: str, failed: bool, reason: str, outputs: Mapping[str, Json] = {}
    ) -> bool:
        """End a deployment and add outputs; False if it was not IN_PROGRESS.

        Nothing changes then.
        """

    def withdraw(self, project: str, deployment_id: str) -> None:
        """Remove a deployment, if it exists, and its configuration of the server."""

    def deployed(self, project: str, server_id: str) -> list[Json]:
        """Return the configurations for a server by name, as its agent reads them."""

    def has_server(self, project: str, server_id: str) -> bool:
        """Test whether a resource of a live stack has an object with that id."""


class RegionUnavailable(Unavailable):
    """A region's endpoint gave no answer."""

    text = "{region} is not available now: {reason}"

    def __init__(self, region: str, reason: str, sent: bool) -> None:
        super().__init__(region=region, reason=reason)
        self.sent = sent
        """True if the request may have arrived and taken effect."""


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
        """Send a request for a project's `path` to a region; None: to this server.

        Gives the status and the body, null where that is no JSON. `ca_cert` is the text of the certificates to trust
        (PEM), `insecure` trusts any. Raises RegionUnavailable, and EntityNotFound for a region that is not listed.
        """


def refusal(answer: Json) -> str:
    """Return the reason in the answer of a region that has refused a request."""
    found = as_map(answer)
    reason = as_map(found.get("error")).get("message")
    return str(reason or found.get("explanation") or "(no reason given)")


class Account(HidesSecrets, frozen=True):
    """Keystone credentials of an agent, valid for its own resource only."""

    secret_fields = frozenset({"password"})

    auth_url: str
    user_id: str
    username: str
    password: str
    project_id: str
    domain: str
    """The domain's id or name, as the operator gives it."""
    region: str | None


class Accounts(Protocol):
    """The accounts that agents have in the stack domain of Keystone."""

    def of(self, stack_id: str, physical_name: str) -> Account | None:
        """Return the account of a resource, None if it has none."""

    def cloud(self, account: Account) -> Cloud:
        """Return the cloud as an account sees it. Raises CloudError."""

    def settle(self, resource: "Resource[Schema]") -> None:
        """Create a resource's account, if the resource wants one.

        Raises CloudError.
        """

    def close(self, resource: "Resource[Schema]") -> None:
        """Remove a resource's account, if it has one. Raises CloudError."""


class Services(Struct, frozen=True):
    """Services of the installation for resources."""

    mailbox: Mailbox
    public_url: str
    """Address of the API for clients and machines: ``http://host:port``."""
    software: Software
    regions: Regions
    time_limit: Callable[[float], float]
    """Returns the time limit of an operation from that of its stack; 0: it has none. In seconds."""
    max_resources: int = 20_000
    """Maximum number of resources of a stack.
    Types that make resources by number check it before."""
    client_retry_limit: int = 2
    """Retries of unanswered requests to another service."""
    clouds: Clouds = field(default_factory=lambda: Clouds(None, lambda: 0.0))
    """Clouds of the objects of a project's resources."""
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
        """Return the value of get_resource."""

    def attribute(self, name: str, path: Sequence[Json] = ()) -> Json:
        """Return the value of get_attr. Raises InvalidTemplateAttribute."""


class Nested(Protocol):
    """The nested stack of a resource, as it is now.

    For reading only; read when first asked, and then kept.
    """

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
        """Return an output's value; null if it is missing. Raises TemplateOutputError."""


class Inherited(Struct, frozen=True):
    """Settings that a nested stack inherits from its parent."""

    environment: JsonMap = {}
    """Without parameters."""
    files: Mapping[str, str] = {}


class Facts(Struct):
    """Data of one resource row, and the clock."""

    name: str
    """The resource's name in the template."""
    stack_id: str
    stack_name: str
    project: str
    physical_name: str
    """Name of the real object.
    It is fixed before anything is made, so the object can be found again."""
    physical_id: str | None
    """Set by a handler once the object exists; stored with the next commit."""
    properties: JsonMap
    """Coerced, without defaults: what the object is to be.
    During an update these are the new ones."""
    metadata: JsonMap
    now: Callable[[], float]
    """Seconds since the epoch, UTC."""
    services: Services
    suspended: Callable[[], float] = lambda: 0.0
    """Seconds for which the running operation was suspended in all.
    A timeout of a type must not count them."""
    data: JsonMap = {}
    """Data of handlers, stored after each handler and each check."""
    nested: Callable[[], Nested | None] = lambda: None
    """The nested stack, for a type that makes one; None while there is none."""
    update_policy: JsonMap = {}
    """The update_policy section, resolved; only where the type makes a nested stack."""
    before: JsonMap | None = None
    """During an update the properties from before it."""
    sibling: "Callable[[str], Resource[Schema] | None]" = lambda _: None
    """Return the resource of the stack with this name or physical id, or None."""
    relative: "Callable[[str], Resource[Schema] | None]" = lambda _: None
    """Return the resource of the whole tree with this physical id, or None."""
    holders: "Callable[[str], Iterable[Resource[Schema]]]" = lambda _: ()
    """Return the resources of the whole project with this physical id."""
    former: "Callable[[], Resource[Schema] | None]" = lambda: None
    """Return the predecessor that this resource replaces: the last that has an object.
    None: there is none, or it is about to be deleted."""
    latter: "Callable[[], Resource[Schema] | None]" = lambda: None
    """Return the successor that replaces this resource.
    None: there is none, or it is about to be deleted."""
    users: "Callable[[], Sequence[Resource[Schema]]]" = tuple
    """Resources of the stack that use the object, while it goes before its successor."""
    time_limit: float = inf
    """Seconds that an operation on the stack may take in all."""
    inherited: Callable[[], Inherited] = Inherited
    """During a create and an update."""
    home: Callable[[], CloudIdentity | None] = lambda: None
    """The cloud in which the stack has its objects; None: none is recorded."""
    created_at: float = 0.0
    """Time of the decision to make the object, in seconds since the epoch."""
    leaves: bool = False
    """True if the deletion of the object has begun: no successor takes it over."""
    keeps_members: bool = False
    """True if the operation changes no number of members: a nested stack that exists keeps the members it has."""
    recorded: frozenset[str] = frozenset()
    """During a restore, the names of the members of the nested stack in the snapshot."""
    row_id: str = ""
    """The id of the row.
    No other resource has it, and no stack document tells it."""


class Change(Struct, frozen=True):
    """Change that an update brings. Values are coerced, without defaults."""

    changed: frozenset[str]
    """Names of the properties that differ, defaults applied on both sides."""
    before: Mapping[str, object]
    after: Mapping[str, object]
    """May hold UNKNOWN in a preview."""
    metadata_changed: bool = False
    followed: frozenset[str] = frozenset()
    """Keys of `changed` that the template writes as before.
    A resource that they refer to is replaced."""
