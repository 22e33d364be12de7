"""Wire format between an agent and its server: names, limits, records, times.

Specified in docs/reference/agent-protocol.md.
"""

import json
import re
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypedDict

Json = None | bool | int | float | str | list["Json"] | dict[str, "Json"]
JsonMap = dict[str, Json]

NEW, RUNNING, DONE, FAILED, CANCELLED = "NEW", "RUNNING", "DONE", "FAILED", "CANCELLED"
UNFINISHED = (NEW, RUNNING)
FINISHED = (DONE, FAILED, CANCELLED)

MAX_UNFINISHED = 100
"""Maximum of unfinished actions; more are rejected (429)."""
MAX_FINISHED = 100
"""Maximum of finished actions; the newest are kept."""
MAX_ARGS = 256 * 1024
"""Bytes of `args`, as JSON in UTF-8."""
MAX_OUTPUT = 64 * 1024
"""Bytes of one output, in UTF-8."""
MAX_OUTPUTS = 1024 * 1024
"""Bytes of all outputs of an action, as JSON in UTF-8."""
MAX_BODY = 2 * MAX_ARGS
"""Bytes of a request's body: room for args whose JSON escapes much."""

MAX_DEPTH = 100
"""Levels of lists and maps in a request or an output. The server accepts few more in an answer."""

MAX_REPORTED = 1024 * 1024
"""Bytes of actions in one answer about changes, unless a single one has more."""

ID = re.compile(r"(?!(queue|finished)$)[A-Za-z0-9][A-Za-z0-9._:-]{0,35}")
"""Pattern of an action's id, to match in full. The names of two routes are excluded."""
KIND = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:/-]{0,99}")
"""Pattern of a kind's name, to match in full."""

STATUS_OF: Mapping[str, int] = {
    "InvalidRequest": 400,
    "UnknownKind": 400,
    "NotSigned": 401,
    "UnknownAction": 404,
    "ActionExists": 409,
    "TooLarge": 413,
    "QueueFull": 429,
    "OutOfOrder": 503,
}
"""Error codes and their HTTP statuses. OutOfOrder: the agent cannot use its database now."""

STDOUT, STDERR, STATUS_CODE = "deploy_stdout", "deploy_stderr", "deploy_status_code"
"""Outputs of each command, named as in software deployments."""


class Record(TypedDict):
    """An action as sent to the server. Times are ISO 8601, UTC, by the agent's clock."""

    id: str
    kind: str
    args: JsonMap
    requester: str
    created_at: str
    scheduled_at: str
    started_at: str | None
    finished_at: str | None
    state: str
    progress: JsonMap
    outputs: JsonMap
    error: str
    revision: int


class Line(TypedDict):
    """An entry of an action's history."""

    time: str
    state: str
    reason: str


class ReportedAction(TypedDict):
    """An action with its history, newest entry first."""

    action: Record
    history: list[Line]


class Fault(Exception):
    """Error answer to a request. `code` is one of STATUS_OF."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message

    @property
    def status(self) -> int:
        """The HTTP status."""
        return STATUS_OF[self.code]


def parse(text: str | bytes) -> Json:
    """Parse JSON strictly.

    Raises ValueError, also for JSON that other parsers reject: NaN, 1e999, lone surrogates, too deep nesting.
    """
    try:
        value: Json = json.loads(text, parse_constant=_no_constant)
        json.dumps(value, ensure_ascii=False, allow_nan=False).encode()
        is_deeper = _depth(value) > MAX_DEPTH
    except RecursionError:
        is_deeper = True
    if is_deeper:
        raise ValueError(f"it is nested deeper than {MAX_DEPTH} levels")
    return value


def _depth(value: Json) -> int:
    """Return the number of levels of lists and maps. Raises RecursionError."""
    if not isinstance(value, (dict, list)):
        return 0
    return 1 + max(map(_depth, value.values() if isinstance(value, dict) else value), default=0)


def dump(value: object) -> str:
    """Return the value as JSON text."""
    return json.dumps(value, ensure_ascii=False)


def _no_constant(name: str) -> Json:
    raise ValueError(f"{name} is no JSON")


def now() -> str:
    """Return the current time as wire text."""
    return as_text(datetime.now(UTC))


def as_text(time: datetime) -> str:
    """Return a time as wire text: ISO 8601, UTC."""
    # strftime writes years before 1000 with fewer digits, which is not ISO 8601.
    return f"{time.astimezone(UTC).replace(tzinfo=None).isoformat(timespec='microseconds')}Z"


def as_time(text: str) -> datetime:
    """Parse an ISO 8601 time. Raises ValueError, also for a time without a zone."""
    time = datetime.fromisoformat(text)
    if time.tzinfo is None:
        raise ValueError(f"{text!r} has no time zone")
    return time.astimezone(UTC)
