"""Facts on quotas of the cloud that did not suffice."""

from collections.abc import Sequence

from heatlite.core.wire.why import Fact
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import Ways

FAILED = frozenset({"failed", "retrying"})
WORDS = ("quota", "limit exceeded", "maximum number")
"""Texts of services for an exhausted quota."""


def facts(tree: ExplainedTree, told: Sequence[Told]) -> list[Told]:
    """Return all facts, with one more for each whose error was a quota."""
    over = [one for one in told if one.fact.code in FAILED and any(word in one.fact.text.lower() for word in WORDS)]
    return [*told, *(_quota(tree, one) for one in over)]


def _quota(tree: ExplainedTree, told: Told) -> Told:
    failed, ways = told.fact, Ways(tree)
    ways.tell(f"GET /v1/{tree.root.project}/quota shows limits, usage and reservations: make room, or ask for more")
    text = f"a quota of the project in the cloud does not suffice. {failed.text}"
    fact = Fact(
        code="quota", what=failed.what, path=failed.path, id=failed.id, since=failed.since, text=text,
        way_out=ways.steps,
    )  # fmt: skip
    return Told(fact, told.stack_id)
