"""Costs of quotas: of a large plan, and of an update without new objects."""

import gc
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from benchmarks.cases import Bench
from benchmarks.clouds import servers_with_ports
from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.features.quota.parts import Quotas
from heatlite.features.simulator.feature import SimulatorSettings
from heatlite.features.simulator.simulation import Simulation
from heatlite.store.records import StackRecord

PLANNED = 500
"""Servers of the plan, each with a port."""
UPDATED = 50
"""Servers of the stack that is updated, each with a port."""
PLANS, UPDATES = 40, 30


def quota(bench: Bench) -> None:
    """Measure plans and requests for updates, with quotas and without.

    In percent of a plan's processor time, milliseconds of a processor, and calls of the cloud.
    """
    folder = bench.new_folder()
    (folder / "cloud.yaml").write_text("{latency: 0, build: 0}")
    scripted = (SimulatorSettings(simulation=str(folder / "cloud.yaml")),)
    server = wiring.embedded(Settings(f"sqlite:///{folder / 'heat.db'}", cloud="simulated", of_features=scripted))
    limits = server.components.of(Quotas).limits
    callers = {"no_quota": Context("demo", options={"quota_check": "off"}), "quota": Context("demo")}
    try:
        plan = StackRequest(name="large", template=servers_with_ports(PLANNED))
        for turn in range(PLANS):
            took = dict[str, float]()
            for name in [*callers][:: 1 if turn % 2 else -1]:
                limits.forget()
                gc.collect()
                began = time.thread_time()
                server.stacks.preview_create(callers[name], plan, plan=True)
                took[name] = time.thread_time() - began
            # The speed of the machine changes more from turn to turn than quotas cost.
            bench.add("plan_added", (took["quota"] / took["no_quota"] - 1) * 100)
        stack = server.stacks.create(callers["no_quota"], StackRequest(name="s", template=servers_with_ports(UPDATED)))
        stack = _complete(server, stack)
        for turn in range(UPDATES):
            for name, caller in callers.items():
                limits.forget()
                gc.collect()
                changed = servers_with_ports(UPDATED)
                changed["resources"]["port0"]["properties"]["name"] = f"{name}{turn}"
                with _counted() as calls:
                    began = time.thread_time()
                    server.stacks.update(caller, stack, StackRequest(template=changed), existing=False)
                    bench.add(f"update_{name}", (time.thread_time() - began) * 1000)
                    bench.add(f"update_{name}_calls", len(calls))
                stack = _complete(server, stack)
    finally:
        server.close()


def _complete(server: wiring.Embedded, stack: StackRecord) -> StackRecord:
    while True:
        found = server.store.stacks.get(stack.id)
        assert found is not None
        if found.status is Status.COMPLETE:
            return found
        if found.status is Status.FAILED:
            raise RuntimeError(found.status_reason)
        time.sleep(0.01)


@contextmanager
def _counted() -> Iterator[list[str]]:
    """Count the calls of the cloud."""
    calls, real = list[str](), Simulation.call

    def counted(simulation: Simulation, view: Any, verb: str, *more: Any) -> Any:
        calls.append(verb)
        return real(simulation, view, verb, *more)

    Simulation.call = counted  # type: ignore[method-assign,assignment]
    try:
        yield calls
    finally:
        Simulation.call = real  # type: ignore[method-assign]
