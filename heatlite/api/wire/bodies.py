"""Request bodies: parses and validates JSON for the engine.

Every fault is a 400 that names its place.
"""

from typing import Annotated, Any, Literal, TypeAlias, TypeVar

import msgspec.structs
from msgspec import Meta, Struct

from heatlite.api import query
from heatlite.api.faults import BAD_REQUEST
from heatlite.api.request import Request
from heatlite.core import clock
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import (
    MAX_DEPTH,
    AnyMap,
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
from heatlite.core.status import Signal
from heatlite.core.validation import convert, kind_of, options
from heatlite.core.wire.base import Body, ShortText, Time
from heatlite.core.wire.guards import Guarded
from heatlite.core.wire.locks import LockOptions
from heatlite.engine.operations.health_marks import Mark
from heatlite.engine.state import requests
from heatlite.plugin.ports import UNGROUPED, SoftwareConfig

Kind = TypeVar("Kind")

CONTENT_TYPES = ("application/json", "text/plain", "")
"""All are parsed as JSON, as Heat does."""

MOST_MARKS = 200
MAX_DEPENDENCIES = 100
MIN_INTERVAL = 10
"""Seconds. A repeated check has to leave time for other operations on the stack."""

ItemType: TypeAlias = Literal["String", "Number", "CommaDelimitedList", "Json", "Boolean"]
_TRUTH = {"type": ["boolean", "string"], "pattern": "^([Tt][Rr][Uu][Ee]|[Ff][Aa][Ll][Ss][Ee])$"}
Truth: TypeAlias = Annotated[Any, Meta(extra_json_schema=_TRUTH)]
"""A flag that may be text, as Heat's clients send it: `query.truth` reads it."""


class Nothing(Body, frozen=True):
    """An empty object."""


class ProtectionOptions(Body, frozen=True):
    """The object to protect, or to unprotect. ``null`` and ``{}`` mean the stack."""

    resource: str | None = None
    """The name of a resource of the stack. Default: the stack itself."""
    reason: ShortText | None = None
    """The reason, for the events and for those who are refused; at most 255 characters."""


class EndBake(Body, frozen=True):
    """The end of a bake by hand. ``null`` and ``{}`` give no reason."""

    reason: ShortText | None = None
    """The reason, for the events and the log; at most 255 characters."""


class LifecycleToken(Body, frozen=True):
    """The wait to end."""

    lifecycle_action_token: str
    """The token that an event sink received."""


class ActionSignal(Body, frozen=True):
    """A signal to an action."""

    signal: Signal
    """``CANCEL``, ``SUSPEND`` or ``RESUME``."""
    force: bool = False
    """With ``CANCEL``: end the action at once, even if a worker runs it."""


class TimingOptions(Body, frozen=True):
    """``null`` or ``""``: now. An object says when."""

    not_before: Time | None = None
    """Earliest start (ISO 8601; without a zone UTC).

    Until then the action is ``INIT`` and holds nothing; then it is admitted like a request, or ends ``CANCELLED``.
    """
    depends_on: Annotated[list[str], Meta(max_length=MAX_DEPENDENCIES)] | None = None
    """Ids of at most 100 actions of the project that have to succeed first.

    Meanwhile the action is ``WAITING`` and holds the stack; if one of them ends otherwise it ends ``FAILED`` without
    having begun.
    """
    timeout: requests.Span | None = None
    """Seconds, the wait for other actions included. 0 or none: as the stack says, else the installation."""


class CheckOptions(TimingOptions, frozen=True):
    """``null`` or ``""``: once and now. An object says when."""

    interval: Annotated[float, Meta(ge=0, le=requests.MAX_SPAN)] | None = None
    """Seconds, at least 10, from the end of a check to the next; 0: once. A stack has at most one such series."""
    believe_absent: bool = False
    """``true``: mark objects that are not found, even more than half of a service's."""


class SnapshotOptions(Struct, frozen=True):
    """A new snapshot."""

    name: ShortText | None = None
    """A name for the snapshot, 255 characters at most; it need not be unique."""


def guard_of_restore(req: Request) -> JsonMap | None:
    """Return the guard of a restore, as the body of an update has it.

    None: it brings none. Clients of Heat send no body, and without a guard its further keys are ignored.
    """
    body = read(req)
    has_guard = isinstance(body, dict) and body.get("guard") is not None
    return convert(body, Guarded).further if has_guard else None


class HealthMark(Body, frozen=True):
    """A mark of a resource."""

    mark_unhealthy: Truth
    """``true``: unhealthy; ``false``: healthy."""
    resource_status_reason: str | None = None
    """The new ``resource_status_reason``. Default: a sentence that says that the resource was marked."""


class ResourceMark(HealthMark, frozen=True, kw_only=True):
    """A mark of the resource that it names."""

    resource: Annotated[str, Meta(min_length=1)]
    """Name or physical id of a resource, or its path below the stack: ``web/2/server``."""


class HealthMarks(Body, frozen=True):
    """Marks of several resources."""

    marks: Annotated[list[ResourceMark], Meta(min_length=1, max_length=MOST_MARKS)]
    """The marks, one for each resource."""


class ConfigOutput(Body, frozen=True):
    """An output of a software config."""

    name: str
    description: str | None = None
    type: ItemType | None = None
    error_output: bool | None = None


class ConfigInput(Body, frozen=True):
    """An input of a software config."""

    name: str
    description: str | None = None
    type: ItemType | None = None
    default: Any = None
    value: Any = None
    replace_on_change: bool | None = None


class ConfigBody(Struct, frozen=True):
    """A new software config."""

    name: str | None = None
    """A name; agents apply the configs of a server in the order of their names."""
    group: str | None = None
    """The tool that applies it: ``script``, ``ansible`` and so on. Default: ``Heat::Ungrouped``."""
    config: str | AnyMap | None = None
    """Input of the tool: text, or an object."""
    inputs: list[ConfigInput] | None = None
    """The inputs, objects with ``name``.

    They may have ``description``, ``type`` (``String``, ``Number``, ``CommaDelimitedList``, ``Json``, ``Boolean``;
    default: ``String``), ``default``, ``value`` and ``replace_on_change``.
    """
    outputs: list[ConfigOutput] | None = None
    """The outputs, objects with ``name``.

    They may have ``description``, ``type`` (as for inputs) and ``error_output`` (an answer with this output means
    failure).
    """
    options: AnyMap | None = None
    """Options of the tool."""


class DeploymentChanges(Struct, frozen=True, kw_only=True):
    """Changes of a software deployment; null is no change."""

    config_id: str | None = None
    """Id of the software config."""
    input_values: AnyMap | None = None
    """The values of the inputs by name."""
    output_values: AnyMap | None = None
    """Results of the server by output name, with ``deploy_stdout``, ``deploy_stderr`` and ``deploy_status_code``."""
    action: ShortText | None = None
    """The action that it belongs to: ``CREATE``, ``UPDATE`` or what the client says."""
    status: ShortText | None = None
    """``IN_PROGRESS`` until the server answers, then ``COMPLETE`` or ``FAILED``."""
    status_reason: str | None = None
    """Reason of the status."""


class Deployment(DeploymentChanges, frozen=True, kw_only=True):
    """A new software deployment."""

    config_id: str
    server_id: ShortText
    """Id of the server, 255 characters at most."""
    stack_user_project_id: Annotated[str, Meta(max_length=64)] | None = None
    """Accepted, 64 characters at most, and not used."""


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


def as_object(value: Json) -> JsonMap:
    """Return a body that is an object. Raises HTTPBadRequest."""
    if not isinstance(value, dict):
        raise HTTPBadRequest(f"The request needs a JSON object as its body, not {kind_of(value)}.")
    return value


def checked(req: Request, kind: type[Kind]) -> Kind:
    """Return the body, an object, as a struct."""
    return convert(as_object(read(req)), kind)


def checked_or_empty(req: Request, kind: type[Kind]) -> Kind:
    """Return the body as a struct, without a body that of an empty object."""
    body = read(req)
    return convert({} if body is None else as_object(body), kind)


def mark(req: Request, resource: str) -> Mark:
    """Parse the body of a health mark of a resource. Its faults are Heat's texts."""
    body = read(req)
    if not isinstance(body, dict):
        raise HTTPBadRequest(BAD_REQUEST)
    if "mark_unhealthy" not in body:
        raise HTTPBadRequest("Missing mandatory (mark_unhealthy) key from mark unhealthy request")
    unknown = sorted(body.keys() - {*HealthMark.__struct_fields__})
    if unknown:
        raise HTTPBadRequest(f"Invalid keys in resource mark unhealthy {{{', '.join(map(repr, unknown))}}}")
    return _mark(resource, convert(body, HealthMark))


def marks(req: Request) -> list[Mark]:
    """Parse the body of several health marks: a path, name or physical id for each."""
    return [
        _mark(one.resource, one, f"marks[{number}].") for number, one in enumerate(checked(req, HealthMarks).marks)
    ]


def _mark(resource: str, given: HealthMark, where: str = "") -> Mark:
    unhealthy = query.truth(f"{where}mark_unhealthy", given.mark_unhealthy)
    return Mark(resource, unhealthy, given.resource_status_reason or None)


def action(req: Request) -> tuple[str, Json]:
    """Return the name of the requested action, and its value."""
    body = read(req)
    given = {} if body is None else as_object(body)
    if not given:
        raise HTTPBadRequest("No action specified")
    if len(given) > 1:
        raise HTTPBadRequest("Multiple actions specified")
    name, value = next(iter(given.items()))
    req.plan_digest = as_text(as_map(value).get("plan_digest"))
    return name, value


def lock(value: Json) -> LockOptions:
    """Return the options of a lock."""
    asked = options(value, LockOptions, "lock")
    _as_moment("lock.expires_at", asked.expires_at)
    return asked


def _as_moment(where: str, text: str | None) -> float | None:
    return None if text is None else moment(where, text)


def moment(where: str, text: str) -> float:
    """Convert ISO 8601 to seconds since the epoch. Raises HTTPBadRequest."""
    try:
        return clock.from_text(text)
    except (ValueError, OverflowError):
        raise HTTPBadRequest(f'{where}: "{text}" is not a time in ISO 8601.') from None


def timing(name: str, value: Json) -> requests.Timing:
    """Parse the value of `suspend` and `resume`."""
    return _timing(name, value, options(value, TimingOptions, name))


def check(value: Json) -> requests.Timing:
    """Parse the value of `check`, which can repeat."""
    asked = options(value, CheckOptions, "check")
    interval = asked.interval or 0.0
    if 0 < interval < MIN_INTERVAL:
        raise HTTPBadRequest(f"check.interval: must be at least {MIN_INTERVAL}.")
    if interval and asked.believe_absent:
        raise HTTPBadRequest("check.believe_absent: holds for one check, so it cannot repeat.")
    timing = _timing("check", value, asked)
    return msgspec.structs.replace(timing, interval=interval, believes_absence=asked.believe_absent)


def _timing(name: str, value: Json, asked: TimingOptions) -> requests.Timing:
    return requests.Timing(
        not_before=_as_moment(f"{name}.not_before", asked.not_before),
        depends_on=tuple(asked.depends_on or ()),
        timeout=asked.timeout or 0,
        body=as_map(value) or None,
    )


def unlock(value: Json) -> None:
    """Check that the value of `unlock` is empty. Raises HTTPBadRequest."""
    if value not in (None, {}, ""):
        raise HTTPBadRequest("unlock: must be null.")


def named_resources(value: Json) -> tuple[str, ...]:
    """Return the resources that the value of an action names, for the audit log."""
    given = as_map(value)
    one = as_text(given.get("resource"))
    several = given.get("resources")
    moved = given.get("moved")
    if isinstance(moved, list):
        return tuple(filter(None, (as_text(as_map(entry).get("from")) for entry in moved)))
    return (tuple(as_map(several)) or as_texts(several)) if one is None else (one,)


def signal(req: Request) -> JsonMap | None:
    """Return the details of a signal: an object or None."""
    body = read(req)
    return None if body is None else as_object(body)


def software_config(req: Request) -> SoftwareConfig:
    """Parse a software config. Inputs and outputs get defaults for missing fields."""
    given = checked(req, ConfigBody)
    inputs, outputs = map(_as_item, given.inputs or ()), map(_as_item, given.outputs or ())
    return SoftwareConfig(
        name=given.name or "",
        group=given.group or UNGROUPED,
        config=given.config,
        inputs=[{key: part for key, part in one.items() if key != "replace_on_change" or part} for one in inputs],
        outputs=[{"error_output": False, **one} for one in outputs],
        options=given.options or {},
    )


def _as_item(given: ConfigInput | ConfigOutput) -> JsonMap:
    return {"type": "String", **_without_null(given)}


def deployment_changes(req: Request) -> JsonMap:
    """Return the fields that a PUT changes: those in the body that are not null."""
    return _without_null(checked(req, DeploymentChanges))


def _without_null(given: Struct) -> JsonMap:
    return {name: value for name, value in msgspec.structs.asdict(given).items() if value is not None}
