"""Requests and previews: plain data between API and engine."""

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
    """True if the stack itself was protected."""
    cloud: CloudIdentity | None = None
    """Cloud of its objects; None if the document does not say."""


@dataclass(frozen=True, slots=True)
class Request:
    """The body of a create, an update, a preview or a validation.

    None means: not given.
    """

    name: str | None = None
    template: Json = None
    """An object, or text (JSON or YAML)."""
    template_url: str | None = None
    """Address to fetch the template from; used only without `template`."""
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
    """True if an update reads the real objects first and converges from them."""
    adopt_cloud: bool = False
    """True if the stack adopts the configured cloud, whatever cloud is recorded."""
    adopted: Adopted | None = None
    """Objects that an adopt takes over.

    Its template takes the place of `template`; all other fields of the request override it.
    """
    plan_digest: str | None = None
    """Of an update: what it would do has to be this `ShownPlan` still."""
    body: JsonMap | None = None
    """The request as it came, so that one which a lock refuses can be replayed."""


@dataclass(frozen=True, slots=True)
class Timing:
    """Timing of a check, suspend or resume. Times are in seconds."""

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
    """The stack that the resource would belong to."""
    record: ResourceRecord
    required_by: tuple[str, ...]
    attributes: Mapping[str, Json]
    nested_stack_id: str | None = None


PreviewTree: TypeAlias = "PreviewResource | tuple[PreviewTree, ...]"
"""A resource, or in its place those of its nested stack."""


@dataclass(frozen=True, slots=True)
class Difference:
    """A property that would have another value.

    Both values as they may be shown, with secrets masked.
    """

    name: str
    old: Json
    new: Json
    is_open: bool
    """True if part of the new value is unknown yet; it may turn out unchanged."""
    replaces: bool
    """True if the change causes a replacement."""
    because_of: tuple[str, ...]
    """Names of the resources whose change brings it."""


@dataclass(frozen=True, slots=True)
class PlannedResource:
    """The planned change of one resource."""

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
    """Health of the object beside its state. It does not change the plan."""


@dataclass(frozen=True, slots=True)
class ShownPlan:
    """The planned changes of an operation, in order."""

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
    """The changes of an update, resource by resource (Heat's five lists)."""

    unchanged: tuple[PreviewResource, ...]
    updated: tuple[PreviewResource, ...]
    replaced: tuple[PreviewResource, ...]
    added: tuple[PreviewResource, ...]
    deleted: tuple[PreviewResource, ...]
    plan: ShownPlan | None = None
    """The plan, if the caller asked for it."""
