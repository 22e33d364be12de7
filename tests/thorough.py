"""The two sizes of the test suite.

The README's test command runs every rule, with a share of the cases of large tables and of random histories.
HEATLITE_TEST_NO_SKIP=1, as .ci/run sets it, runs all of them, and a test that skips fails. With HEATLITE_TEST_SHARE=1
it is a share again: .ci/run repeats the engine's tests on each database server, and one run has the whole tables.

Two markers leave cases out of the short run. A test that is named with ``::`` always runs.

- ``@pytest.mark.share(5)`` keeps each fifth case of a parametrised test.
- ``@pytest.mark.full`` keeps none: a slow test whose rule a faster one covers, too.
"""

import os
from collections import Counter

import pytest

STRICT = bool(os.environ.get("HEATLITE_TEST_NO_SKIP"))
"""True if a test that skips fails."""
FULL = STRICT and not os.environ.get("HEATLITE_TEST_SHARE")
"""True if this is the whole run."""


def examples(count: int) -> int:
    """Return how many random examples a law is tried on, of `count` in the whole run."""
    return count if FULL else max(4, count // 4)


def share(items: list[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Divide the tests into those of the short run and the others. The order stays."""
    seen: Counter[str] = Counter()
    kept: list[pytest.Item] = []
    left: list[pytest.Item] = []
    for item in items:
        test = item.nodeid.partition("[")[0]
        mark = item.get_closest_marker("share")
        chosen = item.get_closest_marker("full") is None and (mark is None or seen[test] % mark.args[0] == 0)
        seen[test] += 1
        (kept if chosen else left).append(item)
    return kept, left
