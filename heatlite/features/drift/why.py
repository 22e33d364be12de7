"""Facts on resources that differ from their stored properties."""

from collections.abc import Container, Sequence
from typing import TYPE_CHECKING

from heatlite.core.clock import to_text
from heatlite.core.json import as_map
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import PREVIEW, WayCall, Ways, resource_path
from heatlite.features.drift.putting_back import is_in_place
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore, Listed

if TYPE_CHECKING:
    from heatlite.api.components import Components

MOST_TOLD = 1000


def facts(components: "Components", tree: ExplainedTree) -> list[Told]:
    """Read what is drifted in a tree, and return a fact for each."""
    store, root = components.store.of(DriftStore), tree.root
    query = DriftQuery((DriftState.DRIFTED,), roots=(root.id,), complete=True, limit=MOST_TOLD)
    drifted = [one for one in store.page(root.project, query) if one.stack_id in tree.by_id]
    return [] if not drifted else told(tree, drifted, _in_place(components, tree, drifted))


def _in_place(components: "Components", tree: ExplainedTree, drifted: Sequence[Listed]) -> frozenset[str]:
    """Return the ids of the resources whose drift can be put back in place."""
    keys = {one.resource_id: one.drift for one in drifted}
    objects = [one.physical_id for one in drifted if one.physical_id is not None]
    rows = components.store.resources.with_objects(tree.root.project, objects)
    made = {one: components.reader.resources_of(tree.by_id[one]) for one in {one.stack_id for one in drifted}}
    found = set[str]()
    for row in rows:
        drift, resources = keys.get(row.id), made.get(row.stack_id)
        if drift is None or resources is None:
            continue
        definition = components.definitions.of(resources.stack)
        if is_in_place(resources, definition, row, drift):
            found.add(row.id)
    return frozenset(found)


def told(tree: ExplainedTree, drifted: Sequence[Listed], in_place: Container[str]) -> list[Told]:
    """Return a fact for each drifted resource.

    `in_place` has the ids of those that can be put back in place.
    """
    return [_told(tree, one, one.resource_id in in_place) for one in drifted]


def _told(tree: ExplainedTree, one: Listed, in_place: bool) -> Told:
    root, path, drift = tree.root, tree.path(one.stack_id, one.name) or one.name, one.drift
    assert drift is not None
    ways = Ways(tree)
    shows = WayCall("GET", stack_path(root, "/drift"))
    after = ways.send("shows what differs", f"heatlite drift show {root.name}", shows)
    check = WayCall("POST", stack_path(root, f"{resource_path(path)}/actions"), {Operation.CHECK.value: {}})
    command = f"heatlite member check {words(root.name, path)}"
    text = "looks whether it still differs"
    seen = ways.operation(Operation.CHECK, tree.by_id[one.stack_id], text, command, check, after)
    after = after if seen is None else seen
    command, asked = f"heatlite drift revert {root.name} {words(path)}", as_map({"revert_drift": {"resources": [path]}})
    if in_place:
        revert = WayCall("POST", stack_path(root, "/actions"), asked)
        ways.operation(Operation.REVERT, root, "puts it back", command, revert, after)
    look = WayCall("PATCH", stack_path(root, PREVIEW), {"accept_drift": {"resources": [path]}})
    command = f"heatlite drift accept {words(root.name, path)}"
    ways.after_look(Operation.ACCEPT, root, "makes the definition say it", command, None, look, after, False)
    if not in_place:
        text = "replaces what cannot be changed in place, once its restricted_actions allow that"
        ways.tell(text, f"heatlite up FILE -n {root.name} --converge")
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
