"""Facts on what waits for machines, and for decisions on their work."""

from collections.abc import Iterator, Mapping, Sequence

from heatlite.core.clock import to_text
from heatlite.core.json import Json
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.core.wire.why import Fact, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told
from heatlite.engine.why.ways import WayCall, Ways, resource_path
from heatlite.features.nodes.agents.push import UNHEALTHY
from heatlite.features.nodes.agents.registration import RefusedAgent
from heatlite.features.nodes.runs import title
from heatlite.features.nodes.states import NodeActionState, NodeState
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord

LISTS_NODES, LISTS_WORK = "nodes:index", "node_actions:list"


def facts(
    tree: ExplainedTree,
    nodes: Sequence[NodeRecord],
    work: Sequence[NodeActionRecord],
    errors: Mapping[str, Json],
    refused: Sequence[RefusedAgent],
) -> list[Told]:
    """Return the facts on a tree.

    `work` are its open node actions, `errors` those of the last orchestration by node, `refused` the agents that the
    server has refused lately.
    """
    found = [*_runs(tree), *_decisions(tree, work)]
    asked = [one for one in work if one.turn and one.state is not NodeActionState.PENDING_APPROVE]
    for node in nodes:
        error = errors.get(node.name) or errors.get(f"{node.name} ({node.id})")
        found += _node(tree, node, [one for one in asked if one.node_id == node.id], str(error or ""))
    return [*found, *(_refused(tree, one) for one in refused)]


def _runs(tree: ExplainedTree) -> Iterator[Told]:
    """Yield the runs that wait for an approval."""
    for run in tree.actions:
        if run.verb is not Verb.RUN or run.status is not ActionStatus.INIT:
            continue
        ways, one = Ways(tree), f"/v1/{run.project}/node_playbook_runs/{run.id}"
        approve = WayCall("POST", f"{one}/approve", {"digest": run.inputs.digest})
        ways.operation(Operation.RUN, tree.root, "begins it", f"heatlite node playbook approve {run.id}", approve)
        ways.send("rejects it", f"heatlite node playbook reject {run.id}", WayCall("POST", f"{one}/reject", {}))
        text = f"{title(run)} waits for an approval: {run.word} {run.id}, asked for by {run.requested_by}"
        fact = _fact("approval", "approval", run.id, run.requested_by, run.created_at, text, [run.id], ways)
        yield Told(fact, run.stack_id, LISTS_WORK)


def _decisions(tree: ExplainedTree, work: Sequence[NodeActionRecord]) -> Iterator[Told]:
    """Yield the node actions that wait for an approval."""
    for one in work:
        if one.state is not NodeActionState.PENDING_APPROVE or one.run_id is not None:
            continue
        ways, path = Ways(tree), f"/v1/{one.project}/node_actions/{one.id}"
        approve, reject = (WayCall("POST", f"{path}/{word}", {"digest": one.digest}) for word in ("approve", "reject"))
        ways.send("lets the agent do it", f"heatlite node approve {one.id}", approve)
        ways.send("rejects it", f"heatlite node reject {one.id}", reject)
        text = f"{one.kind} on {_path(tree, one.stack_id, one.node)} waits for an approval, asked for by"
        text += f" {one.requested_by}"
        blocks = _waiting_for(tree, [one])
        fact = _fact("approval", "approval", one.id, one.requested_by, one.created_at, text, blocks, ways)
        yield Told(fact, one.stack_id, LISTS_WORK)


def _node(tree: ExplainedTree, node: NodeRecord, work: Sequence[NodeActionRecord], error: str) -> Iterator[Told]:
    """Yield why a node does not do its work."""
    if not work or node.stack_id not in tree.by_id:
        return
    path = _path(tree, node.stack_id, node.name)
    runs = {one.run_id for one in work}
    holders = [one for one in tree.actions if one.id in runs]
    blocks = [*(one.id for one in holders), *_waiting_for(tree, work)]
    ways = Ways(tree)
    if any(row.id == node.id and (row.verb, row.status) == (Verb.CHECK, Status.FAILED) for row in tree.rows):
        code, text, since = "node_unhealthy", f"{path}: {UNHEALTHY}", None
        healthy = WayCall("PATCH", stack_path(tree.root, resource_path(path)), {"mark_unhealthy": False})
        command = f"heatlite mark-healthy {tree.root.name} {words(path)}"
        ways.operation(Operation.MARK_HEALTHY, tree.root, "lets it work again", command, healthy)
    elif node.state is NodeState.UNREACHABLE:
        code, text, since = "node_unreachable", f"{path} is UNREACHABLE: {node.reason}", node.seen_at
        ways.tell(f"start the agent of {path}: it has to answer at {node.url}")
    elif error and error != UNHEALTHY:
        code, text, since = "node_unreachable", f"{path} takes no work: {error}", node.seen_at
        ways.tell(f"mend the agent of {path}; it is asked again")
    else:
        return
    for one in holders:
        ways.cancel(one)
    fact = _fact(code, "node", node.id, None, since, text, blocks, ways, path)
    yield Told(fact, node.stack_id, LISTS_NODES)


def _refused(tree: ExplainedTree, agent: RefusedAgent) -> Told:
    path = _path(tree, agent.stack_id, agent.name)
    ways = Ways(tree)
    ways.tell("mend what the sentence says; the agent asks again by itself")
    text = f"the agent of {path} was refused: {agent.reason}"
    fact = _fact("node_refused", "node", None, None, agent.time, text, [], ways, path)
    return Told(fact, agent.stack_id, LISTS_NODES)


def _fact(
    code: str,
    what: str,
    own_id: str | None,
    by: str | None,
    since: float | None,
    text: str,
    blocks: Sequence[str],
    ways: Ways,
    path: str | None = None,
) -> Fact:
    return Fact(
        code=code,
        what=what,
        path=path,
        id=own_id,
        by=by,
        since=to_text(since),
        text=text,
        blocks=[*blocks],
        way_out=ways.steps,
    )


def _waiting_for(tree: ExplainedTree, work: Sequence[NodeActionRecord]) -> list[str]:
    """Return the ids of the actions that depend on some work."""
    ids = {one.id for one in work}
    return [action_id for action_id, depended in tree.waits.items() if not ids.isdisjoint(depended)]


def _path(tree: ExplainedTree, stack_id: str, name: str) -> str:
    return tree.path(stack_id, name) or name
