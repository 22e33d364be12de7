"""A schema: coercion, faults, comparison, wire form."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import StackValidationFailed
from heatlite.core.json import Json
from heatlite.plugin import Schema, custom_constraint, prop
from heatlite.template.expression import UNKNOWN
from heatlite.template.types import Fault
from tests.tables import table


class Rule(Schema):
    port: int = prop(between=(1, 65535), doc="Where to listen.")
    protocol: str = prop("tcp", one_of=("tcp", "udp"), doc="How to talk.")


class Props(Schema):
    name: str = prop(length=(1, 8), pattern="[a-z]+", doc="A name.")
    size: int = prop(3, step=2, offset=1, update=True, doc="An odd number.")
    weight: float | None = prop(between=(0, None), update=True)
    on: bool = prop(False)
    rule: Rule | None = prop(update=True)
    rules: list[Rule] = prop([{"port": 1}], length=(None, 3), update=True)
    tags: list[str] = prop([], items=prop(length=(1, 3)))
    zone: str | None = prop(immutable=True)
    kind: str | None = prop(alias="class", one_of=("a", "b"))
    extra: dict[str, Json] | None = prop()
    anything: Json = prop(None)
    secret: str | None = prop(hidden=True)


@custom_constraint("tests.even")
def even(value: object) -> str | None:
    return None if isinstance(value, int) and value % 2 == 0 else "not even"


def faults(values: dict[str, object]) -> list[tuple[tuple[str | int, ...], str]]:
    return [(fault.path, fault.text) for fault in Props.check({"name": "a"} | values)]


# -- coercion ----------------------------------------------------------------------------------------


@table(
    ("given_value", "coerced"),
    [
        ({}, {}),
        ({"size": "5"}, {"size": 5}),
        ({"size": 5.0}, {"size": 5}),
        ({"weight": "1.5"}, {"weight": 1.5}),
        ({"weight": "2"}, {"weight": 2}),
        ({"on": "TRUE"}, {"on": True}),
        ({"on": False}, {"on": False}),
        ({"tags": ["a", 12]}, {"tags": ["a", "12"]}),
        ({"rule": {"port": "80"}}, {"rule": {"port": 80}}),
        ({"rules": ({"port": 80, "protocol": None},)}, {"rules": [{"port": 80}]}),
        ({"anything": [1, {"a": None}]}, {"anything": [1, {"a": None}]}),
        ({"zone": None, "extra": None}, {}),
    ],
)
def test_coercion_gives_what_was_given_in_the_right_type(given_value: Any, coerced: Any) -> None:
    values = Props.coerce({"name": "abc"} | given_value)
    assert repr(values) == repr({"name": "abc"} | coerced)


@table(
    ("given_value", "path", "text"),
    [
        ({"size": "abc"}, ("size",), "Value 'abc' is not an integer"),
        ({"size": 1.5}, ("size",), "Value '1.5' is not an integer"),
        ({"size": True}, ("size",), "Value 'True' is not an integer"),
        ({"size": [1]}, ("size",), "Value '[1]' is not an integer"),
        ({"weight": "abc"}, ("weight",), "could not convert string to float: 'abc'"),
        ({"weight": "nan"}, ("weight",), "Value 'nan' is not a number"),
        ({"weight": []}, ("weight",), "Value '[]' is not a number"),
        ({"name": 1.5}, ("name",), "Value must be a string; got 1.5"),
        ({"name": {}}, ("name",), "Value must be a string; got {}"),
        ({"on": "yes"}, ("on",), '"yes" is not a valid boolean'),
        ({"on": 1}, ("on",), '"1" is not a valid boolean'),
        ({"rules": "abc"}, ("rules",), "\"'abc'\" is not a list"),
        ({"rules": {}}, ("rules",), '"{}" is not a list'),
        ({"rule": "abc"}, ("rule",), '"abc" is not a map'),
        ({"rules": [{"port": 1}, {"port": "x"}]}, ("rules", 1, "port"), "Value 'x' is not an integer"),
        ({"rules": [None]}, ("rules", 0), "Property port not assigned"),
        ({"rule": {}}, ("rule",), "Property port not assigned"),
        ({"rule": {"port": 1, "zz": 1}}, ("rule",), "Unknown Property zz"),
        ({"name": None}, (), "Property name not assigned"),
        ({"zz": 1}, (), "Unknown Property zz"),
        ({"rule": {"port": 0}}, ("rule", "port"), "0 is out of range (min: 1, max: 65535)"),
        ({"weight": -1}, ("weight",), "-1 is out of range (min: 0, max: None)"),
        ({"name": ""}, ("name",), "length (0) is out of range (min: 1, max: 8)"),
        ({"rules": [{"port": 1}] * 4}, ("rules",), "length (4) is out of range (min: None, max: 3)"),
        ({"name": "aB"}, ("name",), '"aB" does not match pattern "[a-z]+"'),
        ({"name": "ab\n"}, ("name",), '"ab\n" does not match pattern "[a-z]+"'),
        ({"size": 4}, ("size",), "4 is not a multiple of 2 with an offset of 1"),
        ({"class": "c"}, ("class",), '"c" is not an allowed value [a, b]'),
        ({"tags": ["a", ""]}, ("tags", 1), "length (0) is out of range (min: 1, max: 3)"),
    ],
)
def test_each_fault_has_its_place_and_heats_text(given_value: Any, path: tuple[str | int, ...], text: str) -> None:
    assert (path, text) in faults(given_value)


def test_every_fault_is_found_unknown_names_first_then_in_schema_order() -> None:
    values = {"rules": [{"port": 0}], "size": "x", "nam": "a", "weight": "y"}
    assert [fault.path for fault in Props.check(values)] == [(), ("size",), ("weight",), ("rules", 0, "port")]


def test_a_misspelt_name_gets_a_hint() -> None:
    assert Props.check({"name": "a", "wieght": 1}) == [Fault((), "Unknown Property wieght", "Did you mean weight?")]


def test_a_misspelt_required_name_is_one_fault() -> None:
    assert Props.check({"nam": "a"}) == [Fault((), "Unknown Property nam", "Did you mean name?")]
    both = ["Unknown Property zz", "Property name not assigned"]
    assert [fault.text for fault in Props.check({"zz": "a"})] == both


def test_coerce_raises_all_faults_at_once() -> None:
    with pytest.raises(StackValidationFailed) as caught:
        Props.coerce({"size": "x", "on": "maybe"})
    assert caught.value.message == "Property error: properties: Property name not assigned"
    assert [problem.where for problem in caught.value.problems] == ["properties", "properties.size", "properties.on"]


def test_unknown_values_have_no_faults_and_stay() -> None:
    given_values = {"name": UNKNOWN, "rules": [UNKNOWN, {"port": UNKNOWN}], "tags": ["a", UNKNOWN], "class": UNKNOWN}
    assert Props.examine(given_values) == (given_values, [])


def test_allowed_values_of_a_list_hold_for_each_known_element() -> None:
    class Listed(Schema):
        actions: list[Json] = prop(["A"], one_of=("A", "B"))

    assert Listed.check({"actions": ["A", UNKNOWN, "B"]}) == []
    assert [f.text for f in Listed.check({"actions": ["A", "C"]})] == ["\"['A', 'C']\" is not an allowed value [A, B]"]


def test_custom_constraints_are_looked_up_by_name() -> None:
    class Customs(Schema):
        a: int | None = prop(custom="tests.even")
        b: int | None = prop(custom="test_constr")
        c: int | None = prop(custom="tests.nobody")
        d: list[str] | None = prop(custom="ip_addr")
        e: str | None = prop(custom="nova.flavor")

    faulty = {"a": 3, "b": 3, "c": 3, "d": ["192.0.2.1", "x"], "e": "any"}
    assert [(f.path, f.text) for f in Customs.check(faulty)] == [
        (("a",), "Error validating value '3': not even"),
        (("c",), '"3" does not validate tests.nobody (constraint not found)'),
        (("d",), '"x" does not validate ip_addr'),
    ]
    assert Customs.check({"a": 4, "d": ["2001:db8::1", UNKNOWN]}) == []


class Pair(Schema):
    low: int = prop(0)
    high: int = prop(10)

    def fault(self) -> str | None:
        return "low is above high" if self.low > self.high else None


def test_a_rule_about_several_properties_is_asked_when_these_are_known_and_all_are_fine() -> None:
    assert Pair.check({"low": 11}) == [Fault((), "low is above high")]
    assert Pair.check({"low": 11, "high": UNKNOWN}) == []
    assert [fault.path for fault in Pair.check({"low": 11, "high": "x"})] == [("high",)]


class Several(Pair):
    name: str | None = prop()
    pairs: list[Pair] | None = prop()
    notes: dict[str, Json] = prop({})

    def fault_name(self) -> str | None:
        return None if self.name is not None or self.pairs is not None else "a name or pairs are needed"

    def fault_notes(self) -> str | None:
        return "notes without a name" if self.name is None and self.notes else None

    def fault_many(self) -> str | None:
        return "too many" if len(self.given("low", "high", "name")) > 2 else None


@table(
    "values, faults",
    [
        ({"low": 11}, [((), "low is above high"), ((), "a name or pairs are needed")]),
        ({"low": UNKNOWN}, [((), "a name or pairs are needed")]),
        ({"name": UNKNOWN}, []),
        ({"name": None, "pairs": UNKNOWN}, []),
        ({"name": "a", "pairs": UNKNOWN, "low": 11}, [((), "low is above high"), ((), "too many")]),
        ({"name": UNKNOWN, "low": 1, "high": 2}, []),
        ({"pairs": [{"low": 11}, {"low": 11, "high": UNKNOWN}]}, [(("pairs", 0), "low is above high")]),
        ({"pairs": [UNKNOWN, {"low": 11}]}, [(("pairs", 1), "low is above high")]),
        ({"pairs": [], "notes": {"a": UNKNOWN}}, []),
        ({"pairs": [], "notes": {"a": 1}}, [((), "notes without a name")]),
        ({"pairs": [{"low": UNKNOWN}], "notes": {"a": 1}}, [((), "notes without a name")]),
    ],
)
def test_each_rule_is_asked_as_soon_as_what_it_reads_is_known(
    values: dict[str, object], faults: list[tuple[tuple[str | int, ...], str]]
) -> None:
    assert [(fault.path, fault.text) for fault in Several.check(values)] == faults


def test_a_null_in_a_list_becomes_the_empty_value_of_its_type() -> None:
    class Lists(Schema):
        texts: list[str] = prop()
        numbers: list[float] = prop()
        flags: list[bool] = prop()
        maps: list[dict[str, Json]] = prop()
        lists: list[list[Json]] = prop()
        any: list[Json] = prop()

    assert Lists.coerce({name: [None] for name in Lists.fields}) == {
        "texts": [""],
        "numbers": [0],
        "flags": [False],
        "maps": [{}],
        "lists": [[]],
        "any": [None],
    }


class Blanks(Schema):
    image: str | None = prop(find="glance.image")
    old_image: str | None = prop(means="image", find="glance.image")
    domain: str = prop("default", find="keystone.domain")
    zone: str | None = prop(blank=True)
    note: str | None = prop()
    flavor: str = prop(find="nova.flavor")

    def fault(self) -> str | None:
        return None if self.image is None or self.zone is None else "image with zone"


def test_an_empty_text_for_a_thing_of_the_cloud_counts_as_not_given() -> None:
    empty = dict.fromkeys(Blanks.fields, "") | {"flavor": "f"}
    assert Blanks.coerce(empty) == {"note": "", "flavor": "f"}
    assert Blanks.coerce({**empty, "old_image": "a"}) == {"image": "a", "note": "", "flavor": "f"}
    assert Blanks.coerce({**empty, "image": "a"}) == {"image": "a", "note": "", "flavor": "f"}
    assert [fault.text for fault in Blanks.check({**empty, "flavor": ""})] == ["Property flavor not assigned"]
    props = Blanks(empty)
    assert (props.image, props.domain, props.zone, props.note) == (None, "default", None, "")
    assert Blanks.diff({"image": "", "zone": "", "note": ""}, {}) == {"note"}
    assert Blanks.diff({}, {"image": "", "domain": "", "zone": ""}) == frozenset()


# -- the typed instance ------------------------------------------------------------------------------


def test_an_instance_has_defaults_and_nested_instances() -> None:
    props = Props({"name": "a", "rule": {"port": 80}})
    assert (props.size, props.weight, props.on, props.kind) == (3, None, False, None)
    assert props.rule is not None
    assert (props.rule.port, props.rule.protocol) == (80, "tcp")
    assert [(rule.port, rule.protocol) for rule in props.rules] == [(1, "tcp")]


class Named(Schema):
    home: str = prop(find="neutron.network")
    others: list[str] | None = prop(items=prop(resolve="neutron.network"))
    size: int = prop()


def test_what_is_never_read_names_no_object_that_must_exist() -> None:
    asked: list[str] = []

    def ids_in(name: str, value: Json) -> Json:
        asked.append(name)
        return [*value] if isinstance(value, list) else f"id of {value}"

    one = Named({"home": "a", "others": ["b"], "size": 1}, ids_in)
    assert (one.size, asked) == (1, [])
    assert (one.home, one.home, asked) == ("id of a", "id of a", ["home"])
    assert (one.others, asked) == (["b"], ["home", "others"])


def test_a_required_property_without_a_value_cannot_be_read() -> None:
    one = Named({})
    assert one.others is None
    with pytest.raises(StackValidationFailed, match="Property size not assigned"):
        one.size  # noqa: B018


def test_an_alias_leads_to_the_property() -> None:
    assert Props({"name": "a", "class": "b"}).kind == "b"


def test_defaults_are_not_shared() -> None:
    Props({"name": "a"}).tags.append("x")
    assert Props({"name": "a"}).tags == []


# -- comparison --------------------------------------------------------------------------------------


@table(
    ("before", "after", "changed"),
    [
        ({}, {"size": 3, "on": False}, set()),
        ({"size": 5}, {}, {"size"}),
        ({"rule": {"port": 1}}, {"rule": {"port": 1, "protocol": "tcp"}}, set()),
        ({"rule": {"port": 1}}, {"rule": {"port": 1, "protocol": "udp"}}, {"rule"}),
        ({}, {"rules": [{"port": 1, "protocol": "tcp"}]}, set()),
        ({"rules": [{"port": 1}]}, {"rules": [{"port": 1}, {"port": 2}]}, {"rules"}),
        ({"anything": 1}, {"anything": True}, {"anything"}),
        ({"extra": {"a": [0]}}, {"extra": {"a": [False]}}, {"extra"}),
        ({"weight": 1}, {"weight": 1.0}, set()),
        ({"name": "a"}, {"name": UNKNOWN}, {"name"}),
        ({"rules": [{"port": 1}]}, {"rules": [{"port": UNKNOWN}]}, {"rules"}),
        ({"gone": 1}, {}, set()),
    ],
)
def test_diff_applies_defaults_on_both_sides(before: Any, after: Any, changed: set[str]) -> None:
    assert Props.diff(before, after) == changed
    assert Props.diff(after, before) == changed


def test_what_may_change_how() -> None:
    assert Props.updatable == {"size", "weight", "rule", "rules"}
    assert Props.immutable == {"zone"}


rule = st.fixed_dictionaries(
    {"port": st.integers(1, 65535) | st.integers(1, 65535).map(str)},
    optional={"protocol": st.sampled_from(["tcp", "udp", None])},
)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=5,
)
properties = st.fixed_dictionaries(
    {"name": st.from_regex("[a-z]{1,8}", fullmatch=True)},
    optional={
        "size": st.integers().map(lambda n: 2 * n + 1) | st.integers().map(lambda n: str(2 * n + 1)),
        "weight": st.floats(0, 1e9) | st.integers(0, 9).map(str) | st.none(),
        "on": st.booleans() | st.sampled_from(["true", "False"]),
        "rule": rule,
        "rules": st.lists(rule, max_size=3),
        "tags": st.lists(st.text(min_size=1, max_size=3) | st.booleans().map(int), max_size=3),
        "extra": st.dictionaries(st.text(), json_values, max_size=3),
        "anything": json_values,
    },
)


@pytest.mark.slow
@given(properties)
def test_coercion_is_idempotent_and_equal_to_itself(values: dict[str, object]) -> None:
    once = Props.coerce(values)
    assert Props.coerce(once) == once
    assert Props.diff(once, once) == frozenset()
    assert Props.check(values) == []


@pytest.mark.slow
@given(properties, properties)
def test_the_same_instance_means_no_difference(before: dict[str, object], after: dict[str, object]) -> None:
    old, new = Props.coerce(before), Props.coerce(after)
    changed = Props.diff(old, new)
    assert changed == Props.diff(new, old)
    if repr(Props(old)) == repr(Props(new)):
        assert not changed


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(Props.fields)), json_values))
def test_any_json_is_either_coerced_or_refused_with_faults(values: dict[str, object]) -> None:
    coerced, found = Props.examine(values)
    if not found:
        assert Props.coerce(coerced) == coerced


# -- the wire form -----------------------------------------------------------------------------------


def test_describe() -> None:
    described = Props.describe()
    assert described["name"] == {
        "type": "string",
        "description": "A name.",
        "required": True,
        "constraints": [{"length": {"min": 1, "max": 8}}, {"allowed_pattern": "[a-z]+"}],
        "update_allowed": False,
        "immutable": False,
    }
    assert described["size"] == {
        "type": "integer",
        "description": "An odd number.",
        "required": False,
        "default": 3,
        "constraints": [{"modulo": {"step": 2, "offset": 1}}],
        "update_allowed": True,
        "immutable": False,
    }
    assert described["weight"] == {
        "type": "number",
        "required": False,
        "constraints": [{"range": {"min": 0}}],
        "update_allowed": True,
        "immutable": False,
    }
    assert described["tags"] == {
        "type": "list",
        "required": False,
        "default": [],
        "schema": {
            "*": {
                "type": "string",
                "required": False,
                "constraints": [{"length": {"min": 1, "max": 3}}],
                "update_allowed": False,
                "immutable": False,
            }
        },
        "update_allowed": False,
        "immutable": False,
    }
    assert "secret" not in described
    assert list(described) == [
        *("name", "size", "weight", "on", "rule", "rules", "tags", "zone", "class", "extra", "anything")
    ]
    kinds = {name: field.kind.value for name, field in Props.fields.items()}
    assert kinds["on"] == "boolean"
    assert kinds["rule"] == kinds["extra"] == "map"
    assert kinds["anything"] == "any"


def test_a_schema_inherits() -> None:
    class More(Pair):
        middle: int = prop(5)

    assert list(More.fields) == ["low", "high", "middle"]
    assert More.check({"low": 11}) == [Fault((), "low is above high")]


# -- mistakes of a type's author -----------------------------------------------------------------------


def test_a_property_needs_an_annotation_and_a_prop() -> None:
    with pytest.raises(TypeError, match="no type annotation"):
        type("Bad", (Schema,), {"a": prop(1)})
    with pytest.raises(TypeError, match="a property is written"):
        type("Bad", (Schema,), {"__annotations__": {"a": int}})


def test_a_property_cannot_take_a_name_of_schemas_own() -> None:
    with pytest.raises(TypeError, match="give alias="):
        type("Bad", (Schema,), {"__annotations__": {"check": str}, "check": prop("x")})


@table("annotation", [int | str, set[str], Any | int, complex])
def test_a_property_has_one_type_of_json(annotation: object) -> None:
    with pytest.raises(TypeError):
        type("Bad", (Schema,), {"__annotations__": {"a": annotation}, "a": prop()})


def test_a_default_obeys_the_rules() -> None:
    with pytest.raises(TypeError, match=r"Invalid default of a: 5 is out of range \(min: 1, max: 3\)"):
        type("Bad", (Schema,), {"__annotations__": {"a": int}, "a": prop(5, between=(1, 3))})


# -- names of old, and written nulls ------------------------------------------------------------------


class Moved(Schema):
    network: str = prop(update=True, doc="A network.")
    network_id: str | None = prop(hidden=True, means="network", doc="An old name.")
    agents: list[str] | None = prop(doc="Agents.")
    agent: str | None = prop(hidden=True, means="agents", doc="An old name.")
    gateway: str | None = prop(null=True, doc="A gateway.")


@table(
    ("given_values", "coerced"),
    [
        ({"network_id": "n"}, {"network": "n"}),
        ({"network": "n", "network_id": None}, {"network": "n"}),
        ({"network": "n", "agent": "a"}, {"network": "n", "agents": ["a"]}),
        ({"network": "n", "gateway": None}, {"network": "n", "gateway": ""}),
    ],
)
def test_an_old_name_gives_the_property_its_value(
    given_values: dict[str, object], coerced: dict[str, object]
) -> None:
    assert Moved.coerce(given_values) == coerced


def test_a_property_by_both_names() -> None:
    with pytest.raises(StackValidationFailed, match="Cannot use network and network_id at the same time"):
        Moved.coerce({"network": "n", "network_id": "m"})
    assert Moved.check({"network": UNKNOWN, "network_id": UNKNOWN}) == []
    assert [fault.text for fault in Moved.check({"network_id": None})] == ["Property network not assigned"]


class Account(Schema):
    name: str = prop("", doc="Its name.")
    password: str | None = prop(secret=True, doc="Its password.")
    codes: list[str] = prop([], items=prop(secret=True), doc="What it may be given instead.")


class Machine(Schema):
    accounts: list[Account] = prop([], doc="Who may log in.")
    first: Account | None = prop(doc="Who else may.")


def test_secrets_are_found_and_masked_at_any_depth() -> None:
    values: Any = {
        "accounts": [{"name": "a", "password": "p", "codes": ["c", "d"]}, UNKNOWN, {"name": "b", "password": None}],
        "first": {"password": UNKNOWN, "name": "e"},
        "unknown": 1,
    }
    assert list(Machine.secret_values(values)) == ["p", "c", "d"]
    masked = Machine.masked(values)
    assert masked == {
        "accounts": [
            {"name": "a", "password": "******", "codes": ["******", "******"]},
            UNKNOWN,
            {"name": "b", "password": None},
        ],
        "first": {"password": UNKNOWN, "name": "e"},
        "unknown": 1,
    }
