"""Plans of the next update after a change of members that is not stored."""

from collections.abc import Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.json import Json, same
from heatlite.engine.operations.membership.writing import MembershipDraft
from heatlite.engine.operations.redefining.planning import ChangedStack, planned, waiting
from heatlite.engine.planning.planner import ordered
from heatlite.engine.preview.redaction import KNOWN_LATER
from heatlite.engine.state.requests import PlannedResource
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition


class NextPlan(Struct, frozen=True):
    """The plan of the next update, in two parts."""

    at_once: Sequence[PlannedResource]
    """Changes of members by an action of its own, which updates the group at once."""
    later: Sequence[PlannedResource]


class NextPlans:
    """Plans the next update of trees."""

    def __init__(self, store: Store, services: EngineServices) -> None:
        self._store = store
        self._services = services

    def of(self, draft: MembershipDraft, group: tuple[str, ...]) -> NextPlan:
        """Return the changes of a group at a path, of what it is in, and of what reads it.

        So changes elsewhere in the tree do not outdate the plan. Ids and names of new stacks are not known yet.
        """
        readers = {*self._readers(draft.place.owner, group)}
        new = frozenset(text for one in draft.stacks for text in (one.order.stack.id, one.order.stack.name))
        at_once, later = list[PlannedResource](), list[PlannedResource]()
        for line in self._planned(draft):
            above = {line.path[:depth] for depth in range(1, len(line.path) + 1)}
            if group[: len(line.path)] == line.path or not readers.isdisjoint(above):
                line = _without(line, new) if new else line
                is_member = draft.has_more and group in above and line.path != group
                (at_once if is_member else later).append(line)
        return NextPlan(at_once, _without_parents(later, group if draft.has_more else group[:-1]))

    def _readers(self, owner: StackRecord, group: tuple[str, ...]) -> Iterator[tuple[str, ...]]:
        """Yield the paths of a group, and of what reads it or a stack that it is in."""
        yield group
        level = owner
        for depth in reversed(range(len(group))):
            definition, names = self._services.definitions.of(level), {group[depth]}
            for name in ordered(definition.resources):
                if not names.isdisjoint(definition.resources[name].requires):
                    names.add(name)
                    yield (*group[:depth], name)
            level = self._store.stacks.get(level.parent_id or "") or level

    def _planned(self, draft: MembershipDraft) -> list[PlannedResource]:
        """Return the changes of the whole tree."""
        services, changed, owner = self._services, dict[str, ChangedStack](), draft.place.owner

        def change(stack: StackRecord, definition: Definition | None, rows: Sequence[ResourceRecord]) -> None:
            assert definition is not None
            changed[stack.id] = ChangedStack(stack, services, definition, rows, changed)

        root = owner if owner.root_id is None else self._store.stacks.get(owner.root_id)
        assert root is not None
        for one in (root, owner):
            rows = self._store.resources.of(one.id)
            rows = [draft.group if row.id == draft.group.id else row for row in rows]
            change(one, services.definitions.of(one), rows)
        change(draft.order.stack, draft.order.definition, draft.rows)
        for new in draft.stacks:
            change(new.order.stack, new.order.definition, new.rows)
        return [*waiting(planned(services, root, changed)).values()]


def _without(line: PlannedResource, texts: frozenset[str]) -> PlannedResource:
    """Return a line in which values with these texts are not known."""
    differences = []
    for one in line.differences:
        known = _known(one.new, texts)
        differences.append(one if same(known, one.new) else replace(one, new=known, is_open=True))
    physical_id = None if line.physical_id in texts else line.physical_id
    return replace(line, physical_id=physical_id, differences=tuple(differences))


def _known(value: Json, texts: frozenset[str]) -> Json:
    if isinstance(value, str):
        return KNOWN_LATER if any(text in value for text in texts) else value
    if isinstance(value, Mapping):
        return {key: _known(one, texts) for key, one in value.items()}
    return [_known(one, texts) for one in value] if isinstance(value, list) else value


def _without_parents(lines: Sequence[PlannedResource], path: tuple[str, ...]) -> list[PlannedResource]:
    """Return lines without those around a path that have no line below."""
    left: list[PlannedResource] = []
    for line in reversed(lines):  # those below come first
        depth = len(line.path)
        is_around = path[:depth] == line.path and not line.differences and not line.metadata_differs
        if not is_around or any(one.path[:depth] == line.path for one in left):
            left.insert(0, line)
    return left
