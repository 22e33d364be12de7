"""States of readings: whether the outputs still have the values that were read."""

from collections.abc import Sequence

from heatlite.core.errors import HeatliteError
from heatlite.core.json import same
from heatlite.features.parameter_sources.outputs import Outputs
from heatlite.features.parameter_sources.store.records import Reading
from heatlite.features.parameter_sources.wire import SourceState
from heatlite.store.records import StackRecord
from heatlite.store.store import Store


def states(store: Store, outputs: Outputs, found: Sequence[Reading]) -> list[tuple[Reading, SourceState]]:
    """Return readings with their states. May ask the cloud for attributes."""
    owners = store.stacks.of_ids(sorted({one.owner_id for one in found})) if found else {}
    return [(one, _state(outputs, one, owners.get(one.owner_id))) for one in found]


def _state(outputs: Outputs, reading: Reading, owner: StackRecord | None) -> SourceState:
    if owner is None or owner.deleted_at is not None or not outputs.may_read(reading.project, owner, reading.output):
        return SourceState.GONE
    try:
        now = outputs.value(owner, reading.output)
    except HeatliteError:
        return SourceState.BEHIND
    return SourceState.CURRENT if same(now.value, reading.value) else SourceState.BEHIND
