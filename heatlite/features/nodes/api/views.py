"""Wire shapes of nodes, node actions and playbooks.

Pure functions. `base` is the URL at which clients reach the server.
"""

from collections.abc import Iterable, Mapping
from urllib.parse import quote

from heatlite.api.wire.views import action_url, link, project_url
from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap, as_map
from heatlite.features.nodes.agents.registration import RefusedAgent
from heatlite.features.nodes.playbooks import RunPlan
from heatlite.features.nodes.redaction import NodeVeil
from heatlite.features.nodes.states import NodeActionState, NodeState
from heatlite.features.nodes.store.records import (
    NodeActionRecord,
    NodePlaybookRecord,
    NodeRecord,
    NodeTransitionRecord,
    OrchestrationRecord,
)


def node_action_summary(base: str, record: NodeActionRecord, veil: NodeVeil) -> JsonMap:
    """Return a node action for a list."""
    project = project_url(base, record.project)
    links = [
        link("self", f"{project}/node_actions/{record.id}"),
        link("stack", f"{project}/stacks/{record.stack_id}"),
    ]
    if record.run_id is not None:
        links.append(link("run", action_url(base, record.project, record.run_id)))
    return {
        "id": record.id,
        "kind": record.kind,
        "node": record.node,
        "node_id": record.node_id,
        "stack": record.stack_id,
        "state": record.state,
        "error": veil.text(record.error),
        "requester": record.requester,
        "requested_by": record.requested_by,
        "approved_by": record.approved_by,
        "run": record.run_id,
        "stage": record.stage,
        "deployment": record.deployment_id,
        "cancel_asked": record.cancel_asked,
        "attempts": record.attempts,
        "created_at": to_text(record.created_at),
        "updated_at": to_text(record.updated_at),
        "approved_at": to_text(record.approved_at),
        "sent_at": to_text(record.sent_at),
        "scheduled_at": to_text(record.scheduled_at),
        "started_at": to_text(record.started_at),
        "finished_at": to_text(record.finished_at),
        "links": links,
    }


def node_action(
    base: str,
    record: NodeActionRecord,
    veil: NodeVeil,
    history: Iterable[NodeTransitionRecord],
    depended_by: Iterable[str],
) -> JsonMap:
    """Return a node action with all fields.

    Its history is oldest first; lines of the agent have the agent's time.
    """
    return {
        **node_action_summary(base, record, veil),
        "args": veil.json(record.args),
        "digest": record.digest,
        "progress": veil.json(record.progress),
        "outputs": veil.json(record.outputs),
        "depended_by": list(depended_by),
        "history": [
            {
                "time": to_text(line.time),
                "state": line.state,
                "origin": line.origin,
                "user": line.user,
                "reason": veil.text(line.reason),
            }
            for line in history
        ],
    }


def node(record: NodeRecord, counts: Mapping[NodeActionState, int], last: OrchestrationRecord | None) -> JsonMap:
    """Return a node with its agent's state and the number of unfinished actions.

    `last` is the last orchestration of its tree. It tells why a node that is up gets no work.
    """
    seen_at, reason = record.seen_at, record.reason
    if last is not None and last.ended_at is not None and record.state is NodeState.UP:
        seen_at = max(seen_at or 0.0, last.ended_at)  # an orchestration without news writes nothing
        faults = as_map(last.report.get("errors"))
        reason = str(faults.get(record.name) or faults.get(f"{record.name} ({record.id})") or "")
    return {
        "id": record.id,
        "name": record.name,
        "stack_id": record.stack_id,
        "url": record.url,
        "agent": record.agent,
        "state": record.state,
        "reason": reason,
        "kinds": list(record.kinds),
        "deployments": record.deployments,
        "registered_at": to_text(record.registered_at),
        "seen_at": to_text(seen_at),
        "unfinished": {str(state): count for state, count in sorted(counts.items())},
    }


def refused(agent: RefusedAgent) -> JsonMap:
    """Return the refusal of an agent."""
    return {
        "name": agent.name,
        "stack_id": agent.stack_id,
        "address": agent.address,
        "reason": agent.reason,
        "time": to_text(agent.time),
    }


def orchestration(record: OrchestrationRecord | None) -> JsonMap | None:
    """Return the times of a tree's orchestration; null without nodes."""
    if record is None:
        return None
    return {
        "due_at": to_text(record.due_at),
        "started_at": to_text(record.started_at),
        "ended_at": to_text(record.ended_at),
        "report": record.report,
    }


def playbook_summary(base: str, record: NodePlaybookRecord) -> JsonMap:
    """Return a playbook for a list."""
    url = f"{project_url(base, record.project)}/node_playbooks/{quote(record.name, safe='')}"
    return {
        "name": record.name,
        "created_by": record.created_by,
        "created_at": to_text(record.created_at),
        "updated_at": to_text(record.updated_at),
        "links": [link("self", url)],
    }


def playbook(base: str, record: NodePlaybookRecord) -> JsonMap:
    """Return a playbook with its text."""
    return {**playbook_summary(base, record), "document": record.document}


def playbook_plan(plan: RunPlan) -> JsonMap:
    """Return the plan of a run, without arguments for agents: they may be secret."""
    return {
        "stages": [
            {
                "name": one.stage.name,
                "kind": one.stage.kind,
                "at_once": one.stage.at_once or "all",
                "nodes": [{"id": node.id, "name": node.name, "state": node.state} for node in one.nodes],
            }
            for one in plan.stages
        ],
        "digest": plan.digest,
    }
