"""Metadata that names attributes of objects in the cloud."""

import pytest

from tests.engine.conftest import resource
from tests.types.conftest import Cloudy


def test_agents_that_poll_do_not_ask_the_cloud_each_time(cloudy: Cloudy, monkeypatch: pytest.MonkeyPatch) -> None:
    server = resource("OS::Heat::DeployedServer")
    net = resource("OS::Neutron::Net", name="one")
    given = {"net": net, "server": {**server, "metadata": {"mtu": {"get_attr": ["net", "mtu"]}}}}
    stack = cloudy.made(given)
    asked = []
    verb = cloudy.view().simulation.verbs["network.get_network"]
    monkeypatch.setitem(
        cloudy.view().simulation.verbs,  # type: ignore[arg-type]
        "network.get_network",
        lambda *given, **more: asked.append(given) or verb(*given, **more),
    )

    def mtu() -> object:
        stack_now = cloudy.store.stacks.get(stack.id)
        assert stack_now is not None
        return cloudy.components.reader.metadata(stack_now, cloudy.row(stack, "server"))["mtu"]

    first = mtu()
    assert [mtu() for _ in range(5)] == [first] * 5
    assert len(asked) == 1
    cloudy.clock.pass_(61)
    assert (mtu(), len(asked)) == (first, 2)
    cloudy.check(stack)
    asked.clear()
    assert (mtu(), len(asked)) == (first, 1), "an event may mean a change"
