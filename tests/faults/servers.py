"""Databases and brokers that the test starts and stops, on loopback.

`start` raises NoServer where the programs are not installed.
"""

import os
import pwd
import shutil
import signal
import socket
import subprocess
import tempfile
from abc import ABC, abstractmethod
from contextlib import AbstractContextManager, closing, suppress
from pathlib import Path

from benchmarks.ports import free_port
from heatlite.core.errors import DatabaseUnavailable
from heatlite.store.database.database import Database
from tests.processes import frozen
from tests.waiting import eventually


class NoServer(Exception):
    """A required program is not installed."""


def program(name: str, *places: str) -> str:
    """Return the path of a program. Raises NoServer."""
    beside = [str(path) for place in places for path in sorted(Path("/").glob(place), reverse=True)]
    found = shutil.which(name, path=os.pathsep.join([*beside, os.environ["PATH"], "/usr/sbin"]))
    if found is None:
        raise NoServer(f"{name} is not installed")
    return found


class Server(ABC):
    """A server in the foreground of a process group of its own."""

    user: str | None = None
    """As whom it runs where root starts it."""

    def __init__(self) -> None:
        self.port = free_port()
        self.folder = Path(tempfile.mkdtemp(prefix="heatlite-faults-", dir="/tmp"))
        self.folder.chmod(0o755)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    @abstractmethod
    def url(self) -> str:
        """Setting for heatlite."""

    @abstractmethod
    def command(self) -> list[str]:
        """Command that starts it."""

    def prepare(self) -> None:  # noqa: B027 - most need nothing
        """Commands before the first start."""

    @property
    def data(self) -> Path:
        """Its files; the server's user may write there."""
        return self.folder / "data"

    def run(self, *words: str) -> list[str]:
        """The words of a command of the server's user."""
        if self.user is not None and os.getuid() == 0:
            return ["runuser", "-u", self.user, "--", *words]
        return [*words]

    def environment(self) -> dict[str, str]:
        return dict(os.environ)

    def start(self) -> None:
        """Start it, and wait until it answers."""
        command = self.command()
        if not self.data.exists():
            self.data.mkdir()
            if self.user is not None and os.getuid() == 0:
                user = pwd.getpwnam(self.user)
                os.chown(self.data, user.pw_uid, user.pw_gid)
            self.prepare()
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(
                self.run(*command), env=self.environment(), stdin=subprocess.DEVNULL, stdout=log, stderr=log,
                cwd=self.data, start_new_session=True,
            )  # fmt: skip
        eventually(self._answers, f"{self.url} answers: {(self.folder / 'log').read_text()[-1000:]}")

    def _answers(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, (self.folder / "log").read_text()
        return self.answers()

    def answers(self) -> bool:
        """True if it does."""
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), 1):
            return True
        return False

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Send a signal to all of its processes, and wait until they are gone."""
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait(240)
            self._process = None
            eventually(lambda: not self.answers(), "it is gone")

    def frozen(self) -> AbstractContextManager[None]:
        """In the block its processes stand still: they accept, and never answer."""
        assert self._process is not None
        return frozen(self._process.pid)

    def close(self) -> None:
        """Leave nothing behind."""
        self.stop(signal.SIGKILL)
        shutil.rmtree(self.folder, ignore_errors=True)


class DatabaseServer(Server):
    first: str
    """The database that there always is."""

    def start(self) -> None:
        is_new = not self.data.exists()
        super().start()
        if is_new:
            self._run("CREATE DATABASE heatlite")

    def answers(self) -> bool:
        try:
            self._run("SELECT 1")
        except DatabaseUnavailable:
            return False
        return True

    def _run(self, sql: str) -> None:
        with closing(Database(self.url.replace("/heatlite", f"/{self.first}"))) as database:
            database.read("SELECT 1")
            database.peewee.execute_sql(sql)


class PostgreSQL(DatabaseServer):
    user, first = "postgres", "postgres"
    places = ("usr/lib/postgresql/*/bin",)

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/heatlite"

    def prepare(self) -> None:
        self.data.chmod(0o700)
        initdb = self.run(program("initdb", *self.places), "-D", str(self.data), "-U", "postgres", "-A", "trust")
        subprocess.run(initdb, check=True, stdout=subprocess.DEVNULL, cwd=self.data)

    def command(self) -> list[str]:
        options = ("listen_addresses=127.0.0.1", "unix_socket_directories=", "fsync=off")
        words = [program("postgres", *self.places), "-D", str(self.data), "-p", str(self.port)]
        return words + [word for option in options for word in ("-c", option)]

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """SIGTERM: a fast shutdown.

        (To PostgreSQL itself that is SIGINT; SIGTERM would wait for clients.)
        """
        super().stop(signal.SIGINT if number is signal.SIGTERM else number)
        # After a kill: whoever is to bury the dead may take his time, and until then the process seems to live.
        (self.data / "postmaster.pid").unlink(missing_ok=True)


class MariaDB(DatabaseServer):
    user, first = "mysql", "mysql"

    @property
    def url(self) -> str:
        return f"mysql://root@127.0.0.1:{self.port}/heatlite?ssl_disabled=true"

    @property
    def temporary(self) -> Path:
        """Folder of its own for temporary tables.

        A server that starts deletes those of others in the same folder.
        """
        return self.folder / "temporary"

    def prepare(self) -> None:
        self.temporary.mkdir(exist_ok=True)
        self.temporary.chmod(0o777)
        words = [f"--datadir={self.data}", "--auth-root-authentication-method=normal", "--skip-test-db"]
        install = self.run(program("mariadb-install-db"), "--no-defaults", *words)
        subprocess.run(install, check=True, stdout=subprocess.DEVNULL, cwd=self.data)

    def command(self) -> list[str]:
        places = {"datadir": self.data, "socket": self.data / "socket", "tmpdir": self.temporary}
        options = ("bind-address=127.0.0.1", *(f"{option}={place}" for option, place in places.items()))
        return [program("mariadbd"), "--no-defaults", f"--port={self.port}", *(f"--{option}" for option in options)]


class Redis(Server):
    @property
    def url(self) -> str:
        return f"redis://127.0.0.1:{self.port}/0"

    def command(self) -> list[str]:
        options = ("--bind", "127.0.0.1", "--save", "", "--dir", str(self.data))
        return [program("redis-server"), "--port", str(self.port), *options]


class RabbitMQ(Server):
    def __init__(self) -> None:
        super().__init__()
        self._name = f"heatlite{self.port}@localhost"
        self._mapper = str(free_port())

    @property
    def url(self) -> str:
        return f"amqp://guest:guest@127.0.0.1:{self.port}//"

    def command(self) -> list[str]:
        return [program("rabbitmq-server", "usr/lib/rabbitmq/bin")]  # the one in sbin changes the user

    def environment(self) -> dict[str, str]:
        folder = str(self.data)
        return {
            **os.environ,
            "HOME": folder,
            "XDG_CONFIG_HOME": folder,  # Erlang looks for its cookie there, too
            "ERL_EPMD_PORT": self._mapper,
            "ERL_EPMD_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODENAME": self._name,
            "RABBITMQ_NODE_IP_ADDRESS": "127.0.0.1",
            "RABBITMQ_NODE_PORT": str(self.port),
            "RABBITMQ_DIST_PORT": str(free_port()),
            "RABBITMQ_MNESIA_BASE": f"{folder}/mnesia",
            "RABBITMQ_LOG_BASE": f"{folder}/log",
            "RABBITMQ_PID_FILE": f"{folder}/pid",
            "RABBITMQ_ENABLED_PLUGINS_FILE": f"{folder}/plugins",
            "RABBITMQ_CONFIG_FILE": f"{folder}/none",
            "RABBITMQ_CONF_ENV_FILE": f"{folder}/none",
        }

    def close(self) -> None:
        self.stop(signal.SIGKILL)
        if self.data.exists():
            # Erlang's port mapper has left the group, and stays until it has missed the broker.
            eventually(lambda: self._map("-kill") == 0 or self._map("-names") != 0, "the port mapper is gone")
        super().close()

    def _map(self, word: str) -> int:
        return subprocess.run(["epmd", word], env=self.environment(), check=False, capture_output=True).returncode


KINDS: dict[str, type[Server]] = {kind.__name__: kind for kind in (PostgreSQL, MariaDB, Redis, RabbitMQ)}
