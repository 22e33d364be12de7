"""Run benchmarks: ``python -m benchmarks [CASE …] [--quick]``.

Measures, prints the tables, writes the samples as JSON.
"""

import argparse
import json
import os
import platform
import shutil
import sqlite3
import sys
import tempfile
import traceback
from contextlib import ExitStack
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path

from benchmarks import counted, guard, moto, report
from benchmarks.actions import fleet, latency, parked, refused, waiting
from benchmarks.actions_list import actions_list
from benchmarks.bare_celery import bare_celery
from benchmarks.cases import CASES, Bench
from benchmarks.clouds import clouds
from benchmarks.control import control
from benchmarks.dashboard import dashboard
from benchmarks.healing import healing
from benchmarks.language import language
from benchmarks.life import drift, imports
from benchmarks.many import large_stack, many_stacks
from benchmarks.nodes import nodes
from benchmarks.quota import quota
from benchmarks.reports import reports
from benchmarks.retention import retention
from benchmarks.round_trips import round_trips
from benchmarks.rules import rules
from benchmarks.schedules import schedules
from benchmarks.serving import beside, command_line, idle, overload, requests, slow, together
from benchmarks.why import why

LONG = ("large", "many_stacks", "parked", "retention", "dashboard")
"""Cases that a quick run leaves out."""
CASES["language"] = language
CASES |= {"refused": refused, "latency": latency, "fleet": fleet, "waiting": waiting, "actions_list": actions_list}
CASES |= {"parked": parked, "retention": retention}
CASES |= {"beside": beside, "overload": overload, "together": together, "slow": slow, "idle": idle}
CASES |= {"requests": requests, "command_line": command_line}
CASES |= {"large_stack": large_stack, "many_stacks": many_stacks}
CASES["clouds"] = clouds
CASES |= {"healing": healing, "reports": reports}
CASES["dashboard"] = dashboard
CASES |= {"nodes": nodes, "quota": quota, "rules": rules, "schedules": schedules}
CASES |= {"why": why, "control": control}
CASES |= {"drift": drift, "imports": imports}
CASES |= {"round_trips": round_trips, "bare_celery": bare_celery}


def _machine() -> dict[str, object]:
    model = "unknown"
    for line in Path("/proc/cpuinfo").read_text().splitlines():
        if line.startswith("model name"):
            model = line.partition(":")[2].strip()
            break
    return {
        "date": datetime.now(UTC).isoformat(timespec="seconds"),
        "processors": os.cpu_count(),
        "processor": model,
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9, 1),
        "load_before": _load(),
        "system": platform.platform(),
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        **{name: version(name) for name in ("falcon", "gunicorn", "peewee")},
    }


def _load() -> list[float]:
    """Average number of runnable processes over 1, 5 and 15 minutes."""
    return [round(value, 1) for value in os.getloadavg()]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("cases", nargs="*", metavar="CASE", help=f"of: {', '.join(CASES)} (default: all)")
    parser.add_argument("--quick", action="store_true", help="each once, and without the large ones: a minute or so")
    parser.add_argument("--repeat", type=int, default=5, help="how often (default: 5; 10 000: half of it)")
    parser.add_argument("--against", metavar="CHECKOUT", help="folder or commit to compare servers with, in turns")
    parser.add_argument("--moto", metavar="COMMAND", help="moto_server (default: MOTO_SERVER, else the one on PATH)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="where to (default: benchmarks/results.json)")
    parser.add_argument("--folder", type=Path, help="where databases are made: on the disk that is to be measured")
    arguments = parser.parse_args()
    unknown = [case for case in arguments.cases if case not in CASES]
    if unknown:
        parser.error(f"there is no case {', '.join(unknown)}; there are: {', '.join(CASES)}")
    if arguments.repeat < 1:
        parser.error("--repeat must be at least 1")
    return arguments


def main() -> int:
    """Run what is asked for; returns the exit code."""
    commands = {"guard": guard.main, "counted": counted.main}
    if sys.argv[1:2] and sys.argv[1] in commands:
        return commands[sys.argv[1]](sys.argv[2:])
    arguments = _arguments()
    command = moto.find(arguments.moto)
    if command is None:
        print(
            "moto_server was not found, so nothing is compared with moto. Install requirements/benchmark.txt,"
            " or say where it is with --moto or MOTO_SERVER.",
            file=sys.stderr,
        )
    names = arguments.cases or [name for name in CASES if not (arguments.quick and name in LONG)]
    machine = _machine()
    folder = Path(tempfile.mkdtemp(prefix="heatlite-benchmarks-", dir=arguments.folder))
    bench = Bench(folder, command, arguments.repeat, 4.0)
    if arguments.quick:
        bench.repeat, bench.seconds, bench.large, bench.overload_seconds = 1, 1.0, 1000, 5.0
    failed = []
    with ExitStack() as stack:
        if arguments.against:
            bench.sides.append(stack.enter_context(guard.checkout(arguments.against)))
        for name in names:
            try:
                CASES[name](bench)
            except Exception:  # noqa: BLE001
                # The samples of the other cases are worth their minutes.
                traceback.print_exc()
                failed.append(name)
    shutil.rmtree(folder)
    machine["load_after"] = _load()
    target = arguments.json or Path(__file__).parent / "results.json"
    target.write_text(json.dumps({"machine": machine, "samples": bench.samples, "counts": bench.counts}, indent=1))
    print("\n".join(f"- {name}: {value}" for name, value in machine.items()), end="\n\n")
    print(report.markdown(bench))
    if failed:
        print(f"failed: {', '.join(failed)}", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
