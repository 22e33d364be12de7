"""Errors of the query API: Heat's codes and statuses for the kinds of errors."""

import logging
from enum import Enum
from http import HTTPStatus

from falcon import App, Response
from msgspec import Struct

from heatlite.api import faults
from heatlite.api.request import Request
from heatlite.core.errors import (
    Conflict,
    Forbidden,
    HeatliteError,
    Overloaded,
    RequestLimitExceeded,
    StackExists,
    TooManyFailures,
    Unauthorized,
    Unavailable,
)
from heatlite.core.json import JsonMap
from heatlite.features.query_api import answers

log = logging.getLogger(__name__)

BAD_REQUEST, FORBIDDEN = HTTPStatus.BAD_REQUEST, HTTPStatus.FORBIDDEN


class Code(Enum):
    """Codes of errors that only the query API has, with their statuses and texts."""

    IncompleteSignature = BAD_REQUEST, "The signature cannot be read: {reason}."
    InternalFailure = HTTPStatus.INTERNAL_SERVER_ERROR, ""
    InvalidAction = BAD_REQUEST, "There is no action {action}; there are: {known}."
    InvalidClientTokenId = FORBIDDEN, "The access key is unknown or has been revoked."
    InvalidParameterCombination = BAD_REQUEST, "{first} and {second} cannot be used together."
    InvalidParameterValue = BAD_REQUEST, ""
    MalformedQueryString = HTTPStatus.NOT_FOUND, "The parameters cannot be read: {reason}."  # Heat's status
    MissingAction = BAD_REQUEST, "The request has no Action."
    MissingAuthenticationToken = (
        FORBIDDEN, "The request is not signed. Sign it with an access key (AWS signature version 4 or 2)."
    )  # fmt: skip
    MissingParameter = BAD_REQUEST, "The action needs the parameter {name}."
    RequestExpired = (
        BAD_REQUEST,
        "The request has expired, or its time is more than 15 minutes off. Set the clock of the client.",
    )
    SignatureDoesNotMatch = (
        FORBIDDEN,
        "The signature does not match the request: the secret of the access key is another one, or a proxy has"
        " changed the host or the path.",
    )


class QueryError(HeatliteError):
    """An error that only the query API has."""

    def __init__(self, code: Code, message: str | None = None, **fields: str) -> None:
        """Take the code's own text, with the fields, unless there is a message."""
        self.code = code
        self.status, text = code.value
        super().__init__(text.format(**fields) if message is None else message, **fields)


class QueryFault(Struct, frozen=True):
    """An error as the caller gets it."""

    status: HTTPStatus
    code: str
    message: str

    def to_json(self) -> JsonMap:
        """Return the element of the error."""
        sender = "Sender" if self.status < HTTPStatus.INTERNAL_SERVER_ERROR else "Server"
        return {"Type": sender, "Code": self.code, "Message": self.message}


CODES: tuple[tuple[type[HeatliteError], HTTPStatus, str], ...] = (
    (StackExists, BAD_REQUEST, "AlreadyExists"),
    (RequestLimitExceeded, BAD_REQUEST, "RequestLimitExceeded"),
    (Unauthorized, FORBIDDEN, "SignatureDoesNotMatch"),
    (TooManyFailures, BAD_REQUEST, "Throttling"),
    (Forbidden, FORBIDDEN, "AccessDenied"),
    (Conflict, BAD_REQUEST, "InvalidAction"),
    (Unavailable, HTTPStatus.SERVICE_UNAVAILABLE, "ServiceUnavailable"),
)
"""Kinds of errors with their status and code; the first that fits counts."""


def answered(error: HeatliteError) -> QueryFault:
    """Return the answer for an error.

    Other kinds are a wrong value of the caller, unless the REST API calls them a fault of the server.
    """
    if isinstance(error, QueryError):
        return QueryFault(error.status, error.code.name, error.message)
    for kind, status, code in CODES:
        if isinstance(error, kind):
            return QueryFault(status, code, error.message)
    if faults.status_of(error) >= HTTPStatus.INTERNAL_SERVER_ERROR:
        return QueryFault(HTTPStatus.INTERNAL_SERVER_ERROR, "InternalFailure", error.message)
    return QueryFault(BAD_REQUEST, "InvalidParameterValue", error.message)


def refuse(req: Request, resp: Response, error: HeatliteError, as_json: bool) -> None:
    """Set the response to an error in the form of the query API."""
    shown = answered(error)
    req.refusal = shown.message
    if shown.status >= HTTPStatus.INTERNAL_SERVER_ERROR and not isinstance(error, Overloaded):
        log.error("%s %r: %s", req.method, req.path, error)
    if isinstance(error, TooManyFailures | Unavailable) and error.retry_after is not None:
        resp.set_header("Retry-After", str(error.retry_after))
    body: JsonMap = {"ErrorResponse": {"Error": shown.to_json(), "RequestId": req.request_id}}
    answers.write(resp, body, as_json, shown.status)


def install(app: App[Request, Response], path: str, ways_out: faults.WaysOut) -> None:
    """Answer errors before the handler of the query API in its form, too.

    `path` is that of the query API.
    """

    def on_error(req: Request, resp: Response, error: HeatliteError, params: dict[str, object]) -> None:
        if req.path == path and (req.method == "POST" or req.query_string):
            refuse(req, resp, error, req.get_param("ContentType") == "JSON")
        else:
            faults.on_error(ways_out, req, resp, error, params)

    def on_unexpected(req: Request, resp: Response, error: Exception, params: dict[str, object]) -> None:
        faults.on_unexpected(req, resp, error, params)
        if req.path == path:
            refuse(req, resp, QueryError(Code.InternalFailure, req.refusal), req.get_param("ContentType") == "JSON")

    app.add_error_handler(HeatliteError, on_error)
    app.add_error_handler(Exception, on_unexpected)
