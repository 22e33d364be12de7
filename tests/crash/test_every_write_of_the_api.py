"""Kills of an API process at each write of a request, while the engine lives.

A request is carried out as a whole, or not at all. The next API process and the engine go on.
"""

import json
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from webtest import TestApp

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.status import Status, state
from heatlite.engine.dispatch.hints import ENGINE, Hints, receive
from heatlite.store.actions.table import LIVE
from heatlite.store.records import StackRecord
from heatlite.store.stacks.stack_query import StackQuery
from tests.crash.api_victim import ask
from tests.crash.scenarios import file, template
from tests.crash.victim import SURVIVED
from tests.databases import MEMORY, sqlite
from tests.processes import fresh
from tests.tables import sampled
from tests.waiting import eventually

MAX_WRITES = 100
"""More than any request has."""
FIRST = template(a=file("a", slow=0), w={"type": "OS::Heat::WaitConditionHandle"})
SECOND = template(a=file("changed", slow=0), b=file("b", slow=0), w={"type": "OS::Heat::WaitConditionHandle"})


class Servers:
    """The engine, and an API process that is never killed."""

    def __init__(self, folder: Path, stack: ExitStack, cloud: str | None = None) -> None:
        self.database, self.files = sqlite(folder), folder / "files"
        (folder / "hints").mkdir()
        self.hints = Hints(folder / "hints")
        stack.callback(self.hints.close)
        settings = Settings(database=self.database, cloud=cloud)
        self.engine = wiring.embedded(settings, hints=self.hints)
        stack.callback(self.engine.close)
        stack.callback(receive(self.hints.inbox(ENGINE), self.engine.take))
        api = wiring.api(settings, hints=self.hints)
        stack.callback(api.close)
        self._app = TestApp(api.app)

    def ask(self, method: str, path: str, body: object) -> int:
        """Return the status of a request to the other API process."""
        headers = {"Content-Type": "application/json", "Host": "localhost"}
        text = b"" if body is None else json.dumps(body).encode()
        return int(self._app.request(path, method=method, body=text, headers=headers, expect_errors=True).status_int)

    def answer(self, method: str, path: str, body: object) -> Any:
        """Return the answer to a request to the other API process."""
        headers = {"Content-Type": "application/json", "Host": "localhost"}
        return self._app.request(path, method=method, body=json.dumps(body).encode(), headers=headers).json

    def made_once(self) -> bool:
        """Return True if the cloud has the objects of all rows, each made once."""
        known = {
            row.physical_id
            for stack in self.engine.store.stacks.list("demo", StackQuery(show_nested=True))
            for row in self.engine.store.resources.of(stack.id)
            if row.mapped_type == "Example::Local::File"
        }
        files = [path for path in self.files.iterdir() if path.suffix not in (".lock", ".saved")]
        made = (self.files / "journal").read_text().split() if (self.files / "journal").exists() else []
        return {str(path) for path in files if path.name != "journal"} == known and len(made) == len({*made})

    def settle(self) -> None:
        """Wait until no action is in progress."""
        live = f"SELECT 1 FROM action WHERE {LIVE} LIMIT 1"
        eventually(lambda: not self.engine.store.database.read(live), "all actions end")


@pytest.fixture
def servers(monkeypatch: pytest.MonkeyPatch) -> Iterator[Servers]:
    with ExitStack() as stack:
        folder = Path(stack.enter_context(TemporaryDirectory(dir=MEMORY, ignore_cleanup_errors=True)))
        (folder / "files").mkdir()
        monkeypatch.setenv("EXAMPLE_FILES", str(folder / "files"))
        yield Servers(folder, stack)


@dataclass(frozen=True)
class Ask:
    """A request, and what it changes.

    `path` comes after that of the stack, if there is one.
    """

    method: str
    path: str
    body: object
    seen: Callable[[Servers, StackRecord], object]
    before: object
    after: object
    prepares: bool = True
    """True if there is a stack before."""


def resources(servers: Servers, stack: StackRecord) -> object:
    rows = servers.engine.store.resources.of(stack.id)
    return sorted(row.name for row in rows)


def status_of_a(servers: Servers, stack: StackRecord) -> object:
    rows = servers.engine.store.resources.of(stack.id)
    return next(state(row.verb, row.status) for row in rows if row.name == "a")


def lock(servers: Servers, stack: StackRecord) -> object:
    return stack.lock is not None, state(stack.verb, stack.status)


def snapshots(servers: Servers, stack: StackRecord) -> object:
    return [one.status for one in servers.engine.store.snapshots.of(stack.id)]


def deletion(servers: Servers, stack: StackRecord) -> object:
    return stack.deleted_at is not None, bool(resources(servers, stack))


REQUESTS = {
    "create": Ask("POST", "/v1/demo/stacks", {"template": FIRST}, resources, [], ["a", "w"], prepares=False),
    "update": Ask("PATCH", "", {"template": SECOND}, resources, ["a", "w"], ["a", "b", "w"]),
    "mark": Ask("PATCH", "/resources/a", {"mark_unhealthy": True}, status_of_a, "CREATE_COMPLETE", "CHECK_FAILED"),
    "lock": Ask(
        "POST", "/actions", {"lock": {"level": "all"}}, lock, (False, "CREATE_COMPLETE"), (True, "LOCK_COMPLETE")
    ),
    "snapshot": Ask("POST", "/snapshots", {"name": "n"}, snapshots, [], [Status.COMPLETE]),
    "delete": Ask("DELETE", "", None, deletion, (False, True), (True, False)),
}


def find(servers: Servers, name: str) -> StackRecord | None:
    found = servers.engine.store.stacks.list("demo", StackQuery(show_deleted=True, filters={"name": [name]}))
    return servers.engine.store.stacks.get(found[0].id) if found else None


@pytest.mark.parametrize("name", sampled(REQUESTS, 2, pytest.mark.thorough))
def test_killed_at_every_write(name: str, servers: Servers) -> None:
    request = REQUESTS[name]
    processes = fresh("tests.crash.api_victim")
    for writes in range(1, MAX_WRITES):
        stack_name = f"s{writes}"
        path, body = request.path, request.body
        if request.prepares:
            created = {"stack_name": stack_name, "template": FIRST}
            assert servers.ask("POST", "/v1/demo/stacks", created) == 201
            servers.settle()
            stack = find(servers, stack_name)
            assert stack is not None
            assert request.seen(servers, stack) == request.before
            path = f"/v1/demo/stacks/{stack_name}/{stack.id}{path}"
        else:
            body = {"stack_name": stack_name, **body}  # type: ignore[dict-item]
        victim = processes.Process(
            target=ask, args=(servers.database, str(servers.hints.folder), request.method, path, body, writes)
        )
        victim.start()
        victim.join(240)
        assert victim.exitcode in (-9, SURVIVED), f"write {writes}: exit code {victim.exitcode}"
        servers.settle()
        stack = find(servers, stack_name)
        seen = request.before if stack is None else request.seen(servers, stack)
        assert seen in (request.before, request.after), f"write {writes}"
        if victim.exitcode == SURVIVED:
            assert seen == request.after, "nothing accepted is lost"
        elif seen == request.before:
            assert servers.ask(request.method, path, body) < 400, "the client asks again"
            servers.settle()
            stack = find(servers, stack_name)
            assert stack is not None
            assert request.seen(servers, stack) == request.after
        assert servers.engine.store.inconsistencies(servers.engine.components.clock.now(), 0.0) == []
        assert servers.made_once()
        if victim.exitcode == SURVIVED:
            assert writes > 2
            return
    pytest.fail("the victim dies for ever")
