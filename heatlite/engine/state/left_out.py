"""Notes of an update in rows of what earlier ones have left out.

Its rollback reads them. No definition says how that was: the stack's has never been reached there.
"""

from collections.abc import Iterable

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from heatlite.core.actions.repairs import Kept, Selection
from heatlite.core.json import AnyMap, JsonMap, as_map
from heatlite.core.status import Verb
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition

KEPT = "kept"
"""Key in the `data` of a row: what an update has noted."""


class OwnDefinition(Struct, frozen=True, omit_defaults=True):
    """The definition of a nested stack, and what the resource that makes it knows."""

    template_id: str
    environment: AnyMap
    inherited: AnyMap | None
    data: AnyMap
    names: tuple[str, ...]
    """The resources that are there."""

    def given_to(self, stack: StackRecord) -> StackRecord:
        """Return the nested stack with this definition."""
        given = self.template_id, self.environment, self.inherited
        return replace(stack, template_id=given[0], environment=given[1], inherited=given[2])

    def kept_by(self, stack: StackRecord) -> StackRecord:
        """Return the nested stack with a reference to this template, which keeps it."""
        return replace(stack, previous_template_id=self.template_id, previous_environment=self.environment)


class OwnState(Struct, frozen=True, omit_defaults=True):
    """A resource as it was before an update."""

    type: str
    mapped_type: str
    properties: AnyMap
    metadata: AnyMap
    requires: tuple[str, ...]
    deletion_policy: str
    description: str
    external_id: str | None
    restored: AnyMap | None = None
    nested: OwnDefinition | None = None
    is_gone: bool = False
    """True if its object is deleted, before its replacement was made."""


class PutBack(ResourceDefinition, frozen=True):
    """Definition of a resource that a rollback puts back by its note."""

    own: OwnState


class Note(Struct, frozen=True, omit_defaults=True):
    """Note of what an update has done to the resource of a row."""

    update: str
    before: OwnState | None = None
    """None: the update has made the row."""
    again: bool = False
    """True if its rollback has made the row."""


def noted(data: JsonMap, note: Note) -> JsonMap:
    """Return the data of a row with a note."""
    return {**data, KEPT: to_builtins(note)}


def note_of(row: ResourceRecord, kept: Kept) -> Note | None:
    """Return what the update has noted in a row; None: it has not changed it."""
    note = as_map(row.data.get(KEPT))
    return convert(note, Note) if note.get("update") == kept.update else None


def own_definition(row: ResourceRecord, kept: Kept | None) -> OwnDefinition | None:
    """Return what a row's nested stack was, if a rollback needs that."""
    note = None if kept is None else note_of(row, kept)
    return None if note is None or note.before is None else note.before.nested


def left_out_below(root: StackRecord, names: Iterable[str], definition: Definition) -> Selection | None:
    """Return the selection of a resize, which does not do what updates have left out.

    `names` lead to the nested stack. Members that leave, leave. None: nothing is left out.
    """
    if root.restricted is None:
        return None
    left_out = Selection({}, outside=root.restricted.left_out)
    for name in names:
        left_out = left_out.below(name)  # nothing, where all of it is left out: its definition is as it was
    outside = tuple(path for path in left_out.outside or () if path.partition("/")[0] in definition.resources)
    return Selection({}, outside=outside) if outside else None


def below(row: ResourceRecord, kept: Kept | None) -> Kept | None:
    """Return what is left out in the nested stack of a row."""
    within, own = None if kept is None else kept.below(row.name), own_definition(row, kept)
    return within if within is None or own is None or not within.undoes else replace(within, names=own.names)


def state_of(
    row: ResourceRecord, restored: JsonMap | None, nested: StackRecord | None, members: Iterable[ResourceRecord]
) -> OwnState:
    """Return how a resource is. `nested` is the stack that it makes, with its rows."""
    own = None
    if nested is not None:
        data = {key: value for key, value in row.data.items() if key != KEPT}
        names = tuple(dict.fromkeys(one.name for one in members if one.verb is not Verb.INIT))
        own = OwnDefinition(nested.template_id, nested.environment, nested.inherited, data, names)
    return OwnState(
        row.type,
        row.mapped_type,
        row.properties,
        row.metadata,
        row.requires,
        row.deletion_policy,
        row.description,
        row.external_id,
        restored,
        own,
    )
