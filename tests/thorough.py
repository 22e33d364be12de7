"""The three sizes of the test suite.

The README's test command runs what needs no service and few processes, with a share of the cases of large tables and
of random histories. HEATLITE_TEST_NO_SKIP=1, as .ci/run sets it, runs the rest, too, and a test that skips fails. With
HEATLITE_TEST_SHARE=1 it is a share again: .ci/run repeats tests of the engine on each database server.

Outside of `tests/unit` and `tests/faults` the README's command has one case of a parametrised test, the whole run at
most two, from the whole of its table. The whole run with HEATLITE_TEST_THOROUGH=1 has all cases. Two markers choose
otherwise. All tests of a file that the command line names run.

- ``@pytest.mark.share(5)`` keeps each fifth case. ``share(9, whole=3)`` keeps each third one in
  the whole run, for a table whose rule has a faster test of all cases elsewhere; ``whole=1`` keeps all.
- ``@pytest.mark.full`` keeps none: a slow test. A faster one covers the rule, or the whole run is soon enough for it.

The short run does not even collect the folders in `LEFT_OUT`, unless the command line names them.
"""

import os
from collections import Counter
from collections.abc import Iterable
from pathlib import Path

import pytest
from hypothesis import HealthCheck

STRICT = bool(os.environ.get("HEATLITE_TEST_NO_SKIP"))
"""True if a test that skips fails."""
FULL = STRICT and not os.environ.get("HEATLITE_TEST_SHARE")
"""True if this is the whole run."""
LEFT_OUT = frozenset({"chaos", "clouds", "crash", "faults", "services"})
"""Folders of tests that need services or kill processes."""
MOST_CASES = 2 if FULL else 1
"""Cases of a parametrised test whose marker does not say how many."""
SHARED_FIXTURE = (HealthCheck.function_scoped_fixture, HealthCheck.too_slow)
"""Health checks to suppress for a law whose examples share a fixture. The speed of a machine is not under test."""
THOROUGH = bool(os.environ.get("HEATLITE_TEST_THOROUGH"))
"""True for all cases of all tables, and for as many repetitions as a rule says."""


def examples(count: int) -> int:
    """Return the number of random examples of a law: `count` in the thorough run."""
    return count if THOROUGH else max(4, count // 6)


def repeats(number: int, usual: int) -> int:
    """Return the number of repetitions in a test: `usual` in the whole run."""
    return number if THOROUGH else examples(usual)


def is_left_out(folder: Path, arguments: Iterable[str]) -> bool:
    """True for a folder of services that the command did not name."""
    if FULL or folder.name not in LEFT_OUT or folder.parent != Path(__file__).parent:
        return False
    named = (Path(argument.partition("::")[0]).resolve() for argument in arguments)
    return not any(path.is_relative_to(folder) for path in named)


def names_tests(arguments: Iterable[str]) -> bool:
    """Return True if the command line names files or tests, not only folders."""
    return any("::" in argument or argument.endswith(".py") for argument in arguments)


def share(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Divide the tests into those of this run and the others. The order stays."""
    tables = Counter(item.nodeid.partition("[")[0] for item in items)
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("share")
        if THOROUGH and FULL:
            step = 1
        elif mark is not None and (not FULL or "whole" in mark.kwargs):
            step = mark.kwargs["whole"] if FULL else mark.args[0]
        elif test.startswith(("tests/unit/", "tests/faults/")) or "/unit/" in test:
            step = 1
        else:
            step = -(-tables[test] // MOST_CASES)
        chosen = (FULL or item.get_closest_marker("full") is None) and seen[test] % step == 0
        seen[test] += 1
        (kept if chosen else left).append(item)
    return kept, left
