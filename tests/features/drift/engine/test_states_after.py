"""Known drift of an object after operations that write it, or take it over."""

from collections.abc import Callable

import pytest
from msgspec import convert

from heatlite.core.actions.repairs import RepairStep
from heatlite.features.drift.states import DriftState
from heatlite.features.ownership.bodies import DetachRequest, ImportRequest
from heatlite.features.ownership.detaching import Detachments
from heatlite.features.ownership.importing import Imports
from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.engine.test_handover import abandon, adopt
from tests.features.drift.engine.test_drift import drift
from tests.tables import few
from tests.types.conftest import Cloudy

VM = resource("OS::Nova::Server", name="vm", flavor="m1.small", image="cirros", metadata={"tier": "gold"})
NOT_CHECKED = None


def restored(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    """The stack has another name for its server meanwhile."""
    snapshot = cloudy.store.snapshots.of(stack.id)[0]
    cloudy.components.snapshots.restore(cloudy.who, stack, snapshot.id)
    return cloudy.settle(stack)


def rebuilt(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    cloudy.components.groups.recover(cloudy.who, stack, "vm", RepairStep.REBUILD, {})
    return cloudy.settle(stack)


def updated(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    changed = {**VM, "properties": {**VM["properties"], "metadata": {"tier": "iron"}}}
    return cloudy.put(stack, template(vm=changed))


def adopted(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    return adopt(cloudy, abandon(cloudy, stack), name="b")


def imported(cloudy: Cloudy, stack: StackRecord) -> StackRecord:
    detachments, imports, who = cloudy.components.of(Detachments), cloudy.components.of(Imports), cloudy.who
    asked = {"resources": ["vm"]}
    digest = detachments.plan(who, stack, convert(asked, DetachRequest)).digest
    found = detachments.start(who, stack, convert({**asked, "plan_digest": digest}, DetachRequest), {})
    other, objects = cloudy.create(template(), "b"), {"resources": found["detached"]}
    digest = imports.plan(who, other, convert(objects, ImportRequest)).digest
    imports.start(who, other, convert({**objects, "plan_digest": digest}, ImportRequest), {})
    return cloudy.get(other)


@pytest.mark.parametrize(
    ("change", "expected"),
    few(
        [
            (updated, DriftState.IN_SYNC),
            (restored, DriftState.IN_SYNC),
            (rebuilt, DriftState.DRIFTED),  # a rebuild writes no metadata
            (adopted, NOT_CHECKED),
            (imported, NOT_CHECKED),
        ]
    ),
)
def test_what_is_known_after(
    cloudy: Cloudy, change: Callable[[Cloudy, StackRecord], StackRecord], expected: DriftState | None
) -> None:
    stack = cloudy.made({"vm": VM})
    if change is restored:
        cloudy.components.snapshots.take(cloudy.who, stack, None)
        stack = cloudy.settle(stack)
        stack = cloudy.changed(stack, {"vm": {**VM, "properties": {**VM["properties"], "metadata": {"tier": "tin"}}}})
    cloudy.view().call("compute.set_server_metadata", cloudy.row(stack, "vm").physical_id, {"tier": "silver"})
    stack = cloudy.check(stack)
    assert (known := drift(cloudy, stack, "vm")) is not None and known.state is DriftState.DRIFTED
    stack = change(cloudy, stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    record = drift(cloudy, stack, "vm")
    assert (None if record is None else record.state) == expected
    stack = cloudy.check(stack)
    after = drift(cloudy, stack, "vm")
    live = cloudy.thing(stack, "vm")["metadata"]
    assert after is not None and (after.number > 0) == (live != cloudy.row(stack, "vm").properties["metadata"])
