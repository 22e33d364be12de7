"""A simulated cloud that several processes share.

It lives in the process of the test.
`python -m tests.acceptance.shared_cloud COMMAND …` is `heatlite COMMAND …` with this cloud.
"""

import os
import sys
import threading
from contextlib import suppress
from multiprocessing.connection import Client, Connection, Listener
from typing import Any

from heatlite import wiring
from heatlite.__main__ import main
from heatlite.clients.cloud import CloudError, NoService
from heatlite.clients.clouds import Clouds
from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import SIMULATED
from heatlite.core.json import Json
from heatlite.features.simulator.services.registry import simulate
from heatlite.features.simulator.simulation import Scenario
from heatlite.serving import preflight

KEY = b"shared"
SERVER = "compute.server"


class SharedCloud:
    """The cloud, and the threads that answer other processes."""

    def __init__(self) -> None:
        self._simulation = simulate(Scenario(), Clock())
        self._listener = Listener(("127.0.0.1", 0), authkey=KEY, backlog=64)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def variables(self) -> dict[str, str]:
        """Return the environment of a process that uses the cloud."""
        host, port = self._listener.address
        return {"SHARED_CLOUD": f"{host}:{port}", "HEATLITE_CLOUD": SIMULATED}

    def servers(self) -> list[str]:
        """Return the ids of the servers."""
        with self._simulation.lock:
            return [*self._simulation.all(SERVER)]

    def kill(self, server: str) -> None:
        """Stop a server."""
        with self._simulation.lock:
            thing = self._simulation.all(SERVER)[server]
            self._simulation.put(SERVER, server, {**thing, "status": "SHUTOFF"})

    def close(self) -> None:
        self._listener.close()

    def _accept(self) -> None:
        with suppress(OSError):  # it is closed
            while True:
                try:
                    connection = self._listener.accept()
                except (EOFError, ConnectionError):  # the other process was killed before it was known
                    continue
                threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: Connection) -> None:
        with suppress(EOFError, OSError):  # the other process has ended
            while True:
                project, name, arguments, attributes = connection.recv()
                found = getattr(self._simulation.view(project), name)
                try:
                    connection.send((found(*arguments, **attributes) if callable(found) else found, None))
                except CloudError as error:
                    connection.send((None, (type(error), error.verb, error.reason, error.status)))


class RemoteCloud:
    """The cloud as a project of another process sees it (`clients.cloud.Cloud`)."""

    threads = threading.local()

    def __init__(self, project: str) -> None:
        self._project = project

    @property
    def place(self) -> CloudIdentity:
        found: CloudIdentity = self._ask("place")
        return found

    identity = place

    def has(self, service: str) -> bool:
        return bool(self._ask("has", service))

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        found: Json = self._ask("call", verb, *arguments, **attributes)
        return found

    def _ask(self, name: str, /, *arguments: Json, **attributes: Json) -> Any:
        if not hasattr(self.threads, "connection"):
            host, _, port = os.environ["SHARED_CLOUD"].partition(":")
            self.threads.connection = Client((host, int(port)), authkey=KEY)
        self.threads.connection.send((self._project, name, arguments, attributes))
        found, error = self.threads.connection.recv()
        if error is None:
            return found
        kind, verb, *more = error
        raise kind(verb) if kind is NoService else kind(verb, *more)


class RemoteProvider:
    """The cloud of the installation. It needs no file beside the database."""

    def open(self) -> None:
        pass

    def begin(self) -> None:
        pass

    def clouds(self, clock: Clock, *_: object) -> Clouds:
        return Clouds(SIMULATED, clock.now, RemoteCloud)


if __name__ == "__main__":
    preflight.cloud_provider = wiring.cloud_provider = lambda *_: RemoteProvider()
    sys.exit(main())
