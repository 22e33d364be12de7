"""The store on every database.

Test modules import these tests; they bring `store` and `url`.
"""

import multiprocessing
import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from itertools import count

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from heatlite.core.actions.payloads import ActionData, ActionInputs, ActionOutputs, MemberChange
from heatlite.core.actions.repairs import RepairStep
from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import Settings
from heatlite.core.errors import ActionConflict, HTTPBadRequest, Invalid, NotFound, StackExists
from heatlite.core.ids import new_id, random_id
from heatlite.core.json import JsonMap
from heatlite.core.status import ActionStatus, Cause, Control, LockLevel, Needs, Result, Status, Verb
from heatlite.engine.execution import retention
from heatlite.engine.execution.leases import renew_leases
from heatlite.engine.execution.retention import Retention
from heatlite.features.healing.store.records import IncidentRecord, RepairRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.features.nodes.states import NodeActionState, NodeState, Requester, TransitionOrigin
from heatlite.features.nodes.store.records import NodeActionRecord, NodeRecord, NodeTransitionRecord
from heatlite.features.nodes.store.store import NodeStore
from heatlite.store.actions import listing
from heatlite.store.actions.claims import UNREADABLE_DELAY
from heatlite.store.actions.listing import SORTED_BY, ActionQuery
from heatlite.store.admin.consistency import RULES
from heatlite.store.database.backend import Dialect
from heatlite.store.database.database import Database
from heatlite.store.errors import Duplicate, Fenced
from heatlite.store.feature_store import StackFilter
from heatlite.store.listeners import NO_LISTENERS
from heatlite.store.records import (
    ActionRecord,
    DroppedRecord,
    EventRecord,
    HealthRecord,
    LockRecord,
    PreviousState,
    ProtectionRecord,
    ResourceRecord,
    ServiceRecord,
    SnapshotRecord,
    SoftwareConfigRecord,
    SoftwareDeploymentRecord,
    StackRecord,
    SuppressedRecord,
)
from heatlite.store.secrets.cipher import PREFIX
from heatlite.store.stacks.events import EventQuery
from heatlite.store.stacks.resource_query import INDEXED, ResourceQuery
from heatlite.store.stacks.sizes import DefinitionSize
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.stacks.webhooks import webhook_digest
from heatlite.store.store import Store
from heatlite.store.writes.large_values import LARGE, LARGE_VALUE_GRACE
from tests.databases import claim_one
from tests.processes import fresh

__all__: list[str] = []
"""Every test of this module, for `import *`."""


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


# -- builders ------------------------------------------------------------------------------------


def a_stack(name: str = "web", **fields: object) -> StackRecord:
    given: dict[str, object] = {
        "id": new_id(),
        "name": name,
        "project": "acme",
        "username": "ann",
        "template_id": "0" * 64,
        "environment": {},
        "verb": Verb.CREATE,
        "status": Status.COMPLETE,
        "status_reason": "Stack CREATE completed successfully",
        "created_at": 100.0,
    }
    return StackRecord(**(given | fields))  # type: ignore[arg-type]


def a_resource(name: str = "db", **fields: object) -> ResourceRecord:
    given: dict[str, object] = {
        "id": new_id(),
        "stack_id": "s1",
        "name": name,
        "type": "OS::Heat::Value",
        "mapped_type": "OS::Heat::Value",
        "verb": Verb.CREATE,
        "status": Status.COMPLETE,
        "status_reason": "state changed",
        "created_at": 100.0,
    }
    return ResourceRecord(**(given | fields))  # type: ignore[arg-type]


def an_event(name: str = "db", **fields: object) -> EventRecord:
    given: dict[str, object] = {
        "stack_id": "s1",
        "resource_name": name,
        "resource_type": "OS::Heat::Value",
        "physical_id": None,
        "verb": "CREATE",
        "status": "COMPLETE",
        "status_reason": "state changed",
        "created_at": 100.0,
    }
    return EventRecord(**(given | fields))  # type: ignore[arg-type]


def an_action(stack_id: str | None = None, **fields: object) -> ActionRecord:
    stack_id = stack_id or new_id()
    given: dict[str, object] = {
        "id": new_id(),
        "stack_id": stack_id,
        "root_id": stack_id,
        "project": "acme",
        "verb": Verb.UPDATE,
        "status": ActionStatus.INIT,
        "requested_by": "ann",
        "created_at": 100.0,
    }
    return ActionRecord(**(given | fields))  # type: ignore[arg-type]


def a_refusal(**fields: object) -> SuppressedRecord:
    given: dict[str, object] = {
        "stack_id": "s1",
        "time": 100.0,
        "request": "mark_unhealthy",
        "target": "db",
        "requested_by": "ann",
        "detail": "locked",
        "method": "PATCH",
        "path": "/resources/db",
        "body": {"mark_unhealthy": True},
    }
    return SuppressedRecord(**(given | fields))  # type: ignore[arg-type]


def insert(store: Store, *records: StackRecord) -> None:
    with store.transaction():
        for record in records:
            store.stacks.insert(record)


def put(store: Store, *records: ActionRecord) -> None:
    with store.transaction():
        for record in records:
            store.queue.enqueue(record)


def put_after(store: Store, record: ActionRecord, *others: ActionRecord, needs: Needs = Needs.END) -> None:
    """Queue an action that depends on others."""
    with store.transaction():
        store.queue.enqueue(record, [(other.id, needs) for other in others])


def names(store: Store, query: StackQuery, project: str | None = "acme") -> list[str]:
    return [found.name for found in store.stacks.list(project, query)]


def at_once(store: Store, count: int, work: Callable[[int], object]) -> list[object]:
    """Results of `count` threads started together; an exception is a result too."""
    barrier = threading.Barrier(count)

    def run(number: int) -> object:
        barrier.wait()
        try:
            return work(number)
        except Exception as error:  # noqa: BLE001
            return error
        finally:
            store.close()

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(run, range(count)))


# -- transactions --------------------------------------------------------------------------------


@everywhere
def test_an_error_undoes_the_whole_transaction(store: Store) -> None:
    stack = a_stack()
    with pytest.raises(ZeroDivisionError), store.transaction():
        store.stacks.insert(stack)
        with store.transaction():
            store.resources.insert_many([a_resource()])
        raise ZeroDivisionError
    assert store.stacks.get(stack.id) is None
    assert store.resources.of("s1") == []


@everywhere
def test_an_inner_transaction_does_not_commit_the_outer_one(store: Store) -> None:
    stack = a_stack()
    with store.transaction():
        with store.transaction():
            store.stacks.insert(stack)
        (seen,) = at_once(store, 1, lambda _: store.stacks.get(stack.id))
        assert seen is None
    assert store.stacks.get(stack.id) == stack


@everywhere
def test_nothing_is_changed_outside_a_transaction(store: Store) -> None:
    with pytest.raises(RuntimeError, match="transaction"):
        store.stacks.insert(a_stack())
    with pytest.raises(RuntimeError, match="transaction"):
        store.services.heartbeat(ServiceRecord("e1", "host", "heatlite", 1.0, 1.0))
    with pytest.raises(RuntimeError, match="transaction"):
        store.claims.heartbeat("me", "a1", 1.0)


@everywhere
def test_a_caught_error_of_the_database_does_not_save_half(store: Store) -> None:
    first = a_stack("one")
    with pytest.raises(RuntimeError, match="nothing was kept"), store.transaction():
        store.stacks.insert(first)
        with pytest.raises(StackExists):
            store.stacks.insert(a_stack("one"))
    assert store.stacks.get(first.id) is None
    insert(store, first)  # and the thread can go on
    assert store.stacks.get(first.id) == first


@everywhere
@pytest.mark.parametrize("change", [{"status_reason": "lone \ud800"}, {"timeout_mins": 10**30}])
def test_what_a_database_cannot_hold_is_the_callers_fault(store: Store, change: dict[str, object]) -> None:
    stack = a_stack(**change)
    with pytest.raises(Invalid):
        insert(store, stack)
    assert store.stacks.get(stack.id) is None


@everywhere
def test_after_an_error_a_transaction_takes_no_more(store: Store) -> None:
    insert(store, a_stack("one"))
    with pytest.raises(RuntimeError, match="nothing was kept"), store.transaction():
        with pytest.raises(StackExists):
            store.stacks.insert(a_stack("one"))
        with pytest.raises(RuntimeError, match="nothing was kept"):
            store.stacks.insert(a_stack("two"))
    assert names(store, StackQuery()) == ["one"]


@everywhere
def test_a_connection_stays_while_its_transaction_lasts(store: Store) -> None:
    with store.transaction():
        store.stacks.insert(a_stack("one"))
        with pytest.raises(RuntimeError, match="closed"):
            store.close()
        store.stacks.insert(a_stack("two"))
    store.close()
    assert sorted(names(store, StackQuery())) == ["one", "two"]


# -- stacks --------------------------------------------------------------------------------------

FULL_STACK = {
    "environment": {"parameters": {"a": [1, None, "ü\n\0"]}},
    "verb": Verb.ROLLBACK,
    "status": Status.FAILED,
    "updated_at": 101.25,
    "parent_id": "p",
    "root_id": "r",
    "previous_template_id": "1" * 64,
    "previous_environment": {"parameters": {}},
    "timeout_mins": 7,
    "disable_rollback": False,
    "tags": ("one", 'a "quoted" one', "ü"),
    "lock": LockRecord(LockLevel.ALL, "ann", True, 102.5, "migration", 200.125),
    "parent_resource": "db",
    "depth": 3,
    "inherited": {"facade": {}, "without": ["x.yaml"]},
    "before_lock": "CHECK_FAILED",
    "sealed": True,
    "protection": ProtectionRecord("ann", 103.5, "the 'only' copy"),
}


@everywhere
def test_a_stack_comes_back_as_it_was_given(store: Store) -> None:
    plain, full = a_stack(), a_stack("full", **FULL_STACK)
    insert(store, plain, full)
    assert store.stacks.get(plain.id) == plain
    assert store.stacks.get(full.id) == full
    assert store.stacks.get("none") is None
    changed = replace(plain, **FULL_STACK)  # type: ignore[arg-type]
    with store.transaction():
        store.stacks.save(changed)
        store.stacks.save(a_stack("other", id=full.id))
    assert store.stacks.get(plain.id) == changed
    assert store.stacks.get(full.id) == a_stack("other", id=full.id, sealed=True)


def held(store: Store, stack: StackRecord) -> StackRecord:
    found = store.stacks.get(stack.id)
    assert found is not None
    return found


@everywhere
def test_the_cloud_of_a_tree_is_its_roots_and_only_recorded_deliberately(store: Store) -> None:
    cloud = CloudIdentity("mine", "https://keystone/v3", "Ü", None)
    root, other = a_stack("root", cloud=cloud), a_stack("other")
    child = a_stack("child", root_id=root.id, parent_id=root.id)
    insert(store, root, other, child)
    assert [store.stacks.cloud_of(one) for one in (root, other, child)] == [cloud, None, cloud]
    proven = replace(cloud, project_id="p1")
    with store.transaction():
        store.stacks.record_cloud(root.id, proven)
        store.stacks.save(replace(root, cloud=None))  # a worker knows it as it was when it began
    assert [store.stacks.cloud_of(one) for one in (held(store, root), other, child)] == [proven, None, proven]


@everywhere
def test_a_name_is_free_in_another_project_in_other_letters_and_after_deletion(store: Store) -> None:
    first = a_stack("web")
    insert(store, first, a_stack("Web"), a_stack("web", project="other"))
    with pytest.raises(StackExists, match=r"The Stack \(web\) already exists"):
        insert(store, a_stack("web"))
    with store.transaction():
        store.stacks.save(replace(first, deleted_at=110.0))
    assert store.stacks.by_name("acme", "web") is None
    second = a_stack("web")
    insert(store, second)
    assert store.stacks.by_name("acme", "web") == second
    assert store.stacks.get(first.id) == replace(first, deleted_at=110.0)


@everywhere
def test_spaces_at_the_end_tell_texts_apart(store: Store) -> None:
    plain, spaced, foreign = a_stack("a"), a_stack("a "), a_stack("a", project="acme ")
    insert(store, plain, spaced, foreign)
    assert store.stacks.by_name("acme", "a") == plain
    assert store.stacks.by_name("acme", "a ") == spaced
    assert store.stacks.by_name("acme ", "a ") is None
    assert names(store, StackQuery(sort_keys=("stack_name",), sort_dir="asc")) == ["a", "a "]
    assert names(store, StackQuery(), "acme ") == ["a"]
    assert names(store, StackQuery(), "acme  ") == []


@everywhere
def test_an_object_is_found_by_its_whole_id(store: Store) -> None:
    stack = a_stack()
    insert(store, stack)
    ends = ("", " ", "  ", "\t", " x")
    ids = {"x" * length + end for length in (1, INDEXED - 1, INDEXED, INDEXED + 1) for end in ends}
    with store.transaction():
        store.resources.insert_many([a_resource(one, stack_id=stack.id, physical_id=one) for one in sorted(ids)])
    for one in ids:
        assert [row.physical_id for row in store.resources.with_objects("acme", [one])] == [one]
        assert [row.name for row in store.resources.of_type_with_object("OS::Heat::Value", one)] == [one]


@pytest.mark.slow
@everywhere
def test_rows_that_are_large_together_are_written(store: Store) -> None:
    """By default MariaDB refuses a statement of more than 16 MiB."""
    many: JsonMap = {f"part-{number}": "x" * 4000 for number in range(500)}
    rows = [a_resource(f"r{number}", properties=many) for number in range(12)]
    with store.transaction():
        store.resources.insert_many(rows)
        store.resources.save_many([replace(row, status_reason="saved") for row in rows])
    found = store.resources.of("s1")
    assert {row.name: (row.properties, row.status_reason) for row in found} == dict.fromkeys(
        [row.name for row in rows], (many, "saved")
    )


@everywhere
def test_only_the_name_means_stack_exists(store: Store) -> None:
    stack = a_stack("live_name")
    insert(store, stack)
    with pytest.raises(Duplicate):
        insert(store, replace(stack, name="other"))


@everywhere
def test_of_stacks_with_one_name_at_the_same_moment_one_is_made(store: Store) -> None:
    results = at_once(store, 8, lambda _: insert(store, a_stack("race")))
    assert sum(result is None for result in results) == 1
    assert sum(isinstance(result, StackExists) for result in results) == 7
    assert store.stacks.count("acme", StackQuery()) == 1


@everywhere
def test_relatives_are_found_at_every_depth(store: Store) -> None:
    root = a_stack("root")
    child = a_stack("child", parent_id=root.id, root_id=root.id)
    gone = a_stack("gone", parent_id=root.id, root_id=root.id, deleted_at=1.0)
    grandchild = a_stack("grandchild", parent_id=child.id, root_id=root.id)
    sibling = a_stack("sibling", parent_id=root.id, root_id=root.id)
    insert(store, grandchild, sibling, gone, child, root, a_stack("stranger"))
    assert store.stacks.ancestors(grandchild) == [child, root]
    assert store.stacks.ancestors(root) == []
    below = store.stacks.descendants(root)
    assert sorted(found.name for found in below) == ["child", "grandchild", "sibling"]
    assert below[-1] == grandchild
    assert store.stacks.descendants(child) == [grandchild]


@everywhere
def test_expired_locks_are_those_of_live_stacks_whose_time_has_come(store: Store) -> None:
    def locked(name: str, until: float | None, **fields: object) -> StackRecord:
        return a_stack(name, lock=LockRecord(LockLevel.STACKS, "ann", False, 1.0, None, until), **fields)

    insert(store, locked("late", 200.0), locked("due", 150.0), locked("first", 50.0), locked("ever", None))
    insert(store, locked("gone", 10.0, deleted_at=20.0), a_stack("free"))
    assert [found.name for found in store.stacks.expired_locks(150.0)] == ["first", "due"]


@everywhere
@pytest.mark.parametrize("other", [False, True], ids=["the same", "another of its tree"])
def test_a_held_stack_is_kept_from_others_until_the_end(store: Store, other: bool) -> None:
    stack = a_stack()
    nested = [a_stack(f"n{number}", parent_id=stack.id, root_id=stack.id) for number in range(2)]
    insert(store, stack, *nested)
    order: list[str] = []
    held = threading.Event()

    def work(number: int) -> None:
        if number == 1:
            held.wait()
        with store.transaction():
            assert store.stacks.lock(nested[number].id if other else stack.id) is not None
            found = store.stacks.get(stack.id)
            assert found is not None
            if number == 0:
                held.set()
                threading.Event().wait(0.1)
            order.append(f"{number} saw {found.status_reason}")
            store.stacks.save(replace(found, status_reason=f"by {number}"))

    assert at_once(store, 2, work) == [None, None]
    assert order == [f"0 saw {stack.status_reason}", "1 saw by 0"]
    with store.transaction():
        assert store.stacks.lock("none") is None


# -- the list of stacks --------------------------------------------------------------------------


EARLY = StackFilter("SELECT id FROM stack WHERE created_at < ?", project="project")


def some_stacks(store: Store) -> None:
    insert(
        store,
        a_stack("a", created_at=1.0, updated_at=9.0, tags=("red", "big"), username="bob"),
        a_stack("b", created_at=2.0, tags=("red",), status=Status.FAILED, timeout_mins=5),
        a_stack("c", created_at=3.0, updated_at=5.0, verb=Verb.UPDATE, disable_rollback=False),
        a_stack("d", created_at=4.0, updated_at=7.0, tags=("redder", "big"), verb=Verb.DELETE, deleted_at=8.0),
        a_stack("e", created_at=5.0, parent_id="p", root_id="p", status=Status.IN_PROGRESS),
        a_stack("f", created_at=6.0, project="other"),
    )


@everywhere
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (StackQuery(), "cba"),
        (StackQuery(sort_dir="asc"), "abc"),
        (StackQuery(show_deleted=True), "dcba"),
        (StackQuery(show_nested=True), "ecba"),
        (StackQuery(limit=0), ""),
        (StackQuery(limit=2), "cb"),
        (StackQuery(sort_keys=("stack_name",)), "abc"),
        (StackQuery(sort_keys=("stack_name",), sort_dir="desc"), "cba"),
        (StackQuery(sort_keys=("name",)), "cba"),  # not a key of Heat's, so ignored
        (StackQuery(sort_keys=("updated_time",)), "bca"),
        (StackQuery(sort_keys=("stack_status", "stack_name")), "acb"),
        (StackQuery(filters={"name": ["a", "c", "zz"]}), "ca"),
        (StackQuery(filters={"stack_name": ["b"]}), "b"),
        (StackQuery(filters={"status": ["COMPLETE"]}), "ca"),
        (StackQuery(filters={"status": ["CREATE_COMPLETE"]}), "a"),
        (StackQuery(filters={"stack_status": ["CREATE_COMPLETE", "FAILED"]}), "ba"),
        (StackQuery(filters={"status": ["IN_PROGRESS"]}, show_nested=True), "e"),
        (StackQuery(filters={"status": ["CREATE_IN_PROGRESS"]}, show_nested=True), "e"),
        (StackQuery(filters={"status": ["NONE"]}), ""),
        (StackQuery(filters={"status": []}), ""),
        (StackQuery(filters={"action": ["UPDATE"]}), "c"),
        (StackQuery(filters={"action": ["CREATE"], "status": ["FAILED"]}), "b"),
        (StackQuery(filters={"username": ["bob"]}), "a"),
        (StackQuery(filters={"stack_owner": ["bob"]}), "a"),
        (StackQuery(filters={"owner_id": ["p"]}, show_nested=True), "e"),
        (StackQuery(filters={"parent": ["p"]}), ""),
        (StackQuery(filters={"tenant": ["acme"]}), "cba"),
        (StackQuery(filters={"tenant": ["other"]}), ""),
        (StackQuery(filters={"timeout_mins": ["5"]}), "b"),
        (StackQuery(filters={"timeout_mins": ["five"]}), ""),
        (StackQuery(filters={"timeout_mins": ["\u0665"]}), ""),
        (StackQuery(filters={"timeout_mins": ["9" * 40]}), ""),
        (StackQuery(filters={"disable_rollback": ["False"]}), "c"),
        (StackQuery(filters={"stack_user_project_id": ["x"]}), ""),
        (StackQuery(filters={"no_such_filter": ["x"]}), "cba"),
        (StackQuery(of_features=[(EARLY, 3.0)]), "ba"),
        (StackQuery(of_features=[(StackFilter("SELECT id FROM stack WHERE status = 'FAILED'"), None)]), "b"),
        (StackQuery(tags=("red",)), "ba"),
        (StackQuery(tags=("red", "big")), "a"),
        (StackQuery(tags=("re",)), ""),
        (StackQuery(tags=("RED",)), ""),
        (StackQuery(tags_any=("big", "red")), "ba"),
        (StackQuery(tags_any=("big",), show_deleted=True), "da"),
        (StackQuery(not_tags=("red", "big")), "cb"),
        (StackQuery(not_tags_any=("red", "big")), "c"),
        # A database bounds the depth of an expression.
        (StackQuery(tags=("red", *(f"t{number}" for number in range(1500)))), ""),
        (StackQuery(tags=("red",) * 1500), "ba"),
        (StackQuery(tags_any=(*(f"t{number}" for number in range(1500)), "red")), "ba"),
        (StackQuery(not_tags=("red", *(f"t{number}" for number in range(1500)))), "cba"),
        (StackQuery(not_tags_any=(*(f"t{number}" for number in range(1500)), "red")), "c"),
        (StackQuery(filters={"status": [*(f"S{number}" for number in range(1500)), "FAILED"]}), "b"),
    ],
)
def test_the_list_of_stacks(store: Store, query: StackQuery, expected: str) -> None:
    some_stacks(store)
    assert "".join(names(store, query)) == expected
    if query.limit is None:
        assert store.stacks.count("acme", query) == len(expected)


@everywhere
def test_a_list_of_all_there_is(store: Store) -> None:
    insert(store, a_stack(project="acme"), a_stack(project="other"))
    assert len(store.stacks.list(None, StackQuery(show_deleted=True, show_nested=True))) == 2


@everywhere
def test_a_summary_says_what_the_stack_says(store: Store) -> None:
    stack = a_stack(**FULL_STACK)
    insert(store, stack)
    (found,) = store.stacks.list("acme", StackQuery(show_nested=True))
    assert found.locked
    assert found.protected
    assert stack.lock is not None
    assert found.lock_level is stack.lock.level
    for name in found.__slots__:
        if name != "lock_level":
            assert getattr(found, name) == getattr(stack, name)


@everywhere
def test_all_projects_are_listed_when_none_is_named(store: Store) -> None:
    some_stacks(store)
    assert names(store, StackQuery(), project=None) == ["f", "c", "b", "a"]
    assert names(store, StackQuery(filters={"tenant": ["other"]}), project=None) == ["f"]
    assert store.stacks.count(None, StackQuery(limit=1)) == 4


@everywhere
@pytest.mark.parametrize("keys", [(), ("stack_name",), ("stack_status",), ("updated_time", "stack_name")])
@pytest.mark.parametrize("direction", ["asc", "desc", None])
def test_the_pages_together_are_the_list(store: Store, keys: Sequence[str], direction: str | None) -> None:
    for number in range(11):
        stack = a_stack(
            f"s{number * 7 % 11}",
            created_at=float(number // 3),  # several at the same time
            updated_at=None if number % 2 else float(number // 4),
            status=Status.FAILED if number % 3 else Status.COMPLETE,
        )
        insert(store, stack)
    query = StackQuery(sort_keys=keys, sort_dir=direction)
    whole = store.stacks.list("acme", query)
    assert len(whole) == 11
    paged = page = store.stacks.list("acme", replace(query, limit=3))
    while page:
        page = store.stacks.list("acme", replace(query, limit=3, marker=page[-1].id))
        paged = paged + page
    assert paged == whole


@everywhere
def test_an_unknown_marker_means_from_the_start(store: Store) -> None:
    some_stacks(store)
    (foreign,) = store.stacks.list("other", StackQuery())
    assert names(store, StackQuery(marker="none")) == ["c", "b", "a"]
    assert names(store, StackQuery(marker=foreign.id)) == ["c", "b", "a"]


# -- templates -----------------------------------------------------------------------------------


@everywhere
def test_a_template_is_stored_once_whatever_the_order_of_its_keys(store: Store) -> None:
    with store.transaction():
        first = store.templates.put({"a": 1, "b": {"c": "ü"}}, {"f": "x" * 100_000})
        again = store.templates.put({"b": {"c": "ü"}, "a": 1}, {"f": "x" * 100_000})
        other = store.templates.put({"a": 1, "b": {"c": "ü"}}, {})
    assert first == again != other
    found = store.templates.get(first)
    assert found.document == {"a": 1, "b": {"c": "ü"}}
    assert found.files == {"f": "x" * 100_000}
    with pytest.raises(NotFound):
        store.templates.get("none")


def purge_templates(store: Store, now: float, before: float) -> set[str]:
    """The ids of the templates left by retention of those unused before a moment."""
    with store.transaction():
        store.templates.mark_unused(store.templates.unreferenced(100) or ["none"], now)
    with store.transaction():
        store.templates.remove_unused(store.templates.unused_before(before, 100) or ["none"])
    return {template_id for (template_id,) in store.database.read("SELECT id FROM template")}


@everywhere
def test_a_template_goes_some_time_after_its_last_reference(store: Store) -> None:
    with store.transaction():
        ids = [store.templates.put({"number": number}, {}) for number in range(4)]
        of_deleted = a_stack("gone", template_id=ids[2], deleted_at=5.0)
        changed = a_stack(template_id=ids[0], previous_template_id=ids[1])
        store.stacks.insert_many([changed, of_deleted])
    assert purge_templates(store, 10.0, 10.0) == {*ids}, "marked"
    assert store.templates.unused_before(11.0, 100) == [ids[3]]
    assert purge_templates(store, 20.0, 11.0) == {*ids[:3]}
    with store.transaction():
        store.stacks.save(replace(changed, template_id=ids[2], previous_template_id=None))
        store.stacks.remove([of_deleted.id])
    assert purge_templates(store, 20.0, 20.0) == {*ids[:3]}
    assert purge_templates(store, 30.0, 21.0) == {ids[2]}


@everywhere
def test_a_template_that_is_used_again_stays_as_long_as_a_new_one(store: Store) -> None:
    with store.transaction():
        (template_id,) = [store.templates.put({"a": 1}, {})]
    assert purge_templates(store, 10.0, 10.0) == {template_id}
    found = store.templates.unused_before(11.0, 100)
    with store.transaction():
        assert store.templates.put({"a": 1}, {}) == template_id
        stack = a_stack(template_id=template_id)
        store.stacks.insert(stack)
    with store.transaction():
        assert store.templates.remove_unused(found) == 0, "it was found before it was used again"
    with store.transaction():
        store.stacks.remove([stack.id])
    assert purge_templates(store, 20.0, 20.0) == {template_id}


@everywhere
def test_what_is_about_to_refer_to_a_template_keeps_it(store: Store) -> None:
    """Retention between a template and its stack's commit deletes nothing, at once."""
    with store.transaction():
        ids = {name: store.templates.put({"is": name}, {}) for name in ("known", "marked", "unused")}
        store.templates.mark_unused([ids["marked"], ids["unused"]], 10.0)
    put, go_on = threading.Event(), threading.Event()

    def create() -> None:
        with store.transaction():
            ids["new"] = store.templates.put({"is": "new"}, {})
            for name in ("known", "marked", "new"):
                template_id = store.templates.put({"is": name}, {})
                store.stacks.insert(a_stack(name, template_id=template_id))
            put.set()
            assert go_on.wait(240)
        store.close()

    def purge() -> None:
        purge_templates(store, 20.0, 30.0)
        with store.transaction():
            store.templates.remove_unused([*ids.values()])

    creation = threading.Thread(target=create)
    creation.start()
    assert put.wait(240)
    if store.database.backend.dialect is not Dialect.SQLITE:  # it has one transaction at a time
        purge()
    go_on.set()
    creation.join()
    purge()
    assert purge_templates(store, 40.0, 50.0) == {ids["known"], ids["marked"], ids["new"]}
    assert store.inconsistencies(1e9, 0.0) == []


@pytest.mark.slow
@everywhere
def test_templates_are_stored_and_deleted_at_the_same_time(store: Store) -> None:
    """Creates and deletes with few templates, during retention without a grace."""
    end = time.monotonic() + 1.5
    faults: list[Exception] = []

    def work(number: int) -> None:
        try:
            for turn in count():
                if time.monotonic() > end:
                    break
                with store.transaction():
                    template_id = store.templates.put({"number": (turn + number) % 3}, {})
                    store.stacks.insert(a_stack(f"{number}-{turn}", id=f"s-{number}-{turn}", template_id=template_id))
                with store.transaction():
                    if turn % 5:
                        store.stacks.remove([f"s-{number}-{turn}"])
        except Exception as error:  # noqa: BLE001 - told by the test
            faults.append(error)
        store.close()

    workers = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for worker in workers:
        worker.start()
    while any(worker.is_alive() for worker in workers):
        purge_templates(store, 1.0, 2.0)
        time.sleep(0.002)
    assert faults == []
    assert [one.id for one in store.inconsistencies(0.0, 0.0)] == []


# -- resources -----------------------------------------------------------------------------------

FULL_RESOURCE = {
    "type": "OS::Nova::Server",
    "mapped_type": "server.yaml",
    "verb": Verb.UPDATE,
    "status": Status.FAILED,
    "status_reason": "100% 'broken' \\ \"ü\" ?",
    "updated_at": 101.5,
    "physical_name": "web-db-abc",
    "physical_id": "42",
    "properties": {"a": {"b": [1, 2.5, None, True, "ü"]}},
    "metadata": {"m": 1},
    "data": {"d": "x"},
    "token": {"token": None},
    "requires": ("a", "b"),
    "deletion_policy": "Retain",
    "description": "a database",
    "before_lock": PreviousState(Verb.CHECK, Status.FAILED, "marked", 5.0),
    "before_check": PreviousState(Verb.CREATE, Status.FAILED, "no quota"),
    "health": HealthRecord(
        6.5,
        "no ü answer",
        True,
        PreviousState(Verb.UNLOCK, Status.COMPLETE, "x", 7.0),
        PreviousState(Verb.INIT, Status.COMPLETE, ""),
    ),
    "protection": ProtectionRecord("ann", 103.5),
}


@everywhere
def test_resources_come_back_as_they_were_given(store: Store) -> None:
    plain, full = a_resource("plain"), a_resource("full", **FULL_RESOURCE)
    stranger = a_resource(stack_id="s2")
    with store.transaction():
        store.resources.insert_many([full, stranger, plain])
        store.resources.insert_many([])
        store.resources.save_many([])
        store.resources.delete_many([])
    assert store.resources.of("s1") == sorted([plain, full], key=lambda found: found.id)
    changed = [replace(plain, **FULL_RESOURCE), a_resource("full", id=full.id)]  # type: ignore[arg-type]
    with store.transaction():
        store.resources.save_many(changed)
    assert store.resources.of("s1") == sorted(changed, key=lambda found: found.id)
    with store.transaction():
        store.resources.delete_many([plain.id, "none"])
    assert store.resources.of("s1") == [changed[1]]
    assert store.resources.of("s2") == [stranger]


@everywhere
def test_resources_are_listed_in_pages(store: Store) -> None:
    first = ("b", "ä", "a", "A")
    rows = [a_resource(name, stack_id=one, type=f"OS::{name}") for one in ("s1", "s2") for name in first]
    # The older rows of a name wait for their clean-up.
    rows.append(a_resource("a", stack_id="s1", type="My_Type%", physical_id="p" * 100))
    rows.append(a_resource("c", stack_id="s3", verb=Verb.CHECK, status=Status.FAILED))
    rows = [replace(row, id=f"{number:036}") for number, row in enumerate(rows)]
    with store.transaction():
        store.resources.insert_many(rows)
    every = ResourceQuery()

    def paged(query: ResourceQuery, stacks: Sequence[str], limit: int) -> list[tuple[str, str]]:
        found = list[tuple[str, str]]()
        for one in stacks:
            after = None
            while some := store.resources.page([one], query, after, limit):
                found += [(row.stack_id, row.name) for row in some]
                after = some[-1].name
        return found

    listed = [(row.stack_id, row.name) for row in store.resources.listed(["s1", "s2"], every)]
    assert listed == [*(("s1", name) for name in ("b", "ä", "A", "a")), *(("s2", name) for name in first)]
    for limit in (1, 2, 10):
        assert sorted(paged(every, ["s1", "s2"], limit)) == sorted(listed)
        assert paged(every, ["s1", "s2"], limit) == paged(every, ["s1", "s2"], 3)
    assert len(store.resources.page(["s1", "s2"], every, None, 5)) == 5
    for query, expected in (
        (ResourceQuery(name=("a", "zz")), ["a"]),
        (ResourceQuery(type=("y_",)), ["a"]),
        (ResourceQuery(type=("%",)), ["a"]),
        (ResourceQuery(type=("os::",)), []),
        (ResourceQuery(physical_resource_id=("p" * 100,)), ["a"]),
        (ResourceQuery(physical_resource_id=("p" * 99,)), []),
        (ResourceQuery(id=(rows[0].id, rows[2].id)), ["b"]),
        (ResourceQuery(status=("CREATE_COMPLETE",), name=("b",)), ["b"]),
        (ResourceQuery(status=("FAILED", "UPDATE_COMPLETE")), []),
        (ResourceQuery(action=("CHECK",)), []),
    ):
        assert [name for _, name in paged(query, ["s1"], 2)] == expected, query
    for query in (
        ResourceQuery(status=("FAILED",)),
        ResourceQuery(status=("CHECK_FAILED",)),
        ResourceQuery(action=("CHECK",)),
        ResourceQuery(unwell_of="s3"),
    ):
        assert paged(query, ["s1", "s2", "s3"], 2) == [("s3", "c")], query


@everywhere
def test_the_first_protected_resource_of_some_stacks_is_found(store: Store) -> None:
    held = ProtectionRecord("ann", 103.5, "data")
    plain, guarded = a_resource("plain"), a_resource("guarded", protection=held)
    stranger = a_resource("stranger", stack_id="s2", protection=held)
    with store.transaction():
        store.resources.insert_many([plain, guarded, stranger])
    assert store.resources.protected(["s1"]) == guarded
    assert store.resources.protected(["s3", "s2"]) == stranger
    assert store.resources.protected(["s3"]) is None
    with store.transaction():
        store.resources.save_many([replace(guarded, protection=None)])
    assert store.resources.protected(["s1"]) is None


@everywhere
def test_what_a_resource_was_born_with_is_never_saved_again(store: Store) -> None:
    resource = a_resource()
    with store.transaction():
        store.resources.insert_many([resource])
        store.resources.save_many([replace(resource, stack_id="s2", name="x", created_at=1.0, status_reason="new")])
    assert store.resources.of("s1") == [replace(resource, status_reason="new")]


@everywhere
@given(text=st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0")), number=st.floats(0, 1e11))
def test_any_text_and_any_moment_survive(store: Store, text: str, number: float) -> None:
    resource = a_resource(status_reason=text, created_at=number, properties={text: [text, number]}, requires=(text,))
    event = an_event(status_reason=text, created_at=number, stack_id=resource.id)
    changed = replace(resource, updated_at=number, physical_id=text, token={"token": text})
    with store.transaction():
        store.resources.insert_many([replace(resource, stack_id=resource.id)])
        store.resources.save_many([changed])
        store.events.append_many([event])
    assert store.resources.of(resource.id) == [replace(changed, stack_id=resource.id)]
    (found,) = store.events.list(resource.id, EventQuery())
    assert replace(found, id=0) == event


@everywhere
def test_batches_larger_than_one_statement_takes(store: Store) -> None:
    resources = [a_resource(f"r{number:04}", properties={"text": "x" * 3000}) for number in range(1500)]
    resources.sort(key=lambda found: found.id)
    with store.transaction():
        store.resources.insert_many(resources)
        store.resources.save_many([replace(found, updated_at=number) for number, found in enumerate(resources)])
        store.events.append_many([an_event(found.name) for found in resources])
    assert store.resources.of("s1") == [replace(found, updated_at=n) for n, found in enumerate(resources)]
    assert len(store.resources.by_name("s1", [found.name for found in resources])) == 1500
    events = store.events.list("s1", EventQuery(sort_dir="asc"))
    assert [found.resource_name for found in events] == [found.name for found in resources]
    with store.transaction():
        store.resources.delete_many([found.id for found in resources])
    assert store.resources.of("s1") == []


@everywhere
def test_a_resource_is_found_by_its_name_before_its_physical_id(store: Store) -> None:
    rows = [
        a_resource("db", physical_id="1"),
        a_resource("db", physical_id="2"),
        a_resource("1", physical_id="3"),
        a_resource("x", physical_id="4"),
        a_resource("y", physical_id="4"),
        a_resource("db", stack_id="s2"),
    ]
    with store.transaction():
        store.resources.insert_many(rows)

    def found(key: str) -> set[str]:
        return {found.id for found in store.resources.find("s1", key)}

    assert found("db") == {rows[0].id, rows[1].id}
    assert found("1") == {rows[2].id}
    assert found("2") == {rows[1].id}
    assert found("4") == {rows[3].id, rows[4].id}
    assert found("none") == set()
    assert store.resources.by_name("s1", []) == []


# -- events --------------------------------------------------------------------------------------


@everywhere
def test_events_are_newest_first_and_show_their_properties_one_by_one(store: Store) -> None:
    given = [an_event("a", properties={"p": [1]}, physical_id="42"), an_event("b"), an_event("c", stack_id="s2")]
    with store.transaction():
        store.events.append_many(given)
    newest, oldest = store.events.list("s1", EventQuery())
    assert (newest.resource_name, oldest.resource_name) == ("b", "a")
    assert oldest == replace(given[0], id=oldest.id, properties={})
    assert store.events.get("s1", str(oldest.id)) == replace(given[0], id=oldest.id)
    for unknown in ("0", "-1", "x", "", "²", str(2**70)):
        assert store.events.get("s1", unknown) is None
    assert store.events.get("s2", str(oldest.id)) is None


@everywhere
@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (EventQuery(), "edcba"),
        (EventQuery(sort_dir="asc"), "abcde"),
        (EventQuery(sort_dir="asc", sort_keys=("event_time",)), "adbec"),
        (EventQuery(sort_keys=("resource_type", "event_time")), "ebcda"),
        (EventQuery(sort_keys=("zz",)), "edcba"),
        (EventQuery(limit=2), "ed"),
        (EventQuery(limit=0), ""),
        (EventQuery(resource_name=("a", "c")), "ca"),
        (EventQuery(resource_status=("FAILED",)), "db"),
        (EventQuery(resource_action=("UPDATE",), resource_status=("FAILED",)), "d"),
        (EventQuery(resource_type=("T2",)), "eb"),
        (EventQuery(resource_type=("t2",)), ""),
    ],
)
def test_the_list_of_events(store: Store, query: EventQuery, expected: str) -> None:
    with store.transaction():
        store.events.append_many(
            [
                an_event("a", created_at=1.0, resource_type="T0"),
                an_event("b", created_at=3.0, status="FAILED", resource_type="T2"),
                an_event("c", created_at=5.0, resource_type="T1"),
                an_event("d", created_at=2.0, verb="UPDATE", status="FAILED", resource_type="T0"),
                an_event("e", created_at=4.0, verb="UPDATE", resource_type="T2"),
            ]
        )
    assert "".join(found.resource_name for found in store.events.list("s1", query)) == expected
    page, paged = store.events.list("s1", replace(query, limit=1)) if query.limit is None else [], ""
    while page:
        paged += page[0].resource_name
        page = store.events.list("s1", replace(query, limit=1, marker=str(page[0].id)))
    assert paged == (expected if query.limit is None else "")
    assert store.events.list("s1", replace(query, marker="none")) == store.events.list("s1", query)


@everywhere
def test_the_events_of_a_tree_come_in_one_list(store: Store) -> None:
    root = a_stack("root")
    child = a_stack("child", parent_id=root.id, root_id=root.id, depth=1, deleted_at=5.0)
    grandchild = a_stack("grandchild", parent_id=child.id, root_id=root.id, depth=2)
    other = a_stack("other")
    with store.transaction():
        for stack in (root, child, grandchild, other):
            store.stacks.insert(stack)
        told = zip("abcxdef", (root, child, grandchild, other, child, root, grandchild), strict=True)
        store.events.append_many([an_event(name, stack_id=stack.id) for name, stack in told])

    assert store.stacks.nested(root.id, 1) == {child.id: "child"}
    assert store.stacks.nested(root.id, 2) == {child.id: "child", grandchild.id: "grandchild"}
    assert store.stacks.nested(child.id, 2**31 - 1) == {grandchild.id: "grandchild"}
    assert store.stacks.nested(grandchild.id, 9) == {}

    def names(top: StackRecord, depth: int, **query: object) -> str:
        nested = list(store.stacks.nested(top.id, depth))
        found = store.events.list(top.id, EventQuery(**query), nested)  # type: ignore[arg-type]
        return "".join(event.resource_name for event in found)

    assert names(root, 9) == "fedcba"
    assert names(root, 1, sort_dir="asc") == "abde"
    assert names(child, 1, sort_dir="asc") == "bcdf"
    assert names(root, 2, sort_dir="asc", limit=3) == "abc"
    (third,) = store.events.list(grandchild.id, EventQuery(sort_dir="asc", limit=1))
    assert names(root, 2, sort_dir="asc", limit=3, marker=str(third.id)) == "def"
    assert names(root, 2, resource_name=("c", "e", "x")) == "ec"


@everywhere
@pytest.mark.parametrize("was_running", [False, True])
def test_an_action_that_cannot_be_read_keeps_no_other_waiting(store: Store, was_running: bool) -> None:
    """Such as one that is encrypted with a key that this engine lacks."""
    unreadable, other = an_action(), an_action()
    put(store, unreadable)
    if was_running:
        assert claim_one(store, "gone", 0.0, 1.0) is not None
    put(store, other)

    def write(inputs: str) -> None:
        with store.transaction():
            store.database.write("UPDATE action SET inputs = ? WHERE id = ?", (inputs, unreadable.id))

    write(f"{PREFIX}damaged")
    found = claim_one(store, "one", 100.0, 1000.0)
    assert found is not None and found.id == other.id
    assert claim_one(store, "one", 101.0, 1000.0) is None
    write("{}")
    assert claim_one(store, "one", 100.0 + UNREADABLE_DELAY - 1.0, 1000.0) is None
    found = claim_one(store, "one", 100.0 + UNREADABLE_DELAY, 1000.0)
    assert found is not None and found.id == unreadable.id


@everywhere
def test_an_engine_that_cannot_read_an_action_leaves_it_to_others(store: Store, url: str) -> None:
    """It may lack a key that they have."""
    unreadable = an_action()
    put(store, unreadable)
    sql, damaged = "UPDATE action SET inputs = ? WHERE id = ?", f"{PREFIX}damaged"
    with store.transaction():
        store.database.write(sql, (damaged, unreadable.id))
    for named in (None, unreadable.id):
        assert claim_one(store, "one", 100.0, 1000.0, named) is None
    with store.transaction():
        store.database.write(sql, ("{}", unreadable.id))
    assert claim_one(store, "one", 101.0, 1000.0) is None
    other = Store.open(url)
    found = claim_one(other, "two", 101.0, 1000.0)
    assert found is not None
    with other.transaction():
        other.claims.give_back(found, 102.0, "lacks the key, too")
    other.close()
    found = claim_one(store, "one", 100.0 + UNREADABLE_DELAY, 1000.0)
    assert found is not None and (found.attempt, found.retries) == (2, 0)


@everywhere
def test_a_late_commit_does_not_shorten_a_lease(store: Store) -> None:
    """It takes the time before it waits for locks.

    Meanwhile the worker renews its leases.
    """
    put(store, an_action("s1", id="a"))
    claimed = claim_one(store, "me", 100.0, 30.0)
    assert claimed is not None

    def until() -> float | None:
        found = store.actions.get("a")
        assert found is not None
        return found.lease_until

    with store.transaction():
        store.claims.heartbeat("me", ["a"], 150.0)
    with store.transaction():
        store.claims.begin_commit(claimed, 110.0, 30.0)
        store.claims.renew(claimed, 111.0, 30.0)
    assert until() == 150.0
    with store.transaction():
        store.claims.renew(claimed, 121.0, 30.0)
    assert until() == 151.0


@everywhere
def test_actions_that_cannot_be_read_keep_no_other_waiting(store: Store) -> None:
    """Neither one that is due nor one whose time is up."""
    store.encryption.encrypt("a key file")
    stacks = [a_stack(str(number), id=f"s{number}") for number in range(4)]
    insert(store, *stacks)
    later = [an_action(stack.id, id=f"due-{stack.id}", not_before=200.0, deadline=300.0) for stack in stacks[:2]]
    with store.transaction():
        for one in later:
            store.queue.schedule(one)
    put(store, *(an_action(stack.id, id=f"over-{stack.id}", deadline=300.0) for stack in stacks[2:]))
    with store.transaction():
        sql = "UPDATE action SET inputs = ? WHERE id IN (?, ?)"
        store.database.write(sql, (f"{PREFIX}damaged", "due-s0", "over-s2"))
    assert [found.id for found in store.queue.due(250.0)] == ["due-s1"]
    assert [found.id for found in store.moves.overdue(400.0)] == ["over-s3"]


@everywhere
def test_a_parked_action_that_cannot_be_read_keeps_no_other_waiting(store: Store) -> None:
    store.encryption.encrypt("a key file")
    stacks = [a_stack(str(number), id=f"s{number}") for number in range(2)]
    insert(store, *stacks)
    put(store, *(an_action(stack.id, id=f"a-{stack.id}") for stack in stacks))
    for _ in stacks:
        claimed = claim_one(store, "me", 100.0, 30.0)
        assert claimed is not None
        with store.transaction():
            assert store.moves.park(claimed, 0, ActionStatus.WAITING_LIFECYCLE_COMPLETION, 100.0, 200.0)
    with store.transaction():
        store.database.write("UPDATE action SET inputs = ? WHERE id = ?", (f"{PREFIX}damaged", "a-s0"))
    assert store.moves.wake_parked(300.0) == 1
    found = store.actions.get("a-s1")
    assert found is not None and found.status is ActionStatus.READY


@everywhere
def test_events_of_a_stack_are_committed_in_the_order_of_their_ids(store: Store) -> None:
    """Readers, such as webhooks, go on from the last event that they have read."""
    stack = a_stack()
    insert(store, stack)

    def write(name: str) -> None:
        with store.transaction():
            store.events.append_many([an_event(name, stack_id=stack.id)])
        store.close()

    with ThreadPoolExecutor(1) as pool:
        with store.transaction():
            store.stacks.lock(stack.id)
            store.events.append_many([an_event("first", stack_id=stack.id)])
            store.database.flush()
            other = pool.submit(write, "second")
            wait([other], 0.5)
            assert not other.done()
        other.result()
    assert [one.resource_name for one in store.events.after(stack.id, 0, 9)] == ["first", "second"]


@everywhere
def test_events_that_may_go(store: Store) -> None:
    gone, kept = a_stack("gone", deleted_at=7.0), a_stack("kept")
    with store.transaction():
        store.stacks.insert(gone)
        store.stacks.insert(kept)
        told = zip("abcdefg", (kept, gone, kept, kept, kept, gone, kept), strict=True)
        store.events.append_many(
            [an_event(name, stack_id=stack.id, created_at=float(at)) for at, (name, stack) in enumerate(told)]
        )
    ids = {event.resource_name: event.id for event in store.events.list(kept.id, EventQuery(), [gone.id])}

    def names(found: list[int]) -> str:
        return "".join(name for name in sorted(ids) if ids[name] in found)

    assert names(store.events.older_than(3.0, 10)) == "abc"
    assert names(store.events.older_than(3.0, 2)) == "ab"
    assert names(store.events.older_than(0.0, 10)) == ""
    assert names(store.events.over_limit(3, 10)) == "ac"
    assert names(store.events.over_limit(3, 1)) == "a"
    assert names(store.events.over_limit(5, 10)) == ""
    assert names(store.events.over_limit(3, 10, ids["f"])) == "ac"
    assert names(store.events.over_limit(3, 10, ids["g"])) == ""
    assert names(store.events.of_deleted(8.0, 10)) == "bf"
    assert names(store.events.of_deleted(7.0, 10)) == ""
    with store.transaction():
        store.events.remove([ids["b"], ids["c"]])
    left = store.events.list(kept.id, EventQuery(sort_dir="asc"), [gone.id])
    assert [event.resource_name for event in left] == list("adefg")


@everywhere
def test_what_is_kept_of_actions_does_not_keep_others(store: Store) -> None:
    """Scheduled actions and those a parent may ask for are the oldest, and stay."""
    with store.transaction():
        for stack_id in ("a", "b"):
            for number in range(3):
                store.queue.schedule(an_action(stack_id, id=f"{stack_id} later {number}", not_before=1e10))
    put(store, parent := an_action("p"))
    for number in range(3):
        put(store, child := an_action("c", id=f"c derived {number}", parent_id=parent.id))
        with store.transaction():
            store.moves.end(replace(child, status=ActionStatus.READY), ActionStatus.FAILED, "", 5.0)
    for number in range(3):
        put(store, one := an_action("b", id=f"b ended {number}"))
        with store.transaction():
            store.moves.end(replace(one, status=ActionStatus.READY), ActionStatus.FAILED, "", 5.0 + number)
    assert store.actions.older_than(7.0, 2) == ["b ended 0", "b ended 1"]
    assert store.actions.older_than(6.0, 10) == ["b ended 0"]
    assert store.actions.over_limit(2, 10) == ["b ended 0"]
    assert store.actions.over_limit(1, 10) == ["b ended 0", "b ended 1"]


@everywhere
def test_a_deleted_stack_is_forgotten_whole(store: Store) -> None:
    gone, late, kept = a_stack("gone", deleted_at=7.0), a_stack("late", deleted_at=8.0), a_stack("kept")
    with store.transaction():
        for stack in (gone, late, kept):
            store.stacks.insert(stack)
            store.resources.insert_many([a_resource(stack_id=stack.id)])
            store.queue.enqueue(an_action(stack_id=stack.id))
            store.suppressed.add(a_refusal(stack_id=stack.id), 1.0)
    outlived = a_stack("outlived", deleted_at=6.0)
    inner = a_stack("inner", parent_id=outlived.id, root_id=outlived.id, deleted_at=6.0)
    retained = a_stack("retained", parent_id=inner.id, root_id=outlived.id)
    with store.transaction():
        for stack in (outlived, inner, retained):
            store.stacks.insert(stack)
    assert store.stacks.deleted_before(9.0, 10) == [gone.id, late.id]
    with store.transaction():
        store.stacks.save(replace(retained, deleted_at=6.5))
    *both, last = store.stacks.deleted_before(7.0, 10)
    assert ({*both}, last) == ({outlived.id, inner.id}, retained.id)
    with store.transaction():
        store.stacks.remove([inner.id, outlived.id, retained.id])
    assert store.stacks.deleted_before(9.0, 1) == store.stacks.deleted_before(8.0, 10) == [gone.id]
    with store.transaction():
        store.stacks.remove([gone.id])
    assert store.stacks.get(gone.id) is None
    assert store.resources.of(gone.id) == store.suppressed.list(gone.id) == store.actions.live([gone.id]) == []
    for stack in (late, kept):
        assert store.stacks.get(stack.id) == stack
        found = (store.resources.of(stack.id), store.suppressed.list(stack.id), store.actions.live([stack.id]))
        assert [len(rows) for rows in found] == [1, 1, 1]


@everywhere
def test_two_engines_that_remove_at_once_remove_what_one_would(store: Store, url: str) -> None:
    with store.transaction():
        store.events.append_many([an_event(created_at=float(number)) for number in range(1500)])

    def remove(_: int) -> None:
        own = Store.open(url)
        Retention(own, Clock(), Settings("", max_events_per_stack=200, event_days=10**9)).sweep()
        own.close()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(remove, range(2)))
    left = store.events.list("s1", EventQuery(sort_dir="asc"))
    assert [event.created_at for event in left] == [float(number) for number in range(1300, 1500)]


@everywhere
def test_retention_goes_on_although_rows_of_a_tree_cannot_be_read(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its large values stay; those of other trees, and what comes after them, go."""
    store.encryption.encrypt("a key file")
    damaged, other = (a_stack(name, id=name) for name in ("damaged", "other"))
    insert(store, damaged, other)
    with store.transaction():
        for stack in (damaged, other):
            store.resources.insert_many([a_resource(id=stack.id, stack_id=stack.id, properties={"a": "x" * LARGE})])
        store.database.write("UPDATE resource SET properties = ?", (f"{PREFIX}damaged",))
        store.resources.delete_many(["other"])
        store.services.heartbeat(ServiceRecord("gone", "host", "heatlite", 1.0, 1.0))
    now, clock = 10.0**7, Clock()
    monkeypatch.setattr(clock, "now", lambda: now)
    sweeps = Retention(store, clock, Settings("", deleted_stack_days=10**9))
    for _ in range(3):
        now += 2 * LARGE_VALUE_GRACE
        sweeps.sweep()
    assert [owner for (owner,) in store.database.read("SELECT stack_id FROM large_value")] == ["damaged"]
    assert store.services.list() == []
    # The check of the database tells of it, too.
    (found,) = [one for one in store.inconsistencies(now, 0.0) if one.rule == "a row has its large values"]
    assert (found.id, "cannot be decrypted" in found.detail) == ("damaged", True)


@everywhere
def test_retention_deletes_in_small_transactions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    removed: list[int] = []
    remove = store.events.remove
    monkeypatch.setattr(store.events, "remove", lambda ids: (removed.append(len(ids)), remove(ids)))
    monkeypatch.setattr(retention, "ROW_BATCH", 10)
    now = iter(range(1000, 10**6, int(retention.SWEEP_INTERVAL)))
    clock = Clock()
    monkeypatch.setattr(clock, "now", lambda: float(next(now)))
    sweeps = Retention(store, clock, Settings("", max_events_per_stack=5, event_days=10**9))

    def swept(stack_id: str, count: int) -> list[int]:
        with store.transaction():
            store.events.append_many([an_event(stack_id=stack_id)] * count)
        removed.clear()
        sweeps.sweep()
        assert len(store.events.list(stack_id, EventQuery())) == 5
        return removed

    assert swept("s1", 30) == [10, 10, 5]
    assert swept("s2", 5) == []
    assert swept("s1", 12) == [10, 2]
    assert swept("s2", 1) == [1]
    assert swept("s3", 5) == []
    with store.transaction():
        store.events.append_many([an_event(stack_id="s3")] * 10 * (retention.MAX_BATCHES + 2))
    removed.clear()
    sweeps.sweep()
    assert removed == [10] * retention.MAX_BATCHES
    sweeps.sweep()
    assert removed[retention.MAX_BATCHES :] == [10, 10]


# -- sinks ---------------------------------------------------------------------------------------


def hooked(stack: StackRecord, *targets: str) -> StackRecord:
    return replace(stack, environment={"event_sinks": [{"type": "webhook", "target": target} for target in targets]})


def due(store: Store, now: float = 10.0) -> list[tuple[str, int]]:
    return sorted((record.stack_id, record.position) for record in store.webhooks.due(now, 100))


@everywhere
def test_a_sink_gets_what_is_told_after_its_stack_has_it(store: Store) -> None:
    stack, other = a_stack("a", id="a"), a_stack("b", id="b")
    with store.transaction():
        store.stacks.insert(hooked(stack, "https://x"))
        store.stacks.insert(other)
        assert due(store) == []
        store.events.append_many([an_event("e", stack_id="a"), an_event("f", stack_id="b")])
    assert due(store) == [("a", 0)]
    (last,) = store.events.list("b", EventQuery())
    with store.transaction():
        store.stacks.save(hooked(other, "https://x", "https://y"))
        store.stacks.save(hooked(stack, "https://x"))
    assert due(store) == [("a", 0)]
    with store.transaction():
        store.events.append_many([an_event("g", stack_id="b")])
    assert due(store) == [("a", 0), ("b", last.id), ("b", last.id)]
    assert len(store.webhooks.due(10.0, 2)) == 2
    for record in store.webhooks.due(10.0, 100):
        with store.transaction():
            store.webhooks.remove(record)
    assert due(store) == []


@everywhere
def test_sinks_of_one_project_hide_no_others(store: Store) -> None:
    with store.transaction():
        for number in range(30):
            store.stacks.insert(hooked(a_stack(f"s{number}", id=f"a{number:02}"), "https://x"))
            store.events.append_many([an_event("e", stack_id=f"a{number:02}")])
        store.stacks.insert(hooked(a_stack("other", id="z", project="other"), "https://x"))
        store.events.append_many([an_event("e", stack_id="z")])
    found = store.webhooks.due(10.0, 2)
    assert [(one.project, one.stack_id) for one in found] == [("acme", "a00"), ("acme", "a01"), ("other", "z")]
    assert [one.project for one in store.webhooks.due(10.0, 100, {"acme"})] == ["other"]


@everywhere
def test_one_engine_tells_a_sink(store: Store) -> None:
    with store.transaction():
        store.stacks.insert(hooked(a_stack("a", id="a"), "https://x"))
        store.events.append_many([an_event(name, stack_id="a") for name in "ef"])
    (found,) = store.webhooks.due(10.0, 1)
    with store.transaction():
        assert store.webhooks.claim(found, 10.0, 70.0)
        assert not store.webhooks.claim(found, 10.0, 70.5)
    assert due(store, 69.0) == []
    assert due(store, 70.0) == [("a", 0)]  # whoever had it is dead
    with store.transaction():
        assert store.webhooks.claim(found, 70.0, 130.0)
        store.webhooks.save(replace(found, position=2**40), 70.0)  # or was only slow: too late
    with store.transaction():
        newest = store.events.list("a", EventQuery())[0].id
        store.webhooks.save(replace(found, position=newest - 1, failures=2, failing_since=5.0, retry_at=80.0), 130.0)
    assert due(store, 79.0) == []
    (again,) = store.webhooks.due(80.0, 1)
    with store.transaction():
        assert not store.webhooks.claim(found, 80.0, 140.0)  # as it was before others told it something
    assert again == replace(found, position=newest - 1, failures=2, failing_since=5.0, retry_at=80.0)
    with store.transaction():
        assert store.webhooks.claim(again, 80.0, 140.0)
        store.webhooks.expire_all()
    assert due(store, 80.0) == [("a", newest - 1)]


@everywhere
def test_a_sink_that_was_given_up_waits_for_an_update(store: Store) -> None:
    stack = hooked(a_stack("a", id="a"), "https://x")
    with store.transaction():
        store.stacks.insert(stack)
        store.events.append_many([an_event("e", stack_id="a")])
        (found,) = store.webhooks.due(10.0, 1)
        store.webhooks.save(replace(found, given_up_at=10.0), 0.0)
    assert due(store, 1e9) == []
    with store.transaction():
        store.stacks.save(replace(stack, updated_at=10.5))
    assert due(store, 11.0) == [("a", 0)]


@everywhere
def test_a_sink_of_all_stacks_gets_what_is_told_since_anybody_has_it(store: Store) -> None:
    digest = webhook_digest({"type": "webhook", "target": "https://x"})
    assert digest is not None
    with store.transaction():
        store.stacks.insert(a_stack("a", id="a"))
        store.events.append_many([an_event("e", stack_id="a")])
    assert store.webhooks.stacks_without(digest) == ["", "a"]
    with store.transaction():
        store.webhooks.add_global(digest, store.webhooks.stacks_without(digest))
    assert store.webhooks.stacks_without(digest) == []
    assert due(store) == []
    since = store.events.list("a", EventQuery())[0].id
    with store.transaction():
        store.stacks.insert(a_stack("b", id="b"))
        store.events.append_many([an_event("f", stack_id="b"), an_event("g", stack_id="a")])
    assert store.webhooks.stacks_without(digest) == ["b"]
    with store.transaction():
        store.webhooks.add_global(digest, ["b"])
    assert due(store) == [("a", since), ("b", since)]


# -- actions -------------------------------------------------------------------------------------


@everywhere
def test_an_action_comes_back_as_it_was_given(store: Store) -> None:
    given = an_action(
        inputs=ActionInputs(resources={"a": [1, "ü"]}, force=True),
        status_reason="why",
        control=Control.CANCEL,
        deadline=900.5,
        verb=Verb.DELETE,
        cause=Cause.DERIVED,
        outputs=ActionOutputs(Result.OK),
        data=ActionData(deletion=MemberChange.of(("a", "b"))),
        context={"roles": ["member"]},
        interval=600.0,
        not_before=90.0,
        timeout=240,
        zone="north",
        urgent=True,
        parent_id="p",
    )
    put(store, given)
    found = store.actions.get(given.id)
    assert found is not None
    assert found.seq > 0
    assert replace(found, seq=0) == replace(given, status=ActionStatus.READY)
    assert store.actions.get("none") is None


@everywhere
def test_sizes_of_stacks(store: Store) -> None:
    assert store.stack_sizes.of(["a"]) == store.stack_sizes.of([]) == 0
    with store.transaction():
        definitions = [DefinitionSize(one, "root", 2**40, True) for one in ("a", "b")]
        store.stack_sizes.record_definitions(definitions)
        for one, size in (("root", 1), ("a", 10), ("b", 100), ("elsewhere", 1000)):
            store.stack_sizes.record_resources(one, one if one == "elsewhere" else "root", size)
    assert store.stack_sizes.of(["a", "b", "gone"]) == 2 * 2**40 + 110
    assert store.stack_sizes.of_tree("root") == 2 * 2**40 + 111
    assert store.stack_sizes.of_tree("root", "a") == 2 * 2**40 + 101


@everywhere
def test_the_oldest_ready_action_is_claimed_first(store: Store) -> None:
    first, second = an_action(), an_action()
    put(store, first, second)
    claimed = claim_one(store, "me", now=200.0, lease=30.0)
    assert claimed is not None
    assert claimed.id == first.id
    assert (claimed.status, claimed.owner, claimed.attempt) == (ActionStatus.RUNNING, "me", 1)
    assert (claimed.lease_until, claimed.started_at) == (230.0, 200.0)
    assert store.actions.get(first.id) == claimed
    other = claim_one(store, "you", now=200.0, lease=30.0)
    assert other is not None
    assert other.id == second.id
    assert claim_one(store, "me", now=200.0, lease=30.0) is None


@everywhere
def test_several_actions_are_claimed_in_one_commit(store: Store) -> None:
    """On SQLite, where commits wait for the disk; on servers rows could deadlock."""
    actions = [an_action() for _ in range(5)]
    put(store, *actions)
    with store.transaction():
        store.database.write("UPDATE action SET takeovers = 1 WHERE id = ?", (actions[3].id,))
    batches = [store.claims.claim_many(3, "me", 200.0, 30.0) for _ in actions]
    # After one that may end its worker, the worker waits.
    sizes = [3, 1, 1, 0, 0] if store.database.backend.dialect is Dialect.SQLITE else [1, 1, 1, 1, 1]
    assert [len(batch) for batch in batches] == sizes
    claimed = [action for batch in batches for action in batch]
    assert [action.id for action in claimed] == [action.id for action in actions]
    assert [store.actions.get(action.id) for action in claimed] == claimed


@everywhere
def test_live_actions_are_counted_and_the_oldest_ready_one_is_known(store: Store) -> None:
    def ready_since(now: float) -> float | None:
        return store.actions.oldest_ready(now)

    assert (store.actions.count_live(), ready_since(500.0)) == ({}, None)
    first, second, later = an_action(), an_action(created_at=110.0), an_action(verb=Verb.CHECK, not_before=300.0)
    put(store, first, second, later)
    put_after(store, an_action(created_at=50.0), second)
    assert store.actions.count_live() == {
        (Verb.UPDATE, ActionStatus.READY): 2,
        (Verb.UPDATE, ActionStatus.WAITING): 1,
        (Verb.CHECK, ActionStatus.READY): 1,
    }
    # Who waits for others is not there to be taken, nor one whose time is still to come.
    assert ready_since(200.0) == 100.0
    claimed = claim_one(store, "me", 200.0, 30.0)
    assert claimed is not None
    assert ready_since(200.0) == 110.0
    with store.transaction():
        store.moves.finish(claimed, ActionStatus.SUCCEEDED, "", 210.0)
    again = claim_one(store, "me", 220.0, 30.0)
    assert again is not None
    assert ready_since(230.0) is None
    with store.transaction():
        store.moves.requeue(again, "others", 240.0, not_before=250.0)
    assert ready_since(245.0) is None
    assert (ready_since(400.0), store.actions.count_live()) == (
        250.0,  # counted from when it might begin again, not from when it was put
        {
            (Verb.UPDATE, ActionStatus.READY): 1,
            (Verb.UPDATE, ActionStatus.WAITING): 1,
            (Verb.CHECK, ActionStatus.READY): 1,
        },
    )


@everywhere
def test_every_move_is_reported_once_it_is_written(store: Store) -> None:
    reported: list[tuple[str, str, str, str]] = []

    def moved(action: ActionRecord, after: ActionStatus, reason: str) -> None:
        reported.append((action.id, action.status.value, after.value, reason))

    store.listen(replace(NO_LISTENERS, action_moved=moved))
    action = an_action()
    with pytest.raises(LookupError), store.transaction():
        store.queue.enqueue(an_action())
        raise LookupError
    assert reported == []
    put(store, action)
    claimed = claim_one(store, "me", 200.0, 30.0)
    assert claimed is not None
    with store.transaction():
        store.moves.finish(claimed, ActionStatus.FAILED, "why", 210.0)
        assert len(reported) == 2
    store.listen(NO_LISTENERS)
    assert reported == [
        (action.id, "INIT", "READY", ""),
        (action.id, "READY", "RUNNING", ""),
        (action.id, "RUNNING", "FAILED", "why"),
    ]
    kept = store.actions.history(action.id)
    assert [(move.before, move.after, move.reason) for move in kept] == [move[1:] for move in reported]


@everywhere
def test_takeovers_without_progress_wait_longer_and_longer(store: Store) -> None:
    put(store, an_action("s1"))
    now, waited, action = 200.0, list[float](), claim_one(store, "first", 200.0, 30.0)
    for number in range(1, 10):
        now += 30.0
        taken = claim_one(store, f"w{number}", now, 30.0)
        if taken is None:
            put_off = store.actions.live(["s1"])[0]
            assert (put_off.status, put_off.owner) == (ActionStatus.READY, None)
            assert put_off.not_before is not None
            waited.append(put_off.not_before - now)
            assert claim_one(store, f"w{number}", put_off.not_before - 0.5, 30.0) is None
            now = put_off.not_before
            taken = claim_one(store, f"w{number}", now, 30.0)
        assert taken is not None
        assert taken.takeovers == number
        assert action is not None
        with pytest.raises(Fenced), store.transaction():
            store.claims.renew(action, now, 30.0)
        action = taken
    assert waited == [1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 60.0, 60.0]


@everywhere
def test_progress_and_rest_make_the_next_takeover_the_first(store: Store) -> None:
    put(store, an_action())
    action, now = claim_one(store, "w0", 200.0, 30.0), 200.0
    for number in range(1, 5):
        assert action is not None
        if number % 2:
            store.claims.set_takeovers(action, 0)
        else:
            with store.transaction():
                store.claims.begin_commit(action, now, 30.0)
        now += 30.0
        action = claim_one(store, f"w{number}", now, 30.0)
        assert action is not None
        assert action.takeovers == 1


@everywhere
def test_what_is_given_back_is_no_takeover(store: Store) -> None:
    put(store, an_action())
    for number in range(10):
        action = claim_one(store, f"w{number}", 200.0, 30.0)
        assert action is not None
        assert action.takeovers == 0
        with store.transaction():
            store.claims.release(f"w{number}", 200.0, "its worker has stopped")


@everywhere
def test_a_young_engine_takes_no_action_that_was_taken_over_often(store: Store) -> None:
    put(store, an_action("s1"), an_action("s2"))
    suspect = claim_one(store, "w0", 200.0, 30.0)
    assert suspect is not None
    store.claims.set_takeovers(suspect, 3)
    with store.transaction():
        store.claims.release("w0", 200.0, "its worker has stopped")
    other = claim_one(store, "w1", 201.0, 30.0, max_takeovers=2)
    assert other is not None
    assert other.stack_id == "s2"
    assert claim_one(store, "w1", 201.0, 30.0, max_takeovers=2) is None
    assert claim_one(store, "w1", 201.0, 30.0, suspect.id, max_takeovers=2) is None
    found = claim_one(store, "w1", 201.0, 30.0, max_takeovers=3)
    assert found is not None
    assert found.id == suspect.id


@everywhere
def test_a_lease_that_has_run_out_is_taken_over_and_the_old_worker_is_fenced(store: Store) -> None:
    put(store, an_action())
    old = claim_one(store, "old", now=200.0, lease=30.0)
    assert old is not None
    assert claim_one(store, "new", now=229.0, lease=30.0) is None
    new = claim_one(store, "new", now=230.0, lease=30.0)
    assert new is not None
    assert (new.id, new.attempt, new.owner, new.started_at) == (old.id, 2, "new", 200.0)
    with pytest.raises(Fenced), store.transaction():
        store.resources.insert_many([a_resource()])
        store.claims.renew(old, 231.0, 30.0)
    assert store.resources.of("s1") == []
    with pytest.raises(Fenced), store.transaction():
        store.moves.finish(old, ActionStatus.SUCCEEDED, "", 231.0)
    # The same worker, but an attempt that is over, is fenced just the same.
    with pytest.raises(Fenced), store.transaction():
        store.claims.renew(replace(new, attempt=1), 231.0, 30.0)
    with store.transaction():
        assert store.claims.renew(new, 231.0, 30.0) is None
        assert store.claims.renew(new, 231.0, 30.0) is None  # a write that changes nothing counts
    found = store.actions.get(new.id)
    assert found is not None
    assert found.lease_until == 261.0


@everywhere
def test_a_finished_action_is_over_for_its_worker_too(store: Store) -> None:
    put(store, an_action())
    action = claim_one(store, "me", 200.0, 30.0)
    assert action is not None
    with store.transaction():
        store.moves.finish(action, ActionStatus.FAILED, "no luck", 210.0)
    found = store.actions.get(action.id)
    assert found == replace(
        action, status=ActionStatus.FAILED, status_reason="no luck", finished_at=210.0, updated_at=210.0,
        lease_until=None, owner=None,
    )  # fmt: skip
    with pytest.raises(Fenced), store.transaction():
        store.claims.renew(action, 211.0, 30.0)
    assert claim_one(store, "me", 1e9, 30.0) is None


@everywhere
def test_a_stack_has_one_action_and_one_delete(store: Store) -> None:
    update, delete = an_action("s1"), an_action("s1", verb=Verb.DELETE)
    put(store, update, delete, an_action("s2"))
    for second in (an_action("s1", verb=Verb.CHECK), an_action("s1", verb=Verb.DELETE)):
        with pytest.raises(ActionConflict):
            put(store, second)
        assert store.actions.get(second.id) is None
    claimed = claim_one(store, "me", 200.0, 30.0)
    assert claimed is not None
    with pytest.raises(ActionConflict):
        put(store, an_action("s1"))
    with store.transaction():
        store.moves.finish(claimed, ActionStatus.SUCCEEDED, "", 210.0)
        store.queue.enqueue(an_action("s1", verb=Verb.CHECK))
    assert [found.verb for found in store.actions.live(["s1"])] == [Verb.DELETE, Verb.CHECK]


@everywhere
def test_of_actions_put_at_the_same_moment_one_is_taken(store: Store) -> None:
    results = at_once(store, 8, lambda _: put(store, an_action("s1")))
    assert sum(result is None for result in results) == 1
    assert sum(isinstance(result, ActionConflict) for result in results) == 7


@everywhere
def test_live_is_what_has_not_ended_on_the_stacks_asked_for(store: Store) -> None:
    put(store, an_action("s1"), an_action("s2"), an_action("s3"))
    ended = claim_one(store, "me", 200.0, 30.0)
    running = claim_one(store, "me", 200.0, 30.0)
    assert ended is not None
    assert running is not None
    with store.transaction():
        store.moves.finish(ended, ActionStatus.SUCCEEDED, "", 210.0)
    many = [f"x{number}" for number in range(1200)]
    assert [found.stack_id for found in store.actions.live(["s3", "s1", *many, "s2"])] == ["s2", "s3"]
    assert [found.stack_id for found in store.actions.live(["s2"])] == ["s2"]
    assert store.actions.live([]) == []


@everywhere
def test_an_action_waits_for_another(store: Store) -> None:
    first = an_action("s1")
    second = an_action("s1", verb=Verb.DELETE)
    put(store, first)
    put_after(store, second, first)
    running = claim_one(store, "me", 200.0, 30.0)
    assert running is not None
    assert running.id == first.id
    assert claim_one(store, "me", 200.0, 30.0) is None
    with store.transaction():
        store.moves.finish(running, ActionStatus.FAILED, "", 210.0)
    woken = claim_one(store, "me", 220.0, 30.0)
    assert woken is not None
    assert woken.id == second.id


@everywhere
def test_to_wait_for_what_has_ended_is_not_to_wait(store: Store) -> None:
    first = an_action("s1")
    put(store, first)
    running = claim_one(store, "me", 200.0, 30.0)
    assert running is not None
    with store.transaction():
        store.moves.finish(running, ActionStatus.SUCCEEDED, "", 210.0)
    second = an_action("s1")
    put_after(store, second, first)
    woken = claim_one(store, "me", 220.0, 30.0)
    assert woken is not None
    assert woken.id == second.id


@everywhere
def test_a_wait_that_begins_while_the_other_ends_is_never_forgotten(store: Store) -> None:
    for _ in range(10):
        first = an_action()
        put(store, first)
        running = claim_one(store, "me", 200.0, 30.0)
        assert running is not None
        second = an_action()

        def work(number: int, running: ActionRecord = running, second: ActionRecord = second) -> None:
            if number == 0:
                put_after(store, second, running)
            else:
                with store.transaction():
                    store.moves.finish(running, ActionStatus.SUCCEEDED, "", 210.0)

        assert at_once(store, 2, work) == [None, None]
        woken = claim_one(store, "me", 220.0, 30.0)
        assert woken is not None
        assert woken.id == second.id
        with store.transaction():
            store.moves.finish(woken, ActionStatus.SUCCEEDED, "", 230.0)


@everywhere
def test_only_what_has_not_been_started_is_cancelled_in_the_queue(store: Store) -> None:
    running, queued, waiting, other = an_action("s1"), an_action("s2"), an_action("s3"), an_action("s4")
    after = an_action("s5")
    put(store, running, queued, other)
    put_after(store, waiting, running)
    put_after(store, after, queued)
    assert claim_one(store, "me", 200.0, 30.0) is not None
    with store.transaction():
        cancelled = store.controls.cancel_queued(["s1", "s2", "s3"], "the stack is being deleted", 210.0)
    assert cancelled == [queued.id, waiting.id]
    found = store.actions.get(queued.id)
    assert found is not None
    assert (found.status, found.finished_at) == (ActionStatus.CANCELLED, 210.0)
    assert found.status_reason == "the stack is being deleted"
    put(store, an_action("s2"))  # its place is free again
    assert [found.stack_id for found in store.actions.live(["s1", "s2", "s3", "s4", "s5"])] == ["s1", "s4", "s5", "s2"]
    woken = store.actions.get(after.id)
    assert woken is not None
    assert woken.status is ActionStatus.READY


@everywhere
def test_a_signal_reaches_the_worker_and_a_delete_has_the_last_word(store: Store) -> None:
    put(store, an_action("s1"), an_action("s2"))
    mine = claim_one(store, "me", 200.0, 30.0)
    yours = claim_one(store, "you", 200.0, 30.0)
    assert mine is not None
    assert yours is not None

    def signal(control: Control) -> bool:
        with store.transaction():
            return store.controls.signal(mine.id, control, 205.0)

    assert store.claims.controls("me") == {}
    assert signal(Control.CANCEL)
    assert signal(Control.CANCEL_ROLLBACK)
    assert store.claims.controls("me") == {mine.id: Control.CANCEL_ROLLBACK}
    assert store.claims.controls("you") == {}
    assert store.claims.control_of(mine) is Control.CANCEL_ROLLBACK
    with store.transaction():
        assert store.claims.renew(mine, 210.0, 30.0) is Control.CANCEL_ROLLBACK
    assert signal(Control.ABORT)
    assert signal(Control.ABORT)
    assert not signal(Control.CANCEL)
    assert store.claims.controls("me") == {mine.id: Control.ABORT}
    with store.transaction():
        store.moves.finish(mine, ActionStatus.CANCELLED, "", 220.0)
    assert not signal(Control.ABORT)
    assert store.claims.controls("me") == {}
    with pytest.raises(Fenced):
        store.claims.control_of(mine)


@everywhere
def test_no_signal_replaces_a_stronger_one(store: Store) -> None:
    """The end of a bake replaces nothing, and a delete has the last word."""
    rank = {Control.END_BAKE: 0, Control.FORCE_CANCEL: 2, Control.ABORT: 3}
    put(store, an_action())
    action = claim_one(store, "me", 200.0, 30.0)
    assert action is not None
    for present in Control:
        for asked in Control:
            with store.transaction():
                store.database.write("UPDATE action SET control = ?", (present,))
                is_asked = store.controls.signal(action.id, asked, 205.0)
            assert is_asked == (rank.get(asked, 1) >= rank.get(present, 1)), (present, asked)
            assert store.claims.control_of(action) is (asked if is_asked else present)


@everywhere
@pytest.mark.parametrize("held", [2, 300])
def test_leases_are_renewed_in_one_statement(store: Store, monkeypatch: pytest.MonkeyPatch, held: int) -> None:
    records = [an_action() for _ in range(held)]
    put(store, *records)
    mark = store.database.quote("owner")
    with store.transaction():
        store.database.write(f"UPDATE action SET status = 'RUNNING', lease_until = 1.0, {mark} = 'me'")
    written: list[str] = []
    write = Database.write
    monkeypatch.setattr(Database, "write", lambda own, sql, values=(): written.append(sql) or write(own, sql, values))
    renew_leases(store, "me", [record.id for record in records], 500.0)
    assert len(written) == 1
    assert store.database.read("SELECT COUNT(*) FROM action WHERE lease_until = 500.0") in ([(held,)], ((held,),))


@everywhere
def test_a_worker_renews_and_gives_back_its_own_only(store: Store) -> None:
    put(store, an_action("s1"), an_action("s2"))
    mine = claim_one(store, "me", 200.0, 30.0)
    yours = claim_one(store, "you", 200.0, 30.0)
    assert mine is not None
    assert yours is not None
    assert store.claims.held_by("me") == [mine.id]
    with store.transaction():
        assert store.claims.heartbeat("me", [mine.id, yours.id], 300.0) in ([], [yours.id])
    assert [found.lease_until for found in store.actions.live(["s1", "s2"])] == [300.0, 230.0]
    with store.transaction():
        store.claims.release("me", 205.0, "its worker has stopped")
    with pytest.raises(Fenced), store.transaction():
        store.claims.renew(mine, 210.0, 30.0)
    again = claim_one(store, "her", 210.0, 30.0)
    assert again is not None
    assert (again.id, again.attempt, again.started_at) == (mine.id, 2, 200.0)
    assert claim_one(store, "her", 210.0, 30.0) is None


@everywhere
def test_a_request_and_a_worker_at_the_same_stack_do_not_deadlock(store: Store) -> None:
    """A request holds the stack, a worker the action: each then needs the other."""
    stack = a_stack()
    insert(store, stack)
    put(store, an_action(stack.id))
    action = claim_one(store, "me", 200.0, 30.0)
    assert action is not None

    def work(number: int) -> None:
        with store.transaction():
            if number == 0:
                store.stacks.lock(stack.id)
                time.sleep(0.05)
                assert store.controls.signal(action.id, Control.ABORT, 205.0)
            else:
                store.claims.renew(action, 210.0, 30.0)
                time.sleep(0.05)
                store.stacks.save(stack)

    assert at_once(store, 2, work) == [None, None]
    assert at_once(store, 2, work) == [None, None]


@everywhere
def test_an_engine_that_is_alone_takes_over_at_once(store: Store) -> None:
    put(store, an_action("s1"), an_action("s2"))
    assert claim_one(store, "dead", 200.0, 1e6) is not None
    with store.transaction():
        store.claims.expire_all(210.0)
    taken = [claim_one(store, "me", 210.0, 30.0) for _ in range(3)]
    assert [(found.stack_id, found.attempt) if found else None for found in taken] == [("s1", 2), ("s2", 1), None]


def _claim_all(url: str, name: str, results: "multiprocessing.Queue[list[str]]") -> None:
    store = Store.open(url)
    claimed = []
    while (found := claim_one(store, name, 200.0, 1e6)) is not None:
        claimed.append(found.id)
    store.close()
    results.put(claimed)


@everywhere
def test_threads_claim_each_action_once(store: Store) -> None:
    given = [an_action() for _ in range(80)]
    put(store, *given)

    def work(number: int) -> list[str]:
        claimed = []
        while (found := claim_one(store, f"w{number}", 200.0, 1e6)) is not None:
            claimed.append(found.id)
        return claimed

    claimed = [each for result in at_once(store, 8, work) for each in result]  # type: ignore[attr-defined]
    assert sorted(claimed) == sorted(found.id for found in given)


@pytest.mark.slow
@everywhere
def test_processes_claim_each_action_once(store: Store, url: str) -> None:
    given = [an_action() for _ in range(80)]
    put(store, *given)
    context = fresh("tests.unit.store.store_behaviour")
    results: multiprocessing.Queue[list[str]] = context.Queue()
    workers = [context.Process(target=_claim_all, args=(url, f"w{number}", results)) for number in range(8)]
    for worker in workers:
        worker.start()
    claimed = [each for _ in workers for each in results.get(timeout=240)]
    for worker in workers:
        worker.join()
    assert sorted(claimed) == sorted(found.id for found in given)
    results.close()


def _fork_within_a_transaction(url: str) -> None:
    store = Store.open(url)
    insert(store, a_stack("before"))
    context = multiprocessing.get_context("fork")

    def look() -> None:
        assert names(store, StackQuery()) == ["before"]
        store.close()

    def write() -> None:
        insert(store, a_stack("child"))
        store.close()

    looker, writer = context.Process(target=look), context.Process(target=write)
    with store.transaction():
        store.stacks.insert(a_stack("parent"))
        looker.start()
        looker.join(240)
        assert looker.exitcode == 0
    writer.start()
    writer.join(240)
    assert writer.exitcode == 0
    assert sorted(names(store, StackQuery())) == ["before", "child", "parent"]
    store.close()


@pytest.mark.slow
@everywhere
def test_a_child_of_a_fork_leaves_its_parents_transaction_alone(store: Store, url: str) -> None:
    parent = fresh("tests.unit.store.store_behaviour").Process(target=_fork_within_a_transaction, args=(url,))
    parent.start()
    parent.join(240)
    assert parent.exitcode == 0


# -- snapshots ---------------------------------------------------------------------------------------


def a_snapshot(**fields: object) -> SnapshotRecord:
    given: dict[str, object] = {
        "id": new_id(),
        "stack_id": "s1",
        "name": "before",
        "verb": Verb.CREATE,
        "status": Status.IN_PROGRESS,
        "status_reason": "",
        "created_at": 100.0,
    }
    return SnapshotRecord(**(given | fields))  # type: ignore[arg-type]


@everywhere
def test_snapshots_come_back_oldest_first(store: Store) -> None:
    second, first = a_snapshot(created_at=2.0, name=None), a_snapshot(created_at=1.0, name="\u00e9" * 255)
    other = a_snapshot(stack_id="s2")
    with store.transaction():
        for one in (second, first, other):
            store.snapshots.insert(one)
        done = replace(first, verb=Verb.DELETE, status=Status.FAILED, status_reason="no", data={"a": ["\u00e9"]})
        store.snapshots.save(done)
    assert store.snapshots.of("s1") == [done, second]
    assert store.snapshots.get("s1", done.id) == done
    assert store.snapshots.get("s1", other.id) is None
    with store.transaction():
        store.snapshots.delete_many([done.id])
    assert store.snapshots.of("s1") == [second]


@everywhere
def test_snapshots_in_progress_are_found_and_all_are_cleared_for_one_stack(store: Store) -> None:
    running, done, other = a_snapshot(), a_snapshot(status=Status.COMPLETE, created_at=200.0), a_snapshot(stack_id="s2")
    with store.transaction():
        for one in (running, done, other):
            store.snapshots.insert(one)
        assert store.snapshots.in_progress("s1") == [running]
    with store.transaction():
        store.snapshots.clear("s1")
    assert (store.snapshots.of("s1"), store.snapshots.of("s2")) == ([], [other])


@everywhere
def test_the_id_of_what_was_there_before_is_kept(store: Store) -> None:
    row = a_resource(external_id="vol-1")
    with store.transaction():
        store.resources.insert_many([row, a_resource("plain")])
    found = {one.name: one.external_id for one in store.resources.of("s1")}
    assert found == {"db": "vol-1", "plain": None}


# -- suppressed requests, services ---------------------------------------------------------------


@everywhere
def test_a_refused_request_is_kept_once_for_each_lock(store: Store) -> None:
    with store.transaction():
        assert store.suppressed.add(a_refusal(), locked_at=50.0)
        assert not store.suppressed.add(a_refusal(time=101.0), locked_at=50.0)
        assert not store.suppressed.add(a_refusal(time=103.0, count=5), locked_at=50.0)
        assert store.suppressed.add(a_refusal(time=102.0), locked_at=60.0)
        assert store.suppressed.add(a_refusal(requested_by="bob"), locked_at=50.0)
        assert store.suppressed.add(a_refusal(body=None), locked_at=50.0)
        assert store.suppressed.add(a_refusal(stack_id="s2"), locked_at=50.0)
    found = store.suppressed.list("s1")
    assert [replace(each, id=0) for each in found] == [
        a_refusal(root_id="s1", last_time=103.0, count=7),
        a_refusal(root_id="s1", time=102.0, last_time=102.0),
        a_refusal(root_id="s1", requested_by="bob", last_time=100.0),
        a_refusal(root_id="s1", body=None, last_time=100.0),
    ]
    assert store.suppressed.get("s1", found[1].id) == found[1]
    assert store.suppressed.get("s2", found[1].id) is None
    with store.transaction():
        assert not store.suppressed.delete("s2", found[1].id)
        assert store.suppressed.delete("s1", found[1].id)
        assert not store.suppressed.delete("s1", found[1].id)
    assert len(store.suppressed.list("s1")) == 3
    with store.transaction():
        store.suppressed.clear("s1")
    assert store.suppressed.list("s1") == []
    assert len(store.suppressed.list("s2")) == 1


@everywhere
def test_equal_requests_at_once_are_listed_once(store: Store) -> None:
    at_once, rounds = 8, 5
    barrier = threading.Barrier(at_once)

    def refuse() -> None:
        for lock in range(rounds):
            barrier.wait(240)
            with store.transaction():
                store.suppressed.add(a_refusal(), locked_at=float(lock))
        store.database.close()

    with ThreadPoolExecutor(at_once) as pool:
        for done in [pool.submit(refuse) for _ in range(at_once)]:
            done.result()
    assert [one.count for one in store.suppressed.list("s1")] == [at_once] * rounds


@everywhere
def test_a_root_lists_the_refused_requests_of_its_tree(store: Store) -> None:
    with store.transaction():
        for stack in ("root", "child", "grandchild"):
            store.suppressed.add(a_refusal(stack_id=stack, root_id="root", effect={"x": stack}), locked_at=50.0)
        store.suppressed.add(a_refusal(stack_id="other"), locked_at=50.0)
    found = store.suppressed.list("root")
    assert [(each.stack_id, each.effect) for each in found] == [
        ("root", {"x": "root"}), ("child", {"x": "child"}), ("grandchild", {"x": "grandchild"}),
    ]  # fmt: skip
    assert [each.stack_id for each in store.suppressed.list("child")] == ["child"]
    assert store.suppressed.get("root", found[2].id) == found[2]
    assert store.suppressed.get("child", found[2].id) is None
    with store.transaction():
        store.suppressed.clear("grandchild")
        assert len(store.suppressed.list("root")) == 2
        store.suppressed.clear("root")
    assert store.suppressed.list("child") == []
    assert len(store.suppressed.list("other")) == 1


@pytest.mark.slow
@everywhere
def test_the_newest_thousand_refused_requests_of_a_tree_are_kept(store: Store) -> None:
    given = [a_refusal(stack_id=f"s{n % 3}", root_id="s0", target=f"r{n}", time=100.0 + n) for n in range(1003)]
    with store.transaction():
        for number, one in enumerate(given):
            assert store.suppressed.add(one, locked_at=50.0)
            if number == 999:
                assert not store.suppressed.add(replace(given[0], time=2000.0), locked_at=50.0)
                assert store.suppressed.dropped("s0") is None
        assert store.suppressed.add(a_refusal(stack_id="other"), locked_at=50.0)
    targets = [each.target for each in store.suppressed.list("s0")]
    assert targets == ["r0", *(f"r{number}" for number in range(4, 1003))], "r0 has come again"
    assert store.suppressed.dropped("s0") == DroppedRecord(3, 1102.0)
    assert store.suppressed.dropped("other") is None
    with store.transaction():
        for each in store.suppressed.list("s0"):
            store.suppressed.delete("s0", each.id)
    assert store.suppressed.dropped("s0") is None


@pytest.mark.slow
@everywhere
def test_the_refused_requests_of_a_tree_have_a_limit_in_bytes(store: Store) -> None:
    with store.transaction():
        large = [a_refusal(target=f"r{number}", body={"template": "x" * 1_000_000}) for number in range(20)]
        for one in large:
            assert store.suppressed.add(one, locked_at=50.0)
        assert store.suppressed.add(a_refusal(), locked_at=50.0)
    kept = store.suppressed.list("s1")
    assert [each.target for each in kept][-2:] == ["r19", "db"]
    assert len(kept) in (17, 13)  # encrypted they are a third longer
    dropped = store.suppressed.dropped("s1")
    assert dropped is not None
    assert dropped.count == 21 - len(kept)


@everywhere
def test_a_refused_request_that_is_too_large_is_listed_without_its_body(store: Store) -> None:
    with store.transaction():
        for letter in "xy":
            assert store.suppressed.add(a_refusal(body={"template": letter * 1_100_000}), locked_at=50.0)
        assert not store.suppressed.add(a_refusal(body={"template": "x" * 1_100_000}), locked_at=50.0)
    assert [(each.body, each.replayable, each.count) for each in store.suppressed.list("s1")] == [
        (None, False, 2), (None, False, 1),
    ]  # fmt: skip


@everywhere
def test_a_service_is_known_from_its_first_beat(store: Store) -> None:
    first = ServiceRecord("e2", "host", "heatlite", 10.0, 10.0)
    with store.transaction():
        store.services.heartbeat(first)
        store.services.heartbeat(ServiceRecord("e1", "host", "heatlite", 20.0, 20.0))
        store.services.heartbeat(replace(first, updated_at=30.0))
        store.services.heartbeat(replace(first, updated_at=30.0))
        store.services.heartbeat(ServiceRecord("e3", "host", "heatlite", 20.0, 20.0))
        store.services.remove(["e3"])
    assert store.services.list() == [
        replace(first, updated_at=30.0),
        ServiceRecord("e1", "host", "heatlite", 20.0, 20.0),
    ]


# -- software --------------------------------------------------------------------------------------


def a_config(name: str = "install", **fields: object) -> SoftwareConfigRecord:
    given: dict[str, object] = {
        "id": new_id(),
        "project": "acme",
        "name": name,
        "group": "script",
        "config": "#!/bin/sh",
        "inputs": [{"name": "x"}],
        "outputs": [],
        "options": {},
        "created_at": 100.0,
    }
    return SoftwareConfigRecord(**(given | fields))  # type: ignore[arg-type]


def a_deployment(config: SoftwareConfigRecord, server_id: str = "web", **fields: object) -> SoftwareDeploymentRecord:
    given: dict[str, object] = {
        "id": new_id(),
        "project": config.project,
        "server_id": server_id,
        "config_id": config.id,
        "input_values": {},
        "output_values": {},
        "action": "CREATE",
        "status": "IN_PROGRESS",
        "status_reason": "",
        "created_at": 100.0,
    }
    return SoftwareDeploymentRecord(**(given | fields))  # type: ignore[arg-type]


@everywhere
def test_software_configs_are_kept_by_project(store: Store) -> None:
    mine = [a_config(f"c{number}", created_at=100.0 + number, config={"n": [number]}) for number in range(4)]
    other = a_config(project="ACME", created_at=200.0)
    with store.transaction():
        for each in (*mine, other):
            store.software_configs.insert(each)
    assert [store.software_configs.get("acme", each.id) for each in mine] == mine
    assert store.software_configs.get("acme", other.id) is None
    assert (store.software_configs.count("acme"), store.software_configs.count("ACME")) == (4, 1)
    listed = store.software_configs.list("acme", None, None)
    assert [each.id for each in listed] == [each.id for each in mine[::-1]]
    assert [(each.config, each.inputs) for each in listed] == [(None, [])] * 4
    pages = [store.software_configs.list("acme", 3, None), store.software_configs.list("acme", 3, mine[1].id)]
    assert [[each.name for each in page] for page in pages] == [["c3", "c2", "c1"], ["c0"]]
    assert store.software_configs.list(None, 1, None)[0].id == other.id
    with store.transaction():
        assert not store.software_configs.delete("acme", other.id)
        assert store.software_configs.delete("acme", mine[0].id)
        assert not store.software_configs.delete("acme", mine[0].id)
    assert store.software_configs.count("acme") == 3


@everywhere
def test_software_deployments_are_kept_by_project_and_server(store: Store) -> None:
    configs = [a_config("B"), a_config("a"), a_config("b"), a_config("c", project="ACME")]
    web = [a_deployment(config, created_at=100.0 + number) for number, config in enumerate(configs)]
    elsewhere = a_deployment(configs[0], "Web", created_at=99.0, output_values={"deploy_stdout": "x" * 70_000})
    with store.transaction():
        for config in configs:
            store.software_configs.insert(config)
        for each in (*web, elsewhere):
            store.software_deployments.insert(each)
    assert store.software_deployments.list("acme", "web") == web[:3]
    assert store.software_deployments.list("acme") == [elsewhere, *web[:3]]
    assert [each.name for each in store.software_configs.of_server("acme", "web")] == ["B", "a", "b"]
    assert store.software_configs.of_server("ACME", "Web") == []
    assert (store.software_deployments.count("acme"), store.software_deployments.count("ACME")) == (4, 1)
    assert store.software_deployments.get("ACME", web[0].id) is None
    done = replace(web[1], status="COMPLETE", output_values={"o": [1]}, updated_at=101.0)
    with store.transaction():
        assert store.software_deployments.lock("acme", done.id) == web[1]
        assert store.software_deployments.lock("ACME", done.id) is None
        store.software_deployments.save(done)
        assert store.software_deployments.delete("acme", web[0].id)
        assert not store.software_deployments.delete("acme", web[3].id)
    assert store.software_deployments.get("acme", done.id) == done
    assert [store.software_deployments.uses(config.id) for config in configs] == [True] * 4
    with store.transaction():
        store.software_deployments.delete("acme", elsewhere.id)
    assert not store.software_deployments.uses(configs[0].id)


@everywhere
def test_a_large_value_is_stored_once_in_a_project(store: Store) -> None:
    large = {"x": "y" * LARGE}
    config = a_config(inputs=[{"name": "x", "value": large["x"]}])
    deployments = [a_deployment(config, input_values=large, output_values=large) for _ in range(2)]
    work = a_node_action("a", args={"inputs": large}, outputs=large)
    other = a_config(config=large, project="ACME")
    with store.transaction():
        for one in (config, other):
            store.software_configs.insert(one)
        for each in deployments:
            store.software_deployments.insert(each)
        store.of(NodeStore).node_actions.insert_many([work])
    values = "SELECT project, content FROM project_value ORDER BY project"
    assert [project for project, _ in store.database.read(values)] == ["ACME", "acme"]
    assert store.software_configs.get("acme", config.id) == config
    assert store.software_deployments.list("acme", "web") == sorted(deployments, key=lambda one: one.id)
    (kept,) = store.of(NodeStore).node_actions.existing(["a"])
    assert (kept.args, kept.outputs) == (work.args, work.outputs)
    with store.transaction():
        store.software_configs.delete("acme", config.id)
        store.software_configs.delete("ACME", other.id)
        for each in deployments:
            store.software_deployments.delete("acme", each.id)
    for now in (10_000.0, 20_000.0):
        for project in store.project_values.unchecked(now - LARGE_VALUE_GRACE, 9):
            with store.transaction():
                store.project_values.check(project, now)
    assert [project for project, _ in store.database.read(values)] == ["acme"]  # the node action has it
    assert not [*store.project_values.missing()]
    with store.transaction():
        store.database.write("UPDATE project_value SET id = 'gone'")
    assert [project for project, _ in store.project_values.missing()] == ["acme"]


@everywhere
def test_a_resource_is_found_by_its_object(store: Store) -> None:
    mine, gone, other = a_stack(), a_stack("old", deleted_at=110.0), a_stack(project="ACME")
    with store.transaction():
        for each in (mine, gone, other):
            store.stacks.insert(each)
            store.resources.insert_many([a_resource(stack_id=each.id, physical_id=f"srv-{each.name}-{each.project}")])
    assert store.resources.has_object("acme", f"srv-{mine.name}-acme")
    assert not store.resources.has_object("acme", f"SRV-{mine.name}-acme")
    assert not store.resources.has_object("acme", f"srv-{gone.name}-acme")
    assert not store.resources.has_object("acme", f"srv-{other.name}-ACME")


@everywhere
def test_what_waits_for_a_time_is_woken_when_that_has_come(store: Store) -> None:
    insert(store, a_stack(id="s-a"), a_stack("other", id="s-b"))
    put(store, an_action("s-a", id="a"), an_action("s-b", id="b"))
    for wake_at in (200.0, None):
        claimed = claim_one(store, "me", 100.0, 30.0)
        assert claimed is not None
        with store.transaction():
            assert store.moves.park(claimed, 0, ActionStatus.WAITING_LIFECYCLE_COMPLETION, 100.0, wake_at)
    assert store.moves.wake_parked(199.0) == 0
    assert store.moves.wake_parked(200.0) == 1
    (first, second) = store.actions.live(["s-a", "s-b"])
    assert (first.status, second.status) == (ActionStatus.READY, ActionStatus.WAITING_LIFECYCLE_COMPLETION)
    claimed = claim_one(store, "me", 300.0, 30.0)
    assert claimed is not None
    with store.transaction():
        assert store.moves.park(claimed, 0, ActionStatus.WAITING, 300.0)
    assert store.moves.wake_parked(400.0) == 0, "it waits for no time any more"


@everywhere
def test_rows_that_wait_are_found_in_many_stacks(store: Store) -> None:
    tokens: list[JsonMap | None] = [{"hook": "x"}, None, {"hook": "y"}]
    rows = [a_resource(id=f"r{i}", stack_id=f"s{i}", token=token) for i, token in enumerate(tokens)]
    insert(store, *(a_stack(f"n{i}", id=f"s{i}") for i in range(3)))
    with store.transaction():
        store.resources.insert_many(rows)
    assert store.resources.with_token(["s0", "s1", "s2"]) == [rows[0], rows[2]]
    assert store.resources.with_token(["s1"]) == store.resources.with_token([]) == []


@everywhere
def test_rows_with_a_reason_are_found_in_a_tree(store: Store) -> None:
    """Also under a lock."""
    given: dict[str, dict[str, object]] = {
        "well": {"token": {"poll": 1}},
        "failed": {"status": Status.FAILED},
        "locked": {"before_lock": PreviousState(Verb.UPDATE, Status.FAILED, "no space", 1.0)},
        "well locked": {"before_lock": PreviousState(Verb.UPDATE, Status.COMPLETE, 'no "FAILED"', 1.0)},
        "protected": {"protection": ProtectionRecord("mia", 1.0)},
        "at a hook": {"token": {"hook": "pre-update"}},
    }
    rows = [a_resource(name, id=f"r{place}", **fields) for place, (name, fields) in enumerate(given.items())]
    rows.append(a_resource("nested", id="r7", stack_id="s2", status=Status.FAILED))
    insert(store, a_stack("n1", id="s1"), a_stack("n2", id="s2", parent_id="s1", root_id="s1", depth=1))
    with store.transaction():
        store.resources.insert_many([*rows, a_resource("other", id="r8", stack_id="s3", status=Status.FAILED)])
    found = [row.name for row in store.resources.noteworthy("s1")]
    assert found == ["failed", "locked", "protected", "at a hook", "nested"]


# -- what must be true of all rows -----------------------------------------------------------------

BREAKS = {
    "an open incident has a time to look at it, and one under repair its action": (
        "UPDATE incident SET due = NULL WHERE id = 'open'"
    ),
    "a closed incident is looked at no more": "UPDATE incident SET due = 1 WHERE id = 'closed'",
    "a repair that has not ended belongs to an incident under repair": (
        "UPDATE incident SET state = 'MARKED' WHERE id = 'repairing'"
    ),
    "an account has a stack": "UPDATE account SET stack_id = 'gone'",
    "a project of accounts has a stack": "UPDATE account_project SET root_id = 'gone'",
    "a large value has a stack": "UPDATE large_value SET stack_id = 'gone'",
    "an unused large value is deleted": "UPDATE large_value SET unused = TRUE, checked_at = -10000",
    "an unused large value of a project is deleted": "UPDATE project_value SET unused = TRUE, checked_at = -10000",
    "a size has a stack": "UPDATE stack_size SET stack_id = 'gone'",
    "a credential has a stack": "UPDATE credential SET stack_id = 'gone'",
    "an ended action holds no exclusive key": "UPDATE action SET exclusive_key = 'x' WHERE id = 'ended'",
    "an ended action has no request": "UPDATE action SET request = 'x' WHERE id = 'ended'",
    "a live action holds its exclusive key": "UPDATE action SET exclusive_key = NULL WHERE id = 'ready'",
    "only a running action has a worker and a lease": "UPDATE action SET owner = 'me' WHERE id = 'ready'",
    "a running action has a worker and a lease": "UPDATE action SET lease_until = NULL WHERE id = 'runs'",
    "an expired lease is taken over by a worker": "UPDATE action SET lease_until = 900 WHERE id = 'runs'",
    "a scheduled action has a time that is not long past": ("UPDATE action SET not_before = 900 WHERE id = 'later'"),
    "a waiting action has the right count of dependencies": "UPDATE action SET pending = 2 WHERE id = 'waits'",
    "an open run of a playbook has open node actions": ("UPDATE node_action SET state = 'DONE' WHERE run_id = 'run'"),
    "an ended run of a playbook has no unsent node actions": (
        "UPDATE action SET status = 'CANCELLED' WHERE id = 'run'"
    ),
    "an open dependency is on something that has not ended": (
        "UPDATE dependency SET depended = 'ended' WHERE dependent = 'waits'"
    ),
    "a parked action is woken when a child has ended": (
        "UPDATE action SET open_children = 2, updated_at = 900 WHERE id = 'parent'"
    ),
    "a parked action is woken at its time": ("UPDATE action SET wake_at = 900 WHERE id = 'parent'"),
    "a live child action has a live parent": "UPDATE action SET parent_id = 'ended' WHERE id = 'child'",
    "an action has a stack": "UPDATE action SET stack_id = 'nowhere' WHERE id = 'ready'",
    "the last line of an action's history has its status": (
        "UPDATE action SET status = 'SUSPENDED' WHERE id = 'ready'"
    ),
    "a stack in progress has an action": "UPDATE stack SET status = 'IN_PROGRESS' WHERE id = 's-ended'",
    "a stack has its template": "UPDATE stack SET template_id = 'gone' WHERE id = 's-ended'",
    "a stack has the template of its rollback": ("UPDATE stack SET previous_template_id = 'gone' WHERE id = 's-ended'"),
    "an unreferenced template is deleted": "UPDATE template SET unused_since = -9000 WHERE id = 'unused'",
    "a nested stack has a parent": "UPDATE stack SET parent_id = 'nowhere' WHERE id = 's-child'",
    "a resource in progress has an action on its stack": (
        "UPDATE resource SET status = 'IN_PROGRESS' WHERE stack_id = 's-ended'"
    ),
    "a resource has a stack": "UPDATE resource SET stack_id = 'nowhere' WHERE stack_id = 's-ended'",
    "a snapshot in progress has an action on its stack": (
        "UPDATE snapshot SET status = 'IN_PROGRESS' WHERE stack_id = 's-ended'"
    ),
    "a node of a deleted stack is deleted": "UPDATE node SET stack_id = 'nowhere'",
    "an open node action has a node": "UPDATE node_action SET node_id = 'gone' WHERE id = 'work'",
    "a tree with open node actions has an orchestration": "UPDATE orchestration SET root_id = 'gone'",
    "an unapproved node action was not sent": "UPDATE node_action SET sent_at = 900 WHERE id = 'work'",
    "the history of a pending node action has its state": (
        "UPDATE node_transition SET state = 'DONE' WHERE action_id = 'work'"
    ),
}
"""Each rule, and what breaks it."""


def an_incident(name: str, path: str) -> IncidentRecord:
    """An open incident of a slot."""
    slot = ("root", "stack", path, "web/0", "web", "row", "vm-1")
    return IncidentRecord(name, "acme", "alertmanager", *slot, IncidentState.OBSERVED, 1.0, 1.0, due=1.0)


def something_of_everything(store: Store) -> None:
    """Stacks with actions in all states, as they come to be."""
    known = ("ended", "runs", "parent", "waits", "child", "ready", "later")
    with store.transaction():
        for template_id in ("0" * 64, "unused"):
            store.templates.put({}, {}, template_id)
        for name in known:
            nested = {"parent_id": "s-parent", "root_id": "s-parent"} if name == "child" else {}
            busy = Status.COMPLETE if name in ("ended", "later") else Status.IN_PROGRESS
            store.stacks.insert(a_stack(name, id=f"s-{name}", status=busy, **nested))
        busy_row = a_resource(stack_id="s-runs", status=Status.IN_PROGRESS, token={"token": 1})
        store.resources.insert_many([a_resource(stack_id="s-ended"), busy_row])
        taken = SnapshotRecord("snap", "s-ended", None, Verb.CREATE, Status.COMPLETE, "", 100.0)
        store.snapshots.insert(taken)
        store.stacks.insert(a_stack("large", id="s-large", environment={"parameters": {"p": "x" * LARGE}}))
        store.software_configs.insert(a_config(config="x" * LARGE))
        store.database.write("INSERT INTO credential (stack_id, content) VALUES ('s-ready', 'x')")
        store.accounts.add_project("s-ready")
        store.stack_sizes.record_resources("s-ready", "s-ready", 7)
        account = "(stack_id, root_id, resource_name, physical_name, password)"
        store.database.write(f"INSERT INTO account {account} VALUES ('s-ready', 's-ready', 'a', 's-a-x', 'x')")
        store.of(HealingStore).incidents.insert_many(
            [
                an_incident("open", "a"),
                replace(an_incident("closed", "b"), state=IncidentState.CLOSED, due=None, closed_at=5.0),
                replace(an_incident("repairing", "c"), state=IncidentState.REPAIRING, action_id="runs"),
            ]
        )
        repair = ("repair", "repairing", "root", "web", "web/0", "c", RepairStep.REPLACE, 0, "runs", 1.0)
        store.of(HealingStore).repairs.insert(RepairRecord(*repair))
    for name in ("ended", "runs", "parent"):
        put(store, an_action(f"s-{name}", id=name))
        claimed = claim_one(store, "me", 990.0, 30.0)
        assert claimed is not None
        with store.transaction():
            if name == "ended":
                store.moves.finish(claimed, ActionStatus.SUCCEEDED, "", 995.0)
            elif name == "parent":
                store.queue.enqueue_children([an_action("s-child", id="child", parent_id="parent")])
                assert store.moves.park(claimed, 1, ActionStatus.WAITING, 995.0)
    (runs,) = store.actions.live(["s-runs"])
    put_after(store, an_action("s-waits", id="waits"), runs, needs=Needs.SUCCESS)
    put(store, an_action("s-ready", id="ready"))
    with store.transaction():
        store.queue.schedule(an_action("s-later", id="later", not_before=2000.0, interval=60.0))
        store.queue.schedule(an_action("s-ended", id="run", verb=Verb.RUN, pending=1))
        store.of(NodeStore).node_actions.insert_many([a_node_action("work", run_id="run")])
        told = NodeTransitionRecord("work", 1.0, NodeActionState.PENDING_APPROVE, TransitionOrigin.SERVER)
        store.of(NodeStore).node_actions.add_history([told])
        store.of(NodeStore).nodes.insert(a_node("n", "s-ended"))
        store.of(NodeStore).orchestrations.nudge("s-ended", 1.0)


def a_node_action(action_id: str, **fields: object) -> NodeActionRecord:
    """A node action of the stack `s-ended` that waits for its approval."""
    given: dict[str, object] = {
        "id": action_id,
        "project": "acme",
        "stack_id": "s-ended",
        "root_id": "s-ended",
        "node_id": "n",
        "node": "n",
        "kind": "k",
        "args": {},
        "digest": "",
        "state": NodeActionState.PENDING_APPROVE,
        "requester": Requester.PLAYBOOK,
        "requested_by": "mia",
        "created_at": 1.0,
        "updated_at": 1.0,
    }
    return NodeActionRecord(**(given | fields))  # type: ignore[arg-type]


@everywhere
def test_changes_of_node_actions_use_up_no_numbers(store: Store) -> None:
    """There are two billion of them on MariaDB."""
    insert(store, a_stack(id="s-ended"))
    with store.transaction():
        store.of(NodeStore).node_actions.insert_many([a_node_action("a"), a_node_action("b")])
    for attempts in range(1, 4):
        found = store.of(NodeStore).node_actions.existing(["a", "b"])
        with store.transaction():
            store.of(NodeStore).node_actions.save_many([replace(one, attempts=attempts) for one in found])
    with store.transaction():
        store.of(NodeStore).node_actions.insert_many([a_node_action("c")])
    found = store.of(NodeStore).node_actions.existing(["a", "b", "c"])
    assert [(one.seq - found[0].seq, one.attempts) for one in found] == [(0, 3), (1, 3), (2, 0)]


def a_node(node_id: str, stack_id: str) -> NodeRecord:
    """A node of a stack that is no nested one."""
    return NodeRecord(
        id=node_id,
        stack_id=stack_id,
        root_id=stack_id,
        project="acme",
        name=node_id,
        url="http://127.0.0.1:1",
        secret="s",
        instance="",
        revision=0,
        agent="1",
        kinds=(),
        deployments=False,
        state=NodeState.UP,
        reason="",
        registered_at=1.0,
    )


@everywhere
def test_what_should_not_be_is_found(store: Store) -> None:
    rules = [*RULES, *store.of(HealingStore).rules, *store.of(NodeStore).rules]
    assert {rule.text for rule in rules} == BREAKS.keys()
    something_of_everything(store)
    assert store.inconsistencies(1000.0, 30.0) == []
    for rule, sql in BREAKS.items():

        class Undone(Exception):
            pass

        with pytest.raises(Undone), store.transaction():
            assert store.database.write(sql) > 0
            found = store.inconsistencies(1000.0, 30.0)
            assert rule in {one.rule for one in found}, rule
            raise Undone
    assert store.inconsistencies(1000.0, 30.0) == []


# -- the list of actions -------------------------------------------------------------------------

LISTED_STACKS = tuple(f"{digit * 8}-0000-7000-8000-{digit * 12}" for digit in "0a5f")
LISTED_VERBS = (Verb.UPDATE, Verb.CHECK, Verb.CREATE)
LISTED_STATUSES = (ActionStatus.SUCCEEDED, ActionStatus.FAILED, ActionStatus.CANCELLED, ActionStatus.INIT)
WIRE = {key: key for key in SORTED_BY} | {
    "target": "stack_id", "action": "verb", "created_at": "seq", "user": "requested_by", "start_time": "started_at",
    "stop_time": "finished_at", "end_time": "finished_at", "parent": "parent_id",
}  # fmt: skip
"""The fields of a record by sort key."""
UNSET = {"control": "", "owner": "", "parent": ""}
"""Values of fields that are not set; of others it is 0."""


def listed_actions(store: Store) -> list[ActionRecord]:
    """Sixty actions of all kinds by creation, and as many of another project."""
    mine = "SELECT id FROM action WHERE project = 'acme' ORDER BY seq"
    if not store.database.read(mine):
        put_listed(store)
    found = [store.actions.get(key) for (key,) in store.database.read(mine)]
    return [record for record in found if record is not None]


def put_listed(store: Store) -> None:
    chance = random.Random(7)
    records = [
        an_action(
            chance.choice(LISTED_STACKS),
            id=random_id(),
            project=project,
            verb=chance.choice(LISTED_VERBS),
            status=chance.choice(LISTED_STATUSES),
            created_at=chance.uniform(1, 9),  # clocks of several machines
            cause=chance.choice([*Cause]),
            requested_by=chance.choice(["ann", "bob"]),
            not_before=chance.choice([None, 5.5, 7.25]),
            timeout=chance.choice([0, 30]),
            owner=chance.choice([None, "one", "two"]),
            started_at=chance.choice([None, 3.5]),
            finished_at=chance.choice([None, 4.5]),
            status_reason=chance.choice(["", "done"]),
            attempt=chance.choice([0, 2]),
        )
        for project in ("acme", "other") * 60
    ]
    with store.transaction():
        for record in records:
            (store.queue.schedule if record.status is ActionStatus.INIT else store.queue.enqueue)(record)


def chosen(values: Sequence[str]) -> st.SearchStrategy[list[str]]:
    return st.just([]) | st.lists(st.sampled_from(values), min_size=1, max_size=3)


@everywhere
@given(data=st.data())
def test_the_pages_of_actions_are_what_matches_once_and_in_order(store: Store, data: st.DataObject) -> None:
    everything = listed_actions(store)
    filters = {
        "target": data.draw(chosen(LISTED_STACKS)),
        "name": data.draw(chosen(sorted({record.name for record in everything}))),
        "verb": data.draw(chosen(LISTED_VERBS)),
        "status": data.draw(chosen([*LISTED_STATUSES, ActionStatus.RUNNING])),
        "cause": data.draw(chosen([*Cause])),
        "stack": data.draw(chosen(LISTED_STACKS)),
    }
    keys = data.draw(st.lists(st.sampled_from(sorted(WIRE)), max_size=3, unique=True))
    sort = [(key, data.draw(st.booleans())) for key in keys]
    columns = {"target": "stack_id", "stack": "stack_id"}
    expected = [
        record
        for record in everything
        if all(getattr(record, columns.get(name, name)) in values for name, values in filters.items() if values)
    ]
    expected.sort(key=lambda record: record.seq, reverse=sort[-1][1] if sort else True)
    for key, descending in reversed(sort):
        values = {record.id: getattr(record, WIRE[key]) for record in expected}
        known = {one: UNSET.get(key, 0) if value is None else value for one, value in values.items()}
        expected.sort(key=lambda record: known[record.id], reverse=descending)
    limit = data.draw(st.integers(1, 9))
    query = ActionQuery(limit=limit, sort=sort, **filters)  # type: ignore[arg-type]
    walked: list[ActionRecord] = []
    while True:
        page = store.action_list.page("acme", replace(query, marker=walked[-1].id if walked else None))
        walked += page
        if len(page) < limit:
            break
    assert [record.id for record in walked] == [record.id for record in expected]
    assert walked == expected


@everywhere
def test_a_key_without_an_index_sorts_so_many_actions(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(listing, "MAX_SORTED", 2)
    put(store, one := an_action(), an_action(), an_action())
    for key in SORTED_BY:
        asked = ActionQuery(limit=1, sort=[(key, False)])
        assert len(store.action_list.page("acme", replace(asked, target=[one.stack_id]))) == 1
        if key in ("name", "target", "action", "created_at", "status", "cause"):
            assert len(store.action_list.page("acme", asked)) == 1
        else:
            with pytest.raises(HTTPBadRequest, match=f"Sorting by {key} takes at most 2 actions.*Add a filter"):
                store.action_list.page("acme", asked)


@everywhere
def test_a_marker_is_an_action_of_the_project(store: Store) -> None:
    put(store, ours := an_action(), theirs := an_action(project="other"))
    assert store.action_list.page("acme", ActionQuery(limit=9, marker=ours.id)) == []
    for marker in (theirs.id, "nope", ""):
        with pytest.raises(HTTPBadRequest, match="marker must be the id of an action of this project"):
            store.action_list.page("acme", ActionQuery(limit=9, marker=marker))


@everywhere
def test_an_action_is_found_by_id_then_by_name_then_by_the_beginning_of_its_id(store: Store) -> None:
    def found(reference: str, project: str = "acme") -> list[str]:
        return [record.id for record in store.action_list.find(project, reference, 3)]

    ids = [f"abcd{number}000-0000-4000-8000-000000000000" for number in range(4)]
    put(store, *(an_action(LISTED_STACKS[0], id=key, status=ActionStatus.FAILED) for key in ids))
    put(store, an_action(id="abcdf000-0000-4000-8000-000000000000", project="other"))
    put(store, an_action(id="abcdffff-ffff-4fff-8fff-ffffffffffff"))
    name = f"stack_update_{LISTED_STACKS[0][-8:]}"
    assert found(ids[2]) == found("abcd2") == found("ABCD2000-0000") == found(ids[2].replace("-", "")) == [ids[2]]
    assert found(name) == ids[:0:-1]  # the newest three
    assert len(found("abcd")) == 3
    assert found("abcdf") == ["abcdffff-ffff-4fff-8fff-ffffffffffff"]
    assert found("abc") == found("abcde") == found("abcd_") == found("%") == found("") == []
    assert found(ids[2], "other") == found(name, "other") == []


@everywhere
def test_what_actions_depend_on(store: Store) -> None:
    first, second, waiting = an_action(), an_action(), an_action()
    child = an_action(parent_id=first.id, cause=Cause.DERIVED)
    put(store, first, second, child)
    put_after(store, waiting, first, second)
    found = store.action_list.relations([first, second, waiting, child])
    assert set(found[waiting.id].depends_on) == {first.id, second.id}
    assert (found[first.id].depends_on, found[first.id].depended_by) == ((child.id,), (waiting.id,))
    assert (found[second.id].depends_on, found[second.id].depended_by) == ((), (waiting.id,))
    assert (found[child.id].depends_on, found[child.id].depended_by) == ((), (first.id,))
    assert store.action_list.relations([]) == {}
    assert store.dependencies.open_of([first.id, waiting.id]) == {waiting.id: sorted([first.id, second.id])}
    assert [one.id for one in store.actions.open_of_root(waiting.root_id)] == [waiting.id]
    assert store.actions.last_reasons([waiting.id]) == {waiting.id: ""}


@everywhere
def test_requests_and_records_of_stacks_are_not_read_for_lists(store: Store) -> None:
    put(store, given := an_action(inputs=ActionInputs(resources={"db": "x" * 99}), request={"key": "update"}))
    put(store, other := an_action(inputs=ActionInputs(retry=True)))
    latest, shown = store.action_list.page("acme", ActionQuery(limit=9))
    assert (shown.id, shown.inputs, shown.request) == (given.id, ActionInputs(), None)
    assert latest.inputs == other.inputs
    assert store.action_list.find("acme", given.id, 2) == [shown]
