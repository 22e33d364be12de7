"""Costs of a cell, measured, and cells of other sizes, simulated from these costs.

``python -m benchmarks.cells`` measures one installation (PostgreSQL, RabbitMQ, two workers) and prints the tables of
`docs/scale.md`. ``--costs API WORKER DATABASE BYTES`` simulates from given costs instead of measuring.
"""

import argparse
import heapq
import os
import random
import statistics
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from benchmarks.actions import Installation, installation
from benchmarks.cases import Bench
from benchmarks.client import Client
from benchmarks.lifecycle import PROJECT, Template, template
from heatlite.store.database.database import Database

STACKS = 300
EACH = 10
WARM_UP = 20
"""Stacks before the measurement: connections are opened and types imported meanwhile."""
SIMULATED = 150_000
"""Stacks in one simulation."""
DAY = 86_400


@dataclass(frozen=True, slots=True)
class Costs:
    """Cost of one create of a stack of ten: processor seconds, and bytes kept."""

    api: float
    worker: float
    database: float
    kept: float

    @property
    def all(self) -> float:
        """Processor seconds of all processes."""
        return self.api + self.worker + self.database


@dataclass(frozen=True, slots=True)
class Cell:
    """Cores of one cell."""

    api: int
    worker: int
    database: int

    def ceiling(self, costs: Costs) -> float:
        """Return the creates a second at which the first kind of process has no rest."""
        return min(self.api / costs.api, self.worker / costs.worker, self.database / costs.database)


CELLS = (Cell(1, 1, 1), Cell(2, 4, 3), Cell(4, 8, 6), Cell(8, 16, 12))
"""Sizes in the proportion of the costs that were measured."""


def measure(bench: Bench, workers: int = 2) -> Costs:
    """Create stacks of ten TestResources in sequence, and return the costs of one."""
    made = template(EACH, "OS::Heat::TestResource")
    with installation(bench, "PostgreSQL", "RabbitMQ", workers) as running:
        _create(running.client, bench, made, WARM_UP)
        before = _used(running)
        _create(running.client, bench, made, STACKS)
        after = _used(running)
    return Costs(*((more - less) / STACKS for less, more in zip(before, after, strict=True)))


def _create(client: Client, bench: Bench, made: Template, count: int) -> None:
    for _ in range(count):
        client.json("POST", f"{PROJECT}/stacks", {"stack_name": bench.new_name(), "template": made}, 201)
    while client.json("GET", f"{PROJECT}/stacks?limit=1&status=IN_PROGRESS")["stacks"]:
        time.sleep(0.1)


def _used(running: Installation) -> tuple[float, float, float, float]:
    """Return processor seconds of API, workers and database, and its bytes."""
    workers = sum(each.processor_time() for each in running.workers)
    database = Database(running.database)
    ((name, size),) = database.read("SELECT current_database(), pg_database_size(current_database())")
    backends = [pid for (pid,) in database.read(f"SELECT pid FROM pg_stat_activity WHERE datname = '{name}'")]
    seconds = sum(_processor_time(pid) for pid in backends)
    database.close()
    return running.api.processor_time(), workers, seconds, size


def _processor_time(pid: int) -> float:
    """Return the processor seconds of one process that lives."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Station:
    """Servers that take work in the order of its arrival, each one piece at a time."""

    def __init__(self, servers: int, mean: float, chance: random.Random) -> None:
        self._free = [0.0] * servers
        self._mean = mean
        self._chance = chance

    def serve(self, arrived: float) -> float:
        """Return the time at which work is done. Arrivals come in order of time."""
        begun = max(arrived, heapq.heappop(self._free))
        done = begun + self._chance.expovariate(1 / self._mean)
        heapq.heappush(self._free, done)
        return done

    def stop(self, until: float) -> None:
        """Take nothing before `until`."""
        self._free = [max(until, each) for each in self._free]
        heapq.heapify(self._free)


@dataclass(frozen=True, slots=True)
class Load:
    """A simulated load. Times are in seconds."""

    median: float
    late: float
    """Time of the slowest of 100."""
    caught_up: float
    """Time from the end of an outage until a create takes no longer than before it. Zero without outage."""


def simulate(cell: Cell, costs: Costs, rate: float, outage: float = 0.0, seed: int = 1) -> Load:
    """Send `rate` creates a second through a cell.

    Its database is away for `outage` seconds after a fifth of them.

    Arrivals are random (Poisson), and so is the work of each process (exponential). Each stack passes API, database and
    worker in this order: the database's work is done at once, which is worse than the truth.
    """
    chance = random.Random(seed)
    arrivals, now = [], 0.0
    for _ in range(SIMULATED):
        now += chance.expovariate(rate)
        arrivals.append(now)
    begin = arrivals[SIMULATED // 5]
    stations = [
        Station(cell.api, costs.api, chance),
        Station(cell.database, costs.database, chance),
        Station(cell.worker, costs.worker, chance),
    ]
    times = arrivals
    for station in stations:
        arrived, order = times, sorted(range(SIMULATED), key=times.__getitem__)
        times = [0.0] * SIMULATED
        stopped = not (outage and station is stations[1])
        for number in order:
            if not stopped and arrived[number] >= begin:
                station.stop(begin + outage)
                stopped = True
            times[number] = station.serve(arrived[number])
    took = [done - arrived for arrived, done in zip(arrivals, times, strict=True)]
    hundredths = statistics.quantiles(took, n=100)
    if not outage:
        return Load(hundredths[49], hundredths[98], 0.0)
    usual, end = statistics.quantiles(took[: SIMULATED // 5], n=100)[98], begin + outage
    again = (at for at, seconds in zip(arrivals, took, strict=True) if at >= end and seconds <= usual)
    return Load(hundredths[49], hundredths[98], next(again, times[-1]) - end)


def _ceilings(costs: Costs) -> Iterator[str]:
    yield "| cores: API, worker, database | ceiling, creates/s | at | median | p99 | p99 in a day of 10⁶ changes |"
    yield "|---|---|---|---|---|---|"
    for cell in CELLS:
        ceiling = cell.ceiling(costs)
        busy, calm = simulate(cell, costs, 0.8 * ceiling), simulate(cell, costs, min(0.8 * ceiling, 1e6 / DAY))
        yield (
            f"| {cell.api}, {cell.worker}, {cell.database} | {ceiling:.0f} | 80 % | {busy.median * 1000:.0f} ms"
            f" | {busy.late * 1000:.0f} ms | {calm.late * 1000:.0f} ms |"
        )


def _outages(costs: Costs) -> Iterator[str]:
    yield "| load | database away for | caught up after |"
    yield "|---|---|---|"
    cell = CELLS[1]
    for share in (0.3, 0.6, 0.8):
        for outage in (10.0, 60.0):
            found = simulate(cell, costs, share * cell.ceiling(costs), outage)
            yield f"| {share:.0%} of the ceiling | {outage:.0f} s | {found.caught_up:.0f} s |"


def main() -> None:
    """Measure or take the costs, and print the tables."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.cells", description=__doc__)
    kinds = ("API", "WORKER", "DATABASE", "BYTES")
    parser.add_argument("--costs", nargs=4, type=float, metavar=kinds, help="of a stack of ten, ms and bytes")
    given = parser.parse_args()
    if given.costs is None:
        costs = measure(Bench(Path(tempfile.mkdtemp(prefix="heatlite-benchmarks-")), None, 1, 1.0))
    else:
        api, worker, database, kept = given.costs
        costs = Costs(api / 1000, worker / 1000, database / 1000, kept)
    times = (f"{one * 1000:.1f}" for one in (costs.api, costs.worker, costs.database))
    print(f"costs of a stack of ten: {', '.join(times)} ms of API, worker, database; {costs.kept:.0f} bytes")
    print(f"10⁶ such stacks: {costs.kept * 1e6 / 1e9:.0f} GB; created once: {costs.all * 1e6 / 3600:.1f} core-hours\n")
    print("\n".join((*_ceilings(costs), "", *_outages(costs))))


if __name__ == "__main__":
    main()
