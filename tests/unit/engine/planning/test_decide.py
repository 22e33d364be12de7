"""Rules of `decide` and `choose`: state × change × type → outcome and reason."""

from typing import Any

import pytest
from msgspec.structs import replace

from heatlite.core.actions.repairs import RepairStep
from heatlite.core.errors import Invalid
from heatlite.core.status import Status, Verb
from heatlite.engine.planning.decide import REFUSED, choose, decide, deletes_first, is_marked
from heatlite.engine.planning.facts import Involvement, NestedFacts, Questions, RowFacts
from heatlite.engine.planning.plan import Outcome, Reason
from heatlite.engine.state.protected import Protected
from heatlite.engine.types.template_types import TemplateResource
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import HealthRecord, ProtectionRecord, ResourceRecord, StackRecord
from heatlite.template.expression import UNKNOWN
from tests.tables import table

from .rows import (
    NET,
    NEW_NET,
    Fixed,
    Fresh,
    Giving,
    Group,
    Joined,
    JoinedFixed,
    OfTemplate,
    Rebooted,
    Rebuilt,
    Restless,
    Thing,
    row,
    wanted,
)

INIT, CREATE, UPDATE, DELETE, CHECK = Verb.INIT, Verb.CREATE, Verb.UPDATE, Verb.DELETE, Verb.CHECK
DONE, RUNS, FAILED = Status.COMPLETE, Status.IN_PROGRESS, Status.FAILED
STORED: Any = object()


def never(*_: object) -> Any:
    raise AssertionError("no rule may ask this here")


class Answers(Questions):
    """Gives these answers, by name, and those of a plain object."""

    def __init__(self, answers: dict[str, Any]) -> None:
        vars(self).update(answers)


def facts(
    one: ResourceRecord | None = None,
    kind: ResourceType = Thing,
    was: ResourceType | None = None,
    observed: Any = STORED,
    net: ResourceRecord | None = NET,
    is_done: bool = False,
    is_outdated: bool = False,
    answers: dict[str, Any] | None = None,
    **definition: Any,
) -> RowFacts:
    """Return the facts of a row; `was` is its type, `definition` the wanted change."""
    one = row() if one is None else one
    found = one.properties if observed is STORED else observed
    chosen = {} if net is None else {"net": net}
    target = wanted(kind, **definition)
    asked = {"is_outdated": lambda: is_outdated, **(answers or {})}
    return RowFacts(one, target, was or kind, chosen, found, is_done, Answers(asked))


def part(one: Involvement, given: RowFacts, step: RepairStep | None = None) -> RowFacts:
    """Return the facts of a resource in a restricted update."""
    return replace(given, involvement=one, step=step)


def nested(locked: bool = False, state: tuple[Verb, Status] = (CREATE, DONE), stays: Any = never) -> dict[str, Any]:
    return {"nested": lambda: NestedFacts(locked, state, stays)}


def yes(*_: object) -> bool:
    return True


def no(*_: object) -> bool:
    return False


TEXT, SIZE, OTHER_NET = {"text": "y"}, {"text": "x", "size": 2}, {"text": "x", "net": "other"}
REFUSAL = {REFUSED: True}
MARKED = row(CHECK, FAILED, health=HealthRecord(marked=True))

CASES: list[tuple[str, RowFacts, Outcome, Reason]] = [
    # -- objects that were never made, or are going
    ("a row without an object needs one", facts(row(INIT)), Outcome.CREATE, Reason.NEVER_MADE),
    (
        "even of another type: there is no object to replace",
        facts(row(INIT), was=Fixed),
        Outcome.CREATE,
        Reason.NEVER_MADE,
    ),
    ("half a deletion leaves nothing usable", facts(row(DELETE, RUNS)), Outcome.REPLACE, Reason.DELETION_BEGUN),
    ("a failed deletion may have removed parts", facts(row(DELETE, FAILED)), Outcome.REPLACE, Reason.DELETION_BEGUN),
    (
        "a deletion that goes on after a refusal may remove parts",
        facts(row(DELETE, RUNS, data=REFUSAL), answers={"outlasts_refusal": never}),
        Outcome.REPLACE,
        Reason.DELETION_BEGUN,
    ),
    (
        "one of an object that was not well before leaves nothing usable",
        facts(row(DELETE, FAILED, data={REFUSED: False}), answers={"outlasts_refusal": never}),
        Outcome.REPLACE,
        Reason.DELETION_BEGUN,
    ),
    (
        "the service refuses the deletion of what goes by itself",
        facts(row(DELETE, FAILED, data=REFUSAL), answers={"outlasts_refusal": no}),
        Outcome.REPLACE,
        Reason.DELETION_BEGUN,
    ),
    # -- objects whose deletion was refused
    (
        "what is whole is taken back, also without a change: the deletion may have detached others",
        facts(row(DELETE, FAILED, data=REFUSAL), answers={"outlasts_refusal": yes, "needs_replace_failed": never}),
        Outcome.UPDATE,
        Reason.TAKEN_BACK,
    ),
    (
        "a change of it is made in place",
        facts(row(DELETE, FAILED, data=REFUSAL), properties=TEXT, answers={"outlasts_refusal": yes}),
        Outcome.UPDATE,
        Reason.TAKEN_BACK,
    ),
    (
        "a definition that it cannot have wants another object",
        facts(row(DELETE, FAILED, data=REFUSAL), properties=SIZE, answers={"outlasts_refusal": yes}),
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "nor does another type take it back",
        facts(row(DELETE, FAILED, data=REFUSAL), was=Fixed, answers={"outlasts_refusal": yes}),
        Outcome.REPLACE,
        Reason.TYPE_CHANGED,
    ),
    (
        "a deleted external object is a new adoption",
        facts(row(DELETE, RUNS, external_id="e"), external_id="e"),
        Outcome.REPLACE,
        Reason.DELETION_BEGUN,
    ),
    # -- restricted updates
    *(
        (f"a repair of others leaves {name} as it is", part(Involvement.OUTSIDE, given), Outcome.KEEP, Reason.OUTSIDE)
        for name, given in {
            "a changed definition": facts(properties=TEXT),
            "a marked resource": facts(MARKED),
            "a failed one": facts(row(UPDATE, FAILED)),
            "one that was never made": facts(row(INIT)),
            "half a deletion": facts(row(DELETE, RUNS)),
            "a marked nested stack": facts(MARKED, Group),
            "another type": facts(was=Fixed),
        }.items()
    ),
    ("a marked resource is repaired", part(Involvement.SELECTED, facts(MARKED)), Outcome.REPLACE, Reason.SELECTED),
    ("a repair needs no mark", part(Involvement.SELECTED, facts()), Outcome.REPLACE, Reason.SELECTED),
    (
        "nor does that of a nested stack",
        part(Involvement.SELECTED, facts(kind=Group)),
        Outcome.REPLACE, Reason.SELECTED,
    ),
    ("a revert keeps what does not differ", part(Involvement.REVERTED, facts()), Outcome.KEEP, Reason.UNCHANGED),
    (
        "a revert changes in place what differs",
        part(Involvement.REVERTED, facts(observed={"text": "drifted"})),
        Outcome.UPDATE, Reason.DEFINITION_CHANGED,
    ),
    ("a repair is not repeated", part(Involvement.SELECTED, facts(is_done=True)), Outcome.KEEP, Reason.ALREADY_DONE),
    (
        "a repair goes on after an interruption",
        part(Involvement.SELECTED, facts(row(CREATE, RUNS))),
        Outcome.CONTINUE,
        Reason.CREATE_INTERRUPTED,
    ),
    (
        "the way to a repaired member is an update, even through a lock, which refuses it elsewhere",
        part(Involvement.LEADS, facts(kind=Group, answers=nested(locked=True))),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    (
        "a nested stack that follows gets no action without a change",
        part(Involvement.FOLLOWS, facts(kind=Group, answers=nested())),
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    (
        "a nested stack that follows gets its new values",
        part(Involvement.FOLLOWS, facts(kind=Group, answers=nested(), properties=TEXT)),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "what reads a repaired resource is updated in place",
        part(Involvement.FOLLOWS, facts(properties=TEXT)),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "what each update replaces is not replaced by a repair",
        part(Involvement.FOLLOWS, facts(kind=Fresh, is_outdated=True)),
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    # -- objects that heatlite does not own
    (
        "another external id is another object",
        facts(row(external_id="e"), external_id="f"),
        Outcome.REFUSE,
        Reason.EXTERNAL_ID_CHANGED,
    ),
    (
        "an own object cannot become an external one",
        facts(external_id="e"),
        Outcome.REFUSE,
        Reason.EXTERNAL_ID_CHANGED,
    ),
    (
        "an external object cannot become an own one",
        facts(row(external_id="e")),
        Outcome.REFUSE,
        Reason.EXTERNAL_ID_CHANGED,
    ),
    (
        "properties of an external object are not applied",
        facts(row(external_id="e"), external_id="e", properties=SIZE),
        Outcome.KEEP,
        Reason.EXTERNAL_WELL,
    ),
    (
        "the type of an external object is not compared",
        facts(row(CHECK, external_id="e"), was=Fixed, external_id="e"),
        Outcome.KEEP,
        Reason.EXTERNAL_WELL,
    ),
    (
        "a check that was interrupted goes on",
        facts(row(CHECK, RUNS, external_id="e"), external_id="e"),
        Outcome.CONTINUE,
        Reason.EXTERNAL_CHECK_INTERRUPTED,
    ),
    (
        "an external object that was not well is looked for again",
        facts(row(CHECK, FAILED, external_id="e"), external_id="e"),
        Outcome.CREATE,
        Reason.EXTERNAL_NOT_WELL,
    ),
    # -- another type
    ("no type can take over another one's object", facts(was=Fixed), Outcome.REPLACE, Reason.TYPE_CHANGED),
    (
        "a failure does not matter if the type changes, too",
        facts(row(UPDATE, FAILED), was=Fixed, answers={"needs_replace_failed": never}),
        Outcome.REPLACE,
        Reason.TYPE_CHANGED,
    ),
    (
        "finished work of another type is of no use",
        facts(was=Fixed, is_done=True),
        Outcome.REPLACE,
        Reason.TYPE_CHANGED,
    ),
    (
        "another template of a template resource is an update",
        facts(kind=OfTemplate, was=TemplateResource, properties=TEXT, answers=nested()),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "a type of a template replaces a plain one",
        facts(kind=OfTemplate, was=Thing),
        Outcome.REPLACE,
        Reason.TYPE_CHANGED,
    ),
    # -- work that is done already
    ("a restarted action does not repeat its work", facts(is_done=True), Outcome.KEEP, Reason.ALREADY_DONE),
    (
        "nor replaces what it has just made",
        facts(kind=Fresh, is_done=True, is_outdated=True),
        Outcome.KEEP,
        Reason.ALREADY_DONE,
    ),
    (
        "a finished nested stack is not updated twice",
        facts(kind=Group, is_done=True, answers={"nested": never}),
        Outcome.KEEP,
        Reason.ALREADY_DONE,
    ),
    (
        "a value that came later still must be applied",
        facts(is_done=True, properties=TEXT),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    # -- nested stacks
    (
        "without its stack the object is gone",
        facts(kind=Group, answers={"nested": lambda: None}),
        Outcome.REPLACE,
        Reason.NESTED_STACK_GONE,
    ),
    (
        "a locked stack whose definition stays is left alone",
        facts(kind=Group, answers=nested(locked=True, stays=yes)),
        Outcome.KEEP,
        Reason.NESTED_STACK_LOCKED,
    ),
    (
        "a locked stack with a new definition is updated, which the lock refuses",
        facts(kind=Group, answers=nested(locked=True, stays=no)),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    (
        "a failed resource of a locked stack is repaired",
        facts(row(UPDATE, FAILED), kind=Group, answers=nested(locked=True)),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    (
        "the lock comes before the comparison: nothing within would change",
        facts(kind=Group, properties=SIZE, answers=nested(locked=True, stays=yes)),
        Outcome.KEEP,
        Reason.NESTED_STACK_LOCKED,
    ),
    (
        "a mark on the resource replaces the whole stack",
        facts(MARKED, kind=Group, answers=nested()),
        Outcome.REPLACE,
        Reason.UNHEALTHY,
    ),
    (
        "a mark counts even where the stack's check failed, too",
        facts(MARKED, kind=Group, answers=nested(state=(CHECK, FAILED))),
        Outcome.REPLACE,
        Reason.UNHEALTHY,
    ),
    (
        "a check that failed within replaces members only",
        facts(row(CHECK, FAILED), kind=Group, answers=nested(state=(CHECK, FAILED))),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    (
        "an interrupted create goes on",
        facts(row(CREATE, RUNS), kind=Group, properties=SIZE, answers=nested()),
        Outcome.CONTINUE,
        Reason.CREATE_INTERRUPTED,
    ),
    (
        "an interrupted adoption goes on",
        facts(row(Verb.ADOPT, RUNS), kind=Group, answers=nested()),
        Outcome.CONTINUE,
        Reason.CREATE_INTERRUPTED,
    ),
    (
        "an interrupted update starts again with the new values",
        facts(row(UPDATE, RUNS), kind=Group, answers=nested()),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    (
        "a failed create of a stack is repaired within, not replaced",
        facts(row(CREATE, FAILED), kind=Group, answers={**nested(), "needs_replace_failed": never}),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    (
        "an immutable property of a group cannot be changed",
        facts(kind=Group, properties=OTHER_NET, answers=nested()),
        Outcome.REFUSE,
        Reason.IMMUTABLE_CHANGED,
    ),
    (
        "it follows the object that it names",
        facts(kind=Group, properties=OTHER_NET, net=NEW_NET, answers=nested()),
        Outcome.REPLACE,
        Reason.IMMUTABLE_FOLLOWS,
    ),
    (
        "a group cannot change every property in place",
        facts(kind=Group, properties=SIZE, answers=nested()),
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "changed properties reach the members by an update",
        facts(kind=Group, properties=TEXT, answers=nested()),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "members can see the metadata",
        facts(kind=Group, metadata={"k": 1}, answers=nested()),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "without any change the members still decide",
        facts(kind=Group, answers=nested()),
        Outcome.UPDATE,
        Reason.MEMBERS_DECIDE,
    ),
    # -- the state of the row and its object
    (
        "the type wants a new object with each update",
        facts(kind=Fresh, is_outdated=True),
        Outcome.REPLACE,
        Reason.EVERY_UPDATE_REPLACES,
    ),
    ("it was made by this update already", facts(kind=Fresh), Outcome.KEEP, Reason.UNCHANGED),
    (
        "age does not matter for other types",
        facts(is_outdated=True),
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    (
        "a mark replaces without asking the type",
        facts(row(CHECK, FAILED), answers={"needs_replace_failed": never}),
        Outcome.REPLACE,
        Reason.UNHEALTHY,
    ),
    ("a healthy object is kept", facts(row(CHECK)), Outcome.KEEP, Reason.UNCHANGED),
    ("a failed create may have left half an object", facts(row(CREATE, FAILED)), Outcome.REPLACE, Reason.FAILED),
    (
        "so may a failed update, even without a change",
        facts(row(UPDATE, FAILED)),
        Outcome.REPLACE,
        Reason.FAILED,
    ),
    (
        "the type has found the failed object healthy",
        facts(row(UPDATE, FAILED), answers={"needs_replace_failed": no}),
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    (
        "a healthy failed object still gets its change",
        facts(row(UPDATE, FAILED), properties=TEXT, answers={"needs_replace_failed": no}),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "an interrupted create goes on, with the values of now",
        facts(row(CREATE, RUNS), properties=SIZE, answers={"needs_replace": never}),
        Outcome.CONTINUE,
        Reason.CREATE_INTERRUPTED,
    ),
    (
        "an interrupted adoption begins again, since the row has no id yet",
        facts(row(Verb.ADOPT, RUNS, physical_id=None)),
        Outcome.CREATE,
        Reason.CREATE_INTERRUPTED,
    ),
    (
        "a failed adoption has changed no object",
        facts(row(Verb.ADOPT, FAILED), answers={"needs_replace_failed": never}),
        Outcome.UPDATE,
        Reason.ADOPTION_FAILED,
    ),
    (
        "an interrupted one neither",
        facts(row(Verb.ADOPT, RUNS), answers={"needs_replace_failed": never}),
        Outcome.UPDATE,
        Reason.ADOPTION_FAILED,
    ),
    (
        "an adoption without an id has no object to keep",
        facts(row(Verb.ADOPT, FAILED, physical_id=None)),
        Outcome.REPLACE,
        Reason.FAILED,
    ),
    (
        "an interrupted rebuild leaves no object to repair",
        facts(row(UPDATE, RUNS, token={"rebuild": True})),
        Outcome.REPLACE,
        Reason.REBUILD_INTERRUPTED,
    ),
    (
        "an interrupted update is repeated, even if nothing differs any more",
        facts(row(UPDATE, RUNS, token={"token": None})),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    ("an object that was observed as gone is made again", facts(observed=None), Outcome.REPLACE, Reason.OBJECT_GONE),
    # -- a change of the definition
    ("nothing differs", facts(), Outcome.KEEP, Reason.UNCHANGED),
    (
        "a default that is written out is no change",
        facts(properties={"text": "x", "size": 0}),
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    ("an updatable property changes in place", facts(properties=TEXT), Outcome.UPDATE, Reason.DEFINITION_CHANGED),
    (
        "an unknown value differs from every value",
        facts(properties={"text": UNKNOWN}),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    ("metadata alone is an update", facts(metadata={"k": 1}), Outcome.UPDATE, Reason.DEFINITION_CHANGED),
    (
        "even of a type that cannot update",
        facts(kind=Fixed, metadata={"k": 1}),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    ("other properties need a new object", facts(properties=SIZE), Outcome.REPLACE, Reason.NOT_UPDATABLE),
    (
        "one of several is enough",
        facts(properties={"text": "y", "size": 2}),
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "without a handler nothing changes in place",
        facts(kind=Fixed, properties=TEXT),
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "the type needs a new object for this value",
        facts(properties=TEXT, answers={"needs_replace": yes, "objection": never}),
        Outcome.REPLACE,
        Reason.TYPE_REPLACES,
    ),
    (
        "the type knows that the change will fail",
        facts(properties=TEXT, answers={"objection": lambda _: "too late"}),
        Outcome.REFUSE,
        Reason.TYPE_OBJECTS,
    ),
    (
        "no objection to a change that replaces",
        facts(properties=SIZE, answers={"objection": never}),
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "an immutable property stops everything else",
        facts(properties={**OTHER_NET, "size": 2}, answers={"needs_replace": never}),
        Outcome.REFUSE,
        Reason.IMMUTABLE_CHANGED,
    ),
    (
        "the template is the same, the network that it names is another",
        facts(properties=OTHER_NET, net=NEW_NET),
        Outcome.REPLACE,
        Reason.IMMUTABLE_FOLLOWS,
    ),
    (
        "the network will be another",
        facts(properties={"text": "x", "net": UNKNOWN}, net=None),
        Outcome.REPLACE,
        Reason.IMMUTABLE_FOLLOWS,
    ),
    (
        "a literal that changes follows nothing",
        facts(row(name="plain"), properties=OTHER_NET, net=NEW_NET),
        Outcome.REFUSE,
        Reason.IMMUTABLE_CHANGED,
    ),
    # -- what was observed
    (
        "the object differs from its row",
        facts(observed={"text": "drifted"}),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "the object is as wanted, only the row is not",
        facts(observed={"text": "y"}, properties=TEXT),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    ("object, row and definition agree", facts(observed={"text": "x"}), Outcome.KEEP, Reason.UNCHANGED),
    # -- types that are always updated
    ("the type wants each update", facts(kind=Restless), Outcome.UPDATE, Reason.EVERY_UPDATE_UPDATES),
    (
        "a change says more than that",
        facts(kind=Restless, properties=TEXT),
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
]


@table(("given", "outcome", "reason"), [case[1:] for case in CASES])
def test_decide(given: RowFacts, outcome: Outcome, reason: Reason) -> None:
    decision = decide(given)
    assert (decision.outcome, decision.reason) == (outcome, reason)
    assert decision.row is given.row


def test_each_rule_has_a_case() -> None:
    of_choose = {Reason.JOINED_REPLACED, Reason.PROTECTED, Reason.RESTRICTED, Reason.BLOCKED, Reason.NOT_EVALUATED}
    assert {case[3] for case in CASES} == set(Reason) - of_choose


@table(
    ("given", "cause"),
    [
        (facts(row(DELETE, RUNS)), "its deletion has begun"),
        (facts(was=Fixed), "type changed from Test::Thing"),
        (facts(row(CHECK, FAILED)), "unhealthy: why"),
        (facts(row(UPDATE, FAILED)), "UPDATE failed: why"),
        (facts(observed=None), "its object is gone"),
        (facts(properties=OTHER_NET), "Update to properties net of a (Test::Thing) is not supported."),
        (facts(properties=TEXT, answers={"objection": lambda _: "too late"}), "too late"),
        (facts(), ""),
    ],
)
def test_causes_are_written_for_users(given: RowFacts, cause: str) -> None:
    assert decide(given).cause == cause


def test_an_object_that_cannot_be_observed_fails_the_step() -> None:
    with pytest.raises(Invalid):
        decide(facts(observed=Invalid("no answer")))


def test_an_update_starts_from_what_was_observed() -> None:
    decision = decide(facts(observed={"text": "drifted"}))
    assert (decision.before, decision.changed) == ({"text": "drifted"}, {"text"})


# -- choose ----------------------------------------------------------------------------------------

STACK = StackRecord("s", "stack", "p", "u", "t", {}, CREATE, DONE, "", 1.0)
PROTECTED = Protected(STACK, "a", ProtectionRecord("u", 1.0))
OLD, NEW = row(identifier="a1"), row(identifier="a2")
REPLACES: dict[str, Any] = {"properties": SIZE}

CHOICES: list[tuple[str, list[RowFacts], dict[str, Any], str, Outcome, Reason]] = [
    ("the newest row that fits", [facts(NEW), facts(OLD)], {}, "a2", Outcome.KEEP, Reason.UNCHANGED),
    (
        "a rollback takes back the old object",
        [facts(row(identifier="a2", properties={"size": 2})), facts(OLD)],
        {},
        "a1",
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    (
        "with what its replacement has taken over",
        [facts(row(identifier="a2", properties={"size": 2}), Giving), facts(OLD, Giving)],
        {},
        "a1",
        Outcome.UPDATE,
        Reason.TAKEN_BACK,
    ),
    ("without a newer one nothing was taken", [facts(NEW, Giving)], {}, "a2", Outcome.KEEP, Reason.UNCHANGED),
    (
        "an object whose deletion was refused is taken back, too",
        [
            facts(row(identifier="a2", properties={"size": 2})),
            facts(row(DELETE, FAILED, identifier="a1", data=REFUSAL), answers={"outlasts_refusal": yes}),
        ],
        {},
        "a1",
        Outcome.UPDATE,
        Reason.TAKEN_BACK,
    ),
    (
        "what the refused deletion has detached is joined again",
        [facts(kind=Joined, net=row(DELETE, FAILED, identifier=NET.id, data=REFUSAL))],
        {},
        "a1",
        Outcome.UPDATE,
        Reason.JOINED_REPLACED,
    ),
    (
        "a retry goes on with the newest",
        [facts(row(CREATE, RUNS, identifier="a2")), facts(OLD)],
        {},
        "a2",
        Outcome.CONTINUE,
        Reason.CREATE_INTERRUPTED,
    ),
    (
        "none fits: the newest is replaced",
        [facts(NEW, **REPLACES), facts(OLD, **REPLACES)],
        {},
        "a2",
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "a protected object is never replaced",
        [facts(**REPLACES, answers={"protection": lambda: PROTECTED})],
        {},
        "a1",
        Outcome.PROTECT,
        Reason.PROTECTED,
    ),
    (
        "protection matters for a replacement only",
        [facts(properties=TEXT, answers={"protection": never})],
        {},
        "a1",
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "protection comes before a restriction",
        [facts(**REPLACES, answers={"protection": lambda: PROTECTED})],
        {"restricted": frozenset({"replace"})},
        "a1",
        Outcome.PROTECT,
        Reason.PROTECTED,
    ),
    (
        "the environment forbids to replace",
        [facts(**REPLACES)],
        {"restricted": frozenset({"replace"})},
        "a1",
        Outcome.RESTRICT,
        Reason.RESTRICTED,
    ),
    (
        "the environment forbids to update",
        [facts(properties=TEXT)],
        {"restricted": frozenset({"update"})},
        "a1",
        Outcome.RESTRICT,
        Reason.RESTRICTED,
    ),
    (
        "a restriction of another operation",
        [facts(properties=TEXT)],
        {"restricted": frozenset({"replace"})},
        "a1",
        Outcome.UPDATE,
        Reason.DEFINITION_CHANGED,
    ),
    (
        "the network that it is joined to is another",
        [facts(kind=Joined, net=NEW_NET)],
        {},
        "a1",
        Outcome.UPDATE,
        Reason.JOINED_REPLACED,
    ),
    (
        "outside of a repair nothing is joined again",
        [part(Involvement.OUTSIDE, facts(kind=Joined, net=NEW_NET))],
        {},
        "a1",
        Outcome.KEEP,
        Reason.OUTSIDE,
    ),
    (
        "a step that rebuilds",
        [part(Involvement.SELECTED, facts(MARKED, Rebuilt), RepairStep.REBUILD)],
        {},
        "a1",
        Outcome.REBUILD,
        Reason.SELECTED,
    ),
    (
        "a step that reboots",
        [part(Involvement.SELECTED, facts(MARKED, Rebooted), RepairStep.REBOOT)],
        {},
        "a1",
        Outcome.REBOOT,
        Reason.SELECTED,
    ),
    (
        "a reboot is not repeated, whatever the definition says now",
        [part(Involvement.SELECTED, facts(kind=Rebooted, is_done=True, properties=TEXT), RepairStep.REBOOT)],
        {},
        "a1",
        Outcome.KEEP,
        Reason.ALREADY_DONE,
    ),
    (
        "a reboot of a protected object",
        [part(
            Involvement.SELECTED, facts(MARKED, Rebooted, answers={"protection": lambda: PROTECTED}), RepairStep.REBOOT
        )],
        {},
        "a1",
        Outcome.REBOOT,
        Reason.SELECTED,
    ),
    (
        "a repair of a protected object",
        [part(Involvement.SELECTED, facts(MARKED, answers={"protection": lambda: PROTECTED}))],
        {},
        "a1",
        Outcome.PROTECT,
        Reason.PROTECTED,
    ),
    ("the network is the same", [facts(kind=Joined)], {}, "a1", Outcome.KEEP, Reason.UNCHANGED),
    ("other types are not joined", [facts(net=NEW_NET)], {}, "a1", Outcome.KEEP, Reason.UNCHANGED),
    (
        "a type without an update cannot be joined again",
        [facts(kind=JoinedFixed, net=NEW_NET)],
        {},
        "a1",
        Outcome.KEEP,
        Reason.UNCHANGED,
    ),
    (
        "an external object is not joined again",
        [facts(row(external_id="e"), kind=Joined, net=NEW_NET, external_id="e")],
        {},
        "a1",
        Outcome.KEEP,
        Reason.EXTERNAL_WELL,
    ),
    (
        "the network of a parent stack was replaced",
        [facts(kind=Joined)],
        {"replaced_above": frozenset({"Test::Net"})},
        "a1",
        Outcome.UPDATE,
        Reason.JOINED_REPLACED,
    ),
    (
        "a failed update may not have joined it",
        [facts(row(UPDATE, FAILED), kind=Joined, answers={"needs_replace_failed": no})],
        {},
        "a1",
        Outcome.UPDATE,
        Reason.JOINED_REPLACED,
    ),
    (
        "the type can make it again in place",
        [facts(kind=Rebuilt, order="rebuild", **REPLACES)],
        {},
        "a1",
        Outcome.REBUILD,
        Reason.NOT_UPDATABLE,
    ),
    (
        "the type cannot",
        [facts(order="rebuild", **REPLACES)],
        {},
        "a1",
        Outcome.REPLACE,
        Reason.NOT_UPDATABLE,
    ),
    (
        "without an object there is nothing to make again",
        [facts(row(CREATE, FAILED, physical_id=None), kind=Rebuilt, order="rebuild")],
        {},
        "a1",
        Outcome.REPLACE,
        Reason.FAILED,
    ),
    (
        "an object that is going is not made again",
        [facts(row(DELETE, RUNS), kind=Rebuilt, order="rebuild")],
        {},
        "a1",
        Outcome.REPLACE,
        Reason.DELETION_BEGUN,
    ),
    (
        "nor as an object of another type",
        [facts(kind=Rebuilt, was=Thing, order="rebuild")],
        {},
        "a1",
        Outcome.REPLACE,
        Reason.TYPE_CHANGED,
    ),
]


@table(
    ("candidates", "limits", "chosen", "outcome", "reason"),
    [case[1:] for case in CHOICES],
)
def test_choose(
    candidates: list[RowFacts], limits: dict[str, Any], chosen: str, outcome: Outcome, reason: Reason
) -> None:
    found = choose(candidates, **{"restricted": frozenset(), "replaced_above": frozenset(), **limits})
    assert (found.row.id, found.outcome, found.reason) == (chosen, outcome, reason)


@table(
    ("given", "first"),
    [
        (facts(), False),
        (facts(order="delete_first"), True),
        (facts(order="create_first", answers={"excludes": never}), False),
        (facts(answers={"excludes": yes}), True),
        (facts(order="rebuild", answers={"excludes": yes}), True),
        (facts(answers={"keeps_joined": yes}), True),
        (facts(order="create_first", answers={"keeps_joined": never}), False),
        (facts(row(deletion_policy="Retain"), order="delete_first"), False),
        (facts(was=Fixed, answers={"excludes": never}), False),
        (facts(was=Fixed, order="delete_first"), True),
    ],
)
def test_deletes_first(given: RowFacts, first: bool) -> None:
    assert deletes_first(given) is first


@table(
    ("one", "state", "marked"),
    [
        (row(CHECK, FAILED), (CREATE, DONE), True),
        (row(CHECK, FAILED), (CHECK, FAILED), False),
        (MARKED, (CHECK, FAILED), True),
        (row(CHECK), (CREATE, DONE), False),
        (replace(MARKED, verb=UPDATE), (CREATE, DONE), False),
    ],
)
def test_is_marked(one: ResourceRecord, state: tuple[Verb, Status], marked: bool) -> None:
    """A failed check of a nested stack is a mark, unless its own check failed."""
    assert is_marked(one, state) is marked
