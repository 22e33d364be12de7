"""Plans from decisions: steps, order, and replacements after other deletions."""

from collections.abc import Callable, Mapping

import pytest
from msgspec.structs import replace

from heatlite.core.json import Json
from heatlite.core.status import Status, Verb
from heatlite.engine.planning import planner
from heatlite.engine.planning.facts import Choice, HolderFacts, ObjectRelations
from heatlite.engine.planning.plan import Outcome, Plan, Reason, ResourceDecision
from heatlite.engine.state.protected import Protected
from heatlite.plugin.resource import ResourceType
from heatlite.store.records import PreviousState, ProtectionRecord, ResourceRecord, StackRecord
from heatlite.template.document import Definition, Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN
from tests.tables import table

from .rows import Thing, row, wanted


def referred(name: str) -> Json:
    return {"get_resource": name}


def define(registry: Json = None, refer: Callable[[str], Json] = referred, **uses: str) -> Definition:
    """Return a definition by the references of each resource: ``b="a"``."""
    resources: dict[str, Json] = {
        name: {"type": "Test::Thing", "properties": {"text": "x", "net": [refer(one) for one in used.split()]}}
        for name, used in uses.items()
    }
    document: Mapping[str, Json] = {"heat_template_version": "2021-04-16", "resources": resources}
    environment = Environment(resource_registry=registry) if isinstance(registry, dict) else Environment()
    return Template(document).bind(environment, {})


def stored(name: str, using: str = "", **fields: object) -> ResourceRecord:
    """Return the row of a finished object that uses those in its text."""
    names = sorted(using.split())
    found = {"requires": tuple(names), "uses": tuple(f"{one}1" for one in names), **fields}
    return row(name=name, identifier=f"{name}1", **found)  # type: ignore[arg-type]


def choice(
    definition: Definition,
    one: ResourceRecord,
    outcome: Outcome = Outcome.KEEP,
    first: bool = False,
    kind: ResourceType = Thing,
    changed: frozenset[str] = frozenset(),
    order: str | None = None,
) -> Choice:
    properties = dict.fromkeys(changed, UNKNOWN)
    decision = ResourceDecision(outcome, one, Reason.UNCHANGED, "because", changed, deletes_first=first)
    return Choice(decision, wanted(kind, properties, order=order, definition=definition))


NOTHING = ObjectRelations(lambda _: frozenset(), lambda _: frozenset())


def relations(
    blocks: str = "",
    joins: str = "",
    takes: str = "",
    members: Mapping[str, HolderFacts] | None = None,
) -> ObjectRelations:
    """Return relations by name; ``takes="a b"``: the deletion of a takes b along."""
    kinds = frozenset({"Test::Thing"})
    within = members or {}
    return ObjectRelations(
        lambda one: kinds if one.name in blocks.split() else frozenset(),
        lambda one: kinds if one.name in joins.split() else frozenset(),
        lambda one, used: takes == f"{one.name} {used.name}",
        lambda one: [within[one.name]] if one.name in within else [],
    )


def shown(plan: Plan) -> dict[str, tuple[str, str]]:
    return {key: (step.outcome.value, " ".join(step.requires)) for key, step in plan.steps.items()}


# -- steps -----------------------------------------------------------------------------------------


def test_what_has_no_row_is_created_after_what_it_requires() -> None:
    definition = define(a="", b="a")
    plan = planner.plan_converge(definition, [], {"a": None, "b": None}, NOTHING)
    assert shown(plan) == {"a": ("create", ""), "b": ("create", "a")}


def test_nothing_to_do() -> None:
    definition, rows = define(a="", b="a"), [stored("a"), stored("b", "a")]
    choices = {one.name: choice(definition, one) for one in rows}
    plan = planner.plan_converge(definition, rows, choices, NOTHING)
    assert not plan.steps
    assert plan.kept == {"a": rows[0], "b": rows[1]}


def test_what_follows_a_step_is_a_step() -> None:
    """Its values may change with the step that it follows."""
    definition, rows = define(a="", b="a", c=""), [stored("a"), stored("b", "a"), stored("c")]
    choices = {
        "a": choice(definition, rows[0], Outcome.UPDATE),
        "b": choice(definition, rows[1]),
        "c": choice(definition, rows[2]),
    }
    plan = planner.plan_converge(definition, rows, choices, NOTHING)
    assert shown(plan) == {"a": ("update", ""), "b": ("keep", "a")}
    assert set(plan.kept) == {"c"}


@table(
    "one",
    [
        stored("a", description="another"),
        stored("a", deletion_policy="Retain"),
        stored("a", requires=("gone",)),
        stored("a", uses=("gone1",)),
        row(Verb.UPDATE, Status.FAILED, requires=(), uses=()),
    ],
)
def test_a_kept_row_that_must_be_rewritten_is_a_step(one: ResourceRecord) -> None:
    definition = define(a="")
    plan = planner.plan_converge(definition, [one], {"a": choice(definition, one)}, NOTHING)
    assert shown(plan) == {"a": ("keep", "")}


def test_a_kept_resource_with_a_hook_is_a_step() -> None:
    definition = define({"resources": {"a": {"hooks": "pre-update"}}}, a="")
    one = stored("a")
    plan = planner.plan_converge(definition, [one], {"a": choice(definition, one)}, NOTHING)
    assert shown(plan) == {"a": ("keep", "")}


# -- replacements ----------------------------------------------------------------------------------


def replaced(
    relate: ObjectRelations,
    going: str,
    first: str = "",
    chain: Mapping[str, str] | None = None,
    rows: Mapping[str, ResourceRecord] | None = None,
) -> Plan:
    """Plan a stack c → b → a in which the resources in `going` are replaced."""
    uses = {"a": "", "b": "a", "c": "b"} if chain is None else chain
    definition = define(**uses)
    existing = {name: (rows or {}).get(name, stored(name, used)) for name, used in uses.items()}
    choices = {
        name: choice(
            definition, one, Outcome.REPLACE if name in going.split() else Outcome.KEEP, name in first.split()
        )
        for name, one in existing.items()
    }
    return planner.plan_converge(definition, existing.values(), choices, relate)


def test_create_first_deletes_nothing_early() -> None:
    plan = replaced(relations(blocks="b c"), going="a b c")
    assert shown(plan) == {"a": ("replace", ""), "b": ("replace", "a"), "c": ("replace", "b")}


def test_blocking_objects_go_first_one_after_the_other() -> None:
    plan = replaced(relations(blocks="b c"), going="a b c", first="a")
    assert shown(plan) == {
        "a": ("replace", "b1"),
        "b": ("replace", "a"),
        "c": ("replace", "b"),
        "b1": ("delete", "c1"),
        "c1": ("delete", ""),
    }
    assert plan.steps["b"].deletes_first
    assert not plan.refused


def test_a_user_that_blocks_nothing_goes_later() -> None:
    plan = replaced(relations(), going="a b", first="a")
    assert shown(plan) == {"a": ("replace", ""), "b": ("replace", "a"), "c": ("keep", "b")}


REFUSALS = [
    ("a blocking object stays", relations(blocks="b"), "a", "a", {"a": "b needs it, and stays"}),
    (
        "what waits for it cannot go either",
        relations(blocks="b c"),
        "a b",
        "a",
        {"b": "c needs it, and stays", "a": "c needs it, and stays"},
    ),
    ("a joined object is detached instead", relations(blocks="b", joins="b"), "a", "a", {}),
    (
        "it cannot be detached, because another object goes with it",
        relations(blocks="b", joins="b", takes="c b"),
        "a",
        "a",
        {"a": "b cannot leave it for another"},
    ),
    (
        "also where the new object is made first",
        relations(joins="b", takes="c b"),
        "a",
        "",
        {"a": "b cannot leave it for another"},
    ),
    (
        "a resource that stays would be deleted along",
        relations(takes="b a"),
        "b",
        "b",
        {"b": "a goes with it, and stays in the stack"},
    ),
    ("one that is replaced may be deleted along", relations(takes="b a"), "a b", "b", {}),
    (
        "a member of a nested stack holds it",
        relations(members={"b": HolderFacts("port", frozenset({"Test::Thing"}), {"net": "a1-object"})}),
        "a",
        "a",
        {"a": "b.port needs it, and stays"},
    ),
    (
        "a member that uses another object does not",
        relations(members={"b": HolderFacts("port", frozenset({"Test::Thing"}), {"net": "other"})}),
        "a",
        "a",
        {},
    ),
    (
        "a member of a type that can be detached does not",
        relations(members={"b": HolderFacts("port", frozenset(), {"net": "a1-object"})}),
        "a",
        "a",
        {},
    ),
]


@table(
    ("relate", "going", "first", "refused"), [case[1:] for case in REFUSALS]
)
def test_impossible_replacements(relate: ObjectRelations, going: str, first: str, refused: dict[str, str]) -> None:
    plan = replaced(relate, going, first)
    assert plan.refused.keys() == refused.keys()
    for name, why in refused.items():
        assert f"cannot be replaced: {why}." in plan.refused[name]
        assert plan.steps[name].outcome is Outcome.REFUSE


def test_a_retained_object_blocks_although_it_is_replaced() -> None:
    """Its object stays when the resource goes."""
    rows = {"b": stored("b", "a", deletion_policy="Retain")}
    assert set(replaced(relations(blocks="b"), going="a b", first="a", rows=rows).refused) == {"a"}


@pytest.mark.parametrize("fields", [{"physical_id": None}, {"external_id": "e"}])
def test_a_row_without_an_object_of_ours_blocks_nothing(fields: dict[str, object]) -> None:
    rows = {"b": stored("b", "a", **fields)}
    assert not replaced(relations(blocks="b"), going="a", first="a", rows=rows).refused


def test_a_replacement_that_a_value_may_prevent_refuses_nothing() -> None:
    """The property that differs is unknown; the reference in it may stay the same."""
    definition, rows = define(a="", b="a"), [stored("a"), stored("b", "a")]
    choices = {
        "a": choice(definition, rows[0], Outcome.REPLACE, True, changed=frozenset({"text"})),
        "b": choice(definition, rows[1]),
    }
    assert not planner.plan_converge(definition, rows, choices, relations(blocks="b")).refused


class Lasting(Thing):
    """A type whose replacement may have the same reference."""

    lasting_reference = True


def in_text(name: str) -> Json:
    return {"str_replace": {"template": "x-N", "params": {"N": referred(name)}}}


def by_attribute(name: str) -> Json:
    """It may be the same for another object."""
    return {"get_attr": [name, "show"]}


@table(
    ("refer", "kind", "refused"),
    [
        (referred, Thing, {"b"}),
        (referred, Lasting, set()),
        (in_text, Thing, {"b"}),
        (in_text, Lasting, set()),
        (by_attribute, Thing, set()),
    ],
)
def test_a_new_reference_makes_the_replacement_certain(
    refer: Callable[[str], Json], kind: ResourceType, refused: set[str]
) -> None:
    definition = define(refer=refer, a="", b="a", c="b")
    rows = [stored("a"), stored("b", "a"), stored("c", "b")]
    net = frozenset({"net"})
    choices = {
        "a": choice(definition, rows[0], Outcome.REPLACE, kind=kind),
        "b": choice(definition, rows[1], Outcome.REPLACE, True, changed=net),
        "c": choice(definition, rows[2]),
    }
    assert set(planner.plan_converge(definition, rows, choices, relations(blocks="c")).refused) == refused


@pytest.mark.parametrize("lasts", [False, True])
def test_so_does_a_reference_to_a_new_resource(lasts: bool) -> None:
    definition = define(refer=referred, a="", b="a", c="b")
    rows = [stored("b"), stored("c", "b")]
    choices = {
        "a": None,
        "b": choice(definition, rows[0], Outcome.REPLACE, True, changed=frozenset({"net"})),
        "c": choice(definition, rows[1]),
    }
    related = replace(relations(blocks="c"), lasts=lambda _: lasts)
    assert ("b" in planner.plan_converge(definition, rows, choices, related).refused) is not lasts


# -- protection ------------------------------------------------------------------------------------


def test_a_plan_may_not_remove_protected_objects() -> None:
    definition, rows = define(a=""), [stored("a"), stored("old")]
    stack = StackRecord("s", "stack", "p", "u", "t", {}, Verb.CREATE, Status.COMPLETE, "", 1.0)
    held = Protected(stack, "x", ProtectionRecord("u", 1.0))
    plan = planner.plan_converge(definition, rows, {"a": choice(definition, rows[0])}, NOTHING)
    (found,) = planner.protected(plan, rows, lambda _: held)
    assert found.startswith("resources.old: it would be deleted, but resource x of stack stack is protected")
    assert not planner.protected(plan, rows, lambda _: None)


# -- plans of one operation --------------------------------------------------------------------------

SUSPENDED = PreviousState(Verb.SUSPEND, Status.COMPLETE, "")
ROWS = [
    stored("made"),
    row(Verb.INIT, name="never", identifier="never1", uses=("made1",)),
    row(Verb.DELETE, Status.FAILED, name="going", identifier="going1", uses=("made1",)),
    row(Verb.SUSPEND, name="asleep", identifier="asleep1", uses=("made1",)),
    row(Verb.LOCK, name="locked", identifier="locked1", uses=("made1",)),
    row(Verb.LOCK, name="both", identifier="both1", uses=("made1",), before_lock=SUSPENDED),
]


@table(
    ("plan", "names"),
    [
        (planner.plan_check(ROWS), "made asleep locked both"),
        (planner.plan_snapshot(ROWS), "made going asleep locked both"),
        (planner.plan_suspend(ROWS), "made going locked"),
        (planner.plan_resume(ROWS), "made going asleep locked both"),
        (planner.plan_lock(ROWS), "made asleep"),
        (planner.plan_unlock(ROWS), "locked both"),
        (planner.plan_nested(ROWS, Outcome.LOCK), "made asleep"),
        (planner.plan_deletions(ROWS, ["made1"]), "never going asleep locked both"),
    ],
)
def test_each_operation_takes_its_rows(plan: Plan, names: str) -> None:
    assert [step.name for step in plan.steps.values()] == names.split()


def test_requirements_come_first_and_dependents_go_first() -> None:
    rows = [stored("a"), stored("b", "a")]
    assert shown(planner.plan_check(rows)) == {"a1": ("check", ""), "b1": ("check", "a1")}
    assert shown(planner.plan_deletions(rows, [])) == {"a1": ("delete", "b1"), "b1": ("delete", "")}


def test_a_row_is_passed_over_unless_an_older_one_uses_it() -> None:
    old, new = stored("a"), row(name="a", identifier="a2")
    assert planner.passed_over([old, new], {"a": old}) == [new]
    assert planner.passed_over([old, new], {"a": new}) == []
    assert planner.passed_over([old, new, stored("gone", uses=("a2",))], {"a": old}) == []


def test_rows_in_a_circle_can_be_deleted() -> None:
    rows = [stored("a", "b"), stored("b", "a"), stored("c", "a")]
    assert shown(planner.plan_deletions(rows, [])) == {
        "a1": ("delete", "c1"),
        "b1": ("delete", ""),
        "c1": ("delete", ""),
    }


def test_names_come_after_what_they_require() -> None:
    assert planner.ordered(define(c="b", b="a", a="", d="").resources) == ["a", "b", "c", "d"]
