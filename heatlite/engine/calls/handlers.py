"""Call the handlers of resource types, and their checks until they are complete.

Handlers run nowhere else. Any exception of a handler becomes the failure of its resource. (Questions to a type, such as
attributes, go through `values.type_code`.)
"""

import logging
import time
from collections.abc import Callable
from functools import partial

from heatlite.clients.cloud import CloudConflict, CloudError, CloudUnavailable, OverQuota
from heatlite.core.errors import DatabaseUnavailable, EntityNotFound, HeatliteError
from heatlite.core.json import Json, JsonMap, dump
from heatlite.core.redaction.masking import masked
from heatlite.core.runtime.logs import about
from heatlite.core.runtime.meter import Meter
from heatlite.core.status import Verb
from heatlite.engine.calls.check_verdicts import cause_of
from heatlite.engine.calls.step_execution import HandlerCall, StepExecution, StepPhase
from heatlite.engine.planning.decide import REFUSED
from heatlite.engine.planning.plan import Outcome
from heatlite.engine.planning.snapshot_parts import SAVED_AS
from heatlite.engine.state.unit_of_work import shortened
from heatlite.engine.types.differences import compare, shown, with_hidden
from heatlite.engine.types.observation import is_compared, live_values
from heatlite.engine.types.type_calls import type_code
from heatlite.plugin.handlers import Absent, ReplaceResource, ResourceInError, ServiceConflict, Unhealthy
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.errors import UnreadableSecret

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
MAX_PAUSE = 1.0
"""Seconds between two calls of a check that does not return its own pause; each pause doubles."""

MAX_OUTAGE = 300.0
"""Seconds for which a resource waits for an unreachable service before it fails."""
MAX_OUTAGE_PAUSE = 30.0
"""Seconds between two attempts to reach the service, at most."""

DIFFERS = "The object differs from what is stored: "
"""Begins the status reason of a check that has found differences."""
DRIFTED = ". Not as stored: "
"""Stands in the status reason of a stack's check, before the names of the resources that differ."""
LEFT = "Left behind: "
"""Begins the list of objects that a deletion leaves."""


def advance(call: HandlerCall, meter: Meter) -> None:
    """Call the next handler or check once, and measure it. Raises nothing.

    The result is in `call`.
    """
    verb, began = call.handler_verb, time.perf_counter()
    with about(resource=call.row.name):
        try:
            if call.phase is StepPhase.CHECKING:
                _check(call)
            else:
                _handle(call)
            if call.phase is StepPhase.DONE:
                _complete(call)
            call.outage_since = None
        except ReplaceResource:
            call.phase = StepPhase.REPLACED
        except (Exception, SystemExit) as error:  # noqa: BLE001 - code of types; `_take_error` logs it
            _take_error(call, error)
        _drop_unstorable(call)
    meter.handler_called(call.resource.type_name, verb, time.perf_counter() - began)


def _take_error(call: HandlerCall, error: BaseException) -> None:
    """Fail a call with the error of its handler, or let it wait for a service."""
    if isinstance(error, CloudUnavailable | DatabaseUnavailable) and _waits(call, error):
        log.warning("resource %s: %s waits: %s", call.row.name, call.verb, error)
        return
    log.info("resource %s: %s failed", call.row.name, call.verb, exc_info=not isinstance(error, HeatliteError))
    conflict = isinstance(error, ServiceConflict | CloudConflict | OverQuota)
    if call.verb is Verb.DELETE:
        _note_refusal(call.resource.data, error)
    in_error = isinstance(error, ResourceInError)
    is_transient = conflict and call.verb in (Verb.CREATE, Verb.DELETE)
    fail_with(call, error, is_transient or in_error and call.handler_verb is Verb.CREATE)


def _note_refusal(data: JsonMap, error: BaseException) -> None:
    """Note whether a service has refused to delete a well object."""
    if REFUSED not in data:
        return
    if isinstance(error, ServiceConflict) or isinstance(error, CloudError) and error.is_refusal:
        data[REFUSED] = True
    else:
        del data[REFUSED]


def _complete(call: HandlerCall) -> None:
    """Do what follows a successful handler."""
    if call.resource.note:
        call.note = masked(call.resource.note)
    if call.verb is Verb.CHECK:
        _compare(call)
    if call.handler_verb is Verb.DELETE and call.accounts is not None:
        call.accounts.close(call.resource)


def fail_with(execution: StepExecution, error: BaseException, is_transient: bool = False) -> None:
    """Fail an execution with an error. A check may fail without a verdict."""
    unknown = cause_of(error) if execution.verb is Verb.CHECK else ""
    is_absent = execution.verb is Verb.CHECK and isinstance(error, Absent)
    execution.fail(failure_text(execution.row.name, error), unknown, is_transient, is_absent)


def _waits(call: HandlerCall, error: CloudUnavailable | DatabaseUnavailable) -> bool:
    """Return True to repeat the call later. The lost request may have taken effect.

    Without the database no result could be written either, so there is no limit for its outage. A secret that no key
    decrypts is no outage.
    """
    if isinstance(error, UnreadableSecret):
        return False
    now = call.resource.facts.now()
    if call.outage_since is None:
        call.outage_since = now
    if call.phase is StepPhase.DONE:
        call.phase = StepPhase.CHECKING
    call.find_first = True
    call.pause = min(MAX_OUTAGE_PAUSE, max(1.0, call.pause * 2))
    return isinstance(error, DatabaseUnavailable) or now - call.outage_since < MAX_OUTAGE


def give_up(execution: StepExecution, why: str) -> None:
    """Fail an abandoned execution, and let its type cancel it. Raises nothing."""
    was_called = execution.phase is StepPhase.CHECKING
    execution.fail(why, why if execution.verb is Verb.CHECK else "")
    try:
        if was_called:
            with type_code():
                execution.resource.handle_cancel()
    except HeatliteError:
        log.info("resource %s: %s cannot be cancelled", execution.row.name, execution.verb, exc_info=True)


def _drop_unstorable(call: HandlerCall) -> None:
    """Fail a call with results other than text and JSON.

    They would break the commit of all others.
    """
    facts, row = call.resource.facts, call.row
    try:
        if facts.physical_id is not None and not isinstance(facts.physical_id, str):
            raise TypeError(f"physical_id must be text, not {type(facts.physical_id).__name__}")
        (facts.physical_id or "").encode()
        for kept in (call.token, facts.data):
            if kept:
                dump(kept).encode()
    except (TypeError, ValueError) as error:
        log.info("resource %s: %s has left what cannot be stored: %s", row.name, call.verb, error)
        call.token, facts.data = None, dict(row.data)
        if not isinstance(facts.physical_id, str):
            facts.physical_id = row.physical_id
        replaces = call.phase is StepPhase.REPLACED and call.wanted is not None
        if call.phase is not StepPhase.FAILED and not replaces:
            fail_with(call, error)


def _handle(call: HandlerCall) -> None:
    resource, verb = call.resource, call.handler_verb
    if verb in (Verb.CREATE, Verb.UPDATE) and call.accounts is not None:
        call.accounts.settle(resource)
    if verb is Verb.CREATE and resource.physical_id is None and call.survey():
        call.pause = 0.0
        return
    is_found = False
    if call.find_first and resource.physical_id is None:
        resource.physical_id = resource.find()
        is_found = verb is Verb.CREATE and resource.physical_id is not None
    if not is_found:
        call.token = _handler(call)()
        if verb is Verb.SNAPSHOT:
            resource.data[SAVED_AS] = call.snapshot_name
        elif call.verb is Verb.DELETE:
            resource.data.pop(REFUSED, None)
    name = call.in_place.value if verb is Verb.UPDATE else verb.lower()
    is_open = resource.polls(name) and (is_found or resource.needs_check(name, call.token))
    call.phase = StepPhase.CHECKING if is_open else StepPhase.DONE


def _handler(call: HandlerCall) -> Callable[[], Json]:
    """Return the type's handler for a call."""
    resource = call.resource
    match call.handler_verb:
        case Verb.CREATE:
            return resource.handle_create
        case Verb.ADOPT:
            return resource.handle_adopt
        case Verb.UPDATE if call.in_place is Outcome.REBOOT:
            return resource.handle_reboot
        case Verb.UPDATE if call.change is not None:
            handle = resource.handle_rebuild if call.in_place is Outcome.REBUILD else resource.handle_update
            return partial(handle, call.change)
        case Verb.DELETE if call.snapshot_first:
            return resource.handle_snapshot_delete
        case Verb.DELETE:
            return resource.handle_delete
        case Verb.CHECK:
            return resource.handle_check
        case Verb.SNAPSHOT:
            return partial(resource.handle_snapshot, call.snapshot_name)
        case Verb.SUSPEND:
            return resource.handle_suspend
        case Verb.RESUME:
            return resource.handle_resume
        case Verb.LOCK:
            return resource.handle_lock
        case Verb.UNLOCK:
            return resource.handle_unlock
        case _:
            raise NotImplementedError(f"no handler for {call.handler_verb}")


def _compare(call: HandlerCall) -> None:
    """Record differences between object and row.

    A difference is no failure; a missing object is. An external object is not made from the properties of its row.
    """
    resource = call.resource
    stored, live = resource.facts.properties, live_values(resource)
    if live is None:
        gone = EntityNotFound(entity=call.row.type, name=resource.physical_id or resource.physical_name)
        raise Absent(gone.message) from gone
    if not is_compared(call.row, type(resource)):
        return
    call.differences = shown(with_hidden(compare(resource.schema, stored, live, call.ignored), call.hidden))
    if call.differences.counted:
        call.note = shortened(DIFFERS + "; ".join(one.text for one in call.differences.counted))


def _check(call: HandlerCall) -> None:
    answer = _checker(call)(call.token)
    if not isinstance(answer, bool):
        call.awaits = call.resource.awaited_address()
        call.pause = max(0.0, answer)
        return
    call.awaits = None
    if answer:
        call.phase = StepPhase.DONE
    call.pause = min(MAX_PAUSE, max(FIRST_PAUSE, call.pause * 2))


def _checker(call: HandlerCall) -> Callable[[Json], bool | float]:
    """Return the type's check for a call."""
    resource = call.resource
    match call.handler_verb:
        case Verb.CREATE:
            return resource.check_create_complete
        case Verb.UPDATE:
            checks = {Outcome.REBUILD: resource.check_rebuild_complete, Outcome.REBOOT: resource.check_reboot_complete}
            return checks.get(call.in_place, resource.check_update_complete)
        case Verb.DELETE:
            return resource.check_delete_complete
        case Verb.CHECK:
            return resource.check_check_complete
        case Verb.SNAPSHOT:
            return resource.check_snapshot_complete
        case Verb.SUSPEND:
            return resource.check_suspend_complete
        case Verb.RESUME:
            return resource.check_resume_complete
        case Verb.LOCK:
            return resource.check_lock_complete
        case Verb.UNLOCK:
            return resource.check_unlock_complete
        case _:
            raise NotImplementedError(f"no check for {call.handler_verb}")


def drop_saved(resource: Resource[Schema]) -> str | None:
    """Let the type delete its part of a snapshot. Returns the failure, or None."""
    try:
        resource.handle_delete_snapshot()
    except Exception as error:  # the code of a type may raise anything
        log.info("resource %s: its snapshot stays", resource.name, exc_info=not isinstance(error, HeatliteError))
        return f"Snapshot DELETE failed: {failure_text(resource.name, error)}"
    return None


def failure_text(name: str, error: BaseException) -> str:
    """Return ``ValueError: resources.boom: Test Resource failed boom``, as Heat does.

    Replaces characters that a database cannot hold.
    """
    if isinstance(error, Unhealthy) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the finding says more than the wrapper
    try:
        reason = str(error)
    except Exception:  # the text of a foreign error is foreign code
        log.info("resource %s: what it failed with cannot say what it is", name, exc_info=True)
        reason = "(an error without a text)"
    text = f"{type(error).__name__}: resources.{name}: {shortened(masked(reason))}"
    return text.encode(errors="replace").decode().replace("\0", "?")
