"""Requests for operations on stacks, as features examine them."""

from collections.abc import Callable, Collection, Sequence
from functools import cache, partial
from typing import Final

from msgspec import Struct, to_builtins
from msgspec.structs import replace

from heatlite.core.clock import Clock
from heatlite.core.context import Context
from heatlite.core.ids import new_id
from heatlite.core.json import AnyMap, Json, JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.admission.claims import ChangeKind, PreparedRequest
from heatlite.engine.admission.preparation import Preparation, Prepared
from heatlite.engine.preview.deletion import Deletions
from heatlite.engine.preview.preview import StackPreview
from heatlite.engine.preview.update_plan import UpdatePlan
from heatlite.engine.state.definitions import Definitions, pseudo_parameters
from heatlite.engine.state.requests import Later, StackRequest, body_of_update
from heatlite.engine.state.unit_of_work import with_state
from heatlite.engine.steps.children import Children, Order
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ResourceRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Template
from heatlite.template.environment import Environment

PUT, PATCH, REMOVE, RETRY, RESTORE = "put", "patch", "remove", "retry", "restore"
"""Words of requests that are kept (`Later.key`)."""
REACH, ACTION = "reach", "action"
"""Further keys of the options of an update that is kept."""
RETAIN = "retain"
"""Key of the options of a deletion that is kept."""
EMPTY: Final[JsonMap] = {"heat_template_version": "2018-08-31"}
"""The template that a deletion leads to."""


def new(reader: StackReader, context: Context, stack: StackRecord, prepared: Prepared) -> PreparedRequest:
    """Return the request for a new stack."""
    preview = cache(lambda: StackPreview(prepared.definition, reader.resources_of(stack), None))
    return PreparedRequest(
        context, stack, prepared.types, preview, change=ChangeKind.CREATE, content=partial(stored, stack)
    )


def validated(
    reader: StackReader,
    preparation: Preparation,
    context: Context,
    request: StackRequest,
    clock: Clock,
    without_services: bool,
) -> PreparedRequest:
    """Return the request for a stack of a template that is only validated.

    Its plan raises the errors of missing values.
    """
    verb, status, now = Verb.CREATE, Status.IN_PROGRESS, clock.now()
    stack = StackRecord(new_id(), request.name or "", context.project, context.user, "", {}, verb, status, "", now)
    stack = replace(stack, tags=request.tags or ())

    def preview() -> StackPreview:
        prepared = preparation.new(stack, request, context, without_services)
        return StackPreview(prepared.definition, reader.resources_of(stack), None)

    return PreparedRequest(context, stack, (), cache(preview), change=ChangeKind.CREATE)


def update(
    context: Context,
    stack: StackRecord,
    types: Collection[str],
    plan: UpdatePlan,
    request: StackRequest,
    observes: bool,
    guard: Callable[[], AnyMap | None],
    later: Callable[[], Later],
) -> PreparedRequest:
    """Return the request for an update. `stack` is as it becomes.

    `guard` returns its guard, or raises the error that refuses it.
    """
    preview = cache(partial(plan.preview, stack))

    def content() -> Json:
        found = guard()
        guarded: JsonMap = {} if found is None else {"guard": found}
        return {**stored(stack), "converge": observes, "reach": to_builtins(request.reach), **guarded}

    return PreparedRequest(
        context, stack, types, preview, content=content, later=later, observes=observes, shown=plan.shown_as
    )


def later_update(
    preparation: Preparation, stack: StackRecord, request: StackRequest, prepared: Prepared, existing: bool
) -> Later:
    """Return an update to be carried out later. What lies elsewhere is fetched now."""
    options = options_of_update(preparation.complete(stack.project, request))
    options.pop("plan_digest", None)  # the approval names the plan
    return Later(PATCH if existing else PUT, options=options, hidden=prepared.definition.secrets())


def options_of_update(request: StackRequest) -> AnyMap:
    """Return the options of an update that is kept."""
    options: AnyMap = {**body_of_update(request)}
    if request.reach:
        options[REACH] = to_builtins(request.reach)
    if request.action is not None:
        options[ACTION] = request.action
    return options


def stored(stack: StackRecord) -> JsonMap:
    """Return what a create or an update stores."""
    return {
        "template": stack.template_id,
        "environment": stack.environment,
        "tags": [*stack.tags],
        "timeout_mins": stack.timeout_mins,
        "disable_rollback": stack.disable_rollback,
    }


def deletion(
    reader: StackReader,
    deletions: Deletions,
    context: Context,
    stack: StackRecord,
    force: bool,
    retain: Sequence[str] = (),
) -> PreparedRequest:
    """Return the request for the deletion of a stack.

    `retain` names resources whose objects stay.
    """

    def preview() -> StackPreview:
        nothing = Template(EMPTY, {}).definition(Environment(), pseudo_parameters(stack))
        return StackPreview(nothing, reader.resources_of(stack), deletions.standing(stack, retain))

    options: JsonMap = {"force": force, **({RETAIN: [*retain]} if retain else {})}
    later = Later(REMOVE, options=options)
    return PreparedRequest(
        context,
        stack,
        (),
        preview,
        force,
        change=ChangeKind.DELETE,
        content=lambda: options,
        later=lambda: later,
        shown=lambda _: deletions.plan(stack, retain).shown,
    )


def retry(
    store: Store, definitions: Definitions, reader: StackReader, context: Context, stack: StackRecord
) -> PreparedRequest:
    """Return the request for a retry of a failed stack."""
    verb, _ = stack.state_without_lock
    begun = with_state(stack, verb, Status.IN_PROGRESS, "")

    def preview() -> StackPreview:
        resources = reader.resources_of(begun)
        last = store.actions.last(stack.id, verb)
        resources.retries, resources.selection = True, None if last is None else last.inputs.restricted
        return StackPreview(definitions.of(begun), resources, resources.nested(stack.id))

    def continues() -> str | None:
        last = store.actions.last(stack.id, verb)
        return None if last is None else last.id

    def content() -> Json:
        return {**stored(begun), "retry": continues()}

    types = store.resources.types(stack.id)
    return PreparedRequest(
        context, begun, types, preview, content=content, later=lambda: Later(RETRY), continues=continues
    )


class GroupChange(Struct, frozen=True):
    """A prepared change of a group's members."""

    children: Children
    order: Order
    group: ResourceRecord
    """The row of the group, as it becomes."""
    resources: ResourceFactory
    """Those of the stack that has the group."""

    def preview(self) -> StackPreview:
        """Return the plan of the nested stack."""
        stack, definition = self.order.stack, self.order.definition
        assert definition is not None
        return StackPreview(definition, self.within, self.resources.nested(stack.id))

    @property
    def within(self) -> ResourceFactory:
        """The resources of the nested stack as it becomes."""
        found = self.resources.within(self.order.stack)
        found.selection, found.above = self.order.action.inputs.restricted, self.group
        return found
