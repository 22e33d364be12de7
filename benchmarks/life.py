"""Drift in checks and in lists, and imports of many servers."""

import time
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import closing, contextmanager
from typing import Any

from msgspec import convert

from benchmarks.cases import Bench
from heatlite import feature, wiring
from heatlite.administration import open_store
from heatlite.core.clock import DAY
from heatlite.core.config import Settings
from heatlite.core.context import Context
from heatlite.core.json import Json, JsonMap
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from heatlite.features.drift.states import DriftState
from heatlite.features.drift.store.store import DriftQuery, DriftStore
from heatlite.features.ownership.bodies import ImportRequest
from heatlite.features.ownership.importing import Imports
from heatlite.features.simulator.simulation import Simulation
from heatlite.store.records import StackRecord
from heatlite.wiring import Embedded

CHECKED = 1000
LISTED = 100_000
DRIFTED = 100
IMPORTED = 500
LOOKS = 50
CALLER = Context("p")
NET, REF, CIDR = "OS::Neutron::Net", {"get_resource": "n"}, "10.0.0.0/16"


def drift(bench: Bench) -> None:
    """Measure checks with and without the feature, and lists of many resources."""
    others = tuple(one.name for one in feature.installed() if one.name != "drift")
    with closing(_server(bench)) as server, closing(_server(bench, features=others)) as plain:
        sides = {"drift_check": server, "drift_off_check": plain}
        stacks = {name: _stack(one) for name, one in sides.items()}
        for turn in range(2 * bench.repeat + 1):
            for name, one in [*sides.items()][:: -1 if turn % 2 else 1]:
                began = time.process_time()
                one.components.stacks.check(CALLER, stacks[name])
                _settle(one, stacks[name])
                if turn:  # the first one makes the rows
                    bench.add(name, time.process_time() - began)
    _lists(bench)


def _lists(bench: Bench) -> None:
    """Measure a page of what is drifted in a large project, with its numbers."""
    store, now = open_store(Settings(database=f"sqlite:///{bench.new_folder()}/heat.db")), time.time()
    stack = StackRecord("s", "s", "p", "mia", "t", {}, "CREATE", "COMPLETE", "", now)  # type: ignore[arg-type]
    numbers = "WITH RECURSIVE n(x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM n WHERE x < ?)"
    with store.transaction():
        store.stacks.insert(stack)
        database = store.database
        database.write(
            "INSERT INTO resource (id, stack_id, name, type, mapped_type, verb, status, status_reason, created_at,"
            " physical_name, physical_id, properties, metadata, data, requires, uses, deletion_policy, description)"
            f" {numbers} SELECT 'r' || x, 's', 'n' || x, '{NET}', '{NET}', 'CREATE', 'COMPLETE', '', ?, 'n' || x,"
            " 'i' || x, '{}', '{}', '{}', '[]', '[]', 'Delete', '' FROM n",
            (LISTED, now),
        )
        database.write(
            "INSERT INTO drift (resource_id, project, root_id, stack_id, state, checked_at, truncated, number, ignored)"
            f" {numbers} SELECT 'r' || x, 'p', 's', 's', CASE WHEN x % ? = 0 THEN 'drifted' ELSE 'in_sync' END, ?, 0,"
            " CASE WHEN x % ? = 0 THEN 1 ELSE 0 END, 0 FROM n",
            (LISTED, LISTED // DRIFTED, now - DAY, LISTED // DRIFTED),
        )
    drifts, query = store.of(DriftStore), DriftQuery((DriftState.DRIFTED,), limit=DRIFTED + 1)
    for _ in range(LOOKS):
        began = time.process_time()
        found = drifts.page("p", query)
        drifts.counts("p")
        drifts.paths(found)
        bench.add("drift_list", (time.process_time() - began) * 1000)
    assert len(found) == DRIFTED
    store.close()


def imports(bench: Bench) -> None:
    """Measure an import of servers with written definitions, and its plan."""
    for _ in range(bench.repeat):
        with closing(_server(bench)) as server:
            core, image = server.components, {"flavor": "m1.nano", "image": "cirros"}
            subnet: JsonMap = {"type": "OS::Neutron::Subnet", "properties": {"network": REF, "cidr": CIDR}}
            properties: JsonMap = {**image, "networks": [{"network": REF}]}
            each: JsonMap = {"type": "OS::Nova::Server", "properties": properties, "depends_on": "s"}
            servers = {f"s{number}": each for number in range(IMPORTED)}
            made = _stack(server, {"n": {"type": NET}, "s": subnet, **servers})
            rows = [row for row in server.store.resources.of(made.id) if row.type == "OS::Nova::Server"]
            core.exports.abandon(CALLER, made)
            while server.store.resources.of(made.id):
                time.sleep(0.005)
            body: JsonMap = {"resources": {row.name: {"type": row.type, "id": row.physical_id} for row in rows}}
            stack, operations = _stack(server, {}), core.of(Imports)
            with _counted() as calls:
                began = time.perf_counter()
                digest = operations.plan(CALLER, stack, convert(body, ImportRequest)).digest
                bench.add("import_plan", time.perf_counter() - began)
            bench.say(f"reads of the plan: {dict(calls)}")
            bench.add("import_reads", calls.total() // IMPORTED)  # beside those of all
            began = time.perf_counter()
            asked = convert({**body, "plan_digest": digest}, ImportRequest)
            operations.start(CALLER, stack, asked, {"import": body})
            bench.add("import", time.perf_counter() - began)


@contextmanager
def _counted() -> Iterator[Counter[str]]:
    """Count the calls of the simulated cloud."""
    calls, real = Counter[str](), Simulation.call

    def counted(simulation: Simulation, view: Any, verb: str, *more: Any) -> Any:
        calls[verb] += 1
        return real(simulation, view, verb, *more)

    Simulation.call = counted  # type: ignore[method-assign,assignment]
    try:
        yield calls
    finally:
        Simulation.call = real  # type: ignore[method-assign]


def _server(bench: Bench, **options: Any) -> Embedded:
    folder = bench.new_folder()
    return wiring.embedded(Settings(database=f"sqlite:///{folder}/heat.db", cloud="simulated", **options))


def _stack(server: Embedded, resources: Mapping[str, Json] | None = None) -> StackRecord:
    if resources is None:
        resources = {f"n{number}": {"type": NET, "properties": {"name": f"n{number}"}} for number in range(CHECKED)}
    template: JsonMap = {"heat_template_version": "2021-04-16", "resources": resources}
    stack = server.components.stacks.create(CALLER, StackRequest(name="s", template=template))
    return _settle(server, stack)


def _settle(server: Embedded, stack: StackRecord) -> StackRecord:
    """Return a stack after its operation."""
    while True:
        now = server.store.stacks.get(stack.id)
        assert now is not None
        if now.status is not Status.IN_PROGRESS:
            assert now.status is Status.COMPLETE
            return now
        time.sleep(0.005)
