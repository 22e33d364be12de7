"""Network verbs that the SDK does not offer as plain JSON with unknown attributes."""

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, cast

from heatlite.core.json import Json, JsonMap

if TYPE_CHECKING:
    from openstack.connection import Connection
    from requests import Response

OPEN: Final = {
    "network": ("/networks", "network"),
    "subnet": ("/subnets", "subnet"),
    "port": ("/ports", "port"),
    "router": ("/routers", "router"),
    "ip": ("/floatingips", "floatingip"),
}
"""Kinds of objects with unknown attributes (Heat's value_specs), which the SDK's classes would drop.

Maps the noun to the path and the key of the body.
"""


def _create(noun: str) -> Callable[..., object]:
    path, key = OPEN[noun]

    def carry_out(connection: "Connection", **attributes: Json) -> object:
        return {"id": None, **_said(connection.network.post(path, json={key: attributes})).get(key, {})}

    return carry_out


def _update(noun: str) -> Callable[..., object]:
    path, key = OPEN[noun]

    def carry_out(connection: "Connection", which: str, **attributes: Json) -> object:
        return _said(connection.network.put(f"{path}/{which}", json={key: attributes})).get(key)

    return carry_out


def _said(answer: "Response") -> dict[str, JsonMap]:
    from openstack.exceptions import raise_from_response

    raise_from_response(answer)
    return cast(dict[str, JsonMap], answer.json())


def _set_tags(connection: "Connection", noun: str, key: str, tags: list[str]) -> object:
    """Set the tags of an object by id; the SDK's verb needs the object."""
    network = connection.network
    return network.set_tags(getattr(network, f"get_{noun}")(key), tags)


def _agents(method: str, where: str, name: str) -> Callable[..., object]:
    """Add an object to an agent, or remove it; the SDK's verbs do not raise errors."""

    def carry_out(connection: "Connection", agent: str, key: str) -> object:
        from openstack.exceptions import raise_from_response

        path = f"/agents/{agent}/{where}"
        network = connection.network
        raise_from_response(
            network.post(path, json={name: key}) if method == "post" else network.delete(f"{path}/{key}")
        )
        return None

    return carry_out


OTHERWISE: Final[Mapping[str, Callable[..., object]]] = {
    "network.set_tags": _set_tags,
    "network.add_router_to_agent": _agents("post", "l3-routers", "router_id"),
    "network.remove_router_from_agent": _agents("delete", "l3-routers", "router_id"),
    "network.add_dhcp_agent_to_network": _agents("post", "dhcp-networks", "network_id"),
    "network.remove_dhcp_agent_from_network": _agents("delete", "dhcp-networks", "network_id"),
    **{f"network.create_{noun}": _create(noun) for noun in OPEN},
    **{f"network.update_{noun}": _update(noun) for noun in OPEN},
}
