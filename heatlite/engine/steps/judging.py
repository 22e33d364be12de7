"""Judge known differences by the definition that an update has given a stack."""

from collections.abc import Callable, Sequence

from heatlite.core.clock import Clock
from heatlite.engine.types.differences import judged
from heatlite.store.feature_store import ObjectNews
from heatlite.store.records import ActionRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.ignored import ignored


def judge(
    store: Store,
    clock: Clock,
    definition_of: Callable[[StackRecord], Definition],
    stack: StackRecord,
    action: ActionRecord,
    rows: Sequence[ResourceRecord],
    also: Callable[[], None] | None,
) -> None:
    """Tell features what the definition ignores now of what is known to differ.

    In the transaction that ends an update. No object is read. `also` is to be written before.
    """
    if also is not None:
        also()
    known, found = store.differences(action.project, action.root_id, action.stack_id), {}
    for row in rows:
        if before := known.get(row.id):
            after = judged(before, ignored(definition_of(stack), row.name))
            if after != before:
                found[row.id] = row, after
    news = ObjectNews(action.project, action.root_id, clock.now(), judged=found)
    store.events.append_many(store.objects_seen(news))
