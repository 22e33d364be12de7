"""Write the rows of one stack's resources, and the events of their states."""

from collections.abc import Callable, Set
from functools import partial

from msgspec.structs import replace

from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap, as_map, dump
from heatlite.core.status import Status, Verb
from heatlite.engine.planning import planner
from heatlite.engine.planning.decide import REFUSED
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Step
from heatlite.engine.state.left_out import KEPT, Note, note_of, noted, state_of
from heatlite.engine.state.unit_of_work import UnitOfWork, resource_event, row_with_state
from heatlite.engine.state.values import PASSED_OVER
from heatlite.engine.types.resource_factory import RESTORED, TRIED, ResourceFactory
from heatlite.plugin.groups import PLACEMENT
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord
from heatlite.template.definitions.definitions import ResourceDefinition
from heatlite.template.document import Definition

STATE_CHANGED = "state changed"
DETACHED = "detached"
"""Ends the id of a row in `uses` from whose object this one was detached."""


def without_attempts(data: JsonMap) -> JsonMap:
    """Return a row's data without the notes on failed updates and refused deletions."""
    if TRIED not in data and REFUSED not in data:
        return data
    return {key: value for key, value in data.items() if key not in (TRIED, REFUSED)}


class RowWriter:
    """Changes the rows of one stack in the unit of work."""

    def __init__(self, unit_of_work: UnitOfWork, resources: ResourceFactory, now: Callable[[], float]) -> None:
        self.chosen: dict[str, ResourceRecord] = {}
        """In a converge, the complete row of each name."""
        self.interrupted = {key for key, row in unit_of_work.rows.items() if row.status is Status.IN_PROGRESS}
        """The ids of rows that an earlier attempt has left in progress and this one has not taken up."""
        self.unit_of_work = unit_of_work
        self.resources = resources
        self.now = now
        self.places = {row.name: placed(row) for row in unit_of_work.rows.values() if PLACEMENT in row.data}
        """By name, the places of members of a group that a policy has decided. New objects get them, too."""
        self._definition: Definition | None = None
        resources.chosen = self.chosen

    @property
    def definition(self) -> Definition:
        """Return the definition to converge to."""
        assert self._definition is not None
        return self._definition

    @definition.setter
    def definition(self, definition: Definition) -> None:
        self._definition = definition

    def of(self, step: Step) -> ResourceRecord:
        """Return the present row of a step that has one."""
        assert step.row is not None
        return self.unit_of_work.rows[step.row.id]

    def made(self, row: ResourceRecord, wanted: Wanted) -> Resource[Schema]:
        """Return the resource object of a row that is to have the wanted values."""
        return self.resources.make(
            row, kind=wanted.kind, update_policy=wanted.update_policy, definition=wanted.definition
        )

    def users(self, row_id: str) -> list[Resource[Schema]]:
        """Return the resources that use a row whose object is deleted (from any thread).

        For a nested stack that uses it, return all members: its row does not tell which of them do.
        """
        found = []
        for row in list(self.unit_of_work.rows.values()):
            if row_id in row.uses and row.physical_id is not None and row.external_id is None:
                user = self.resources.make(row)
                user.facts.users = partial(self.users, row.id)
                found += [user, *self.resources.members(row)]
        return found

    def owners(self, ids: Set[str]) -> dict[str, str]:
        """Return the names of the resources that have the objects, by the ids of these.

        It looks into nested stacks. A server has its ports in its `data`.
        """
        found: dict[str, str] = {}
        for row in self.unit_of_work.rows.values():
            holders = [(row.name, row.physical_id, row.data)]
            members = self.resources.members(row)
            holders += [(f"{row.name}.{one.name}", one.physical_id, one.data) for one in members]
            for name, physical_id, data in holders:
                kept = dump(data)
                found.update({key: name for key in ids if key == physical_id or f'"{key}"' in kept})
        return found

    def part_users(self, row: ResourceRecord) -> None:
        """Note that no row uses an object that a refused deletion has detached from them.

        So those that join it are updated, as if it were a new one.
        """
        for user in list(self.unit_of_work.rows.values()):
            if row.id in user.uses:
                uses = (*(key for key in user.uses if key != row.id), f"{row.id} {DETACHED}")
                self.save(replace(user, uses=uses))
                if row.mapped_type in self.resources.type_of(user).joins:
                    self.part_users(user)  # detached in their turn, as a floating IP is of a router's interface

    def hand_on_uses(self, gone: ResourceRecord) -> None:
        """Let the users of a deleted object, which go later, also use what it has used.

        An object deleted first would else leave them without an order: a machine must go before its subnet's network.
        """
        for user in list(self.unit_of_work.rows.values()) if self.is_replaced_later(gone) else ():
            if gone.id in user.uses:
                self.save(replace(user, uses=tuple(sorted({*user.uses, *gone.uses}))))

    def is_replaced_later(self, row: ResourceRecord) -> bool:
        """Return whether the row's object is deleted before its replacement exists."""
        defined = self._definition is not None and row.name in self._definition.resources
        selection = self.resources.selection
        is_left_out = selection is not None and selection.leaves(row.name)
        return defined and row.name not in self.chosen and not is_left_out

    def pass_over(self) -> None:
        """Note which rows are newer than those that the update has chosen.

        They may stay, as something that is left out uses them.
        """
        for row in [*self.unit_of_work.rows.values()]:
            chosen = self.chosen.get(row.name, row)
            if (row.id > chosen.id) != (PASSED_OVER in row.data):
                kept: JsonMap = {key: value for key, value in row.data.items() if key != PASSED_OVER}
                self.save(replace(row, data={**kept, PASSED_OVER: True} if row.id > chosen.id else kept))

    # -- new rows ----------------------------------------------------------------------------------

    def new(
        self, definition: ResourceDefinition, physical_name: str | None = None, follows: Note | None = None
    ) -> ResourceRecord:
        """Insert a row for an object that does not exist yet.

        Its physical name is final; None: a new one. `follows`: the note of the row whose object is deleted before.
        """
        identifier, kept = new_id(), self.resources.kept
        data = dict(self.places.get(definition.name, {}))
        if kept is not None and kept.has(definition.name):
            data = noted(data, follows or Note(kept.update, again=kept.undoes))
        row = ResourceRecord(
            id=identifier,
            stack_id=self.resources.stack.id,
            name=definition.name,
            type=definition.type,
            mapped_type=definition.mapped_type,
            verb=Verb.INIT,
            status=Status.COMPLETE,
            status_reason="",
            created_at=self.now(),
            physical_name=physical_name or self.resources.physical_name(definition, identifier),
            requires=tuple(sorted(definition.requires)),
            deletion_policy=definition.deletion_policy,
            description=definition.description,
            data=data,
        )
        self.unit_of_work.insert(row)
        return row

    def successor(self, row: ResourceRecord, keeps_name: bool) -> ResourceRecord:
        """Insert a row for the replacement of a deleted object.

        It has the same physical name if `keeps_name`.
        """
        kept, note = self.resources.kept, None
        if kept is not None and (note := note_of(self.noted(row), kept)) is not None and note.before is not None:
            note = replace(note, before=replace(note.before, is_gone=True))
        return self.new(self.definition.resources[row.name], row.physical_name if keeps_name else None, note)

    def noted(self, row: ResourceRecord) -> ResourceRecord:
        """Return the row with how its resource was, if a rollback needs that."""
        kept = self.resources.kept
        if kept is None or kept.undoes or not kept.has(row.name) or note_of(row, kept) is not None:
            return row
        if row.verb is Verb.INIT:
            return replace(row, data=noted(row.data, Note(kept.update)))
        view, restored = self.resources.nested_of(row), as_map(row.data.get(RESTORED)) or None
        own = state_of(row, restored, None if view is None else view.stack, () if view is None else view.rows)
        return replace(row, data=noted(row.data, Note(kept.update, own)))

    # -- changes -----------------------------------------------------------------------------------

    def save(self, row: ResourceRecord) -> None:
        """Write a row without an event."""
        self.unit_of_work.save(row)

    def delete(self, row: ResourceRecord) -> None:
        """Delete a row."""
        self.unit_of_work.delete(row)

    def described(self, row: ResourceRecord) -> ResourceRecord:
        """Return the row with the parts of its definition that no type sees."""
        definition = self.definition.resources[row.name]
        return replace(
            row,
            type=definition.type,
            mapped_type=definition.mapped_type,
            requires=tuple(sorted(definition.requires)),
            uses=planner.used_by(definition, self.chosen),
            deletion_policy=definition.deletion_policy,
            description=definition.description,
        )

    def converged(
        self,
        row: ResourceRecord,
        wanted: Wanted,
        verb: Verb,
        status: Status,
        physical_id: str | None,
        data: JsonMap,
    ) -> ResourceRecord:
        """Write the row with the values of its definition, in a new state, and the event.

        Repeats `described`: one copy of a row is cheaper than two.
        """
        definition, now = self.definition.resources[row.name], self.now()
        data = self._without_kept(without_attempts(data))
        if wanted.restored is not None:
            data = {**data, RESTORED: wanted.restored}
        elif RESTORED in data:
            data = {key: value for key, value in data.items() if key != RESTORED}
        row = replace(
            row,
            type=definition.type,
            mapped_type=definition.mapped_type,
            requires=tuple(sorted(definition.requires)),
            uses=planner.used_by(definition, self.chosen),
            deletion_policy=definition.deletion_policy,
            description=definition.description,
            properties=wanted.properties,
            metadata=wanted.metadata,
            verb=verb,
            status=status,
            status_reason=STATE_CHANGED,
            updated_at=now,
            physical_id=physical_id,
            data=data,
            token=None,
            before_lock=None,
            before_check=None,
            health=row.health if status is Status.IN_PROGRESS else None,
            moved_in=self.resources.phase,
        )
        return self._emitted(row, now)

    def _without_kept(self, data: JsonMap) -> JsonMap:
        """Return a row's data without values that no rollback needs any more.

        A takeover of the rollback that has put them back needs them, too.
        """
        kept = self.resources.kept
        if KEPT not in data or kept is not None and as_map(data[KEPT]).get("update") == kept.update:
            return data
        return {key: value for key, value in data.items() if key != KEPT}

    def with_state(
        self, row: ResourceRecord, verb: Verb, status: Status, reason: str, has_event: bool = True
    ) -> ResourceRecord:
        """Write a new state and its event."""
        now = self.now()
        row = row_with_state(row, verb, status, reason, now, self.resources.phase)
        if has_event:
            return self._emitted(row, now)
        self.unit_of_work.save(row)
        return row

    def _emitted(self, row: ResourceRecord, now: float) -> ResourceRecord:
        self.unit_of_work.save(row)
        self.unit_of_work.record_event(resource_event(row, now))
        return row

    # -- events only -------------------------------------------------------------------------------

    def record_event(self, row: ResourceRecord) -> None:
        """Write an event of the row as given; the row itself stays."""
        self.unit_of_work.record_event(resource_event(row, self.now()))

    def record_state(self, row: ResourceRecord, verb: Verb, status: Status, reason: str) -> None:
        """Write the event of a state that the row only passes through."""
        self.record_event(replace(row, verb=verb, status=status, status_reason=reason))


def placed(row: ResourceRecord) -> JsonMap:
    """Return the data of a row that a new attempt at its object keeps."""
    return {PLACEMENT: row.data[PLACEMENT]} if PLACEMENT in row.data else {}
