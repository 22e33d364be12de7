"""Request bodies of stacks: creates, updates and their previews.

Every fault is a 400 that names its place.
"""

from collections.abc import Sequence
from typing import Annotated, Any, Literal, TypeAlias

import msgspec.structs
from msgspec import Meta, Struct

from heatlite.api import query
from heatlite.api.request import Request
from heatlite.api.wire.bodies import Truth, as_object, read
from heatlite.core.errors import HTTPBadRequest, InvalidValue
from heatlite.core.json import AnyMap, Json, JsonMap
from heatlite.core.validation import convert, options
from heatlite.core.wire.base import Body
from heatlite.engine.state import requests
from heatlite.engine.state.stack_document import read_record

MOST_PATHS = 200

_MINUTES = {
    "type": ["integer", "string"], "minimum": 0, "maximum": query.MAX_INTEGER, "pattern": "^(0|[1-9][0-9]{0,8})$",
}  # fmt: skip
Minutes: TypeAlias = Annotated[Any, Meta(extra_json_schema=_MINUTES)]
"""A number that may be text: `query.non_negative` reads it."""


Path: TypeAlias = Annotated[str, Meta(min_length=1, max_length=2048)]
Paths: TypeAlias = Annotated[
    list[Path], Meta(min_length=1, max_length=MOST_PATHS, extra_json_schema={"uniqueItems": True})
]
"""Paths of resources, each once."""


class Definition(Struct, frozen=True, kw_only=True):
    """The definition of a stack, as Heat's clients send it: further keys are ignored."""

    stack_name: str | None = None
    """Not read: the path names the stack."""
    template: AnyMap | str | None = None
    """The template, as an object or as YAML or JSON text. A refusal of a text tells the line and the column."""
    template_url: str | None = None
    """Address of the template, in place of ``template``: with http or https.

    Its host must be among the operator's ``template_hosts``, and so has each one that a redirect leads to. There is a
    limit of size and time.
    """
    environment: AnyMap | str | None = None
    """The environment, as an object or as YAML or JSON text. Not used if ``environment_files`` are given."""
    environment_files: list[str] | None = None
    """Names of environments in ``files``, merged in this order."""
    files: dict[str, str] | None = None
    """Names and contents of the files that the template refers to: ``get_file``, nested templates, environments."""
    files_container: str | None = None
    """A container of the project whose objects are added to ``files``.

    They have their names there; those of ``files`` win. ``environment_files`` may name them. It is a folder of the
    server, ``<project>/<container>`` below the operator's ``files_containers``: at most 1000 files and folders, text in
    UTF-8, no symbolic links. One file may be as large as a template, all together as large as a body.
    """
    parameters: AnyMap | None = None
    """Names and values of parameters. They win over those of the environments."""
    clear_parameters: list[str] | None = None
    """Names of stored parameters that return to their defaults."""
    tags: str | list[str] | None = None
    """Comma-separated tags of at most 80 characters, or a list."""
    timeout_mins: Minutes | None = None
    """Minutes until the operation times out. Default: 60."""
    disable_rollback: Truth | None = None
    """``false``: undo a creation or an update that fails. Default of a new stack: ``true``."""
    plan_digest: str | None = None
    """The ``digest`` of a plan.

    If the update would do anything else than that plan says, it is refused with 409 ``PlanChanged``, and nothing is
    done.
    """
    converge: Truth | None = None
    """``true``: look at the real objects first.

    What is not as it is stored is changed back in place or replaced, missing objects are made again. Only where the
    type can look. Default: the setting ``observe_on_update``, which is off.
    """
    adopt_cloud: bool | None = None
    """``true``: record the configured cloud as that of the stack.

    An event and the audit log tell of it. Without it, an operation in another cloud than the recorded one is 409
    ``OtherCloud``.
    """


    target: Paths | None = None
    """Paths of resources that the update is about. Not with ``exclude``.

    It touches only these, all below a group or nested stack, and what they require, as far as that would change. The
    definition is stored whole; until an update of all the stack is ``restricted``.
    """
    exclude: Paths | None = None
    """Paths of resources that the update leaves as they are.

    It also leaves out what would need a new value of theirs. Else as ``target``.
    """
    replace: Paths | None = None
    """Paths of resources that get new objects, whatever else changes. The old ones are deleted."""


STRICT = ("plan_digest", "target", "exclude", "replace")
"""Keys of an update with one of which it takes no unknown key: a misspelt one must not touch everything.

Those of features are such keys, too.
"""


class Creation(Definition, frozen=True, kw_only=True):
    """The definition of a new stack.

    It needs a template, the address of one, or ``adopt_stack_data``. ``adopt_cloud`` needs ``adopt_stack_data``.
    """

    stack_name: Annotated[str, Meta(extra_json_schema={"pattern": "^[a-zA-Z][a-zA-Z0-9_.-]{0,254}$"})]
    """Name of the stack, unique among the living stacks of the project."""
    adopt_stack_data: Annotated[Any, Meta(extra_json_schema={"type": ["object", "string", "null"]})] = None
    """The record of a stack that was exported or abandoned, or its text.

    The text is JSON or YAML. Nothing is made: each resource takes over the object of its name in the record, and the
    stack ends ``ADOPT_COMPLETE``; a resource whose object the record does not tell fails. An object that another live
    stack has is refused. Template, files and environment are those of the record; files, environment and parameters of
    the request go before them. The setting ``enable_stack_adopt`` switches it off.
    """
    plan_digest: None = None
    """For an update only."""
    target: None = None
    """For an update only."""
    exclude: None = None
    """For an update only."""
    replace: None = None
    """For an update only."""
    converge: None = None
    """For an update only."""


class DeletionOptions(Body, frozen=True):
    """Options of a deletion. ``null`` and ``{}`` mean that all goes."""

    retain: Paths | None = None
    """Names of resources whose objects stay in the cloud, with all that they require and the stack has made."""


def deletion(value: Json) -> tuple[str, ...]:
    """Return the names that the options of a deletion retain."""
    retain = options(value, DeletionOptions, "delete").retain
    _check_different("delete.retain", retain)
    return tuple(retain or ())


def keys(further: Sequence[type[Struct]]) -> frozenset[str]:
    """Return the keys of an update, with those of features."""
    kinds: Sequence[type[Struct]] = (Definition, *further)
    return frozenset(name for one in kinds for name in one.__struct_encode_fields__)


def create(req: Request, further: Sequence[type[Struct]]) -> requests.StackRequest:
    """Parse the body of a create or its preview. `further` has the keys of features."""
    body = as_object(read(req))
    if body.get("stack_name") is None:
        raise HTTPBadRequest("No stack name specified")
    for key in ("converge", *STRICT):
        if body.get(key) is not None:
            raise HTTPBadRequest(f"{key} is valid for an update only.")
    record = body.get("adopt_stack_data")
    if record is None and body.get("adopt_cloud") is not None:
        raise HTTPBadRequest("adopt_cloud is valid for an update, or with adopt_stack_data, only.")
    if record is None:
        return definition(body, "required", Creation, further)
    return msgspec.structs.replace(definition(body, "optional", Creation, further), adopted=read_record(record))


def whole(req: Request, further: Sequence[type[Struct]] = ()) -> requests.StackRequest:
    """Parse the body of a PUT of a stack, its preview, or a validation."""
    return definition(as_object(read(req)), "required", further=further)


def change(body: Json, further: Sequence[type[Struct]]) -> requests.StackRequest:
    """Parse the body of a PATCH of a stack or its preview.

    Without a body, nothing changes.
    """
    return definition({} if body is None else as_object(body), "optional", further=further)


def definition(
    body: JsonMap,
    template: Literal["required", "optional"],
    kind: type[Definition] = Definition,
    further: Sequence[type[Struct]] = (),
) -> requests.StackRequest:
    """Parse the definition of a stack. Raises HTTPBadRequest.

    `further` are structs with the keys of features.
    """
    given = convert(body, kind)
    for one in further:
        convert(body, one)
    of_features = [name for one in further for name in one.__struct_fields__]
    _check_known(body, (*STRICT, *of_features), (*given.__struct_fields__, *of_features))
    _check_reach(given)
    if given.template is None and given.template_url is None and template == "required":
        raise HTTPBadRequest("No template specified")
    timeout, rollback = given.timeout_mins, given.disable_rollback
    return requests.StackRequest(
        name=given.stack_name,
        template=given.template,
        template_url=given.template_url if given.template is None else None,
        environment=given.environment,
        environment_files=tuple(given.environment_files or ()),
        files=given.files or {},
        files_container=given.files_container or None,
        parameters=given.parameters or {},
        clear_parameters=tuple(given.clear_parameters or ()),
        tags=_tags(given.tags),
        timeout_mins=None if timeout is None else query.non_negative("timeout_mins", timeout),
        disable_rollback=None if rollback is None else query.truth("disable_rollback", rollback, InvalidValue),
        converge=given.converge is not None and query.truth("converge", given.converge),
        adopt_cloud=given.adopt_cloud is True,
        plan_digest=given.plan_digest,
        reach=requests.Reach(*(tuple(paths or ()) for paths in (given.target, given.exclude, given.replace))),
        further={name: body[name] for name in of_features if body.get(name) is not None},
        body=body,
    )


def _check_different(name: str, paths: Sequence[str] | None) -> None:
    if paths is not None and len({*paths}) < len(paths):
        raise HTTPBadRequest(f"{name}: names something twice.")


def _check_known(body: JsonMap, strict: Sequence[str], known: Sequence[str]) -> None:
    """Raise HTTPBadRequest for an unknown key beside one of the `strict` ones."""
    found = [key for key in strict if body.get(key) is not None]
    unknown = [key for key in body if key not in known] if found else []
    if unknown:
        raise HTTPBadRequest(
            f"unknown key {', '.join(unknown)}: a body with {', '.join(found)} takes only {', '.join(known)}. Nothing"
            " was done."
        )


def _check_reach(given: Definition) -> None:
    """Raise HTTPBadRequest for paths that no update takes together."""
    for name in ("target", "exclude", "replace"):
        _check_different(name, getattr(given, name))
    if given.target is not None and given.exclude is not None:
        raise HTTPBadRequest("target and exclude: an update takes one of them. Nothing was done.")


def _tags(value: str | list[str] | None) -> tuple[str, ...] | None:
    """Read tags: text with commas (Heat's clients) or a list (the SDK)."""
    if value is None:
        return None
    found = value.split(",") if isinstance(value, str) else value
    tags = tuple(tag.strip() for tag in found if tag.strip())
    for tag in tags:
        if len(tag) > 80:
            raise HTTPBadRequest(f'Invalid tag, "{tag}" is longer than 80 characters')
        if "," in tag:
            raise HTTPBadRequest(f'Invalid tag, "{tag}" contains a comma')
    return tags


