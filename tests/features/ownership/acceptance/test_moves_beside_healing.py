"""Moves on a running server whose healing loop works, with kills."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from random import Random
from threading import Event
from typing import Any

import pytest

from tests.acceptance.processes import Server
from tests.engine.conftest import resource, template
from tests.waiting import eventually

pytestmark = pytest.mark.slow

MACHINE = resource("OS::Nova::Server", image="cirros", flavor="m1.nano")
NUMBER = 8
"""Machines, of which two are ill: more are a storm."""
PATIENCE = 240
BRAKED = {
    "healing_policy": "2026-11-22", "mode": "auto", "grace": 0, "confirm": {"hold": 1}, "cooldown": 0,
    "max_unhealthy": 0, "max_repairs": {"count": 1000, "per": 60}, "ladder": [{"step": "replace", "settle": 1}],
}  # fmt: skip
HEALS = {**BRAKED, "max_unhealthy": "100%", "parallel": 10, "give_up_after": 1000}


class Site:
    """Two stacks of servers on one machine."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.server = Server(home, HEATLITE_CLOUD="simulated")
        half = NUMBER // 2
        self.paths = {
            name: self.server.create(name, template(**{f"{name}{at}": MACHINE for at in range(half)}))
            for name in ("a", "b")
        }
        for path in self.paths.values():
            assert self.server.settled(path) == "CREATE_COMPLETE"
        found = self.machines()
        self.ill = [found["a/a0"], found["b/b0"]]

    def restart(self) -> None:
        """Kill all processes of the server, and start it anew."""
        self.server.kill()
        self.server = Server(self.home, HEATLITE_CLOUD="simulated")

    def machines(self) -> dict[str, str]:
        """The physical ids by stack and name."""
        found = {name: self.server.resources(path) for name, path in self.paths.items()}
        return {f"{name}/{one}": key for name, rows in found.items() for one, key in rows.items()}

    def policies(self, policy: dict[str, Any]) -> None:
        for path in self.paths.values():
            assert self.server.request("PUT", f"{path}/healing", policy).status == 200

    def report(self, status: str, *ids: str) -> None:
        alerts = [
            {"status": status, "labels": {"alertname": "Down", "instance_id": one}, "fingerprint": one,
             "startsAt": "2026-11-02T12:00:00Z", "annotations": {"summary": "no answer"}}
            for one in ids
        ]  # fmt: skip
        answer = self.server.request("POST", "/health/alertmanager", {"version": "4", "alerts": alerts})
        assert answer.status == 200, answer.data

    def incidents(self) -> list[Any]:
        """The open incidents."""
        found: Any = self.server.request("GET", "/incidents?limit=1000").data
        return [one for one in found["incidents"] if one["state"] != "CLOSED"]

    def move(self, random: Random, number: int) -> bool:
        """Move one machine, or fail as a request may. Returns whether it has moved."""
        source, target = random.sample([*self.paths], 2)
        names = [*self.server.resources(self.paths[source])]
        if not names:
            return False
        name = random.choice(names)
        new = name if number % 2 else f"m{number}x{random.randrange(1000)}"
        asked: Any = {"moved": [{"from": name, "to": new}], "to_stack": target}
        shown: Any = self.server.request("PATCH", f"{self.paths[source]}/preview?plan=true", {"move": asked})
        if shown.status != 200:
            assert shown.status in (400, 404, 409), shown.data
            return False
        asked["plan_digest"] = shown.data["plan"]["digest"]
        answer = self.server.request("POST", f"{self.paths[source]}/actions", {"move": asked})
        assert answer.status in (200, 400, 404, 409), answer.data
        return answer.status == 200


@pytest.fixture
def site(tmp_path: Path) -> Iterator[Site]:
    made = Site(tmp_path)
    yield made
    made.server.stop()


def consistent(site: Site) -> None:
    """Each machine has one owner, and each open incident the place of its machine."""
    machines = site.machines()
    assert len({*machines.values()}) == len(machines) == NUMBER
    ids = {name: path.rpartition("/")[2] for name, path in site.paths.items()}
    for one in site.incidents():
        (name,) = (name for name, key in ids.items() if key == one["root_stack_id"])
        assert f"{name}/{one['path']}" in machines, one


def test_incidents_and_brakes_go_along(site: Site) -> None:
    """A breaker holds incidents, then repairs run. The server dies twice."""
    site.policies(BRAKED)
    site.report("firing", *site.ill)
    held = "both incidents are held by the breaker"
    eventually(lambda: [one["reason"] for one in site.incidents()] == ["breaker_open"] * 2, held, PATIENCE)
    consistent(site)
    ended, moved = Event(), [0]

    def client(seed: int) -> None:
        random, number = Random(seed), 0
        while not ended.is_set():
            number += 1
            try:
                moved[0] += site.move(random, 10 * number + seed)
                site.report("firing", *site.ill)
            except (OSError, ValueError):  # the server is being killed
                ended.wait(0.2)

    with ThreadPoolExecutor(3) as pool:
        running = [pool.submit(client, seed) for seed in range(3)]
        try:
            for policy in (BRAKED, HEALS):
                before = moved[0]
                eventually(lambda before=before: moved[0] >= before + 5, "machines move", PATIENCE)  # type: ignore[misc]
                site.restart()
                site.policies(policy)
            before = moved[0]
            eventually(lambda: moved[0] >= before + 5, "machines move beside repairs", PATIENCE)
        finally:
            ended.set()
        for one in running:
            one.result()
    for path in site.paths.values():
        site.server.settled(path)
    consistent(site)

    def healed() -> bool:
        left = {*site.machines().values()}.intersection(site.ill)
        if left:
            site.report("firing", *left)
        return not left

    eventually(healed, "each is replaced where it is now", PATIENCE)
    site.report("resolved", *site.ill)
    eventually(lambda: not site.incidents(), "all incidents close", PATIENCE)
    for path in site.paths.values():
        site.server.settled(path)
        shown: Any = site.server.request("PATCH", f"{path}/preview?plan=true", {}).data
        assert [one["action"] for one in shown["plan"]["resources"] if one["action"] != "keep"] == []
    assert len(site.machines()) == NUMBER
