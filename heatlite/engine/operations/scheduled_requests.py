"""Updates, deletes and changes of groups that were requested for a later time.

An INIT action keeps the request. At its time the author's rights are asked again, and the request is carried out as if
it came then. The action that it enqueues takes the place of the INIT one, in the same transaction.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING

from msgspec import Struct, convert, to_builtins
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, ActionInputs, AwaitedApproval
from heatlite.core.context import Context, Scheduled
from heatlite.core.errors import HeatliteError, NotSupported, PlanChanged
from heatlite.core.json import AnyMap, JsonMap, as_texts
from heatlite.core.redaction.masking import Mask
from heatlite.core.status import Verb
from heatlite.engine.admission.admission import NO_OPTIONS, Admission
from heatlite.engine.admission.caller_context import restore_context
from heatlite.engine.admission.claims import PreparedRequest, ask_ahead
from heatlite.engine.admission.preparation import Preparation
from heatlite.engine.operations import asked
from heatlite.engine.operations.groups import Groups, later_change
from heatlite.engine.operations.scheduled_actions import ScheduledActions
from heatlite.engine.operations.stacks import Stacks
from heatlite.engine.preview.deletion import Deletions
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.group_requests import (
    POLICY_REQUESTS,
    DeleteMembers,
    FollowTemplate,
    JoinRequest,
    Leave,
    NewLimits,
    ResizeRequest,
    ScaleIn,
    ScaleOut,
    SizeRequest,
    body_of,
)
from heatlite.engine.state.requests import Later, Reach, StackAction, StackRequest
from heatlite.store.records import ActionRecord, StackRecord
from heatlite.store.store import Store

if TYPE_CHECKING:
    from heatlite.engine.operations.membership.joining import Joins
    from heatlite.engine.operations.membership.leaving import Leaving
    from heatlite.engine.operations.membership.policies import GroupPolicies
    from heatlite.engine.operations.snapshots import Snapshots

UPDATE, DELETE, REPLACE_MEMBERS = "update", "delete", "replace_members"
RULES: Mapping[str, Sequence[str]] = {
    UPDATE: ("actions:update", "stacks:update_patch"),
    DELETE: ("actions:delete", "stacks:delete"),
    asked.PUT: ("stacks:update",),
    asked.PATCH: ("stacks:update_patch",),
    asked.REMOVE: ("stacks:delete",),
    asked.RESTORE: ("stacks:restore_snapshot",),
}
"""By key, the rules of the requests. Those of others are ``actions:<key>``."""
PLAN_DIGEST = "plan_digest"
COOLS = frozenset({"scale_in", "scale_out"})
"""Those that a cooldown refuses."""
LISTS = frozenset({"environment_files", "clear_parameters", "tags"})
"""Those that are lists."""


class Operations(Struct, frozen=True):
    """Operations that few requests begin, each made at its first use."""

    snapshots: "Callable[[], Snapshots]"
    joins: "Callable[[], Joins]"
    leaving: "Callable[[], Leaving]"
    policies: "Callable[[], GroupPolicies]"
    of_features: Callable[[], Mapping[str, StackAction]]
    """Actions on stacks, by the key of the body."""


class ScheduledRequests:
    """Keeps requests until their time, and carries them out then."""

    def __init__(
        self,
        store: Store,
        scheduled_actions: ScheduledActions,
        admission: Admission,
        preparation: Preparation,
        stacks: Stacks,
        groups: Groups,
        others: Operations,
        author_now: Callable[[Context, StackRecord], Context],
    ) -> None:
        """`author_now` returns the author of stored work with the present rights."""
        self._others = others
        self._store = store
        self._scheduled_actions = scheduled_actions
        self._admission = admission
        self._preparation = preparation
        self._stacks = stacks
        self._groups = groups
        self._author_now = author_now

    def update(self, context: Context, stack: StackRecord, request: StackRequest, not_before: float) -> None:
        """Schedule an update (PATCH) whose plan has the digest that the request names.

        Files and templates behind addresses are fetched now. Raises PlanChanged, and as `ScheduledActions.held` and
        `Stacks.preview_update`.
        """
        context.require(RULES[UPDATE][-1])
        request = self._preparation.complete(stack.project, request)
        plan = self._stacks.preview_update(context, stack, request, existing=True, plan=True).plan
        if plan is None or plan.digest != request.plan_digest:
            raise PlanChanged(stack_name=stack.name)
        inputs = ActionInputs(converge=request.converge, digest=plan.digest)
        definition = self._preparation.changed(stack, request, existing=True).definition
        later = Later(UPDATE, options=asked.options_of_update(request), hidden=definition.secrets())
        self._keep(context, stack, Verb.UPDATE, inputs, later, not_before)

    def delete(self, context: Context, stack: StackRecord, not_before: float) -> None:
        """Schedule the deletion of a stack.

        Raises Forbidden, and as `ScheduledActions.held`.
        """
        context.require(RULES[DELETE][-1])
        self._admission.require_types(context, Operation.DELETE, stack)
        self._keep(context, stack, Verb.DELETE, ActionInputs(), Later(DELETE), not_before)

    def change(
        self, context: Context, stack: StackRecord, name: str, request: SizeRequest, not_before: float
    ) -> ActionRecord:
        """Schedule a change of a group's size. Returns the action.

        Limits and cooldown count at its time. Raises ResourceNotFound, HTTPBadRequest, Forbidden, and as
        `ScheduledActions.held`.
        """
        group = self._groups.group(stack, name)
        self._admission.require_types(context, request.operation, stack)
        inputs = convert(body_of(request), ActionInputs)
        return self._keep(context, stack, Verb.UPDATE, inputs, later_change(group.name, request), not_before)

    def replace_members(
        self, context: Context, stack: StackRecord, name: str, members: Sequence[str], not_before: float
    ) -> ActionRecord:
        """Schedule the replacement of members of a group. Returns the action.

        Raises InvalidValue for members that are not there now, and as `change`.
        """
        _, selection, _ = self._groups.asked_replacement(context, stack, name, members)
        self._admission.require_types(context, Operation.HEAL, stack)
        later = Later(REPLACE_MEMBERS, resource=name, options={"members": [*members]})
        return self._keep(context, stack, Verb.UPDATE, ActionInputs(heal=selection), later, not_before)

    def _keep(
        self,
        context: Context,
        stack: StackRecord,
        verb: Verb,
        inputs: ActionInputs,
        later: Later,
        not_before: float,
    ) -> ActionRecord:
        self._check_author(self._author_now(context, stack), later)
        action = self.new_action(context, stack, verb, later, inputs, not_before)
        if context.options:
            ask_ahead(self._admission.examiners(), replace(self._asked(context, stack, later), action=action))
        with self._store.transaction():
            self._scheduled_actions.held(stack, not_before)
            return self._scheduled_actions.keep(context, action, not_before)

    def _asked(self, context: Context, stack: StackRecord, later: Later) -> PreparedRequest:
        """Return a request for a later time, as features examine it now."""
        match later.key:
            case "update":
                return self._stacks.asked_update(context, stack, _request(later.options), existing=True)
            case "delete":
                reader = self._stacks.reader
                return asked.deletion(reader, Deletions(self._store, reader), context, stack, False)
            case "replace_members":
                members = later.options["members"]
                return self._groups.asked_replacement(context, stack, later.resource, members)[2]
            case key:
                # Cooldown counts at its time.
                free = {"ignore_cooldown": True} if key in COOLS else {}
                group = self._groups.group(stack, later.resource)
                request = _size(key, {**later.options, **free})
                changed = self._groups.asked_change(context, stack, group, self._groups.members_of(group), request)
                return replace(changed, content=lambda: body_of(_size(key, later.options)))

    def ask_again(self, action: ActionRecord, stack: StackRecord) -> None:
        """Compare the plan of a scheduled request with that of its approval.

        Call it for a decision. Raises PlanChanged if it is another one by now, and as `begin`.
        """
        author, later = self._author_of(action, stack)
        ask_ahead(self._admission.examiners(), replace(self._asked(author, stack, later), action=action))

    def new_action(
        self,
        context: Context,
        stack: StackRecord,
        verb: Verb,
        later: Later,
        inputs: ActionInputs = NO_OPTIONS,
        not_before: float | None = None,
    ) -> ActionRecord:
        """Return an INIT action that keeps a request. Nothing is written."""
        action = self._admission.new_action(context, stack, verb, inputs)
        return replace(action, request=to_builtins(replace(later, query=context.options)), not_before=not_before)

    def await_approval(
        self, context: Context, stack: StackRecord, action: ActionRecord, approval: AwaitedApproval, reason: str
    ) -> ActionRecord:
        """Store an INIT action that waits for an approval.

        Without a time `begin` carries it out. Returns the action. Call in a transaction. Raises Forbidden,
        StackNotFound, RequestLimitExceeded, HTTPBadRequest for a time in the past.
        """
        later = convert(action.request, Later)
        self._check_author(self._author_now(context, stack), later)
        if action.not_before is None:
            self._scheduled_actions.free(stack)
        else:
            self._scheduled_actions.held(stack, action.not_before)
            # The approval names the plan.
            options = {key: value for key, value in later.options.items() if key != PLAN_DIGEST}
            action = replace(action, request=to_builtins(replace(later, options=options)))
        action = replace(action, data=ActionData(approval=approval), approval_id=approval.id)
        return self._scheduled_actions.keep(context, replace(action, status_reason=reason), action.not_before)

    def _check_author(self, author: Context, later: Later) -> None:
        """Raise Forbidden unless the author still has the rights.

        Raises NotSupported if the feature of the request is off.
        """
        key = next(iter(later.options.get(asked.ACTION, (later.key,))))
        if key not in RULES and key != asked.RETRY and not later.resource:
            self._of_feature(key)
        for rule in RULES.get(key, (f"actions:{key}",)):
            author.require(rule)

    # -- at its time ----------------------------------------------------------------------------

    def begin(
        self, action: ActionRecord, stack: StackRecord, claim: Callable[[], None] = lambda: None
    ) -> None:
        """Carry out the request of a scheduled action.

        `claim` is called in the transaction that queues it.

        Raises Forbidden if its author has lost the right, NotSupported if its feature is off, Fenced if the action is
        no longer INIT, and what the request raises.
        """
        author, later = self._author_of(action, stack)
        author = replace(author, claim=claim)
        try:
            self._carry_out(author, stack, later)
        except HeatliteError as error:
            error.message = Mask(lambda: later.hidden).text(error.message)
            raise

    def _author_of(self, action: ActionRecord, stack: StackRecord) -> tuple[Context, Later]:
        """Return the author of a request with the present rights, and the request.

        Raises Forbidden.
        """
        later = convert(action.request, Later)
        author = self._author_now(restore_context(action), stack)
        self._check_author(author, later)
        scheduled = Scheduled(action.id, action.created_at, action.not_before)
        return replace(author, scheduled=scheduled, options=later.query), later

    def _carry_out(self, author: Context, stack: StackRecord, later: Later) -> None:
        match later.key:
            case "update":
                self._stacks.update(author, stack, _request(later.options), existing=True)
            case "delete":
                self._stacks.delete(author, stack)
            case asked.PUT | asked.PATCH:
                request = _request(later.options)
                self._stacks.update(author, stack, request, existing=later.key == asked.PATCH)
            case asked.REMOVE:
                retain = as_texts(later.options.get(asked.RETAIN))
                self._stacks.delete(author, stack, bool(later.options["force"]), retain)
            case asked.RETRY:
                self._stacks.retry(author, stack)
            case asked.RESTORE:
                guard: JsonMap = {key: value for key, value in later.options.items() if key == "guard"}
                self._others.snapshots().restore(author, stack, str(later.options["snapshot"]), guard)
            case "replace_members":
                self._groups.replace_members(author, stack, later.resource, later.options["members"])
            case "join":
                self._others.joins().join(author, stack, later.resource, convert(later.options, JoinRequest))
            case "leave":
                self._others.leaving().leave(author, stack, later.resource, convert(later.options, Leave))
            case key if key in POLICY_REQUESTS:
                asked_for = convert(later.options, POLICY_REQUESTS[key])
                self._others.policies().change(author, stack, later.resource, asked_for)
            case key if later.resource:
                self._groups.change(author, stack, later.resource, _size(key, later.options))
            case key:
                self._of_feature(key).start(author, stack, dict(later.options))

    def _of_feature(self, key: str) -> StackAction:
        """Return an action of a feature. Raises NotSupported if the feature is off."""
        found = self._others.of_features().get(key)
        if found is None:
            raise NotSupported(feature=f"{key} (its feature is off)")
        return found


def _size(key: str, options: AnyMap) -> SizeRequest:
    match key:
        case "scale_out":
            return convert(options, ScaleOut)
        case "scale_in":
            return convert(options, ScaleIn)
        case "delete_members":
            return convert(options, DeleteMembers)
        case _:
            if "follow_template" in options:
                return convert(options, FollowTemplate)
            return convert(options, ResizeRequest) if "number" in options else convert(options, NewLimits)


def _request(body: AnyMap) -> StackRequest:
    """Return the request of a body that `body_of_update` has made."""
    apart = {asked.REACH, asked.ACTION}
    given: AnyMap = {
        name: tuple(value) if name in LISTS else value for name, value in body.items() if name not in apart
    }
    reach, action = convert(body.get(asked.REACH, {}), Reach), body.get(asked.ACTION)
    sent = {name: value for name, value in body.items() if name not in {*apart, "further"}}
    sent = {**sent, **body.get("further", {}), **body.get(asked.REACH, {})}
    return StackRequest(**given, reach=reach, action=action, body=action or sent)
