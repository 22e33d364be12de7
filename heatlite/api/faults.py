"""Errors in Heat's fault format.

The kind of an error gives the status code, its class the `error.type`.
"""

import logging
from collections.abc import Callable, Container, Sequence
from functools import partial
from http import HTTPStatus
from typing import TypeAlias

import falcon
from falcon import Response

from heatlite.api.middleware import ACTION
from heatlite.api.request import Request
from heatlite.api.wire import views
from heatlite.core.errors import (
    Conflict,
    Forbidden,
    HeatliteError,
    Invalid,
    Limit,
    NotFound,
    Overloaded,
    TooManyFailures,
    Unauthorized,
    Unavailable,
    Unsupported,
    features_off,
    wire_name,
)
from heatlite.core.json import JsonMap, dump
from heatlite.core.wire.base import shown
from heatlite.core.wire.why import Holder, WayOut
from heatlite.engine.admission.claims import Postponed
from heatlite.engine.state.ways_out import existing
from heatlite.store.records import Relations

log = logging.getLogger(__name__)

CODES: dict[type[HeatliteError], HTTPStatus] = {
    Invalid: HTTPStatus.BAD_REQUEST,
    Limit: HTTPStatus.BAD_REQUEST,
    Unsupported: HTTPStatus.BAD_REQUEST,
    Unauthorized: HTTPStatus.UNAUTHORIZED,
    TooManyFailures: HTTPStatus.TOO_MANY_REQUESTS,
    Forbidden: HTTPStatus.FORBIDDEN,
    NotFound: HTTPStatus.NOT_FOUND,
    Conflict: HTTPStatus.CONFLICT,
    Unavailable: HTTPStatus.SERVICE_UNAVAILABLE,
}

BAD_REQUEST = "The server could not comply with the request since it is either malformed or otherwise incorrect."
EXPLANATIONS: dict[int, str] = {
    400: BAD_REQUEST,
    401: "This server could not verify that you are authorized to access the document you requested.",
    403: "Access was denied to this resource.",
    404: "The resource could not be found.",
    405: BAD_REQUEST,
    409: "There was a conflict when trying to complete your request.",
    500: "The server has either erred or is incapable of performing the requested operation.",
    503: "The server is currently unavailable. Please try again at a later time.",
}
"""Heat's texts for the codes. The specific text is in `error.message`."""

WaysOut: TypeAlias = Callable[[Conflict], Sequence[WayOut]]
"""Returns the steps out of a conflict that features add, the best first."""


def install(
    app: "falcon.App[Request, Response]", under_project: Container[str], off: Sequence[str], ways_out: WaysOut
) -> None:
    """Install handlers that answer every error of `app` in the fault format.

    `under_project` are the first segments of paths below a project: below the root, they mean that the project is
    missing. `off` are features that are off, whose paths are unknown.
    """
    app.add_error_handler(Exception, on_unexpected)
    app.add_error_handler(falcon.HTTPError, partial(_on_http_error, under_project, off))
    app.add_error_handler(HeatliteError, partial(on_error, ways_out))
    app.add_error_handler(Postponed, on_postponed)


def fault(resp: Response, status: HTTPStatus, error_type: str, message: str, facts: JsonMap | None = None) -> None:
    """Set the response to a fault with this code, type and message.

    `facts` are further keys of `error`.
    """
    resp.status = status
    resp.content_type = falcon.MEDIA_JSON
    resp.text = None
    resp.data = dump(
        {
            "code": int(status),
            "title": status.phrase,
            "explanation": EXPLANATIONS.get(status, status.phrase),
            "error": {"type": error_type, "message": message, "traceback": None, **(facts or {})},
        }
    ).encode(errors="replace")


def status_of(error: HeatliteError) -> HTTPStatus:
    """Return the code for the kind of an error."""
    for kind in type(error).__mro__:
        if kind in CODES:
            return CODES[kind]
    return HTTPStatus.INTERNAL_SERVER_ERROR


def on_postponed(req: Request, resp: Response, kept: Postponed, params: dict[str, object]) -> None:
    """Answer a request that is accepted and waits: 202 with its action."""
    resp.status = HTTPStatus.ACCEPTED
    url = views.action_url(req.base, req.caller.project, kept.action.id)
    resp.location = url
    resp.set_headers({ACTION: url, **kept.headers})
    resp.media = {"action": views.action(req.base, kept.action, Relations())}


def on_error(
    ways_out: WaysOut, req: Request, resp: Response, error: HeatliteError, params: dict[str, object]
) -> None:
    """Answer an error of heatlite."""
    status, message, facts = status_of(error), error.message, error.facts
    if status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Overloaded):
        log.error("%s %r: %s", req.method, req.path, error)
    if isinstance(error, Conflict):
        steps = [*ways_out(error), *error.steps(req.parts)]
        message = _with_command(message, steps)
        facts = {**facts, "holder": shown(error.holder or _target(req)), "way_out": [shown(one) for one in steps]}
    req.refusal = message
    fault(resp, status, wire_name(error), message, facts)
    resp.set_headers({**error.headers})
    if isinstance(error, Conflict | TooManyFailures | Unavailable) and error.retry_after is not None:
        resp.set_header("Retry-After", str(error.retry_after))
    if isinstance(error, Unauthorized):
        resp.set_header("WWW-Authenticate", error.challenge)


def _with_command(message: str, steps: Sequence[WayOut]) -> str:
    """Return a message that names a command, if one leads on."""
    commands = [one for one in steps if one.command is not None]
    if not commands or any(one.command in message for one in commands if one.command is not None):
        return message
    return f"{message} Next: {commands[0].command} ({commands[0].text})."


def _target(req: Request) -> Holder:
    """Return the target of a request, whose state is in the way."""
    parts = req.parts
    if (stack := req.stack) is not None:
        return existing(stack)
    if "stack_id" in parts:
        return Holder(kind="stack", id=parts["stack_id"])
    # A stack that is yet to be made holds nothing: something of the project does.
    name, value = [("project", ""), *((name, value) for name, value in parts.items() if name != "stack_name")][-1]
    return Holder(kind=name.removesuffix("_id").removesuffix("_name"), id=value)


def _on_http_error(
    under_project: Container[str],
    off: Sequence[str],
    req: Request,
    resp: Response,
    error: falcon.HTTPError,
    params: dict[str, object],
) -> None:
    """Answer an error of Falcon: unknown URL or method, invalid header."""
    status = HTTPStatus(error.status_code)
    if isinstance(error, falcon.HTTPMethodNotAllowed):
        message = f"{req.method} is not allowed here; allowed are {dict(error.headers or {})['Allow']}."
    elif isinstance(error, falcon.HTTPNotFound):
        message = f"{_unknown_url(req, under_project)} {features_off(off)}".rstrip()
    else:
        message = error.description or error.title or status.phrase
    req.refusal = message
    fault(resp, status, "HTTP" + status.phrase.replace(" ", ""), message)
    if error.headers is not None:
        resp.set_headers(error.headers)


def on_unexpected(req: Request, resp: Response, error: Exception, params: dict[str, object]) -> None:
    """Answer an unexpected error: log it, and tell the client the request id only."""
    log.error("%s %r failed", req.method, req.path, exc_info=error)
    req.refusal = message = f"An unexpected error occurred. It is in the server's log under {req.request_id}."
    fault(resp, HTTPStatus.INTERNAL_SERVER_ERROR, "HTTPInternalServerError", message)


def _unknown_url(req: Request, under_project: Container[str]) -> str:
    """Return a message with the correct endpoint: a wrong one is the usual cause."""
    parts = req.path.strip("/").split("/")
    if parts[0] == "v1":
        del parts[0]
    if parts and parts[0] in under_project:
        return f"The URL {req.path} has no project. Configure the client with the endpoint {req.base}/v1/{{project}}."
    return f"There is nothing at {req.path}."
