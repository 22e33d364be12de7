"""The facts of the core: locks, actions, hooks, failures, marks, protection.

Everything that says why a stack is as it is prints them. No text on that is made elsewhere.
"""

from collections.abc import Iterable, Iterator, Sequence

from msgspec.structs import replace

from heatlite.core.clock import to_text
from heatlite.core.errors import PlanChanged, abbreviated, features_off
from heatlite.core.status import NOT_ROLLED_BACK, ActionStatus, Status, Verb, state
from heatlite.core.wire.why import Fact, WayOut, words
from heatlite.engine.state.conflict_rules import Operation
from heatlite.engine.state.hooks import waits_at, waits_until
from heatlite.engine.state.ways_out import stack_path
from heatlite.engine.why.tree import ExplainedTree, Told, is_marked
from heatlite.engine.why.ways import WayCall, Ways, resource_path
from heatlite.store.audit import AuditOutcome
from heatlite.store.records import ActionRecord, ResourceRecord, ServiceRecord, StackRecord

OF_FEATURES = ""
"""Stands for the codes of features among those of the core."""
BLOCKING = (
    "suspended_action", "approval", "rule_denied", "plan_changed", "hook", "drain", "baking", "dependency", "scheduled",
    OF_FEATURES, "retrying", "worker_kind", "no_engine", "locked", "queued", "running",
)  # fmt: skip
"""Codes of what holds a stack or an action, the first reason first."""
FAILURES = ("failed", "quota", "leftover", "no_rollback")
"""Codes of what has gone wrong."""
OTHERS = ("protected", "restricted", "behind", "marked", "drift")
"""Codes of what changes the next operation."""
_PLACES = {code: place for place, code in enumerate((*BLOCKING, *FAILURES, *OTHERS))}
_HOLD_NOTHING = frozenset({*FAILURES, *OTHERS, "scheduled"})

NEEDS_REASON = frozenset({
    ActionStatus.INIT, ActionStatus.READY, ActionStatus.WAITING, ActionStatus.WAITING_LIFECYCLE_COMPLETION,
    ActionStatus.SUSPENDED,
})  # fmt: skip
"""Statuses of actions that do not go on by themselves."""
_NEEDS_ENGINE = frozenset({ActionStatus.READY, ActionStatus.RUNNING})
_LOOKS_AGAIN = "looks again: no update replaces what could not be looked at"
PLAN_CHANGED = PlanChanged.text.partition("}")[2].partition(":")[0]
"""Part of the text of a refusal by a plan that is out of date."""
FIRST_REPORT = 5.0
"""Seconds within which a new engine has reported."""
CONSEQUENCE = "aborted: another resource failed"
"""End of the reason of a resource that only stopped with others."""


def why(tree: ExplainedTree) -> list[Told]:
    """Return the facts of the core on a tree."""
    told = [*_locks(tree), *_plan_changed(tree), *_actions(tree), *_hooks(tree), *_attempts(tree), *_engine(tree)]
    return [*told, *_failures(tree), *_not_rolled_back(tree), *_protected(tree), *_restricted(tree), *_marked(tree)]


def completed(tree: ExplainedTree, told: Iterable[Told]) -> list[Told]:
    """Return all facts in their order.

    An action that waits, and that no fact blocks, blocks itself: a worker or a sweep is about to take it.
    """
    found = list(told)
    blocked = {action_id for one in found for action_id in one.fact.blocks}
    for action in tree.actions:
        if action.status in NEEDS_REASON and action.id not in blocked:
            found = _blocking_itself(tree, action, found)
    return sorted(found, key=lambda one: _place(one.fact))


def _place(fact: Fact) -> tuple[int, int]:
    """Return the place of a fact: what holds now, then failures, then the rest."""
    holds = bool(fact.blocks) or fact.code not in _HOLD_NOTHING
    place = _PLACES.get(fact.code, _PLACES[OF_FEATURES])
    return 0 if holds else 1 if fact.code in FAILURES else 2, place


def _blocking_itself(tree: ExplainedTree, action: ActionRecord, told: list[Told]) -> list[Told]:
    own = next((one for one in told if one.fact.id == action.id and one.fact.what == "action"), None)
    if own is None:
        held = _holds(tree, action, "queued", [action.id])
        return [*told, _undecided(tree, action, held) if action.status is ActionStatus.INIT else held]
    fact = replace(own.fact, blocks=[action.id, *own.fact.blocks])
    return [replace(one, fact=fact) if one is own else one for one in told]


def _undecided(tree: ExplainedTree, action: ActionRecord, held: Told) -> Told:
    """Return the fact on an action that waits for a decision of a feature that is off."""

    ways = Ways(tree)
    ways.tell("the operator adds the feature that decides about it to the setting `features`")
    ways.cancel(action)
    text = f"{_named(tree, action)} is {action.status} since {held.fact.since}: it waits for an approval, but the"
    text += f" feature that decides about it is off. {features_off(tree.off)} Add it, or cancel the action"
    return replace(held, fact=replace(held.fact, text=text, way_out=ways.steps))


def reasons(told: Iterable[Told]) -> dict[str, str]:
    """Return the reasons of the actions that wait, by id.

    Each is the text of the first fact that blocks the action. `told` is `completed`.
    """
    found: dict[str, str] = {}
    for one in told:
        for action_id in one.fact.blocks:
            found.setdefault(action_id, one.fact.text)
    return found


# -- locks ------------------------------------------------------------------------------------------


def _locks(tree: ExplainedTree) -> Iterator[Told]:
    for stack in tree.stacks:
        lock = stack.lock
        if lock is None:
            continue
        path = tree.path(stack.id)
        where = "" if path is None else f"{path} is "
        until = "" if lock.expires_at is None else f", until {to_text(lock.expires_at)}"
        why = f": {lock.reason}" if lock.reason else ""
        ways = Ways(tree)
        call = WayCall("GET", stack_path(stack, "/lock"))
        ways.send("shows the requests that the lock refused", f"heatlite lock-status {words(stack.name)}", call)
        ways.unlock(stack)
        yield Told(
            Fact(
                code="locked",
                what="stack",
                path=path,
                id=stack.id,
                by=lock.locked_by,
                since=to_text(lock.locked_at),
                until=to_text(lock.expires_at),
                text=f"{where}locked ({lock.level}) by {lock.locked_by} since {to_text(lock.locked_at)}{until}{why}",
                way_out=ways.steps,
            ),
            stack.id,
        )


def _plan_changed(tree: ExplainedTree) -> Iterator[Told]:
    """Yield the refusal of the last request, if the plan that it named is out of date."""
    last, root = tree.last_request, tree.root
    if last is None or last.outcome is not AuditOutcome.REFUSED or PLAN_CHANGED not in last.reason:
        return
    ways = Ways(tree)
    ways.tell("shows the plan as it now is", f"heatlite plan FILE -n {root.name}")
    since, text = to_text(last.last_time), f"the last request was refused: {last.reason}"
    fact = Fact(
        code="plan_changed", what="stack", id=root.id, by=last.user, since=since, text=text, way_out=ways.steps
    )
    yield Told(fact, root.id)


# -- actions ----------------------------------------------------------------------------------------


def _actions(tree: ExplainedTree) -> Iterator[Told]:
    for action in tree.actions:
        yield from _dependencies(tree, action)
        match action.status:
            case ActionStatus.SUSPENDED:
                yield _holds(tree, action, "suspended_action", [action.id, *_waiting_for(tree, action)])
            case ActionStatus.INIT if action.not_before is not None:
                yield _scheduled(tree, action)
            case ActionStatus.INIT:
                pass
            case ActionStatus.READY if (action.not_before or 0.0) > tree.now:
                yield _put_off(tree, action)
            case ActionStatus.READY:
                yield _holds(tree, action, "queued", [action.id, *_waiting_for(tree, action)])
            case _ if action.started_at is None:
                yield _holds(tree, action, "queued", _waiting_for(tree, action))
            case ActionStatus.WAITING if action.is_baking:
                yield _baking(tree, action)
            case _:
                yield _holds(tree, action, "running", _waiting_for(tree, action))


def _waiting_for(tree: ExplainedTree, action: ActionRecord) -> list[str]:
    """Return the ids of the actions that go on when an action has ended."""
    parents = [one.id for one in tree.actions if one.id == action.parent_id and one.status in NEEDS_REASON]
    return [*parents, *(one for one, depended in tree.waits.items() if action.id in depended)]


def _named(tree: ExplainedTree, action: ActionRecord) -> str:
    return _with_path(action, tree.path(action.stack_id))


def _with_path(action: ActionRecord, path: str | None) -> str:
    return f"{action.word} {action.id}" + ("" if path is None else f" of {path}")


def _holds(tree: ExplainedTree, action: ActionRecord, code: str, blocks: Sequence[str]) -> Told:
    since = action.started_at or action.created_at
    if action.status is ActionStatus.SUSPENDED:
        since = action.suspended_at or since
    reason = f": {action.status_reason}" if action.status_reason else ""
    reason += _abandoned(tree, action)
    ways = Ways(tree)
    if action.status is ActionStatus.SUSPENDED:
        ways.resume(action)
    else:
        ways.wait(action)
    ways.cancel(action)
    fact = Fact(
        code=code,
        what="action",
        path=tree.path(action.stack_id),
        id=action.id,
        by=action.requested_by,
        since=to_text(since),
        text=f"{_named(tree, action)} is {action.status} since {to_text(since)}{reason}",
        blocks=[*blocks],
        way_out=ways.steps,
    )
    return Told(fact, action.stack_id)


def _abandoned(tree: ExplainedTree, action: ActionRecord) -> str:
    """Return what happens to an action whose engine is gone; "" for others."""
    if action.status is not ActionStatus.RUNNING or any(one.id == action.owner for one in tree.engines):
        return ""
    if tree.now - (action.started_at or action.created_at) < FIRST_REPORT:
        return ""
    at = "soon" if action.lease_until is None else f"at {to_text(max(action.lease_until, tree.now))} at the earliest"
    return f". Its engine {action.owner} is gone: another one takes over {at}"


def scheduled_text(action: ActionRecord, path: str | None = None) -> str:
    """Return the reason of an action that waits for its time.

    `path` is that of its nested stack.
    """
    return f"{_with_path(action, path)} is scheduled: it begins at {to_text(action.not_before)}"


def _scheduled(tree: ExplainedTree, action: ActionRecord) -> Told:
    told = _holds(tree, action, "scheduled", [action.id])
    due, text = to_text(action.not_before), scheduled_text(action, tree.path(action.stack_id))
    steps = [replace(told.fact.way_out[0], text=f"waits until {due}"), *told.fact.way_out[1:]]
    since = to_text(action.created_at)
    return replace(told, fact=replace(told.fact, text=text, since=since, until=due, way_out=steps))


def _put_off(tree: ExplainedTree, action: ActionRecord) -> Told:
    """Return the fact on a READY action that is not taken before its time."""
    due = to_text(action.not_before)
    is_drain = action.retries == 0 and action.data.deletion is not None
    blocks = [action.id, *_waiting_for(tree, action)]
    told = _holds(tree, action, "drain" if is_drain else "retrying", blocks)
    if is_drain:
        text = f"{_named(tree, action)} lets its members drain until {due}"
    else:
        last = tree.errors.get(action.id) or action.status_reason
        text = f"{_named(tree, action)} is tried again at {due}" + (f". The last error: {last}" if last else "")
    return replace(told, fact=replace(told.fact, text=text, until=due))


def _baking(tree: ExplainedTree, action: ActionRecord) -> Told:
    """Return the fact on an update that waits before its clean-up."""
    told, bake = _holds(tree, action, "baking", [action.id, *_waiting_for(tree, action)]), action.data.guard
    assert bake is not None
    stack, until = tree.by_id[action.stack_id], to_text(bake.until)
    named = f"{_named(tree, action)} bakes: all changes are made, and until the clean-up it can be taken back"
    is_over = bake.until <= tree.now
    text = f"{named}. Its time was over at {until}, but nobody can tell whether all is well" if is_over else named
    ways = Ways(tree)
    ways.act(Operation.CANCEL_UPDATE, stack, "takes the update back", f"openstack stack cancel {words(stack.name)}")
    if not is_over:
        text = f"{text}, at least until {until}"
        ways.tell(f"wait until {until}")
    fact = replace(told.fact, text=text, since=to_text(bake.since), until=until, way_out=ways.steps)
    return replace(told, fact=fact)


def _dependencies(tree: ExplainedTree, action: ActionRecord) -> Iterator[Told]:
    own = {one.id: one for one in tree.actions}
    for depended in tree.waits.get(action.id, ()):
        found = own.get(depended) or tree.others.get(depended)
        ways = Ways(tree)
        if found is not None:
            told = f"{found.word} {found.id}, which is {found.status}"
            if found.status is ActionStatus.SUSPENDED:
                ways.resume(found)
            else:
                ways.wait(found)
        else:
            told = f"the work {depended} of an agent"
        ways.cancel(action)
        fact = Fact(
            code="dependency",
            what="action",
            path=tree.path(action.stack_id),
            id=depended,
            by=None if found is None else found.requested_by,
            since=to_text(action.created_at),
            text=f"{_named(tree, action)} waits for {told}",
            blocks=[action.id],
            way_out=ways.steps,
        )
        yield Told(fact, action.stack_id)


def _engine(tree: ExplainedTree) -> Iterator[Told]:
    """Yield why no engine runs an action."""
    needing = [one for one in tree.live if one.status in _NEEDS_ENGINE]
    if tree.engines:
        yield from (_unclaimed(tree, one) for one in needing if not any(engine.runs(one) for engine in tree.engines))
        return
    blocked = [one.id for one in needing]
    if not blocked:
        return
    ways = Ways(tree)
    ways.tell("starts an engine; on a server with `heatlite api`: heatlite worker", "heatlite serve")
    text = "no engine is alive: nothing goes on until one is started"
    yield Told(Fact(code="no_engine", what="stack", text=text, blocks=blocked, way_out=ways.steps), tree.root.id)


def _unclaimed(tree: ExplainedTree, action: ActionRecord) -> Told:
    """Return the fact on an action that no live engine may run."""
    zone = "" if action.zone is None else f" in the zone {action.zone}"
    there = abbreviated([_described(one) for one in tree.engines], separator="; ")
    ways = Ways(tree)
    needs = "" if action.zone is None else f", and worker_zone be {action.zone}"
    ways.tell(f"starts a worker; its setting worker_kinds has to have {action.kind}{needs}", "heatlite worker")
    ways.cancel(action)
    told = _holds(tree, action, "worker_kind", [action.id])
    text = f"{_named(tree, action)} waits for a worker of the kind {action.kind}{zone}. Those that are alive: {there}"
    return replace(told, fact=replace(told.fact, text=text, way_out=ways.steps))


def _described(engine: ServiceRecord) -> str:
    """Return the place of an engine, with what it runs."""
    kinds = "all kinds" if engine.kinds is None else " ".join(engine.kinds)
    zones = "all zones" if engine.zones is None else f"zone {' '.join(engine.zones)}" if engine.zones else "no zone"
    return f"{engine.host} ({kinds}, {zones})"


def _hooks(tree: ExplainedTree) -> Iterator[Told]:
    for row in tree.rows:
        hook = waits_at(row)
        if hook is None:
            continue
        path, until = tree.path(row.stack_id, row.name) or row.name, waits_until(row)
        stack = tree.by_id[row.stack_id]
        ends = "" if until is None else f", at most until {to_text(until)}"
        ways = Ways(tree)
        ways.send(
            f"ends the wait of {path}",
            f"openstack stack hook clear --{hook} {words(stack.name, row.name)}",
            WayCall("POST", stack_path(stack, f"{resource_path(row.name)}/signal"), {"unset_hook": hook}),
        )
        if until is not None:
            ways.tell(f"wait until {to_text(until)}")
        fact = Fact(
            code="hook",
            what="resource",
            path=path,
            id=row.id,
            since=to_text(row.updated_at or row.created_at),
            until=to_text(until),
            text=f"{path} waits at the hook {hook}{ends}",
            blocks=[one.id for one in tree.live if one.stack_id == row.stack_id],
            way_out=ways.steps,
        )
        yield Told(fact, row.stack_id)


def _attempts(tree: ExplainedTree) -> Iterator[Told]:
    """Yield the resources that are tried again within their action."""
    for row in tree.rows:
        if row.token is None or "attempts" not in row.token:
            continue
        path, starts_at = tree.path(row.stack_id, row.name) or row.name, row.token.get("starts_at")
        until = starts_at if isinstance(starts_at, int | float) and starts_at > tree.now else None
        ways, holders = Ways(tree), [one for one in tree.live if one.stack_id == row.stack_id]
        if until is not None:
            ways.tell(f"wait until {to_text(until)}")
        for one in holders:
            ways.cancel(one)
        at = "" if until is None else f" at {to_text(until)}"
        fact = Fact(
            code="retrying",
            what="resource",
            path=path,
            id=row.id,
            since=to_text(row.updated_at or row.created_at),
            until=to_text(until),
            text=f"{path} ({row.type}) is tried again{at}: {row.status_reason}",
            blocks=[one.id for one in holders],
            way_out=ways.steps,
        )
        yield Told(fact, row.stack_id)


# -- failures ---------------------------------------------------------------------------------------


def _failures(tree: ExplainedTree) -> Iterator[Told]:
    nested = {one.id for one in tree.stacks}
    failed = [row for row in tree.rows if _is(row, Status.FAILED) and not is_marked(row)]
    inside = {row.stack_id for row in failed}
    own = [row for row in failed if not (row.physical_id in nested and row.physical_id in inside)]
    causes = [row for row in own if not row.state_without_lock.status_reason.endswith(CONSEQUENCE)] or own
    for row in causes:
        now, path = row.state_without_lock, tree.path(row.stack_id, row.name) or row.name
        text = f"{path} ({row.type}) is {state(now.verb, now.status)}: {now.status_reason}"
        since, steps, code = to_text(now.updated_at or row.updated_at), _after_failure(tree), "failed"
        if _is_leftover(tree, row):
            code, text = "leftover", f"{text}. Its object {row.physical_id or row.physical_name} is still there"
            held = [f"{key} belongs to {owner}" for key, owner in tree.owners.items() if key in now.status_reason]
            text = "; ".join([text, *held])
            back = "takes the object back with the earlier definition, where its deletion has not begun"
            steps.append(WayOut(text=back, command=f"heatlite up FILE -n {tree.root.name}"))
        fact = Fact(code=code, what="resource", path=path, id=row.id, since=since, text=text, way_out=steps)
        yield Told(fact, row.stack_id)
    verb, status = tree.root.state_without_lock
    has_failed = status is Status.FAILED and not (verb is Verb.CHECK and tree.marked)
    if not causes and (has_failed or (verb, status) == (Verb.ROLLBACK, Status.COMPLETE)):
        root = tree.root
        text = f"{root.name} is {state(verb, status)}: {root.status_reason}"
        since, steps = to_text(root.updated_at or root.created_at), _after_failure(tree)
        yield Told(Fact(code="failed", what="stack", id=root.id, since=since, text=text, way_out=steps), root.id)


def _is_leftover(tree: ExplainedTree, row: ResourceRecord) -> bool:
    """Return True for an object of a stack that stays, which was to be gone."""
    stack = tree.by_id[row.stack_id]
    return row.state_without_lock.verb is Verb.DELETE and stack.state_without_lock[0] is not Verb.DELETE


def _is(row: ResourceRecord, status: Status) -> bool:
    return row.state_without_lock.status is status


def _after_failure(tree: ExplainedTree) -> list[WayOut]:
    """Return the ways on from a failed stack."""
    root, ways = tree.root, Ways(tree)
    verb, status = root.state_without_lock
    name, again = root.name, f"heatlite up FILE -n {root.name}"
    if (verb, status) == (Verb.ROLLBACK, Status.COMPLETE):
        ways.tell("updates it again, once the cause is corrected: the earlier state is restored", again)
        return ways.steps
    if status is Status.FAILED:
        match verb:
            case Verb.CREATE | Verb.UPDATE:
                ways.act(Operation.RETRY, root, "continues where it has failed", f"heatlite retry {name}")
            case Verb.DELETE:
                ways.unprotect()
                call = WayCall("DELETE", stack_path(root))
                after = len(ways.steps) - 1 if ways.steps else None
                ways.operation(Operation.DELETE, root, "tries again", f"heatlite down {name}", call, after)
                call, command = WayCall("DELETE", f"{stack_path(root)}?force=true"), f"heatlite down {name} --force"
                text = "leaves behind what cannot be deleted"
                ways.operation(Operation.FORCE_DELETE, root, text, command, call, after)
                return ways.steps
            case Verb.CHECK:
                ways.act(Operation.CHECK, root, _LOOKS_AGAIN, f"heatlite check {name}")
            case Verb.SUSPEND:
                ways.act(Operation.SUSPEND, root, "tries again", f"openstack stack suspend {name}")
                return ways.steps
            case Verb.RESUME:
                ways.act(Operation.RESUME, root, "tries again", f"openstack stack resume {name}")
                return ways.steps
            case Verb.UNLOCK:
                ways.unlock(root)
            case Verb.LOCK:
                ways.act(Operation.LOCK, root, "tries again", f"heatlite lock {name}")
            case _:
                pass
    ways.tell("updates the stack with a corrected definition", again)
    return ways.steps


def _not_rolled_back(tree: ExplainedTree) -> Iterator[Told]:
    root = tree.root
    if root.state_without_lock != (Verb.UPDATE, Status.FAILED):
        return
    _, found, why = root.status_reason.rpartition(NOT_ROLLED_BACK)
    if not found:
        if not root.disable_rollback or root.previous_template_id is None:
            return
        why = "rollback was not asked for"
    ways = Ways(tree)
    ways.tell("takes the old objects back with the earlier definition", f"heatlite up FILE -n {root.name}")
    text = f"{NOT_ROLLED_BACK}{why.rstrip('.')}."
    yield Told(Fact(code="no_rollback", what="stack", id=root.id, text=text, way_out=ways.steps), root.id)


# -- states that the next operation meets -----------------------------------------------------------


def _protected(tree: ExplainedTree) -> Iterator[Told]:
    for stack, row in tree.protected:
        yield _protection(tree, stack, row)


def _protection(tree: ExplainedTree, stack: StackRecord, row: ResourceRecord | None) -> Told:
    held = stack.protection if row is None else row.protection
    assert held is not None
    path = tree.path(stack.id, "" if row is None else row.name)
    where = "" if path is None else f"{path} is "
    reason = f": {held.reason}" if held.reason else ""
    ways = Ways(tree)
    ways.lift(stack, row)
    fact = Fact(
        code="protected",
        what="stack" if row is None else "resource",
        path=path,
        id=stack.id if row is None else row.id,
        by=held.by,
        since=to_text(held.at),
        text=f"{where}protected from deletion by {held.by}{reason}",
        way_out=ways.steps,
    )
    return Told(fact, stack.id)


def _restricted(tree: ExplainedTree) -> Iterator[Told]:
    """Yield what updates have left out of the definition."""
    root, held = tree.root, tree.root.restricted
    if held is None:
        return
    text = f"restricted since {to_text(held.since)}: an update has left out {abbreviated(held.left_out)}"
    ways = Ways(tree)
    command, effect = f"openstack stack update --existing {root.name}", "updates all, also what is left out"
    ways.planned(Operation.UPDATE, root, effect, command, {}, is_update=True)
    since = to_text(held.since)
    fact = Fact(code="restricted", what="stack", id=root.id, since=since, text=text, way_out=ways.steps)
    yield Told(fact, root.id)


def _marked(tree: ExplainedTree) -> Iterator[Told]:
    """Yield the resources that the next update replaces."""
    nested = {one.id for one in tree.stacks}
    inside = {row.stack_id for row in tree.marked}
    for row in tree.marked:
        if row.physical_id in nested and row.physical_id in inside and not (row.health and row.health.marked):
            continue  # as its members
        path, now = tree.path(row.stack_id, row.name) or row.name, row.state_without_lock
        ways = Ways(tree)
        ways.operation(
            Operation.MARK_HEALTHY,
            tree.root,
            "takes the mark back",
            f"heatlite mark-healthy {tree.root.name} {words(path)}",
            WayCall("PATCH", stack_path(tree.root, resource_path(path)), {"mark_unhealthy": False}),
        )
        how = ", once its restricted_actions allow that" if tree.is_kept(row.stack_id, row.name) else ""
        ways.tell(f"replaces what is not well{how}", f"heatlite up FILE -n {tree.root.name}")
        fact = Fact(
            code="marked",
            what="resource",
            path=path,
            id=row.id,
            since=to_text(now.updated_at or row.updated_at),
            text=f"not well: {path}: {now.status_reason}",
            way_out=ways.steps,
        )
        yield Told(fact, row.stack_id)
