"""Refusals of undos."""

from heatlite.core.errors import Conflict, NotFound
from heatlite.core.wire.why import WayOut


class RevisionNotFound(NotFound):
    """A stack has no such revision."""

    text = "Stack {stack_name} has no revision {number}. {there_are}"


class NothingToUndo(Conflict):
    """A stack has no definition to go back to."""

    text = (
        "Stack {stack_name} has nothing to go back to: no definition before the present one has reached COMPLETE."
        " Name a revision (heatlite history {stack_name} lists them), or update the stack."
    )
    ways = (
        WayOut(text="lists the revisions that there are", command="heatlite history {stack_name}"),
        WayOut(text="updates the stack", command="heatlite up FILE -n {stack_name}"),
    )
