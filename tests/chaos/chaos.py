"""The run: servers, processes, random disturbances, and the final judgement."""

import os
import random
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from resource import RLIM_INFINITY, RLIMIT_FSIZE, prlimit

from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.actions.table import OPEN
from heatlite.store.database.backend import Dialect
from heatlite.store.store import Store
from tests.acceptance.processes import EXAMPLE_PLUGIN, ROOT, Process, Server, Worker
from tests.chaos.relay import Relay
from tests.chaos.workload import Client, Record
from tests.databases import sqlite, whole
from tests.faults import servers
from tests.faults.judgement import judge, stacks_of
from tests.waiting import eventually

PATH = os.pathsep.join(map(str, (Path(__file__).parents[1] / "faults" / "types", ROOT, EXAMPLE_PLUGIN)))

DISK = "400m"
"""The size of a database server's disk."""

PAUSE = (0.5, 4.0)
"""Seconds between two disturbances, at least and at the most."""

STOP = 240.0
"""Seconds within which a process stops after SIGTERM."""

REST = 300.0
"""Seconds within which everything comes to rest once nothing is disturbed any more."""

FAILING = (
    "SELECT COUNT(*) FROM action "
    "JOIN resource AS slow ON slow.stack_id = action.stack_id AND slow.status = 'IN_PROGRESS' "
    "JOIN resource AS bad ON bad.stack_id = action.stack_id AND bad.status = 'FAILED' WHERE action.status = 'RUNNING'"
)
"""Count the resources under way in an action of which one has failed."""


@dataclass(frozen=True)
class Plan:
    """Options of a run."""

    database: str
    """SQLite (one `heatlite serve`), PostgreSQL or MariaDB."""
    broker: str
    """RabbitMQ or Redis; SQLite takes none."""
    seconds: float
    seed: int
    clients: int = 6
    lease: float = 6.0
    kills: int | None = None
    """End after so many kills, whatever the time."""


@dataclass
class Report:
    """Observations of a run."""

    plan: Plan
    record: Record = field(default_factory=Record)
    disturbances: Counter[str] = field(default_factory=Counter)
    late: float = 0.0
    """Seconds for which an expired lease was not taken over, at the most, while the database answered."""
    rest: float = 0.0
    """Seconds until all was at rest in the end."""
    stacks: int = 0
    actions: dict[str, int] = field(default_factory=dict)
    """Status → how many."""
    slow_health: float = 0.0
    """Seconds that a healthcheck of a running API took, at the most."""

    def lines(self) -> Iterator[str]:
        """The report as text."""
        plan, record = self.plan, self.record
        yield f"{plan.database} {plan.broker} seed {plan.seed}, {plan.seconds:.0f} s, lease {plan.lease:.0f} s"
        yield f"disturbances: {dict(sorted(self.disturbances.items()))}"
        yield f"stacks {self.stacks}, actions {self.actions}, lives {dict(sorted(record.steps.items()))}"
        yield f"answers {dict(sorted(record.answers.items()))}, unanswered {record.unanswered}, judged {record.judged}"
        yield f"slowest answer {record.slowest:.1f} s, slowest healthcheck {self.slow_health:.1f} s"
        yield f"latest takeover {self.late:.1f} s after its lease; at rest after {self.rest:.1f} s"
        yield f"findings: {len(record.findings)}"
        yield from (f"  {finding}" for finding in record.findings)


class Member:
    """A process and its network to the servers, restarted whenever it ends."""

    def __init__(
        self, name: str, start: Callable[[dict[str, str]], Process], links: dict[str, tuple[str, int]]
    ) -> None:
        """`links`: the setting with a server's URL, that URL and the server's port."""
        self.name = name
        self.lock = threading.Lock()
        """Held while the process is disturbed or started."""
        self.process: Process | None = None
        self._start = start
        self.relays = {setting: Relay(port) for setting, (_, port) in links.items()}
        self._settings = {
            setting: url.replace(f":{port}", f":{self.relays[setting].port}", 1)
            for setting, (url, port) in links.items()
        }

    def up(self) -> None:
        """Start the process; that fails while its servers are away."""
        with suppress(AssertionError, OSError):
            self.process = self._start(self._settings)

    @property
    def alive(self) -> bool:
        return self.process is not None and self.process.process.poll() is None

    def signal(self, number: signal.Signals) -> None:
        """Send a signal to all of its processes."""
        if self.process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self.process.process.pid, number)

    def kill(self) -> None:
        if self.process is not None:
            self.process.kill()
            self.process = None

    def close(self) -> None:
        """Leave nothing behind."""
        self.signal(signal.SIGCONT)
        self.kill()
        for relay in self.relays.values():
            relay.close()


class Chaos:
    """One run."""

    def __init__(self, plan: Plan, home: Path, say: Callable[[str], None] = lambda _: None) -> None:
        self._plan = plan
        self._home = home
        self._say = say
        self._files = home / "files"
        self._files.mkdir()
        self._random = random.Random(plan.seed)
        self.report = Report(plan)
        self._stopping = threading.Event()
        """The disturbances are over."""
        self._enough = threading.Event()
        """There have been as many kills as were asked for."""
        self._calm = threading.Event()
        """The clients stop, too."""
        self._members: list[Member] = []
        self._logs: list[Process] = []
        self._steady = time.monotonic()
        """Time of the last disturbance of the servers."""

    # -- set-up ------------------------------------------------------------------------------------

    def run(self) -> Report:
        """Disturb everything for as long as was asked for, come to rest, judge.

        Raises NoServer.
        """
        with ExitStack() as opened:
            if self._plan.database == Dialect.SQLITE:
                url, disturbers = sqlite(self._home, "heatlite.db"), self._set_up_one(opened)
            else:
                url, disturbers = self._set_up_many(opened)
            self._url = url
            shared = self._apis, self._files, self.report.record, self._calm
            seed = self._plan.seed
            clients = [Client(number, seed, url, *shared) for number in range(self._plan.clients)]
            threads = [threading.Thread(target=one, daemon=True) for one in (*disturbers, self._watch, self._keep)]
            for thread in (*threads, *clients):
                thread.start()
            self._enough.wait(self._plan.seconds)
            with suppress(AssertionError):  # a busy machine may need longer until anything has happened
                eventually(lambda: self.report.disturbances and self.report.record.judged)
            self._stopping.set()
            for thread in threads[: len(disturbers)]:
                thread.join()
            self._judge(clients)
        return self.report

    def _set_up_one(self, opened: ExitStack) -> list[Callable[[], None]]:
        self._add(opened, "serve", {})
        kinds = [self._kill, self._terminate, self._terminate_failing, self._freeze, self._fill_file]
        if self._plan.kills is not None:
            kinds = [self._kill, self._kill, self._kill, self._terminate_failing]
        return [self._disturb(kinds)]

    def _set_up_many(self, opened: ExitStack) -> tuple[str, list[Callable[[], None]]]:
        self._database = servers.KINDS[self._plan.database]()
        opened.enter_context(small_disk(self._database.folder))
        opened.enter_context(closing(self._database))
        self._database.start()
        self._broker = opened.enter_context(closing(servers.KINDS[self._plan.broker]()))
        self._broker.start()
        url = self._database.url
        store = whole(url)
        store.upgrade()
        store.close()
        links = {
            "HEATLITE_DATABASE": (url, self._database.port),
            "HEATLITE_BROKER": (self._broker.url, self._broker.port),
        }
        for name in ("api", "api", "worker", "worker", "worker"):
            self._add(opened, name, links)
        return url, [
            self._disturb([self._kill, self._terminate, self._terminate_failing, self._freeze, self._freeze_inside]),
            self._disturb([self._cut, self._restart_broker, self._restart_database, self._fill_disk]),
        ]

    def _add(self, opened: ExitStack, command: str, links: dict[str, tuple[str, int]]) -> None:
        lease = {"HEATLITE_LEASE_SECONDS": str(self._plan.lease), "PYTHONPATH": PATH}

        def start(settings: dict[str, str]) -> Process:
            variables = {**lease, **settings}
            database = variables.pop("HEATLITE_DATABASE", None)
            process: Process
            if command == "worker":
                assert database is not None
                process = Worker(self._home, database, **variables)
            else:
                process = Server(self._home, 0, command, database, **variables)
            self._logs.append(process)
            return process

        member = Member(f"{command} {len(self._members)}", start, links)
        opened.callback(member.close)
        member.up()
        self._members.append(member)

    def _apis(self) -> list[Server]:
        found = (member.process for member in self._members if member.alive)
        return [process for process in found if isinstance(process, Server)]

    # -- disturbances ------------------------------------------------------------------------------

    def _disturb(self, kinds: list[Callable[[], bool]]) -> Callable[[], None]:
        chance = random.Random(self._random.random())

        def disturb() -> None:
            while not self._stopping.wait(chance.uniform(*PAUSE)):
                kind = chance.choice(kinds)
                name = kind.__name__.strip("_").replace("_", " ")
                try:
                    if kind():
                        self.report.disturbances[name] += 1
                        self._say(f"{time.strftime('%H:%M:%S')} {name}")
                except DatabaseUnavailable:
                    pass  # it is being disturbed
                except Exception as error:  # noqa: BLE001 - whatever it was, the run has to end with a report
                    self.report.record.note(f"the driver: {name}: {type(error).__name__}: {error}")

        return disturb

    @contextmanager
    def _one(self, *, workers: bool = False) -> Iterator[Member]:
        """A process that is up, which nothing else disturbs meanwhile."""
        candidates = [member for member in self._members if not workers or member.name.startswith("worker")]
        while not self._stopping.is_set():
            member = self._random.choice(candidates)
            with member.lock:
                if member.alive:
                    yield member
                    return
            time.sleep(0.1)
        raise TimeoutError("nothing is up")

    def _kill(self) -> bool:
        with self._one() as member:
            member.kill()
        if self._plan.kills is not None and self.report.disturbances["kill"] + 1 >= self._plan.kills:
            self._enough.set()
        return True

    def _terminate(self) -> bool:
        with self._one() as member:
            self._stop(member)
        return True

    def _terminate_failing(self) -> bool:
        """SIGTERM while a resource has failed and others of its action are under way."""
        end = time.monotonic() + 120
        with closing(Store.open(self._url)) as store:
            while time.monotonic() < end and not self._stopping.is_set():
                with suppress(DatabaseUnavailable):
                    if store.database.read(FAILING)[0][0]:
                        break
                time.sleep(0.02)
            else:
                return False
        for member in [one for one in self._members if not one.name.startswith("api")]:
            with member.lock:
                self._stop(member)
        return True

    def _stop(self, member: Member) -> None:
        process = member.process
        if process is None or not member.alive:
            return
        process.process.send_signal(signal.SIGTERM)
        with suppress(subprocess.TimeoutExpired):
            process.process.wait(STOP)
        if member.alive:
            self.report.record.note(f"{member.name} has not stopped {STOP:.0f} s after SIGTERM")
        member.kill()

    def _freeze(self) -> bool:
        with self._one() as member:
            member.signal(signal.SIGSTOP)
            try:
                time.sleep(self._random.choice((0.5, 1.0, 2.5)) * self._plan.lease)
            finally:
                member.signal(signal.SIGCONT)
        return True

    def _freeze_inside(self) -> bool:
        """A worker that is frozen while it is in a transaction, for more than two leases."""
        with self._one(workers=True) as member, closing(Store.open(self._url)) as store:
            try:
                for _ in range(200):
                    member.signal(signal.SIGSTOP)
                    if self._is_inside(store, member):
                        time.sleep(2.5 * self._plan.lease)
                        return True
                    member.signal(signal.SIGCONT)
                    time.sleep(0.013)
            except DatabaseUnavailable:
                pass
            finally:
                member.signal(signal.SIGCONT)
        return False

    def _is_inside(self, store: Store, member: Member) -> bool:
        """True if a connection of the member is in a transaction that has written."""
        ports = member.relays["HEATLITE_DATABASE"].ports
        if self._plan.database == Dialect.POSTGRESQL:
            sql = "SELECT client_port FROM pg_stat_activity WHERE state = 'idle in transaction'"
            sql += " AND backend_xid IS NOT NULL"
            return any(port in ports for (port,) in store.database.read(sql))
        sql = "SELECT host FROM information_schema.processlist AS p JOIN information_schema.innodb_trx AS t"
        sql += " ON t.trx_mysql_thread_id = p.id WHERE p.command = 'Sleep' AND t.trx_rows_modified > 0"
        return any(int(str(host).rpartition(":")[2]) in ports for (host,) in store.database.read(sql))

    def _cut(self) -> bool:
        """The network of a process to a server; connections later live on or break."""
        member = self._random.choice(self._members)
        relay = self._random.choice([*member.relays.values()])
        relay.cut()
        try:
            time.sleep(self._random.uniform(0.5, 3) * self._plan.lease)
        finally:
            if self._random.random() < 0.5:
                relay.reset()
            relay.restore()
        return True

    def _restart_broker(self) -> bool:
        self._broker.stop(self._random.choice((signal.SIGTERM, signal.SIGKILL)))
        time.sleep(self._random.uniform(0, 10))
        try:
            self._broker.start()
        except AssertionError as error:
            # A broker that was killed may be unable to read its files. Its queues only wake workers: it starts empty.
            self._say(f"the broker loses its files: {str(error)[-300:]}")
            self.report.disturbances["broker loses its files"] += 1
            self._broker.stop(signal.SIGKILL)
            shutil.rmtree(self._broker.data)
            self._broker.start()
        return True

    def _restart_database(self) -> bool:
        with self._unsteady():
            self._database.stop(self._random.choice((signal.SIGTERM, signal.SIGKILL)))
            time.sleep(self._random.uniform(0, 5))
            self._database.start()
        return True

    def _fill_disk(self) -> bool:
        filler = self._database.folder / "filler"
        with self._unsteady():
            try:
                room = shutil.disk_usage(self._database.folder).free
                with filler.open("wb") as file, suppress(OSError):
                    os.posix_fallocate(file.fileno(), 0, max(1, room - 4096))
                time.sleep(self._random.uniform(2, 8))
            finally:
                filler.unlink()
            # A database that cannot write its log may end itself.
            end = time.monotonic() + 120
            while time.monotonic() < end and not self._database.answers():
                time.sleep(0.2)
            if not self._database.answers():
                self._database.stop(signal.SIGKILL)
                self._database.start()
        return True

    def _fill_file(self) -> bool:
        """No file of the process may grow, which SQLite cannot tell from a full disk."""
        with self._one() as member:
            assert isinstance(member.process, Server)
            worker = member.process.worker()
            if not worker:
                return False
            prlimit(worker, RLIMIT_FSIZE, (32 * 1024, RLIM_INFINITY))
            time.sleep(self._random.uniform(0.5, 4))
            with suppress(ProcessLookupError):
                prlimit(worker, RLIMIT_FSIZE, (RLIM_INFINITY, RLIM_INFINITY))
        return True

    @contextmanager
    def _unsteady(self) -> Iterator[None]:
        self._steady = float("inf")
        try:
            yield
        finally:
            self._steady = time.monotonic()

    # -- what watches ------------------------------------------------------------------------------

    def _keep(self) -> None:
        """Start again what has ended."""
        while not self._calm.wait(0.2):
            for member in self._members:
                if not member.alive and member.lock.acquire(blocking=False):
                    try:
                        if not member.alive:
                            member.kill()
                            member.up()
                    finally:
                        member.lock.release()

    def _watch(self) -> None:
        """Note how late leases are taken over, and how long healthchecks take."""
        late = "SELECT MIN(lease_until) FROM action WHERE status = 'RUNNING'"
        store = Store.open(self._url)
        while not self._calm.wait(0.5):
            with suppress(DatabaseUnavailable):
                ((lease,),) = store.database.read(late)
                if lease is not None and time.monotonic() - self._steady > 3 * self._plan.lease:
                    self.report.late = max(self.report.late, time.time() - lease)
            for member in self._members:
                if member.name.startswith("worker") or not member.lock.acquire(blocking=False):
                    continue
                try:
                    if member.alive and isinstance(member.process, Server):
                        began = time.monotonic()
                        member.process.request("GET", "/healthcheck", timeout=60)
                        self.report.slow_health = max(self.report.slow_health, time.monotonic() - began)
                except OSError:
                    pass  # it has just ended
                finally:
                    member.lock.release()
        store.close()

    # -- judgement ---------------------------------------------------------------------------------

    def _judge(self, clients: list[Client]) -> None:
        self._say("undisturbed; coming to rest")
        record, began = self.report.record, time.monotonic()
        with closing(Store.open(self._url)) as store:
            self._calm_down(clients)
            try:
                self._rest(store)
                self.report.rest = time.monotonic() - began
                judge(store, self._files, record.accepted, self._orphans)
                self._judge_volumes(store)
            except AssertionError as error:
                record.note(f"at rest: {error}")
            for process in self._logs:
                complaints = process.complaints()
                if complaints:
                    record.note(f"{process.log.name}: {complaints[:3000]}")
            if record.hasty:
                record.note(f"{record.hasty} answers of 503 without Retry-After")
            self.report.stacks = sum(1 for stack in stacks_of(store) if stack.parent_id is None)
            counted = store.database.read("SELECT status, COUNT(*) FROM action GROUP BY status")
            self.report.actions = {str(status): int(count) for status, count in counted}

    def _orphans(self) -> list[str]:
        return [name for process in self._logs for name in process.orphans()]

    def _calm_down(self, clients: list[Client]) -> None:
        """Let the clients end; what was disturbed is started again."""
        time.sleep(3)  # what is down comes up
        self._calm.set()
        for client in clients:
            client.join(240)
            if client.is_alive():
                self.report.record.note(f"{client.name} hangs")
        for member in self._members:
            with member.lock:
                end = time.monotonic() + 60
                while not member.alive and time.monotonic() < end:
                    member.up()

    def _rest(self, store: Store) -> None:
        end = time.monotonic() + REST
        while left := store.database.read(f"SELECT id, verb, status, owner, lease_until FROM action WHERE {OPEN}"):
            assert time.monotonic() < end, f"actions that never end, at {time.time()}: {left}"
            time.sleep(0.2)

    def _judge_volumes(self, store: Store) -> None:
        """Each volume that there is belongs to a row, and each row has its volume."""
        there = {path.name for path in self._files.glob("*.*") if len(path.suffix) == 33}
        rows = [row for stack in stacks_of(store) if stack.deleted_at is None for row in store.resources.of(stack.id)]
        known = {row.physical_id for row in rows if row.mapped_type == "Faults::Volume"} - {None}
        assert there == known, f"volumes: orphaned {there - known}; gone {known - there}"


@contextmanager
def small_disk(folder: Path) -> Iterator[None]:
    """A file system of its own at the folder.

    Raises NoServer where it cannot be mounted.
    """
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK},mode=755", "heatlite-chaos", str(folder)]
    if subprocess.run(mount, check=False, capture_output=True).returncode:
        raise servers.NoServer("only root can mount a small disk")
    try:
        yield
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)
        folder.rmdir()
