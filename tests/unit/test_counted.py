"""The counted benchmarks fail above the recorded figures."""

import sqlite3
from collections.abc import Mapping
from contextlib import closing

import pytest

from benchmarks import counted
from benchmarks.tracer import Tracer

RECORDED = {"commits": 3, "statements": 40, "writes": 13, "steps": 100, "calls": 1000}


@pytest.mark.parametrize(
    ("case", "found", "lines"),
    [
        ("create 9 Value", {"calls": 1030}, []),
        ("create 9 Value", {"calls": 1031}, ["create 9 Value: 1031 calls, recorded are 1000"]),
        ("create 9 Value", {"steps": 102}, ["create 9 Value: 102 steps, recorded are 100"]),
        ("create 9 TestResource", {"commits": 9, "statements": 60}, []),
        ("create 9 TestResource", {"statements": 61}, ["create 9 TestResource: 61 statements, recorded are 40"]),
    ],
)
def test_a_figure_may_not_exceed_the_recorded_one(case: str, found: Mapping[str, int], lines: list[str]) -> None:
    assert counted.exceeding({case: {**RECORDED, **found}}, {case: RECORDED}) == lines


def test_the_cases_are_those_that_are_recorded() -> None:
    found = counted.exceeding({"new": RECORDED}, {"old": RECORDED})
    assert found == ["old: recorded, not measured", "new: measured, not recorded"]


def test_statements_and_steps_are_counted(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sqlite3, "connect", sqlite3.connect)
    tracer = Tracer()
    tracer.install()
    with closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.execute("CREATE TABLE t (a)")
        tracer.take()
        connection.execute("BEGIN")
        connection.executemany("INSERT INTO t VALUES (?)", [(number,) for number in range(100)])
        connection.execute("COMMIT")
        counts = tracer.take()
        assert (counts["statements"], counts["writes"], counts["commits"]) == (102, 100, 1)
        connection.execute("SELECT * FROM t WHERE a = 5").fetchall()
        assert tracer.take()["steps"] > 100
        with tracer.uncounted():
            connection.execute("SELECT * FROM t").fetchall()
        counts = tracer.take()
        assert (counts["statements"], counts["steps"]) == (0, 0)
        connection.close()
