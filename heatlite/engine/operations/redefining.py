"""Changes of a definition and its rows in one transaction, and of no object."""

from collections.abc import Mapping, Sequence
from typing import TypeAlias

from msgspec import Struct
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionInputs, ActionOutputs
from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.differences import Differences
from heatlite.core.errors import ActionConflict, HTTPBadRequest, InvalidStackState, PlanChanged
from heatlite.core.json import JsonMap
from heatlite.core.redaction.masking import NOTHING, Mask
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.admission import Admission, OperationRequest
from heatlite.engine.admission.preparation import Prepared
from heatlite.engine.operations.stacks import updated
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.tree_budget import TreeBudget
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.preview.preview_views import shown_plan
from heatlite.engine.state.definitions import Definitions, secrets_of
from heatlite.engine.state.protected import declare
from heatlite.engine.state.requests import PlannedResource, Request, ShownPlan
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.adopted_objects import AdoptedObjects, LiveObject
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import EngineServices, NestedView, ResourceFactory
from heatlite.store.feature_store import Moved, ObjectNews
from heatlite.store.records import EventRecord, ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition
from heatlite.template.edits import Part, edited, edits_between

Waiting: TypeAlias = dict[tuple[str, ...], PlannedResource]
"""Changes that an update would make, by path."""

NEEDS_DIGEST = "{} needs plan_digest, the digest of its plan: PATCH …/preview?plan=true with the same body shows it."
MEANWHILE = "Stack {} was changed by another request meanwhile. Nothing was done. Preview it again."


class Rows(Struct, frozen=True):
    """Changes of the rows of a stack."""

    before: Sequence[ResourceRecord]
    """All rows that the stack had when the change was planned."""
    new: Sequence[ResourceRecord] = ()
    changed: Sequence[ResourceRecord] = ()
    gone: Sequence[ResourceRecord] = ()

    @property
    def after(self) -> list[ResourceRecord]:
        """All rows after it."""
        changed, gone = {row.id: row for row in self.changed}, {row.id for row in self.gone}
        return [*(changed.get(row.id, row) for row in self.before if row.id not in gone), *self.new]


class Redefinition(Struct, frozen=True):
    """A planned change of a definition and its rows."""

    shown: ShownPlan
    request: Request
    """The definition as an update would give it."""
    prepared: Prepared
    rows: Rows
    events: Sequence[EventRecord]
    taken: Mapping[str, LiveObject]
    """Objects that no row may own yet, by name."""
    outputs: ActionOutputs
    compared: Mapping[str, tuple[ResourceRecord, Differences]] = {}
    """By id, changed rows whose objects were compared with them."""
    written: Sequence[ResourceRecord] = ()
    """Rows whose definitions the server has written."""
    moved: Mapping[str, str] = {}
    """New names of resources, by the old ones. Their rows are among the changed ones."""


class Redefining:
    """Parts of the operations that change a definition and its rows."""

    def __init__(
        self, store: Store, clock: Clock, definitions: Definitions, admission: Admission, reader: StackReader
    ) -> None:
        self._store = store
        self._clock = clock
        self._definitions = definitions
        self._admission = admission
        self._reader = reader

    def require_digest(self, change: Redefinition, stack: StackRecord, digest: str | None) -> None:
        """Raise PlanChanged unless a digest is that of a planned change."""
        if change.shown.digest != digest:
            raise PlanChanged(stack_name=stack.name)

    def carry_out(
        self, context: Context, request: OperationRequest, change: Redefinition, options: JsonMap
    ) -> StackRecord:
        """Write a planned change and its action, in one transaction. Returns the stack.

        `options` are those of the request. Raises ActionConflict if the stack has changed since, ObjectOwned, and as
        `Admission.admitted`.
        """
        before, prepared, now = request.stack, change.prepared, self._clock.now()
        store, rows = self._store, change.rows
        with self._admission.admitted(request) as stack:
            is_same = (stack.template_id, stack.environment) == (before.template_id, before.environment)
            if not is_same or store.resources.of(stack.id) != [*rows.before]:
                raise ActionConflict(MEANWHILE.format(stack.name))
            if change.taken:
                AdoptedObjects(store, self._reader.resources_of(stack)).require_unowned(change.taken)
            begun = with_state(stack, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")
            after = redefined(begun, change.request, prepared, now)
            store.templates.put(prepared.document, prepared.files, prepared.template_id, after.sealed)
            if after.sealed and not stack.sealed:
                store.seal_tree(stack)
            store.stacks.save(after)
            store.resources.insert_many(rows.new)
            store.resources.save_many(rows.changed)
            gone = [row.id for row in rows.gone]
            if change.moved:
                store.move_resources(Moved(stack.id, change.moved))
            news = ObjectNews(stack.project, stack.id, now, compared=change.compared, gone=gone, written=change.written)
            seen = store.objects_seen(news)
            store.resources.delete_many(news.gone)
            store.events.append_many([stack_event(begun, now), *change.events, *seen, stack_event(after, now)])
            declare(store, after, context.user, now)
            self._count(after, rows.after)
            inputs = ActionInputs(request={request.operation.value: options})
            action = self._admission.new_action(context, after, Verb.UPDATE, inputs)
            action = self._admission.record_done(context, action, change.outputs)
            self._admission.define(stack, after, action, change.shown.digest)
        self._definitions.keep(after, prepared.definition)
        return after

    def _count(self, stack: StackRecord, rows: Sequence[ResourceRecord]) -> None:
        """Record the size of a stack's rows."""
        budget = TreeBudget(self._reader.resources_of(stack))
        budget.start(rows, in_tree=True)
        size = budget.to_record()
        if size is not None:
            self._store.stack_sizes.record_resources(stack.id, stack.id, size)

    def edits(self, stack: StackRecord, prepared: Prepared) -> JsonMap:
        """Return the edits that lead to a definition, as a plan shows them."""
        before, after = self._definitions.of(stack), prepared.definition
        old, new = before.environment.to_dict(), after.environment.to_dict()
        changes = edited(
            before.template.document,
            before.environment.to_dict(),
            [
                *edits_between(Part.TEMPLATE, before.template.document, after.template.document),
                *edits_between(Part.PARAMETERS, old.pop("parameters"), new.pop("parameters")),
                *edits_between(Part.ENVIRONMENT, old, new),
            ],
        )
        hidden = self._reader.hidden(stack) | after.template.hidden
        return changes.shown(self.mask(stack, prepared), hidden)

    def mask(self, stack: StackRecord, prepared: Prepared) -> Mask:
        """Return the mask of what is hidden before and after."""
        if not prepared.hides:
            return NOTHING
        definitions = self._definitions
        return Mask(lambda: [*secrets_of(self._store, definitions, stack), *prepared.definition.secrets()])


def require_root(stack: StackRecord) -> None:
    """Raise InvalidStackState for a nested stack."""
    if stack.root_id is not None:
        raise InvalidStackState(f"Stack {stack.name} is nested: name its root, {stack.root_id}.")


def require_given(operation: str, digest: str | None) -> None:
    """Raise HTTPBadRequest without the digest of a plan."""
    if digest is None:
        raise HTTPBadRequest(NEEDS_DIGEST.format(operation))


def redefined(stack: StackRecord, request: Request, prepared: Prepared, now: float) -> StackRecord:
    """Return the stack row with another definition, which it has reached."""
    after = replace(updated(stack, request, prepared, True), updated_at=now)
    after = replace(after, previous_template_id=None, previous_environment=None)
    return with_state(after, Verb.UPDATE, Status.COMPLETE, "Stack UPDATE completed successfully")


class _WithRows(NestedView):
    """A stack with a definition and rows that are not stored."""

    def __init__(
        self, stack: StackRecord, engine: EngineServices, definition: Definition, rows: Sequence[ResourceRecord]
    ) -> None:
        super().__init__(stack, engine)
        self.definition = definition
        self.rows = rows


def planned(
    services: EngineServices, stack: StackRecord, definition: Definition, rows: Sequence[ResourceRecord]
) -> Sequence[PlannedResource]:
    """Return the plan of the next update of a stack that has a definition and rows."""
    resources = ResourceFactory(stack, services)
    resources.chosen = {row.name: row for row in rows}
    preview = StackPreview(definition, resources, _WithRows(stack, services, definition, rows))
    return shown_plan(preview).resources


def waiting(plan: Sequence[PlannedResource]) -> Waiting:
    """Return those parts of a plan that do something."""
    return {one.path: one for one in plan if one.action != Outcome.KEEP}
