"""Objects of a cloud that a stack takes over: `external_id`."""

from tests.engine.conftest import resource, template
from tests.types.conftest import Cloudy


def test_what_is_taken_over_need_not_be_described(cloudy: Cloudy) -> None:
    view = cloudy.view()
    net = view.call("network.create_network", name="theirs")
    assert isinstance(net, dict)
    subnet = view.call("network.create_subnet", network_id=net["id"], cidr="10.1.0.0/24")
    assert isinstance(subnet, dict)
    taken = {**resource("OS::Neutron::Subnet"), "external_id": subnet["id"]}
    stack = cloudy.create(template(subnet=taken))
    assert cloudy.states(stack) == {"subnet": "CHECK_COMPLETE"}, cloudy.why(stack)
    assert cloudy.row(stack, "subnet").physical_id == subnet["id"]
    cloudy.delete(stack)
    assert cloudy.count("network.subnet") == 2, "theirs, and that of the external network"
