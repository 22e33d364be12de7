"""Updates without a policy, with and without the features that control changes.

``python -m benchmarks.control on`` (or ``off``) prints what one of them counts, which no load changes.
"""

import gc
import sys
import tempfile
import time
from collections import Counter
from functools import partial

from benchmarks.cases import Bench
from benchmarks.tracer import Tracer
from heatlite import feature, wiring
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.json import JsonMap
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.store.records import StackRecord

FEATURES = frozenset({"approvals", "change_policy", "guards", "parameter_sources", "revisions", "rules"})
"""Those that take part in each update."""
SIZES = {1: 200, 100: 60, 1000: 12}
"""Updates of stacks of so many resources."""


def control(bench: Bench) -> None:
    """Measure whole updates without a policy, in milliseconds of a processor.

    Both servers take turns, so that the load of the machine cancels out.
    """
    sides = {name: _server(name, f"{bench.new_folder()}") for name in ("on", "off")}
    for size, rounds in SIZES.items():
        stacks = {name: _made(server, size) for name, server in sides.items()}
        for number in range(rounds):
            for name in sorted(sides, reverse=bool(number % 2)):
                gc.collect()
                took = _updated(sides[name], stacks[name], size, number)
                if number > 1:
                    bench.add(f"update_{name}.{size}", took * 1000)
    for server in sides.values():
        server.close()


def _server(side: str, folder: str) -> wiring.Embedded:
    names = frozenset(one.name for one in feature.installed())
    features = tuple(sorted(names if side == "on" else names - FEATURES))
    return wiring.embedded(Settings(database=f"sqlite:///{folder}/heat.db", features=features))


def _made(server: wiring.Embedded, size: int) -> StackRecord:
    stack = server.components.stacks.create(Context("p"), StackRequest(name=f"s{size}", template=_template(size, 0)))
    return _at_rest(server, stack)


def _updated(server: wiring.Embedded, stack: StackRecord, size: int, number: int) -> float:
    """Return the processor seconds of an update, from the request to its end."""
    request, now = StackRequest(template=_template(size, number + 1)), server.store.stacks.get(stack.id)
    assert now is not None
    update = partial(server.components.stacks.update, Context("p"), now, request, existing=False)
    began = time.process_time()
    update()
    _at_rest(server, stack)
    return time.process_time() - began


def _at_rest(server: wiring.Embedded, stack: StackRecord) -> StackRecord:
    while True:
        found = server.store.stacks.get(stack.id)
        assert found is not None
        if found.status is not Status.IN_PROGRESS:
            return found
        time.sleep(0.01)


def _template(size: int, number: int) -> JsonMap:
    """Return a template of which each number changes one resource."""
    resources: JsonMap = {f"r{one}": {"type": "OS::Heat::Value", "properties": {"value": one}} for one in range(size)}
    resources["r0"] = {"type": "OS::Heat::Value", "properties": {"value": f"v{number}"}}
    return {"heat_template_version": "2021-04-16", "resources": resources}


def main(side: str) -> None:
    """Print the counts of an update of one resource.

    They are the mean of 20, after as many that the oldest revisions go.
    """
    tracer, counts = Tracer(calls=True), Counter[str]()
    tracer.install()
    with tempfile.TemporaryDirectory() as folder:
        server = _server(side, folder)
        stack = _made(server, 1)
        for number in range(45):
            request, now = StackRequest(template=_template(1, number + 1)), server.store.stacks.get(stack.id)
            assert now is not None
            tracer.take()
            server.components.stacks.update(Context("p"), now, request, existing=False)
            with tracer.uncounted():
                _at_rest(server, stack)
            counts.update(tracer.take() if number >= 25 else {})
        server.close()
    print(side, {name: count / 20 for name, count in counts.items() if name != "processor_ms"})


if __name__ == "__main__":
    main(sys.argv[1])
