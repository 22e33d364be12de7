"""Requests and previews: plain data between API and engine."""

from collections.abc import Callable, Mapping
from typing import Annotated, TypeAlias

from msgspec import UNSET, Meta, Struct, UnsetType, to_builtins

from heatlite.core.actions.repairs import RepairPart
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import Context
from heatlite.core.json import AnyMap, Json, JsonMap
from heatlite.store.records import HealthRecord, ResourceRecord, Restriction, StackRecord
from heatlite.template.document import Definition

MAX_SPAN = 10 * 365 * 86_400
Span: TypeAlias = Annotated[int, Meta(ge=0, le=MAX_SPAN)]
"""Seconds of a request."""


class Adopted(Struct, frozen=True):
    """A stack document to adopt."""

    template: JsonMap
    environment: JsonMap
    files: Mapping[str, str]
    resources: JsonMap
    protected: bool = False
    """True if the stack itself was protected."""
    cloud: CloudIdentity | None = None
    """Cloud of its objects; None if the document does not say."""


class Reach(Struct, frozen=True):
    """The part of its plan that an update does, by paths. Without paths: all."""

    target: tuple[str, ...] = ()
    """Only these, with what they require."""
    exclude: tuple[str, ...] = ()
    """All but these, and but what would need a new value of them."""
    replace: tuple[str, ...] = ()
    """These get new objects."""

    def __bool__(self) -> bool:
        return bool(self.target or self.exclude or self.replace)


EVERYTHING = Reach()


class StackRequest(Struct, frozen=True):
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
    files: Mapping[str, str] = {}
    files_container: str | None = None
    """A container of the project with further files; `files` override them."""
    parameters: JsonMap = {}
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
    """In an update: the digest that its plan (`ShownPlan`) must still have."""
    reach: Reach = EVERYTHING
    """In an update: what of its plan is done."""
    further: JsonMap = {}
    """Keys of the body that features have stated (`Feature.body`)."""
    body: JsonMap | None = None
    """The request body as received, to replay a request that a lock refuses."""
    action: JsonMap | None = None
    """In an update that an action on the stack asks for: its key with its options, as the inputs show them."""


class Timing(Struct, frozen=True):
    """Timing of a check, suspend or resume. Times are in seconds."""

    not_before: float | None = None
    """Since the epoch; None: now."""
    interval: float = 0.0
    """Pause between two runs; 0: one run."""
    depends_on: tuple[str, ...] = ()
    """Ids of actions, and of work of features, that must succeed first."""
    timeout: int = 0
    """0: the stack's timeout, else that of the settings."""
    believes_absence: bool = False
    """Of a check: mark objects that are not found, however many."""
    body: Json = None
    """The body as received, to replay a request that a lock refuses."""


AT_ONCE = Timing()


class Later(Struct, frozen=True, omit_defaults=True):
    """A request for a later time, as its action keeps it."""

    key: str
    """Key of the body of the request, or a word for one of another route."""
    resource: str = ""
    """Name of the group; "" for the whole stack."""
    options: AnyMap = {}
    """Value of the key, without the time."""
    hidden: list[object] = []
    """Values that are hidden now. No error may show them later, when the template may say otherwise."""
    query: Mapping[str, str] = {}
    """Query keys that features have stated (`Context.options`)."""


class PreviewResource(Struct, frozen=True):
    """A resource as an operation would create it. Unknown values are None."""

    stack: StackRecord
    """The stack that the resource would belong to."""
    record: ResourceRecord
    required_by: tuple[str, ...]
    attributes: Mapping[str, Json]
    nested_stack_id: str | None = None


PreviewTree: TypeAlias = "PreviewResource | tuple[PreviewTree, ...]"
"""A resource, or in its place those of its nested stack."""


class PropertyChange(Struct, frozen=True):
    """A property that would change, with both values and secrets masked."""

    name: str
    old: Json
    new: Json
    is_open: bool
    """True if a part of the new value is unknown; it may turn out unchanged."""
    replaces: bool
    """True if the change causes a replacement."""
    because_of: tuple[str, ...]
    """Names of the resources whose change causes it."""


class PlannedResource(Struct, frozen=True):
    """The planned change of one resource."""

    path: tuple[str, ...]
    """Resource names from the top of the tree, its own last."""
    type: str
    physical_id: str | None
    action: str
    """create, keep, update, replace or delete; refuse and restrict where the update would fail."""
    cause: str
    order: str | None
    """In a replacement: the order of the two objects (`template.replacement`)."""
    after: tuple[str, ...]
    """Names of resources of the same stack whose steps come before."""
    differences: tuple[PropertyChange, ...]
    metadata_differs: bool
    is_protected: bool
    health: HealthRecord | None = None
    """Health of the object beside its state. It does not change the plan."""
    selection: RepairPart | UnsetType = UNSET
    """In a restricted update."""
    moved_from: str | UnsetType = UNSET
    """In a move: the old path, with the stack if that is another one."""


class ChangedResource(Struct, frozen=True):
    """A resource that a plan changes, with all of its properties and secrets masked."""

    path: tuple[str, ...]
    """Resource names from the top of the tree, its own last."""
    action: str
    """As in a plan."""
    row: ResourceRecord
    type: str
    """As the template names it."""
    mapped_type: str
    """Its type after the mapping of environments."""
    changed: tuple[str, ...]
    """Names of properties that get another value, or a first one."""
    properties: JsonMap
    """As they will be, without what only the operation brings."""
    old: JsonMap
    """As they are stored."""
    unknown: tuple[str, ...]
    """Names of properties that only the operation brings."""


class ShownPlan(Struct, frozen=True):
    """The planned changes of an operation, in order."""

    resources: tuple[PlannedResource, ...]
    digest: str
    """Digest of the content: equal for equal plans only."""
    details: JsonMap = {}
    """Further keys, such as the edits of a definition.

    The digest covers those that `detailed_plan` was given, and none that were added later."""
    later: tuple[PlannedResource, ...] = ()
    """Changes of the result by the next update."""
    restricted: Restriction | None = None
    """The part that earlier updates have left out. The digest does not cover it."""


class StackAction(Struct, frozen=True):
    """An action of a feature on a stack, by the key of a body."""

    start: Callable[[Context, StackRecord, Json], JsonMap | None]
    """Returns the answer, if there is one."""
    plan: Callable[[Context, StackRecord, Json], ShownPlan]
    """Shows its effect, and changes nothing."""


class Preview(Struct, frozen=True):
    """A stack as a create would make it."""

    stack: StackRecord
    definition: Definition
    resources: tuple[PreviewTree, ...]
    plan: ShownPlan | None = None


class ResourceChanges(Struct, frozen=True):
    """The changes of an update by resource (Heat's five lists)."""

    unchanged: tuple[PreviewResource, ...]
    updated: tuple[PreviewResource, ...]
    replaced: tuple[PreviewResource, ...]
    added: tuple[PreviewResource, ...]
    deleted: tuple[PreviewResource, ...]
    plan: ShownPlan | None = None
    """The plan, if the caller asked for it."""


BODY = (
    "template", "environment", "environment_files", "files", "parameters", "clear_parameters", "tags", "timeout_mins",
    "disable_rollback", "converge", "adopt_cloud", "plan_digest", "further",
)  # fmt: skip
"""Fields of a `StackRequest` that are keys of the body of an update, or hold such keys."""


def body_of_update(request: StackRequest) -> JsonMap:
    """Return the body of an update at once.

    A lock may refuse it then, and a user replay it.
    """
    given, default = to_builtins(request), to_builtins(StackRequest())
    return {name: given[name] for name in BODY if given[name] != default[name]}
