"""Consistency rules over all rows (`heatlite fsck`).

Each rule is a query for the rows that break it. The first rules check that ended actions hold nothing. The others
check that each row that is IN_PROGRESS, waits or has an owner also has an action, or a worker, that will continue it.
"""

from collections.abc import Sequence

from msgspec import Struct

from heatlite.core.status import PARKED_ACTIONS, Verb
from heatlite.store.actions.table import LIVE, OPEN, any_of
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Value
from heatlite.store.feature_store import ConsistencyRule, FeatureStore
from heatlite.store.stacks.templates import TEMPLATE_GRACE, holders_of, unreferenced
from heatlite.store.writes.large_values import LARGE_VALUE_GRACE


class Inconsistency(Struct, frozen=True):
    """A row that breaks a rule."""

    rule: str
    """The rule."""
    entity: str
    """action, stack, template, resource, snapshot, credential, account, account_project,
    stack_size, large_value, project_value, project, dependency, or a kind of a feature."""
    id: str
    detail: str


_ALIVE = f"(SELECT 1 FROM action WHERE action.stack_id = stack.id AND {LIVE})"
_ALIVE_OF = "(SELECT 1 FROM action WHERE action.stack_id = {table}.stack_id AND " + LIVE + ")"

RULES = (
    ConsistencyRule(
        "an ended action holds no exclusive key",
        "action",
        f"SELECT id, exclusive_key FROM action WHERE NOT {OPEN} AND exclusive_key IS NOT NULL",
    ),
    ConsistencyRule(
        "an ended action has no request",
        "action",
        f"SELECT id, status FROM action WHERE NOT {OPEN} AND request IS NOT NULL",
    ),
    ConsistencyRule(
        "a live action holds its exclusive key",
        "action",
        f"SELECT id, status FROM action WHERE {LIVE} AND exclusive_key IS NULL AND verb <> '{Verb.RUN}'",
    ),
    ConsistencyRule(
        "only a running action has a worker and a lease",
        "action",
        "SELECT id, status FROM action WHERE status <> 'RUNNING' AND (owner IS NOT NULL OR lease_until IS NOT NULL)",
    ),
    ConsistencyRule(
        "a running action has a worker and a lease",
        "action",
        "SELECT id, verb FROM action WHERE status = 'RUNNING' AND (owner IS NULL OR lease_until IS NULL)",
    ),
    ConsistencyRule(
        "an expired lease is taken over by a worker",
        "action",
        "SELECT id, owner FROM action WHERE status = 'RUNNING' AND lease_until < {late}",
    ),
    ConsistencyRule(
        "a scheduled action has a time that is not long past",
        "action",
        f"SELECT id, not_before FROM action WHERE status = 'INIT' AND verb <> '{Verb.RUN}' "
        "AND (not_before < {late} OR not_before IS NULL AND request IS NULL)",
    ),
    ConsistencyRule(
        "a waiting action has the right count of dependencies",
        "action",
        "SELECT id, pending FROM action WHERE status = 'WAITING' AND pending <> "
        "(SELECT COUNT(*) FROM dependency WHERE dependent = action.id AND state = 'open')"
        f" + CASE WHEN verb = '{Verb.RUN}' THEN 1 ELSE 0 END",
    ),
    ConsistencyRule(
        "an open dependency is on something that has not ended",
        "dependency",
        "SELECT dependent, depended FROM dependency WHERE state = 'open' AND NOT EXISTS "
        f"(SELECT 1 FROM action WHERE action.id = depended AND {OPEN}){{others}}",
    ),
    ConsistencyRule(
        "a parked action is woken when a child has ended",
        "action",
        f"SELECT id, open_children FROM action WHERE status {any_of(PARKED_ACTIONS)} AND pending = 0 AND "
        "updated_at < {late} AND open_children > (SELECT COUNT(*) FROM action AS child "
        f"WHERE child.parent_id = action.id AND child.{LIVE})",
    ),
    ConsistencyRule(
        "a parked action is woken at its time",
        "action",
        f"SELECT id, wake_at FROM action WHERE status {any_of(PARKED_ACTIONS)} AND pending = 0 AND wake_at < {{late}}",
    ),
    ConsistencyRule(
        "a live child action has a live parent",
        "action",
        f"SELECT id, parent_id FROM action WHERE {LIVE} AND parent_id IS NOT NULL AND control IS NULL AND NOT EXISTS "
        f"(SELECT 1 FROM action AS parent WHERE parent.id = action.parent_id AND parent.{LIVE})",
    ),
    ConsistencyRule(
        "an action has a stack",
        "action",
        f"SELECT id, stack_id FROM action WHERE {OPEN} AND NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = action.stack_id AND stack.deleted_at IS NULL)",
    ),
    ConsistencyRule(
        "the last line of an action's history has its status",
        "action",
        f"SELECT id, status FROM action WHERE {LIVE} AND EXISTS (SELECT 1 FROM transition WHERE action_id = action.id)"
        " AND status <> (SELECT {after} FROM transition WHERE action_id = action.id ORDER BY id DESC LIMIT 1)",
    ),
    ConsistencyRule(
        "a stack in progress has an action",
        "stack",
        f"SELECT id, verb FROM stack WHERE status = 'IN_PROGRESS' AND deleted_at IS NULL AND NOT EXISTS {_ALIVE}",
    ),
    ConsistencyRule(
        "a stack has its template",
        "stack",
        "SELECT id, template_id FROM stack WHERE NOT EXISTS (SELECT 1 FROM template WHERE template.id = template_id)",
    ),
    ConsistencyRule(
        "a stack has the template of its rollback",
        "stack",
        "SELECT id, previous_template_id FROM stack WHERE previous_template_id IS NOT NULL AND NOT EXISTS "
        "(SELECT 1 FROM template WHERE template.id = previous_template_id)",
    ),
    ConsistencyRule(
        "an unreferenced template is deleted",
        "template",
        f"SELECT id, unused_since FROM template WHERE unused_since < {{late}} - {2 * TEMPLATE_GRACE} AND {{free}}",
    ),
    ConsistencyRule(
        "a large value has a stack",
        "large_value",
        "SELECT id, stack_id FROM large_value WHERE NOT EXISTS (SELECT 1 FROM stack WHERE stack.id = stack_id)",
    ),
    ConsistencyRule(
        "an unused large value is deleted",
        "large_value",
        f"SELECT id, stack_id FROM large_value WHERE unused AND checked_at < {{late}} - {2 * LARGE_VALUE_GRACE}",
    ),
    ConsistencyRule(
        "an unused large value of a project is deleted",
        "project_value",
        f"SELECT id, project FROM project_value WHERE unused AND checked_at < {{late}} - {2 * LARGE_VALUE_GRACE}",
    ),
    ConsistencyRule(
        "a nested stack has a parent",
        "stack",
        # The parent of a retained stack may be deleted.
        "SELECT id, parent_id FROM stack WHERE deleted_at IS NULL AND parent_id IS NOT NULL "
        "AND NOT EXISTS (SELECT 1 FROM stack AS parent WHERE parent.id = stack.parent_id)",
    ),
    ConsistencyRule(
        "a resource in progress has an action on its stack",
        "resource",
        "SELECT id, verb FROM resource WHERE (status = 'IN_PROGRESS' OR token IS NOT NULL) AND NOT EXISTS "
        + _ALIVE_OF.format(table="resource"),
    ),
    ConsistencyRule(
        "a resource has a stack",
        "resource",
        "SELECT id, stack_id FROM resource WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = resource.stack_id AND stack.deleted_at IS NULL)",
    ),
    ConsistencyRule(
        "a credential has a stack",
        "credential",
        "SELECT stack_id, stack_id FROM credential WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = credential.stack_id AND stack.deleted_at IS NULL)",
    ),
    ConsistencyRule(
        "an account has a stack",
        "account",
        "SELECT physical_name, stack_id FROM account WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = account.stack_id AND stack.deleted_at IS NULL)",
    ),
    ConsistencyRule(
        "a project of accounts has a stack",
        "account_project",
        "SELECT root_id, project_id FROM account_project WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = account_project.root_id AND stack.deleted_at IS NULL)",
    ),
    ConsistencyRule(
        "a size has a stack",
        "stack_size",
        "SELECT stack_id, root_id FROM stack_size WHERE NOT EXISTS "
        "(SELECT 1 FROM stack WHERE stack.id = stack_size.stack_id AND stack.deleted_at IS NULL)",
    ),
    ConsistencyRule(
        "a snapshot in progress has an action on its stack",
        "snapshot",
        "SELECT id, verb FROM snapshot WHERE status = 'IN_PROGRESS' AND NOT EXISTS "
        + _ALIVE_OF.format(table="snapshot"),
    ),
)


def inconsistencies(
    database: Database,
    now: float,
    grace: float,
    features: Sequence[FeatureStore | type[FeatureStore]],
    off: Sequence[FeatureStore | type[FeatureStore]],
) -> list[Inconsistency]:
    """Return every row that breaks a rule of the core, or one of the features.

    Rules of features that are `off` do not count, but work of theirs that has not ended does. The database has their
    tables.
    Conditions that workers resolve within `grace` seconds count after that time only. Each rule is one statement and
    sees the rows as of one moment. So the check may run beside engines.
    """
    found: list[Inconsistency] = []
    rules = [*RULES, *(rule for one in features for rule in one.rules)]
    others = "".join(f" AND NOT EXISTS ({one.unended})" for one in (*features, *off) if one.unended)
    free = unreferenced(holders_of(model for one in (*features, *off) for model in one.tables))
    for rule in rules:
        values: list[Value] = [now - grace] * rule.sql.count("{late}")
        sql = rule.sql.format(late="?", after=database.quote("after"), others=others, free=free)
        for identifier, detail in database.read(sql, values):
            found.append(Inconsistency(rule.text, rule.entity, str(identifier), str(detail)))
    return found
