"""Operations to interrupt, each from a prepared state to a known end."""

import json
import os
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from heatlite.core.context import Context
from heatlite.core.errors import (
    ActionImmutable,
    InvalidActionState,
    InvalidBreakPointHook,
    InvalidLifecycleActionToken,
)
from heatlite.core.json import JsonMap
from heatlite.core.status import LIVE_ACTIONS, ActionStatus, LockLevel, Signal, Verb, state
from heatlite.core.wire.locks import LockOptions
from heatlite.engine.state.hooks import lifecycle_token, waits_at
from heatlite.engine.state.requests import Reach, StackRequest
from heatlite.engine.state.stack_document import read_record
from heatlite.store.records import ActionRecord, SnapshotRecord, StackRecord
from heatlite.store.stacks.events import EventQuery
from heatlite.wiring import Embedded

CALLER = Context("demo")
EVERY = [f"{moment}-{verb}" for moment in ("pre", "post") for verb in ("create", "update", "delete")]


def file(content: object = "x", slow: float = 0.02, **more: object) -> dict[str, object]:
    """A resource that makes something real, and takes a moment for it."""
    properties = {"content": content, "slow_secs": slow, **more.pop("properties", {})}  # type: ignore[dict-item]
    return {"type": "Example::Local::File", "properties": properties, **more}


def value(of: object) -> dict[str, object]:
    """A resource that makes nothing outside its row."""
    return {"type": "OS::Heat::Value", "properties": {"value": of}}


def template(**resources: object) -> dict[str, object]:
    return {"heat_template_version": "2021-04-16", "resources": resources}


FIRST = template(
    a=file("a"),
    b=file({"get_attr": ["a", "path"]}),
    c=value({"get_resource": "b"}),
    gone=file("gone"),
    quick=value("q"),
)
SECOND = template(
    a=file("changed"),
    b={"type": "OS::Heat::TestResource", "properties": {"value": {"get_resource": "a"}, "wait_secs": 0.01}},
    c=value({"get_resource": "b"}),
    quick=value("q2"),
    new=file("new", depends_on="c"),
)
PART = Reach(target=("b",))
"""Of an update to `SECOND`: it touches ``b``, and ``a`` that this requires."""
FAILING = template(**{**SECOND["resources"], "new": file("bad", depends_on="c", properties={"fail": True})})  # type: ignore[dict-item]


INNER = {**template(a=file({"get_param": "v"}, slow=0)), "parameters": {"v": {"type": "string"}}}
OUTER = {
    **template(inner={"type": "inner.yaml", "properties": {"v": {"get_param": "v"}}}, z=file("z", slow=0)),
    "parameters": {"v": {"type": "string"}},
}
FILES = {"inner.yaml": json.dumps(INNER), "outer.yaml": json.dumps(OUTER)}


def tree(v: str, **more: object) -> dict[str, object]:
    """Three stacks: the second lies in the first, the third in the second."""
    return template(o={"type": "outer.yaml", "properties": {"v": v}}, **more)


TREE = tree("one", gone=file("gone", slow=0))
CHANGED_TREE = tree("two", p={"type": "inner.yaml", "properties": {"v": "p"}})
FAILING_TREE = tree("two", bad=file("bad", slow=0, depends_on="o", properties={"fail": True}))


def create_tree(server: Embedded, document: dict[str, object] = TREE, **more: object) -> None:
    create(server, document, files=FILES, **more)


def create_tree_and_settle(server: Embedded) -> None:
    create_tree(server)
    settle(server)


def protecting(*names: str) -> JsonMap:
    """An environment that protects resources of the root and of the lowest stack."""
    rule: JsonMap = {"protect": {}}
    blocks: JsonMap = dict.fromkeys(names, rule)
    return {"resource_registry": {"resources": {**blocks, "o": {**rule, "inner": {"a": rule}}}}}


def create_protected_tree_and_settle(server: Embedded) -> None:
    create_tree(server, environment=protecting())
    settle(server)


def protect(server: Embedded) -> None:
    """Three requests, each done at once."""
    stack, protection = stack_of(server), server.components.protection
    protection.protect(CALLER, stack, None, "production")
    protection.protect(CALLER, stack, "a", None)
    protection.unprotect(CALLER, stack, None, None)


def start_and_delete_tree(server: Embedded) -> None:
    create_tree(server)
    wait_for_first_step(server)
    server.stacks.delete(CALLER, stack_of(server))


def groups(count: int, content: str) -> dict[str, object]:
    """A group that is made and changed by members, and one resized by a policy."""
    policy = {"batch_create": {}, "rolling_update": {"min_in_service": 1}}
    definition = file(f"{content} %index%", slow=0)
    sizes = {"min_size": 1, "max_size": 3, "resource": file(content, slow=0)}
    by_one = {"adjustment_type": "change_in_capacity", "scaling_adjustment": 1}
    return template(
        g={
            "type": "OS::Heat::ResourceGroup",
            "properties": {"count": count, "resource_def": definition},
            "update_policy": policy,
        },
        s={"type": "OS::Heat::AutoScalingGroup", "properties": sizes},
        up={
            "type": "OS::Heat::ScalingPolicy",
            "properties": {"auto_scaling_group_id": {"get_resource": "s"}, **by_one},
        },
    )


def create_groups_and_settle(server: Embedded) -> None:
    create(server, groups(2, "one"))
    settle(server)


def waiting_members() -> dict[str, object]:
    """A group of stacks, each of which waits before a policy removes it."""
    sizes = {"min_size": 1, "max_size": 3, "desired_capacity": 2}
    by_one = {"adjustment_type": "change_in_capacity", "scaling_adjustment": -1}
    member = {"type": "inner.yaml", "properties": {"v": "one"}}
    return template(
        s={"type": "OS::Heat::AutoScalingGroup", "properties": {**sizes, "resource": member}},
        up={
            "type": "OS::Heat::ScalingPolicy",
            "properties": {**by_one, "auto_scaling_group_id": {"get_resource": "s"}},
        },
    )


def create_waiting_members_and_settle(server: Embedded) -> None:
    hook = {"lifecycle_hook": {"timeout": 600}}
    environment = {"resource_registry": {"resources": {"s": {"*": hook}}}}
    create(server, waiting_members(), files=FILES, environment=environment)
    settle(server)


def scale(server: Embedded) -> None:
    stack = stack_of(server)
    (policy,) = server.store.resources.by_name(stack.id, ["up"])
    server.components.signals.signal(CALLER, stack, policy, None)


def stack_of(server: Embedded) -> StackRecord:
    """The one stack, deleted or not."""
    from heatlite.store.stacks.stack_query import StackQuery

    found = server.store.stacks.list("demo", StackQuery(show_deleted=True))
    stack = server.store.stacks.get(found[0].id)
    assert stack is not None
    return stack


def settle(server: Embedded) -> None:
    """Wait until nothing is queued or runs; clear every hook that is reached."""
    end = time.monotonic() + 240
    live = ", ".join(f"'{status}'" for status in LIVE_ACTIONS)
    while server.store.database.read(f"SELECT 1 FROM action WHERE status IN ({live}) LIMIT 1"):
        assert time.monotonic() < end, "an action never ended"
        root = stack_of(server)
        tree = {stack.id: stack for stack in (root, *server.store.stacks.descendants(root))}
        for row in server.store.resources.with_token([*tree]):
            with suppress(InvalidBreakPointHook, InvalidLifecycleActionToken):  # cleared already
                if (token := lifecycle_token(row)) is not None:
                    server.components.signals.complete_lifecycle(root, token)
                elif (hook := waits_at(row)) is not None:
                    server.components.signals.signal(CALLER, tree[row.stack_id], row, {"unset_hook": hook})
        time.sleep(0.005)


def hooks(**names: object) -> dict[str, object]:
    return {"resource_registry": {"resources": {name: {"hooks": listed} for name, listed in names.items()}}}


def create(server: Embedded, document: dict[str, object] = FIRST, **more: object) -> None:
    server.stacks.create(CALLER, StackRequest(name="s", template=document, **more))  # type: ignore[arg-type]


def create_and_settle(server: Embedded) -> None:
    create(server)
    settle(server)


def update(server: Embedded, document: dict[str, object] | None, **more: object) -> None:
    existing = document is None
    server.stacks.update(CALLER, stack_of(server), StackRequest(template=document, **more), existing)  # type: ignore[arg-type]


def partly_updated(server: Embedded) -> None:
    create_and_settle(server)
    update(server, SECOND, reach=PART)
    settle(server)


def created_with_hooks(server: Embedded) -> None:
    create(server, environment=hooks(a="pre-delete", b=["pre-delete", "post-delete"]))
    settle(server)


def marked(server: Embedded) -> None:
    create_and_settle(server)
    server.components.health.mark(CALLER, stack_of(server), "a", True, None)


def part_of(name: str) -> dict[str, object]:
    return file(name, properties={"part_of": {"get_resource": name}})


BLOCKED = template(
    a=file("a", update_policy={"replacement": {"order": "delete_first"}}),
    b=part_of("a"),
    c=part_of("b"),
    d=value({"get_resource": "c"}),
)
"""Of these `a` goes first, and before it what is a part of it."""


def blocked_and_marked(server: Embedded) -> None:
    create(server, BLOCKED)
    settle(server)
    server.components.health.mark(CALLER, stack_of(server), "a", True, None)


def suspended(server: Embedded) -> None:
    create_and_settle(server)
    server.stacks.suspend(CALLER, stack_of(server))
    settle(server)


def take(server: Embedded) -> None:
    server.components.snapshots.take(CALLER, stack_of(server), None)


def saved(server: Embedded) -> None:
    create_and_settle(server)
    take(server)
    settle(server)


def saved_and_updated(server: Embedded) -> None:
    saved(server)
    update(server, SECOND)
    settle(server)


def snapshot_of(server: Embedded) -> SnapshotRecord:
    (snapshot,) = server.store.snapshots.of(stack_of(server).id)
    return snapshot


def locked(server: Embedded) -> None:
    create_and_settle(server)
    server.components.maintenance.lock(CALLER, stack_of(server), LockOptions())
    settle(server)


def lock(server: Embedded, level: LockLevel, stack: StackRecord | None = None) -> None:
    server.components.maintenance.lock(CALLER, stack or stack_of(server), LockOptions(level))


def tree_locked(level: LockLevel | None, own: LockLevel | None) -> Callable[[Embedded], None]:
    """A tree that is locked at a level; the stack in the middle has a lock of its own."""

    def prepare(server: Embedded) -> None:
        create_tree_and_settle(server)
        if own is not None:
            lock(server, own, server.store.stacks.descendants(stack_of(server))[0])
            settle(server)
        if level is not None:
            lock(server, level)
            settle(server)

    return prepare


def record_path() -> Path:
    """File of an abandoned stack's document, beside its objects."""
    return Path(os.environ["EXAMPLE_FILES"]).parent / "record.json"


def abandon(server: Embedded) -> None:
    server.components.exports.abandon(CALLER, stack_of(server))


def abandoned(server: Embedded) -> None:
    create_and_settle(server)
    record_path().write_text(json.dumps(server.components.exports.abandon(CALLER, stack_of(server))))
    settle(server)


def abandoned_and_protected(server: Embedded) -> None:
    create_and_settle(server)
    protect(server)
    record_path().write_text(json.dumps(server.components.exports.abandon(CALLER, stack_of(server))))
    settle(server)


def adopt(server: Embedded) -> None:
    adopted = read_record(record_path().read_text())
    server.stacks.create(CALLER, StackRequest(name="s", adopted=adopted))


def start_and_cancel(server: Embedded) -> None:
    update(server, SECOND)
    wait_for_first_step(server)
    server.stacks.cancel(CALLER, stack_of(server), rollback=True)


def start_and_delete(server: Embedded) -> None:
    create(server)
    wait_for_first_step(server)
    server.stacks.delete(CALLER, stack_of(server))


def aside(act: Callable[[Embedded], None]) -> Callable[[Embedded], None]:
    """Does something, suspends it on its way, and resumes it."""

    def suspend_and_resume(server: Embedded) -> None:
        act(server)
        wait_for_first_step(server)
        tell(server, Signal.SUSPEND)
        end = time.monotonic() + 240
        while any(action.status is ActionStatus.RUNNING for action in live(server)):
            assert time.monotonic() < end, "it does not let go of its worker"
            time.sleep(0.001)
        tell(server, Signal.RESUME)

    return suspend_and_resume


def live(server: Embedded) -> list[ActionRecord]:
    tree = (stack_of(server), *server.store.stacks.descendants(stack_of(server)))
    return server.store.actions.live([stack.id for stack in tree])


def tell(server: Embedded, signal: Signal) -> None:
    """Signal what there is to the stack's actions."""
    for action in server.store.actions.live([stack_of(server).id]):
        with suppress(ActionImmutable, InvalidActionState):
            server.components.controls.signal(CALLER, action, signal)


def resume_all(server: Embedded) -> None:
    """Nobody else does, whatever has died."""
    if server.store.database.read("SELECT 1 FROM stack LIMIT 1"):
        tell(server, Signal.RESUME)


def wait_for_first_step(server: Embedded) -> None:
    """Until a handler is under way, so that there is something to cut short."""
    end = time.monotonic() + 240
    while not server.store.database.read("SELECT 1 FROM resource WHERE status = 'IN_PROGRESS' LIMIT 1"):
        assert time.monotonic() < end
        time.sleep(0.001)


def nothing(server: Embedded) -> None:
    """Start from an empty database."""


WAITING = template(
    handle={"type": "OS::Heat::WaitConditionHandle"},
    wc={
        "type": "OS::Heat::WaitCondition",
        "properties": {"handle": {"get_resource": "handle"}, "timeout": 3600, "count": 2},
    },
)


def waiting(server: Embedded) -> None:
    """A stack that waits for two machines."""
    create(server, WAITING)
    wait_for_first_step(server)


def signal(server: Embedded) -> None:
    """Machines report that they are ready, until an event says that it has arrived."""
    stack = stack_of(server)
    (handle,) = server.store.resources.by_name(stack.id, ["handle"])
    told = [event.status_reason for event in server.store.events.list(stack.id, EventQuery())]
    for machine in ("machine-1", "machine-2"):
        if not any(machine in reason for reason in told):
            server.components.signals.signal(CALLER, stack, handle, {"id": machine})


def software(text: str, *servers: str) -> dict[str, object]:
    """A config deployed without an answer: its stored data must be deleted with it."""
    config = {"type": "OS::Heat::SoftwareConfig", "properties": {"config": text}}
    given = {"config": {"get_resource": "config"}, "signal_transport": "NO_SIGNAL"}
    kind = "OS::Heat::SoftwareDeployment"
    return template(
        config=config,
        other=config,  # both share a transaction
        **{server: {"type": kind, "properties": {**given, "server": server}} for server in servers},
    )


def deployed(server: Embedded) -> None:
    create(server, software("one", "kept", "gone"))
    settle(server)


@dataclass(frozen=True)
class Scenario:
    """`ends` are the states in which the stack may rest, the undisturbed one first."""

    prepare: Callable[[Embedded], None]
    act: Callable[[Embedded], None]
    ends: tuple[str, ...]
    before: str = ""
    """The state before; a crash before the request was accepted leaves it so."""
    retry: Callable[[Embedded], None] = nothing
    """The client's request after the crash, when its answer was lost."""
    gives_away: bool = False
    """True if a deleted stack's objects are still there."""


def done(verb: Verb, status: str = "COMPLETE") -> str:
    return state(verb, status)


CREATED = done(Verb.CREATE)
TREE_LOCKS: tuple[tuple[LockLevel | None, LockLevel | None, LockLevel | None], ...] = (
    (None, LockLevel.STACKS, LockLevel.ALL),
    (LockLevel.ALL, LockLevel.STACKS, LockLevel.STACKS),
    (LockLevel.ALL, LockLevel.STACKS, None),
    (LockLevel.STACKS, None, None),
)
"""Of a tree: the level of its lock, that of the lock that the stack in the middle has, and what the lock becomes."""
SCENARIOS = {
    "create": Scenario(nothing, create, (CREATED,)),
    "create, rolled back": Scenario(
        nothing, lambda s: create(s, FAILING, disable_rollback=False), (done(Verb.ROLLBACK),)
    ),
    "create, failed": Scenario(nothing, lambda s: create(s, FAILING), (done(Verb.CREATE, "FAILED"),)),
    "update": Scenario(create_and_settle, lambda s: update(s, SECOND), (done(Verb.UPDATE),), CREATED),
    "update, rolled back": Scenario(
        create_and_settle, lambda s: update(s, FAILING, disable_rollback=False), (done(Verb.ROLLBACK),), CREATED
    ),
    "update of a part": Scenario(
        create_and_settle, lambda s: update(s, SECOND, reach=PART), (done(Verb.UPDATE),), CREATED
    ),
    "update of a part, rolled back": Scenario(
        create_and_settle,
        lambda s: update(s, FAILING, reach=Reach(exclude=("quick", "gone")), disable_rollback=False),
        (done(Verb.ROLLBACK),),
        CREATED,
    ),
    "update of the rest, rolled back": Scenario(
        partly_updated,
        lambda s: update(s, FAILING, disable_rollback=False),
        (done(Verb.ROLLBACK),),
        done(Verb.UPDATE),
    ),
    "replacement that is asked for": Scenario(
        create_and_settle, lambda s: update(s, FIRST, reach=Reach(replace=("a",))), (done(Verb.UPDATE),), CREATED
    ),
    "delete that retains": Scenario(
        create_and_settle,
        lambda s: s.stacks.delete(CALLER, stack_of(s), retain=("b", "gone")),
        (done(Verb.DELETE),),
        CREATED,
        gives_away=True,
    ),
    "update, cancelled": Scenario(
        create_and_settle, start_and_cancel, (done(Verb.ROLLBACK), done(Verb.UPDATE)), CREATED
    ),
    "replacement of an unhealthy one": Scenario(
        marked, lambda s: update(s, None), (done(Verb.UPDATE),), CREATED
    ),
    "replacement of one whose parts go first": Scenario(
        blocked_and_marked, lambda s: update(s, None), (done(Verb.UPDATE),), CREATED
    ),
    "update of software": Scenario(
        deployed, lambda s: update(s, software("two", "kept", "new")), (done(Verb.UPDATE),), CREATED
    ),
    "delete": Scenario(
        create_and_settle, lambda s: s.stacks.delete(CALLER, stack_of(s)), (done(Verb.DELETE),), CREATED
    ),
    "delete during a create": Scenario(nothing, start_and_delete, (done(Verb.DELETE), CREATED)),
    "create, suspended": Scenario(nothing, aside(create), (CREATED,), retry=resume_all),
    "update, suspended": Scenario(
        create_and_settle, aside(lambda s: update(s, SECOND)), (done(Verb.UPDATE),), CREATED, retry=resume_all
    ),
    "tree, create, suspended": Scenario(nothing, aside(create_tree), (CREATED,), retry=resume_all),
    "create with hooks": Scenario(
        nothing, lambda s: create(s, environment=hooks(a=["pre-create", "post-create"], c="post-create")), (CREATED,)
    ),
    "update with hooks": Scenario(
        create_and_settle,
        lambda s: update(s, SECOND, environment=hooks(a=["pre-update", "post-update"], b="pre-update", quick=EVERY)),
        (done(Verb.UPDATE),),
        CREATED,
    ),
    "delete with hooks": Scenario(
        created_with_hooks, lambda s: s.stacks.delete(CALLER, stack_of(s)), (done(Verb.DELETE),), CREATED
    ),
    "check": Scenario(create_and_settle, lambda s: s.stacks.check(CALLER, stack_of(s)), (done(Verb.CHECK),), CREATED),
    "suspend": Scenario(
        create_and_settle, lambda s: s.stacks.suspend(CALLER, stack_of(s)), (done(Verb.SUSPEND),), CREATED
    ),
    "resume": Scenario(
        suspended, lambda s: s.stacks.resume(CALLER, stack_of(s)), (done(Verb.RESUME),), done(Verb.SUSPEND)
    ),
    "abandon": Scenario(
        create_and_settle,
        abandon,
        (done(Verb.DELETE),),
        CREATED,
        gives_away=True,
    ),
    "adopt": Scenario(abandoned, adopt, (done(Verb.ADOPT),), done(Verb.DELETE), gives_away=True),
    "adopt what was protected": Scenario(
        abandoned_and_protected, adopt, (done(Verb.ADOPT),), done(Verb.DELETE), gives_away=True
    ),
    "protect": Scenario(create_and_settle, protect, (CREATED,), CREATED),
    "tree, create, protected": Scenario(
        nothing, lambda s: create_tree(s, environment=protecting("gone")), (CREATED,)
    ),
    "tree, update, protected, rolled back": Scenario(
        create_protected_tree_and_settle,
        lambda s: update(
            s, FAILING_TREE, files=FILES, environment=protecting("bad", "p"), disable_rollback=False
        ),
        (done(Verb.ROLLBACK),),
        CREATED,
    ),
    "snapshot": Scenario(create_and_settle, take, (done(Verb.SNAPSHOT),), CREATED),
    "restore": Scenario(
        saved_and_updated,
        lambda s: s.components.snapshots.restore(CALLER, stack_of(s), snapshot_of(s).id),
        (done(Verb.RESTORE),),
        done(Verb.UPDATE),
    ),
    "deletion of a snapshot": Scenario(
        saved,
        lambda s: s.components.snapshots.delete(CALLER, stack_of(s), snapshot_of(s).id),
        (done(Verb.SNAPSHOT),),
        done(Verb.SNAPSHOT),
    ),
    "delete with a snapshot": Scenario(
        saved, lambda s: s.stacks.delete(CALLER, stack_of(s)), (done(Verb.DELETE),), done(Verb.SNAPSHOT)
    ),
    "lock": Scenario(
        create_and_settle,
        lambda s: s.components.maintenance.lock(CALLER, stack_of(s), LockOptions()),
        (done(Verb.LOCK),),
        CREATED,
    ),
    "tree, create": Scenario(nothing, create_tree, (CREATED,)),
    "tree, update": Scenario(
        create_tree_and_settle, lambda s: update(s, CHANGED_TREE, files=FILES), (done(Verb.UPDATE),), CREATED
    ),
    "tree, update, rolled back": Scenario(
        create_tree_and_settle,
        lambda s: update(s, FAILING_TREE, files=FILES, disable_rollback=False),
        (done(Verb.ROLLBACK),),
        CREATED,
    ),
    "tree, delete": Scenario(
        create_tree_and_settle, lambda s: s.stacks.delete(CALLER, stack_of(s)), (done(Verb.DELETE),), CREATED
    ),
    "tree, delete during a create": Scenario(nothing, start_and_delete_tree, (done(Verb.DELETE), CREATED)),
    "groups, rolling update": Scenario(
        create_groups_and_settle, lambda s: update(s, groups(2, "two")), (done(Verb.UPDATE),), CREATED
    ),
    "groups, members that wait": Scenario(create_waiting_members_and_settle, scale, (CREATED,)),
    "groups, signal": Scenario(create_groups_and_settle, scale, (CREATED,)),
    **{
        f"tree, lock {before or 'within'} to {after or 'none'}": Scenario(
            tree_locked(before, own),
            (lambda s: s.components.maintenance.unlock(CALLER, stack_of(s)))
            if after is None
            else (lambda s, level=after: lock(s, level)),
            (done(Verb.LOCK if after else Verb.UNLOCK),),
            done(Verb.LOCK) if before else CREATED,
        )
        for before, own, after in TREE_LOCKS
    },
    "unlock": Scenario(
        locked,
        lambda s: s.components.maintenance.unlock(CALLER, stack_of(s)),
        (done(Verb.UNLOCK),),
        done(Verb.LOCK),
    ),
    "signals": Scenario(waiting, signal, (CREATED,), retry=signal),
}


def odd(kind: str, content: str = "x", slow: float = 0.02, **more: object) -> dict[str, object]:
    """A resource of one of the types that fail."""
    return {**file(content, slow, **more), "type": f"Crash::{kind}"}


BAD = {"fail": True}
UNDER_WAY = {"one": file("one", slow=0.4), "two": file("two", slow=0.6), "then": file("then", depends_on="two")}
"""Makes under way during a failure: two are, the third has not begun."""
BOOM = template(boom=file("boom", slow=0, properties=BAD), **UNDER_WAY)


def refused(kind: str = "Refusing", **more: object) -> tuple[dict[str, object], dict[str, object]]:
    """Before and after an update that fails at one object while others are made."""
    before = template(disk=odd(kind, "small", slow=0), user=value({"get_resource": "disk"}))
    after = template(disk=odd(kind, "large", slow=0, properties=BAD), user=value({"get_resource": "disk"}), **UNDER_WAY)
    return before, after


def inside(inner: dict[str, object], **more: object) -> tuple[dict[str, object], dict[str, str]]:
    """A stack in a stack, and its file."""
    return template(o={"type": "inner.yaml"}, **more), {"inner.yaml": json.dumps(inner)}


def batches(content: str, *, fail: bool = False) -> dict[str, object]:
    """A group that is changed member by member, beside something slow."""
    policy = {"rolling_update": {"min_in_service": 1}}
    definition = odd("Refusing", content, slow=0, properties={"fail": fail})
    group = {"count": 3, "resource_def": definition}
    return template(g={"type": "OS::Heat::ResourceGroup", "properties": group, "update_policy": policy})


def sick(operations: str) -> dict[str, object]:
    """A type that fails in some operations; two at work meanwhile, and two later ones."""
    ill = odd("Sick", operations, slow=0)
    slow = {f"slow{count}": odd("Slow", slow=0.3 * count) for count in (1, 2)}
    return template(ill=ill, later=file(depends_on="ill"), **slow, last=odd("Slow", slow=0.3, depends_on="slow1"))


def hold(_server: Embedded) -> None:
    """Have sick files refuse to be deleted."""
    (Path(os.environ["EXAMPLE_FILES"]) / "held.lock").touch()


def release(_server: Embedded) -> None:
    (Path(os.environ["EXAMPLE_FILES"]) / "held.lock").unlink(missing_ok=True)


def prepared(
    document: dict[str, object], *then: Callable[[Embedded], None], **more: object
) -> Callable[[Embedded], None]:
    """A stack is made, and comes to rest after each of these."""

    def prepare(server: Embedded) -> None:
        create(server, document, **more)
        settle(server)
        for one in then:
            one(server)
            settle(server)

    return prepare


def slow_ones(content: str) -> dict[str, object]:
    """Two that take their time, and one that comes later."""
    then = odd("Slow", content, slow=0.4, depends_on="two")
    return template(one=odd("Slow", content, slow=0.4), two=odd("Slow", content, slow=0.6), then=then)


def cancelled(server: Embedded) -> None:
    """Cancelled while two are being changed; what has begun is let end."""
    update(server, slow_ones("new"))
    end = time.monotonic() + 240
    while server.store.database.read("SELECT COUNT(*) FROM resource WHERE token IS NOT NULL") != [(2,)]:
        assert time.monotonic() < end
        time.sleep(0.001)
    server.stacks.cancel(CALLER, stack_of(server), rollback=False)


@dataclass(frozen=True)
class Failure:
    """An operation that fails in one way, however often it is interrupted after."""

    prepare: Callable[[Embedded], None]
    act: Callable[[Embedded], None]
    end: str
    """The state in which the stack comes to rest."""
    fuse: str = "FAILED"
    """From the commit on that writes this value the operation is cut off."""


SMALL, LARGE = refused()
KEPT_SMALL, KEPT_LARGE = refused("Kept")
NESTED, NESTED_FILES = inside(SMALL)
NESTED_BAD, NESTED_BAD_FILES = inside(LARGE, side=file("side", slow=0.8))
NESTED_ALONE, NESTED_ALONE_FILES = inside(LARGE)
BACK = template(disk=odd("Refusing", "first", slow=0), slow=odd("Slow", "first", slow=0.2))
FORTH = template(
    disk=odd("Refusing", "second", slow=0),
    slow=odd("Slow", "second", slow=0.2),
    bad=file(slow=0, depends_on=["disk", "slow"], properties=BAD),
)
FAILURES = {
    "create": Failure(nothing, lambda s: create(s, BOOM), done(Verb.CREATE, "FAILED")),
    "create, rolled back": Failure(nothing, lambda s: create(s, BOOM, disable_rollback=False), done(Verb.ROLLBACK)),
    "update refused": Failure(prepared(SMALL), lambda s: update(s, LARGE), done(Verb.UPDATE, "FAILED")),
    "update refused, rolled back": Failure(
        prepared(SMALL), lambda s: update(s, LARGE, disable_rollback=False), done(Verb.ROLLBACK)
    ),
    "update failed in place": Failure(
        prepared(KEPT_SMALL), lambda s: update(s, KEPT_LARGE), done(Verb.UPDATE, "FAILED")
    ),
    "update failed in place, rolled back": Failure(
        prepared(KEPT_SMALL), lambda s: update(s, KEPT_LARGE, disable_rollback=False), done(Verb.ROLLBACK)
    ),
    "rollback refused": Failure(
        prepared(BACK), lambda s: update(s, FORTH, disable_rollback=False), done(Verb.ROLLBACK, "FAILED")
    ),
    "update cancelled": Failure(prepared(slow_ones("old")), cancelled, done(Verb.UPDATE, "FAILED"), fuse="CANCEL"),
    "clean-up of an update": Failure(
        prepared(sick(""), hold),
        lambda s: update(s, template(new=file()), disable_rollback=False),
        done(Verb.UPDATE, "FAILED"),
    ),
    "delete": Failure(
        prepared(sick(""), hold), lambda s: s.stacks.delete(CALLER, stack_of(s)), done(Verb.DELETE, "FAILED")
    ),
    "tree, update refused": Failure(
        prepared(NESTED, files=NESTED_FILES),
        lambda s: update(s, NESTED_BAD, files=NESTED_BAD_FILES),
        done(Verb.UPDATE, "FAILED"),
    ),
    "tree, update refused, rolled back": Failure(
        prepared(NESTED, files=NESTED_FILES),
        lambda s: update(s, NESTED_ALONE, files=NESTED_ALONE_FILES, disable_rollback=False),
        done(Verb.ROLLBACK),
    ),
    "group, rolling update refused": Failure(
        prepared(batches("one")), lambda s: update(s, batches("two", fail=True)), done(Verb.UPDATE, "FAILED")
    ),
    "check": Failure(
        prepared(sick("check")), lambda s: s.stacks.check(CALLER, stack_of(s)), done(Verb.CHECK, "FAILED")
    ),
    "suspend": Failure(
        prepared(sick("suspend")), lambda s: s.stacks.suspend(CALLER, stack_of(s)), done(Verb.SUSPEND, "FAILED")
    ),
    "resume": Failure(
        prepared(sick("resume"), lambda s: s.stacks.suspend(CALLER, stack_of(s))),
        lambda s: s.stacks.resume(CALLER, stack_of(s)),
        done(Verb.RESUME, "FAILED"),
    ),
    "snapshot": Failure(prepared(sick("snapshot")), take, done(Verb.SNAPSHOT, "FAILED")),
    "restore": Failure(
        prepared(BACK, take, lambda s: update(s, template(disk=odd("Refusing", "second", slow=0)))),
        lambda s: s.components.snapshots.restore(CALLER, stack_of(s), snapshot_of(s).id),
        done(Verb.RESTORE, "FAILED"),
    ),
    "lock": Failure(prepared(sick("lock")), lambda s: lock(s, LockLevel.ALL), done(Verb.LOCK, "FAILED")),
    "unlock": Failure(
        prepared(sick("unlock"), lambda s: lock(s, LockLevel.ALL)),
        lambda s: s.components.maintenance.unlock(CALLER, stack_of(s)),
        done(Verb.UNLOCK, "FAILED"),
    ),
}
"""Operations with the same end if the engine dies or stops after the failure."""
