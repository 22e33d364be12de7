"""Facts on resources that differ from their stored properties."""

from collections.abc import Sequence

from heatlite.core.clock import to_text
from heatlite.core.json import as_map
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import PREVIEW, WayCall, Ways
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore, Listed

MOST_TOLD = 1000


def facts(store: DriftStore, tree: ExplainedTree) -> list[Told]:
    """Read what is drifted in a tree, and return a fact for each."""
    root = tree.root
    query = DriftQuery((DriftState.DRIFTED,), roots=(root.id,), complete=True, limit=MOST_TOLD)
    return told(tree, store.page(root.project, query))


def told(tree: ExplainedTree, drifted: Sequence[Listed]) -> list[Told]:
    """Return a fact for each drifted resource."""
    return [_told(tree, one) for one in drifted if one.drift is not None and one.stack_id in tree.by_id]


def _told(tree: ExplainedTree, one: Listed) -> Told:
    root, path, drift = tree.root, tree.path(one.stack_id, one.name) or one.name, one.drift
    assert drift is not None
    ways = Ways(tree)
    seen = ways.send(
        "shows what differs", f"heatlite drift show {root.name}", WayCall("GET", stack_path(root, "/drift"))
    )
    command, asked = f"heatlite drift revert {root.name} {words(path)}", as_map({"revert_drift": {"resources": [path]}})
    revert = WayCall("POST", stack_path(root, "/actions"), asked)
    ways.operation(Operation.REVERT, root, "puts it back, if it still differs", command, revert, seen)
    look = WayCall("PATCH", stack_path(root, PREVIEW), {"accept_drift": {"resources": [path]}})
    command = f"heatlite drift accept {words(root.name, path)}"
    ways.after_look(Operation.ACCEPT, root, "makes the definition say it", command, None, look, seen, False)
    leaves = "leaves it as it is with ignore_drift in update_policy"
    ways.tell(leaves, f"heatlite up FILE -n {root.name}")
    since = to_text(drift.since)
    places = "1 place" if drift.number == 1 else f"{drift.number} places"
    fact = Fact(
        code="drift",
        what="resource",
        path=path,
        id=one.resource_id,
        since=since,
        text=f"drifted: {path} differs in {places} since {since}",
        way_out=ways.steps,
    )
    return Told(fact, one.stack_id)
