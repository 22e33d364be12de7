"""Expressions: results, errors, faults with their places, and bounds."""

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

from heatlite.features.rules.expressions import MANY, Bound, Variables, fault, joined, plain
from tests.tables import table

MONDAY = datetime(2026, 11, 30, 7, 30, tzinfo=UTC)
RESOURCE: dict[str, Any] = {
    "path": "web/2/server",
    "type": "OS::Nova::Server",
    "action": "update",
    "physical_id": None,
    "properties": {"flavor": "m1.tiny", "count": 3, "tags": ["a", "b"], "ratio": 0.5, "on": True, "none": None},
    "old": {"flavor": "m1.small"},
    "changed": ["flavor"],
    "unknown": ["image"],
    "protected": False,
}
PLAN: dict[str, Any] = {
    "operation": "update", "project": "demo", "stack": "web", "tags": ["production"],
    "counts": {"create": 0, "update": 1, "replace": 0, "delete": 2, "keep": 7},
    "resources": [{"path": "web/2/server", "type": "OS::Nova::Server", "action": "update"}],
}  # fmt: skip


def bound(resource: dict[str, Any] | None = RESOURCE) -> Bound:
    return Bound(Variables(PLAN, {"name": "ada", "roles": ["member"]}, MONDAY), resource)


@table(
    ("text", "result"),
    [
        ("resource.path == 'web/2/server'", True),
        ("resource.type.startsWith('OS::Nova::')", True),
        ("resource.action in ['update', 'replace']", True),
        ("resource.physical_id == null", True),
        ("resource.properties.flavor == 'm1.tiny' && resource.old.flavor == 'm1.small'", True),
        ("resource.properties.count > 2 && resource.properties.ratio < 1.0", True),
        ("'b' in resource.properties.tags", True),
        ("resource.properties.on", True),
        ("has(resource.properties.image)", False),
        ("resource.properties.none == null", True),
        ("'flavor' in resource.changed && 'image' in resource.unknown", True),
        ("resource.protected", False),
        ("resource.properties.flavor.matches('^m1[.]')", True),
        ("resource.properties.tags.exists_one(t, t == 'a')", True),
        ("resource.properties.tags.all(t, t in ['a', 'b'])", True),
        ("resource.properties.tags.filter(t, t != 'a') == ['b']", True),
        ("plan.operation == 'update' && plan.project == 'demo' && plan.stack == 'web'", True),
        ("'production' in plan.tags && plan.counts.delete > 0", True),
        ("plan.counts.create + plan.counts.update + plan.counts.replace + plan.counts.keep == 8", True),
        ("plan.resources.exists(r, r.type == 'OS::Nova::Server' && r.action == 'update')", True),
        ("user.name == 'ada' && 'member' in user.roles", True),
        ("now.getHours('Europe/Vienna') == 8 && now.getDayOfWeek('Europe/Vienna') == 1", True),
        ("now < timestamp('2026-12-01T00:00:00Z') && now + duration('24h') > now", True),
    ],
)
def test_the_variables(text: str, result: bool) -> None:
    assert fault(text, True) is None
    assert bound().result(text) is result
    assert bound().result(joined([text, "false"])) is result


@table(
    "text",
    [
        "resource.path == 'web/2/server' && plan.counts.update == 1 && user.name == 'ada'",
        "resource . path == 'web/2/server' && plan\n.\n counts.update == 1 && user . name == 'ada'",
        "resource. // no\n path == 'web/2/server' && now > timestamp('2026-01-01T00:00:00Z')",
        "resource.properties['flavor'] == 'm1.tiny' && 'production' in plan.tags",
        "resource.old.flavor == 'm1.small' && !resource.protected && resource.changed == ['flavor']",
    ],
)
def test_only_what_is_named_is_taken(text: str) -> None:
    """Wherever blanks and comments are."""
    one = Variables(PLAN, {"name": "ada", "roles": ["member"]}, MONDAY).named_in(joined([text, "false"]))
    assert Bound(one, RESOURCE).result(text) is True
    assert len(one.few) + len(one.fields) < 10


def test_rules_on_plans_have_no_resource() -> None:
    assert "line 1, column 9: undeclared reference to 'resource.path'" in str(fault("resource.path == 'a'", False))
    assert bound(None).result("plan.counts.delete == 2") is True


@table(
    ("text", "error"),
    [
        ("resource.properties.nope == 1", "Key not found in map"),
        ("resource.properties.flavor", "no bool, but of the type STRING"),
        ("resource.properties.count / 0 == 1", "divide by zero"),
        ("resource.properties.flavor > 1", "No matching overload"),
        ("now.getHours('No/Where') == 1", "Invalid timezone"),
        ("plan.tags.all(a, plan.tags.all(b, plan.tags.all(c, a != '')))", "Iteration budget exceeded"),
        ("plan.counts.nope == 1", "Key not found in map"),
    ],
)
def test_what_cannot_be_evaluated(text: str, error: str) -> None:
    """B2: each is an error, also if other rules are asked at once."""
    assert fault(text, True) is None
    one = Bound(Variables({**PLAN, "tags": ["a"] * 120}, {}, MONDAY), RESOURCE)
    assert error in str(one.result(text))
    assert one.result(joined([text])) is not False
    assert one.result(joined(["false", text, "1 == 2 // no"])) is not False


@table(
    ("text", "place"),
    [
        ("resource.", "line 1, column 10"),
        ("1 == 1 &&\n\n foo", "line 3, column 2: undeclared reference to 'foo'"),
        ("'abc", "line 1, column 1"),
        ("resource.path.all(x)", "line 1, column"),
        ("resource.nope == 1", "line 1, column 9: undeclared reference to 'resource.nope'"),
        ("plan.stack > 1", "line 1, column 12: found no matching overload"),
        ("'a' == 1", "line 1, column 5"),
        ("", "line 1, column 1"),
        ("1", "no bool, but of the type INT"),
        ("[true]", "no bool, but of the type LIST"),
        ("now + 1 == now", "line 1, column 5"),
    ],
)
def test_a_faulty_rule_is_told_with_its_place(text: str, place: str) -> None:
    """B5."""
    assert place in str(fault(text, True))


def chain(number: int, link: str) -> str:
    return "['aaaaaaaaaa']" + link * number


@table(
    "text",
    [
        "(" * 1000 + "true" + ")" * 1000,
        "[" * 500 + "1" + "]" * 500 + " == []",
        "+".join(["1"] * 900) + " == 1",
        "resource" + ".a" * 900 + " == 1",
        "size(" * 300 + "'a'" + ")" * 300 + " == 1",
        chain(30, ".map(y, y + y)") + ".size() == 0",
        chain(20, ".map(y, [y, y])") + " == []",
        "resource.properties.l.map(a, resource.properties.l) == resource.properties.l.map(a, resource.properties.l)",
        "[resource.properties.s].exists(y, [y, y].exists(z, z == y))",
        "[resource.properties.s].exists(y, [[y]].size() == 1)",
        "[resource.properties.s].exists(y, {'a': y}.size() == 1)",
        "[resource.properties.s].exists(y, y + y == 'a')",
        "resource.properties.l.all(a, resource.properties.l.all(b, size(resource.properties.s + 'x') > 0))",
        "resource.properties.l.filter(a, a in [resource.properties.s]) == []",
        "[1].all(x, r'\"' == '\"' && x + 1 > 0)",
        "[1].all(x, \"\\\"\" + 'a' == '\"')",
        "[1].all(x, '''\n''' + 'a' == \"\")",
        "[1].all(x, 1 == 1 // '\n && x + 1 > 0 // '\n)",
    ],
)
def test_hostile_expressions_are_refused(text: str) -> None:
    """Nesting is bounded by the library. What could grow is refused by us."""
    assert "line" in str(fault(text, True))


@table(
    "text",
    [
        "resource.properties.l.exists(a, a in ['0.0.0.0/0', '::/0', null, true, 1, -1])",
        "resource.properties.l.exists(a, resource.properties.d[a] == 'map' || a == '+')",
        "resource.properties.l.exists(a, a.kind == 'x + y') // a + b",
        "size(resource.properties.l) + size(resource.properties.d) > 3",
        "resource.properties.maps.exists(a, a == 1)",
        "[1, 2].exists(a, a in resource.properties.l)",
    ],
)
def test_what_cannot_grow_is_accepted(text: str) -> None:
    assert fault(text, True) is None


def test_long_loops_end() -> None:
    """The budget counts for nested loops, for each evaluation anew."""
    long = {**RESOURCE, "properties": {"l": [*range(9_000)]}}
    one = bound(long)
    assert one.result("resource.properties.l.all(a, a >= 0)") is True
    assert one.result("resource.properties.l.all(a, a >= 0)") is True
    assert "budget" in str(one.result("resource.properties.l.all(a, a >= 0) && resource.properties.l.all(a, a >= 0)"))


def test_threads_share_expressions() -> None:
    def ask(number: int) -> bool | str:
        return bound({**RESOURCE, "properties": {"n": number}}).result("resource.properties.n % 2 == 0")

    with ThreadPoolExecutor(4) as threads:
        assert [*threads.map(ask, range(400))] == [number % 2 == 0 for number in range(400)]


def test_large_plans() -> None:
    """A plan of many is not converted for each of its resources."""
    for count in (MANY, MANY + 1):
        variables = Variables({**PLAN, "resources": PLAN["resources"] * count}, {}, MONDAY)
        text = "plan.resources.exists(r, r.action == 'update')"
        assert Bound(variables).result(text) is True
        found = Bound(variables, RESOURCE).result(text)
        assert found is True if count == MANY else "plan.resources" in str(found)


def test_odd_values() -> None:
    odd = plain({"a": 2**63, "b": [-(2**70), 10**400, 2**63 - 1], "c\ud800": "\udfff", "d": True, "e": None, "f": "é"})
    assert odd == {"a": 2.0**63, "b": [-(2.0**70), float("inf"), 2**63 - 1], "c?": "?", "d": True, "e": None, "f": "é"}
    assert bound({**RESOURCE, "properties": odd}).result("resource.properties.a > 9.0") is True
