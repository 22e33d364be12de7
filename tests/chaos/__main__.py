"""The chaos driver: `python -m tests.chaos --database PostgreSQL --seconds 3600`.

Exits with 1 if anything was lost, stuck or doubled.
"""

import argparse
import shutil
import sys
import tempfile
from pathlib import Path

from tests.chaos.chaos import Chaos, Plan


def main() -> int:
    """Run as the arguments say, and print the report."""
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=__doc__)
    parser.add_argument("--database", choices=("SQLite", "PostgreSQL", "MariaDB"), default="SQLite")
    parser.add_argument("--broker", choices=("RabbitMQ", "Redis"), default="Redis")
    parser.add_argument("--seconds", type=float, default=60, help="for how long to disturb")
    parser.add_argument("--kills", type=int, help="only kill, and stop while actions fail; end after so many kills")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=6)
    parser.add_argument("--lease", type=float, default=6.0, help="lease_seconds of the engines")
    parser.add_argument("--keep", action="store_true", help="leave the logs, as after findings")
    given = parser.parse_args()
    plan = Plan(given.database, given.broker, given.seconds, given.seed, given.clients, given.lease, given.kills)
    home = Path(tempfile.mkdtemp(prefix="heatlite-chaos-"))
    print(home, flush=True)
    report = Chaos(plan, home, lambda text: print(text, flush=True)).run()
    print("\n".join(report.lines()))
    if not given.keep and not report.record.findings:
        shutil.rmtree(home)
    return 1 if report.record.findings else 0


if __name__ == "__main__":
    sys.exit(main())
