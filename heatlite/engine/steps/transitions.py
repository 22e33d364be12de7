"""What a step does to its row: how each operation begins, goes on and ends for one resource, and the events of it."""

import logging
from collections.abc import Callable
from dataclasses import replace
from functools import partial

from heatlite.core.check_tally import CheckTally
from heatlite.core.errors import HeatliteError, RequestLimitExceeded, ResourceActionRestricted
from heatlite.core.ids import new_id
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status, Verb
from heatlite.engine.planning import planner
from heatlite.engine.planning.collect import collect
from heatlite.engine.planning.decide import deletes_first, is_marked
from heatlite.engine.planning.facts import Wanted
from heatlite.engine.planning.plan import Outcome, Plan, Reason, Step
from heatlite.engine.planning.tree_budget import Budget
from heatlite.engine.state.hooks import PRE_DELETE, expired_text, reached_text, verb_of, waits_at
from heatlite.engine.state.unit_of_work import Journal, resource_event, row_moved
from heatlite.engine.state.values import Resources, Values
from heatlite.engine.steps import check_verdicts
from heatlite.engine.steps.backoff import back_off, kept, take_up
from heatlite.engine.steps.breakpoints import Breakpoints
from heatlite.engine.steps.step import LEFT, Judged, Work, failure_text, judge
from heatlite.plugin.nested import StackResource
from heatlite.plugin.ports import Change
from heatlite.plugin.resource import Resource
from heatlite.plugin.schema import Schema
from heatlite.store.records import ResourceRecord
from heatlite.template.definitions import ResourceDefinition
from heatlite.template.document import Definition
from heatlite.template.replacement import KEEP

log = logging.getLogger(__name__)

STATE_CHANGED = "state changed"

TAKES = frozenset({Outcome.CREATE, Outcome.CONTINUE, Outcome.REPLACE, Outcome.UPDATE, Outcome.REBUILD})
"""Decisions after which a row holds what is wanted."""
CONVERGING = frozenset(
    {
        Outcome.CREATE,
        Outcome.CONTINUE,
        Outcome.KEEP,
        Outcome.UPDATE,
        Outcome.REPLACE,
        Outcome.REBUILD,
        Outcome.REFUSE,
        Outcome.RESTRICT,
    }
)
"""What the steps of a converge come to."""


class Transitions:
    """Begins and ends the steps of one stack's plans, in the journal."""

    def __init__(
        self,
        journal: Journal,
        resources: Resources,
        breakpoints: Breakpoints,
        now: Callable[[], float],
        retry_limit: int,
    ) -> None:
        self.chosen: dict[str, ResourceRecord] = {}
        """While converging: the row that stands for each name that is done."""
        self.adopted: JsonMap | None = None
        """Of an adoption: by name what each resource was where it comes from."""
        self.snapshot = ""
        """The id of the snapshot that is taken."""
        self.tally = CheckTally()
        """The results of the checks of this action."""
        self.keeps_objects = False
        """Whether a delete only forgets resources, whatever their policy."""
        self.cut_off = {key for key, row in journal.rows.items() if row.status is Status.IN_PROGRESS}
        """The ids of the rows that an earlier attempt has left in progress and this one has not taken up."""
        self._journal = journal
        self._resources = resources
        self.breakpoints = breakpoints
        self._now = now
        self._retry_limit = retry_limit
        self._definition: Definition | None = None
        self._definitions: dict[str, ResourceDefinition] = {}
        self._values = Values(resources, self.chosen)
        self.budget = Budget(resources)
        resources.chosen = self.chosen

    # -- after a crash -----------------------------------------------------------------------------

    def take_up(self, step: Step, begin: Callable[[Step], Work]) -> Work | None:
        """Begin a step although the walk stops, if an earlier attempt has begun it. None: nothing is begun.

        While converging, what is done already is begun too: others need its values.
        """
        if step.outcome not in CONVERGING:
            row = self._row_of(step)
            return begin(step) if row.id in self.cut_off and row.verb.lower() == step.outcome else None
        rows = self._journal.named(step.name)
        judged = self._judge(step.name, rows)
        if judged.decision is None or any(waits_at(row) is not None for row in rows):
            return None
        row, outcome = judged.decision.row, judged.decision.outcome
        if row.id in self.cut_off:
            goes_on = outcome is not Outcome.REPLACE or row.verb is Verb.DELETE and judged.decision.deletes_first
        else:
            is_free = self.breakpoints.reached("pre-update", row, self._now()) is None
            goes_on = outcome is Outcome.KEEP and row.status is Status.COMPLETE and is_free
        return begin(step) if goes_on else None

    # -- converge ----------------------------------------------------------------------------------

    def start_converging(self, definition: Definition, plan: Plan) -> None:
        """Take over what the plan keeps, and write a row for everything that is going to be made.

        A resource that is never reached then stays INIT_COMPLETE, as in Heat.
        """
        self._definition, self._definitions = definition, definition.resources
        self.chosen.clear()
        self.chosen.update(plan.kept)
        for step in plan.steps.values():
            if step.outcome is Outcome.CREATE and step.row is None:
                self._new_row(definition.resources[step.name])
        rows = self._journal.rows.values()
        types = {one.mapped_type for one in definition.resources.values()} | {row.mapped_type for row in rows}
        self.budget.start(rows, self._resources.stack.root_id is not None or self._resources.may_nest(types))

    def begin_converge(self, step: Step) -> Work:
        """Fill in the values, decide, and begin what has been decided; or delete what goes first."""
        if step.outcome is Outcome.DELETE:
            return self.begin_delete(step)
        rows = self._journal.named(step.name)
        row = next((row for row in rows if waits_at(row) not in (None, PRE_DELETE)), rows[-1])
        hook = waits_at(row)
        if hook is None or hook == PRE_DELETE:  # the deletion of a row is a step of its own, or follows from below
            hook = "pre-create" if row.verb is Verb.INIT else "pre-update"
        waiting = self._waiting(step, row, hook)
        if waiting is not None:
            return waiting
        judged = self._judge(step.name, rows)
        if judged.wanted is None or judged.decision is None:
            return self._fail_unjudged(step, rows[-1], judged.failure or "")
        row, wanted, decision = judged.decision.row, judged.wanted, judged.decision
        if step.outcome is Outcome.REFUSE and decision.outcome is Outcome.REPLACE:
            # Another object is in its way.
            decision = replace(decision, outcome=Outcome.REFUSE, reason=Reason.BLOCKED, cause=step.cause)
        if decision.outcome in TAKES:
            # What is replaced counts until it is gone.
            key = f"{row.id} anew" if decision.outcome is Outcome.REPLACE else row.id
            try:
                self.budget.take(key, wanted)
            except RequestLimitExceeded as error:
                return self._fail_unjudged(step, rows[-1], failure_text(step.name, error))
        match decision.outcome:
            case Outcome.KEEP:
                return self._keep(step, row, wanted)
            case Outcome.CREATE:
                return self._create(step, row, wanted)
            case Outcome.CONTINUE:
                return self._resume(Work(step, row, self._made(row, wanted), row.verb, wanted))
            case Outcome.REPLACE:
                log.info("%s is replaced: %s", step.name, decision.cause)
                return self._replace(step, row, wanted, decision.deletes_first)
            case Outcome.UPDATE | Outcome.REBUILD:
                change = Change(
                    decision.changed, decision.before, wanted.properties, row.metadata != wanted.metadata
                )
                return self._update(step, row, wanted, change, decision.outcome is Outcome.REBUILD)
            case Outcome.REFUSE:
                return self._fail(step, row, Verb.UPDATE, f"NotSupported: resources.{row.name}: {decision.cause}")
            case Outcome.RESTRICT:
                return self._restrict(step, row, decision.cause)
            case Outcome.PROTECT:
                return self._spare(step, row, Verb.UPDATE, decision.cause)
            case _:
                raise AssertionError(f"converging never decides to {decision.outcome}")

    def _judge(self, name: str, rows: list[ResourceRecord]) -> Judged:
        return judge(self.definition, name, rows, self._values)

    def _keep(self, step: Step, row: ResourceRecord, wanted: Wanted) -> Work:
        if row.status is Status.FAILED:
            # The type has found the real object healthy.
            row = self._moved(row, row.verb, Status.COMPLETE, STATE_CHANGED)
        if planner.bookkeeping_differs(row, self._definitions[row.name], self.chosen):
            row = self._described(row)
            self._journal.save(row)
        self.chosen[row.name] = row
        return Work(step, row, self._resources.make(row), row.verb, wanted, done=True, silent=True)

    def _create(self, step: Step, row: ResourceRecord, wanted: Wanted) -> Work:
        external_id = self._definitions[row.name].external_id
        if external_id is not None:
            return self._adopt(step, replace(row, external_id=external_id), wanted, {"resource_id": external_id})
        if self.adopted is not None:
            return self._adopt(step, row, wanted, self.adopted.get(row.name))
        row = self._converged(row, wanted, Verb.CREATE, Status.IN_PROGRESS, row.physical_id, row.data)
        return Work(step, row, self._made(row, wanted), Verb.CREATE, wanted, done=not wanted.kind.has("create"))

    def _adopt(self, step: Step, row: ResourceRecord, wanted: Wanted, found: Json) -> Work:
        """Take over the object that `found` tells of; nothing is made (heat-engine §10)."""
        found = found if isinstance(found, dict) and found.get("resource_id") else {}
        row = replace(row, physical_name=str(found.get("physical_name") or row.physical_name))
        data, nested = found.get("resource_data"), issubclass(wanted.kind, StackResource)
        row = self._converged(row, wanted, Verb.ADOPT, Status.IN_PROGRESS, None, data if isinstance(data, dict) else {})
        work = Work(step, row, self._made(row, wanted), Verb.ADOPT, wanted, done=not nested)
        if nested and row.external_id is not None:
            work.failure = f"NotSupported: resources.{row.name}: A nested stack with external_id is not supported."
        elif not found:
            work.failure = f"Exception: resources.{row.name}: Resource ID was not provided."
        elif not nested:
            work.resource.physical_id = str(found["resource_id"])
        return work

    def _check_external(self, work: Work, row: ResourceRecord) -> Work | None:
        """What somebody else made has to be there and well (hot-language §3)."""
        if work.resource.has("check"):
            check = self._begin(work.step, row, Verb.CHECK)
            check.wanted = work.wanted
            return check
        self.chosen[row.name] = self._moved(row, Verb.CHECK, Status.COMPLETE, f"CHECK not supported for {row.type}")
        return None

    def _replace(self, step: Step, row: ResourceRecord, wanted: Wanted, deletes_first: bool) -> Work:
        """Make a new object, or first delete the old one, of which then nothing but the new one is left to be done."""
        if not deletes_first:
            return self._create(step, self._new_row(self._definitions[row.name]), wanted)
        waiting = self._waiting(step, row, PRE_DELETE)
        if waiting is not None:
            waiting.then = wanted
            return waiting
        return self._delete_first(step, row, wanted)

    def _delete_first(self, step: Step, row: ResourceRecord, wanted: Wanted) -> Work:
        work = self._begin(step, row, Verb.DELETE)
        work.looks_first, work.then = True, wanted
        work.resource.facts.users = partial(self._users, row.id)
        return work

    def _goes_first(self, row: ResourceRecord) -> bool:
        """Whether the object of a row goes before there is one that takes its place."""
        return row.name in self._definitions and row.name not in self.chosen

    def _users(self, row_id: str) -> list[Resource[Schema]]:
        """What uses a row whose object is about to go, and can tell in turn what uses it. (From any thread.)

        Of a nested stack that uses it, all that is in it: nobody knows which of that does.
        """
        found = []
        for row in list(self._journal.rows.values()):
            if row_id in row.uses and row.physical_id is not None and row.external_id is None:
                user = self._resources.make(row)
                user.facts.users = partial(self._users, row.id)
                found += [user, *self._resources.members(row)]
        return found

    def _update(
        self, step: Step, row: ResourceRecord, wanted: Wanted, change: Change, rebuilds: bool = False
    ) -> Work:
        cut_off = row.verb is Verb.UPDATE and row.status is Status.IN_PROGRESS
        if not cut_off:
            # Until it has succeeded nobody knows which of them the object uses: the old ones, the new ones, or both.
            new = planner.used_by(self._definitions[row.name], self.chosen)
            row = replace(row, uses=tuple(sorted({*row.uses, *new})))
            if rebuilds:
                # Should it be cut off, nothing else tells why the object had to be made anew.
                row = replace(row, token={"rebuild": True})
            row = self._moved(row, Verb.UPDATE, Status.IN_PROGRESS, STATE_CHANGED)
        resource = self._resources.make(
            row, wanted.properties, wanted.kind, wanted.update_policy, wanted.definition
        )
        # Where only metadata differs, a type that cannot update has nothing to do.
        done = not rebuilds and not wanted.kind.has("update")
        work = Work(step, row, resource, Verb.UPDATE, wanted, change=change, done=done, rebuilds=rebuilds)
        return self._resume(work) if cut_off else work

    def _restrict(self, step: Step, row: ResourceRecord, cause: str) -> Work:
        """Tell that it fails; the row stays as it is, because so does the object (heat-engine §14)."""
        reason = f"ResourceActionRestricted: resources.{row.name}: {cause}"
        failed = replace(row, verb=Verb.UPDATE, status=Status.FAILED, status_reason=reason)
        self._journal.tell(resource_event(failed, self._now()))
        return Work(step, row, self._resources.make(row), Verb.UPDATE, failure=reason, silent=True)

    def _spare(self, step: Step, row: ResourceRecord, verb: Verb, cause: str) -> Work:
        """Tell that it fails because it is protected; the row stays as it is, because so does the object."""
        reason = f"DeletionProtected: resources.{row.name}: {cause}"
        failed = replace(row, verb=verb, status=Status.FAILED, status_reason=reason)
        self._journal.tell(resource_event(failed, self._now()))
        return Work(step, row, self._resources.make(row), verb, failure=reason, silent=True)

    def _made(self, row: ResourceRecord, wanted: Wanted) -> Resource[Schema]:
        return self._resources.make(
            row, kind=wanted.kind, update_policy=wanted.update_policy, definition=wanted.definition
        )

    def _fail_unjudged(self, step: Step, row: ResourceRecord, reason: str) -> Work:
        return self._fail(step, row, Verb.CREATE if row.verb is Verb.INIT else Verb.UPDATE, reason)

    # -- delete, check, suspend, lock … -------------------------------------------------------------

    def begin_delete(self, step: Step) -> Work:
        """Delete the real object unless the policy retains it, then the row."""
        row = self._row_of(step)
        if row.verb is Verb.INIT:
            return Work(step, row, self._resources.make(row), Verb.DELETE, done=True, silent=True)
        keeps = None if self.keeps_objects else self._resources.protected(row)
        if keeps is not None:
            return self._spare(step, row, Verb.DELETE, planner.unremovable(keeps))
        waiting = self._waiting(step, row, waits_at(row) or PRE_DELETE)
        return self._delete(step, row) if waiting is None else waiting

    def _delete(self, step: Step, row: ResourceRecord) -> Work:
        if self.keeps_objects:
            # A nested stack goes: its members are kept.
            retained = not issubclass(self._resources.type_of(row), StackResource)
        else:
            retained = row.deletion_policy.lower() == "retain"
        half_made = row.verb is Verb.CREATE and row.status is not Status.COMPLETE
        work = self._begin(step, row, Verb.DELETE, skip=retained)
        if self._goes_first(row):
            work.resource.facts.users = partial(self._users, row.id)
        work.saves = row.deletion_policy.lower() == "snapshot" and not half_made
        # What a cut-off create has made is known by its name only.
        work.looks_first = True
        return work

    def begin_check(self, step: Step) -> Work:
        """Ask the type whether the real object is well."""
        row = self._row_of(step)
        unmade = row.before_check is not None and row.before_check.verb is Verb.INIT  # and marked nevertheless
        if self._resources.type_of(row).has("check") and not unmade:
            if row.verb is not Verb.CHECK or row.status is not Status.IN_PROGRESS:
                row = check_verdicts.begun(row, self._is_marked(row))
            return self._begin(step, row, Verb.CHECK)
        self.tally.unsupported += 1
        work = Work(step, row, self._resources.make(row), Verb.CHECK, done=True, silent=True)
        if row.status is Status.FAILED:
            # Nobody has looked, so nobody may say that it is well again.
            self._journal.save(replace(row, moved_in=self._resources.phase))
            self.tally.stale.append(row.name)
            work.failure = f"{row.name}: {row.status_reason}"
        else:
            self._moved(row, Verb.CHECK, Status.COMPLETE, f"CHECK not supported for {row.type}")
        return work

    def _is_marked(self, row: ResourceRecord) -> bool:
        """Whether the resource of a nested stack is CHECK_FAILED by a mark on itself."""
        if row.status is not Status.FAILED or not issubclass(self._resources.type_of(row), StackResource):
            return False
        nested = self._resources.nested(row.physical_id)
        return nested is not None and is_marked(row, nested.stack.state_without_lock)

    def begin_snapshot(self, step: Step) -> Work:
        """Save the real object where its type can. What is not well is not saved: nobody could go back to it."""
        row = self._row_of(step)
        if row.verb is Verb.SNAPSHOT or row.status is Status.COMPLETE and row.verb is not Verb.DELETE:
            work = self._begin(step, row, Verb.SNAPSHOT)
            work.save_as = f"{row.physical_name}-{self.snapshot[-12:]}"
            return work
        return self._refuse(step, row, Verb.SNAPSHOT)

    def begin_suspend(self, step: Step) -> Work:
        """Suspend the real object where its type can (heat-engine §2: from which states)."""
        row = self._row_of(step)
        if row.verb is Verb.SUSPEND or row.status is Status.COMPLETE and row.verb is not Verb.DELETE:
            return self._begin(step, row, Verb.SUSPEND)
        return self._refuse(step, row, Verb.SUSPEND)

    def begin_resume(self, step: Step) -> Work:
        """Wake the real object where its type can (heat-engine §2: from which states)."""
        row = self._row_of(step)
        if row.verb is Verb.RESUME or row.verb is Verb.SUSPEND and row.status is Status.COMPLETE:
            return self._begin(step, row, Verb.RESUME)
        hidden = row.state_without_lock.verb in (Verb.CHECK, Verb.SNAPSHOT) and row.status is Status.COMPLETE
        return self._refuse(step, row, Verb.RESUME, ". Suspend the stack once more, then resume it" if hidden else "")

    def _refuse(self, step: Step, row: ResourceRecord, verb: Verb, way_out: str = "") -> Work:
        """The row is in no state from which the operation could begin, and stays in it."""
        text = f"Error: resources.{row.name}: State ('{row.verb}', '{row.status}') invalid for {verb.lower()}{way_out}"
        return Work(step, row, self._resources.make(row), verb, failure=text, silent=True)

    def begin_lock(self, step: Step) -> Work:
        """Lock the real object where its type can; remember the state that the unlock gives back."""
        row = self._row_of(step)
        if row.before_lock is None:
            row = replace(row, before_lock=row.state_without_lock)
        return self._begin(step, row, Verb.LOCK)

    def begin_unlock(self, step: Step) -> Work:
        """Put the real object's lock back to what it was."""
        return self._begin(step, self._row_of(step), Verb.UNLOCK)

    def _begin(self, step: Step, row: ResourceRecord, verb: Verb, skip: bool = False) -> Work:
        """Write the intent; or take up what was cut off. With nothing to call the work is done at once."""
        cut_off = row.verb is verb and row.status is Status.IN_PROGRESS
        if not cut_off:
            row = self._moved(row, verb, Status.IN_PROGRESS, STATE_CHANGED)
        resource = self._resources.make(row)
        work = Work(step, row, resource, verb, done=skip or not resource.has(verb.lower()))
        return self._resume(work) if cut_off else work

    def _resume(self, work: Work) -> Work:
        """Go on from the stored token; without one, look first whether the object is there already."""
        work.looks_first = True
        self.cut_off.discard(work.row.id)
        if work.row.token is not None:
            take_up(work, work.row.token)
        return work

    # -- breakpoints -------------------------------------------------------------------------------

    def _waiting(self, step: Step, row: ResourceRecord, hook: str) -> Work | None:
        """A work that waits at the hook, if that is set; what is to come begins when it has been cleared."""
        if waits_at(row) != hook:
            token = self.breakpoints.reached(hook, row, self._now())
            if token is None:
                return None
            row = replace(row, token=token)
            self._journal.save(row)
            self._tell(row, reached_text(hook))
        return Work(step, row, self._resources.make(row), verb_of(hook), hook=hook)

    def _past(self, work: Work, hook: str) -> Work | None:
        """The wait at a hook is over: go on, unless it was cut short."""
        if work.failure is not None:
            self.end_wait(work.row, work.failure)
            return None
        row = replace(work.row, token=None)
        self._journal.save(row)
        if not self.breakpoints.is_cleared(hook, row):
            self._tell(row, expired_text(hook))
        if hook == "post-delete":
            self._deleted(row)
        elif hook == PRE_DELETE:
            return self._delete(work.step, row) if work.then is None else self._delete_first(work.step, row, work.then)
        elif hook in ("pre-create", "pre-update"):
            return self.begin_converge(work.step)
        else:
            self.chosen[row.name] = row
        return None

    def end_wait(self, row: ResourceRecord, reason: str) -> None:
        """Nobody waits any longer for the hook of a row to be cleared."""
        row = replace(row, token=None)
        self._journal.save(row)
        self._tell(row, reason)
        if row.verb is Verb.DELETE and row.status is Status.COMPLETE:
            self._deleted(row)

    def _deleted(self, row: ResourceRecord) -> None:
        """The row is no longer needed, unless the end of the stack's deletion has to tell of it."""
        if self._resources.stack.verb is not Verb.DELETE or not self.left_behind(row):
            self._journal.delete(row)

    def left_behind(self, row: ResourceRecord) -> list[str]:
        """What there still is of the row's object, once its stack is gone: ``db (OS::Trove::Instance, id)``."""
        if row.status_reason.startswith(LEFT):
            return [f"{row.name}.{left}" for left in row.status_reason[len(LEFT) :].split("; ")]
        gone = row.verb is Verb.DELETE and row.status is Status.COMPLETE and row.deletion_policy.lower() != "retain"
        if gone or row.verb is Verb.INIT or self.keeps_objects:
            return []
        return [f"{row.name} ({row.type}, {row.physical_id or row.physical_name})"]

    def forget(self, row: ResourceRecord) -> None:
        """Drop the row; whatever there is of its object is nobody's from now on."""
        self._journal.delete(row)

    def _tell(self, row: ResourceRecord, reason: str) -> None:
        """An event about a row whose state stays as it is."""
        self._journal.tell(resource_event(replace(row, status_reason=reason), self._now()))

    # -- nested stacks -----------------------------------------------------------------------------

    @property
    def definition(self) -> Definition:
        """While converging: what the stack is to be."""
        assert self._definition is not None
        return self._definition

    def note_order(self, work: Work, stack_id: str) -> None:
        """Write what the work now waits for, and its nested stack's id."""
        resource = work.resource
        resource.physical_id = stack_id
        if not work.silent:
            work.row = replace(
                work.row, token={"token": work.token}, physical_id=stack_id, data=dict(resource.data)
            )
            self._journal.save(work.row)

    def begin_nested(self, step: Step) -> Work:
        """Pass a lock or an unlock that touches no resource on to a nested stack; the resource stays as it is."""
        row = self._row_of(step)
        verb = Verb.LOCK if step.outcome is Outcome.LOCK else Verb.UNLOCK
        return Work(step, row, self._resources.make(row), verb, silent=True)

    # -- going on and ending -----------------------------------------------------------------------

    def note_progress(self, work: Work) -> bool:
        """Write what the handler keeps, if that is new. Tell whether what comes next must wait for the commit."""
        row, resource = work.row, work.resource
        if not work.handled:
            # It has looked around, or could not reach its service: it is to be called again, after a crash too.
            if row.data == resource.data:
                return False
            work.row = replace(row, data=dict(resource.data))
            self._journal.save(work.row)
            return True
        first = row.token is None or "token" not in row.token
        if first or row.data != resource.data or row.physical_id != resource.physical_id:
            work.row = replace(
                row,
                token={**(row.token or {}), "token": work.token},
                data=dict(resource.data),
                physical_id=resource.physical_id,
            )
            self._journal.save(work.row)
        return first

    def finish(self, work: Work) -> Work | None:
        """Write how a work has ended. What has to come at once, before anything that waits for it, is a new work."""
        if work.hook is not None:
            return self._past(work, work.hook)
        if work.silent:
            if work.verb is Verb.DELETE and work.failure is None:
                self._journal.delete(work.row)
            return None
        again = self._again(work)
        if again is not None:
            return again
        physical_id, data = work.resource.physical_id, dict(work.resource.data)
        if work.wanted is not None and work.done and work.failure is None:
            row = self._converged(work.row, work.wanted, work.verb, Status.COMPLETE, physical_id, data)
            if work.verb is Verb.ADOPT and row.external_id is not None:
                return self._check_external(work, row)
            self.chosen[row.name] = row
            return self._waiting(work.step, row, f"post-{work.verb.lower()}")
        row = replace(work.row, physical_id=physical_id, data=data, token=None)
        if work.wants_replacement and work.wanted is not None:
            # The object is as it was; so is its row, apart from the attempt.
            row = self._moved(row, Verb.UPDATE, Status.COMPLETE, "replacement asked for by the type")
            if Outcome.REPLACE in self.definition.environment.restricted_actions(row.name):
                cause = ResourceActionRestricted(action=Outcome.REPLACE.value).message
                work.failure = self._restrict(work.step, row, cause).failure
                return None
            keeps = self._resources.protected(row)
            if keeps is not None:
                cause = f"its type asks to replace it, but {keeps.text}"
                work.failure = self._spare(work.step, row, Verb.UPDATE, cause).failure
                return None
            try:
                first = deletes_first(collect(row, work.wanted, self._resources, self.chosen))
            except HeatliteError as error:
                work.failure = failure_text(row.name, error)
            else:
                return self._replace(work.step, row, work.wanted, first)
        if work.verb is Verb.CHECK and row.health is not None and row.health.before is not None:
            self._checked(work, row)
            return None
        if work.failure is not None:
            self._moved(row, work.verb, Status.FAILED, work.failure)
            return None
        if work.verb is Verb.DELETE:
            row = self._moved(row, work.verb, Status.COMPLETE, work.note or STATE_CHANGED)
            waiting = self._waiting(work.step, row, "post-delete")
            if waiting is not None:
                return waiting
            self._deleted(row)
            if work.then is not None:
                return self._create(work.step, self._successor(row, work.then.replacement.name == KEEP), work.then)
            if self._goes_first(row):
                self._successor(row, work.step.keeps_name)
        elif work.verb is Verb.UNLOCK:
            self._unlocked(row, work.note)
        else:
            self._moved(row, work.verb, Status.COMPLETE, work.note or STATE_CHANGED)
        return None

    def _checked(self, work: Work, row: ResourceRecord) -> None:
        """Write the result of a check. One without a result leaves the row as it was."""
        if work.below is not None:
            self.tally.add_nested(row.name, work.below)
        elif work.unknown:
            self.tally.add_unknown(work.unknown)
        elif work.failure is not None:
            self.tally.unhealthy += 1
            self.tally.names.append(row.name)
        else:
            self.tally.healthy += 1
        if work.unknown and work.failure is not None:
            self._unseen(row, work.failure)
        elif work.failure is not None:
            self._moved(replace(row, health=None), Verb.CHECK, Status.FAILED, work.failure)
        else:
            self._moved(replace(row, health=None), Verb.CHECK, Status.COMPLETE, work.note or STATE_CHANGED)

    def _unseen(self, row: ResourceRecord, reason: str) -> bool:
        """Write that a check has found out nothing; False where the row is in no check."""
        now = self._now()
        before = check_verdicts.unseen(row, reason, now)
        if before is None:
            return False
        self._journal.save(replace(before, moved_in=self._resources.phase))
        self._journal.tell(resource_event(check_verdicts.told(row, reason), now))
        return True

    # -- other attempts ----------------------------------------------------------------------------

    def _again(self, work: Work) -> Work | None:
        """What comes before another attempt, or that attempt; None where there is none to be."""
        row = replace(work.row, physical_id=work.resource.physical_id, data=dict(work.resource.data))
        if work.failure is None:
            if not work.clears:
                return None
            self._tell_state(row, Verb.DELETE, Status.COMPLETE, STATE_CHANGED)
            return self._wait(work, replace(row, physical_id=None, data={}))
        if not work.passes or work.attempts >= self._retry_limit:
            if work.clears:
                work.failure = f"{row.status_reason}; and what it has left cannot be removed: {work.failure}"
            return None
        work.attempts += 1
        if work.verb is Verb.DELETE or work.clears:
            return self._wait(work, row)
        self._tell_state(row, Verb.CREATE, Status.FAILED, work.failure)
        row = replace(row, status_reason=work.failure)
        if not work.resource.has("delete"):
            return self._wait(work, replace(row, physical_id=None, data={}))
        self._tell_state(row, Verb.DELETE, Status.IN_PROGRESS, STATE_CHANGED)
        return self._next(work, row, clears=True)

    def _wait(self, work: Work, row: ResourceRecord) -> Work:
        """The next attempt, which begins after a while."""
        starts_at = self._now() + back_off(work.attempts)
        clears = work.clears and work.failure is not None
        if work.verb is Verb.CREATE and not clears:
            text = f"Attempt {work.attempts + 1} of {self._retry_limit + 1}, after: {row.status_reason}"
            self._tell_state(row, Verb.CREATE, Status.IN_PROGRESS, text)
        return self._next(work, row, clears, starts_at)

    def _next(self, work: Work, row: ResourceRecord, clears: bool, starts_at: float | None = None) -> Work:
        """The same work anew."""
        kind = None if work.wanted is None else work.wanted.kind
        resource = self._resources.make(row, kind=kind)
        again = Work(
            work.step, row, resource, work.verb, work.wanted, attempts=work.attempts, clears=clears, starts_at=starts_at
        )
        again.looks_first, again.then = True, work.then
        resource.facts.users = work.resource.facts.users
        again.row = replace(row, token=kept(again))
        self._journal.save(again.row)
        return again

    def _tell_state(self, row: ResourceRecord, verb: Verb, status: Status, reason: str) -> None:
        """The event of a state that the row only passes through."""
        self._tell(replace(row, verb=verb, status=status), reason)

    def fail(self, row: ResourceRecord, reason: str) -> None:
        """Write that what the row had begun has failed; a check that is cut short has found out nothing."""
        if row.verb is Verb.CHECK and self._unseen(row, reason):
            return
        self._moved(replace(row, token=None), row.verb, Status.FAILED, reason)

    def _unlocked(self, row: ResourceRecord, note: str) -> None:
        """A failed or suspended resource is so again; all others end UNLOCK_COMPLETE (decision 0021)."""
        before = row.before_lock
        if before is not None and (before.status is not Status.COMPLETE or before.verb is Verb.SUSPEND):
            row = replace(row, before_lock=None)
            if note:
                self._tell_state(row, Verb.UNLOCK, Status.COMPLETE, note)
            self._moved(row, before.verb, before.status, before.status_reason)
        else:
            self._moved(row, Verb.UNLOCK, Status.COMPLETE, note or STATE_CHANGED)

    def _fail(self, step: Step, row: ResourceRecord, verb: Verb, reason: str) -> Work:
        """A work that fails before its handler is called."""
        row = self._moved(row, verb, Status.IN_PROGRESS, STATE_CHANGED)
        return Work(step, row, self._resources.make(row), verb, failure=reason)

    # -- rows --------------------------------------------------------------------------------------

    def _row_of(self, step: Step) -> ResourceRecord:
        assert step.row is not None
        return self._journal.rows[step.row.id]

    def _new_row(self, definition: ResourceDefinition, physical_name: str | None = None) -> ResourceRecord:
        """A row for an object that does not exist yet. Its physical name is fixed here, for good: `physical_name`,
        or a new one."""
        identifier = new_id()
        row = ResourceRecord(
            id=identifier,
            stack_id=self._resources.stack.id,
            name=definition.name,
            type=definition.type,
            mapped_type=definition.mapped_type,
            verb=Verb.INIT,
            status=Status.COMPLETE,
            status_reason="",
            created_at=self._now(),
            physical_name=physical_name or self._resources.physical_name(definition, identifier),
            requires=tuple(sorted(definition.requires)),
            deletion_policy=definition.deletion_policy,
            description=definition.description,
        )
        self._journal.insert(row)
        return row

    def _successor(self, row: ResourceRecord, keeps_name: bool) -> ResourceRecord:
        """A row for what takes the place of an object that is gone, maybe under its physical name."""
        return self._new_row(self._definitions[row.name], row.physical_name if keeps_name else None)

    def _described(self, row: ResourceRecord) -> ResourceRecord:
        """The row with what only heatlite itself looks at: type as written, dependencies, policy, description."""
        definition = self._definitions[row.name]
        return replace(
            row,
            type=definition.type,
            requires=tuple(sorted(definition.requires)),
            uses=planner.used_by(definition, self.chosen),
            deletion_policy=definition.deletion_policy,
            description=definition.description,
        )

    def _converged(
        self,
        row: ResourceRecord,
        wanted: Wanted,
        verb: Verb,
        status: Status,
        physical_id: str | None,
        data: JsonMap,
    ) -> ResourceRecord:
        """Write the row as its definition wants it, in a new state, and the event. One copy: a copy is what costs."""
        definition, now = self._definitions[row.name], self._now()
        row = replace(
            row,
            type=definition.type,
            requires=tuple(sorted(definition.requires)),
            uses=planner.used_by(definition, self.chosen),
            deletion_policy=definition.deletion_policy,
            description=definition.description,
            properties=wanted.properties,
            metadata=wanted.metadata,
            verb=verb,
            status=status,
            status_reason=STATE_CHANGED,
            updated_at=now,
            physical_id=physical_id,
            data=data,
            token=None,
            before_lock=None,
            before_check=None,
            health=row.health if status is Status.IN_PROGRESS else None,
            moved_in=self._resources.phase,
        )
        return self._told(row, now)

    def _moved(self, row: ResourceRecord, verb: Verb, status: Status, reason: str) -> ResourceRecord:
        """Write a new state and its event."""
        now = self._now()
        return self._told(row_moved(row, verb, status, reason, now, self._resources.phase), now)

    def _told(self, row: ResourceRecord, now: float) -> ResourceRecord:
        self._journal.save(row)
        self._journal.tell(resource_event(row, now))
        return row
