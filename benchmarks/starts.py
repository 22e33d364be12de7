"""Delay until a worker begins an action, from the rows (decision 0009).

Run by ``python -m benchmarks.starts``.

`heatlite serve` alone, and `heatlite api` with one `heatlite worker` for each database server and broker on loopback.
A stack of one resource is created every 50 ms, so that slots are always free. The figure is `started_at` less
`created_at` of each action: from the request's transaction until the claim.
"""

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.client import Client
from benchmarks.ports import free_port
from benchmarks.processes import Server, environment
from heatlite.store.database.database import Database

POSTGRES = "postgresql://postgres@127.0.0.1:5432"
MARIADB = "mysql://root@127.0.0.1:3306"
AMQP = "amqp://guest:guest@127.0.0.1:5672//"
REDIS = "redis://127.0.0.1:6379/0"
NAME = "heatlite_starts"

TEMPLATE = {"heat_template_version": "2021-04-16", "resources": {"a": {"type": "OS::Heat::RandomString"}}}


@contextmanager
def database(server: str, administration: str) -> Iterator[str]:
    """A database of our own, its tables made."""
    root = Database(f"{server}/{administration}")
    root.peewee.execute_sql(f"DROP DATABASE IF EXISTS {NAME}")
    root.peewee.execute_sql(f"CREATE DATABASE {NAME}")
    yield f"{server}/{NAME}"
    root.peewee.execute_sql(f"DROP DATABASE {NAME}")
    root.close()


def measure(label: str, url: str, broker: str | None, count: int) -> None:
    """Print one line."""
    heatlite = [sys.executable, "-m", "heatlite"]
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        config = folder / "heatlite.toml"
        lines = [f'database = "{url}"', "max_stacks_per_tenant = -1"]
        lines += [f'broker = "{broker}"', f'queue_prefix = "{NAME}"'] if broker else []
        config.write_text("\n".join(lines) + "\n")
        subprocess.run(
            [*heatlite, "db", "upgrade", "--config", str(config)],
            env=environment(folder),
            check=True,
            stdout=subprocess.DEVNULL,
        )
        port = free_port()
        command = [*heatlite, "api" if broker else "serve", "--config", str(config), "--port", str(port)]
        worker = None
        try:
            with Server(command, port, folder, "/healthcheck"):
                if broker:
                    with (folder / "worker.log").open("wb") as log:
                        words = [*heatlite, "worker", "--config", str(config)]
                        worker = subprocess.Popen(words, env=environment(folder), stdout=log, stderr=log)
                    time.sleep(4)
                client = Client(port)
                for number in range(count):
                    body = {"stack_name": f"s{number}", "template": TEMPLATE}
                    client.json("POST", "/v1/demo/stacks", body, expect=201)
                    time.sleep(0.05)
                time.sleep(3)
                found = Database(url)
                begun = "FROM action WHERE started_at IS NOT NULL"
                rows = found.read(f"SELECT started_at - created_at {begun} ORDER BY seq")
                found.close()
        finally:
            if worker is not None:
                worker.terminate()
                worker.wait()
    waits = sorted(1000 * float(wait) for (wait,) in rows[10:])
    p99 = waits[int(len(waits) * 0.99)]
    print(f"{label:24} {len(rows)} begun  p50 {statistics.median(waits):6.1f} ms  p99 {p99:6.1f} ms", flush=True)


def main() -> None:
    """Measure each in turn."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="stacks each")
    count = parser.parse_args().count
    with tempfile.TemporaryDirectory() as folder:
        measure("in process, SQLite", f"sqlite:///{folder}/heatlite.db", None, count)
    for server, administration, label in ((POSTGRES, "postgres", "PostgreSQL"), (MARIADB, "mysql", "MariaDB")):
        for broker, through in ((None, "in process"), (AMQP, "RabbitMQ"), (REDIS, "Redis")):
            with database(server, administration) as url:
                measure(f"{through}, {label}", url, broker, count)


if __name__ == "__main__":
    main()
