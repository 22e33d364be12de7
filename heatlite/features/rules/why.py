"""Facts on a stack whose last request a rule has denied."""

from collections.abc import Iterator

from heatlite.core.clock import to_text
from heatlite.core.wire.why import Fact
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import Ways
from heatlite.features.rules.errors import BECAUSE
from heatlite.store.audit import AuditOutcome


def facts(tree: ExplainedTree) -> Iterator[Told]:
    """Yield the denial of the last request on the root, if that is recent."""
    last, root = tree.last_request, tree.root
    if last is None or last.outcome is not AuditOutcome.REFUSED or BECAUSE not in last.reason:
        return
    ways = Ways(tree)
    ways.tell("shows what the rules find in the plan as it now is", f"heatlite plan FILE -n {root.name}")
    since, text = to_text(last.last_time), f"the last request was denied: {last.reason}"
    fact = Fact(code="rule_denied", what="stack", id=root.id, by=last.user, since=since, text=text, way_out=ways.steps)
    yield Told(fact, root.id)
