"""Clients that lead stacks through their lives and know the end of each step.

A step is asked for until it is certain that it was accepted. Its end is judged when it was accepted exactly once: a
request of which no answer came may have been accepted, and is not judged by what a second one would do.
"""

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Collection, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, TypeVar

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.records import ResourceRecord
from heatlite.store.store import Store
from tests.acceptance.processes import Answer, Server
from tests.crash.scenarios import CHANGED_TREE, FAILING, FILES, FIRST, SECOND, TREE, groups, template

T = TypeVar("T")

PATIENCE = 600.0
"""Seconds within which a step has to come to an end; longer is stuck."""


def volume(**properties: object) -> dict[str, object]:
    return {"type": "Faults::Volume", "properties": properties}


FAILED_CREATE = template(bad=volume(fail=True, wait_secs=0.2), slow=volume(wait_secs=4), other=volume(size=3))
SIZED = template(v=volume(size=2), slow=volume(size=1))
SHRUNK = template(v=volume(size=1), slow=volume(size=2, wait_secs=4))
SLOW_UPDATE = template(v=volume(size=3, wait_secs=3), slow=volume(size=2, wait_secs=3))


class Stuck(Exception):
    """A step has not come to its end."""


class Stopping(Exception):
    """The run is over."""


@dataclass
class Record:
    """Observations of all clients."""

    accepted: list[str] = field(default_factory=list)
    """Ids of actions that a client was told of."""
    findings: list[str] = field(default_factory=list)
    """Violations."""
    answers: Counter[int] = field(default_factory=Counter)
    steps: Counter[str] = field(default_factory=Counter)
    judged: int = 0
    unanswered: int = 0
    hasty: int = 0
    """Answers of 503 that do not say when to ask again."""
    slowest: float = 0.0
    """Seconds until a request was answered, at the most."""

    def note(self, text: str) -> None:
        self.findings.append(f"{time.strftime('%H:%M:%S')} {text}")


class Client(threading.Thread):
    """One client with stacks of its own, one after the other."""

    def __init__(
        self, number: int, seed: int, database: str, apis: Callable[[], Sequence[Server]], files: Path, record: Record,
        stopping: threading.Event,
    ) -> None:
        """`apis` are the servers to ask; `database` is the URL without disturbances."""
        super().__init__(name=f"client-{number}", daemon=True)
        self._number = number
        self._random = random.Random(f"{seed}-{number}")
        self._apis = apis
        self._database = database
        self.files = files
        self._record = record
        self.stopping = stopping
        self.path = ""
        self.stack_id = ""
        self.once = True
        """True if the last step was accepted exactly once."""

    def run(self) -> None:
        """Live until told to stop."""
        self.store = Store.open(self._database)
        round_ = 0
        try:
            while True:
                round_ += 1
                life = self._random.choice(LIVES)
                self._record.steps[life.__name__] += 1
                try:
                    life(self, f"{life.__name__.strip('_')}-{self._number}-{round_}")
                except Stuck as stuck:
                    self._record.note(f"{life.__name__}: {stuck}")
        except Stopping:
            pass
        except Exception as error:
            self._record.note(f"the driver: {self.name}: {type(error).__name__}: {error}")
            raise
        finally:
            self.store.close()

    # -- requests ----------------------------------------------------------------------------------

    def _send(self, method: str, path: str, body: object = None) -> Answer | None:
        """One request; None where no answer came."""
        if self.stopping.is_set():
            raise Stopping
        servers = self._apis()
        if not servers:
            self.stopping.wait(0.2)
            return None
        began = time.monotonic()
        try:
            answer = self._random.choice(servers).request(method, path, body, timeout=40)
        except (OSError, HTTPException, ValueError):
            self._record.unanswered += 1
            self.stopping.wait(0.2)
            return None
        self._record.slowest = max(self._record.slowest, time.monotonic() - began)
        self._record.answers[answer.status] += 1
        if answer.status >= 500 and answer.status != 503:
            self._record.note(f"{method} {path}: {answer.status} {answer.data}")
        if answer.status == 503 and "Retry-After" not in answer.headers:
            self._record.hasty += 1
        url = answer.headers["X-Heatlite-Action"]
        if url is not None:
            self._record.accepted.append(url.rpartition("/")[2])
        return answer

    def look(self, path: str) -> Any:
        """Return the answer to a GET, once there is one."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._send("GET", path)
            if answer is not None and answer.status != 503:
                return answer.data if answer.status == 200 else None
            self.stopping.wait(0.3)
        raise Stuck(f"GET {path} is never answered")

    def create(self, name: str, document: object, **more: object) -> None:
        """Have a stack created."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._send("POST", "/stacks", {"stack_name": name, "template": document, **more})
            if answer is not None and answer.status in (201, 409):
                found = list(self.look(f"/stacks?name={name}")["stacks"])
                if found:
                    self.stack_id = str(found[0]["id"])
                    self.path = f"/stacks/{name}/{self.stack_id}"
                    self.once = True
                    return
            elif answer is not None and answer.status != 503:
                raise Stuck(f"create of {name}: {answer.status} {answer.data}")
            self.stopping.wait(0.3)
        raise Stuck(f"create of {name} is never accepted")

    def ask(self, verb: str, method: str, path: str, body: object = None, refusals: Collection[int] = ()) -> int:
        """Repeat a request until it is accepted or refused with these codes; the code."""
        before, uncertain, sent = self._count(verb), False, 0
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            answer = self._send(method, path, body)
            sent += 1
            if answer is None:
                uncertain = True
                self.stopping.wait(1.0)  # it may be on its way yet
                if self._count(verb) > before:
                    self.once = sent == 1
                    return 0
            elif answer.status < 300 or answer.status in refusals:
                self.once = not uncertain and self._count(verb) <= before + 1
                return answer.status
            elif answer.status == 404 and verb == "DELETE":
                return 404
            elif answer.status == 409:
                if uncertain and self._count(verb) > before:
                    self.once = False
                    return 0
                self.settled()
            elif answer.status != 503:
                raise Stuck(f"{method} {path}: {answer.status} {answer.data}")
            self.stopping.wait(0.3)
        raise Stuck(f"{method} {path} is never accepted")

    def _count(self, verb: str) -> int:
        """Count the actions of a verb on the stack."""
        sql = "SELECT COUNT(*) FROM action WHERE stack_id = ? AND verb = ?"
        ((count,),) = self.read(lambda store: store.database.read(sql, (self.stack_id, verb)))
        return int(count)

    def read(self, query: Callable[[Store], T]) -> T:
        """Return the result of a query, once the database answers."""
        while not self.stopping.is_set():
            with suppress(DatabaseUnavailable):
                return query(self.store)
            self.stopping.wait(0.5)
        raise Stopping

    def rows(self, stack_id: str) -> Sequence[ResourceRecord]:
        """Return the rows of a stack's resources."""
        return self.read(lambda store: store.resources.of(stack_id))

    def settled(self) -> str:
        """The state of the stack once nothing is done to it; "" where it is gone."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            seen = self.look(f"{self.path}?resolve_outputs=False")
            if seen is None:
                return ""
            status = str(seen["stack"]["stack_status"])
            if not status.endswith("_IN_PROGRESS"):
                return status
            self.stopping.wait(0.2)
        raise Stuck(f"{self.path} is never settled")

    # -- steps -------------------------------------------------------------------------------------

    def ends(self, step: str, *states: str) -> bool:
        """True if the step has ended in one of these states; else that is a finding."""
        status = self.settled()
        self._record.judged += 1
        if status in states or not self.once:
            return True
        seen = self.look(f"{self.path}?resolve_outputs=False")
        reason = seen["stack"]["stack_status_reason"] if seen else ""
        self._record.note(f"{self.path}: {step} ended {status or 'deleted'} instead of {' or '.join(states)}: {reason}")
        return False

    def update(self, document: object, *states: str, **more: object) -> bool:
        self.ask("UPDATE", "PUT", self.path, {"template": document, **more})
        return self.ends("update", *(states or ("UPDATE_COMPLETE",)))

    def act(self, name: str, *states: str, value: object = None) -> bool:
        self.ask(name.upper(), "POST", f"{self.path}/actions", {name: value})
        return self.ends(name, *(states or (f"{name.upper()}_COMPLETE",)))

    def delete(self, *states: str) -> None:
        self.ask("DELETE", "DELETE", self.path)
        self.ends("delete", *(states or ("", "DELETE_COMPLETE")))

    def ids(self) -> dict[str, str]:
        """The physical ids of the stack's resources."""
        listed = self.look(f"{self.path}/resources")
        return {one["resource_name"]: one["physical_resource_id"] for one in listed["resources"]}

    def expect(self, holds: bool, text: str) -> None:
        self._record.judged += 1
        if not holds and self.once:
            self._record.note(f"{self.path}: {text}")

    def pause(self) -> None:
        self.stopping.wait(self._random.uniform(0, 0.5))


# -- lives: what becomes of a stack ------------------------------------------------------------------


def _plain(client: Client, name: str) -> None:
    client.create(name, FIRST)
    client.ends("create", "CREATE_COMPLETE")
    client.update(SECOND)
    client.act("check")
    client.delete()


def _tree(client: Client, name: str) -> None:
    client.create(name, TREE, files=FILES)
    client.ends("create", "CREATE_COMPLETE")
    client.update(CHANGED_TREE, files=FILES)
    client.delete()


def _groups(client: Client, name: str) -> None:
    client.create(name, groups(2, "one"))
    client.ends("create", "CREATE_COMPLETE")
    client.update(groups(2, "two"))
    client.delete()


def _failed_create(client: Client, name: str) -> None:
    client.create(name, FAILED_CREATE, disable_rollback=True)
    client.ends("create", "CREATE_FAILED")
    rows = [row for row in client.rows(client.stack_id) if row.name == "bad"]
    client.expect(len(rows) == 1, f"the failed resource has {len(rows)} rows")
    made = [path for row in rows for path in client.files.glob(f"{row.physical_name}.*")]
    client.expect(len(made) == 1, f"the failed resource was made {len(made)} times")
    client.delete()


def _failed_create_rolled_back(client: Client, name: str) -> None:
    client.create(name, FAILED_CREATE, disable_rollback=False)
    client.ends("create", "ROLLBACK_COMPLETE")
    client.delete()


def _failed_update_rolled_back(client: Client, name: str) -> None:
    client.create(name, FIRST)
    client.ends("create", "CREATE_COMPLETE")
    client.update(FAILING, "ROLLBACK_COMPLETE", disable_rollback=False)
    client.delete()


def _refused_resize(client: Client, name: str) -> None:
    client.create(name, SIZED, disable_rollback=True)
    if client.ends("create", "CREATE_COMPLETE"):
        before = client.ids()
        client.update(SHRUNK, "UPDATE_FAILED", disable_rollback=True)
        client.expect(client.ids() == before, f"a refused resize has replaced {before} by {client.ids()}")
    client.delete()


def _attached(client: Client, name: str) -> None:
    """A delete that fails, and one that works."""
    client.create(name, SIZED)
    if client.ends("create", "CREATE_COMPLETE"):
        row = next(row for row in client.rows(client.stack_id) if row.name == "v")
        holder = client.files / f"{row.physical_name}-attached"
        holder.touch()
        try:
            client.delete("DELETE_FAILED")
        finally:
            holder.unlink()
    client.delete()


def _marked(client: Client, name: str) -> None:
    client.create(name, FIRST)
    if client.ends("create", "CREATE_COMPLETE"):
        before = client.ids()
        client.ask("none", "PATCH", f"{client.path}/resources/gone", {"mark_unhealthy": True})
        client.update(FIRST)
        after = client.ids()
        changed = {one for one in before if before[one] != after.get(one)}
        client.expect(changed == {"gone"}, f"a mark has replaced {changed}")
    client.delete()


def _locked(client: Client, name: str) -> None:
    client.create(name, FIRST)
    client.ends("create", "CREATE_COMPLETE")
    client.act("lock", value={"level": "all"})
    status = client.ask("UPDATE", "PUT", client.path, {"template": SECOND}, refusals=(409,)) if client.once else 409
    client.expect(status == 409, f"an update of a locked stack: {status}")
    client.act("unlock")
    client.delete()


def _suspended(client: Client, name: str) -> None:
    client.create(name, FIRST)
    client.ends("create", "CREATE_COMPLETE")
    client.act("suspend")
    client.act("resume")
    client.delete()


def _cancelled(client: Client, name: str) -> None:
    client.create(name, SIZED)
    client.ends("create", "CREATE_COMPLETE")
    client.ask("UPDATE", "PUT", client.path, {"template": SLOW_UPDATE})
    client.pause()
    client.ask("none", "POST", f"{client.path}/actions", {"cancel_update": None}, refusals=(400, 409))
    client.ends("cancel", "ROLLBACK_COMPLETE", "UPDATE_COMPLETE", "ROLLBACK_FAILED", "UPDATE_FAILED")
    client.delete()


def _scaled(client: Client, name: str) -> None:
    client.create(name, groups(1, "one"))
    client.ends("create", "CREATE_COMPLETE")
    status = client.ask("none", "POST", f"{client.path}/resources/up/signal", {}, refusals=(409,))
    client.once = client.once and 200 <= status < 300
    client.settled()
    group = client.look(f"{client.path}/resources/s")["resource"]["physical_resource_id"]
    end = time.monotonic() + PATIENCE
    while client.once and time.monotonic() < end:
        stack = client.read(lambda store: store.stacks.get(group))
        if stack is None or stack.status != "IN_PROGRESS":
            break
        client.stopping.wait(0.2)
    count = len({row.name for row in client.rows(group)})
    client.expect(count == 2, f"a group of one that was asked to grow by one has {count} members")
    client.delete()


LIVES: tuple[Callable[[Client, str], None], ...] = (
    _plain, _tree, _groups, _failed_create, _failed_create_rolled_back, _failed_update_rolled_back, _refused_resize,
    _refused_resize, _attached, _marked, _locked, _suspended, _cancelled, _scaled,
)
