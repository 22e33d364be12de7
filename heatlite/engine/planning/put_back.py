"""Rollbacks put back what earlier updates have left out, by notes in rows."""

from collections.abc import Iterable
from copy import copy

from msgspec.structs import replace

from heatlite.core.actions.repairs import Selection
from heatlite.engine.planning.planner import by_name
from heatlite.engine.state.left_out import OwnState, PutBack, note_of
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition


def put_back(definition: Definition, rows: Iterable[ResourceRecord], resources: ResourceFactory) -> Definition:
    """Return the definition of an operation; of a rollback, with what it puts back.

    What its update has changed of what earlier ones have left out gets its own state. What it has made there goes, the
    rest stays as it is. A takeover reads the same notes.
    """
    kept = resources.kept
    if kept is None or not kept.undoes:
        return definition
    named, outside, gone, anew = by_name(rows), dict[str, None](), list[str](), set[str]()
    states = dict[str, OwnState]()
    for name in filter(kept.has, {**definition.resources, **named}):
        notes = {row.id: note_of(row, kept) for row in named.get(name, ())}
        if name in kept.names and all(note is not None and note.before is None for note in notes.values()):
            anew.add(name)  # Its old object is gone.
            continue
        gone += [key for key, note in notes.items() if note is not None and note.before is None and not note.again]
        before = [note.before for note in notes.values() if note is not None and note.before is not None]
        if before:
            states[name] = before[0]
            anew.update([name] if before[0].is_gone else ())
        else:
            outside[name] = None
    # The values of others may have been those of an object that is made anew: the definition has the new ones.
    own = {
        name: _defined(name, one, definition)
        for name, one in states.items()
        if one.is_gone or anew.isdisjoint(one.requires)
    }
    selection = resources.selection or Selection({}, outside=())
    outside |= dict.fromkeys(selection.outside or ())
    resources.selection = replace(selection, outside=tuple(outside), gone=tuple(gone))
    after = copy(definition)
    after.resources = {**definition.resources, **own}
    return after


def _defined(name: str, own: OwnState, definition: Definition) -> PutBack:
    known = definition.resources.get(name)
    return PutBack(
        name=name,
        type=own.type,
        mapped_type=own.mapped_type,
        properties=own.properties if known is None else known.properties,
        metadata=own.metadata,
        depends_on=own.requires,
        deletion_policy=own.deletion_policy,
        update_policy={} if known is None else known.update_policy,
        description=own.description,
        external_id=own.external_id,
        requires=frozenset(own.requires),
        refill=definition.refill,
        own=own,
    )
