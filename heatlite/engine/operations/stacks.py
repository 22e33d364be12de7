"""Operations on stacks: create, update, delete, suspend, retry, previews …

Each operation checks the request, then writes everything in one transaction. Long work is enqueued as an action for a
worker.
"""

import logging
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

from msgspec.structs import replace

from heatlite.clients.clouds import Clouds
from heatlite.core.action_payloads import ActionInputs, shown_parameters
from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import Settings
from heatlite.core.context import ANONYMOUS, Context
from heatlite.core.errors import (
    ActionConflict,
    CommitUnanswered,
    DeletionProtected,
    NotSupported,
    PlanChanged,
    Problem,
    RequestLimitExceeded,
    StackExists,
    StackValidationFailed,
)
from heatlite.core.ids import new_id
from heatlite.core.json import JsonMap, as_map
from heatlite.core.masking import Mask
from heatlite.core.status import Control, Status, Verb
from heatlite.engine.admission.admission import Admission, audit
from heatlite.engine.admission.offered_types import check_types
from heatlite.engine.admission.preparation import Preparation, Prepared
from heatlite.engine.operations.schedule import Schedule
from heatlite.engine.planning.planner import by_name
from heatlite.engine.preview import preview_views
from heatlite.engine.preview.locked_children import LockedChildren
from heatlite.engine.preview.preview import StackPreview, check_protected
from heatlite.engine.preview.update_checks import check_changes, check_external, may_object
from heatlite.engine.state.conflict_rules import Operation, is_repeated, locked_error
from heatlite.engine.state.definitions import Definitions
from heatlite.engine.state.protected import PROTECTED_BEFORE, against_deletion, declare
from heatlite.engine.state.recorded_clouds import StackClouds
from heatlite.engine.state.requests import AT_ONCE, Changes, Preview, Request, Timing
from heatlite.engine.state.unit_of_work import stack_event, with_state
from heatlite.engine.types.adopted_objects import AdoptedObjects
from heatlite.engine.types.outputs import StackReader
from heatlite.engine.types.resource_factory import ResourceFactory
from heatlite.store.records import ProtectionRecord, StackRecord
from heatlite.store.store import Store
from heatlite.template.document import Definition

log = logging.getLogger(__name__)

STACK_NAME = re.compile(r"[a-zA-Z][a-zA-Z0-9_.-]{0,254}")


class Stacks:
    """Accepts stack operations of callers."""

    def __init__(
        self,
        store: Store,
        clock: Clock,
        settings: Settings,
        definitions: Definitions,
        preparation: Preparation,
        admission: Admission,
        reader: StackReader,
        schedule: Schedule,
        clouds: Clouds,
        stack_clouds: StackClouds,
    ) -> None:
        self._store = store
        self._clock = clock
        self._settings = settings
        self._definitions = definitions
        self._preparation = preparation
        self._admission = admission
        self._reader = reader
        self._schedule = schedule
        self._clouds = clouds
        self._stack_clouds = stack_clouds

    # -- create and update -------------------------------------------------------------------------

    def create(self, context: Context, request: Request) -> StackRecord:
        """Enqueue the creation or adoption of a stack.

        Returns it in state CREATE_ or ADOPT_IN_PROGRESS.

        Raises StackExists, RequestLimitExceeded, ObjectTaken, and the errors of `Preparation.new`.
        """
        adopted = request.adopted
        if adopted is not None and not self._settings.enable_stack_adopt:
            raise NotSupported(feature="Stack Adopt")
        verb = Verb.CREATE if adopted is None else Verb.ADOPT
        stack, prepared = self._new_stack(context, request)
        stack = with_state(stack, verb, Status.IN_PROGRESS, f"Stack {verb} started")
        given = self._given(stack, {}, prepared.definition)
        with self._delegated(context, stack) as credential, self._store.transaction():
            self._check_quota(context, is_creating=True)
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id, stack.sealed)
            self._store.stacks.insert(stack)
            if credential is not None:
                self._store.credentials.put(stack.id, credential)
            self._store.events.append_many([stack_event(stack, stack.created_at)])
            inputs = ActionInputs(resources=None if adopted is None else adopted.resources, parameters=given)
            action = self._admission.new_action(context, stack, verb, inputs)
            self._store.queue.enqueue(action)  # a new stack has no node actions to wait for
            context.queued.append(action.id)
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

    def _new_stack(self, context: Context, request: Request) -> tuple[StackRecord, Prepared]:
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
            protection=self._adopted_protection(context, request),
        )
        if self._store.stacks.by_name(context.project, name) is not None:
            raise StackExists(stack_name=name)
        if not STACK_NAME.fullmatch(name):
            raise StackValidationFailed(
                f"Invalid stack name {name} must contain only alphanumeric or \"_-.\" characters, must start with alpha"
                " and must be 255 characters or less."
            )
        self._check_quota(context)
        prepared = self._preparation.new(stack, request, context)
        check_types(context, prepared.types)
        check_external(prepared.definition, self._reader.resources_of(stack))
        recorded = None if request.adopted is None else request.adopted.cloud
        cloud = self._stack_clouds.new(context, stack, prepared.types, recorded, request.adopt_cloud)
        if request.adopted is not None:
            objects = AdoptedObjects(self._store, self._reader.resources_of(stack))
            objects.check(cloud, prepared.definition, request.adopted.resources)
        template_id, environment = prepared.template_id, prepared.environment
        stack = replace(stack, template_id=template_id, environment=environment, sealed=prepared.hides, cloud=cloud)
        return stack, prepared

    def _adopted_protection(self, context: Context, request: Request) -> ProtectionRecord | None:
        """Return the protection of an adopted stack, as its document declares it."""
        if request.adopted is None or not request.adopted.protected:
            return None
        return ProtectionRecord(context.user, self._clock.now(), PROTECTED_BEFORE)

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

    def preview_create(self, context: Context, request: Request, plan: bool = False) -> Preview:
        """Preview `create`, with its `plan` if asked. Raises as `create`."""
        stack, prepared = self._new_stack(context, request)
        preview = StackPreview(prepared.definition, self._reader.resources_of(stack), None)
        shown = preview_views.shown_plan(preview) if plan else None
        return Preview(stack, prepared.definition, preview_views.tree(preview), shown)

    def update(self, context: Context, stack: StackRecord, request: Request, existing: bool) -> None:
        """Enqueue an update. The stack is UPDATE_IN_PROGRESS afterwards.

        With `existing` (PATCH) omitted fields keep their values; otherwise (PUT) they return to their defaults. An
        empty PATCH runs the same definition again and replaces failed and unhealthy resources. Raises PlanChanged if
        the request carries the digest of another plan, and as `admitted`.
        """
        method = "PATCH" if existing else "PUT"
        examine = partial(self._preparation.examined, stack, request, existing)
        adopts = request.adopt_cloud
        prechecked = self._admission.precheck(
            context, Operation.UPDATE, stack, method, "", request.body, examine=examine, adopts_cloud=adopts
        )
        prepared = self._preparation.changed(stack, request, existing)
        prechecked = replace(prechecked, cloud=prechecked.cloud or self._stack_clouds.first(stack, prepared.types))
        check_types(context, prepared.types)
        self._check_update(stack, prepared.definition)
        seen, now = stack, self._clock.now()
        self._check_replacements(_begun(stack, request, prepared, existing, now), prepared)
        resources = self._reader.resources_of(stack)
        if self._converges(request) and (request.plan_digest is not None or resources.any_protected):
            # Plan once before the transaction, so that the cloud is not read inside it.
            preview_views.shown_plan(
                self._preview(resources, _begun(stack, request, prepared, existing, now), prepared, True)
            )
        given = self._given(_begun(stack, request, prepared, existing, now), stack.environment, prepared.definition)
        with self._admission.admitted(prechecked) as stack:
            if (stack.template_id, stack.environment) != (seen.template_id, seen.environment):
                # The prepared definition is based on one that the stack no longer has.
                raise ActionConflict(f"Stack {stack.name} was updated by another request meanwhile. Try again.")
            after = _begun(stack, request, prepared, existing, now)
            self._spare_locked(context, stack, after, prepared.definition, self._converges(request))
            declare(self._store, after, context.user, now, before=stack.environment)
            check_protected(prepared.definition, resources.within(after))
            if request.plan_digest is not None:
                plan = preview_views.shown_plan(self._preview(resources, after, prepared, False))
                if plan.digest != request.plan_digest:
                    raise PlanChanged(stack_name=stack.name)
            self._store.templates.put(prepared.document, prepared.files, prepared.template_id, after.sealed)
            if after.sealed and not stack.sealed:
                self._store.seal_tree(stack)
            self._store.stacks.save(after)
            self._store.events.append_many([stack_event(after, now)])
            if request.adopt_cloud and prechecked.cloud is not None:
                self._record_adoption(context, after, seen.cloud, prechecked.cloud)
            inputs = ActionInputs(converge=self._converges(request), parameters=given)
            self._admission.enqueue(context, after, Verb.UPDATE, inputs)
        self._definitions.keep(after, prepared.definition)

    def _given(self, stack: StackRecord, before: JsonMap, definition: Definition) -> dict[str, str | None]:
        """Return the parameters that a request changes, for the inputs of its action.

        `before` is the environment before it. Hidden values are masked.
        """
        old, new = as_map(before.get("parameters")), as_map(stack.environment.get("parameters"))
        names = [one for one in {**old, **new} if one in definition.parameters and old.get(one) != new.get(one)]
        if not names:
            return {}
        self._definitions.keep(stack, definition)
        mask, shown = self._reader.mask(stack), definition.parameters.as_text
        return shown_parameters({one: mask.text(shown(one)) if one in new else None for one in names})

    def _record_adoption(
        self, context: Context, stack: StackRecord, before: CloudIdentity | None, now: CloudIdentity
    ) -> None:
        """Write the event and the audit line of a stack that adopts another cloud."""
        reason = f"{context.user} has it adopt the cloud {now}; it had its objects in {before or 'an unrecorded one'}"
        self._store.events.append_many([stack_event(replace(stack, status_reason=reason), self._clock.now())])
        audit.info("cloud stack=%s by=%s before=%s now=%s", stack.id, context.user, before, now)

    def _check_update(self, stack: StackRecord, definition: Definition) -> None:
        """Raise StackValidationFailed if a type knows that its part must fail."""
        resources = self._reader.resources_of(stack)
        check_external(definition, resources)
        names = may_object(definition, resources)
        if names:
            check_changes(definition, by_name(self._store.resources.by_name(stack.id, names)), resources)

    def _check_replacements(self, after: StackRecord, prepared: Prepared) -> None:
        """Raise StackValidationFailed if a failed resource of the tree cannot be replaced."""
        tree = [after.id, *(nested.id for nested in self._store.stacks.descendants(after))]
        if not self._store.resources.any_failed(tree):
            return
        preview = self._preview(self._reader.resources_of(after), after, prepared, False)
        problems = tuple(
            Problem(("resources", *path), f"resources.{'.'.join(path)}: {why}") for path, why in preview.refused()
        )
        if problems:
            raise StackValidationFailed("; ".join(problem.text for problem in problems), problems=problems)

    def _spare_locked(
        self, context: Context, stack: StackRecord, after: StackRecord, definition: Definition, converges: bool
    ) -> None:
        """Raise StackLocked if the update or its rollback would touch a locked child."""
        locked_children = LockedChildren(self._store, self._definitions, self._reader, stack)
        # Convergence reads every object, so it touches every nested stack.
        touched = locked_children.locked() if converges else locked_children.touched(after, definition)
        template_id, environment = after.previous_template_id, after.previous_environment
        if touched is None and not after.disable_rollback and locked_children.locked() is not None:
            assert template_id is not None and environment is not None
            back = replace(after, template_id=template_id, environment=environment)
            touched = locked_children.touched(back, self._definitions.of(back))
        if touched is not None:
            error = locked_error(Operation.UPDATE, touched, context)
            error.message += _changed_files(self._definitions.of(stack), definition)
            raise error

    def preview_update(
        self,
        context: Context,
        stack: StackRecord,
        request: Request,
        existing: bool,
        show_nested: bool = False,
        plan: bool = False,
    ) -> Changes:
        """Preview `update` as far as values are known, with its `plan` if asked.

        Raises as `update`.
        """
        self._stack_clouds.admitted(stack, request.adopt_cloud)
        prepared = self._preparation.changed(stack, request, existing)
        check_types(context, prepared.types)
        self._check_update(stack, prepared.definition)
        after = _begun(stack, request, prepared, existing, self._clock.now())
        self._check_replacements(after, prepared)
        resources = self._reader.resources_of(stack)
        preview = self._preview(resources, after, prepared, self._converges(request))
        return preview_views.changes(preview, show_nested, plan)

    def _preview(
        self, resources: ResourceFactory, after: StackRecord, prepared: Prepared, converges: bool
    ) -> StackPreview:
        """Return the preview of an update that leads to `after`."""
        standing = resources.nested(after.id)
        return StackPreview(prepared.definition, resources.within(after), standing, converges)

    def _converges(self, request: Request) -> bool:
        return request.converge or self._settings.observe_on_update

    def validate(
        self, context: Context, request: Request, show_nested: bool = False, without_services: bool = False
    ) -> JsonMap:
        """Return the answer of POST /validate. Raises the template's errors.

        With `without_services` a service that the cloud lacks is no error.
        """
        nested = self._preparation.validate(context, request, without_services, show_nested)
        check_types(context, nested.types)
        described = nested.definition.describe(nested.hidden)
        within = nested.describe() if show_nested else {}
        mask = Mask(lambda: nested.secrets)
        return {**described, "NestedParameters": mask.json(within)} if within else described

    def review(self, context: Context, request: Request) -> list[Problem]:
        """Return all problems of a template with its files, warnings included."""
        return self._preparation.review(context, request)

    # -- delete, check, cancel ---------------------------------------------------------------------

    def delete(self, context: Context, stack: StackRecord, force: bool = False) -> bool:
        """Enqueue the deletion. Running actions of the stack are aborted first.

        Returns False for a stack that is being deleted: a repeated request is no conflict, as in Heat.

        The deletion also lifts a failed lock or unlock (docs/reference/lock.md). With `force` the stack is deleted in
        any case: objects that cannot be deleted within `error_wait_time` are left behind and listed in the stack's
        reason. Raises DeletionProtected, and as `admitted`.
        """
        operation = Operation.FORCE_DELETE if force else Operation.DELETE
        prechecked = self._admission.precheck(context, operation, stack, "DELETE", "", None)
        now = self._clock.now()
        with self._admission.admitted(prechecked) as stack:
            is_going = stack.verb is Verb.DELETE and stack.status is Status.IN_PROGRESS
            live = self._store.actions.live([stack.id]) if is_going else ()
            if any(is_repeated(operation, stack, action) for action in live):
                return False
            protected = against_deletion(self._store, stack)
            if protected is not None:
                raise DeletionProtected(f"Stack {stack.name} is not deleted: {protected.text}")
            self._store.controls.cancel_queued([stack.id], "the stack is deleted", now)
            holder = None
            for action in self._store.actions.live([stack.id]):
                self._store.controls.signal(action.id, Control.ABORT, now)
                holder = action.id
            stack = with_state(stack, Verb.DELETE, Status.IN_PROGRESS, "Stack DELETE started")
            stack = replace(stack, updated_at=now, lock=None)
            self._store.stacks.save(stack)
            self._store.events.append_many([stack_event(stack, now)])
            self._admission.enqueue(context, stack, Verb.DELETE, ActionInputs(force=force), waits_for=holder)
        return True

    def retry(self, context: Context, stack: StackRecord) -> None:
        """Continue a failed create or update at the point of failure.

        Finished resources stay as they are.

        Needs no template. Raises InvalidStackState if no create or update has failed, and as `admitted`.
        """
        with self._admission.admitted(self._admission.precheck_action(context, Operation.RETRY, stack)) as stack:
            # `updated_at` stays: it separates the resources that the operation has finished.
            verb, _ = stack.state_without_lock
            stack = self._admission.set_in_progress(stack, verb)
            resources = self._reader.resources_of(stack)
            last = self._store.actions.last(stack.id, verb)
            resources.retries, resources.selection = True, None if last is None else last.inputs.heal
            check_protected(self._definitions.of(stack), resources)
            self._admission.enqueue(context, stack, verb, ActionInputs(retry=True, heal=resources.selection))

    def check(self, context: Context, stack: StackRecord, timing: Timing = AT_ONCE) -> None:
        """Enqueue a check of every resource; see `Schedule.start`."""
        self._schedule.start(context, stack, Verb.CHECK, timing)

    def suspend(self, context: Context, stack: StackRecord, timing: Timing = AT_ONCE) -> bool:
        """Enqueue a suspend of every resource. Returns False for a SUSPEND_COMPLETE stack."""
        return self._schedule.start(context, stack, Verb.SUSPEND, timing)

    def resume(self, context: Context, stack: StackRecord, timing: Timing = AT_ONCE) -> bool:
        """Enqueue a resume of every resource. Returns False for a RESUME_COMPLETE stack."""
        return self._schedule.start(context, stack, Verb.RESUME, timing)

    def cancel(self, context: Context, stack: StackRecord, rollback: bool) -> None:
        """Cancel the running operation.

        Raises NotSupported if no operation can be cancelled.

        A queued action gets the control flag, too: it starts, reads the flag and ends.
        """
        operation = Operation.CANCEL_UPDATE if rollback else Operation.CANCEL_WITHOUT_ROLLBACK
        control = Control.CANCEL_ROLLBACK if rollback else Control.CANCEL
        with self._admission.admitted(self._admission.precheck_action(context, operation, stack)) as stack:
            for action in self._store.actions.live([stack.id]):
                self._store.controls.signal(action.id, control, self._clock.now())


def _changed_files(before: Definition, after: Definition) -> str:
    """Return a sentence that names the files an update changes; "" without any."""
    old, new = before.template.files, after.template.files
    names = sorted(name for name in {*old, *new} if old.get(name) != new.get(name))
    return f" The update changes these files: {', '.join(names)}." if names else ""


def _begun(stack: StackRecord, request: Request, prepared: Prepared, existing: bool, now: float) -> StackRecord:
    """Return the stack row at the start of an update."""
    after = replace(updated(stack, request, prepared, existing), updated_at=now)
    return with_state(after, Verb.UPDATE, Status.IN_PROGRESS, "Stack UPDATE started")


def updated(stack: StackRecord, request: Request, prepared: Prepared, existing: bool) -> StackRecord:
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
