"""What a caller asks for, and what a preview answers: plain data between the API and the engine."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from heatlite.core.json import Json, JsonMap
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.document import Definition


@dataclass(frozen=True, slots=True)
class Adopted:
    """A stack's record that is to become a stack."""

    template: JsonMap
    environment: JsonMap
    files: Mapping[str, str]
    resources: JsonMap


@dataclass(frozen=True, slots=True)
class Request:
    """The body of a create, an update, a preview or a validation. None means: not given."""

    name: str | None = None
    template: Json = None
    """An object, or text (JSON or YAML)."""
    template_url: str | None = None
    """Where the server shall get the template; only where there is no `template`."""
    environment: Json = None
    """An object, or text; ignored by Heat's rule where `environment_files` is not empty."""
    environment_files: tuple[str, ...] = ()
    files: Mapping[str, str] = field(default_factory=dict)
    files_container: str | None = None
    """A container of the project, whose objects are files, too; `files` go before them."""
    parameters: JsonMap = field(default_factory=dict)
    clear_parameters: tuple[str, ...] = ()
    tags: tuple[str, ...] | None = None
    timeout_mins: int | None = None
    disable_rollback: bool | None = None
    converge: bool = False
    """Whether an update looks at the real objects first and starts from what it finds."""
    adopted: Adopted | None = None
    """Of a create that makes nothing: the objects that it takes over. Its template takes the place of `template`; what
    else there is in the request goes before it."""
    body: JsonMap | None = None
    """The request as it came, so that one which a lock refuses can be replayed."""


@dataclass(frozen=True, slots=True)
class PreviewResource:
    """A resource as it would be. Values that are not known yet are None."""

    record: ResourceRecord
    required_by: tuple[str, ...]
    attributes: Mapping[str, Json]


@dataclass(frozen=True, slots=True)
class Preview:
    """A stack as a create would make it."""

    stack: StackRecord
    definition: Definition
    resources: tuple[PreviewResource, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What an update would do, resource by resource (Heat's five lists)."""

    unchanged: tuple[PreviewResource, ...]
    updated: tuple[PreviewResource, ...]
    replaced: tuple[PreviewResource, ...]
    added: tuple[PreviewResource, ...]
    deleted: tuple[PreviewResource, ...]
