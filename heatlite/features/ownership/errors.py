"""Refusals of operations that change the owner of objects."""

from collections.abc import Sequence

from heatlite.core.errors import Conflict, Invalid, ObjectOwned, abbreviated
from heatlite.core.wire.why import WayOut, words

MOST_NAMES = 20
"""Maximum number of resources that a text names."""


def given_up(error: Conflict) -> list[WayOut]:
    """Return the steps that take an object from where it is owned."""
    if not isinstance(error, ObjectOwned) or "path" not in error.fields:
        return []
    owner, to = words(str(error.fields["stack_name"]), str(error.fields["path"])), error.fields["to"]
    moves = [] if to is None else [WayOut(text="moves it here", command=f"heatlite move {owner} {words(str(to))}")]
    return [*moves, WayOut(text="gives it up alive there", command=f"heatlite detach {owner}")]


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
    ways = (WayOut(text="keeps the references", command="heatlite detach --as-external {stack_name} {detached}"),)


class DefinitionOutdated(Conflict):
    """A definition lacks resources that the server has added to that of the stack."""

    text = (
        "The {given} is older than the stack: it lacks {names}, which came by an import or a move. Nothing was done."
        " {instead}, or give up alive what it lacks (heatlite detach)."
    )

    ways = (
        WayOut(text="gives up alive what it lacks", command="heatlite detach {stack_name} {paths}"),
        WayOut(text="shows the earlier definitions", command="heatlite history {stack_name}"),
    )

    def __init__(self, paths: Sequence[str], goes_back: bool) -> None:
        """`goes_back`: the definition is that of an undo or a restore."""
        super().__init__(
            given="earlier definition" if goes_back else "template",
            names=abbreviated(paths, MOST_NAMES, " "),
            paths=tuple(paths),
            instead="Go back to a later one that has that (heatlite history shows the revisions)"
            if goes_back
            else "Add that to the template (--write does; GET …/template has it)",
        )


class MoveReplaces(Conflict):
    """After a move an update would replace what has the old name in a property."""

    text = (
        "After this move an update would replace, make or delete {places}: properties have the old name, or the new"
        " place has another type or none. Nothing was done. Change the definitions first."
    )
    ways = (WayOut(text="changes the definitions first", command="heatlite up FILE -n {stack_name}"),)


class ReferencesCross(Conflict):
    """A move would divide what reads each other between two templates."""

    text = (
        "After this move, definitions would read what another template has: {places}. Nothing was done. Change the"
        " templates first, so that they do without: with a parameter, an output or external_id."
    )
    ways = (WayOut(text="changes the templates first", command="heatlite up FILE -n {stack_name}"),)
