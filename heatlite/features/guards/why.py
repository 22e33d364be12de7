"""The way out of a bake that is its end by hand."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.core.wire.why import words
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import WayCall, Ways, with_first


def with_end(tree: ExplainedTree, told: Sequence[Told]) -> list[Told]:
    """Return facts with the end of a bake as its first way out."""
    return [_with_end(tree, one) if one.fact.code == "baking" else one for one in told]


def _with_end(tree: ExplainedTree, told: Told) -> Told:
    stack, ways = tree.by_id[told.stack_id], Ways(tree)
    call = WayCall("POST", stack_path(stack, "/actions"), {"end_bake": None})
    ways.send("ends the bake: the old objects are deleted", f"heatlite end-bake {words(stack.name)}", call)
    return replace(told, fact=with_first(told.fact, ways.steps))
