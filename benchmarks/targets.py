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
    Target(
        "drift, of the processor time of a check of 1000",
        lambda bench: (bench.median("drift_check") / bench.median("drift_off_check") - 1) * 100, 5, digits=1, unit="%",
    ),
    Target(
        "100 drifted of 100 000, listed, processor time",
        lambda bench: bench.median("drift_list"), 20, digits=1, unit="ms",
    ),
    Target(
        "import of 500 servers, with its plan",
        lambda bench: bench.median("import_plan") + bench.median("import"), 10, unit="s",
    ),
    Target("reads of each server in the plan of an import", lambda bench: bench.median("import_reads"), 3),
    Target(
        "look for due schedules among 10 000", lambda bench: bench.median("schedules_sweep"), 2.0, digits=3, unit="ms"
    ),
    Target(
        "10 000 schedules, processor", lambda bench: bench.median("schedules_processor_percent"), 1, digits=4, unit="%"
    ),
    Target(
        "quotas of a plan of 1000 servers and ports, of its time",
        lambda bench: bench.median("plan_added"), 5, digits=1, unit="%",
    ),
    Target(
        "quotas of an update of 100 servers and ports without new objects",
        lambda bench: bench.least("update_quota") - bench.least("update_no_quota"), 5, digits=1, unit="ms",
    ),
    Target(
        "its calls of the cloud before it is accepted", lambda bench: bench.median("update_quota_calls"), 2, digits=0
    ),
    Target(
        "100 rules on a plan of 1000",
        lambda bench: bench.median("plan_judged.1000") - bench.median("plan_bare.1000"), 150, digits=0, unit="ms",
    ),
    Target(
        "20 rules on a plan of 20 000",
        lambda bench: bench.median("plan_judged.20000") - bench.median("plan_bare.20000"), 1000, digits=0, unit="ms",
    ),
    Target("why, 10 000 resources", lambda bench: bench.median("why_well"), 20, digits=1, unit="ms"),
    Target(
        "why, 100 of 10 000 resources failed", lambda bench: bench.median("why_failed"), 20, digits=1, unit="ms"
    ),
    *(
        Target(
            f"update of {size} without a policy, features that control changes on / off",
            _ratio(f"update_on.{size}", f"update_off.{size}"),
            1.02,
        )
        for size in (1, 100, 1000)
    ),
    Target("tree of 100 × 10 / 1000 flat resources", _ratio("tree.1000", "flat_beside_tree.1000"), 3.0),
    Target("port and server at latency 0 / Value", _ratio("servers_at_once.100", "values_beside_servers.100"), 5.0),
    Target("one resource of 10 000", lambda bench: bench.median("one_resource.10000") * 1000, 3, digits=1, unit="ms"),
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
        _ratio("show_alone.requests_per_second", "hello_alone.requests_per_second"),
        0.45,
        least=True,
    ),
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
    Target(
        "memory, more with a stack of 10 000",
        lambda bench: bench.median("mb_with_large") - bench.median("idle_mb"),
        250,
        digits=0,
        unit="MB",
    ),
    Target("load and validate 1000 / C parser of YAML", _ratio("validate.1000", "yaml.1000"), 1.5),
    Target("resolve 1000, processor time", lambda bench: bench.median("resolve.1000") * 1000, 50, digits=0, unit="ms"),
    Target("load and validate, per resource: 5000 / 1000", _growth("validate.5000", "validate.1000"), 1.3),
)


@dataclass(frozen=True, slots=True)
class Figure:
    """A figure of servers and commands.

    `bound` is on itself, `ratio` on its ratio to that of the other checkout.
    """

    text: str
    name: str
    unit: str = ""
    digits: int = 1
    bound: float | None = None
    ratio: float | None = None


def _load(text: str, name: str, p99: float | None = None) -> tuple[Figure, ...]:
    return (
        Figure(f"{text}, 1/s", f"{name}.requests_per_second", digits=0),
        Figure(f"{text}, p50", f"{name}.p50_ms", "ms"),
        Figure(f"{text}, p99", f"{name}.p99_ms", "ms", bound=p99),
        Figure(f"{text}, failed", f"{name}.failed", digits=0, bound=0),
    )


FIGURES = (
    *_load("hello, bare Falcon", "hello_alone"),
    *_load("GET show", "show_alone"),
    *_load("PATCH mark", "mark_alone"),
    *_load("409, stack locked", "locked_alone"),
    *_load("GET list of 100 stacks", "list_alone"),
    *_load("300 marks/s", "paced_mark_alone"),
    *_load("GET show beside 50 streams", "show_beside_streams"),
    Figure("create, alone", "create_alone", "s", 2),
    Figure("create beside 300 marks/s / alone", "paced_mark.create_ratio", "×", 2, 1.3),
    *_load("300 marks/s beside creates", "paced_mark_beside", 100),
    Figure("create beside show / alone", "show.create_ratio", "×", 2, 1.15),
    *_load("GET show beside creates", "show_beside", 40),
    Figure("create beside marks / alone", "mark.create_ratio", "×", 2),
    *_load("PATCH mark beside creates", "mark_beside", 150),
    Figure("create beside 409 / alone", "locked.create_ratio", "×", 2),
    *_load("409 beside creates", "locked_beside", 60),
    Figure("mix of requests, best throughput", "overload.best", "/s", 0),
    Figure("overload of 2 ×, throughput / best", "overload.ratio", "×", 2),
    Figure("overload, p50 of the accepted", "overload.p50_ms", "ms", 0),
    Figure("overload, p99 of the accepted", "overload.p99_ms", "ms", 0, 2000),
    Figure("overload, p99 of the accepted since they were sent", "overload.p99_from_sent_ms", "ms", 0, 2000),
    Figure("overload, refused by 503", "overload.refused_percent", "%"),
    Figure("overload, p99 of the refused", "overload.refused_p99_ms", "ms", 0),
    Figure("overload, without an answer", "overload.lost", digits=0, bound=0),
    Figure("overload, more memory", "overload.more_mb", "MB"),
    Figure("overload, until it is as before", "overload.recovery", "s", bound=3),
    Figure("50 clients at once, list of 100, p99", "together.p99_ms", "ms"),
    Figure("50 clients at once, the longest", "together.longest_ms", "ms"),
    Figure("50 clients at once, p99 / steady p50", "together.ratio", "×", 2, 1.5),
    Figure("8 clients, p99", "slow.alone_p99_ms", "ms"),
    Figure("8 clients, p99 beside 1000 slow ones", "slow.dripping_p99_ms", "ms"),
    Figure("8 clients, p99 beside 1000 slow ones / alone", "slow.dripping_ratio", "×", 2, 2),
    Figure("8 clients, failed beside 1000 slow ones", "slow.dripping_failed", digits=0, bound=0),
    Figure("8 clients, p99 beside 5000 silent heads", "slow.silent_p99_ms", "ms"),
    Figure("8 clients, failed beside 5000 silent heads", "slow.silent_failed", digits=0, bound=0),
    Figure("silent heads that stay open", "slow.kept", digits=0),
    Figure("silent head, memory each", "slow.kb_each", "kB", bound=20),
    Figure("serve, from its start to an answer", "start", "s", 2, 1.0),
    Figure("memory, idle", "idle_mb", "MB", bound=110),
    Figure("memory, after a stack of 1000", "mb_with_1000", "MB"),
    Figure("memory, after another of 10 000", "mb_with_large", "MB"),
    Figure("peak of the largest process (resident)", "peak_mb", "MB"),
    Figure("processor, idle", "idle_processor_percent", "%", 2, 0.3),
    Figure("processor, 200 event streams at rest", "streams_processor_percent", "%", 2, 3),
    Figure("GET show, processor time", "show_us", "µs", 0, ratio=0.65),
    Figure("GET show of 20 clients, processor time", "show_loaded_us", "µs", 0, ratio=0.65),
    Figure("PATCH mark, processor time", "mark_us", "µs", 0, ratio=0.8),
    Figure("PATCH mark of 20 clients, processor time", "mark_loaded_us", "µs", 0, ratio=0.8),
    Figure("`up` of 10", "up.seconds", "s", 2, 1.0),
    Figure("`up` of 10, processor time", "up.cpu", "s", 2, 0.35),
    Figure("`up` of 10, with a server", "up_with_server.seconds", "s", 2),
    Figure("`up` of the first example, processor time", "hello.cpu", "s", 2, 0.35),
    Figure("the same with a new database", "hello_first.cpu", "s", 2, 0.35),
    Figure("`ls` with a server, processor time", "ls.cpu", "s", 2, 0.15),
)
"""Figures of the cases of `serving.py`."""
