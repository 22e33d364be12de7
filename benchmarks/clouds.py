"""Servers on the simulated cloud against the bound of dependencies and threads."""

import math
import threading
import time
from typing import Any

import yaml

from benchmarks.cases import Bench
from benchmarks.lifecycle import Template, template
from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.features.simulator.simulation import Simulation

LATENCY = 0.05
SERVERS = 100
MANY = 1000
BUILD = 5.0
"""Seconds that each of many servers takes to build."""


def servers_with_ports(count: int) -> dict[str, Any]:
    """Return a template of `count` servers with a port each."""
    net, image = {"get_resource": "net"}, {"flavor": "m1.nano", "image": "cirros"}
    resources: dict[str, Any] = {
        "net": {"type": "OS::Neutron::Net"},
        "subnet": {"type": "OS::Neutron::Subnet", "properties": {"network": net, "cidr": "10.0.0.0/16"}},
    }
    for number in range(count):
        port = {"get_resource": f"port{number}"}
        resources[f"port{number}"] = {"type": "OS::Neutron::Port", "properties": {"network": net}}
        resources[f"server{number}"] = {
            "type": "OS::Nova::Server",
            "properties": {**image, "networks": [{"port": port}]},
        }
    return {"heat_template_version": "2021-04-16", "resources": resources}


def clouds(bench: Bench) -> None:
    """100 servers with ports at 50 ms per call; then 1000 that build five seconds."""
    for _ in range(bench.repeat):
        seconds, calls, threads = _create(bench, SERVERS, build=0.0)
        floor = _floor(calls, SERVERS)
        bench.add("servers_seconds", seconds)
        bench.add("servers_floor_seconds", floor)
        bench.add("servers_ratio", seconds / floor)
        bench.add(f"servers_at_once.{SERVERS}", _create(bench, SERVERS, build=0.0, latency=0.0)[0])
        values = template(2 * SERVERS)
        bench.add(f"values_beside_servers.{SERVERS}", _create(bench, SERVERS, 0.0, 0.0, values)[0])
    seconds, calls, threads = _create(bench, MANY, build=BUILD)
    bench.add("many_servers_seconds", seconds)
    bench.add("many_servers_floor_seconds", _floor(calls, MANY) + BUILD)
    bench.add("many_servers_ratio", seconds / (_floor(calls, MANY) + BUILD))
    bench.say(f"threads at the most: {threads}")


def _floor(calls: int, servers: int) -> float:
    """Least seconds of the calls: before the first server one by one, then 16 at once."""
    each = calls // servers
    first = calls - each * servers
    return LATENCY * (first + math.ceil(each * servers / Settings("").handler_threads))


def _create(
    bench: Bench, count: int, build: float, latency: float = LATENCY, wanted: Template | None = None
) -> tuple[float, int, int]:
    """Seconds to CREATE_COMPLETE, the number of calls, and the most threads.

    `wanted`: a template in place of that with `count` servers.
    """
    bench.say(f"{count} servers on the simulated cloud")
    folder = bench.new_folder()
    (folder / "cloud.yaml").write_text(yaml.safe_dump({"latency": latency, "build": build}))
    scripted = (SimulatorSettings(simulation=str(folder / "cloud.yaml")),)
    settings = Settings(f"sqlite:///{folder / 'heat.db'}", cloud="simulated", of_features=scripted)
    calls = []
    real = Simulation.call

    def counted(simulation: Simulation, view: Any, verb: str, *more: Any) -> Any:
        calls.append(verb)
        return real(simulation, view, verb, *more)

    Simulation.call = counted  # type: ignore[method-assign,assignment]
    server = wiring.embedded(settings)
    try:
        began = time.perf_counter()
        stack = server.stacks.create(
            Context("demo"), StackRequest(name="s", template=wanted or servers_with_ports(count))
        )
        threads = 0
        while True:
            found = server.store.stacks.get(stack.id)
            threads = max(threads, threading.active_count())
            if found is None or found.status is not Status.IN_PROGRESS:
                break
            time.sleep(0.005)
        seconds = time.perf_counter() - began
        if found is None or found.status is not Status.COMPLETE:
            raise RuntimeError(f"the stack is not complete: {found}")
    finally:
        server.close()
        Simulation.call = real  # type: ignore[method-assign]
    # What polls for a server that is not ready yet is no work that must be done.
    return seconds, len(calls) - max(0, calls.count("compute.get_server") - count), threads
