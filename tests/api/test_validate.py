"""All problems with places (POST /validate?all_errors=true), template URLs."""

import http.server
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.config import Settings
from tests.databases import sqlite
from tests.tables import few

from .conftest import Heat, template, value

BROKEN = """\
heat_template_version: 2018-08-31
parameters:
  p: {type: string, default: yes}
  q: {type: number}
resources:
  a:
    type: OS::Heat::RandomString
    properties: {lenght: 3, length: 9999}
  b: {type: OS::Heat::RandomStrin}
outputs:
  o: {value: [{get_param: p}, {get_param: q}]}
"""


def all_problems(heat: Heat, **body: object) -> list[dict[str, object]]:
    answer = heat.call("POST", "/validate?all_errors=true", body, code=200).json
    assert answer.keys() == {"problems"}
    for problem in answer["problems"]:
        assert problem.keys() == {"file", "line", "column", "severity", "type", "path", "message", "hint"}
    found: list[dict[str, object]] = answer["problems"]
    return found


def places(problems: list[dict[str, object]]) -> list[tuple[object, ...]]:
    return [(one["file"], one["line"], one["column"], one["severity"], one["type"]) for one in problems]


def test_all_problems(refusing: Heat) -> None:
    found = all_problems(refusing, template=BROKEN)
    assert places(found) == [
        ("template", 3, 30, "warning", "YamlValue"),
        ("template", 4, 3, "warning", "UserParameterMissing"),
        ("template", 8, 18, "error", "StackValidationFailed"),
        ("template", 8, 29, "error", "StackValidationFailed"),
        ("template", 9, 7, "error", "StackValidationFailed"),
    ]
    assert found[-1]["message"] == "The Resource Type (OS::Heat::RandomStrin) could not be found."
    assert found[-1]["hint"] == 'did you mean "OS::Heat::RandomString"?'
    assert found[-1]["path"] == "resources.b.type"


def test_none(refusing: Heat) -> None:
    assert all_problems(refusing, template=template(a=value())) == []


def test_an_object_has_no_lines(refusing: Heat) -> None:
    (found,) = all_problems(refusing, template=template(a={"type": "No::Such"}))
    assert (found["file"], found["line"], found["column"], found["path"]) == ("template", 0, 0, "resources.a.type")


def test_places_in_environments(refusing: Heat) -> None:
    text = "heat_template_version: 2018-08-31\nparameters: {p: {type: number}}\noutputs: {o: {value: {get_param: p}}}\n"
    found = all_problems(refusing, template=text, environment="parameters:\n  p: many\n  zz: 1\n")
    assert places(found) == [
        ("environment", 2, 3, "error", "StackValidationFailed"),
        ("environment", 3, 3, "error", "UnknownUserParameter"),
    ]
    files = {
        "one.yaml": "parameters:\n  p: 1\n  p: 012\n",
        "two.yaml": "\nparameters:\n  p: many\n",
        "bad.yaml": "parameter: {}",
    }
    found = all_problems(refusing, template=text, environment_files=["one.yaml", "two.yaml"], files=files)
    assert places(found) == [
        ("one.yaml", 3, 3, "warning", "DuplicateKey"),
        ("one.yaml", 3, 6, "warning", "YamlValue"),
        ("two.yaml", 3, 3, "error", "StackValidationFailed"),
    ]
    found = all_problems(refusing, template=text, environment_files=["absent.yaml", "bad.yaml"], files=files)
    assert places(found) == [
        ("absent.yaml", 0, 0, "error", "HTTPBadRequest"),
        ("bad.yaml", 1, 1, "error", "HTTPBadRequest"),
    ]


def test_places_in_files(refusing: Heat) -> None:
    child = (
        "heat_template_version: 2018-08-31\nparameters:\n  p: {type: string, default: 0644}\n"
        "resources:\n  x: {type: No::Such}\n"
    )
    files = {"child.yaml": child, "broken.yaml": "a: [", "data.yaml": "{% no template %}"}
    found = all_problems(refusing, template=template(a={"type": "child.yaml"}, b={"type": "broken.yaml"}), files=files)
    assert places(found) == [
        ("broken.yaml", 2, 1, "error", "StackValidationFailed"),
        ("child.yaml", 3, 30, "warning", "YamlValue"),
        ("child.yaml", 5, 7, "error", "StackValidationFailed"),
    ]


@pytest.mark.parametrize("text", ["a: [", "[]", "a: 1", "heat_template_version: 2999-01-01"])
def test_what_is_no_template_is_a_problem_like_others(refusing: Heat, text: str) -> None:
    found = all_problems(refusing, template=text, environment="zz: {}")
    assert {one["file"] for one in found} == {"template", "environment"}
    assert all(one["severity"] == "error" for one in found)


def test_what_is_no_request(refusing: Heat) -> None:
    assert refusing.fault("POST", "/validate?all_errors=true", {})[1] == "No template specified"
    assert refusing.fault("POST", "/validate?all_errors=1", {"template": BROKEN})[0] == "HTTPBadRequest"


# -- places in faults ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "kind", "message"),
    few(
        [
            (
                "heat_template_version: 2018-08-31\nresources:\n  a:\n    type: No::Such\n",
                "StackValidationFailed",
                "The Resource Type (No::Such) could not be found. (line 4, column 5)",
            ),
            (
                "# old\nheat_template_version: 2999-01-01\n",
                "InvalidTemplateVersion",
                " (line 2, column 1)",
            ),
            (
                "heat_template_version: 2018-08-31\nparameters:\n  p: {type: string}\n",
                "UserParameterMissing",
                "The Parameter (p) was not provided. (line 3, column 3)",
            ),
            (
                '{"heat_template_version": "2018-08-31",\n "zz": 1}',
                "StackValidationFailed",
                "The template section is invalid: zz (line 2, column 2)",
            ),
            ("heat_template_version: 2018-08-31\na: [\n", "HTTPBadRequest", "line 3, column 1"),
        ]
    ),
)
def test_a_refusal_of_a_text_tells_the_line(heat: Heat, text: str, kind: str, message: str) -> None:
    path = heat.create(template(a=value()))
    before = heat.get(path)["stack"]["updated_time"]
    for method, url in (("POST", "/stacks"), ("POST", "/stacks/preview"), ("PUT", path), ("PATCH", path)):
        found = heat.fault(method, url, {"stack_name": "t", "template": text})
        assert found[0] == kind
        assert found[1].endswith(message)
    assert heat.get(path)["stack"]["updated_time"] == before


def test_a_refusal_of_an_environment_does_too(refusing: Heat) -> None:
    body = {
        "stack_name": "t",
        "template": template(a=value()),
        "environment_files": ["e.yaml"],
        "files": {"e.yaml": "parameter_defaults: {}\nparameters:\n  zz: 1\n"},
    }
    message = "The Parameter (zz) was not defined in template."
    assert refusing.fault("POST", "/stacks", body) == ("UnknownUserParameter", f"{message} (e.yaml, line 3, column 3)")
    body = {"stack_name": "t", "template": template(a=value()), "parameters": {"zz": 1}}
    assert refusing.fault("POST", "/stacks", body) == ("UnknownUserParameter", message)


# -- template_url ----------------------------------------------------------------------------------


FILES = {
    "/good.yaml": "heat_template_version: 2018-08-31\n",
    "/broken.yaml": BROKEN,
    "/child.yaml": (
        "heat_template_version: 2018-08-31\n"
        "resources: {x: {type: 'http://HOST/grandchild.yaml', properties: {size: 3}}}\n"
    ),
    "/grandchild.yaml": (
        "heat_template_version: 2018-08-31\n"
        "parameters: {size: {type: number}}\n"
        "resources: {x: {type: OS::Heat::RandomString, properties: {length: {get_param: size}, lenght: 1}}}\n"
    ),
    "/by-path.yaml": (
        "heat_template_version: 2018-08-31\n"
        "resources: {a: {type: OS::Heat::Value, properties: {value: {get_file: run.sh}}}}\n"
    ),
    "/by-address.yaml": (
        "heat_template_version: 2018-08-31\n"
        "resources: {a: {type: OS::Heat::Value, properties: {value: {get_file: 'http://HOST/run.sh'}}}}\n"
    ),
    "/type-by-path.yaml": "heat_template_version: 2018-08-31\nresources: {a: {type: good.yaml}}\n",
    "/run.sh": "echo elsewhere",
    "/words": "heat_template_version: 2018-08-31\noutputs: {word: {value: hello}}\n",
    "/words?name=a.yaml": "heat_template_version: 2018-08-31\noutputs: {word: {value: hello}}\n",
}


class Files(http.server.BaseHTTPRequestHandler):
    def do_GET(self) -> None:
        text = FILES.get(self.path, "").replace("HOST", self.headers["Host"])
        self.send_response(200 if text else 404)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text.encode())

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        pass


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[str]:
    server = http.server.HTTPServer(("127.0.0.1", 0), Files)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    thread.join()
    server.server_close()


@pytest.mark.slow
def test_a_template_from_a_listed_host(tmp_path: Path, elsewhere: str) -> None:
    settings = Settings(database=sqlite(tmp_path), template_hosts=("127.0.0.1",), template_fetch_timeout=240.0)
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)
        good, broken, absent = ({"template_url": f"{elsewhere}/{name}.yaml"} for name in ("good", "broken", "absent"))
        created = heat.call("POST", "/stacks", {"stack_name": "s", **good}, code=201).json["stack"]["id"]
        path = f"/stacks/s/{created}"
        assert heat.settle(path)["stack_status"] == "CREATE_COMPLETE"
        assert heat.get(f"{path}/template") == {"heat_template_version": "2018-08-31"}
        heat.call("PUT", path, good, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        heat.call("PATCH", path, good, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        heat.call("POST", "/validate", good, code=200)
        assert len(all_problems(heat, **broken)) == 5
        assert heat.fault("POST", "/stacks", {"stack_name": "t", **broken})[1].endswith(" (line 4, column 3)")
        message = heat.fault("POST", "/stacks", {"stack_name": "t", **absent})[1]
        assert message.endswith("/absent.yaml: the answer is 404.")
        sent = {"stack_name": "t", "template": template(), **absent}
        heat.call("POST", "/stacks", sent, code=201)  # what is sent wins, and nothing is fetched
    finally:
        server.close()


def test_templates_for_types_from_a_listed_host(tmp_path: Path, elsewhere: str) -> None:
    """Named by the template or by an environment; what they name themselves, too."""
    settings = Settings(database=sqlite(tmp_path), template_hosts=("127.0.0.1",), template_fetch_timeout=240.0)
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)
        child = f"{elsewhere}/child.yaml"
        for body in (
            {"template": template(a={"type": child})},
            {"template": template(a={"type": "A::B"}), "environment": {"resource_registry": {"A::B": child}}},
        ):
            (found,) = all_problems(heat, **body)
            assert (found["file"], found["line"]) == (f"{elsewhere}/grandchild.yaml", 3)
            assert "Unknown Property lenght" in str(found["message"])
        absent = template(a={"type": f"{elsewhere}/absent.yaml"})
        assert heat.fault("POST", "/validate", {"template": absent})[1].endswith("absent.yaml: the answer is 404.")
    finally:
        server.close()


@pytest.mark.slow
def test_templates_at_urls_with_other_endings(tmp_path: Path, elsewhere: str) -> None:
    """As in Heat, a type ends as a template does, and a TemplateURL may have any end."""
    settings = Settings(database=sqlite(tmp_path), template_hosts=("127.0.0.1",), template_fetch_timeout=240.0)
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)
        words, outputs = f"{elsewhere}/words", {"word": {"value": {"get_attr": ["a", "Outputs.word"]}}}
        for number, url in enumerate((words, f"{words}?name=a.yaml")):
            nested = {"type": "AWS::CloudFormation::Stack", "properties": {"TemplateURL": url}}
            path = heat.create({**template(a=nested), "outputs": outputs}, name=f"s{number}")
            assert [one["output_value"] for one in heat.get(path)["stack"]["outputs"]] == ["hello"]
        heat.create(template(a={"type": f"{words}?name=a.yaml"}), name="type")
        kind, message = heat.fault("POST", "/stacks", {"stack_name": "t", "template": template(a={"type": words})})
        assert (kind, f"The Resource Type ({words}) could not be found." in message) == ("StackValidationFailed", True)
    finally:
        server.close()


@pytest.mark.slow
def test_what_a_fetched_template_names_comes_with_the_request(tmp_path: Path, elsewhere: str) -> None:
    """A path is a name in `files`, as in every template, not a path on disk.

    POST /validate looks at no values, so there only the missing type is a fault.
    """
    settings = Settings(database=sqlite(tmp_path), template_hosts=("127.0.0.1",), template_fetch_timeout=240.0)
    server = wiring.embedded(settings)
    try:
        heat = Heat(server.app)
        there = heat.create(template(a=value()), name="there")
        requests = (
            ("POST", "/stacks"),
            ("POST", "/stacks/preview"),
            ("PUT", there),
            ("PATCH", there),
            ("PATCH", f"{there}/preview"),
        )
        for name, file, message in (
            ("by-path", "run.sh", 'No content found in the "files" section for get_file path: run.sh'),
            ("by-address", f"{elsewhere}/run.sh", f"for get_file path: {elsewhere}/run.sh"),
            ("type-by-path", "good.yaml", 'Could not fetch remote template "good.yaml": it is not among the files'),
        ):
            body = {"stack_name": "s", "template_url": f"{elsewhere}/{name}.yaml"}
            judged = [*requests, ("POST", "/validate")] if name == "type-by-path" else requests
            for method, path in judged:
                assert message in heat.fault(method, path, body)[1], (method, path)
            assert any(message in str(one["message"]) for one in all_problems(heat, **body))
            given = {**body, "files": {file: "heat_template_version: 2018-08-31\n"}}
            assert all_problems(heat, **given) == []
            heat.call("POST", "/validate", given, code=200)
        given = {"stack_name": "s", "template_url": f"{elsewhere}/by-path.yaml", "files": {"run.sh": "mine"}}
        created = heat.call("POST", "/stacks", given, code=201).json["stack"]["id"]
        heat.settle(f"/stacks/s/{created}", "CREATE_COMPLETE")
        made = heat.get(f"/stacks/s/{created}/resources/a")["resource"]
        assert made["attributes"]["value"] == "mine"
    finally:
        server.close()


def test_templates_for_types_are_not_fetched_from_elsewhere(refusing: Heat, elsewhere: str) -> None:
    kind, message = refusing.fault(
        "POST", "/stacks", {"stack_name": "s", "template": template(a={"type": f"{elsewhere}/child.yaml"})}
    )
    assert kind == "StackValidationFailed"
    assert message.endswith("and the setting template_hosts of the server does not list its host")


def test_no_host_is_listed_by_default(refusing: Heat, elsewhere: str) -> None:
    for path in ("/stacks", "/validate", "/validate?all_errors=true"):
        kind, message = refusing.fault("POST", path, {"stack_name": "s", "template_url": f"{elsewhere}/good.yaml"})
        assert kind == "HTTPBadRequest"
        assert 'the setting template_hosts does not list "127.0.0.1"' in message
