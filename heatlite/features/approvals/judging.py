"""The need of an approval, by plan and policy.

It is imported only where the feature of policies is on.
"""

import hashlib
from collections.abc import Callable, Sequence

from heatlite.core.config import Settings
from heatlite.core.json import Json, canonical
from heatlite.engine.admission.claims import OF_NO_OBJECT, ChangeKind
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.preview.preview import PreviewItem, StackPreview
from heatlite.features.approvals.store.records import Subject
from heatlite.features.change_policy.effective import Approve, ChangePolicyValues, effective
from heatlite.store.store import Store

SUBJECTS = {
    ChangeKind.CREATE: Subject.CREATE,
    ChangeKind.UPDATE: Subject.UPDATE,
    ChangeKind.DELETE: Subject.DELETE,
    ChangeKind.SCALE: Subject.SCALE,
    ChangeKind.SIGNAL: Subject.SCALE,
    ChangeKind.REDEFINE: Subject.UPDATE,
    ChangeKind.JOIN: Subject.SCALE,
}
"""Operations that may need an approval."""


def policy_of(store: Store, settings: Settings, project: str, root_id: str) -> ChangePolicyValues:
    """Return the change policy of a root stack."""
    return effective(store, settings, project, root_id).policy


def reasons(policy: ChangePolicyValues, change: ChangeKind, preview: Callable[[], StackPreview]) -> Sequence[str]:
    """Return why a plan needs an approval. The plan is made only if a policy asks."""
    if policy.approve is Approve.NEVER or change not in SUBJECTS:
        return ()
    if change in OF_NO_OBJECT:
        return ("approve:always",) if policy.approve is Approve.ALWAYS else ()
    changes = [item for item in preview().changes() if item.level is None or not _stays(item)]
    removes = change is ChangeKind.DELETE or any(map(_removes, changes))
    if policy.approve is Approve.REMOVALS:
        return ("approve:removals",) if removes else ()
    return ("approve:always",) if changes or change is ChangeKind.DELETE else ()


def _stays(item: PreviewItem) -> bool:
    """Return whether a resource stays as it is, with all within."""
    return item.outcome is Outcome.UPDATE and item.level is not None and item.level.is_unchanged(item.name)


def _removes(item: PreviewItem) -> bool:
    """Return whether an object goes.

    A retained one, and one that was never made, does not.
    """
    if item.outcome is Outcome.DELETE:
        return item.row.physical_id is not None and not item.leaves_object
    return item.outcome in (Outcome.REPLACE, Outcome.REBUILD)


def request_key(store: Store, subject: Subject, target: str, content: Json) -> str:
    """Return the key of an open approval: a digest of what the operation would store.

    It is keyed, since the content has hidden values.
    """
    text = canonical([subject.value, target, content])
    cipher = store.encryption.cipher
    return hashlib.sha256(text.encode(errors="surrogatepass")).hexdigest() if cipher is None else cipher.sign(text)
