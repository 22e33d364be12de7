"""Signals by objects in the object store."""

import hashlib
import hmac
import json
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from heatlite.store.records import StackRecord
from tests.engine.conftest import resource, template
from tests.types.conftest import Cloudy

WAITING = template(
    handle=resource("OS::Heat::SwiftSignalHandle"),
    a=resource("OS::Heat::SwiftSignal", handle={"get_resource": "handle"}, timeout=60, count=2),
    outputs={"url": {"get_attr": ["handle", "endpoint"]}, "data": {"get_attr": ["a", "data"]}},
)


def put(cloudy: Cloudy, stack: StackRecord, body: Any) -> None:
    """What a machine does with the URL."""
    handles = [one for one in cloudy.rows(stack) if one.name == "handle"]
    name = max(handles, key=lambda one: one.created_at).physical_id
    text = body if isinstance(body, str) else json.dumps(body)
    cloudy.view().call("object_store.create_object", name, "signal", data=text)


def waiting(cloudy: Cloudy) -> StackRecord:
    stack = cloudy.create(WAITING, wait=False)
    listening(cloudy, stack)
    return stack


def listening(cloudy: Cloudy, stack: StackRecord) -> None:
    """Wait until the resource waits for signals."""
    cloudy.wait_for(lambda: ("a", "IN_PROGRESS") in [(one.name, one.status) for one in cloudy.rows(stack)])
    cloudy.wait_for(cloudy.clock.at_rest)


def test_it_waits_for_its_signals(cloudy: Cloudy) -> None:
    with cloudy.clock.held():
        stack = waiting(cloudy)
        put(cloudy, stack, {"data": "one"})
        put(cloudy, stack, {"id": "x", "data": [2]})
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    found = cloudy.outputs(stack)
    assert json.loads(str(found["data"])) == {"1": "one", "x": [2]}
    url = urlsplit(str(found["url"]))
    query = parse_qs(url.query)
    key = str(cloudy.row(stack, "handle").data["key"])
    signed = f"PUT\n{query['temp_url_expires'][0]}\n{url.path}".encode()
    assert query["temp_url_sig"] == [hmac.new(key.encode(), signed, hashlib.sha256).hexdigest()]
    assert cloudy.delete(stack).status == "COMPLETE"
    assert cloudy.count("object_store.container") == 0


@pytest.mark.parametrize(
    ("body", "reason"), [({"status": "FAILURE", "reason": "no disk"}, "no disk"), ("{", "Signal 1 is no JSON")]
)
def test_a_failure_fails_it(cloudy: Cloudy, body: Any, reason: str) -> None:
    with cloudy.clock.held():
        stack = waiting(cloudy)
        put(cloudy, stack, body)
    stack = cloudy.settle(stack)
    assert stack.status == "FAILED"
    assert f"WaitConditionFailure: resources.a: {reason}" in stack.status_reason


def test_it_waits_no_longer_than_its_timeout(cloudy: Cloudy) -> None:
    stack = cloudy.create(WAITING)
    assert stack.status == "FAILED"
    assert "WaitConditionTimeout: resources.a: 0 of 2 received" in stack.status_reason


def test_a_marked_handle_is_replaced_with_what_waits_for_it(cloudy: Cloudy) -> None:
    with cloudy.clock.held():
        stack = waiting(cloudy)
        put(cloudy, stack, "")
        put(cloudy, stack, "")
    stack = cloudy.settle(stack)
    before = cloudy.row(stack, "handle").physical_id
    cloudy.mark(stack, "handle")
    with cloudy.clock.held():
        cloudy.patch(stack, wait=False)
        listening(cloudy, stack)
        put(cloudy, stack, "")
        put(cloudy, stack, "")
    stack = cloudy.settle(stack)
    assert stack.status == "COMPLETE", cloudy.why(stack)
    assert cloudy.row(stack, "handle").physical_id != before
    assert cloudy.count("object_store.container") == 1
