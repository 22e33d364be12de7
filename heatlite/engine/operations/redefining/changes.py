"""Changes of a definition and its rows in one transaction, and of no object."""

from collections.abc import Mapping, Sequence
from functools import partial

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs, ActionOutputs
from heatlite.core.context import Context
from heatlite.core.differences import Differences
from heatlite.core.errors import ActionConflict, InvalidStackState, PlanChanged
from heatlite.core.json import Json, JsonMap, as_map
from heatlite.core.redaction.masking import NOTHING, Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.admission import OperationRequest
from heatlite.engine.admission.base import StackOperations
from heatlite.engine.admission.claims import ChangeKind, Claims, PreparedRequest, tries_again
from heatlite.engine.admission.preparation import Prepared
from heatlite.engine.execution.final_state import restricted_text
from heatlite.engine.operations import asked
from heatlite.engine.operations.redefining.tree import REACHED, DefinedTree, Draft, NestedChange, RowChanges
from heatlite.engine.operations.stacks import updated
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.definitions import secrets_of
from heatlite.engine.state.protected import declare
from heatlite.engine.state.requests import Later, ShownPlan, StackRequest
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.adopted_objects import AdoptedObjects, LiveObject
from heatlite.engine.types.resource_factory import EngineServices
from heatlite.store.feature_store import Moved, ObjectNews
from heatlite.store.records import ActionRecord, EventRecord, ResourceRecord, Restriction, StackRecord
from heatlite.template.edits import DefinitionPart, edited, edits_between
from heatlite.template.environment import names_template
from heatlite.template.source.loader import load_template

MEANWHILE = "Stack {} was changed by another request meanwhile. Nothing was done. Preview it again."


class Redefinition(Struct, frozen=True):
    """A planned change of a definition and its rows."""

    before: StackRecord
    """The root of the tree as it was when the change was planned."""
    shown: ShownPlan
    request: StackRequest
    """The definition as an update would give it."""
    prepared: Prepared
    rows: RowChanges
    events: Sequence[EventRecord]
    taken: Mapping[str, LiveObject]
    """Objects that no row may own yet, by name."""
    outputs: ActionOutputs
    compared: Mapping[str, tuple[ResourceRecord, Differences]] = {}
    """By id, changed rows whose objects were compared with them."""
    written: Sequence[ResourceRecord] = ()
    """Rows whose definitions the server has written."""
    nested: Sequence[NestedChange] = ()
    moved: Sequence[Moved] = ()
    """Resources with new places. Their rows are among the changed ones, or those that enter."""
    other: "Redefinition | None" = None
    """The change of another tree in the same transaction."""


class Redefining(StackOperations):
    """Parts of the operations that change a definition and its rows."""

    def tree(self, root: StackRecord) -> DefinedTree:
        """Return a tree as it is now. Raises InvalidStackState for a nested stack."""
        if root.root_id is not None:
            raise InvalidStackState(f"Stack {root.name} is nested: name its root, {root.root_id}.")
        return DefinedTree(self._store, self._definitions, root)

    def draft(
        self, context: Context, tree: DefinedTree, request: StackRequest, prepared: Prepared, services: EngineServices
    ) -> Draft:
        """Return a tree with a new definition, to change its rows."""
        root = redefined(tree.root, request, prepared, self._clock.now())
        action = self._admission.new_action(context, root, Verb.UPDATE)
        return Draft(tree, root, prepared.definition, services, partial(self.children_of, action))

    def require_digest(
        self, context: Context, change: Redefinition, stack: StackRecord, digest: str | None
    ) -> None:
        """Raise PlanChanged unless a digest is that of a planned change.

        The approval of a request that has waited names its plan instead.
        """
        if context.scheduled is None and change.shown.digest != digest:
            raise PlanChanged(stack_name=stack.name)

    def shown(self, context: Context, stack: StackRecord, change: Redefinition) -> ShownPlan:
        """Return the plan of a change, with what features add, also about another tree."""
        details = {**change.shown.details, **self._admission.shown(self._asked(context, stack, change, None))}
        if (other := change.other) is not None:
            added = self._admission.shown(self._asked(context, other.before, other, None))
            details["to_stack"] = {**as_map(details["to_stack"]), **added}
        return replace(change.shown, details=details)

    def _asked(
        self, context: Context, stack: StackRecord, change: Redefinition, request: OperationRequest | None
    ) -> PreparedRequest:
        """Return the request for a change. `request` is None for a plan.

        Its preview has the new definition and the stored rows.
        """
        after = redefined(stack, change.request, change.prepared, self._clock.now())
        resources = self.reader.resources_of(after)
        return PreparedRequest(
            context,
            after,
            (),
            lambda: StackPreview(change.prepared.definition, resources, resources.nested(stack.id)),
            change=ChangeKind.REDEFINE,
            content=lambda: {**asked.stored(after), "plan": change.shown.digest},
            later=None if request is None else partial(_later, request, change),
            addressed=None if request is None else request.stack,
            shown=lambda _: change.shown,
        )

    @tries_again
    def carry_out(
        self, context: Context, request: OperationRequest, change: Redefinition, options: JsonMap
    ) -> StackRecord:
        """Write a planned change and its action, in one transaction. Returns the stack.

        `options` are those of the request. Raises ActionConflict if the stack has changed since, ObjectOwned, and as
        `Admission.admitted`.
        """
        operation, other = request.operation, change.other
        parts = [change] if other is None else [change, other]
        asked_for = [self._asked(context, part.before, part, request) for part in parts]
        claims = [self._admission.examine(one) for one in asked_for]
        if change.taken:
            cloud = request.cloud or self._admission.clouds.first(request.stack, change.prepared.types)
            request = replace(request, cloud=cloud)
        with self._admission.admitted(request, beside=() if other is None else [other.before.id]) as stack:
            roots = [stack, *(self._admission.hold(context, operation, part.before) for part in parts[1:])]
            for root, part in zip(roots, parts, strict=True):
                self._require_same(context, operation, root, part)
            if change.taken:
                AdoptedObjects(self._store, self.reader.resources_of(stack)).require_unowned(change.taken)
            for claim, one in zip(claims, asked_for, strict=True):
                claim.look(one.preview)
            for moved in change.moved:
                self._store.move_resources(moved)
            for root, part in zip(roots[1:], parts[1:], strict=True):
                clouds = self._admission.clouds
                clouds.record(root, clouds.first(root, part.prepared.types, stack))
            inputs, restricted = ActionInputs(request={operation.value: options}), restrictions(roots, change)
            written, actions = list[StackRecord](), list[ActionRecord]()
            for root, part, claim in zip(roots, parts, claims, strict=True):
                root = replace(root, restricted=restricted.get(root.id))
                after, action = self._write(context, root, part, inputs, claim, [one.id for one in actions])
                written.append(after)
                actions.append(action)
                context = replace(context, scheduled=None)  # that action is the one of the first tree
        for after, part in zip(written, parts, strict=True):
            self._definitions.keep(after, part.prepared.definition)
        return written[0]

    def _require_same(
        self, context: Context, operation: Operation, stack: StackRecord, change: Redefinition
    ) -> None:
        """Hold the changed stacks of a tree, of which the root is held.

        Raises ActionConflict if one is not as it was when the change was planned.
        """
        before, rows = change.before, self._store.resources.of
        is_same = (stack.template_id, stack.environment) == (before.template_id, before.environment)
        for one in change.nested:
            is_same = is_same and self._admission.hold(context, operation, one.before) == one.before
            is_same = is_same and rows(one.before.id) == [*one.rows.before]
        if not is_same or rows(stack.id) != [*change.rows.before]:
            raise ActionConflict(MEANWHILE.format(stack.name))

    def _write(
        self,
        context: Context,
        stack: StackRecord,
        change: Redefinition,
        inputs: ActionInputs,
        claims: Claims,
        depends_on: Sequence[str],
    ) -> tuple[StackRecord, ActionRecord]:
        """Write the change of one tree, and its action. Returns the root with it.

        `depends_on` has the ids of the actions of other trees, which have ended.
        """
        store, prepared, now = self._store, change.prepared, self._clock.now()
        begun = with_state(stack, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")
        after = redefined(begun, change.request, prepared, now)
        store.templates.put(prepared.document, prepared.files, prepared.template_id, after.sealed)
        if after.sealed and not stack.sealed:
            store.seal_tree(stack)
        store.stacks.save(after)
        nested = [replace(one.order.stack, sealed=one.order.stack.sealed or after.sealed) for one in change.nested]
        store.stacks.save_many(nested)
        every = [change.rows, *(one.rows for one in change.nested)]
        store.resources.insert_many([row for one in every for row in one.new])
        store.resources.save_many([row for one in every for row in (*one.changed, *one.entered)])
        gone = [row.id for one in every for row in one.gone]
        news = ObjectNews(stack.project, stack.id, now, compared=change.compared, gone=gone, written=change.written)
        seen = store.objects_seen(news)
        store.resources.delete_many(news.gone)
        ended = [stack_event(one, now) for one in (*nested, after)]
        store.events.append_many([stack_event(begun, now), *change.events, *seen, *ended])
        declare(store, after, context.user, now)
        action = self._admission.new_action(context, after, Verb.UPDATE, inputs)
        resources = self.reader.resources_of(after)
        self.children_of(action, resources).write_definitions([one.order for one in change.nested])
        for level, its_rows in zip((after, *nested), every, strict=True):
            self._record_size(level, its_rows.after)
        action = self._admission.record_done(context, action, change.outputs, depends_on)
        self._admission.define(stack, after, action, change.shown.digest)
        claims.take(action, after)
        return after, action

    def edits(self, stack: StackRecord, prepared: Prepared) -> JsonMap:
        """Return the edits that lead to a definition, as a plan shows them.

        `files` has those of the files of nested templates.
        """
        before, after = self._definitions.of(stack), prepared.definition
        old, new = before.environment.to_dict(), after.environment.to_dict()
        changes = edited(
            before.template.document,
            before.environment.to_dict(),
            [
                *edits_between(DefinitionPart.TEMPLATE, before.template.document, after.template.document),
                *edits_between(DefinitionPart.PARAMETERS, old.pop("parameters"), new.pop("parameters")),
                *edits_between(DefinitionPart.ENVIRONMENT, old, new),
            ],
        )
        hidden, mask = self.reader.hidden(stack) | after.template.hidden, self.mask(stack, prepared)
        files, known = dict[str, Json](), before.template.files
        for name, text in after.template.files.items():
            if names_template(name) and name in known and known[name] != text:
                old_one, new_one = (load_template(one, name).data for one in (known[name], text))
                one = edited(old_one, {}, edits_between(DefinitionPart.TEMPLATE, old_one, new_one)).shown(mask, ())
                files[name] = {key: one[key] for key in ("template_patch", "template")}
        return {**changes.shown(mask, hidden), **({"files": files} if files else {})}

    def mask(self, stack: StackRecord, prepared: Prepared) -> Mask:
        """Return the mask of what is hidden before and after."""
        if not prepared.hides:
            return NOTHING
        definitions = self._definitions
        return Mask(lambda: [*secrets_of(self._store, definitions, stack), *prepared.definition.secrets()])


def _later(request: OperationRequest, change: Redefinition) -> Later:
    """Return a request, to be carried out later."""
    key = request.operation.value
    hidden = change.prepared.definition.secrets()
    return Later(key, options=as_map((request.body or {}).get(key)), hidden=hidden)


def restrictions(roots: Sequence[StackRecord], change: Redefinition) -> dict[str, Restriction]:
    """Return what is left out of the stacks after a change, by their ids.

    It goes with resources that move, also to another stack, and ends for those that leave.
    """
    gone, found = {*(change.outputs.detached or ())}, dict[str, Restriction]()
    for root in roots:
        if root.restricted is None:
            continue
        for path in root.restricted.left_out:
            here = (one for one in change.moved if one.source.root_id == root.id and one.covers(path))
            moved = next(here, None)
            place, new = (root.id, path) if moved is None else (moved.target.root_id, moved.path(path))
            if path not in gone:
                now = found.get(place) or replace(root.restricted.settled, left_out=())
                found[place] = replace(now, left_out=(*now.left_out, new))
    return found


def redefined(stack: StackRecord, request: StackRequest, prepared: Prepared, now: float) -> StackRecord:
    """Return the stack row with another definition, which it has reached."""
    after = replace(updated(stack, request, prepared, True), updated_at=now)
    after = replace(after, previous_template_id=None, previous_environment=None)
    return with_state(after, Verb.UPDATE, Status.COMPLETE, REACHED + restricted_text(after))
