"""Requests of types over HTTP, also to services that the simulated cloud has.

Each file of `recorded` has for each type what its resource's life asks of the services. `recorded/http` has what real
services have answered. Where it lacks a case, the answers are of the kinds of objects in the file, as the APIs say.
"""

from pathlib import Path

import pytest

from heatlite.resources.heat.signals.queues import Queue
from tests.engine.conftest import ADMIN
from tests.tables import sampled
from tests.types.exchanges import Replay, recorded
from tests.types.marking import RECORDED
from tests.types.recordings import Recording

pytest.importorskip("openstack", reason="openstacksdk is not installed: pip install -e '.[openstack]'")

CASES = [(file, name) for file, content in RECORDED.items() for name in content["cases"]]


@pytest.mark.slow
@pytest.mark.parametrize(("file", "name"), sampled(CASES, 3, pytest.mark.thorough))
def test_a_life_over_http(
    recordings: dict[str, Recording], tmp_path_factory: pytest.TempPathFactory, file: str, name: str
) -> None:
    case = recorded(file).get(name, {})
    if case.get("names") and file in recordings:
        recordings.pop(file).ends.close()  # it has found other objects by these names
    one = recordings.pop(file, None) or Recording(tmp_path_factory.mktemp(file), file)
    one.services.made = 0
    one.services.replay = Replay(case["exchanges"]) if case else None
    one.names.update({found.replace("URL", one.url): told for found, told in case.get("names", {}).items()})
    one.live(name, RECORDED[file]["cases"][name], exact=bool(case))
    one.services.replay = None
    recordings[file] = one  # one that fails is used no more


def test_messages_are_read_in_order_and_deleted(recordings: dict[str, Recording], tmp_path: Path) -> None:
    recording = recordings.setdefault("load_balancer", Recording(tmp_path, "load_balancer"))
    recording.asked()
    place = "/messaging/v2/queues/q/messages"
    listed = [{"href": "/v2/queues/q/messages/m1?client=x", "body": {"a": 1}}, {"id": "m2", "href": "", "body": "b"}]
    recording.services.answers.update({
        f"GET {place}": {"messages": listed},
        f"POST {place}": {"resources": []},
        f"DELETE {place}/m1": None,
        f"DELETE {place}/m2": None,
    })  # fmt: skip
    clouds = recording.engine.server.components.engine_services.services.clouds
    queue = Queue(clouds.of(ADMIN.project).cloud, "q")
    queue.write({"x": 1})
    assert list(queue.messages()) == [("m1", {"a": 1}), ("m2", "b")]
    assert recording.asked() == [
        {f"POST {place}": {"messages": [{"body": {"x": 1}, "ttl": 3600}]}},
        {f"DELETE {place}/m1": None},
        {f"DELETE {place}/m2": None},
    ]


