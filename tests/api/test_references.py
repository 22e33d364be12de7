"""References within functions, by the API.

No request is an internal error, and nothing is left for a second update.
"""

from collections.abc import Iterator
from itertools import count
from pathlib import Path

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from webtest import TestResponse

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.json import Json, JsonMap
from heatlite.template.dialects import DIALECTS
from tests.api.conftest import Heat, stop_actions
from tests.databases import sqlite
from tests.function_examples import CALLS, FILES, document, known_values, put_in
from tests.laws import FEW_EXAMPLES

LATEST = DIALECTS["heat_template_version.2021-04-16"]
TESTED = "OS::Heat::TestResource"
NAMES = count()
FUNCTIONS = sorted(name for name, function in LATEST.functions.items() if function.summary)


@pytest.fixture
def cloud(tmp_path: Path) -> Iterator[Heat]:
    """A server with a simulated cloud."""
    server = wiring.embedded(Settings(database=sqlite(tmp_path), cloud="simulated"))
    yield Heat(server.app)
    stop_actions(server)
    server.close()


def text_with(name: str) -> Json:
    return {"str_replace": {"template": "x-N", "params": {"N": {"get_resource": name}}}}


@pytest.mark.slow
def test_ids_in_names_and_scripts(cloud: Heat) -> None:
    """The types that look for implied dependencies read such properties first."""
    port: JsonMap = {"network": {"get_resource": "net"}, "name": text_with("net")}
    server: JsonMap = {
        "image": "cirros",
        "flavor": "m1.nano",
        "networks": [{"port": {"get_resource": "port"}}],
        "user_data_format": "RAW",
        "user_data": text_with("volume"),
    }
    template = document(
        LATEST,
        net=("OS::Neutron::Net", {}),
        subnet=("OS::Neutron::Subnet", {"network": {"get_resource": "net"}, "cidr": "10.9.0.0/24"}),
        port=("OS::Neutron::Port", port),
        volume=("OS::Cinder::Volume", {"size": 1}),
        server=("OS::Nova::Server", server),
    )
    given = {"parameters": {"secret": "s3cret"}}
    cloud.call("POST", "/validate", {"template": template, "environment": given}, code=200)
    path = cloud.create(template, environment=given)
    cloud.settle(path, "CREATE_COMPLETE")
    cloud.call("PATCH", f"{path}/resources/volume", {"mark_unhealthy": True}, code=200)
    cloud.call("PATCH", f"{path}/preview", {}, code=200)
    cloud.call("PATCH", path, {}, code=202)
    cloud.settle(path, "UPDATE_COMPLETE")


BASES: st.SearchStrategy[Json] = st.sampled_from([
    {"get_resource": "later"}, {"get_attr": ["later", "output"]}, {"get_param": "secret"}, {"get_resource": "known"},
    ["a", {"get_resource": "later"}], {"k": {"get_resource": "later"}}, "a", ["a", "b"], {"k": "v"}, 1,
])  # fmt: skip
VALUES = st.recursive(
    BASES,
    lambda inner: st.one_of(
        st.tuples(st.sampled_from([(name, row) for name in FUNCTIONS for row in CALLS[name]]), inner).map(
            lambda drawn: {drawn[0][0]: put_in(drawn[0][1], drawn[1])}
        ),
        st.lists(inner, min_size=1, max_size=2),
        inner.map(lambda value: {"k": value}),
    ),
    max_leaves=4,
)
OF_TEXT = (("OS::Heat::SoftwareConfig", "config"), (TESTED, "value"), ("OS::Heat::RandomString", "salt"))


@st.composite
def users(draw: st.DrawFn) -> tuple[str, JsonMap]:
    """A resource with a value that is right once all is known."""
    value = draw(VALUES)
    known = known_values(LATEST, [value]).get(0)
    assume(known is not None)
    kind, name = draw(st.sampled_from(OF_TEXT)) if isinstance(known, str) else ("OS::Heat::Value", "value")
    return kind, {name: value}


class Subject:
    """A stack whose resource `later` has another object in each version."""

    def __init__(self, heat: Heat, using: list[tuple[str, JsonMap]], rolls_back: bool) -> None:
        self.heat = heat
        self.users = {f"x{number}": one for number, one in enumerate(using)}
        self.given: JsonMap = {"environment": {"parameters": {"secret": "s3cret"}}, "files": FILES}
        self.given["disable_rollback"] = not rolls_back
        self.path = ""

    def body(self, version: str) -> JsonMap:
        known = (TESTED, {"value": "b"})
        later = (TESTED, {"value": "a", "update_replace_value": version})
        return {"template": document(LATEST, known=known, later=later, **self.users), **self.given}

    def create(self) -> str:
        """Validate and create it. Returns its status; "" if the template is refused."""
        self.ask("POST", "/validate", {key: one for key, one in self.body("1").items() if key != "disable_rollback"})
        name = f"s{next(NAMES)}"
        answer = self.ask("POST", "/stacks", {"stack_name": name, **self.body("1")})
        if answer.status_int != 201:
            return ""
        self.path = f"/stacks/{name}/{answer.json['stack']['id']}"
        return self.settled()

    def ask(self, method: str, path: str, body: JsonMap) -> TestResponse:
        answer = self.heat.call(method, path, body)
        assert answer.status_int < 500, answer.text
        return answer

    def update(self, method: str, body: JsonMap) -> str:
        assert self.ask(method, f"{self.path}/preview", body).status_int == 200
        assert self.ask(method, self.path, body).status_int == 202
        return self.settled()

    def settled(self) -> str:
        stack = self.heat.settle(self.path)
        assert "Internal error" not in stack["stack_status_reason"]
        return str(stack["stack_status"])

    def ids(self) -> dict[str, str]:
        shown = self.heat.get(f"{self.path}/resources")["resources"]
        return {one["resource_name"]: one["physical_resource_id"] for one in shown}


@pytest.mark.slow
@FEW_EXAMPLES
@given(using=st.lists(users(), min_size=1, max_size=3), rolls_back=st.booleans())
def test_random_functions_over_references(heat: Heat, using: list[tuple[str, JsonMap]], rolls_back: bool) -> None:
    subject = Subject(heat, using, rolls_back)
    if subject.create() != "CREATE_COMPLETE":
        return
    first = subject.ids()
    heat.call("PATCH", f"{subject.path}/resources/later", {"mark_unhealthy": True}, code=200)
    if subject.update("PATCH", {}) == "UPDATE_COMPLETE":
        marked = subject.ids()
        assert marked["later"] != first["later"]
        assert (subject.update("PUT", subject.body("1")), subject.ids()) == ("UPDATE_COMPLETE", marked)
    if subject.update("PUT", subject.body("2")) == "UPDATE_COMPLETE":
        second = subject.ids()
        assert (subject.update("PUT", subject.body("2")), subject.ids()) == ("UPDATE_COMPLETE", second)
