"""Brokers, where one is reachable.

HEATLITE_TEST_AMQP_URL and HEATLITE_TEST_REDIS_URL name one; without them one on loopback is tried. Each test has queues
of its own there, which go when it ends.
"""

import json
import os
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from uuid import uuid4

from benchmarks.ports import free_port
from tests.databases import on
from tests.processes import frozen

STOP_SECONDS = 240.0
BROKERS = {
    "RabbitMQ": ("HEATLITE_TEST_AMQP_URL", "amqp://guest:guest@127.0.0.1:5672//"),
    "Redis": ("HEATLITE_TEST_REDIS_URL", "redis://127.0.0.1:6379/0"),
}


EACH_BROKER = [on("RabbitMQ"), on("Redis")]
"""Rows for a fixture that has a broker of each kind."""


class NoBroker(Exception):
    """There is none, or nothing to reach it with."""


@dataclass(frozen=True)
class Broker:
    """A broker, and what the names of this test's queues begin with."""

    url: str
    prefix: str

    @contextmanager
    def connection(self) -> Iterator[Any]:
        import kombu

        options = {"global_keyprefix": f"{self.prefix}."} if self.url.startswith("redis") else {}
        with kombu.Connection(self.url, transport_options=options, connect_timeout=60) as found:
            yield found

    def messages(self, queue: str) -> list[tuple[Any, dict[str, Any]]]:
        """Body and headers of what lies in a queue, oldest first. Takes them out."""
        import kombu

        out = []
        with self.connection() as connection, connection.channel() as channel:
            bound = kombu.Queue(f"{self.prefix}.{queue}", channel=channel)
            bound.queue_declare()
            while (message := bound.get(no_ack=True)) is not None:
                out.append((json.loads(message.body), message.headers))
        return out

    def clear(self, queues: list[str]) -> None:
        """Leave nothing behind."""
        if self.url.startswith("redis"):
            import redis

            with redis.Redis.from_url(self.url) as client:
                for key in client.scan_iter(f"{self.prefix}.*"):
                    client.delete(key)
            return
        with self.connection() as connection, connection.channel() as channel:
            for queue in queues:
                channel.queue_delete(f"{self.prefix}.{queue}")
                channel.exchange_delete(f"{self.prefix}.{queue}")  # of a queue added by remote control
            for exchange in ("", ".pidbox", ".events"):
                channel.exchange_delete(f"{self.prefix}{exchange}")
            channel.exchange_delete(f"reply.{self.prefix}.pidbox")


@contextmanager
def broker(name: str, zones: tuple[str, ...] = ("north", "south")) -> Iterator[Broker]:
    """A broker with queues of its own. Raises NoBroker."""
    if find_spec("celery") is None:
        raise NoBroker("celery is not installed (extra `distributed`)")
    from kombu.exceptions import OperationalError

    variable, loopback = BROKERS[name]
    found = Broker(os.environ.get(variable, loopback), f"heatlite-test-{uuid4().hex[:8]}")
    try:
        with found.connection() as connection:
            connection.ensure_connection(max_retries=1, interval_start=0)
    except OperationalError as error:
        raise NoBroker(f"no {name} to test with ({variable} names one): {error}") from error
    yield found
    found.clear([f"{kind}{zone}" for kind in ("stack", "check") for zone in ("", *(f".{zone}" for zone in zones))])


class OwnBroker:
    """A broker on a free port in its own process, not running until started."""

    def __init__(self, url: str, words: list[str], environment: dict[str, str], home: Path | None = None) -> None:
        """`home` is its folder, deleted with it; as root it runs as the folder's owner."""
        self.url = url
        self._words = words
        self._environment = environment
        self._home = home
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """It answers some time later."""
        self._process = subprocess.Popen(
            self._words,
            env={**os.environ, **self._environment},
            user=None if self._home is None else self._home.stat().st_uid,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Until it answers."""
        import kombu

        with kombu.Connection(self.url, connect_timeout=3) as connection:
            connection.ensure_connection(max_retries=360, interval_start=0.5, interval_step=0)

    def stop(self, number: signal.Signals = signal.SIGTERM) -> None:
        """Stop in good order unless by SIGKILL, and wait for all processes.

        The script of RabbitMQ ends before its server does.
        """
        if self._process is not None:
            with suppress(ProcessLookupError):
                os.killpg(self._process.pid, number)
            self._process.wait()
            end = time.monotonic() + STOP_SECONDS
            with suppress(ProcessLookupError):
                while time.monotonic() < end:
                    os.killpg(self._process.pid, 0)
                    time.sleep(0.05)
            self._process = None

    def frozen(self) -> AbstractContextManager[None]:
        """In the block it accepts connections, and never answers."""
        assert self._process is not None
        return frozen(self._process.pid)

    def close(self) -> None:
        """Leave nothing behind."""
        self.stop()
        if self._home is not None:
            words = ["epmd", "-port", self._environment["ERL_EPMD_PORT"], "-kill"]
            subprocess.run(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, check=False)
            shutil.rmtree(self._home)


def own(name: str) -> OwnBroker:
    """A broker for one test. Raises NoBroker where none is installed."""
    port = free_port()
    if name == "Redis":
        program = shutil.which("redis-server")
        if program is None:
            raise NoBroker("redis-server is not installed")
        words = [program, "--port", str(port), "--bind", "127.0.0.1", "--save", ""]
        return OwnBroker(f"redis://127.0.0.1:{port}/0", words, {})
    # What is on Debian's PATH always goes to the one server of the machine.
    program = shutil.which("rabbitmq-server", path=f"/usr/lib/rabbitmq/bin{os.pathsep}{os.environ['PATH']}")
    if program is None:
        raise NoBroker("rabbitmq-server is not installed")
    # Not in `folder`, which the server's own user may not enter.
    home = Path(tempfile.mkdtemp(prefix="rabbitmq-"))
    (home / "rabbitmq.conf").write_text(f"listeners.tcp.1 = 127.0.0.1:{port}\n")
    (home / "plugins").write_text("")
    if os.getuid() == 0:
        for path in (home, *home.iterdir()):
            shutil.chown(path, "rabbitmq")
    environment = {
        "HOME": str(home),
        "ERL_EPMD_PORT": str(free_port()),
        "RABBITMQ_CONFIG_FILE": str(home / "rabbitmq.conf"),
        "RABBITMQ_CONF_ENV_FILE": "/dev/null",
        "RABBITMQ_DIST_PORT": str(free_port()),
        "RABBITMQ_ENABLED_PLUGINS_FILE": str(home / "plugins"),
        "RABBITMQ_LOG_BASE": str(home),
        "RABBITMQ_MNESIA_BASE": str(home),
        "RABBITMQ_NODENAME": f"heatlite-{port}@localhost",
        "XDG_CONFIG_HOME": str(home),  # Erlang looks for its cookie there, too
    }
    return OwnBroker(f"amqp://guest:guest@127.0.0.1:{port}//", [program], environment, home)
