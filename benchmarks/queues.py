"""Cost to announce an action to another process (decision 0009).

Run by ``python -m benchmarks.queues [QUEUE …]``.

For each library the least that does it: one process sends, one receives with a thread, each message by itself.
Each library is measured where it is installed, on one machine with the brokers on loopback.
"""

import argparse
import queue
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

if TYPE_CHECKING:
    from heatlite.core.config import Settings

AMQP = "amqp://guest:guest@127.0.0.1:5672//"
REDIS = "redis://127.0.0.1:6379/0"
POSTGRES = "postgresql://postgres@127.0.0.1:5432/heatlite_queues"

Send = Callable[[str], None]
Take = Callable[[str], None]


# -- each gives what sends one id; with `take`, it receives, at the latest while what it gives is called -------------


def heatlite(broker: str, prefix: str, take: Take | None) -> Send:
    """Our dispatcher: Celery, and a thread of its own for sending.

    A worker program receives.
    """
    from heatlite.core.config import Settings
    from heatlite.core.status import WorkKind
    from heatlite.engine.dispatch.distributed import CeleryDispatcher
    from heatlite.store.records import Announcement

    settings = Settings("sqlite:///unused", queue_prefix=prefix)
    if take is not None:
        return _worker_program(settings, broker, take)
    dispatcher = CeleryDispatcher(settings, broker)
    return lambda name: dispatcher.announce(Announcement(name, WorkKind.STACK, None, True))


def _worker_program(settings: "Settings", broker: str, take: Take) -> Send:
    """Return a call that runs a worker program in the main thread."""
    from heatlite.engine.dispatch.program import WorkerProgram
    from heatlite.engine.dispatch.slots import Slots
    from heatlite.store.records import ActionRecord

    class Receiving:
        def __init__(self, slots: Slots) -> None:
            self.close = slots.close
            self.take = take

        def active(self) -> list[ActionRecord]:
            return []

        def stack_name(self, _stack_id: str) -> str | None:
            return None

        def revoke(self, _action_ids: Iterable[str]) -> None:
            pass

    return lambda _: WorkerProgram(settings, broker, Receiving).run()


def celery(broker: str, prefix: str, _take: Take | None) -> Send:
    """Celery's own call, which sends before it returns; received as by `heatlite`."""
    from heatlite.core.config import Settings
    from heatlite.core.status import WorkKind
    from heatlite.engine.dispatch.distributed import CeleryDispatcher
    from heatlite.store.records import Announcement

    if _take is not None:
        return heatlite(broker, prefix, _take)
    dispatcher = CeleryDispatcher(Settings("sqlite:///unused", queue_prefix=prefix), broker)
    return lambda name: dispatcher.send(Announcement(name, WorkKind.STACK, None, True))


def threads(_broker: str, _prefix: str, take: Take | None) -> Send:
    """A thread of the same process that is woken: what the local dispatcher does."""
    if take is None:
        return lambda _: None
    names: queue.SimpleQueue[str] = queue.SimpleQueue()

    def receive() -> None:
        while True:
            take(names.get())

    threading.Thread(target=receive, daemon=True).start()
    return names.put


def dramatiq(url: str, prefix: str, take: Take | None) -> Send:
    import dramatiq as library

    if url.startswith("amqp"):
        from dramatiq.brokers.rabbitmq import RabbitmqBroker

        broker = RabbitmqBroker(url=url.removesuffix("/"))
    else:
        from dramatiq.brokers.redis import RedisBroker

        broker = RedisBroker(url=url, namespace=prefix)

    @library.actor(broker=broker, queue_name=prefix, actor_name="take")
    def actor(name: str) -> None:
        if take is not None:
            take(name)

    if take is not None:
        library.Worker(broker, worker_threads=1).start()
    return lambda name: actor.send(name)


def huey(url: str, prefix: str, take: Take | None) -> Send:
    from huey import RedisHuey

    app = RedisHuey(prefix, url=url, results=False)

    @app.task(name="take")
    def task(name: str) -> None:
        if take is not None:
            take(name)

    if take is not None:
        consumer = app.create_consumer(workers=1, periodic=False, check_worker_health=False)
        consumer.start()
    return lambda name: task(name)


def procrastinate(url: str, prefix: str, take: Take | None) -> Send:
    import procrastinate as library

    with suppress(Exception):
        import psycopg

        with psycopg.connect(url.rpartition("/")[0] + "/postgres", autocommit=True) as connection:
            connection.execute("CREATE DATABASE heatlite_queues")
    app = library.App(connector=library.SyncPsycopgConnector(conninfo=url))
    if take is None:
        app.open()
        with suppress(library.exceptions.ConnectorException):
            app.schema_manager.apply_schema()

    @app.task(name="take", queue=prefix)
    def task(name: str) -> None:
        if take is not None:
            take(name)

    if take is not None:
        receiving = app.with_connector(library.PsycopgConnector(conninfo=url))
        run = {"queues": [prefix], "concurrency": 1, "install_signal_handlers": False}
        threading.Thread(target=lambda: receiving.run_worker(**run), daemon=True).start()
    return lambda name: task.defer(name=name)


QUEUES: dict[str, tuple[Callable[[str, str, Take | None], Send], str]] = {
    "thread": (threads, ""),
    "heatlite-rabbitmq": (heatlite, AMQP),
    "heatlite-redis": (heatlite, REDIS),
    "celery-rabbitmq": (celery, AMQP),
    "celery-redis": (celery, REDIS),
    "dramatiq-rabbitmq": (dramatiq, AMQP),
    "dramatiq-redis": (dramatiq, REDIS),
    "huey-redis": (huey, REDIS),
    "procrastinate-postgresql": (procrastinate, POSTGRES),
}


# -- measuring -------------------------------------------------------------------------------------------------------


def _memory() -> float:
    """MB that this process has in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 1e6


def receive(name: str, prefix: str) -> None:
    """Be the process that receives: a line for each id, with the time."""
    make, url = QUEUES[name]
    before, began = _memory(), time.perf_counter()
    def take(found: str) -> None:
        sys.stdout.write(f"{found} {time.monotonic()}\n")  # in one piece: several threads may write
        sys.stdout.flush()

    receiving = make(url, prefix, take)
    print("ready", 1000 * (time.perf_counter() - began), _memory() - before, flush=True)
    if name.startswith(("heatlite", "celery")):
        receiving("")
    time.sleep(3600)


def _percentile(values: list[float], part: float) -> float:
    return sorted(values)[min(int(len(values) * part), len(values) - 1)]


def measure(name: str, count: int, pause: float) -> None:
    """Print milliseconds from the call to the receiver, and those of the call."""
    make, url = QUEUES[name]
    prefix = f"queues{uuid4().hex[:8]}"
    received: dict[str, float] = {}
    told: list[str] = ["", "0", "0"]
    process = None
    if url:
        send = make(url, prefix, None)
        send("warm-up")  # tables and queues are there before somebody looks
        words = [sys.executable, "-m", "benchmarks.queues", "--receive", name, "--prefix", prefix]
        process = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert process.stdout is not None
        lines = process.stdout

        def listen() -> None:
            for line in lines:
                words = line.split()
                if words[0] == "ready":
                    told[:] = words
                elif len(words) == 2:
                    received[words[0]] = float(words[1])

        threading.Thread(target=listen, daemon=True).start()
    else:
        send = make(url, prefix, lambda found: received.__setitem__(found, time.monotonic()))
        send("warm-up")
    try:
        until = time.monotonic() + 30
        while "warm-up" not in received and time.monotonic() < until:
            time.sleep(0.01)
        sent: dict[str, float] = {}
        calls: list[float] = []
        for number in range(count):
            key = str(number)
            sent[key] = time.monotonic()
            send(key)
            calls.append(time.monotonic() - sent[key])
            time.sleep(pause)
        time.sleep(2)
        waits = [received[key] - sent[key] for key in sent if key in received]
        print(
            f"{name:26} p50 {1000 * statistics.median(waits):7.2f}  p99 {1000 * _percentile(waits, 0.99):7.2f}  "
            f"call p50 {1000 * statistics.median(calls):6.3f}  p99 {1000 * _percentile(calls, 0.99):6.3f}  "
            f"lost {count - len(waits)}  import and start {float(told[1]):4.0f} ms  +{float(told[2]):.0f} MB",
            flush=True,
        )
    finally:
        if process is not None:
            process.kill()
            process.wait()


def main() -> None:
    """Measure each queue in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("queues", nargs="*", metavar="QUEUE", help=f"of: {', '.join(QUEUES)} (default: all)")
    parser.add_argument("--count", type=int, default=500, help="messages each")
    parser.add_argument("--pause", type=float, default=0.02, help="seconds between two messages")
    parser.add_argument("--receive", help=argparse.SUPPRESS)
    parser.add_argument("--prefix", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.receive:
        receive(arguments.receive, arguments.prefix)
        return
    for name in arguments.queues or QUEUES:
        try:
            measure(name, arguments.count, arguments.pause)
        except ImportError as error:
            print(f"{name:26} {error}")


if __name__ == "__main__":
    main()
