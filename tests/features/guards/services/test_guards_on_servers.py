"""Guards on databases with a server: many report and decide at once."""

from typing import Any

import pytest

from tests.api.conftest import Heat, template
from tests.features.approvals.services.test_approvals_on_servers import CLIENTS, at_once, clients  # noqa: F401
from tests.features.guards.api.test_guards import FIRST, HOUR, SECOND, action, report
from tests.waiting import eventually

pytestmark = pytest.mark.slow
SOURCES = [f"s{number}" for number in range(CLIENTS)]


def bakes(heat: Heat, name: str, **guard: object) -> str:
    """The path of a new stack whose update bakes."""
    path = heat.create(template(a=FIRST), name)
    heat.call("PUT", path, {"template": template(a=SECOND), "guard": {"bake": HOUR, **guard}}, 202)
    eventually(lambda: heat.get(path)["stack"].get("guard", {}).get("phase") == "bake", "it bakes")
    return path


def test_all_who_report_at_once_are_heard(clients: list[Heat]) -> None:  # noqa: F811
    """C5: no report overwrites what another one has noted."""
    heat = clients[0]
    for one in SOURCES:
        heat.call("PUT", f"/health/{one}/config", {"format": "generic"}, 200)
    paths = [bakes(heat, f"web{number}", sources=SOURCES) for number in range(2)]
    body = {"reports": [{"key": "k", "status": "healthy"}]}

    def tell(client: Heat) -> Any:
        return client.call("POST", f"/health/{SOURCES[clients.index(client)]}", body)

    assert {one.status_int for one in at_once(clients, tell)} == {200}
    for path in paths:
        assert sorted(heat.get(path)["stack"]["guard"]["heard"]) == SOURCES
        heat.call("POST", f"{path}/actions", {"cancel_update": None}, 200)
        heat.settle(path, "ROLLBACK_COMPLETE")


@pytest.mark.parametrize("number", range(3))
def test_alerts_and_the_end_of_the_bake_at_once(clients: list[Heat], number: int) -> None:  # noqa: F811
    """C7: the update goes back once, or ends and no alert counts."""
    heat = clients[0]
    path = bakes(heat, "guarded")

    def come(client: Heat) -> Any:
        if client is clients[number]:
            return client.call("POST", f"{path}/actions", {"end_bake": None})
        return report(client, f"k{clients.index(client)}", "a")

    at_once(clients, come)
    heat.settle(path)
    stack, ended = heat.get(path)["stack"], action(heat, path)
    fired = ended["data"]["guard"].get("fired")
    ends = {"fired": "ROLLBACK_COMPLETE", "ended": "UPDATE_COMPLETE"}
    assert stack["stack_status"] == ends[ended["outputs"]["guard"]["result"]]
    assert (fired is not None) is (stack["stack_status"] == "ROLLBACK_COMPLETE")
    statuses = [one["resource_status"] for one in heat.get(f"{path}/events?limit=100")["events"]]
    assert statuses.count("ROLLBACK_IN_PROGRESS") == (fired is not None)
    assert len(heat.get(f"{path}/resources")["resources"]) == 1
