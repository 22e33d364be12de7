"""Request bodies: parses and validates JSON for the engine.

Every fault is a 400 that names its place.
"""

from collections.abc import Set
from typing import Literal, cast

import msgspec.structs
from msgspec import Struct

from heatlite.api import query
from heatlite.api.faults import BAD_REQUEST
from heatlite.api.request import Request
from heatlite.core import clock
from heatlite.core.errors import HTTPBadRequest, InvalidValue
from heatlite.core.json import (
    MAX_DEPTH,
    Json,
    JsonMap,
    as_map,
    as_text,
    as_texts,
    cleaned,
    dump,
    is_deeper,
    parse_finite,
)
from heatlite.core.shapes import Shape, closed, explain, kind_of
from heatlite.core.status import LockLevel, Signal
from heatlite.engine.operations.health_marks import Mark
from heatlite.engine.state import requests
from heatlite.engine.state.stack_document import read_record
from heatlite.plugin.ports import UNGROUPED, SoftwareConfig

CONTENT_TYPES = ("application/json", "text/plain", "")
"""All are parsed as JSON, as Heat does."""

_STRINGS: JsonMap = {"type": ["array", "null"], "items": {"type": "string"}}
_DEFINITION: JsonMap = {
    "type": "object",
    "properties": {
        "stack_name": {"type": ["string", "null"]},
        "template": {"type": ["object", "string", "null"]},
        "template_url": {"type": ["string", "null"]},
        "environment": {"type": ["object", "string", "null"]},
        "environment_files": _STRINGS,
        "files": {"type": ["object", "null"], "additionalProperties": {"type": "string"}},
        "files_container": {"type": ["string", "null"]},
        "parameters": {"type": ["object", "null"]},
        "clear_parameters": _STRINGS,
        "tags": {"type": ["string", "array", "null"], "items": {"type": "string"}},
        "plan_digest": {"type": ["string", "null"]},
        "adopt_cloud": {"type": ["boolean", "null"]},
    },
}
DEFINITION = Shape(_DEFINITION)
LOCK = Shape(
    {
        "type": ["object", "null"],
        "properties": {
            "level": {"enum": [str(level) for level in LockLevel]},
            "reason": {"type": ["string", "null"], "maxLength": 255},
            "expires_at": {"type": ["string", "null"], "format": "date-time"},
        },
        "additionalProperties": False,
    }
)
PROTECTION = Shape(
    {
        "type": ["object", "null"],
        "properties": {
            "resource": {"type": ["string", "null"]},
            "reason": {"type": ["string", "null"], "maxLength": 255},
        },
        "additionalProperties": False,
    }
)
LIFECYCLE = Shape(closed("lifecycle_action_token", lifecycle_action_token={"type": "string"}))
ACTION_SIGNAL = Shape(
    closed("signal", signal={"enum": [str(signal) for signal in Signal]}, force={"type": "boolean"})
)
MAX_DEPENDENCIES = 100
MIN_INTERVAL = 10
"""Seconds. A repeated check has to leave time for other operations on the stack."""
MAX_SPAN = 10 * 365 * 86_400
_TIMING: JsonMap = {
    "not_before": {"type": ["string", "null"], "format": "date-time"},
    "depends_on": {"type": ["array", "null"], "items": {"type": "string"}, "maxItems": MAX_DEPENDENCIES},
    "timeout": {"type": ["integer", "null"], "minimum": 0, "maximum": MAX_SPAN},
}
_INTERVAL: JsonMap = {
    "type": ["number", "null"],
    "if": {"not": {"const": 0}},
    "then": {"minimum": MIN_INTERVAL},
    "maximum": MAX_SPAN,
    "minimum": 0,
}
"""0: once, as without it."""
_CHECK: JsonMap = {"interval": _INTERVAL, "believe_absent": {"type": "boolean"}}
TIMING = Shape({"type": ["object", "null"], "properties": _TIMING, "additionalProperties": False})
REPEATED_TIMING = Shape(
    {"type": ["object", "null"], "properties": {**_CHECK, **_TIMING}, "additionalProperties": False}
)
NAME = Shape({"type": ["string", "null"], "maxLength": 255})
REASON = Shape({"type": ["string", "null"]})
MARK_KEYS = frozenset({"mark_unhealthy", "resource_status_reason"})
MOST_MARKS = 200
MARKS = Shape(
    {
        "properties": {
            "marks": {
                "type": "array",
                "items": {
                    "type": "object",
                    "properties": {"resource": {"type": "string", "minLength": 1}},
                    "required": ["resource"],
                },
                "minItems": 1,
                "maxItems": MOST_MARKS,
            }
        },
        "required": ["marks"],
        "additionalProperties": False,
    }
)

_TEXT: JsonMap = {"type": ["string", "null"]}
_SHORT_TEXT: JsonMap = {"type": ["string", "null"], "maxLength": 255}
_MAP: JsonMap = {"type": ["object", "null"]}
_FLAG: JsonMap = {"type": ["boolean", "null"]}


def _items(**more: Json) -> JsonMap:
    """Return the schema of the inputs or outputs of a software config."""
    kinds: JsonMap = {"enum": ["String", "Number", "CommaDelimitedList", "Json", "Boolean", None]}
    known: JsonMap = {"name": {"type": "string"}, "description": _TEXT, "type": kinds, **more}
    item: JsonMap = {"type": "object", "properties": known, "required": ["name"], "additionalProperties": False}
    return {"type": ["array", "null"], "items": item}


SOFTWARE_CONFIG = Shape(
    {
        "properties": {
            "name": _TEXT,
            "group": _TEXT,
            "config": {"type": ["string", "object", "null"]},
            "inputs": _items(default={}, value={}, replace_on_change=_FLAG),
            "outputs": _items(error_output=_FLAG),
            "options": _MAP,
        },
    }
)
_CHANGES: JsonMap = {
    "config_id": _TEXT,
    "input_values": _MAP,
    "output_values": _MAP,
    "action": _SHORT_TEXT,
    "status": _SHORT_TEXT,
    "status_reason": _TEXT,
}
DEPLOYMENT_CHANGES = Shape({"properties": _CHANGES})
DEPLOYMENT = Shape(
    {
        "properties": {
            **_CHANGES,
            "config_id": {"type": "string"},
            "server_id": {"type": "string", "maxLength": 255},
            "stack_user_project_id": {"type": ["string", "null"], "maxLength": 64},
        },
        "required": ["config_id", "server_id"],
    }
)


class Deployment(Struct, frozen=True):
    """A new software deployment."""

    server_id: str
    config_id: str
    input_values: JsonMap
    action: str
    status: str
    status_reason: str


class Lock(Struct, frozen=True):
    """Options of a lock. `expires_at` is in seconds since the epoch."""

    level: LockLevel
    reason: str | None
    expires_at: float | None


# -- bytes → JSON ---------------------------------------------------------------------------------


def read(req: Request, *also: str, cleans: bool = False) -> Json:
    """Parse the body as JSON. Returns None without a body.

    `also` are other content types that it may have. With `cleans`, characters that no database keeps become ``?``.

    Never reads more than the limit. Raises HTTPBadRequest, RequestLimitExceeded.
    """
    content = raw(req)
    if not content.strip():
        return None
    content_type = (req.content_type or "").partition(";")[0].strip().lower()
    if content_type not in CONTENT_TYPES and content_type not in also:
        raise HTTPBadRequest(f"The body must be application/json, not {content_type}.")
    try:
        value: Json = parse_finite(content.decode())
    except UnicodeDecodeError as error:
        raise HTTPBadRequest(f"The body is not UTF-8: {error.reason} at byte {error.start}.") from None
    except RecursionError:
        raise HTTPBadRequest(f"The body is nested deeper than {MAX_DEPTH} levels.") from None
    except ValueError as error:
        raise HTTPBadRequest(str(error)) from None
    if is_deeper(value, MAX_DEPTH):
        raise HTTPBadRequest(f"The body is nested deeper than {MAX_DEPTH} levels.")
    if b"\\u" in content:
        if cleans:
            value = cleaned(value)
        else:
            _check_escapes(value)
    if isinstance(value, dict) and isinstance(value.get("plan_digest"), str):
        req.plan_digest = str(value["plan_digest"])
    return value


def raw(req: Request) -> bytes:
    """Return the bytes of the body; none without one. Raises HTTPBadRequest."""
    length = req.content_length or 0
    raw = bytes(req.bounded_stream.read(length))
    if len(raw) < length:
        raise HTTPBadRequest(f"The body ended after {len(raw)} of {length} bytes.")
    return raw


def _check_escapes(value: Json) -> None:
    """Reject NUL and lone surrogates, which databases do not accept.

    Only escapes can contain them."""
    text = dump(value)
    try:
        text.encode()
    except UnicodeEncodeError:
        raise HTTPBadRequest("The body contains half of a surrogate pair, which is not a character.") from None
    if "\\u0000" in text.replace("\\\\", ""):
        raise HTTPBadRequest("The body contains a NUL character.")


# -- JSON → schema → values for the engine -----------------------------------------------------------


def _object(value: Json) -> JsonMap:
    if not isinstance(value, dict):
        raise HTTPBadRequest(f"The request needs a JSON object as its body, not {kind_of(value)}.")
    return value


def checked(req: Request, schema: Shape) -> JsonMap:
    """Return the body, an object that matches the schema. The schema needs no "type"."""
    body = _object(read(req))
    check(schema, body)
    return body


def checked_or_empty(req: Request, schema: Shape) -> JsonMap:
    """Return the body, or an empty object without a body."""
    body = read(req)
    body = {} if body is None else _object(body)
    check(schema, body)
    return body


def check(schema: Shape, value: object, start: str = "") -> None:
    for error in schema.iter_errors(value):
        where = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in error.absolute_path)
        raise HTTPBadRequest(f"{(start + where).lstrip('.') or 'The body'}: {explain(error)}")


def create(req: Request) -> requests.Request:
    """Parse the body of a create or its preview."""
    body = _object(read(req))
    if body.get("stack_name") is None:
        raise HTTPBadRequest("No stack name specified")
    if body.get("converge") is not None:
        raise HTTPBadRequest("converge is valid for an update only.")
    if body.get("plan_digest") is not None:
        raise HTTPBadRequest("plan_digest is valid for an update only.")
    record = body.get("adopt_stack_data")
    if record is None and body.get("adopt_cloud") is not None:
        raise HTTPBadRequest("adopt_cloud is valid for an update, or with adopt_stack_data, only.")
    if record is None:
        return definition(body, "required")
    return msgspec.structs.replace(definition(body, "optional"), adopted=read_record(record))


def replace(req: Request) -> requests.Request:
    """Parse the body of a PUT of a stack or its preview."""
    return definition(_object(read(req)), "required")


def change(body: Json) -> requests.Request:
    """Parse the body of a PATCH of a stack or its preview.

    Without a body, nothing changes.
    """
    return definition({} if body is None else _object(body), "optional")


def validate(req: Request) -> requests.Request:
    """Parse the body of a validation."""
    return definition(_object(read(req)), "required")


def definition(body: JsonMap, template: Literal["required", "optional"]) -> requests.Request:
    """Parse the definition of a stack. Raises HTTPBadRequest."""
    check(DEFINITION, body)
    sent = body.get("template") is not None or body.get("template_url") is not None
    if not sent and template == "required":
        raise HTTPBadRequest("No template specified")
    timeout, rollback = body.get("timeout_mins"), body.get("disable_rollback")
    converge = body.get("converge")
    return requests.Request(
        name=as_text(body.get("stack_name")),
        template=body.get("template"),
        template_url=as_text(body.get("template_url")) if body.get("template") is None else None,
        environment=body.get("environment"),
        environment_files=as_texts(body.get("environment_files")),
        files=_as_files(body.get("files")),
        files_container=as_text(body.get("files_container")) or None,
        parameters=as_map(body.get("parameters")),
        clear_parameters=as_texts(body.get("clear_parameters")),
        tags=_tags(body.get("tags")),
        timeout_mins=None if timeout is None else query.non_negative("timeout_mins", timeout),
        disable_rollback=None if rollback is None else query.truth("disable_rollback", rollback, InvalidValue),
        converge=converge is not None and query.truth("converge", converge),
        adopt_cloud=body.get("adopt_cloud") is True,
        plan_digest=as_text(body.get("plan_digest")),
        body=body,
    )


# Conversions after the schema check: they narrow types, and replace null.


def _as_files(value: Json) -> dict[str, str]:
    return {name: content for name, content in as_map(value).items() if isinstance(content, str)}


def _tags(value: Json) -> tuple[str, ...] | None:
    """Read tags: text with commas (Heat's clients) or a list (the SDK)."""
    if value is None:
        return None
    found = value.split(",") if isinstance(value, str) else as_texts(value)
    tags = tuple(tag.strip() for tag in found if tag.strip())
    for tag in tags:
        if len(tag) > 80:
            raise HTTPBadRequest(f'Invalid tag, "{tag}" is longer than 80 characters')
        if "," in tag:
            raise HTTPBadRequest(f'Invalid tag, "{tag}" contains a comma')
    return tags


def mark(req: Request, resource: str) -> Mark:
    """Parse the body of a health mark of a resource."""
    return _mark(read(req), resource, MARK_KEYS)


def marks(req: Request) -> list[Mark]:
    """Parse the body of several health marks: a path, name or physical id for each."""
    found = []
    for number, one in enumerate(cast(list[JsonMap], checked(req, MARKS)["marks"])):
        try:
            found.append(_mark(one, str(one["resource"]), {*MARK_KEYS, "resource"}))
        except HTTPBadRequest as error:
            raise HTTPBadRequest(f"marks.{number}: {error.message}") from error
    return found


def _mark(body: Json, resource: str, known: Set[str]) -> Mark:
    if not isinstance(body, dict):
        raise HTTPBadRequest(BAD_REQUEST)
    if "mark_unhealthy" not in body:
        raise HTTPBadRequest("Missing mandatory (mark_unhealthy) key from mark unhealthy request")
    unknown = sorted(body.keys() - known)
    if unknown:
        raise HTTPBadRequest(f"Invalid keys in resource mark unhealthy {{{', '.join(map(repr, unknown))}}}")
    reason = body.get("resource_status_reason")
    check(REASON, reason, "resource_status_reason")
    return Mark(resource, query.truth("mark_unhealthy", body["mark_unhealthy"]), as_text(reason) or None)


def action(req: Request) -> tuple[str, Json]:
    """Return the name of the requested action, and its value."""
    body = read(req)
    given = {} if body is None else _object(body)
    if not given:
        raise HTTPBadRequest("No action specified")
    if len(given) > 1:
        raise HTTPBadRequest("Multiple actions specified")
    return next(iter(given.items()))


def snapshot(req: Request) -> str | None:
    """Return the name for a new snapshot, or None."""
    body = _object(read(req))
    check(NAME, body.get("name"), "name")
    return as_text(body.get("name"))


def lock(value: Json) -> Lock:
    """Parse the value of `lock`. null, "" and {} mean level `all`."""
    value = None if value == "" else value
    check(LOCK, value, "lock")
    given = as_map(value)
    level = LockLevel(as_text(given.get("level")) or LockLevel.ALL)
    return Lock(level, as_text(given.get("reason")), _as_moment("lock.expires_at", given.get("expires_at")))


def _as_moment(where: str, value: Json) -> float | None:
    """Convert ISO 8601 to seconds since the epoch. Raises HTTPBadRequest."""
    text = as_text(value)
    try:
        moment = None if text is None else clock.from_text(text)
    except (ValueError, OverflowError):
        raise HTTPBadRequest(f'{where}: "{text}" is not a time in ISO 8601.') from None
    return moment


def timing(name: str, value: Json) -> requests.Timing:
    """Parse the value of `check`, `suspend` and `resume`.

    null, "" and {} mean at once. Only a check can repeat.
    """
    value = None if value == "" else value
    check(REPEATED_TIMING if name == "check" else TIMING, value, name)
    given = as_map(value)
    interval, timeout = given.get("interval"), given.get("timeout")
    if interval and given.get("believe_absent"):
        raise HTTPBadRequest(f"{name}.believe_absent: holds for one check, so it cannot repeat.")
    return requests.Timing(
        not_before=_as_moment(f"{name}.not_before", given.get("not_before")),
        interval=interval if isinstance(interval, int | float) else 0.0,
        depends_on=as_texts(given.get("depends_on")),
        timeout=int(timeout) if isinstance(timeout, int | float) else 0,
        believes_absence=bool(given.get("believe_absent")),
        body=given or None,
    )


def unlock(value: Json) -> None:
    """Check that the value of `unlock` is empty. Raises HTTPBadRequest."""
    if value not in (None, {}, ""):
        raise HTTPBadRequest("unlock: must be null.")


def protection(name: str, value: Json) -> tuple[str | None, str | None]:
    """Return the resource and the reason that `protect` or `unprotect` names.

    Without a resource, the stack is meant.
    """
    value = None if value == "" else value
    check(PROTECTION, value, name)
    given = as_map(value)
    return as_text(given.get("resource")), as_text(given.get("reason"))


def named_resources(value: Json) -> tuple[str, ...]:
    """Return the resources that the value of an action names, for the audit log."""
    given = as_map(value)
    one = as_text(given.get("resource"))
    return as_texts(given.get("resources")) if one is None else (one,)


def lifecycle_token(value: Json) -> str:
    """Return the token in the value of `complete_lifecycle`."""
    check(LIFECYCLE, value, "complete_lifecycle")
    return str(as_map(value)["lifecycle_action_token"])


def signal(req: Request) -> JsonMap | None:
    """Return the details of a signal: an object or None."""
    body = read(req)
    return None if body is None else _object(body)


def action_signal(req: Request) -> tuple[Signal, bool]:
    """Return the signal to an action, and True for a forced one."""
    body = checked(req, ACTION_SIGNAL)
    return Signal(str(body["signal"])), bool(body.get("force"))


def software_config(req: Request) -> SoftwareConfig:
    """Parse a software config. Inputs and outputs get defaults for missing fields."""
    body = checked(req, SOFTWARE_CONFIG)
    return SoftwareConfig(
        name=as_text(body.get("name")) or "",
        group=as_text(body.get("group")) or UNGROUPED,
        config=body.get("config"),
        inputs=[_without_false(item, "replace_on_change") for item in _as_items(body.get("inputs"))],
        outputs=[{"error_output": False, **item} for item in _as_items(body.get("outputs"))],
        options=as_map(body.get("options")),
    )


def _as_items(value: Json) -> list[JsonMap]:
    items = [as_map(item) for item in value] if isinstance(value, list) else []
    return [{"type": "String", **{key: part for key, part in item.items() if part is not None}} for item in items]


def _without_false(item: JsonMap, flag: str) -> JsonMap:
    return {key: part for key, part in item.items() if key != flag or part}


def deployment(req: Request) -> Deployment:
    """Parse a new software deployment."""
    body = checked(req, DEPLOYMENT)
    return Deployment(
        server_id=str(body["server_id"]),
        config_id=str(body["config_id"]),
        input_values=as_map(body.get("input_values")),
        action=as_text(body.get("action")) or "",
        status=as_text(body.get("status")) or "",
        status_reason=as_text(body.get("status_reason")) or "",
    )


def deployment_changes(req: Request) -> JsonMap:
    """Return the fields that a PUT changes: those in the body that are not null."""
    body = checked(req, DEPLOYMENT_CHANGES)
    return {name: body[name] for name in _CHANGES if body.get(name) is not None}
