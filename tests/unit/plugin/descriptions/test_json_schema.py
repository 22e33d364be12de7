"""The schema for editors accepts valid templates and finds faults."""

import json
import os
from collections.abc import Mapping
from pathlib import Path

import pytest
from jsonschema import Draft7Validator

from heatlite.__main__ import main
from heatlite.core.errors import HeatliteError
from heatlite.core.json import Json
from heatlite.plugin.descriptions.json_schema import json_schema
from heatlite.plugin.registry import Registry
from heatlite.template.checks.check import check
from heatlite.template.dialects import DIALECTS
from heatlite.template.environment import Environment
from heatlite.template.source.loader import load
from tests.resource_types import ALL_TYPES
from tests.tables import table

ROOT = Path(__file__).parents[4]
CORPUS = Path(os.environ.get("HEATLITE_CORPUS") or ROOT.parent / "shared" / "corpus")
TYPES = Registry(ALL_TYPES)
SCHEMA = json_schema(TYPES)
VALIDATOR = Draft7Validator(SCHEMA)


def faults(document: Mapping[str, object]) -> list[str]:
    return [f"{error.json_path}: {error.message[:200]}" for error in VALIDATOR.iter_errors(document)]


@pytest.mark.slow
def test_it_is_a_draft_07_schema(capsys: pytest.CaptureFixture[str]) -> None:
    Draft7Validator.check_schema(SCHEMA)
    assert main(["schema"]) == 0
    assert json.loads(capsys.readouterr().out) == SCHEMA


def test_each_type_is_described() -> None:
    definitions = SCHEMA["definitions"]
    assert isinstance(definitions, dict)
    for name in TYPES.names():
        described = definitions[f"properties of {name}"]
        assert described["description"] == TYPES.get(name).description()
        fields = TYPES.get(name).schema.fields
        if fields:
            own = described["anyOf"][0]["properties"]
            assert own.keys() == fields.keys()
            assert all(own[field.name]["description"] == field.doc for field in fields.values() if field.doc)


@pytest.mark.slow
@table("path", sorted((ROOT / "templates").glob("*.yaml")))
def test_our_own_templates(path: Path) -> None:
    assert faults(load(path.read_text()).data) == []


@pytest.mark.slow
@table("name", [name for name in TYPES.names() if TYPES.get(name).support_status.status != "HIDDEN"])
def test_the_skeleton_of_each_type(name: str) -> None:
    assert faults(TYPES.skeleton(name, "hot")) == []


HEAD = "heat_template_version: 2021-04-16\n"
STRING = "OS::Heat::RandomString"


def string(properties: str, more: str = "") -> str:
    """A template with one RandomString."""
    return f"resources: {{a: {{type: {STRING}, properties: {properties}{more}}}}}"


GOOD = [
    "",
    "description:\nparameters:\nresources:\noutputs:\nconditions:\nparameter_groups:\n",
    "parameters: {p: {type: number, default: '3', hidden: yes, label: L, tags: [a], immutable: 'false',"
    " constraints: [{range: {min: 1}, description: D}, {modulo: {step: 2, offset: 1}}]}}",
    "parameters: {p: {type: string,"
    " constraints: [{length: {max: 3}}, {allowed_values: [a, 1]}, {allowed_pattern: '[a-z]'}]}}",
    "parameter_groups: [{label: L, parameters: []}]",
    string("{length: '12', salt: 7, character_classes: [{class: digits, min: '1'}]}"),
    string("{length: {get_param: p}, salt: {list_join: ['', [a]]}}"),
    string("{map_merge: [{length: 1}]}"),
    string("{character_classes: {repeat: {template: x, for_each: {}}}}"),
    string("{character_classes: [{if: [c, {class: digits}]}]}"),
    string("{salt: null}", ", metadata: {a: 1}, depends_on: a, condition: c"),
    "resources: {a: {type: OS::Heat::None, properties: {whatever: [1]}, depends_on: [a, b], deletion_policy: retain}}",
    "resources: {a: {type: OS::Heat::Value, properties: {value: {a: [1, null]}}, deletion_policy: {get_param: p}}}",
    "resources: {a: {type: child.yaml, properties: {x: 1}}, b: {type: 'My::Type', properties: {x: 1}}}",
    "resources: {a: {type: OS::Heat::None, condition: {equals: [{get_param: p}, 1]}, external_id: x}}",
    "conditions: {a: true, b: {not: a}, c: {and: [a, {or: [a, b]}]}, d: {contains: [a, [b]]}}",
    "outputs: {o: {value: null, description: D, condition: false}, p: {value: {get_attr: [a, b]}}}",
]
BAD = [
    "resorces: {}",
    "resources: []",
    "parameters: {p: {}}",
    "parameters: {p: {type: text}}",
    "parameters: {p: {type: string, defualt: x}}",
    "parameters: {p: {type: string, constraints: [{length: {min: 1}, range: {min: 1}}]}}",
    "parameters: {p: {type: string, constraints: [{lenght: {min: 1}}]}}",
    "parameters: {p: {type: string, constraints: {length: {min: 1}}}}",
    "parameter_groups: [{label: L}]",
    "resources: {a: {}}",
    "resources: {a: {type: OS::Heat::RandomStrin}}",
    "resources: {a: {type: OS::Heat::None, proprties: {}}}",
    "resources: {a: {type: OS::Heat::None, depends_on: {get_param: p}}}",
    "resources: {a: {type: OS::Heat::None, deletion_policy: Keep}}",
    string("{lenght: 1}"),
    string("{length: many}"),
    string("{length: 513}"),
    string("{length: {get_parm: p}}"),
    string("{length: {get_param: p, more: 1}}"),
    string("{salt: [a]}"),
    string("{character_classes: digits}"),
    string("{character_classes: [{class: runes}]}"),
    string("{character_classes: [{klass: digits}]}"),
    string("[length]"),
    "resources: {a: {type: OS::Heat::Value}}",
    "resources: {a: {type: OS::Heat::Value, properties: {type: string}}}",
    "conditions: {a: b}",
    "conditions: {a: {if: [a, b, c]}}",
    "outputs: {o: {description: D}}",
    "outputs: {o: 1}",
]


@table("text", GOOD)
def test_good_templates(text: str) -> None:
    assert faults(load(HEAD + text).data) == []


@table("text", BAD)
def test_bad_templates(text: str) -> None:
    assert faults(load(HEAD + text).data)


@pytest.mark.parametrize("version", ["2013-05-23", "2018-08-31", "rocky"])
def test_versions(version: str) -> None:
    assert faults({"heat_template_version": version}) == []


@pytest.mark.slow
@table(
    ("since", "text"),
    [
        ("2016-10-14", "conditions: {}"),
        ("2016-10-14", "resources: {a: {type: OS::Heat::None, condition: true}}"),
        ("2016-10-14", "resources: {a: {type: OS::Heat::None, external_id: x}}"),
        ("2016-10-14", "resources: {a: {type: OS::Heat::None, deletion_policy: retain}}"),
        ("2016-10-14", "outputs: {a: {value: 1, condition: true}}"),
        ("2017-02-24", "parameters: {a: {type: number, constraints: [{modulo: {step: 2, offset: 1}}]}}"),
        ("2017-09-01", "conditions: {a: {contains: [a, [a]]}}"),
        ("2017-09-01", "conditions: {a: {yaql: {expression: 'true'}}}"),
        ("2018-03-02", "parameters: {a: {type: string, tags: [b]}}"),
    ],
)
def test_what_a_version_does_not_have(since: str, text: str) -> None:
    """As the checker has it, version by version."""
    for dialect in DIALECTS.values():
        for name in (dialect.version, *dialect.aliases) if dialect.kind == "hot" else ():
            source = load(f"heat_template_version: {name}\n{text}")
            known = dialect.version >= since
            assert (faults(source.data) == []) is known, name
            if "output" not in text:  # Heat takes any key of an output
                assert (check(source, Environment(), TYPES, strict=False) == []) is known, name


@pytest.mark.parametrize(
    "document", [{}, {"heat_template_version": "2999-01-01"}, {"AWSTemplateFormatVersion": "2010-09-09"}]
)
def test_other_versions(document: dict[str, Json]) -> None:
    assert faults(document)


@pytest.mark.corpus
@pytest.mark.slow
def test_the_corpus() -> None:
    """The editor accepts every template that the checker accepts."""
    if not CORPUS.is_dir():
        pytest.skip(f"there is no corpus of templates at {CORPUS}")
    checked = 0
    wrong = "example-chef-template.yaml"  # a list where a map must be; other types that it lacks hide that
    for path in sorted((CORPUS / "heat-templates").rglob("*.yaml")):
        if path.name == wrong:
            continue
        try:
            source = load(path.read_text())
            files = {str(file.relative_to(path.parent)): "" for file in path.parent.rglob("*") if file.is_file()}
            found = check(source, Environment(), TYPES, files, strict=False)
        except HeatliteError:
            continue
        if "heat_template_version" in source.data and all("The Resource Type" in one.text for one in found):
            assert [fault for fault in faults(source.data) if ".type: " not in fault] == [], path
            checked += 1
    assert checked > 40
