"""Endpoints of rules: answers, and all ways not to answer."""

import hashlib
import hmac
import json
import socket
import time
from collections.abc import Iterator
from typing import Any

import pytest
from msgspec import UNSET, convert

from heatlite.core.clock import Clock
from heatlite.features.change_policy.effective import PlacedRule, PlanRule, PolicyOrigin
from heatlite.features.rules.addresses import fault_of
from heatlite.features.rules.endpoints import MOST_BYTES, EndpointAnswer, Endpoints, EndpointVerdict
from heatlite.features.rules.feature import RulesSettings
from tests.features.rules.endpoints import Behaviour, Endpoint, answer, listening, says
from tests.tables import table

HERE = RulesSettings(rule_hosts=("127.0.0.1",))
TOLD = {"rules": "2026-11-28", "plan": {"digest": "d", "resources": []}}


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with listening() as made:
        yield made


def placed(url: str, name: str = "r", deadline: int = 20) -> PlacedRule:
    told = {"name": name, "for": "plan", "url": url, "deadline": deadline, "then": "deny", "message": "m"}
    return PlacedRule(PolicyOrigin.OPERATOR, convert(told, PlanRule))


def asked(url: str, settings: RulesSettings = HERE, deadline: int = 20) -> EndpointAnswer | str:
    one = placed(url, deadline=deadline)
    return Endpoints(settings, Clock()).ask([one], TOLD)[one]


@pytest.mark.parametrize("verdict", [*EndpointVerdict])
def test_answers(endpoint: Endpoint, verdict: EndpointVerdict) -> None:
    endpoint.behave = says(verdict.value)
    assert asked(endpoint.url) == EndpointAnswer(verdict)
    endpoint.behave = says(verdict.value, message="é", findings=[{"path": "a/0", "message": "x"}])
    found = asked(endpoint.url)
    assert isinstance(found, EndpointAnswer) and found.message == "é"
    assert [(one.path, one.message) for one in found.findings] == [("a/0", "x")]
    assert endpoint.told == [TOLD, TOLD]


def test_request(endpoint: Endpoint) -> None:
    """Signed as webhooks are, if there is a secret."""
    assert isinstance(asked(endpoint.url), EndpointAnswer)
    assert isinstance(
        asked(endpoint.url, RulesSettings(rule_hosts=("127.0.0.1",), rule_secret="s3cret")), EndpointAnswer
    )
    plain, signed = (one.decode().split("\r\n") for one in endpoint.heads)
    assert plain[0] == "POST /judge?site=1 HTTP/1.1"
    assert f"Host: 127.0.0.1:{endpoint.port}" in plain and "Content-Type: application/json" in plain
    assert not [one for one in plain if one.startswith("X-Heatlite-Signature")]
    digest = hmac.new(b"s3cret", endpoint.bodies[1], hashlib.sha256).hexdigest()
    assert f"X-Heatlite-Signature: sha256={digest}" in signed


def dribble(peer: socket.socket) -> None:
    """Send an endless head, so that no silence is long."""
    peer.sendall(b"HTTP/1.1 200 OK\r\n")
    while True:
        peer.sendall(b"X: 1\r\n")
        time.sleep(0.05)


def flood(peer: socket.socket) -> None:
    """Send ten megabytes, or as many as are taken."""
    peer.sendall(b'HTTP/1.1 200 OK\r\nContent-Length: 10485760\r\n\r\n{"result": "')
    for _ in range(160):
        peer.sendall(b"x" * 65_536)


FORM = "its answer has another form"
FAULTS: dict[str, tuple[Behaviour, str]] = {
    "error": (answer(b"{}", "500 Oops"), "the endpoint answers 500"),
    "refusal": (answer(b'{"result": "pass"}', "403 No"), "the endpoint answers 403"),
    "nothing": (answer(b"", "204 No Content"), "the endpoint answers 204"),
    "another_success": (answer(b'{"result": "pass"}', "201 Created"), "the endpoint answers 201"),
    "redirect": (answer(b"", "302 Found", "Location: http://127.0.0.1:{}/x"), "the endpoint answers 302"),
    "no_http": (lambda peer: peer.sendall(b"hello\r\n\r\n"), "hello"),
    "hangs_up": (lambda peer: None, "without response"),
    "cut_off": (lambda peer: peer.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\n{"), "IncompleteRead"),
    "page": (answer(b"<html>pass</html>"), FORM),
    "empty": (answer(b""), FORM),
    "list": (answer(b'["pass"]'), FORM),
    "another_result": (says("allow"), FORM),
    "no_result": (answer(b"{}"), FORM),
    "unknown_key": (says("pass", digest="x"), FORM),
    "no_text": (says("deny", message=1), FORM),
    "long_text": (says("deny", message="m" * 501), FORM),
    "odd_findings": (says("deny", findings=[{"path": "a"}]), FORM),
    "no_unicode": (answer(b'{"result": "deny", "message": "\xff"}'), FORM),
    "deep": (answer(b'{"findings": ' + b"[" * 60_000), FORM),
    "two_documents": (answer(b'{"result": "pass"}{"result": "pass"}'), FORM),
    "flood": (flood, f"more than {MOST_BYTES} bytes"),
    "large": (answer(b'{"result": "pass"}' + b" " * MOST_BYTES), f"more than {MOST_BYTES} bytes"),
}


@pytest.mark.parametrize("fault", [*FAULTS])
def test_faults(endpoint: Endpoint, fault: str) -> None:
    """Each is an error in one line. The endpoint is asked once."""
    endpoint.behave, told = FAULTS[fault]
    found = asked(endpoint.url)
    assert isinstance(found, str) and told in found and found.isprintable()
    assert len(endpoint.bodies) == 1


@pytest.mark.slow
@pytest.mark.parametrize("silent", [False, True])
def test_deadline(endpoint: Endpoint, silent: bool) -> None:
    """The whole exchange has it, not each silence."""
    endpoint.behave = (lambda _: endpoint.over.wait()) if silent else dribble
    assert asked(endpoint.url, deadline=1) == "it took longer than 1 seconds"


@pytest.mark.slow
def test_several_share_the_time(endpoint: Endpoint) -> None:
    """They are asked at once: eight that hang take as long as one."""
    endpoint.behave = lambda _: endpoint.over.wait()
    rules = [placed(endpoint.url, f"r{number}", 1) for number in range(8)]
    began = time.monotonic()
    found = Endpoints(HERE, Clock()).ask(rules, TOLD)
    assert [*found] == rules and {*found.values()} == {"it took longer than 1 seconds"}
    assert time.monotonic() - began < 8


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert "refused" in str(asked(f"http://127.0.0.1:{port}/"))


@table(
    ("url", "hosts", "fault"),
    [
        ("https://cmdb.example/x", ("cmdb.example",), None),
        ("https://cmdb.example:444/x", ("cmdb.example:444",), None),
        ("http://localhost:1/x", ("localhost",), None),
        ("http://[::1]:1/x", ("::1",), None),
        ("http://127.9.9.9/x", ("127.0.0.0/8",), None),
        ("https://other.example/", ("cmdb.example",), 'rule_hosts does not list "other.example"'),
        ("https://cmdb.example:444/x", ("cmdb.example:443",), "does not list"),
        ("https://cmdb.example.evil.example/", ("cmdb.example",), "does not list"),
        ("https://cmdb.example/", (), "does not list"),
        ("http://cmdb.example/", ("cmdb.example",), "https"),
        ("http://10.0.0.1/", ("10.0.0.1",), "https"),
        ("https://user@cmdb.example/", ("cmdb.example",), "no address"),
        ("https://user:word@cmdb.example/", ("cmdb.example",), "no address"),
        ("ftp://cmdb.example/", ("cmdb.example",), "no address"),
        ("file:///etc/passwd", ("",), "no address"),
        ("cmdb.example", ("cmdb.example",), "no address"),
        ("https:///x", ("",), "no address"),
        ("https://cmdb.example/a b", ("cmdb.example",), "no address"),
        ("https://cmdb.example/\r\nX: y", ("cmdb.example",), "no address"),
        ("https://cmdb.example:99999/", ("cmdb.example",), "no address"),
        ("https://[::1/", ("::1",), "no address"),
    ],
)
def test_addresses(url: str, hosts: tuple[str, ...], fault: str | None) -> None:
    """They are refused when the rule is stored, and again before they are asked."""
    from heatlite.engine.outbound.egress import EgressHosts

    found = fault_of(url, EgressHosts("rule_hosts", hosts))
    assert found == fault if fault is None else fault in str(found)
    if fault is not None:
        assert asked(url, RulesSettings(rule_hosts=hosts)) == found


def test_a_name_that_leads_to_a_private_address() -> None:
    """The name is listed, the address is not."""
    found = asked("https://localhost.localdomain/", RulesSettings(rule_hosts=("localhost.localdomain",)))
    assert "which is not public" in str(found) or "cannot be found" in str(found)


def test_texts_of_others_are_printed_in_one_line() -> None:
    from heatlite.features.rules.judging import Judgement

    found, hostile = Judgement(changes=True), "a\x1b[2J\nb\u202e"
    one = placed("https://x.example/")
    read: Any = json.loads(json.dumps({"result": "deny", "findings": [{"path": hostile, "message": hostile}]}))
    found.add_answer(one, convert(read, EndpointAnswer))
    found.add_answer(one, EndpointAnswer(EndpointVerdict.WARN, hostile))
    found.add_answer(one, EndpointAnswer(EndpointVerdict.APPROVE, UNSET))
    found.add_answer(one, EndpointAnswer(EndpointVerdict.PASS, "x"))
    told = [(finding.result.value, finding.path, finding.message) for finding in found.findings]
    assert told == [("deny", "a [2J b ", "a [2J b "), ("warn", None, "a [2J b "), ("approve", None, "m")]
