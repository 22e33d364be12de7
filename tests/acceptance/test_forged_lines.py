"""Texts of requests that look like lines of a log: none becomes one."""

import re
from urllib.parse import quote

import pytest

from tests.acceptance.processes import Server
from tests.acceptance.raw_http import connect, read_replies, request, send
from tests.tables import sampled

LINE = re.compile(r"\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d [+-]\d{4}\] \[\d+\] \[[A-Z]+\] ")
"""Begin of each line."""
FORGED = "[2026-01-01 00:00:00 +0000] [1] [INFO] forged"
BREAKS = ("\n", "\r", "\r\n", "\x0b", "\x0c", "\x1c", "\x85", "\u2028", "\u2029", "\x1b[2K\x1b[1G", "\0")
"""Ends of lines, and what moves the cursor of a terminal."""
HEADERS = (
    *("User-Agent", "X-Auth-Token", "X-Openstack-Request-Id", "X-Forwarded-For", "X-Forwarded-Proto", "Origin"),
    *("Referer", "Accept", "Content-Type", "Authorization", "Host", "Expect", "Transfer-Encoding", "Content-Length"),
)


def as_header(text: str) -> str:
    """Return a text as bytes of a header, one character for each."""
    return text.encode().decode("latin-1")


def targets(text: str) -> list[bytes]:
    """Return requests with a text in each part of the first line."""
    raw, quoted = as_header(text), quote(text, safe="")
    found = [f"GET /v1/demo/stacks/{raw} HTTP/1.1", f"GET /v1/demo/stacks?name={raw} HTTP/1.1", f"{raw} / HTTP/1.1"]
    found += [f"GET /{raw}", f"GET / HTTP/1.1{raw}", f"GET http://{raw}/ HTTP/1.1", f"GET /v1/{quoted}/stacks HTTP/1.1"]
    found += [f"GET /v1/demo/stacks/{quoted} HTTP/1.1", f"GET /v1/demo/stacks?name={quoted}&limit={quoted} HTTP/1.1"]
    return [request(first, "Connection: close") for first in found]


def headers(text: str) -> list[bytes]:
    """Return requests with a text in headers, and in the size of a chunk."""
    raw = as_header(text)
    found = [
        request("GET /v1/demo/stacks?limit=1 HTTP/1.1", f"{name}: x{raw}", "Connection: close") for name in HEADERS
    ]
    found.append(request("GET / HTTP/1.1", f"X{raw}: x", "Connection: close"))
    chunked = ("Content-Type: application/json", "Transfer-Encoding: chunked", "Connection: close")
    return [*found, request("POST /v1/demo/stacks HTTP/1.1", *chunked, body=b"1;" + text.encode() + b"\r\nx\r\nzz\r\n")]


def bodies(text: str) -> list[object]:
    """Return bodies of a new stack with a text in each place."""
    template = {"heat_template_version": "2021-04-16"}
    value = {"type": "OS::Heat::Value", "properties": {"value": text}}
    return [
        {"stack_name": text, "template": template},
        {"stack_name": "forged", "template": {**template, text: 1}},
        {"stack_name": "forged", "template": {**template, "resources": {text: value}}},
        {"stack_name": "forged", "template": {**template, "resources": {"a": {"type": text}}}},
        {"stack_name": "forged", "template": template, "tags": text},
        {"stack_name": "forged", "template": template, "environment": {text: text}},
        {"stack_name": "forged", "template": template, "parameters": {text: text}},
        {"stack_name": "forged", "template": template, "files": {text: text}, text: text},
    ]


def reasons(text: str) -> list[tuple[str, str, object]]:
    """Return requests for a stack with a text as their reason."""
    return [
        ("POST", "/actions", {"lock": {"level": "stacks", "reason": text}}),
        ("DELETE", "", None),
        ("POST", "/actions", {"unlock": None}),
        ("PATCH", "/resources/a", {"mark_unhealthy": True, "resource_status_reason": text}),
        ("POST", "/resources/a/signal", {text: text}),
        ("POST", "/actions", {text: text}),
    ]


@pytest.mark.parametrize("line_break", sampled(BREAKS, 3, pytest.mark.thorough))
def test_no_text_of_a_request_becomes_a_line(server: Server, line_break: str) -> None:
    begin = len(server.log.read_text().splitlines())
    text = f"x{line_break}{FORGED}"
    for payload in [*targets(text), *headers(text)]:
        with connect(server.port) as connection:
            send(connection, [payload])
            assert not any(500 <= status != 501 for status in read_replies(connection.makefile("rb")).statuses)
    for body in bodies(text):
        answer = server.request("POST", "/stacks", body)
        assert answer.status < 500
        if answer.status == 201:
            stack = answer.data["stack"]["id"]  # type: ignore[index]
            server.settled(f"/stacks/{body['stack_name']}/{stack}")  # type: ignore[index]
            server.request("DELETE", f"/stacks/{body['stack_name']}/{stack}")  # type: ignore[index]
    template = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::TestResource"}}}
    path = server.create(f"forged-{BREAKS.index(line_break)}", template)
    assert server.settled(path) == "CREATE_COMPLETE"
    for method, below, asked in reasons(text):
        assert server.request(method, path + below, asked).status < 500
        server.settled(path)
    server.request("DELETE", path)
    server.settled(path)
    lines = server.log.read_text().splitlines()[begin:]
    assert len(lines) > len(HEADERS)
    assert [line for line in lines if not LINE.match(line) or line.startswith(FORGED) or "\x1b" in line] == []
    assert any("forged" in line for line in lines)
