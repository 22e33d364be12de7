"""Undos: updates to the definition of an earlier revision."""

from collections.abc import Sequence

from msgspec.structs import replace

from heatlite.api.components import Components
from heatlite.core.context import Context
from heatlite.core.errors import HTTPBadRequest
from heatlite.core.json import JsonMap
from heatlite.core.wire.guards import Guarded
from heatlite.engine.state.requests import ShownPlan, StackRequest
from heatlite.features.revisions.errors import NothingToUndo, RevisionNotFound
from heatlite.features.revisions.keeping import Keeping
from heatlite.features.revisions.store.records import RevisionRecord, RevisionSummary
from heatlite.features.revisions.store.store import RevisionStore
from heatlite.store.records import StackRecord


class UndoRequest(Guarded, frozen=True):
    """The revision to go back to."""

    to: int | None = None
    """Number of the revision. Default: the newest one before the present one that has reached COMPLETE."""
    plan_digest: str | None = None
    """Digest of an approved plan. If the plan is another one now, the answer is 409 ``PlanChanged``."""


class Revisions:
    """Finds revisions, and goes back to them. Get it by `Components.of`."""

    def __init__(self, core: Components) -> None:
        self._stacks = core.stacks
        self._store = core.store
        self._revisions = core.store.of(RevisionStore)
        self._keeping = core.of(Keeping)

    def of_stack(self, stack: StackRecord) -> list[RevisionSummary]:
        """Return the revisions of a root stack, newest first.

        Raises HTTPBadRequest for a nested one.
        """
        if stack.root_id is not None:
            root = self._store.stacks.name_of(stack.root_id)
            raise HTTPBadRequest(f"Stack {stack.name} is nested, so it has no revisions. Name its root, {root}.")
        return self._keeping.of_stack(stack)

    def get(self, stack: StackRecord, number: int) -> RevisionRecord:
        """Return a revision of a root stack. Raises RevisionNotFound, HTTPBadRequest."""
        return self._whole(stack, number, self.of_stack(stack))

    def before(self, stack: StackRecord, number: int) -> RevisionRecord:
        """Return the revision before another one. Raises RevisionNotFound."""
        found = self.of_stack(stack)
        return self._whole(stack, next((one.number for one in found if one.number < number), number - 1), found)

    def undo(self, context: Context, stack: StackRecord, asked: UndoRequest, body: JsonMap) -> None:
        """Begin an update to an earlier definition.

        `body` is the request, for a replay after a lock. Raises RevisionNotFound, NothingToUndo, and as
        `Stacks.update`.
        """
        request = replace(self._request(self._target(stack, asked), asked), body=body)
        self._stacks.update(context, stack, request, existing=False)

    def plan(self, context: Context, stack: StackRecord, asked: UndoRequest) -> ShownPlan:
        """Return the plan of `undo`. Raises as it does."""
        target = self._target(stack, asked)
        plan = self._stacks.preview_update(context, stack, self._request(target, asked), existing=False, plan=True).plan
        assert plan is not None
        return replace(plan, details={**plan.details, "to": target.number})

    def _target(self, stack: StackRecord, asked: UndoRequest) -> RevisionRecord:
        found = self.of_stack(stack)
        number = asked.to
        if number is None:
            number = next((one.number for one in found[1:] if one.is_reached), None)
        if number is None:
            raise NothingToUndo(stack_name=stack.name)
        return self._whole(stack, number, found)

    def _whole(self, stack: StackRecord, number: int, found: Sequence[RevisionSummary]) -> RevisionRecord:
        """Return one of the revisions found with its content."""
        for one in found:
            if one.number == number:
                whole = one if isinstance(one, RevisionRecord) else self._revisions.get(stack.id, number)
                if whole is not None:
                    return whole
        there_are = f"There are: {', '.join(str(one.number) for one in reversed(found))}."
        raise RevisionNotFound(stack_name=stack.name, number=number, there_are=there_are)

    def _request(self, revision: RevisionRecord, asked: UndoRequest) -> StackRequest:
        """Return the request whose PUT gives a stack the definition of a revision."""
        template = self._store.templates.get(revision.template_id)
        options: JsonMap = {"to": revision.number, **asked.further}
        if asked.plan_digest is not None:
            options["plan_digest"] = asked.plan_digest
        return StackRequest(
            template=template.document,
            files=template.files,
            environment=revision.environment,
            tags=revision.tags,
            timeout_mins=revision.timeout_mins or 0,
            disable_rollback=revision.disable_rollback,
            plan_digest=asked.plan_digest,
            further=asked.further,
            action={"undo": options},
        )
