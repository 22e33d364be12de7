"""Kills at commits of detach, import, leave and join, on PostgreSQL."""

from collections.abc import Callable
from functools import partial
from pathlib import Path

import pytest

from heatlite import wiring
from heatlite.core.status import Status
from heatlite.engine.state.requests import StackRequest
from tests.crash.copies import MAX_COMMITS, kill_at_commits
from tests.crash.fast_engine import LEASE
from tests.crash.scenarios import CALLER, settle, stack_of
from tests.features.ownership.crash.ownership_victim import prepare, start, victim


def recovered(files: Path, database: str, where: str, lease: float = 1e9) -> None:
    """Let a new engine go on: each operation is done as a whole, or not at all."""
    server = start(database, str(files), lease)
    try:
        settle(server)
        store, stack = server.store, stack_of(server)
        (group,), rows = store.stacks.descendants(stack), store.resources.of(stack.id)
        members = store.resources.of(group.id)
        assert {row.name for row in rows} - {"net"} == {"own", "g"}, where
        assert {row.name for row in rows} == {*server.components.definitions.of(stack).resources}, where
        assert {row.name for row in members} in ({"0"}, {"0", "1"}), where
        assert (stack.status, group.status) == (Status.COMPLETE, Status.COMPLETE), where
        ids = [row.physical_id for row in (*rows, *members) if row.type == "OS::Neutron::Net"]
        assert len(ids) == len({*ids}), where
        cloud = server.components.engine_services.services.clouds.of("demo").cloud
        standing = {one["id"] for one in cloud.call("network.networks")}  # type: ignore[union-attr, index]
        assert {*ids} <= standing, where
        plan = server.stacks.preview_update(CALLER, stack, StackRequest(), existing=True, plan=True).plan
        assert plan is not None
        assert [one.path for one in plan.resources if one.action != "keep"] == [], where
        assert store.inconsistencies(server.components.clock.now(), 0.0) == [], where
    finally:
        server.close()


@pytest.mark.slow
@pytest.mark.postgresql
@pytest.mark.parametrize("prepared", [prepare], indirect=True)
def test_killed_at_commits_on_postgresql(
    place: Path, prepared: Callable[[], str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wiring, "cloud_provider", wiring.cloud_provider)  # `start` replaces it
    files = place / "now" / "files"
    kill_at_commits(prepared, victim, partial(recovered, files), files, 4, range(1, MAX_COMMITS), LEASE)
