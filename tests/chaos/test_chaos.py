"""Short chaos runs on each kind of deployment; `python -m tests.chaos`: longer."""

from importlib.util import find_spec
from pathlib import Path

import pytest

from tests.chaos.chaos import Chaos, Plan
from tests.faults.servers import NoServer


@pytest.mark.slow
@pytest.mark.parametrize(("database", "broker"), [("SQLite", ""), ("PostgreSQL", "RabbitMQ"), ("MariaDB", "Redis")])
def test_nothing_is_lost_stuck_or_doubled(tmp_path: Path, database: str, broker: str) -> None:
    if database != "SQLite" and find_spec("celery") is None:
        pytest.skip("celery is not installed (extra `distributed`)")
    try:
        report = Chaos(Plan(database, broker, seconds=10, seed=7, clients=3, lease=3.0), tmp_path).run()
    except NoServer as error:
        pytest.skip(str(error))
    assert report.record.findings == [], "\n".join(report.lines())
    assert report.disturbances
    assert report.record.judged
