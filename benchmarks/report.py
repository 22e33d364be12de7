"""The samples as tables in Markdown, for a terminal and for docs/benchmarks.md alike."""

import statistics
from collections.abc import Sequence

from benchmarks.cases import Bench
from benchmarks.targets import TARGETS

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
    ("page of 100 of 10 000 events", "event_page.100"),
    ("page of 1000 of 10 000 events", "event_page.1000"),
    ("update of 10, until 50 streams have told it all", "streams_told.10"),
    ("`heatlite up` of 10, alone", "up.10"),
    ("`heatlite up` of 10, with a server", "up_with_server.10"),
    ("`heatlite up` of the first example, CPU", "up_cpu.hello"),
    ("`heatlite ls` with a server, CPU", "ls_cpu"),
)
RATES = (
    ("hello, bare Falcon", "hello"),
    ("GET show", "show"),
    ("GET show, beside 50 streams", "show_beside_streams"),
    ("GET list of 100 stacks", "list"),
    ("PATCH mark", "mark"),
    ("409, stack locked", "locked"),
)
MEMORY = (
    ("peak with trees of 100 and 500 nested stacks", "tree_peak_mb"),
    ("idle", "idle_mb"),
    ("after a stack of 1000", "mb_with_1000"),
    ("after another of 10 000", "mb_with_10000"),
    ("peak of the serving process (resident)", "peak_mb"),
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
    """Every table of the run."""
    parts = []
    verdicts = []
    for target in TARGETS:
        try:
            figure = target.measure(bench)
        except KeyError:
            verdicts.append((target.text, "–", _bound(target.bound, target.least, target.unit), "not measured"))
            continue
        measured = f"{figure:.{target.digits}f} {target.unit}".strip()
        verdict = "reached" if target.reached(figure) else "**missed**"
        verdicts.append((target.text, measured, _bound(target.bound, target.least, target.unit), verdict))
    parts.append(_table(("target", "measured", "bound", ""), verdicts))
    life = [(text, *(_seconds(bench, f"{case}.{size}") for size in SIZES)) for text, case in LIFE]
    parts.append("Seconds, by number of resources: median (least–greatest)\n\n" + _table(("", *map(str, SIZES)), life))
    parts.append("Seconds\n\n" + _table(("", "median (least–greatest)"), [(t, _seconds(bench, c)) for t, c in OTHERS]))
    rates = [
        (
            text,
            *(
                f"{bench.median(f'{case}.{figure}'):.{digits}f}" if f"{case}.{figure}" in bench.samples else "–"
                for figure, digits in (("requests_per_second", 0), ("p50_ms", 1), ("p99_ms", 1))
            ),
        )
        for text, case in RATES
    ]
    parts.append("50 clients, medians\n\n" + _table(("", "requests/s", "p50 ms", "p99 ms"), rates))
    parts += _actions(bench)
    counted = [
        (f"{case}, {number}", *(str(found[what]) for what in ("statements", "writes", "commits")))
        for number, cases in bench.counts.items()
        for case, found in cases.items()
    ]
    if counted:
        parts.append("Counted, in all\n\n" + _table(("", "statements", "writes", "commits"), counted))
    used = [(text, f"{bench.median(case):.0f} MB") for text, case in MEMORY if case in bench.samples]
    if used:
        if "idle_processor_percent" in bench.samples:
            used.append(("processor, idle", f"{bench.median('idle_processor_percent'):.2f} % of one"))
        head = "Memory (PSS of all processes; 1 MB = 10^6 bytes) and processor"
        parts.append(f"{head}\n\n{_table(('', 'median'), used)}")
    return "\n\n".join(parts) + "\n"


def _actions(bench: Bench) -> list[str]:
    """The tables of what is measured on each kind of database and dispatcher."""
    parts = []
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
    threads = [(name.partition(".")[2], f"{bench.median(name):.0f}") for name in bench.samples if "waiting_th" in name]
    if threads:
        parts.append("Threads of `heatlite serve`\n\n" + _table(("actions that wait", "threads"), threads))
    return parts


def _milliseconds(bench: Bench, name: str | None) -> str:
    return "–" if name is None else f"{bench.median(name):.1f} ({max(bench.samples[name]):.0f})"


def _bound(bound: float, least: bool, unit: str) -> str:
    return f"{'≥' if least else '≤'} {bound:g} {unit}".strip()
