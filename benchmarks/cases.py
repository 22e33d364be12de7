"""The cases.

Each takes the bench and adds samples to it; what belongs together is measured in turns, in one run.
"""

import json
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

from benchmarks import floor, moto
from benchmarks.client import Client
from benchmarks.lifecycle import Stack, group, template, tree
from benchmarks.load import encode, load, rates
from benchmarks.ports import free_port
from benchmarks.processes import CHECKOUT, Checkout, Server, run

CLIENTS = 50
LISTED = 100
"""Stacks in the list that is read."""
SHOWN = 100
"""Resources of the stack that is shown, marked and locked."""
IDLE_SECONDS = 10.0


@dataclass
class Bench:
    """Options, and the samples so far by name."""

    folder: Path
    moto: str | None
    repeat: int
    seconds: float
    """Seconds of one measurement of requests."""
    sides: list[Checkout] = field(default_factory=lambda: [Checkout(CHECKOUT)])
    """This checkout, and the one that it is compared with."""
    large: int = 10_000
    """Resources of the large stacks that are created beside requests."""
    overload_seconds: float = 30.0
    samples: dict[str, list[float]] = field(default_factory=dict)
    counts: dict[str, dict[str, dict[str, int]]] = field(default_factory=dict)
    steps_per_tick: int = 0
    _made: int = 0

    def add(self, name: str, value: float) -> None:
        """One more sample."""
        self.samples.setdefault(name, []).append(value)

    def median(self, name: str) -> float:
        """Of the samples; KeyError if there are none."""
        return statistics.median(self.samples[name])

    def least(self, name: str) -> float:
        """Return the least sample of a name: that which other load has least disturbed."""
        return min(self.samples[name])

    def percentile(self, name: str, part: float) -> float:
        """Return the sample that this part of them does not exceed. Raises KeyError."""
        samples = sorted(self.samples[name])
        return samples[min(len(samples) - 1, int(len(samples) * part))]

    def new_folder(self) -> Path:
        """An empty folder."""
        return Path(tempfile.mkdtemp(dir=self.folder))

    def new_name(self) -> str:
        """A name that no stack has had."""
        self._made += 1
        return f"s{self._made}"

    def turns(self) -> Iterator[Checkout]:
        """Yield the checkouts in turn, each as often as asked."""
        for turn in range(self.repeat):
            yield from self.sides[:: -1 if turn % 2 else 1]

    def heatlite(self, side: Checkout | None = None, settings: Mapping[str, str] | None = None) -> Server:
        """`heatlite serve` with a fresh database and no limit of stacks, not started yet."""
        side = side or self.sides[0]
        port = free_port()
        variables = {**side.variables, "HEATLITE_MAX_STACKS_PER_TENANT": "-1", **(settings or {})}
        return Server(side.command("serve", "--port", str(port)), port, self.new_folder(), "/healthcheck", variables)

    def bare(self) -> Server:
        """Falcon alone under gunicorn, not started yet."""
        port = free_port()
        words = ["-b", f"127.0.0.1:{port}", "-k", "gthread", "--threads", "8", "benchmarks.bare:app"]
        return Server([sys.executable, "-m", "gunicorn", *words], port, self.new_folder(), "/")

    def say(self, text: str) -> None:
        """Tell how far it is."""
        print(text, file=sys.stderr, flush=True)


def _life(bench: Bench, client: Client, count: int) -> None:
    """One stack from its creation to its deletion."""
    stack = Stack(client, bench.new_name())
    bench.add(f"create.{count}", stack.create(template(count)))
    bench.add(f"no_op.{count}", stack.update(template(count)))
    one_percent = template(count, changed=max(1, count // 100))
    bench.add(f"one_percent.{count}", stack.update(one_percent))
    stack.mark(max(1, count // 10))
    bench.add(f"replace.{count}", stack.update(one_percent))
    bench.add(f"delete.{count}", stack.delete())


def _sizes(bench: Bench, sizes: tuple[int, ...], repeat: int) -> None:
    with ExitStack() as servers:
        client = Client(servers.enter_context(bench.heatlite()).port)
        peer = None
        if bench.moto is not None:
            port = free_port()
            servers.enter_context(moto.server(bench.moto, port, bench.new_folder()))
            peer = moto.Moto(port)
            _moto(bench, peer, 1, "warm-up")
        Stack(client, bench.new_name()).create(template(1))  # the first one imports the type
        floor_folder = bench.new_folder()
        for turn in range(repeat):
            for count in sizes:
                bench.say(f"{count} resources, {turn + 1} of {repeat}")
                bench.add(f"floor.{count}", floor.seconds(count, floor_folder))
                if count > 1000:
                    beside = Stack(client, bench.new_name())
                    bench.add(f"beside_{count}.1000", beside.create(template(1000)))
                    beside.delete()
                _life(bench, client, count)
                if peer is not None:
                    _moto(bench, peer, count, f"moto.{count}")


def _moto(bench: Bench, peer: moto.Moto, count: int, case: str) -> None:
    name = bench.new_name()
    seconds = peer.create(name, count)
    if case != "warm-up":
        bench.add(case, seconds)
    peer.delete(name)


def lifecycle(bench: Bench) -> None:
    """10, 100 and 1000 resources."""
    _sizes(bench, (10, 100, 1000), bench.repeat)


def large(bench: Bench) -> None:
    """10 000 resources, and 1000 just before, to see how the time grows."""
    _sizes(bench, (10_000,), (bench.repeat + 1) // 2)


def chains(bench: Bench) -> None:
    """Chains of 100 and 1000, next to as many independent resources."""
    with bench.heatlite() as server:
        client = Client(server.port)
        Stack(client, bench.new_name()).create(template(1))
        for turn in range(bench.repeat):
            bench.say(f"chains, {turn + 1} of {bench.repeat}")
            for count in (100, 1000):
                for case, chain in (("independent", False), ("chain", True)):
                    stack = Stack(client, bench.new_name())
                    bench.add(f"{case}.{count}", stack.create(template(count, chain=chain)))
                    stack.delete()


def kinds(bench: Bench) -> None:
    """Random strings, and a type with blocking handlers that commits intents first."""
    with bench.heatlite() as server:
        client = Client(server.port)
        for kind in ("Value", "RandomString", "TestResource", "SoftwareConfig"):
            Stack(client, bench.new_name()).create(template(1, f"OS::Heat::{kind}"))
        for turn in range(bench.repeat):
            bench.say(f"other types, {turn + 1} of {bench.repeat}")
            for kind, count, chain in (
                ("RandomString", 1000, False),
                ("Value", 1000, False),
                ("TestResource", 1000, False),
                ("SoftwareConfig", 1000, False),
                ("TestResource", 100, False),
                ("TestResource", 100, True),
            ):
                stack = Stack(client, bench.new_name())
                case = f"{kind}.{'chain' if chain else 'create'}.{count}"
                bench.add(case, stack.create(template(count, f"OS::Heat::{kind}", chain)))
                stack.delete()


def secrets(bench: Bench) -> None:
    """1000 resources in a stack with encrypted rows, next to as many in clear."""
    with bench.heatlite() as server:
        client = Client(server.port)
        Stack(client, bench.new_name()).create(template(1))
        for turn in range(bench.repeat):
            bench.say(f"secrets, {turn + 1} of {bench.repeat}")
            for case, hidden in (("in_clear", False), ("sealed", True)):
                stack = Stack(client, bench.new_name())
                parameters = {"p": {"type": "string", "default": "sesame", "hidden": hidden}}
                bench.add(f"{case}.1000", stack.create({**template(1000), "parameters": parameters}))
                stack.delete()


def groups(bench: Bench) -> None:
    """A group of 1000 random strings, next to a flat stack; then one more member."""
    with bench.heatlite() as server:
        client = Client(server.port)
        Stack(client, bench.new_name()).create(group(1))
        for turn in range(bench.repeat):
            bench.say(f"groups, {turn + 1} of {bench.repeat}")
            flat, grouped = (Stack(client, bench.new_name()) for _ in range(2))
            bench.add("flat.1000", flat.create(template(1000, "OS::Heat::RandomString")))
            bench.add("group.1000", grouped.create(group(1000)))
            bench.add("group_grows.1000", grouped.update(group(1001)))
            for stack in (flat, grouped):
                stack.delete()


def trees(bench: Bench) -> None:
    """Trees of 100 and 500 nested stacks of 10, next to flat stacks of the same size."""
    for turn in range((bench.repeat + 1) // 2):
        bench.say(f"trees, {turn + 1}")
        with bench.heatlite() as server:
            client = Client(server.port)
            Stack(client, bench.new_name()).create(*tree(1, 10))
            for stacks in (100, 500):
                flat, nested = (Stack(client, bench.new_name()) for _ in range(2))
                bench.add(f"flat_beside_tree.{stacks * 10}", flat.create(template(stacks * 10)))
                bench.add(f"tree.{stacks * 10}", nested.create(*tree(stacks, 10)))
                flat.delete()
                bench.add(f"tree_delete.{stacks * 10}", nested.delete())
            bench.add("tree_peak_mb", server.peak())


def counts(bench: Bench) -> None:
    """SQL statements, writes and commits: counted."""
    bench.say("counting statements")
    numbers = ["10", "100", "1000", "10000"]
    command = [sys.executable, "-m", "benchmarks.counts", str(bench.new_folder()), *numbers]
    found = json.loads(run(command, bench.folder))
    bench.counts = found["counts"]
    bench.steps_per_tick = found["steps_per_tick"]


def events(bench: Bench) -> None:
    """10 000 events by pages; then 50 clients with streams, and requests beside them."""
    with bench.heatlite() as server:
        client = Client(server.port)
        told = Stack(client, bench.new_name())
        told.create(template(5000))
        for turn in range(bench.repeat):
            bench.say(f"pages of events, {turn + 1} of {bench.repeat}")
            for limit in (100, 1000):
                _pages(bench, client, f"{told.path}/events?limit={limit}", f"event_page.{limit}")
        stack = Stack(client, bench.new_name())
        stack.create(template(10))
        with ExitStack() as connections:
            streams = [_Stream(server.port, stack.path) for _ in range(CLIENTS)]
            for stream in streams:
                connections.callback(stream.close)
                stream.until("CREATE_COMPLETE")
            for turn in range(bench.repeat):
                bench.say(f"{CLIENTS} streams, {turn + 1} of {bench.repeat}")
                began = time.perf_counter()
                stack.update(template(10, changed=turn % 2 + 1))
                for stream in streams:
                    stream.until("UPDATE_COMPLETE")
                bench.add("streams_told.10", time.perf_counter() - began)
                answers = load(server.port, [encode("GET", stack.path)], bench.seconds, clients=CLIENTS)
                for figure, value in rates(answers, 200).items():
                    bench.add(f"show_beside_streams.{figure}", value)


def _pages(bench: Bench, client: Client, path: str, name: str) -> None:
    marker = ""
    while True:
        began = time.perf_counter()
        page = client.json("GET", path + marker)["events"]
        if not page:
            return
        bench.add(name, time.perf_counter() - began)
        marker = f"&marker={page[-1]['id']}"


class _Stream:
    """One client that follows a stack whose name ends the events of its operations."""

    def __init__(self, port: int, path: str) -> None:
        self._connection = HTTPConnection("127.0.0.1", port, timeout=60)
        self._connection.request("GET", f"{path}/events?stream=true")
        self._answer = self._connection.getresponse()
        self._name = path.split("/")[-2]

    def until(self, state: str) -> None:
        """Read up to the stack's event of this state."""
        while line := self._answer.readline():
            if line.startswith(b"data: "):
                event = json.loads(line[6:])
                if (event["resource_name"], event["resource_status"]) == (self._name, state):
                    return
        raise RuntimeError("the stream has ended")

    def close(self) -> None:
        """Go."""
        self._answer.close()
        self._connection.close()


CASES: dict[str, Callable[[Bench], None]] = {
    "counts": counts,
    "lifecycle": lifecycle,
    "large": large,
    "chains": chains,
    "kinds": kinds,
    "secrets": secrets,
    "groups": groups,
    "trees": trees,
    "events": events,
}
