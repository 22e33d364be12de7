"""Parts that features take in the admission of operations.

An examiner looks at a plan before the transaction, where it may ask services. Its claim takes part in the transaction
that queues the action. Both may refuse.
"""

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager
from enum import StrEnum
from functools import cache, wraps
from typing import ParamSpec, Protocol, TypeVar

from msgspec import Struct

from heatlite.core.context import Context
from heatlite.core.errors import HeatliteError, PlanChanged
from heatlite.core.json import Json, JsonMap
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.preview.preview_views import shown_plan
from heatlite.engine.state.requests import Later, ShownPlan
from heatlite.store.records import ActionRecord, StackRecord

Arguments = ParamSpec("Arguments")
Returned = TypeVar("Returned")


class ChangeKind(StrEnum):
    """Kinds of operations."""

    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"
    SCALE = "scale"
    SIGNAL = "signal"
    """The scaling that a signal asks for."""
    REPAIR = "repair"
    REDEFINE = "redefine"
    """A change of a definition and its rows, and of no object."""
    JOIN = "join"
    """Existing objects become members of a group."""


OF_NO_OBJECT = frozenset({ChangeKind.REDEFINE, ChangeKind.JOIN})
"""Changes that touch no object. Their requests name the digest of a plan."""


class PreparedRequest(Struct, frozen=True):
    """A prepared request for an operation."""

    context: Context
    stack: StackRecord
    """The stack as it becomes."""
    types: Collection[str]
    """The mapped types of its tree; empty if the plan alone tells."""
    preview: Callable[[], StackPreview]
    """Returns the plan of the operation. It is made at the first call."""
    insists: bool = False
    """True if the caller wants it even if there is no room for it, or others use what it removes."""
    change: ChangeKind = ChangeKind.UPDATE
    content: Callable[[], Json] = lambda: None
    """Returns what the operation would store, hidden values included: equal for equal requests."""
    later: Callable[[], Later] | None = None
    """Returns the request, to be carried out later. None: it cannot be kept."""
    addressed: StackRecord | None = None
    """The stack that this request names; None: `stack`."""
    path: Callable[[], str] = lambda: ""
    """Returns the path of a group that changes, below the root."""
    continues: Callable[[], str | None] = lambda: None
    """Returns the id of the failed action that it continues."""
    observes: bool = False
    """True if the plan starts from the real objects."""
    shown: Callable[[StackPreview], ShownPlan] = shown_plan
    """Returns the plan with its digest."""
    action: ActionRecord | None = None
    """The INIT action that keeps the request until its time; None: it begins now."""


class Undecided(HeatliteError):
    """An operation needs a decision first. Its transaction is undone."""

    def __init__(self, note: Callable[[], HeatliteError]) -> None:
        """`note` writes down what is to be decided. It returns the error of the answer."""
        super().__init__("the operation needs a decision")
        self.note = note


class Postponed(HeatliteError):
    """A request is accepted, and waits as an INIT action.

    It is no error, but the answer of the request.
    """

    def __init__(self, action: ActionRecord) -> None:
        super().__init__(f"The request waits as action {action.id}.")
        self.action = action


@contextmanager
def noting() -> Iterator[None]:
    """Note what is undecided, after the transaction within.

    Raises the error of the answer.
    """
    try:
        yield
    except Undecided as undecided:
        raise undecided.note() from None


class PlanMoved(PlanChanged):
    """The plan is another one than a feature has examined. Nothing is written yet."""


def tries_again(operation: Callable[Arguments, Returned]) -> Callable[Arguments, Returned]:
    """Let an operation be examined once more if its plan has changed meanwhile.

    The second time it raises PlanChanged.
    """

    @wraps(operation)
    def tried(*args: Arguments.args, **keys: Arguments.kwargs) -> Returned:
        try:
            return operation(*args, **keys)
        except PlanMoved:
            try:
                return operation(*args, **keys)
            except PlanMoved as moved:
                raise PlanChanged(moved.message) from None

    return tried


class NewDefinition(Struct, frozen=True):
    """A definition that an operation on a root stack stores."""

    before: StackRecord | None
    """The stack as it was; None: it is new."""
    stack: StackRecord
    """The stack with the definition."""
    action: ActionRecord
    """The action of the operation. It may have ended."""
    plan_digest: str | None
    """Digest of the plan that the request has named."""


class Claim:
    """Part of a feature in the transaction that queues an action."""

    def look(self, preview: Callable[[], StackPreview]) -> Sequence[str]:
        """Look at the plan in the transaction, before it writes.

        Returns why the operation needs an approval. Raises the error that refuses it.
        """
        return ()

    def require_approval(self, because: Sequence[str], preview: Callable[[], StackPreview]) -> None:
        """Take part if the operation needs an approval, before the transaction writes.

        `because` are the reasons of all claims. Raises the error that refuses the operation.
        """

    def take(
        self, action: ActionRecord, stack: StackRecord, preview: Callable[[], StackPreview] | None = None
    ) -> None:
        """Write what the action takes. Raises the error that refuses it.

        `preview` returns the plan, if it may have changed since it was examined.
        """


class Examiner(Protocol):
    """Part of a feature before that transaction."""

    def concerns(self, types: Collection[str]) -> bool:
        """Return whether operations on a tree with these types may concern the feature."""

    def examine(self, asked: PreparedRequest) -> Claim | None:
        """Return the claim of a request; None if the feature has no part in it.

        Raises the error that refuses it.
        """

    def reasons(self, asked: PreparedRequest) -> Sequence[str]:
        """Return why an operation that is previewed needs an approval."""
        return ()

    def ask_ahead(self, asked: PreparedRequest, because: Sequence[str]) -> None:
        """Ask for the approval of a request for a later time, if it is to wait for that.

        `because` are the reasons of all features. Raises the answer of the request.
        """
        return

    def validated(self, asked: PreparedRequest) -> JsonMap:
        """Return further keys of the answer about a template that is validated.

        `asked` is a create of it, whose plan cannot be made while values are missing.
        """
        return {}

    def shown(self, asked: PreparedRequest, because: Sequence[str]) -> JsonMap:
        """Return further keys of the plan that is shown. They are no part of its digest.

        `because` are the reasons of all features for an approval.
        """


def reasons(examiners: Sequence[Examiner], asked: PreparedRequest) -> Sequence[str]:
    """Return why an operation that is previewed needs an approval."""
    return [reason for one in examiners for reason in one.reasons(asked)]


def ask_ahead(examiners: Sequence[Examiner], asked: PreparedRequest) -> None:
    """Let features ask for the approval of a request for a later time.

    Call it in no transaction. Raises the answer of a request that waits for one, and PlanChanged for one whose plan is
    no longer that of its approval.
    """
    because = reasons(examiners, asked)
    for one in examiners:
        one.ask_ahead(asked, because)


class Claims(Struct, frozen=True):
    """Claims of all features for one request."""

    claims: Sequence[Claim] = ()

    def look(self, preview: Callable[[], StackPreview]) -> None:
        """Let all of them look at the plan, see `Claim`.

        If one has a reason, it is to be approved.
        """
        plan = cache(preview)
        because = [reason for one in self.claims for reason in one.look(plan)]
        for one in self.claims if because else ():
            one.require_approval(because, plan)

    def take(
        self, action: ActionRecord, stack: StackRecord, preview: Callable[[], StackPreview] | None = None
    ) -> None:
        """Take all of them, see `Claim`."""
        for one in self.claims:
            one.take(action, stack, preview)


NO_CLAIMS = Claims()
