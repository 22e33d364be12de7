"""Quotas with several API processes and a database with a server."""

import json
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.store.stacks.stack_query import StackQuery
from tests.crash.scenarios import CALLER
from tests.features.quota.services.quota_client import ask, settings
from tests.processes import fresh
from tests.waiting import eventually

pytestmark = pytest.mark.slow
CONFLICTS = {"QuotaExceeded", "ActionConflict"}
"""The latter if the room was taken between reading and transaction."""


def test_of_two_that_ask_at_once_one_gets_the_last_room(
    url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In two API processes. What the first has reserved is free after its deletion."""
    monkeypatch.setattr(wiring, "cloud_provider", wiring.cloud_provider)  # `settings` replaces it
    simulation = tmp_path / "simulation.yaml"
    simulation.write_text(json.dumps({"quotas": {"network.network": 1}}))
    processes = fresh("tests.features.quota.services.quota_client")
    wiring.api(settings(url, str(simulation))).close()  # makes the tables

    def at_once(*names: str) -> dict[str, tuple[int, str]]:
        together, answers = processes.Barrier(len(names)), processes.Queue()
        begun = [
            processes.Process(target=ask, args=(url, str(simulation), name, together, answers)) for name in names
        ]
        for one in begun:
            one.start()
        found = [answers.get(timeout=240) for _ in names]
        for one in begun:
            one.join(240)
        return {name: (status, error) for name, status, error in found}

    found = at_once("one", "two")
    assert sorted(status for status, _ in found.values()) == [201, 409]
    assert {error for _, error in found.values()} - {""} <= CONFLICTS
    winner, loser = sorted(found, key=lambda name: found[name])
    assert at_once(loser) == {loser: (409, "QuotaExceeded")}
    engine = wiring.embedded(settings(url, str(simulation)))
    try:
        store, query = engine.store, StackQuery()
        eventually(lambda: [one.status for one in store.stacks.list("demo", query)] == ["COMPLETE"])
        (made,) = store.stacks.list("demo", query)
        stack = store.stacks.get(made.id)
        assert stack is not None and stack.name == winner
        engine.stacks.delete(CALLER, stack)
        eventually(lambda: store.stacks.list("demo", query) == [])
        assert at_once(loser) == {loser: (201, "")}
        eventually(lambda: [one.status for one in store.stacks.list("demo", query)] == ["COMPLETE"])
        assert store.inconsistencies(engine.components.clock.now(), 0.0) == []
    finally:
        engine.close()
