"""Kills at each write of requests about later times: wholly done, or not."""

from itertools import pairwise
from typing import Any

import pytest

from heatlite import wiring
from tests.api.conftest import Heat, template, value
from tests.features.schedules.api.test_schedules import SLEEP
from tests.killed import killed_at_each_write
from tests.tables import few

LATER, LATEST = "2099-01-01T20:00:00Z", "2099-02-01T20:00:00Z"
REQUESTS = {
    "add a schedule": ("POST", "/schedules", {**SLEEP, "name": "more"}),
    "replace a schedule": ("PUT", "/schedules/sleep", {**SLEEP, "cron": "0 21 * * *"}),
    "remove a schedule": ("DELETE", "/schedules/sleep", None),
    "set the end": ("PUT", "/expiry", {"expires_at": LATEST}),
    "remove the end": ("DELETE", "/expiry", None),
    "delete later": ("POST", "/actions", {"delete": {"not_before": LATER}}),
    "check later": ("POST", "/actions", {"check": {"not_before": LATER, "interval": 3600}}),
}


def seen(heat: Heat, path: str) -> Any:
    """Return what will happen, without the ids that each try has of its own."""
    listed = heat.get("/schedules")["schedules"]
    return [{key: one for key, one in entry.items() if key != "id"} for entry in listed], heat.get(path)["stack"]


@pytest.mark.slow
@pytest.mark.parametrize("name", few(REQUESTS))
def test_killed_at_each_write(
    own_heat: Heat, own_server: wiring.Embedded, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    heat, (method, below, body) = own_heat, REQUESTS[name]
    path = heat.create(template(a=value()))
    heat.call("POST", f"{path}/schedules", SLEEP, 201)
    heat.call("PUT", f"{path}/expiry", {"expires_at": LATER}, 200)
    found = [seen(heat, path)]
    for _ in killed_at_each_write(monkeypatch, lambda: heat.call(method, path + below, body)):
        found.append(seen(heat, path))
    assert len(found) > 2
    found.append(seen(heat, path))
    changes = [one for one, next_one in pairwise(found) if one != next_one]
    assert changes == [found[0]], "it changes once; the audit row may come after that"
    assert own_server.store.inconsistencies(own_server.components.clock.now(), 0.0) == []
