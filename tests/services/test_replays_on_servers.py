"""One suppressed request takes effect once, replayed from two servers."""

import time
from contextlib import closing

from heatlite import wiring
from heatlite.core.config import Settings
from heatlite.wiring import Embedded
from tests.api.conftest import Heat
from tests.replays import AT_ONCE, GROUP, another_process, replay

ROUNDS = 4


def quiet(engine: Embedded) -> None:
    """Wait until no action is left."""
    end = time.monotonic() + 240
    while engine.store.database.read("SELECT 1 FROM action WHERE status IN ('READY', 'WAITING', 'RUNNING')"):
        assert time.monotonic() < end
        time.sleep(0.02)


def test_two_processes_replay_one_entry(url: str) -> None:
    settings = Settings(database=url)
    with another_process(settings) as other, closing(wiring.embedded(settings)) as engine:
        heat = Heat(engine.app)
        path = heat.create(GROUP)
        for number in range(1, ROUNDS + 1):
            heat.call("POST", f"{path}/actions", {"lock": {"level": "stacks"}}, code=200)
            heat.settle(path, "LOCK_COMPLETE")
            heat.call("POST", f"{path}/resources/up/signal", {}, code=200)
            heat.call("PATCH", f"{path}/resources/value", {"mark_unhealthy": True}, code=409)
            heat.call("POST", f"{path}/actions", {"unlock": None}, code=200)
            heat.settle(path, "UNLOCK_COMPLETE")
            marks = len(heat.get(f"{path}/resources/value/events")["events"])
            for entry in reversed(heat.get(f"{path}/lock")["suppressed"]):
                replays = f"/v1/demo{path}/lock/suppressed/{entry['id']}/replay"
                other.send(replays)
                codes = replay(engine.app, replays) + other.recv()
                assert codes.count(200) == 1, codes
                assert set(codes) <= {200, 404, 409}
                assert len(codes) == 2 * AT_ONCE
                quiet(engine)
            assert heat.get(f"{path}/lock")["suppressed"] == []
            assert heat.get(f"{path}/outputs/size")["output"]["output_value"] == number
            assert len(heat.get(f"{path}/resources/value/events")["events"]) == marks + 1
