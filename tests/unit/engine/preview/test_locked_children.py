"""A locked nested stack is untouched if the plan keeps its row, not failed."""


from msgspec.structs import replace

from heatlite.core.status import Status, Verb
from heatlite.engine.planning.plan import Outcome, Plan, Step
from heatlite.engine.preview.locked_children import is_kept
from heatlite.store.records import PreviousState, ResourceRecord
from tests.tables import table
from tests.unit.engine.planning.rows import row

WELL = row(Verb.LOCK)
HIDES_FAILURE = replace(WELL, before_lock=PreviousState(Verb.UPDATE, Status.FAILED, "why"))
HIDES_SUSPEND = replace(WELL, before_lock=PreviousState(Verb.SUSPEND, Status.COMPLETE, ""))
FAILED = row(Verb.CHECK, Status.FAILED)
OTHER = row(identifier="a2")


def step(outcome: Outcome, one: ResourceRecord | None) -> Plan:
    return Plan({"a": Step("a", "a", outcome, row=one)}, {})


CASES: list[tuple[str, ResourceRecord, Plan, bool]] = [
    ("it needs no step", WELL, Plan({}, {"a": WELL}), True),
    ("another row stands for the name", WELL, Plan({}, {"a": OTHER}), False),
    ("the name is gone from the template", WELL, Plan({}, {}), False),
    ("its step does nothing to the object", WELL, step(Outcome.KEEP, WELL), True),
    ("the step keeps another row", WELL, step(Outcome.KEEP, OTHER), False),
    ("it is updated", WELL, step(Outcome.UPDATE, WELL), False),
    ("it is replaced", WELL, step(Outcome.REPLACE, WELL), False),
    ("it is created", WELL, step(Outcome.CREATE, None), False),
    ("a failed row is repaired by its step", FAILED, step(Outcome.KEEP, FAILED), False),
    ("the lock hides a failure", HIDES_FAILURE, Plan({}, {"a": HIDES_FAILURE}), False),
    ("the lock hides another state", HIDES_SUSPEND, Plan({}, {"a": HIDES_SUSPEND}), True),
]


@table(("one", "plan", "kept"), [case[1:] for case in CASES])
def test_is_kept(one: ResourceRecord, plan: Plan, kept: bool) -> None:
    assert is_kept(plan, one) is kept
