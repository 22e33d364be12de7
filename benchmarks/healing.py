"""Reports and looks of the healing loop, in one process on SQLite.

Processor time stands beside the elapsed time: it hardly depends on what else the machine does.
"""

import json
import time
from collections.abc import Callable, Sequence
from functools import partial

from falcon.testing import TestClient

from benchmarks.cases import Bench
from benchmarks.lifecycle import template
from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.core.json import Json
from heatlite.features.healing.parts import Healing
from heatlite.features.healing.store.records import IncidentRecord
from heatlite.features.healing.store.store import HealingStore
from heatlite.features.healing.terms import IncidentState
from heatlite.store.database.database import Database
from heatlite.store.database.statements import Parameters, Row
from heatlite.store.records import StackRecord
from heatlite.store.store import Store

OPEN = 10_000
"""Open incidents of other stacks."""
MEMBERS = 1000
"""Resources of the stack that is reported."""
SINGLE = 100
"""Requests of one report each."""
P = "/v1/demo"


def healing(bench: Bench) -> None:
    """Measure reports, looks, and idle sweeps."""
    server = wiring.embedded(Settings(database=f"sqlite:///{bench.new_folder() / 'heatlite.db'}"))
    try:
        _measure(bench, server, TestClient(server.app))
    finally:
        server.close()


def _measure(bench: Bench, server: wiring.Embedded, client: TestClient) -> None:
    stack = _created(client, "s", MEMBERS)
    _fill(server.store)
    reports = [_report(f"r{number}") for number in range(MEMBERS)]
    _add(bench, "1000 new reports in one request", [timed(lambda: _send(client, reports))])
    _add(bench, "1000 repeated reports in one request", [timed(lambda: _send(client, reports)) for _ in range(5)])
    _add(bench, "one report, repeated", [timed(lambda: _send(client, reports[:1])) for _ in range(SINGLE)])

    root = server.store.stacks.get(stack)
    assert root is not None
    loop, now = server.components.of(Healing).loop, time.time()

    def look(root: StackRecord) -> None:
        with server.store.transaction():
            loop.scene(root, now)

    _add(bench, "look at a tree of 1000 resources with 1000 incidents", [timed(partial(look, root)) for _ in range(5)])
    small = _created(client, "t", MEMBERS)
    _send(client, [_report("r1", "t")])
    root = server.store.stacks.get(small)
    assert root is not None
    _add(bench, "look at a tree of 1000 resources with one incident", [timed(partial(look, root)) for _ in range(5)])
    shown = f"/stacks/t/{small}/healing"
    _add(bench, "GET …/healing of it", [timed(lambda: _call(client, "GET", shown)) for _ in range(5)])
    _tell_idle(bench, server)
    _tell_mark(bench, client)


def _tell_idle(bench: Bench, server: wiring.Embedded) -> None:
    """Count the statements of a sweep that finds nothing to do."""
    with server.store.transaction():
        server.store.database.write("UPDATE incident SET due = due + 1e9 WHERE due IS NOT NULL", ())
    server.components.of(Healing).loop.sweep()
    read, statements = Database.read, list[str]()

    def counted(database: Database, sql: str, parameters: Parameters = ()) -> Sequence[Row]:
        statements.append(sql)
        return read(database, sql, parameters)

    Database.read = counted  # type: ignore[method-assign,assignment]
    try:
        _add(bench, "idle sweep", [timed(server.components.of(Healing).loop.sweep) for _ in range(20)])
    finally:
        Database.read = read  # type: ignore[method-assign]
    bench.add("healing_idle_statements", len(statements) / 20)


def _tell_mark(bench: Bench, client: TestClient) -> None:
    """Measure from a report to its mark, without hold and grace."""
    stack = _created(client, "u", 1)
    policy = {"healing_policy": "2026-11-22", "grace": 0, "confirm": {"hold": 0}}
    _call(client, "PUT", f"/stacks/u/{stack}/healing", policy)
    _call(client, "PUT", "/health/other/config", {"format": "generic"})  # the other source has a storm by now
    begin = time.monotonic()
    _send(client, [_report("r0", "u")], "other")
    while _state(client, "u", stack) != "CHECK_FAILED" and time.monotonic() < begin + 30:
        time.sleep(0.01)
    bench.add("healing_mark", time.monotonic() - begin)


def timed(call: Callable[[], object]) -> tuple[float, float]:
    """Return processor time and elapsed time of a call, in seconds."""
    begin, cpu = time.perf_counter(), time.thread_time()
    call()
    return time.thread_time() - cpu, time.perf_counter() - begin


def _add(bench: Bench, name: str, samples: list[tuple[float, float]]) -> None:
    """Keep samples in milliseconds."""
    for cpu, elapsed in samples:
        bench.add(f"healing_cpu.{name}", cpu * 1000)
        bench.add(f"healing_elapsed.{name}", elapsed * 1000)


def _created(client: TestClient, name: str, count: int) -> str:
    answer = _call(client, "POST", "/stacks", {"stack_name": name, "template": template(count)})
    stack = str(answer["stack"]["id"])
    while str(_call(client, "GET", f"/stacks/{name}/{stack}")["stack"]["stack_status"]) != "CREATE_COMPLETE":
        time.sleep(0.05)
    return stack


def _state(client: TestClient, name: str, stack: str) -> str:
    return str(_call(client, "GET", f"/stacks/{name}/{stack}/resources/r0")["resource"]["resource_status"])


def _fill(store: Store) -> None:
    """Add open incidents of other stacks, which are not due."""
    now = time.time()
    later = now + 1e9
    with store.transaction():
        store.of(HealingStore).incidents.insert_many([
            IncidentRecord(
                f"i{number}", "demo", "grafana", f"root{number // 100}", "s", f"web/{number}", f"web/{number}", "web",
                f"row{number}", f"object {number}", IncidentState.OBSERVED, now, now, evidence_since=now, due=later,
            )
            for number in range(OPEN - MEMBERS - 10)
        ])  # fmt: skip


def _report(resource: str, stack: str = "s") -> dict[str, Json]:
    return {"key": f"{stack} {resource}", "status": "unhealthy", "stack": stack, "resource": resource}


def _send(client: TestClient, reports: list[dict[str, Json]], source: str = "generic") -> None:
    counts = _call(client, "POST", f"/health/{source}", {"reports": reports})["counts"]
    assert set(counts) <= {"accepted", "repeated"}, counts


def _call(client: TestClient, method: str, path: str, body: object = None) -> dict[str, dict[str, Json]]:
    headers = {"Content-Type": "application/json", "Host": "127.0.0.1"}
    answer = client.simulate_request(
        method, f"{P}{path}", body=None if body is None else json.dumps(body), headers=headers
    )
    assert answer.status_code < 300, answer.text
    found: dict[str, dict[str, Json]] = answer.json
    return found
