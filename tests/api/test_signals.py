"""Signals over HTTP: the plain route, signed URLs and tokens."""

import json
import shlex
import string
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, quote, unquote, urlencode, urlsplit

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webtest import TestResponse

from heatlite import wiring
from heatlite.core.clock import Clock
from heatlite.core.config import Settings
from heatlite.core.ids import new_id
from heatlite.core.status import Status, Verb
from heatlite.plugin.coercion import PropertyKind
from heatlite.plugin.schema import Field
from heatlite.store.records import ResourceRecord
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store
from tests.databases import sqlite
from tests.laws import FEW_EXAMPLES
from tests.resource_types import ALL_TYPES
from tests.tables import few, sampled

from .conftest import Heat, template, value

DENIED = ("Forbidden", "The signature or the token is wrong or has expired.")


def handle(transport: str = "CFN_SIGNAL") -> dict[str, object]:
    return {"type": "OS::Heat::WaitConditionHandle", "properties": {"signal_transport": transport}}


CFN_HANDLE = {"type": "AWS::CloudFormation::WaitConditionHandle"}
CFN_SIGNAL = {"Status": "SUCCESS", "Reason": "done", "Data": "d", "UniqueId": "1"}


def attributes(heat: Heat, path: str, name: str = "h") -> dict[str, Any]:
    shown: dict[str, Any] = heat.get(f"{path}/resources/{name}")["resource"]["attributes"]
    return shown


def signal_of(heat: Heat, path: str, name: str = "h") -> dict[str, str]:
    found: dict[str, str] = json.loads(attributes(heat, path, name)["signal"])
    return found


def metadata(heat: Heat, path: str, name: str = "h") -> Any:
    return heat.get(f"{path}/resources/{name}/metadata")["metadata"]


def below(url: str) -> str:
    """The URL without scheme and host."""
    return url.removeprefix("http://127.0.0.1:8004")


def send(heat: Heat, url: str, body: object = None, method: str = "POST", token: str | None = None) -> TestResponse:
    headers = {} if token is None else {"X-Auth-Token": token}
    return heat.call(method, below(url), body, headers=headers)


def denied(answer: TestResponse) -> bool:
    if answer.status_int != 403:
        return False
    error = answer.json["error"]
    assert (error["type"], error["message"]) == DENIED
    return True


class TestPlain:
    """POST …/resources/{resource}/signal."""

    def test_it_answers_null_and_leaves_an_event(self, heat: Heat) -> None:
        path = heat.create(template(h=handle("TOKEN_SIGNAL")))
        answer = heat.call("POST", f"{path}/resources/h/signal", {"id": "a", "data": 1}, code=200)
        assert answer.text == "null"
        assert metadata(heat, path) == {"a": {"status": "SUCCESS", "reason": "Signal a received", "data": 1}}
        (event, *_) = heat.get(f"{path}/resources/h/events")["events"]
        assert event["resource_status"] == "SIGNAL_COMPLETE"
        assert event["resource_status_reason"] == "Signal: status:SUCCESS reason:Signal a received"
        assert heat.get(f"{path}/resources/h")["resource"]["resource_status"] == "CREATE_COMPLETE"

    def test_without_a_body(self, heat: Heat) -> None:
        path = heat.create(template(h=handle()))
        heat.call("POST", f"{path}/resources/h/signal", code=200)
        assert list(metadata(heat, path)) == ["1"]

    @pytest.mark.parametrize("body", few([{"status": "MAYBE"}, {"x": 1}, {"reason": []}]))
    def test_a_bad_one_is_refused(self, heat: Heat, body: object) -> None:
        path = heat.create(template(h=handle()))
        assert heat.fault("POST", f"{path}/resources/h/signal", body)[0] == "ValueError"
        assert heat.fault("POST", f"{path}/resources/h/signal", [body])[0] == "HTTPBadRequest"
        assert metadata(heat, path) == {}

    def test_a_deleted_stack_is_not_there(self, heat: Heat) -> None:
        path = heat.create(template(h=handle()))
        heat.call("DELETE", path, code=204)
        heat.settle(path, "DELETE_COMPLETE")
        assert heat.fault("POST", f"{path}/resources/h/signal", {}, code=404)[0] == "EntityNotFound"


class TestTransports:
    def test_a_token(self, heat: Heat) -> None:
        path = heat.create(template(h=handle("TOKEN_SIGNAL")))
        shown = attributes(heat, path)
        assert json.loads(shown["signal"]) == {"alarm_url": shown["endpoint"], "token": shown["token"]}
        words = shlex.split(shown["curl_cli"])
        assert words[:4] == ["curl", "-i", "-X", "POST"]
        assert words[-1] == shown["endpoint"]
        assert f"X-Auth-Token: {shown['token']}" in words
        assert "?" not in shown["endpoint"]
        for token in (None, "", "x", shown["token"][:-1], shown["token"] + "=", "ü"):
            assert denied(send(heat, shown["endpoint"], {}, token=token))
        assert send(heat, shown["endpoint"], {"id": "a"}, token=shown["token"]).text == "null"
        assert list(metadata(heat, path)) == ["a"]

    @pytest.mark.parametrize("method", ["POST", "PUT"])
    def test_a_url_of_cloudformations_form(self, heat: Heat, method: str) -> None:
        path = heat.create(template(h=handle("CFN_SIGNAL")))
        url = signal_of(heat, path)["alarm_url"]
        identifier = path.rpartition("/")[2]
        arn = quote(f"arn:openstack:heat::{heat.project}:stacks/s/{identifier}/resources/h", safe="")
        assert below(url).startswith(f"/v1/signal/{arn}?")
        query = dict(parse_qsl(urlsplit(url).query))
        assert query.keys() == {"Timestamp", "SignatureMethod", "AWSAccessKeyId", "SignatureVersion", "Signature"}
        assert (query["SignatureMethod"], query["SignatureVersion"]) == ("HmacSHA256", "2")
        assert send(heat, url, {"id": "a"}, method).text == "null"
        assert list(metadata(heat, path)) == ["a"]
        shown = attributes(heat, path)
        assert (shown["token"], shown["endpoint"], shown["curl_cli"]) == (None, None, None)

    def test_our_own_url(self, heat: Heat) -> None:
        path = heat.create(template(h=handle("HEAT_SIGNAL")))
        url = signal_of(heat, path)["alarm_url"]
        assert below(url).startswith(f"{heat.root}{path}/resources/h/signal?")
        assert send(heat, url, {"id": "a"}).text == "null"
        assert list(metadata(heat, path)) == ["a"]
        assert denied(send(heat, url + "x"))

    def test_none(self, heat: Heat) -> None:
        path = heat.create(template(h=handle("NO_SIGNAL")))
        assert attributes(heat, path) == {"token": None, "endpoint": None, "curl_cli": None, "signal": "{}"}

    def test_a_cfn_handle_is_its_url(self, heat: Heat) -> None:
        made = template(h=CFN_HANDLE)
        path = heat.create({**made, "outputs": {"url": {"value": {"get_resource": "h"}}}})
        url = heat.get(f"{path}/outputs/url")["output"]["output_value"]
        assert below(url).startswith(f"/v1/waitcondition/arn%3Aopenstack%3Aheat%3A%3A{heat.project}%3Astacks%2F")
        answer = send(heat, url, CFN_SIGNAL, "PUT")
        kept = {"1": {"Status": "SUCCESS", "Reason": "done", "Data": "d"}}
        assert (answer.status_int, answer.json) == (200, {"resource": "h", "metadata": kept})
        assert metadata(heat, path) == kept
        wrong = send(heat, url, {"Status": "SUCCESS"}, "PUT")
        assert (wrong.status_int, wrong.json["error"]["type"]) == (400, "ValueError")

    def test_names_of_any_kind(self, heat: Heat) -> None:
        path = heat.create(template(**{"ä b?%&=": handle("CFN_SIGNAL"), "h:h": handle("HEAT_SIGNAL")}))
        for name in ("ä b?%&=", "h:h"):
            quoted = quote(name)
            assert send(heat, signal_of(heat, path, quoted)["alarm_url"], {"id": "a"}).text == "null"
            assert list(metadata(heat, path, quoted)) == ["a"]

    @pytest.mark.parametrize("method", few(["GET", "DELETE", "PATCH"]))
    def test_other_methods(self, heat: Heat, method: str) -> None:
        path = heat.create(template(h=handle()))
        answer = send(heat, signal_of(heat, path)["alarm_url"], None, method)
        assert answer.status_int == 405
        assert answer.headers["Allow"] == "POST, PUT"


def decoded(url: str) -> tuple[str, list[tuple[str, str]]]:
    parts = urlsplit(url)
    return unquote(parts.path), parse_qsl(parts.query)


class TestSignatures:
    """Each invalid request gets the same answer, and has no effect."""

    @pytest.fixture
    def both(self, heat: Heat) -> tuple[str, str, str]:
        """The path of a stack and the URLs of two of its handles."""
        path = heat.create(template(h=handle(), other=handle()))
        return path, signal_of(heat, path)["alarm_url"], signal_of(heat, path, "other")["alarm_url"]

    def test_every_part_is_signed(self, heat: Heat, both: tuple[str, str, str]) -> None:
        path, url, other = both
        base, _, query = url.partition("?")
        pairs = parse_qsl(query)
        for index, (name, right) in enumerate(pairs):
            for wrong in ([], [right + "0"], [right[1:]], [""], [right, right]):
                changed = [(name, value) for value in wrong]
                tampered = [*pairs[:index], *changed, *pairs[index + 1 :]]
                assert denied(send(heat, f"{base}?{urlencode(tampered)}")), tampered
        assert denied(send(heat, f"{url}&more=1"))
        assert denied(send(heat, f"{other.partition('?')[0]}?{query}"))
        assert denied(send(heat, url.replace("/v1/signal/", "/v1/waitcondition/")))
        assert denied(send(heat, base))
        assert metadata(heat, path) == metadata(heat, path, "other") == {}
        assert send(heat, f"{base}?{urlencode(sorted(pairs))}").status_int == 200, "their order is free"

    def test_what_is_not_there_is_not_told(self, heat: Heat, both: tuple[str, str, str]) -> None:
        path, url, _ = both
        identifier = path.rpartition("/")[2]
        for here, there in (
            (identifier, new_id()),
            ("stacks%2Fs%2F", "stacks%2Fzz%2F"),
            (f"%3A%3A{heat.project}%3A", "%3A%3Aothers%3A"),
            ("resources%2Fh?", "resources%2Fzz?"),
        ):
            assert here in url
            assert denied(send(heat, url.replace(here, there)))

    def test_a_url_dies_with_its_resource(self, heat: Heat) -> None:
        path = heat.create(template(h=handle("CFN_SIGNAL")))
        old = signal_of(heat, path)["alarm_url"]
        heat.call("PUT", path, {"template": template(h=handle("HEAT_SIGNAL"))}, code=202)
        heat.settle(path, "UPDATE_COMPLETE")
        assert denied(send(heat, old))
        native = signal_of(heat, path)["alarm_url"]
        heat.call("DELETE", path, code=204)
        heat.settle(path, "DELETE_COMPLETE")
        assert denied(send(heat, native))

    @given(data=st.data())
    def test_no_other_url_is_good(self, heat: Heat, data: st.DataObject) -> None:
        """A character changed anywhere; what decodes to the same is the same."""
        stacks = heat.get("/stacks")["stacks"]
        path = f"/stacks/s/{stacks[0]['id']}" if stacks else heat.create(template(h=handle()))
        url = below(signal_of(heat, path)["alarm_url"])
        start = len("/v1/signal/arn%3Aopenstack%3Aheat%3A%3A")
        index = data.draw(st.integers(start, len(url) - 1))
        changed = url[:index] + data.draw(st.sampled_from(string.ascii_letters + string.digits)) + url[index + 1 :]
        answer = heat.call("POST", changed, {"id": "a"})
        if decoded(changed) == decoded(url):
            assert answer.status_int == 200
        else:
            assert answer.status_int in (403, 404)
            assert answer.status_int == 404 or denied(answer)

    def test_in_the_end_it_expires(self, tmp_path: Path) -> None:
        class Later(Clock):
            ahead = 0.0

            def now(self) -> float:
                return super().now() + self.ahead

        clock = Later()
        chosen = Settings(database=sqlite(tmp_path), signal_url_lifetime=1000)
        server = wiring.embedded(chosen, clock=clock)
        try:
            heat = Heat(server.app)
            path = heat.create(template(h=handle(), t=handle("TOKEN_SIGNAL")))
            url, token = signal_of(heat, path)["alarm_url"], signal_of(heat, path, "t")
            clock.ahead = 990
            assert send(heat, url).status_int == 200
            assert send(heat, token["alarm_url"], token=token["token"]).status_int == 200
            clock.ahead = 1002
            assert denied(send(heat, url))
            assert denied(send(heat, token["alarm_url"], token=token["token"]))
        finally:
            server.close()

    def test_the_key_is_shown_nowhere(self, heat: Heat, store: Store) -> None:
        path = heat.create(template(h=handle(), t=handle("TOKEN_SIGNAL"), c=CFN_HANDLE))
        (stack,) = store.stacks.list(heat.project, StackQuery())
        keys = [row.data["signal_key"]["secret"] for row in store.resources.of(stack.id)]  # type: ignore[index, call-overload]
        assert len(set(keys)) == 3
        shown = [path, f"{path}/resources?with_detail=true", f"{path}/events", f"{path}/environment"]
        for name in ("h", "t", "c"):
            shown += [f"{path}/resources/{name}{below}" for below in ("", "/metadata", "/events")]
        texts = [heat.call("GET", url, code=200).text for url in shown]
        texts.append(heat.call("PATCH", f"{path}/preview", {}, code=200).text)
        assert not [key for key in keys for text in texts if key in text]


# -- every type --------------------------------------------------------------------------------------

ANYTHING: dict[PropertyKind, Any] = {
    PropertyKind.STRING: "x",
    PropertyKind.INTEGER: 1,
    PropertyKind.NUMBER: 1,
    PropertyKind.BOOLEAN: True,
    PropertyKind.MAP: {},
    PropertyKind.LIST: [],
    PropertyKind.ANY: 1,
}  # fmt: skip

DETAILS = st.none() | st.dictionaries(
    st.sampled_from(["id", "status", "reason", "data", "Status", "Reason", "Data", "UniqueId", "deploy_status_code"])
    | st.text(max_size=3).filter(lambda key: "\0" not in key),
    st.recursive(
        st.none() | st.booleans() | st.integers(-9, 9) | st.sampled_from(["SUCCESS", "FAILURE", "x", ""]),
        lambda inner: st.lists(inner, max_size=2) | st.dictionaries(st.sampled_from("ab"), inner, max_size=2),
        max_leaves=3,
    ),
    max_size=5,
)


@pytest.fixture(scope="module")
def every(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Heat, str, wiring.Embedded]]:
    """The path of a stack with a resource of each type, on a server without a worker."""
    database = sqlite(tmp_path_factory.mktemp("every"))
    server = wiring.embedded(Settings(database=database))
    heat = Heat(server.app)
    path = heat.create(template(a=value()))
    server.close()
    with server.store.transaction():
        server.store.resources.insert_many([row_of(server, path, name) for name in ALL_TYPES])
    yield heat, path, server
    server.store.close()


def row_of(server: wiring.Embedded, path: str, type_name: str) -> ResourceRecord:
    fields = server.components.types.get(type_name).schema.fields
    identifier = new_id()
    return ResourceRecord(
        id=identifier,
        stack_id=path.rpartition("/")[2],
        name=type_name.replace(":", "_"),
        type=type_name,
        mapped_type=type_name,
        verb=Verb.CREATE,
        status=Status.COMPLETE,
        status_reason="",
        created_at=1.7e9,
        physical_name=f"s-{identifier}",
        physical_id=f"s-{identifier}",
        properties={name: some(field) for name, field in fields.items() if field.required},
    )


def some(field: Field) -> Any:
    """A value that the property may have."""
    for constraint in field.constraints:
        allowed = constraint.describe().get("allowed_values")
        if isinstance(allowed, list):
            return allowed[0]
    return ANYTHING[field.kind]


@pytest.mark.slow
@pytest.mark.parametrize("name", sampled(sorted(ALL_TYPES), 15, pytest.mark.thorough))
@FEW_EXAMPLES
@given(details=DETAILS)
def test_whatever_is_signalled_is_no_fault_of_the_server(
    every: tuple[Heat, str, wiring.Embedded], name: str, details: dict[str, object] | None
) -> None:
    heat, path, server = every
    answer = heat.call("POST", f"{path}/resources/{name.replace(':', '_')}/signal", details)
    if server.components.types.get(name).has("signal"):
        assert answer.status_int in (200, 400), answer.text
    else:
        assert (answer.status_int, answer.json["error"]["type"]) == (400, "ResourceActionNotSupported")
