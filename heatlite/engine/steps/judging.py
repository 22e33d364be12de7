"""Judge known differences by the definition that an update has given a stack."""

from collections.abc import Callable, Mapping

from heatlite.engine.types.differences import judged
from heatlite.store.feature_store import ObjectNews
from heatlite.store.records import ActionRecord, ResourceRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.ignored import ignored


def judge(
    store: Store,
    action: ActionRecord,
    rows: Mapping[str, ResourceRecord],
    definition: Callable[[], Definition],
    now: float,
    before: Callable[[], None] | None,
) -> None:
    """Tell features what the definition ignores now of what is known to differ.

    In the transaction that ends an update. No object is read. `before` is to be called first.
    """
    if before is not None:
        before()
    known = store.differences(action.project, action.root_id, action.stack_id)
    found = {
        key: (rows[key], after)
        for key, differences in known.items()
        if key in rows and (after := judged(differences, ignored(definition(), rows[key].name))) != differences
    }
    news = ObjectNews(action.project, action.root_id, now, judged=found)
    store.events.append_many(store.objects_seen(news))
