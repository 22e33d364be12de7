"""The way out of a failed update that is its undo."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.wire.why import Fact
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import Ways
from heatlite.features.revisions.keeping import Keeping

CODES = frozenset({"failed", "no_rollback"})
"""Facts that an undo is a way out of."""


def with_undo(revisions: Keeping, tree: ExplainedTree, told: Sequence[Told]) -> list[Told]:
    """Return facts with the undo among their ways out.

    They are as before if there is no definition to go back to.
    """
    root = tree.root
    if not any(one.fact.code in CODES for one in told):
        return [*told]
    if not any(one.is_reached for one in revisions.of_stack(root)[1:]):
        return [*told]
    ways, text = Ways(tree), "goes back to the last definition that was complete"
    ways.planned(Operation.UPDATE, root, text, f"heatlite undo {root.name}", {"undo": {}})
    return [replace(one, fact=_last(one.fact, ways)) if one.fact.code in CODES else one for one in told]


def _last(fact: Fact, ways: Ways) -> Fact:
    """Return a fact with further ways out after its own."""
    known = len(fact.way_out)
    steps = [one if one.after is None else replace(one, after=one.after + known) for one in ways.steps]
    return replace(fact, way_out=[*fact.way_out, *steps])
