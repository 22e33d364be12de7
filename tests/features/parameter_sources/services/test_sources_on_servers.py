"""Values of other stacks on databases with a server.

Owners and readers are changed by different engines.
"""

from threading import Event
from typing import Any

import pytest

from tests.api.conftest import Heat
from tests.features.approvals.services.test_approvals_on_servers import at_once, clients  # noqa: F401

pytestmark = pytest.mark.slow
CHANGES = 12
OWNER: dict[str, Any] = {
    "heat_template_version": "2021-04-16",
    "parameters": {"v": {"type": "number", "default": 0}},
    "outputs": {"v": {"value": {"get_param": "v"}}},
}
READER: dict[str, Any] = {**OWNER, "outputs": {}}


def test_no_reader_gets_an_older_value(clients: list[Heat]) -> None:  # noqa: F811
    """A request gets what was accepted before it, or something newer."""
    owner, *readers = clients
    base = owner.create(OWNER, "base")
    source = {"parameter_sources": {"v": {"stack": "base", "output": "v"}}}
    paths = [owner.create(READER, f"reader{number}", **source) for number in range(len(readers))]
    accepted, is_over = [0], Event()

    def change() -> int:
        for number in range(1, CHANGES + 1):
            owner.call("PATCH", base, {"parameters": {"v": number}}, 202)
            accepted.append(number)
            owner.settle(base)
        is_over.set()
        return 0

    def read(client: Heat) -> int:
        path, count = paths[readers.index(client)], 0
        while not is_over.is_set() or count == 0:
            before = accepted[-1]
            answer = client.call("PATCH", path, {"refresh": True})
            assert answer.status_int == 202 or answer.json["error"]["type"] in ("SourceChanged", "ActionConflict")
            count += answer.status_int == 202
            client.settle(path)
            if answer.status_int == 202:
                got = int(client.get(path)["stack"]["parameters"]["v"])
                assert got >= before, "the value is older than the request"
        return count

    counts = at_once(clients, lambda client: change() if client is owner else read(client))
    assert all(counts[1:])
