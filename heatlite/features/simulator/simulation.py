"""State, clock and scripted faults of a simulated cloud."""

import fnmatch
import itertools
import sqlite3
import threading
import uuid
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias, cast

from msgspec import Struct

from heatlite.clients.cloud import CloudConflict, CloudError, CloudNotFound, CloudUnavailable, NoService, OverQuota
from heatlite.core.clock import Clock
from heatlite.core.clouds import CloudIdentity
from heatlite.core.config import SIMULATED
from heatlite.core.json import Json, JsonMap, dump, parse
from heatlite.core.runtime.bulkhead import check_may_wait
from heatlite.features.simulator import roles

Verb: TypeAlias = Callable[..., Json]
"""Implementation of a verb; called with the project's view, then the verb's arguments."""

ADMIN: Final = "admin"
"""Project of the administrator, which sees the objects of all projects."""
CALLS: Final = "_calls"
"""Kind of the counts of calls by verb, kept as those of faults."""
FAULT: Final = "_fault"
"""Kind of the counts of faults, kept as objects so that all processes count together."""


class SimulatedFault(Struct, frozen=True):
    """Scripted fault.

    ``{"verb": "compute.create_server", "number": 3, "goes": "ERROR"}``: the third server goes to ERROR;
    ``{"verb": "network.*", "raises": "timeout"}``: no network call is answered.
    """

    verb: str
    """Pattern of the verb; ``*`` matches any part."""
    number: int | None = None
    """Number of the matching call (from 1); None: each call."""
    name: str = "*"
    """Pattern of the call's `name`; ``*`` matches any part."""
    raises: str = ""
    """Error of the call.

    ``timeout``, ``unavailable``, ``conflict``, ``quota``, ``refused``, ``not found`` or ``garbage``: the verb is not
    executed. ``lost``: it is executed, but the answer does not arrive.
    """
    goes: str = ""
    """Final status of the created object."""
    message: str = "a scripted fault"
    """Error text of the service."""


RAISED: Final[Mapping[str, tuple[type[CloudError], int | None]]] = {
    "timeout": (CloudUnavailable, None),
    "unavailable": (CloudUnavailable, 503),
    "conflict": (CloudConflict, 409),
    "quota": (OverQuota, 403),
    "refused": (CloudError, 400),
    "not found": (CloudNotFound, 404),
    "garbage": (CloudUnavailable, None),
    "lost": (CloudUnavailable, None),
}
"""`Fault.raises` → the error, and the service's HTTP status."""


class Scenario(Struct, frozen=True):
    """Behaviour of a simulated cloud."""

    latency: float = 0.0
    """Seconds per call."""
    build: float = 0.0
    """Seconds until a slow object (a server, a volume, a load balancer) is ready, or deleted."""
    seed: int = 0
    """Seed of ids: the same calls give the same ids."""
    faults: Sequence[SimulatedFault] = ()
    services: Sequence[str] | None = None
    """Services in the catalog by type (``block-storage``); None: all."""
    roles: Sequence[str] = ("admin", "member")
    """Roles of every user in their project; without admin, administrators' calls are rejected."""
    quotas: Mapping[str, int] = {}
    """Quotas per project by kind of object: ``{"compute.server": 10}``."""
    count_calls: bool = False
    """True to count calls by verb."""


class Simulation:
    """Objects of all projects. Safe for threads, and for processes with one file.

    One verb runs at a time; the simulated latency of calls overlaps.
    """

    def __init__(
        self,
        scenario: Scenario,
        clock: Clock,
        verbs: Mapping[str, Verb],
        furnish: Callable[["SimulatedProject"], None],
        path: Path | None = None,
    ) -> None:
        """Load or create the cloud's objects.

        `path` is a SQLite file that keeps them; without it they are lost at exit. `furnish` creates the initial
        objects. `services.simulate` passes `verbs` and `furnish`.
        """
        self.scenario = scenario
        self.clock = clock
        self.lock = threading.RLock()
        self.verbs = verbs
        self.services = frozenset(verb.partition(".")[0] for verb in verbs)
        self._objects: dict[str, dict[str, JsonMap]] = {}
        self._numbers: dict[str, Iterator[int]] = {}
        self._file = None if path is None else _File(path)
        self.going = ""
        """Final status of the running verb's object, from a scripted fault."""
        self._life = ""
        with self._turn():
            self.id = uuid.uuid4().hex if self._file is None else self._file.id()
            """Unique id of the simulated cloud; kept in its file, if it has one."""
            if self._file is not None and self._objects:
                self._life = self._file.next_life()
            if not self._objects:
                self.scenario = Scenario(seed=scenario.seed)
                furnish(SimulatedProject(self, ADMIN))
                self.scenario = scenario

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Hold the cloud alone, with the changes of other processes."""
        with self.lock:
            if self._file is None or self._file.is_held:  # held: a verb calls another one
                yield
                return
            with self._file.transaction():
                self._file.refresh(self._objects)
                yield

    def view(self, project: str) -> "SimulatedProject":
        """Return the cloud as one project sees it."""
        return SimulatedProject(self, project)

    def new_id(self, kind: str) -> str:
        """Return an unused id for the next object of a kind."""
        numbers = self._numbers.setdefault(kind, itertools.count(len(self._objects.get(kind, {}))))
        while True:
            found = str(uuid.uuid5(uuid.NAMESPACE_OID, f"{self.scenario.seed}/{kind}/{next(numbers)}{self._life}"))
            if found not in self._objects.get(kind, {}):
                return found

    def all(self, kind: str) -> dict[str, JsonMap]:
        """Return the current objects of a kind by id. Read only, while holding `lock`."""
        found = self._objects.setdefault(kind, {})
        for key in [key for key, thing in found.items() if "_then" in thing]:
            self._settle(kind, key)
        return found

    def one(self, kind: str, key: str) -> JsonMap | None:
        """Return one object in its current state, or None.

        Read only, while holding `lock`.

        Does not update the other objects.
        """
        found = self._objects.get(kind, {})
        if "_then" in found.get(key, {}):
            self._settle(kind, key)
        return found.get(key)

    def put(self, kind: str, key: str, thing: JsonMap) -> None:
        """Store an object."""
        self._objects.setdefault(kind, {})[key] = thing
        if self._file is not None:
            self._file.put(kind, key, thing)

    def drop(self, kind: str, key: str) -> None:
        """Remove an object."""
        self._objects.get(kind, {}).pop(key, None)
        if self._file is not None:
            self._file.drop(kind, key)

    def _settle(self, kind: str, key: str) -> None:
        """Apply the pending change of an object when it is due.

        ``_then`` is {"at", "becomes"}; becomes null removes the object.
        """
        thing = self._objects[kind][key]
        then = cast(JsonMap, thing["_then"])
        if self.clock.now() < cast(float, then["at"]):
            return
        becomes = then["becomes"]
        if becomes is None:
            self.drop(kind, key)
        else:
            del thing["_then"]
            thing.update(cast(JsonMap, becomes))
            self.put(kind, key, thing)

    def later(self, thing: JsonMap, becomes: JsonMap | None, seconds: float | None = None) -> None:
        """Schedule a change of an object, by default after `Scenario.build`.

        None removes it.
        """
        if self.going and becomes is not None:
            status = "provisioning_status" if "provisioning_status" in becomes else "status"
            becomes = {**becomes, status: self.going, "fault": {"code": 500, "message": self.fault_text}}
        thing["_then"] = {
            "at": self.clock.now() + (self.scenario.build if seconds is None else seconds),
            "becomes": becomes,
        }

    fault_text = ""

    def call(
        self, view: "SimulatedProject", verb: str, arguments: Sequence[Json], attributes: Mapping[str, Json]
    ) -> Json:
        """Execute a verb. Raises CloudError."""
        check_may_wait()
        if self.scenario.latency:
            self.clock.wait(threading.Event(), self.scenario.latency)
        with self._turn():
            try:
                return _shown(self._answer(view, verb, arguments, attributes))
            except CloudError as error:
                if error.status is None:
                    raise
                # Real services send a request id with every error.
                request = f"req-{self.new_id('request')}"
                raise type(error)(error.verb, error.reason, error.status, request) from error

    def _answer(
        self, view: "SimulatedProject", verb: str, arguments: Sequence[Json], attributes: Mapping[str, Json]
    ) -> Json:
        carry_out = self.verbs.get(verb)
        if self.scenario.count_calls:
            self.put(CALLS, verb, {"calls": _number(self._objects.get(CALLS, {}).get(verb)) + 1})
        if carry_out is None:
            raise CloudError(verb, "the simulated cloud does not know this verb", 501)
        if not view.has(verb.partition(".")[0]):
            raise NoService(verb)
        if not view.is_admin:
            roles.refuse(verb, view.project, arguments, attributes)
        self.going = ""
        fault = self._fault(verb, attributes.get("name"))
        if fault is not None and fault.raises:
            if fault.raises == "lost":
                carry_out(view, *arguments, **attributes)
            error, status = RAISED[fault.raises]
            raise error(verb, fault.message, status)
        if fault is not None:
            self.going, self.fault_text = fault.goes, fault.message
        return carry_out(view, *arguments, **attributes)

    def _fault(self, verb: str, name: Json) -> SimulatedFault | None:
        for index, fault in enumerate(self.scenario.faults):
            if fnmatch.fnmatchcase(verb, fault.verb) and fnmatch.fnmatchcase(str(name or ""), fault.name):
                calls = _number(self._objects.get(FAULT, {}).get(str(index))) + 1
                self.put(FAULT, str(index), {"calls": calls})
                if fault.number in (None, calls):
                    return fault
        return None


def _number(counted: JsonMap | None) -> int:
    return 0 if counted is None else cast(int, counted["calls"])


def _shown(answer: Json) -> Json:
    """Return a copy of an answer without internal keys (with a leading underscore)."""
    if isinstance(answer, dict):
        return {key: _shown(value) for key, value in answer.items() if not key.startswith("_")}
    if isinstance(answer, list):
        return [_shown(item) for item in answer]
    return answer


class SimulatedProject:
    """Simulated cloud as one project sees it (`clients.cloud.Cloud`).

    Context of its verbs.
    """

    def __init__(self, simulation: Simulation, project: str) -> None:
        self.simulation = simulation
        self.project = project

    @property
    def is_admin(self) -> bool:
        """True if the caller is an administrator."""
        return self.project == ADMIN or "admin" in self.simulation.scenario.roles

    @property
    def place(self) -> CloudIdentity:
        """See `Cloud`."""
        return CloudIdentity(SIMULATED, f"simulated:{self.simulation.id}", None, self.project)

    @property
    def identity(self) -> CloudIdentity:
        """See `Cloud`."""
        return self.place

    def has(self, service: str) -> bool:
        """See `Cloud`."""
        services = self.simulation.scenario.services
        if services is not None and service.replace("_", "-") not in services:
            return False
        return service in self.simulation.services

    def call(self, verb: str, *arguments: Json, **attributes: Json) -> Json:
        """See `Cloud`."""
        return self.simulation.call(self, verb, arguments, attributes)

    # -- for the services' verbs, while holding the lock --------------------------------------------

    def sees(self, thing: JsonMap) -> bool:
        """True if an object is visible to the project: owned, shared, or without an owner."""
        shown = cast(Sequence[Json], thing.get("_shown_to") or ())
        return (
            thing.get("project_id") in (None, self.project)
            or self.project == ADMIN
            or bool(thing.get("shared") or thing.get("router:external"))
            or thing.get("visibility") == "public"
            or self.project in shown
            or "*" in shown
        )

    def things(self, kind: str) -> list[JsonMap]:
        """Return the objects of a kind that are visible to the project, oldest first."""
        return [thing for thing in self.simulation.all(kind).values() if self.sees(thing)]

    def thing(self, kind: str, key: Json, verb: str = "") -> JsonMap:
        """Return an object by id. Raises CloudNotFound."""
        found = self.simulation.one(kind, str(key))
        if found is None or not self.sees(found):
            noun = kind.partition(".")[2].replace("_", " ")
            raise CloudNotFound(verb or f"{kind.replace('.', '.get_')}", f"No {noun} found for {key}")
        return found

    def put(self, kind: str, thing: JsonMap) -> JsonMap:
        """Store an object under its id, or its name if it has no id."""
        self.simulation.put(kind, str(thing.get("id") or thing["name"]), thing)
        return thing

    def drop(self, kind: str, thing: JsonMap) -> None:
        """Remove an object."""
        self.simulation.drop(kind, str(thing.get("id") or thing["name"]))


def count(path: Path, project: str) -> dict[str, int]:
    """Count a project's objects of each kind in the file of a simulated cloud."""
    objects: dict[str, dict[str, JsonMap]] = {}
    _File(path).refresh(objects)
    owners = {kind: [thing.get("project_id") for thing in things.values()] for kind, things in objects.items()}
    return {kind: own.count(project) for kind, own in owners.items() if project in own}


def calls(path: Path) -> dict[str, int]:
    """Return the number of calls by verb in the file of a simulated cloud."""
    objects: dict[str, dict[str, JsonMap]] = {}
    _File(path).refresh(objects)
    return {verb: _number(counted) for verb, counted in objects.get(CALLS, {}).items()}


def change(path: Path, project: str, kind: str, named: str, values: JsonMap | None) -> int:
    """Change an object of a project from outside, by its id or name.

    `values` replace its own; None removes it. Returns the number of objects that have the name; it changes one only.
    """
    objects: dict[str, dict[str, JsonMap]] = {}
    file = _File(path)
    with file.transaction():
        file.refresh(objects)
        own = {key: one for key, one in objects.get(kind, {}).items() if one.get("project_id") in (None, project)}
        found = [key for key, one in own.items() if named in (key, one.get("name"))]
        if len(found) == 1 and values is None:
            file.drop(kind, found[0])
        elif len(found) == 1:
            file.put(kind, found[0], {**own[found[0]], **(values or {})})
    return len(found)


def begin(path: Path) -> None:
    """Count the calls of faults from 0, at the start of a server or of one command."""
    _File(path).begin()


class _File:
    """SQLite file with the objects. Processes that share it see each other's changes."""

    def __init__(self, path: Path) -> None:
        path.touch(mode=0o600)  # attributes of objects may be secret
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        weakref.finalize(self, self._connection.close)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._read_version: int | None = None
        """`data_version` at the last read: another process's commit changes it."""
        self._last = -1
        """Number of the last change that this process knows."""
        with self.transaction():
            self._create()

    def _create(self) -> None:
        self._connection.execute(
            "CREATE TABLE IF NOT EXISTS object (kind TEXT, id TEXT, body TEXT NOT NULL,"
            " change INTEGER NOT NULL DEFAULT 0, PRIMARY KEY (kind, id))"
        )
        if "change" not in [row[1] for row in self._connection.execute("PRAGMA table_info(object)")]:
            self._connection.execute("ALTER TABLE object ADD COLUMN change INTEGER NOT NULL DEFAULT 0")
        self._connection.execute("CREATE INDEX IF NOT EXISTS changes ON object (change)")
        # Other processes learn from it which objects are gone.
        self._connection.execute("CREATE TABLE IF NOT EXISTS removed (change INTEGER PRIMARY KEY, kind TEXT, id TEXT)")
        self._connection.execute("CREATE TABLE IF NOT EXISTS cloud (id TEXT NOT NULL)")

    @property
    def is_held(self) -> bool:
        """True in a transaction."""
        return self._connection.in_transaction

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Keep other processes out.

        Commits also after an error: a verb may fail after its changes, and the objects in memory have them.
        """
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
        finally:
            self._connection.execute("COMMIT")

    def refresh(self, objects: dict[str, dict[str, JsonMap]]) -> None:
        """Read what other processes have changed."""
        ((version,),) = self._connection.execute("PRAGMA data_version").fetchall()
        if version == self._read_version:
            return
        self._read_version = version
        since, last = (self._last,), self._last
        removed = "SELECT kind, id, change FROM removed WHERE change > ?"
        for kind, key, change in self._connection.execute(removed, since).fetchall():
            objects.get(kind, {}).pop(key, None)
            last = max(last, change)
        changed = "SELECT kind, id, body, change FROM object WHERE change > ? ORDER BY rowid"
        for kind, key, body, change in self._connection.execute(changed, since).fetchall():
            objects.setdefault(kind, {})[key] = parse(body)
            last = max(last, change)
        self._last = last

    def begin(self) -> None:
        """Forget the counts of faults and calls, and which objects were removed."""
        with self.transaction():
            self._connection.execute("DELETE FROM object WHERE kind IN (?, ?)", (FAULT, CALLS))
            # The last one stays: it may have the highest number.
            self._connection.execute("DELETE FROM removed WHERE change < (SELECT MAX(change) FROM removed)")

    def id(self) -> str:
        """Return the unique id of the file; created on first use."""
        found = self._connection.execute("SELECT id FROM cloud").fetchone()
        if found is None:
            found = (uuid.uuid4().hex,)
            self._connection.execute("INSERT INTO cloud VALUES (?)", found)
        return str(found[0])

    def next_life(self) -> str:
        """Return a suffix for new ids, unique to this process.

        It avoids the ids of objects that earlier processes created and deleted.
        """
        ((lives,),) = self._connection.execute("PRAGMA user_version").fetchall()
        self._connection.execute(f"PRAGMA user_version = {lives + 1}")
        return f"/{lives}"

    def put(self, kind: str, key: str, thing: JsonMap) -> None:
        self._last += 1
        self._connection.execute(
            "INSERT INTO object VALUES (?, ?, ?, ?)"
            " ON CONFLICT (kind, id) DO UPDATE SET body = excluded.body, change = excluded.change",
            (kind, key, dump(thing), self._last),
        )

    def drop(self, kind: str, key: str) -> None:
        self._last += 1
        self._connection.execute("DELETE FROM object WHERE kind = ? AND id = ?", (kind, key))
        self._connection.execute("INSERT INTO removed VALUES (?, ?, ?)", (self._last, kind, key))
