"""All problems of a template, in Heat's order, with Heat's texts."""

import time
from collections.abc import Container, Iterable, Mapping, Sequence

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from heatlite.core.errors import HeatliteError, Problem, wire_name
from heatlite.core.json import Json
from heatlite.template.checks.check import check, check_definition, raise_first
from heatlite.template.dialects import FUNCTIONS
from heatlite.template.document import Template
from heatlite.template.environment import Environment
from heatlite.template.expression import UNKNOWN, Expression, has_unknown
from heatlite.template.source.loader import SourceText, load
from heatlite.template.types import Fault, Installation, PropertyType, ResourceTypeView, TypeCatalog, UnusableType
from tests.tables import table


class Type:
    """``length`` is an integer up to 512, ``value`` anything, `required` mandatory."""

    attribute_names = frozenset({"value"})
    makes_stack = False
    after: frozenset[str] = frozenset()

    def __init__(self, required: str = "", any_attribute: bool = False, snapshot_on_delete: bool = False) -> None:
        self.required = required
        self.any_attribute = any_attribute
        self.snapshot_on_delete = snapshot_on_delete
        self.given: Mapping[str, object] = {}

    def kind_of(self, path: Sequence[str | int]) -> str:
        return ""

    def property_types(self) -> Mapping[str, PropertyType]:
        return {
            "length": PropertyType("integer", self.required == "length", True),
            "value": PropertyType("any", self.required == "value", True),
        }

    def check_installation(self, given: Mapping[str, object], installation: Installation) -> list[Fault]:
        return []

    def check_siblings(self, given: Mapping[str, object], names: Container[str]) -> list[Fault]:
        return []

    def check_update_policy(self, given: Mapping[str, object]) -> list[Fault]:
        return [Fault((), f"Unknown Property {name}") for name in given if name != "batch"]

    def nested_template(self, given: Mapping[str, object]) -> None:
        return None

    def check_properties(self, given: Mapping[str, object]) -> list[Fault]:
        self.given = given
        faults = [
            Fault((), f"Unknown Property {name}", "length, value") for name in given if name not in ("length", "value")
        ]
        if self.required and self.required not in given:
            faults.append(Fault((), "Property value not assigned"))
        length = given.get("length", 1)
        if not has_unknown(length):
            if not isinstance(length, int):
                faults.append(Fault(("length",), f"Value '{length}' is not an integer"))
            elif length > 512:
                faults.append(Fault(("length",), f"{length} is out of range (min: 1, max: 512)"))
        return faults


class Types:
    def __init__(self, installation: Installation | None = None, restricted: bool = False) -> None:
        self.installation = installation or Installation()
        self.restricted = restricted
        self.types = {
            "Str": Type(),
            "Need": Type(required="value"),
            "Any": Type(any_attribute=True),
            "Snap": Type(snapshot_on_delete=True),
        }

    def find(self, type_name: str) -> ResourceTypeView | None:
        return self.types.get(type_name)

    def unavailable(self, type_name: str) -> UnusableType | None:
        return UnusableType("Forbidden", "not for you") if type_name == "Snap" and self.restricted else None

    def names(self) -> Iterable[str]:
        return self.types


CATALOG: TypeCatalog = Types()


def problems(text: str, strict: bool = True, **parameters: Json) -> list[Problem]:
    source = load("heat_template_version: 2018-08-31\n" + text)
    return check(source, Environment(parameters=parameters), CATALOG, strict=strict)


def one(text: str, strict: bool = True, **parameters: Json) -> Problem:
    (problem,) = problems(text, strict, **parameters)
    return problem


@table(
    ("text", "error", "message", "strict_only"),
    [
        ("zzz: 1", "StackValidationFailed", "The template section is invalid: zzz", False),
        ("parameters: {p: {type: string}}", "UserParameterMissing", "The Parameter (p) was not provided.", True),
        (
            "parameters: {p: {type: number, default: abc}}",
            "StackValidationFailed",
            "Parameter 'p' is invalid: could not convert string to float: 'abc'",
            True,
        ),
        ("parameters: {p: {type: zz}}", "InvalidSchemaError", "Invalid type (zz)", False),
        (
            "parameters: {p: {type: string, default: a, constraints: [{length: {min: 3}}]}}",
            "InvalidSchemaError",
            "Parameter 'p' is invalid: Invalid default a (length (1) is out of range (min: 3, max: None))",
            False,
        ),
        (
            "resources: {x: {type: No::Such}}",
            "StackValidationFailed",
            "The Resource Type (No::Such) could not be found.",
            False,
        ),
        ("resources: {x: {}}", "StackValidationFailed", "Each resource must contain a type key.", False),
        (
            "resources: {x: {type: Str, zz: 1}}",
            "StackValidationFailed",
            '"zz" is not a valid keyword inside a resource definition',
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {zz: 1}}}",
            "StackValidationFailed",
            "Property error: resources.x.properties: Unknown Property zz",
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {length: abc}}}",
            "StackValidationFailed",
            "Property error: resources.x.properties.length: Value 'abc' is not an integer",
            True,
        ),
        (
            "resources: {x: {type: Str, properties: {length: 9999}}}",
            "StackValidationFailed",
            "Property error: resources.x.properties.length: 9999 is out of range (min: 1, max: 512)",
            True,
        ),
        (
            "resources: {x: {type: Need}}",
            "StackValidationFailed",
            "Property error: resources.x.properties: Property value not assigned",
            True,
        ),
        (
            "resources: {x: {type: Str, properties: {value: {get_param: zz}}}}",
            "StackValidationFailed",
            "Property error: resources.x.properties.value: The Parameter (zz) was not provided.",
            True,
        ),
        (
            "resources: {x: {type: Str, depends_on: zz}}",
            "InvalidTemplateReference",
            'The specified reference "zz" (in x) is incorrect.',
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {value: {get_resource: zz}}}}",
            "InvalidTemplateReference",
            'The specified reference "zz" (in x.Properties.value) is incorrect.',
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {value: {get_attr: [zz, value]}}}}",
            "InvalidTemplateReference",
            'The specified reference "zz" (in x.Properties.value) is incorrect.',
            False,
        ),
        (
            "resources: {y: {type: Str}, x: {type: Str, properties: {value: {get_attr: [y, zz]}}}}",
            "StackValidationFailed",
            "resources.x.properties.value.get_attr: The Referenced Attribute (y zz) is incorrect.",
            False,
        ),
        (
            "resources: {x: {type: Str}}\noutputs: {o: {value: {get_attr: [x, zz]}}}",
            "StackValidationFailed",
            "outputs.o.value.get_attr: The Referenced Attribute (x zz) is incorrect.",
            False,
        ),
        (
            "outputs: {o: {value: [{get_attr: [zz, a]}]}}",
            "StackValidationFailed",
            'outputs.o.value[0].get_attr: The specified reference "zz" (in unknown) is incorrect.',
            False,
        ),
        (
            "outputs: {o: {description: d}}",
            "StackValidationFailed",
            "Output validation error: outputs.o: Each output definition must contain a value key.",
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {value: {list_join: a}}}}",
            "StackValidationFailed",
            'resources.x.properties.value.list_join: Incorrect arguments to "list_join" should be: '
            '"list_join" : [ " ", [ "str1", "str2"], ...]',
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {value: {Ref: a}}}}",
            "StackValidationFailed",
            'resources.x.properties.value.Ref: The function "Ref" is not supported in this version of HOT.',
            False,
        ),
        (
            "resources: {x: {type: Str, condition: zz}}",
            "StackValidationFailed",
            'resources.x.condition: Invalid condition "zz"',
            False,
        ),
        (
            "resources: {x: {type: Str, deletion_policy: zz}}",
            "StackValidationFailed",
            'Invalid deletion policy "zz"',
            False,
        ),
        (
            "resources: {x: {type: Str, deletion_policy: Snapshot}}",
            "StackValidationFailed",
            'resources.x.deletion_policy: "Snapshot" deletion policy not supported',
            False,
        ),
        ("resources: {a/b: {type: Str}}", "StackValidationFailed", 'Resource name may not contain "/"', False),
        (
            "parameters: {x: {type: string, default: a}}\nresources: {x: {type: Str}}",
            "StackValidationFailed",
            "Duplicate names {'x'}",
            False,
        ),
        (
            "parameter_groups: [{label: g, parameters: [k]}]",
            "StackValidationFailed",
            "Parameter Groups error: parameter_groups.g: The grouped parameter k does not reference a valid parameter.",
            False,
        ),
        (
            "resources: {x: {type: Str, properties: {value: {get_resource: x}}}}",
            "CircularDependencyException",
            'Circular Dependency Found: {Str "x": {Str "x"}}',
            False,
        ),
        (
            "resources: {x: {type: Str, depends_on: y}, y: {type: Need, depends_on: z, properties: {value: 1}}, "
            "z: {type: Str, depends_on: x}, w: {type: Str, depends_on: x}}",
            "CircularDependencyException",
            'Circular Dependency Found: {Str "x": {Need "y"}, Need "y": {Str "z"}, Str "z": {Str "x"}}',
            False,
        ),
        (
            "resources: {x: {type: x.yaml}}",
            "StackValidationFailed",
            'Could not fetch remote template "x.yaml": it is not among the files of the request',
            False,
        ),
        (
            "resources: {x: {type: Str, external_id: a, depends_on: y}, y: {type: Str}}",
            "InvalidExternalResourceDependency",
            '"x" adopts an existing object (external_id), so it cannot depend on others',
            False,
        ),
        (
            "resources: {x: {type: Str, update_policy: {zz: 1}}}",
            "StackValidationFailed",
            "Property error: resources.x.update_policy: Unknown Property zz",
            False,
        ),
    ],
)
def test_one_problem(text: str, error: str, message: str, strict_only: bool) -> None:
    problem = one(text)
    assert (problem.error, problem.text) == (error, message)
    assert problem.line > 0 and problem.column > 0
    with pytest.raises(HeatliteError) as caught:
        raise_first([problem])
    assert wire_name(caught.value) == error
    assert caught.value.message == message
    assert problems(text, strict=False) == ([] if strict_only else [problem])


def test_parameters_of_the_environment() -> None:
    problem = one("parameters: {abc: {type: string, default: a}}", abd="1")
    assert (problem.error, problem.text) == ("UnknownUserParameter", "The Parameter (abd) was not defined in template.")
    assert (problem.source, problem.path, problem.hint) == ("environment", ("parameters", "abd"), 'did you mean "abc"?')
    problem = one("parameters: {p: {type: string, constraints: [{length: {max: 2}, description: short}]}}", p="abc")
    assert (problem.error, problem.text) == ("StackValidationFailed", "Parameter 'p' is invalid: short")
    assert (problem.source, problem.path) == ("environment", ("parameters", "p"))


def test_versions() -> None:
    (problem,) = check({"resources": {}}, Environment(), CATALOG)
    assert (problem.error, problem.text, problem.hint) == (
        "InvalidTemplateVersion",
        "The template version is invalid: Template version was not provided",
        "add heat_template_version: 2021-04-16",
    )
    assert check({"AWSTemplateFormatVersion": "2010-09-09"}, Environment(), CATALOG) == []


@table(
    "text",
    [
        "",
        "resources: []",
        "resources: {x: {type: Str, properties: {value: {get_zz: 1}}}}",
        "resources: {x: {type: Str}, y: {type: Any}, s: {type: Snap, deletion_policy: snapshot}}\n"
        "outputs: {a: {value: {get_attr: [x, value]}}, b: {value: {get_attr: [x, show]}}, "
        "c: {value: {get_attr: [y, zz]}}, d: {value: {get_attr: [x]}}, e: {value: {get_resource: x}}}",
        "resources: {x: {type: Str, properties: {length: {get_attr: [y, value]}}}, y: {type: Str}}",
        "resources: {x: {type: Str, properties: {length: {list_join: ['', [{get_resource: y}]]}}}, y: {type: Str}}",
        "resources: {x: {type: Str, properties: {map_merge: [{value: 1}, {length: 2}]}}}",
        "resources: {x: {type: Str, properties: {get_attr: [y, value]}}, y: {type: Str}}",
        "resources: {x: {type: Str, depends_on: y}, y: {type: Str, condition: {equals: [1, 2]}}}",
        "conditions: {c: false}\nresources: {x: {type: No::Such, condition: c}}",
    ],
)
def test_nothing_wrong(text: str) -> None:
    assert problems(text) == problems(text, strict=False) == []


def test_values_are_checked_as_far_as_they_are_known() -> None:
    problem = one(
        "parameters: {n: {type: number}}\nresources: {x: {type: Str, properties: {length: {get_param: n}}}}", n=600
    )
    assert problem.text == "Property error: resources.x.properties.length: 600 is out of range (min: 1, max: 512)"
    catalog = Types()
    text = (
        "resources: {x: {type: Str, properties: {value: [1, {a: {get_attr: [y, value]}}]}}, "
        "y: {type: Need, properties: {value: 1}}}"
    )
    assert not check(load("heat_template_version: rocky\n" + text), Environment(), catalog)
    assert catalog.types["Str"].given == {"value": [1, {"a": UNKNOWN}]}


def test_metadata_is_resolved_too() -> None:
    problem = one("resources: {x: {type: Str, metadata: {m: {get_file: zz}}}}")
    assert problem.text == 'resources.x.metadata.m: No content found in the "files" section for get_file path: zz'


def test_the_text_of_a_get_file_is_found() -> None:
    text = "resources: {x: {type: Str, properties: {value: {get_file: f}}}}"
    source = load("heat_template_version: rocky\n" + text)
    assert check(source, Environment(), CATALOG, {"f": "content"}) == []
    assert one(text).text.startswith("Property error: resources.x.properties.value: No content found")


def test_properties_that_are_no_map() -> None:
    problem = one("resources: {x: {type: Str, properties: {list_join: [',', [a]]}}}")
    assert problem.text == "Property error: resources.x.properties: must be a map"


@table(
    ("value", "told"),
    [
        ("{get_param: []}", "outputs.o.value.get_param: Function"),
        ("{get_param: 5}", "outputs.o.value.get_param: Argument to"),
        ("{get_resource: zz}", 'outputs.o.value.get_resource: The specified reference "zz" (in unknown) is incorrect.'),
        ("{get_resource: null}", "outputs.o.value.get_resource: Argument to"),
        ("{list_join: [',', [{get_resource: 5}]]}", "outputs.o.value.list_join[1][0].get_resource: Argument to"),
        ("{str_split: 5}", "outputs.o.value.str_split: Incorrect arguments"),
        ("{map_merge: 5}", "outputs.o.value.map_merge: Incorrect arguments"),
        ("{repeat: {template: x, for_each: {}}}", 'outputs.o.value: The "for_each" argument to "repeat" must not be'),
    ],
)
def test_faults_of_outputs_that_are_told_when_they_are_read(value: str, told: str) -> None:
    problem = one(f"outputs: {{o: {{value: {value}}}}}")
    assert (problem.severity, problem.error) == ("warning", "OutputError")
    assert problem.text.startswith(told)
    definition = Template(
        {"heat_template_version": "2018-08-31", **yaml.safe_load(f"outputs: {{o: {{value: {value}}}}}")}
    )
    assert isinstance(definition.bind(Environment(), {}).outputs["o"].value, Expression)


@table("value", ["{list_join: zz}", "{get_attr: [zz, a]}", "{get_attr: []}", "{if: [zz, 1, 2]}"])
def test_faults_of_outputs_that_are_told_at_once(value: str) -> None:
    assert one(f"outputs: {{o: {{value: {value}}}}}").severity == "error"


def test_an_output_that_cannot_be_read_is_a_warning() -> None:
    problem = one("outputs: {o: {value: {get_param: zz}}}")
    assert (problem.severity, problem.error) == ("warning", "OutputError")
    assert problem.path == ("outputs", "o", "value", "get_param")
    raise_first([problem])


def test_each_unknown_parameter_of_a_value_is_found_at_its_place() -> None:
    found = problems(
        "parameters: {size: {type: number, default: 1}}\n"
        "resources:\n  a:\n    type: Str\n    properties:\n      value:\n"
        "        - {get_param: siez}\n        - {list_join: ['', [{get_param: [zz, 0]}]]}\n"
    )
    assert [(one.line, one.text.rpartition(": ")[2], one.hint) for one in found] == [
        (8, "The Parameter (siez) was not provided.", 'did you mean "size"?'),
        (9, "The Parameter (zz) was not provided.", ""),
    ]
    assert found[0].text.startswith("Property error: resources.a.properties.value: ")


def test_each_fault_within_one_value_is_found_at_its_place() -> None:
    text = """heat_template_version: rocky
parameters:
  p:
    type: string
    default: ab
    constraints: [{length: {min: 3}}, {allowed_pattern: '[0-9]+'}]
  q: {type: string, constraints: [{length: {mn: 1, mx: 2}}, {allowed_value: [a], lenght: 1}]}
  n: {type: number, constraints: [{allowed_values: [1, a, b]}, {range: {min: x, max: y}}]}
conditions:
  c: {and: [one, {equals: [a]}, {not: two}]}
  d: {or: [{equals: [{get_param: zz}, 1]}, {equals: [{get_param: yy}, 1]}]}
resources:
  a:
    type: Str
    properties:
      value:
        - {digest: [nope, abc]}
        - deep: {list_join: ['', [{digest: [md5, 1]}, {get_file: file}]]}
        - {str_replace: {template: a}}
        - {make_url: {prt: 80, hst: a}}
        - {map_merge: [{a: b}, {map_merge: [1]}]}
        - {repeat: {template: x, for_each: {x: {get_param: lst}}}}
      length: 999
"""
    found = check(load(text), Environment(), CATALOG, {"fiel": ""})
    expected: list[tuple[int, int, str, str]] = [
        (19, 12, '"str_replace" syntax should be', ""),
        (20, 12, 'Invalid argument to "make_url": prt.', ""),
        (20, 12, 'Invalid argument to "make_url": hst.', ""),
        (5, 5, "length (2) is out of range", ""),
        (5, 5, '"ab" does not match pattern', ""),
        (7, 45, "Invalid key 'mn'", "there are: min, max"),
        (7, 52, "Invalid key 'mx'", "there are: min, max"),
        (7, 62, "Invalid key 'allowed_value'", 'did you mean "allowed_values"?'),
        (7, 82, "Invalid key 'lenght'", 'did you mean "length"?'),
        (8, 56, "could not convert string to float: 'a'", ""),
        (8, 59, "could not convert string to float: 'b'", ""),
        (8, 73, "min must be a number", ""),
        (8, 81, "max must be a number", ""),
        (10, 13, 'Invalid condition "one"', ""),
        (10, 19, 'Arguments to "equals"', ""),
        (10, 34, 'Invalid condition "two"', ""),
        (11, 12, "The Parameter (zz) was not provided.", ""),
        (11, 44, "The Parameter (yy) was not provided.", ""),
        (17, 12, "Property error: resources.a.properties.value: Algorithm must be one of", ""),
        (18, 36, "Property error: resources.a.properties.value: Digest value must be a string", ""),
        (18, 56, "No content found", 'did you mean "fiel"?'),
        (21, 33, "Items must be maps, not 1", ""),
        (22, 49, "The Parameter (lst) was not provided.", ""),
        (23, 7, "999 is out of range", ""),
    ]
    assert [(one.line, one.column, one.hint) for one in found] == [(*place, hint) for *place, _, hint in expected]
    assert all(text in one.text for one, (_, _, text, _) in zip(found, expected, strict=True))


def test_duplicate_keys_are_a_warning() -> None:
    problem = one("resources:\n  x: {type: Str}\n  x: {type: Any}\n")
    assert (problem.severity, problem.line, problem.column) == ("warning", 4, 3)
    assert '"x" is written more than once' in problem.text


def test_hints_and_places() -> None:
    found = problems(
        "resources:\n"
        "  server: {type: Strr}\n"
        "  y:\n"
        "    type: Str\n"
        "    proprties: {}\n"
        "    properties:\n"
        "      value: {get_resource: sever}\n"
        "      zz: 1\n"
        "  z: {type: Str, properties: {value: {get_attr: [y, valu]}}}\n"
    )
    assert [(problem.line, problem.column, problem.hint) for problem in found] == [
        (6, 5, 'did you mean "properties"?'),
        (3, 12, 'did you mean "Str"?'),
        (8, 15, 'did you mean "server"?'),
        (9, 7, "length, value"),
        (10, 39, 'did you mean "value"?'),
    ]


def test_everything_is_found_in_heats_order() -> None:
    found = problems(
        """
parameters: {p: {type: string}, q: {type: zz}, n: {type: number, default: x}, dup: {type: string, default: x}}
parameter_groups: [{label: g, parameters: [nn]}]
zzz: 1
conditions: {d: {not: d}}
resources:
  dup: {type: Str, properties: {zz: 1, value: {get_param: zz}}}
  x: {type: Str, properties: {value: {list_join: a}, length: abc}, foo: 1}
  b: {type: No::Such, depends_on: [zz, x]}
  c1: {type: Str, depends_on: c2}
  c2: {type: Str, depends_on: c1, properties: {length: 9999}}
outputs: {o: {}}
""",
        unk=1,
    )
    assert [(problem.error, problem.path[:2]) for problem in found] == [
        ("StackValidationFailed", ("zzz",)),
        ("StackValidationFailed", ("resources", "x")),
        ("StackValidationFailed", ("resources", "x")),
        ("UnknownUserParameter", ("parameters", "unk")),
        ("UserParameterMissing", ("parameters", "p")),
        ("InvalidSchemaError", ("parameters", "q")),
        ("StackValidationFailed", ("parameters", "n")),
        ("StackValidationFailed", ("parameter_groups", 0)),
        ("StackValidationFailed", ("conditions", "d")),
        ("StackValidationFailed", ("resources", "b")),
        ("StackValidationFailed", ("resources", "dup")),
        ("InvalidTemplateReference", ("resources", "b")),
        ("CircularDependencyException", ("resources", "c1")),
        ("StackValidationFailed", ("resources", "dup")),
        ("StackValidationFailed", ("resources", "dup")),
        ("StackValidationFailed", ("resources", "x")),
        ("StackValidationFailed", ("resources", "c2")),
        ("StackValidationFailed", ("outputs", "o")),
    ]


def test_resources_are_checked_in_the_order_of_their_dependencies() -> None:
    found = problems(
        "resources: {a: {type: Str, depends_on: b, properties: {length: x}}, b: {type: Str, properties: {length: y}}}"
    )
    assert [problem.path[1] for problem in found] == ["b", "a"]


def test_a_definition_at_hand() -> None:
    template = Template({"heat_template_version": "rocky", "resources": {"x": {"type": "Zz"}}})
    definition = template.bind(Environment(), {})
    assert len(check_definition(definition, CATALOG)) == 1
    assert len(check_definition(definition, CATALOG)) == 1


def test_a_thousand_resources_are_checked_quickly() -> None:
    resources: dict[str, Json] = {f"r{i}": {"type": "Str", "properties": {"length": 32}} for i in range(1000)}
    source = SourceText("template", {"heat_template_version": "2018-08-31", "resources": resources})
    check(source, Environment(), CATALOG)
    best = min(_seconds(source) for _ in range(5))
    assert best < 0.04


def _seconds(source: SourceText) -> float:
    start = time.thread_time()
    assert check(source, Environment(), CATALOG) == []
    return time.thread_time() - start


@pytest.mark.slow
def test_a_thousand_problems_are_told_quickly() -> None:
    resources: dict[str, Json] = {
        f"resource_number_{i}": {"type": "Str", "depends_on": [f"resourc_number_{i + 5000}"]} for i in range(1000)
    }
    start = time.thread_time()
    found = check({"heat_template_version": "rocky", "resources": resources}, Environment(), CATALOG)
    assert len(found) == 1000
    assert found[0].hint and time.thread_time() - start < 3


# -- hostile documents -----------------------------------------------------------------------------------------

NAMES = st.sampled_from(["x", "y", "p", "zz", "value", "length", "c", ""])
SCALARS = st.none() | st.booleans() | st.integers(-3, 3) | st.floats(allow_nan=False, allow_infinity=False) | NAMES
VALUES: st.SearchStrategy[Json] = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(NAMES, inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(sorted({*FUNCTIONS["2021-04-16"], "equals", "not", "and", "or"})), inner, max_size=1
        )
        | st.fixed_dictionaries({"template": inner, "params": inner})
        | st.fixed_dictionaries({"template": inner, "for_each": inner})
    ),
    max_leaves=12,
)
RESOURCES = st.fixed_dictionaries(
    {"type": st.sampled_from(["Str", "Need", "Any", "No"]) | VALUES},
    optional={
        "properties": st.dictionaries(st.sampled_from(["value", "length", "zz"]), VALUES) | VALUES,
        "metadata": VALUES,
        "depends_on": st.lists(NAMES, max_size=2) | VALUES,
        "update_policy": VALUES,
        "deletion_policy": VALUES,
        "description": VALUES,
        "external_id": VALUES,
        "condition": VALUES,
    },
)
CONSTRAINTS = st.dictionaries(
    st.sampled_from(
        ["length", "range", "modulo", "allowed_values", "allowed_pattern", "custom_constraint", "description"]
    ),
    VALUES | st.dictionaries(st.sampled_from(["min", "max", "step", "offset"]), st.integers(-3, 3)),
    max_size=2,
)
PARAMETERS = st.fixed_dictionaries(
    {"type": st.sampled_from(["string", "number", "boolean", "json", "comma_delimited_list"]) | VALUES},
    optional={
        "default": VALUES,
        "hidden": VALUES,
        "immutable": VALUES,
        "tags": VALUES,
        "label": VALUES,
        "constraints": st.lists(CONSTRAINTS, max_size=2) | VALUES,
    },
)
DOCUMENTS = st.fixed_dictionaries(
    {"heat_template_version": st.sampled_from(sorted(FUNCTIONS)) | VALUES},
    optional={
        "description": VALUES,
        "parameter_groups": VALUES | st.lists(st.fixed_dictionaries({"parameters": VALUES}), max_size=2),
        "parameters": st.dictionaries(NAMES, PARAMETERS | VALUES, max_size=2) | VALUES,
        "resources": st.dictionaries(NAMES, RESOURCES | VALUES, max_size=3) | VALUES,
        "outputs": st.dictionaries(NAMES, st.fixed_dictionaries({"value": VALUES}) | VALUES, max_size=2) | VALUES,
        "conditions": st.dictionaries(NAMES, VALUES, max_size=2) | VALUES,
        "zzz": VALUES,
    },
)


@given(document=DOCUMENTS, parameters=st.dictionaries(NAMES, VALUES, max_size=2), strict=st.booleans())
def test_no_document_raises_anything_but_our_own(
    document: dict[str, Json], parameters: dict[str, Json], strict: bool
) -> None:
    environment = Environment(parameters=parameters)
    found = check(document, environment, CATALOG, strict=strict)
    try:
        raise_first(found)
    except HeatliteError:
        assert any(problem.severity == "error" for problem in found)
        return
    definition = Template(document).bind(environment, {}, strict)
    assert check_definition(definition, CATALOG) == found
    definition.describe()


def test_a_type_that_cannot_be_used_here() -> None:
    document: dict[str, Json] = {
        "heat_template_version": "2018-08-31",
        "resources": {"a": {"type": "Snap"}, "b": {"type": "Str"}},
    }
    (problem,) = check(document, Environment(), Types(restricted=True))
    assert (problem.error, problem.text, problem.where) == ("Forbidden", "not for you", "resources.a.type")
    assert check(document, Environment(), CATALOG) == []
