"""Takeovers without progress: random kills, and actions that kill engines."""

import random
from collections.abc import Callable
from math import inf

import pytest
from store_behaviour import an_action, put

from heatlite.store.actions.claims import max_takeovers, takeover_delay
from heatlite.store.store import Store
from tests.databases import claim_one
from tests.tables import table

LIMIT = 5
TICK = 0.25
"""Seconds between two claims of an engine."""


@table("takeovers", range(1, 12))
def test_an_engine_needs_the_age_of_the_pause(takeovers: int) -> None:
    pause = takeover_delay(takeovers)
    assert max_takeovers(pause) > takeovers
    assert max_takeovers(pause - 0.01) <= takeovers


def run_engines(store: Store, engines: int, life: Callable[[], float], lethal: set[str]) -> list[int]:
    """Run engines in turn; return the highest count of takeovers after each.

    An engine ends after its life, or when it claims a lethal action. No attempt makes progress.
    """
    now, counts = 200.0, list[int]()
    for number in range(engines):
        began, ends = now, now + life()
        with store.transaction():
            store.claims.expire_all(now)
        while now < ends:
            claimed = claim_one(store, f"w{number}", now, 30.0, max_takeovers=max_takeovers(now - began))
            if claimed is not None and claimed.stack_id in lethal:
                break
            now = now + TICK
        live = store.actions.live(["s1", "s2", "s3"])
        counts.append(max(action.takeovers for action in live))
    return counts


@pytest.mark.slow
def test_kills_at_random_do_not_look_like_a_crash_loop(store: Store) -> None:
    """Under load an attempt needs longer for its first commit than any engine lives."""
    chance = random.Random(1)
    put(store, an_action("s1"), an_action("s2"))
    counts = run_engines(store, 300, lambda: chance.uniform(0.5, 4.0), set())
    assert max(counts) < LIMIT


def test_an_action_that_kills_at_once_reaches_the_limit(store: Store) -> None:
    put(store, an_action("s1"))
    assert run_engines(store, 7, lambda: inf, {"s1"}) == [0, 1, 2, 3, 4, 5, 6]


def test_several_that_kill_do_not_hide_each_other(store: Store) -> None:
    put(store, an_action("s1"), an_action("s2"), an_action("s3"))
    counts = run_engines(store, 30, lambda: inf, {"s1", "s2", "s3"})
    assert counts[-1] > LIMIT
