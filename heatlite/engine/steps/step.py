"""One step's conversation with a resource type: its handler, then its check until done.

This is the only place where handlers run, and whatever they raise becomes the failure of that resource. (What a type
is merely asked, attributes and the like, goes through `scope.type_code`.)
"""

import logging
from dataclasses import dataclass

from heatlite.clients.cloud import CloudConflict, CloudUnavailable, OverQuota
from heatlite.core.check_tally import CheckTally
from heatlite.core.errors import DatabaseUnavailable, EntityNotFound, HeatliteError
from heatlite.core.json import Json, dump
from heatlite.core.logs import about
from heatlite.core.masking import masked
from heatlite.core.status import Verb
from heatlite.engine.planning.collect import choose_row
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Decision, Step
from heatlite.engine.state.values import Values, live_values
from heatlite.engine.steps.check_verdicts import cause_of
from heatlite.plugin.ports import Accounts, Change
from heatlite.plugin.resource import ReplaceResource, Resource, ResourceInError, ServiceConflict, Unhealthy
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord
from heatlite.template.document import Definition

log = logging.getLogger(__name__)

FIRST_PAUSE = 0.05
LONGEST_PAUSE = 1.0
"""Seconds between two questions to a type that does not say itself when to ask again; each pause doubles."""


DIFFERS = "The object differs from what is stored: "
"""How the reason of a check begins that has found something else than it should."""

DRIFTED = ". Not as stored: "
"""In the reason of a stack's check, before the names of the resources that have found something."""


LONGEST_OUTAGE = 300.0
"""Seconds for which a cloud's service may be out of reach before the resource fails that waits for it."""
LONGEST_OUTAGE_PAUSE = 30.0
"""Seconds between two attempts to reach it, at the most."""

LEFT = "Left behind: "
"""How begins what a deletion tells of the objects that it leaves."""

LONGEST_FAILURE = 10_000
"""Characters of a type's error that are kept."""


@dataclass(slots=True)
class Work:
    """A step that has begun: its row as last written, its resource, and how far the handlers have come."""

    step: Step
    row: ResourceRecord
    resource: Resource[Schema]
    verb: Verb
    wanted: Wanted | None = None
    """What the row becomes once a create or an update has succeeded."""
    hook: str | None = None
    """The work only waits at this breakpoint; what is done is another work."""
    change: Change | None = None
    done: bool = False
    failure: str | None = None
    unknown: str = ""
    """Of a check that has failed without a result: its cause (`checks.cause_of`)."""
    below: CheckTally | None = None
    """Of the check of a nested stack: what that has found."""
    passes: bool = False
    """The reason of the failure may pass, so that another attempt makes sense."""
    attempts: int = 0
    """How many attempts have failed for such reasons."""
    clears: bool = False
    """What a failed attempt has left is removed before the next one."""
    starts_at: float | None = None
    """When the next attempt begins, seconds since the epoch."""
    silent: bool = False
    """Everything that there is to say is written already."""
    wants_replacement: bool = False
    rebuilds: bool = False
    """The update makes the object anew in place."""
    then: Wanted | None = None
    """What takes the place of the object once that is deleted."""
    looks_first: bool = False
    """A cut-off attempt may have made the object already: look it up by its name first."""
    save_as: str = ""
    """Of a snapshot: the name under which the object is to be saved."""
    saves: bool = False
    """Of a delete: the type saves the object first (``deletion_policy: Snapshot``)."""
    handled: bool = False
    """The handler has returned; its check is open."""
    token: Json = None
    note: str = ""
    """What there is to say of a success, in place of "state changed"."""
    round: int = 0
    """Of a nested stack: how many times it has been told what to become."""
    awaits: str | None = None
    """Of a nested stack: the action on it that has to end."""
    pause: float = 0.0
    """Seconds until the check is asked again."""
    outage: float | None = None
    """Since when a service that the handler needs is out of reach; seconds since the epoch."""

    @property
    def waits(self) -> bool:
        """Whether another attempt is to begin, which `starts_at` says."""
        return self.starts_at is not None and not self.handled

    @property
    def does(self) -> Verb:
        """Whose handler is called."""
        return Verb.DELETE if self.clears else self.verb

    @property
    def accounts(self) -> Accounts | None:
        """Where the agent of the object may have an account; None: it never has one."""
        return self.resource.facts.services.accounts if self.resource.has("wants_account") else None

    @property
    def quick(self) -> bool:
        """Whether nothing outside the process is waited for."""
        return self.resource.quick and self.accounts is None

    @property
    def ended(self) -> bool:
        """Whether there is nothing more to call."""
        return self.done or self.failure is not None or self.wants_replacement


def advance(work: Work) -> None:
    """Call the next handler or check of `work` once, and note what came of it. Raises nothing."""
    with about(resource=work.row.name):
        _advance(work)


def _advance(work: Work) -> None:
    try:
        if work.handled:
            _ask(work)
        else:
            _handle(work)
        if work.done and work.resource.note:
            work.note = masked(work.resource.note)
        if work.done and work.verb is Verb.CHECK:
            _compare(work)
        if work.done and work.does is Verb.DELETE and work.accounts is not None:
            work.accounts.close(work.resource)
        work.outage = None
    except ReplaceResource:
        work.wants_replacement = True
    except Exception as error:
        if isinstance(error, CloudUnavailable) and _may_pass(work):
            log.warning("resource %s: %s waits: %s", work.row.name, work.verb, error)
            return
        log.info("resource %s: %s failed", work.row.name, work.verb, exc_info=not isinstance(error, HeatliteError))
        work.failure = failure_text(work.row.name, error)
        work.unknown = cause_of(error) if work.verb is Verb.CHECK else ""
        conflict = isinstance(error, ServiceConflict | CloudConflict | OverQuota)
        in_error = isinstance(error, ResourceInError)
        work.passes = conflict and work.verb in (Verb.CREATE, Verb.DELETE) or in_error and work.does is Verb.CREATE
    _drop_unstorable(work)


def _may_pass(work: Work) -> bool:
    """Whether to ask again later, since nobody knows yet: what was asked for may have happened."""
    now = work.resource.facts.now()
    if work.outage is None:
        work.outage = now
    work.done = False
    work.looks_first = True
    work.pause = min(LONGEST_OUTAGE_PAUSE, max(1.0, work.pause * 2))
    return now - work.outage < LONGEST_OUTAGE


def give_up(work: Work, why: str) -> None:
    """Nobody waits for `work` any longer: it has failed, and its type may take it back. Raises nothing."""
    work.failure = why
    work.unknown = why if work.verb is Verb.CHECK else ""
    try:
        if work.handled:
            work.resource.handle_cancel()
    except Exception:
        log.info("resource %s: %s could not be taken back", work.row.name, work.verb, exc_info=True)


def _drop_unstorable(work: Work) -> None:
    """What a handler leaves has to be text and JSON, or its resource fails: it must not break the commit of others."""
    facts, row = work.resource.facts, work.row
    try:
        if facts.physical_id is not None and not isinstance(facts.physical_id, str):
            raise TypeError(f"physical_id has to be text, not {type(facts.physical_id).__name__}")
        (facts.physical_id or "").encode()
        for kept in (work.token, facts.data):
            if kept:
                dump(kept).encode()
    except (TypeError, ValueError) as error:
        log.info("resource %s: %s has left what cannot be stored: %s", row.name, work.verb, error)
        work.token, facts.data = None, dict(row.data)
        if not isinstance(facts.physical_id, str):
            facts.physical_id = row.physical_id
        if work.failure is None:
            work.failure = failure_text(row.name, error)
            work.unknown = cause_of(error) if work.verb is Verb.CHECK else ""


def _handle(work: Work) -> None:
    resource = work.resource
    if work.does in (Verb.CREATE, Verb.UPDATE) and work.accounts is not None:
        work.accounts.settle(resource)
    if work.does is Verb.CREATE and resource.physical_id is None and resource.survey():
        work.pause = 0.0
        return
    if work.looks_first and resource.physical_id is None:
        resource.physical_id = resource.find()
        work.handled = work.does is Verb.CREATE and resource.physical_id is not None
    if not work.handled:
        match work.does:
            case Verb.CREATE:
                work.token = resource.handle_create()
            case Verb.UPDATE if work.change is not None:
                handle = resource.handle_rebuild if work.rebuilds else resource.handle_update
                work.token = handle(work.change)
            case Verb.DELETE if work.saves:
                work.token = resource.handle_snapshot_delete()
            case Verb.DELETE:
                work.token = resource.handle_delete()
            case Verb.CHECK:
                work.token = resource.handle_check()
            case Verb.SNAPSHOT:
                work.token = resource.handle_snapshot(work.save_as)
            case Verb.SUSPEND:
                work.token = resource.handle_suspend()
            case Verb.RESUME:
                work.token = resource.handle_resume()
            case Verb.LOCK:
                work.token = resource.handle_lock()
            case Verb.UNLOCK:
                work.token = resource.handle_unlock()
            case _:
                raise NotImplementedError(f"no handler for {work.does}")
        work.handled = True
    work.done = not resource.polls("rebuild" if work.rebuilds else work.does.lower())


def _compare(work: Work) -> None:
    """Say where the object is not as it is stored. Nothing is mended; to differ is no failure, to be gone is."""
    resource, schema = work.resource, work.resource.schema
    stored, live = resource.facts.properties, live_values(resource)
    if live is None:
        gone = EntityNotFound(entity=work.row.type, name=resource.physical_id or resource.physical_name)
        raise Unhealthy(gone.message) from gone
    found = [
        f"{name} is {dump(schema.fields[name].given(live))}, not {dump(schema.fields[name].given(stored))}"
        for name in sorted(schema.diff(stored, live))
    ]
    if found:
        work.note = DIFFERS + masked("; ".join(found))


def _ask(work: Work) -> None:
    resource, token = work.resource, work.token
    match work.does:
        case Verb.CREATE:
            answer = resource.check_create_complete(token)
        case Verb.UPDATE:
            check = resource.check_rebuild_complete if work.rebuilds else resource.check_update_complete
            answer = check(token)
        case Verb.DELETE:
            answer = resource.check_delete_complete(token)
        case Verb.CHECK:
            answer = resource.check_check_complete(token)
        case Verb.SNAPSHOT:
            answer = resource.check_snapshot_complete(token)
        case Verb.SUSPEND:
            answer = resource.check_suspend_complete(token)
        case Verb.RESUME:
            answer = resource.check_resume_complete(token)
        case Verb.LOCK:
            answer = resource.check_lock_complete(token)
        case Verb.UNLOCK:
            answer = resource.check_unlock_complete(token)
        case _:
            raise NotImplementedError(f"no check for {work.does}")
    if isinstance(answer, bool):
        work.done = answer
        work.pause = min(LONGEST_PAUSE, max(FIRST_PAUSE, work.pause * 2))
    else:
        work.pause = max(0.0, answer)


@dataclass(frozen=True, slots=True)
class Judged:
    """What a converge step found when its turn came: a decision, or the reason why it failed."""

    wanted: Wanted | None = None
    decision: Decision | None = None
    failure: str | None = None


def judge(
    definition: Definition,
    name: str,
    rows: list[ResourceRecord],
    values: Values,
) -> Judged:
    """Fill in a resource's values and decide what its rows (one at least) need. Raises nothing but
    DatabaseUnavailable."""
    try:
        choice = choose_row(definition, name, rows, values)
        return Judged(choice.wanted, choice.decision)
    except DatabaseUnavailable:
        raise
    except Exception as error:
        log.info("resource %s: its values failed", name, exc_info=not isinstance(error, HeatliteError))
        return Judged(failure=failure_text(name, error))


def drop_saved(resource: Resource[Schema]) -> str | None:
    """Have the type remove what it keeps for a snapshot; why it did not."""
    try:
        resource.handle_delete_snapshot()
    except Exception as error:
        log.info("resource %s: its snapshot stays", resource.name, exc_info=not isinstance(error, HeatliteError))
        return f"Snapshot DELETE failed: {failure_text(resource.name, error)}"
    return None


def failure_text(name: str, error: Exception) -> str:
    """``ValueError: resources.boom: Test Resource failed boom`` (Heat's form).

    A type may put anything into its error; what no database can hold is replaced.
    """
    if isinstance(error, Unhealthy) and isinstance(error.__cause__, Exception):
        error = error.__cause__  # the reason is what was found, not that it is a reason
    try:
        said = str(error)
    except Exception:
        log.info("resource %s: what it failed with cannot say what it is", name, exc_info=True)
        said = "(an error without a text)"
    said = masked(said)
    if len(said) > LONGEST_FAILURE:
        said = f"{said[:LONGEST_FAILURE]} … ({len(said)} characters)"
    text = f"{type(error).__name__}: resources.{name}: {said}"
    return text.encode(errors="replace").decode().replace("\0", "?")
