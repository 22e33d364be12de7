"""The shipped script of a Zabbix media type, in Duktape, which Zabbix uses."""

import json
from pathlib import Path
from typing import Any

import pytest

from tests.api.conftest import Heat, template

SCRIPT = Path(__file__).parents[4] / "templates" / "healing" / "zabbix.js"
REQUEST = """
function HttpRequest() { this.headers = [] }
HttpRequest.prototype.addHeader = function (line) { this.headers.push(line) }
HttpRequest.prototype.post = function (url, body) {
    var answer = call_python('post', url, body, this.headers)
    this.status = answer[0]
    return answer[1]
}
HttpRequest.prototype.getStatus = function () { return this.status };
"""
"""The object of Zabbix that sends requests."""

run = pytest.importorskip("dukpy", reason="dukpy is not installed (extra `test`)")


@pytest.fixture
def path(heat: Heat) -> str:
    return heat.create(template(db={"type": "OS::Heat::TestResource"}))


def notify(heat: Heat, **changed: str) -> Any:
    """Run the script as Zabbix does.

    Returns the answer of heatlite, raises if the script throws.
    """

    def post(url: str, body: str, headers: list[str]) -> list[object]:
        sent = dict(line.split(": ", 1) for line in headers)
        answer = heat.call("POST", url.removeprefix("http://127.0.0.1:8004"), body.encode(), headers=sent)
        return [answer.status_int, answer.text]

    interpreter = run.JSInterpreter()
    interpreter.export_function("post", post)
    parameters = {
        "url": f"http://127.0.0.1:8004{heat.root}/health/generic", "token": "t", "event_id": "17", "event_value": "1",
        "physical_id": "", "reason": "No answer", **changed,
    }  # fmt: skip
    source = f"{REQUEST}; (function (value) {{ {SCRIPT.read_text()} }})(dukpy.value)"
    return json.loads(interpreter.evaljs(source, value=json.dumps(parameters)))


def test_a_problem_and_its_end(heat: Heat, path: str) -> None:
    identifier = heat.get(f"{path}/resources/db")["resource"]["physical_resource_id"]
    assert notify(heat, physical_id=identifier)["counts"] == {"accepted": 1}
    (incident,) = heat.get("/incidents")["incidents"]
    assert (incident["path"], incident["summary"]) == ("db", "No answer")
    assert notify(heat, physical_id=identifier, event_value="0")["counts"] == {"cleared": 1}


def test_it_throws_so_that_zabbix_repeats(heat: Heat) -> None:
    with pytest.raises(run.JSRuntimeError, match="heatlite answered 404"):
        notify(heat, url=f"http://127.0.0.1:8004{heat.root}/health/nothing")
