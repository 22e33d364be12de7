"""Signals to resources: wait conditions, scaling, hooks and lifecycle actions."""

import logging
import threading
from collections.abc import Callable
from functools import cache
from http import HTTPStatus

from msgspec import Struct
from msgspec.structs import replace

from heatlite.clients.cloud import CloudError, OtherCloud
from heatlite.core.actions.payloads import ActionInputs
from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionCooldown,
    Conflict,
    DeletionProtected,
    Forbidden,
    HeatliteError,
    InvalidBreakPointHook,
    InvalidLifecycleActionToken,
    InvalidStackState,
    InvalidValue,
    NotSupported,
    RequestLimitExceeded,
    ResourceActionNotSupported,
    ResourceNotAvailable,
    ResourceNotFound,
    StackLocked,
    Unavailable,
)
from heatlite.core.json import Json, JsonMap, as_map, dump
from heatlite.core.status import MAX_REASON, Status, Verb
from heatlite.engine.admission.base import Parts, StackOperations
from heatlite.engine.admission.claims import NO_CLAIMS, ChangeKind, Claims, PreparedRequest, tries_again
from heatlite.engine.operations.asked import GroupChange
from heatlite.engine.planning.group_members import by_policies
from heatlite.engine.preview.preview import check_protected
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.hooks import cleared_text, clearing, is_over, lifecycle_token, waits_at
from heatlite.engine.state.unit_of_work import resource_event
from heatlite.engine.state.values import current_rows
from heatlite.engine.types.resource_factory import NestedView
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.groups import SizedGroup
from heatlite.plugin.handlers import NoActionNeeded, Resize
from heatlite.plugin.nested import StackResource
from heatlite.plugin.resource import ResourceType
from heatlite.plugin.signing import KEY, NODE, Node, Proof, Signalled
from heatlite.store.records import ResourceRecord, StackRecord

log = logging.getLogger(__name__)

SIGNAL = "SIGNAL"
"""Action name in the events of signals. No resource is ever in a state of it."""

ALARM = frozenset({"previous", "current", "reason"})
"""Keys in the details of an alarm."""


REFUSED = frozenset({"unhealthy", "no_group"})
"""Reasons that `fail_fast` answers with 409: time alone does not end them."""

PERIODS = {"no_change": 3600, "unhealthy": 3600, "no_group": 3600}
"""Seconds with at most one event of an ignored signal; 60 for other reasons, which pass by themselves."""

MAX_COUNTS = 10_000
"""Policies whose ignored signals are counted in memory."""


class IgnoredSignal(Struct, frozen=True):
    """Reason of an ignored signal.

    One of cooldown, busy, locked, unhealthy, no_group, no_change, not_alarm, or that of a feature (`Conflict`).
    """

    reason: str
    retry_after: int | None = None

    def __str__(self) -> str:
        """Return the value of ``X-Heatlite-Ignored``."""
        return self.reason if self.retry_after is None else f"{self.reason}; retry_after={self.retry_after}"


class Signals(StackOperations):
    """Delivers signals to resources."""

    def __init__(self, parts: Parts) -> None:
        super().__init__(parts)
        self._lock = threading.Lock()
        self._counts: dict[tuple[str, str], tuple[float | None, int]] = {}
        """By row and reason: the period of the last event of an ignored signal, and the number since."""

    def proven(
        self, proof: Proof, form: str, project: str, stack_name: str, stack_id: str, resource_name: str
    ) -> tuple[StackRecord, ResourceRecord]:
        """Return stack and resource of a signed request.

        Raises Forbidden, with one text for every cause, unless the signature or token is valid for that resource.
        """
        lifetime = self._settings.signal_url_lifetime
        stack = self._store.stacks.get(stack_id)
        if stack is not None and (stack.project, stack.name) == (project, stack_name):
            resources = self.reader.resources_of(stack)
            for row in self._store.resources.by_name(stack.id, [resource_name]):
                signalled = resources.make(row)
                meant = Node if form == NODE else Signalled
                if isinstance(signalled, meant) and signalled.admits(form, proof, lifetime):
                    return stack, row
        raise Forbidden("The signature or the token is wrong or has expired.")

    def signal(
        self,
        context: Context,
        stack: StackRecord,
        row: ResourceRecord,
        details: JsonMap | None,
        fail_fast: bool = False,
    ) -> IgnoredSignal | None:
        """Deliver a signal to a resource. A signal without effect is accepted, too.

        Returns the reason why it had none. With `fail_fast` a conflict or a cooldown is raised instead.

        A replayed signal raises its conflict instead, so that it stays listed until it takes effect. Raises
        ResourceActionNotSupported for a type without a handler, ResourceNotAvailable before creation, NotSupported
        during deletion or suspend. Raises RequestLimitExceeded for a signal over the type's size limit,
        InvalidBreakPointHook, OtherCloud, and the errors of the type.
        """
        kind = self.reader.resources_of(stack).type_of(row)
        if len(dump(details).encode(errors="replace")) > kind.longest_signal:
            raise RequestLimitExceeded(message=f"a signal to {row.type} has at most {kind.longest_signal} bytes.")
        if details and "unset_hook" in details:
            self._clear_hook(stack, row.name, details["unset_hook"])
            return None
        self._refuse(kind, row)
        try:
            self._deliver(context, stack, row, details)
        except (DeletionProtected, OtherCloud):
            raise
        except Conflict as error:
            if context.replay is not None or fail_fast:
                raise
            log.info("signal to %s of stack %s: no effect: %s", row.name, stack.id, error)
            return self._ignored(row, IgnoredSignal(error.ignored_as, error.retry_after), error.message)
        except NoActionNeeded as nothing:
            if fail_fast and nothing.retry_after is not None:
                refusal = ActionCooldown(group=row.name, seconds=nothing.retry_after)
                refusal.retry_after = nothing.retry_after
                raise refusal from nothing
            if fail_fast and nothing.reason in REFUSED:
                raise InvalidStackState(nothing.detail) from nothing
            return self._ignored(row, IgnoredSignal(nothing.reason, nothing.retry_after), nothing.detail)
        return None

    def _refuse(self, kind: ResourceType, row: ResourceRecord) -> None:
        """Raise the error for a resource that takes no signals, or none in its state."""
        if not kind.has("signal"):
            raise ResourceActionNotSupported(action="signal")
        if row.verb is Verb.INIT:
            raise ResourceNotAvailable(resource_name=row.name)
        if row.verb in kind.no_signal_during:
            with self._store.transaction():
                self._record_event(row, row.verb, f"Cannot signal resource during {row.verb}")
            raise NotSupported(f"Signal resource during {row.verb} is not supported.")

    def _ignored(self, row: ResourceRecord, ignored: IgnoredSignal, detail: str) -> IgnoredSignal:
        """Count an ignored signal: one event per reason and period, with a number.

        A signal under a lock has its entry in the list of suppressed requests.
        """
        if ignored.reason in ("locked", "not_alarm"):
            return ignored
        key, period = (row.id, ignored.reason), self._clock.now() // PERIODS.get(ignored.reason, 60)
        with self._lock:
            last, count = self._counts.get(key, (None, 0))
            if len(self._counts) >= MAX_COUNTS:
                self._counts.clear()
            self._counts[key] = (period, 0 if last != period else count + 1)
        if last != period:
            why = f": {detail}" if detail else ""
            more = f", and {count} more since the last such event" if count else ""
            with self._store.transaction():
                self._record_event(row, SIGNAL, f"Signal ignored: {ignored.reason}{more}{why}")
        return ignored

    def rotate_keys(self, context: Context, stack: StackRecord) -> bool:
        """Renew the signal keys of all resources in the stack and its nested stacks.

        Old signed URLs and tokens become invalid. Properties that contain one change with the next update. Each stack
        is one transaction: after a refusal the earlier stacks stay done, and the call can be repeated. Returns False
        if no resource has a key. Raises as `admitted`.
        """
        rotated = 0
        for one in (stack, *self._store.stacks.descendants(stack)):
            prechecked = self._admission.precheck_action(context, Operation.ROTATE_KEYS, one)
            with self._admission.admitted(prechecked) as held:
                rotated += self._rotate(held)
        return rotated > 0

    def _rotate(self, stack: StackRecord) -> int:
        resources = self.reader.resources_of(stack)
        rows = []
        for row in self._store.resources.of(stack.id):
            signalled = resources.make(row)
            if isinstance(signalled, Signalled) and KEY in signalled.data:
                signalled.renew_key()
                rows.append(replace(row, data=dict(signalled.data)))
        self._store.resources.save_many(rows)
        for row in rows:
            self._record_event(row, row.verb, "A new signal key was drawn")
        return len(rows)

    def complete_lifecycle(self, stack: StackRecord, token: str) -> None:
        """Release the resource that waits with this token before its deletion.

        It may be in a nested stack. Raises InvalidLifecycleActionToken.
        """
        tree = [stack.id, *(nested.id for nested in self._store.stacks.descendants(stack))]
        for found in self._store.resources.with_token(tree):
            if lifecycle_token(found) == token:
                with self._store.transaction():
                    if not self._clear(found.stack_id, found.name, lambda row: lifecycle_token(row) == token):
                        text = f"The deletion of resource {found.name} has already continued."
                        raise InvalidLifecycleActionToken(text)
                return
        raise InvalidLifecycleActionToken(
            f"Nothing in stack {stack.name} waits with this lifecycle_action_token: it was completed, its time is "
            "over, or it is of another stack."
        )

    def _clear_hook(self, stack: StackRecord, name: str, hook: Json) -> None:
        """Clear the hook of a waiting resource.

        Needs no lock check: resources wait only in a running action.
        """
        with self._store.transaction():
            rows = self._store.resources.by_name(stack.id, [name])
            if not isinstance(hook, str) or not any(waits_at(row) == hook for row in rows):
                raise InvalidBreakPointHook(f"The hook {hook!r} is not set on resource {name}.")
            if not self._clear(stack.id, name, lambda row: waits_at(row) == hook):
                raise InvalidBreakPointHook(f"The hook {hook!r} of resource {name} has been cleared already.")

    def _clear(self, stack_id: str, name: str, meant: Callable[[ResourceRecord], bool]) -> bool:
        """Release the waiting rows of a resource that `meant` selects.

        Returns False if all of them were released before, by a caller or by their timeout.
        """
        held = self._store.stacks.lock(stack_id)
        running = self._store.actions.holding(self._store.actions.live([stack_id]))
        if held is None or not running:
            return False
        known, now, cleared = self._store.messages.read(running[0].id), self._clock.now(), False
        for row in self._store.resources.by_name(stack_id, [name]):
            hook = waits_at(row)
            if hook is None or not meant(row) or is_over(row, now):
                continue
            key = clearing(held.verb, hook, row)
            if key not in known:
                self._store.messages.put(running[0].id, key, None, now)
                self._record_event(row, row.verb, cleared_text(hook))
                cleared = True
        if cleared:
            self._store.moves.wake(running[0].id, now)
        return cleared

    @tries_again
    def _deliver(self, context: Context, stack: StackRecord, row: ResourceRecord, details: JsonMap | None) -> None:
        """Pass the signal's details to the type and write all effects in one transaction."""
        prepared = self._prepared(stack, row, details)
        claims = self._examined(context, stack, row, prepared)
        with self._store.transaction():
            # The stack row serializes signals: each sees the effects of the previous one.
            self._store.stacks.lock(stack.id)
            row = self._again(row, stack)
            resource = self.reader.resources_of(stack).make(row)
            answer = resource.handle_signal(prepared)
            if not isinstance(answer, Resize):
                self._admission.consume_replay(context)
                self._record_event(row, SIGNAL, f"Signal: {answer}" if answer else described(details))
                return
            refusal: HeatliteError | None = None
            try:
                self._resize(context, stack, row, details, answer, claims)
            except StackLocked as error:
                refusal = error  # raised after the suppressed signal is recorded
            except DeletionProtected as error:
                self._record_event(row, SIGNAL, f"Signal refused: {error.message}")
                refusal = error
            else:
                self._store.resources.save_many([replace(row, data=dict(resource.data))])
                self._record_event(row, SIGNAL, f"Signal: {answer.reason}" if answer.reason else described(details))
        if refusal is not None:
            raise refusal

    def _prepared(self, stack: StackRecord, row: ResourceRecord, details: JsonMap | None) -> JsonMap | None:
        """Return the details for the type, after its calls to services.

        Raises InvalidValue where a service refuses them, Unavailable where it does not answer.
        """
        resources = self.reader.resources_of(stack)
        if not resources.type_of(row).has("prepare_signal"):
            return details
        try:
            with type_code():
                return resources.make(row).prepare_signal(details)
        except CloudError as error:
            if error.status is not None and error.status < HTTPStatus.INTERNAL_SERVER_ERROR:
                raise InvalidValue(str(error)) from error
            raise Unavailable(service=error.service, reason=error) from error

    def _again(self, row: ResourceRecord, stack: StackRecord) -> ResourceRecord:
        """Return the row as stored now. Raises ResourceNotFound."""
        for found in self._store.resources.by_name(stack.id, [row.name]):
            if found.id == row.id:
                return found
        raise ResourceNotFound(resource_name=row.name, stack_name=stack.name)

    def _examined(
        self, context: Context, stack: StackRecord, row: ResourceRecord, details: JsonMap | None
    ) -> Claims:
        """Let features examine the resize of a signal. Raises what refuses it."""
        resources = self.reader.resources_of(stack)
        if not resources.type_of(row).resizes:
            return NO_CLAIMS
        try:
            with type_code():
                resize = resources.make(row).handle_signal(details)
            assert isinstance(resize, Resize)
            group = self._group(stack, resize.group)
        except (HeatliteError, NoActionNeeded):
            return NO_CLAIMS  # the transaction meets the same error
        nested = None if group.physical_id is None else self._store.stacks.get(group.physical_id)
        if nested is None or stack.locked or nested.locked or group.status is not Status.COMPLETE:
            return NO_CLAIMS  # that refuses it first
        known = self._definitions.of(nested).resources
        types = self._store.resources.types(stack.root_id or stack.id) if known else ()
        rehearsed = cache(lambda: self._resized(context, stack, row, group, nested, resize).preview())
        try:
            return self._admission.examine(PreparedRequest(context, nested, types, rehearsed, change=ChangeKind.SIGNAL))
        except Conflict as error:
            self._ignored(group, IgnoredSignal(error.ignored_as), error.message)
            raise

    def _resized(
        self,
        context: Context,
        stack: StackRecord,
        row: ResourceRecord,
        group: ResourceRecord,
        nested: StackRecord,
        resize: Resize,
    ) -> GroupChange:
        """Return what the resize of a group by a signal to `row` would write."""
        resources = self.reader.resources_of(stack)
        resource = resources.make(group, update_policy=_update_policy(nested))
        assert isinstance(resource, StackResource)
        child, data, view = resource.resized(resize.wanted), None, resource.nested
        if isinstance(resource, SizedGroup) and isinstance(view, NestedView):
            with type_code():
                child, data = by_policies(resource, view, child)
        kind, number = resize.wanted.get("kind"), resize.wanted.get("adjustment")
        inputs = ActionInputs(signal={"policy": row.name, "kind": kind, "number": number})
        action = self._admission.new_action(context, nested, Verb.UPDATE, inputs)
        children = self.children_of(action, resources)
        order = children.resize(group, resource, self._definitions.of(stack), child, data)
        assert order.definition is not None
        changed = GroupChange(children, order, replace(group, data=dict(resource.data)), resources)
        check_protected(order.definition, changed.within)
        return changed

    def _resize(
        self,
        context: Context,
        stack: StackRecord,
        row: ResourceRecord,
        details: JsonMap | None,
        resize: Resize,
        claims: Claims,
    ) -> None:
        """Enqueue a resize of a group's nested stack.

        Raises NoActionNeeded, and as `admitted`.
        """
        path = f"/resources/{row.name}/signal"
        prechecked = self._admission.precheck(context, Operation.SIGNAL, stack, "POST", path, details, target=row.name)
        group, definition = self._group(stack, resize.group), self._definitions.of(stack)
        nested = None if group.physical_id is None else self._store.stacks.get(group.physical_id)
        if nested is None or group.name not in definition.resources:
            raise NoActionNeeded("no_group", detail=f"group {group.name} has no members to scale.")
        with self._admission.admitted(prechecked, on=nested) as nested:
            if group.status is Status.FAILED:
                raise NoActionNeeded("unhealthy", detail=_unhealthy(group))
            if group.status is not Status.COMPLETE:
                raise NoActionNeeded("busy", detail=f"group {group.name} is {group.verb}_{group.status}.")
            changed = self._resized(context, stack, row, group, nested, resize)
            claims.look(changed.preview)
            changed.children.write([changed.order])
            context.queued.append(changed.order.action.id)
            claims.take(changed.order.action, changed.order.stack, changed.preview)
            self._store.resources.save_many([changed.group])

    def _group(self, stack: StackRecord, reference: str) -> ResourceRecord:
        """Return the row of the group with the reference id.

        Raises NoActionNeeded without one.
        """
        resources = self.reader.resources_of(stack)
        for row in current_rows(self._store.resources.of(stack.id)):
            if issubclass(resources.type_of(row), StackResource):
                with type_code():
                    if resources.make(row).reference() == reference:
                        return row
        raise NoActionNeeded("no_group", detail=f"stack {stack.name} has no group {reference}.")

    def _record_event(self, row: ResourceRecord, verb: str, reason: str) -> None:
        # Without properties: they have not changed, and machines may signal often.
        event = replace(resource_event(row, self._clock.now(), {}), verb=verb, status_reason=reason[:MAX_REASON])
        self._store.events.append_many([event])


def described(details: JsonMap | None) -> str:
    """Return the default event text of a signal, as Heat does."""
    if not details:
        return "No signal details provided"
    if details.keys() >= ALARM:
        return "alarm state changed from {previous} to {current} ({reason})".format_map(details)
    return "Unknown"


def _unhealthy(group: ResourceRecord) -> str:
    way = "mark it healthy, or repair the stack" if group.verb is Verb.CHECK else "update the stack"
    return f"group {group.name} is {group.verb}_{group.status} and does not scale: {way}."


def _update_policy(nested: StackRecord) -> JsonMap:
    """Return the update_policy last passed to a group's nested stack."""
    return as_map(as_map((nested.inherited or {}).get("facade")).get("update_policy"))
