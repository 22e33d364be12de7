"""The store on databases with a server, and faults that only a server has."""

from contextlib import closing

import pytest
from store_behaviour import *  # noqa: F403
from store_behaviour import a_stack, insert

from heatlite.core.errors import DatabaseUnavailable, Invalid, wire_name
from heatlite.store.database.backend import Dialect
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store
from tests.faults.proxy import Proxy


def cut_off(store: Store) -> None:
    """Have the server close this thread's connection."""
    other = Store.open(store.database.url)
    if store.database.backend.dialect is Dialect.POSTGRESQL:
        ((number,),) = store.database.read("SELECT pg_backend_pid()")
        other.database.read("SELECT pg_terminate_backend(%s, 5000)", (number,))
    else:
        ((number,),) = store.database.read("SELECT CONNECTION_ID()")
        other.database.peewee.execute_sql(f"KILL {number}")
    other.close()


def test_a_connection_that_was_lost_is_opened_again(store: Store) -> None:
    insert(store, a_stack("one"))
    cut_off(store)
    assert store.stacks.count("acme", StackQuery()) == 1
    cut_off(store)
    insert(store, a_stack("two"))
    assert store.stacks.count("acme", StackQuery()) == 2


def test_a_connection_lost_in_a_transaction_takes_the_transaction_along(store: Store) -> None:
    with pytest.raises(DatabaseUnavailable), store.transaction():
        store.stacks.insert(a_stack("one"))
        cut_off(store)
        store.stacks.insert(a_stack("two"))
    assert store.stacks.count("acme", StackQuery()) == 0
    insert(store, a_stack("three"))
    assert store.stacks.count("acme", StackQuery()) == 1


def test_a_commit_without_an_answer_is_not_told_to_have_changed_nothing(store: Store) -> None:
    refused: dict[str, str] = {}
    with closing(Proxy(store.database.url, every=3)) as proxy, closing(Store.open(proxy.url, lease=600.0)) as other:
        for number in range(20):
            try:
                insert(other, a_stack(f"s{number}"))
            except DatabaseUnavailable as error:
                assert wire_name(error) == "DatabaseUnavailable"
                refused[f"s{number}"] = error.message
        assert proxy.unanswered > 0
    names = {found.name for found in store.stacks.list("acme", StackQuery(limit=100))}
    assert names & refused.keys(), "the server has done some of the commits"
    assert all("may have been made" in refused[name] for name in names & refused.keys())


def test_text_with_nul_is_kept_or_refused_but_never_cut(store: Store) -> None:
    stack = a_stack(status_reason="a\0b")
    if store.database.backend.dialect is Dialect.POSTGRESQL:
        with pytest.raises(Invalid):
            insert(store, stack)
    else:
        insert(store, stack)
        assert store.stacks.get(stack.id) == stack


def test_a_server_has_no_engine_lock(store: Store) -> None:
    assert store.lock_engine({"pid": 1}) is None
