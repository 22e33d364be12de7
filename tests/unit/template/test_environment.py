"""Environments: form, mapping of types, merging."""

from typing import Any

import pytest

from heatlite.core.errors import HTTPBadRequest, InvalidBreakPointHook, StackValidationFailed
from heatlite.core.json import Json, JsonMap
from heatlite.template.environment import SECTIONS, Environment, MappedType, TypeMapping
from heatlite.template.parameters.merging import merge
from heatlite.template.parameters.parameters import ParameterSchema
from heatlite.template.patterns import StepMeter
from heatlite.template.source.loader import SourceText, load_mapping
from tests.tables import table


def parse(data: Json) -> Environment:
    return Environment.parse(load_mapping(data, "env.yaml", "Environment"))


def test_everything_is_kept() -> None:
    data: JsonMap = {
        "parameters": {"a": 1},
        "parameter_defaults": {"b": [1]},
        "resource_registry": {
            "OS::A": "OS::B",
            "OS::C::*": None,
            "resources": {
                "x": {"OS::A": "OS::D", "hooks": ["pre-create", "post-update"]},
                "y*": {"z": {"hooks": "pre-delete"}},
            },
        },
        "event_sinks": [{"type": "zaqar-queue", "target": "q"}],
        "encrypted_param_names": ["a"],
    }
    environment = parse(data)
    assert environment.to_dict() == data
    assert parse(environment.to_dict()) == environment
    assert list(environment.to_dict()) == [
        "resource_registry", "parameters", "parameter_defaults", "event_sinks", "encrypted_param_names",
    ]  # fmt: skip


def test_an_empty_one() -> None:
    assert (
        parse({}) == parse("{}") == parse("resource_registry: {}") == Environment(resource_registry={"resources": {}})
    )
    assert (
        Environment().to_dict()
        == parse({}).to_dict()
        == {
            "resource_registry": {"resources": {}},
            "parameters": {},
            "parameter_defaults": {},
            "event_sinks": [],
            "encrypted_param_names": [],
        }
    )


def test_hidden_values_are_masked() -> None:
    shown = Environment({"a": 1, "b": 2}, {"a": 3, "c": 4}).to_dict(hidden=["a"])
    assert shown["parameters"] == {"a": "******", "b": 2}
    assert shown["parameter_defaults"] == {"a": "******", "c": 4}


def test_secrets_of_sinks_are_masked_wherever_something_is() -> None:
    hook: JsonMap = {"type": "webhook", "target": "https://example.org/x", "secret": "s"}
    plain: JsonMap = {"type": "zaqar-queue", "target": "q"}
    environment = parse({"event_sinks": [hook, plain]})
    assert environment.to_dict(hidden=[])["event_sinks"] == [{**hook, "secret": "******"}, plain]
    assert environment.to_dict()["event_sinks"] == [hook, plain]


@table(
    "data",
    [
        {"zz": {}},
        {"parameters": None},
        {"parameters": []},
        {"parameter_defaults": "a"},
        {"resource_registry": None},
        {"event_sinks": {}},
        {"encrypted_param_names": {}},
        {"resource_registry": {"resources": []}},
        {"resource_registry": {"resources": None}},
        {"resource_registry": {"OS::A": 5}},
        {"resource_registry": {"OS::A": ""}},
        {"resource_registry": {"OS::A": "OS::B::*"}},
        {"resource_registry": {"resources": {"x": {"OS::A": 5}}}},
        {"resource_registry": {"resources": {"x": 5}}},
        {"parameter_merge_strategies": {"a": "zz"}},
        {"parameter_merge_strategies": {"a": ["merge"]}},
        "a",
        "- a",
        "a: [",
        [],
        5,
    ],
)
def test_refused(data: Json) -> None:
    with pytest.raises(HTTPBadRequest) as caught:
        parse(data)
    assert caught.value.message.startswith("Environment not in valid format: ")
    assert caught.value.problems[0].source == "env.yaml"


def test_an_empty_section_says_so() -> None:
    for section in SECTIONS:
        with pytest.raises(HTTPBadRequest, match=f'environment has empty section "{section}"') as caught:
            parse({section: None})
        assert caught.value.problems[0].hint.startswith("Leave it out, or write")


def test_bad_hooks_and_restricted_actions() -> None:
    with pytest.raises(InvalidBreakPointHook, match='Invalid hook type "zz"'):
        parse({"resource_registry": {"resources": {"x": {"hooks": ["pre-create", "zz"]}}}})
    with pytest.raises(StackValidationFailed, match='Invalid restricted_action type "zz"'):
        parse({"resource_registry": {"resources": {"x": {"y": {"restricted_actions": "zz"}}}}})
    parse({"resource_registry": {"resources": {"x": {"restricted_actions": ["update", "replace"]}}}})


def test_an_empty_key_of_a_resource_says_nothing() -> None:
    environment = parse("resource_registry: {resources: {x: {hooks: , restricted_actions: , y: {hooks: }}}}")
    assert (environment.hooks("x"), environment.restricted_actions("x")) == (frozenset(), frozenset())


@table(
    ("type_name", "mapped"),
    [
        ("OS::A", "OS::B"),
        ("OS::Chain", "OS::B"),
        ("OS::Z", "OS::Z"),
        ("OS::Net::Port", "My::Port"),
        ("OS::Net::Deep::Port", "Deep::Port"),
        ("OS::All::X", "OS::Heat::None"),
        ("OS::File", "f.yaml"),
        ("OS::Round", "OS::About"),
        ("OS::Self", "OS::Self"),
        ("OS::MissingType", "OS::MissingType"),
        ("resources", "resources"),
    ],
)
def test_mapping_of_types(type_name: str, mapped: str) -> None:
    environment = parse(
        {
            "resource_registry": {
                "OS::A": "OS::B",
                "OS::Chain": "OS::A",
                "OS::Net::*": "My::*",
                "OS::Net::Deep::*": "Deep::*",
                "OS::All::*": "OS::Heat::None",
                "OS::File": "f.yaml",
                "OS::Round": "OS::About",
                "OS::About": "OS::Round",
                "OS::Self": "OS::Self",
                "OS::MissingType": None,
            }
        }
    )
    assert TypeMapping(environment, None).target("x", type_name).name == mapped


def test_a_mapping_for_one_resource() -> None:
    environment = parse(
        {"resource_registry": {"OS::A": "OS::B", "resources": {"x": {"OS::A": "OS::X"}, "y*": {"OS::A": "OS::Y"}}}}
    )
    mapping = TypeMapping(environment, None)
    assert mapping.target("x", "OS::A").name == "OS::X"
    assert mapping.target("yy", "OS::A").name == "OS::B"


# -- merging -----------------------------------------------------------------------------------------------

SCHEMAS = {
    name: ParameterSchema.parse(name, {"type": kind}, "2018-08-31", StepMeter().charge)
    for name, kind in {
        "text": "string",
        "list": "comma_delimited_list",
        "map": "json",
        "number": "number",
        "flag": "boolean",
    }.items()
}


def merged(name: str, first: Json, second: Json, strategy: str) -> Json:
    files: list[JsonMap] = [
        {"parameters": {name: first}, "parameter_merge_strategies": {name: strategy}},
        {"parameters": {name: second}},
    ]
    by_name = merge([parse(data) for data in files], SCHEMAS).parameters[name]
    files[0]["parameter_merge_strategies"] = {"default": strategy}
    assert merge([parse(data) for data in files], SCHEMAS).parameters[name] == by_name
    return by_name


@table(
    ("name", "first", "second", "strategy", "result"),
    [
        ("text", "a", "b", "overwrite", "b"),
        ("text", "a", None, "overwrite", "a"),
        ("text", "a", None, "merge", "a"),
        ("text", None, "b", "merge", "b"),
        ("map", {"a": 1}, {"a": None, "b": 2}, "merge", {"a": 1, "b": 2}),
        ("map", {"a": {"x": 1}}, {"a": {"x": None}}, "deep_merge", {"a": {"x": 1}}),
        ("text", "a", "b", "merge", "ab"),
        ("text", "a", "b", "deep_merge", "ab"),
        ("list", "a,b", "c", "overwrite", "c"),
        ("list", "a,b", "c", "merge", "a,b,c"),
        ("list", ["a"], ["b"], "deep_merge", ["a", "b"]),
        ("list", ["a"], "b,c", "merge", "a,b,c"),
        ("map", {"a": {"x": 1}}, {"a": {"y": 2}}, "overwrite", {"a": {"y": 2}}),
        ("map", {"a": {"x": 1}, "b": 1}, {"a": {"y": 2}}, "merge", {"a": {"y": 2}, "b": 1}),
        (
            "map",
            {"a": {"x": [1], "s": "p"}},
            {"a": {"x": [2], "s": "q"}},
            "deep_merge",
            {"a": {"x": [1, 2], "s": "pq"}},
        ),
        ("map", '{"a": {"x": 1}}', '{"b": 2}', "merge", {"a": {"x": 1}, "b": 2}),
        ("map", {"a": {"x": 1}}, '{"a": {"y": 2}}', "deep_merge", {"a": {"x": 1, "y": 2}}),
        ("map", {"a": 1}, "{", "merge", "{"),
        ("map", "", {"a": 1}, "merge", {"a": 1}),
        ("number", 1, 2, "overwrite", 2),
        ("flag", True, False, "overwrite", False),
    ],
)
def test_strategies(name: str, first: Json, second: Json, strategy: str, result: Json) -> None:
    assert merged(name, first, second, strategy) == result


@pytest.mark.parametrize(("name", "first", "second"), [("number", 1, 2), ("flag", True, False)])
def test_what_cannot_be_merged(name: str, first: Json, second: Json) -> None:
    with pytest.raises(StackValidationFailed, match="does not fit"):
        merged(name, first, second, "merge")


def test_strategies_that_contradict_each_other() -> None:
    files: list[Json] = [
        {"parameters": {"text": "a"}, "parameter_merge_strategies": {"text": "merge"}},
        {"parameters": {"text": "b"}, "parameter_merge_strategies": {"text": "overwrite"}},
    ]
    with pytest.raises(StackValidationFailed, match="Conflicting merge strategy"):
        merge(list(map(parse, files)), SCHEMAS)


def test_a_null_fixes_no_strategy() -> None:
    files: list[Json] = [
        {"parameters": {"text": None}},
        {"parameters": {"text": "a"}, "parameter_merge_strategies": {"text": "merge"}},
        {"parameters": {"text": "b"}},
    ]
    assert merge(list(map(parse, files)), SCHEMAS).parameters == {"text": "ab"}


def test_all_that_cannot_be_merged_is_told() -> None:
    files: list[Json] = [
        {"parameters": {"text": "a", "number": 1, "flag": True}, "parameter_merge_strategies": {"default": "merge"}},
        {"parameters": {"text": "b", "number": 2, "flag": True}, "parameter_merge_strategies": {"text": "overwrite"}},
    ]
    with pytest.raises(StackValidationFailed) as caught:
        merge(list(map(parse, files)), SCHEMAS)
    assert [problem.path[-1] for problem in caught.value.problems] == ["text", "number", "flag"]


def test_later_files_win_and_sections_add_up() -> None:
    environment = merge(
        [
            parse(
                {"parameters": {"text": "a", "zz": 1}, "resource_registry": {"A": "B", "resources": {"x": {"A": "C"}}}}
            ),
            parse(
                {
                    "parameters": {"text": "b", "yy": 2},
                    "parameter_defaults": {"d": 1},
                    "event_sinks": [{"type": "zaqar-queue"}],
                }
            ),
            parse({"parameter_defaults": {"d": 2}, "resource_registry": {"A": "D", "resources": {"y": {"A": "E"}}}}),
        ],
        SCHEMAS,
    )
    assert environment.parameters == {"text": "b", "zz": 1}
    assert environment.parameter_defaults == {"d": 2}
    assert environment.resource_registry == {"A": "D", "resources": {"x": {"A": "C"}, "y": {"A": "E"}}}
    assert environment.event_sinks == ({"type": "zaqar-queue"},)
    assert merge([], SCHEMAS).to_dict() == Environment().to_dict()


def test_a_source_built_by_hand() -> None:
    assert Environment.parse(SourceText("environment", {"parameters": {"a": 1}})).parameters == {"a": 1}


@table(
    ("hook", "reason"),
    [
        (300, "lifecycle_hook must be a map with the timeout, in seconds"),
        (None, "lifecycle_hook must be a map with the timeout, in seconds"),
        ({}, "in seconds, more than 0"),
        ({"timeout": 0}, "in seconds, more than 0"),
        ({"timeout": "5m"}, "in seconds, more than 0"),
        ({"timeout": True}, "in seconds, more than 0"),
        ({"timeout": 2**31}, "less than 2147483648"),
        ({"timeout": 5, "queue": "q"}, 'lifecycle_hook has no key "queue"'),
    ],
)
def test_bad_lifecycle_hooks(hook: Any, reason: str) -> None:
    for blocks in ({"g": {"lifecycle_hook": hook}}, {"g": {"*": {"lifecycle_hook": hook}}}):
        with pytest.raises(HTTPBadRequest, match=reason):
            parse({"resource_registry": {"resources": blocks}})


def test_lifecycle_hooks_hold_where_they_are_written() -> None:
    environment = parse(
        {
            "resource_registry": {
                "resources": {
                    "web*": {"lifecycle_hook": {"timeout": 5}},
                    "web2": {"lifecycle_hook": {"timeout": 7.5}},
                    "g": {"*": {"lifecycle_hook": {"timeout": 9}}},
                }
            }
        }
    )
    assert [environment.lifecycle_timeout(name) for name in ("web1", "web2", "g")] == [5, 7.5, None]
    within = environment.for_child("g", MappedType("g"), {})
    assert [within.lifecycle_timeout(name) for name in ("0", "lifecycle_hook")] == [9, 9]
    assert within.for_child("0", MappedType("0"), {}).resource_registry["resources"] == {}, "not within the members"


@pytest.mark.parametrize("first", [False, True])
def test_of_two_settings_within_a_resource_that_of_its_name_counts(first: bool) -> None:
    """Two patterns that match it must not lose the hooks and restrictions of both."""
    by_name = {"hooks": "pre-update", "restricted_actions": "replace", "My::Type": "named.yaml"}
    by_pattern = {"hooks": "pre-create", "restricted_actions": "update", "My::Type": "any.yaml", "protect": {}}
    written = [("g", {"x": by_name, "replacement": {"order": "delete_first"}})]
    written.insert(int(first), ("*", {"x": by_pattern, "replacement": {"order": "create_first"}}))
    environment = parse({"resource_registry": {"resources": dict(written)}})
    within = environment.for_child("g", MappedType("g"), {})
    assert within.resource_registry["resources"]["x"] == {**by_pattern, **by_name}
    assert (within.hooks("x"), within.restricted_actions("x")) == ({"pre-update"}, {"replace"})
    assert within.replacement("x").order == environment.replacement("g").order == "delete_first"


def test_patterns_of_names_are_few_and_short() -> None:
    registry: JsonMap = {"resources": {f"a{i}*": {"hooks": "pre-create"} for i in range(100)}}
    parse({"resource_registry": registry})
    for more in ({"b*": {}}, {"g": {f"[{i}": {} for i in range(101)}}, {"*" * 256: {}}):
        with pytest.raises(HTTPBadRequest, match="100 patterns of at most 255 characters"):
            parse({"resource_registry": {"resources": {**registry["resources"], **more}}})  # type: ignore[dict-item]


def test_a_name_without_patterns_is_found_among_many() -> None:
    blocks: JsonMap = {f"r{i}": {"hooks": "pre-create"} for i in range(1000)}
    environment = parse({"resource_registry": {"resources": {**blocks, "r*7": {"hooks": "pre-delete"}}}})
    assert environment.hooks("r27") == {"pre-create", "pre-delete"}
    assert environment.hooks("r28") == {"pre-create"}
