"""Compare counts with the recorded ones: ``python -m benchmarks counted``.

heatlite runs in this process (SQLite, one engine). The counts of `benchmarks.tracer` hardly depend on the machine or
its load. A figure above the recorded one fails the run; `--update` records all figures of this run.
"""

import argparse
import gc
import json
import sys
import tempfile
from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from benchmarks import floor
from benchmarks.clouds import servers_with_ports
from benchmarks.counts import LocalClient
from benchmarks.lifecycle import PROJECT, Stack, Template, group, template, tree
from benchmarks.tracer import Tracer
from heatlite.cli.transport import WSGITransport
from heatlite.core.clock import Clock
from heatlite.core.config import load
from heatlite.feature import installed
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.wiring import embedded

EXPECTED = Path(__file__).with_name("expected_counts.json")
HEADINGS = ("statements", "writes", "commits", "steps", "calls", "processor_ms")
ALLOWED = {"statements": 1.0, "writes": 1.0, "commits": 1.0, "steps": 1.01, "calls": 1.03}
"""Figures that may not exceed this multiple of the recorded ones. Calls vary with the turns of threads."""
ALLOWED_WITH_THREADS = {"statements": 1.5}
"""The same for operations in several threads.

The number of results that one commit takes depends on the moment, and with it all other figures.
"""
MEMORY = "/dev/shm" if Path("/dev/shm").is_dir() else None
"""A folder in memory if possible, so that no thread waits long for another one's commit."""
RESOURCES = 200
LISTED = 50
SMALL, LARGE, LARGEST = 10, 1000, 10_000
"""Sizes of stacks of which single resources and pages are read."""

Counts = dict[str, dict[str, int]]


class Run:
    """Counts cases, each once after a smaller one has loaded what it needs."""

    def __init__(self, client: LocalClient, tracer: Tracer) -> None:
        self.client = client
        self.counts: Counts = {}
        self._tracer = tracer

    def count(self, case: str, work: Callable[[], object]) -> None:
        """Do some work and record its counts."""
        gc.collect()
        self._tracer.take()
        work()
        self.counts[case] = self._tracer.take()

    def life(self, kind: str, count: int, made: Callable[[int], tuple[Template, dict[str, str]]]) -> None:
        """Count creation, update without change, and deletion of `count` resources."""
        name = kind.replace(" ", "-")
        warm = Stack(self.client, f"{name}-first")
        warm.create(*made(1))
        warm.delete()
        stack = Stack(self.client, name)
        wanted, files = made(count)
        self.count(f"create {count} {kind}", partial(stack.create, wanted, files))
        self.count(f"no-op {count} {kind}", partial(stack.update, wanted, files))
        self.count(f"delete {count} {kind}", stack.delete)

    def requests(self) -> None:
        """Count single requests, each sent once before."""
        stacks = {size: Stack(self.client, f"of-{size}") for size in (SMALL, LARGE, LARGEST)}
        for size, stack in stacks.items():
            stack.create(template(size))
        for number in range(LISTED):
            Stack(self.client, f"listed-{number}").create(template(1))
        for size, stack in stacks.items():
            self._request(f"one resource of {size}", "GET", f"{stack.path}/resources/r1")
            self._request(f"mark, of {size}", "PATCH", f"{stack.path}/resources/r1", {"mark_unhealthy": True})
            self._request(f"filter of events without a match, of {size}", "GET", f"{stack.path}/events?resource_name=x")
        self._request(f"show {SMALL}", "GET", stacks[SMALL].path)
        self._request(f"resources, all {LARGE}", "GET", f"{stacks[LARGE].path}/resources")
        for size in (LARGE, LARGEST):
            listed = f"{stacks[size].path}/resources"
            self._request(f"resources, page of 100 of {size}", "GET", f"{listed}?limit=100&marker=r5")
            self._request(f"resources, one name of {size}", "GET", f"{listed}?name=r5")
        self._request(f"events, page of 100 of {LARGE}", "GET", f"{stacks[LARGE].path}/events?limit=100")
        self._request(f"list of {LISTED} stacks", "GET", f"{PROJECT}/stacks?limit={LISTED}")
        stacks[SMALL].lock()
        self._request("409 of a locked stack", "POST", f"{stacks[SMALL].path}/actions", {"check": None}, 409)

    def _request(self, case: str, method: str, path: str, body: object = None, expect: int = 200) -> None:
        self.client.counts_reads = True
        self.client.json(method, path, body, expect)
        self.count(case, partial(self.client.json, method, path, body, expect))
        self.client.counts_reads = False


def of_type(kind: str) -> Callable[[int], tuple[Template, dict[str, str]]]:
    """Return a template of so many resources of a type."""
    return lambda count: (template(count, kind), {})


KINDS = {
    "Value": (RESOURCES, of_type("OS::Heat::Value")),
    "RandomString": (RESOURCES, of_type("OS::Heat::RandomString")),
    "member of a group": (RESOURCES, lambda count: (group(count), {})),
    "nested stack of ten": (10, lambda count: tree(count, 10)),
    "TestResource": (RESOURCES, of_type("OS::Heat::TestResource")),
    "SoftwareConfig": (RESOURCES, of_type("OS::Heat::SoftwareConfig")),
    "server with port": (20, lambda count: (servers_with_ports(count), {})),
}
THREADED = ("group", "nested stack", "TestResource", "SoftwareConfig", "server")
"""Parts of the names of such cases."""


class StoppedClock(Clock):
    """Time that stands still, so that no request comes a minute after the one before."""

    def now(self) -> float:
        """Return the same time always."""
        return 1_800_000_000.0


def measure(folder: Path) -> Counts:
    """Return the counts of all cases by name."""
    tracer = Tracer(calls=True)
    tracer.install()
    tracer.take()
    floor.seconds(RESOURCES, folder)
    tracer.take()
    floor.seconds(RESOURCES, folder)
    counts = {f"R, the floor of {RESOURCES}": tracer.take()}
    (folder / "cloud.yaml").write_text("{latency: 0, build: 0}")
    settings = {"database": f"sqlite:///{folder / 'heat.db'}", "cloud": "simulated"}
    scripted = (SimulatorSettings(simulation=str(folder / "cloud.yaml")),)
    heatlite = embedded(replace(load(installed, settings), of_features=scripted), clock=StoppedClock())
    with WSGITransport(heatlite.app, heatlite.close) as transport:
        run = Run(LocalClient(transport, tracer), tracer)
        for kind, (count, made) in KINDS.items():
            run.life(kind, count, made)
        run.requests()
    return counts | run.counts


def exceeding(counts: Counts, expected: Mapping[str, Mapping[str, int]]) -> list[str]:
    """Return lines about figures above their recorded ones and unknown cases."""
    lines = [f"{case}: recorded, not measured" for case in expected if case not in counts]
    for case, found in counts.items():
        if case not in expected:
            lines.append(f"{case}: measured, not recorded")
            continue
        allowed = ALLOWED_WITH_THREADS if any(kind in case for kind in THREADED) else ALLOWED
        for figure, factor in allowed.items():
            if found[figure] > expected[case][figure] * factor:
                lines.append(f"{case}: {found[figure]} {figure}, recorded are {expected[case][figure]}")
    return lines


def main(arguments: list[str]) -> int:
    """Print the figures. Returns 1 if one of them exceeds the recorded one."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks counted", description=__doc__)
    parser.add_argument("--update", action="store_true", help=f"record the figures in {EXPECTED.name}")
    given = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="heatlite-counted-", dir=MEMORY) as folder:
        counts = measure(Path(folder))
    print(f"| case | {' | '.join(HEADINGS)} |\n|{'---|' * (len(HEADINGS) + 1)}")
    for case, found in counts.items():
        print(f"| {case} | {' | '.join(str(found[figure]) for figure in HEADINGS)} |")
    if given.update:
        figures = {case: {name: found[name] for name in ALLOWED} for case, found in counts.items()}
        lines = (f" {json.dumps(case)}: {json.dumps(found)}" for case, found in figures.items())
        EXPECTED.write_text("{\n" + ",\n".join(lines) + "\n}\n")
        return 0
    found_above = exceeding(counts, json.loads(EXPECTED.read_text()))
    print("\n".join(["", *found_above]))
    if found_above:
        print("Cut the work, or record it with a reason in the commit: python -m benchmarks counted --update")
    return 1 if found_above else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
