"""Refusals: code, type and text, also of hostile requests; never 5xx."""

import gc
import json
import re
import weakref
from io import BytesIO
from typing import Any
from urllib.parse import urlencode
from wsgiref.util import setup_testing_defaults

import pytest
from hypothesis import given
from hypothesis import strategies as st

from heatlite.api.request import REFUSAL
from heatlite.core.errors import Overloaded

from .conftest import Heat, template, value

HOT: dict[str, Any] = {"heat_template_version": "2021-04-16"}
RANDOM = "OS::Heat::RandomString"
GOOD = template(a=value())


def with_parameter(**schema: object) -> dict[str, object]:
    return {**HOT, "parameters": {"p": schema}}


def random_string(**properties: object) -> dict[str, object]:
    return template(x={"type": RANDOM, "properties": properties})


def output(of: object, **more: object) -> dict[str, object]:
    return {**template(x={"type": RANDOM}), "outputs": {"o": {"value": of, **more}}}


BROKEN: list[tuple[str, object, str, str]] = [
    # what, template, error.type, message (a regular expression, matched whole)
    ("no version", {"resources": {}}, "InvalidTemplateVersion", "The template version is invalid: .*not provided.*"),
    ("not a map", "[1, 2]", "HTTPBadRequest", "Template not in valid format: The template is not a JSON object.*"),
    ("a number", "5", "HTTPBadRequest", "Template not in valid format: .*"),
    ("bad YAML", "a: [1\nb: {", "HTTPBadRequest", r"Template not in valid format: (?s:.*)line \d+, column \d+(?s:.*)"),
    (
        "unknown version",
        {"heat_template_version": "2999-01-01"},
        "InvalidTemplateVersion",
        'The template version is invalid: "heat_template_version: 2999-01-01"\\.'
        ' "heat_template_version" should be one of: 2013-05-23, .*wallaby.*',
    ),
    (
        "two versions",
        {**HOT, "AWSTemplateFormatVersion": "2010-09-09"},
        "InvalidTemplateVersion",
        "The template version is invalid: Ambiguous versions.*",
    ),
    ("unknown section", {**HOT, "zzz": 1}, "StackValidationFailed", "The template section is invalid: zzz"),
    (
        "parameter without a value",
        with_parameter(type="string"),
        "UserParameterMissing",
        r"The Parameter \(p\) was not provided\.",
    ),
    (
        "default breaks its constraint",
        with_parameter(type="string", default="a", constraints=[{"length": {"min": 3}}]),
        "InvalidSchemaError",
        r"Parameter 'p' is invalid: Invalid default a \(length \(1\) is out of range \(min: 3, max: None\)\)",
    ),
    ("unknown parameter type", with_parameter(type="zz"), "InvalidSchemaError", r"Invalid type \(zz\)"),
    (
        "constraint for another type",
        with_parameter(type="boolean", default=True, constraints=[{"length": {"min": 3}}]),
        "InvalidSchemaError",
        ".*",
    ),
    (
        "number with a text as default",
        with_parameter(type="number", default="abc"),
        "StackValidationFailed",
        "Parameter 'p' is invalid: could not convert string to float: 'abc'",
    ),
    (
        "unknown type",
        template(x={"type": "No::Such"}),
        "StackValidationFailed",
        r"The Resource Type \(No::Such\) could not be found\.",
    ),
    (
        "circle",
        template(x=value({"get_resource": "y"}), y=value({"get_resource": "x"})),
        "CircularDependencyException",
        "Circular Dependency Found: .*",
    ),
    (
        "circle of one",
        template(x=value({"get_resource": "x"})),
        "CircularDependencyException",
        "Circular Dependency Found: .*",
    ),
    (
        "depends_on of a missing name",
        template(x=value(depends_on="zz")),
        "InvalidTemplateReference",
        r'The specified reference "zz" \(in x\) is incorrect\.',
    ),
    (
        "get_resource of a missing name",
        template(x=value({"get_resource": "zz"})),
        "InvalidTemplateReference",
        r'The specified reference "zz" \(in x\.Properties\.value\) is incorrect\.',
    ),
    (
        "unknown property",
        random_string(zz=1),
        "StackValidationFailed",
        "Property error: resources.x.properties: Unknown Property zz",
    ),
    (
        "property of a wrong type",
        random_string(length="abc"),
        "StackValidationFailed",
        "Property error: resources.x.properties.length: Value 'abc' is not an integer",
    ),
    (
        "property out of range",
        random_string(length=9999),
        "StackValidationFailed",
        r"Property error: resources.x.properties.length: 9999 is out of range \(min: 1, max: 512\)",
    ),
    (
        "required property missing",
        template(x={"type": "OS::Heat::Value"}),
        "StackValidationFailed",
        "Property error: resources.x.properties: Property value not assigned",
    ),
    (
        "get_param of a missing parameter",
        template(x=value({"get_param": "zz"})),
        "StackValidationFailed",
        r"Property error: resources.x.properties.value: The Parameter \(zz\) was not provided\.",
    ),
    (
        "unknown attribute",
        output({"get_attr": ["x", "zz"]}),
        "StackValidationFailed",
        r"outputs.o.value.get_attr: The Referenced Attribute \(x zz\) is incorrect\.",
    ),
    (
        "attribute of an unknown resource",
        output({"get_attr": ["zz", "value"]}),
        "StackValidationFailed",
        r'outputs.o.value.get_attr: The specified reference "zz" \(in unknown\) is incorrect\.',
    ),
    (
        "output without a value",
        {**GOOD, "outputs": {"o": {"description": "d"}}},
        "StackValidationFailed",
        r"Output validation error: outputs.o: Each output definition must contain a value key\.",
    ),
    (
        "bad function arguments",
        template(x=value({"list_join": "zz"})),
        "StackValidationFailed",
        'resources.x.properties.value.list_join: Incorrect arguments to "list_join" should be: .*',
    ),
    (
        "removed function",
        {"heat_template_version": "2015-10-15", "resources": {"x": value({"Fn::Select": [0, ["a"]]})}},
        "StackValidationFailed",
        ".*not supported in this version of HOT.*",
    ),
    (
        "unknown condition",
        template(x=value(condition="zz")),
        "StackValidationFailed",
        'resources.x.condition: Invalid condition "zz"',
    ),
    (
        "unknown deletion policy",
        template(x=value(deletion_policy="zz")),
        "StackValidationFailed",
        '.*Invalid deletion policy "zz"',
    ),
    (
        "snapshot of a type that has none",
        template(x=value(deletion_policy="Snapshot")),
        "StackValidationFailed",
        ".*Snapshot.*",
    ),
    (
        "parameter and resource with one name",
        {**with_parameter(type="string", default=""), "resources": {"p": value()}},
        "StackValidationFailed",
        r".*Duplicate names \{'p'\}.*",
    ),
    (
        "unknown parameter in a group",
        {**with_parameter(type="string", default=""), "parameter_groups": [{"parameters": ["zz"]}]},
        "StackValidationFailed",
        ".*Parameter Groups error: .*",
    ),
    ("no type", template(x={}), "StackValidationFailed", r".*Each resource must contain a type key\."),
    (
        "unknown key in a resource",
        template(x=value(zz=1)),
        "StackValidationFailed",
        '.*"zz" is not a valid keyword inside a resource definition',
    ),
    (
        "slash in a resource name",
        template(**{"a/b": value()}),
        "StackValidationFailed",
        '.*Resource name may not contain "/"',
    ),
]


@pytest.mark.parametrize(("broken", "kind", "message"), [row[1:] for row in BROKEN], ids=[row[0] for row in BROKEN])
def test_a_broken_template(refusing: Heat, broken: object, kind: str, message: str) -> None:
    found_kind, found = refusing.fault("POST", "/stacks", {"stack_name": "s", "template": broken})
    assert found_kind == kind
    assert re.fullmatch(message, found), found
    assert refusing.fault("POST", "/stacks/preview", {"stack_name": "s", "template": broken}) == (kind, found)
    assert refusing.get("/stacks") == {"stacks": []}


BODIES: list[tuple[str, object, str, str]] = [
    ("no name", {"template": GOOD}, "HTTPBadRequest", "No stack name specified"),
    ("name null", {"template": GOOD, "stack_name": None}, "HTTPBadRequest", "No stack name specified"),
    ("nothing", {}, "HTTPBadRequest", "No stack name specified"),
    ("no template", {"stack_name": "s"}, "HTTPBadRequest", "No template specified"),
    (
        "bad name",
        {"stack_name": "9bad name", "template": GOOD},
        "StackValidationFailed",
        'Invalid stack name 9bad name must contain only alphanumeric or "_-." characters,'
        " must start with alpha and must be 255 characters or less.",
    ),
    ("timeout", {"timeout_mins": "abc"}, "HTTPBadRequest", "Only integer is acceptable by 'timeout_mins'."),
    ("timeout true", {"timeout_mins": True}, "HTTPBadRequest", "Only integer is acceptable by 'timeout_mins'."),
    ("timeout 1.5", {"timeout_mins": 1.5}, "HTTPBadRequest", "Only integer is acceptable by 'timeout_mins'."),
    (
        "timeout -1",
        {"timeout_mins": -1},
        "HTTPBadRequest",
        "Value '-1' is invalid for 'timeout_mins' which only accepts non-negative integer.",
    ),
    (
        "rollback",
        {"disable_rollback": "maybe"},
        "ValueError",
        'Unrecognized value "maybe" for "disable_rollback", acceptable values are: true, false.',
    ),
    (
        "unknown parameter",
        {"parameters": {"zz": 1}},
        "UnknownUserParameter",
        "The Parameter (zz) was not defined in template.",
    ),
    ("long tag", {"tags": "t" * 81}, "HTTPBadRequest", f'Invalid tag, "{"t" * 81}" is longer than 80 characters'),
    ("tag with a comma", {"tags": ["a,b"]}, "HTTPBadRequest", 'Invalid tag, "a,b" contains a comma'),
    ("tags", {"tags": 5}, "HTTPBadRequest", "tags: must be text or a list or null, not a number."),
    ("a tag", {"tags": ["a", 5]}, "HTTPBadRequest", "tags[1]: must be text, not a number."),
    ("name", {"stack_name": 5}, "HTTPBadRequest", "stack_name: must be text, not a number."),
    ("template", {"template": []}, "HTTPBadRequest", "template: must be an object or text or null, not a list."),
    ("files", {"files": {"f": {}}}, "HTTPBadRequest", "files.f: must be text, not an object."),
    ("parameters", {"parameters": []}, "HTTPBadRequest", "parameters: must be an object or null, not a list."),
    ("environment", {"environment": True}, "HTTPBadRequest", None),
    ("environment section", {"environment": {"zz": {}}}, "HTTPBadRequest", None),
    ("environment text", {"environment": "a: ["}, "HTTPBadRequest", None),
    ("environment file", {"environment_files": ["zz"]}, "HTTPBadRequest", None),
    ("converge", {"converge": True}, "HTTPBadRequest", "converge is valid for an update only."),
    ("adopt", {"adopt_stack_data": "{}"}, "HTTPBadRequest", "adopt_stack_data: there is no template in it."),
    ("adopt text", {"adopt_stack_data": "{"}, "HTTPBadRequest", None),
    ("adopt list", {"adopt_stack_data": []}, "HTTPBadRequest", None),
    ("adopt NUL", {"adopt_stack_data": '{"template": {}, "resources": {"a": "\\u0000"}}'}, "HTTPBadRequest", None),
    ("adopt deep", {"adopt_stack_data": '{"template": ' + '{"a": ' * 999 + "1" + "}" * 1000}, "HTTPBadRequest", None),
    ("adopt resources", {"adopt_stack_data": {"template": {}, "resources": []}}, "HTTPBadRequest", None),
    ("adopt resource", {"adopt_stack_data": {"template": {}, "resources": {"a": 1}}}, "HTTPBadRequest", None),
    (
        "adopt id",
        {"adopt_stack_data": {"template": {}, "resources": {"g": {"resources": {"a": {"resource_id": 1}}}}}},
        "HTTPBadRequest",
        "adopt_stack_data.resources.g.resources.a.resource_id: must be text or null.",
    ),
    ("adopt template", {"adopt_stack_data": {"template": {"a": 1}}}, "InvalidTemplateVersion", None),
    (
        "adopt environment",
        {"adopt_stack_data": {"template": {"heat_template_version": "2021-04-16"}, "environment": {"zz": {}}}},
        "HTTPBadRequest",
        None,
    ),
    (
        "template URL",
        {"template": None, "template_url": "http://x"},
        "HTTPBadRequest",
        'Could not retrieve template http://x: the setting template_hosts does not list "x".',
    ),
]


@pytest.mark.parametrize(("body", "kind", "message"), [row[1:] for row in BODIES], ids=[row[0] for row in BODIES])
def test_a_bad_body(refusing: Heat, body: dict[str, object], kind: str, message: str | None) -> None:
    if not {"no name", "no template", "nothing"} & {row[0] for row in BODIES if row[1] is body}:
        body = {"stack_name": "s", "template": GOOD, **body}
    found = refusing.fault("POST", "/stacks", body)
    assert found[0] == kind, found
    assert message is None or found[1] == message
    assert refusing.get("/stacks") == {"stacks": []}


def test_a_bad_hook(refusing: Heat) -> None:
    environment = {"resource_registry": {"resources": {"a": {"hooks": "zz"}}}}
    body = {"stack_name": "s", "template": GOOD, "environment": environment}
    assert refusing.fault("POST", "/stacks", body)[0] == "InvalidBreakPointHook"


def test_fault_body(refusing: Heat) -> None:
    response = refusing.call("GET", "/stacks/nope", code=404)
    assert response.json == {
        "code": 404,
        "title": "Not Found",
        "explanation": "The resource could not be found.",
        "error": {
            "type": "EntityNotFound",
            "message": "The Stack (nope) could not be found.",
            "traceback": None,
        },
    }
    assert response.headers["X-Openstack-Request-Id"].startswith("req-")
    explanation = refusing.call("POST", "/stacks", {}).json["explanation"]
    assert explanation == (
        "The server could not comply with the request since it is either malformed or otherwise incorrect."
    )


# -- bytes that are no JSON ------------------------------------------------------------------------


def deep(levels: int, opening: str = "[", closing: str = "]") -> bytes:
    return f'{{"stack_name": "s", "template": {opening * levels}{closing * levels}}}'.encode()


RAW: list[tuple[str, bytes, str]] = [
    ("empty", b"", "The request needs a JSON object as its body, not nothing."),
    ("spaces", b" \n ", "The request needs a JSON object as its body, not nothing."),
    ("null", b"null", "The request needs a JSON object as its body, not nothing."),
    ("list", b"[]", "The request needs a JSON object as its body, not a list."),
    ("text", b'"x"', "The request needs a JSON object as its body, not text."),
    ("number", b"5", "The request needs a JSON object as its body, not a number."),
    ("cut off", b'{"stack_name": ', "Expecting value: line 1 column 16 (char 15)"),
    ("not JSON", b"stack_name=s", "Expecting value: line 1 column 1 (char 0)"),
    ("two values", b"{} {}", "Extra data: line 1 column 4 (char 3)"),
    ("Latin-1", b'{"stack_name": "\xe4"}', "The body is not UTF-8: invalid continuation byte at byte 16."),
    ("NaN", b'{"stack_name": NaN}', "NaN is not JSON"),
    ("infinite", b'{"stack_name": "s", "files": [1e999]}', "1e999 is too large a number"),
    ("minus infinite", b'{"stack_name": "s", "files": [-1.5E+400]}', "-1.5E+400 is too large a number"),
    ("NUL", b'{"stack_name": "a\x00"}', "Invalid control character at: line 1 column 18 (char 17)"),
    ("escaped NUL", b'{"stack_name": "a\\u0000"}', "The body contains a NUL character."),
    (
        "half a pair",
        b'{"stack_name": "a\\ud800"}',
        "The body contains half of a surrogate pair, which is not a character.",
    ),
    ("deep lists", deep(101), "The body is nested deeper than 100 levels."),
    ("very deep lists", deep(100_000), "The body is nested deeper than 100 levels."),
    ("very deep maps", deep(100_000, '{"a":', "}"), "The body is nested deeper than 100 levels."),
    ("deep and cut off", b"[" * 500_000, "The body is nested deeper than 100 levels."),
    ("long number", b'{"timeout_mins": ' + b"9" * 5000 + b"}", None),
]


@pytest.mark.parametrize(("raw", "message"), [row[1:] for row in RAW], ids=[row[0] for row in RAW])
def test_bytes_that_are_no_object(refusing: Heat, raw: bytes, message: str | None) -> None:
    kind, found = refusing.fault("POST", "/stacks", raw)
    assert kind == "HTTPBadRequest"
    assert message is None or found == message
    for method, path in (("POST", "/validate"), ("POST", "/stacks/preview")):
        assert refusing.fault(method, path, raw)[0] == "HTTPBadRequest"


def test_a_surrogate_pair_is_a_character(refusing: Heat) -> None:
    body = b'{"template": {"heat_template_version": "2018-08-31", "description": "\\ud83d\\ude00 \\\\u0000"}}'
    assert refusing.call("POST", "/validate", body, code=200).json["Description"] == "\U0001f600 \\u0000"


def test_a_number_that_no_answer_could_repeat_is_refused(heat: Heat) -> None:
    """`Infinity` is no JSON, so clients could no longer read what holds it."""
    kind, text = heat.fault("POST", "/software_configs", b'{"name": "c", "options": {"a": 1e999}}')
    assert (kind, text) == ("HTTPBadRequest", "1e999 is too large a number")
    whole = heat.call("POST", "/software_configs", b'{"name": "c", "options": {"a": [1e308, 1e-999]}}', code=200)
    assert whole.json["software_config"]["options"] == {"a": [1e308, 0.0]}


@pytest.mark.parametrize("content_type", ["application/x-www-form-urlencoded", "application/xml", "text/html"])
def test_another_content_type(refusing: Heat, content_type: str) -> None:
    response = refusing.call("POST", "/stacks", {}, headers={"Content-Type": content_type}, code=400)
    assert response.json["error"]["message"] == f"The body must be application/json, not {content_type}."


def test_the_limit_of_a_body(heat: Heat) -> None:
    limit = 4 * 1024 * 1024
    fits = json.dumps({"template": {**HOT, "description": ""}})
    fits = fits + " " * (limit - len(fits))
    assert heat.call("POST", "/validate", fits.encode(), code=200)
    for method, path in (("POST", "/stacks"), ("PATCH", "/stacks/s/i"), ("GET", "/stacks"), ("POST", "/nothing")):
        kind, message = heat.fault(method, path, fits.encode() + b" ")
        assert kind == "RequestLimitExceeded"
        assert str(limit) in message


class Endless:
    """A body without end."""

    def __init__(self) -> None:
        self.given = 0

    def read(self, size: int = -1) -> bytes:
        assert size >= 0, "nobody may ask for all of it"
        self.given += size
        return b" " * size


def test_nothing_beyond_the_limit_is_read(refusing: Heat) -> None:
    stream = Endless()
    environ = {"CONTENT_TYPE": "application/json", "CONTENT_LENGTH": "99999999999"}
    request = refusing.app.RequestClass.blank("/v1/demo/stacks", environ, method="POST")
    request.environ["wsgi.input"] = stream
    answered: list[str] = []
    body = b"".join(refusing.wsgi(request.environ, lambda status, headers: answered.append(status)))
    assert answered == ["400 Bad Request"]
    assert json.loads(body)["error"]["type"] == "RequestLimitExceeded"
    assert stream.given == 0


@pytest.mark.parametrize("length", ["-5", "abc"])
def test_a_length_that_is_none(refusing: Heat, length: str) -> None:
    request = refusing.app.RequestClass.blank("/v1/demo/stacks", method="POST")
    request.environ["CONTENT_LENGTH"] = length
    answered: list[str] = []
    body = b"".join(refusing.wsgi(request.environ, lambda status, headers: answered.append(status)))
    assert answered == ["400 Bad Request"]
    assert json.loads(body)["error"]["type"] == "HTTPBadRequest"


BOMB = "a: &a [x,x,x,x,x,x,x,x,x]\n" + "".join(
    f"{chr(98 + i)}: &{chr(98 + i)} [{','.join(['*' + chr(97 + i)] * 9)}]\n" for i in range(12)
)


def test_a_bomb_of_aliases(refusing: Heat) -> None:
    for key in ("template", "environment"):
        body = {"stack_name": "s", "template": GOOD, key: "heat_template_version: 2018-08-31\n" + BOMB}
        assert refusing.fault("POST", "/stacks", body)[0] == "HTTPBadRequest"


@pytest.mark.parametrize("path", ["/stacks/a%00b", "/stacks/s/i%00", "/resource_types/a%00", "/stacks/%FF%FE/x"])
def test_odd_paths(refusing: Heat, path: str) -> None:
    refusing.fault("GET", path, code=404)


@pytest.mark.parametrize("query", ["name=%00", "name=a%00b", "marker=%00"])
def test_nul_in_a_query(refusing: Heat, query: str) -> None:
    assert refusing.fault("GET", f"/stacks?{query}") == ("HTTPBadRequest", "The query contains a NUL character.")


# -- laws ------------------------------------------------------------------------------------------

NAMES = """
    limit marker sort_keys sort_dir name id status action tags tags_any not_tags show_deleted with_count timeout_mins
    global_tenant disable_rollback nested_depth with_detail type with_attr resource_status with_description
    support_status template_type with_condition_func resolve_outputs zz
"""
KEYS = st.sampled_from(NAMES.split())
TEXTS = st.text(max_size=8) | st.sampled_from(["true", "False", "0", "1", "-1", "9" * 30, "asc", "(", "[", "COMPLETE"])
READABLE = """
    /stacks /stacks/detail /stacks/s/i /stacks/s/i/events /stacks/s/i/resources /resource_types /services
    /resource_types/OS::Heat::Value /resource_types/OS::Heat::Value/template /template_versions/2018-08-31/functions
"""
PATHS = st.sampled_from(READABLE.split())


@pytest.mark.slow
@given(path=PATHS, pairs=st.lists(st.tuples(KEYS, TEXTS), max_size=4))
def test_no_query_is_a_fault_of_the_server(refusing: Heat, path: str, pairs: list[tuple[str, str]]) -> None:
    assert refusing.call("GET", f"{path}?{urlencode(pairs)}").status_int < 500


@given(raw=st.binary(max_size=20) | st.text(max_size=20).map(str.encode))
def test_no_query_string_is_a_fault_of_the_server(refusing: Heat, raw: bytes) -> None:
    environ = refusing.app.RequestClass.blank("/v1/demo/stacks").environ
    environ["QUERY_STRING"] = raw.decode("latin-1")
    answered: list[str] = []
    b"".join(refusing.wsgi(environ, lambda status, headers: answered.append(status)))
    assert answered[0][0] in "234"


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
BODY_KEYS = """
    stack_name template environment environment_files files parameters clear_parameters tags timeout_mins lock unlock
    disable_rollback converge adopt_stack_data template_url files_container mark_unhealthy resource_status_reason check
"""
REQUESTS = st.sampled_from(
    [
        ("POST", "/stacks"),
        ("POST", "/stacks/preview"),
        ("POST", "/validate"),
        ("PUT", "/stacks/s/i"),
        ("PATCH", "/stacks/s/i"),
        ("PATCH", "/stacks/s/i/preview"),
        ("POST", "/stacks/s/i/actions"),
        ("PATCH", "/stacks/s/i/resources/r"),
        ("POST", "/stacks/s/i/resources/r/signal"),
    ]
)


@given(request=REQUESTS, body=JSON | st.dictionaries(st.sampled_from(BODY_KEYS.split()), JSON, max_size=5))
def test_no_body_is_a_fault_of_the_server(refusing: Heat, request: tuple[str, str], body: object) -> None:
    assert refusing.call(*request, json.dumps(body).encode()).status_int < 500


TEMPLATE_KEYS = st.sampled_from(["parameters", "resources", "outputs", "conditions", "parameter_groups", "zz"])
RESOURCE = st.dictionaries(
    st.sampled_from(["type", "properties", "depends_on", "condition", "metadata", "deletion_policy"]), JSON, max_size=3
)


@given(
    sections=st.dictionaries(TEMPLATE_KEYS, JSON, max_size=3),
    resources=st.dictionaries(st.sampled_from("ab"), RESOURCE | JSON, max_size=2),
)
def test_no_template_is_a_fault_of_the_server(
    refusing: Heat, sections: dict[str, object], resources: dict[str, object]
) -> None:
    body = {"stack_name": "s", "template": {**HOT, "resources": resources, **sections}}
    for path in ("/validate", "/stacks/preview"):
        assert refusing.call("POST", path, json.dumps(body).encode()).status_int < 500


def test_the_refusal_of_an_overloaded_server_does_not_stay_in_memory(refusing: Heat) -> None:
    """Its traceback leads to the environment, which must not lead back."""
    error = Overloaded("many requests")
    known, environ = weakref.ref(error), {REFUSAL: error, "PATH_INFO": "/v1/demo/stacks"}
    setup_testing_defaults(environ)
    answered: list[str] = []
    body = b"".join(refusing.wsgi(environ, lambda status, _: answered.append(status)))
    del error
    assert (answered, json.loads(body)["error"]["type"]) == (["503 Service Unavailable"], "Overloaded")
    assert known() is None


@pytest.mark.parametrize(
    ("method", "path", "body", "code"),
    [
        ("GET", "stacks", b"", 200),
        ("GET", "stacks/none", b"", 404),
        ("PUT", "stacks", b"{}", 405),
        ("POST", "stacks", b"{", 400),
        ("POST", "stacks", b'{"stack_name": 1}', 400),
    ],
)
def test_no_request_stays_in_memory_after_its_answer(
    refusing: Heat, method: str, path: str, body: bytes, code: int
) -> None:
    """Its body may be large, and the collector of garbage comes late."""
    content = BytesIO(body)
    known = weakref.ref(content)
    environ: dict[str, Any] = {"REQUEST_METHOD": method, "PATH_INFO": f"/v1/demo/{path}", "wsgi.input": content}
    environ["CONTENT_LENGTH"] = str(len(body))
    setup_testing_defaults(environ)
    answered: list[str] = []
    gc.disable()
    try:
        b"".join(refusing.wsgi(environ, lambda status, _: answered.append(status)))
        del content, environ
        assert ([status[:3] for status in answered], known()) == ([str(code)], None)
    finally:
        gc.enable()
