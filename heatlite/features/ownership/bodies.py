"""Bodies of the operations."""

from typing import Annotated, Any, Literal, TypeAlias

from msgspec import Meta, Struct, field

from heatlite.core.json import AnyMap
from heatlite.core.wire.resources import MOST_RESOURCES
from heatlite.engine.state.requests import StackRequest

Text: TypeAlias = Annotated[str, Meta(min_length=1)]


class ImportedObject(Struct, frozen=True, forbid_unknown_fields=True):
    """An object to import. One of ``id``, ``name`` and ``filter`` says which."""

    id: Text | None = None
    """The physical id, as ``physical_resource_id`` of a resource."""
    name: Text | None = None
    """The exact name; one object must have it."""
    filter: Annotated[AnyMap, Meta(min_length=1)] | None = None
    """Properties of the type; one object must have all of them. Beside an ``id``: properties that it does not tell,
    such as the pool of a member."""
    type: str | None = None
    """The resource type; required without a definition in the body."""

    def __post_init__(self) -> None:
        found = [self.id or self.filter, self.name]
        if len([one for one in found if one is not None]) != 1:
            raise ValueError("give one of id, name and filter")


class GivenDefinition(Struct, frozen=True, forbid_unknown_fields=True):
    """The new definition of a stack. Without one the server edits the stored one."""

    template: Annotated[Any, Meta(extra_json_schema={"type": ["object", "string", "null"]})] = None
    """As in an update (PATCH). It must define what comes, and change nothing else."""
    files: dict[str, str] | None = None
    """Names and contents of files, as in an update."""
    environment: Annotated[Any, Meta(extra_json_schema={"type": ["object", "string", "null"]})] = None
    """As in an update (PATCH): merged with that of the stack."""
    environment_files: list[str] | None = None
    """Names of environments in ``files``."""
    parameters: dict[str, Any] | None = None
    """Names and values of parameters."""

    @property
    def definition(self) -> StackRequest | None:
        """The definition in the body. None: there is none."""
        if not any((self.template, self.files, self.environment, self.environment_files, self.parameters)):
            return None
        return StackRequest(
            template=self.template,
            files=self.files or {},
            environment=self.environment,
            environment_files=tuple(self.environment_files or ()),
            parameters=self.parameters or {},
        )


class ImportRequest(GivenDefinition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Existing objects to take under the care of a stack, and their definitions.

    Without a definition the server writes one, of what the objects tell.
    """

    resources: Annotated[dict[Text, Text | ImportedObject], Meta(min_length=1, max_length=MOST_RESOURCES)]
    """Paths from the stack on, such as ``data/vol`` → objects; a text is an id."""
    changes: Literal["refuse", "list"] = "refuse"
    """``list`` keeps differences between objects and definitions as work of the next update."""
    plan_digest: str | None = None
    """Digest of the approved plan; required to import."""

    @property
    def objects(self) -> dict[str, ImportedObject]:
        """The objects by name."""
        return {
            name: ImportedObject(id=one) if isinstance(one, str) else one for name, one in self.resources.items()
        }


class DetachRequest(Struct, frozen=True, forbid_unknown_fields=True):
    """Resources that leave their stack alive."""

    resources: Annotated[tuple[Text, ...], Meta(min_length=1, max_length=MOST_RESOURCES)]
    """Paths from the stack on, such as ``data/vol``."""
    as_external: bool = False
    """Keep a reference to each object in the template (``external_id``), so that what reads it goes on."""
    plan_digest: str | None = None
    """Digest of the approved plan; required to detach."""


class MovedResource(Struct, frozen=True, forbid_unknown_fields=True):
    """A resource that gets another place."""

    old: Text = field(name="from")
    """Path from the stack on, such as ``data/vol`` or ``web/2``."""
    new: Text = field(name="to")
    """The new path. That of another resource of its stack if that moves, too."""


class MoveRequest(GivenDefinition, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """Resources that get other names, or go to another stack, with references to them."""

    moved: Annotated[tuple[MovedResource, ...], Meta(min_length=1, max_length=MOST_RESOURCES)]
    """The resources. Each path is the old one of one resource at most, and the new one of one at most."""
    to_stack: Text | None = None
    """Name or id of another root stack of the project, in which the new paths are."""
    to_definition: GivenDefinition | None = None
    """The new definition of that stack. Give both, or none."""
    plan_digest: str | None = None
    """Digest of the approved plan; required to move."""

    def __post_init__(self) -> None:
        if (self.to_definition is not None) != (self.to_stack is not None and self.definition is not None):
            raise ValueError("to_definition goes with to_stack and a definition of the stack itself")
        if self.to_stack is None and any(one.old == one.new for one in self.moved):
            raise ValueError("a resource moves to its own name")
        if min(len({one.old for one in self.moved}), len({one.new for one in self.moved})) < len(self.moved):
            raise ValueError("a name is given twice")
