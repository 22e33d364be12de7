"""What a caller asks for, and what a preview answers: plain data between the API and the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from heatlite.core.clouds import CloudIdentity
from heatlite.core.json import Json, JsonMap
from heatlite.store.records import HealthRecord, ResourceRecord, StackRecord
from heatlite.template.document import Definition


@dataclass(frozen=True, slots=True)
class Adopted:
    """A stack's record that is to become a stack."""

    template: JsonMap
    environment: JsonMap
    files: Mapping[str, str]
    resources: JsonMap
    protected: bool = False
    """Whether the stack itself was protected."""
    cloud: CloudIdentity | None = None
    """Where its objects are; None: the record does not say."""


@dataclass(frozen=True, slots=True)
class Request:
    """The body of a create, an update, a preview or a validation. None means: not given."""

    name: str | None = None
    template: Json = None
    """An object, or text (JSON or YAML)."""
    template_url: str | None = None
    """Where the server shall get the template; only where there is no `template`."""
    environment: Json = None
    """An object, or text; ignored by Heat's rule where `environment_files` is not empty."""
    environment_files: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    files_container: str | None = None
    """A container of the project, whose objects are files, too; `files` go before them."""
    parameters: JsonMap = field(default_factory=dict)
    clear_parameters: tuple[str, ...] = ()
    tags: tuple[str, ...] | None = None
    timeout_mins: int | None = None
    disable_rollback: bool | None = None
    converge: bool = False
    """Whether an update looks at the real objects first and starts from what it finds."""
    adopt_cloud: bool = False
    """Whether the stack has its objects in the cloud that is set from now on, whatever it has recorded."""
    adopted: Adopted | None = None
    """Of a create that makes nothing: the objects that it takes over. Its template takes the place of `template`; what
    else there is in the request goes before it."""
    plan_digest: str | None = None
    """Of an update: what it would do has to be this `ShownPlan` still."""
    body: JsonMap | None = None
    """The request as it came, so that one which a lock refuses can be replayed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """When a check, a suspend or a resume is to be done. Times are in seconds."""

    not_before: float | None = None
    """Since the epoch; None: now."""
    interval: float = 0.0
    """After the end of each, the next one begins; 0: it is done once."""
    depends_on: tuple[str, ...] = ()
    """The ids of actions and node actions that have to succeed first."""
    timeout: int = 0
    """0: what the stack says, else the installation."""
    body: Json = None
    """As it came, so that a request which a lock refuses can be replayed."""


AT_ONCE = Timing()


@dataclass(frozen=True, slots=True)
class PreviewResource:
    """A resource as it would be. Values that are not known yet are None."""

    stack: StackRecord
    """Which it belongs to, as that would be."""
    record: ResourceRecord
    required_by: tuple[str, ...]
    attributes: Mapping[str, Json]
    nested_stack_id: str | None = None


PreviewTree: TypeAlias = "PreviewResource | tuple[PreviewTree, ...]"
"""A resource, or in its place those of its nested stack."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A property that would have another value; both values as they may be shown, with secrets masked."""

    name: str
    old: Json
    new: Json
    is_open: bool
    """Whether something in the new value is known only later; then it may come out as it was."""
    replaces: bool
    """Whether it is a reason for a replacement."""
    because_of: tuple[str, ...]
    """Names of the resources whose change brings it."""


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """What would become of one resource."""

    path: tuple[str, ...]
    """The names of the resources that lead to it from the top, its own last."""
    type: str
    physical_id: str | None
    action: str
    """create, keep, update, replace or delete; refuse and restrict where the update would fail."""
    cause: str
    order: str | None
    """Of a replacement: which object goes or comes first (`template.replacement`)."""
    after: tuple[str, ...]
    """Names of resources of the same stack with which something is done before."""
    differences: tuple[Difference, ...]
    metadata_differs: bool
    is_protected: bool
    health: HealthRecord | None = None
    """What is known of the health of the object beside its state. It changes nothing of the plan."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """What an operation would do, in the order in which it would."""

    resources: tuple[PlannedResource, ...]
    digest: str
    """Of all that is in it: equal for equal plans, and for no others."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A stack as a create would make it."""

    stack: StackRecord
    definition: Definition
    resources: tuple[PreviewTree, ...]
    plan: ShownPlan | None = None


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update would do, resource by resource (Heat's five lists)."""

    unchanged: tuple[PreviewResource, ...]
    updated: tuple[PreviewResource, ...]
    replaced: tuple[PreviewResource, ...]
    added: tuple[PreviewResource, ...]
    deleted: tuple[PreviewResource, ...]
    plan: ShownPlan | None = None
    """Where it was asked for."""
