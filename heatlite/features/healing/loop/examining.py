"""Examination of repairs by other features, and reading of the objects of reverts.

It may ask the cloud, so it comes before the transaction. What a repair does is known only within that. So the first
attempt ends there, its selection is examined, and a second one begins the repair.
"""

from collections.abc import Callable, Iterable
from typing import TypeVar

from msgspec import Struct

from heatlite.core.actions.repairs import Selection
from heatlite.core.context import Context
from heatlite.core.errors import ActionConflict
from heatlite.engine.admission.claims import NO_CLAIMS, Claims
from heatlite.engine.operations.repairs import ObservedRepairs, Repairs
from heatlite.store.records import StackRecord

T = TypeVar("T")

ATTEMPTS = 3
"""Attempts of one repair whose selection changes in between."""


class ExaminedIncident(Struct, frozen=True):
    """Result of an examination."""

    selection: Selection | None = None
    """None: nothing was examined yet."""
    claims: Claims = NO_CLAIMS
    observed: ObservedRepairs | None = None
    """Objects that were read for a revert; None: none was."""
    paths: frozenset[str] = frozenset()
    """Paths of these objects."""


class NotExamined(Exception):
    """A repair is to be examined, outside of the transaction that raises this."""

    def __init__(self, context: Context, root: StackRecord, selection: Selection) -> None:
        super().__init__(selection)
        self.context = context
        self.root = root
        self.selection = selection


class NotObserved(Exception):
    """Objects are to be read, outside of the transaction that raises this."""

    def __init__(self, root: StackRecord, paths: Iterable[str]) -> None:
        self.root = root
        self.paths = frozenset(paths)
        super().__init__(self.paths)


def claims_of(
    repairs: Repairs, context: Context, root: StackRecord, selection: Selection, known: ExaminedIncident
) -> Claims:
    """Return the claims of a repair that is about to begin. Raises NotExamined."""
    if known.selection is not None and known.selection.steps == selection.steps:  # its incidents may have new ids
        return known.claims
    if not repairs.is_examined(root):
        return NO_CLAIMS
    raise NotExamined(context, root, selection)


def examined(repairs: Repairs, attempt: Callable[[ExaminedIncident], T], insists: bool = False) -> T:
    """Call `attempt`, and again with the claims that it lacks.

    It opens a transaction of its own.

    Raises what refuses the repair, unless the caller `insists`.
    """
    known = ExaminedIncident()
    for _ in range(ATTEMPTS):
        try:
            return attempt(known)
        except NotExamined as asked:
            claims = repairs.examine(asked.context, asked.root, asked.selection, insists)
            known = ExaminedIncident(asked.selection, claims)
        except NotObserved as asked:
            known = ExaminedIncident(observed=repairs.observed(asked.root, sorted(asked.paths)), paths=asked.paths)
    raise ActionConflict("What is to be repaired changes all the time. Try again later.")
