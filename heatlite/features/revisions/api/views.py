"""Answers about revisions."""

from heatlite.core.clock import to_text
from heatlite.core.json import JsonMap
from heatlite.core.wire.base import shown
from heatlite.features.revisions.differences import RevisionChange
from heatlite.features.revisions.store.records import RevisionSummary
from heatlite.features.revisions.wire import DefinitionChange, ListedRevision


def listed(record: RevisionSummary) -> JsonMap:
    """Return a revision without its content."""
    return shown(
        ListedRevision(
            number=record.number,
            by=record.requested_by,
            at=to_text(record.created_at),
            action_id=record.action_id,
            plan_digest=record.plan_digest,
            result=record.result,
            operation=record.operation,
            undo_of=record.undo_of,
            tags=[*record.tags],
            timeout_mins=record.timeout_mins,
            disable_rollback=record.disable_rollback,
        )
    )


def change(found: RevisionChange) -> JsonMap:
    """Return a difference of two revisions."""
    return shown(DefinitionChange(place=".".join(map(str, found.path)), old=found.old, new=found.new))
