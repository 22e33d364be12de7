"""The jobs that an engine runs once a second."""

import logging
from functools import partial
from pathlib import Path

import pytest

from heatlite.core.clock import Clock
from heatlite.core.errors import DatabaseUnavailable
from heatlite.engine.execution.sweep import Sweep
from heatlite.store.store import Store
from tests.databases import sqlite


def test_a_job_that_fails_keeps_no_other_from_its_work(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It may wait for a row of another process, or not be able to read one."""
    store = Store.open(sqlite(tmp_path))
    done: list[str] = []

    def job(name: str, error: Exception | None) -> None:
        done.append(name)
        if error is not None:
            raise error

    jobs = {"held": DatabaseUnavailable(reason="another transaction holds s1"), "broken": ValueError("x"), "last": None}
    sweep = Sweep(store, Clock(), "one", [partial(job, name, error) for name, error in jobs.items()])
    with caplog.at_level(logging.ERROR), pytest.raises(DatabaseUnavailable, match="holds s1"):
        sweep.poll()
    assert done == [*jobs]
    assert "a job of the sweep: internal error" in caplog.text
    store.close()
