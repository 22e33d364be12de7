"""Caller contexts, as stored in action rows and suppressed requests."""


from heatlite.core.context import Context
from heatlite.core.json import JsonMap
from heatlite.store.records import ActionRecord, SuppressedRecord


def context_to_json(context: Context) -> JsonMap:
    """Return the part of a context that has no column of its own and is no secret."""
    return {
        "roles": sorted(context.roles),
        "request_id": context.request_id,
        "user_id": context.user_id,
        "user_domain_id": context.user_domain_id,
        "project_domain_id": context.project_domain_id,
    }


def restore_context(action: ActionRecord) -> Context:
    """Return the caller of an action's request. It has no token: none is stored."""
    return restore_caller(action.project, action.requested_by, action.context)


def restore_author(entry: SuppressedRecord, project: str) -> Context:
    """Rebuild the context of a suppressed request's author, with the stored roles."""
    return restore_caller(project, entry.requested_by, entry.author)


def restore_caller(project: str, user: str, stored: JsonMap) -> Context:
    """Return the caller of whom `context_to_json` has stored the rest."""
    roles = stored.get("roles")
    return Context(
        project=project,
        user=user,
        roles=frozenset(str(role) for role in roles) if isinstance(roles, list) else frozenset(),
        request_id=str(stored.get("request_id", "")),
        user_id=str(stored.get("user_id", "")),
        user_domain_id=str(stored.get("user_domain_id", "")),
        project_domain_id=str(stored.get("project_domain_id", "")),
    )
