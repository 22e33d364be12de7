"""Limits of numbers on every database, with clients at once.

Test modules import these tests and add `store`.
"""

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from functools import partial
from pathlib import Path
from threading import Barrier

import pytest
from webtest import TestApp

from heatlite import wiring
from heatlite.api.access.account_files import add_token
from heatlite.core.clock import Clock
from heatlite.core.config import Auth, Settings
from heatlite.core.errors import HTTPBadRequest, RequestLimitExceeded
from heatlite.engine.operations.software_configs import Software
from heatlite.engine.types.mailbox import StoredMailbox
from heatlite.plugin.ports import SoftwareConfig
from heatlite.store.secrets.cipher import new_key
from heatlite.store.stacks import suppressed
from heatlite.store.stacks.stack_query import StackQuery
from heatlite.store.store import Store
from tests.unit.store.store_behaviour import a_refusal

__all__: list[str] = ["api"]
"""Every test of this module, for `import *`."""
MOST = 3
CLIENTS = 6
ROUNDS = 5
TEMPLATE = {"heat_template_version": "2021-04-16"}
CONFIG = SoftwareConfig("config", "script", "z")


def everywhere(test: Callable[..., None]) -> Callable[..., None]:
    __all__.append(test.__name__)
    return test


def accepted(store: Store, changes: list[Callable[[], object]]) -> int:
    """Make the changes at once, each in its own thread; return the number accepted.

    A change is refused if it returns False or raises RequestLimitExceeded.
    """
    together = Barrier(len(changes))

    def make(change: Callable[[], object]) -> bool:
        try:
            store.database.read("SELECT 1")  # connected before the others begin
            together.wait()
            return change() is not False
        except RequestLimitExceeded:
            return False
        finally:
            store.close()

    with ThreadPoolExecutor(len(changes)) as pool:
        return sum(pool.map(make, changes))


class Server:
    """An API server over the database, with a user who is a member of all projects."""

    def __init__(self, url: str, tokens: Path) -> None:
        tokens.touch()
        projects = {f"p{number}": frozenset({"member"}) for number in range(ROUNDS)}
        self._token = add_token(tokens, "ann", projects, None)
        settings = Settings(
            database=url, max_stacks_per_tenant=MOST, auth=Auth.TOKENS, tokens_file=str(tokens),
            encryption_keys=(new_key(),),
        )  # fmt: skip
        self._server = wiring.api(settings)
        self.store = self._server.store
        self.close = self._server.close

    def request(self, project: str, method: str, path: str, body: object = None) -> bool:
        """Make a request. Returns False if a limit refused it."""
        app, sent = TestApp(self._server.app), b"" if body is None else json.dumps(body).encode()
        headers = {"X-Auth-Token": self._token, "Content-Type": "application/json"}
        while True:
            answer = app.request(f"/v1/{project}{path}", method=method, body=sent, headers=headers, expect_errors=True)
            if answer.status_int != 503:
                break
            time.sleep(0.1)  # a lock took longer than requests wait on a busy machine
        if answer.status_int == 400:
            assert answer.json["error"]["type"] == "RequestLimitExceeded"
            return False
        assert answer.status_int in (200, 201)
        return True


@pytest.fixture
def api(store: Store, tmp_path: Path) -> Iterator[Server]:
    with closing(Server(store.database.url, tmp_path / "tokens")) as api:
        yield api


def check(store: Store, change: Callable[[str, int], object], kept: Callable[[str], int]) -> None:
    """Let the clients make their changes in each project.

    As many are accepted and kept as the limit allows.
    """
    for project in (f"p{number}" for number in range(ROUNDS)):
        changes = [lambda project=project, number=number: change(project, number) for number in range(CLIENTS)]
        assert (accepted(store, changes), kept(project)) == (MOST, MOST)


def software(store: Store) -> Software:
    most = {"max_software_configs_per_tenant": MOST, "max_software_deployments_per_tenant": MOST}
    return Software(store, Clock(), Settings(database=store.database.url, **most))


@everywhere
def test_clients_that_are_refused_at_once_do_not_deadlock(store: Store) -> None:
    """Each rolls back.

    MariaDB would let those deadlock that wait for a row to be added.
    """

    def refuse(name: str) -> None:
        with store.transaction():
            store.limit_locks.take(name)
            store.database.read("SELECT COUNT(*) FROM stack")
            raise RequestLimitExceeded(message="no more")

    for number in range(ROUNDS):
        assert accepted(store, [partial(refuse, f"stacks of p{number}")] * CLIENTS) == 0


@everywhere
def test_stacks_of_a_project(api: Server) -> None:
    def create(project: str, number: int) -> bool:
        return api.request(project, "POST", "/stacks", {"stack_name": f"s{number}", "template": TEMPLATE})

    check(api.store, create, lambda project: len(api.store.stacks.list(project, StackQuery())))


@everywhere
def test_software_configs_of_a_project(store: Store) -> None:
    parts = software(store)
    check(store, lambda project, _: parts.create_config(project, CONFIG), store.software_configs.count)


@everywhere
def test_one_transaction_keeps_to_the_limit(store: Store) -> None:
    parts = software(store)
    with store.transaction():
        ids = [parts.create_config("p", CONFIG).id for _ in range(MOST)]
        with pytest.raises(RequestLimitExceeded):
            parts.create_config("p", CONFIG)
        parts.put_config("p", ids[0], CONFIG)  # it is there
        parts.delete_config("p", ids[0])
        parts.put_config("p", ids[0], CONFIG)
        with pytest.raises(RequestLimitExceeded):
            parts.put_config("p", "one-more", CONFIG)
    assert store.software_configs.count("p") == MOST


@everywhere
def test_an_id_of_another_project_is_refused(store: Store) -> None:
    parts = software(store)
    parts.put_config("p", "an-id", CONFIG)
    with pytest.raises(HTTPBadRequest, match="an-id is in use"):
        parts.put_config("q", "an-id", CONFIG)
    assert [store.software_configs.count(project) for project in ("p", "q")] == [1, 0]


@everywhere
def test_software_deployments_of_a_project(store: Store) -> None:
    parts = software(store)
    config_of = {project: parts.create_config(project, CONFIG).id for project in (f"p{n}" for n in range(ROUNDS))}

    def create(project: str, number: int) -> object:
        server = f"server-{number}"
        return parts.create_deployment(project, server, config_of[project], {}, "CREATE", "COMPLETE", "")

    check(store, create, store.software_deployments.count)


@everywhere
def test_access_keys_of_a_user(api: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    access_keys = pytest.importorskip("heatlite.features.query_api.access_keys")  # its folder may be taken out
    monkeypatch.setattr(access_keys, "MAX_KEYS", MOST)
    check(
        api.store,
        lambda project, _: api.request(project, "POST", "/access_keys"),
        lambda project: len(api.store.access_keys.of_project(project)),
    )


@everywhere
def test_sessions_of_a_user(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The oldest ones end."""
    sessions = pytest.importorskip("heatlite.features.dashboard.sessions")  # its folder may be taken out
    monkeypatch.setattr(sessions, "MAX_SESSIONS", MOST)
    logins = sessions.Sessions(store, Clock(), 60.0)
    for user in (f"u{number}" for number in range(ROUNDS)):
        accepted(store, [lambda user=user: logins.begin(user, {}, {})] * CLIENTS)
        assert len(logins._rows.surplus(user, 0)) == MOST


@everywhere
def test_suppressed_requests_of_a_tree(store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """The least recent ones are dropped."""
    monkeypatch.setattr(suppressed, "MAX_KEPT", MOST)
    for root in (f"s{number}" for number in range(ROUNDS)):

        def refuse(number: int, root: str = root) -> None:
            with store.transaction():
                store.suppressed.add(a_refusal(stack_id=root, target=str(number)), locked_at=1.0)

        accepted(store, [lambda number=number: refuse(number) for number in range(CLIENTS)])
        dropped = store.suppressed.dropped(root)
        assert (len(store.suppressed.list(root)), dropped and dropped.count) == (MOST, CLIENTS - MOST)


@everywhere
def test_rows_of_locks_are_forgotten_unless_a_transaction_holds_them(store: Store) -> None:
    locks, has_rows = store.limit_locks, store.database.path is None
    with store.transaction():
        locks.take("b", "a")
        locks.take("a")
    assert sorted(locks.names(9)) == (["a", "b"] if has_rows else [])

    def forget() -> None:
        with store.transaction():
            locks.forget(locks.names(9))

    if has_rows:
        with store.transaction():
            locks.take("a")
            accepted(store, [forget])
            assert locks.names(9) == ["a"]
        forget()
        assert locks.names(9) == []


@everywhere
def test_clients_at_once_agree_on_a_message(store: Store) -> None:
    mailbox = StoredMailbox(store, Clock())
    for address in (f"a{number}" for number in range(ROUNDS)):
        found: list[object] = []

        def agree(number: int, address: str = address, found: list[object] = found) -> None:
            found.append(mailbox.agree(address, "key", number))

        assert accepted(store, [partial(agree, number) for number in range(CLIENTS)]) == CLIENTS
        assert found == [mailbox.read(address)["key"]] * CLIENTS
