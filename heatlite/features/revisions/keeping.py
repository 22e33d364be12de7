"""Makes revisions, in the transaction that queues what they are of."""

from collections.abc import Iterator, Sequence

from heatlite.api.components import Components
from heatlite.core.ids import new_id
from heatlite.core.json import as_map
from heatlite.core.status import ActionStatus, Status, Verb
from heatlite.engine.admission.claims import NewDefinition
from heatlite.feature import is_active
from heatlite.features.revisions.store.records import RevisionRecord, RevisionSummary
from heatlite.features.revisions.store.store import RevisionStore
from heatlite.store.records import ActionRecord, StackRecord

LEAST_KEPT = 2
"""Revisions of a stack that are kept in any case."""
KEPT = 20
"""Revisions that are kept without the feature `change_policy`."""
DEFINES = frozenset({Verb.CREATE, Verb.ADOPT, Verb.UPDATE, Verb.RESTORE})
"""Verbs of actions that lead to a definition."""
MAKES = frozenset({Verb.CREATE, Verb.ADOPT})


class Keeping:
    """Makes revisions, and notes their ends. Get it by `Components.of`."""

    def __init__(self, core: Components) -> None:
        self._store = core.store
        self._settings = core.settings
        self._revisions = core.store.of(RevisionStore)
        self._has_policies = is_active(core.settings, "change_policy")

    def keep(self, given: NewDefinition) -> None:
        """Make the revision of an operation, and remove those that are too many.

        The definition that a stack had before it had revisions becomes revision 1.
        """
        stack, action = given.stack, given.action
        earlier: Sequence[RevisionSummary] = () if given.before is None else self._revisions.of_stack(stack.id)
        new = []
        if given.before is not None and not earlier:
            earlier = new = [found(given.before)]
        new.append(
            RevisionRecord(
                id=new_id(),
                number=earlier[0].number + 1 if earlier else 1,
                requested_by=action.requested_by,
                created_at=action.created_at,
                action_id=action.id,
                plan_digest=given.plan_digest,
                result=action.status if action.status is ActionStatus.SUCCEEDED else None,
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
        if len(earlier) >= LEAST_KEPT:
            self._revisions.delete([one.id for one in _beyond(earlier, self._most(stack) - 1)])

    def _most(self, stack: StackRecord) -> int:
        """Return the number of revisions to keep of a stack."""
        if not self._has_policies:
            return KEPT
        from heatlite.features.change_policy.effective import effective

        return effective(self._store, self._settings, stack.project, stack.id).policy.revisions

    def end(self, action: ActionRecord, after: ActionStatus) -> None:
        """Note the end of an action on a root stack.

        A retry that succeeds has reached the newest definition.
        """
        if action.verb not in DEFINES or action.stack_id != action.root_id or action.inputs.heal is not None:
            return
        if not action.inputs.retry:
            self._revisions.end(action.stack_id, action.id, after)
        elif after is ActionStatus.SUCCEEDED:
            for one in self._revisions.of_stack(action.stack_id)[:1]:
                self._revisions.reach(one.id)


def found(stack: StackRecord) -> RevisionRecord:
    """Return the first revision of a stack that had none."""
    verb, status = stack.state_without_lock
    is_made = status is Status.COMPLETE or verb not in MAKES
    is_reached = is_made and stack.previous_template_id is None
    return RevisionRecord(
        id=new_id(),
        number=1,
        requested_by=stack.username,
        created_at=stack.updated_at or stack.created_at,
        action_id=None,
        plan_digest=None,
        undo_of=None,
        result=ActionStatus.SUCCEEDED if is_reached else ActionStatus.FAILED,
        tags=stack.tags,
        timeout_mins=stack.timeout_mins,
        disable_rollback=stack.disable_rollback,
        stack_id=stack.id,
        template_id=stack.template_id,
        environment=stack.environment,
    )


def _undone(action: ActionRecord) -> int | None:
    """Return the number of the revision that an undo goes back to."""
    number = as_map(as_map(action.inputs.request).get("undo")).get("to")
    return number if isinstance(number, int) else None


def _beyond(earlier: Sequence[RevisionSummary], most: int) -> Iterator[RevisionSummary]:
    """Yield the revisions to remove.

    The newest `most` stay, and the last one that was reached.
    """
    reached = next((one.id for one in earlier if one.is_reached), None)
    return (one for one in earlier[most:] if one.id != reached)
