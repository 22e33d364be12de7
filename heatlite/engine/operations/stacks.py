"""Operations on stacks: create, update, delete, suspend, retry, previews …

Each operation checks the request, then writes everything in one transaction. Long work is enqueued as an action for a
worker.
"""

import logging
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, partial

from msgspec.structs import replace

from heatlite.clients.clouds import Clouds
from heatlite.core.actions.payloads import ActionData, ActionInputs, shown_parameters
from heatlite.core.clouds import CloudIdentity
from heatlite.core.context import ANONYMOUS, Context
from heatlite.core.errors import (
    ActionConflict,
    CommitUnanswered,
    NotSupported,
    Problem,
    RequestLimitExceeded,
    StackExists,
    StackValidationFailed,
)
from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap, as_map
from heatlite.core.redaction.masking import Mask
from heatlite.core.status import Control, Needs, Status, Verb
from heatlite.engine.admission.admission import audit
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.admission.claims import NO_CLAIMS, PreparedRequest, noting, tries_again
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.admission.preparation import Preparation, Prepared
from heatlite.engine.operations import asked
from heatlite.engine.operations.scheduled_actions import ScheduledActions
from heatlite.engine.preview import preview_views
from heatlite.engine.preview.deletion import Deletions
from heatlite.engine.preview.preview import check_protected
from heatlite.engine.preview.preview_views import ChosenPart
from heatlite.engine.preview.update_checks import check_external
from heatlite.engine.preview.update_plan import UpdatePlan
from heatlite.engine.state.conflict_rules import Operation, is_repeated
from heatlite.engine.state.protected import PROTECTED_BEFORE, declare
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.requests import AT_ONCE, Preview, ResourceChanges, ShownPlan, StackRequest, Timing
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.state.ways_out import existing
from heatlite.engine.types.adopted_objects import AdoptedObjects
from heatlite.store.records import ActionRecord, EventRecord, ProtectionRecord, Restriction, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition

log = logging.getLogger(__name__)

RETAINS_AT_REST = "A deletion of stack {} that retains something needs a stack at rest."
STACK_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,254}")


class Stacks(StackOperations):
    """Accepts stack operations of callers."""

    def __init__(
        self,
        parts: Parts,
        preparation: Preparation,
        scheduled_actions: ScheduledActions,
        clouds: Clouds,
        stack_clouds: StackClouds,
    ) -> None:
        super().__init__(parts)
        self._preparation = preparation
        self._scheduled_actions = scheduled_actions
        self._clouds = clouds
        self._stack_clouds = stack_clouds
        self._deletions = Deletions(parts.store, parts.reader)

    # -- create and update -------------------------------------------------------------------------

    @tries_again
    def create(self, context: Context, request: StackRequest) -> StackRecord:
        """Enqueue the creation or adoption of a stack.

        Returns it in state CREATE_ or ADOPT_IN_PROGRESS.

        Raises StackExists, RequestLimitExceeded, ObjectOwned, and the errors of `Preparation.new`.
        """
        adopted = request.adopted
        if adopted is not None and not self._settings.enable_stack_adopt:
            raise NotSupported(feature="Stack Adopt")
        verb = Verb.CREATE if adopted is None else Verb.ADOPT
        stack, prepared = self._new_stack(context, request)
        stack = with_state(stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
        given = self._given(stack, {}, prepared.definition)
        new = asked.new(self.reader, context, stack, prepared)
        claims = self._admission.examine(new) if adopted is None else NO_CLAIMS  # an adoption makes no objects
        with noting(), self._delegated(context, stack) as credential, self._store.transaction():
            self._check_quota(context, is_creating=True)
            claims.look(new.preview)
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id, stack.sealed)
            self._store.stacks.insert(stack)
            if credential is not None:
                self._store.credentials.put(stack.id, credential)
            self._store.events.append_many([stack_event(stack, stack.created_at)])
            inputs = ActionInputs(resources=None if adopted is None else adopted.resources, parameters=given)
            action = self._admission.new_action(context, stack, verb, inputs)
            self._store.queue.enqueue(action)  # a new stack has no work of features to wait for
            context.queued.append(action.id)
            prepared.supply(action, stack)
            self._admission.define(None, stack, action, request.plan_digest)
            claims.take(action, stack)
        self._definitions.keep(stack, prepared.definition)
        return stack

    @contextmanager
    def _delegated(self, context: Context, stack: StackRecord) -> Iterator[JsonMap | None]:
        """Delegate the caller's rights to a new stack; revoke them if it is not created."""
        credential = self._clouds.delegate(context)
        try:
            yield credential
        except CommitUnanswered:
            if credential is not None:
                log.warning("stack %s may exist, so its right to act for its owner is not given back", stack.name)
            raise
        except BaseException:
            self._clouds.revoke(credential)
            raise

    def _new_stack(self, context: Context, request: StackRequest) -> tuple[StackRecord, Prepared]:
        """Return a valid new stack and its definition. The order of the checks is Heat's."""
        name = request.name or ""
        stack = StackRecord(
            id=new_id(),
            name=name,
            project=context.project,
            username=context.user,
            template_id="",
            environment={},
            verb=Verb.INIT,
            status=Status.COMPLETE,
            status_reason="",
            created_at=self._clock.now(),
            timeout_mins=request.timeout_mins or None,
            disable_rollback=True if request.disable_rollback is None else request.disable_rollback,
            tags=request.tags or (),
            protection=_adopted_protection(context, request, self._clock.now()),
        )
        if (known := self._store.stacks.by_name(context.project, name)) is not None:
            raise StackExists(stack_name=name, holder=existing(known))
        if not STACK_NAME.fullmatch(name):
            raise StackValidationFailed(
                f"Invalid stack name {name} must contain only alphanumeric or \"_-.\" characters, must start with alpha"
                " and must be 255 characters or less."
            )
        self._check_quota(context)
        self._admission.guard(context, None, request.further)
        prepared = self._preparation.new(stack, request, context)
        check_types(context, prepared.types)
        check_external(prepared.definition, self.reader.resources_of(stack))
        recorded = None if request.adopted is None else request.adopted.cloud
        cloud = self._stack_clouds.new(context, stack, prepared.types, recorded, request.adopt_cloud)
        if request.adopted is not None:
            objects = AdoptedObjects(self._store, self.reader.resources_of(stack))
            objects.check(cloud, prepared.definition, request.adopted.resources)
        template_id, environment = prepared.template_id, prepared.environment
        stack = replace(stack, template_id=template_id, environment=environment, sealed=prepared.hides, cloud=cloud)
        return stack, prepared

    def _check_quota(self, context: Context, is_creating: bool = False) -> None:
        """Raise RequestLimitExceeded if the project has too many stacks.

        `is_creating`: the transaction that calls will insert one.
        """
        limit = self._settings.max_stacks_per_tenant
        if limit == sys.maxsize:  # no limit, so nothing is counted
            return
        # Without authentication every caller is an administrator; the limit must still stop self-nesting.
        if context.is_admin and context.user != ANONYMOUS:
            return
        if is_creating:
            self._store.limit_locks.take(f"stacks of {context.project}")
        if self._store.stacks.count_roots(context.project) >= limit:
            raise RequestLimitExceeded(message=f"You have reached the maximum stacks per tenant, {limit}.")

    def preview_create(self, context: Context, request: StackRequest, plan: bool = False) -> Preview:
        """Preview `create`, with its `plan` if asked. Raises as `create`."""
        stack, prepared = self._new_stack(context, request)
        new = asked.new(self.reader, context, stack, prepared)
        preview, shown = new.preview(), None
        if plan:
            details = {**self._admission.shown(new), **prepared.shown()}
            shown = replace(preview_views.shown_plan(preview), details=details)
        return Preview(stack, prepared.definition, preview_views.tree(preview), shown)

    @tries_again
    def update(self, context: Context, stack: StackRecord, request: StackRequest, existing: bool) -> None:
        """Enqueue an update. The stack is UPDATE_IN_PROGRESS afterwards.

        With `existing` (PATCH) omitted fields keep their values; otherwise (PUT) they return to their defaults. An
        empty PATCH runs the same definition again and replaces failed and unhealthy resources. Raises PlanChanged if
        the request carries the digest of another plan, and as `admitted`.
        """
        method, path = ("PATCH" if existing else "PUT", "") if request.action is None else ("POST", "/actions")
        examine = partial(self._preparation.examined, stack, request, existing)
        prechecked = self._admission.precheck(
            context, Operation.UPDATE, stack, method, path, request.body, "", examine, adopts_cloud=request.adopt_cloud
        )
        prepared = self._preparation.changed(stack, request, existing)
        prechecked = replace(prechecked, cloud=prechecked.cloud or self._stack_clouds.first(stack, prepared.types))
        check_types(context, prepared.types)
        earlier, now = stack, self._clock.now()
        begun = _begun(stack, request, prepared, existing, now)
        plan = self._plan(stack, request, prepared)
        plan.choose(begun)
        plan.check(begun)
        if self._converges(request) and (request.plan_digest is not None or plan.any_protected):
            # Plan once before the transaction, so that the cloud is not read inside it.
            plan.shown(begun, observes=True)
        given = self._given(begun, stack.environment, prepared.definition)
        guard = cache(partial(self._admission.guard, context, stack, request.further))
        types, observes = self._types(stack, prepared), self._converges(request)
        later = partial(asked.later_update, self._preparation, earlier, request, prepared, existing)
        claims = self._admission.examine(asked.update(context, begun, types, plan, request, observes, guard, later))
        with self._admission.admitted(prechecked) as stack:
            if (stack.template_id, stack.environment) != (earlier.template_id, earlier.environment):
                # The prepared definition is based on one that the stack no longer has.
                raise ActionConflict(f"Stack {stack.name} was updated by another request meanwhile. Try again.")
            after = _begun(stack, request, prepared, existing, now)
            plan.choose(after)
            plan.spare_locked(context, after)
            defines = partial(self._definitions.defines, prepared.definition)
            _check_definition(self._store, stack, request, defines, takes=True)
            declare(self._store, after, context.user, now, before=stack.environment)
            plan.check_objects(after, request.plan_digest)
            claims.look(lambda: plan.preview(after, False))
            inputs = ActionInputs(
                converge=observes, selection=plan.selection, parameters=given, request=request.action, guard=guard()
            )
            action = self._admission.new_action(context, after, Verb.UPDATE, inputs)
            after = _restricted(after, action, plan.chosen)
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id, after.sealed)
            if after.sealed and not stack.sealed:
                self._store.seal_tree(stack)
            self._store.stacks.save(after)
            self._store.events.append_many([stack_event(after, now)])
            if request.adopt_cloud and prechecked.cloud is not None:
                self._store.events.append_many([_adoption(context, after, earlier.cloud, prechecked.cloud, now)])
            self._admission.enqueue_action(context, action)
            prepared.supply(action, after)
            self._admission.guarded(action)
            self._admission.define(stack, after, action, request.plan_digest)
            claims.take(action, after)
        self._definitions.keep(after, prepared.definition)

    def _types(self, stack: StackRecord, prepared: Prepared) -> frozenset[str]:
        """Return the types of a tree after an update."""
        return prepared.types or self._store.resources.types(stack.id)

    def _given(self, stack: StackRecord, before: JsonMap, definition: Definition) -> dict[str, str | None]:
        """Return the parameters that a request changes, for the inputs of its action.

        `before` is the environment before it. Hidden values are masked.
        """
        old, new = as_map(before.get("parameters")), as_map(stack.environment.get("parameters"))
        names = [one for one in {**old, **new} if one in definition.parameters and old.get(one) != new.get(one)]
        if not names:
            return {}
        self._definitions.keep(stack, definition)
        mask, shown = self.reader.mask(stack), definition.parameters.as_text
        return shown_parameters({one: mask.text(shown(one)) if one in new else None for one in names})

    def asked_update(
        self, context: Context, stack: StackRecord, request: StackRequest, existing: bool
    ) -> PreparedRequest:
        """Return the request for a later update. Raises as `preview_update`."""
        prepared = self._preparation.changed(stack, request, existing)
        after = _begun(stack, request, prepared, existing, self._clock.now())
        plan = self._plan(stack, request, prepared)
        plan.choose(after)
        guard, types = partial(self._admission.guard, context, stack, request.further), self._types(stack, prepared)
        later = partial(asked.later_update, self._preparation, stack, request, prepared, existing)
        return asked.update(context, after, types, plan, request, self._converges(request), guard, later)

    def preview_update(
        self,
        context: Context,
        stack: StackRecord,
        request: StackRequest,
        existing: bool,
        show_nested: bool = False,
        plan: bool = False,
    ) -> ResourceChanges:
        """Preview `update` as far as values are known, with its `plan` if asked.

        Raises as `update`.
        """
        self._stack_clouds.admitted(stack, request.adopt_cloud)
        prepared = self._preparation.changed(stack, request, existing)
        check_types(context, prepared.types)
        defines = partial(self._definitions.defines, prepared.definition)
        _check_definition(self._store, stack, request, defines)
        after = _begun(stack, request, prepared, existing, self._clock.now())
        planned = self._plan(stack, request, prepared)
        planned.choose(after)
        planned.check(after)
        preview = planned.preview(after)
        changes = planned.changes(preview, show_nested, plan)
        if changes.plan is None:
            return changes
        types = self._types(stack, prepared)
        seen = PreparedRequest(context, after, types, lambda: preview, shown=planned.shown_as)
        details = {**self._admission.shown(seen), **prepared.shown()}
        guard = self._admission.guard(context, stack, request.further)
        if guard is not None:
            details["guard"] = {**guard, "not_taken_back": preview_views.not_taken_back(changes.plan)}
        return replace(changes, plan=replace(changes.plan, details=details, restricted=stack.restricted))

    def _plan(self, stack: StackRecord, request: StackRequest, prepared: Prepared) -> UpdatePlan:
        """Return the plan of an update."""
        definition, converges = prepared.definition, self._converges(request)
        return UpdatePlan(self._store, self._definitions, self.reader, stack, definition, request.reach, converges)

    def _converges(self, request: StackRequest) -> bool:
        return request.converge or self._settings.observe_on_update

    def validate(
        self, context: Context, request: StackRequest, show_nested: bool = False, without_services: bool = False
    ) -> JsonMap:
        """Return the answer of POST /validate. Raises the template's errors.

        With `without_services` a service that the cloud lacks is no error.
        """
        nested = self._preparation.validate(context, request, without_services, show_nested)
        check_types(context, nested.types)
        created = asked.validated(self.reader, self._preparation, context, request, self._clock, without_services)
        described = {**nested.definition.describe(nested.hidden), **self._admission.validated(created)}
        within = nested.describe() if show_nested else {}
        return {**described, "NestedParameters": Mask(lambda: nested.secrets).json(within)} if within else described

    def review(self, context: Context, request: StackRequest) -> list[Problem]:
        """Return all problems of a template with its files, warnings included."""
        return self._preparation.review(context, request)

    # -- delete, check, cancel ---------------------------------------------------------------------

    @tries_again
    def delete(
        self,
        context: Context,
        stack: StackRecord,
        force: bool = False,
        retain: Sequence[str] = (),
        plan_digest: str | None = None,
    ) -> bool:
        """Enqueue the deletion. Running actions of the stack are aborted first.

        Returns False for a stack that is being deleted: a repeated request is no conflict, as in Heat.

        The deletion also lifts a failed lock or unlock (docs/reference/lock.md). With `force` the stack is deleted in
        any case: objects that cannot be deleted within `error_wait_time` are left behind and listed in the stack's
        reason. Objects of the resources in `retain` stay; a later deletion has no say in that. Raises PlanChanged,
        DeletionProtected, and as `Deletions.plan` and `admitted`.
        """
        operation = Operation.FORCE_DELETE if force else Operation.DELETE
        query = [("force", "true")] if force else []
        query += [*(("retain", path) for path in retain), *([("plan_digest", plan_digest)] if plan_digest else [])]
        prechecked = self._admission.precheck(context, operation, stack, "DELETE", "", None, query=query)
        going = asked.deletion(self.reader, self._deletions, context, stack, force, retain)
        claims, now = self._admission.examine(going), self._clock.now()
        with self._admission.admitted(prechecked) as stack:
            is_going = stack.verb is Verb.DELETE and stack.status is Status.IN_PROGRESS
            live = self._store.actions.live([stack.id]) if is_going else ()
            if any(is_repeated(operation, stack, action) for action in live):
                if context.scheduled is not None or retain:
                    raise ActionConflict(f"Stack {stack.name} is being deleted already.")
                return False
            self._deletions.require_unprotected(stack)
            names, retained = self._deletions.retained(stack, retain, plan_digest)
            claims.look(going.preview)
            self._store.controls.cancel_queued([stack.id], "the stack is deleted", now)
            holder = None
            for action in self._store.actions.live([stack.id]):
                if retain:
                    raise ActionConflict(f"{RETAINS_AT_REST.format(stack.name)} Action {action.id} runs.")
                self._store.controls.signal(action.id, Control.ABORT, now)
                holder = action.id
            stack = with_state(stack, Verb.DELETE, Status.IN_PROGRESS, "Stack DELETE started")
            stack = replace(stack, updated_at=now, lock=None)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            action = self._admission.new_action(context, stack, Verb.DELETE, ActionInputs(force=force, retain=names))
            action = replace(action, data=ActionData(retained=retained))
            self._admission.enqueue_action(context, action, [] if holder is None else [(holder, Needs.END)])
            claims.take(action, stack)
        return True

    def preview_deletion(self, context: Context, stack: StackRecord, retain: Sequence[str]) -> ShownPlan:
        """Return the plan of a deletion.

        Raises as `Deletions.require` and `Deletions.plan`.
        """
        self._deletions.require(context, stack)
        going = asked.deletion(self.reader, self._deletions, context, stack, False, retain)
        return replace(self._deletions.plan(stack, retain).shown, details=self._admission.shown(going))

    @tries_again
    def retry(self, context: Context, stack: StackRecord) -> None:
        """Continue a failed create or update at the point of failure.

        Finished resources stay as they are.

        Needs no template. Raises InvalidStackState if no create or update has failed, and as `admitted`.
        """
        prechecked = self._admission.precheck_action(context, Operation.RETRY, stack)
        again = asked.retry(self._store, self._definitions, self.reader, context, stack)
        claims = self._admission.examine(again)
        with self._admission.admitted(prechecked) as stack:
            claims.look(again.preview)
            # `updated_at` stays: it separates the resources that the operation has finished.
            verb, _ = stack.state_without_lock
            stack = self._admission.set_in_progress(stack, verb)
            resources = self.reader.resources_of(stack)
            last = self._store.actions.last(stack.id, verb)
            before, data = ActionInputs(), ActionData()
            if last is not None:
                before, data = last.inputs, ActionData(unclean=last.data.unclean)
            resources.retries, resources.selection = True, before.restricted
            check_protected(self._definitions.of(stack), resources)
            guard = self._admission.guard_again(context, stack, last)
            inputs = ActionInputs(retry=True, heal=before.heal, selection=before.selection, guard=guard)
            action = replace(self._admission.new_action(context, stack, verb, inputs), data=data)
            self._admission.enqueue_action(context, action)
            self._admission.guarded(action)
            claims.take(action, stack)

    def check(self, context: Context, stack: StackRecord, timing: Timing = AT_ONCE) -> None:
        """Enqueue a check of every resource; see `ScheduledActions.start`."""
        self._scheduled_actions.start(context, stack, Verb.CHECK, timing)

    def suspend(self, context: Context, stack: StackRecord, timing: Timing = AT_ONCE) -> bool:
        """Enqueue a suspend of every resource. Returns False for a SUSPEND_COMPLETE stack."""
        return self._scheduled_actions.start(context, stack, Verb.SUSPEND, timing)

    def resume(self, context: Context, stack: StackRecord, timing: Timing = AT_ONCE) -> bool:
        """Enqueue a resume of every resource. Returns False for a RESUME_COMPLETE stack."""
        return self._scheduled_actions.start(context, stack, Verb.RESUME, timing)

    def cancel(self, context: Context, stack: StackRecord, rollback: bool) -> None:
        """Cancel the running operation.

        Raises NotSupported if no operation can be cancelled.

        A queued action gets the control flag, too: it starts, reads the flag and ends.
        """
        operation = Operation.CANCEL_UPDATE if rollback else Operation.CANCEL_WITHOUT_ROLLBACK
        control = Control.CANCEL_ROLLBACK if rollback else Control.CANCEL
        with self._admission.admitted(self._admission.precheck_action(context, operation, stack)) as stack:
            for action in self._store.actions.holding(self._store.actions.live([stack.id])):
                self._store.controls.signal(action.id, control, self._clock.now())


def _adopted_protection(context: Context, request: StackRequest, now: float) -> ProtectionRecord | None:
    """Return the protection of an adopted stack, as its document declares it."""
    if request.adopted is None or not request.adopted.protected:
        return None
    return ProtectionRecord(context.user, now, PROTECTED_BEFORE)


def _adoption(
    context: Context, stack: StackRecord, before: CloudIdentity | None, cloud: CloudIdentity, now: float
) -> EventRecord:
    """Return the event of a stack that adopts another cloud. Writes the audit line."""
    reason = f"{context.user} has it adopt the cloud {cloud}; it had its objects in {before or 'an unrecorded one'}"
    audit.info("cloud stack=%s by=%s before=%s now=%s", stack.id, context.user, before, cloud)
    return stack_event(replace(stack, status_reason=reason), now)


def _check_definition(
    store: Store,
    stack: StackRecord,
    request: StackRequest,
    defines: Callable[[Sequence[str]], bool],
    takes: bool = False,
) -> None:
    """Raise what features have against the template of an update.

    With `takes` note it, unless the update is an undo: no client has sent that.
    """
    has_template = request.template is not None or request.template_url is not None
    goes_back = request.action is not None
    for one in store.features if has_template else ():
        one.check_definition(stack.id, defines, goes_back, takes and not goes_back)


def _begun(stack: StackRecord, request: StackRequest, prepared: Prepared, existing: bool, now: float) -> StackRecord:
    """Return the stack row at the start of an update."""
    after = replace(updated(stack, request, prepared, existing), updated_at=now)
    return with_state(after, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")


def _restricted(after: StackRecord, action: ActionRecord, chosen: ChosenPart | None) -> StackRecord:
    """Return the row of a stack whose update leaves something out."""
    if chosen is None or not chosen.left_out:
        return after
    before = after.restricted
    earlier = None if before is None else before.without_update
    return replace(after, restricted=Restriction(action.created_at, action.id, chosen.left_out, earlier=earlier))


def updated(stack: StackRecord, request: StackRequest, prepared: Prepared, existing: bool) -> StackRecord:
    """Return the stack row with the fields an update changes.

    The rollback target is the last definition that the stack has reached.
    """
    reached = stack.previous_template_id is None or stack.previous_environment is None
    if request.tags is not None:
        tags = request.tags
    else:
        tags = stack.tags if existing else ()
    return replace(
        stack,
        template_id=prepared.template_id,
        environment=prepared.environment,
        previous_template_id=stack.template_id if reached else stack.previous_template_id,
        previous_environment=stack.environment if reached else stack.previous_environment,
        timeout_mins=stack.timeout_mins if request.timeout_mins is None else request.timeout_mins or None,
        disable_rollback=stack.disable_rollback if request.disable_rollback is None else request.disable_rollback,
        tags=tags,
        sealed=prepared.hides,
    )
