"""Makes revisions, in the transaction that queues what they are of."""

from collections.abc import Sequence

from heatlite.api.components import Components
from heatlite.core.json import as_map
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.admission.claims import NewDefinition
from heatlite.engine.execution.final_state import rollback_target
from heatlite.engine.state.definitions import EMPTY_TEMPLATE
from heatlite.feature import is_active
from heatlite.features.revisions.store.records import RevisionRecord, RevisionSummary
from heatlite.features.revisions.store.store import RevisionStore
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.stacks.templates import Templates

KEPT = 20
"""Revisions that are kept without the feature `change_policy`."""
PER_REMOVAL = 10
"""Revisions of a stack that are made per removal of old ones."""
DEFINES = frozenset({Verb.CREATE, Verb.ADOPT, Verb.UPDATE, Verb.RESTORE})
"""Verbs of actions that lead to a definition."""
MAKES = frozenset({Verb.CREATE, Verb.ADOPT})


class Keeping:
    """Makes revisions. Get it by `Components.of`."""

    def __init__(self, core: Components) -> None:
        self._store = core.store
        self._settings = core.settings
        self._revisions = core.store.of(RevisionStore)
        self._has_policies = is_active(core.settings, "change_policy")

    def of_stack(self, stack: StackRecord) -> list[RevisionSummary]:
        """Return the revisions of a root stack, newest first.

        Those that are not stored are whole records: `keep` stores them. They are definitions from before the stack had
        revisions, or from a time with the feature off.
        """
        return [*_unstored(stack, self._revisions.last(stack.id)), *self._revisions.of_stack(stack.id)]

    def keep(self, given: NewDefinition) -> None:
        """Make the revision of an operation; every tenth time remove old ones.

        Definitions of the stack that no revision has become revisions first.
        """
        stack, action = given.stack, given.action
        last = [] if given.before is None else self._revisions.last(stack.id)
        missed = [] if given.before is None else _unstored(given.before, last)
        earlier = [*missed, *last]
        number = earlier[0].number + 1 if earlier else 1
        new = [*reversed(missed)]
        new.append(
            RevisionRecord(
                number=number,
                requested_by=action.requested_by,
                created_at=action.created_at,
                action_id=action.id,
                plan_digest=given.plan_digest,
                result=None,
                operation=action.inputs.operation,
                undo_of=_undone(action),
                tags=stack.tags,
                timeout_mins=stack.timeout_mins,
                disable_rollback=stack.disable_rollback,
                stack_id=stack.id,
                template_id=stack.template_id,
                environment=stack.environment,
            )
        )
        self._revisions.insert(new)
        if number % PER_REMOVAL == 0:
            reached = next((one.number for one in earlier if one.is_reached), 0)
            self._revisions.delete(stack.id, number - self._most(stack), reached)

    def _most(self, stack: StackRecord) -> int:
        """Return the number of revisions to keep of a stack."""
        if not self._has_policies:
            return KEPT
        from heatlite.features.change_policy.effective import effective

        return effective(self._store, self._settings, stack.project, stack.id).policy.revisions

    def reach(self, retry: ActionRecord) -> None:
        """Note that a retry on a root stack has reached the newest definition."""
        if retry.verb not in DEFINES or retry.stack_id != retry.root_id or retry.inputs.heal is not None:
            return
        stack = self._store.stacks.get(retry.stack_id)
        for one in self.of_stack(stack)[:1] if stack is not None else ():
            self._revisions.reach(retry.stack_id, one.number)


def _revision(stack: StackRecord, number: int, at: float, result: ActionStatus | None) -> RevisionRecord:
    """Return the definition of a stack as a revision without an action."""
    return RevisionRecord(
        number=number,
        requested_by=stack.username,
        created_at=at,
        action_id=None,
        plan_digest=None,
        operation=None,
        undo_of=None,
        result=result,
        tags=stack.tags,
        timeout_mins=stack.timeout_mins,
        disable_rollback=stack.disable_rollback,
        stack_id=stack.id,
        template_id=stack.template_id,
        environment=stack.environment,
    )


def _result(stack: StackRecord) -> ActionStatus | None:
    """Return the end of the operation that gave a stack its definition; None: it runs."""
    verb, status = stack.state_without_lock
    if (status is Status.COMPLETE or verb not in MAKES) and stack.previous_template_id is None:
        return ActionStatus.SUCCEEDED
    return None if status is Status.IN_PROGRESS else ActionStatus.FAILED


def _unstored(stack: StackRecord, last: Sequence[RevisionRecord]) -> Sequence[RevisionRecord]:
    """Return the definitions of a stack that are not stored, newest first.

    `last` are its revisions of `RevisionStore.last`.
    """
    # A rollback restores no options.
    has_options = len(last) > 1 or any(_options(one) == _options(stack) for one in last)
    if has_options and any(_defines(one, stack) for one in last):
        return ()
    number, target = last[0].number + 1 if last else 1, rollback_target(stack)
    found: list[RevisionRecord] = []
    if target is not stack and not _is_nothing(target) and not any(_defines(one, target) for one in last):
        found = [_revision(target, number, stack.created_at, ActionStatus.SUCCEEDED)]
    given_at = stack.updated_at or stack.created_at
    return [_revision(stack, number + len(found), given_at, _result(stack)), *found]


def _defines(revision: RevisionRecord, stack: StackRecord) -> bool:
    """Return True if a stack has the template and the environment of a revision."""
    return (revision.template_id, revision.environment) == (stack.template_id, stack.environment)


def _options(one: RevisionRecord | StackRecord) -> tuple[object, ...]:
    return one.tags, one.timeout_mins, one.disable_rollback


def _is_nothing(stack: StackRecord) -> bool:
    """Return True for what the rollback of a create restores."""
    return stack.template_id == Templates.address(EMPTY_TEMPLATE, {})


def _undone(action: ActionRecord) -> int | None:
    """Return the number of the revision that an undo goes back to."""
    number = as_map(as_map(action.inputs.request).get("undo")).get("to")
    return number if isinstance(number, int) else None
