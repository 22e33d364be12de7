"""The cloud for reading only."""

import pytest

from heatlite.clients.cloud import CloudNotFound
from heatlite.features.ownership.reading import ChangesNothing, ReadingCloud
from tests.tables import table


class Asked:
    """A cloud that counts what it is asked."""

    calls = 0

    def call(self, verb: str, *arguments: object, **attributes: object) -> object:
        self.calls += 1
        if "gone" in arguments:
            raise CloudNotFound(verb, "gone")
        return [{"id": "p", "name": verb}] if verb.endswith("s") else {"list": [attributes]}


def test_each_question_is_asked_once() -> None:
    asked = Asked()
    cloud = ReadingCloud(asked)  # type: ignore[arg-type]
    first = cloud.call("network.get_network", "a", name="b")
    assert isinstance(first, dict)
    first["list"].append("changed")
    assert cloud.call("network.get_network", "a", name="b") == {"list": [{"name": "b"}]}
    assert asked.calls == 1
    for _ in range(2):
        with pytest.raises(CloudNotFound):
            cloud.call("network.get_network", "gone")
    assert asked.calls == 2


def test_what_a_list_has_told_is_not_asked() -> None:
    asked = Asked()
    cloud = ReadingCloud(asked)  # type: ignore[arg-type]
    cloud.call("network.ports", device_id="s")
    cloud.call("compute.servers")
    for verb in ("network.get_port", "network.find_port"):
        assert cloud.call(verb, "p") == {"id": "p", "name": "network.ports"}
    assert asked.calls == 2
    for verb, key in (("network.get_port", "q"), ("network.find_subnet", "p"), ("compute.get_server", "p")):
        assert cloud.call(verb, key) == {"list": [{}]}
    assert asked.calls == 5


@table(
    "verb",
    ["network.create_port", "compute.lock_server", "compute.flavor_add_tenant_access", "messaging.share_queue"],
)
def test_changes_are_refused(verb: str) -> None:
    asked = Asked()
    with pytest.raises(ChangesNothing):
        ReadingCloud(asked).call(verb, "a")  # type: ignore[arg-type]
    assert asked.calls == 0
