"""Refusals of operations that change the owner of objects."""

from heatlite.core.errors import Conflict, Invalid


class NotOnlyImport(Invalid):
    """A definition changes more than it imports."""

    text = "The definition changes more than what is imported: {places}. Nothing was done. Update the stack first."


class NotOnlyMove(Invalid):
    """Definitions change more than they move."""

    text = "The definitions change more than what is moved: {places}. Nothing was done. Update the stack first."


class StillReferenced(Conflict):
    """Others read what is to be detached."""

    text = (
        "Stack {stack_name} still reads what is to be detached: {places}. Nothing was done. Detach those, too, keep the"
        " reference (--as-external, as_external: true in the body), or change the template first."
    )


class DefinitionOutdated(Conflict):
    """A template lacks resources that the server has added to the definition."""

    text = (
        "The template is older than the stack: it lacks {names}, which came by an import or a move. Nothing was done."
        " Add that to the template (--write does; GET …/template has it), or give it up alive (heatlite detach)."
    )


class MoveReplaces(Conflict):
    """After a move an update would replace what has the old name in a property."""

    text = (
        "After this move an update would replace, make or delete {places}: properties have the old name. Nothing was"
        " done. Change those properties first."
    )


class SnapshotNames(Conflict):
    """A snapshot has resources under names that a move would change."""

    text = (
        "Snapshot {snapshot} of stack {stack_name} has {names}: a restore would delete what has moved. Nothing was"
        " done. Delete the snapshot first (heatlite snapshot delete {stack_name} {snapshot})."
    )


class ReferencesCross(Conflict):
    """A move would divide what reads each other between two templates."""

    text = (
        "After this move, definitions would read what another template has: {places}. Nothing was done. Change the"
        " templates first, so that they do without: with a parameter, an output or external_id."
    )
