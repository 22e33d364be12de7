"""Facts that decisions are made from: values, and functions that give costly ones.

`collect` gathers them; `decide` and `planner` judge them.
"""

from collections.abc import Callable, Iterable, Mapping
from enum import Enum, auto

from msgspec import Struct

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.json import JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.plan import ResourceDecision
from heatlite.engine.state.protected import Protected
from heatlite.engine.types.observation import Observed
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition
from heatlite.template.replacement import Replacement


class Wanted(Struct, frozen=True):
    """A resource definition with its values evaluated.

    UNKNOWN stands for values that are not known yet.
    """

    kind: ResourceType
    properties: JsonMap
    metadata: JsonMap
    update_policy: JsonMap
    replacement: Replacement
    """The order and the naming of a possible replacement."""
    definition: Definition
    """The stack definition that the resource belongs to."""
    external_id: str | None = None
    size: int = 0
    """Approximate characters of JSON in properties, metadata and policy."""
    restored: JsonMap | None = None
    """Properties that a restore has put in place of given ones, for the row's `data`."""


class Involvement(Enum):
    """The part of a resource in a restricted update."""

    WHOLE = auto()
    """The update is not restricted, or no repair."""
    SELECTED = auto()
    REVERTED = auto()
    """It is changed in place, as far as its observed object differs."""
    LEADS = auto()
    """Something in its nested stack is selected."""
    FOLLOWS = auto()
    """It uses a resource with which the update has something to do."""
    OUTSIDE = auto()
    """It stays as it is, whatever its state."""


class NestedFacts(Struct, frozen=True):
    """Facts of a row's nested stack."""

    locked: bool
    """Under maintenance, by its own lock or an ancestor's."""
    state: tuple[Verb, Status]
    """Its state, or the one that a lock hides."""
    stays: Callable[[], bool]
    """Return True if its definition stays the same. Asks the type for the template that it wants now."""


class Questions:
    """Expensive questions about one row to its type, the store or the cloud.

    A rule asks one only where it needs the answer. Here are the answers for a plain object. Raises the type's error.
    """

    __slots__ = ()

    def is_outdated(self) -> bool:
        """Return True if the row is older than the running update."""
        return False

    def nested(self) -> NestedFacts | None:
        """Return the facts of the nested stack; None: there is none."""
        return None

    def needs_replace(self, change: Change) -> bool:  # noqa: ARG002
        """`Resource.needs_replace`."""
        return False

    def needs_replace_failed(self) -> bool:
        """`Resource.needs_replace_failed`."""
        return True

    def outlasts_refusal(self) -> bool:
        """`Resource.outlasts_refusal`."""
        return False

    def keeps_joined(self) -> bool:
        """Return True if a resource joins the row's object and would stay with it.

        See `Resource.keeps_joined`.
        """
        return False

    def objection(self, change: Change) -> str:  # noqa: ARG002
        """`Resource.objection`."""
        return ""

    def excludes(self) -> bool:
        """`Resource.excludes`, asked about the wanted properties."""
        return False

    def protection(self) -> Protected | None:
        """Return the protection of the row's object, or of a part of its nested stack."""
        return None


class RowFacts(Struct, frozen=True):
    """Facts of one row of a resource."""

    row: ResourceRecord
    wanted: Wanted
    kind: ResourceType
    """The type of the row, which may differ from the wanted one."""
    chosen: Mapping[str, ResourceRecord]
    """By name, the rows of the resources that come earlier and keep their object."""
    observed: Observed
    """The properties that an update starts from: stored or observed; None: the object is gone; or the error."""
    is_done: bool = False
    """The running action has finished the row in an earlier attempt, or a retry finds it finished."""
    ask: Questions = Questions()
    involvement: Involvement = Involvement.WHOLE
    step: RepairStep | None = None
    """Of a selected resource."""
    asked: str = ""
    """Of a selected resource: the cause of the step."""


class Choice(Struct, frozen=True):
    """The decision about one resource.

    `wanted` is None where its values cannot be evaluated yet.
    """

    decision: ResourceDecision
    wanted: Wanted | None = None


class HolderFacts(Struct, frozen=True):
    """A nested resource that may keep another object from being deleted."""

    name: str
    holds: frozenset[str]
    """Types whose objects it blocks without a way to detach them."""
    properties: JsonMap


class ObjectRelations(Struct, frozen=True):
    """Answers about objects: of types about two, for their order, and of policies."""

    blocks: Callable[[ResourceRecord], frozenset[str]]
    """Return `Resource.blocks` of the row's type."""
    joins: Callable[[ResourceRecord], frozenset[str]]
    """Return `Resource.joins` of the row's type."""
    takes: Callable[[ResourceRecord, ResourceRecord], bool] = lambda _row, _used: False
    """Return True if the second object is deleted together with the first (`Resource.takes`)."""
    members: Callable[[ResourceRecord], Iterable[HolderFacts]] = lambda _: ()
    """Return the resources of the row's nested stack, at any depth, without locked stacks."""
    lasts: Callable[[str], bool] = lambda _mapped_type: False
    """Return True if another object of the type may have the same reference (`Resource.lasting_reference`)."""
    pool_change: Callable[[ResourceRecord], str] | None = None
    """Return why the row's object enters or leaves a pool; "": it does not. None: no group has the stack."""
