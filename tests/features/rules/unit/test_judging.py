"""Judgements: the strictest result, patterns of types, errors."""

from collections.abc import Iterator
from datetime import UTC, datetime
from fnmatch import fnmatchcase
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec import convert
from msgspec.structs import replace

from heatlite.features.change_policy.effective import Occasion, PlacedRule, PlanRule, PolicyOrigin, RuleResult
from heatlite.features.rules.expressions import MANY
from heatlite.features.rules.judging import MOST_SECONDS, judged
from heatlite.features.rules.plan_lines import lines
from heatlite.features.rules.scene import RuleScene, SeenResource

RANKS = {"warn": 0, "approve": 1, "deny": 2}
TYPES = ("OS::Nova::Server", "OS::Neutron::Net", "OS::Neutron::Port")


def rule(name: str = "r", origin: PolicyOrigin = PolicyOrigin.PROJECT, **keys: Any) -> PlacedRule:
    told = {"name": name, "for": "resource", "when": "true", "then": "deny", "message": "no", **keys}
    return PlacedRule(origin, convert(told, PlanRule))


def seen(*types: str) -> RuleScene:
    resources = [
        SeenResource(f"r{place}", (one, one), {"path": f"r{place}", "type": one, "properties": {}})
        for place, one in enumerate(types)
    ]
    return RuleScene({"operation": "update"}, {}, datetime(2026, 1, 1, tzinfo=UTC), resources)


RULES = st.lists(
    st.fixed_dictionaries(
        {
            "for": st.sampled_from(["resource", "plan"]),
            "when": st.sampled_from(["true", "false", "plan.nope == 1", "plan.operation == 'update'"]),
            "then": st.sampled_from(["deny", "approve", "warn"]),
            "on_error": st.sampled_from(["deny", "approve", "warn"]),
            "on": st.lists(st.sampled_from([*Occasion]), min_size=1, max_size=5),
            "types": st.lists(st.sampled_from(["*", "OS::Neutron::*", "OS::Nova::Server", "X"]), max_size=2),
        }
    ),
    max_size=6,
)


@given(RULES, st.lists(st.sampled_from(TYPES), max_size=4), st.sampled_from([*Occasion]))
def test_all_are_asked_and_the_strictest_counts(
    told: list[dict[str, Any]], types: list[str], occasion: Occasion
) -> None:
    """B1 and B2, as a model of a few lines says."""
    rules = [rule(f"r{place}", **one) for place, one in enumerate(told)]
    expected = list[tuple[str, str, str | None]]()
    for place, one in enumerate(told):
        if occasion not in one["on"]:
            continue
        effect = {"false": None, "plan.nope == 1": one["on_error"]}.get(one["when"], one["then"])
        paths: list[str | None] = [None]
        if one["for"] == "resource":
            patterns = one["types"] or ["*"]
            paths = [f"r{n}" for n, kind in enumerate(types) if any(fnmatchcase(kind, each) for each in patterns)]
        expected += [(f"r{place}", effect, path) for path in paths if effect is not None]
    found = judged(rules, occasion, seen(*types), {})
    assert sorted(map(str, expected)) == sorted(str((x.name, x.result.value, x.path)) for x in found.findings)
    strictest = max((effect for _, effect, _ in expected), key=RANKS.__getitem__, default=None)
    assert (found.strictest and found.strictest.value) == strictest
    for one in found.findings:
        assert ("could not be evaluated" in one.message) == (told[int(one.name[1:])]["when"] == "plan.nope == 1")


def test_reasons_of_approvals() -> None:
    told = [rule("a", then="approve"), rule("b", then="approve", **{"for": "plan"}), rule("c")]
    assert judged(told, Occasion.UPDATE, seen(*TYPES), {}).reasons == ["rule:b", "rule:a"]
    assert judged(told, Occasion.UPDATE, seen(), {}).reasons == ()
    assert judged(told, Occasion.DELETE, seen(), {}).reasons == ["rule:b"]


def test_an_error_names_itself() -> None:
    found = judged([rule(when="resource.properties.nope == 1", on_error="warn")], Occasion.CREATE, seen(TYPES[0]), {})
    assert found.errors == 1
    assert [*lines(found.findings)] == [
        '! warn r  r0: no (the rule could not be evaluated: Key not found in map : "nope")'
    ]
    assert found.strictest is RuleResult.WARN


@pytest.mark.parametrize("about", ["resource", "plan"])
@pytest.mark.parametrize(("count", "at_most"), [(MANY, "resource"), (MANY + 1, "plan"), (9_000, "plan"), (10_001, "")])
def test_a_rule_on_a_large_plan_is_exact_or_says_that_it_is_not(about: str, count: int, at_most: str) -> None:
    """B2: beyond a bound it strikes by its error, whatever it would say."""
    scene, about_one = seen(*TYPES[1:2] * (count - 1), TYPES[0]), {"for": about, "types": [TYPES[0]]}
    listed: Any = [{"path": one.path, "type": one.types[0], "action": "update"} for one in scene.resources]
    scene = replace(scene, plan={**scene.plan, "resources": listed, "counts": {"update": count}})
    exact = about == at_most or at_most == "resource"
    for action, strikes in (("replace", False), ("update", True)):
        when = f"plan.resources.exists(r, r.action == '{action}' && r.path == 'r{count - 1}')"
        found = judged([rule(when=when, on_error="warn", **about_one)], Occasion.UPDATE, scene, {})
        assert found.errors == (0 if exact else 1)
        results = {one.result for one in found.findings}
        assert results == ({RuleResult.DENY} if strikes and exact else {RuleResult.WARN} if not exact else set())
        for one in found.findings:
            said = "has up to 1000 resources" if about == "resource" else "budget"
            assert (said in one.message) != exact
    counted = rule(when=f"plan.counts.update == {count}", **about_one)
    assert [one.result for one in judged([counted], Occasion.UPDATE, scene, {}).findings] == [RuleResult.DENY]


def test_a_limit_of_time_for_all_expressions(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rules that are left then cannot be evaluated, and say so once each."""
    quick, other = rule("quick", when="false", types=[TYPES[0]]), rule("other", types=[TYPES[2]])
    whole, slow = rule("whole", when="false", **{"for": "plan"}), rule("slow", when="false", on_error="approve")
    rules, plan = [quick, other, slow, whole], seen(*TYPES[:2] * 100)
    assert judged(rules, Occasion.UPDATE, plan, {}).findings == []
    for evaluated, late in ((0, ["whole", "quick", "slow"]), (2, ["quick", "slow"]), (200, ["slow"])):
        asked = iter(range(1000))

        def clock(asked: Iterator[int] = asked, evaluated: int = evaluated) -> float:
            return 0.0 if next(asked) <= evaluated else MOST_SECONDS

        monkeypatch.setattr("heatlite.features.rules.judging.thread_time", clock)
        found = judged(rules, Occasion.UPDATE, plan, {})
        assert [one.name for one in found.findings] == late and found.errors == len(late)
        assert {(one.path, "seconds of a processor" in one.message) for one in found.findings} == {(None, True)}
    assert found.strictest is RuleResult.APPROVE


def test_an_alias_of_a_type_does_not_pass() -> None:
    one = SeenResource("a", ("My::Net", "OS::Neutron::Net"), {})
    scene = RuleScene({}, {}, datetime(2026, 1, 1, tzinfo=UTC), [one])
    for pattern in ("OS::Neutron::*", "My::*"):
        assert judged([rule(types=[pattern])], Occasion.CREATE, scene, {}).findings


def test_repairs_are_asked_only_if_the_rule_says_so() -> None:
    """B6."""
    assert not judged([rule()], Occasion.HEAL, seen(TYPES[0]), {}).findings
    assert judged([rule(on=["heal"])], Occasion.HEAL, seen(TYPES[0]), {}).findings
    assert not judged([rule(on=["heal"])], Occasion.DELETE, seen(TYPES[0]), {}).findings
