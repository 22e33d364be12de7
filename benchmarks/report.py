"""The samples as Markdown tables, for terminals and docs/benchmarks.md."""

import statistics
from collections.abc import Sequence
from contextlib import suppress

from benchmarks.cases import Bench
from benchmarks.targets import FIGURES, TARGETS

SIZES = (10, 100, 1000, 10_000)
LIFE = (
    ("create", "create"),
    ("no-op update", "no_op"),
    ("update of 1 %", "one_percent"),
    ("10 % marked, replaced", "replace"),
    ("delete", "delete"),
    ("R, the floor", "floor"),
    ("moto, create", "moto"),
)
OTHERS = (
    ("100 independent, beside the chains", "independent.100"),
    ("chain of 100", "chain.100"),
    ("1000 independent, beside the chains", "independent.1000"),
    ("chain of 1000", "chain.1000"),
    ("create 1000, beside those of 10 000", "beside_10000.1000"),
    ("create 1000 RandomString", "RandomString.create.1000"),
    ("1000, beside those of a sealed stack", "in_clear.1000"),
    ("1000 of a sealed stack", "sealed.1000"),
    ("1000 RandomString, beside the group", "flat.1000"),
    ("group of 1000 RandomString", "group.1000"),
    ("one more member for a group of 1000", "group_grows.1000"),
    ("1000 flat, beside the trees", "flat_beside_tree.1000"),
    ("tree of 100 nested stacks of 10", "tree.1000"),
    ("5000 flat, beside the trees", "flat_beside_tree.5000"),
    ("tree of 500 nested stacks of 10", "tree.5000"),
    ("delete of the tree of 500", "tree_delete.5000"),
    ("create 100 TestResource", "TestResource.create.100"),
    ("create 1000 TestResource", "TestResource.create.1000"),
    ("chain of 100 TestResource", "TestResource.chain.100"),
    ("create 1000 SoftwareConfig", "SoftwareConfig.create.1000"),
    ("one resource of 10 000", "one_resource.10000"),
    ("mark one resource of 10 000", "mark_one.10000"),
    ("list of 10 000 resources", "list_resources.10000"),
    ("page of 100 of 10 000 stacks", "list_of_stacks limit=100.10000"),
    ("the same by tag", "list_of_stacks limit=100&tags=t7.10000"),
    ("the same by name", "list_of_stacks limit=100&name=n77.10000"),
    ("the same, sorted by name", "list_of_stacks limit=100&sort_keys=name.10000"),
    ("all of 10 000 stacks", "list_of_stacks whole.10000"),
    ("100 servers and ports, latency 0", "servers_at_once.100"),
    ("200 Value beside them", "values_beside_servers.100"),
    ("page of 100 of 10 000 events", "event_page.100"),
    ("page of 1000 of 10 000 events", "event_page.1000"),
    ("update of 10, until 50 streams have told it all", "streams_told.10"),
)


def _table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    widths = [max(len(row[at]) for row in (head, *rows)) for at in range(len(head))]
    lines = [head, ["-" * width for width in widths], *rows]
    padded = [[cell.ljust(width) for cell, width in zip(line, widths, strict=True)] for line in lines]
    return "\n".join(f"| {' | '.join(line)} |" for line in padded)


def _seconds(bench: Bench, name: str) -> str:
    """Median, and in brackets the least and the greatest."""
    samples = bench.samples.get(name)
    if not samples:
        return "–"
    text = f"{statistics.median(samples):.4f}"
    return text if len(samples) == 1 else f"{text} ({min(samples):.4f}–{max(samples):.4f})"


def markdown(bench: Bench) -> str:
    """The tables of the run, with what it has measured."""
    parts = []
    verdicts = []
    for target in TARGETS:
        with suppress(KeyError):  # not measured
            figure = target.measure(bench)
            measured = f"{figure:.{target.digits}f} {target.unit}".strip()
            verdict = "reached" if target.reached(figure) else "**missed**"
            verdicts.append((target.text, measured, _bound(target.bound, target.least, target.unit), verdict))
    if verdicts:
        parts.append(_table(("target", "measured", "bound", ""), verdicts))
    if any(name.startswith("create.") for name in bench.samples):
        life = [(text, *(_seconds(bench, f"{case}.{size}") for size in SIZES)) for text, case in LIFE]
        head = ("", *map(str, SIZES))
        parts.append(f"Seconds, by number of resources: median (least–greatest)\n\n{_table(head, life)}")
    others = [(text, _seconds(bench, name)) for text, name in OTHERS if name in bench.samples]
    if others:
        parts.append("Seconds\n\n" + _table(("", "median (least–greatest)"), others))
    parts += _serving(bench)
    parts += _actions(bench)
    counted = [
        (f"{case}, {number}", *(str(found[what]) for what in ("statements", "writes", "commits")))
        for number, cases in bench.counts.items()
        for case, found in cases.items()
    ]
    if counted:
        parts.append("Counted, in all\n\n" + _table(("", "statements", "writes", "commits"), counted))
    return "\n\n".join(parts) + "\n"


def _serving(bench: Bench) -> list[str]:
    """The table of servers and commands, beside those of the other checkout."""
    rows = []
    for figure in FIGURES:
        before, now = (_median(bench, prefix + figure.name) for prefix in ("before ", ""))
        if now is None:
            continue
        ratio = now / before if before else None
        bounds, missed = [], ""
        for bound, value, unit in ((figure.bound, now, figure.unit), (figure.ratio, ratio, "× before")):
            if bound is not None:
                bounds.append(f"≤ {bound:g} {unit}".strip())
                missed = "**missed**" if value is not None and value > bound else missed
        cells = ("–" if one is None else f"{one:.{figure.digits}f} {figure.unit}".strip() for one in (before, now))
        rows.append((figure.text, *cells, "–" if ratio is None else f"{ratio:.2f}", ", ".join(bounds), missed))
    head = ("", "before", "now", "now / before", "bound", "")
    return [f"Servers and commands, medians\n\n{_table(head, rows)}"] if rows else []


def _median(bench: Bench, name: str) -> float | None:
    return bench.median(name) if name in bench.samples else None


def _actions(bench: Bench) -> list[str]:
    """The tables of what is measured on each kind of database and dispatcher."""
    parts = []
    head: Sequence[str]
    cases = [name.partition(".")[2] for name in bench.samples if name.startswith("scale_in_p99_ms.")]
    if cases:
        rows = [
            (case, *(f"{bench.median(f'{what}.{case}'):g}" for what in ("accepted", "refused")),
             *(f"{bench.median(f'scale_in_{what}_ms.{case}'):.0f}" for what in ("p50", "p99")))
            for case in cases
        ]  # fmt: skip
        head = ("", "accepted", "409", "p50 ms", "p99 ms")
        parts.append("100 scale-ins of one group at once, medians\n\n" + _table(head, rows))
    cases = [name.partition(".")[2] for name in bench.samples if name.startswith("start_ms.")]
    if cases:
        waits = {case: sorted(bench.samples[f"start_ms.{case}"]) for case in cases}
        rows = [(case, *(f"{one[int(len(one) * at)]:.1f}" for at in (0.5, 0.9, 0.99))) for case, one in waits.items()]
        parts.append("From submit to start, ms\n\n" + _table(("", "p50", "p90", "p99"), rows))
    cases = [name.partition(".")[2] for name in bench.samples if name.startswith("fleet_seconds.")]
    if cases:
        figures = ("fleet_seconds", "fleet_submitting_seconds", "fleet_outside_handlers_percent")
        rows = [(case, *(f"{bench.median(f'{figure}.{case}'):.1f}" for figure in figures)) for case in cases]
        head = ("database, dispatcher, workers", "seconds", "of these submitting", "outside handlers, %")
        parts.append("1000 stacks of 10 resources\n\n" + _table(head, rows))
    cases = [name.partition(".")[2] for name in bench.samples if name.startswith("round_trips.")]
    if cases:
        each = ("round_trips", "api_ms", "workers_ms", "database_ms")
        rows = [(case, *(f"{bench.median(f'{figure}.{case}'):.1f}" for figure in each)) for case in cases]
        head = ("", "round trips", "processor ms: API", "worker", "database")
        parts.append("Each stack of its kind, with a broker and one worker, medians\n\n" + _table(head, rows))
    cases = [name.partition(".")[2] for name in bench.samples if name.startswith("task_rate.")]
    if cases:
        kinds = ("action", "floor", "task")
        rates = [(case, *(f"{bench.median(f'{kind}_rate.{case}'):.0f}" for kind in kinds)) for case in cases]
        times = [(f"{case}, ms", *(f"{bench.median(f'{kind}_ms.{case}'):.1f}" for kind in kinds)) for case in cases]
        head = ("", "stacks of one resource", "their statements as tasks", "empty tasks of Celery")
        text = "In a second, with two workers; and processor time of each without the broker; medians"
        parts.append(f"{text}\n\n{_table(head, rates + times)}")
    pages = {tuple(name.split(".")[1:]): name for name in bench.samples if name.startswith("actions_page_ms.")}
    if pages:
        databases = list(dict.fromkeys(database for _, database in pages))
        rows = [
            (text, *(_milliseconds(bench, pages.get((text, one))) for one in databases))
            for text in dict.fromkeys(text for text, _ in pages)
        ]
        head = "A page of 100 out of 1 000 000 actions, ms: median (greatest)"
        parts.append(f"{head}\n\n" + _table(("", *databases), rows))
    if "nodes_floor" in bench.samples:
        rows = [
            (text, _seconds(bench, name), f"{bench.median(commits):g}" if commits in bench.samples else "–")
            for text, name, commits in (
                ("one action each is sent", "nodes_send", "nodes_send_commits"),
                ("all have ended, and tell", "nodes_hear", "nodes_hear_commits"),
                ("nothing new", "nodes_idle", "nodes_idle_commits"),
                ("the floor: as many signed requests", "nodes_floor", ""),
            )
        ]
        head = "An orchestration of 1000 nodes"
        parts.append(f"{head}\n\n" + _table(("", "seconds: median (least–greatest)", "commits"), rows))
    if "servers_ratio" in bench.samples:
        rows = [
            (text, *(f"{bench.median(name):.2f}" if name in bench.samples else "–" for name in names))
            for text, names in (
                ("100 servers with ports", ("servers_seconds", "servers_floor_seconds", "servers_ratio")),
                ("1000 that build 5 s", tuple(f"many_servers_{one}" for one in ("seconds", "floor_seconds", "ratio"))),
            )
        ]
        parts.append("On the simulated cloud at 50 ms a call\n\n" + _table(("", "seconds", "floor", "ratio"), rows))
    cases = [name.partition(".")[2] for name in bench.samples if name.startswith("healing_cpu.")]
    if cases:
        names = ("healing_cpu", "healing_elapsed")
        rows = [(case, *(f"{bench.median(f'{name}.{case}'):.1f}" for name in names)) for case in cases]
        parts.append("Healing, ms\n\n" + _table(("", "processor time", "elapsed"), rows))
    if "reports_ms" in bench.samples:
        rows = [
            (
                text,
                *(f"{bench.percentile(f'{name}_ms', part):.1f}" for part in (0.5, 0.95, 0.99)),
                f"{sum(bench.samples[f'{name}_refused']):.0f}",
            )
            for text, name in (
                ("other requests alone", "reports_others_alone"),
                ("other requests beside reports", "reports_others_beside"),
                ("reports", "reports"),
            )
        ]
        parts.append("100 reports/s of one alert each, ms\n\n" + _table(("", "p50", "p95", "p99", "503"), rows))
    parts += _dashboard(bench)
    if "retention_seconds" in bench.samples:
        rows = [
            ("creates of ten after", "create_after_retention"),
            ("creates of ten beside it", "create_beside_retention"),
            ("deletion", "retention_seconds"),
        ]
        cells = [(text, _seconds(bench, name)) for text, name in rows]
        parts.append("A million old events deleted\n\n" + _table(("", "median (least–greatest) s"), cells))
    waiting = [
        (count, *(f"{bench.median(f'{name}.{count}'):{digits}}" for name, digits in WAITING.values()))
        for count in (name.partition(".")[2] for name in bench.samples if name.startswith("create_beside_waiting."))
        if count != "0"
    ]
    if waiting:
        parts.append("Actions that wait\n\n" + _table(("actions", *WAITING), waiting))
    return parts


def _dashboard(bench: Bench) -> list[str]:
    pages = [name.partition(".")[2] for name in bench.samples if name.startswith("dashboard_cpu.")]
    if not pages:
        return []
    figures = ("open", "task", "frame", "browser_cpu", "cpu", "rest_percent")
    heads = ("", "open, ms", "longest task", "frame, p95", "CPU of browser", "of server", "50 at rest, % of a core")
    cells = [(page, *(_figure(bench, f"dashboard_{figure}.{page}") for figure in figures)) for page in pages]
    live = _figure(bench, "dashboard_live")
    return [f"Dashboard, median (greatest)\n\n{_table(heads, cells)}\n\nFrom a mark to its row: {live} ms"]


def _figure(bench: Bench, name: str) -> str:
    return _milliseconds(bench, name if name in bench.samples else None)


WAITING = {
    "threads": ("waiting_threads", ".0f"),
    "kB each": ("waiting_kb_each", ".0f"),
    "processor at rest, %": ("waiting_processor_percent", ".1f"),
    "create of ten beside them, s": ("create_beside_waiting", ".3f"),
}
"""Column of the table of waiting actions → its samples and their format."""


def _milliseconds(bench: Bench, name: str | None) -> str:
    return "–" if name is None else f"{bench.median(name):.1f} ({max(bench.samples[name]):.0f})"


def _bound(bound: float, least: bool, unit: str) -> str:
    return f"{'≥' if least else '≤'} {bound:g} {unit}".strip()
