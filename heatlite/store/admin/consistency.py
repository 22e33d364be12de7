"""Consistency rules over all rows (`heatlite fsck`).

Each rule is a query for the rows that break it. The first rules check that ended actions hold nothing. The others
check that each row that is IN_PROGRESS, waits or has an owner also has an action, or a worker, that will continue it.
"""

from msgspec import Struct

from heatlite.core.status import PARKED_ACTIONS
from heatlite.features.nodes import states
from heatlite.store.actions.table import LIVE, OPEN, any_of
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Value
from heatlite.store.large_values import LARGE_VALUE_GRACE
from heatlite.store.stacks.templates import TEMPLATE_GRACE, UNREFERENCED


class Inconsistency(Struct, frozen=True):
    """A row that breaks a rule."""

    rule: str
    """The rule."""
    entity: str
    """action, node action, node, stack, template, resource, snapshot, credential, account, account_project,
    stack_size, large_value, project_value, project, dependency, incident or repair."""
    id: str
    detail: str


class _Rule(Struct, frozen=True):
    text: str
    entity: str
    sql: str
    """Query for id and a detail of each row that breaks it; ``{late}`` is a time."""


_ALIVE = f"(SELECT 1 FROM action WHERE action.stack_id = stack.id AND {LIVE})"
_ALIVE_OF = "(SELECT 1 FROM action WHERE action.stack_id = {table}.stack_id AND " + LIVE + ")"
_NODE_ACTION_PENDING = f"state IN ({', '.join(repr(str(one)) for one in sorted(states.PENDING))})"
_NODE_ACTION_OPEN = f"state NOT IN ({', '.join(repr(str(one)) for one in sorted(states.ENDED))})"

RULES = (
    _Rule(
        "an open incident has a time to look at it, and one under repair its action",
        "incident",
        "SELECT id, state FROM incident WHERE state <> 'CLOSED' AND (due IS NULL OR open_key IS NULL)"
        " OR state = 'REPAIRING' AND action_id IS NULL",
    ),
    _Rule(
        "a closed incident is looked at no more",
        "incident",
        "SELECT id, state FROM incident WHERE state = 'CLOSED' AND (due IS NOT NULL OR open_key IS NOT NULL)",
    ),
    _Rule(
        "a repair that has not ended belongs to an incident under repair",
        "repair",
        "SELECT id, incident_id FROM repair WHERE ended_at IS NULL AND NOT EXISTS (SELECT 1 FROM incident"
        " WHERE incident.id = repair.incident_id AND incident.state = 'REPAIRING')",
    ),
    _Rule(
        "an ended action holds no exclusive key",
        "action",
        f"SELECT id, exclusive_key FROM action WHERE NOT {OPEN} AND exclusive_key IS NOT NULL",
    ),
    _Rule(
        "an ended action has no secrets",
        "action",
        f"SELECT id, status FROM action WHERE NOT {OPEN} AND secrets IS NOT NULL",
    ),
    _Rule(
        "a live action holds its exclusive key",
        "action",
        f"SELECT id, status FROM action WHERE {LIVE} AND exclusive_key IS NULL",
    ),
    _Rule(
        "only a running action has a worker and a lease",
        "action",
        "SELECT id, status FROM action WHERE status <> 'RUNNING' AND (owner IS NOT NULL OR lease_until IS NOT NULL)",
    ),
    _Rule(
        "a running action has a worker and a lease",
        "action",
        "SELECT id, verb FROM action WHERE status = 'RUNNING' AND (owner IS NULL OR lease_until IS NULL)",
    ),
    _Rule(
        "an expired lease is taken over by a worker",
        "action",
        "SELECT id, owner FROM action WHERE status = 'RUNNING' AND lease_until < {late}",
    ),
    _Rule(
        "a scheduled action has a time that is not long past",
        "action",
        "SELECT id, not_before FROM action WHERE status = 'INIT' AND verb <> 'PLAYBOOK' "
        "AND (not_before IS NULL OR not_before < {late})",
    ),
    _Rule(
        "a waiting action has the right count of dependencies",
        "action",
        "SELECT id, pending FROM action WHERE status = 'WAITING' AND pending <> "
        "(SELECT COUNT(*) FROM dependency WHERE dependent = action.id AND state = 'open')"
        " + CASE WHEN verb = 'PLAYBOOK' THEN 1 ELSE 0 END",
    ),
    _Rule(
        "an open dependency is on something that has not ended",
        "dependency",
        "SELECT dependent, depended FROM dependency WHERE state = 'open' AND NOT EXISTS "
        f"(SELECT 1 FROM action WHERE action.id = depended AND {OPEN}) AND NOT EXISTS "
        f"(SELECT 1 FROM node_action WHERE node_action.id = depended AND {_NODE_ACTION_OPEN})",
    ),
    _Rule(
        "an open run of a playbook has open node actions",
        "action",
        f"SELECT id, status FROM action WHERE verb = 'PLAYBOOK' AND {OPEN} AND NOT EXISTS "
        f"(SELECT 1 FROM node_action WHERE run_id = action.id AND {_NODE_ACTION_OPEN})",
    ),
    _Rule(
        "an ended run of a playbook has no unsent node actions",
        "node action",
        f"SELECT id, run_id FROM node_action WHERE {_NODE_ACTION_PENDING} AND sent_at IS NULL AND EXISTS "
        f"(SELECT 1 FROM action WHERE action.id = run_id AND NOT {OPEN})",
    ),
    _Rule(
        "a parked action is woken when a child has ended",
        "action",
        f"SELECT id, open_children FROM action WHERE status {any_of(PARKED_ACTIONS)} AND pending = 0 AND "
        "updated_at < {late} AND open_children > (SELECT COUNT(*) FROM action AS child "
        f"WHERE child.parent_id = action.id AND child.{LIVE})",
    ),
    _Rule(
        "a parked action is woken at its time",
        "action",
        f"SELECT id, wake_at FROM action WHERE status {any_of(PARKED_ACTIONS)} AND pending = 0 AND wake_at < {{late}}",
    ),
    _Rule(
        "a live child action has a live parent",
        "action",
        f"SELECT id, parent_id FROM action WHERE {LIVE} AND parent_id IS NOT NULL AND control IS NULL AND NOT EXISTS "
        f"(SELECT 1 FROM action AS parent WHERE parent.id = action.parent_id AND parent.{LIVE})",
    ),
    _Rule(
        "an action has a stack",
        "action",
        f"SELECT id, stack_id FROM action WHERE {OPEN} AND NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = action.stack_id AND stack.deleted_at IS NULL)",
    ),
    _Rule(
        "the last line of an action's history has its status",
        "action",
        f"SELECT id, status FROM action WHERE {LIVE} AND EXISTS (SELECT 1 FROM transition WHERE action_id = action.id)"
        " AND status <> (SELECT {after} FROM transition WHERE action_id = action.id ORDER BY id DESC LIMIT 1)",
    ),
    _Rule(
        "a stack in progress has an action",
        "stack",
        f"SELECT id, verb FROM stack WHERE status = 'IN_PROGRESS' AND deleted_at IS NULL AND NOT EXISTS {_ALIVE}",
    ),
    _Rule(
        "a stack has its template",
        "stack",
        "SELECT id, template_id FROM stack WHERE NOT EXISTS (SELECT 1 FROM template WHERE template.id = template_id)",
    ),
    _Rule(
        "a stack has the template of its rollback",
        "stack",
        "SELECT id, previous_template_id FROM stack WHERE previous_template_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM template WHERE template.id = previous_template_id)",
    ),
    _Rule(
        "an unreferenced template is deleted",
        "template",
        f"SELECT id, unused_since FROM template WHERE unused_since < {{late}} - {2 * TEMPLATE_GRACE} AND "
        + UNREFERENCED,
    ),
    _Rule(
        "a large value has a stack",
        "large_value",
        "SELECT id, stack_id FROM large_value WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = stack_id)",
    ),
    _Rule(
        "an unused large value is deleted",
        "large_value",
        f"SELECT id, stack_id FROM large_value WHERE unused AND checked_at < {{late}} - {2 * LARGE_VALUE_GRACE}",
    ),
    _Rule(
        "an unused large value of a project is deleted",
        "project_value",
        f"SELECT id, project FROM project_value WHERE unused AND checked_at < {{late}} - {2 * LARGE_VALUE_GRACE}",
    ),
    _Rule(
        "a nested stack has a parent",
        "stack",
        # The parent of a retained stack may be deleted.
        "SELECT id, parent_id FROM stack WHERE deleted_at IS NULL AND parent_id IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM stack AS parent WHERE parent.id = stack.parent_id)",
    ),
    _Rule(
        "a resource in progress has an action on its stack",
        "resource",
        "SELECT id, verb FROM resource WHERE (status = 'IN_PROGRESS' OR token IS NOT NULL) AND NOT EXISTS "
        + _ALIVE_OF.format(table="resource"),
    ),
    _Rule(
        "a resource has a stack",
        "resource",
        "SELECT id, stack_id FROM resource WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = resource.stack_id AND stack.deleted_at IS NULL)",
    ),
    _Rule(
        "a credential has a stack",
        "credential",
        "SELECT stack_id, stack_id FROM credential WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = credential.stack_id AND stack.deleted_at IS NULL)",
    ),
    _Rule(
        "an account has a stack",
        "account",
        "SELECT physical_name, stack_id FROM account WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = account.stack_id AND stack.deleted_at IS NULL)",
    ),
    _Rule(
        "a project of accounts has a stack",
        "account_project",
        "SELECT root_id, project_id FROM account_project WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = account_project.root_id AND stack.deleted_at IS NULL)",
    ),
    _Rule(
        "a size has a stack",
        "stack_size",
        "SELECT stack_id, root_id FROM stack_size WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = stack_size.stack_id AND stack.deleted_at IS NULL)",
    ),
    _Rule(
        "a snapshot in progress has an action on its stack",
        "snapshot",
        "SELECT id, verb FROM snapshot WHERE status = 'IN_PROGRESS' AND NOT EXISTS "
        + _ALIVE_OF.format(table="snapshot"),
    ),
    _Rule(
        "a node of a deleted stack is deleted",
        "node",
        "SELECT id, stack_id FROM node WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = node.stack_id"
        " AND (stack.deleted_at IS NULL OR stack.deleted_at >= {late}))",
    ),
    _Rule(
        "an open node action has a node",
        "node action",
        f"SELECT id, node_id FROM node_action WHERE {_NODE_ACTION_OPEN} AND NOT EXISTS "
        "(SELECT 1 FROM node WHERE node.id = node_action.node_id)",
    ),
    _Rule(
        "a tree with open node actions has an orchestration",
        "node action",
        f"SELECT id, root_id FROM node_action WHERE {_NODE_ACTION_OPEN} AND NOT EXISTS "
        "(SELECT 1 FROM orchestration WHERE orchestration.root_id = node_action.root_id)",
    ),
    _Rule(
        "an unapproved node action was not sent",
        "node action",
        "SELECT id, node_id FROM node_action WHERE state = 'PENDING_APPROVE' AND (sent_at IS NOT NULL OR attempts > 0)",
    ),
    _Rule(
        "the history of a pending node action has its state",
        "node action",
        f"SELECT id, state FROM node_action WHERE {_NODE_ACTION_PENDING} AND NOT EXISTS (SELECT 1 FROM node_transition"
        " WHERE action_id = node_action.id AND node_transition.state = node_action.state)",
    ),
)


def inconsistencies(database: Database, now: float, grace: float) -> list[Inconsistency]:
    """Return every row that breaks a rule.

    Conditions that workers resolve within `grace` seconds count after that time only. Each rule is one statement and
    sees the rows as of one moment. So the check may run beside engines.
    """
    found: list[Inconsistency] = []
    for rule in RULES:
        values: list[Value] = [now - grace] * rule.sql.count("{late}")
        sql = rule.sql.format(late="?", after=database.quote("after"))
        for identifier, detail in database.read(sql, values):
            found.append(Inconsistency(rule.text, rule.entity, str(identifier), str(detail)))
    return found
