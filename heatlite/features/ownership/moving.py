"""Moves of resources to other names and stacks. No object is touched."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from msgspec import Struct
from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.clients.cloud import OtherCloud
from heatlite.core.actions.payloads import ActionOutputs
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionConflict,
    HTTPBadRequest,
    InvalidStackState,
    RequestLimitExceeded,
    ResourceNotFound,
    StackNotFound,
    abbreviated,
)
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.redaction.masking import Mask
from heatlite.core.status import Status, Verb
from heatlite.core.wire.why import WayOut, words
from heatlite.engine.admission.preparation import Prepared
from heatlite.engine.operations.redefining.changes import Redefinition
from heatlite.engine.operations.redefining.planning import Waiting, planned_before, waiting
from heatlite.engine.operations.redefining.tree import DefinedStack, DefinedTree, Draft, Path, RowChanges
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.planner import used_by
from heatlite.engine.preview.preview_views import detailed_plan, plan_entry
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.requests import PlannedResource, ShownPlan, StackRequest
from heatlite.engine.state.unit_of_work import MOVED_FROM, MOVED_TO, moved_text, operation_event, with_state
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.features.ownership import membership, nesting, only_move
from heatlite.features.ownership.bodies import MoveRequest
from heatlite.features.ownership.errors import MoveReplaces, ReferencesCross
from heatlite.features.ownership.membership import Membership
from heatlite.plugin.groups import MEMBER_NAME, SizedGroup
from heatlite.plugin.signing import KEY
from heatlite.store.feature_store import Moved, TreeStack
from heatlite.store.records import EventRecord, ResourceRecord, StackRecord
from heatlite.template.definitions.renames import Foreign, carried, renamed
from heatlite.template.document import Definition
from heatlite.template.edits import DefinitionPart, edits_between
from heatlite.template.expression import requires


class _Step(Struct, frozen=True):
    """Resources of one stack that go to names of one stack, perhaps another one."""

    source: DefinedStack
    target: DefinedStack
    roots: tuple[StackRecord, StackRecord]
    rows: Mapping[str, ResourceRecord]
    names: Mapping[str, str]
    below: Mapping[str, Sequence[DefinedStack]]
    """Stacks nested in those that leave their stack, by old name."""

    def told(self, old: str) -> str:
        """Return the old place of a resource, as its new one tells it."""
        if not self.crosses:
            return old
        return self._shown(self.source.full(old), self.roots[0])

    def new(self, old: str) -> str:
        """Return the new place of a resource, as its old one tells it."""
        return self._shown(self.target.full(self.names[old]), self.roots[1])

    def _shown(self, path: str, root: StackRecord) -> str:
        return path if self.roots[0].id == self.roots[1].id else f"{path} of stack {root.name}"

    @property
    def crosses(self) -> bool:
        """True if they leave their stack."""
        return self.source.stack.id != self.target.stack.id

    @property
    def moved(self) -> Moved:
        """The step in the rows of all tables."""
        nested = [one.stack.id for levels in self.below.values() for one in levels]
        return Moved(_place(self.source), _place(self.target), self.names, nested)


class _Side(Struct, frozen=True):
    """A tree of a move as it becomes."""

    tree: DefinedTree
    request: StackRequest
    prepared: Prepared
    draft: Draft
    moved: Sequence[ResourceRecord]
    """Rows with new places in it."""
    details: JsonMap


class ResourceMoves:
    """Plans and carries out moves."""

    def __init__(self, core: Components) -> None:
        self._core = core
        self._store = core.store
        self._redefining = core.redefining

    def plan(self, context: Context, stack: StackRecord, asked: MoveRequest) -> ShownPlan:
        """Return the plan of a move. Raises as `start`, but for locks and running actions."""
        return self._redefining.shown(context, stack, self._planned(context, stack, asked))

    def start(self, context: Context, stack: StackRecord, asked: MoveRequest, body: JsonMap) -> None:
        """Move resources of a tree, in one transaction.

        `body` is the request, for a replay after a lock. Raises PlanChanged, MoveReplaces, ReferencesCross,
        TemplateShared, ResourceNotFound, InvalidStackState, and as `Admission.admitted`.
        """
        request = self._core.admission.precheck(context, Operation.MOVE, stack, "POST", "/actions", body)
        change = self._planned(context, stack, asked, binds=True)
        self._redefining.require_digest(context, change, stack, asked.plan_digest)
        moved: list[Json] = [{"from": one.old, "to": one.new} for one in asked.moved]
        options: JsonMap = {"moved": moved, "plan_digest": asked.plan_digest}
        if change.other is not None:
            options["to_stack"] = change.other.before.id
        self._redefining.carry_out(context, request, change, options)

    def _planned(self, context: Context, stack: StackRecord, asked: MoveRequest, binds: bool = False) -> Redefinition:
        """Plan a move. Reads the database only.

        `binds`: it is to be carried out. Other plans pass a lock.
        """
        here = self._redefining.tree(stack)
        there = here if asked.to_stack is None else self._redefining.tree(self._other(context, stack, asked.to_stack))
        steps, now = self._steps(here, there, asked), self._core.clock.now()
        self._require_movable(stack, steps, binds)
        trees = [here] if there is here else [here, there]
        sides = self._sides(context, trees, steps, asked)
        left = [waiting(side.draft.plan()) for side in sides]
        _require_no_replacement(steps, sides, left, [self._before(tree, now) for tree in trees])
        details: JsonMap = {**sides[0].details, "breaks": [text for step in steps for text in self._breaks(step)]}
        if there is not here:
            details["to_stack"] = {"id": there.root.id, "name": there.root.name, **sides[1].details}
        plan = detailed_plan(_entries(steps, sides[-1]), details, [one for each in left for one in each.values()])
        moved = ActionOutputs(stack_status="UPDATE_COMPLETE", moved={one.old: one.new for one in asked.moved})
        grouped = {step.target.stack.id for step in steps if step.target.is_group}  # no template has their names
        change, *others = (
            _redefinition(side, plan, moved, _events(steps, sides, side, now), grouped) for side in sides
        )
        return replace(change, moved=[step.moved for step in steps], other=next(iter(others), None))

    def _sides(
        self, context: Context, trees: Sequence[DefinedTree], steps: Sequence[_Step], asked: MoveRequest
    ) -> list[_Side]:
        """Return the trees as they become, the stack's own first."""
        given = [asked.definition, None if asked.to_definition is None else asked.to_definition.definition]
        is_given, groups = asked.definition is not None, self._memberships(context, trees[0], steps)
        renames = [step for step in steps if step.source.is_group and not step.crosses]
        documents = _documents(renames if is_given else steps, groups, self._core.reader.mask(trees[0].root))
        if not is_given:
            given = [_edited(tree, steps, documents) for tree in trees]
        return [
            self._side(
                context, tree, steps, documents, groups if tree is trees[0] else {}, request or StackRequest(), is_given
            )
            for tree, request in zip(trees, given, strict=False)
        ]

    def _other(self, context: Context, stack: StackRecord, named: str) -> StackRecord:
        """Return another root stack of the project.

        Raises StackNotFound, HTTPBadRequest for the stack itself, OtherCloud.
        """
        stacks = self._store.stacks
        found = stacks.by_name(stack.project, named) or stacks.get(named)
        if found is None or found.project != stack.project or found.deleted_at is not None:
            raise StackNotFound(name=named)
        if found.id == stack.id:
            raise HTTPBadRequest("to_stack is the stack itself: leave it out.")
        clouds = [stacks.cloud_of(one) for one in (stack, found)]
        if clouds[0] is not None and clouds[1] is not None and not clouds[0].is_same(clouds[1]):
            text = f"Stack {found.name} is in another cloud than stack {stack.name}. Nothing was done."
            raise OtherCloud(text, way_out=[WayOut(text="name a stack in the same cloud")])
        self._core.admission.require_types(context, Operation.MOVE, found)
        return found

    def _steps(self, here: DefinedTree, there: DefinedTree, asked: MoveRequest) -> list[_Step]:
        """Return the steps of a move, one for each pair of stacks.

        Raises the error of a place that is none.
        """
        found, roots = dict[tuple[str, str], _Step](), (here.root, there.root)
        for one in asked.moved:
            (*old, name), (*new, new_name) = one.old.split("/"), one.new.split("/")
            source, target = here.level(tuple(old), of_group=True), there.level(tuple(new), of_group=True)
            step = found.setdefault((source.stack.id, target.stack.id), _Step(source, target, roots, {}, {}, {}))
            rows, names = {**step.rows, name: _row(source, name)}, {**step.names, name: new_name}
            below = {**step.below, name: here.below(source, name)} if step.crosses else {}
            found[source.stack.id, target.stack.id] = replace(step, rows=rows, names=names, below=below)
        steps = [*found.values()]
        for step in steps:
            self._require_free(step)
        nesting.require_apart([(one.source.stack, one.target.stack, one.below) for one in steps])
        return steps

    def _require_free(self, step: _Step) -> None:
        """Raise the error of a new place that is in use, or cannot be one."""
        definition, rows, new = step.target.definition, step.target.rows, step.names.values()
        used = {*definition.template.resources, *(row.name for row in rows)}
        taken = sorted((used - {*step.rows} if not step.crosses else used).intersection(new))
        if taken or len({*new}) < len(step.names):
            places = ", ".join(step.target.full(name) for name in taken)
            raise HTTPBadRequest(f"Stack {step.target.stack.name} has resources of these names already: {places}.")
        groups = [one for one in (step.source, step.target) if one.is_group]
        if step.crosses:
            is_far = step.roots[0].id != step.roots[1].id
            if len(groups) > 1 or step.target.is_group and is_far:
                text = "resources of the group's own root stack become members. Use heatlite group join and leave"
                raise HTTPBadRequest(f"{', '.join(step.names)}: {text}.")
            if is_far:
                self._require_room(step)
        elif groups:
            self._require_member_names(step)

    def _require_room(self, step: _Step) -> None:
        """Raise RequestLimitExceeded if another tree would have too many resources."""
        come = len(step.rows) + sum(len(one.rows) for levels in step.below.values() for one in levels)
        most = self._core.settings.max_resources_per_stack
        if self._store.resources.count_in_tree(step.roots[1].id) + come > most:
            raise RequestLimitExceeded(message=f"Maximum resources per stack exceeded: {most}.")

    def _memberships(self, context: Context, tree: DefinedTree, steps: Sequence[_Step]) -> dict[Path, Membership]:
        """Return the groups whose size changes, by the paths of their stacks."""
        come, gone = dict[Path, list[str]](), dict[Path, list[str]]()
        for step in steps:
            if step.crosses and step.target.is_group:
                come.setdefault(step.target.path, []).extend(step.names.values())
            if step.crosses and step.source.is_group:
                gone.setdefault(step.source.path, []).extend(step.names)
        return {
            path: membership.changed(
                self._core,
                context.user,
                tree.level(path[:-1]),
                tree.level(path, of_group=True),
                come.get(path, ()),
                gone.get(path, ()),
            )
            for path in {**come, **gone}
        }

    def _require_member_names(self, step: _Step) -> None:
        """Raise HTTPBadRequest for new names that a group does not give to members."""
        path, services = step.source.path, self._core.engine_services
        above = self._store.stacks.get(step.source.stack.parent_id or "")
        assert above is not None
        (row, *_) = self._store.resources.by_name(above.id, [path[-1]])
        group = ResourceFactory(above, services).make(row)
        numbered = all(name.isdecimal() for name in step.source.definition.resources)
        wrong = [name for name in step.names.values() if MEMBER_NAME.fullmatch(name) is None]
        if numbered:  # the group makes the numbers: those that it has can change their members
            wrong += [name for name in step.names.values() if name not in step.source.definition.resources]
        if wrong or not isinstance(group, SizedGroup):
            raise HTTPBadRequest(f"{'/'.join(path)}: the group gives no member the name {', '.join(wrong)}.")

    def _require_movable(self, stack: StackRecord, steps: Sequence[_Step], binds: bool) -> None:
        """Raise the error of what keeps resources in their places."""
        moving = {step.source.full(name): row for step in steps for name, row in step.rows.items()}
        nested = [one for step in steps for levels in step.below.values() for one in levels]
        moving |= {one.full(row.name): row for one in nested for row in one.rows}
        held = self._store.held_resources([row.id for row in moving.values()])
        for path, row in moving.items():
            if row.id in held:
                raise ActionConflict(f"Resource {path} of stack {stack.name} cannot move now: {held[row.id]}")
            if row.is_locked and binds:
                text = f"Resource {path} of stack {stack.name} is locked: heatlite unlock {words(stack.name)}."
                raise InvalidStackState(text)

    def _side(
        self,
        context: Context,
        tree: DefinedTree,
        steps: Sequence[_Step],
        documents: Mapping[str, JsonMap],
        groups: Mapping[Path, Membership],
        request: StackRequest,
        is_given: bool,
    ) -> _Side:
        """Return one of the trees as it becomes.

        `is_given`: the request has a new definition. An edited one has the whole environment, if that changes.
        """
        levels, existing = _levels(tree, steps), is_given or request.environment is None
        levels = {**{path[:-1]: tree.level(path[:-1]) for path in groups if path in levels}, **levels}
        prepared = self._core.preparation.changed(tree.root, request, existing)
        # Rows of a tree with hidden values may have some, whatever the new definition is.
        prepared = replace(prepared, hides=prepared.hides or steps[0].roots[0].sealed)
        draft = self._redefining.draft(context, tree, request, prepared, self._core.engine_services)
        if is_given:
            files = {one.file for one in levels.values()}
            only_move.require_rest(tree.level(()).definition, prepared.definition, files)
        moved = list[ResourceRecord]()
        for path, level in sorted(levels.items()):
            if level.is_group:
                draft.set_members(path, documents[level.stack.id])
            elif is_given:
                _require_only(level, draft.definition(path), steps)
            sized = {one.group.id: one.group for one in groups.values()}
            its_steps = [one for one in steps if level in (one.source, one.target)]
            rows = _rows(level, draft.definition(path), its_steps, sized)
            draft.set(path, rows)
            for step in (one for one in its_steps if one.target == level):
                for name, below in step.below.items():
                    nesting.enter(tree, draft, step.rows[name], below, (*path, step.names[name]))
            old = {row.id for step in steps for row in step.rows.values()}
            moved += [row for row in (*rows.changed, *rows.entered) if row.id in old]
        return _Side(tree, request, prepared, draft, moved, self._redefining.edits(tree.root, prepared))

    def _before(self, tree: DefinedTree, now: float) -> Waiting:
        """Return what the next update would do without the move."""
        unmoved = with_state(replace(tree.root, updated_at=now), Verb.UPDATE, Status.COMPLETE, "")
        level, services = tree.level(()), self._core.engine_services
        return waiting(planned_before(services, unmoved, level.definition, level.rows))

    def _breaks(self, step: _Step) -> Iterator[Json]:
        """Yield what outside the stack has an old name, in sentences."""
        for old, row in step.rows.items():
            path = step.source.full(old)
            if KEY in row.data:
                yield f"{path}: URLs that were given to machines or people have the old name."
            elif self._store.accounts.get(step.source.stack.id, row.physical_name) is not None:
                yield f"{path}: an agent that asks for its metadata by the old name."


def _entries(steps: Sequence[_Step], target: _Side) -> list[PlannedResource]:
    """Return the entries of the plan for what moves."""
    moved, entries = {row.id: row for row in target.moved}, list[PlannedResource]()
    for step in steps:
        for old, row in step.rows.items():
            after, told = moved[row.id], step.told(old)
            place = *step.target.path, after.name
            entries.append(plan_entry(place, after, "move", f"from {told}", moved_from=told))
    return entries


def _events(steps: Sequence[_Step], sides: Sequence[_Side], side: _Side, now: float) -> list[EventRecord]:
    """Return the events of one side. The first tells what goes, the last what comes."""
    moved, events = {row.id: row for row in sides[-1].moved}, list[EventRecord]()
    for step in steps:
        for old, row in step.rows.items():
            if side is sides[-1]:
                events.append(operation_event(moved[row.id], Operation.MOVE, moved_text(step.told(old)), now))
            if step.crosses and side is sides[0]:
                events.append(operation_event(row, Operation.MOVE, MOVED_TO + step.new(old), now))
    return events


def _redefinition(
    side: _Side,
    plan: ShownPlan,
    outputs: ActionOutputs,
    events: list[EventRecord],
    grouped: Collection[str],
) -> Redefinition:
    """Return what a move does to one side. `grouped`: the stacks of groups."""
    return Redefinition(
        before=side.tree.root,
        shown=plan,
        request=side.request,
        prepared=side.prepared,
        rows=side.draft.rows(()),
        events=events,
        taken={},
        outputs=outputs,
        written=[row for row in side.moved if row.stack_id not in grouped],
        nested=side.draft.nested,
    )


def _place(level: DefinedStack) -> TreeStack:
    return TreeStack(level.stack.root_id or level.stack.id, level.stack.id, level.path)


def _row(level: DefinedStack, name: str) -> ResourceRecord:
    """Return the row of a resource that can move."""
    stack, found = level.stack, [row for row in level.rows if row.name == name]
    if not found:
        raise ResourceNotFound(resource_name=name, stack_name=stack.name)
    row = found[-1]
    is_whole = len(found) == 1 and name in level.definition.resources
    if not is_whole or row.status is Status.IN_PROGRESS or row.verb is Verb.DELETE:
        text = f"Resource {name} of stack {stack.name} is between two states: update the stack first."
        raise InvalidStackState(text)
    return row


def _levels(tree: DefinedTree, steps: Sequence[_Step]) -> dict[Path, DefinedStack]:
    """Return the stacks of a tree that take part."""
    return {one.path: one for step in steps for one in (step.source, step.target) if tree.has(one)}


def _require_only(level: DefinedStack, after: Definition, steps: Sequence[_Step]) -> None:
    """Raise NotOnlyMove if a given definition of a stack changes more than it moves."""
    gone, come = set[str](), dict[str, Json]()
    for step in steps:
        if step.source == level:
            gone |= step.names.keys()
        if step.target == level:
            written = step.source.definition.template.resources
            come |= {new: written[old] for old, new in step.names.items()}
    only_move.require(level, after, gone, come)


# -- definitions ---------------------------------------------------------------------------------------


def _documents(steps: Sequence[_Step], groups: Mapping[Path, Membership], mask: Mask) -> dict[str, JsonMap]:
    """Return the new templates of all stacks that take part, by id.

    No hidden value of `mask`, which templates of groups have, goes to another one.

    Raises ReferencesCross.
    """
    found: dict[str, JsonMap] = {}
    for step in sorted(steps, key=lambda step: step.crosses):  # renames first: what goes elsewhere keeps its references
        for level in (step.source, step.target):
            found.setdefault(level.stack.id, {**level.definition.template.document})
        if not step.crosses:
            found[step.source.stack.id] = renamed(step.source.definition.template, step.names)
    places = [place for step in steps if step.crosses for place in _carry(step, found, mask)]
    found |= {one.stack_id: one.template for one in groups.values()}
    if places:
        raise ReferencesCross(places=abbreviated(places, separator="; "))
    return found


def _edited(tree: DefinedTree, steps: Sequence[_Step], documents: Mapping[str, JsonMap]) -> StackRequest:
    """Return the definition of a tree with new templates, as an update would give it."""
    edits = {
        path: [*edits_between(DefinitionPart.TEMPLATE, one.definition.template.document, documents[one.stack.id])]
        for path, one in _levels(tree, steps).items()
        if not one.is_group
    }
    request, environment = tree.edited(edits), _environment(tree, steps)
    for step in steps:
        if step.crosses and tree.has(step.target) and not tree.has(step.source):
            levels = [one for below in step.below.values() for one in below]
            files = nesting.files(step.source, [*step.rows.values()], levels, tree)
            request = replace(request, files={**request.files, **files})
    if environment is None:
        return request
    before = tree.level(()).definition.template
    template, files = request.template or before.document, {**before.files, **request.files}
    return replace(request, template=template, files=files, environment=environment)


def _carry(step: _Step, documents: dict[str, JsonMap], mask: Mask) -> Iterator[str]:
    """Take definitions from one template to another.

    Yields the places that read across them.
    """
    source, target = step.source.definition, step.target.definition
    if source.template.dialect.kind != target.template.dialect.kind:
        raise HTTPBadRequest(f"Stack {step.target.stack.name} has a template of another language.")
    yield from (f"resources.{place}" for place in _readers(step))
    yield from nesting.mapped_otherwise(step.source, step.target, step.names) if not step.target.is_group else ()
    section = source.sections["resources"]
    left = {**as_map(documents[step.source.stack.id][section])}
    entered = {**as_map(documents[step.target.stack.id].get(section))}
    for old, new in step.names.items() if not step.target.is_group else ():
        try:
            entered[new] = carried(source.template, old, step.names)
        except Foreign as error:
            yield f"resources.{step.source.full(old)} ({', '.join(error.places)})"
            continue
        if step.source.is_group and mask.json(entered[new]) != entered[new]:
            yield f"resources.{step.source.full(old)} (a hidden value)"
    for old in step.names:
        left.pop(old)
    documents[step.source.stack.id] = {**documents[step.source.stack.id], section: left}
    documents[step.target.stack.id] = {**documents[step.target.stack.id], section: entered}


def _readers(step: _Step) -> Iterator[str]:
    """Yield what stays behind and reads a resource that leaves."""
    definition = step.source.definition
    for name, one in definition.resources.items():
        if name not in step.names and not one.requires.isdisjoint(step.names):
            yield step.source.full(name)
    for name, output in definition.outputs.items():
        if not {*requires(output.value)}.isdisjoint(step.names):
            yield f"{step.source.full(name)} (an output)"


def _environment(tree: DefinedTree, steps: Sequence[_Step]) -> JsonMap | None:
    """Return the environment with the resources' blocks under their new names.

    None: it has no such block. Raises ReferencesCross for a block of what goes to another stack.
    """
    environment = tree.level(()).definition.environment.to_dict()
    registry = as_map(environment["resource_registry"])
    before = blocks = as_map(registry.get("resources"))
    for step in steps:
        if not tree.has(step.source):
            continue
        known = [name for name in step.names if name in _block(blocks, step.source.path)]
        if known and step.crosses:
            raise ReferencesCross(places=f"resource_registry.resources of {', '.join(known)} in the environment")
        if known:
            blocks = _with_names(blocks, step.source.path, step.names)
    return None if blocks == before else {**environment, "resource_registry": {**registry, "resources": blocks}}


def _block(blocks: JsonMap, path: Path) -> JsonMap:
    for name in path:
        blocks = as_map(blocks.get(name))
    return blocks


def _with_names(blocks: JsonMap, path: Path, names: Mapping[str, str]) -> JsonMap:
    """Return blocks of an environment, with other names in those of a stack."""
    if path:
        return {**blocks, path[0]: _with_names(as_map(blocks[path[0]]), path[1:], names)}
    kept = {name: block for name, block in blocks.items() if name in names or name not in names.values()}
    return {names.get(name, name): block for name, block in kept.items()}


# -- rows --------------------------------------------------------------------------------------------


def _rows(
    level: DefinedStack, after: Definition, steps: Sequence[_Step], groups: Mapping[str, ResourceRecord]
) -> RowChanges:
    """Return the rows of a stack after the steps that concern it.

    `groups` are rows of groups with new sizes, by id. Raises MoveReplaces.
    """
    renames, leaving, entering = dict[str, str](), dict[str, ResourceRecord](), list[ResourceRecord]()
    for step in steps:
        if not step.crosses:
            renames |= step.names
        elif step.source == level:
            leaving |= step.rows
        else:
            entering += [
                replace(
                    row, stack_id=level.stack.id, name=step.names[old], data={**row.data, MOVED_FROM: step.told(old)}
                )
                for old, row in step.rows.items()
            ]
    only_move.require_types(level, after, entering)
    stay = {row.id: _moved(groups.get(row.id, row), renames) for row in level.rows if row.name not in leaving}
    changed = [stay[row.id] for row in level.rows if row.id in stay and stay[row.id] != row]
    current = {row.name: row for row in current_rows([*stay.values(), *entering])}
    entered = [
        replace(
            row,
            requires=tuple(sorted(after.resources[row.name].requires)),
            uses=used_by(after.resources[row.name], current),
        )
        for row in entering
    ]
    return RowChanges(level.rows, changed=changed, left=[*leaving.values()], entered=entered)


def _moved(row: ResourceRecord, names: Mapping[str, str]) -> ResourceRecord:
    """Return a row with the new names: its own, and those that it requires."""
    requires = row.requires
    if not names.keys().isdisjoint(requires):
        requires = tuple(sorted(names.get(name, name) for name in requires))
    if row.name not in names:
        return replace(row, requires=requires)
    return replace(row, name=names[row.name], requires=requires, data={**row.data, MOVED_FROM: row.name})


def _require_no_replacement(
    steps: Sequence[_Step], sides: Sequence[_Side], after: Sequence[Waiting], before: Sequence[Waiting]
) -> None:
    """Raise MoveReplaces if the new names lead to more than changes in place."""
    known = dict[tuple[str, str], str]()
    for side, plan in zip(sides, before, strict=True):
        for path, one in plan.items():
            known[_mapped(steps, side.tree.root.id, "/".join(path))] = one.action
    places = [
        "/".join(path)
        for side, plan in zip(sides, after, strict=True)
        for path, one in plan.items()
        if one.action not in (known.get((side.tree.root.id, "/".join(path))), Outcome.UPDATE)
    ]
    if places:
        raise MoveReplaces(places=abbreviated(places))


def _mapped(steps: Sequence[_Step], root_id: str, path: str) -> tuple[str, str]:
    """Return the root and the path of a resource after the move."""
    for moved in (step.moved for step in steps):
        new = moved.path(path)
        if moved.source.root_id == root_id and moved.covers(path):
            return moved.target.root_id, new
    return root_id, path
