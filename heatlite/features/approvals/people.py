"""People who request and decide, and the places of what they do."""

from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.feature import is_active
from heatlite.features.approvals.store.records import ApprovalRecord
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


def identity(context: Context) -> str:
    """Return what all tokens of a user share."""
    return context.user_id or context.user


def is_requester(context: Context, record: ApprovalRecord) -> bool:
    """Return whether a caller has requested what is to be decided.

    Of what waited when approvals were introduced, only the name of the requester is known.
    """
    return record.requester in (identity(context), context.user)


def place_of(store: Store, stack: StackRecord) -> tuple[StackRecord, str]:
    """Return the root of a stack, and its path below that."""
    root, names = store.stacks.place(stack)
    return root, "/".join(names)


def four_eyes(store: Store, settings: Settings, project: str, root_id: str) -> bool:
    """Return whether requesters may not decide, by the change policy."""
    if not is_active(settings, "change_policy"):
        return False
    from heatlite.features.change_policy.effective import effective

    return effective(store, settings, project, root_id).policy.four_eyes


def time_to_live(store: Store, settings: Settings, project: str, root_id: str) -> int | None:
    """Return the seconds until approvals expire, if a change policy says so."""
    if not is_active(settings, "change_policy"):
        return None
    from heatlite.features.change_policy.effective import PolicyOrigin, effective

    found = effective(store, settings, project, root_id)
    return None if found.origins["approval_ttl"] is PolicyOrigin.DEFAULT else found.policy.approval_ttl
