"""Read the objects that are to join a group, and make their rows."""

from collections.abc import Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, InvalidValue, NestedMember
from heatlite.core.ids import new_id
from heatlite.core.status import Status, Verb
from heatlite.engine.operations.membership.writing import FoundGroup, MembershipWriter, NewStack
from heatlite.engine.planning.collect import choose_row, evaluate
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome, ResourceDecision
from heatlite.engine.planning.planner import ordered, used_by
from heatlite.engine.preview.preview import stand_in
from heatlite.engine.state.group_requests import Joining
from heatlite.engine.state.values import current_rows
from heatlite.engine.steps.children import Children, Order
from heatlite.engine.types.existing_objects import Object, find, read
from heatlite.engine.types.resource_factory import ResourceFactory, Values
from heatlite.plugin.nested import StackResource
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition
from heatlite.template.ignored import ignored


class Entrant(Struct, frozen=True):
    """An object that enters, with its new row."""

    path: tuple[str, ...]
    """Below the group: the name of the member, and that within it."""
    row: ResourceRecord
    seen: Object
    wanted: Wanted
    decision: ResourceDecision
    """The decision of the next update about it."""

    @property
    def differs(self) -> bool:
        """True if its object is not as the definition wants it."""
        return bool(self.seen.differing) or self.decision.outcome in (Outcome.REPLACE, Outcome.REFUSE)


class Entrants(Struct, frozen=True):
    """All that enters by one request."""

    objects: Sequence[Entrant]
    stacks: Sequence[NewStack]

    @property
    def members(self) -> list[ResourceRecord]:
        """The new rows of the group's nested stack."""
        single = [one.row for one in self.objects if len(one.path) == 1]
        return [*single, *(one.member for one in self.stacks)]


class _Level(Struct, frozen=True):
    """A stack whose resources are read, each with the values of those before."""

    definition: Definition
    resources: ResourceFactory
    values: Values

    @classmethod
    def of(cls, order: Order, resources: ResourceFactory, rows: Sequence[ResourceRecord]) -> "_Level":
        assert order.definition is not None
        return cls(order.definition, resources, Values(resources, {row.name: row for row in rows}))


class EntrantReader:
    """Reads objects by the definition of a changed group."""

    def __init__(self, writer: MembershipWriter) -> None:
        self._writer = writer

    def read(self, place: FoundGroup, order: Order, asked: Mapping[str, Joining]) -> Entrants:
        """Return what enters, by the names of new members.

        Raises HTTPBadRequest, InvalidValue, NestedMember, and the errors of `existing_objects`.
        """
        resources = self._writer.reader.resources_of(place.owner).within(order.stack)
        level = _Level.of(order, resources, current_rows(place.rows))
        children = self._writer.children_of(order.action, resources)
        objects, stacks = list[Entrant](), list[NewStack]()
        for name, one in asked.items():
            wanted = evaluate(level.definition, name, resources, level.values)
            is_nested = issubclass(wanted.kind, StackResource)
            _require_form(name, one, is_nested)
            if not is_nested:
                objects.append(self._entrant((name,), level, wanted, one))
                continue
            stack, within = self._nested(level, children, wanted, name, one.ids or {})
            stacks.append(stack)
            objects += within
        if len({(one.wanted.kind.object_kind, one.seen.physical_id) for one in objects}) < len(objects):
            raise InvalidValue(f"Two members of group {place.group.name} would be the same object.")
        return Entrants(objects, stacks)

    def _entrant(self, path: tuple[str, ...], level: _Level, wanted: Wanted, asked: Joining) -> Entrant:
        """Find and read an object."""
        name = path[-1]
        row = replace(_row(level, name, wanted), properties=wanted.properties)
        key = asked.id or find(level.resources, row, wanted.kind, asked.name, asked.filter)
        resource = level.resources.make(
            replace(row, physical_id=key), kind=wanted.kind, update_policy=wanted.update_policy
        )
        seen = read(resource, ignored(wanted.definition, name))
        row = replace(
            row,
            physical_id=seen.physical_id,
            physical_name=seen.physical_name or row.physical_name,
            properties=seen.properties,
            data=seen.data,
            created_at=row.created_at if seen.created_at is None else seen.created_at,
        )
        return Entrant(path, row, seen, wanted, choose_row(level.definition, name, [row], level.values).decision)

    def _nested(
        self, above: _Level, children: Children, wanted: Wanted, name: str, ids: Mapping[str, str]
    ) -> tuple[NewStack, list[Entrant]]:
        """Read the objects of a member that is a template."""
        row = replace(_row(above, name, wanted), properties=wanted.properties)
        resource = above.resources.make(
            row, kind=wanted.kind, update_policy=wanted.update_policy, definition=above.definition
        )
        assert isinstance(resource, StackResource)
        order = children.adopted(row, resource, above.definition)
        level = _Level.of(order, above.resources.within(order.stack), ())
        _require_ids(name, level, ids)
        found, rows = list[Entrant](), dict[str, ResourceRecord]()
        for inner in ordered(level.definition.resources):
            if inner not in ids:
                continue
            level = _Level(level.definition, level.resources, Values(level.resources, dict(rows)))
            inside = evaluate(level.definition, inner, level.resources, level.values)
            found.append(self._entrant((name, inner), level, inside, Joining(id=ids[inner])))
            rows[inner] = found[-1].row
        created = min((one.row.created_at for one in found), default=row.created_at)
        member = replace(row, physical_id=order.stack.id, created_at=created)
        return NewStack(member, order, [*rows.values()]), found


def _require_form(name: str, asked: Joining, is_nested: bool) -> None:
    """Raise HTTPBadRequest unless a request names one object, or those of a template."""
    given = [one for one in (asked.id, asked.name, asked.filter, asked.ids) if one is not None]
    if len(given) != 1:
        raise HTTPBadRequest("join.members: each needs one of id, name, filter and ids.")
    if is_nested != (asked.ids is not None):
        way = "ids, with the id of each object by the names of the template" if is_nested else "id, name or filter"
        raise HTTPBadRequest(f"join.members: member {name} needs {way}.")


def _require_ids(name: str, level: _Level, ids: Mapping[str, str]) -> None:
    """Raise the error of ids that do not fit the template of a member."""
    resources, faults = level.definition.resources, list[str]()
    kinds = {inner: level.resources.kind(level.definition, inner) for inner in resources}
    nested = sorted(inner for inner, kind in kinds.items() if issubclass(kind, StackResource))
    if nested:
        raise NestedMember(f"Member {name} has nested stacks itself ({', '.join(nested)}), so it cannot join.")
    faults += [f"the template has no resource {one}" for one in sorted(ids.keys() - resources.keys())]
    used = {need for one in resources.values() for need in one.requires}
    needed = (inner for inner, kind in kinds.items() if inner not in ids and (kind.cloud_service or inner in used))
    faults += [f"the id of {one} is missing" for one in sorted(needed)]
    if faults:
        raise HTTPBadRequest(f"join.members: ids of member {name}: {'; '.join(faults)}.")


def _row(level: _Level, name: str, wanted: Wanted) -> ResourceRecord:
    """Return the new row of a resource, still without its object."""
    definition, resources, key = level.definition.resources[name], level.resources, new_id()
    now = resources.now()
    return replace(
        stand_in(definition, resources.stack),
        id=key,
        verb=Verb.ADOPT,
        status=Status.COMPLETE,
        status_reason="Joined",
        created_at=now,
        updated_at=now,
        physical_name=resources.physical_name(definition, key),
        metadata=wanted.metadata,
        requires=tuple(sorted(definition.requires)),
        uses=used_by(definition, level.values.rows),
    )
