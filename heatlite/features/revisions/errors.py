"""Refusals of undos."""

from heatlite.core.errors import Conflict, NotFound


class RevisionNotFound(NotFound):
    """A stack has no such revision."""

    text = "Stack {stack_name} has no revision {number}. {there_are}"


class NothingToUndo(Conflict):
    """A stack has no definition to go back to."""

    text = (
        "Stack {stack_name} has nothing to go back to: no definition before the present one has reached COMPLETE."
        " Name a revision (heatlite history {stack_name} lists them), or update the stack."
    )
