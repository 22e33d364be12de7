"""Stacks of a tree whose definitions change."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.errors import HTTPBadRequest, InvalidStackState, ResourceNotFound, TemplateShared
from heatlite.core.json import Json
from heatlite.core.status import Status, Verb, state
from heatlite.engine.operations.redefining.planning import ChangedResources, ChangedStack, planned
from heatlite.engine.planning.collect import evaluate
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.requests import PlannedResource, StackRequest
from heatlite.engine.state.unit_of_work import with_state
from heatlite.engine.state.values import current_rows
from heatlite.engine.steps.children import Children, Order
from heatlite.engine.types.resource_factory import EngineServices, ResourceFactory, Values
from heatlite.plugin.nested import ChildStack, StackResource
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.edits import DefinitionPart, Edit, edited
from heatlite.template.source.loader import load_template
from heatlite.template.source.rewriting import kept

Path: TypeAlias = tuple[str, ...]
"""Names of resources that lead from the root to a nested stack; () to the root."""
REACHED = "Stack UPDATE completed successfully"


class RowChanges(Struct, frozen=True):
    """Changes of the rows of a stack."""

    before: Sequence[ResourceRecord]
    """All rows that the stack had when the change was planned."""
    new: Sequence[ResourceRecord] = ()
    changed: Sequence[ResourceRecord] = ()
    gone: Sequence[ResourceRecord] = ()
    left: Sequence[ResourceRecord] = ()
    """Rows that go to another stack."""
    entered: Sequence[ResourceRecord] = ()
    """Rows that come from another stack."""

    @property
    def after(self) -> list[ResourceRecord]:
        """All rows after it."""
        changed, gone = {row.id: row for row in self.changed}, {row.id for row in (*self.gone, *self.left)}
        stay = [changed.get(row.id, row) for row in self.before if row.id not in gone]
        return [*stay, *self.new, *self.entered]


class DefinedStack(Struct, frozen=True):
    """A stack of a tree as an operation finds it."""

    path: Path
    stack: StackRecord
    definition: Definition
    rows: Sequence[ResourceRecord]
    file: str = ""
    """The file of the root's definition that has its template; "" for the root, and for a group, which makes it."""

    @property
    def is_group(self) -> bool:
        """True if a group makes the template."""
        return bool(self.path) and not self.file

    def full(self, name: str) -> str:
        """Return the path of a resource from the root on."""
        return "/".join((*self.path, name))


class NestedChange(Struct, frozen=True):
    """A changed nested stack."""

    before: StackRecord
    order: Order
    """The stack with its new definition."""
    rows: RowChanges


class DefinedTree:
    """A tree as an operation finds it."""

    def __init__(self, store: Store, definitions: Definitions, root: StackRecord) -> None:
        self._store = store
        self._definitions = definitions
        self.root = root
        self._levels: dict[Path, DefinedStack] = {
            (): DefinedStack((), root, definitions.of(root), store.resources.of(root.id))
        }

    def placed(self, paths: Iterable[str]) -> dict[Path, list[str]]:
        """Return the names of resources by the paths of their stacks.

        Stacks come before those in them. Raises as `level`.
        """
        found: dict[Path, list[str]] = {}
        for path in dict.fromkeys(paths):
            *above, name = path.split("/")
            found.setdefault(self.level(tuple(above)).path, []).append(name)
        return dict(sorted(found.items()))

    def level(self, path: Path, of_group: bool = False) -> DefinedStack:
        """Return a stack of the tree whose definition is a template of its own.

        With `of_group` also that of a group, which makes the template. Raises ResourceNotFound, HTTPBadRequest for
        other groups and templates of the server, TemplateShared, InvalidStackState if it has not reached its
        definition.
        """
        if path not in self._levels:
            self._levels[path] = self._below(self.level(path[:-1]), path)
        found = self._levels[path]
        if found.is_group and not of_group:
            text = "its members are not defined one by one. Use heatlite group join, leave and resize"
            raise HTTPBadRequest(f"{'/'.join(path)} is a group: {text}.")
        return found

    def has(self, level: DefinedStack) -> bool:
        """Return whether a stack belongs to the tree."""
        return (level.stack.root_id or level.stack.id) == self.root.id

    def _below(self, above: DefinedStack, path: Path) -> DefinedStack:
        name = path[-1]
        row = next((row for row in current_rows(above.rows) if row.name == name), None)
        nested = None if row is None else self._store.stacks.get(row.physical_id or "")
        defined = above.definition.resources.get(name)
        is_there = nested is not None and nested.deleted_at is None and nested.parent_id == above.stack.id
        if nested is None or defined is None or not is_there:
            raise ResourceNotFound(resource_name=name, stack_name=above.stack.name)
        target, where = above.definition.mapping.target(name, defined.type), "/".join(path)
        if target.system:
            raise HTTPBadRequest(f"{where} has a template of the server, {target.name}: no request changes that.")
        _require_reached(nested, path)
        if not target.is_template:
            return DefinedStack(path, nested, self._definitions.of(nested), self._store.resources.of(nested.id))
        others = [place for place in self._uses(target.file) if place != where]
        if others:
            raise TemplateShared(file=target.file, path=where, others=", ".join(others))
        return DefinedStack(
            path, nested, self._definitions.of(nested), self._store.resources.of(nested.id), target.file
        )

    def below(self, level: DefinedStack, name: str) -> list[DefinedStack]:
        """Return the stacks nested in a resource, as they are, those above first.

        Raises InvalidStackState if one has not reached its definition.
        """
        row = next((row for row in current_rows(level.rows) if row.name == name), None)
        nested = None if row is None or row.physical_id is None else self._store.stacks.get(row.physical_id)
        if nested is None or nested.deleted_at is not None or nested.parent_id != level.stack.id:
            return []
        path = (*level.path, name)
        _require_reached(nested, path)
        found = DefinedStack(path, nested, self._definitions.of(nested), self._store.resources.of(nested.id))
        return [found, *(below for one in current_rows(found.rows) for below in self.below(found, one.name))]

    def take_in(self, level: DefinedStack) -> None:
        """Have a stack of a tree, which may be another one, at the path of a level."""
        self._levels[level.path] = level

    def _uses(self, file: str) -> list[str]:
        """Return the paths of the resources that have a template."""
        found, paths = list[str](), dict[str, Path]({self.root.id: ()})
        for stack in (self.root, *self._store.resources.attached(self._store.stacks.descendants(self.root))):
            if stack.id not in paths:
                paths[stack.id] = (*paths[stack.parent_id or ""], stack.parent_resource or "")
            definition = self._definitions.of(stack)
            for name, one in definition.resources.items():
                if definition.mapping.target(name, one.type).file == file:
                    found.append("/".join((*paths[stack.id], name)))
        return found

    def edited(self, edits: Mapping[Path, Sequence[Edit]]) -> StackRequest:
        """Return the definition of the root after edits of templates.

        They are given by the paths of their stacks. Raises KeyError, IndexError for a part that is to be removed and is
        not there.
        """
        root = self._levels[()].definition.template
        files = dict[str, str]()
        for path, some in edits.items():
            level = self._levels[path]
            if level.file:
                text = root.files[level.file]
                before = load_template(text, level.file).data
                changed = edited(before, {}, some)
                files[level.file] = kept(text, changed.patches[DefinitionPart.TEMPLATE], changed.document)
        document = edited(root.document, {}, edits[()]).document if edits.get(()) else None
        return StackRequest(template=document, files=files)


def _require_reached(nested: StackRecord, path: Path) -> None:
    """Raise InvalidStackState for a nested stack that has not reached its definition."""
    if nested.status is not Status.COMPLETE and nested.verb is not Verb.CHECK:
        now, where = state(nested.verb, nested.status), "/".join(path)
        raise InvalidStackState(f"Stack {where} is {now}. Bring it to its definition first: heatlite up.")


class Draft:
    """A tree with a new definition and new rows, which are not stored.

    Rows of a stack are given by `set` before definitions of those in it are asked for.
    """

    def __init__(
        self,
        tree: DefinedTree,
        root: StackRecord,
        definition: Definition,
        services: EngineServices,
        children: Callable[[ResourceFactory], Children],
    ) -> None:
        """Begin with the root as it becomes, and its definition."""
        self._tree = tree
        self._root = root
        self._definition = definition
        self._services = services
        self._children = children
        self._rows: dict[Path, RowChanges] = {}
        self._orders: dict[Path, Order] = {}
        self._members: dict[Path, ChildStack] = {}
        self._changed: dict[str, ChangedStack] = {}

    def set_members(self, path: Path, template: Mapping[str, Json]) -> None:
        """Set the template of a group's nested stack."""
        self._members[path] = ChildStack(template)

    def set(self, path: Path, rows: RowChanges) -> None:
        """Set the changes of the rows of a stack."""
        self._rows[path] = rows
        stack = self.stack(path)
        self._changed[stack.id] = ChangedStack(
            stack, self._services, self.definition(path), rows.after, self._changed
        )

    def rows(self, path: Path) -> RowChanges:
        """Return the changes of the rows of a stack."""
        if path not in self._rows:
            self.set(path, RowChanges(self._tree.level(path).rows))
        return self._rows[path]

    def stack(self, path: Path) -> StackRecord:
        """Return a stack as it becomes."""
        return self._order(path).stack if path else self._root

    def definition(self, path: Path) -> Definition:
        """Return the definition of a stack as it becomes."""
        definition = self._order(path).definition if path else self._definition
        assert definition is not None
        return definition

    def resources(self, path: Path) -> ResourceFactory:
        """Return what makes the resources of a stack, with rows as they were set."""
        return ChangedResources(self.stack(path), self._services, self._changed)

    def plan(self) -> Sequence[PlannedResource]:
        """Return the plan of the next update."""
        self.rows(())
        return planned(self._services, self._root, self._changed)

    @property
    def nested(self) -> list[NestedChange]:
        """The changed nested stacks."""
        return [
            NestedChange(self._tree.level(path, of_group=True).stack, one, self.rows(path))
            for path, one in self._orders.items()
        ]

    def _order(self, path: Path) -> Order:
        if path not in self._orders:
            above, name = path[:-1], path[-1]
            rows, definition, resources = self.rows(above), self.definition(above), self.resources(above)
            current = {row.name: row for row in current_rows(rows.after)}
            wanted, row = evaluate(definition, name, resources, Values(resources, current)), current[name]
            resource = resources.make(row, kind=wanted.kind, update_policy=wanted.update_policy)
            assert isinstance(resource, StackResource)
            child = self._members.get(path) or resource.goal()
            order = self._children(resources).resize(row, resource, definition, child)
            parent = self.stack(above)
            stack = with_state(order.stack, Verb.UPDATE, Status.COMPLETE, REACHED)
            stack = replace(stack, parent_id=parent.id, parent_resource=name, root_id=self._root.id)
            self._orders[path] = replace(order, stack=replace(stack, depth=parent.depth + 1))
        return self._orders[path]
