"""Real processes: `python -m heatlite serve` and unmodified clients."""

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from email.message import Message
from http.client import HTTPConnection
from pathlib import Path

from tests.waiting import eventually

ROOT = Path(__file__).parents[2]
TEMPLATES = ROOT / "templates"
EXAMPLE_PLUGIN = ROOT / "tests" / "example_plugin"

ORPHAN = re.compile(r"made for an attempt that had lost its action, is removed: (\S+)")
"""Line of a log about an object that its worker removes."""

BEGUN = re.compile(r'(\d+)\] \[INFO\] the engine works|the engine works", ?"process": ?(\d+)')
"""Line of a log, in both formats, about an engine's process."""

START_SECONDS = 240
DRAIN_SECONDS = 240
"""Seconds that a test waits for a process before it fails. Long, because the machine may be busy."""


def environment(home: Path, **more: str) -> dict[str, str]:
    """The environment of a user whose home is `home`, who has set nothing else."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("OS_", "HEATLITE_", "XDG_"))}
    path = os.pathsep.join([str(ROOT), str(EXAMPLE_PLUGIN)])
    files = home / "files"
    files.mkdir(exist_ok=True)
    return {**kept, "HOME": str(home), "PYTHONPATH": path, "EXAMPLE_FILES": str(files), "COLUMNS": "200", **more}


@dataclass
class Answer:
    status: int
    data: object
    headers: Message


def _group(stat: Path) -> int | None:
    """The process group of a live process (proc(5)); a zombie may remain for a while."""
    try:
        _, _, rest = stat.read_text().rpartition(") ")
    except (FileNotFoundError, ProcessLookupError):
        return None
    state, _, group, *_ = rest.split()
    return None if state in "ZX" else int(group)


class Process:
    """A `heatlite` command that runs until it is stopped, in its own process group."""

    def __init__(self, home: Path, command: str, *words: str, program: str = "heatlite", **variables: str) -> None:
        """`variables` are of its environment. Ready once `is_up`."""
        self.home = home
        self.log = home / f"{command}-{sum(1 for _ in home.glob(f'{command}-*.log'))}.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [sys.executable, "-m", program, command, *words],
                cwd=home,
                env=environment(home, **variables),
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        try:
            eventually(self._up, f"heatlite {command} is ready")
        except AssertionError:
            self.kill()
            raise AssertionError(f"heatlite {command} does not start; its log:\n{self.log.read_text()}") from None

    def _up(self) -> bool:
        assert self.process.poll() is None
        return self.is_up()

    def is_up(self) -> bool:
        """True if it does what it is for."""
        raise NotImplementedError

    def stop(self) -> None:
        """SIGTERM: it drains and leaves in good order."""
        self.process.send_signal(signal.SIGTERM)
        try:
            code = self.process.wait(DRAIN_SECONDS)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"it does not stop; its log:\n{self.log.read_text()}") from None
        assert code == 0, (code, self.log.read_text())
        assert not self._group_lives(), "a process is left behind"

    def kill(self) -> None:
        """SIGKILL for the whole group, as when the power fails."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait()
        eventually(lambda: not self._group_lives(), "the processes are gone")

    def complaints(self) -> str:
        """Return the faults of heatlite in the log. Failures of a type's code are none."""
        entries = re.split(r"^(?=\[\d{4}-\d\d-\d\d )", self.log.read_text(), flags=re.MULTILINE)
        of_types = re.compile(r"\[[^]]+\] \[\d+\] \[INFO\] (\[[^]]+\] )?resource ")
        return "".join(entry for entry in entries if "Traceback" in entry and not of_types.match(entry))

    def orphans(self) -> list[str]:
        """Return the names of objects that this process has made too late, and removed."""
        return [Path(found).name for found in ORPHAN.findall(self.log.read_text())]

    def _group_lives(self) -> bool:
        return any(_group(found) == self.process.pid for found in Path("/proc").glob("[0-9]*/stat"))


class Worker(Process):
    """A `heatlite worker`."""

    def __init__(self, home: Path, database: str, **variables: str) -> None:
        super().__init__(home, "worker", "--database", database, **variables)

    def is_up(self) -> bool:
        return "a worker, " in self.log.read_text()


class CeleryWorker(Process):
    """A worker that the command `celery` runs."""

    def __init__(self, home: Path, database: str, *words: str, **variables: str) -> None:
        # As `celery -A heatlite.worker worker`.
        more = {"APP": "heatlite.worker", "HEATLITE_DATABASE": database, **variables}
        super().__init__(home, "worker", *words, program="celery", **more)

    def is_up(self) -> bool:
        return "receiving hints from " in self.log.read_text()


class Server(Process):
    """A `heatlite serve`, or another command that answers requests."""

    def __init__(
        self, home: Path, port: int = 0, command: str = "serve", database: str | None = None, **variables: str
    ) -> None:
        """Port 0: any free one."""
        self.port = 0
        self.project = "demo"
        self.token = ""
        """Keystone's token of the requests; none by default."""
        self.patient = False
        """True to send a request again that a database server answers too late, as the answer asks for."""
        self._has_lock = command == "serve" and database is None
        database = database or f"sqlite:///{home / 'heatlite.db'}"
        # Port 0: a port that was looked for beforehand may be somebody else's by then.
        super().__init__(
            home, command, "--host", "127.0.0.1", "--port", str(port), "--database", database, **variables
        )

    def is_up(self) -> bool:
        listens = re.search(r"Listening at: http://127\.0\.0\.1:(\d+) ", self.log.read_text())
        if listens is None:
            return False
        self.port = int(listens[1])
        return self.healthy() and (not self._has_lock or self.worker() != 0)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def healthy(self) -> bool:
        try:
            return self.request("GET", "/healthcheck").status == 200
        except OSError:
            return False

    def request(self, method: str, path: str, body: object = None, timeout: float = START_SECONDS) -> Answer:
        """One request; a body goes as JSON.

        A path without a leading /v1 and such is one below the project.
        """
        end = time.monotonic() + START_SECONDS
        while True:
            answer = self._request(method, path, body, timeout)
            if not (self.patient and answer.status == 503 and "DatabaseUnavailable" in str(answer.data)):
                return answer
            assert time.monotonic() < end, answer.data
            time.sleep(0.1)

    def _request(self, method: str, path: str, body: object, timeout: float) -> Answer:
        connection = HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            target = path if path.startswith(("/v1", "/healthcheck", "/metrics")) else f"/v1/{self.project}{path}"
            payload = None if body is None else json.dumps(body)
            headers = {"Content-Type": "application/json"} | ({"X-Auth-Token": self.token} if self.token else {})
            connection.request(method, target, payload, headers)
            response = connection.getresponse()
            text = response.read().decode()
            is_json = "json" in response.headers.get("Content-Type", "")
            return Answer(response.status, json.loads(text) if is_json and text else text, response.headers)
        finally:
            connection.close()

    def create(self, name: str, template: object, **more: object) -> str:
        """Ask for a stack; its path."""
        answer = self.request("POST", "/stacks", {"stack_name": name, "template": template, **more})
        assert answer.status == 201, answer.data
        return f"/stacks/{name}/{answer.data['stack']['id']}"  # type: ignore[index]

    def find(self, name: str) -> str:
        """The path of the stack with this name."""
        answer = self.request("GET", f"/stacks/{name}")
        assert answer.status == 302, answer.data
        return str(answer.headers["Location"]).removeprefix(f"{self.url}/v1/{self.project}")

    def stack(self, path: str) -> dict[str, str]:
        answer = self.request("GET", f"{path}?resolve_outputs=False")
        assert answer.status == 200, answer.data
        return answer.data["stack"]  # type: ignore[index,no-any-return]

    def listed(self, path: str, what: str) -> list[dict[str, str]]:
        """The resources or events of a stack."""
        answer = self.request("GET", f"{path}/{what}")
        assert answer.status == 200, answer.data
        return answer.data[what]  # type: ignore[index,no-any-return]

    def resources(self, path: str) -> dict[str, str]:
        """The physical ids of a stack's resources."""
        return {one["resource_name"]: one["physical_resource_id"] for one in self.listed(path, "resources")}

    def settled(self, path: str) -> str:
        """The state of a stack, once nothing is being done to it."""
        eventually(lambda: not self.stack(path)["stack_status"].endswith("_IN_PROGRESS"), f"{path} comes to rest")
        return self.stack(path)["stack_status"]

    def worker(self) -> int:
        """The id of the process that runs the engine; 0 while there is none."""
        lock = self.home / "heatlite.db.engine"
        engine = json.loads(lock.read_text() or "{}").get("pid", 0) if lock.exists() else 0
        if engine == self.process.pid:  # a supervisor holds the lock
            begun = BEGUN.findall(self.log.read_text())
            engine = int("".join(begun[-1])) if begun else 0
        return engine if engine in self._children() else 0

    def gunicorn(self) -> int:
        """The id of gunicorn's process; 0 while there is none."""
        return next((pid for pid in self._children() if pid != self.worker()), 0)

    def apis(self) -> list[int]:
        """The ids of the processes that answer requests."""
        return _children(self.gunicorn())

    def _children(self) -> list[int]:
        return _children(self.process.pid)


def _children(pid: int) -> list[int]:
    try:
        return [*map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split())]
    except (FileNotFoundError, ProcessLookupError):
        return []


@dataclass
class Done:
    """Result of a command line."""

    code: int
    out: str
    err: str

    @property
    def data(self) -> object:
        """Return the printed JSON. A --wait prints events before it."""
        lines = self.out.splitlines()
        start = next(number for number, line in enumerate(lines) if line in ("{", "[", "{}", "[]"))
        return json.loads("\n".join(lines[start:]))


@dataclass
class CommandLine:
    """`python -m heatlite` as a process, with a home of its own."""

    home: Path
    variables: dict[str, str] = field(default_factory=dict)

    def start(self, *words: str, **more: str) -> "subprocess.Popen[str]":
        return subprocess.Popen(
            [sys.executable, "-m", "heatlite", *words],
            cwd=self.home,
            env=environment(self.home, **self.variables, **more),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str, **more: str) -> Done:
        with self.start(*words, **more) as process:
            out, err = process.communicate(timeout=START_SECONDS)
        assert "Traceback" not in err, err
        return Done(process.returncode, out, err)


class OpenStack:
    """The `openstack` command.

    Starting it takes a second, so one process runs all command lines, one by one.
    """

    def __init__(self, home: Path, variables: Mapping[str, str]) -> None:
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name("openstack_process.py"))],
            cwd=home,
            env=environment(home, **variables),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def __call__(self, *words: str) -> Done:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(words), file=self._process.stdin, flush=True)
        answer = json.loads(self._process.stdout.readline())
        return Done(**answer)

    def ok(self, *words: str) -> Done:
        """A command that has to work."""
        done = self(*words)
        assert done.code == 0, f"openstack {' '.join(words)}\n{done.out}{done.err}"
        return done

    def json(self, *words: str) -> object:
        """Return the output of a command with ``-f json``."""
        return self.ok(*words, "-f", "json").data

    def close(self) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.stdout.close()
        assert self._process.wait(START_SECONDS) == 0
