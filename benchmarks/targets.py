"""Targets on SQLite with synchronous=FULL, and their check against a run."""

from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.cases import Bench


@dataclass(frozen=True, slots=True)
class Target:
    """A bound on one figure of a run.

    `measure` raises KeyError when the run has not measured what it takes.
    """

    text: str
    measure: Callable[[Bench], float]
    bound: float
    least: bool = False
    """The figure may not be smaller; else it may not be greater."""
    digits: int = 2
    unit: str = ""

    def reached(self, figure: float) -> bool:
        """True if the figure is within the bound."""
        return figure >= self.bound if self.least else figure <= self.bound


def _ratio(above: str, below: str) -> Callable[[Bench], float]:
    return lambda bench: bench.median(above) / bench.median(below)


def _growth(large: str, small: str) -> Callable[[Bench], float]:
    """Growth of the time per resource; the number follows the dot."""
    return lambda bench: _per_resource(bench, large) / _per_resource(bench, small)


def _per_resource(bench: Bench, case: str) -> float:
    return bench.median(case) / int(case.rpartition(".")[2])


def _counted(number: str, case: str, what: str) -> Callable[[Bench], float]:
    return lambda bench: float(bench.counts[number][case][what])


def _spread(bench: Bench) -> float:
    """By how much the writes of a no-op update differ between the sizes."""
    writes = [bench.counts[number]["no_op"]["writes"] for number in ("10", "100", "1000", "10000")]
    return float(max(writes) - min(writes))


def _commits_per_tick(bench: Bench) -> float:
    commits = bench.counts["1000"]["create"]["commits"]
    return commits / -(-1000 // bench.steps_per_tick)


def _slowest_page(database: str) -> Callable[[Bench], float]:
    """The kind of page of actions that takes longest, in ms."""

    def measure(bench: Bench) -> float:
        names = [name for name in bench.samples if name.startswith("actions_page_ms.") and name.endswith(database)]
        if not names:
            raise KeyError(database)
        return max(map(bench.median, names))

    return measure


def _busiest_rest(bench: Bench) -> float:
    """Processor time of fifty open pages of the kind that costs most, in percent."""
    names = [name for name in bench.samples if name.startswith("dashboard_rest_percent.")]
    if not names:
        raise KeyError("dashboard")
    return max(map(bench.median, names))


TARGETS = (
    Target("create 1000 / R", _ratio("create.1000", "floor.1000"), 3.5),
    Target("create 1000 / moto", _ratio("create.1000", "moto.1000"), 1.0),
    Target("create, time per resource: 1000 / 100", _growth("create.1000", "create.100"), 1.2),
    Target("create, time per resource: 10 000 / 1000", _growth("create.10000", "beside_10000.1000"), 1.3),
    Target("chain of 100 / 100 independent", _ratio("chain.100", "independent.100"), 2.0),
    Target("chain of 1000 / chain of 100", _ratio("chain.1000", "chain.100"), 12),
    Target("group of 1000 / 1000 flat resources", _ratio("group.1000", "flat.1000"), 3.0),
    Target("tree of 500 × 10 / 5000 flat resources", _ratio("tree.5000", "flat_beside_tree.5000"), 5.0),
    Target("tree, time per resource: 5000 / 1000", _growth("tree.5000", "tree.1000"), 1.3),
    Target("memory with these trees, peak", lambda bench: bench.median("tree_peak_mb"), 400, digits=0, unit="MB"),
    Target("create 1000 TestResource / 1000 Value", _ratio("TestResource.create.1000", "Value.create.1000"), 1.6),
    Target("create 1000 SoftwareConfig / 1000 Value", _ratio("SoftwareConfig.create.1000", "Value.create.1000"), 2.5),
    Target("tree of 100 × 10 / 1000 flat resources", _ratio("tree.1000", "flat_beside_tree.1000"), 3.0),
    Target("port and server at latency 0 / Value", _ratio("servers_at_once.100", "values_beside_servers.100"), 5.0),
    Target("one resource of 10 000", lambda bench: bench.median("one_resource.10000") * 1000, 3, digits=1, unit="ms"),
    Target("create 10 000 beside 50 clients / alone", _ratio("create_beside_show.10000", "create_alone.10000"), 1.3),
    *(
        Target(
            f"{title} beside a create of 10 000, p99",
            lambda bench, name=name: bench.median(f"{name}_beside_create.p99_ms"),  # type: ignore[misc]
            bound,
            unit="ms",
        )
        for title, name, bound in (("show", "show", 40), ("mark", "mark", 150), ("409", "locked", 60))
    ),
    Target(
        "GET show / bare Falcon, requests/s, with readers",
        _ratio("show_alone.requests_per_second", "hello_alone.requests_per_second"),
        0.6,
        least=True,
    ),
    Target(
        "10 000 waiting actions, processor", lambda bench: bench.median("waiting_processor_percent.10000"), 5, unit="%"
    ),
    Target("10 000 waiting actions, each", lambda bench: bench.median("waiting_kb_each.10000"), 40, unit="kB"),
    *(
        Target(
            f"stacks of one resource / tasks of bare Celery, {broker}",
            _ratio(f"action_rate.{broker}", f"task_rate.{broker}"),
            0.3,
            least=True,
        )
        for broker in ("RabbitMQ", "Redis")
    ),
    Target("no-op update of 1000 / R", _ratio("no_op.1000", "floor.1000"), 1.2),
    Target("no-op update of 1000 / its create", _ratio("no_op.1000", "create.1000"), 0.25),
    Target("no-op update: SQL writes, most − least over N", _spread, 0, digits=0),
    Target(
        "SQL statements per resource created, at 1000",
        lambda bench: _counted("1000", "create", "statements")(bench) / 1000,
        6,
    ),
    Target("commits per tick, create of 1000, all of them counted", _commits_per_tick, 3),
    Target(
        "GET show / bare Falcon, requests/s",
        _ratio("show.requests_per_second", "hello.requests_per_second"),
        0.45,
        least=True,
    ),
    Target("409 on a locked stack, p99", lambda bench: bench.median("locked.p99_ms"), 20, digits=1, unit="ms"),
    Target(
        "page of 100 of 10 000 events",
        lambda bench: bench.median("event_page.100") * 1000,
        20,
        digits=1,
        unit="ms",
    ),
    *(
        Target(
            f"page of 100 of 1 000 000 actions, the slowest kind, {database}",
            _slowest_page(database),
            20,
            digits=1,
            unit="ms",
        )
        for database in ("SQLite", "PostgreSQL", "MariaDB")
    ),
    Target("1000 nodes: an action for each is sent", lambda bench: bench.median("nodes_send"), 10, unit="s"),
    Target("1000 nodes, nothing new", lambda bench: bench.median("nodes_idle"), 3, unit="s"),
    *(
        Target(
            f"1000 nodes: commits per 100, {text}",
            lambda bench, name=name: bench.median(f"nodes_{name}_commits") / 10,  # type: ignore[misc]
            4,
            digits=1,
        )
        for name, text in (("send", "sending"), ("hear", "hearing"))
    ),
    *(
        Target(
            f"1000 {kind} reports in one request at 10 000 open incidents",
            lambda bench, kind=kind: bench.median(  # type: ignore[misc]
                f"healing_elapsed.1000 {kind} reports in one request"
            ),
            300,
            digits=0,
            unit="ms",
        )
        for kind in ("new", "repeated")
    ),
    Target(
        "other requests beside 100 reports/s / alone, p99",
        lambda bench: (
            bench.percentile("reports_others_beside_ms", 0.99) / bench.percentile("reports_others_alone_ms", 0.99)
        ),
        1.25,
    ),
    Target("from a report to its mark, without hold", lambda bench: bench.median("healing_mark"), 1, unit="s"),
    Target("queries of an idle sweep", lambda bench: bench.median("healing_idle_statements"), 1, digits=0),
    *(
        Target(
            f"dashboard: {page} opens, the slowest time",
            lambda bench, name=page: max(bench.samples[f"dashboard_open.{name}"]),  # type: ignore[misc]
            1000,
            digits=0,
            unit="ms",
        )
        for page in ("stack of 1000", "list of 10000 stacks")
    ),
    Target("dashboard: 50 open pages at rest", _busiest_rest, 5, unit="% of a core"),
    Target("memory, idle", lambda bench: bench.median("idle_mb"), 120, digits=0, unit="MB"),
    Target(
        "memory, more with a stack of 10 000",
        lambda bench: bench.median("mb_with_10000") - bench.median("idle_mb"),
        250,
        digits=0,
        unit="MB",
    ),
    Target("`heatlite up` of 10, from the shell", lambda bench: bench.median("up.10"), 1.0, unit="s"),
    Target("`heatlite up` of the first example, CPU", lambda bench: bench.median("up_cpu.hello"), 0.35, unit="s"),
    Target("the same with a new database, CPU", lambda bench: bench.median("up_cpu.first"), 0.35, unit="s"),
    Target("`heatlite ls` with a server, CPU", lambda bench: bench.median("ls_cpu"), 0.15, unit="s"),
    Target("load and validate 1000 / C parser of YAML", _ratio("validate.1000", "yaml.1000"), 1.5),
    Target("resolve 1000, processor time", lambda bench: bench.median("resolve.1000") * 1000, 50, digits=0, unit="ms"),
    Target("load and validate, per resource: 5000 / 1000", _growth("validate.5000", "validate.1000"), 1.3),
)
