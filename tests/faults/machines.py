"""API and workers as processes of their own, and clients that keep them busy."""

import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from pathlib import Path
from typing import Any

from tests.acceptance.processes import Answer, Process, Server, Worker
from tests.crash.scenarios import CHANGED_TREE, FILES, FIRST, SECOND, TREE, groups
from tests.faults.conftest import LEASE

TEMPLATES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    ({"template": FIRST}, {"template": SECOND}),
    ({"template": TREE, "files": FILES}, {"template": CHANGED_TREE, "files": FILES}),
    ({"template": groups(2, "one")}, {"template": groups(2, "two")}),
]
"""Of stacks: as they are created, and as they are updated."""


class Machines:
    """`heatlite api` and `heatlite worker`; objects are files in the folder ``files``."""

    def __init__(
        self, home: Path, database: str, broker: str, path: str | None = None, lease: float = LEASE
    ) -> None:
        """`path` is the PYTHONPATH, where that is to be another."""
        self.home = home
        self.files = home / "files"
        self._database = database
        self._variables = {
            "HEATLITE_BROKER": broker,
            "HEATLITE_LEASE_SECONDS": str(lease),
            **({} if path is None else {"PYTHONPATH": path}),
        }
        self._all: list[Process] = []

    def api(self, **more: str) -> Server:
        """One that answers requests."""
        found = Server(self.home, 0, "api", self._database, **self._variables, **more)
        found.patient = True
        self._all.append(found)
        return found

    def worker(self, **more: str) -> Worker:
        """One that works."""
        found = Worker(self.home, self._database, **self._variables, **more)
        self._all.append(found)
        return found

    def orphans(self) -> list[str]:
        """The names of the objects that they have made too late, and removed."""
        return [name for one in self._all for name in one.orphans()]

    def complaints(self) -> str:
        """Internal errors in the logs."""
        return "".join(one.complaints() for one in self._all)

    def close(self) -> None:
        """End all of them."""
        for one in self._all:
            one.kill()


class Clients:
    """Clients request one thing after the other, without waiting, until stopped."""

    def __init__(self, api: Server, count: int = 3) -> None:
        self._api = api
        self._stopping = threading.Event()
        self._threads = [threading.Thread(target=self._live, args=(number,)) for number in range(count)]
        self.accepted: list[str] = []
        """The ids of the actions that they were told of."""
        self.answers: list[int] = []
        self.unanswered = 0
        self.pause = 0.0
        """Seconds before each request."""

    def __enter__(self) -> "Clients":
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopping.set()
        for thread in self._threads:
            thread.join()

    def wait_for(self, more: int, seconds: float = 240) -> None:
        """Until so many more requests have been accepted."""
        wanted, end = len(self.accepted) + more, time.monotonic() + seconds
        while len(self.accepted) < wanted:
            assert time.monotonic() < end, f"only {len(self.accepted)} of {wanted} are accepted: {self.answers[-20:]}"
            time.sleep(0.01)

    def _live(self, number: int) -> None:
        round_ = 0
        while not self._stopping.is_set():
            round_ += 1
            first, second = TEMPLATES[(number + round_) % len(TEMPLATES)]
            name = f"client-{number}-{round_}"
            self._ask("POST", "/stacks", {"stack_name": name, **first})
            path = self._find(name)
            if path is None:
                continue
            if round_ % 3:
                self._settle(path)
            self._ask("PUT", path, second)  # in every third round while it is being created: 409
            self._settle(path)
            self._ask("POST", f"{path}/actions", {"check": None})
            if round_ % 2:
                self._settle(path)
            self._ask("DELETE", path)

    def _ask(self, method: str, path: str, body: object = None) -> Answer | None:
        """One request; None without an answer."""
        self._stopping.wait(self.pause)
        try:
            answer = self._api.request(method, path, body)
        except (OSError, HTTPException):
            self.unanswered += 1
            time.sleep(0.05)
            return None
        self.answers.append(answer.status)
        url = answer.headers["X-Heatlite-Action"]
        if url is not None:
            self.accepted.append(url.rpartition("/")[2])
        return answer

    def _find(self, name: str) -> str | None:
        with suppress(OSError, HTTPException, AssertionError):
            return self._api.find(name)
        return None

    def _settle(self, path: str) -> None:
        """Until nothing is being done to the stack, as far as one can see."""

        def rests() -> bool:
            with suppress(OSError, HTTPException, AssertionError):
                return not self._api.stack(path)["stack_status"].endswith("_IN_PROGRESS")
            return False

        _wait(rests, self._stopping)


def _wait(happened: Callable[[], bool], stopping: threading.Event, seconds: float = 20) -> None:
    end = time.monotonic() + seconds
    while not happened() and time.monotonic() < end and not stopping.is_set():
        time.sleep(0.05)
